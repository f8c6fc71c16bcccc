//! The micro-ops into which a kernel is decoded.
//!
//! A lane computes in a file of 64-bit registers. No function calls itself, so every function's registers have fixed
//! numbers and no micro-op adds a frame's base. What cannot change during a launch (geometry, buffer lengths,
//! constants) lies in registers that are filled before the first step, so reading it costs nothing.

use crate::arena::Buffer;
use crate::eval::PureFunction;
use crate::module::Site;
use crate::op::Op;
use crate::types::{Order, Scope};

/// A register of a lane.
pub(super) type Reg = u32;

/// A position in the code. While a function is being decoded, it is a label.
pub(super) type Pc = u32;

/// The registers that come first in every program; the buffers' lengths follow them, then the constants.
pub(super) mod fixed {
    use super::Reg;
    pub(crate) const LANE: Reg = 0;
    pub(crate) const GROUP: Reg = 1;
    pub(crate) const LANES: Reg = 2;
    pub(crate) const GROUPS: Reg = 3;
    pub(crate) const SUBGROUP: Reg = 4;
    pub(crate) const SUBLANE: Reg = 5;
    pub(crate) const SIZE: Reg = 6;
    pub(crate) const ELECTED: Reg = 7;
    /// Breaks the cycles of parallel moves.
    pub(crate) const SCRATCH: Reg = 8;
    pub(crate) const LENGTHS: Reg = 9;
}

/// The code of a kernel and of all functions that it calls.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub steps: Vec<Step>,
    /// The instruction that each step came from.
    pub sites: Vec<Site>,
}

/// The buffer, the order and the scope of an access. A plain access is a relaxed one.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessMode {
    pub buffer: Buffer,
    pub order: Order,
    pub scope: Scope,
}

/// A micro-op. Rare micro-ops with many operands are boxed, to keep the others small.
#[derive(Debug)]
pub(super) enum Step {
    Move {
        dst: Reg,
        src: Reg,
    },
    Pure {
        f: PureFunction,
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Pure3(Box<Pure3>),
    Jump {
        to: Pc,
    },
    /// Continues with the next step if the condition is true, and jumps otherwise.
    Branch {
        c: Reg,
        or: Pc,
    },
    /// A comparison fused with a branch that is the only use of its result.
    Compare {
        f: PureFunction,
        a: Reg,
        b: Reg,
        or: Pc,
    },
    Switch(Box<SwitchTable>),
    Enter(Box<Enter>),
    /// The back-edge of a counted loop, which falls through when no iteration is left.
    Next {
        left: Reg,
        i: Reg,
        step: Reg,
        body: Pc,
    },
    /// A call, which stores the position to return to in the callee's `link` register.
    Call {
        to: Pc,
        link: Reg,
    },
    Return {
        link: Reg,
    },
    Load {
        dst: Reg,
        at: Reg,
        how: AccessMode,
    },
    Store {
        at: Reg,
        value: Reg,
        how: AccessMode,
    },
    LoadWide(Box<LoadWide>),
    StoreWide(Box<StoreWide>),
    Modify(Box<Modify>),
    Cas(Box<Cas>),
    Fence {
        order: Order,
        scope: Scope,
    },
    Sync(Box<LaneSync>),
    Clock {
        dst: Reg,
    },
    Backoff {
        ns: Reg,
    },
    Trap {
        code: Reg,
    },
    Fault {
        code: Reg,
    },
    End,
}

const _: () = assert!(size_of::<Step>() == 24, "a step has outgrown its place in the cache");

/// A pure op with three operands.
#[derive(Debug)]
pub(super) struct Pure3 {
    pub f: PureFunction,
    pub dst: Reg,
    pub args: [Reg; 3],
}

/// A choice by number.
#[derive(Debug)]
pub(super) struct SwitchTable {
    pub on: Reg,
    /// Sorted by number.
    pub cases: Vec<(u32, Pc)>,
    pub default: Pc,
}

impl SwitchTable {
    /// Returns the position to which a number leads.
    pub(crate) fn find(&self, number: u32) -> Pc {
        let found = self.cases.binary_search_by_key(&number, |(on, _)| *on);
        found.map_or(self.default, |k| self.cases[k].1)
    }
}

/// The start of a counted loop, which computes the number of iterations and jumps if there are none.
#[derive(Debug)]
pub(super) struct Enter {
    pub left: Reg,
    pub i: Reg,
    pub from: Reg,
    pub to: Reg,
    pub step: Reg,
    pub signed: bool,
    pub or: Pc,
}

/// A load of several elements into consecutive registers.
#[derive(Debug)]
pub(super) struct LoadWide {
    pub dst: Reg,
    pub count: u32,
    pub at: Reg,
    pub how: AccessMode,
}

/// A store of several elements.
#[derive(Debug)]
pub(super) struct StoreWide {
    pub at: Reg,
    pub values: Vec<Reg>,
    pub how: AccessMode,
}

/// An atomic that stores a function of the old value and its operand.
#[derive(Debug)]
pub(super) struct Modify {
    pub f: PureFunction,
    pub dst: Reg,
    pub at: Reg,
    pub value: Reg,
    pub how: AccessMode,
}

/// An atomic that stores if the old value is the expected one.
#[derive(Debug)]
pub(super) struct Cas {
    pub dst: Reg,
    pub at: Reg,
    pub expected: Reg,
    pub desired: Reg,
    pub how: AccessMode,
}

/// An op that lanes execute together. `a` is the value, and `from` is the lane whose value is requested.
#[derive(Debug)]
pub(super) struct LaneSync {
    pub op: Op,
    pub dst: Reg,
    pub a: Reg,
    pub from: Reg,
    /// The function with which a reduction combines values.
    pub f: Option<PureFunction>,
}

impl LaneSync {
    /// Returns whether the whole group executes the op, and not just a subgroup.
    pub(crate) fn group(&self) -> bool {
        matches!(self.op, Op::Barrier | Op::GroupBroadcast)
    }
}

impl Step {
    /// Visits the registers that the step reads.
    pub(crate) fn reads(&self, mut visit: impl FnMut(Reg)) {
        let mut all = |regs: &[Reg]| regs.iter().copied().for_each(&mut visit);
        match self {
            Step::Move { src, .. } => all(&[*src]),
            Step::Pure { a, b, .. } | Step::Compare { a, b, .. } => all(&[*a, *b]),
            Step::Pure3(pure) => all(&pure.args),
            Step::Branch { c, .. } => all(&[*c]),
            Step::Switch(switch) => all(&[switch.on]),
            Step::Enter(enter) => all(&[enter.from, enter.to, enter.step]),
            Step::Next { left, i, step, .. } => all(&[*left, *i, *step]),
            Step::Return { link } => all(&[*link]),
            Step::Load { at, .. } => all(&[*at]),
            Step::Store { at, value, .. } => all(&[*at, *value]),
            Step::LoadWide(wide) => all(&[wide.at]),
            Step::StoreWide(wide) => {
                all(&[wide.at]);
                all(&wide.values);
            }
            Step::Modify(modify) => all(&[modify.at, modify.value]),
            Step::Cas(cas) => all(&[cas.at, cas.expected, cas.desired]),
            Step::Sync(sync) => all(&[sync.a, sync.from]),
            Step::Backoff { ns: reg } | Step::Trap { code: reg } | Step::Fault { code: reg } => all(&[*reg]),
            Step::Jump { .. } | Step::Call { .. } | Step::Fence { .. } | Step::Clock { .. } | Step::End => {}
        }
    }

    /// Visits the registers that the step writes, as the first register and the number of consecutive registers.
    pub(crate) fn writes(&self, mut visit: impl FnMut(Reg, u32)) {
        match self {
            Step::Move { dst, .. }
            | Step::Pure { dst, .. }
            | Step::Load { dst, .. }
            | Step::Clock { dst } => visit(*dst, 1),
            Step::Pure3(pure) => visit(pure.dst, 1),
            Step::LoadWide(wide) => visit(wide.dst, wide.count),
            Step::Modify(modify) => visit(modify.dst, 1),
            Step::Cas(cas) => visit(cas.dst, 1),
            Step::Sync(sync) => visit(sync.dst, 1),
            Step::Enter(enter) => {
                visit(enter.left, 1);
                visit(enter.i, 1);
            }
            Step::Next { left, i, .. } => {
                visit(*left, 1);
                visit(*i, 1);
            }
            Step::Call { link, .. } => visit(*link, 1),
            _ => {}
        }
    }

    /// Returns whether a step other than the next one may follow.
    pub(crate) fn leaves(&self) -> bool {
        matches!(
            self,
            Step::Jump { .. }
                | Step::Branch { .. }
                | Step::Compare { .. }
                | Step::Switch(_)
                | Step::Enter(_)
                | Step::Next { .. }
                | Step::Call { .. }
                | Step::Return { .. }
                | Step::End
        )
    }

    /// Visits the positions to which the step may jump, except for the target of a call.
    pub(crate) fn targets(&mut self, mut visit: impl FnMut(&mut Pc)) {
        match self {
            Step::Jump { to: pc } | Step::Branch { or: pc, .. } | Step::Compare { or: pc, .. } => visit(pc),
            Step::Next { body, .. } => visit(body),
            Step::Enter(enter) => visit(&mut enter.or),
            Step::Switch(switch) => {
                switch.cases.iter_mut().for_each(|(_, pc)| visit(pc));
                visit(&mut switch.default);
            }
            _ => {}
        }
    }
}
