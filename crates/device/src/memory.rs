//! Memory that a device allocates.
//!
//! There are three kinds, which differ in how host and device reach them. *Host* memory is mapped: both sides see its
//! words at any time. *Device* memory is the device's own; the host copies words in and out, even while a kernel is
//! resident. *Near* memory is memory of the device to which the host writes whole lines, and from which it does not
//! read. A device may map more than host memory: on the CPU, all memory is mapped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::error::DeviceError;
use crate::mapped::{Mapped, Word, WordWidth};

/// How host and device reach memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryKind {
    /// Memory that is mapped on both sides, which see each other's words at any time.
    Host,
    /// Memory of the device, which the host copies to and from.
    Device,
    /// Memory of the device that the host writes one line at a time, and that the device polls without crossing the
    /// bus.
    Near,
}

/// A line: the 64 bytes that the host writes to near memory at once.
pub type Line = [u64; 8];

/// What a device implements to allocate [`Memory`]. [`Memory`] checks ranges and widths before it calls these methods.
pub trait MemoryStore: fmt::Debug + Send + Sync {
    /// Returns the words themselves, if the host can reach them.
    fn mapped(&self) -> Option<&Mapped>;
    /// Returns the address of the memory on the device that allocated it. `device` is the number of the device that
    /// asks; other devices get `None`.
    fn address(&self, _device: u64) -> Option<u64> {
        None
    }
    /// Returns why the memory is lost, if it is.
    fn why_lost(&self) -> Option<DeviceError> {
        None
    }
    /// Copies words to the memory, from its word `at` on.
    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError>;
    /// Copies words from the memory, from its word `at` on.
    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError>;
    /// Writes lines one after another, from word `at` on.
    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError>;
    /// Makes lines that were written before arrive before those that are written afterwards.
    fn flush(&self);
}

/// A slice of words of either width, to be read.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub enum WordSlice<'a> {
    W32(&'a [u32]),
    W64(&'a [u64]),
}

/// A slice of words of either width, to be written.
#[allow(missing_docs)]
#[derive(Debug)]
pub enum WordSliceMut<'a> {
    W32(&'a mut [u32]),
    W64(&'a mut [u64]),
}

/// The integers that [`Memory::upload`] and [`Memory::download`] take: `u32` and `u64`.
pub trait Slice: Word {
    /// The slice as words to be read.
    fn words(slice: &[Self]) -> WordSlice<'_>;
    /// The slice as words to be written.
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

/// A block of memory that a device allocated. It consists of words of one width. A clone refers to the same block.
#[derive(Clone, Debug)]
pub struct Memory {
    kind: MemoryKind,
    width: WordWidth,
    len: usize,
    store: Arc<dyn MemoryStore>,
}

impl Memory {
    /// Makes memory from the store that a device implements. Only devices call this.
    pub fn new(kind: MemoryKind, width: WordWidth, len: usize, store: Arc<dyn MemoryStore>) -> Self {
        Memory { kind, width, len, store }
    }

    /// Allocates mapped memory in the host's process, for devices that work in the host's memory.
    pub fn mapped(kind: MemoryKind, width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        Ok(Memory::new(kind, width, len, Arc::new(Mapped::new(width, len)?)))
    }

    /// Returns how host and device reach the memory.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Returns the width of the words.
    pub fn width(&self) -> WordWidth {
        self.width
    }

    /// Returns how many words the memory has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the memory has no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the store that the device implements for this memory. Only devices call this.
    pub fn store(&self) -> &Arc<dyn MemoryStore> {
        &self.store
    }

    /// Returns the words as atomics, if the host can reach them and they have 32 bits.
    pub fn words32(&self) -> Option<&[AtomicU32]> {
        self.store.mapped()?.words32()
    }

    /// Returns the words as atomics, if the host can reach them and they have 64 bits.
    pub fn words64(&self) -> Option<&[AtomicU64]> {
        self.store.mapped()?.words64()
    }

    /// Copies words to the memory, from its word `at` on.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Memory`] if the words do not have the memory's width, and [`DeviceError::Range`] if they do not
    /// all lie in the memory. Nothing is copied then.
    pub fn upload<T: Slice>(&self, at: usize, words: &[T]) -> Result<(), DeviceError> {
        self.check::<T>(at, words.len())?;
        self.store.upload(at, T::words(words))
    }

    /// Copies words from the memory, from its word `at` on.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Memory`] if the words do not have the memory's width, and [`DeviceError::Range`] if they do not
    /// all lie in the memory. Nothing is copied then.
    pub fn download<T: Slice>(&self, at: usize, words: &mut [T]) -> Result<(), DeviceError> {
        self.check::<T>(at, words.len())?;
        self.store.download(at, T::words_mut(words))
    }

    /// Copies numbers to the words from the first on, whatever their width. A word of 32 bits takes the low half of its
    /// number.
    pub fn set_bits(&self, bits: &[u64]) -> Result<(), DeviceError> {
        match self.width {
            WordWidth::W32 => self.upload(0, &bits.iter().map(|bits| *bits as u32).collect::<Vec<u32>>()),
            WordWidth::W64 => self.upload(0, bits),
        }
    }

    /// Copies all words out as numbers of 64 bits, whatever their width.
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

    /// Writes lines to near memory one after another, from word `at` on. They are sent immediately. The order in
    /// which two lines arrive is known only if there is a [`flush`](Memory::flush) between them.
    pub fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        if self.kind != MemoryKind::Near {
            return Err(DeviceError::Memory {
                device: "this memory".into(),
                what: "lines, which only near memory has".into(),
            });
        }
        self.check::<u64>(at, lines.as_flattened().len())?;
        self.store.put(at, lines)
    }

    /// Makes everything that was stored or put before arrive before what is stored or put afterwards.
    pub fn flush(&self) {
        self.store.flush();
    }

    fn check<T: Word>(&self, at: usize, count: usize) -> Result<(), DeviceError> {
        if T::WIDTH != self.width {
            return Err(DeviceError::Memory {
                device: "this memory".into(),
                what: "words of that width".into(),
            });
        }
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(DeviceError::Range { at, count, len: self.len }),
        }
    }
}

/// Mapped memory needs no store beside itself: copies are loops over its words.
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
            // The first word announces the line, so it is stored last.
            for (word, x) in words[1..].iter().zip(&line[1..]) {
                word.store(*x, Ordering::Relaxed);
            }
            // Pairs with the acquire load of the line's first word by the kernel that polls it.
            words[0].store(line[0], Ordering::Release);
        }
        Ok(())
    }

    fn flush(&self) {
        fence(Ordering::Release);
    }
}
