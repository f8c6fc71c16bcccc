//! Measures how long a session takes to start, to stop and to wake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::{Deadline, Producer, Session};
use pelton_device::{Device, open};

use super::load::{self, SessionShape};
use crate::bench::flood;
use crate::error::CliError;

/// The time for which a session is idle before it is woken.
const IDLE: Duration = Duration::from_millis(200);
/// The time for which a session is fed before it is stopped.
const FED: Duration = Duration::from_millis(50);

/// The times from launch to the first result, in milliseconds.
pub(super) struct Starts {
    /// The time of a kernel that was never compiled.
    pub cold: f64,
    /// The time of a kernel that is in the cache on disk.
    pub cached: f64,
    /// The time of a kernel that is loaded already.
    pub loaded: f64,
}

/// Starts sessions of a kernel that no cache holds. A device that is opened again knows the kernel from the disk
/// only.
pub(super) fn time_starts(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    round: u32,
) -> Result<Starts, CliError> {
    // The process number makes the kernel unlike those of other runs; on Linux it has 22 bits at most.
    let spec = load::shape_spec(shape, (round << 22).wrapping_add(1 + std::process::id()))?;
    let start = |device: &Arc<dyn Device>| -> Result<f64, CliError> {
        let start = Instant::now();
        let session = Session::launch(device, &spec)?;
        let mut producer = session.producer(0)?;
        producer.submit(flood::add_task(load::handler_opcode()?, 0, 0))?.wait(flood::PATIENCE)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        drop(producer);
        load::stop_empty(session)?;
        Ok(ms)
    };
    let cold = start(device)?;
    let again = open(&device.caps().name)?;
    // Opening the device takes time that does not belong to the session.
    again.caps();
    Ok(Starts { cold, cached: start(&again)?, loaded: start(&again)? })
}

/// The sorted times of tasks that come after a pause, in microseconds.
pub(super) fn time_wakes(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    rounds: u32,
) -> Result<Vec<f64>, CliError> {
    let session = load::launch_shape(device, shape)?;
    let mut producer = session.producer(0)?;
    let mut times = Vec::new();
    for round in 0..rounds {
        std::thread::sleep(IDLE);
        let start = Instant::now();
        let task = flood::add_task(load::handler_opcode()?, 0, round.into());
        let result = producer.submit(task)?.wait(flood::PATIENCE)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if result != round {
            return Err(CliError::Wrong(format!("task {round} returned {result}, not {round}")));
        }
    }
    drop(producer);
    load::stop_empty(session)?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The sorted times of a stop while producers feed the session, in milliseconds.
pub(super) fn time_stops(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    rounds: u32,
) -> Result<Vec<f64>, CliError> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let session = load::launch_shape(device, shape)?;
        let feeders: Vec<_> = load::open_producers(&session, shape.producers)?
            .into_iter()
            .map(|producer| std::thread::spawn(move || feed_until_end(producer.patience(Deadline::Never))))
            .collect();
        std::thread::sleep(FED);
        let start = Instant::now();
        let stopped = session.stop()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let mut fed = 0;
        for feeder in feeders {
            fed += feeder.join().map_err(|_| CliError::Wrong("a producer's thread panicked".into()))??;
        }
        if stopped.forced || fed == 0 {
            return Err(CliError::Wrong(format!(
                "the kernel did not stop in time after {fed} batches; the stop was forced, or nothing was fed"
            )));
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Feeds a session until it ends, and returns the number of batches.
fn feed_until_end(mut producer: Producer) -> Result<u64, CliError> {
    let op = load::handler_opcode()?;
    let mut open = VecDeque::new();
    let mut fed = 0;
    while let Ok(span) = producer.submit_all((0..16u32).map(|k| flood::add_task(op, 0, k.into()))) {
        open.push_back(span);
        fed += 1;
        if open.len() == 32
            && let Some(mut span) = open.pop_front()
        {
            // The session ends during this wait, which is what is measured.
            let _ = span.wait(flood::PATIENCE);
        }
    }
    Ok(fed)
}
