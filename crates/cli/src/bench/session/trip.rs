//! Measures round trips of one task, from submission to result.

use std::sync::Arc;
use std::time::Instant;

use pelton::{Producer, Task};
use pelton_device::Device;

use super::feed::{self, FeedLoad};
use crate::bench::flood;
use crate::error::CliError;
use crate::stop;

/// The sorted times of a number of round trips in a new session, in microseconds.
pub(super) fn session_trips(
    device: &Arc<dyn Device>,
    load: FeedLoad,
    rounds: u32,
) -> Result<Vec<f64>, CliError> {
    let session = feed::launch_adding(device, load)?;
    let op = feed::add_opcode()?;
    time_tasks(&mut session.producer(0)?, rounds, |round| (feed::numbered_task(op, round.into()), round))
}

/// Submits a number of single tasks, and returns the sorted times from submission to result in microseconds. `make`
/// returns the task of a round and its expected result.
pub(super) fn time_tasks(
    producer: &mut Producer,
    rounds: u32,
    make: impl Fn(u32) -> (Task, u32),
) -> Result<Vec<f64>, CliError> {
    let deadline = flood::PATIENCE;
    let mut times = Vec::with_capacity(rounds as usize);
    for round in 0..rounds {
        let (task, wanted) = make(round);
        let start = Instant::now();
        let result = producer.submit(task)?.wait(deadline)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if result != wanted {
            return Err(CliError::Wrong(format!("round trip {round} returned {result}, not {wanted}")));
        }
        if stop::pressed() {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
