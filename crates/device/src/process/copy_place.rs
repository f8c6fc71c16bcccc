//! The place through which words are copied between a host and the memory of its executor's device.

use std::slice;

use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{WordSlice, WordSliceMut};
use crate::shared_file::SharedFile;

/// How many bytes are copied at once.
const BYTES: usize = 4 << 20;

/// A block that host and executor map. They use it in turns: the host fills it, asks the executor to copy from it, and leaves
/// it alone until the answer is there, or the other way round. The messages order their accesses.
#[derive(Debug)]
pub(super) struct CopyPlace(Mapped);

impl CopyPlace {
    const WORDS: usize = BYTES / 8;

    /// Makes a place, at the host.
    pub(super) fn new() -> Result<Self, DeviceError> {
        Ok(CopyPlace(Mapped::shared(WordWidth::W64, Self::WORDS)?))
    }

    /// Maps the place that the host has made, at the executor.
    pub(super) fn of_file(file: SharedFile) -> Result<Self, DeviceError> {
        Ok(CopyPlace(Mapped::of_file(file, WordWidth::W64, Self::WORDS)?))
    }

    /// The file to be mapped at the other end.
    pub(super) fn file(&self) -> Option<&SharedFile> {
        self.0.file()
    }

    /// How many bytes the file must have.
    pub(super) const fn bytes() -> usize {
        BYTES
    }

    /// How many words of a width fit.
    pub(super) fn capacity(width: WordWidth) -> usize {
        BYTES / width.bytes()
    }

    /// Fills the place with words, of which there are at most as many as fit. It is the caller's turn.
    pub(super) fn fill(&mut self, words: WordSlice<'_>) {
        match words {
            WordSlice::W32(words) => self.words_mut(words.len()).copy_from_slice(words),
            WordSlice::W64(words) => self.words_mut(words.len()).copy_from_slice(words),
        }
    }

    /// Copies words out of the place, of which there are at most as many as fit. It is the caller's turn.
    pub(super) fn read(&mut self, words: WordSliceMut<'_>) {
        match words {
            WordSliceMut::W32(words) => words.copy_from_slice(self.words_mut(words.len())),
            WordSliceMut::W64(words) => words.copy_from_slice(self.words_mut(words.len())),
        }
    }

    /// The first `count` words of the place. It is the caller's turn.
    pub(super) fn words_mut<T: PlainWord>(&mut self, count: usize) -> &mut [T] {
        assert!(count <= BYTES / size_of::<T>(), "the place for copies is smaller");
        // SAFETY: the block starts at a page, has so many bytes, and any bits are a word. The other process leaves it alone
        // while it is this one's turn, and in this one the place is borrowed for as long as the slice lives.
        unsafe { slice::from_raw_parts_mut(self.0.start().as_ptr().cast(), count) }
    }
}

/// Integers of which any bits are a value: `u32` and `u64`.
pub(super) trait PlainWord: private::Sealed {}

mod private {
    pub(in crate::process) trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl PlainWord for u32 {}
impl PlainWord for u64 {}
