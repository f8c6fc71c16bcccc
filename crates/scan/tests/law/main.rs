//! The law: findings are those of `find_iter` of the `regex` crate, however the input is cut and whoever finds the
//! candidates. Mistakes that such scanners are known to make are planted, and the law must find them.

mod generate;
mod naive;
mod rules;
mod sample;

use std::fs::File;
use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use pelton_scan::engine::{CandidateEngine, NativeEngine};
use pelton_scan::exact::StartRange;
use pelton_scan::finding::Match;
use pelton_scan::rule::RuleSet;
use pelton_scan::scanner::StreamOptions;
use pelton_scan::{Expression, Scanner};

use naive::{Flaw, NaiveEngine};
use pelton_scan::sample_rules::SampleRandom;
use sample::sampled_text;

/// What a match is compared by.
type Found = (u32, u64, u64);

/// Returns the set of rules of some expressions.
fn rule_set(expressions: &[&str]) -> RuleSet {
    let rule = |(number, text): (usize, &&str)| {
        pelton_scan::rules::from_expression(&format!("r{number}"), text).unwrap()
    };
    RuleSet { rules: expressions.iter().enumerate().map(rule).collect(), ..RuleSet::default() }
}

/// Returns what the `regex` crate finds.
fn oracle(scanner: &Scanner, text: &[u8]) -> Vec<Found> {
    let mut all = vec![];
    for (number, rule) in (0..).zip(&scanner.rules().rules) {
        let expression = rule.expression.as_ref().unwrap();
        let regex =
            regex::bytes::RegexBuilder::new(expression.text()).unicode(expression.unicode()).build().unwrap();
        all.extend(regex.find_iter(text).map(|found| (number, found.start() as u64, found.end() as u64)));
    }
    all.sort_unstable();
    all
}

fn found(matched: Match) -> Found {
    (matched.rule, matched.start, matched.end)
}

/// Scans a text that is in memory.
fn scan_whole(scanner: &Scanner, text: &[u8]) -> Vec<Found> {
    let findings = scanner.scan_bytes(Path::new("text"), text).unwrap();
    let mut all: Vec<Found> = findings.iter().map(|finding| found(finding.found)).collect();
    all.sort_unstable();
    all
}

/// Scans a text as a stream.
fn scan_stream(scanner: &Scanner, text: &[u8]) -> Vec<Found> {
    let mut all = vec![];
    let options = StreamOptions { threads: 1, retain: 1 << 30, ..StreamOptions::default() };
    let report = scanner
        .scan_reader(Path::new("text"), &mut Cursor::new(text), options, &mut |finding| {
            all.push(found(finding.found));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.gave_up, []);
    assert_eq!(report.bytes, text.len() as u64);
    all.sort_unstable();
    all
}

/// Scans a text as a file.
fn scan_file(scanner: &Scanner, text: &[u8], threads: usize) -> Vec<Found> {
    let path = std::env::temp_dir().join(format!(
        "pelton-law-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    File::create(&path).unwrap().write_all(text).unwrap();
    let mut all = vec![];
    let options = StreamOptions { threads, ..StreamOptions::default() };
    let report = scanner
        .scan_file(Path::new("text"), &File::open(&path).unwrap(), options, &mut |finding| {
            all.push(found(finding.found));
            ControlFlow::Continue(())
        })
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(report.gave_up, []);
    all.sort_unstable();
    all
}

/// A scanner of some expressions, with an engine of the given flaw and length of pieces; `None` is the native engine.
fn scanner(expressions: &[&str], flaw: Option<Flaw>, piece_len: usize) -> Scanner {
    let scanner = Scanner::new(rule_set(expressions)).unwrap();
    assert_eq!(scanner.rules().rejected, []);
    let catalog = Arc::clone(scanner.catalog());
    let engine: Box<dyn CandidateEngine> = match flaw {
        Some(flaw) => Box::new(NaiveEngine { catalog, flaw, piece_len }),
        None => Box::new(PiecesOf { engine: NativeEngine::new(catalog), piece_len }),
    };
    scanner.with_engine(engine)
}

/// An engine that wants pieces of some length.
struct PiecesOf {
    engine: NativeEngine,
    piece_len: usize,
}

impl CandidateEngine for PiecesOf {
    fn describe(&self) -> String {
        self.engine.describe()
    }
    fn piece_len(&self) -> usize {
        self.piece_len
    }
    fn arena(&self, len: usize) -> Result<Box<dyn pelton_scan::engine::TextArena>, pelton_scan::ScanError> {
        self.engine.arena(len)
    }
    fn candidates(
        &self,
        arena: &dyn pelton_scan::engine::TextArena,
        len: usize,
        own: std::ops::Range<usize>,
        out: &mut Vec<pelton_scan::Candidate>,
    ) -> Result<(), pelton_scan::ScanError> {
        self.engine.candidates(arena, len, own, out)
    }
}

fn expressions(texts: &[&str]) -> Vec<Expression> {
    texts.iter().map(|text| Expression::parse(text).unwrap()).collect()
}

fn texts_of(rules: &[&str], seed: u64, count: usize, len: usize) -> Vec<Vec<u8>> {
    let expressions = expressions(rules);
    let expressions: Vec<&Expression> = expressions.iter().collect();
    let mut random = SampleRandom::new(seed);
    (0..count).map(|_| sampled_text(&expressions, &mut random, len)).collect()
}

#[test]
fn a_text_in_memory_gives_what_regex_gives() {
    for (number, rule) in (0..).zip(rules::HARD) {
        let scanner = scanner(&[rule], None, 1 << 20);
        for text in texts_of(&[rule], number, 40, 600) {
            assert_eq!(
                scan_whole(&scanner, &text),
                oracle(&scanner, &text),
                "{rule} in {}",
                text.escape_ascii()
            );
        }
    }
}

#[test]
fn all_rules_at_once_give_what_regex_gives() {
    let (fast, naive) =
        (scanner(rules::HARD, None, 1 << 20), scanner(rules::HARD, Some(Flaw::Sound), 1 << 20));
    for text in texts_of(rules::HARD, 7, 60, 5000) {
        let wanted = oracle(&fast, &text);
        assert!(wanted.len() > 20);
        assert_eq!(scan_whole(&fast, &text), wanted, "{}", text.escape_ascii());
        assert_eq!(scan_whole(&naive, &text), wanted);
    }
}

#[test]
fn pieces_of_every_length_give_the_same() {
    for (number, rule) in (0..).zip(rules::HARD) {
        for text in texts_of(&[rule], 100 + number, 2, 150) {
            for piece_len in 1..text.len() + 2 {
                if piece_len > 40 && piece_len % 7 != 0 {
                    continue;
                }
                let scanner = scanner(&[rule], None, piece_len);
                let wanted = oracle(&scanner, &text);
                assert_eq!(
                    scan_stream(&scanner, &text),
                    wanted,
                    "{rule} by {piece_len} in {}",
                    text.escape_ascii()
                );
                if piece_len % 5 == 1 {
                    assert_eq!(
                        scan_file(&scanner, &text, 1 + piece_len % 3),
                        wanted,
                        "{rule} by {piece_len}"
                    );
                }
            }
        }
    }
}

#[test]
fn long_texts_in_pieces_give_the_same() {
    for piece_len in [64, 1000, 4096] {
        let scanner = scanner(rules::HARD, None, piece_len);
        for text in texts_of(rules::HARD, piece_len as u64, 6, 20_000) {
            let wanted = oracle(&scanner, &text);
            assert_eq!(scan_stream(&scanner, &text), wanted, "by {piece_len}");
            assert_eq!(scan_file(&scanner, &text, 2), wanted, "by {piece_len}");
        }
    }
}

/// The number of random sets; more are tried if the environment variable says so.
fn random_sets() -> u64 {
    std::env::var("LAW_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

#[test]
fn random_expressions_give_what_regex_gives() {
    for seed in 0..random_sets() {
        let mut random = SampleRandom::new(seed);
        let texts: Vec<String> =
            (0..1 + random.below(6)).map(|_| generate::expression(&mut random)).collect();
        let rules: Vec<&str> =
            texts.iter().map(String::as_str).filter(|text| Expression::parse(text).is_ok()).collect();
        if rules.is_empty() {
            continue;
        }
        let piece_len = 1 + random.below(90);
        let scanner = scanner(&rules, None, piece_len);
        for text in texts_of(&rules, seed, 4, 250) {
            let wanted = oracle(&scanner, &text);
            let shown = || format!("seed {seed}: {rules:?} in {}", text.escape_ascii());
            assert_eq!(scan_whole(&scanner, &text), wanted, "{}", shown());
            assert_eq!(scan_stream(&scanner, &text), wanted, "by {piece_len}, {}", shown());
        }
    }
}

#[test]
fn thousands_of_rules_give_what_regex_gives() {
    for count in [1, 10, 1000, 10_000] {
        let mut random = SampleRandom::new(count);
        let word = |random: &mut SampleRandom| {
            (0..7 + random.below(6)).map(|_| *random.pick(b"abcdefghij") as char).collect::<String>()
        };
        let kinds = |random: &mut SampleRandom| match random.below(4) {
            0 => format!("{}_[0-9]{{4}}", word(random)),
            1 => format!("(?i){}=", word(random)),
            2 => format!("{}.{{0,3}}{}", word(random), word(random)),
            _ => format!("{}|{}", word(random), word(random)),
        };
        let texts: Vec<String> = (0..count).map(|_| kinds(&mut random)).collect();
        let rules: Vec<&str> = texts.iter().map(String::as_str).collect();
        let scanner = scanner(&rules, None, 1 << 16);
        assert!(count < 10_000 || scanner.catalog().factors().len() > 1, "the rules fit into one table");
        let few: Vec<&str> = (0..20).map(|_| *random.pick(&rules)).collect();
        for text in texts_of(&few, count, 2, 1500) {
            let wanted = oracle(&scanner, &text);
            assert!(!wanted.is_empty());
            assert_eq!(scan_whole(&scanner, &text), wanted);
        }
    }
}

/// Returns whether some text shows that an engine with a flaw is wrong.
fn is_caught(flaw: Flaw) -> bool {
    let scanner = scanner(rules::HARD, Some(flaw), 333);
    let sound = |text: &Vec<u8>| {
        let wanted = oracle(&scanner, text);
        scan_whole(&scanner, text) == wanted && scan_stream(&scanner, text) == wanted
    };
    !texts_of(rules::HARD, 3, 30, 4000).iter().all(sound)
}

#[test]
fn planted_mistakes_are_caught() {
    assert!(!is_caught(Flaw::Sound));
    for flaw in
        [Flaw::LimitRejects, Flaw::EndRejects, Flaw::LeftmostLiterals, Flaw::AsciiFolding, Flaw::NoFolding]
    {
        assert!(is_caught(flaw), "{flaw:?} was not caught");
    }
}

/// Searches slices around candidates, as must not be done.
fn scan_slices(scanner: &Scanner, text: &[u8]) -> Vec<Found> {
    let mut candidates = vec![];
    NativeEngine::new(Arc::clone(scanner.catalog())).find(text, 0..text.len(), &mut candidates);
    let mut all = vec![];
    for candidate in candidates {
        let branch = scanner.catalog().branches()[candidate.branch as usize];
        let range = StartRange::of_part(&branch, candidate.first.into(), candidate.last.into());
        let to = branch.suffix_max.map_or(text.len(), |max| text.len().min((candidate.last + max) as usize));
        let expression = scanner.rules().rules[branch.rule as usize].expression.as_ref().unwrap();
        let regex =
            regex::bytes::RegexBuilder::new(expression.text()).unicode(expression.unicode()).build().unwrap();
        let slice = &text[range.lo as usize..to];
        all.extend(
            regex
                .find_iter(slice)
                .map(|m| (branch.rule, range.lo + m.start() as u64, range.lo + m.end() as u64)),
        );
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn searching_slices_is_caught() {
    let scanner = scanner(rules::WITH_FACTORS, None, 1 << 20);
    let wrong = texts_of(rules::WITH_FACTORS, 5, 30, 2000)
        .iter()
        .filter(|text| scan_slices(&scanner, text) != oracle(&scanner, text))
        .count();
    assert!(wrong > 10, "slices were wrong in {wrong} of 30 texts only");
}
