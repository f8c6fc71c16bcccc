//! Producers that feed a session at full or at a given speed, one thread each, and check every result.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::kernel::layout::{SlotBank, SlotBanks};
use pelton::{Aim, Opcode, Producer, Session, Span, Task};

use super::mark;
use crate::error::CliError;
use crate::stop;

/// The longest time that a task may take; one that takes longer is lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The number of polls of a batch before the thread waits for it.
const LOOKS: u32 = 1 << 12;

/// The number of ended tasks after which a producer reports progress, in a word that all producers share.
const NEWS: u64 = 1 << 14;

/// What the tasks do.
#[derive(Clone, Copy, Debug)]
pub(super) enum FloodWork {
    /// The tasks are all different, and every word is checked on both sides.
    Mark,
    /// The tasks add 1 to a word of `data`, and return what it was.
    Add { at: u32 },
    /// The same task is repeated, and only its end is checked.
    Same(Task),
}

/// The tasks that one producer submits, and where it reports progress.
#[derive(Clone, Copy)]
pub(super) struct FloodShare<'a> {
    /// What the tasks do.
    pub work: FloodWork,
    /// The opcode of the tasks.
    pub op: Opcode,
    /// The number of the producer.
    pub producer: u32,
    /// The number of the producer's first task.
    pub start: u64,
    /// The largest number of tasks to submit.
    pub count: u64,
    /// The number of tasks per batch.
    pub batch: u32,
    /// The number of batches under way at the same time.
    pub deep: usize,
    /// The time at which all producers begin.
    pub began: Instant,
    /// The time for which the producer submits tasks.
    pub time: Duration,
    /// The number of tasks per second, if the producer does not submit at full speed.
    pub pace: Option<f64>,
    /// The number of ended tasks of all producers, to within a few thousand.
    pub done: &'a AtomicU64,
    /// Whether to end early, because another producer has failed or the measurement is over.
    pub quit: &'a AtomicBool,
}

/// The totals of one or all producers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FloodTotals {
    /// The number of tasks that ended well.
    pub tasks: u64,
    /// The sum of what marked tasks have added, or of what adds have returned.
    pub sum: u64,
    /// The time until the last result was seen.
    pub took: Duration,
    /// The total time that producers have waited for the kernel.
    pub waited: Duration,
}

impl FloodTotals {
    /// The number of tasks per second.
    pub(super) fn rate(&self) -> f64 {
        self.tasks as f64 / self.took.as_secs_f64()
    }

    fn and(self, other: FloodTotals) -> FloodTotals {
        FloodTotals {
            tasks: self.tasks + other.tasks,
            sum: self.sum.wrapping_add(other.sum),
            took: self.took.max(other.took),
            waited: self.waited + other.waited,
        }
    }
}

/// The number of tasks per batch, at most `most`, and the number of such batches that fill half of a producer's
/// slots.
pub(super) fn batch_shape(bank: &SlotBank, most: u32) -> (u32, usize) {
    let batch = most.min(bank.stripe_slots() / 2).max(1);
    (batch, (bank.stripe_slots() / batch / 2).max(1) as usize * bank.ring_stripes as usize)
}

/// The slots that a producer feeds: those of the placement that it aims at, if there are several.
pub(super) fn aimed_slots(session: &Session, aim: Aim) -> SlotBank {
    match session.layout().banks {
        SlotBanks::Near(bank) | SlotBanks::Far(bank) => bank,
        SlotBanks::Both { near, .. } if aim == Aim::Latency => near,
        SlotBanks::Both { far, .. } => far,
    }
}

/// Runs all producers, and calls `glance` repeatedly meanwhile.
pub(super) fn run_producers(
    feeds: Vec<(&mut Producer, FloodShare<'_>)>,
    mut glance: impl FnMut(),
) -> Result<FloodTotals, CliError> {
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(feeds.len());
        for (producer, part) in feeds {
            threads.push(scope.spawn(move || {
                let seen = feed_share(producer, &part);
                part.quit.fetch_or(seen.is_err(), Ordering::Relaxed);
                seen
            }));
        }
        while threads.iter().any(|thread| !thread.is_finished()) {
            glance();
        }
        threads.into_iter().try_fold(FloodTotals::default(), |all, thread| {
            let ended =
                thread.join().unwrap_or_else(|_| Err(CliError::Wrong("a producer's thread panicked".into())));
            Ok(all.and(ended?))
        })
    })
}

/// Buffers for the batch that a producer is checking.
struct BatchScratch {
    seeds: Vec<u32>,
    results: Vec<u32>,
    /// The number of ended tasks that the producer has reported.
    told: u64,
}

/// Submits a producer's tasks, and checks every result.
fn feed_share(producer: &mut Producer, part: &FloodShare<'_>) -> Result<FloodTotals, CliError> {
    let mut open: VecDeque<(u64, Span)> = VecDeque::with_capacity(part.deep);
    let mut room =
        BatchScratch { seeds: vec![0; part.batch as usize], results: vec![0; part.batch as usize], told: 0 };
    let mut seen = FloodTotals::default();
    let (mut sent, mut clock) = (0, part.began.elapsed());
    while sent < part.count && clock < part.time && !stop::pressed() && !part.quit.load(Ordering::Relaxed) {
        let due = part.pace.is_none_or(|pace| sent as f64 <= clock.as_secs_f64() * pace);
        if (!due || open.len() == part.deep)
            && let Some((first, span)) = open.pop_front()
        {
            settle_batch(part, first, span, &mut room, &mut seen)?;
        }
        if due {
            let batch = u64::from(part.batch).min(part.count - sent);
            open.push_back((
                part.start + sent,
                submit_batch(producer, part, part.start + sent, &mut room.seeds[..batch as usize])?,
            ));
            sent += batch;
        } else if open.is_empty() {
            std::hint::spin_loop();
        }
        clock = part.began.elapsed();
    }
    open.into_iter().try_for_each(|(first, span)| settle_batch(part, first, span, &mut room, &mut seen))?;
    Ok(FloodTotals { took: part.began.elapsed(), ..seen })
}

#[inline]
fn submit_batch(
    producer: &mut Producer,
    part: &FloodShare<'_>,
    from: u64,
    seeds: &mut [u32],
) -> Result<Span, CliError> {
    let (op, count) = (part.op, seeds.len() as u32);
    Ok(match part.work {
        FloodWork::Mark => {
            let first = mark::task_number(part.producer, from);
            mark::fill_seeds(first, seeds);
            let task = move |(k, seed): (usize, &u32)| mark::marked_task(op, first + k as u64, *seed);
            producer.submit_all(seeds.iter().enumerate().map(task))?
        }
        FloodWork::Add { at } => {
            producer.submit_all((0..count).map(move |k| add_task(op, at, from + u64::from(k))))?
        }
        FloodWork::Same(task) => producer.submit_all((0..count).map(move |_| task))?,
    })
}

/// A task that adds 1 to a word; its other arguments are only carried.
#[inline]
pub(super) fn add_task(op: Opcode, at: u32, number: u64) -> Task {
    let (low, high) = (number as u32, (number >> 32) as u32);
    Task::new(op).args([1, at, low, high, !low, !high, low, high, !low, !high, low, high])
}

/// Waits for a batch, and checks every result.
fn settle_batch(
    part: &FloodShare<'_>,
    first: u64,
    mut span: Span,
    room: &mut BatchScratch,
    seen: &mut FloodTotals,
) -> Result<(), CliError> {
    if !span.has_ended() {
        let since = Instant::now();
        wait_for_batch(&mut span)?;
        seen.waited += since.elapsed();
    }
    let (seeds, results) = (&mut room.seeds[..span.len()], &mut room.results[..span.len()]);
    let ends = span.read_results(results);
    let (differ, sum) = match part.work {
        FloodWork::Mark => {
            mark::fill_seeds(mark::task_number(part.producer, first), seeds);
            mark::check_results(seeds, results)
        }
        FloodWork::Add { .. } | FloodWork::Same(_) => {
            (0, results.iter().map(|result| u64::from(*result)).sum())
        }
    };
    if ends.done as usize != span.len() || differ != 0 {
        return Err(first_wrong(part, first, &span));
    }
    seen.sum = seen.sum.wrapping_add(sum);
    seen.tasks += span.len() as u64;
    let news = seen.tasks - room.told;
    if news >= NEWS {
        part.done.fetch_add(news, Ordering::Relaxed);
        room.told = seen.tasks;
    }
    Ok(())
}

/// Waits for a batch. Polling costs less than a wait, which also counts how tasks ended.
fn wait_for_batch(span: &mut Span) -> Result<(), CliError> {
    for look in 0..LOOKS {
        if span.has_ended() {
            return Ok(());
        }
        // If cores are few, the kernel may need this one.
        if look % 64 == 63 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    span.wait(PATIENCE)?;
    Ok(())
}

/// An error that names the first wrong task of a batch.
#[cold]
fn first_wrong(part: &FloodShare<'_>, first: u64, span: &Span) -> CliError {
    for (position, result) in (first..).zip(span.results()) {
        let wanted = mark::marked_result(mark::task_number(part.producer, position));
        let what = match (result, part.work) {
            (Err(why), _) => why.to_string(),
            (Ok(result), FloodWork::Mark) if result != wanted => {
                format!("returned {result:#x}, not {wanted:#x}")
            }
            (Ok(_), _) => continue,
        };
        return CliError::Wrong(format!("task {position} of producer {}: {what}", part.producer));
    }
    CliError::Wrong(format!("producer {} has lost results", part.producer))
}

/// Compares what tasks have done to `data` with what producers have seen. The session must be idle, and must have
/// been new.
pub(super) fn check_data(session: &Session, work: FloodWork, seen: &FloodTotals) -> Result<(), CliError> {
    let word =
        |at: u32| -> Result<u32, CliError> { Ok(session.view::<u32>(0, "data")?.read(at as usize, 1)?[0]) };
    let (found, wanted) = match work {
        FloodWork::Mark => (word(0)?, seen.sum as u32),
        FloodWork::Add { at } => (word(at)?, seen.tasks as u32),
        FloodWork::Same(_) => return Ok(()),
    };
    if found != wanted {
        return Err(CliError::Wrong(format!("the tasks left {found:#x} in a word, not {wanted:#x}")));
    }
    // Adds return 0, 1, 2, … in some order, and start again after 2^32.
    let (laps, rest) = (seen.tasks >> 32, seen.tasks & u64::from(u32::MAX));
    let lap = (u64::from(u32::MAX) << 31).wrapping_mul(laps);
    let all = lap.wrapping_add(rest * rest.saturating_sub(1) / 2);
    match work {
        FloodWork::Add { .. } if seen.sum != all => {
            Err(CliError::Wrong(format!("the results of {} adds sum to {}, not {all}", seen.tasks, seen.sum)))
        }
        _ => Ok(()),
    }
}
