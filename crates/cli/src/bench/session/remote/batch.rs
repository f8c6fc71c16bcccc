//! Batches drained from host to host.

use std::sync::Arc;
use std::time::Instant;

use pelton::kernel::Report;
use pelton::{Batch, Drain, Geometry, Opcode, Region, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::Type;

use crate::error::Error;

/// Words that the tasks of a batch add to, so that they do not all meet at one.
const WORDS: u32 = 1024;

/// Tasks of a small batch, and how many of those are run in one call.
pub const SMALL: u32 = 256;
pub const MANY: u32 = 1000;

/// Where a batch lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lies {
    /// Where the device reads it.
    Lent,
    /// In memory of its own, and every run copies it.
    Own,
}

/// Tasks a second of a batch of so many adds, from host to host, in the middle of so many runs.
pub fn rate(
    device: &Arc<dyn Device>,
    (tasks, report, lies): (u32, Report, Lies),
    turns: u32,
) -> Result<f64, Error> {
    let mut drain = drain(device, tasks, report)?;
    let batch = match lies {
        Lies::Lent => drain.batch()?,
        Lies::Own => Batch::with_capacity(tasks as usize),
    };
    let batches = [fill(batch, tasks)?];
    let took = middle(turns, || run(&mut drain, &batches))?;
    total(&drain, tasks, turns + 1)?;
    Ok(f64::from(tasks) / took)
}

/// Tasks a second of many small batches, run one by one and in one call.
pub fn many(device: &Arc<dyn Device>, turns: u32) -> Result<(f64, f64), Error> {
    let all = SMALL * MANY;
    let mut drain = drain(device, all.next_power_of_two(), Report::Full)?;
    let batches = (0..MANY).map(|_| fill(Batch::with_capacity(SMALL as usize), SMALL));
    let batches = batches.collect::<Result<Vec<Batch>, Error>>()?;
    let single = middle(turns, || {
        batches.iter().try_fold(0.0, |sum, batch| Ok(sum + run(&mut drain, std::slice::from_ref(batch))?))
    })?;
    let together = middle(turns, || run(&mut drain, &batches))?;
    total(&drain, all, 2 * (turns + 1))?;
    Ok((f64::from(all) / single, f64::from(all) / together))
}

fn drain(device: &Arc<dyn Device>, slots: u32, report: Report) -> Result<Drain, Error> {
    let spec = Spec::new(Geometry::new(slots)).report(report).region(Region::new("data", Type::U32, WORDS));
    Ok(Drain::new(device, &spec)?)
}

/// A batch of so many adds.
fn fill(mut batch: Batch, tasks: u32) -> Result<Batch, Error> {
    for k in 0..tasks {
        batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([1, k % WORDS]))?;
    }
    Ok(batch)
}

/// The middle of so many times; the first is not like the others.
fn middle(turns: u32, mut once: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    once()?;
    let mut times = (0..turns.max(1)).map(|_| once()).collect::<Result<Vec<f64>, Error>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Runs batches; how many seconds it took.
fn run(drain: &mut Drain, batches: &[Batch]) -> Result<f64, Error> {
    let tasks: usize = batches.iter().map(Batch::len).sum();
    let start = Instant::now();
    let readback = drain.run_all(batches)?;
    let took = start.elapsed().as_secs_f64();
    let done = readback.statistics().done;
    let well = readback.outcomes().map(|outcomes| outcomes.filter(Result::is_ok).count());
    match done == tasks as u64 && well.is_none_or(|well| well == tasks) {
        true => Ok(took),
        false => Err(Error::Wrong(format!("{done} of {tasks} tasks of a batch are done"))),
    }
}

/// What all runs added must be there.
fn total(drain: &Drain, tasks: u32, runs: u32) -> Result<(), Error> {
    let sum: u64 = drain.view::<u32>(0, "data")?.all()?.iter().map(|word| u64::from(*word)).sum();
    match sum == u64::from(tasks) * u64::from(runs) {
        true => Ok(()),
        false => Err(Error::Wrong(format!("{runs} runs of {tasks} adds made {sum}"))),
    }
}
