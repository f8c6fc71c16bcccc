//! Batches drained from host to host.

use std::sync::Arc;
use std::time::Instant;

use pelton::kernel::Report;
use pelton::{Batch, Drain, Geometry, Opcode, Region, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::Type;

use crate::bench::ratio;
use crate::error::CliError;

/// Words that the tasks of a batch add to, so that they do not all meet at one.
const WORDS: u32 = 1024;

/// Tasks of a small batch, and how many of those are run in one call.
pub const SMALL: u32 = 256;
pub const MANY: u32 = 1000;

/// Where a batch lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchMemory {
    /// Where the device reads it.
    Lent,
    /// In memory of its own, and every run copies it.
    Own,
}

/// Filled batches, and what runs them again and again.
pub struct ReadyBatches {
    drain: Drain,
    batches: Vec<Batch>,
    /// How the batches are run.
    calls: Calls,
    /// How many times all of them have run.
    runs: u32,
}

/// How several batches are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// With one call for each batch.
    Each,
    /// With one call for all.
    All,
}

impl ReadyBatches {
    /// One batch of so many adds.
    pub fn one(
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

    /// Many small batches.
    pub fn many(device: &Arc<dyn Device>, calls: Calls) -> Result<ReadyBatches, CliError> {
        let drain = open_drain(device, (SMALL * MANY).next_power_of_two(), Report::Full)?;
        let batches = (0..MANY).map(|_| fill_batch(Batch::with_capacity(SMALL as usize), SMALL));
        Ok(ReadyBatches { drain, batches: batches.collect::<Result<_, CliError>>()?, calls, runs: 0 })
    }

    /// Tasks per second from host to host: the median of so many runs after a first one, which is not like the others.
    pub fn rate(&mut self, turns: u32) -> Result<f64, CliError> {
        self.run_once()?;
        let took = (0..turns.max(1)).map(|_| self.run_once()).collect::<Result<Vec<f64>, CliError>>()?;
        let tasks = self.batches.iter().map(Batch::len).sum::<usize>() as u64;
        check_total(&self.drain, tasks, self.runs)?;
        Ok(tasks as f64 / ratio::median(&took).unwrap_or(f64::NAN))
    }

    /// Runs all batches once; how many seconds it took.
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

/// A batch of so many adds.
fn fill_batch(mut batch: Batch, tasks: u32) -> Result<Batch, CliError> {
    for k in 0..tasks {
        batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([1, k % WORDS]))?;
    }
    Ok(batch)
}

/// Runs batches; how many seconds it took.
fn run_batches(drain: &mut Drain, batches: &[Batch]) -> Result<f64, CliError> {
    let tasks: usize = batches.iter().map(Batch::len).sum();
    let start = Instant::now();
    let readback = drain.run_all(batches)?;
    let took = start.elapsed().as_secs_f64();
    let done = readback.statistics().done;
    let well = readback.outcomes().map(|outcomes| outcomes.filter(Result::is_ok).count());
    match done == tasks as u64 && well.is_none_or(|well| well == tasks) {
        true => Ok(took),
        false => Err(CliError::Wrong(format!("{done} of {tasks} tasks of a batch are done"))),
    }
}

/// What all runs added must be there.
fn check_total(drain: &Drain, tasks: u64, runs: u32) -> Result<(), CliError> {
    let sum: u64 = drain.view::<u32>(0, "data")?.all()?.iter().map(|word| u64::from(*word)).sum();
    match sum == tasks * u64::from(runs) {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("{runs} runs of {tasks} adds made {sum}"))),
    }
}
