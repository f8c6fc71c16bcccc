//! Reads pieces of files by io_uring, with several requests under way per thread.
//!
//! Each reader has a ring of its own, which no other thread uses. Where the system allows it, chunks are registered with the
//! ring, so that the system need not look up and pin their pages for every request; it refuses that for some memory of drivers, and
//! if too much memory would be locked.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};

use super::chunk_ring::ChunkRing;
use super::error::StreamError;
use super::plan::FilePiece;
use super::sequential::read_to_end;
use super::shared::{Claimed, Patience, StreamShare, TakenChunk};

/// How many requests of a ring are under way at most.
const MOST_REQUESTS: u32 = 32;

/// A ring through which one thread asks the system to read.
pub(super) struct RequestRing {
    ring: IoUring,
    registered: bool,
}

impl RequestRing {
    /// Whether chunks are registered with the ring.
    pub(super) fn has_registered_chunks(&self) -> bool {
        self.registered
    }
}

/// Opens so many rings for the chunks of a stream.
///
/// # Errors
///
/// The system's own error if it does not allow rings.
pub(super) fn open_rings(count: usize, chunks: &ChunkRing) -> io::Result<Vec<RequestRing>> {
    (0..count).map(|_| open_ring(chunks)).collect()
}

fn open_ring(chunks: &ChunkRing) -> io::Result<RequestRing> {
    let entries = MOST_REQUESTS.min(chunks.count() as u32).next_power_of_two();
    let ring = IoUring::builder().build(entries)?;
    let block =
        |chunk| libc::iovec { iov_base: chunks.address(chunk, 0).as_ptr().cast(), iov_len: chunks.room() };
    let blocks: Vec<libc::iovec> = (0..chunks.count()).map(block).collect();
    // SAFETY: the memory of the chunks stays until the stream has ended, and with it the ring.
    let registered = unsafe { ring.submitter().register_buffers(&blocks) }.is_ok();
    Ok(RequestRing { ring, registered })
}

/// A piece that is being read.
struct Request {
    piece: FilePiece,
    taken: TakenChunk,
    /// How many bytes of the piece were read.
    done: usize,
}

/// Reads pieces until there are none left.
pub(super) fn read_by_ring(share: &StreamShare, mut ring: RequestRing) {
    let most = ring.ring.params().sq_entries() as usize;
    // By the number of the chunk.
    let mut requests: Vec<Option<Request>> = (0..share.ring.count()).map(|_| None).collect();
    let (mut under_way, mut over) = (0, false);
    loop {
        while !over && under_way < most {
            match share.claim(if under_way == 0 { Patience::Wait } else { Patience::Now }) {
                Claimed::Piece(piece, taken) => {
                    let request = requests[taken.chunk].insert(Request { piece, taken, done: 0 });
                    ring.push(&share.ring, request);
                    under_way += 1;
                }
                Claimed::Sequential(source) => {
                    // What was claimed before comes first, and nobody else completes it.
                    under_way = ring.complete_all(share, &mut requests, under_way);
                    read_to_end(share, source);
                }
                Claimed::NothingNow => break,
                Claimed::Over => over = true,
            }
        }
        if under_way > 0 {
            under_way = ring.complete_some(share, &mut requests, under_way);
        } else if over {
            return;
        }
    }
}

impl RequestRing {
    /// Asks the system to read the rest of a piece.
    fn push(&mut self, chunks: &ChunkRing, request: &Request) {
        let Request { piece, taken, done } = request;
        let (fd, to) = (Fd(piece.file.file.as_raw_fd()), chunks.address(taken.chunk, *done).as_ptr());
        let (len, offset) = ((piece.len - done) as u32, piece.offset + *done as u64);
        let entry: squeue::Entry = match self.registered {
            true => opcode::ReadFixed::new(fd, to, len, taken.chunk as u16).offset(offset).build(),
            false => opcode::Read::new(fd, to, len).offset(offset).build(),
        };
        // SAFETY: the request keeps the file open until its completion, and the chunk has room for the rest of the piece and is
        // written by nobody else until then.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(taken.chunk as u64)) };
        pushed.expect("there is an entry for each request that may be under way");
    }

    /// Waits until no request is under way.
    fn complete_all(
        &mut self,
        share: &StreamShare,
        requests: &mut [Option<Request>],
        mut under_way: usize,
    ) -> usize {
        while under_way > 0 {
            under_way = self.complete_some(share, requests, under_way);
        }
        under_way
    }

    /// Waits until at least one request is complete, and submits the tasks of chunks that are full. Returns how many
    /// requests are still under way.
    fn complete_some(
        &mut self,
        share: &StreamShare,
        requests: &mut [Option<Request>],
        mut under_way: usize,
    ) -> usize {
        if let Err(error) = self.ring.submit_and_wait(1)
            && !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
        {
            // No request can be made or awaited any more. Those that are under way keep their chunks until the ring is
            // closed, and no chunk is filled again, because the stream ends.
            for request in requests.iter_mut().filter_map(Option::take) {
                let again = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
                share.fail(request.taken.sequence, request.piece.read_error(request.done, again));
            }
            return 0;
        }
        let completed: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (chunk, result) in completed {
            let place = &mut requests[chunk as usize];
            let Some(mut request) = place.take() else { continue };
            match read_on(&mut request, result) {
                Ok(true) => {
                    under_way -= 1;
                    share.submit(request.taken, request.piece.content());
                }
                Ok(false) => self.push(&share.ring, place.insert(request)),
                Err(error) => {
                    under_way -= 1;
                    share.fail(request.taken.sequence, error);
                }
            }
        }
        under_way
    }
}

/// Notes what a request has read. Returns whether its piece is complete.
fn read_on(request: &mut Request, result: i32) -> Result<bool, StreamError> {
    match result {
        0 => Err(request.piece.shrunk(request.done)),
        1.. => {
            request.done += result as usize;
            Ok(request.done == request.piece.len)
        }
        _ => match -result {
            libc::EINTR | libc::EAGAIN => Ok(false),
            code => Err(request.piece.read_error(request.done, io::Error::from_raw_os_error(code))),
        },
    }
}
