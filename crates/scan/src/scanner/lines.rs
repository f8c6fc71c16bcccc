//! Line numbers.

use std::io;

use memchr::{memchr_iter, memrchr};

use crate::exact::source::TextSource;

/// A line and a column, both from 1. Columns count bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinePosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// Counts lines forwards through a text in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineCursor {
    position: usize,
    breaks: u64,
    line_start: usize,
}

impl LineCursor {
    /// Goes on to a position, which must not lie before the last one, and returns where it is.
    pub(super) fn locate(&mut self, text: &[u8], position: usize) -> LinePosition {
        let passed = &text[self.position..position];
        self.breaks += memchr_iter(b'\n', passed).count() as u64;
        if let Some(last) = memrchr(b'\n', passed) {
            self.line_start = self.position + last + 1;
        }
        self.position = position;
        LinePosition { line: self.breaks + 1, column: (position - self.line_start) as u64 + 1 }
    }
}

/// Returns how an input is cut for an engine that likes pieces of `wanted` bytes: the length of pieces, and the length
/// of the blocks of a [`LineIndex`], of which a piece has a whole number.
pub(super) fn piece_and_block_len(wanted: usize) -> (u64, u64) {
    let block = (wanted as u64).clamp(1, 1 << 16);
    ((wanted as u64).next_multiple_of(block).max(block), block)
}

/// The line breaks of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockLines {
    breaks: u64,
    /// The offset after the last line break.
    last_line: Option<u64>,
}

impl BlockLines {
    /// Counts the line breaks of each block of a text. Only the last block may be incomplete.
    pub(super) fn count(text: &[u8], block_len: u64) -> Vec<BlockLines> {
        let count = |block: &[u8]| BlockLines {
            breaks: memchr_iter(b'\n', block).count() as u64,
            last_line: memrchr(b'\n', block).map(|at| at as u64 + 1),
        };
        text.chunks(block_len as usize).map(count).collect()
    }
}

/// Where the lines of a long input are: one entry per block says what was before it.
#[derive(Debug)]
pub(super) struct LineIndex {
    block_len: u64,
    /// The number of the first block that is still known.
    first: u64,
    blocks: std::collections::VecDeque<(u64, u64)>,
    /// The position that was located last, with the number of line breaks before it and the start of its line.
    /// Positions are mostly located in order, so that little has to be read.
    last: (u64, u64, u64),
}

impl LineIndex {
    /// Makes an index that knows the beginning of the first block.
    pub(super) fn new(block_len: u64) -> LineIndex {
        LineIndex { block_len, first: 0, blocks: [(0, 0)].into(), last: (0, 0, 0) }
    }

    /// Adds the blocks that follow.
    pub(super) fn extend(&mut self, blocks: &[BlockLines]) {
        for block in blocks {
            let number = self.first + self.blocks.len() as u64 - 1;
            let &(breaks, line_start) = self.blocks.back().expect("the index has an entry");
            let next_start = block.last_line.map_or(line_start, |at| number * self.block_len + at);
            self.blocks.push_back((breaks + block.breaks, next_start));
        }
    }

    /// Forgets the blocks before a position.
    pub(super) fn forget_before(&mut self, position: u64) {
        while self.first < position / self.block_len && self.blocks.len() > 1 {
            self.blocks.pop_front();
            self.first += 1;
        }
    }

    /// Returns where a position is.
    pub(super) fn locate(&mut self, source: &mut dyn TextSource, position: u64) -> io::Result<LinePosition> {
        let number = (position / self.block_len).clamp(self.first, self.first + self.blocks.len() as u64 - 1);
        let (breaks, line_start) = self.blocks[(number - self.first) as usize];
        let mut from = ((number * self.block_len).min(position), breaks, line_start);
        if (from.0..=position).contains(&self.last.0) {
            from = self.last;
        }
        let mut text = vec![];
        source.fetch(from.0..position, &mut text)?;
        let breaks = from.1 + memchr_iter(b'\n', &text).count() as u64;
        let line_start = memrchr(b'\n', &text).map_or(from.2, |at| from.0 + at as u64 + 1);
        self.last = (position, breaks, line_start);
        Ok(LinePosition { line: breaks + 1, column: position - line_start + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const LINE_BLOCK: u64 = 1 << 10;
    use crate::exact::source::TextInMemory;

    #[test]
    fn cursor_and_index_agree() {
        let mut text = vec![b'x'; 3 * LINE_BLOCK as usize + 10];
        for at in [0, 5, 6, LINE_BLOCK as usize - 1, LINE_BLOCK as usize, 2 * LINE_BLOCK as usize + 7] {
            text[at] = b'\n';
        }
        let mut index = LineIndex::new(LINE_BLOCK);
        index.extend(&BlockLines::count(&text, LINE_BLOCK));
        let mut cursor = LineCursor::default();
        for position in (0..text.len()).step_by(97).chain([text.len()]) {
            let wanted = cursor.locate(&text, position);
            let before = &text[..position];
            assert_eq!(wanted.line, before.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1);
            let found = index.locate(&mut TextInMemory { base: 0, text: &text }, position as u64).unwrap();
            assert_eq!(found, wanted, "{position}");
        }
    }
}
