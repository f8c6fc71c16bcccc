//! Feeds a session as fast as its producers can. Each task adds one to a word, and every result is checked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::kernel::{SlotBody, Telemetry};
use pelton::{Deadline, Geometry, Handler, Opcode, Placement, Producer, Session, Span, Spec, Task, Ticket};
use pelton_device::Device;

use super::SLOTS;
use crate::error::CliError;
use crate::stop;

/// The number of tasks between two looks at the clock.
const GLANCE: u64 = 1 << 14;

/// The kernel of a session, and how it is fed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedLoad {
    /// The number of threads that feed it.
    pub producers: u32,
    /// The number of tasks per batch.
    pub batch: u32,
    /// Whether the kernel chooses among handlers.
    pub body: SlotBody,
    /// What the kernel counts.
    pub telemetry: Telemetry,
    /// Where the rings lie; chosen for the device if it is not given.
    pub placement: Option<Placement>,
}

/// One producer with batches of 256 tasks, and defaults for everything else.
pub(super) const PLAIN: FeedLoad = FeedLoad {
    producers: 1,
    batch: 256,
    body: SlotBody::Dispatch,
    telemetry: Telemetry::Sampled,
    placement: None,
};

/// The opcode of the handler that adds.
pub(super) fn add_opcode() -> Result<Opcode, CliError> {
    Ok(Opcode::user(8).map_err(pelton::Error::from)?)
}

/// Launches a session with one worker, whose tasks add to a word.
pub(super) fn launch_adding(device: &Arc<dyn Device>, load: FeedLoad) -> Result<Session, CliError> {
    let spec = Spec::new(Geometry::new(SLOTS).groups(1))
        .producers(load.producers)
        .body(load.body)
        .telemetry(load.telemetry);
    let spec = Spec { placement: load.placement, ..with_add_handler(spec)? };
    Ok(Session::launch(device, &spec)?)
}

/// The spec with a handler that adds to a word.
pub(super) fn with_add_handler(spec: Spec) -> Result<Spec, CliError> {
    Ok(spec.handler_at(
        add_opcode()?,
        "add",
        Handler::lane_wide(|slot| {
            let (by, at) = (slot.arg(0), slot.arg(1));
            let old = slot.atomic_add(at, by);
            slot.finish(old);
        }),
    ))
}

/// A task that adds one to word 0; its other arguments are only carried.
#[inline]
pub(super) fn numbered_task(op: Opcode, number: u64) -> Task {
    let (low, high) = (number as u32, (number >> 32) as u32);
    Task::new(op).args([1, 0, low, high, !low, !high, low, high, !low, !high, low, high])
}

/// The totals of a producer.
#[derive(Clone, Copy, Debug, Default)]
struct FeedTotals {
    tasks: u64,
    /// The sum of all results.
    sum: u64,
}

/// Feeds a new session for a time, and returns the tasks per second. Every result is checked to be present, and
/// their sum to be right.
pub(super) fn feed_throughput(
    device: &Arc<dyn Device>,
    load: FeedLoad,
    time: Duration,
) -> Result<f64, CliError> {
    let session = launch_adding(device, load)?;
    let mut producers =
        (0..load.producers).map(|_| session.producer(0)).collect::<Result<Vec<Producer>, _>>()?;
    let start = Instant::now();
    let feed = |producer: &mut Producer| match load.batch {
        1 => feed_singly(producer, start, time),
        batch => feed_batched(producer, batch, start, time),
    };
    let seen = std::thread::scope(|scope| {
        let (first, others) = producers
            .split_first_mut()
            .ok_or_else(|| CliError::Wrong("a session needs at least one producer".into()))?;
        let others: Vec<_> = others.iter_mut().map(|other| scope.spawn(|| feed(other))).collect();
        let mut all = vec![feed(first)?];
        for other in others {
            all.push(other.join().map_err(|_| CliError::Wrong("a producer's thread panicked".into()))??);
        }
        Ok::<_, CliError>(all)
    })?;
    let took = start.elapsed().as_secs_f64();
    let tasks: u64 = seen.iter().map(|seen| seen.tasks).sum();
    let sum = seen.iter().fold(0u64, |sum, seen| sum.wrapping_add(seen.sum));
    check_sum(&mut producers[0], tasks, sum)?;
    drop(producers);
    let left = session.stop()?.tasks_left();
    if left != 0 {
        return Err(CliError::Wrong(format!("{left} tasks were left when the session stopped")));
    }
    Ok(tasks as f64 / took)
}

/// Checks that the tasks returned 0, 1, 2, … in some order, by their sum, and that the word counts them.
fn check_sum(producer: &mut Producer, tasks: u64, sum: u64) -> Result<(), CliError> {
    let last = producer.submit(Task::new(add_opcode()?).args([0, 0]))?.wait(Deadline::after_ms(10_000))?;
    let whole = tasks < 1 << 32 && sum == tasks * tasks.saturating_sub(1) / 2;
    match last == tasks as u32 && (whole || tasks >= 1 << 32) {
        true => Ok(()),
        false => Err(CliError::Wrong(format!(
            "after {tasks} adds the word is {last}, and the results sum to {sum}"
        ))),
    }
}

/// Whether the time is over.
fn is_over(tasks: u64, start: Instant, time: Duration) -> bool {
    tasks.is_multiple_of(GLANCE) && (start.elapsed() >= time || stop::pressed())
}

/// Submits tasks one by one, with half of the ring under way.
fn feed_singly(producer: &mut Producer, start: Instant, time: Duration) -> Result<FeedTotals, CliError> {
    let op = add_opcode()?;
    let deadline = start + time + Duration::from_secs(60);
    let mut open: VecDeque<Ticket> = VecDeque::with_capacity(SLOTS as usize);
    let mut seen = FeedTotals::default();
    while !is_over(seen.tasks, start, time) {
        if open.len() == SLOTS as usize / 2
            && let Some(mut ticket) = open.pop_front()
        {
            seen.sum = seen.sum.wrapping_add(ticket.wait(deadline)?.into());
        }
        open.push_back(producer.submit(numbered_task(op, seen.tasks))?);
        seen.tasks += 1;
    }
    for mut ticket in open {
        seen.sum = seen.sum.wrapping_add(ticket.wait(deadline)?.into());
    }
    Ok(seen)
}

/// Submits tasks in batches, with half of the ring under way.
fn feed_batched(
    producer: &mut Producer,
    batch: u32,
    start: Instant,
    time: Duration,
) -> Result<FeedTotals, CliError> {
    let op = add_opcode()?;
    let deadline = start + time + Duration::from_secs(60);
    let mut open: VecDeque<Span> = VecDeque::with_capacity((SLOTS / batch) as usize);
    let mut seen = FeedTotals::default();
    let settle = |mut span: Span, sum: &mut u64| -> Result<(), CliError> {
        if span.wait(deadline)?.done as usize != span.len() {
            return Err(CliError::Wrong("a task ended with a fault".into()));
        }
        for result in span.results() {
            *sum = sum.wrapping_add(result?.into());
        }
        Ok(())
    };
    while !is_over(seen.tasks, start, time) {
        if open.len() as u32 == SLOTS / batch / 2
            && let Some(span) = open.pop_front()
        {
            settle(span, &mut seen.sum)?;
        }
        let from = seen.tasks;
        open.push_back(producer.submit_all((0..batch).map(|k| numbered_task(op, from + u64::from(k))))?);
        seen.tasks += u64::from(batch);
    }
    open.into_iter().try_for_each(|span| settle(span, &mut seen.sum))?;
    Ok(seen)
}
