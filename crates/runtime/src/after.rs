//! Tasks that wait for an event before they begin.

use crate::payload::{Payload, PayloadTask, Submission, TaskParts};
use crate::task::Task;

/// A task that begins after an event was signalled often enough. [`Task::after`] and [`PayloadTask::after`] make one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskAfter<S> {
    /// What is submitted.
    pub submission: S,
    /// What it waits for.
    pub condition: EventCondition,
}

/// An event, and how often it must have been signalled since the session's start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventCondition {
    /// The number of the event among those of the tenant.
    pub event: u32,
    /// The count that the event must have reached.
    pub count: u32,
}

impl EventCondition {
    /// Returns the condition as the word that the kernel reads.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.event) | u64::from(self.count) << 32
    }
}

impl Task {
    /// Lets the task wait for an event of its tenant before it begins, until the event was signalled at least `count` times
    /// since the session's start. Meanwhile it holds a cell and nothing else. The session needs
    /// [events](crate::Spec::events()).
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Opcode, Session, Spec, Task, device};
    ///
    /// let spec = Spec::default().events(1);
    /// let session = Session::launch(&device::open("cpu")?, &spec)?;
    /// let mut producer = session.producer(0)?;
    /// let mut second = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([10, 0]).after(0, 1))?;
    /// let mut first = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([1, 0]))?;
    /// assert_eq!(first.wait(Duration::from_secs(60))?, 0);
    /// session.signal(0, 0, 1)?;
    /// assert_eq!(second.wait(Duration::from_secs(60))?, 1, "it has waited for the signal");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn after(self, event: u32, count: u32) -> TaskAfter<Task> {
        TaskAfter { submission: self, condition: EventCondition { event, count } }
    }
}

impl<'p> PayloadTask<'p> {
    /// Lets the task wait for an event before it begins, as [`Task::after`] does.
    pub const fn after(self, event: u32, count: u32) -> TaskAfter<PayloadTask<'p>> {
        TaskAfter { submission: self, condition: EventCondition { event, count } }
    }
}

impl<S: Submission> Submission for TaskAfter<S> {}

impl<S: Submission> TaskParts for TaskAfter<S> {
    const BRINGS: bool = S::BRINGS;
    const HAS_CONDITION: bool = true;

    fn task(&self) -> Task {
        self.submission.task()
    }

    fn payload(&self) -> Payload<'_> {
        self.submission.payload()
    }

    fn condition(&self) -> Option<EventCondition> {
        Some(self.condition)
    }
}
