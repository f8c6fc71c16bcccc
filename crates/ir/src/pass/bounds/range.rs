//! Intervals of integers, and what every pure op makes of them.
//!
//! Bounds are exact numbers, wide enough for every type, so an op computes them without wrapping; a result that
//! does not fit its type may have wrapped, and then nothing is known of it.

use crate::op::Op;
use crate::types::{Const, Type};

/// The integers from `lo` to `hi`, both included. There is always one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IntRange {
    pub lo: i128,
    pub hi: i128,
}

impl IntRange {
    /// From one number to another.
    pub(crate) const fn new(lo: i128, hi: i128) -> IntRange {
        IntRange { lo, hi }
    }

    /// All values of a type. Floats have no order here; theirs is never asked for.
    pub(crate) const fn all_of(ty: Type) -> IntRange {
        match ty {
            Type::U32 => IntRange::new(0, u32::MAX as i128),
            Type::I32 => IntRange::new(i32::MIN as i128, i32::MAX as i128),
            Type::U64 => IntRange::new(0, u64::MAX as i128),
            Type::Bool => IntRange::new(0, 1),
            Type::F32 => IntRange::new(i128::MIN, i128::MAX),
        }
    }

    /// A constant alone.
    pub(crate) fn from_constant(c: Const) -> IntRange {
        match c.ty() {
            Type::F32 => IntRange::all_of(Type::F32),
            Type::I32 => IntRange::new(c.bits() as u32 as i32 as i128, c.bits() as u32 as i32 as i128),
            _ => IntRange::new(c.bits().into(), c.bits().into()),
        }
    }

    /// Itself if every number is one of the type, and otherwise all of the type.
    pub(crate) fn fit_type(self, ty: Type) -> IntRange {
        let all = IntRange::all_of(ty);
        if all.lo <= self.lo && self.hi <= all.hi { self } else { all }
    }

    /// What lies in either, and between.
    pub(crate) fn join(self, other: IntRange) -> IntRange {
        IntRange::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// What lies in both; itself if nothing does, which only happens where nothing runs.
    pub(crate) fn meet(self, other: IntRange) -> IntRange {
        let both = IntRange::new(self.lo.max(other.lo), self.hi.min(other.hi));
        if both.lo <= both.hi { both } else { self }
    }

    /// Whether no number is below zero.
    fn natural(self) -> bool {
        self.lo >= 0
    }
}

/// The range of an op's result, which is of type `out`; `ty` is what its `T` stands for.
pub(super) fn result_range(op: Op, ty: Type, out: Type, args: &[IntRange]) -> IntRange {
    let range = match *args {
        _ if ty == Type::F32 && op != Op::Select => None,
        [a] => unary(op, ty, a),
        [a, b] => binary(op, ty, a, b),
        [_, a, b] if op == Op::Select => Some(a.join(b)),
        _ => None,
    };
    range.unwrap_or(IntRange::all_of(out)).fit_type(out)
}

fn unary(op: Op, ty: Type, a: IntRange) -> Option<IntRange> {
    let all = IntRange::all_of(ty);
    Some(match op {
        Op::Cast | Op::Bitcast => a,
        Op::Neg => IntRange::new(-a.hi, -a.lo),
        Op::Abs if a.natural() => a,
        Op::Abs => IntRange::new(0, a.hi.max(-a.lo)),
        // The complement of x is the other end of the type, counted back.
        Op::Not => IntRange::new(all.lo + all.hi - a.hi, all.lo + all.hi - a.lo),
        Op::Popcount | Op::Clz | Op::Ctz => IntRange::new(0, ty.bits().into()),
        _ => return None,
    })
}

fn binary(op: Op, ty: Type, a: IntRange, b: IntRange) -> Option<IntRange> {
    let naturals = a.natural() && b.natural();
    Some(match op {
        Op::Add => IntRange::new(a.lo + b.lo, a.hi + b.hi),
        Op::Sub => IntRange::new(a.lo - b.hi, a.hi - b.lo),
        Op::Mul => {
            let corners = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)];
            let products = corners.map(|(a, b)| a.saturating_mul(b));
            let [first, rest @ ..] = products.map(|p| IntRange::new(p, p));
            rest.into_iter().fold(first, IntRange::join)
        }
        Op::MulHi if naturals => IntRange::new(0, a.hi.checked_mul(b.hi)? >> ty.bits()),
        // x / 0 and x rem 0 are 0.
        Op::Div if naturals => {
            let lo = if b.lo == 0 { 0 } else { a.lo / b.hi };
            IntRange::new(lo, a.hi / b.lo.max(1))
        }
        Op::Rem if naturals => IntRange::new(0, a.hi.min((b.hi - 1).max(0))),
        Op::Min => IntRange::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        Op::Max => IntRange::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        Op::And if naturals => IntRange::new(0, a.hi.min(b.hi)),
        Op::And if a.natural() => IntRange::new(0, a.hi),
        Op::And if b.natural() => IntRange::new(0, b.hi),
        Op::Or if naturals => IntRange::new(a.lo.max(b.lo), filled(a.hi.max(b.hi))),
        Op::Xor if naturals => IntRange::new(0, filled(a.hi.max(b.hi))),
        Op::Shl if b.lo == b.hi => {
            let by = b.lo & i128::from(ty.bits() - 1);
            IntRange::new(a.lo << by, a.hi << by)
        }
        Op::Shr if a.natural() && b.hi < ty.bits().into() => IntRange::new(a.lo >> b.hi, a.hi >> b.lo),
        Op::Shr if a.natural() => IntRange::new(0, a.hi),
        _ => return None,
    })
}

/// The number with every bit set up to the highest of `x`.
fn filled(x: i128) -> i128 {
    if x == 0 { 0 } else { (1 << (128 - x.leading_zeros())) - 1 }
}
