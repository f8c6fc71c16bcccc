//! Matches in a text that is in memory as a whole.

use super::matcher::Matcher;
use super::{StartRange, unite};

/// Calls `found` with the start and the end of every match that begins in one of the ranges, in order. If every match
/// of the rule begins in one of them, these are the matches of `find_iter`.
///
/// The ranges are sorted and united. The rule must not match the empty string.
pub fn find_in_ranges(
    matcher: &Matcher,
    text: &[u8],
    ranges: &mut Vec<StartRange>,
    mut found: impl FnMut(usize, usize),
) {
    unite(ranges, matcher.max_len().unwrap_or(0));
    let mut at = 0;
    for range in ranges.iter() {
        let last_start = (range.hi as usize).min(text.len());
        at = at.max(range.lo as usize);
        while at <= last_start {
            let to = matcher
                .max_len()
                .map_or(text.len(), |max| text.len().min(last_start.saturating_add(max as usize)));
            match matcher.find(text, at, to) {
                // Without a greatest length the search went to the end of the text, so what it found counts even
                // if it begins after the range.
                Some((start, end)) if start <= last_start || matcher.max_len().is_none() => {
                    found(start, end);
                    at = end;
                }
                None if matcher.max_len().is_none() => return,
                _ => break,
            }
        }
    }
}

/// Calls `found` with the start and the end of every match, in order.
pub fn find_everywhere(matcher: &Matcher, text: &[u8], mut found: impl FnMut(usize, usize)) {
    for matched in matcher.regex().find_iter(text) {
        found(matched.start(), matched.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;

    fn find(expression: &str, text: &str, ranges: &[(u64, u64)]) -> Vec<(usize, usize)> {
        let matcher = Matcher::compile(Expression::parse(expression).unwrap()).unwrap();
        let mut ranges = ranges.iter().map(|&(lo, hi)| StartRange { lo, hi }).collect();
        let mut all = vec![];
        find_in_ranges(&matcher, text.as_bytes(), &mut ranges, |start, end| all.push((start, end)));
        all
    }

    #[test]
    fn matches_do_not_overlap() {
        assert_eq!(find("aba", "ababa", &[(0, 0), (2, 2)]), [(0, 3)]);
        assert_eq!(find("aba", "ababa", &[(2, 2)]), [(2, 5)]);
    }

    #[test]
    fn look_arounds_see_beyond_the_range() {
        assert_eq!(find(r"\bab\b", "xab ab abx", &[(1, 1), (4, 4), (7, 7)]), [(4, 6)]);
        assert_eq!(find(r"ab$", "ab ab", &[(0, 0), (3, 3)]), [(3, 5)]);
    }

    #[test]
    fn a_match_that_begins_after_the_range_may_be_cut_off() {
        assert_eq!(find("ab{1,3}", "xxabbb", &[(0, 1)]), []);
        assert_eq!(find("ab{1,3}", "xxabbb", &[(0, 2)]), [(2, 6)]);
    }

    #[test]
    fn matches_without_a_greatest_length_go_to_the_end() {
        assert_eq!(find("(?s)a(?:.*b)?", "a......b.a", &[(0, 0), (9, 9)]), [(0, 8), (9, 10)]);
    }
}
