//! Relaxing an expression: a simpler one that matches at least the same texts.

use regex_syntax::hir::{Hir, HirKind, Repetition};

/// The smallest number of repeats by which the bounds of a range differ.
const RANGE_MIN: u32 = 8;

/// How an expression is made simpler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Relaxation {
    /// The bounds of repeats that are above this one are removed.
    pub(super) bound_max: u32,
    /// The number of ranges, from the left, that keep their upper bounds. A range is a repeat like `x{2,30}`, whose
    /// bounds differ by at least 8.
    pub(super) ranges_kept: usize,
}

/// Removes look-arounds and groups, and bounds of repeats.
///
/// What is left matches every text that the expression matches, and maybe more, because each step alone only adds
/// texts: a look-around always holds, `x{5,9}` becomes `x{5,}` or `x{3,}`.
pub(super) fn relax(hir: &Hir, mut relaxation: Relaxation) -> Hir {
    relaxation.apply(hir)
}

impl Relaxation {
    /// Relaxes an expression. The ranges in it are taken off those to keep.
    fn apply(&mut self, hir: &Hir) -> Hir {
        match hir.kind() {
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
            HirKind::Look(_) => Hir::empty(),
            HirKind::Capture(capture) => self.apply(&capture.sub),
            HirKind::Concat(list) => Hir::concat(list.iter().map(|hir| self.apply(hir)).collect()),
            HirKind::Alternation(list) => Hir::alternation(list.iter().map(|hir| self.apply(hir)).collect()),
            HirKind::Repetition(repeat) => {
                let mut max = repeat.max.filter(|&max| max <= self.bound_max);
                if is_range(repeat) {
                    max = max.filter(|_| self.ranges_kept > 0);
                    self.ranges_kept = self.ranges_kept.saturating_sub(1);
                }
                let min = repeat.min.min(self.bound_max);
                let sub = Box::new(self.apply(&repeat.sub));
                Hir::repetition(Repetition { min, max, greedy: repeat.greedy, sub })
            }
        }
    }
}

fn is_range(repeat: &Repetition) -> bool {
    repeat.max.is_some_and(|max| max - repeat.min >= RANGE_MIN)
}

/// Returns the number of ranges in an expression.
pub(super) fn count_ranges(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 0,
        HirKind::Capture(capture) => count_ranges(&capture.sub),
        HirKind::Concat(list) | HirKind::Alternation(list) => list.iter().map(count_ranges).sum(),
        HirKind::Repetition(repeat) => usize::from(is_range(repeat)) + count_ranges(&repeat.sub),
    }
}

/// Returns the largest bound of a repeat in an expression, or 0 if there is none.
pub(super) fn largest_bound(hir: &Hir) -> u32 {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 0,
        HirKind::Capture(capture) => largest_bound(&capture.sub),
        HirKind::Concat(list) | HirKind::Alternation(list) => {
            list.iter().map(largest_bound).max().unwrap_or(0)
        }
        HirKind::Repetition(repeat) => {
            repeat.min.max(repeat.max.unwrap_or(0)).max(largest_bound(&repeat.sub))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relaxed(text: &str, bound_max: u32) -> String {
        let parsed = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text);
        relax(&parsed.unwrap(), Relaxation { bound_max, ranges_kept: usize::MAX }).to_string()
    }

    #[test]
    fn look_arounds_and_large_bounds_go() {
        let plain = |text: &str| relaxed(text, u32::MAX);
        assert_eq!(relaxed(r"\bab(c{2,9})$", 4), plain("abc{2,}"));
        assert_eq!(relaxed(r"a{7}b{3}", 4), plain("a{4,}b{3}"));
        assert_eq!(relaxed(r"(?:a{0,3}b){5,6}", 4), plain("(?:a{0,3}b){4,}"));
        assert_eq!(relaxed(r"a{7,}b?", 0), plain("a*b*"));
    }

    #[test]
    fn the_last_ranges_lose_their_upper_bounds() {
        let hir = regex_syntax::parse("ab{0,30}(?:c{2,20}d{40}|e{1,3})f{8}g{1,9}").unwrap();
        assert_eq!(count_ranges(&hir), 3);
        let kept = |ranges_kept| relax(&hir, Relaxation { bound_max: u32::MAX, ranges_kept }).to_string();
        assert_eq!(kept(3), relaxed("ab{0,30}(?:c{2,20}d{40}|e{1,3})f{8}g{1,9}", u32::MAX));
        assert_eq!(kept(2), relaxed("ab{0,30}(?:c{2,20}d{40}|e{1,3})f{8}g{1,}", u32::MAX));
        assert_eq!(kept(1), relaxed("ab{0,30}(?:c{2,}d{40}|e{1,3})f{8}g{1,}", u32::MAX));
        assert_eq!(kept(0), relaxed("ab{0,}(?:c{2,}d{40}|e{1,3})f{8}g{1,}", u32::MAX));
    }

    #[test]
    fn the_largest_bound_is_found() {
        let parse = |text| regex_syntax::parse(text).unwrap();
        assert_eq!(largest_bound(&parse("(?:a{2,30}|b{7,})x*")), 30);
        assert_eq!(largest_bound(&parse("(?:(a{40,})?)+")), 40);
        assert_eq!(largest_bound(&parse("ab*")), 0);
    }
}
