//! The micro-op of each op that decides nothing: arithmetic, memory, group, time and faults.

use super::code::{
    AccessMode, Cas, Enter, LaneSync, LoadWide, Modify, Pc, Pure3, Reg, Step, StoreWide, fixed,
};
use super::decode::FunctionDecoder;
use crate::arena::Handle;
use crate::eval::{self, PureFunction};
use crate::module::{Attr, Node};
use crate::op::Op;
use crate::types::{Order, Scope, Type};

/// The register of an op whose result is fixed for the launch.
pub(super) fn known(node: &Node) -> Option<Reg> {
    Some(match node.op {
        Op::Lane => fixed::LANE,
        Op::Group => fixed::GROUP,
        Op::Lanes => fixed::LANES,
        Op::Groups => fixed::GROUPS,
        Op::Subgroup => fixed::SUBGROUP,
        Op::Sublane => fixed::SUBLANE,
        Op::SubgroupSize => fixed::SIZE,
        Op::Elect => fixed::ELECTED,
        Op::Len => fixed::LENGTHS + node.buffer()?.index() as Reg,
        _ => return None,
    })
}

/// The step of a function on one to three registers.
pub(super) fn pure(f: PureFunction, dst: Reg, args: &[Reg]) -> Step {
    match *args {
        [a, b, c] => Step::Pure3(Box::new(Pure3 { f, dst, args: [a, b, c] })),
        [a, b] => Step::Pure { f, dst, a, b },
        _ => Step::Pure { f, dst, a: args[0], b: args[0] },
    }
}

/// The start of a counted loop.
pub(super) fn enter(body: &FunctionDecoder<'_, '_>, node: &Node, left: Reg, i: Reg, or: Pc) -> Enter {
    let [from, to, step] = [0, 1, 2].map(|k| body.reg(node.args[k]));
    let signed = body.function.operand_ty(node.args[0]) == Type::I32;
    Enter { left, i, from, to, step, signed, or }
}

/// Adds the step of an op with an effect.
pub(super) fn step(body: &mut FunctionDecoder<'_, '_>, node: &Node) {
    if let Some(reg) = known(node) {
        return body.name(node.results.iter(), reg);
    }
    let arg = |k: usize| node.args.get(k).map(|arg| body.reg(*arg)).unwrap_or(fixed::SCRATCH);
    let (a, b, c) = (arg(0), arg(1), arg(2));
    let how = |body: &FunctionDecoder<'_, '_>| how(body, node);
    let dst = if node.results.is_empty() { fixed::SCRATCH } else { body.define(node.results) };
    let step = match node.op {
        Op::Load | Op::AtomicLoad => Step::Load { dst, at: a, how: how(body).0 },
        Op::LoadByte => {
            let (how, elem) = how(body);
            let word = body.emit.take_registers(1);
            body.emit.push(Step::Load { dst: word, at: a, how });
            Step::Pure { f: eval::byte_of(elem), dst, a: word, b }
        }
        Op::Store | Op::AtomicStore => Step::Store { at: a, value: b, how: how(body).0 },
        Op::LoadWide => {
            let count = node.results.len() as u32;
            Step::LoadWide(Box::new(LoadWide { dst, count, at: a, how: how(body).0 }))
        }
        Op::StoreWide => {
            let values = node.args[1..].iter().map(|arg| body.reg(*arg)).collect();
            Step::StoreWide(Box::new(StoreWide { at: a, values, how: how(body).0 }))
        }
        Op::AtomicCas => {
            let how = how(body).0;
            Step::Cas(Box::new(Cas { dst, at: a, expected: b, desired: c, how }))
        }
        Op::Fence => match node.attr {
            Attr::Fence(order, scope) => Step::Fence { order, scope },
            _ => return,
        },
        Op::Clock => Step::Clock { dst },
        Op::Backoff => Step::Backoff { ns: a },
        // A group of the interpreter never sleeps for long.
        Op::Wake => return,
        Op::Trap => Step::Trap { code: a },
        Op::Fault => Step::Fault { code: a },
        op if op.is_read_modify_write() => {
            let (how, elem) = how(body);
            Step::Modify(Box::new(Modify { f: combine(op, elem), dst, at: a, value: b, how }))
        }
        op => {
            let ty = node.args.first().map(|arg| body.function.operand_ty(*arg));
            let f = ty.and_then(|ty| eval::pure_function(arithmetic(op)?, ty, ty));
            Step::Sync(Box::new(LaneSync { op, dst, a, from: b, f }))
        }
    };
    body.emit.push(step);
}

/// The memory that an op accesses, how, and the type of its elements.
fn how(body: &FunctionDecoder<'_, '_>, node: &Node) -> (AccessMode, Type) {
    let (buffer, order, scope) = match node.attr {
        Attr::Atomic(buffer, order, scope) => (buffer, order, scope),
        Attr::Buffer(buffer) => (buffer, Order::Relaxed, Scope::Group),
        _ => unreachable!("the validator has checked the attributes"),
    };
    (AccessMode { buffer, order, scope }, body.module.buffers[buffer].elem)
}

/// What an atomic stores, of the old value and its operand.
fn combine(op: Op, elem: Type) -> PureFunction {
    match arithmetic(op) {
        Some(op) => eval::pure_function(op, elem, elem).expect("the validator has checked the types"),
        None => |_, value, _| value,
    }
}

/// The arithmetic in an atomic or a reduction.
fn arithmetic(op: Op) -> Option<Op> {
    Some(match op {
        Op::AtomicAdd | Op::ReduceAdd => Op::Add,
        Op::AtomicSub => Op::Sub,
        Op::AtomicAnd | Op::ReduceAnd => Op::And,
        Op::AtomicOr | Op::ReduceOr => Op::Or,
        Op::AtomicXor | Op::ReduceXor => Op::Xor,
        Op::AtomicMin | Op::ReduceMin => Op::Min,
        Op::AtomicMax | Op::ReduceMax => Op::Max,
        _ => return None,
    })
}
