//! Parses counts on the command line: `100000`, `100_000` and `1e5` are the same number everywhere.

use std::ops::RangeInclusive;

/// What to write instead of something that is not a count.
const FORM: &str = "write a whole number, such as 1000000 or 1e6";

/// Parses a count that fits its type.
pub(crate) fn parse_count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let bits = 8 * size_of::<T>() as u32;
    let fits = parse_exact(text)?.and_then(|number| T::try_from(number).ok());
    fits.ok_or_else(|| format!("it must be at most {}", u64::MAX >> (64 - bits)))
}

/// Parses a count that lies in a range.
pub(crate) fn parse_count_in<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = parse_exact(text)?.filter(|number| range.contains(number));
        let fits = number.and_then(|number| T::try_from(number).ok());
        fits.ok_or_else(|| format!("it must be from {} to {}", range.start(), range.end()))
    }
}

/// Parses digits with an optional fraction and exponent; `None` means a number larger than any count. The digits
/// are kept as they are, so nothing is rounded.
fn parse_exact(text: &str) -> Result<Option<u64>, String> {
    if let Some(number) = text.strip_prefix('-') {
        let why = if parse_exact(number).is_ok() { "it must not be negative" } else { FORM };
        return Err(why.into());
    }
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    let below = exponent.starts_with('-');
    let number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit()) && part.bytes().all(is_digit);
    if ![whole, fraction, exponent.strip_prefix('-').unwrap_or(exponent)].into_iter().all(number) {
        return Err(FORM.into());
    }
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    let places = fraction.bytes().filter(u8::is_ascii_digit).count() as i64;
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Ok(Some(0));
    }
    let zeros = (digits.len() - kept.len()) as i64;
    let exponent: Option<i64> = exponent.replace('_', "").parse().ok();
    let scale = match exponent.and_then(|exponent| exponent.checked_add(zeros - places)) {
        Some(scale) => scale,
        // The exponent itself is too long for a number.
        None if below => i64::MIN,
        None => i64::MAX,
    };
    match u32::try_from(scale) {
        Ok(scale) => {
            let value = kept.parse::<u64>().ok().zip(10u64.checked_pow(scale));
            Ok(value.and_then(|(value, scale)| value.checked_mul(scale)))
        }
        Err(_) if scale < 0 => Err(format!("it is not a whole number; {FORM}")),
        Err(_) => Ok(None),
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_has_many_spellings() {
        for (text, number) in [
            ("0", 0),
            ("0e99", 0),
            ("7", 7),
            ("100_000", 100_000),
            ("1e5", 100_000),
            ("1E5", 100_000),
            ("1e+5", 100_000),
            ("1.5e3", 1500),
            ("2.0", 2),
            ("1500e-2", 15),
            ("9007199254740993", 9_007_199_254_740_993),
            ("1.8446744073709551615e19", u64::MAX),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_says_why() {
        let most = "it must be at most 18446744073709551615";
        for (text, why) in [
            ("", FORM),
            ("many", FORM),
            ("1e", FORM),
            (".5", FORM),
            ("5.", FORM),
            ("_1", FORM),
            ("+1", FORM),
            ("0x10", FORM),
            ("--1", FORM),
            ("inf", FORM),
            ("nan", FORM),
            ("-1", "it must not be negative"),
            ("1.5", "it is not a whole number; write a whole number, such as 1000000 or 1e6"),
            ("15e-1", "it is not a whole number; write a whole number, such as 1000000 or 1e6"),
            (
                "1e-99999999999999999999",
                "it is not a whole number; write a whole number, such as 1000000 or 1e6",
            ),
            ("1e99", most),
            ("1e20", most),
            ("18446744073709551616", most),
            ("1e99999999999999999999", most),
        ] {
            assert_eq!(parse_count::<u64>(text), Err(why.into()), "{text}");
        }
        assert_eq!(parse_count::<u32>("1e10"), Err("it must be at most 4294967295".into()));
        assert_eq!(parse_count_in::<u32>(1..=64)("1e99"), Err("it must be from 1 to 64".into()));
        assert_eq!(parse_count_in::<u32>(1..=64)("0"), Err("it must be from 1 to 64".into()));
        assert_eq!(parse_count_in::<u32>(1..=64)("6.4e1"), Ok(64));
    }
}
