//! The exact stage: from candidates to matches.
//!
//! A candidate says that the part of a branch begins at some position. A match with this part begins at most `prefix_max`
//! bytes earlier, so candidates become [ranges of starts](StartRange): every match of the rule begins in one of them, and
//! no other position has to be tried.
//!
//! It would be wrong to search slices around the candidates. Which match is found depends on where the search begins,
//! because matches do not overlap: with the expression `aba` and the text `ababa`, a search around the second candidate
//! finds a match that `find_iter` does not find. So for each rule the ranges, from `lo` to `hi`, are processed in order,
//! and `at` is the position from which `find_iter` would continue:
//!
//! - A search always begins at `max(at, lo)`, and `at` is then the end of what it found. No match can begin between `at`
//!   and `lo`, so nothing is skipped that `find_iter` would have found.
//! - The text around the searched range stays visible, so that look-arounds see what they would see in the whole input.
//! - If no match of the rule is longer than L, a search for starts up to `hi` may end at `hi + L`: any match that begins
//!   by then has ended too. A match that begins later may have been cut off and does not count.
//! - If matches have no greatest length, no finite stretch of text proves that a match is complete: `a(?:.*b)?` finds
//!   `a`, until a `b` follows. If the whole input is there ([`whole`]), it is searched to its end. Otherwise an automaton
//!   reads the text as it comes ([`incremental`]) until it knows that nothing can be added.
//!
//! [`stream`] does this for inputs that are not in memory as a whole.

pub mod incremental;
pub mod matcher;
mod rule_state;
pub mod search;
pub mod source;
pub mod stream;
pub mod whole;

pub use rule_state::GiveUpReason;

use crate::catalog::BranchInfo;

/// A range of positions at which matches of a rule may begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StartRange {
    /// The first position.
    pub lo: u64,
    /// The last position.
    pub hi: u64,
}

impl StartRange {
    /// Returns where matches may begin if the part of a branch begins between `first` and `last`.
    pub fn of_part(branch: &BranchInfo, first: u64, last: u64) -> StartRange {
        let lo = branch.prefix_max.map_or(0, |max| first.saturating_sub(max.into()));
        StartRange { lo, hi: last }
    }
}

/// Sorts ranges, and unites those between which there are at most `gap` positions.
pub fn unite(ranges: &mut Vec<StartRange>, gap: u64) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let near = next.lo <= before.hi.saturating_add(gap);
        if near {
            before.hi = before.hi.max(next.hi);
        }
        near
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lo: u64, hi: u64) -> StartRange {
        StartRange { lo, hi }
    }

    #[test]
    fn the_prefix_widens_a_range() {
        let branch = |prefix_max| BranchInfo { rule: 0, prefix_max, suffix_max: None };
        assert_eq!(StartRange::of_part(&branch(Some(5)), 20, 22), range(15, 22));
        assert_eq!(StartRange::of_part(&branch(Some(5)), 3, 3), range(0, 3));
        assert_eq!(StartRange::of_part(&branch(None), 20, 20), range(0, 20));
    }

    #[test]
    fn ranges_that_are_near_are_united() {
        let mut ranges = vec![range(50, 60), range(0, 9), range(12, 14), range(2, 3)];
        unite(&mut ranges, 3);
        assert_eq!(ranges, [range(0, 14), range(50, 60)]);
    }
}
