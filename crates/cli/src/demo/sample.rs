//! How long one task takes: submitted alone, and waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pelton::telemetry::{Latency, Quantiles};
use pelton::{Deadline, Opcode, Priority, Producer, Task};

use super::kernel::SAMPLER;
use crate::error::CliError;

/// Samples of the idle session.
const IDLE: u32 = 2000;
/// How long they may take together.
const BRIEF: Duration = Duration::from_millis(500);
/// How long to rest between samples under load.
const REST: Duration = Duration::from_micros(300);

/// A producer that sends one task at a time, and what it has counted so far.
pub struct Sampler {
    pub producer: Producer,
    pub count: u32,
}

impl Sampler {
    /// Sends a task, and checks and measures its result.
    fn sample_once(&mut self, latency: &Latency) -> Result<(), CliError> {
        let task = Task::new(Opcode::ATOMIC_ADD).args([1, SAMPLER]).priority(Priority::Critical);
        let began = Instant::now();
        let found = self.producer.submit(task)?.wait(Deadline::after_ms(60_000))?;
        latency.record(began.elapsed().as_nanos() as u64);
        if found != self.count {
            return Err(CliError::Wrong(format!(
                "the sampler found {found}, and has counted {}",
                self.count
            )));
        }
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// Measures a session that has nothing else to do.
    pub fn measure_idle(&mut self) -> Result<Quantiles, CliError> {
        let latency = Latency::default();
        let began = Instant::now();
        for _ in 0..IDLE {
            self.sample_once(&latency)?;
            if began.elapsed() > BRIEF {
                break;
            }
        }
        Ok(latency.quantiles())
    }

    /// Measures a session that is fed by others, until they are done.
    pub fn measure_loaded(&mut self, over: &AtomicBool) -> Result<Quantiles, CliError> {
        let latency = Latency::default();
        while !over.load(Ordering::Relaxed) {
            self.sample_once(&latency)?;
            std::thread::sleep(REST);
        }
        Ok(latency.quantiles())
    }
}
