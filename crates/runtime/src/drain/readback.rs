//! The results of a run of drained batches.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pelton_device::View64;
use serde::Serialize;

use super::payload::{RunReplies, RunReply};
use crate::error::{Error, TaskError};
use crate::kernel::layout::Layout;
use crate::kernel::{Report, Spec, Telemetry};
use crate::protocol::control::{self, Control};
use crate::protocol::{CompletionRecord, Priority, Status};
use crate::session::{PlaceMemory, record_outcome};
use crate::telemetry::{NamedCount, StepCounts, opcode_counts, tenant_counts};

/// What happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Statistics {
    /// The number of slots in all batches.
    pub tasks: u64,
    /// The number of tasks that ended, well or with a fault.
    pub done: u64,
    /// The number of tasks that ended with a fault, or `None` if the report does not contain it.
    pub faults: Option<u64>,
    /// The number of slots that were left unchanged.
    pub left: u64,
    /// The number of tasks run per opcode, including those in packed slots.
    pub opcodes: Vec<NamedCount>,
    /// The number of tasks taken per tenant.
    pub tenants: Vec<NamedCount>,
    /// The number of tasks taken per priority.
    pub priorities: Vec<NamedCount>,
    /// The number of fences passed.
    pub epoch: u64,
    /// The number of debug records that found no room.
    pub lost: u64,
    /// What was counted of the steps of resumable handlers' tasks, or `None` if the kernel has no such handlers or counts
    /// nothing.
    pub steps: Option<StepCounts>,
    /// The number of launches that the run took.
    pub passes: u64,
    /// The duration of the run as the host measured it.
    pub wall: Duration,
}

/// The results of a run: how every task ended, unless the report contains only control words, and what was counted.
#[derive(Debug)]
pub struct Readback {
    statistics: Statistics,
    control: Control<Vec<u32>>,
    records: RunRecords,
    replies: RunReplies,
    /// The place of each task in the ring. This is empty if tasks stand in the order in which they were added.
    pub(super) order: Vec<usize>,
    /// The end of each batch among the tasks of all batches.
    pub(super) ends: Vec<usize>,
    full: bool,
}

/// The completion records of a run, by the place of the task in the ring.
#[derive(Debug, Default)]
struct RunRecords {
    /// The records of all passes but the last, with 0 for slots that were left.
    kept: Vec<u64>,
    /// The records of the last pass, where the kernel wrote them. They are read on demand. `None` if the report does
    /// not contain them.
    live: Option<View64>,
    generation: u32,
    count: usize,
}

impl RunRecords {
    /// Returns a record, or 0 for a slot that was left or that the run did not reach.
    fn get(&self, place: usize) -> u64 {
        let last = place.checked_sub(self.kept.len());
        last.map_or_else(|| self.kept[place], |at| self.last_pass(at))
    }

    /// Returns a record of the last pass.
    fn last_pass(&self, at: usize) -> u64 {
        let live = self.live.as_deref().filter(|_| at < self.count);
        // Relaxed: the launch that wrote the record has ended.
        let record = live.map_or(0, |live| live[at].load(Ordering::Relaxed));
        // A record of another generation belongs to an earlier pass, so this slot was left.
        if CompletionRecord(record).has_generation(self.generation) { record } else { 0 }
    }
}

/// An iterator over how tasks of a run ended, in the order in which they were added.
#[derive(Clone, Debug)]
pub struct Outcomes<'r> {
    readback: &'r Readback,
    tasks: Range<usize>,
}

impl Iterator for Outcomes<'_> {
    type Item = Result<u32, TaskError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.tasks.next().map(|task| self.readback.outcome(task))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.tasks.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.tasks.nth(n).map(|task| self.readback.outcome(task))
    }
}

impl DoubleEndedIterator for Outcomes<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.tasks.next_back().map(|task| self.readback.outcome(task))
    }
}

impl ExactSizeIterator for Outcomes<'_> {}

/// Iterates over how the tasks of all batches ended, in the order in which they were added. If the report contains
/// only control words, the iterator is empty. [`Readback::outcomes`] distinguishes this from a run without tasks.
///
/// ```
/// # use pelton::{Batch, Drain, Opcode, Spec, Task, device};
/// let mut drain = Drain::new(&device::open("cpu")?, &Spec::default())?;
/// let mut batch = Batch::new();
/// for k in 0..3 {
///     batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([10, k]))?;
/// }
/// for result in drain.run(&batch)? {
///     assert_eq!(result?, 0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'r> IntoIterator for &'r Readback {
    type Item = Result<u32, TaskError>;
    type IntoIter = Outcomes<'r>;

    fn into_iter(self) -> Outcomes<'r> {
        self.outcomes().unwrap_or(self.outcome_range(0, 0))
    }
}

impl Readback {
    pub(super) fn new(
        spec: &Spec,
        layout: &Layout,
        live: Option<View64>,
        places: Option<PlaceMemory>,
    ) -> Result<Self, Error> {
        let zeros = vec![0; layout.counters_per_group() as usize];
        let priority = |p: &Priority| NamedCount { name: p.to_string(), count: 0 };
        Ok(Readback {
            statistics: Statistics {
                opcodes: opcode_counts(spec, layout, &zeros),
                tenants: tenant_counts(spec, &zeros),
                priorities: Priority::ALL.iter().map(priority).collect(),
                ..Statistics::default()
            },
            control: Control::new(vec![0; (control::OBSERVABLES + layout.observable_count()) as usize])?,
            records: RunRecords { live, ..RunRecords::default() },
            replies: RunReplies::new(places),
            order: Vec::new(),
            ends: Vec::new(),
            full: spec.report == Report::Full,
        })
    }

    /// Returns how the tasks of all batches ended, in the order in which they were added, or `None` if the report
    /// contains only control words.
    pub fn outcomes(&self) -> Option<Outcomes<'_>> {
        self.full.then(|| self.outcome_range(0, self.ends.last().copied().unwrap_or(0)))
    }

    /// Returns how the tasks of one batch ended, or `None` if there is no such batch or the report contains only
    /// control words.
    pub fn batch_outcomes(&self, batch: usize) -> Option<Outcomes<'_>> {
        let end = *self.ends.get(batch)?;
        let first = batch.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.full.then(|| self.outcome_range(first, end))
    }

    fn outcome_range(&self, first: usize, end: usize) -> Outcomes<'_> {
        Outcomes { readback: self, tasks: first..end }
    }

    /// Copies the reply of a task into `reply`, as many bytes as there is room for, and returns how many bytes the reply
    /// has. It is 0 if the handler gave no reply. A task that has no result has no reply either. Tasks are numbered from
    /// 0 in the order in which they were added, over all batches. `None` if there is no such task, or if the report
    /// contains only control words.
    pub fn reply_bytes(&self, task: usize, reply: &mut [u8]) -> Option<Result<usize, TaskError>> {
        let found = self.reply(task)?;
        Some(found.map(|found| found.map_or(0, |found| found.read_bytes(reply))))
    }

    /// Copies the reply of a task into `reply`, as many words as there is room for, and returns how many words hold the
    /// reply. In all else this is like [`reply_bytes`](Readback::reply_bytes).
    pub fn reply_words(&self, task: usize, reply: &mut [u32]) -> Option<Result<usize, TaskError>> {
        let found = self.reply(task)?;
        Some(found.map(|found| found.map_or(0, |found| found.read_words(reply))))
    }

    /// Returns the reply of a task, if the task ended well and tasks have replies.
    fn reply(&self, task: usize) -> Option<Result<Option<RunReply<'_>>, TaskError>> {
        let count = self.ends.last().copied().filter(|_| self.full)?;
        let place = self.order.get(task).copied().unwrap_or(task);
        let lap = u64::from(self.records.generation);
        (task < count).then(|| self.outcome(task).map(|_| self.replies.get(place, lap)))
    }

    /// Returns how a task ended.
    fn outcome(&self, task: usize) -> Result<u32, TaskError> {
        let place = self.order.get(task).copied().unwrap_or(task);
        match self.records.get(place) {
            0 => Err(TaskError::Left),
            record => record_outcome(CompletionRecord(record)),
        }
    }

    /// Returns what happened in the run.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the control words after the run. Counters and observables start from zero in every run.
    pub fn control(&self) -> &Control<Vec<u32>> {
        &self.control
    }

    /// Forgets the last run.
    pub(super) fn clear(&mut self) {
        self.records.kept.clear();
        self.replies.clear();
        self.records.count = 0;
        self.order.clear();
        self.ends.clear();
    }

    /// Keeps the records and replies of the last pass, which the next pass will overwrite.
    pub(super) fn keep_records(&mut self) {
        let records = &mut self.records;
        self.replies.keep(records.count, records.generation.into());
        for at in 0..records.count {
            let record = records.last_pass(at);
            records.kept.push(record);
        }
        records.count = 0;
    }

    /// Begins a pass over `count` slots.
    pub(super) fn begin_pass(&mut self, count: usize, generation: u32) {
        (self.records.count, self.records.generation) = (count, generation);
    }

    /// Returns the generation of the last pass.
    pub(super) fn generation(&self) -> u32 {
        self.records.generation
    }

    /// Computes the statistics and the control words of a run that has ended. `spent` is the number of passes and the
    /// duration.
    pub(super) fn finish_run(
        &mut self,
        spec: &Spec,
        layout: &Layout,
        words: RunWords<'_>,
        spent: (u64, Duration),
    ) {
        self.compose_control(spec, layout, &words);
        let RunWords { counters, faults, steps, shared, .. } = words;
        let tasks = self.ends.last().copied().unwrap_or(0);
        let counted = spec.telemetry != Telemetry::Off;
        let (done, faults) =
            if counted { (counters[control::DONE_COUNT as usize], faults) } else { self.count_ended(tasks) };
        let s = &mut self.statistics;
        s.tasks = tasks as u64;
        s.faults = self.full.then_some(faults);
        s.steps = steps.filter(|_| counted).map(StepCounts::from_counters);
        s.done = done;
        s.left = s.tasks.saturating_sub(s.done);
        let by = |counts: &mut [NamedCount], first: u32| {
            for (count, word) in counts.iter_mut().zip(&counters[first as usize..]) {
                count.count = *word;
            }
        };
        by(&mut s.opcodes, control::OBSERVABLES);
        by(&mut s.priorities, control::LEVELS);
        for (count, tenant) in s.tenants.iter_mut().zip(&spec.tenants) {
            count.count = counters[(control::CLAIMS + tenant.id) as usize];
        }
        s.epoch = shared[control::EPOCH as usize];
        s.lost = shared[control::LOG_LOST as usize];
        (s.passes, s.wall) = spent;
    }

    /// Returns how many of the tasks have ended, and how many of those with a fault, according to their records.
    fn count_ended(&self, tasks: usize) -> (u64, u64) {
        (0..tasks).map(|place| self.records.get(place)).fold((0, 0), |(done, faults), record| {
            let is = |status: Status| u64::from(record as u8 == status.code() as u8);
            (done + is(Status::Done) + is(Status::Fault), faults + is(Status::Fault))
        })
    }

    /// Composes the control words from what the host wrote, what was counted, and the observables.
    fn compose_control(&mut self, spec: &Spec, layout: &Layout, words: &RunWords<'_>) {
        let to = self.control.words_mut();
        for row in control::TABLE.iter().filter(|row| row.first < control::OBSERVABLES) {
            let all = row.first as usize..(row.first + row.count) as usize;
            match row.mark {
                control::WordWriter::Host => to[all.clone()].copy_from_slice(&words.host[all]),
                control::WordWriter::Device => {
                    let counts = words.counters[all.clone()].iter().zip(&words.shared[all.clone()]);
                    to[all]
                        .iter_mut()
                        .zip(counts)
                        .for_each(|(to, (own, shared))| *to = (own + shared) as u32);
                }
            }
        }
        // With a quota, there are two counts of the tasks that a tenant took.
        for tenant in spec.tenants.iter().filter(|_| spec.telemetry != Telemetry::Off) {
            let at = (control::CLAIMS + tenant.id) as usize;
            to[at] = words.counters[at] as u32;
        }
        let counts = &words.counters[control::OBSERVABLES as usize..];
        for (op, count) in layout.ops.iter().zip(counts).filter(|(op, _)| op.code() < 32) {
            to[(control::METRICS + op.code()) as usize] = *count as u32;
        }
        to[control::OBSERVABLES as usize..].copy_from_slice(words.observables);
    }
}

/// Prints a summary of several lines for people.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, faults) = (self.wall.as_secs_f64(), self.faults.unwrap_or(0));
        write!(f, "{} of {} tasks in {seconds:.6} s, {} passes", self.done, self.tasks, self.passes)?;
        write!(f, "; {faults} faults, {} left", self.left)?;
        for (what, counts) in
            [("opcodes", &self.opcodes), ("tenants", &self.tenants), ("priorities", &self.priorities)]
        {
            let some = counts.iter().filter(|c| c.count > 0).map(|c| format!("{} {}", c.name, c.count));
            write!(f, "\n{what:<11}{}", some.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(steps) = self.steps {
            write!(f, "\n{:<11}{steps}", "steps")?;
        }
        write!(f, "\n{:<11}epoch {}, {} records lost", "also", self.epoch, self.lost)
    }
}

/// The words from which the results of a run are made.
#[derive(Clone, Copy)]
pub(super) struct RunWords<'w> {
    /// The control words that the host wrote.
    pub host: &'w [u32],
    /// The counters of this run, summed over all groups.
    pub counters: &'w [u64],
    /// The number of tasks that ended with a fault, if they were counted.
    pub faults: u64,
    /// The counters of steps, which are those of `step_counter`, if the kernel has them.
    pub steps: Option<&'w [u64]>,
    /// The words that all groups count together.
    pub shared: &'w [u64],
    /// The observables of all tenants.
    pub observables: &'w [u32],
}
