//! Scans what a reader yields.
//!
//! A reader cannot be read again, so text is kept from the oldest position at which a match may have begun.

use std::io::{ErrorKind, Read};
use std::path::Path;

use super::Scanner;
use super::lines::{BlockLines, piece_and_block_len};
use super::stream::{FindingSink, InputStream, PieceResult, StreamOptions, StreamReport, StreamStop};
use crate::engine::TextArena;
use crate::error::ScanError;
use crate::exact::matcher::MARGIN;
use crate::exact::source::TextInMemory;
use crate::finding::Finding;

/// The text of a reader, as far as it is kept.
struct KeptText {
    /// The position of the first byte that is kept.
    base: u64,
    bytes: Vec<u8>,
    /// Candidates of the text before this position are known. Until the input has ended, this is a whole number of
    /// blocks.
    scanned: u64,
    /// The length of the blocks in which lines are counted.
    block_len: u64,
    ended: bool,
}

impl Scanner {
    /// Scans what a reader yields until it ends, keeping at most about [`retain`](StreamOptions::retain) bytes in memory.
    ///
    /// The findings of each rule are passed on in order, but those of different rules may not be in order with each
    /// other. If a match may have begun before the bytes that are kept, its rule gives up, as
    /// [`StreamReport::gave_up`](super::StreamReport::gave_up) says. Keywords of rules are looked for only in the bytes
    /// that are kept.
    pub fn scan_reader(
        &self,
        path: &Path,
        reader: &mut (dyn Read + Send),
        options: StreamOptions<'_>,
        sink: &mut FindingSink<'_>,
    ) -> Result<StreamReport, ScanError> {
        if !self.applies_to(path) {
            return Ok(StreamReport::default());
        }
        for finding in self.path_findings(path) {
            if sink(finding).is_break() {
                return Ok(StreamReport { stopped: true, ..StreamReport::default() });
            }
        }
        let (piece_len, block_len) = piece_and_block_len(self.engine.piece_len());
        let mut arena = self.engine.arena(self.lead + piece_len as usize + self.stream_tail() as usize)?;
        let mut kept = KeptText { base: 0, bytes: vec![], scanned: 0, block_len, ended: false };
        let mut stream = InputStream::new(self, path, block_len);
        loop {
            kept.fill(reader, (piece_len, self.stream_tail()), options)?;
            if options.stopped() {
                return Ok(stream.report(true));
            }
            let before = kept.scanned;
            let piece = self.scan_kept(path, &mut kept, piece_len, &mut *arena)?;
            options.count(kept.scanned - before);
            let last = kept.ended && kept.scanned == kept.end();
            let mut source = TextInMemory { base: kept.base, text: &kept.bytes };
            match stream.advance(&mut source, &piece, last, options, sink) {
                Ok(()) if last => return Ok(stream.report(false)),
                Ok(()) => {}
                Err(StreamStop::Break) => return Ok(stream.report(true)),
                Err(StreamStop::Failed(error)) => return Err(error),
            }
            let needed = stream.keep_from().max(kept.end().saturating_sub(options.retain as u64));
            kept.forget_before(needed.min(kept.scanned.saturating_sub(self.lead as u64)));
            stream.lines.forget_before(kept.base);
        }
    }

    /// Returns the number of bytes that must follow a piece: those that windows need, and those that are shown and
    /// filtered with a match.
    fn stream_tail(&self) -> u64 {
        self.tail.max(Finding::CONTEXT_MAX + MARGIN) as u64
    }

    /// Does stages one and two for the next piece of what is kept.
    fn scan_kept(
        &self,
        path: &Path,
        kept: &mut KeptText,
        piece_len: u64,
        arena: &mut dyn TextArena,
    ) -> Result<PieceResult, ScanError> {
        let start = kept.scanned;
        let base = start.saturating_sub(self.lead as u64).max(kept.base);
        let end = kept.whole_blocks(self.stream_tail()).min(start + piece_len);
        let stop = kept.end().min(end + self.stream_tail());
        let text = &kept.bytes[(base - kept.base) as usize..(stop - kept.base) as usize];
        arena.bytes_mut()[..text.len()].copy_from_slice(text);
        let own = (start - base) as usize..(end - base) as usize;
        let mut candidates = vec![];
        self.engine.candidates(arena, text.len(), own.clone(), &mut candidates)?;
        let ended = kept.ended && stop == kept.end();
        let ranges = self.ranges_of_piece(path, text, base, ended, &candidates);
        let lines = BlockLines::count(&text[own], kept.block_len);
        kept.scanned = end;
        Ok(PieceResult { ranges, lines, end })
    }
}

impl KeptText {
    /// Returns the position after the last byte.
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns the end of the last whole block that is followed by `tail` bytes; at the end of the input, its end.
    fn whole_blocks(&self, tail: u64) -> u64 {
        if self.ended {
            self.end()
        } else {
            self.end().saturating_sub(tail) / self.block_len * self.block_len
        }
    }

    /// Reads until there is a whole piece, or the input has no more for now and there is a whole block.
    fn fill(
        &mut self,
        reader: &mut (dyn Read + Send),
        (piece_len, tail): (u64, u64),
        options: StreamOptions<'_>,
    ) -> Result<(), ScanError> {
        let to = self.scanned + piece_len + tail;
        while !self.ended && self.end() < to && !options.stopped() {
            let before = self.bytes.len();
            let room = (to - self.end()).min(1 << 20) as usize;
            self.bytes.resize(before + room, 0);
            let read = reader.read(&mut self.bytes[before..]);
            self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => self.ended = true,
                Ok(count) if count < room && self.whole_blocks(tail) > self.scanned => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Forgets text before a position, in whole blocks, and only if that is worth moving the rest.
    fn forget_before(&mut self, position: u64) {
        let position = position / self.block_len * self.block_len;
        let count = position.saturating_sub(self.base) as usize;
        if count > 0 && count >= self.bytes.len() / 2 {
            self.bytes.drain(..count);
            self.base = position;
        }
    }
}
