//! The surroundings of an instruction: regions that jumps can leave, and how many lanes are there together.
//!
//! All lanes must reach barriers and subgroup ops together, and the validator decides where that holds. A generator
//! that tried statements and was refused would waste most of its work, so this one does the same accounting in a
//! simpler form. Where the validator follows what comes later in a loop back to the loop's start, the generator
//! chooses a *plan* at the start, and what comes later keeps to it.

use pelton_ir::arena::Inst;
use pelton_ir::op::Op;
use pelton_ir::types::Type;
use pelton_ir::valid::UniformLevel;

use crate::scope::LeveledOperand;

/// The type of a value to be returned or carried, and how uniform the value is.
pub(crate) type LeveledType = (Type, UniformLevel);

/// A function's body, or an instruction with regions of which one is being written.
#[derive(Debug)]
pub(crate) struct RegionFrame {
    /// The instruction and its op; `None` for the function's body.
    pub nest: Option<(Inst, Op)>,
    /// The results. For a function the levels are a plan; otherwise each is the lowest level among the values given
    /// so far.
    pub results: Vec<LeveledType>,
    /// The values that a loop carries, with their planned levels.
    pub carried: Vec<LeveledType>,
    /// How uniform control is at the start of a region; for loops this is a plan.
    pub start: UniformLevel,
    /// How uniform control is at the current place.
    pub control: UniformLevel,
    /// The least uniform control among jumps from inside to frames further out.
    pub escape: Option<UniformLevel>,
    /// The fuel that the next iteration of a `while` or `forever` receives, which is the first of the carried
    /// values.
    pub fuel: Option<LeveledOperand>,
    /// Whether the test of a `while` is being written.
    pub test: bool,
}

impl RegionFrame {
    /// Creates a frame whose control starts at a level.
    pub(crate) fn new(nest: Option<(Inst, Op)>, start: UniformLevel) -> Self {
        RegionFrame {
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

    /// Whether the frame is a loop.
    pub(crate) fn loops(&self) -> bool {
        self.nest.is_some_and(|(_, op)| op.is_loop())
    }

    /// Whether the frame's regions run unconditionally.
    pub(crate) fn sure(&self) -> bool {
        self.nest.is_none_or(|(_, op)| op == Op::Block)
    }
}

/// A jump that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Jump {
    /// `break`, `continue` or `return`.
    pub op: Op,
    /// The index of the frame that the jump goes to.
    pub to: usize,
}

/// The jumps from the innermost frame that respect the plans of all frames, the nearest first. Frames below `floor`
/// are out of reach.
pub(crate) fn possible_jumps(frames: &[RegionFrame], floor: usize) -> Vec<Jump> {
    let mut found = Vec::new();
    let Some(control) = frames.last().map(|frame| frame.control) else { return found };
    let keeps = |slots: &[LeveledType]| slots.iter().all(|(_, level)| control >= *level);
    for (to, frame) in frames.iter().enumerate().skip(floor).rev() {
        let whole = !frame.loops() || control >= frame.start;
        match frame.nest {
            Some((_, op)) => {
                if (op == Op::Block || op.is_loop()) && whole {
                    found.push(Jump { op: Op::Break, to });
                }
                if op.is_loop() && !frame.test && keeps(&frame.carried) {
                    found.push(Jump { op: Op::Continue, to });
                }
            }
            None if keeps(&frame.results) => found.push(Jump { op: Op::Return, to }),
            None => {}
        }
        // A jump that goes further leaves this frame as well.
        if !whole {
            break;
        }
    }
    found
}
