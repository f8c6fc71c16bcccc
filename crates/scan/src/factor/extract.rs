//! Chooses the factors of a rule.
//!
//! An expression is seen as a sequence of elements. A *run* is a stretch of consecutive elements that together have a
//! small [language](super::language): every match contains one of its strings, at a known distance from the beginning of
//! the run, which becomes the *part* of the branch. An alternation yields the branches of all its choices. Where an
//! element of the sequence is an alternation, the sequence can be split into one sequence per choice, if that gives rarer
//! literals.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use super::language::{Language, copies, language, product};
use super::weight::{literal_rate, run_rate};
use super::{ByteSet, Factor, FactorBranch, FactorLiteral, RuleFactors, Symbol};
use crate::expression::Expression;

/// The number of bytes that a literal is cut to: more make the automaton larger and hardly any literal rarer.
const LITERAL_LEN: usize = 12;
/// What one more literal costs, in candidates per MiB: it makes the automaton larger.
const LITERAL_COST: f64 = 0.2;
/// Sequences are split at alternations of at most this many choices.
const SPLIT_MAX: usize = 24;
/// The largest number of alternations at which one sequence is split.
const SPLIT_DEPTH: usize = 2;
/// If literals are expected more often than this per MiB, other choices are considered too.
const OFTEN: f64 = 5.0;
/// Literals are preferred to a run of a class unless they are expected more often than this per MiB. Literals of all
/// rules are found in one pass and most are then ruled out by a window, whereas every run has to be searched for and
/// leads to an exact search.
const LITERAL_RATE_MAX: f64 = 2000.0;
/// Even then, a run is chosen only if it is expected this many times less often than the literals.
const RUN_ADVANTAGE: f64 = 20.0;
/// A run of a class is searched for only if it is expected less often than this per MiB.
const RUN_RATE_MAX: f64 = 2000.0;
/// The shortest run of a class that is searched for.
const RUN_MIN: u32 = 8;
/// The largest number of branches of a rule.
const BRANCHES_MAX: usize = 256;

/// Branches together with the number of candidates that they are expected to yield per MiB.
struct Choice {
    branches: Vec<FactorBranch>,
    cost: f64,
}

/// Returns how matches of an expression are searched for.
pub fn extract_factors(expression: &Expression) -> RuleFactors {
    let hir = without_captures(&expression.hir());
    if hir.properties().minimum_len() == Some(0) {
        return RuleFactors::Always;
    }
    match choose(&hir, SPLIT_DEPTH) {
        Some(choice) if choice.branches.len() <= BRANCHES_MAX => RuleFactors::Branches(choice.branches),
        _ => RuleFactors::Always,
    }
}

/// Returns the expression without its groups, which do not change what it matches.
fn without_captures(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Capture(capture) => without_captures(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_captures).collect()),
        HirKind::Alternation(choices) => Hir::alternation(choices.iter().map(without_captures).collect()),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_captures(&repetition.sub)),
            ..repetition.clone()
        }),
        _ => hir.clone(),
    }
}

/// Chooses factors for an expression, or returns `None` if some of its matches contain none.
fn choose(hir: &Hir, depth: usize) -> Option<Choice> {
    if let HirKind::Alternation(choices) = hir.kind() {
        return choose_all(choices.iter().cloned(), depth);
    }
    let elements = flatten(hir);
    let literals = best_literals(&elements);
    if literals.as_ref().is_some_and(|choice| choice.cost <= OFTEN) {
        return literals;
    }
    // A split costs more branches, so it must be much better.
    let literals = match (literals, split(&elements, depth)) {
        (Some(literals), Some(split)) if split.cost >= literals.cost * 0.5 => Some(literals),
        (literals, split) => split.or(literals),
    };
    match (literals, best_class_run(&elements)) {
        (Some(literals), Some(run))
            if literals.cost <= LITERAL_RATE_MAX || run.cost * RUN_ADVANTAGE > literals.cost =>
        {
            Some(literals)
        }
        (literals, run) => run.or(literals),
    }
}

/// Chooses factors for each of several expressions.
fn choose_all(expressions: impl Iterator<Item = Hir>, depth: usize) -> Option<Choice> {
    let mut all = Choice { branches: vec![], cost: 0.0 };
    for expression in expressions {
        let choice = choose(&expression, depth)?;
        all.branches.extend(choice.branches);
        all.cost += choice.cost;
    }
    Some(all)
}

/// Returns the elements of a sequence. Of a repetition that must occur, the first occurrence is written out if it is
/// itself a sequence or an alternation, because there may be literals in it.
fn flatten(hir: &Hir) -> Vec<Hir> {
    match hir.kind() {
        HirKind::Empty => vec![],
        HirKind::Concat(parts) => parts.iter().flat_map(flatten).collect(),
        HirKind::Repetition(repetition)
            if repetition.min > 0
                && language(hir).is_none()
                && matches!(repetition.sub.kind(), HirKind::Concat(_) | HirKind::Alternation(_)) =>
        {
            let rest = Repetition {
                min: repetition.min - 1,
                max: repetition.max.map(|max| max - 1),
                ..repetition.clone()
            };
            let mut elements = flatten(&repetition.sub);
            elements.push(Hir::repetition(rest));
            elements
        }
        _ => vec![hir.clone()],
    }
}

/// Returns the branch whose part begins with the element `first`.
fn branch(elements: &[Hir], first: usize, factor: Factor) -> FactorBranch {
    let suffix = Hir::concat(elements[first..].to_vec());
    let prefix_max = elements[..first]
        .iter()
        .try_fold(0usize, |sum, element| sum.checked_add(element.properties().maximum_len()?));
    FactorBranch {
        factor,
        prefix_max: prefix_max.and_then(|max| u32::try_from(max).ok()),
        suffix_max: suffix.properties().maximum_len().and_then(|max| u32::try_from(max).ok()),
        suffix,
    }
}

/// Chooses the run whose literals are expected least often.
fn best_literals(elements: &[Hir]) -> Option<Choice> {
    let mut best: Option<(f64, usize, Vec<FactorLiteral>)> = None;
    for first in 0..elements.len() {
        let mut strings: Language = vec![vec![]];
        for element in &elements[first..] {
            let (more, goes_on) = match language(element) {
                Some(whole) => (product(&strings, &whole), true),
                None => (first_copies(element).and_then(|copies| product(&strings, &copies)), false),
            };
            let Some(more) = more else { break };
            strings = more;
            if strings.iter().all(|string| !string.is_empty()) {
                let literals = cut_literals(&strings);
                let cost = literals.iter().map(|literal| literal_rate(&literal.symbols) + LITERAL_COST).sum();
                if best.as_ref().is_none_or(|(lowest, ..)| cost < *lowest) {
                    best = Some((cost, first, literals));
                }
            }
            if !goes_on {
                break;
            }
        }
    }
    let (cost, first, literals) = best?;
    if literals.is_empty() {
        return Some(Choice { branches: vec![], cost }); // nothing ever matches
    }
    Some(Choice { branches: vec![branch(elements, first, Factor::Literals(literals))], cost })
}

/// Returns the language of the copies with which a repetition must begin.
fn first_copies(element: &Hir) -> Option<Language> {
    let HirKind::Repetition(repetition) = element.kind() else { return None };
    let once = language(&repetition.sub)?;
    // If not all copies fit, fewer do: a match begins with them too.
    (1..=repetition.min.min(LITERAL_LEN as u32)).rev().find_map(|count| copies(&once, count))
}

/// Cuts each string to its rarest stretch. A string that begins with another one is left out: wherever it is, the
/// shorter one is too, at the same distance.
fn cut_literals(strings: &Language) -> Vec<FactorLiteral> {
    let has_prefix =
        |string: &Vec<Symbol>| strings.iter().any(|other| other != string && string.starts_with(other));
    let mut literals: Vec<FactorLiteral> = strings
        .iter()
        .filter(|string| !has_prefix(string))
        .map(|string| {
            let len = string.len().min(LITERAL_LEN);
            let rate = |&at: &usize| literal_rate(&string[at..at + len]);
            let at =
                (0..=string.len() - len).min_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap_or(0);
            FactorLiteral { symbols: string[at..at + len].to_vec(), back: (at + len) as u32 }
        })
        .collect();
    literals.sort();
    literals.dedup();
    literals
}

/// Splits a sequence at one of its alternations.
fn split(elements: &[Hir], depth: usize) -> Option<Choice> {
    let depth = depth.checked_sub(1)?;
    let mut best: Option<Choice> = None;
    for (at, element) in elements.iter().enumerate() {
        let HirKind::Alternation(choices) = element.kind() else { continue };
        if choices.len() > SPLIT_MAX {
            continue;
        }
        let sequences = choices.iter().map(|choice| {
            Hir::concat([&elements[..at], std::slice::from_ref(choice), &elements[at + 1..]].concat())
        });
        let Some(choice) = choose_all(sequences, depth) else { continue };
        if best.as_ref().is_none_or(|best| choice.cost < best.cost) {
            best = Some(choice);
        }
    }
    best
}

/// Chooses the run of a class that is expected least often.
fn best_class_run(elements: &[Hir]) -> Option<Choice> {
    let runs = elements.iter().enumerate().filter_map(|(first, element)| {
        let HirKind::Repetition(repetition) = element.kind() else { return None };
        let HirKind::Class(class) = repetition.sub.kind() else { return None };
        let (class, length) = (byte_set(class)?, repetition.min);
        let cost = run_rate(&class, length);
        (length >= RUN_MIN && cost < RUN_RATE_MAX).then(|| Choice {
            branches: vec![branch(elements, first, Factor::ClassRun { class, length })],
            cost,
        })
    });
    runs.min_by(|one, other| one.cost.total_cmp(&other.cost))
}

/// Returns the bytes of a class, or `None` if it has characters of more than one byte.
fn byte_set(class: &Class) -> Option<ByteSet> {
    let mut set = ByteSet::default();
    match class {
        Class::Bytes(class) => {
            class.iter().flat_map(|range| range.start()..=range.end()).for_each(|byte| set.insert(byte));
        }
        Class::Unicode(class) => {
            for range in class.iter() {
                let end = u8::try_from(range.end()).ok().filter(u8::is_ascii)?;
                (range.start() as u8..=end).for_each(|byte| set.insert(byte));
            }
        }
    }
    Some(set)
}

impl FactorLiteral {
    /// Returns the literal in lower case.
    pub fn folded(&self) -> Vec<u8> {
        self.symbols.iter().copied().map(Symbol::folded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(text: &str) -> RuleFactors {
        extract_factors(&Expression::parse(text).unwrap())
    }

    /// Shows the literals of each branch with their distance, and the limits before and after.
    fn shown(text: &str) -> Vec<String> {
        let RuleFactors::Branches(branches) = factors(text) else { return vec!["always".into()] };
        let branch = |branch: &FactorBranch| {
            let factor = match &branch.factor {
                Factor::ClassRun { class, length } => format!("{length} of {} bytes", class.len()),
                Factor::Literals(literals) => literals
                    .iter()
                    .map(|literal| format!("{}@{}", String::from_utf8_lossy(&literal.folded()), literal.back))
                    .collect::<Vec<_>>()
                    .join(" "),
            };
            format!("{factor} {:?} {:?}", branch.prefix_max, branch.suffix_max)
        };
        branches.iter().map(branch).collect()
    }

    #[test]
    fn prefixes_of_tokens_are_factors() {
        assert_eq!(shown("ghp_[0-9a-zA-Z]{36}"), ["ghp_@4 Some(0) Some(40)"]);
        assert_eq!(shown(r"\bgh[pu]_\w{36,}"), ["ghp_@4 ghu_@4 Some(0) None"]);
    }

    #[test]
    fn the_rarest_part_counts() {
        assert_eq!(shown("(?i)the[a-z]{0,50}?(?:zyxw)[ =]{1,9}x"), ["zyxw@4 Some(53) Some(14)"]);
        assert_eq!(shown("(?:a|e)qqqqzzzzjjjjvvvv").len(), 1);
    }

    #[test]
    fn alternations_yield_a_branch_each() {
        assert_eq!(shown("qzj[a-z]+|[a-z]+vwx"), ["qzj@3 Some(0) None", "vwx@3 None Some(3)"]);
        assert_eq!(shown("(?:qzj[a-z]+|[a-z]+vwx);"), ["qzj@3 Some(0) None", "vwx;@4 None Some(4)"]);
    }

    #[test]
    fn runs_of_a_class_are_a_last_resort() {
        assert_eq!(shown("[a-f0-9]{40}"), ["40 of 16 bytes Some(0) Some(40)"]);
        assert_eq!(shown(r"[a-z]+@?\d{12}"), ["12 of 10 bytes None Some(12)"]);
    }

    #[test]
    fn literals_are_preferred_to_runs_that_seem_rarer() {
        assert_eq!(shown(r"\b((?:AKIA|ASIA)[A-Z2-7]{16})\b"), ["akia@4 asia@4 Some(0) Some(20)"]);
        assert_eq!(shown("e[0-9a-f]{32}"), ["32 of 16 bytes Some(1) Some(32)"]);
    }

    #[test]
    fn what_has_no_factor_is_searched_everywhere() {
        for text in ["a*", "", r"\w+", "(?:abc)?", "[a-z]{3}", "^$", "qzj|[a-z]"] {
            assert_eq!(factors(text), RuleFactors::Always, "{text}");
        }
    }

    #[test]
    fn what_cannot_match_has_no_branch() {
        assert_eq!(factors(r"a[^\s\S]"), RuleFactors::Branches(vec![]));
    }

    #[test]
    fn repetitions_are_looked_into() {
        assert_eq!(shown("(?:qzj[0-9]+,){2,}"), ["qzj@3 Some(0) None"]);
        assert_eq!(shown("[0-9]+(?:qz){2,5}"), ["qzqz@4 None Some(10)"]);
    }
}
