//! What must hold, whatever goes wrong: the judge of a simulation.
//!
//! The model knows every task that was submitted, what it must come to, how it has ended as far as anybody has seen, and how
//! often it has run in all lives of all devices.

use std::collections::HashSet;

use pelton::device::Memory;
use pelton::{Class, TaskError};

use crate::workload::{Expected, Job, TASKS, TENANTS};
use crate::world::World;

/// What a simulation comes to: nothing, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

/// A task as far as the model knows it.
#[derive(Debug)]
pub(crate) struct ModelTask {
    pub(crate) tenant: u32,
    pub(crate) job: Job,
    pub(crate) cancelled: bool,
    /// Whether the ticket was dropped before the task was seen to have ended.
    pub(crate) forgotten: bool,
    /// Whether the tenant was paused when the task was submitted, and has not been resumed since.
    pub(crate) held_back: bool,
    /// How it has ended, its reply, and how often it had run when that was seen.
    pub(crate) end: Option<(Result<u32, TaskError>, Vec<u8>, u32)>,
}

/// Which ends are possible besides those that tasks come to by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionFate {
    Runs,
    /// It was stopped.
    Stopped,
    /// It could not go on.
    Lost,
}

/// How often each task of each tenant has run, in all lives of all devices.
pub(crate) struct RunCounts(Vec<u32>);

impl RunCounts {
    /// Returns the memory that has marks. It can still be read when the session that used it is no more.
    pub(crate) fn memories(world: &World) -> Vec<Memory> {
        world.device_memory((TASKS * TENANTS) as usize)
    }

    /// Counts the marks of now.
    pub(crate) fn take(world: &World) -> RunCounts {
        RunCounts::sum(&RunCounts::memories(world))
    }

    pub(crate) fn sum(memories: &[Memory]) -> RunCounts {
        let mut counts = vec![0; (TASKS * TENANTS) as usize];
        for memory in memories {
            let marks = memory.bits().expect("the remains of a device can be read");
            counts.iter_mut().zip(marks).for_each(|(count, mark)| *count += mark as u32);
        }
        RunCounts(counts)
    }

    pub(crate) fn of(&self, task: &ModelTask) -> u32 {
        self.0[(task.tenant * TASKS + task.job.id) as usize]
    }
}

impl ModelTask {
    pub(crate) fn new(tenant: u32, job: Job, held_back: bool) -> Self {
        ModelTask { tenant, job, cancelled: false, forgotten: false, held_back, end: None }
    }

    fn is_once(&self) -> bool {
        self.job.kind.class == Class::Once
    }

    fn wrong(&self, what: &str) -> Verdict {
        Err(format!("task {} of tenant {} ({}): {what}", self.job.id, self.tenant, self.job.kind.name))
    }

    /// Checks what holds at any moment.
    pub(crate) fn check(&self, counts: &RunCounts) -> Verdict {
        let runs = counts.of(self);
        if self.is_once() && runs > 1 {
            return self.wrong(&format!("must not run twice, and has run {runs} times"));
        }
        if self.held_back && runs > 0 {
            return self.wrong("runs although its tenant was paused before it was submitted");
        }
        match &self.end {
            Some((end, _, then)) if runs != *then => self.wrong(&format!(
                "has run again after it had ended as {end:?}: {then} times then, and {runs} now"
            )),
            _ => Ok(()),
        }
    }

    /// Notes how the task has ended, and checks whether it may end so.
    pub(crate) fn note_end(
        &mut self,
        (end, reply): (Result<u32, TaskError>, Vec<u8>),
        counts: &RunCounts,
        fate: SessionFate,
    ) -> Verdict {
        let runs = counts.of(self);
        let verdict = match (&end, (self.job.kind.expected)(&self.job)) {
            (Ok(result), Expected::Result(wanted, bytes)) => match () {
                () if *result != wanted => self.wrong(&format!("gave {result}, and not {wanted}")),
                () if reply != bytes => self.wrong(&format!("replied {reply:?}, and not {bytes:?}")),
                () if runs == 0 => self.wrong("has a result and has never run"),
                () => Ok(()),
            },
            (Err(TaskError::Fault(_)), Expected::Fault) if runs > 0 => Ok(()),
            (Err(TaskError::Cancelled { steps: 0 }), _) if self.cancelled => self.check_never_ran(runs, &end),
            (Err(TaskError::Stopped { steps: 0 }), _) if fate == SessionFate::Stopped => {
                self.check_never_ran(runs, &end)
            }
            (Err(TaskError::Lost { may_have_run: false, .. }), _) if fate != SessionFate::Runs => {
                if runs == 0 { Ok(()) } else { self.wrong("has run, and its ticket says that it has not") }
            }
            (Err(TaskError::Lost { may_have_run: true, .. }), _)
                if fate != SessionFate::Runs || self.is_once() =>
            {
                Ok(())
            }
            (end, wanted) => {
                self.wrong(&format!("ended as {end:?} after {runs} runs, and not as {wanted:?} ({fate:?})"))
            }
        };
        self.end = Some((end, reply, runs));
        verdict
    }

    /// A task of another class may have begun before a loss. What it did then is lost, as if it had never run.
    fn check_never_ran(&self, runs: u32, end: &Result<u32, TaskError>) -> Verdict {
        match self.is_once() && runs > 0 {
            true => self.wrong(&format!("has run, and its ticket says {end:?}")),
            false => Ok(()),
        }
    }

    /// Checks what holds once nothing is under way any more in a session that still runs.
    pub(crate) fn check_quiet(&self, counts: &RunCounts) -> Verdict {
        match &self.end {
            None if !self.forgotten => self.wrong("never ends"),
            None if counts.of(self) == 0 && !self.cancelled && !self.is_once() => {
                self.wrong("was forgotten and never ran")
            }
            _ => Ok(()),
        }
    }
}

/// What is known of fences and epochs.
#[derive(Debug, Default)]
pub(crate) struct EpochModel {
    /// The epochs that fences have had as their results.
    had: HashSet<u32>,
    told: u64,
}

impl EpochModel {
    /// Notes the result of a fence.
    pub(crate) fn note_fence(&mut self, epoch: u32) -> Verdict {
        match self.had.insert(epoch) {
            true => Ok(()),
            false => Err(format!("two fences have ended with epoch {epoch}")),
        }
    }

    /// Notes what a session says.
    pub(crate) fn note_epoch(&mut self, epoch: u64) -> Verdict {
        let least = self.had.iter().max().map_or(0, |epoch| u64::from(*epoch)).max(self.told);
        self.told = epoch;
        match epoch >= least {
            true => Ok(()),
            false => Err(format!("the epoch is {epoch}, and was {least}")),
        }
    }
}
