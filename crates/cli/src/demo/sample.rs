//! Measures the latency of single tasks, from submission to result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pelton::telemetry::{LatencyCounts, Quantiles};
use pelton::{Deadline, Opcode, Priority, Producer, Task};

use super::kernel::SAMPLER;
use crate::error::CliError;

/// The number of samples of the idle session.
const IDLE: u32 = 2000;
/// The longest time that these samples may take together.
const BRIEF: Duration = Duration::from_millis(500);
/// The pause between samples under load.
const REST: Duration = Duration::from_micros(300);

/// A producer that submits one task at a time, and the number of tasks so far.
pub(super) struct Sampler {
    pub producer: Producer,
    pub count: u32,
}

impl Sampler {
    /// Submits a task, measures its latency, and checks its result.
    fn sample_once(&mut self, latency: &LatencyCounts) -> Result<(), CliError> {
        let task = Task::new(Opcode::ATOMIC_ADD).args([1, SAMPLER]).priority(Priority::Critical);
        let began = Instant::now();
        let found = self.producer.submit(task)?.wait(Deadline::after_ms(60_000))?;
        latency.record(began.elapsed().as_nanos() as u64);
        if found != self.count {
            return Err(CliError::Wrong(format!(
                "the sampler's task returned {found} instead of {}",
                self.count
            )));
        }
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// Measures a session without other work.
    pub(super) fn measure_idle(&mut self) -> Result<Quantiles, CliError> {
        let latency = LatencyCounts::default();
        let began = Instant::now();
        for _ in 0..IDLE {
            self.sample_once(&latency)?;
            if began.elapsed() > BRIEF {
                break;
            }
        }
        Ok(latency.quantiles())
    }

    /// Measures a session that others feed, until they are done.
    pub(super) fn measure_loaded(&mut self, over: &AtomicBool) -> Result<Quantiles, CliError> {
        let latency = LatencyCounts::default();
        while !over.load(Ordering::Relaxed) {
            self.sample_once(&latency)?;
            std::thread::sleep(REST);
        }
        Ok(latency.quantiles())
    }
}
