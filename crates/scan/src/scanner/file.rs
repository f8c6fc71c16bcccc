//! Scans files of any size.
//!
//! Threads take pieces of the file in order and do stages one and two for them. A thread that has finished a piece adds
//! its result, which is small, to those of the other pieces, and does the exact stage for all pieces whose turn it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Scanner;
use super::lines::{BlockLines, piece_and_block_len};
use super::stream::{FindingSink, InputStream, PieceResult, StreamOptions, StreamReport, StreamStop};
use crate::engine::TextArena;
use crate::error::ScanError;
use crate::exact::source::{TextInFile, read_full_at};

/// A file and how it is cut into pieces.
struct FilePieces<'p> {
    scanner: &'p Scanner,
    path: &'p Path,
    file: &'p File,
    len: u64,
    piece_len: u64,
    block_len: u64,
    options: StreamOptions<'p>,
    /// The next piece that no thread has begun.
    next: AtomicU64,
}

/// What threads have found so far.
struct PieceResults<'p, 's, 'f> {
    /// The results of pieces whose turn has not come.
    waiting: BTreeMap<u64, PieceResult>,
    /// The next piece whose turn it is.
    turn: u64,
    stream: InputStream<'p>,
    sink: &'s mut FindingSink<'f>,
    /// Why the scan ends early.
    ended: Option<StreamStop>,
}

impl Scanner {
    /// Scans a file of any size. The memory that this takes depends on the number of threads and not on the file.
    ///
    /// The file is read and never mapped into memory. What is appended to it during the scan is not seen, and if it
    /// becomes shorter, the scan ends there. The findings of each rule are passed on in order, but those of different
    /// rules may not be in order with each other.
    pub fn scan_file(
        &self,
        path: &Path,
        file: &File,
        options: StreamOptions<'_>,
        sink: &mut FindingSink<'_>,
    ) -> Result<StreamReport, ScanError> {
        let len = file.metadata()?.len();
        if !self.applies_to(path) {
            return Ok(StreamReport { bytes: len, ..StreamReport::default() });
        }
        for finding in self.path_findings(path) {
            if sink(finding).is_break() {
                return Ok(StreamReport { stopped: true, ..StreamReport::default() });
            }
        }
        let (piece_len, block_len) = piece_and_block_len(self.engine.piece_len());
        let pieces = FilePieces {
            scanner: self,
            path,
            file,
            len,
            piece_len,
            block_len,
            options,
            next: AtomicU64::new(0),
        };
        let stream = InputStream::new(self, path, block_len);
        let results =
            Mutex::new(PieceResults { waiting: BTreeMap::new(), turn: 0, stream, sink, ended: None });
        let threads = options.threads.min(pieces.count() as usize);
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| pieces.work(&results));
            }
            pieces.work(&results);
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        match results.ended {
            Some(StreamStop::Failed(error)) => Err(error),
            ended => Ok(results.stream.report(ended.is_some() || options.stopped())),
        }
    }
}

impl FilePieces<'_> {
    /// Returns the number of pieces. An empty file has one, because some rules match the empty text.
    fn count(&self) -> u64 {
        self.len.div_ceil(self.piece_len).max(1)
    }

    /// Scans pieces until there are no more.
    fn work(&self, results: &Mutex<PieceResults<'_, '_, '_>>) {
        let room = self.scanner.lead + self.piece_len as usize + self.scanner.tail;
        let mut arena = self.scanner.engine.arena(room.min(self.len as usize + self.scanner.lead));
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count() || self.options.stopped() {
                return;
            }
            let result = match &mut arena {
                Ok(arena) => self.scan_piece(number, &mut **arena),
                Err(error) => Err(ScanError::Engine(error.to_string())),
            };
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(result) => results.take(self, number, result),
                Err(error) => results.ended = results.ended.take().or(Some(StreamStop::Failed(error))),
            }
            if results.ended.is_some() {
                self.next.store(self.count(), Ordering::Relaxed);
                return;
            }
        }
    }

    /// Does stages one and two for a piece.
    fn scan_piece(&self, number: u64, arena: &mut dyn TextArena) -> Result<PieceResult, ScanError> {
        let scanner = self.scanner;
        let start = number * self.piece_len;
        let end = self.len.min(start + self.piece_len);
        let base = start.saturating_sub(scanner.lead as u64);
        let stop = self.len.min(end + scanner.tail as u64);
        let wanted = (stop - base) as usize;
        let read = read_full_at(self.file, &mut arena.bytes_mut()[..wanted], base)?;
        let own = ((start - base) as usize).min(read)..((end - base) as usize).min(read);
        let mut candidates = vec![];
        scanner.engine.candidates(arena, read, own.clone(), &mut candidates)?;
        let text = &arena.bytes()[..read];
        let ended = base + read as u64 == self.len;
        let ranges = scanner.ranges_of_piece(self.path, text, base, ended, &candidates);
        self.options.count(own.len() as u64);
        Ok(PieceResult {
            ranges,
            lines: BlockLines::count(&text[own.clone()], self.block_len),
            end: start + own.len() as u64,
        })
    }
}

impl PieceResults<'_, '_, '_> {
    /// Takes the result of a piece, and reports what all results whose turn it is decide.
    fn take(&mut self, pieces: &FilePieces<'_>, number: u64, result: PieceResult) {
        self.waiting.insert(number, result);
        let mut source = TextInFile::new(pieces.file, pieces.len);
        while let Some(result) = self.waiting.remove(&self.turn) {
            self.turn += 1;
            let last = self.turn == pieces.count();
            if self.ended.is_none() {
                self.ended = self.stream.advance(&mut source, &result, last, pieces.options, self.sink).err();
            }
        }
    }
}
