//! Tasks that bring a payload, and what all tasks have in common when they are submitted.

use crate::protocol::{Priority, slot};
use crate::task::Task;

/// The bytes that a task brings along, as the caller has them. They are copied to the task's place when the task is
/// submitted, so the caller may use them for something else right after.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Payload<'p> {
    /// The payload is bytes. A handler finds four of them in a word, the first one lowest.
    Bytes(&'p [u8]),
    /// The payload is words.
    Words(&'p [u32]),
}

impl Payload<'_> {
    /// The payload of a task that brings none.
    pub const NONE: Payload<'static> = Payload::Bytes(&[]);

    /// Returns how many bytes the payload has.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Words(words) => size_of_val(*words),
        }
    }

    /// Returns whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A task together with its payload. [`Task::bytes`] and [`Task::words`] make one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PayloadTask<'p> {
    /// The task.
    pub task: Task,
    /// What the task brings along.
    pub payload: Payload<'p>,
}

impl PayloadTask<'_> {
    /// Sets the first arguments of the task, as [`Task::args`] does.
    pub const fn args<const N: usize>(self, args: [u32; N]) -> Self {
        const { assert!(N <= slot::ARGS, "a task has at most twelve arguments") };
        PayloadTask { task: self.task.args(args), payload: self.payload }
    }

    /// Sets how urgent the task is, as [`Task::priority`] does.
    pub const fn priority(self, priority: Priority) -> Self {
        PayloadTask { task: self.task.priority(priority), payload: self.payload }
    }
}

impl Task {
    /// Adds a payload of bytes. A session or a drain takes it if its [`Spec`](crate::Spec) has
    /// [payloads](crate::Spec::payload()) that are large enough.
    ///
    /// ```
    /// # use pelton::{Opcode, Task};
    /// let greeting = Task::new(Opcode::NOP).args([3]).bytes(b"hello");
    /// assert_eq!(greeting.payload.len(), 5);
    /// ```
    pub const fn bytes(self, bytes: &[u8]) -> PayloadTask<'_> {
        PayloadTask { task: self, payload: Payload::Bytes(bytes) }
    }

    /// Adds a payload of words, as [`bytes`](Task::bytes) adds one of bytes.
    pub const fn words(self, words: &[u32]) -> PayloadTask<'_> {
        PayloadTask { task: self, payload: Payload::Words(words) }
    }
}

mod sealed {
    use super::{Payload, Task};
    use crate::after::EventCondition;

    /// What a producer needs of whatever is submitted.
    pub trait TaskParts: Copy {
        /// Whether there may be a payload.
        const BRINGS: bool;
        /// Whether the task waits for an event before it begins.
        const HAS_CONDITION: bool = false;
        /// Returns the task without its payload.
        fn task(&self) -> Task;
        /// Returns what the task brings along.
        fn payload(&self) -> Payload<'_>;
        /// Returns what the task waits for before it begins.
        #[inline(always)]
        fn condition(&self) -> Option<EventCondition> {
            None
        }
    }
}
pub(crate) use sealed::TaskParts;

/// What can be submitted: a [`Task`], a [`PayloadTask`], or either of them as a [`TaskAfter`](crate::TaskAfter).
pub trait Submission: TaskParts {}

impl Submission for Task {}
impl Submission for PayloadTask<'_> {}

impl TaskParts for Task {
    const BRINGS: bool = false;

    #[inline(always)]
    fn task(&self) -> Task {
        *self
    }

    #[inline(always)]
    fn payload(&self) -> Payload<'_> {
        Payload::NONE
    }
}

impl TaskParts for PayloadTask<'_> {
    const BRINGS: bool = true;

    #[inline]
    fn task(&self) -> Task {
        self.task
    }

    #[inline]
    fn payload(&self) -> Payload<'_> {
        self.payload
    }
}
