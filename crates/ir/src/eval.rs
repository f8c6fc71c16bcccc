//! The arithmetic of every pure op, which is defined here and nowhere else.
//!
//! A value is 64 bits: `u32`, `i32` and `f32` in the low half with the rest zero, `bool` as 0 or 1. [`pure_function`]
//! gives, once and for all types, the Rust function of an op; the interpreter calls it in its loop and the folding
//! pass calls it on constants, so the two cannot disagree.

use crate::op::Op;
use crate::types::{NAN, Type};

/// A pure op as a function of the bits of its operands. Operands that the op does not have are ignored.
pub type PureFunction = fn(u64, u64, u64) -> u64;

/// Conversion between a Rust scalar and the 64 bits of a value.
trait ScalarBits: Copy {
    fn from_bits64(bits: u64) -> Self;
    fn to_bits64(self) -> u64;
}

impl ScalarBits for u32 {
    fn from_bits64(bits: u64) -> u32 {
        bits as u32
    }
    fn to_bits64(self) -> u64 {
        self.into()
    }
}

impl ScalarBits for i32 {
    fn from_bits64(bits: u64) -> i32 {
        bits as u32 as i32
    }
    fn to_bits64(self) -> u64 {
        (self as u32).into()
    }
}

impl ScalarBits for u64 {
    fn from_bits64(bits: u64) -> u64 {
        bits
    }
    fn to_bits64(self) -> u64 {
        self
    }
}

impl ScalarBits for f32 {
    fn from_bits64(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
    fn to_bits64(self) -> u64 {
        self.to_bits().into()
    }
}

impl ScalarBits for bool {
    fn from_bits64(bits: u64) -> bool {
        bits & 1 == 1
    }
    fn to_bits64(self) -> u64 {
        self.into()
    }
}

/// A function on bits from one on typed words.
macro_rules! typed {
    (|$a:ident: $t:ty| $e:expr) => {
        |a, _, _| {
            let $a = <$t>::from_bits64(a);
            $e.to_bits64()
        }
    };
    (|$a:ident: $t:ty, $b:ident: $u:ty| $e:expr) => {
        |a, b, _| {
            let ($a, $b) = (<$t>::from_bits64(a), <$u>::from_bits64(b));
            $e.to_bits64()
        }
    };
    (|$a:ident: $t:ty, $b:ident: $u:ty, $c:ident: $v:ty| $e:expr) => {
        |a, b, c| {
            let ($a, $b, $c) = (<$t>::from_bits64(a), <$u>::from_bits64(b), <$v>::from_bits64(c));
            $e.to_bits64()
        }
    };
}

/// The functions of the ops that are written alike for every integer type.
macro_rules! integer {
    ($op:expr, $t:ty, $wide:ty) => {
        Some(match $op {
            Op::Add => typed!(|a: $t, b: $t| a.wrapping_add(b)),
            Op::Sub => typed!(|a: $t, b: $t| a.wrapping_sub(b)),
            Op::Mul => typed!(|a: $t, b: $t| a.wrapping_mul(b)),
            Op::Div => typed!(|a: $t, b: $t| if b == 0 { 0 } else { a.wrapping_div(b) }),
            Op::Rem => typed!(|a: $t, b: $t| if b == 0 { 0 } else { a.wrapping_rem(b) }),
            Op::MulHi => typed!(|a: $t, b: $t| ((a as $wide * b as $wide) >> <$t>::BITS) as $t),
            Op::Min => typed!(|a: $t, b: $t| a.min(b)),
            Op::Max => typed!(|a: $t, b: $t| a.max(b)),
            Op::And => typed!(|a: $t, b: $t| a & b),
            Op::Or => typed!(|a: $t, b: $t| a | b),
            Op::Xor => typed!(|a: $t, b: $t| a ^ b),
            Op::Not => typed!(|a: $t| !a),
            Op::Shl => typed!(|a: $t, by: u32| a.wrapping_shl(by)),
            Op::Shr => typed!(|a: $t, by: u32| a.wrapping_shr(by)),
            Op::Rotl => typed!(|a: $t, by: u32| a.rotate_left(by % <$t>::BITS)),
            Op::Rotr => typed!(|a: $t, by: u32| a.rotate_right(by % <$t>::BITS)),
            Op::Popcount => typed!(|a: $t| a.count_ones()),
            Op::Clz => typed!(|a: $t| a.leading_zeros()),
            Op::Ctz => typed!(|a: $t| a.trailing_zeros()),
            Op::Eq => typed!(|a: $t, b: $t| (a == b)),
            Op::Ne => typed!(|a: $t, b: $t| (a != b)),
            Op::Lt => typed!(|a: $t, b: $t| (a < b)),
            Op::Le => typed!(|a: $t, b: $t| (a <= b)),
            Op::Gt => typed!(|a: $t, b: $t| (a > b)),
            Op::Ge => typed!(|a: $t, b: $t| (a >= b)),
            _ => return None,
        })
    };
}

/// Returns the function of `load_byte`, whose operands are the bits of an element and the number of a byte. The least
/// significant byte is byte 0, and every byte that the element does not have is 0. A NaN has the bytes that `bitcast`
/// shows of it.
pub fn byte_of(elem: Type) -> PureFunction {
    fn byte(bits: u64, at: u64, bytes: u64) -> u64 {
        if at < bytes { bits >> (8 * at) & 0xff } else { 0 }
    }
    match elem {
        Type::U64 => |bits, at, _| byte(bits, at, 8),
        Type::F32 => {
            |bits, at, _| byte(if f32::from_bits64(bits).is_nan() { NAN.into() } else { bits }, at, 4)
        }
        _ => |bits, at, _| byte(bits, at, 4),
    }
}

/// Returns the function of a pure op whose `T` is `ty` and whose named type, if it has one, is `to`. Returns `None` for
/// ops that are not pure, that read the geometry or a buffer, or whose row does not allow the type.
pub fn pure_function(op: Op, ty: Type, to: Type) -> Option<PureFunction> {
    match op {
        Op::Select => return Some(|c, a, b| if c == 1 { a } else { b }),
        Op::Cast => return cast(ty, to),
        Op::Bitcast => return bitcast(ty, to),
        Op::Neg if ty == Type::I32 => return Some(typed!(|a: i32| a.wrapping_neg())),
        Op::Abs if ty == Type::I32 => return Some(typed!(|a: i32| a.wrapping_abs())),
        _ => {}
    }
    match ty {
        Type::U32 => integer!(op, u32, u64),
        Type::I32 => integer!(op, i32, i64),
        Type::U64 => integer!(op, u64, u128),
        Type::F32 => float(op),
        Type::Bool => truth(op),
    }
}

/// Evaluates a pure op on the bits of its operands. Returns `None` where [`pure_function`] does.
pub fn eval(op: Op, ty: Type, to: Type, args: &[u64]) -> Option<u64> {
    let arg = |k: usize| args.get(k).copied().unwrap_or(0);
    Some(pure_function(op, ty, to)?(arg(0), arg(1), arg(2)))
}

fn float(op: Op) -> Option<PureFunction> {
    Some(match op {
        Op::Add => typed!(|a: f32, b: f32| (a + b)),
        Op::Sub => typed!(|a: f32, b: f32| (a - b)),
        Op::Mul => typed!(|a: f32, b: f32| (a * b)),
        Op::Div => typed!(|a: f32, b: f32| (a / b)),
        Op::Min => typed!(|a: f32, b: f32| least(a, b)),
        Op::Max => typed!(|a: f32, b: f32| (-least(-a, -b))),
        Op::Neg => |a, _, _| a ^ 0x8000_0000,
        Op::Abs => |a, _, _| a & 0x7fff_ffff,
        Op::Fma => typed!(|a: f32, b: f32, c: f32| a.mul_add(b, c)),
        Op::Sqrt => typed!(|a: f32| a.sqrt()),
        Op::Floor => typed!(|a: f32| a.floor()),
        Op::Ceil => typed!(|a: f32| a.ceil()),
        Op::Trunc => typed!(|a: f32| a.trunc()),
        Op::Nearest => typed!(|a: f32| a.round_ties_even()),
        Op::Eq => typed!(|a: f32, b: f32| (a == b)),
        Op::Ne => typed!(|a: f32, b: f32| (a != b)),
        Op::Lt => typed!(|a: f32, b: f32| (a < b)),
        Op::Le => typed!(|a: f32, b: f32| (a <= b)),
        Op::Gt => typed!(|a: f32, b: f32| (a > b)),
        Op::Ge => typed!(|a: f32, b: f32| (a >= b)),
        _ => return None,
    })
}

fn truth(op: Op) -> Option<PureFunction> {
    Some(match op {
        Op::And => |a, b, _| a & b,
        Op::Or => |a, b, _| a | b,
        Op::Xor | Op::Ne => |a, b, _| a ^ b,
        Op::Not => |a, _, _| a ^ 1,
        Op::Eq => |a, b, _| (a == b).to_bits64(),
        _ => return None,
    })
}

/// Returns the `minimum` of IEEE 754-2019: NaN if either is NaN, and −0 is less than +0.
fn least(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::from_bits(NAN)
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else if a < b {
        a
    } else {
        b
    }
}

fn cast(from: Type, to: Type) -> Option<PureFunction> {
    use Type::{Bool, F32, I32, U32, U64};
    Some(match (from, to) {
        (_, Bool) => return None,
        // A bool, a u32 and an i32 keep their bits, which are already extended with zeros. A u64 loses its high half.
        (Bool | U32 | I32, U32 | I32) | (U32 | Bool, U64) | (U64, U64) | (F32, F32) => |a, _, _| a,
        (U64, U32 | I32) => typed!(|a: u64| (a as u32)),
        (I32, U64) => typed!(|a: i32| (a as i64 as u64)),
        (U32 | Bool, F32) => typed!(|a: u32| (a as f32)),
        (I32, F32) => typed!(|a: i32| (a as f32)),
        (U64, F32) => typed!(|a: u64| (a as f32)),
        (F32, U32) => typed!(|a: f32| (a as u32)),
        (F32, I32) => typed!(|a: f32| (a as i32)),
        (F32, U64) => typed!(|a: f32| (a as u64)),
    })
}

fn bitcast(from: Type, to: Type) -> Option<PureFunction> {
    match (from.bits(), to.bits()) {
        (32, 32) if from == Type::F32 => {
            Some(|a, _, _| if f32::from_bits64(a).is_nan() { NAN.into() } else { a })
        }
        (32, 32) => Some(|a, _, _| a),
        _ => None,
    }
}
