//! Batches that are drained on a device with memory of its own, measured from host to host.

use std::sync::Arc;
use std::time::Instant;

use pelton::kernel::Report;
use pelton::{Batch, Drain, Geometry, Opcode, Region, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::Type;

use crate::bench::ratio;
use crate::error::CliError;

/// The number of words that the tasks of a batch add to, so that they do not all meet at one.
const WORDS: u32 = 1024;

/// The number of tasks of a small batch, and of such batches in one call.
pub(super) const SMALL: u32 = 256;
pub(super) const MANY: u32 = 1000;

/// The memory that holds a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BatchMemory {
    /// Memory that the device reads directly.
    Lent,
    /// Ordinary memory, from which every run copies it.
    Own,
}

/// Filled batches, ready to be run repeatedly.
pub(super) struct ReadyBatches {
    drain: Drain,
    batches: Vec<Batch>,
    /// How the batches are run.
    calls: Calls,
    /// The number of times that all of them have run.
    runs: u32,
}

/// How several batches are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Calls {
    /// With one call for each batch.
    Each,
    /// With one call for all.
    All,
}

impl ReadyBatches {
    /// Prepares one batch of adds.
    pub(super) fn one(
        device: &Arc<dyn Device>,
        tasks: u32,
        report: Report,
        lies: BatchMemory,
    ) -> Result<ReadyBatches, CliError> {
        let drain = open_drain(device, tasks, report)?;
        let batch = match lies {
            BatchMemory::Lent => drain.batch()?,
            BatchMemory::Own => Batch::with_capacity(tasks as usize),
        };
        Ok(ReadyBatches { drain, batches: vec![fill_batch(batch, tasks)?], calls: Calls::All, runs: 0 })
    }

    /// Prepares many small batches.
    pub(super) fn many(device: &Arc<dyn Device>, calls: Calls) -> Result<ReadyBatches, CliError> {
        let drain = open_drain(device, (SMALL * MANY).next_power_of_two(), Report::Full)?;
        let batches = (0..MANY).map(|_| fill_batch(Batch::with_capacity(SMALL as usize), SMALL));
        Ok(ReadyBatches { drain, batches: batches.collect::<Result<_, CliError>>()?, calls, runs: 0 })
    }

    /// The tasks per second from host to host: the median of a number of runs after a first run, which is not like
    /// the others.
    pub(super) fn rate(&mut self, turns: u32) -> Result<f64, CliError> {
        self.run_once()?;
        let took = (0..turns.max(1)).map(|_| self.run_once()).collect::<Result<Vec<f64>, CliError>>()?;
        let tasks = self.batches.iter().map(Batch::len).sum::<usize>() as u64;
        check_total(&self.drain, tasks, self.runs)?;
        Ok(tasks as f64 / ratio::median(&took).unwrap_or(f64::NAN))
    }

    /// Runs all batches once, and returns the seconds that it took.
    fn run_once(&mut self) -> Result<f64, CliError> {
        self.runs += 1;
        let drain = &mut self.drain;
        match self.calls {
            Calls::All => run_batches(drain, &self.batches),
            Calls::Each => self
                .batches
                .iter()
                .try_fold(0.0, |sum, batch| Ok(sum + run_batches(drain, std::slice::from_ref(batch))?)),
        }
    }
}

fn open_drain(device: &Arc<dyn Device>, slots: u32, report: Report) -> Result<Drain, CliError> {
    let spec = Spec::new(Geometry::new(slots)).report(report).region(Region::new("data", Type::U32, WORDS));
    Ok(Drain::new(device, &spec)?)
}

/// Fills a batch with adds.
fn fill_batch(mut batch: Batch, tasks: u32) -> Result<Batch, CliError> {
    for k in 0..tasks {
        batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([1, k % WORDS]))?;
    }
    Ok(batch)
}

/// Runs batches in one call, and returns the seconds that it took.
fn run_batches(drain: &mut Drain, batches: &[Batch]) -> Result<f64, CliError> {
    let tasks: usize = batches.iter().map(Batch::len).sum();
    let start = Instant::now();
    let readback = drain.run_all(batches)?;
    let took = start.elapsed().as_secs_f64();
    let done = readback.statistics().done;
    let well = readback.outcomes().map(|outcomes| outcomes.filter(Result::is_ok).count());
    match done == tasks as u64 && well.is_none_or(|well| well == tasks) {
        true => Ok(took),
        false => Err(CliError::Wrong(format!("only {done} of {tasks} tasks of a batch are done"))),
    }
}

/// Checks that memory holds what all runs have added.
fn check_total(drain: &Drain, tasks: u64, runs: u32) -> Result<(), CliError> {
    let sum: u64 = drain.view::<u32>(0, "data")?.read_all()?.iter().map(|word| u64::from(*word)).sum();
    match sum == tasks * u64::from(runs) {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("{runs} runs of {tasks} adds have the wrong sum {sum}"))),
    }
}
