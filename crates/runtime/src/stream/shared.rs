//! What the threads of a stream share: free chunks, what is to be read, and chunks whose tasks are under way.
//!
//! A reader takes a free chunk and the next part of the input under one lock, and both get the next *sequence number*. So
//! numbers follow the order of the input, and every number that was given out ends in one of two ways: as a chunk whose task is
//! submitted, or as an error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::STREAM_ARGS;
use super::chunk_ring::ChunkRing;
use super::error::StreamError;
use super::plan::{FilePiece, FilePlan, NextPart, SequentialSource, SourceName};
use crate::protocol::Opcode;
use crate::session::{Producer, Ticket};
use crate::task::Task;

/// How long a thread waits before it looks whether the stream was stopped.
pub(super) const GLANCE: Duration = Duration::from_millis(20);

/// The task that chunks become.
#[derive(Debug)]
pub(super) struct StreamTask {
    pub op: Opcode,
    /// The arguments that follow those of the stream.
    pub args: Vec<u32>,
}

/// What a chunk holds.
#[derive(Clone, Debug)]
pub(super) struct ChunkContent {
    pub source: SourceName,
    /// The offset of its first byte.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
    /// How many of its bytes the chunk before it had too.
    pub overlap: usize,
}

impl FilePiece {
    /// What a chunk holds that has this piece.
    pub(super) fn content(&self) -> ChunkContent {
        let FilePiece { file, offset, len, overlap } = self;
        ChunkContent { source: file.source.clone(), offset: *offset, len: *len, overlap: *overlap }
    }
}

/// A free chunk that a reader has taken to fill it, with its sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenChunk {
    pub chunk: usize,
    pub sequence: u64,
}

/// A chunk whose task is under way.
#[derive(Debug)]
pub(super) struct SubmittedChunk {
    pub chunk: usize,
    pub content: ChunkContent,
    pub ticket: Ticket,
}

/// What a reader is to do next.
pub(super) enum Claimed {
    /// Fill a chunk with a piece of a file.
    Piece(FilePiece, TakenChunk),
    /// Read a source to its end, after everything that was claimed before.
    Sequential(SequentialSource),
    /// There is no free chunk, or another reader reads a source to its end.
    NothingNow,
    /// There is nothing left to read.
    Over,
}

/// Whether a reader waits for a free chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Wait,
    Now,
}

/// What is guarded by the lock of a stream.
pub(super) struct StreamState {
    free: Vec<usize>,
    plan: FilePlan,
    next_sequence: u64,
    /// Chunks whose tasks are under way, by sequence number.
    pub submitted: BTreeMap<u64, SubmittedChunk>,
    /// Whether a reader reads a source to its end.
    in_sequence: bool,
    /// Whether nothing more is to be read.
    over: bool,
    /// Whether nobody wants results any more.
    closed: bool,
    /// How many readers have not ended.
    pub readers: usize,
    /// The first error, by sequence number.
    pub error: Option<(u64, StreamError)>,
}

impl StreamState {
    /// How many files, pipes and sockets were opened.
    pub(super) fn opened(&self) -> u64 {
        self.plan.opened.into()
    }
}

/// What the threads of a stream share.
pub(super) struct StreamShare {
    pub ring: ChunkRing,
    producer: Mutex<Producer>,
    task: StreamTask,
    /// The byte after which chunks end, and how long bytes wait for a chunk to become full.
    pub cuts: (Option<u8>, Option<Duration>),
    stop: Arc<AtomicBool>,
    state: Mutex<StreamState>,
    /// Signalled when a chunk becomes free, and when there is nothing left to read.
    room: Condvar,
    /// Signalled when a task was submitted, and when a reader has ended.
    news: Condvar,
}

impl StreamShare {
    pub(super) fn new(
        ring: ChunkRing,
        plan: FilePlan,
        (producer, task): (Producer, StreamTask),
        cuts: (Option<u8>, Option<Duration>),
        stop: Arc<AtomicBool>,
    ) -> Self {
        let state = StreamState {
            // The last one is taken first.
            free: (0..ring.count()).rev().collect(),
            plan,
            next_sequence: 0,
            submitted: BTreeMap::new(),
            in_sequence: false,
            over: false,
            closed: false,
            readers: 0,
            error: None,
        };
        let (room, news) = (Condvar::new(), Condvar::new());
        let producer = Mutex::new(producer);
        StreamShare { ring, producer, task, cuts, stop, state: Mutex::new(state), room, news }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the user wants the stream to stop.
    pub(super) fn is_stopped(&self) -> bool {
        // Relaxed: the flag orders nothing, it only has to be seen.
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until something may have happened that the collector wants to know.
    pub(super) fn wait_for_news<'g>(
        &self,
        state: MutexGuard<'g, StreamState>,
    ) -> MutexGuard<'g, StreamState> {
        let waited = self.news.wait_timeout(state, GLANCE);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Claims the next part of the input, with a chunk if it is a piece of a file.
    pub(super) fn claim(&self, patience: Patience) -> Claimed {
        let mut state = self.lock();
        loop {
            if state.over || self.is_stopped() {
                self.end_reading(&mut state);
                return Claimed::Over;
            }
            if !state.in_sequence && !state.free.is_empty() {
                return self.claim_next(&mut state);
            }
            if patience == Patience::Now {
                return Claimed::NothingNow;
            }
            state = self.wait_for_room(state);
        }
    }

    /// Claims the next part. There is a free chunk.
    fn claim_next(&self, state: &mut StreamState) -> Claimed {
        match state.plan.next_part() {
            Ok(Some(NextPart::Piece(piece))) => {
                let sequence = state.next_sequence;
                state.next_sequence += 1;
                let chunk = state.free.pop().expect("there is a free chunk");
                Claimed::Piece(piece, TakenChunk { chunk, sequence })
            }
            Ok(Some(NextPart::Sequential(source))) => {
                state.in_sequence = true;
                Claimed::Sequential(source)
            }
            Ok(None) => {
                self.end_reading(state);
                Claimed::Over
            }
            Err(error) => {
                note_error(state, state.next_sequence, error);
                self.end_reading(state);
                Claimed::Over
            }
        }
    }

    /// Takes a free chunk for the reader that reads a source to its end. `None` if nothing more is to be read.
    pub(super) fn take_chunk(&self) -> Option<TakenChunk> {
        let mut state = self.lock();
        loop {
            if let Some(chunk) = state.free.pop() {
                let sequence = state.next_sequence;
                state.next_sequence += 1;
                return Some(TakenChunk { chunk, sequence });
            }
            // If the stream is only stopped, what was read is still handed over.
            if state.closed || state.error.is_some() {
                return None;
            }
            state = self.wait_for_room(state);
        }
    }

    /// Lets other readers go on after a source was read to its end.
    pub(super) fn end_sequence(&self) {
        self.lock().in_sequence = false;
        self.room.notify_all();
    }

    /// Submits the task of a chunk that was filled.
    pub(super) fn submit(&self, taken: TakenChunk, content: ChunkContent) {
        let TakenChunk { chunk, sequence } = taken;
        self.ring.clear_rest(chunk, content.len);
        let mut task = Task::new(self.task.op).args([
            self.ring.place(chunk),
            content.len as u32,
            content.offset as u32,
            (content.offset >> 32) as u32,
            content.source.number,
            content.overlap as u32,
        ]);
        task.args[STREAM_ARGS..][..self.task.args.len()].copy_from_slice(&self.task.args);
        // The submit is a release, so the task sees the bytes.
        let submitted = self.producer.lock().unwrap_or_else(PoisonError::into_inner).submit(task);
        let mut state = self.lock();
        match submitted {
            Ok(ticket) => {
                state.submitted.insert(sequence, SubmittedChunk { chunk, content, ticket });
                self.news.notify_all();
            }
            Err(source) => {
                let (name, offset) = (content.source.name.to_string(), content.offset);
                note_error(&mut state, sequence, StreamError::Submit { name, offset, source });
                self.end_reading(&mut state);
            }
        }
    }

    /// Notes that what has a sequence number could not be read, and reads nothing more.
    pub(super) fn fail(&self, sequence: u64, error: StreamError) {
        let mut state = self.lock();
        note_error(&mut state, sequence, error);
        self.end_reading(&mut state);
    }

    /// Notes that the source that is read to its end cannot be read on.
    pub(super) fn fail_next(&self, error: StreamError) {
        let mut state = self.lock();
        let sequence = state.next_sequence;
        note_error(&mut state, sequence, error);
        self.end_reading(&mut state);
    }

    /// Lets a chunk be filled again.
    pub(super) fn free_chunk(&self, chunk: usize) {
        self.lock().free.push(chunk);
        self.room.notify_one();
    }

    /// Notes that a reader has ended.
    pub(super) fn end_reader(&self) {
        self.lock().readers -= 1;
        self.news.notify_all();
    }

    /// Whether bytes that come from now on are still wanted.
    pub(super) fn wants_more(&self) -> bool {
        let state = self.lock();
        !(self.is_stopped() || state.closed || state.error.is_some())
    }

    /// Lets all readers end, because nobody wants results any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.end_reading(&mut state);
    }

    fn end_reading(&self, state: &mut StreamState) {
        state.over = true;
        self.room.notify_all();
        self.news.notify_all();
    }

    fn wait_for_room<'g>(&self, state: MutexGuard<'g, StreamState>) -> MutexGuard<'g, StreamState> {
        self.room.wait_timeout(state, GLANCE).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Keeps the error that comes first in the input.
fn note_error(state: &mut StreamState, sequence: u64, error: StreamError) {
    if state.error.as_ref().is_none_or(|(first, _)| sequence < *first) {
        state.error = Some((sequence, error));
    }
}
