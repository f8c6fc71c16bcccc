//! How far the search for one rule has come in an input that comes piece by piece.

use std::collections::VecDeque;
use std::io;

use super::incremental::{IncrementalError, IncrementalMatcher, IncrementalSearch, SearchProgress};
use super::matcher::{MARGIN, Matcher};
use super::search::RuleSearch;
use super::source::TextSource;
use super::{StartRange, unite};

/// The largest number of starts that are decided by one search of a stretch of text.
const STARTS_MAX: u64 = 1 << 20;
/// The number of bytes that an incremental search reads at once: at first, and at most.
const BLOCK_MIN: u64 = 256;
const BLOCK_MAX: u64 = 1 << 16;
/// The largest number of bytes that are read at once for a rule that no automaton decides.
const WHOLE_MAX: u64 = 1 << 28;

/// What is known of one rule.
#[derive(Default)]
pub(super) struct RuleState {
    /// `find_iter` would go on from here.
    at: u64,
    /// Where matches may begin, sorted and united.
    ranges: VecDeque<StartRange>,
    /// Ranges that have been added since.
    added: Vec<StartRange>,
    search: Option<Box<IncrementalSearch>>,
    /// A search that has ended, whose memory the next one uses.
    ended_search: Option<Box<IncrementalSearch>>,
    last_end: Option<u64>,
    /// The matches in the rest of the text, the last one first, once they are known.
    rest: Option<Vec<(u64, u64)>>,
    outcome: RuleOutcome,
}

/// Why a rule gave up on an input, so that its findings may be incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveUpReason {
    /// A match may have begun in text that is no longer kept.
    #[error("a match may have begun before the bytes that are kept")]
    Forgotten,
    /// The expression has a Unicode word boundary and no longest match, and the text is not ASCII and too long to be
    /// searched as a whole.
    #[error("its Unicode word boundaries cannot be decided in an input of this size")]
    WordBoundary,
}

/// Whether a rule is still searched for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum RuleOutcome {
    #[default]
    Searching,
    /// No automaton decides it, so the rest of the text is searched at once when the input has ended.
    AtEnd,
    /// There is no further match.
    Done,
    /// It cannot be decided whether there is one.
    GaveUp(GiveUpReason),
}

/// What can be decided now.
#[derive(Clone, Copy)]
pub(super) struct StreamKnowledge {
    /// The candidates of all text before this position have arrived.
    pub(super) scanned: u64,
    /// The input has ended.
    pub(super) ended: bool,
}

impl StreamKnowledge {
    /// Returns the position up to which matches are decided. What follows is left for those who want to see more than
    /// the match.
    fn limit(self, source: &dyn TextSource) -> u64 {
        if self.ended { source.available().end } else { source.available().end.min(self.scanned) }
    }
}

impl RuleState {
    /// Adds a range in which matches may begin.
    pub(super) fn add_range(&mut self, range: StartRange) {
        self.added.push(range);
    }

    /// Returns whether nothing is known that a new state would not know.
    pub(super) fn is_unused(&self) -> bool {
        self.ranges.is_empty()
            && self.search.is_none()
            && self.at == 0
            && self.outcome == RuleOutcome::Searching
    }

    /// Returns the position from which text is still needed, if any is.
    pub(super) fn keep_from(&self) -> Option<u64> {
        match self.outcome {
            RuleOutcome::AtEnd => Some(self.at),
            RuleOutcome::Searching => {
                let range = self.ranges.front().map(|range| range.lo.max(self.at));
                let search = self.search.as_ref().map(|search| search.keep_from());
                range.into_iter().chain(search).min()
            }
            RuleOutcome::Done | RuleOutcome::GaveUp(_) => None,
        }
    }

    /// Returns why the rule gave up, if it did.
    pub(super) fn give_up_reason(&self) -> Option<GiveUpReason> {
        match self.outcome {
            RuleOutcome::GaveUp(reason) => Some(reason),
            _ => None,
        }
    }

    /// Takes in the ranges that have been added.
    pub(super) fn settle(&mut self) {
        if !self.added.is_empty() {
            self.added.extend(self.ranges.drain(..));
            unite(&mut self.added, 0);
            self.ranges.extend(self.added.drain(..));
        }
    }

    /// Returns the next match that can be decided.
    pub(super) fn next(
        &mut self,
        search: &RuleSearch,
        lead: u64,
        source: &mut dyn TextSource,
        known: StreamKnowledge,
    ) -> Result<Option<(u64, u64)>, io::Error> {
        match self.outcome {
            RuleOutcome::Searching => {}
            RuleOutcome::AtEnd if known.ended => return self.next_in_rest(&search.matcher, source),
            _ => return Ok(None),
        }
        if search.in_blocks() && self.ranges.is_empty() && self.at <= source.available().end {
            self.ranges.push_back(StartRange { lo: self.at, hi: u64::MAX });
        }
        let horizon = match search.prefix_max() {
            _ if known.ended || search.in_blocks() => u64::MAX,
            None => 0,
            Some(max) => known.scanned.saturating_sub(lead + max),
        };
        let found = match search.matcher.max_len() {
            Some(max_len) if !search.always() || search.in_blocks() => {
                self.next_bounded(&search.matcher, max_len, horizon, source, known)?
            }
            _ => match self.next_incremental(search, horizon, source, known) {
                Ok(found) => found,
                Err(IncrementalError::Io(error)) => return Err(error),
                Err(IncrementalError::CannotDecide) => {
                    (self.outcome, self.search) = (RuleOutcome::AtEnd, None);
                    return self.next(search, lead, source, known);
                }
                Err(IncrementalError::Forgotten) => {
                    self.outcome = RuleOutcome::GaveUp(GiveUpReason::Forgotten);
                    self.search = None;
                    None
                }
            },
        };
        if let Some((_, end)) = found {
            self.at = end;
            self.last_end = Some(end);
        }
        Ok(found)
    }

    /// Returns the next match in the rest of an input that has ended.
    fn next_in_rest(
        &mut self,
        matcher: &Matcher,
        source: &mut dyn TextSource,
    ) -> io::Result<Option<(u64, u64)>> {
        if self.rest.is_none() {
            let available = source.available();
            let base = self.at.saturating_sub(MARGIN as u64);
            if base < available.start || available.end - base > WHOLE_MAX {
                self.outcome = RuleOutcome::GaveUp(GiveUpReason::WordBoundary);
                return Ok(None);
            }
            let mut text = vec![];
            source.fetch(base..available.end, &mut text)?;
            let mut all = find_from(
                matcher,
                &text,
                (self.at - base) as usize,
                self.last_end.map(|end| (end - base) as usize),
            );
            all.reverse();
            self.rest =
                Some(all.into_iter().map(|(start, end)| (base + start as u64, base + end as u64)).collect());
        }
        Ok(self.rest.as_mut().and_then(Vec::pop))
    }

    /// Decides ranges of a rule whose matches have a greatest length.
    fn next_bounded(
        &mut self,
        matcher: &Matcher,
        max_len: u64,
        horizon: u64,
        source: &mut dyn TextSource,
        known: StreamKnowledge,
    ) -> io::Result<Option<(u64, u64)>> {
        let (margin, end) = (MARGIN as u64, source.available().end);
        let (mut text, mut starts) = (vec![], max_len.max(BLOCK_MIN));
        while let Some(&range) = self.ranges.front() {
            let from = self.at.max(range.lo);
            if from > range.hi || from > end {
                self.ranges.pop_front();
                continue;
            }
            let decidable = match known.ended {
                true => u64::MAX,
                false => horizon.min((known.limit(source) + 1).saturating_sub(max_len + margin)),
            };
            let Some(last) = decidable.checked_sub(1) else { return Ok(None) };
            let last = range.hi.min(last).min(from.saturating_add(starts));
            starts = (2 * starts).min(STARTS_MAX.max(max_len));
            if from > last {
                return Ok(None);
            }
            let base = from.saturating_sub(margin);
            if base < source.available().start {
                self.outcome = RuleOutcome::GaveUp(GiveUpReason::Forgotten);
                return Ok(None);
            }
            let to = last.saturating_add(max_len).min(end);
            source.fetch(base..to.saturating_add(margin).min(end), &mut text)?;
            let to = ((to - base) as usize).min(text.len());
            let local = ((from - base) as usize).min(to);
            match matcher.find(&text, local, to) {
                Some((start, stop)) if base + start as u64 <= last => {
                    return Ok(Some((base + start as u64, base + stop as u64)));
                }
                _ => self.at = last + 1,
            }
        }
        Ok(None)
    }

    /// Lets an incremental search read on.
    fn next_incremental(
        &mut self,
        search: &RuleSearch,
        horizon: u64,
        source: &mut dyn TextSource,
        known: StreamKnowledge,
    ) -> Result<Option<(u64, u64)>, IncrementalError> {
        let matcher = search.incremental().map_err(|_| IncrementalError::CannotDecide)?;
        let limit =
            if known.ended { source.available().end } else { source.available().end.min(known.scanned) };
        let (mut text, mut block) = (vec![], BLOCK_MIN);
        loop {
            if !search.always() {
                self.skip_idle();
            }
            if self.search.is_none() && !self.begin(search, matcher, horizon, source)? {
                return Ok(None);
            }
            let running = self.search.as_mut().expect("a search was begun");
            let progress = if running.position() < limit {
                source.fetch(running.position()..limit.min(running.position() + block), &mut text)?;
                block = (2 * block).min(BLOCK_MAX);
                if text.is_empty() { running.finish(matcher)? } else { running.read(matcher, &text)? }
            } else if known.ended {
                running.finish(matcher)?
            } else {
                return Ok(None);
            };
            match progress {
                SearchProgress::NeedsMore => {}
                SearchProgress::Nothing => {
                    self.outcome = RuleOutcome::Done;
                    return Ok(None);
                }
                SearchProgress::Ends(end) => {
                    let after = byte_at(source, end)?;
                    let start = running.find_start(matcher, end, after, source)?;
                    // Like `find_iter`, do not report an empty match at the end of the match before it.
                    let repeated = start == end && self.last_end == Some(end);
                    let next = if repeated { end + 1 } else { end };
                    if next > source.available().end {
                        self.outcome = RuleOutcome::Done;
                        return Ok(None);
                    }
                    let before = source.byte_before(next)?;
                    running.restart(next, before);
                    if !repeated {
                        return Ok(Some((start, end)));
                    }
                }
            }
        }
    }

    /// Ends a search that has no match under way and has passed the ranges that it was begun for.
    fn skip_idle(&mut self) {
        let Some(search) = &self.search else { return };
        if search.is_idle() {
            let position = search.position();
            self.ranges.retain(|range| range.hi >= position);
            if self.ranges.front().is_none_or(|range| range.lo > position) {
                self.at = self.at.max(position);
                self.ended_search = self.search.take();
            }
        }
    }

    /// Begins a search, if there is something to search for and nothing before it can still arrive.
    fn begin(
        &mut self,
        search: &RuleSearch,
        matcher: &IncrementalMatcher,
        horizon: u64,
        source: &mut dyn TextSource,
    ) -> Result<bool, IncrementalError> {
        self.ranges.retain(|range| range.hi >= self.at);
        let from = match self.ranges.front() {
            _ if search.always() => self.at,
            Some(range) => self.at.max(range.lo),
            None => return Ok(false),
        };
        if !search.always() && from >= horizon {
            return Ok(false);
        }
        if from > 0 && from <= source.available().start {
            return Err(IncrementalError::Forgotten);
        }
        let before = source.byte_before(from)?;
        self.search = Some(match self.ended_search.take() {
            Some(mut search) => {
                search.restart(from, before);
                search
            }
            None => Box::new(matcher.begin(from, before)),
        });
        Ok(true)
    }
}

/// Returns the matches of `find_iter` from a position on, where the match before it ended at `last_end`.
fn find_from(
    matcher: &Matcher,
    text: &[u8],
    mut at: usize,
    mut last_end: Option<usize>,
) -> Vec<(usize, usize)> {
    let mut all = vec![];
    while at <= text.len() {
        let Some((start, end)) = matcher.find(text, at, text.len()) else { break };
        if start == end && last_end == Some(end) {
            at += 1;
        } else {
            all.push((start, end));
            (at, last_end) = (end, Some(end));
        }
    }
    all
}

/// Returns the byte at a position, if there is one.
fn byte_at(source: &mut dyn TextSource, position: u64) -> io::Result<Option<u8>> {
    source.byte_before(position + 1)
}
