//! A rule that can be searched for.

use std::sync::OnceLock;

use super::StartRange;
use super::incremental::IncrementalMatcher;
use super::matcher::{MARGIN, Matcher};

/// A rule that can be searched for: its expression, and where matches can begin.
#[derive(Debug)]
pub struct RuleSearch {
    /// The expression.
    pub matcher: Matcher,
    /// Where its matches begin.
    pub starts: MatchStarts,
    incremental: OnceLock<Result<IncrementalMatcher, String>>,
    in_blocks: bool,
}

/// The length of the longest match of rules that are searched for in blocks of text. A block is longer than a match, and
/// after each match another one is read.
const BLOCK_MATCH_MAX: u64 = 4096;

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
        let in_blocks = starts == MatchStarts::Everywhere
            && matcher.max_len().is_some_and(|max_len| max_len <= BLOCK_MATCH_MAX)
            && matcher.expression().hir().properties().minimum_len() > Some(0);
        RuleSearch { matcher, starts, incremental: OnceLock::new(), in_blocks }
    }

    /// Returns whether a rule without candidates is searched for in one block of text after the other, which is possible
    /// if its matches are short and not empty. Then the `regex` crate searches, which has several ways to do so. A search
    /// in pieces has only one automaton, which is slow for expressions such as `(.{1,1000}){1,3}`.
    pub(super) fn in_blocks(&self) -> bool {
        self.in_blocks
    }

    /// Returns the largest number of bytes of a match before the part of any branch; `None` if there is no limit or
    /// there are no branches.
    pub fn prefix_max(&self) -> Option<u64> {
        match self.starts {
            MatchStarts::Everywhere => None,
            MatchStarts::NearCandidates { prefix_max } => prefix_max,
        }
    }

    /// Returns the expression for searches in pieces.
    pub(super) fn incremental(&self) -> Result<&IncrementalMatcher, String> {
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
