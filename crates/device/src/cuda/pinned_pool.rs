//! Pinned host memory that nobody uses, kept for the next allocation.
//!
//! Host memory that a GPU reaches is registered with the driver, which *pins* it: every page is touched, locked in place and
//! entered in the GPU's page tables. This takes about 0.4 ms per MiB, and undoing it takes long enough to show in the time
//! in which a session stops. The blocks of one session are mostly as large as those of the next. So a block that is dropped
//! stays pinned, and the next allocation of exactly its size gets it.
//!
//! **When a block is free.** A launch keeps the memory that is bound to it until its kernel has ended, copies are waited for,
//! and another device that has adopted a block keeps it as well. So a block that is dropped is reached by nobody, and can be
//! handed out at once, even while other kernels are resident. Unpinning it would have to wait for those. Only after a launch
//! that failed this is not certain, and from then on nothing is kept.
//!
//! **What is handed out** is filled with zeros first, as for every allocation, and the new owner chooses the width of its
//! words.
//!
//! **How much is kept.** A context keeps at most [`MOST_BYTES`]. If a block does not fit beside the others, those that have
//! been there for longest make room and are unpinned; a block that is larger than the limit is never kept. All blocks are
//! unpinned when the device or the host has too little memory for an allocation, and when the context is closed.
//!
//! The pool says what is kept and what has to go, and calls no driver. The [context](super::context) does the rest.

use std::collections::VecDeque;

/// How many bytes of pinned memory that nobody uses a context keeps.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Blocks that nobody uses, each with its size in bytes.
#[derive(Debug)]
pub(super) struct BlockPool<B> {
    /// The blocks, in the order in which they were added.
    blocks: VecDeque<(usize, B)>,
    /// The size of all blocks together.
    bytes: usize,
    /// The most that all blocks together may have.
    most_bytes: usize,
}

impl<B> BlockPool<B> {
    /// Makes a pool that keeps at most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        BlockPool { blocks: VecDeque::new(), bytes: 0, most_bytes }
    }

    /// Adds a block that nobody uses. Returns the blocks that have to be freed for it, or the block itself if it is too large.
    pub(super) fn add(&mut self, bytes: usize, block: B) -> Vec<B> {
        if bytes > self.most_bytes {
            return vec![block];
        }
        let mut freed = Vec::new();
        while self.bytes > self.most_bytes - bytes
            && let Some((bytes, oldest)) = self.blocks.pop_front()
        {
            self.bytes -= bytes;
            freed.push(oldest);
        }
        self.blocks.push_back((bytes, block));
        self.bytes += bytes;
        freed
    }

    /// Takes a block of exactly this size, if there is one: the one that was added last, because most of it may still be in
    /// caches.
    pub(super) fn take(&mut self, bytes: usize) -> Option<B> {
        let at = self.blocks.iter().rposition(|(size, _)| *size == bytes)?;
        let (_, block) = self.blocks.remove(at)?;
        self.bytes -= bytes;
        Some(block)
    }

    /// Takes all blocks.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = B> + use<B> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks).into_iter().map(|(_, block)| block)
    }
}

#[cfg(test)]
mod tests {
    use super::BlockPool;

    #[test]
    fn a_block_is_found_by_its_exact_size_and_only_once() {
        let mut pool = BlockPool::new(100);
        assert!(pool.add(10, "ten").is_empty() && pool.add(20, "twenty").is_empty());
        assert!(pool.add(10, "ten again").is_empty());
        assert_eq!((pool.take(9), pool.take(11), pool.take(30)), (None, None, None));
        assert_eq!(pool.take(10), Some("ten again"), "the one that was added last");
        assert_eq!((pool.take(10), pool.take(10)), (Some("ten"), None));
        assert_eq!((pool.take(20), pool.take(20)), (Some("twenty"), None));
    }

    #[test]
    fn the_oldest_blocks_make_room() {
        let mut pool = BlockPool::new(100);
        assert!(pool.add(40, 'a').is_empty() && pool.add(30, 'b').is_empty());
        assert!(pool.add(30, 'c').is_empty(), "the limit itself is not too much");
        assert_eq!(pool.add(1, 'd'), ['a']);
        assert_eq!(pool.add(60, 'e'), ['b'], "no more than needed");
        assert_eq!(pool.add(100, 'f'), ['c', 'd', 'e']);
        assert_eq!(pool.take(100), Some('f'));
        assert_eq!(pool.bytes, 0);
    }

    #[test]
    fn what_is_taken_makes_room() {
        let mut pool = BlockPool::new(100);
        assert!(pool.add(60, 'a').is_empty());
        assert_eq!(pool.take(60), Some('a'));
        assert!(pool.add(60, 'b').is_empty() && pool.add(40, 'c').is_empty());
        assert_eq!(pool.take_all().collect::<String>(), "bc");
        assert!(pool.add(100, 'd').is_empty(), "nothing is left");
    }

    #[test]
    fn a_block_that_is_too_large_puts_nothing_out() {
        let mut pool = BlockPool::new(100);
        assert!(pool.add(100, 'a').is_empty());
        assert_eq!(pool.add(101, 'b'), ['b']);
        assert_eq!(pool.take(100), Some('a'));
        assert_eq!(BlockPool::new(0).add(1, 'c'), ['c']);
    }
}
