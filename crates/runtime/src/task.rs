//! What producers submit.

use crate::protocol::packed::Packed;
use crate::protocol::work::{Item, Window};
use crate::protocol::{Malformed, Opcode, Priority, slot};

/// A task: an opcode, up to twelve arguments, a priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// What to do.
    pub op: Opcode,
    /// How urgent it is.
    pub priority: Priority,
    /// Its arguments; those that are not given are 0.
    pub args: [u32; slot::ARGS],
}

impl Task {
    /// A task without arguments, of the ordinary priority.
    pub const fn new(op: Opcode) -> Self {
        Task { op, priority: Priority::Normal, args: [0; slot::ARGS] }
    }

    /// Sets the first arguments. More than twelve do not compile.
    #[inline]
    pub const fn args<const N: usize>(mut self, args: [u32; N]) -> Self {
        const { assert!(N <= slot::ARGS, "a task has at most twelve arguments") };
        let mut at = 0;
        while at < N {
            self.args[at] = args[at];
            at += 1;
        }
        self
    }

    /// Sets how urgent it is.
    pub const fn priority(self, priority: Priority) -> Self {
        Task { priority, ..self }
    }
}

/// Several small tasks in one.
impl TryFrom<&Packed> for Task {
    type Error = Malformed;
    fn try_from(packed: &Packed) -> Result<Task, Malformed> {
        Ok(Task::new(Opcode::PACKED_SLOT).args(packed.encode()?))
    }
}

impl From<Item> for Task {
    fn from(item: Item) -> Task {
        let (op, args) = item.encode();
        Task::new(op).args(args)
    }
}

impl Task {
    /// A window for a handler of an opcode.
    pub fn window(op: Opcode, window: &Window) -> Task {
        Task::new(op).args(window.encode())
    }
}
