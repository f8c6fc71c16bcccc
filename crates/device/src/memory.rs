//! Memory that a device gives out.
//!
//! Three kinds, by who reaches it how. *Host* memory is mapped: both sides see its words at any time. *Device* memory
//! is the device's own; the host copies in and out, also while a kernel is resident. *Near* memory lies at the device
//! and takes whole lines from the host, which never reads it back. A device may hand out mapped memory for more than
//! it must: on the CPU everything is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::error::DeviceError;
use crate::mapped::{Mapped, Word, WordWidth};

/// Who reaches memory, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryKind {
    /// Words that both sides see.
    Host,
    /// The device's own; copied in and out.
    Device,
    /// The device's own, written by the host a line at a time.
    Near,
}

/// A line: what the host writes to near memory in one go.
pub type Line = [u64; 8];

/// What a device keeps behind a [`Memory`]. Ranges are checked before these are called.
pub trait MemoryStore: fmt::Debug + Send + Sync {
    /// The words themselves, where the host can reach them.
    fn mapped(&self) -> Option<&Mapped>;
    /// Where the device that gave it out finds it. The number says which device asks; others get nothing.
    fn address(&self, _device: u64) -> Option<u64> {
        None
    }
    /// Copies words in.
    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError>;
    /// Copies words out.
    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError>;
    /// Writes lines one after another; `at` counts words.
    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError>;
    /// Sends the lines on their way.
    fn flush(&self);
}

/// Words of either width, to be read.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub enum WordSlice<'a> {
    W32(&'a [u32]),
    W64(&'a [u64]),
}

/// Words of either width, to be written.
#[allow(missing_docs)]
#[derive(Debug)]
pub enum WordSliceMut<'a> {
    W32(&'a mut [u32]),
    W64(&'a mut [u64]),
}

/// The widths as a type of slices, so that upload and download are one function each.
pub trait Slice: Word {
    /// As words to read.
    fn words(slice: &[Self]) -> WordSlice<'_>;
    /// As words to write.
    fn words_mut(slice: &mut [Self]) -> WordSliceMut<'_>;
}

impl Slice for u32 {
    fn words(slice: &[u32]) -> WordSlice<'_> {
        WordSlice::W32(slice)
    }
    fn words_mut(slice: &mut [u32]) -> WordSliceMut<'_> {
        WordSliceMut::W32(slice)
    }
}

impl Slice for u64 {
    fn words(slice: &[u64]) -> WordSlice<'_> {
        WordSlice::W64(slice)
    }
    fn words_mut(slice: &mut [u64]) -> WordSliceMut<'_> {
        WordSliceMut::W64(slice)
    }
}

/// A block of memory of a device. Clones are the same block.
#[derive(Clone, Debug)]
pub struct Memory {
    kind: MemoryKind,
    width: WordWidth,
    len: usize,
    store: Arc<dyn MemoryStore>,
}

impl Memory {
    /// For devices: memory over a store.
    pub fn new(kind: MemoryKind, width: WordWidth, len: usize, store: Arc<dyn MemoryStore>) -> Self {
        Memory { kind, width, len, store }
    }

    /// Mapped memory of a device that needs nothing else.
    pub fn mapped(kind: MemoryKind, width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        Ok(Memory::new(kind, width, len, Arc::new(Mapped::new(width, len)?)))
    }

    /// Who reaches it, and how.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// The size of its words.
    pub fn width(&self) -> WordWidth {
        self.width
    }

    /// How many words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// For devices: what lies behind it.
    pub fn store(&self) -> &Arc<dyn MemoryStore> {
        &self.store
    }

    /// Its words, if the host can reach them and they have 32 bits.
    pub fn words32(&self) -> Option<&[AtomicU32]> {
        self.store.mapped()?.words32()
    }

    /// Its words, if the host can reach them and they have 64 bits.
    pub fn words64(&self) -> Option<&[AtomicU64]> {
        self.store.mapped()?.words64()
    }

    /// Copies words in.
    pub fn upload<T: Slice>(&self, at: usize, words: &[T]) -> Result<(), DeviceError> {
        self.check::<T>(at, words.len())?;
        self.store.upload(at, T::words(words))
    }

    /// Copies words out.
    pub fn download<T: Slice>(&self, at: usize, words: &mut [T]) -> Result<(), DeviceError> {
        self.check::<T>(at, words.len())?;
        self.store.download(at, T::words_mut(words))
    }

    /// Copies all words in, whatever their width: each is the low bits of its number.
    pub fn set_bits(&self, bits: &[u64]) -> Result<(), DeviceError> {
        match self.width {
            WordWidth::W32 => self.upload(0, &bits.iter().map(|bits| *bits as u32).collect::<Vec<u32>>()),
            WordWidth::W64 => self.upload(0, bits),
        }
    }

    /// Copies all words out, whatever their width.
    pub fn bits(&self) -> Result<Vec<u64>, DeviceError> {
        if self.width == WordWidth::W64 {
            let mut words = vec![0u64; self.len];
            self.download(0, &mut words)?;
            return Ok(words);
        }
        let mut words = vec![0u32; self.len];
        self.download(0, &mut words)?;
        Ok(words.into_iter().map(u64::from).collect())
    }

    /// Writes lines of near memory one after another; `at` counts words. They leave at once, and arrive in no certain
    /// order but for what stands between two [`flush`](Memory::flush)es.
    pub fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        if self.kind != MemoryKind::Near {
            return Err(DeviceError::Memory { device: "this memory".into(), what: "lines to put" });
        }
        self.check::<u64>(at, lines.as_flattened().len())?;
        self.store.put(at, lines)
    }

    /// Lets everything that was stored or put before arrive before what comes after.
    pub fn flush(&self) {
        self.store.flush();
    }

    fn check<T: Word>(&self, at: usize, count: usize) -> Result<(), DeviceError> {
        if T::WIDTH != self.width {
            return Err(DeviceError::Memory { device: "this memory".into(), what: "words of that width" });
        }
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(DeviceError::Range { at, count, len: self.len }),
        }
    }
}

/// Mapped memory is its own store: copies are loops over its words.
impl MemoryStore for Mapped {
    fn mapped(&self) -> Option<&Mapped> {
        Some(self)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        match words {
            WordSlice::W32(words) => Word::write(self, at, words),
            WordSlice::W64(words) => Word::write(self, at, words),
        }
        Ok(())
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        match words {
            WordSliceMut::W32(words) => Word::read(self, at, words),
            WordSliceMut::W64(words) => Word::read(self, at, words),
        }
        Ok(())
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        let (words, _) = self.words64().unwrap_or(&[])[at..].as_chunks::<8>();
        for (words, line) in words.iter().zip(lines) {
            // The first word says that the line is there, so it goes last.
            for (word, x) in words[1..].iter().zip(&line[1..]) {
                word.store(*x, Ordering::Relaxed);
            }
            // Pairs with the acquire load of the line's first word by whoever polls it.
            words[0].store(line[0], Ordering::Release);
        }
        Ok(())
    }

    fn flush(&self) {
        fence(Ordering::Release);
    }
}
