//! Barrier elision: a barrier that orders nothing is not waited for.
//!
//! **Law.** A barrier is removed if nothing that may run before it, back to the barriers that stay, conflicts with
//! anything that may run after it, up to the next barriers as written. Two accesses conflict if they touch the same
//! buffer and one of them writes. An atomic, a fence, a look at the time, a fault, a copy and a call with effects
//! conflict with every access and with each other, because a barrier hands on what a lane has acquired or is about to
//! release. A loop that might not end conflicts likewise, because no lane passes a barrier that some lane never reaches.
//!
//! **Proof.** Control at a barrier is the same for the whole group, so all its lanes meet the same barriers in
//! the same order. Let x of one lane and y of another conflict, with barriers between them as written, of which B
//! is the last. Suppose that none of them stayed. Then y follows B with no barrier between, so y is among what
//! may run after B. And x precedes B with only barriers between that did not stay, so x is among what may run
//! before B. But then B stayed. So some barrier still stands between x and y. What does not conflict cannot tell
//! in which order it ran.
//!
//! **Loops.** The end of a body comes before its start. What may run before a body is all that may run before the
//! loop and all that the loop holds; what may run after its end is all that it holds and all that may run after
//! the loop. Both are more than can happen. What precedes or follows a function that is not a kernel is unknown.
//! `group_broadcast` is a barrier that always stays.

use std::collections::{HashMap, HashSet};

use crate::arena::{Inst, Region};
use crate::module::{Attr, Function, FunctionKind, Module};
use crate::op::Op;

use super::effect::{self, EffectSet};
use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::RegionTree;

/// Removes needless barriers from every function.
pub(super) fn apply(module: &mut Module) -> bool {
    let quiet = effect::quiet(module);
    super::rewrite_each(module, |module, function| {
        if !function.insts().any(|(_, node)| node.op == Op::Barrier) {
            return None;
        }
        let edge =
            if function.kind == FunctionKind::Kernel { EffectSet::default() } else { EffectSet::UNKNOWN };
        let mut after =
            After { walk: BarrierWalk::new(module, function, &quiet, edge), barriers: HashMap::new() };
        after.region(function.body, edge);
        let After { walk, barriers } = after;
        let mut before =
            Before { walk: BarrierWalk { at: HashMap::new(), ..walk }, barriers, gone: HashSet::new() };
        before.region(function.body, edge);
        let mut gone = before.gone;
        (!gone.is_empty()).then(|| rewrite(module, function, &mut gone))
    })
}

/// What both directions need.
struct BarrierWalk<'a> {
    function: &'a Function,
    /// What each instruction that holds others may touch.
    touches: HashMap<Inst, EffectSet>,
    module: &'a Module,
    quiet: &'a [bool],
    /// What lies beyond the function.
    edge: EffectSet,
    /// What may run after each open loop or block, or what may have run before it was left.
    at: HashMap<Inst, EffectSet>,
}

impl<'a> BarrierWalk<'a> {
    fn new(module: &'a Module, function: &'a Function, quiet: &'a [bool], edge: EffectSet) -> Self {
        let shape = RegionTree::new(function);
        let touches = effect::nested(module, function, &shape.parent, quiet);
        BarrierWalk { function, touches, module, quiet, edge, at: HashMap::new() }
    }

    /// What an instruction may touch, all that it holds included.
    fn touch(&self, inst: Inst) -> EffectSet {
        let node = self.function.inst(inst);
        if node.op.has_regions() {
            self.touches[&inst]
        } else {
            EffectSet::from_node(self.module, node, self.quiet)
        }
    }
}

/// The walk against the order of the text: what may run after each barrier, up to the next.
struct After<'a> {
    walk: BarrierWalk<'a>,
    barriers: HashMap<Inst, EffectSet>,
}

impl After<'_> {
    /// What may run from the start of a region on, if `next` may run after its `yield`.
    fn region(&mut self, region: Region, next: EffectSet) -> EffectSet {
        let function = self.walk.function;
        function.region(region).insts.iter().rev().fold(next, |next, inst| self.inst(*inst, next))
    }

    /// What may run from an instruction on, if `next` may run after it.
    fn inst(&mut self, inst: Inst, next: EffectSet) -> EffectSet {
        let node = self.walk.function.inst(inst);
        let whole = self.walk.touch(inst);
        let none = EffectSet::default();
        match node.op {
            Op::Barrier => {
                self.barriers.insert(inst, next);
                none
            }
            Op::GroupBroadcast => none,
            Op::Return => self.walk.edge,
            Op::Break | Op::Continue => {
                let Attr::Target(target) = node.attr else { return EffectSet::UNKNOWN };
                let after = self.walk.at.get(&target).copied().unwrap_or(EffectSet::UNKNOWN);
                if node.op == Op::Break { after } else { after | self.walk.touch(target) }
            }
            Op::If | Op::Switch => node.regions.iter().fold(none, |sum, r| sum | self.region(*r, next)),
            Op::Block | Op::Loop | Op::While | Op::Forever => {
                self.walk.at.insert(inst, next);
                match node.op {
                    Op::Block => self.region(node.regions[0], next),
                    Op::Loop => next | self.region(node.regions[0], next | whole),
                    Op::Forever => self.region(node.regions[0], whole),
                    _ => {
                        let body = self.region(node.regions[1], next | whole);
                        self.region(node.regions[0], next | body)
                    }
                }
            }
            _ => next | whole,
        }
    }
}

/// The walk along the text: what may have run since the last barrier that stays.
struct Before<'a> {
    walk: BarrierWalk<'a>,
    barriers: HashMap<Inst, EffectSet>,
    gone: HashSet<Inst>,
}

impl Before<'_> {
    /// What may have run when a region yields, if `past` may have run when it starts. Nothing if it does not
    /// yield.
    fn region(&mut self, region: Region, past: EffectSet) -> EffectSet {
        let function = self.walk.function;
        function.region(region).insts.iter().fold(past, |past, inst| self.inst(*inst, past))
    }

    /// What may have run when an instruction has ended, if `past` may have run before.
    fn inst(&mut self, inst: Inst, past: EffectSet) -> EffectSet {
        let node = self.walk.function.inst(inst);
        let whole = self.walk.touch(inst);
        let none = EffectSet::default();
        match node.op {
            Op::Barrier => {
                let next = self.barriers.get(&inst).copied().unwrap_or(EffectSet::UNKNOWN);
                if past.conflicts(next) {
                    return none;
                }
                self.gone.insert(inst);
                past
            }
            Op::GroupBroadcast | Op::Return => none,
            Op::Break | Op::Continue => {
                if let Attr::Target(target) = node.attr {
                    let left = self.walk.at.entry(target).or_default();
                    *left = *left | past;
                }
                none
            }
            Op::If | Op::Switch => node.regions.iter().fold(none, |sum, r| sum | self.region(*r, past)),
            Op::Block | Op::Loop | Op::While | Op::Forever => {
                let head = past | whole;
                let end = match node.op {
                    Op::Block => self.region(node.regions[0], past),
                    Op::Loop => past | self.region(node.regions[0], head),
                    // Lanes that never leave it count too: the others wait for them.
                    Op::Forever => {
                        self.region(node.regions[0], head);
                        whole
                    }
                    _ => {
                        let tested = self.region(node.regions[0], head);
                        self.region(node.regions[1], tested);
                        tested
                    }
                };
                end | self.walk.at.remove(&inst).unwrap_or_default()
            }
            _ => past | whole,
        }
    }
}

impl RewriteRule for HashSet<Inst> {
    fn inst(&mut self, _copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        self.contains(&inst)
    }
}
