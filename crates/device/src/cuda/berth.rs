//! A place for a launch: a stream, the record that the kernel writes, and words that it reads.
//!
//! Places are kept between launches. The record of a place that nobody has is all zero, so a launch is one call. Once the
//! launch has ended the record is read and cleared, if there is anything in it: the kernel gives notice of what it wrote by itself,
//! and the host knows what it asked for. Nothing is queued behind the kernel: a copy there would hold up copies of other streams that
//! happen to share its channel.
//!
//! ```text
//! record, in memory of the device        page, in memory of the host
//!   0  a lane trapped                      0  when the kernel ends itself, in the device's nanoseconds
//!   1  its code                            8  the number one, to be copied to word 7
//!   2  its instruction                     16 the record, if it was read
//!   3  the first fault's code              24 zeros, to clear the record with
//!   4  its instruction                     32 notice that there is something in the record
//!   5  how many there were
//!   6  a lane left because of word 7
//!   7  everybody is to leave
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DeviceError;
use crate::mapped::{Mapped, Width};

use super::context::Context;
use super::current::{Current, Stream};
use super::grave::Grave;
use super::pinned::Pinned;
use super::raw::Status;

/// Bytes of the record.
const RECORD: usize = 32;
/// Where in the record a kernel is told to leave.
const STOP: u64 = 28;

/// Words of the page.
const UNTIL: usize = 0;
const ONE: usize = 8;
const COPY: usize = 16;
const ZERO: usize = 24;
const NOTICE: usize = 32;
const PAGE: usize = 512;

/// What a kernel left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// The code and instruction of a trap.
    pub trap: Option<(u32, u32)>,
    /// The code and instruction of the first fault, and how many there were.
    pub fault: Option<(u32, u32, u64)>,
    /// Whether lanes left before their end.
    pub cut: bool,
}

impl Record {
    fn new(words: [u32; 8]) -> Self {
        let [trapped, trap, trap_at, fault, fault_at, faults, cut, _] = words;
        Record {
            trap: (trapped != 0).then_some((trap, trap_at)),
            fault: (faults != 0).then_some((fault, fault_at, faults.into())),
            cut: cut != 0,
        }
    }
}

/// A place for a launch.
#[derive(Debug)]
pub struct Berth {
    /// Where the kernel is put.
    pub stream: Stream,
    record: u64,
    page: Pinned,
}

impl Berth {
    /// A fresh place. What is made before something fails goes with the context.
    pub fn new(context: &Context) -> Result<Self, DeviceError> {
        let current = context.enter()?;
        let page = Pinned::new(current, Mapped::new(Width::W64, PAGE)?)?;
        let stream = current.stream()?;
        let record = current.alloc(RECORD).map_err(|status| status.of(RECORD))?;
        context.clear(record, RECORD)?;
        let berth = Berth { stream, record, page };
        if let Some(one) = berth.word(ONE) {
            one.store(1, Ordering::Relaxed);
        }
        Ok(berth)
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.page.block.words64()?.get(at)
    }

    /// The word that says until when the kernel may run, in the device's nanoseconds.
    pub fn until(&self, device_ns: u64) {
        if let Some(word) = self.word(UNTIL) {
            // Relaxed: the word alone is what the kernel reads.
            word.store(device_ns, Ordering::Relaxed);
        }
    }

    /// The first words of what the kernel is launched with, as the emitter has them: where it gives notice, its record,
    /// where its last moment is moved on, and that moment.
    pub fn words(&self, until_ns: u64) -> [u64; 4] {
        let at = |word: usize| self.page.at + 8 * word as u64;
        [at(NOTICE), self.record, at(UNTIL), until_ns]
    }

    fn place(&self, at: usize) -> *mut u8 {
        self.page.block.start().as_ptr().wrapping_add(8 * at)
    }

    /// Tells the kernel to leave.
    pub fn halt(&self, current: Current, on: Stream) -> Result<(), Status> {
        // SAFETY: page and record belong to the place, which outlives the copy: `read` waits for it.
        unsafe { current.copy_in(self.record + STOP, self.place(ONE), 4, on) }
    }

    /// What the kernel left behind, once it has ended. Clears the record. Whether it was told to leave, the caller knows.
    pub fn read(&self, current: Current, told: bool) -> Result<Record, Status> {
        // Relaxed: the kernel has ended, and is seen to have.
        let noticed = self.word(NOTICE).is_none_or(|word| word.swap(0, Ordering::Relaxed) != 0);
        if !noticed && !told {
            return Ok(Record::default());
        }
        // SAFETY: page and record belong to the place, and the copy is waited for.
        unsafe { current.copy_out(self.place(COPY), self.record, RECORD, self.stream) }?;
        current.synchronize(self.stream)?;
        let mut words = [0; 8];
        for (at, pair) in words.chunks_exact_mut(2).enumerate() {
            let both = self.word(COPY + at).map_or(0, |word| word.load(Ordering::Relaxed));
            pair.copy_from_slice(&[both as u32, (both >> 32) as u32]);
        }
        if words != [0; 8] {
            // SAFETY: as above.
            unsafe { current.copy_in(self.record, self.place(ZERO), RECORD, self.stream) }?;
            current.synchronize(self.stream)?;
        }
        Ok(Record::new(words))
    }

    /// What it consists of, to be freed.
    pub fn end(self) -> [Grave; 3] {
        let Berth { stream, record, page } = self;
        [Grave::Stream(stream), Grave::Device(record), Grave::Host(page)]
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn a_record_says_what_happened() {
        assert_eq!(Record::new([0; 8]), Record::default());
        let all = Record::new([1, 77, 5, 9, 3, 2, 1, 1]);
        assert_eq!(all, Record { trap: Some((77, 5)), fault: Some((9, 3, 2)), cut: true });
        // A fault may have the code and the instruction 0, and so may a trap.
        assert_eq!(Record::new([0, 0, 0, 0, 0, 1, 0, 0]).fault, Some((0, 0, 1)));
        assert_eq!(Record::new([1, 0, 0, 0, 0, 0, 1, 1]).trap, Some((0, 0)));
    }
}
