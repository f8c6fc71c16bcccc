//! What moving the bytes of payloads and replies costs without tasks: copies by threads, or by a GPU's copy engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::protocol::slot;
use pelton_device::{Device, HostBytes, Memory, MemoryKind, WordWidth};

use super::payload::{PAYLOAD_WORDS, REPLY_WORDS};
use crate::error::CliError;

/// The number of tasks whose bytes a copy engine moves at once.
const ENGINE_TASKS: usize = 1 << 16;

/// Copies payloads to places and replies from places with threads, for a time, and returns how many tasks per second
/// have such bytes. Each thread has places of its own, as many as a ring has slots.
pub(super) fn thread_copies(threads: u32, slots: usize, time: Duration) -> Result<f64, CliError> {
    let start = Instant::now();
    let tasks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = || tasks.fetch_add(copy_for(slots, start, time), Ordering::Relaxed);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map(drop))
    })
    .map_err(|_| CliError::Wrong("a thread that copies panicked".into()))?;
    Ok(tasks.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// Copies in one thread until the time is over, and returns the number of tasks.
fn copy_for(slots: usize, start: Instant, time: Duration) -> u64 {
    let mut payloads = vec![[0u32; PAYLOAD_WORDS]; slots];
    let replies = vec![[7u32; REPLY_WORDS]; slots];
    let (payload, mut reply, mut tasks) = ([3; PAYLOAD_WORDS], [0; REPLY_WORDS], 0);
    while start.elapsed() < time {
        for (to, from) in payloads.iter_mut().zip(&replies) {
            // The compiler must not see that all these copies are equal.
            *to = std::hint::black_box(payload);
            reply = std::hint::black_box(*from);
        }
        tasks += slots as u64;
    }
    std::hint::black_box((payloads, reply));
    tasks
}

/// How many bytes cross the bus for a task.
#[derive(Clone, Copy)]
pub(super) struct TaskBytes {
    /// How many go to the device.
    pub up: usize,
    /// How many come from the device.
    pub down: usize,
}

impl TaskBytes {
    /// The bytes of a payload and of a reply.
    pub(super) const PLACES: TaskBytes = TaskBytes { up: 4 * PAYLOAD_WORDS, down: 4 * REPLY_WORDS };

    /// Everything that crosses the bus for a task: also its slot and the length of its payload, and its record and the
    /// word of its reply.
    pub(super) const ALL: TaskBytes = TaskBytes {
        up: TaskBytes::PLACES.up + 4 * slot::WORDS + size_of::<u32>(),
        down: TaskBytes::PLACES.down + 2 * size_of::<u64>(),
    };
}

/// Host memory from which a copy engine takes payloads, and memory for replies, with their counterparts on the device.
pub(super) struct EngineCopies {
    payloads: HostBytes,
    replies: HostBytes,
    device_payloads: Memory,
    device_replies: Memory,
}

impl EngineCopies {
    /// Allocates the memory for copies of so many bytes per task.
    pub(super) fn new(device: &Arc<dyn Device>, bytes: TaskBytes) -> Result<Self, CliError> {
        let TaskBytes { up, down } = bytes;
        let mut payloads = HostBytes::new(&**device, up * ENGINE_TASKS)?;
        payloads
            .as_mut_slice()
            .iter_mut()
            .zip(0u32..)
            .for_each(|(byte, k)| *byte = (k.wrapping_mul(37) >> 3) as u8);
        let memory =
            |bytes: usize| device.alloc(MemoryKind::Device, WordWidth::W64, bytes * ENGINE_TASKS / 8);
        let device_replies = memory(down)?;
        device_replies.upload(0, &vec![0x1234_5678u64; device_replies.len()])?;
        Ok(EngineCopies {
            payloads,
            replies: HostBytes::new(&**device, down * ENGINE_TASKS)?,
            device_payloads: memory(up)?,
            device_replies,
        })
    }

    /// Copies payloads to the device and replies from it at the same time, and returns how many tasks per second have
    /// such bytes. What was copied is checked.
    pub(super) fn rate(&mut self, time: Duration) -> Result<f64, CliError> {
        let start = Instant::now();
        let (payloads, replies) = (words_of(&self.payloads), words_of_mut(&mut self.replies));
        let (up, down) = (&self.device_payloads, &self.device_replies);
        let mut turns = 0;
        while start.elapsed() < time {
            std::thread::scope(|scope| {
                let upload = scope.spawn(|| up.upload(0, payloads));
                let downloaded = down.download(0, replies);
                let uploaded = upload.join();
                downloaded?;
                uploaded.map_err(|_| CliError::Wrong("a thread that copies panicked".into()))??;
                Ok::<(), CliError>(())
            })?;
            turns += 1;
        }
        let rate = (turns * ENGINE_TASKS) as f64 / start.elapsed().as_secs_f64();
        let mut back = vec![0u64; self.device_payloads.len()];
        self.device_payloads.download(0, &mut back)?;
        match back == words_of(&self.payloads)
            && words_of(&self.replies).iter().all(|word| *word == 0x1234_5678)
        {
            true => Ok(rate),
            false => Err(CliError::Wrong("the copies differ from what was copied".into())),
        }
    }
}

/// The bytes as words. They begin at a page, and there is a multiple of eight of them.
fn words_of(bytes: &HostBytes) -> &[u64] {
    // SAFETY: eight bytes of any value are a word.
    unsafe { bytes.as_slice().align_to().1 }
}

/// The bytes as words that can be written.
fn words_of_mut(bytes: &mut HostBytes) -> &mut [u64] {
    // SAFETY: eight bytes of any value are a word, and the other way round.
    unsafe { bytes.as_mut_slice().align_to_mut().1 }
}
