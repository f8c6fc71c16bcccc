//! The chunks of a stream: a region in host memory, divided into equal parts that are filled again and again.
//!
//! Whoever has taken the number of a chunk from the list of free chunks is the only one who writes it, until its task is
//! submitted. From then on, tasks may read it, until the callback for its result has returned.

use std::ptr::NonNull;

use pelton_device::{Memory, WordWidth};

/// Chunks begin at multiples of this many bytes, and are zero from their last byte up to the next multiple.
const ALIGN: usize = 64;

/// The sizes of the chunks of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkShape {
    /// How many bytes of the input a chunk has.
    pub chunk_bytes: usize,
    /// How many bytes before them are repeated.
    pub overlap_bytes: usize,
}

/// The chunks of a stream.
#[derive(Debug)]
pub(super) struct ChunkRing {
    /// The memory of the region, which stays as long as the ring does.
    _memory: Memory,
    /// The first byte of the first chunk.
    start: NonNull<u8>,
    shape: ChunkShape,
    /// How far apart chunks are, in bytes.
    stride: usize,
    count: usize,
    elem_bytes: usize,
}

// SAFETY: the memory outlives the ring, which keeps it, and may be used from any thread. Which thread writes which chunk is
// decided by the list of free chunks.
unsafe impl Send for ChunkRing {}
// SAFETY: as above.
unsafe impl Sync for ChunkRing {}

impl ChunkRing {
    /// Divides a piece of memory, which has so many elements of so many bytes from its first one on, into chunks. If there is no
    /// room for one, the error is the number of bytes that one needs.
    pub(super) fn new(
        memory: Memory,
        (first, len, elem_bytes): (usize, usize, usize),
        (chunk_bytes, overlap_bytes): (usize, usize),
    ) -> Result<ChunkRing, u64> {
        let all = chunk_bytes.checked_add(overlap_bytes).and_then(|all| all.checked_next_multiple_of(ALIGN));
        let stride = all.ok_or(u64::MAX)?;
        let count = len * elem_bytes / stride;
        let mapped = memory.store().mapped().ok_or(u64::MAX)?;
        debug_assert_eq!(mapped.width(), if elem_bytes == 8 { WordWidth::W64 } else { WordWidth::W32 });
        // A length of a chunk must fit into an argument.
        if count == 0 || stride > u32::MAX as usize || mapped.len() < first + len {
            return Err(stride as u64);
        }
        // SAFETY: the element `first` lies in the block, as was checked.
        let start = unsafe { mapped.start().add(first * elem_bytes) };
        let shape = ChunkShape { chunk_bytes, overlap_bytes };
        Ok(ChunkRing { start, shape, stride, count: count.min(MOST_CHUNKS), elem_bytes, _memory: memory })
    }

    /// Uses at most so many chunks.
    pub(super) fn limit(&mut self, most: usize) {
        self.count = self.count.min(most);
    }

    /// The address of the first chunk, by which streams that would use the same memory are told apart.
    pub(super) fn start(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// How many chunks there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn shape(&self) -> ChunkShape {
        self.shape
    }

    /// How many bytes a chunk has room for.
    pub(super) fn room(&self) -> usize {
        self.stride
    }

    /// The number of a chunk's first element in the tenant's piece.
    pub(super) fn place(&self, chunk: usize) -> u32 {
        (chunk * self.stride / self.elem_bytes) as u32
    }

    /// The place of a byte of a chunk in memory, from which on there is room for the rest of the chunk. `at` is at most
    /// [`room`](ChunkRing::room).
    pub(super) fn address(&self, chunk: usize, at: usize) -> NonNull<u8> {
        assert!(chunk < self.count && at <= self.stride, "there is no such chunk");
        // SAFETY: the chunk lies in the block, as was just checked.
        unsafe { self.start.add(chunk * self.stride + at) }
    }

    /// Copies bytes into a chunk that the caller has taken, from its byte `at` on.
    pub(super) fn write(&self, chunk: usize, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.stride - at, "the bytes fit into a chunk");
        // SAFETY: there is room, and nobody else writes a chunk that the caller has taken, nor reads it before its task is
        // submitted. A task of the same tenant may read it all the same, and then gets some of the bytes.
        unsafe { self.address(chunk, at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Makes the bytes after the last one of a chunk zero, up to the next multiple of 64.
    pub(super) fn clear_rest(&self, chunk: usize, len: usize) {
        let end = len.next_multiple_of(ALIGN).min(self.stride);
        // SAFETY: as in `write`.
        unsafe { self.address(chunk, len).write_bytes(0, end - len) };
    }

    /// Copies the bytes of a chunk from its byte `at` on.
    pub(super) fn read(&self, chunk: usize, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.stride && bytes.len() <= self.stride - at, "the bytes lie in a chunk");
        let from = self.address(chunk, at);
        for (k, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the byte lies in the chunk. Tasks might write it at the same time, so it is read as it is then.
            *byte = unsafe { from.add(k).as_ptr().read_volatile() };
        }
    }
}

/// The most chunks that are used, however large the region is. Each may be registered with the system.
const MOST_CHUNKS: usize = 1024;
