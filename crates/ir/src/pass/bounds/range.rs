//! Intervals of integers, and what every pure op makes of them.
//!
//! Bounds are exact numbers, wide enough for every type, so an op computes them without wrapping; a result that
//! does not fit its type may have wrapped, and then nothing is known of it.

use crate::op::Op;
use crate::types::{Const, Type};

/// The integers from `lo` to `hi`, both included. There is always one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub lo: i128,
    pub hi: i128,
}

impl Range {
    /// From one number to another.
    pub const fn new(lo: i128, hi: i128) -> Range {
        Range { lo, hi }
    }

    /// All values of a type. Floats have no order here; theirs is never asked for.
    pub const fn all(ty: Type) -> Range {
        match ty {
            Type::U32 => Range::new(0, u32::MAX as i128),
            Type::I32 => Range::new(i32::MIN as i128, i32::MAX as i128),
            Type::U64 => Range::new(0, u64::MAX as i128),
            Type::Bool => Range::new(0, 1),
            Type::F32 => Range::new(i128::MIN, i128::MAX),
        }
    }

    /// A constant alone.
    pub fn one(c: Const) -> Range {
        match c.ty() {
            Type::F32 => Range::all(Type::F32),
            Type::I32 => Range::new(c.bits() as u32 as i32 as i128, c.bits() as u32 as i32 as i128),
            _ => Range::new(c.bits().into(), c.bits().into()),
        }
    }

    /// Itself if every number is one of the type, and otherwise all of the type.
    pub fn fit(self, ty: Type) -> Range {
        let all = Range::all(ty);
        if all.lo <= self.lo && self.hi <= all.hi { self } else { all }
    }

    /// What lies in either, and between.
    pub fn join(self, other: Range) -> Range {
        Range::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// What lies in both; itself if nothing does, which only happens where nothing runs.
    pub fn meet(self, other: Range) -> Range {
        let both = Range::new(self.lo.max(other.lo), self.hi.min(other.hi));
        if both.lo <= both.hi { both } else { self }
    }

    /// Whether no number is below zero.
    fn natural(self) -> bool {
        self.lo >= 0
    }
}

/// The range of an op's result, which is of type `out`; `ty` is what its `T` stands for.
pub(super) fn of(op: Op, ty: Type, out: Type, args: &[Range]) -> Range {
    let range = match *args {
        _ if ty == Type::F32 && op != Op::Select => None,
        [a] => unary(op, ty, a),
        [a, b] => binary(op, ty, a, b),
        [_, a, b] if op == Op::Select => Some(a.join(b)),
        _ => None,
    };
    range.unwrap_or(Range::all(out)).fit(out)
}

fn unary(op: Op, ty: Type, a: Range) -> Option<Range> {
    let all = Range::all(ty);
    Some(match op {
        Op::Cast | Op::Bitcast => a,
        Op::Neg => Range::new(-a.hi, -a.lo),
        Op::Abs if a.natural() => a,
        Op::Abs => Range::new(0, a.hi.max(-a.lo)),
        // The complement of x is the other end of the type, counted back.
        Op::Not => Range::new(all.lo + all.hi - a.hi, all.lo + all.hi - a.lo),
        Op::Popcount | Op::Clz | Op::Ctz => Range::new(0, ty.bits().into()),
        _ => return None,
    })
}

fn binary(op: Op, ty: Type, a: Range, b: Range) -> Option<Range> {
    let naturals = a.natural() && b.natural();
    Some(match op {
        Op::Add => Range::new(a.lo + b.lo, a.hi + b.hi),
        Op::Sub => Range::new(a.lo - b.hi, a.hi - b.lo),
        Op::Mul => {
            let corners = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)];
            let products = corners.map(|(a, b)| a.saturating_mul(b));
            let [first, rest @ ..] = products.map(|p| Range::new(p, p));
            rest.into_iter().fold(first, Range::join)
        }
        Op::MulHi if naturals => Range::new(0, a.hi.checked_mul(b.hi)? >> ty.bits()),
        // x / 0 and x rem 0 are 0.
        Op::Div if naturals => {
            let lo = if b.lo == 0 { 0 } else { a.lo / b.hi };
            Range::new(lo, a.hi / b.lo.max(1))
        }
        Op::Rem if naturals => Range::new(0, a.hi.min((b.hi - 1).max(0))),
        Op::Min => Range::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        Op::Max => Range::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        Op::And if naturals => Range::new(0, a.hi.min(b.hi)),
        Op::And if a.natural() => Range::new(0, a.hi),
        Op::And if b.natural() => Range::new(0, b.hi),
        Op::Or if naturals => Range::new(a.lo.max(b.lo), filled(a.hi.max(b.hi))),
        Op::Xor if naturals => Range::new(0, filled(a.hi.max(b.hi))),
        Op::Shl if b.lo == b.hi => {
            let by = b.lo & i128::from(ty.bits() - 1);
            Range::new(a.lo << by, a.hi << by)
        }
        Op::Shr if a.natural() && b.hi < ty.bits().into() => Range::new(a.lo >> b.hi, a.hi >> b.lo),
        Op::Shr if a.natural() => Range::new(0, a.hi),
        _ => return None,
    })
}

/// The number with every bit set up to the highest of `x`.
fn filled(x: i128) -> i128 {
    if x == 0 { 0 } else { (1 << (128 - x.leading_zeros())) - 1 }
}
