//! The completion record: how a task ended, in one 64-bit store.

use super::slot::{GENERATION_SHIFT, status_word};
use super::table::words;
use super::{Malformed, Status, TaskFault, WirePlace};

/// What a word of a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordHalf {
    /// Bits 0-31.
    Low,
    /// Bits 32-63.
    High,
}

words! {
    /// The two words of a record.
    RecordHalf;
    STATUS 0 Low  "The status in bits 0-7, DONE, FAULT or CANCELLED; the generation in bits 8-31.";
    VALUE  1 High "The result of what is DONE, the fault of a FAULT, else zero.";
}

/// A completion record as it stands in memory. Zero until the device has first written it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct CompletionRecord(pub u64);

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskEnd {
    /// It ended well, with this result.
    Done(u32),
    /// It ended with this fault.
    Fault(TaskFault),
    /// It never ran.
    Cancelled,
}

impl CompletionRecord {
    /// The record of a task that ended so.
    #[inline]
    pub const fn new(end: TaskEnd, generation: u32) -> CompletionRecord {
        let (status, value) = match end {
            TaskEnd::Done(value) => (Status::Done, value),
            TaskEnd::Fault(fault) => (Status::Fault, fault.word()),
            TaskEnd::Cancelled => (Status::Cancelled, 0),
        };
        CompletionRecord(status_word(status, generation) as u64 | (value as u64) << 32)
    }

    /// Whether it is of this generation, which says that the task has ended.
    ///
    /// A record that was never written is of none, though its generation bits are those of the first lap.
    #[inline]
    pub const fn has_generation(self, generation: u32) -> bool {
        self.0 as u32 >> GENERATION_SHIFT == generation && self.0 as u8 != 0
    }

    /// The generation of the task whose end it says.
    pub const fn generation(self) -> u32 {
        self.0 as u32 >> GENERATION_SHIFT
    }

    /// How the task ended.
    pub fn end(self) -> Result<TaskEnd, Malformed> {
        let value = (self.0 >> 32) as u32;
        match Status::from_code(self.0 as u32 & 0xff) {
            Some(Status::Done) => Ok(TaskEnd::Done(value)),
            Some(Status::Fault) => match TaskFault::from_word(value) {
                Some(fault) => Ok(TaskEnd::Fault(fault)),
                None => Err(self.malformed(VALUE, "which is no fault code")),
            },
            Some(Status::Cancelled) if value == 0 => Ok(TaskEnd::Cancelled),
            Some(Status::Cancelled) => Err(self.malformed(VALUE, "and what was cancelled has no value")),
            _ => Err(self.malformed(STATUS, "which is no status of a task that has ended")),
        }
    }

    fn malformed(self, word: u32, why: &'static str) -> Malformed {
        let value = self.0 >> (word * 32) & u64::from(u32::MAX);
        Malformed::Word { place: WirePlace::Record, word, name: TABLE[word as usize].name, value, why }
    }
}
