//! Hands results over: the thread that runs a stream waits for its tasks and calls back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use super::ResultOrder;
use super::chunk_ring::ChunkRing;
use super::error::StreamError;
use super::report::{EngineUse, StreamReport};
use super::shared::{StreamShare, SubmittedChunk};
use crate::deadline::Deadline;
use crate::error::TaskError;

/// How long to spin for the end of a task before the thread sleeps. Readers and the kernel may need its core.
const SPIN: Duration = Duration::from_micros(1);
/// How often the thread then gives its core away and looks again before it sleeps. Small chunks end within microseconds.
const YIELDS: u32 = 64;
/// How long the thread sleeps between two looks.
const NAP: Duration = Duration::from_micros(50);

/// A chunk of a stream, as the callback sees it.
#[derive(Debug)]
pub struct Chunk<'r> {
    submitted: &'r SubmittedChunk,
    ring: &'r ChunkRing,
}

impl Chunk<'_> {
    /// Returns the number of the file, pipe or socket, in the order of the input.
    pub fn file(&self) -> u32 {
        self.submitted.content.source.number
    }

    /// Returns the name of the file, pipe or socket.
    pub fn name(&self) -> &str {
        &self.submitted.content.source.name
    }

    /// Returns the offset of the first byte of the chunk in its file.
    pub fn offset(&self) -> u64 {
        self.submitted.content.offset
    }

    /// Returns how many bytes the chunk has, with those that are repeated.
    pub fn len(&self) -> usize {
        self.submitted.content.len
    }

    /// Returns whether the chunk has no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many bytes at the beginning of the chunk are those at the end of the one before it.
    pub fn overlap(&self) -> usize {
        self.submitted.content.overlap
    }

    /// Returns the number of the chunk's first element in the region.
    pub fn place(&self) -> u32 {
        self.ring.place(self.submitted.chunk)
    }

    /// Returns a copy of the chunk's bytes, as they are now. They are those of the input unless a handler has changed them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.ring.read(self.submitted.chunk, 0, &mut bytes);
        bytes
    }
}

/// What gets the chunks and their results.
type OnChunk<'c> = &'c mut dyn FnMut(&Chunk<'_>, Result<u32, TaskError>);

/// Starts the readers of a stream, and hands results over until it has ended.
pub(super) fn run_stream(
    share: &StreamShare,
    engine: EngineUse,
    order: ResultOrder,
    on_chunk: OnChunk<'_>,
) -> Result<StreamReport, StreamError> {
    let (name, registered) = engine.described();
    let mut report = StreamReport {
        files: 0,
        bytes: 0,
        chunks: 0,
        faults: 0,
        engine: name,
        registered,
        readers: engine.readers(),
        stopped: false,
        took: Duration::ZERO,
    };
    let panicked = AtomicBool::new(false);
    let started = std::thread::scope(|threads| {
        // If the callback panics, the readers end all the same, and the scope can be left.
        let _close = CloseOnDrop(share);
        let started = start_readers(threads, share, engine, &panicked);
        if started.is_ok() {
            let mut collector = Collector { share, order, next: 0, on_chunk, report: &mut report };
            collector.run();
        }
        started
    });
    started?;
    let mut state = share.lock();
    report.files = state.opened();
    report.stopped = share.is_stopped();
    // The next stream may fill these chunks, so their tasks must have ended.
    while let Some((_, mut left)) = state.submitted.pop_first() {
        let _ = left.ticket.wait(Deadline::Never);
    }
    match state.error.take() {
        _ if panicked.load(Ordering::Relaxed) => Err(StreamError::Panicked),
        Some((_, error)) => Err(error),
        None => Ok(report),
    }
}

struct CloseOnDrop<'s>(&'s StreamShare);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Ends a reader, also if it panics.
struct ReaderEnd<'s> {
    share: &'s StreamShare,
    panicked: &'s AtomicBool,
}

impl Drop for ReaderEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.panicked.store(true, Ordering::Relaxed);
            self.share.close();
        }
        self.share.end_reader();
    }
}

/// Starts the threads that read.
fn start_readers<'scope, 'env: 'scope>(
    threads: &'scope std::thread::Scope<'scope, 'env>,
    share: &'env StreamShare,
    engine: EngineUse,
    panicked: &'env AtomicBool,
) -> Result<(), StreamError> {
    let start = |read: Box<dyn FnOnce() + Send>| {
        share.lock().readers += 1;
        let end = ReaderEnd { share, panicked };
        let started = Builder::new().name("pelton-reader".into()).spawn_scoped(threads, move || {
            let _end = end;
            read();
        });
        // If there is no thread, the reader's end was dropped with its closure.
        started.map(drop).map_err(StreamError::Thread)
    };
    match engine {
        #[cfg(unix)]
        EngineUse::Plain(count) => {
            (0..count).try_for_each(|_| start(Box::new(move || super::plain_reader::read_plainly(share))))
        }
        #[cfg(not(unix))]
        EngineUse::Plain(_) => start(Box::new(move || super::sequential::read_all(share))),
        #[cfg(target_os = "linux")]
        EngineUse::Rings(rings) => rings
            .into_iter()
            .try_for_each(|ring| start(Box::new(move || super::uring_reader::read_by_ring(share, ring)))),
    }
}

/// Hands results over.
struct Collector<'a, 'c> {
    share: &'a StreamShare,
    order: ResultOrder,
    /// The sequence number of the next result, if they come in order.
    next: u64,
    on_chunk: OnChunk<'c>,
    report: &'a mut StreamReport,
}

impl Collector<'_, '_> {
    /// Hands results over until the stream has ended.
    fn run(&mut self) {
        while let Some((sequence, mut submitted)) = self.next_submitted() {
            if !wait_briefly(&mut submitted) {
                // Its turn comes again, when others that may have ended have been looked at.
                self.share.lock().submitted.insert(sequence, submitted);
                continue;
            }
            self.next += 1;
            self.hand_over(&mut submitted);
            self.share.free_chunk(submitted.chunk);
        }
    }

    /// Waits for a chunk whose task is under way: the next one in order or, if any will do, one that has ended or the oldest one.
    /// `None` if there will be none.
    fn next_submitted(&mut self) -> Option<(u64, SubmittedChunk)> {
        let mut state = self.share.lock();
        loop {
            let wanted = match self.order {
                ResultOrder::ByOffset => Some(self.next),
                ResultOrder::AsTheyEnd => {
                    let mut chunks = state.submitted.iter_mut();
                    let ended =
                        chunks.find_map(|(sequence, chunk)| chunk.ticket.has_ended().then_some(*sequence));
                    ended.or_else(|| state.submitted.first_key_value().map(|(sequence, _)| *sequence))
                }
            };
            if let Some(found) =
                wanted.and_then(|sequence| Some((sequence, state.submitted.remove(&sequence)?)))
            {
                return Some(found);
            }
            // Each number that was given out is submitted or fails before its reader ends.
            if state.readers == 0 {
                return None;
            }
            state = self.share.wait_for_news(state);
        }
    }

    /// Calls back with the result of a task that has ended.
    fn hand_over(&mut self, submitted: &mut SubmittedChunk) {
        let result = submitted.ticket.result();
        let content = &submitted.content;
        self.report.chunks += 1;
        self.report.bytes += (content.len - content.overlap) as u64;
        self.report.faults += u64::from(result.is_err());
        (self.on_chunk)(&Chunk { submitted, ring: &self.share.ring }, result);
    }
}

/// Waits a moment for the end of a task. Returns whether it has ended.
fn wait_briefly(submitted: &mut SubmittedChunk) -> bool {
    // This also notices if the session's device is lost.
    if !matches!(submitted.ticket.wait(SPIN), Err(TaskError::Late)) {
        return true;
    }
    for _ in 0..YIELDS {
        std::thread::yield_now();
        if submitted.ticket.has_ended() {
            return true;
        }
    }
    std::thread::sleep(NAP);
    submitted.ticket.has_ended()
}
