//! The effects of instructions: the buffers that they may read and write, and whether they must keep their order.
//!
//! An [`EffectSet`] over-approximates. Loads of a buffer that nobody writes during the launch touch nothing. Atomics,
//! fences, time, faults, loops that might not end and calls of imports and of functions that have effects are
//! *ordered*: no pass looks into them, and they stand against every access. Barriers and subgroup ops *wait*; what
//! that means to an access, each pass says.

use std::collections::HashMap;
use std::ops::BitOr;

use crate::arena::{Buffer, Handle, Inst};
use crate::limits::MAX_BUFFERS;
use crate::module::{Attr, Function, Module, Node};
use crate::op::{Op, OpEffect};
use crate::types::{Access, Space};

/// A set of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct BufferSet([u64; MAX_BUFFERS / 64]);

impl BufferSet {
    /// No buffer.
    pub(crate) const NONE: BufferSet = BufferSet([0; MAX_BUFFERS / 64]);

    fn insert(&mut self, buffer: Buffer) {
        self.0[buffer.index() / 64] |= 1 << (buffer.index() % 64);
    }

    /// Returns whether a buffer is in the set.
    pub(crate) fn has(self, buffer: Buffer) -> bool {
        self.0[buffer.index() / 64] >> (buffer.index() % 64) & 1 == 1
    }

    /// Returns whether some buffer is in both sets.
    pub(crate) fn meets(self, other: BufferSet) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

impl BitOr for BufferSet {
    type Output = BufferSet;
    fn bitor(self, other: BufferSet) -> BufferSet {
        BufferSet(std::array::from_fn(|k| self.0[k] | other.0[k]))
    }
}

/// The effects that an instruction, or a sequence of instructions, may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct EffectSet {
    /// Buffers with a plain load.
    pub reads: BufferSet,
    /// Buffers with a plain store.
    pub writes: BufferSet,
    /// Whether there is anything that keeps its order against every access.
    pub ordered: bool,
    /// Whether there is anything that waits for other lanes.
    pub waits: bool,
}

impl EffectSet {
    /// All effects, for code that is not known.
    pub(crate) const UNKNOWN: EffectSet =
        EffectSet { reads: BufferSet::NONE, writes: BufferSet::NONE, ordered: true, waits: true };

    /// What an instruction itself may touch; `quiet` tells of the functions it may call.
    pub(crate) fn from_node(module: &Module, node: &Node, quiet: &[bool]) -> EffectSet {
        let mut touch = EffectSet::default();
        match (node.op.effect(), &node.attr) {
            (OpEffect::Read, Attr::Buffer(b)) if !frozen(module, *b) => touch.reads.insert(*b),
            (OpEffect::Write, Attr::Buffer(b)) => touch.writes.insert(*b),
            (OpEffect::Atomic | OpEffect::World, _) => touch.ordered = true,
            (OpEffect::Sync, _) => touch.waits = true,
            (OpEffect::Control, Attr::Call(callee)) => {
                touch.ordered = !quiet.get(callee.index()).is_some_and(|quiet| *quiet);
            }
            // It may never end, and then nobody comes past the next barrier.
            _ if matches!(node.op, Op::While | Op::Forever) => touch.ordered = true,
            _ => {}
        }
        touch
    }

    /// Returns whether there are no effects on memory. The instruction may still wait for other lanes.
    pub(crate) fn is_empty(self) -> bool {
        self.reads == BufferSet::NONE && self.writes == BufferSet::NONE && !self.ordered
    }

    /// Returns whether the order of the two can be observed.
    pub(crate) fn conflicts(self, other: EffectSet) -> bool {
        let either = self.ordered && !other.is_empty() || other.ordered && !self.is_empty();
        either || self.writes.meets(other.reads | other.writes) || self.reads.meets(other.writes)
    }
}

impl BitOr for EffectSet {
    type Output = EffectSet;
    fn bitor(self, other: EffectSet) -> EffectSet {
        EffectSet {
            reads: self.reads | other.reads,
            writes: self.writes | other.writes,
            ordered: self.ordered || other.ordered,
            waits: self.waits || other.waits,
        }
    }
}

/// Whether nobody writes the buffer during a launch.
pub(super) fn frozen(module: &Module, buffer: Buffer) -> bool {
    module.buffers.get(buffer).is_some_and(|b| b.access == Access::Read && b.space != Space::Host)
}

/// Which functions do nothing but give results: no effects, and they end. Calls name earlier functions, so one
/// look at each in order is enough. An import may be bound to anything, so it is not one of them.
pub(super) fn quiet(module: &Module) -> Vec<bool> {
    let mut quiet: Vec<bool> = Vec::with_capacity(module.functions.len());
    for (_, function) in module.functions.iter() {
        let calm = !function.is_import() && function.insts().all(|(_, node)| !acts(node, &quiet));
        quiet.push(calm);
    }
    quiet
}

/// Whether an instruction does more than give values and choose, or may not end.
pub(super) fn acts(node: &Node, quiet: &[bool]) -> bool {
    match (node.op.effect(), &node.attr) {
        (OpEffect::Pure | OpEffect::Read, _) => false,
        (OpEffect::Control, Attr::Call(callee)) => !quiet.get(callee.index()).is_some_and(|quiet| *quiet),
        (OpEffect::Control, _) => matches!(node.op, Op::While | Op::Forever),
        _ => true,
    }
}

/// What each instruction that holds others may touch, all that it holds included.
pub(super) fn nested(
    module: &Module,
    function: &Function,
    parent: &[Option<Inst>],
    quiet: &[bool],
) -> HashMap<Inst, EffectSet> {
    let mut touches: HashMap<Inst, EffectSet> = HashMap::new();
    // What an instruction holds comes after it, so the last are whole first.
    for (inst, node) in function.insts().rev() {
        let mut touch = EffectSet::from_node(module, node, quiet);
        if node.op.has_regions() {
            let held = touches.entry(inst).or_default();
            *held = *held | touch;
            touch = *held;
        }
        if let Some(parent) = parent[inst.index()].filter(|_| touch != EffectSet::default()) {
            let sum = touches.entry(parent).or_default();
            *sum = *sum | touch;
        }
    }
    touches
}
