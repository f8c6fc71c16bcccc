//! Parsing of literals into constants.

use std::borrow::Cow;

use crate::limits::MAX_LITERAL;
use crate::types::{Const, Type};

/// The constant that a word spells, if it is one of the few that do.
pub(crate) fn word(text: &str) -> Option<Const> {
    match text {
        "true" => Some(true.into()),
        "false" => Some(false.into()),
        "inf" => Some(f32::INFINITY.into()),
        "nan" => Some(Const::new(Type::F32, crate::types::NAN.into())),
        _ => None,
    }
}

/// The constant that a number spells, or what is wrong: a clause about it. An integer without a type is of type
/// `plain`.
pub(crate) fn number(text: &str, plain: Type) -> Result<Const, String> {
    if text.len() > MAX_LITERAL {
        return Err(format!("has {} bytes, but at most {MAX_LITERAL} are allowed", text.len()));
    }
    if text == "-inf" {
        return Ok(f32::NEG_INFINITY.into());
    }
    if let Some(bits) = text.strip_prefix("nan:0x") {
        return nan(bits);
    }
    let text = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, &*text),
    };
    let hex = digits.starts_with("0x");
    if !hex && digits.contains(['.', 'e', 'E']) {
        return float(&text, digits);
    }
    let suffix = [Type::U32, Type::I32, Type::U64].into_iter().find(|ty| digits.ends_with(ty.word()));
    let (digits, ty) = match suffix {
        Some(ty) => (&digits[..digits.len() - ty.word().len()], ty),
        None => (digits, plain),
    };
    let (digits, radix) = if hex { (&digits[2..], 16) } else { (digits, 10) };
    if digits.is_empty() || !digits.bytes().all(|byte| (byte as char).is_digit(radix)) {
        return Err("is not a number: write it like 7, 0xff, -7i32, 7u64, 0.5 or 1e30".into());
    }
    // The digits are digits, so what fails here is too large for 64 bits.
    let size = u64::from_str_radix(digits, radix).map_err(|_| format!("does not fit {ty}"))?;
    integer(negative, size, ty)
}

fn integer(negative: bool, size: u64, ty: Type) -> Result<Const, String> {
    let most = match (ty, negative) {
        (Type::I32, true) => 1 << 31,
        (Type::I32, false) => (1 << 31) - 1,
        (_, true) => {
            return Err(format!("is negative, but {ty} has no negative numbers: write an i32 like -7i32"));
        }
        (Type::U64, false) => u64::MAX,
        (_, false) => u32::MAX.into(),
    };
    if size > most {
        return Err(format!("does not fit {ty}"));
    }
    Ok(Const::new(ty, if negative { size.wrapping_neg() } else { size }))
}

fn float(text: &str, digits: &str) -> Result<Const, String> {
    let bad = || "is not a number: write a float like 0.5, 1e30 or -1.5e-7".to_string();
    let mut bytes = digits.bytes();
    let shaped = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
        && digits.split_once('.').is_none_or(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    if !shaped {
        return Err(bad());
    }
    let value: f32 = text.parse().map_err(|_| bad())?;
    if value.is_infinite() {
        return Err("does not fit f32".into());
    }
    Ok(value.into())
}

fn nan(bits: &str) -> Result<Const, String> {
    let hex = bits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u32::from_str_radix(bits, 16).ok().filter(|bits| hex && f32::from_bits(*bits).is_nan());
    let bits = bits.ok_or("has not the bits of a NaN")?;
    Ok(Const::new(Type::F32, bits.into()))
}
