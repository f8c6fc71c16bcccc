//! The debug log, which holds what kernels print as records for the host to render.
//!
//! A record is written while fewer than [`CAPACITY`] records wait to be read, and is otherwise counted as lost. The
//! first word of a record is stored last and read first. It carries the lap, so that a host that reads while the
//! kernel runs takes only complete records. Formats are numbered from 1, because a first word of zero means that the
//! record was never written.

use super::table::words;
use super::{Malformed, WirePlace};

mod format;
pub use format::Format;

/// The number of records that the log holds.
pub const CAPACITY: u32 = 64;

/// The number of words in a record.
pub const RECORD_WORDS: u32 = 4;

/// The number of words in the log.
pub const WORDS: usize = (RECORDS + CAPACITY * RECORD_WORDS) as usize;

/// The position of the lap in the first word of a record. The number of the format is in the bits below.
pub const LAP_SHIFT: u32 = 16;

/// The part of the log that a row of the table describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogPart {
    /// The row describes words of the log.
    Log,
    /// The row describes a word of a record, numbered from the first word of that record.
    Record,
}

words! {
    /// The words of the log and of a record.
    LogPart;
    CURSOR  0       Log    "The number of records written so far, modulo 2^32.";
    RECORDS 1 [256] Log    "The records. Record k lies at place k mod 64.";
    FORMAT  0       Record "The number of the format, starting with 1, in bits 0-15; the lap, which is the record's number / 64 mod 2^16, in bits 16-31.";
    A1      1       Record "The first value.";
    A2      2       Record "The second value.";
    SLOT    3       Record "The number of the slot whose task printed the record.";
}

/// Returns the first word of a record: its format, and the lap of its number.
#[inline]
pub const fn head_word(format: u16, record: u32) -> u32 {
    format as u32 | record_lap(record) << LAP_SHIFT
}

const fn record_lap(record: u32) -> u32 {
    (record / CAPACITY) & 0xffff
}

/// A record of the debug log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogRecord {
    /// The number of the format.
    pub format: u16,
    /// The two values to print.
    pub values: [u32; 2],
    /// The number of the slot whose task printed the record.
    pub slot: u32,
}

/// A view of the words of a debug log.
#[derive(Clone, Copy, Debug)]
pub struct LogView<'a>(&'a [u32]);

impl<'a> LogView<'a> {
    /// Returns a view of these words, or an error if they do not hold a whole log.
    pub fn new(words: &'a [u32]) -> Result<Self, Malformed> {
        if words.len() < WORDS {
            let word = words.len() as u32;
            let name = if word == CURSOR { "CURSOR" } else { "RECORDS" };
            return Err(Malformed::Short { what: "debug log", words: words.len(), word, name });
        }
        Ok(LogView(words))
    }

    /// Returns how many records have been written.
    pub fn cursor(&self) -> u32 {
        self.0[CURSOR as usize]
    }

    /// Returns the records from number `read` up to `cursor`, or up to the first that is not complete yet.
    pub fn records(
        &self,
        read: u32,
        cursor: u32,
    ) -> Result<impl Iterator<Item = LogRecord> + use<'a>, Malformed> {
        let waiting = cursor.wrapping_sub(read);
        if waiting > CAPACITY {
            let why = "but the log does not hold that many unread records";
            return Err(Malformed::Word {
                place: WirePlace::Log,
                word: CURSOR,
                name: "CURSOR",
                value: cursor.into(),
                why,
            });
        }
        let words = self.0;
        Ok((0..waiting).map_while(move |k| complete_record(words, read.wrapping_add(k))))
    }
}

/// Returns the record with this number, or `None` if it has not been written completely.
fn complete_record(words: &[u32], number: u32) -> Option<LogRecord> {
    let at = (RECORDS + number % CAPACITY * RECORD_WORDS) as usize;
    let record = &words[at..at + RECORD_WORDS as usize];
    let (format, values) = (record[FORMAT as usize], [record[A1 as usize], record[A2 as usize]]);
    let there = format >> LAP_SHIFT == record_lap(number) && format as u16 != 0;
    there.then(|| LogRecord { format: format as u16, values, slot: record[SLOT as usize] })
}
