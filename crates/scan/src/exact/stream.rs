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

use std::collections::BTreeMap;
use std::io;

use super::StartRange;
use super::matcher::MARGIN;
use super::rule_state::{GiveUpReason, RuleState, StreamKnowledge};
use super::search::RuleSearch;
use super::source::TextSource;
use crate::finding::Match;

/// Finds the matches of many rules in one input that arrives in pieces.
pub struct StreamMatches<'s> {
    searches: &'s [Option<RuleSearch>],
    lead: u64,
    states: BTreeMap<u32, RuleState>,
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
            self.states.entry(rule).or_default().add_range(range);
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
            self.states.retain(|_, state| !state.is_unused());
        }
        Ok(())
    }

    /// Returns the position from which text is still needed, if the text before `scanned` has been scanned.
    pub fn keep_from(&self, scanned: u64) -> u64 {
        let prefix = self.searches.iter().flatten().filter_map(RuleSearch::prefix_max).max().unwrap_or(0);
        let future = scanned.saturating_sub(self.lead + prefix);
        let keep = self.states.values().filter_map(RuleState::keep_from).fold(future, u64::min);
        keep.saturating_sub(MARGIN as u64)
    }

    /// Returns the rules that had to give up, with the reasons.
    pub fn gave_up(&self) -> Vec<(u32, GiveUpReason)> {
        self.states.iter().filter_map(|(&rule, state)| Some((rule, state.give_up_reason()?))).collect()
    }
}
