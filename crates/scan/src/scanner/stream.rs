//! What scans of files and readers have in common: matches become findings as soon as they are certain.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use regex_syntax::hir::Look;
use rustc_hash::FxHashMap;

use super::Scanner;
use super::lines::{BlockLines, LineIndex};
use super::report::MatchInText;
use crate::candidate::Candidate;
use crate::error::ScanError;
use crate::exact::matcher::MARGIN;
use crate::exact::source::TextSource;
use crate::exact::stream::StreamMatches;
use crate::exact::{GiveUpReason, StartRange, unite};
use crate::finding::{Finding, Match};

/// The function to which a scan passes its findings, one by one. If it returns `Break`, the scan ends.
pub type FindingSink<'s> = dyn FnMut(Finding) -> ControlFlow<()> + Send + 's;

/// Options of [`Scanner::scan_file`] and [`Scanner::scan_reader`].
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions<'o> {
    /// The number of threads that scan a file; 0 counts as 1. A reader is scanned by one thread.
    pub threads: usize,
    /// The largest number of bytes of a reader that are kept after they were scanned, in case a match continues. With the
    /// default, 0, rules give up on long matches. Files do not need it, because they can be read again.
    pub retain: usize,
    /// A flag that ends the scan soon after it becomes true.
    pub stop: Option<&'o AtomicBool>,
    /// A flag that is true once a reader has ended before its input has, for example because a person stopped it. What
    /// follows is then unknown, so a match that reaches the end is not reported if it depends on what follows, as one of
    /// `\z`, `$` or `\b` does.
    pub cut_short: Option<&'o AtomicBool>,
    /// A counter to which the number of bytes is added that have been scanned.
    pub progress: Option<&'o AtomicU64>,
}

impl Default for StreamOptions<'_> {
    /// Scans on one thread, and keeps up to 256 MiB.
    fn default() -> Self {
        StreamOptions { threads: 1, retain: 256 << 20, stop: None, cut_short: None, progress: None }
    }
}

impl StreamOptions<'_> {
    /// Returns whether the scan is to end.
    pub(super) fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Returns whether the reader has ended before its input has.
    fn is_cut_short(&self) -> bool {
        self.cut_short.is_some_and(|cut| cut.load(Ordering::Relaxed))
    }

    /// Counts bytes that have been scanned.
    pub(super) fn count(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// How the scan of a long input ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// The number of bytes that were scanned.
    pub bytes: u64,
    /// The rules that had to give up, as indices of the scanner's rules, with the reasons. Their findings may be
    /// incomplete.
    pub gave_up: Vec<(u32, GiveUpReason)>,
    /// Whether the scan was stopped before the end of the input.
    pub stopped: bool,
}

/// What stages one and two found in a piece of an input.
#[derive(Debug, Default)]
pub(super) struct PieceResult {
    pub(super) ranges: Vec<(u32, StartRange)>,
    pub(super) lines: Vec<BlockLines>,
    pub(super) end: u64,
}

/// Why no further match is wanted.
pub(super) enum StreamStop {
    /// The sink has had enough.
    Break,
    /// The input cannot be read, or the engine failed.
    Failed(ScanError),
}

impl From<io::Error> for StreamStop {
    fn from(error: io::Error) -> StreamStop {
        StreamStop::Failed(error.into())
    }
}

/// A long input that is being scanned.
pub(super) struct InputStream<'s> {
    scanner: &'s Scanner,
    path: &'s Path,
    matches: StreamMatches<'s>,
    pub(super) lines: LineIndex,
    has_keyword: FxHashMap<u32, bool>,
    scanned: u64,
}

impl<'s> InputStream<'s> {
    pub(super) fn new(scanner: &'s Scanner, path: &'s Path, block_len: u64) -> InputStream<'s> {
        let applies = |rule: u32| scanner.filters.searches(rule as usize, path);
        let matches = StreamMatches::new(&scanner.searches, scanner.lead as u64, applies);
        InputStream {
            scanner,
            path,
            matches,
            lines: LineIndex::new(block_len),
            has_keyword: FxHashMap::default(),
            scanned: 0,
        }
    }

    /// Takes the result of the next piece, and reports what it decides.
    pub(super) fn advance(
        &mut self,
        source: &mut dyn TextSource,
        piece: &PieceResult,
        ended: bool,
        options: StreamOptions<'_>,
        sink: &mut FindingSink<'_>,
    ) -> Result<(), StreamStop> {
        self.lines.extend(&piece.lines);
        self.scanned = piece.end;
        for &(rule, range) in &piece.ranges {
            self.matches.add(rule, range);
        }
        let (scanner, path, lines, has_keyword) =
            (self.scanner, self.path, &mut self.lines, &mut self.has_keyword);
        let cut = ended && options.is_cut_short();
        self.matches.advance(source, piece.end, ended, &mut |found, source| {
            if cut && found.end == source.available().end && scanner.looks_behind_matches(found.rule) {
                return Ok(());
            }
            let Some(finding) = scanner.long_finding(path, found, source, lines)? else { return Ok(()) };
            let rule = found.rule as usize;
            if !scanner.filters.has_keyword(rule, &finding.context) {
                let known = match has_keyword.get(&found.rule) {
                    Some(&known) => known,
                    None => {
                        let seen = scanner.find_keyword(rule, source)?;
                        // In text that is gone or still to come there may be one: rather report too much.
                        let whole = source.available().start == 0 && (ended || source.is_complete());
                        if seen || whole {
                            has_keyword.insert(found.rule, seen);
                        }
                        seen || !whole
                    }
                };
                if !known {
                    return Ok(());
                }
            }
            if sink(finding).is_break() || options.stopped() { Err(StreamStop::Break) } else { Ok(()) }
        })
    }

    /// Returns the position from which on text is still needed.
    pub(super) fn keep_from(&self) -> u64 {
        self.matches.keep_from(self.scanned).saturating_sub(Finding::CONTEXT_MAX as u64)
    }

    /// Returns how the scan ended.
    pub(super) fn report(&self, stopped: bool) -> StreamReport {
        StreamReport { bytes: self.scanned, gave_up: self.matches.gave_up(), stopped }
    }
}

impl Scanner {
    /// Returns where matches may begin, from the candidates in a piece that begins at `base`. Candidates that the piece
    /// itself shows to be none are left out.
    pub(super) fn ranges_of_piece(
        &self,
        path: &Path,
        text: &[u8],
        base: u64,
        ended: bool,
        candidates: &[Candidate],
    ) -> Vec<(u32, StartRange)> {
        let mut ranges: Vec<(u32, StartRange)> = candidates
            .iter()
            .map(|candidate| {
                let branch = &self.catalog.branches()[candidate.branch as usize];
                let (first, last) = (base + u64::from(candidate.first), base + u64::from(candidate.last));
                (branch.rule, StartRange::of_part(branch, first, last))
            })
            .collect();
        ranges.sort_unstable();
        let mut kept = vec![];
        for group in ranges.chunk_by(|one, other| one.0 == other.0) {
            let rule = group[0].0;
            let Some(search) = &self.searches[rule as usize] else { continue };
            if !self.filters.searches(rule as usize, path) {
                continue;
            }
            let mut own: Vec<StartRange> = group.iter().map(|&(_, range)| range).collect();
            unite(&mut own, 0);
            match search.matcher.max_len() {
                Some(max_len) => {
                    own.retain(|range| may_match(&search.matcher, max_len, text, base, ended, *range));
                }
                None => search.retain_possible(text, base, &mut own),
            }
            kept.extend(own.into_iter().map(|range| (rule, range)));
        }
        kept
    }

    /// Returns whether it depends on the byte after a match whether it is one.
    fn looks_behind_matches(&self, rule: u32) -> bool {
        let ends = [Look::End, Look::EndLF, Look::EndCRLF];
        self.rules.rules[rule as usize].expression.as_ref().is_some_and(|expression| {
            let looks = expression.hir().properties().look_set();
            looks.contains_word() || ends.into_iter().any(|look| looks.contains(look))
        })
    }

    /// Makes a finding of a match in an input that is not in memory as a whole.
    fn long_finding(
        &self,
        path: &Path,
        found: Match,
        source: &mut dyn TextSource,
        lines: &mut LineIndex,
    ) -> io::Result<Option<Finding>> {
        let available = source.available();
        let base = found.start.saturating_sub(Finding::CONTEXT_MAX as u64).max(available.start);
        let shown_end = found.end.min(found.start + LONG_MATCH_MAX);
        let mut text = vec![];
        source.fetch(
            base..shown_end.saturating_add(Finding::CONTEXT_MAX as u64).min(available.end),
            &mut text,
        )?;
        if text.len() < (found.start - base) as usize {
            return Ok(None); // the file has become shorter
        }
        let position = lines.locate(source, found.start)?;
        let end_line = lines.locate(source, found.start.max(found.end.saturating_sub(1)))?.line;
        Ok(self.make_finding(path, &MatchInText { found, text: &text, base, position, end_line }))
    }

    /// Returns whether a keyword of a rule is in what is available of an input.
    fn find_keyword(&self, rule: usize, source: &mut dyn TextSource) -> io::Result<bool> {
        let available = source.available();
        let overlap = self.filters.keyword_overlap(rule) as u64;
        let (mut position, mut text) = (available.start, vec![]);
        while position < available.end {
            let end = available.end.min(position + KEYWORD_BLOCK + overlap);
            source.fetch(position..end, &mut text)?;
            if self.filters.has_keyword(rule, &text) {
                return Ok(true);
            }
            position += KEYWORD_BLOCK;
        }
        Ok(false)
    }
}

/// In a match that is longer than this many bytes, groups are not looked for, and the whole match is the secret.
const LONG_MATCH_MAX: u64 = 1 << 24;
/// The number of bytes in which keywords are looked for at once.
const KEYWORD_BLOCK: u64 = 1 << 20;

/// Returns whether a match may begin in a range, as far as a piece of the text tells.
fn may_match(
    matcher: &crate::exact::matcher::Matcher,
    max_len: u64,
    text: &[u8],
    base: u64,
    ended: bool,
    range: StartRange,
) -> bool {
    let (end, margin) = (base + text.len() as u64, MARGIN as u64);
    let reaches = range.hi.saturating_add(max_len);
    let visible = range.lo >= base + if base == 0 { 0 } else { margin };
    if !visible || range.lo > end || (reaches + margin > end && !ended) {
        return true;
    }
    let to = (reaches.min(end) - base) as usize;
    match matcher.find(text, (range.lo - base) as usize, to) {
        Some((start, _)) => base + start as u64 <= range.hi,
        None => false,
    }
}
