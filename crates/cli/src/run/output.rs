//! Where results go: to standard output, or elsewhere if a run has a journal or is a replay.

use std::io::Write;

use crate::error::CliError;
use crate::recording::TaskEnd;

/// Takes the lines of results.
pub(super) trait ResultOutput {
    /// Takes the line of a result, with its end. `end` is `None` if the task has not run to its end.
    fn put(&mut self, line: u64, end: Option<TaskEnd>, text: &[u8]) -> Result<(), CliError>;
    /// Shows everything that was taken so far.
    fn flush(&mut self) -> Result<(), CliError>;
}

/// Writes lines as they come.
pub(super) struct PlainOutput<W>(pub W);

impl<W: Write> ResultOutput for PlainOutput<W> {
    fn put(&mut self, _: u64, _: Option<TaskEnd>, text: &[u8]) -> Result<(), CliError> {
        Ok(self.0.write_all(text)?)
    }

    fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.0.flush()?)
    }
}
