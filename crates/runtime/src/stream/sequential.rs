//! Reads a source from its beginning to its end: a pipe, a socket, or a file whose bytes decide where chunks end.
//!
//! Nothing can interrupt a thread that waits for bytes of a pipe. So a thread of its own reads the source and sends its bytes on,
//! and the stream does not wait for that thread if it is stopped.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Instant;

use super::error::StreamError;
use super::plan::{SequentialSource, SourceName};
use super::shared::{ChunkContent, GLANCE, StreamShare};

/// How many bytes are read at once.
const READ_BYTES: usize = 256 << 10;

/// How many reads may be waiting until their bytes are used.
const READS_AHEAD: usize = 4;

/// Bytes of a source, or why there are no more. No bytes mean that the source has ended.
type SourceBytes = io::Result<Vec<u8>>;

/// Reads a source to its end, and submits its chunks.
pub(super) fn read_to_end(share: &StreamShare, source: SequentialSource) {
    let SequentialSource { source, reader } = source;
    let (send, bytes) = sync_channel(READS_AHEAD);
    let (give_back, spare) = channel();
    let pump = Builder::new().name("pelton-stream".into()).spawn(move || pump(reader, &send, &spare));
    match pump {
        Err(error) => share.fail_next(StreamError::Thread(error)),
        Ok(_) => {
            let cutter =
                ChunkCutter { share, source, offset: 0, tail: Vec::new(), pending: Vec::new(), since: None };
            if let Err(error) = cutter.run(&bytes, |used| drop(give_back.send(used))) {
                share.fail_next(error);
            }
        }
    }
    share.end_sequence();
}

/// Reads all sources, where files cannot be read at offsets.
#[cfg(not(unix))]
pub(super) fn read_all(share: &StreamShare) {
    use super::shared::{Claimed, Patience};
    loop {
        match share.claim(Patience::Wait) {
            Claimed::Sequential(source) => read_to_end(share, source),
            Claimed::Piece(..) | Claimed::NothingNow => {}
            Claimed::Over => return,
        }
    }
}

/// Reads until the source ends, or until nobody wants its bytes any more.
fn pump(mut reader: Box<dyn Read + Send>, send: &SyncSender<SourceBytes>, spare: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = spare.try_recv().unwrap_or_default();
        bytes.resize(READ_BYTES, 0);
        match reader.read(&mut bytes) {
            Ok(read) => {
                bytes.truncate(read);
                if send.send(Ok(bytes)).is_err() || read == 0 {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let _ = send.send(Err(error));
                return;
            }
        }
    }
}

/// Cuts the bytes of a source into chunks.
struct ChunkCutter<'a> {
    share: &'a StreamShare,
    source: SourceName,
    /// The offset of the first byte that is not in a chunk yet.
    offset: u64,
    /// The last bytes before that, which the next chunk repeats.
    tail: Vec<u8>,
    /// Bytes that are not in a chunk yet.
    pending: Vec<u8>,
    /// When the first of them came.
    since: Option<Instant>,
}

impl ChunkCutter<'_> {
    /// Cuts everything that comes into chunks. Bytes that were used up are given back.
    fn run(mut self, bytes: &Receiver<SourceBytes>, give_back: impl Fn(Vec<u8>)) -> Result<(), StreamError> {
        let most = self.share.ring.shape().chunk_bytes;
        loop {
            if !self.share.wants_more() {
                // What was read is handed over; what the other thread has read meanwhile is not.
                return self.send_rest();
            }
            match bytes.recv_timeout(self.patience()) {
                Ok(Ok(more)) if more.is_empty() => return self.send_rest(),
                Ok(Ok(more)) => {
                    let mut rest = &more[..];
                    while !rest.is_empty() {
                        let (now, later) = rest.split_at(rest.len().min(most - self.pending.len()));
                        self.pending.extend_from_slice(now);
                        self.since.get_or_insert_with(Instant::now);
                        rest = later;
                        if self.pending.len() == most && !self.send(self.cut())? {
                            return Ok(());
                        }
                    }
                    give_back(more);
                }
                Ok(Err(source)) => {
                    let offset = self.offset + self.pending.len() as u64;
                    let name = self.source.name.to_string();
                    self.send_rest()?;
                    return Err(StreamError::Read { name, offset, source });
                }
                // The source has not ended, so its reader has panicked.
                Err(RecvTimeoutError::Disconnected) => return Err(StreamError::Panicked),
                Err(RecvTimeoutError::Timeout) => {
                    let time_is_up = |since: Instant| {
                        self.share.cuts.1.is_some_and(|flush_after| since.elapsed() >= flush_after)
                    };
                    if self.since.is_some_and(time_is_up) && !self.send(self.cut())? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// How long to wait for more bytes.
    fn patience(&self) -> std::time::Duration {
        let left = |flush_after: std::time::Duration| {
            self.since.map_or(GLANCE, |since| flush_after.saturating_sub(since.elapsed()))
        };
        self.share.cuts.1.map_or(GLANCE, left).min(GLANCE)
    }

    /// How many of the pending bytes belong to the next chunk: all up to the last delimiter, or all if there is none.
    fn cut(&self) -> usize {
        let delimiter = self.share.cuts.0;
        let last = delimiter.and_then(|byte| self.pending.iter().rposition(|other| *other == byte));
        last.map_or(self.pending.len(), |at| at + 1)
    }

    /// Sends everything that is pending. What follows the last delimiter is a chunk of its own.
    fn send_rest(&mut self) -> Result<(), StreamError> {
        if self.send(self.cut())? {
            self.send(self.pending.len())?;
        }
        Ok(())
    }

    /// Makes a chunk of the first pending bytes. Returns whether more is to be read.
    fn send(&mut self, count: usize) -> Result<bool, StreamError> {
        if count == 0 {
            return Ok(true);
        }
        let Some(taken) = self.share.take_chunk() else { return Ok(false) };
        let (ring, overlap) = (&self.share.ring, self.tail.len());
        ring.write(taken.chunk, 0, &self.tail);
        ring.write(taken.chunk, overlap, &self.pending[..count]);
        let content = ChunkContent {
            source: self.source.clone(),
            offset: self.offset - overlap as u64,
            len: overlap + count,
            overlap,
        };
        self.share.submit(taken, content);
        self.offset += count as u64;
        let keep = ring.shape().overlap_bytes;
        self.tail.extend(self.pending.drain(..count));
        self.tail.drain(..self.tail.len().saturating_sub(keep));
        self.since = (!self.pending.is_empty()).then(Instant::now);
        Ok(true)
    }
}
