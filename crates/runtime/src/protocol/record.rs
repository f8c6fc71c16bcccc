//! The completion record, which says how a task ended in one 64-bit store.

use super::slot::{GENERATION_SHIFT, status_word};
use super::table::words;
use super::{Malformed, Status, TaskFault, WirePlace};
use crate::error::LossReason;

/// The half of a completion record that a word is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordHalf {
    /// Bits 0-31.
    Low,
    /// Bits 32-63.
    High,
}

words! {
    /// The two words of a completion record.
    RecordHalf;
    STATUS 0 Low  "The status in bits 0-7 (DONE, FAULT, CANCELLED or LOST), and the generation in bits 8-31.";
    VALUE  1 High "The result if the status is DONE, the fault if it is FAULT, the number of steps that had begun if it is CANCELLED, and the code of the reason if it is LOST.";
}

/// A completion record as it stands in memory. It is zero until the device writes it for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct CompletionRecord(pub u64);

/// How a task ended, as its completion record says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskEnd {
    /// The task ended well, with this result.
    Done(u32),
    /// The task ended with this fault.
    Fault(TaskFault),
    /// The task was cancelled, after this many of its steps had begun. Only tasks of resumable handlers can have begun
    /// any.
    Cancelled {
        /// How many steps had begun.
        steps: u32,
    },
    /// The task may have run, and its device was lost for this reason before the task had ended.
    Lost(LossReason),
}

impl CompletionRecord {
    /// Returns the record of a task of this generation that ended in this way.
    #[inline]
    pub const fn new(end: TaskEnd, generation: u32) -> CompletionRecord {
        let (status, value) = match end {
            TaskEnd::Done(value) => (Status::Done, value),
            TaskEnd::Fault(fault) => (Status::Fault, fault.word()),
            TaskEnd::Cancelled { steps } => (Status::Cancelled, steps),
            TaskEnd::Lost(reason) => (Status::Lost, reason.code()),
        };
        CompletionRecord(status_word(status, generation) as u64 | (value as u64) << 32)
    }

    /// Returns whether the record is of this generation, which means that the task has ended.
    ///
    /// A record that was never written is of no generation, although its bits are those of the first lap's.
    #[inline]
    pub const fn has_generation(self, generation: u32) -> bool {
        self.0 as u32 >> GENERATION_SHIFT == generation && self.0 as u8 != 0
    }

    /// Returns the generation of the task that the record is about.
    pub const fn generation(self) -> u32 {
        self.0 as u32 >> GENERATION_SHIFT
    }

    /// Returns how the task ended, or an error if no writer of the protocol can have written the record.
    pub fn end(self) -> Result<TaskEnd, Malformed> {
        let value = (self.0 >> 32) as u32;
        match Status::from_code(self.0 as u32 & 0xff) {
            Some(Status::Done) => Ok(TaskEnd::Done(value)),
            Some(Status::Fault) => match TaskFault::from_word(value) {
                Some(fault) => Ok(TaskEnd::Fault(fault)),
                None => Err(self.malformed(VALUE, "which is not a fault code")),
            },
            Some(Status::Cancelled) => Ok(TaskEnd::Cancelled { steps: value }),
            Some(Status::Lost) => match LossReason::from_code(value) {
                Some(reason) => Ok(TaskEnd::Lost(reason)),
                None => Err(self.malformed(VALUE, "which is not a reason for a loss")),
            },
            _ => Err(self.malformed(STATUS, "which is not the status of a task that has ended")),
        }
    }

    fn malformed(self, word: u32, why: &'static str) -> Malformed {
        let value = self.0 >> (word * 32) & u64::from(u32::MAX);
        Malformed::Word { place: WirePlace::Record, word, name: TABLE[word as usize].name, value, why }
    }
}
