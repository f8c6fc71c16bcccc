//! The control words: what host and kernel say about the whole session, each word with one writer.
//!
//! A drained batch has one buffer of 32-bit words. A live session has two with the same numbering: what the host
//! writes is 32 bits wide and lies where the kernel reads it; what the device writes is 64 bits wide, since at the
//! rates of a kernel 32 bits are soon counted through. [`Control`] is a view of either.

use std::ops::{Deref, DerefMut};

use super::table::{word_name, words};
use super::{Malformed, UNBOUNDED};

/// Who writes a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordWriter {
    /// The host.
    Host,
    /// The device.
    Device,
}

/// Tenants that there can be.
pub const TENANTS: usize = 29;

/// The method that reads a row: one word, or all of its words.
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
    SHUTDOWN    shutdown      0       Host   "Not zero: take no new work.";
    DONE_COUNT  done_count    1       Device "Tasks that have ended.";
    TENANT_BASE tenant_base   2       Host   "The number of the first mask: 3.";
    MASKS       masks         3 [29]  Host   "By tenant, which opcodes it may use: bit i allows opcode i up to 30, bit 31 all others. 0 disables the tenant: its tasks are not taken.";
    QUOTAS      quotas       32 [32]  Host   "By tenant, the number of tasks up to which it may be charged. Tasks are taken while (quota − claims) modulo 2^31, as a signed number of 31 bits, is above 0. A word of 0 is no limit. The host sets bit 31 of every other quota, so that a limit whose lower bits are 0 is not mistaken for none; the kernel ignores that bit.";
    CLAIMS      claims       64 [32]  Device "By tenant, tasks taken. The word that a quota is compared with counts only tasks that were taken while the tenant had a quota.";
    METRICS     metrics      96 [32]  Device "By opcode 0-31, tasks run.";
    EPOCH       epoch       128       Device "Fences passed.";
    PARTITIONS  partitions  129 [6]   Host   "In a drained batch: the first slot of each priority's part of the ring, and the end of the last.";
    STARVATION  starvation  135       Device "How often a less urgent task was taken because it had waited long enough.";
    LEVELS      levels      136 [5]   Device "By priority, tasks taken.";
    HEARTBEAT   heartbeat   141       Host   "Changes while the host lives.";
    LOG_READ    log_read    142       Host   "Debug records that the host has read.";
    LOG_LOST    log_lost    143       Device "Debug records that found no room.";
    CHECKS      checks      144       Device "Lines whose check failed.";
    CHANGED     changed     145       Host   "In a live session: the control word that the host changed last in bits 0-7, and the number of changes so far, modulo 2^24, above. Where one group keeps the control words for the others, it takes over that word and then repeats this one in `acks`.";
    OBSERVABLES observables 160 [UNBOUNDED] Device "What tasks show the host: each tenant has its own range, and an index is relative to it and checked.";
}

/// The control words of a session, seen through their names.
///
/// The words may be 32 or 64 bits wide, borrowed or owned: `Control<&[u32]>`, `Control<Vec<u64>>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<W>(W);

impl<T: Copy, W: Deref<Target = [T]>> Control<W> {
    /// A view of words, of which there must be all but observables.
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

    /// Writes a word of the host's: the number of a row's first word, plus an index.
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

    /// The words themselves.
    pub fn words(&self) -> &[T] {
        &self.0
    }

    /// For those who compose control words: the words themselves.
    pub(crate) fn words_mut(&mut self) -> &mut [T]
    where
        W: DerefMut,
    {
        &mut self.0
    }
}
