//! The analysis of which lanes may have left before an op, so that lanes that meet there must count who came.
//!
//! Lanes leave at traps and where loops look at the stop word. One may have left before an op if such a place comes
//! before it in the text and not on another branch, or if one loop holds both.

use crate::arena::{Handle, Inst, Region};
use crate::module::{Function, Node};
use crate::op::{Op, OpEffect};
use crate::valid::{UniformLevel, Uniformity};

/// The most iterations of a counted loop that needs no look at the stop word.
const BRIEF: u32 = 4096;

/// Turns between two looks: of a loop that only computes, and of one whose turns may take long.
const TURNS: (u32, u32) = (256, 4);

/// Waits that a loop can have hundreds of between two looks.
const SHORT_NS: u64 = 2_000;

/// Which lanes may have left.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct LeftLanes {
    /// Whether any lanes may have left, be it one or a whole warp.
    pub any: bool,
    /// Whether a single lane may have left a warp that continues.
    pub alone: bool,
}

impl LeftLanes {
    fn or(self, other: LeftLanes) -> LeftLanes {
        LeftLanes { any: self.any | other.any, alone: self.alone | other.alone }
    }
}

/// What is known of leaving in a function.
pub(super) struct LeavePlan {
    /// By instruction: who may have left before it.
    left: Vec<LeftLanes>,
    /// By instruction: turns of this loop between two looks; none for brief loops and other ops.
    turns: Vec<Option<u32>>,
    /// Whether there is an op of warps.
    pub warps: bool,
}

impl LeavePlan {
    pub(crate) fn new(function: &Function, uniform: &Uniformity) -> LeavePlan {
        let count = function.insts().len();
        let mut inside = vec![LeftLanes::default(); count];
        let mut long = vec![false; count];
        let mut turns = vec![None; count];
        for (inst, node) in function.insts().rev() {
            let at = inst.index();
            let held = node.regions.iter().flat_map(|region| &function.region(*region).insts);
            for other in held {
                inside[at] = inside[at].or(inside[other.index()]);
                long[at] |= long[other.index()];
            }
            if node.op.is_loop() && !brief(function, inst) {
                turns[at] = Some(if long[at] { TURNS.1 } else { TURNS.0 });
                let alone = level(function, uniform, inst) == UniformLevel::Lane;
                inside[at] = inside[at].or(LeftLanes { any: true, alone });
            }
            if node.op == Op::Trap {
                inside[at] =
                    LeftLanes { any: true, alone: uniform.control_level(inst) == UniformLevel::Lane };
            }
            long[at] |= node.op.is_loop() || waits(node);
        }
        let warps = function.insts().any(|(_, node)| warp(node.op));
        let mut walk = LeaveWalk { function, inside: &inside, left: vec![LeftLanes::default(); count] };
        walk.region(function.body, LeftLanes::default());
        LeavePlan { left: walk.left, turns, warps }
    }

    /// Who may have left before an instruction.
    pub(crate) fn before(&self, inst: Inst) -> LeftLanes {
        self.left[inst.index()]
    }

    /// Turns of a loop between two looks, if it looks.
    pub(crate) fn turns(&self, inst: Inst) -> Option<u32> {
        self.turns[inst.index()]
    }
}

/// Whether an op may take long by itself.
fn waits(node: &Node) -> bool {
    match node.op {
        Op::Barrier | Op::GroupBroadcast => true,
        Op::Backoff => node.args[0].constant().is_none_or(|ns| ns.bits() > SHORT_NS),
        _ => false,
    }
}

/// Whether an op is done by the lanes of a warp together.
pub(super) fn warp(op: Op) -> bool {
    op.effect() == OpEffect::Sync && !matches!(op, Op::Barrier | Op::GroupBroadcast | Op::Elect)
}

/// Whose lanes turn a loop together.
pub(super) fn level(function: &Function, uniform: &Uniformity, inst: Inst) -> UniformLevel {
    let body = function.region(function.inst(inst).regions[0]);
    body.insts.first().map_or(UniformLevel::Lane, |first| uniform.control_level(*first))
}

/// Whether a counted loop has few turns by its constants and holds nothing that could make them long.
fn brief(function: &Function, inst: Inst) -> bool {
    let node = function.inst(inst);
    let bound = |at: usize| node.args[at].constant().map(|c| c.bits() as u32);
    node.op == Op::Loop
        // The distance, whatever the sign of the bounds.
        && bound(0).zip(bound(1)).is_some_and(|(from, to)| to.wrapping_sub(from) <= BRIEF)
        && function.region(node.regions[0]).insts.iter().all(|inst| function.inst(*inst).regions.is_empty())
}

struct LeaveWalk<'a> {
    function: &'a Function,
    /// By instruction: who may leave in it.
    inside: &'a [LeftLanes],
    left: Vec<LeftLanes>,
}

impl LeaveWalk<'_> {
    fn region(&mut self, region: Region, mut before: LeftLanes) {
        let function = self.function;
        for inst in &function.region(region).insts {
            let (node, inside) = (function.inst(*inst), self.inside[inst.index()]);
            self.left[inst.index()] = before;
            let within = if node.op.is_loop() { before.or(inside) } else { before };
            node.regions.iter().for_each(|region| self.region(*region, within));
            before = before.or(inside);
        }
    }
}
