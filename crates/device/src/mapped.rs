//! Blocks of memory that host and kernels see as the same words, and the one cast that turns them into atomics.
//!
//! A [`Mapped`] block is aligned, zeroed, and of one word width for its whole life, so every word is only ever an
//! `AtomicU32` or only ever an `AtomicU64`. Compiled kernels access the same words with atomic or plain instructions
//! of that width.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pelton_ir::types::Type;

use crate::error::DeviceError;
#[cfg(target_os = "linux")]
use crate::shared_file::SharedFile;

/// Blocks start at a page, so that a driver can register them.
const ALIGN: usize = 4096;

/// Blocks of at least this many bytes start at a large page and ask the system for large pages, because fewer pages take less time
/// to touch, to register and to free.
const LARGE: usize = 2 << 20;

/// Blocks of at least this many bytes are not touched when they are allocated: the system hands out their pages, which are zero, when
/// they are first used. Smaller blocks are touched at once, so that no task has to wait for a page.
const LAZY: usize = 1 << 30;

/// The width of the words of a block of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WordWidth {
    /// Words of 32 bits.
    W32,
    /// Words of 64 bits.
    W64,
}

impl WordWidth {
    /// The width of the words that hold elements of this type: 64 bits for `u64`, and 32 bits for all other types.
    pub const fn of(elem: Type) -> Self {
        if elem.bits() == 64 { WordWidth::W64 } else { WordWidth::W32 }
    }

    /// The number of bytes of a word.
    pub const fn bytes(self) -> usize {
        match self {
            WordWidth::W32 => 4,
            WordWidth::W64 => 8,
        }
    }
}

/// A block of words in the host's memory, which is zeroed and starts at a page.
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    layout: Layout,
    width: WordWidth,
    len: usize,
    /// Whether the pages are those of a file.
    #[cfg(target_os = "linux")]
    is_file: bool,
    /// The file, if other processes can be given it.
    #[cfg(target_os = "linux")]
    file: Option<SharedFile>,
}

// SAFETY: the block is owned, never moves, and is accessed only through atomics or by kernels under the language's
// memory model.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A block of `len` words, all zero.
    pub fn new(width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        let exhausted = || exhausted(width, len);
        let whole = Mapped::bytes_for(width, len)?;
        let align = if whole < LARGE { ALIGN } else { LARGE };
        let layout = Layout::from_size_align(whole, align).map_err(|_| exhausted())?;
        if whole >= LAZY {
            let start = pages::map(layout).ok_or_else(exhausted)?;
            return Ok(Mapped::own(start, layout, width, len));
        }
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(exhausted)?;
        if whole >= LARGE {
            request_large_pages(start, whole);
        }
        // SAFETY: as many bytes were allocated right above.
        unsafe { start.write_bytes(0, whole) };
        Ok(Mapped::own(start, layout, width, len))
    }

    /// A block that only this process reaches.
    fn own(start: NonNull<u8>, layout: Layout, width: WordWidth, len: usize) -> Self {
        Mapped {
            start,
            layout,
            width,
            len,
            #[cfg(target_os = "linux")]
            is_file: false,
            #[cfg(target_os = "linux")]
            file: None,
        }
    }

    /// A block of `len` words, all zero, that other processes can map as well. [`file`](Mapped::file) is what they need.
    #[cfg(target_os = "linux")]
    pub(crate) fn shared(width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        let bytes = Mapped::bytes_for(width, len)?;
        let file = SharedFile::new(bytes).map_err(|_| exhausted(width, len))?;
        Mapped::of_file(file, width, len)
    }

    /// The block of words that another process has made with [`shared`](Mapped::shared).
    #[cfg(target_os = "linux")]
    pub(crate) fn of_file(file: SharedFile, width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        let bytes = Mapped::bytes_for(width, len)?;
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| exhausted(width, len))?;
        let start = file.map(bytes).map_err(|_| exhausted(width, len))?;
        Ok(Mapped { start, layout, width, len, is_file: true, file: Some(file) })
    }

    /// The same block without its file, which is closed. The pages stay.
    #[cfg(target_os = "linux")]
    pub(crate) fn without_file(mut self) -> Self {
        self.file = None;
        self
    }

    /// The file whose pages the block has, if other processes can map it.
    #[cfg(target_os = "linux")]
    pub(crate) fn file(&self) -> Option<&SharedFile> {
        self.file.as_ref()
    }

    /// The size in bytes of a block of `len` words. It is whole pages, so that a driver that registers them registers no memory of
    /// others.
    pub(crate) fn bytes_for(width: WordWidth, len: usize) -> Result<usize, DeviceError> {
        let bytes = len.checked_mul(width.bytes());
        let whole = bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(ALIGN));
        whole.ok_or_else(|| exhausted(width, len))
    }

    /// The same block with `len` other words, all zero. They must take as many bytes as [`bytes_for`](Mapped::bytes_for) says.
    pub(crate) fn reused(mut self, width: WordWidth, len: usize) -> Self {
        assert_eq!(Mapped::bytes_for(width, len).ok(), Some(self.bytes()), "the block has another size");
        // SAFETY: the block has so many bytes, and whoever owns it is the only one who reaches it.
        unsafe { self.start.write_bytes(0, self.layout.size()) };
        (self.width, self.len) = (width, len);
        self
    }

    /// The first byte of the block.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The size of the block in bytes: whole pages.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// How many words the block has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the block has no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The width of the words.
    pub fn width(&self) -> WordWidth {
        self.width
    }

    /// The words as atomics, if they have 32 bits.
    pub fn words32(&self) -> Option<&[AtomicU32]> {
        // SAFETY: the block holds `len` initialised, aligned words of this width for as long as `self` lives, and
        // they are accessed only as atomics of this width.
        (self.width == WordWidth::W32)
            .then(|| unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len) })
    }

    /// The words as atomics, if they have 64 bits.
    pub fn words64(&self) -> Option<&[AtomicU64]> {
        // SAFETY: as in `words32`.
        (self.width == WordWidth::W64)
            .then(|| unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len) })
    }
}

/// The error of an allocation of so many words.
fn exhausted(width: WordWidth, len: usize) -> DeviceError {
    DeviceError::Exhausted { bytes: (len as u64).saturating_mul(width.bytes() as u64) }
}

/// Asks the system for large pages before any byte of a block is touched. The system may not have them.
#[cfg(all(target_os = "linux", not(miri)))]
fn request_large_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is allocated and whole pages; what is asked for changes none of its bytes.
    let _ = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn request_large_pages(_start: NonNull<u8>, _bytes: usize) {}

/// Pages that come from the system directly. They are zero, and not touched yet.
#[cfg(all(target_os = "linux", not(miri)))]
mod pages {
    use std::alloc::Layout;
    use std::ptr::{NonNull, null_mut};

    /// Maps as many pages as a layout asks for. `None` if there is no room.
    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        // The mapping is large enough to contain an aligned block, and what is too much is unmapped at once.
        let (bytes, spare) = (layout.size(), layout.align());
        let whole = bytes.checked_add(spare)?;
        let (access, how) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping at a place that the system chooses touches nothing that is there.
        let start = unsafe { libc::mmap(null_mut(), whole, access, how, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let before = start.align_offset(spare);
        let first = start.wrapping_byte_add(before);
        let end = first.wrapping_byte_add(bytes);
        let after = spare - before;
        for (from, count) in [(start, before), (end, after)] {
            if count > 0 {
                // SAFETY: the range is part of the mapping made above, in whole pages, and nothing else knows of it.
                unsafe { libc::munmap(from, count) };
            }
        }
        let first = NonNull::new(first.cast())?;
        super::request_large_pages(first, bytes);
        Some(first)
    }

    /// Frees memory that [`map`] gave for this layout.
    pub(super) fn unmap(start: NonNull<u8>, layout: Layout) {
        // SAFETY: the block was mapped with this size and is given back once.
        unsafe { libc::munmap(start.as_ptr().cast(), layout.size()) };
    }
}

/// Where pages cannot be mapped, the allocator gives zeroed memory, and may touch it.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod pages {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    /// Allocates memory as a layout asks for it. `None` if there is no room.
    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// Frees memory that [`map`] gave for this layout.
    pub(super) fn unmap(start: NonNull<u8>, layout: Layout) {
        // SAFETY: allocated by `map` with this layout, and freed once.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if self.is_file {
            // SAFETY: the block was mapped with this size, and is given back once.
            return unsafe { SharedFile::unmap(self.start, self.layout.size()) };
        }
        if self.layout.size() >= LAZY {
            return pages::unmap(self.start, self.layout);
        }
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The Rust integers that can be the words of a block: `u32` and `u64`.
pub trait Word: Copy + private::Sealed {
    /// The width of the integer.
    const WIDTH: WordWidth;
    /// Reads words from a block, from word `at` on. The caller has checked the range.
    fn read(from: &Mapped, at: usize, into: &mut [Self]);
    /// Writes words to a block, from word `at` on. The caller has checked the range.
    fn write(to: &Mapped, at: usize, from: &[Self]);
}

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// Implements `Word` over the atomics of a width.
macro_rules! word {
    ($t:ty, $width:ident, $words:ident) => {
        impl Word for $t {
            const WIDTH: WordWidth = WordWidth::$width;
            fn read(from: &Mapped, at: usize, into: &mut [$t]) {
                for (to, word) in into.iter_mut().zip(&from.$words().unwrap_or(&[])[at..]) {
                    *to = word.load(Ordering::Relaxed);
                }
            }
            fn write(to: &Mapped, at: usize, from: &[$t]) {
                for (word, x) in to.$words().unwrap_or(&[])[at..].iter().zip(from) {
                    word.store(*x, Ordering::Relaxed);
                }
            }
        }
    };
}
word!(u32, W32, words32);
word!(u64, W64, words64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_reused_has_other_words_which_are_zero() {
        let block = Mapped::new(WordWidth::W64, 1000).unwrap();
        block.words64().unwrap().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        let (start, bytes) = (block.start(), block.bytes());
        // Less of the two pages is used at first than afterwards.
        let block = block.reused(WordWidth::W32, 2048);
        assert_eq!(
            (block.start(), block.bytes(), block.width(), block.len()),
            (start, bytes, WordWidth::W32, 2048)
        );
        assert!(block.words64().is_none());
        assert!(block.words32().unwrap().iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    #[should_panic(expected = "the block has another size")]
    fn a_block_is_not_reused_for_more_than_it_has() {
        drop(Mapped::new(WordWidth::W32, 1).unwrap().reused(WordWidth::W32, 1025));
    }

    #[test]
    fn blocks_have_the_size_that_was_announced() {
        for (width, len) in [(WordWidth::W32, 0), (WordWidth::W32, 1024), (WordWidth::W64, 513)] {
            assert_eq!(Mapped::new(width, len).unwrap().bytes(), Mapped::bytes_for(width, len).unwrap());
        }
        assert!(matches!(Mapped::bytes_for(WordWidth::W64, usize::MAX), Err(DeviceError::Exhausted { .. })));
    }
}
