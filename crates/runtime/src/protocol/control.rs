//! The control words, through which the host and the kernel speak about the whole session. Each word has one writer.
//!
//! A drained batch has one buffer of 32-bit words. A live session has two buffers with the same numbering. The words
//! that the host writes are 32 bits wide and lie where the kernel reads them. The words that the device writes are 64
//! bits wide, because a kernel would soon overflow a counter of 32 bits. [`Control`] is a view of either.

use std::ops::{Deref, DerefMut};

use super::table::{word_name, words};
use super::{Malformed, UNBOUNDED};

/// The side that writes a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordWriter {
    /// The host writes the word.
    Host,
    /// The device writes the word.
    Device,
}

/// The number of tenants that a kernel can have.
pub const TENANTS: usize = 29;

/// Declares the method that reads a row: one word, or all of its words.
macro_rules! getter {
    ($get:ident $first:literal $text:literal) => {
        #[doc = $text]
        pub fn $get(&self) -> T {
            self.0[$first]
        }
    };
    ($get:ident $first:literal $text:literal $count:expr) => {
        #[doc = $text]
        pub fn $get(&self) -> &[T] {
            let words = &self.0[$first..];
            &words[..words.len().min($count as usize)]
        }
    };
}

/// Declares the control words and the methods that read them.
macro_rules! control {
    ($($name:ident $get:ident $first:literal $([$count:expr])? $kind:ident $text:literal;)*) => {
        words! {
            /// The control words.
            WordWriter;
            $($name $first $([$count])? $kind $text;)*
        }

        impl<T: Copy, W: Deref<Target = [T]>> Control<W> {
            $(getter! { $get $first $text $($count)? })*
        }
    };
}

control! {
    SHUTDOWN    shutdown      0       Host   "If this word is not zero, the kernel takes no new tasks.";
    DONE_COUNT  done_count    1       Device "The number of tasks that have ended.";
    TENANT_BASE tenant_base   2       Host   "The number of the first word of the masks, which is 3.";
    MASKS       masks         3 [29]  Host   "The opcodes that each tenant may use: bit i allows opcode i up to 30, and bit 31 allows all others. 0 disables the tenant, and its tasks are not taken.";
    QUOTAS      quotas       32 [32]  Host   "The count of tasks up to which each tenant may be charged. Tasks are taken while (quota − claims) modulo 2^31, as a signed number of 31 bits, is above 0. A word of 0 means no limit. The host sets bit 31 of every other quota, so that a limit whose lower bits are 0 is not mistaken for none; the kernel ignores that bit.";
    CLAIMS      claims       64 [32]  Device "The number of tasks taken per tenant. The word that a quota is compared with counts only tasks that were taken while the tenant had a quota.";
    METRICS     metrics      96 [32]  Device "The number of tasks run per opcode, for opcodes 0-31.";
    EPOCH       epoch       128       Device "The number of fences passed.";
    PARTITIONS  partitions  129 [6]   Host   "In a drained batch, the first slot of each priority's part of the ring, and the end of the last part.";
    STARVATION  starvation  135       Device "How often a less urgent task was taken because it had waited long enough.";
    LEVELS      levels      136 [5]   Device "The number of tasks taken per priority.";
    HEARTBEAT   heartbeat   141       Host   "A word that changes as long as the host is alive.";
    LOG_READ    log_read    142       Host   "The number of debug records that the host has read.";
    LOG_LOST    log_lost    143       Device "The number of debug records that found no room.";
    CHECKS      checks      144       Device "The number of lines whose check failed.";
    CHANGED     changed     145       Host   "In a live session, the control word that the host changed last in bits 0-7, and the number of changes so far, modulo 2^24, in bits 8-31. Where one group keeps the control words for the others, that group copies the changed word and then repeats this word in `acks`.";
    OBSERVABLES observables 160 [UNBOUNDED] Device "The words that tasks show to the host. Each tenant has its own range, and indices are relative to that range and checked.";
}

/// A view of the control words of a session, with one method per row.
///
/// The words may be 32 or 64 bits wide, and borrowed or owned: `Control<&[u32]>`, `Control<Vec<u64>>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<W>(W);

impl<T: Copy, W: Deref<Target = [T]>> Control<W> {
    /// Returns a view of these words, or an error if they end before the observables.
    pub fn new(words: W) -> Result<Self, Malformed> {
        if words.len() < OBSERVABLES as usize {
            let word = words.len() as u32;
            return Err(Malformed::Short {
                what: "control",
                words: words.len(),
                word,
                name: word_name(TABLE, word),
            });
        }
        Ok(Control(words))
    }

    /// Writes a word that belongs to the host. The number is that of a row's first word plus an index. Words that
    /// belong to the device are an error.
    pub fn set_host_word(&mut self, word: u32, value: T) -> Result<(), Malformed>
    where
        W: DerefMut,
    {
        match TABLE.iter().find(|row| row.contains(word)) {
            Some(row) if row.mark == WordWriter::Host => self.0[word as usize] = value,
            _ => return Err(Malformed::Writer { word, name: word_name(TABLE, word) }),
        }
        Ok(())
    }

    /// Returns the words themselves.
    pub fn words(&self) -> &[T] {
        &self.0
    }

    /// Returns the words themselves, for code that composes control words.
    pub(crate) fn words_mut(&mut self) -> &mut [T]
    where
        W: DerefMut,
    {
        &mut self.0
    }
}
