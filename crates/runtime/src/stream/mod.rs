//! Streams: files, pipes and sockets come in chunks, and each chunk becomes a task.
//!
//! A stream reads its [`Input`] ahead into a region in host memory, which it divides into *chunks*. Each chunk that is filled
//! becomes a task of one handler, which finds its bytes in the region, and the stream calls back with the result. Then the
//! chunk is filled again. So any amount of data flows through a few megabytes, and three things happen at once: the system
//! reads, the kernel computes, and the caller uses results.
//!
//! **Arguments.** A task gets six arguments: the first element of the chunk in the region, the number of its bytes, the low and
//! the high half of the offset of its first byte in the file, the number of the file, and the number of bytes at the
//! beginning that the chunk before it had too. Arguments of the user follow. The bytes after the last one are zero up to
//! the next multiple of 64, so that handlers may read whole words.
//!
//! **Overlap.** With an [overlap](Stream::overlap) of n, each chunk but the first of a file begins with the last n bytes of
//! the one before, so that whatever is at most n + 1 bytes long lies wholly in some chunk.
//!
//! **Back-pressure** works in both directions. If tasks or the callback are slow, all chunks are in use, and nothing more
//! is read. If the input is slow, no task waits for it: a chunk becomes a task when it is full.
//!
//! **Threads.** A few [readers](StreamEngine) claim pieces of files and free chunks together, in order, so the oldest piece
//! always has a chunk and the stream cannot get stuck. Whoever has filled a chunk submits its task. The thread that called
//! [`run`](Stream::run) waits for results and calls back. What cannot be read at an offset, such as a pipe, is read by one reader
//! alone, while the others wait.
//!
//! **Losses.** A session that [recovers](crate::Recovery) while a stream runs begins its tasks again, and finds the chunks as
//! they were, because host memory outlives the device.

mod chunk_ring;
mod collect;
mod error;
mod input;
mod places;
#[cfg(unix)]
mod plain_reader;
mod plan;
mod report;
mod sequential;
mod shared;
#[cfg(target_os = "linux")]
mod uring_reader;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pelton_ir::types::Type;

use self::chunk_ring::ChunkRing;
use self::plan::FilePlan;
use self::report::EngineUse;
use self::shared::{StreamShare, StreamTask};
use crate::deadline::Deadline;
use crate::error::TaskError;
use crate::kernel::TenantId;
use crate::protocol::slot;
use crate::session::{Producer, Session};

pub(crate) use places::StreamPlaces;

pub use collect::Chunk;
pub use error::StreamError;
pub use input::Input;
pub use report::{StreamEngine, StreamReport};

/// The name of the region that a stream reads into, unless [`Stream::region`] names another one.
pub const DEFAULT_REGION: &str = "stream";

/// How many arguments of a task the stream sets itself.
pub const STREAM_ARGS: usize = 6;

/// In which order results are handed over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ResultOrder {
    /// By file and offset. A result waits for those before it, and its chunk is not free until then.
    #[default]
    ByOffset,
    /// As tasks end.
    AsTheyEnd,
}

/// A stream that is being set up; [`Session::stream`] makes one.
#[must_use = "a stream does nothing until it is run"]
#[derive(Debug)]
pub struct Stream<'s> {
    session: &'s Session,
    tenant: TenantId,
    input: Input,
    region: String,
    op: Option<String>,
    args: Vec<u32>,
    chunk_bytes: usize,
    overlap_bytes: usize,
    order: ResultOrder,
    engine: StreamEngine,
    readers: Option<usize>,
    delimiter: Option<u8>,
    flush_after: Option<Duration>,
    stop: Option<Arc<AtomicBool>>,
}

/// Streams of data into a session.
impl Session {
    /// Sets up a stream that turns an input into tasks of a tenant; [`Stream::run`] runs it.
    ///
    /// The workspace needs a region in host memory with room for at least one chunk, and better for eight or more. Its name is
    /// `stream` unless [`Stream::region`] says otherwise. The stream takes one producer of the tenant, and uses at most half as many
    /// chunks as that has slots.
    ///
    /// ```
    /// use pelton::ir::types::Type;
    /// use pelton::stream::Input;
    /// use pelton::{Handler, Region, Session, Spec, device};
    ///
    /// // Counts the lines of a chunk: arguments 0 and 1 are its first element and the number of its bytes.
    /// let lines = Handler::lane_wide(|task| {
    ///     let (f, bytes) = (task.body(), task.region::<u32>("stream"));
    ///     let count = f.range((f.lit(0), task.arg(1), f.lit(1)), f.lit(0), |_, at, count| {
    ///         let byte = f.load_byte(bytes.at(task.arg(0) + (at >> 2)), at & 3);
    ///         f.select(byte.eq(u32::from(b'\n')), count + 1, count)
    ///     });
    ///     task.finish(count);
    /// });
    /// let region = Region::new("stream", Type::U32, 1 << 16).in_host_memory();
    /// let session = Session::launch(&device::open("cpu")?, &Spec::default().region(region).handler("lines", lines))?;
    ///
    /// let mut lines = 0;
    /// let text = Input::reader("a text", "one\ntwo\nthree\n".as_bytes());
    /// let report = session.stream(0, text).chunk(4096).op("lines").run(|_, result| lines += result.unwrap_or(0))?;
    /// assert_eq!((lines, report.bytes), (3, 14));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stream(&self, tenant: TenantId, input: Input) -> Stream<'_> {
        Stream {
            session: self,
            tenant,
            input,
            region: DEFAULT_REGION.into(),
            op: None,
            args: Vec::new(),
            chunk_bytes: 1 << 20,
            overlap_bytes: 0,
            order: ResultOrder::default(),
            engine: StreamEngine::default(),
            readers: None,
            delimiter: None,
            flush_after: None,
            stop: None,
        }
    }
}

impl Stream<'_> {
    /// Sets the name of the handler that gets the chunks, or of a built-in operation.
    pub fn op(self, name: impl Into<String>) -> Self {
        Stream { op: Some(name.into()), ..self }
    }

    /// Sets the arguments of every task that follow the six of the stream. At most six.
    pub fn args(self, args: &[u32]) -> Self {
        Stream { args: args.to_vec(), ..self }
    }

    /// Sets the region that the stream reads into, which must lie in host memory.
    pub fn region(self, name: impl Into<String>) -> Self {
        Stream { region: name.into(), ..self }
    }

    /// Sets how many bytes of the input a chunk has, without its overlap. The last chunk of a file may have fewer. The default
    /// is 1 MiB.
    pub fn chunk(self, bytes: usize) -> Self {
        Stream { chunk_bytes: bytes, ..self }
    }

    /// Sets how many bytes of a chunk are repeated at the beginning of the next one. The default is 0.
    pub fn overlap(self, bytes: usize) -> Self {
        Stream { overlap_bytes: bytes, ..self }
    }

    /// Ends every chunk after a delimiter, such as a line feed, if it has one; what follows the last delimiter is left to the
    /// next chunk. Files are then read by one reader.
    pub fn delimiter(self, byte: u8) -> Self {
        Stream { delimiter: Some(byte), ..self }
    }

    /// Sets how long bytes of a pipe or a socket wait for a chunk to become full. Without this, they wait until it is full or
    /// the input ends.
    pub fn flush_after(self, time: Duration) -> Self {
        Stream { flush_after: Some(time), ..self }
    }

    /// Sets in which order results are handed over.
    pub fn order(self, order: ResultOrder) -> Self {
        Stream { order, ..self }
    }

    /// Sets how files are read. The default is the best way that the system allows.
    pub fn engine(self, engine: StreamEngine) -> Self {
        Stream { engine, ..self }
    }

    /// Sets how many threads read. By default, this depends on the number of cores.
    pub fn readers(self, threads: usize) -> Self {
        Stream { readers: Some(threads), ..self }
    }

    /// Sets a flag that stops the stream when it becomes true: nothing more is read, and what was read before is run and handed
    /// over, except for what was read ahead from a pipe or a socket and is not in a chunk yet. The callback may set it, and so may any other thread.
    pub fn stop_flag(self, stop: Arc<AtomicBool>) -> Self {
        Stream { stop: Some(stop), ..self }
    }

    /// Runs the stream to its end. If the tenant is disabled or has no credit left, this waits until that changes. `on_chunk` gets every chunk and the result of its task; a task that has no result does not
    /// end the stream. When it returns, the chunk is used again.
    ///
    /// # Errors
    ///
    /// [`StreamError::Read`], [`StreamError::Open`] or [`StreamError::Shrunk`] for the first part of the input that cannot be
    /// read. If results come by offset, then exactly what is before that part was handed over. Other errors say what
    /// is wrong with the stream or its session.
    pub fn run(
        mut self,
        mut on_chunk: impl FnMut(&Chunk<'_>, Result<u32, TaskError>),
    ) -> Result<StreamReport, StreamError> {
        let started = Instant::now();
        let mut ring = self.chunk_ring()?;
        let _busy = self.session.stream_places().take(ring.start()).ok_or(StreamError::Busy)?;
        let op = self.op.take().ok_or(StreamError::NoOp)?;
        let op = self.session.opcode(&op)?;
        if STREAM_ARGS + self.args.len() > slot::ARGS {
            return Err(StreamError::Arguments { found: self.args.len(), most: slot::ARGS - STREAM_ARGS });
        }
        let producer = self.session.producer(self.tenant)?.patience(Deadline::Never);
        ring.limit(most_chunks(&producer, self.session));
        let sources = std::mem::take(&mut self.input).list()?;
        let plan = FilePlan::new(sources, ring.shape(), self.delimiter);
        let task = StreamTask { op, args: self.args };
        let stop = self.stop.unwrap_or_default();
        let times = (self.delimiter, self.flush_after);
        let share = StreamShare::new(ring, plan, (producer, task), times, stop);
        let engine = EngineUse::choose(self.engine, self.readers, &share)?;
        let collected = collect::run_stream(&share, engine, self.order, &mut on_chunk)?;
        Ok(StreamReport { took: started.elapsed(), ..collected })
    }

    /// Divides the region into chunks, as many as there is room for.
    fn chunk_ring(&self) -> Result<ChunkRing, StreamError> {
        if self.chunk_bytes == 0 {
            return Err(StreamError::EmptyChunks);
        }
        let piece = self.session.piece(self.tenant, &self.region)?;
        let spec = self.session.spec();
        let in_host_memory = |region: &&crate::Region| {
            region.name == self.region && region.memory == crate::RegionMemory::Host
        };
        if spec.regions.iter().find(in_host_memory).is_none() {
            return Err(StreamError::NotInHostMemory { region: self.region.clone() });
        }
        let memory = self.session.piece_memory(&piece)?;
        let elem_bytes = if piece.elem == Type::U64 { 8 } else { 4 };
        ChunkRing::new(memory, (piece.first, piece.len, elem_bytes), (self.chunk_bytes, self.overlap_bytes))
            .map_err(|needed| StreamError::NoRoom {
                region: self.region.clone(),
                bytes: (piece.len * elem_bytes) as u64,
                needed,
            })
    }
}

/// How many chunks a stream may have so that its producer always has room for the task of the oldest one.
///
/// If results come by offset, the tickets of newer chunks are kept until the oldest one was submitted and has ended, so its submit
/// must not wait for them. A stripe gives its slots out again in order. After the oldest ticket that is kept, it has slots of
/// others that are kept, which are fewer than there are chunks, and of tasks that were older than the oldest one is now, which
/// were fewer too. So all stripes together are never full if they have slots for twice as many tasks as there are chunks. A
/// resumable task needs a cell, and cells are given out again in any order.
fn most_chunks(producer: &Producer, session: &Session) -> usize {
    let slots = producer.largest_batch() / 2;
    slots.min(session.spec().cells.into()).max(1) as usize
}
