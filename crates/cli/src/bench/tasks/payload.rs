//! The case `payload`: tasks that bring 256 bytes and reply with 64, near and far.
//!
//! Every word of a payload has a part in the reply, and every word of every reply is compared with what it must be. On a
//! device that works in the host's memory, the tasks are compared with threads that only copy the same bytes. On one
//! with memory of its own, they are compared with its copy engines, which move the same bytes both ways at once; and with
//! engines that move everything that crosses the bus for such a task, its slot and its record too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::{Aim, Deadline, Geometry, Handler, Opcode, Placement, Producer, Session, Span, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::{Order, Scope};

use super::copies::{EngineCopies, TaskBytes, thread_copies};
use super::{BenchRow, TasksBench};
use crate::bench::flood;
use crate::bench::rounds::{Sample, play_rounds};
use crate::error::CliError;
use crate::stop;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "payloads of 256 bytes and replies of 64";

/// The number of words of a payload and of a reply.
pub(super) const PAYLOAD_WORDS: usize = 64;
pub(super) const REPLY_WORDS: usize = 16;

/// The number of words that the case with a fixed number of tasks moves to the kernel.
const MANY_WORDS: u64 = 100_000_000;

/// The number of different payloads.
const POOL: usize = 128;

/// When a producer stops.
#[derive(Clone, Copy)]
enum LoadEnd {
    /// After this time.
    Time(Duration),
    /// After this many tasks of all producers.
    Tasks(u64),
}

/// What moves payloads and replies in a round: copies alone, or the tasks of a session.
enum PayloadContender {
    /// Threads that only copy.
    Threads,
    /// A device's engines that only copy.
    Engines(EngineCopies),
    /// Tasks of a session with such rings.
    Session(Placement, LoadEnd),
}

/// How a device is fed.
struct FeedShape {
    producers: u32,
    slots: u32,
    /// The number of tasks per batch.
    batch: u32,
    /// How many groups run tasks; as many as suit the device if it is not given.
    groups: Option<u32>,
}

impl FeedShape {
    fn of(device: &Arc<dyn Device>) -> Self {
        match device.caps().memory_bytes {
            Some(_) => FeedShape { producers: 8, slots: 1 << 14, batch: 1024, groups: None },
            None => FeedShape { producers: 1, slots: 4096, batch: 256, groups: Some(1) },
        }
    }
}

/// Measures tasks with payloads.
pub(super) fn measure_payloads(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let (device, shape) = (bench.device, FeedShape::of(bench.device));
    let engines = |bytes| Ok::<_, CliError>(PayloadContender::Engines(EngineCopies::new(device, bytes)?));
    let copies = match device.caps().memory_bytes {
        Some(_) => vec![
            ("copy engines", engines(TaskBytes::PLACES)?),
            ("copy engines, slots too", engines(TaskBytes::ALL)?),
        ],
        None => vec![("memcpy", PayloadContender::Threads)],
    };
    let peers: Vec<&str> = copies.iter().map(|(name, _)| *name).collect();
    let named = |(name, contender)| (format!("payload, {name}"), contender);
    let mut contenders: Vec<(String, PayloadContender)> = copies.into_iter().map(named).collect();
    let tasks = MANY_WORDS / PAYLOAD_WORDS as u64;
    let producers =
        if shape.producers == 1 { String::new() } else { format!(", {} producers", shape.producers) };
    for placement in [Placement::Near, Placement::Far] {
        if placement == Placement::Far || placement.is_available(device.caps()) {
            let name = format!("payload, {placement}{producers}");
            contenders.push((name.clone(), PayloadContender::Session(placement, LoadEnd::Time(bench.time))));
            let many = PayloadContender::Session(placement, LoadEnd::Tasks(tasks));
            contenders.push((format!("{name}, 1e8 words"), many));
        }
    }
    let wanted = |name: &str| name.contains(bench.only);
    if !contenders.iter().any(|(name, _)| wanted(name)) {
        return Ok(Vec::new());
    }
    // The copies are measured always, because all others are compared with them.
    contenders
        .retain(|(name, contender)| !matches!(contender, PayloadContender::Session(..)) || wanted(name));
    let series = play_rounds(bench.rounds, &mut contenders, |(_, contender)| {
        Ok(Sample::figure(match contender {
            PayloadContender::Engines(engines) => engines.rate(bench.time)?,
            PayloadContender::Threads => thread_copies(shape.producers, shape.slots as usize, bench.time)?,
            PayloadContender::Session(placement, end) => session_rate(device, &shape, *placement, *end)?,
        }))
    })?;
    let mut rows = Vec::new();
    for ((name, contender), ours) in contenders.iter().zip(&series) {
        match contender {
            PayloadContender::Session(..) => {
                let peers = peers.iter().zip(&series);
                rows.extend(peers.filter_map(|(peer, theirs)| bench.row(name, ours, Some((peer, theirs)))));
            }
            _ => rows.extend(bench.row(name, ours, None)),
        }
    }
    Ok(rows)
}

/// The spec of a session whose tasks reply with a digest of their payloads: each word of a reply is made of four words of
/// the payload.
fn digest_spec(shape: &FeedShape, placement: Placement) -> Spec {
    let digest = Handler::lane_wide(|task| {
        let f = task.body();
        let (payload, reply) = (task.payload(), task.reply());
        for first in (0..REPLY_WORDS as u32).step_by(4) {
            let words: [_; 4] = std::array::from_fn(|k| {
                let at = payload.at(4 * (first + k as u32));
                let [a, b, c, d] = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, at);
                a ^ f.rotl(b, 8) ^ f.rotl(c, 16) ^ f.rotl(d, 24)
            });
            f.store_wide(Order::Relaxed, Scope::Group, reply.at(first), words);
        }
        task.set_reply_len(4 * REPLY_WORDS as u32);
        task.finish(task.payload_len());
    });
    let geometry = Geometry { groups: shape.groups, ..Geometry::new(shape.slots) };
    Spec::new(geometry)
        .placement(placement)
        .producers(shape.producers)
        .payload(4 * PAYLOAD_WORDS as u32)
        .reply(4 * REPLY_WORDS as u32)
        .handler("digest", digest)
}

/// A payload, and the reply to it.
struct KnownPayload {
    words: [u32; PAYLOAD_WORDS],
    reply: [u32; REPLY_WORDS],
}

impl KnownPayload {
    fn new(number: u32) -> Self {
        let word = |k: u32| (number * PAYLOAD_WORDS as u32 + k + 1).wrapping_mul(0x9e37_79b9);
        let words: [u32; PAYLOAD_WORDS] = std::array::from_fn(|k| word(k as u32));
        let turned = |k: usize, by: u32| words[k].rotate_left(by);
        let digest = |k: usize| words[k] ^ turned(k + 1, 8) ^ turned(k + 2, 16) ^ turned(k + 3, 24);
        KnownPayload { words, reply: std::array::from_fn(|k| digest(4 * k)) }
    }
}

/// Feeds a new session, and returns the tasks per second. Every reply is checked.
fn session_rate(
    device: &Arc<dyn Device>,
    shape: &FeedShape,
    placement: Placement,
    end: LoadEnd,
) -> Result<f64, CliError> {
    let session = Session::launch(device, &digest_spec(shape, placement))?;
    let op = session.opcode("digest")?;
    let open = || Ok(session.producer(0)?.aim(Aim::Throughput));
    let mut producers = (0..shape.producers).map(|_| open()).collect::<Result<Vec<Producer>, CliError>>()?;
    let pool: Vec<KnownPayload> = (0..POOL as u32).map(KnownPayload::new).collect();
    let bank = flood::aimed_slots(&session, Aim::Throughput);
    let (batch, deep) = flood::batch_shape(&bank, shape.batch);
    let end = match end {
        LoadEnd::Tasks(tasks) => LoadEnd::Tasks(tasks / u64::from(shape.producers)),
        end => end,
    };
    let feed = PayloadFeed { op, pool: &pool, batch: batch as usize, deep, start: Instant::now(), end };
    let tasks = std::thread::scope(|scope| {
        let threads: Vec<_> =
            producers.iter_mut().map(|producer| scope.spawn(|| feed.run(producer))).collect();
        threads.into_iter().try_fold(0, |all, thread| {
            let ended = thread.join();
            Ok::<u64, CliError>(all + ended.map_err(|_| CliError::Wrong("a producer panicked".into()))??)
        })
    })?;
    let took = feed.start.elapsed();
    drop(producers);
    session.stop()?;
    Ok(tasks as f64 / took.as_secs_f64())
}

/// What each producer submits.
struct PayloadFeed<'p> {
    op: Opcode,
    pool: &'p [KnownPayload],
    batch: usize,
    /// The number of batches under way at the same time.
    deep: usize,
    start: Instant,
    end: LoadEnd,
}

impl PayloadFeed<'_> {
    /// Submits tasks until the end, and returns how many ended well.
    fn run(&self, producer: &mut Producer) -> Result<u64, CliError> {
        let mut open = VecDeque::with_capacity(self.deep);
        let mut sent = 0;
        while !self.is_over(sent) {
            if open.len() == self.deep
                && let Some((first, span)) = open.pop_front()
            {
                self.check_batch(first, span)?;
            }
            let first = sent as usize;
            let known = |k: usize| &self.pool[(first + k) % POOL];
            let tasks = (0..self.batch).map(|k| Task::new(self.op).words(&known(k).words));
            open.push_back((first, producer.submit_all(tasks)?));
            sent += self.batch as u64;
        }
        open.into_iter().try_for_each(|(first, span)| self.check_batch(first, span))?;
        Ok(sent)
    }

    fn is_over(&self, sent: u64) -> bool {
        stop::pressed()
            || match self.end {
                LoadEnd::Time(time) => self.start.elapsed() >= time,
                LoadEnd::Tasks(tasks) => sent >= tasks,
            }
    }

    /// Waits for a batch, and compares every word of every reply.
    fn check_batch(&self, first: usize, mut span: Span) -> Result<(), CliError> {
        span.wait(Deadline::after_ms(60_000))?;
        for k in 0..span.len() {
            let mut reply = [0; REPLY_WORDS];
            let len = span.reply_words(k, &mut reply);
            if len != Some(Ok(REPLY_WORDS)) || reply != self.pool[(first + k) % POOL].reply {
                return Err(CliError::Wrong(format!("task {} has a wrong reply ({len:?})", first + k)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_notices_words_that_change_places() {
        let known = KnownPayload::new(5);
        let mut words = known.words;
        words.swap(0, 1);
        let digest = words[0] ^ words[1].rotate_left(8) ^ words[2].rotate_left(16) ^ words[3].rotate_left(24);
        assert_ne!(digest, known.reply[0]);
    }

    #[test]
    fn every_reply_is_checked() {
        let device = pelton_device::open("cpu").expect("there is a CPU");
        let shape = FeedShape { slots: 256, batch: 32, ..FeedShape::of(&device) };
        for placement in [Placement::Near, Placement::Far] {
            let rate = session_rate(&device, &shape, placement, LoadEnd::Tasks(1000)).expect("it runs");
            assert!(rate > 0.0);
        }
    }
}
