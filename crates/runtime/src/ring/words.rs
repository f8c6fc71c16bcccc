//! What rings are made of: words of 64 bits, and lines of eight.

use std::sync::atomic::{AtomicU64, Ordering};

use pelton_device::memory::Line;
use pelton_device::{Memory, View64};

use crate::protocol::slot::{self, Slot};

/// Words of 64 bits that both sides see.
pub trait Words {
    /// Loads a word.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Stores a word.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Loads words that follow each other, with acquire. Keeps their high halves, and says whether every low half is `low`.
    #[inline]
    fn halves(&self, at: usize, low: u32, high: &mut [u32]) -> bool {
        let words = (at..).zip(high).map(|(at, high)| {
            let word = self.load(at, Ordering::Acquire);
            *high = (word >> 32) as u32;
            word as u32 ^ low
        });
        words.fold(0, |differ, word| differ | word) == 0
    }
    /// Stores a line from a word on, its first word last and with release.
    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        for (k, word) in line.iter().enumerate().skip(1) {
            self.store(at + k, *word, Ordering::Relaxed);
        }
        self.store(at, line[0], Ordering::Release);
    }
}

/// Slots that the host writes.
pub trait Lines {
    /// Writes a line so that whoever acquires its first word sees the rest.
    fn put(&self, slot: usize, line: &Line);
    /// Writes lines that follow each other, each like one.
    #[inline]
    fn put_all(&self, slot: usize, lines: &[Line]) {
        for (slot, line) in (slot..).zip(lines) {
            self.put(slot, line);
        }
    }
    /// Seals slots that follow each other and writes them, where a tail shows them: in any pieces. `lines` is room for them.
    #[inline]
    fn fill(&self, slot: usize, slots: &[Slot], lines: &mut [Line]) {
        slot::seal_all(slots, lines);
        self.put_all(slot, lines);
    }
    /// Writes the first two words of a line anew, the second first.
    fn patch(&self, slot: usize, line: &Line);
    /// What was last written to a slot.
    fn line(&self, slot: usize) -> Line;
    /// Lets what was stored before be seen by whoever sees a line that is put after.
    fn flush(&self);
}

/// 64-bit words in a slot.
const WORDS: usize = slot::WORDS / 2;

impl<W: Words> Lines for W {
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

impl Words for [AtomicU64] {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self[at].load(order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self[at].store(value, order);
    }

    /// One check of the range for the whole line.
    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        let words = &self[at..at + WORDS];
        for (word, value) in words.iter().zip(line).skip(1) {
            word.store(*value, Ordering::Relaxed);
        }
        words[0].store(line[0], Ordering::Release);
    }
}

impl Words for View64 {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        Words::load(&**self, at, order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        Words::store(&**self, at, value, order);
    }

    #[inline]
    fn halves(&self, at: usize, low: u32, high: &mut [u32]) -> bool {
        View64::halves(self, at, low, high)
    }

    #[inline]
    fn store_line(&self, at: usize, line: &Line) {
        Words::store_line(&**self, at, line);
    }
}

/// Where the slots of a session lie.
#[derive(Clone, Debug)]
pub enum Home {
    /// In memory that the host maps.
    Mapped(View64),
    /// At the device, which takes whole lines and is never read; so the host keeps a copy.
    Near {
        /// The slots.
        memory: Memory,
        /// The copy.
        copy: View64,
    },
}

impl Lines for Home {
    #[inline(always)]
    fn put(&self, slot: usize, line: &Line) {
        match self {
            // Words 0 and 1 may be seen in either order: then the check fails, and the line is looked at again.
            Home::Mapped(words) => words.write(slot * WORDS, line),
            // A copy, so that where lines are mapped none is ever put together in memory.
            Home::Near { memory, copy } => near(memory, copy, slot, &[*line]),
        }
    }

    #[inline]
    fn put_all(&self, slot: usize, lines: &[Line]) {
        match self {
            Home::Mapped(words) => words.write_all(slot * WORDS, lines),
            Home::Near { memory, copy } => near(memory, copy, slot, lines),
        }
    }

    #[inline]
    fn fill(&self, slot: usize, slots: &[Slot], lines: &mut [Line]) {
        match self {
            Home::Mapped(words) => slot::seal_into(slots, words, slot * WORDS),
            Home::Near { memory, copy } => {
                slot::seal_all(slots, lines);
                near(memory, copy, slot, lines);
            }
        }
    }

    fn patch(&self, slot: usize, line: &Line) {
        match self {
            Home::Mapped(words) => words.patch(slot, line),
            Home::Near { .. } => self.put(slot, line),
        }
    }

    fn line(&self, slot: usize) -> Line {
        match self {
            Home::Mapped(words) => words.line(slot),
            Home::Near { copy, .. } => copy.line(slot),
        }
    }

    #[inline]
    fn flush(&self) {
        match self {
            Home::Mapped(_) => {}
            Home::Near { memory, .. } => memory.flush(),
        }
    }
}

/// Writes lines to near memory, and keeps a copy.
fn near(memory: &Memory, copy: &View64, slot: usize, lines: &[Line]) {
    copy.write_all(slot * WORDS, lines);
    // The slots are the memory's own, so there is nothing to go wrong.
    drop(memory.put(slot * WORDS, lines));
}
