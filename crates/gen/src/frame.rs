//! What is around an instruction: regions that jumps can leave, and the lanes that are there.
//!
//! Barriers and subgroup ops must be met by all lanes, and the validator finds out where that holds. A generator that
//! tried and was refused would waste most of its work, so it keeps the same books, only simpler: where the
//! validator follows what comes later in a loop back to its start, here the start says a *plan* first, and what
//! comes later keeps to it.

use pelton_ir::arena::Inst;
use pelton_ir::op::Op;
use pelton_ir::types::Type;
use pelton_ir::valid::Level;

use crate::scope::Given;

/// A value to be given or carried: its type, and how uniform it is.
pub type Slot = (Type, Level);

/// A function's body, or an instruction with regions of which one is being written.
#[derive(Debug)]
pub struct Frame {
    /// The instruction and its op; none for the body.
    pub nest: Option<(Inst, Op)>,
    /// What it gives. A function's levels are a plan; others are as low as what has been given so far.
    pub results: Vec<Slot>,
    /// What a loop carries, by plan.
    pub carried: Vec<Slot>,
    /// How uniform control is at the start of a region; of loops, by plan.
    pub start: Level,
    /// How uniform control is here.
    pub control: Level,
    /// The least control of jumps from inside to frames further out.
    pub escape: Option<Level>,
    /// The fuel that the next iteration of a `while` or `forever` gets. It is the first of the carried values.
    pub fuel: Option<Given>,
    /// Whether the test of a `while` is being written.
    pub test: bool,
}

impl Frame {
    /// A frame whose control starts so.
    pub fn new(nest: Option<(Inst, Op)>, start: Level) -> Self {
        Frame {
            nest,
            results: Vec::new(),
            carried: Vec::new(),
            start,
            control: start,
            escape: None,
            fuel: None,
            test: false,
        }
    }

    /// Whether it is a loop.
    pub fn loops(&self) -> bool {
        self.nest.is_some_and(|(_, op)| op.loops())
    }

    /// Whether its regions run in any case.
    pub fn sure(&self) -> bool {
        self.nest.is_none_or(|(_, op)| op == Op::Block)
    }
}

/// A jump that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// `break`, `continue` or `return`.
    pub op: Op,
    /// The frame it goes to.
    pub to: usize,
}

/// The jumps from the innermost frame that keep to everyone's plan, the nearest first. Frames below `floor` are out of
/// reach.
pub fn jumps(frames: &[Frame], floor: usize) -> Vec<Jump> {
    let mut found = Vec::new();
    let Some(control) = frames.last().map(|frame| frame.control) else { return found };
    let keeps = |slots: &[Slot]| slots.iter().all(|(_, level)| control >= *level);
    for (to, frame) in frames.iter().enumerate().skip(floor).rev() {
        let whole = !frame.loops() || control >= frame.start;
        match frame.nest {
            Some((_, op)) => {
                if (op == Op::Block || op.loops()) && whole {
                    found.push(Jump { op: Op::Break, to });
                }
                if op.loops() && !frame.test && keeps(&frame.carried) {
                    found.push(Jump { op: Op::Continue, to });
                }
            }
            None if keeps(&frame.results) => found.push(Jump { op: Op::Return, to }),
            None => {}
        }
        // To go further is to leave this one too.
        if !whole {
            break;
        }
    }
    found
}
