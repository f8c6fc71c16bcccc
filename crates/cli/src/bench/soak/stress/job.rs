//! What one task of the load `stress` has to do, and how it may end.

use pelton::protocol::FaultCode;
use pelton::{Opcode, Task, TaskError};

use super::handlers::{FAULT, StressOps, row_word};
use crate::bench::soak::random_graph::{Random, mix_word};

/// The most pieces of work of a tree.
const MOST_PIECES: u32 = 32;
/// The most times that a task yields.
const MOST_YIELDS: u32 = 12;

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventOf {
    /// That of the producer alone.
    Producer = 0,
    /// That of all producers of the tenant.
    Tenant = 1,
}

impl EventOf {
    pub(super) const ALL: [EventOf; 2] = [EventOf::Producer, EventOf::Tenant];

    pub(super) fn random(random: &mut Random) -> Self {
        EventOf::ALL[random.below(2) as usize]
    }
}

/// What a task has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobKind {
    /// One piece of work, perhaps with a fault.
    Plain { fault: bool },
    /// A built-in operation, which adds the number to the row.
    BuiltIn,
    /// Several steps at several levels.
    Steps { yields: u32, level: u32 },
    /// It parks until it is resumed.
    Parks,
    /// A tree of tasks, perhaps with a fault in one piece of work.
    Tree { pieces: u32, fault: Option<u32> },
    /// It waits for an event.
    Waits { event: EventOf, count: u32 },
    /// It signals an event.
    Signals { event: EventOf, times: u32 },
    /// A built-in operation, which signals an event and leaves nothing in the row.
    BuiltInSignal { event: EventOf, times: u32 },
}

/// How a task ended, as far as the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JobEnd {
    /// It did all that it had to do.
    Whole,
    /// It was cancelled after so many steps.
    Cancelled { steps: u32 },
    /// Nobody was told, but it was cancelled or did all that it had to do.
    Unknown,
}

/// A task of the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub kind: JobKind,
    /// The number of the first piece of work.
    pub number: u32,
}

/// The words of a row, or by how much they have changed.
pub(super) type Row = [u32; row_word::WORDS as usize];

impl Job {
    /// A random job. A task that waits for an event waits for one of the counts from `counts` on.
    pub(super) fn random(random: &mut Random, counts: [u32; EventOf::ALL.len()]) -> Self {
        let event = EventOf::random(random);
        let kind = match random.below(16) {
            0..=2 => JobKind::Plain { fault: random.one_in(8) },
            3 => JobKind::BuiltIn,
            4 | 5 => JobKind::Steps { yields: random.below(MOST_YIELDS + 1), level: random.below(5) },
            6 => JobKind::Parks,
            7..=12 => {
                let pieces = 1 + random.below(MOST_PIECES);
                JobKind::Tree { pieces, fault: random.one_in(8).then(|| random.below(pieces)) }
            }
            13 => JobKind::Waits { event, count: counts[event as usize] + random.below(8) },
            14 => JobKind::Signals { event, times: 1 + random.below(3) },
            _ => JobKind::BuiltInSignal { event, times: 1 + random.below(3) },
        };
        Job { kind, number: random.next_word() }
    }

    /// The task for a job, given where its row begins and the numbers of the events.
    pub(super) fn task(&self, ops: &StressOps, row: u32, events: [u32; EventOf::ALL.len()]) -> Task {
        let (number, number_of) = (self.number, |event: EventOf| events[event as usize]);
        match self.kind {
            JobKind::Plain { fault } => {
                Task::new(ops.plain).args([row, number, if fault { FAULT } else { 0 }])
            }
            JobKind::BuiltIn => Task::new(Opcode::ATOMIC_ADD).args([number, row + row_word::ADDED]),
            JobKind::Steps { yields, level } => Task::new(ops.steps).args([row, number, yields, level]),
            JobKind::Parks => Task::new(ops.parks).args([row, number]),
            JobKind::Tree { pieces, fault } => {
                // The number after the last piece is that of none.
                let faulty = number.wrapping_add(fault.unwrap_or(pieces));
                Task::new(ops.tree).args([row, number, pieces, faulty])
            }
            JobKind::Waits { event, count } => {
                Task::new(ops.waits).args([row, number, number_of(event), count])
            }
            JobKind::Signals { event, times } => {
                Task::new(ops.signals).args([row, number, number_of(event), times])
            }
            JobKind::BuiltInSignal { event, times } => {
                Task::new(Opcode::SIGNAL).args([number_of(event), times])
            }
        }
    }

    /// Which event the job signals if it runs, and how often.
    pub(super) fn signals(&self) -> Option<(EventOf, u32)> {
        match self.kind {
            JobKind::Signals { event, times } | JobKind::BuiltInSignal { event, times } => {
                Some((event, times))
            }
            _ => None,
        }
    }

    /// Whether a task of this kind can wait for an event before it begins.
    pub(super) fn can_wait(&self) -> bool {
        !matches!(self.kind, JobKind::BuiltInSignal { .. })
    }

    /// What the whole job adds to its row.
    fn whole_row(&self) -> Row {
        let pieces = |count: u32| (0..count).map(|at| mix_word(self.number.wrapping_add(at)));
        let sum = |count: u32| pieces(count).fold(0, u32::wrapping_add);
        match self.kind {
            JobKind::Plain { .. } | JobKind::Signals { .. } => [1, sum(1), 0, 0],
            JobKind::BuiltIn => [0, 0, 0, self.number],
            JobKind::Steps { yields, .. } => [1, sum(1), yields + 1, 0],
            JobKind::Parks | JobKind::Waits { .. } => [1, sum(1), 2, 0],
            JobKind::Tree { pieces, .. } => [pieces, sum(pieces), 0, 0],
            JobKind::BuiltInSignal { .. } => [0; 4],
        }
    }

    /// Checks how the task ended, given whether somebody has cancelled it, and what its row held before.
    pub(super) fn check_end(
        &self,
        end: Result<u32, TaskError>,
        cancelled: bool,
        row: Row,
    ) -> Result<JobEnd, String> {
        let fault = |code: FaultCode| match self.kind {
            JobKind::Plain { fault } => fault && code.code() == FAULT,
            // The root itself has the fault if it found no room for children.
            JobKind::Tree { pieces, fault } => {
                fault.is_some() && (code.code() == FAULT || pieces > 1 && code == FaultCode::CHILD)
            }
            _ => false,
        };
        let must_fault =
            matches!(self.kind, JobKind::Plain { fault: true } | JobKind::Tree { fault: Some(_), .. });
        let result = match self.kind {
            JobKind::BuiltIn => row[row_word::ADDED as usize],
            JobKind::BuiltInSignal { .. } => 0,
            _ => self.whole_row()[row_word::SUM as usize],
        };
        match end {
            Ok(found) if !must_fault && found == result => Ok(JobEnd::Whole),
            Err(TaskError::Fault(found)) if fault(found.code) => Ok(JobEnd::Whole),
            Err(TaskError::Cancelled { steps }) if cancelled => Ok(JobEnd::Cancelled { steps }),
            Ok(found) => Err(format!("it returned {found:#x}, not {result:#x}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Checks by how much the row has changed.
    pub(super) fn check_row(&self, change: Row, end: JobEnd) -> Result<(), String> {
        let whole = self.whole_row();
        let right = match end {
            JobEnd::Whole => change == whole,
            JobEnd::Cancelled { steps } => self.is_part(change, Some(steps)),
            JobEnd::Unknown => change == whole || self.is_part(change, None),
        };
        if right { Ok(()) } else { Err(format!("its row changed by {change:?} and not {whole:?} ({end:?})")) }
    }

    /// Whether the task did all that it had to do, given by how much the row has changed.
    pub(super) fn ran_whole(&self, change: Row, end: JobEnd) -> bool {
        end == JobEnd::Whole || end == JobEnd::Unknown && change == self.whole_row()
    }

    /// Whether a job that was cancelled after so many steps may have changed its row like this.
    fn is_part(&self, change: Row, steps: Option<u32>) -> bool {
        let [runs, sum, begun, added] = change;
        let whole = self.whole_row();
        let right_steps = steps.is_none_or(|steps| steps == begun);
        match self.kind {
            // The kernel counts the steps of the root, and the row does not.
            JobKind::Tree { pieces, .. } => match runs {
                0 => change == [0; 4],
                _ if runs == pieces => change == whole,
                _ => runs < pieces && [begun, added] == [0; 2],
            },
            JobKind::Steps { .. } | JobKind::Parks | JobKind::Waits { .. } => {
                [runs, sum, added] == [0; 3] && begun < whole[row_word::STEPS as usize] && right_steps
            }
            _ => change == [0; 4] && right_steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_end_and_row_is_found() {
        let random = &mut Random::new(1);
        for _ in 0..1000 {
            let job = Job::random(random, [5, 6]);
            let (whole, found) = (job.whole_row(), [1, 2, 3, 77]);
            assert_eq!(job.check_row(whole, JobEnd::Whole), Ok(()));
            for at in 0..whole.len() {
                let mut wrong = whole;
                wrong[at] = wrong[at].wrapping_add(1);
                assert!(job.check_row(wrong, JobEnd::Whole).is_err(), "{job:?}: {wrong:?}");
                assert!(job.check_row(wrong, JobEnd::Cancelled { steps: 0 }).is_err(), "{job:?}: {wrong:?}");
            }
            if whole != [0; 4] {
                assert!(job.check_row([0; 4], JobEnd::Whole).is_err(), "{job:?}");
            }
            assert_eq!(job.check_row([0; 4], JobEnd::Cancelled { steps: 0 }), Ok(()), "{job:?}");
            let cancelled = Err(TaskError::Cancelled { steps: 0 });
            assert!(job.check_end(cancelled, false, found).is_err(), "nobody has cancelled it: {job:?}");
            assert_eq!(job.check_end(cancelled, true, found), Ok(JobEnd::Cancelled { steps: 0 }));
            assert!(job.check_end(Ok(12345), true, found).is_err(), "{job:?}");
            assert!(job.check_end(Err(TaskError::Late), true, found).is_err(), "{job:?}");
        }
    }
}
