//! Batches that are complete before the kernel starts: items per second, by size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::kernel::{Report, Telemetry};
use pelton::{Batch, Drain, Geometry, Spec};
use pelton_device::Device;

use super::feed;
use crate::error::CliError;
use crate::stop;

/// The numbers of items per batch.
pub(super) const SIZES: [usize; 4] = [256, 4096, 65_536, 1_048_576];

/// The size of a batch, and what its run reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainLoad {
    pub items: usize,
    pub report: Report,
}

/// A filled batch, ready to be run repeatedly.
pub(super) struct ReadyDrain {
    load: DrainLoad,
    drain: Drain,
    batch: Batch,
    /// The number of times that the batch has run.
    runs: u64,
}

impl ReadyDrain {
    /// Fills a batch for a device.
    pub(super) fn new(device: &Arc<dyn Device>, load: DrainLoad) -> Result<ReadyDrain, CliError> {
        let slots = load.items.next_power_of_two().max(1) as u32;
        let spec = Spec::new(Geometry::new(slots)).report(load.report).telemetry(Telemetry::Sampled);
        let drain = Drain::new(device, &feed::with_add_handler(spec)?)?;
        let op = feed::add_opcode()?;
        let mut batch = drain.batch()?;
        (0..load.items as u64).try_for_each(|k| batch.push(0, feed::numbered_task(op, k)))?;
        Ok(ReadyDrain { load, drain, batch, runs: 0 })
    }

    /// Runs the batch repeatedly for a time, and returns the items per second of the best run, from the filled
    /// batch to the results on the host.
    pub(super) fn throughput(&mut self, time: Duration) -> Result<f64, CliError> {
        let (began, mut best) = (Instant::now(), f64::INFINITY);
        while best.is_infinite() || (began.elapsed() < time && !stop::pressed()) {
            best = best.min(self.run_once()?);
        }
        Ok(self.load.items as f64 / best)
    }

    /// Runs the batch once, checks the results, and returns the seconds that the run took.
    fn run_once(&mut self) -> Result<f64, CliError> {
        let items = self.load.items as u64;
        let start = Instant::now();
        let back = self.drain.run(&self.batch)?;
        let took = start.elapsed().as_secs_f64();
        if back.statistics().done != items {
            return Err(CliError::Wrong(format!("only {} of {items} items ran", back.statistics().done)));
        }
        if let Some(outcomes) = back.outcomes() {
            check_outcomes(outcomes, self.runs * items)?;
        }
        self.runs += 1;
        Ok(took)
    }
}

/// Checks that the items returned what the word was before: consecutive numbers from where the last run left it, in
/// some order.
fn check_outcomes(
    outcomes: impl ExactSizeIterator<Item = Result<u32, pelton::TaskError>>,
    before: u64,
) -> Result<(), CliError> {
    let count = outcomes.len() as u64;
    let mut sum = 0u64;
    for outcome in outcomes {
        // The word wraps, but the distance of a result from the start of the run does not.
        sum += u64::from(outcome?.wrapping_sub(before as u32));
    }
    match sum == count * count.saturating_sub(1) / 2 {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("the results of {count} items have the wrong sum {sum}"))),
    }
}
