//! Tests of the native engine against a search that tries every position.

use std::ops::Range;
use std::sync::Arc;

use super::NativeEngine;
use super::class_run::group_runs;
use super::oracle::{FragmentRandom, find_naively, literal, literal_rule, normalize, run_rule};
use crate::candidate::Candidate;
use crate::catalog::Catalog;
use crate::factor::RuleFactors;

fn rules() -> Vec<RuleFactors> {
    vec![
        literal_rule(&[literal("he", 0), literal("she", 0)], r"s?he\d{2,4}x"),
        RuleFactors::Always,
        literal_rule(&[literal("~h~i~s", 0)], r"(?i)his\b[a-z]*="),
        literal_rule(&[literal("hers", 3)], r"[a-z]{3}hers(?:ab|[a-c]{3,20}z)"),
        literal_rule(&[literal("s", 0)], "s"),
        literal_rule(&[literal("abcdefghijklmnop", 40)], r"(?s).{40}abcdefghijklmnop"),
        literal_rule(&[literal("abcdefghijklmnop", 0)], "abcdefghijklmnop"),
        literal_rule(&[literal("cdefgh", 0), literal("~c~d~e", 0)], r"(?i)cde(?:fgh)?"),
        run_rule("0123456789abcdef", 5),
        run_rule("x", 1),
        run_rule("abcdefghijklmnopx", 40),
    ]
}

const FRAGMENTS: [&str; 12] = [
    "he",
    "she",
    "his",
    "hers",
    "12",
    "345x",
    "abc",
    "abcdefghijklmnop",
    "xxxxxxxxxxxxxxxxxxxxxxxxx",
    "cde",
    "fgh",
    "=",
];

fn engine(rules: &[RuleFactors]) -> NativeEngine {
    NativeEngine::new(Arc::new(Catalog::build(rules).unwrap()))
}

fn find(engine: &NativeEngine, text: &[u8], own: Range<usize>) -> Vec<Candidate> {
    let mut out = Vec::new();
    engine.find(text, own, &mut out);
    normalize(out)
}

#[test]
fn the_engine_finds_what_trying_every_position_finds() {
    let rules = rules();
    let engine = engine(&rules);
    let mut random = FragmentRandom(1);
    let mut total = 0;
    for round in 0..600 {
        let len = random.below(1 + round);
        let text = random.text(&FRAGMENTS, len);
        let start = random.below(len + 1);
        for own in [0..len, start..start + random.below(len - start + 1)] {
            let expected = normalize(find_naively(&rules, engine.catalog(), &text, own.clone()));
            total += expected.len();
            assert_eq!(find(&engine, &text, own.clone()), expected, "{own:?} of {:?}", text.escape_ascii());
        }
    }
    assert!(total > 10_000, "the texts contain candidates");
}

#[test]
fn the_engine_takes_every_own_range_of_a_short_text() {
    let rules = rules();
    let engine = engine(&rules);
    let mut random = FragmentRandom(2);
    for len in [0, 1, 2, 3, 15, 16, 17, 33, 64] {
        let text = random.text(&FRAGMENTS, len);
        for start in 0..=len {
            for end in start..=len {
                let expected = normalize(find_naively(&rules, engine.catalog(), &text, start..end));
                assert_eq!(
                    find(&engine, &text, start..end),
                    expected,
                    "{start}..{end} of {:?}",
                    text.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn the_engine_reads_texts_that_need_all_streams_and_several_blocks() {
    let rules = rules();
    let engine = engine(&rules);
    let mut random = FragmentRandom(4);
    for len in [383, 384, 385, 1000, 5003, 300_000] {
        let text = random.text(&FRAGMENTS, len);
        let start = random.below(20);
        let expected = normalize(find_naively(&rules, engine.catalog(), &text, start..len));
        assert!(find(&engine, &text, start..len) == expected, "{start}..{len}");
    }
}

/// Runs are searched in two ways, of which a processor uses the faster one that it can; here both are used.
#[test]
fn runs_are_found_in_either_way() {
    let classes = ["0123456789", "abcdefx", "abcdefghijklmnopqrstuvwxyz ", "x", "ehs", "\0\x7f=~X"];
    let rules: Vec<RuleFactors> =
        (1..140).map(|length| run_rule(classes[length as usize % classes.len()], length)).collect();
    let engine = engine(&rules);
    let groups = group_runs(engine.catalog().class_runs());
    let fragments = [&FRAGMENTS[..], &["==~", "~=", "xxxxxxxxxxxxxxxxxxxx", "\u{f8}", "\0\0\x7f"]].concat();
    let mut random = FragmentRandom(6);
    for _ in 0..60 {
        let len = 1 + random.below(700);
        let text = random.text(&fragments, len);
        let start = random.below(len);
        let expected = normalize(find_naively(&rules, engine.catalog(), &text, start..len));
        assert!(find(&engine, &text, start..len) == expected, "{start}.. of {:?}", text.escape_ascii());
        let mut out = Vec::new();
        groups.iter().for_each(|group| group.find(&text, start..len, &mut out));
        assert!(normalize(out) == expected, "{start}.. of {:?}", text.escape_ascii());
    }
}

/// A cut has no effect on candidates, except that one whose window reaches past the end of its piece may be added.
#[test]
fn pieces_give_the_candidates_of_the_whole() {
    let rules = rules();
    let engine = engine(&rules);
    let (lead, tail) = (engine.catalog().lead(), engine.catalog().tail());
    let mut random = FragmentRandom(3);
    for round in 0..200 {
        let len = 1 + random.below(800);
        let text = random.text(&FRAGMENTS, len);
        let whole = find(&engine, &text, 0..len);
        let step = 1 + random.below(1 + round);
        let tail = if round % 2 == 0 { tail } else { random.below(tail) };
        let mut pieces = Vec::new();
        for start in (0..len).step_by(step) {
            let end = (start + step).min(len);
            let from = start.saturating_sub(lead);
            let to = (end + tail).min(len);
            let mut found = Vec::new();
            engine.find(&text[from..to], start - from..end - from, &mut found);
            let moved = |candidate: &Candidate| Candidate {
                first: candidate.first + from as u32,
                last: candidate.last + from as u32,
                branch: candidate.branch,
            };
            pieces.extend(found.iter().map(moved));
        }
        let pieces = normalize(pieces);
        if round % 2 == 0 {
            assert_eq!(pieces, whole, "step {step} of {:?}", text.escape_ascii());
        } else {
            assert!(whole.iter().all(|candidate| pieces.binary_search(candidate).is_ok()));
        }
    }
}
