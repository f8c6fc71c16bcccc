//! One task there and back: how long from submit to result.

use std::sync::Arc;
use std::time::Instant;

use pelton::Deadline;
use pelton_device::Device;

use super::feed::{self, Load};
use crate::error::Error;
use crate::stop;

/// Sorted times of so many round trips, in microseconds.
pub fn times(device: &Arc<dyn Device>, load: Load, rounds: u32) -> Result<Vec<f64>, Error> {
    let session = feed::launch(device, load)?;
    let mut producer = session.producer(0)?;
    let op = feed::add()?;
    let deadline = Deadline::after_ms(60_000);
    let mut times = Vec::with_capacity(rounds as usize);
    for round in 0..rounds {
        let task = feed::task(op, round.into());
        let start = Instant::now();
        let result = producer.submit(task)?.wait(deadline)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if result != round {
            return Err(Error::Wrong(format!("round trip {round} gave {result}")));
        }
        if stop::pressed() {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
