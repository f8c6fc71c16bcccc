//! Prints results so that a crash leaves no half a line, and finds out which of them a crash had let through.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::error::CliError;

/// The most bytes that a pipe takes whole or not at all.
const PIPE_PIECE: usize = 4096;

/// What standard output is.
#[derive(Debug)]
pub(super) enum OutputFile {
    /// A file of a disk, which can be synced.
    Disk(File),
    /// A pipe, a terminal or something else.
    Other,
}

impl OutputFile {
    /// Looks at what standard output is.
    #[cfg(unix)]
    pub(super) fn of_stdout() -> OutputFile {
        use std::os::fd::AsFd;
        let file = io::stdout().as_fd().try_clone_to_owned().ok().map(File::from);
        let is_file = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
        file.filter(is_file).map_or(OutputFile::Other, OutputFile::Disk)
    }

    #[cfg(not(unix))]
    pub(super) fn of_stdout() -> OutputFile {
        OutputFile::Other
    }

    /// Writes the first of these lines, and returns how many bytes that were. A pipe gets a piece that arrives whole,
    /// unless the first line is longer than such a piece can be. Anything else gets all lines.
    pub(super) fn write_piece(&self, out: &mut impl Write, lines: &[u8]) -> Result<usize, CliError> {
        let most = match self {
            OutputFile::Disk(_) => usize::MAX,
            OutputFile::Other => PIPE_PIECE,
        };
        let piece = &lines[..piece_length(lines, most)];
        out.write_all(piece)?;
        out.flush()?;
        Ok(piece.len())
    }

    /// Hands what was written to the disk.
    pub(super) fn sync(&self) -> Result<(), CliError> {
        match self {
            OutputFile::Disk(file) => Ok(file.sync_data()?),
            OutputFile::Other => Ok(()),
        }
    }

    /// How many of these bytes, from the first one on, the file ends with already. They were printed before a crash.
    pub(super) fn printed_length(&self, lines: &[u8]) -> usize {
        match self {
            // Standard output cannot be read, but the system can open its file once more.
            OutputFile::Disk(_) if cfg!(target_os = "linux") => {
                let end = File::open("/proc/self/fd/1").and_then(|file| read_end(file, lines.len()));
                end.map_or(0, |end| overlap(&end, lines))
            }
            _ => 0,
        }
    }
}

/// The length of the longest piece that has at most this many bytes and ends with a line, or of the first line.
fn piece_length(lines: &[u8], most: usize) -> usize {
    if lines.len() <= most {
        return lines.len();
    }
    let end_of = |at: Option<usize>| at.map(|at| at + 1);
    let last = end_of(lines[..most].iter().rposition(|byte| *byte == b'\n'));
    last.or_else(|| end_of(lines.iter().position(|byte| *byte == b'\n'))).unwrap_or(lines.len())
}

/// Reads at most this many bytes from the end of a file.
fn read_end(mut file: File, most: usize) -> io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(most as u64)))?;
    let mut end = Vec::new();
    file.take(most as u64).read_to_end(&mut end)?;
    Ok(end)
}

/// The length of the longest beginning of `lines` that `end` ends with.
fn overlap(end: &[u8], lines: &[u8]) -> usize {
    let most = end.len().min(lines.len());
    (1..=most).rev().find(|&length| end.ends_with(&lines[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_found_to_the_byte() {
        let lines = b"{1}\n{2}\n{3}\n";
        for (end, length) in [
            (&b""[..], 0),
            (b"{0}\n", 0),
            (b"{0}\n{1}\n", 4),
            (b"{0}\n{1}\n{2", 6),
            (b"{0}\n{1}\n{2}\n{3}\n", 12),
            (b"{", 1),
        ] {
            assert_eq!(overlap(end, lines), length, "{}", String::from_utf8_lossy(end));
        }
    }

    #[test]
    fn pieces_end_with_lines() {
        assert_eq!(piece_length(b"ab\ncd\nef\n", 100), 9);
        assert_eq!(piece_length(b"ab\ncd\nef\n", 7), 6);
        assert_eq!(piece_length(b"abcdefgh\nij\n", 4), 9, "a line that is too long is written alone");
        assert_eq!(piece_length(b"abcdefgh", 4), 8);
    }
}
