//! Identities of the language's arithmetic, each of which holds for every operand.
//!
//! **Integers** wrap, x / 0 and x rem 0 are 0, and shifts count modulo the width: so x − x is 0, but x / x is not 1.
//!
//! **Floats** are equal if their bits are, NaNs aside, whose bits the language leaves open. So x × 1, x / 1, x − 0
//! and x + (−0) are x. But x + 0 is not, since −0 + 0 is +0; x × 0 is not 0, by NaN, ∞ and −1; and x = x is not
//! true, by NaN.
//!
//! A constant stands on the right of an op whose operands may be exchanged.

use crate::module::{Attr, Node, Operand};
use crate::op::Op;
use crate::types::{Const, Type};

use super::rewrite::FunctionCopier;

/// What an op is equal to.
pub(super) enum Simplified {
    /// An operand.
    As(Operand),
    /// Another op, with no attribute.
    Op(Op, Vec<Operand>),
}

use Simplified::As;

/// Something simpler that is equal to an op whose `T` is `ty`.
pub(super) fn simplify(
    copy: &FunctionCopier<'_>,
    op: Op,
    ty: Type,
    attr: &Attr,
    args: &[Operand],
) -> Option<Simplified> {
    match (op, args) {
        (Op::Select, &[c, a, b]) => select(copy, c, a, b),
        (Op::Cast | Op::Bitcast, &[a]) => convert(copy, op, ty, attr, a),
        (_, &[a]) => unary(copy, op, ty, a),
        (_, &[Operand::Const(a), b @ Operand::Value(_)]) => match mirror(op) {
            Some(op) => right(copy, op, ty, b, a).or(Some(Simplified::Op(op, vec![b, Operand::Const(a)]))),
            None => left(op, ty, a),
        },
        (_, &[a, b]) if a == b && a.value().is_some() => equal(op, ty, a),
        (_, &[a @ Operand::Value(_), Operand::Const(b)]) => right(copy, op, ty, a, b),
        _ => None,
    }
}

/// The op that means the same with its operands exchanged.
pub(super) fn mirror(op: Op) -> Option<Op> {
    Some(match op {
        Op::Lt => Op::Gt,
        Op::Gt => Op::Lt,
        Op::Le => Op::Ge,
        Op::Ge => Op::Le,
        Op::Add | Op::Mul | Op::MulHi | Op::Min | Op::Max => op,
        Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne => op,
        _ => return None,
    })
}

fn select(copy: &FunctionCopier<'_>, c: Operand, a: Operand, b: Operand) -> Option<Simplified> {
    let [yes, no] = [true, false].map(Operand::from);
    if let Operand::Const(c) = c {
        return Some(As(if c.bits() == 1 { a } else { b }));
    }
    if a == b {
        return Some(As(a));
    }
    match (a, b) {
        _ if a == yes && b == no => return Some(As(c)),
        _ if a == no && b == yes => return Some(Simplified::Op(Op::Not, vec![c])),
        _ => {}
    }
    let negated = copy.def(c).filter(|node| node.op == Op::Not)?;
    Some(Simplified::Op(Op::Select, vec![negated.args[0], b, a]))
}

fn convert(copy: &FunctionCopier<'_>, op: Op, from: Type, attr: &Attr, a: Operand) -> Option<Simplified> {
    let Attr::Type(to) = *attr else { return None };
    // A bitcast to `f32` of an `f32` makes a NaN canonical, so it is not nothing.
    if from == to && (op == Op::Cast || to != Type::F32) {
        return Some(As(a));
    }
    let node = copy.def(a).filter(|node| node.op == op)?;
    let first = copy.to.function().operand_ty(node.args[0]);
    let words = [first, from].iter().all(|ty| matches!(ty, Type::U32 | Type::I32));
    let widened = first == Type::U32 && from == Type::U64;
    (first == to && (words || widened)).then_some(As(node.args[0]))
}

fn unary(copy: &FunctionCopier<'_>, op: Op, ty: Type, a: Operand) -> Option<Simplified> {
    let node = copy.def(a)?;
    let inner = |node: &Node| node.args[0];
    match (op, node.op) {
        (Op::Not, Op::Not) | (Op::Neg, Op::Neg) => Some(As(inner(node))),
        (Op::Abs, Op::Abs) => Some(As(a)),
        (Op::Abs, Op::Neg) => Some(Simplified::Op(Op::Abs, vec![inner(node)])),
        (Op::Not, _) if ty == Type::Bool => {
            let exact = copy.to.function().operand_ty(*node.args.first()?) != Type::F32;
            let op = match node.op {
                Op::Eq => Op::Ne,
                Op::Ne => Op::Eq,
                // NaN makes both of these false.
                Op::Lt if exact => Op::Ge,
                Op::Ge if exact => Op::Lt,
                Op::Gt if exact => Op::Le,
                Op::Le if exact => Op::Gt,
                _ => return None,
            };
            Some(Simplified::Op(op, node.args.clone()))
        }
        _ => None,
    }
}

/// An op of a constant and something, where the two do not commute.
fn left(op: Op, ty: Type, a: Const) -> Option<Simplified> {
    let zero = a == Const::zero(ty) && ty != Type::F32;
    match op {
        Op::Div | Op::Rem | Op::Shl | Op::Shr | Op::Rotl | Op::Rotr if zero => Some(As(Operand::Const(a))),
        Op::Rotl | Op::Rotr if a == ones(ty) => Some(As(Operand::Const(a))),
        _ => None,
    }
}

/// An op of the same value twice.
fn equal(op: Op, ty: Type, a: Operand) -> Option<Simplified> {
    let float = ty == Type::F32;
    let zero = Operand::Const(Const::zero(ty));
    match op {
        Op::And | Op::Or | Op::Min | Op::Max => Some(As(a)),
        Op::Sub | Op::Xor | Op::Rem if !float => Some(As(zero)),
        Op::Eq | Op::Le | Op::Ge if !float => Some(As(true.into())),
        Op::Ne if !float => Some(As(false.into())),
        Op::Lt | Op::Gt => Some(As(false.into())),
        _ => None,
    }
}

/// An op of something and a constant.
fn right(copy: &FunctionCopier<'_>, op: Op, ty: Type, a: Operand, b: Const) -> Option<Simplified> {
    match ty {
        Type::F32 => float(op, a, b),
        Type::Bool => truth(op, a, b.bits() == 1),
        _ => integer(op, ty, a, b)
            .or_else(|| bounded(copy, op, ty, a, b))
            .or_else(|| chain(copy, op, ty, a, b)),
    }
}

/// A comparison of an unsigned number with a constant, or the lesser of the two, where the number is known not to
/// exceed some bound. A handler's access with an index that is masked needs no check at run time because of this.
fn bounded(copy: &FunctionCopier<'_>, op: Op, ty: Type, a: Operand, b: Const) -> Option<Simplified> {
    if ty == Type::I32 || !matches!(op, Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Min) {
        return None;
    }
    let (most, b) = (upper_bound(copy, a, 4)?, b.bits());
    match op {
        Op::Lt if most < b => Some(As(true.into())),
        Op::Le if most <= b => Some(As(true.into())),
        Op::Gt if most <= b => Some(As(false.into())),
        Op::Ge if most < b => Some(As(false.into())),
        Op::Min if most <= b => Some(As(a)),
        _ => None,
    }
}

/// A number that an unsigned value never exceeds, if its definition says so. At most `depth` definitions are followed.
fn upper_bound(copy: &FunctionCopier<'_>, a: Operand, depth: u32) -> Option<u64> {
    if let Operand::Const(c) = a {
        return Some(c.bits());
    }
    let node = copy.def(a).filter(|_| depth > 0)?;
    let arg = |at: usize| upper_bound(copy, *node.args.get(at)?, depth - 1);
    match node.op {
        Op::And | Op::Min => arg(0).into_iter().chain(arg(1)).min(),
        // Neither operand has a bit above the highest bit of either bound.
        Op::Or => Some(u64::MAX.checked_shr((arg(0)? | arg(1)?).leading_zeros()).unwrap_or(0)),
        Op::Shr => {
            let count = node.args[1].constant()?.bits();
            let wide = copy.to.function().operand_ty(a) == Type::U64;
            let count = count & if wide { 63 } else { 31 };
            Some(arg(0).unwrap_or(if wide { u64::MAX } else { u32::MAX.into() }) >> count)
        }
        _ => None,
    }
}

fn float(op: Op, a: Operand, b: Const) -> Option<Simplified> {
    let is = |x: f32| b == x.into();
    match op {
        Op::Mul | Op::Div if is(1.0) => Some(As(a)),
        Op::Mul | Op::Div if is(-1.0) => Some(Simplified::Op(Op::Neg, vec![a])),
        Op::Sub if is(0.0) => Some(As(a)),
        Op::Add if is(-0.0) => Some(As(a)),
        _ => None,
    }
}

fn truth(op: Op, a: Operand, b: bool) -> Option<Simplified> {
    match (op, b) {
        (Op::And | Op::Eq, true) | (Op::Or | Op::Xor | Op::Ne, false) => Some(As(a)),
        (Op::And, false) | (Op::Or, true) => Some(As(b.into())),
        (Op::Xor | Op::Ne, true) | (Op::Eq, false) => Some(Simplified::Op(Op::Not, vec![a])),
        _ => None,
    }
}

fn integer(op: Op, ty: Type, a: Operand, b: Const) -> Option<Simplified> {
    let (zero, one, ones) = (Const::zero(ty), Const::new(ty, 1), ones(ty));
    let constant = |c: Const| Some(As(Operand::Const(c)));
    match op {
        Op::Add | Op::Sub | Op::Or | Op::Xor if b == zero => Some(As(a)),
        Op::Mul | Op::And | Op::Div | Op::Rem | Op::MulHi if b == zero => constant(zero),
        Op::Mul | Op::Div if b == one => Some(As(a)),
        Op::Rem if b == one => constant(zero),
        Op::MulHi if b == one && ty != Type::I32 => constant(zero),
        Op::And if b == ones => Some(As(a)),
        Op::Or if b == ones => constant(ones),
        Op::Xor if b == ones => Some(Simplified::Op(Op::Not, vec![a])),
        // The count of a shift is always a u32; what counts is its place within the width.
        Op::Shl | Op::Shr | Op::Rotl | Op::Rotr if b.bits().is_multiple_of(ty.bits().into()) => Some(As(a)),
        Op::Min | Op::Le if b == most(ty) => Some(As(if op == Op::Min { a } else { true.into() })),
        Op::Max | Op::Ge if b == least(ty) => Some(As(if op == Op::Max { a } else { true.into() })),
        Op::Min if b == least(ty) => constant(b),
        Op::Max if b == most(ty) => constant(b),
        Op::Lt if b == least(ty) => Some(As(false.into())),
        Op::Gt if b == most(ty) => Some(As(false.into())),
        Op::Div | Op::Rem if ty != Type::I32 && b.bits().is_power_of_two() => Some(match op {
            Op::Div => Simplified::Op(Op::Shr, vec![a, b.bits().trailing_zeros().into()]),
            _ => Simplified::Op(Op::And, vec![a, Operand::Const(Const::new(ty, b.bits() - 1))]),
        }),
        _ => None,
    }
}

/// (x op c) op d is x op (c op d) for wrapping sums and products and for bits.
fn chain(copy: &FunctionCopier<'_>, op: Op, ty: Type, a: Operand, b: Const) -> Option<Simplified> {
    let node = copy.def(a).filter(|node| node.op == op)?;
    let (x, c) = (node.args[0], node.args.get(1)?.constant()?.bits());
    let joined = match op {
        Op::Add => c.wrapping_add(b.bits()),
        Op::Mul => c.wrapping_mul(b.bits()),
        Op::And => c & b.bits(),
        Op::Or => c | b.bits(),
        Op::Xor => c ^ b.bits(),
        _ => return None,
    };
    Some(Simplified::Op(op, vec![x, Operand::Const(Const::new(ty, joined))]))
}

/// The constant whose bits are all one.
fn ones(ty: Type) -> Const {
    Const::new(ty, u64::MAX)
}

/// The greatest integer of a type.
fn most(ty: Type) -> Const {
    if ty == Type::I32 { i32::MAX.into() } else { ones(ty) }
}

/// The least integer of a type.
fn least(ty: Type) -> Const {
    if ty == Type::I32 { i32::MIN.into() } else { Const::zero(ty) }
}
