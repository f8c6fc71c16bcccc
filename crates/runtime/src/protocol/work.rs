//! Work items and windows: two ways to lay out the arguments of a slot.

use super::slot::{ARG, ARGS};
use super::table::codes;
use super::{Malformed, Opcode, Place};

/// Payload words of a window.
pub const PAYLOAD: usize = ARGS - 2;

/// A work item: an operation on an input and an output, with one parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Item {
    /// What to do.
    pub op: Opcode,
    /// Argument 0: what it reads.
    pub input: u32,
    /// Argument 1: what it writes.
    pub output: u32,
    /// Argument 2: how.
    pub param: u32,
}

impl Item {
    /// The opcode and arguments of its slot.
    pub fn encode(&self) -> (Opcode, [u32; ARGS]) {
        let mut args = [0; ARGS];
        args[..3].copy_from_slice(&[self.input, self.output, self.param]);
        (self.op, args)
    }

    /// The item of a slot, whose other arguments must be zero.
    pub fn decode(op: Opcode, args: &[u32; ARGS]) -> Result<Item, Malformed> {
        let [input, output, param, rest @ ..] = *args;
        match rest.iter().rposition(|word| *word != 0) {
            Some(last) => Err(Malformed::Long { what: "work item", found: 4 + last, most: 3 }),
            None => Ok(Item { op, input, output, param }),
        }
    }
}

codes! {
    /// Whether a window is needed.
    Class {
        Required  0 "REQUIRED"  "Its result is waited for.";
        Lookahead 1 "LOOKAHEAD" "It may be needed later.";
    }
}

/// A window of work: a ticket of the asker's, a class and a payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Argument 0: the asker's own.
    pub ticket: u32,
    /// Argument 1: whether it is needed.
    pub class: Class,
    /// Arguments 2 to 11; zero where nothing was given.
    pub payload: [u32; PAYLOAD],
}

impl Window {
    /// A window with a payload of at most ten words.
    pub fn new(ticket: u32, class: Class, payload: &[u32]) -> Result<Window, Malformed> {
        let mut words = [0; PAYLOAD];
        match words.get_mut(..payload.len()) {
            Some(to) => to.copy_from_slice(payload),
            None => {
                return Err(Malformed::Long { what: "window payload", found: payload.len(), most: PAYLOAD });
            }
        }
        Ok(Window { ticket, class, payload: words })
    }

    /// The arguments of its slot.
    pub fn encode(&self) -> [u32; ARGS] {
        let mut args = [0; ARGS];
        args[0] = self.ticket;
        args[1] = self.class.code();
        args[2..].copy_from_slice(&self.payload);
        args
    }

    /// The window of a slot.
    pub fn decode(args: &[u32; ARGS]) -> Result<Window, Malformed> {
        let [ticket, class, payload @ ..] = *args;
        let class = Class::of(class).ok_or(Malformed::Word {
            place: Place::Window,
            word: ARG + 1,
            name: "class",
            value: class.into(),
            why: "which is no class of a window",
        })?;
        Ok(Window { ticket, class, payload })
    }
}
