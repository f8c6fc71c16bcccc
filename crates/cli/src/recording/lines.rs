//! The tasks of a recording as the input that they once were.

use std::io::{self, Read};

use pelton::journal::JournalReader;

use super::RunRecord;

/// Reads the tasks of a recording as lines, each at the number that it had. Lines that were no tasks are empty.
pub(crate) struct RecordedLines {
    reader: JournalReader,
    /// The number of lines so far.
    lines: u64,
    /// Lines that were not given yet, and how much of them was.
    text: Vec<u8>,
    given: usize,
}

impl RecordedLines {
    pub(crate) fn new(reader: JournalReader) -> Self {
        RecordedLines { reader, lines: 0, text: Vec::new(), given: 0 }
    }

    /// Reads on until there is a task. Returns whether there was one.
    fn next_task(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.given = 0;
        while let Some(record) = self.reader.next_record().map_err(io::Error::other)? {
            if let Some(RunRecord::Task { line, text }) = RunRecord::decode(record) {
                let gap = line.saturating_sub(self.lines + 1);
                self.text.resize(gap as usize, b'\n');
                self.text.extend_from_slice(text);
                self.text.push(b'\n');
                self.lines = line;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Read for RecordedLines {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < to.len() {
            if self.given == self.text.len() && !self.next_task()? {
                break;
            }
            let some = (to.len() - count).min(self.text.len() - self.given);
            to[count..count + some].copy_from_slice(&self.text[self.given..self.given + some]);
            count += some;
            self.given += some;
        }
        Ok(count)
    }
}
