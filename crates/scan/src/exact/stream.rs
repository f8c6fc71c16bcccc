//! Matches in an input that comes piece by piece.
//!
//! Candidates arrive piece by piece, and a match is reported as soon as nothing that follows can change it. If the matches
//! of a rule have a greatest length, a stretch of text of that length suffices for this decision. For any other rule, an
//! [incremental search](super::incremental) runs from the start of a range until no match is under way. If a rule is
//! searched for everywhere, or its matches can have arbitrarily many bytes before the part, its search runs all the time.
//!
//! The search in a range begins only when no later candidate can lie before the range. The candidates of later pieces lie
//! at most the lead of the catalog before the end of what was scanned, and their matches begin up to `prefix_max` bytes
//! earlier.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::OnceLock;

use super::incremental::{IncrementalError, IncrementalMatcher, IncrementalSearch, SearchProgress};
use super::matcher::{MARGIN, Matcher};
use super::source::TextSource;
use super::{StartRange, unite};
use crate::finding::Match;

/// The largest number of starts that are decided by one search of a stretch of text.
const STARTS_MAX: u64 = 1 << 20;
/// The number of bytes that an incremental search reads at once: at first, and at most.
const BLOCK_MIN: u64 = 256;
const BLOCK_MAX: u64 = 1 << 16;
/// The largest number of bytes that are read at once for a rule that no automaton decides.
const WHOLE_MAX: u64 = 1 << 28;

/// A rule that can be searched for: its expression, and where matches can begin.
#[derive(Debug)]
pub struct RuleSearch {
    /// The expression.
    pub matcher: Matcher,
    /// Where its matches begin.
    pub starts: MatchStarts,
    incremental: OnceLock<Result<IncrementalMatcher, String>>,
}

/// Where matches of a rule can begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchStarts {
    /// Anywhere: the rule has no candidates.
    Everywhere,
    /// Near candidates.
    NearCandidates {
        /// The largest number of bytes of a match before the part of any branch; `None` if there is no limit.
        prefix_max: Option<u64>,
    },
}

impl RuleSearch {
    /// Makes a search of a rule.
    pub fn new(matcher: Matcher, starts: MatchStarts) -> RuleSearch {
        RuleSearch { matcher, starts, incremental: OnceLock::new() }
    }

    /// Returns the largest number of bytes of a match before the part of any branch; `None` if there is no limit or
    /// there are no branches.
    pub fn prefix_max(&self) -> Option<u64> {
        match self.starts {
            MatchStarts::Everywhere => None,
            MatchStarts::NearCandidates { prefix_max } => prefix_max,
        }
    }

    fn incremental(&self) -> Result<&IncrementalMatcher, String> {
        let built = self.incremental.get_or_init(|| IncrementalMatcher::new(self.matcher.expression()));
        built.as_ref().map_err(String::clone)
    }

    /// Removes ranges in which no match begins, as far as a piece of the text that begins at `base` shows. This is for
    /// rules without a longest match.
    pub(crate) fn retain_possible(&self, text: &[u8], base: u64, ranges: &mut Vec<StartRange>) {
        let Ok(matcher) = self.incremental() else { return };
        if self.always() || !matcher.can_forget() {
            return;
        }
        let mut search = matcher.begin(0, None);
        ranges.retain(|range| {
            let first_visible = if base == 0 { 0 } else { base + MARGIN as u64 };
            range.lo < first_visible || search.may_match_in(matcher, text, base, *range)
        });
    }

    /// Returns whether the rule is searched for in the whole stream, whether or not there are candidates.
    pub fn always(&self) -> bool {
        self.prefix_max().is_none()
    }
}

/// Finds the matches of many rules in one input that arrives in pieces.
pub struct StreamMatches<'s> {
    searches: &'s [Option<RuleSearch>],
    lead: u64,
    states: BTreeMap<u32, RuleState>,
}

/// What is known of one rule.
#[derive(Default)]
struct RuleState {
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
struct StreamKnowledge {
    /// The candidates of all text before this position have arrived.
    scanned: u64,
    /// The input has ended.
    ended: bool,
}

impl StreamKnowledge {
    /// Returns the position up to which matches are decided. What follows is left for those who want to see more than
    /// the match.
    fn limit(self, source: &dyn TextSource) -> u64 {
        if self.ended { source.available().end } else { source.available().end.min(self.scanned) }
    }
}

impl<'s> StreamMatches<'s> {
    /// Begins an input. `lead` is that of the catalog. Entries are `None` for rules that have no expression, and may be
    /// `None` for rules that do not apply to the input.
    pub fn new(
        searches: &'s [Option<RuleSearch>],
        lead: u64,
        applies: impl Fn(u32) -> bool,
    ) -> StreamMatches<'s> {
        let always = (0..searches.len() as u32).filter(|&rule| {
            searches[rule as usize].as_ref().is_some_and(RuleSearch::always) && applies(rule)
        });
        StreamMatches { searches, lead, states: always.map(|rule| (rule, RuleState::default())).collect() }
    }

    /// Adds a range in which matches of a rule may begin.
    pub fn add(&mut self, rule: u32, range: StartRange) {
        if self.searches[rule as usize].as_ref().is_some_and(|search| !search.always()) {
            self.states.entry(rule).or_default().added.push(range);
        }
    }

    /// Decides what can be decided: all candidates of the text before `scanned` have been added, and if the input has
    /// `ended`, `source` has all of it. Calls `found` with each match.
    pub fn advance<E: From<io::Error>>(
        &mut self,
        source: &mut dyn TextSource,
        scanned: u64,
        ended: bool,
        found: &mut dyn FnMut(Match, &mut dyn TextSource) -> Result<(), E>,
    ) -> Result<(), E> {
        let known = StreamKnowledge { scanned, ended };
        for (&rule, state) in &mut self.states {
            let Some(search) = &self.searches[rule as usize] else { continue };
            state.settle();
            while let Some((start, end)) = state.next(search, self.lead, source, known)? {
                found(Match { rule, start, end }, source)?;
            }
        }
        if !ended {
            self.states.retain(|_, state| {
                !(state.ranges.is_empty()
                    && state.search.is_none()
                    && state.at == 0
                    && state.outcome == RuleOutcome::Searching)
            });
        }
        Ok(())
    }

    /// Returns the position from which text is still needed, if the text before `scanned` has been scanned.
    pub fn keep_from(&self, scanned: u64) -> u64 {
        let prefix = self.searches.iter().flatten().filter_map(RuleSearch::prefix_max).max().unwrap_or(0);
        let mut keep = scanned.saturating_sub(self.lead + prefix);
        let undecided =
            |state: &&RuleState| matches!(state.outcome, RuleOutcome::Searching | RuleOutcome::AtEnd);
        for state in self.states.values().filter(undecided) {
            if state.outcome == RuleOutcome::AtEnd {
                keep = keep.min(state.at);
            }
            let ranges = state.ranges.iter().map(|range| range.lo.max(state.at)).min();
            let search = state.search.as_ref().map(|search| search.keep_from());
            keep = ranges.into_iter().chain(search).fold(keep, u64::min);
        }
        keep.saturating_sub(MARGIN as u64)
    }

    /// Returns the rules that had to give up, with the reasons.
    pub fn gave_up(&self) -> Vec<(u32, GiveUpReason)> {
        let reason = |(&rule, state): (&u32, &RuleState)| match &state.outcome {
            RuleOutcome::GaveUp(reason) => Some((rule, *reason)),
            _ => None,
        };
        self.states.iter().filter_map(reason).collect()
    }
}

impl RuleState {
    /// Takes in the ranges that have been added.
    fn settle(&mut self) {
        if !self.added.is_empty() {
            self.added.extend(self.ranges.drain(..));
            unite(&mut self.added, 0);
            self.ranges.extend(self.added.drain(..));
        }
    }

    /// Returns the next match that can be decided.
    fn next(
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
        let horizon = match search.prefix_max() {
            _ if known.ended => u64::MAX,
            None => 0,
            Some(max) => known.scanned.saturating_sub(lead + max),
        };
        let found = match search.matcher.max_len() {
            Some(max_len) if !search.always() => {
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
        let mut text = vec![];
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
            let last = range.hi.min(last).min(from.saturating_add(STARTS_MAX));
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
