//! The memory that rings are made of, as traits: words of 64 bits, and slots of eight such words.

use std::sync::atomic::{AtomicU64, Ordering};

use pelton_device::memory::Line;
use pelton_device::{Memory, View64};

use crate::protocol::slot::{self, Slot};

/// Words of 64 bits that the host and the device both see.
pub trait RingWords {
    /// Loads the word at an index.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Stores the word at an index.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Loads consecutive words with acquire, one for each element of `high`. Writes their high halves to `high`, and returns whether every
    /// low half equals `low`.
    #[inline]
    fn halves(&self, at: usize, low: u32, high: &mut [u32]) -> bool {
        let words = (at..).zip(high).map(|(at, high)| {
            let word = self.load(at, Ordering::Acquire);
            *high = (word >> 32) as u32;
            word as u32 ^ low
        });
        words.fold(0, |differ, word| differ | word) == 0
    }
    /// Stores the eight words of a line from index `at` on. The first word is stored last, with release.
    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        for (k, word) in line.iter().enumerate().skip(1) {
            self.store(at + k, *word, Ordering::Relaxed);
        }
        self.store(at, line[0], Ordering::Release);
    }
}

/// The slots of rings, as the host writes them: one line of eight words per slot.
pub trait SlotLines {
    /// Writes the line of a slot. A reader that acquires its first word sees the rest.
    fn put(&self, slot: usize, line: &Line);
    /// Writes the lines of consecutive slots, each as [`put`](SlotLines::put) does.
    #[inline]
    fn put_all(&self, slot: usize, lines: &[Line]) {
        for (slot, line) in (slot..).zip(lines) {
            self.put(slot, line);
        }
    }
    /// Seals the lines of consecutive slots and writes them. Only for rings whose tail shows slots to the device: nothing is promised about the
    /// order in which words become visible. `lines` is scratch room for as many lines as there are slots.
    #[inline]
    fn fill(&self, slot: usize, slots: &[Slot], lines: &mut [Line]) {
        slot::seal_slots(slots, lines);
        self.put_all(slot, lines);
    }
    /// Writes the first two words of a line again, the second word first.
    fn patch(&self, slot: usize, line: &Line);
    /// Returns what the host last wrote to a slot.
    fn line(&self, slot: usize) -> Line;
    /// Makes everything that was stored before visible to a device that sees a line which is put afterwards.
    fn flush(&self);
}

/// How many 64-bit words a slot has.
const WORDS: usize = slot::WORDS / 2;

impl<W: RingWords> SlotLines for W {
    #[inline(always)]
    fn put(&self, slot: usize, line: &Line) {
        // Pairs with the acquire load of word 0 by the group whose stripe it is.
        self.store_line(slot * WORDS, line);
    }

    fn patch(&self, slot: usize, line: &Line) {
        self.store(slot * WORDS + 1, line[1], Ordering::Relaxed);
        self.store(slot * WORDS, line[0], Ordering::Release);
    }

    fn line(&self, slot: usize) -> Line {
        std::array::from_fn(|k| self.load(slot * WORDS + k, Ordering::Relaxed))
    }

    fn flush(&self) {}
}

impl RingWords for [AtomicU64] {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self[at].load(order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self[at].store(value, order);
    }

    /// Checks the range once for the whole line.
    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        let words = &self[at..at + WORDS];
        for (word, value) in words.iter().zip(line).skip(1) {
            word.store(*value, Ordering::Relaxed);
        }
        words[0].store(line[0], Ordering::Release);
    }
}

impl RingWords for View64 {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        RingWords::load(&**self, at, order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        RingWords::store(&**self, at, value, order);
    }

    #[inline]
    fn halves(&self, at: usize, low: u32, high: &mut [u32]) -> bool {
        View64::halves(self, at, low, high)
    }

    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        RingWords::store_line(&**self, at, line);
    }
}

/// The memory in which the slots of a session lie.
#[derive(Clone, Debug)]
pub enum SlotMemory {
    /// The slots lie in memory that the host maps, and reads as well as writes.
    Mapped(View64),
    /// The slots lie in memory at the device. The host writes whole lines there and never reads them back, so it keeps a copy.
    Near {
        /// The memory at the device.
        memory: Memory,
        /// The host's copy of every line.
        copy: View64,
    },
}

impl SlotLines for SlotMemory {
    #[inline(always)]
    fn put(&self, slot: usize, line: &Line) {
        match self {
            // The device may see words 0 and 1 in either order. Then the check fails, and it reads the line again.
            SlotMemory::Mapped(words) => words.write(slot * WORDS, line),
            // The line is copied here so that the mapped arm never has to assemble it in memory.
            SlotMemory::Near { memory, copy } => put_near(memory, copy, slot, &[*line]),
        }
    }

    #[inline]
    fn put_all(&self, slot: usize, lines: &[Line]) {
        match self {
            SlotMemory::Mapped(words) => words.write_all(slot * WORDS, lines),
            SlotMemory::Near { memory, copy } => put_near(memory, copy, slot, lines),
        }
    }

    #[inline]
    fn fill(&self, slot: usize, slots: &[Slot], lines: &mut [Line]) {
        match self {
            SlotMemory::Mapped(words) => slot::seal_slots_into(slots, words, slot * WORDS),
            SlotMemory::Near { memory, copy } => {
                slot::seal_slots(slots, lines);
                put_near(memory, copy, slot, lines);
            }
        }
    }

    fn patch(&self, slot: usize, line: &Line) {
        match self {
            SlotMemory::Mapped(words) => words.patch(slot, line),
            SlotMemory::Near { .. } => self.put(slot, line),
        }
    }

    fn line(&self, slot: usize) -> Line {
        match self {
            SlotMemory::Mapped(words) => words.line(slot),
            SlotMemory::Near { copy, .. } => copy.line(slot),
        }
    }

    #[inline]
    fn flush(&self) {
        match self {
            SlotMemory::Mapped(_) => {}
            SlotMemory::Near { memory, .. } => memory.flush(),
        }
    }
}

/// Writes lines to near memory and to the host's copy.
fn put_near(memory: &Memory, copy: &View64, slot: usize, lines: &[Line]) {
    copy.write_all(slot * WORDS, lines);
    // The slots lie in this memory, so the range is valid and the call cannot fail.
    drop(memory.put(slot * WORDS, lines));
}
