//! The completion record: how a task ended, in one 64-bit store.

use super::slot::{GENERATION_SHIFT, word0};
use super::table::words;
use super::{Fault, Malformed, Place, Status};

/// What a word of a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Bits 0-31.
    Low,
    /// Bits 32-63.
    High,
}

words! {
    /// The two words of a record.
    Half;
    STATUS 0 Low  "The status in bits 0-7, DONE, FAULT or CANCELLED; the generation in bits 8-31.";
    VALUE  1 High "The result of what is DONE, the fault of a FAULT, else zero.";
}

/// A completion record as it stands in memory. Zero until the device has first written it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Record(pub u64);

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// It ended well, with this result.
    Done(u32),
    /// It ended with this fault.
    Fault(Fault),
    /// It never ran.
    Cancelled,
}

impl Record {
    /// The record of a task that ended so.
    #[inline]
    pub const fn new(end: End, generation: u32) -> Record {
        let (status, value) = match end {
            End::Done(value) => (Status::Done, value),
            End::Fault(fault) => (Status::Fault, fault.word()),
            End::Cancelled => (Status::Cancelled, 0),
        };
        Record(word0(status, generation) as u64 | (value as u64) << 32)
    }

    /// Whether it is of this generation, which says that the task has ended.
    ///
    /// A record that was never written is of none, though its generation bits are those of the first lap.
    #[inline]
    pub const fn is(self, generation: u32) -> bool {
        self.0 as u32 >> GENERATION_SHIFT == generation && self.0 as u8 != 0
    }

    /// The generation of the task whose end it says.
    pub const fn generation(self) -> u32 {
        self.0 as u32 >> GENERATION_SHIFT
    }

    /// How the task ended.
    pub fn end(self) -> Result<End, Malformed> {
        let value = (self.0 >> 32) as u32;
        match Status::of(self.0 as u32 & 0xff) {
            Some(Status::Done) => Ok(End::Done(value)),
            Some(Status::Fault) => match Fault::of(value) {
                Some(fault) => Ok(End::Fault(fault)),
                None => Err(self.wrong(VALUE, "which is no fault code")),
            },
            Some(Status::Cancelled) if value == 0 => Ok(End::Cancelled),
            Some(Status::Cancelled) => Err(self.wrong(VALUE, "and what was cancelled has no value")),
            _ => Err(self.wrong(STATUS, "which is no status of a task that has ended")),
        }
    }

    fn wrong(self, word: u32, why: &'static str) -> Malformed {
        let value = self.0 >> (word * 32) & u64::from(u32::MAX);
        Malformed::Word { place: Place::Record, word, name: TABLE[word as usize].name, value, why }
    }
}
