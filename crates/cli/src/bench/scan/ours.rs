//! Our own contenders: a scanner over text in memory, in one file, and in many files.

use std::fs::File;
use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use pelton_scan::engine::TextArena;
use pelton_scan::finding::{Finding, Match};
use pelton_scan::scanner::{InputBatch, StreamOptions};
use pelton_scan::{ScanError, Scanner};

use super::found::FoundSummary;
use super::scratch::ScratchText;
use super::text::BenchText;
use crate::error::CliError;

/// The length of batches, which is that of the command `scan`.
const BATCH_BYTES: usize = 4 << 20;
/// The number of bytes of a pipe that a scan may keep. Files need none of it.
const RETAIN_BYTES: usize = 1 << 28;

/// What a contender did in its turn.
pub(super) struct ScanTurn {
    /// How long it took.
    pub seconds: f64,
    /// The number of bytes that it scanned.
    pub bytes: usize,
    /// What it found.
    pub found: FoundSummary,
}

/// A scanner, and the text as it wants it.
pub(super) struct ReadyScan {
    /// The scanner.
    pub scanner: Scanner,
    batches: Vec<Mutex<InputBatch>>,
    /// The text in pieces, with their lengths.
    arenas: Vec<Mutex<(Box<dyn TextArena>, usize)>>,
    /// All matches with the number of their file.
    matches: Vec<(u64, Match)>,
    /// What is found in all files together as one input.
    joined: FoundSummary,
    /// The candidates in the pieces.
    candidates: FoundSummary,
    bytes: usize,
}

/// Names the error of a scan.
pub(super) fn scan_failed(error: ScanError) -> CliError {
    CliError::Wrong(format!("the scan failed: {error}"))
}

impl ReadyScan {
    /// Puts the text into batches, and into pieces of `piece_len` bytes, and scans it once.
    pub(super) fn new(scanner: Scanner, text: &BenchText, piece_len: usize) -> Result<ReadyScan, CliError> {
        let (mut batches, mut arenas) = (Vec::new(), Vec::new());
        let mut numbered = (0u64..).zip(&text.files).peekable();
        while numbered.peek().is_some() {
            let first = numbered.peek().map_or(0, |(_, file)| file.range.len());
            let mut batch = scanner.batch(BATCH_BYTES.max(first)).map_err(scan_failed)?;
            while let Some((key, file)) = numbered.next_if(|(_, file)| file.range.len() <= batch.room().len())
            {
                batch.room()[..file.range.len()].copy_from_slice(&text.bytes[file.range.clone()]);
                batch.push(key, &file.name, file.range.len());
            }
            batches.push(Mutex::new(batch));
        }
        for piece in text.bytes.chunks(piece_len) {
            let mut arena = scanner.engine().arena(piece.len()).map_err(scan_failed)?;
            arena.bytes_mut()[..piece.len()].copy_from_slice(piece);
            arenas.push(Mutex::new((arena, piece.len())));
        }
        let whole = scanner.scan_bytes(Path::new("all"), &text.bytes).map_err(scan_failed)?;
        let joined = summary_of(whole.iter().map(|finding| (0, finding.found)));
        let (matches, bytes, candidates) = (Vec::new(), text.bytes.len(), FoundSummary::default());
        let mut ready = ReadyScan { scanner, batches, arenas, matches, joined, candidates, bytes };
        ready.candidates = ready.find_candidates(1)?.found;
        ready.matches = ready.scan_batches(1)?;
        Ok(ready)
    }

    /// The candidates in the pieces of the text.
    pub(super) fn candidates(&self) -> FoundSummary {
        self.candidates
    }

    /// What is found in some of the files.
    pub(super) fn found_in(&self, files: &Range<usize>) -> FoundSummary {
        summary_of(self.matches.iter().copied().filter(|(file, _)| files.contains(&(*file as usize))))
    }

    /// What is found in all files, each of them an input of its own.
    pub(super) fn found_in_files(&self) -> FoundSummary {
        summary_of(self.matches.iter().copied())
    }

    /// The numbers of the files in which something is found, some of them more than once.
    pub(super) fn files_with_matches(&self) -> impl Iterator<Item = usize> {
        self.matches.iter().map(|(file, _)| *file as usize)
    }

    /// What is found in all files together as one input.
    pub(super) fn found_joined(&self) -> FoundSummary {
        self.joined
    }

    /// Does stages one and two for the whole text. What is found are the candidates.
    pub(super) fn find_candidates(&self, threads: usize) -> Result<ScanTurn, CliError> {
        let (scanner, arenas) = (&self.scanner, &self.arenas);
        let start = Instant::now();
        let lists = on_threads(threads, arenas.len(), |numbers| {
            let mut lists = Vec::new();
            for number in numbers {
                let piece = arenas[number].lock().unwrap_or_else(PoisonError::into_inner);
                let mut candidates = Vec::new();
                scanner.engine().candidates(&*piece.0, piece.1, 0..piece.1, &mut candidates)?;
                lists.push((number as u64, candidates));
            }
            Ok(lists)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let mut found = FoundSummary::default();
        for (piece, candidate) in
            lists.into_iter().flat_map(|(piece, list)| list.into_iter().map(move |c| (piece, c)))
        {
            found.add(piece, candidate.branch, candidate.first.into(), candidate.last.into());
        }
        Ok(ScanTurn { seconds, bytes: self.bytes, found })
    }

    /// Scans the batches, which are in memory.
    pub(super) fn scan_memory(&self, threads: usize) -> Result<ScanTurn, CliError> {
        let start = Instant::now();
        let matches = self.scan_batches(threads)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(ScanTurn { seconds, bytes: self.bytes, found: summary_of(matches.into_iter()) })
    }

    fn scan_batches(&self, threads: usize) -> Result<Vec<(u64, Match)>, CliError> {
        // Arenas outside of a lock cannot be shared, so threads must not see all of `self`.
        let (scanner, batches) = (&self.scanner, &self.batches);
        on_threads(threads, batches.len(), |numbers| {
            let mut matches = Vec::new();
            for number in numbers {
                let batch = batches[number].lock().unwrap_or_else(PoisonError::into_inner);
                take_matches(&batch, scanner.scan_batch(&batch)?, &mut matches);
            }
            Ok(matches)
        })
    }

    /// Scans the file that holds all files.
    pub(super) fn scan_large_file(
        &self,
        scratch: &ScratchText,
        threads: usize,
    ) -> Result<ScanTurn, CliError> {
        let start = Instant::now();
        let mut matches = Vec::new();
        let file = File::open(scratch.large_file()).map_err(CliError::Input)?;
        let options = StreamOptions { threads, retain: RETAIN_BYTES, ..StreamOptions::default() };
        let mut sink = |finding: Finding| {
            matches.push((0, finding.found));
            ControlFlow::Continue(())
        };
        self.scanner.scan_file(scratch.large_file(), &file, options, &mut sink).map_err(scan_failed)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(ScanTurn { seconds, bytes: self.bytes, found: summary_of(matches.into_iter()) })
    }

    /// Opens, reads and scans every file of the tree.
    pub(super) fn scan_tree(&self, scratch: &ScratchText, threads: usize) -> Result<ScanTurn, CliError> {
        let scanner = &self.scanner;
        let start = Instant::now();
        let matches = on_threads(threads, scratch.tree_files().len(), |numbers| {
            let mut matches = Vec::new();
            let mut batch = scanner.batch(BATCH_BYTES)?;
            for number in numbers {
                let path = &scratch.tree_files()[number];
                let mut file = File::open(path)?;
                let len = file.metadata()?.len() as usize;
                if len > batch.room().len() {
                    take_matches(&batch, scanner.scan_batch(&batch)?, &mut matches);
                    batch.clear();
                }
                file.read_exact(&mut batch.room()[..len])?;
                batch.push(number as u64, path, len);
            }
            take_matches(&batch, scanner.scan_batch(&batch)?, &mut matches);
            Ok(matches)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(ScanTurn { seconds, bytes: self.bytes, found: summary_of(matches.into_iter()) })
    }
}

/// Adds the matches of all inputs of a batch.
fn take_matches(batch: &InputBatch, lists: Vec<Vec<Finding>>, matches: &mut Vec<(u64, Match)>) {
    for (input, findings) in batch.inputs().iter().zip(lists) {
        matches.extend(findings.iter().map(|finding| (input.key, finding.found)));
    }
}

fn summary_of(matches: impl Iterator<Item = (u64, Match)>) -> FoundSummary {
    let mut found = FoundSummary::default();
    matches.for_each(|(file, matched)| found.add(file, matched.rule, matched.start, matched.end));
    found
}

/// Distributes the numbers below `count` among threads, and returns what all of them found.
fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(&mut dyn Iterator<Item = usize>) -> Result<Vec<T>, ScanError> + Sync,
) -> Result<Vec<T>, CliError> {
    let next = AtomicUsize::new(0);
    // Relaxed: the number alone decides who does what.
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count);
    let run = || work(&mut std::iter::from_fn(take));
    if threads <= 1 {
        return run().map_err(scan_failed);
    }
    let lists = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        started.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for list in lists {
        let list = list.map_err(|_| CliError::Wrong("a thread of the scan panicked".into()))?;
        all.extend(list.map_err(scan_failed)?);
    }
    Ok(all)
}
