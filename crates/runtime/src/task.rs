//! Tasks: what producers submit.

use crate::protocol::packed::Packed;
use crate::protocol::{Malformed, Opcode, Priority, slot};

/// A task for the kernel: an opcode, up to twelve arguments, and a priority.
///
/// ```
/// use pelton::{Opcode, Priority, Task};
///
/// let task = Task::new(Opcode::ATOMIC_ADD).args([5, 0]).priority(Priority::High);
/// assert_eq!(task.args[..3], [5, 0, 0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// The opcode, which says which handler or built-in operation runs the task.
    pub op: Opcode,
    /// How urgent the task is.
    pub priority: Priority,
    /// The arguments. Those that were not set are 0.
    pub args: [u32; slot::ARGS],
}

impl Task {
    /// Makes a task with normal priority whose arguments are all 0.
    pub const fn new(op: Opcode) -> Self {
        Task { op, priority: Priority::Normal, args: [0; slot::ARGS] }
    }

    /// Sets the first arguments. An array of more than twelve arguments does not compile.
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

    /// Sets the first arguments from a slice, whose length need not be known at compile time.
    ///
    /// # Errors
    ///
    /// [`Malformed::Long`] if there are more than twelve arguments.
    ///
    /// ```
    /// # use pelton::{Opcode, Task};
    /// let words = vec![64, 5];
    /// let task = Task::new(Opcode::NOP).args_from(&words)?;
    /// assert_eq!(task.args[..3], [64, 5, 0]);
    /// assert!(Task::new(Opcode::NOP).args_from(&[0; 13]).is_err());
    /// # Ok::<(), pelton::protocol::Malformed>(())
    /// ```
    pub fn args_from(mut self, args: &[u32]) -> Result<Self, Malformed> {
        let found = args.len();
        let too_long = Malformed::Long { what: "task", found, most: slot::ARGS };
        self.args.get_mut(..found).ok_or(too_long)?.copy_from_slice(args);
        Ok(self)
    }

    /// Sets the argument at an index to a value of any [`Argument`] type. A `u64` takes up two arguments, its low half
    /// first, and the other types take up one.
    ///
    /// # Errors
    ///
    /// [`Malformed::Long`] if the value would reach beyond the twelfth argument.
    ///
    /// ```
    /// # use pelton::{Opcode, Task};
    /// let task = Task::new(Opcode::NOP).arg(0, 1.5f32)?.arg(1, 7u64 << 32 | 9)?.arg(3, -1i32)?;
    /// assert_eq!(task.args[..4], [1.5f32.to_bits(), 9, 7, u32::MAX]);
    /// assert!(Task::new(Opcode::NOP).arg(11, 0u64).is_err());
    /// # Ok::<(), pelton::protocol::Malformed>(())
    /// ```
    pub fn arg(mut self, at: usize, value: impl Argument) -> Result<Self, Malformed> {
        let (words, count) = value.argument_words();
        let found = at.saturating_add(count);
        let too_long = Malformed::Long { what: "task", found, most: slot::ARGS };
        self.args.get_mut(at..found).ok_or(too_long)?.copy_from_slice(&words[..count]);
        Ok(self)
    }

    /// Sets how urgent the task is. A priority other than normal needs a session whose `Spec` has
    /// [`Claim::Priority`](crate::Claim::Priority).
    pub const fn priority(self, priority: Priority) -> Self {
        Task { priority, ..self }
    }
}

mod sealed {
    /// A value that can be stored in argument words.
    pub trait ArgumentWords {
        /// Returns the words, and how many of them are used.
        fn argument_words(self) -> ([u32; 2], usize);
    }
}

/// A type that an argument of a task can have: `u32`, `i32`, `f32` or `u64`. See [`Task::arg`].
pub trait Argument: sealed::ArgumentWords {}

macro_rules! arguments {
    ($($t:ty: |$x:ident| $words:expr;)*) => {$(
        impl sealed::ArgumentWords for $t {
            #[inline]
            fn argument_words(self) -> ([u32; 2], usize) {
                let $x = self;
                $words
            }
        }
        impl Argument for $t {}
    )*};
}

arguments! {
    u32: |x| ([x, 0], 1);
    i32: |x| ([x as u32, 0], 1);
    f32: |x| ([x.to_bits(), 0], 1);
    u64: |x| ([x as u32, (x >> 32) as u32], 2);
}

/// Makes the task that carries several packed operations.
impl TryFrom<&Packed> for Task {
    type Error = Malformed;
    fn try_from(packed: &Packed) -> Result<Task, Malformed> {
        Ok(Task::new(Opcode::PACKED_SLOT).args(packed.encode()?))
    }
}
