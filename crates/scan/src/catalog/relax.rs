//! Relaxing an expression: a simpler one that matches at least the same texts.

use regex_syntax::hir::{Hir, HirKind, Repetition};

/// Removes look-arounds and groups, and the bounds of repeats that are above `bound_max`.
///
/// What is left matches every text that the expression matches, and maybe more, because each step alone only adds
/// texts: a look-around always holds, `x{5,9}` becomes `x{5,}` or `x{3,}`.
pub(super) fn relax(hir: &Hir, bound_max: u32) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
        HirKind::Look(_) => Hir::empty(),
        HirKind::Capture(capture) => relax(&capture.sub, bound_max),
        HirKind::Concat(list) => Hir::concat(list.iter().map(|hir| relax(hir, bound_max)).collect()),
        HirKind::Alternation(list) => {
            Hir::alternation(list.iter().map(|hir| relax(hir, bound_max)).collect())
        }
        HirKind::Repetition(repeat) => Hir::repetition(Repetition {
            min: repeat.min.min(bound_max),
            max: repeat.max.filter(|&max| max <= bound_max),
            greedy: repeat.greedy,
            sub: Box::new(relax(&repeat.sub, bound_max)),
        }),
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
        relax(&parsed.unwrap(), bound_max).to_string()
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
    fn the_largest_bound_is_found() {
        let parse = |text| regex_syntax::parse(text).unwrap();
        assert_eq!(largest_bound(&parse("(?:a{2,30}|b{7,})x*")), 30);
        assert_eq!(largest_bound(&parse("(?:(a{40,})?)+")), 40);
        assert_eq!(largest_bound(&parse("ab*")), 0);
    }
}
