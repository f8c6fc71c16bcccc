//! The debug log: what kernels print, as records that the host renders.
//!
//! A record is written while fewer than [`CAPACITY`] wait to be read, else it is counted as lost. Its first word is
//! stored last and read first: it carries the lap, so that a host that reads while the kernel runs takes only whole
//! records. Formats are numbered from 1, because a first word of zero is a record that was never written.

use super::table::words;
use super::{Malformed, WirePlace};

mod format;
pub use format::Format;

/// Records that the log holds.
pub const CAPACITY: u32 = 64;

/// Words of a record.
pub const RECORD_WORDS: u32 = 4;

/// Words of the log.
pub const WORDS: usize = (RECORDS + CAPACITY * RECORD_WORDS) as usize;

/// Where the lap stands in the first word of a record; the format is below.
pub const LAP_SHIFT: u32 = 16;

/// What a row of the table is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogPart {
    /// A word of the log.
    Log,
    /// A word of a record, counted from its first.
    Record,
}

words! {
    /// The words of the log and of a record.
    LogPart;
    CURSOR  0       Log    "Records written, modulo 2^32.";
    RECORDS 1 [256] Log    "The records. Record k is the one at k mod 64.";
    FORMAT  0       Record "The number of the format in bits 0-15, from 1; the lap, record / 64 mod 2^16, in bits 16-31.";
    A1      1       Record "The first value.";
    A2      2       Record "The second value.";
    SLOT    3       Record "The slot that printed it.";
}

/// The first word of a record: its format and the lap of its number.
#[inline]
pub const fn head_word(format: u16, record: u32) -> u32 {
    format as u32 | record_lap(record) << LAP_SHIFT
}

const fn record_lap(record: u32) -> u32 {
    (record / CAPACITY) & 0xffff
}

/// A debug record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogRecord {
    /// The number of its format.
    pub format: u16,
    /// Its two values.
    pub values: [u32; 2],
    /// The slot that printed it.
    pub slot: u32,
}

/// A view of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogView<'a>(&'a [u32]);

impl<'a> LogView<'a> {
    /// A view of words, which must hold the whole log.
    pub fn new(words: &'a [u32]) -> Result<Self, Malformed> {
        if words.len() < WORDS {
            let word = words.len() as u32;
            let name = if word == CURSOR { "CURSOR" } else { "RECORDS" };
            return Err(Malformed::Short { what: "debug log", words: words.len(), word, name });
        }
        Ok(LogView(words))
    }

    /// How many records were written.
    pub fn cursor(&self) -> u32 {
        self.0[CURSOR as usize]
    }

    /// The records from number `read` up to `cursor`, or up to the first that is not whole yet.
    pub fn records(
        &self,
        read: u32,
        cursor: u32,
    ) -> Result<impl Iterator<Item = LogRecord> + use<'a>, Malformed> {
        let waiting = cursor.wrapping_sub(read);
        if waiting > CAPACITY {
            let why = "and more records than the log holds would wait";
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

/// The record of that number, if it is there.
fn complete_record(words: &[u32], number: u32) -> Option<LogRecord> {
    let at = (RECORDS + number % CAPACITY * RECORD_WORDS) as usize;
    let record = &words[at..at + RECORD_WORDS as usize];
    let (format, values) = (record[FORMAT as usize], [record[A1 as usize], record[A2 as usize]]);
    let there = format >> LAP_SHIFT == record_lap(number) && format as u16 != 0;
    there.then(|| LogRecord { format: format as u16, values, slot: record[SLOT as usize] })
}
