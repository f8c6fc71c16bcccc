//! Sources from which the exact stage reads an input that is not in memory as a whole.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// An input of which a stretch can be read at any time.
pub trait TextSource {
    /// Returns the positions of the bytes that can be read.
    fn available(&self) -> Range<u64>;

    /// Replaces the contents of `into` with the bytes of a range that is available. If the input has become shorter, like
    /// a file that was truncated, there are fewer bytes than the range has.
    fn fetch(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> io::Result<()>;

    /// Returns whether no more bytes will become available.
    fn is_complete(&self) -> bool {
        false
    }

    /// Returns the byte before a position, if there is one and it is available.
    fn byte_before(&mut self, position: u64) -> io::Result<Option<u8>> {
        if position <= self.available().start || position > self.available().end {
            return Ok(None);
        }
        let mut one = vec![];
        self.fetch(position - 1..position, &mut one)?;
        Ok(one.first().copied())
    }
}

/// A text in memory that begins at some position of its input.
#[derive(Clone, Copy, Debug)]
pub struct TextInMemory<'t> {
    /// The position of the first byte.
    pub base: u64,
    /// The bytes.
    pub text: &'t [u8],
}

impl TextSource for TextInMemory<'_> {
    fn available(&self) -> Range<u64> {
        self.base..self.base + self.text.len() as u64
    }

    fn fetch(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        into.extend_from_slice(
            &self.text[(range.start - self.base) as usize..(range.end - self.base) as usize],
        );
        Ok(())
    }
}

/// The number of bytes that a file is read ahead and behind for short reads.
const RECENT_MAX: u64 = 1 << 18;

/// A file, which is read again where the exact stage needs it.
#[derive(Debug)]
pub struct TextInFile<'f> {
    file: &'f File,
    len: u64,
    /// What was read last, because most reads are short and near each other.
    recent: Vec<u8>,
    recent_base: u64,
}

impl<'f> TextInFile<'f> {
    /// Makes a source of the first `len` bytes of a file.
    pub fn new(file: &'f File, len: u64) -> TextInFile<'f> {
        TextInFile { file, len, recent: vec![], recent_base: 0 }
    }
}

impl TextSource for TextInFile<'_> {
    fn available(&self) -> Range<u64> {
        0..self.len
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn fetch(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        if range.end - range.start > RECENT_MAX / 2 {
            into.resize((range.end - range.start) as usize, 0);
            let count = read_full_at(self.file, into, range.start)?;
            into.truncate(count);
            return Ok(());
        }
        let recent_end = self.recent_base + self.recent.len() as u64;
        if range.start < self.recent_base || range.end > recent_end {
            // A quarter lies before the range, for those who read backwards.
            self.recent_base = range.start.saturating_sub(RECENT_MAX / 4);
            let count = RECENT_MAX.min(self.len.saturating_sub(self.recent_base)) as usize;
            self.recent.resize(count, 0);
            let count = read_full_at(self.file, &mut self.recent, self.recent_base)?;
            self.recent.truncate(count);
        }
        let local =
            |position: u64| (position.saturating_sub(self.recent_base) as usize).min(self.recent.len());
        into.extend_from_slice(&self.recent[local(range.start)..local(range.end)]);
        Ok(())
    }
}

/// Reads until a buffer is full or the file ends. Returns the number of bytes.
pub fn read_full_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
