//! Peers that are libraries: the `regex` crate, and `aho-corasick` with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use pelton_scan::Scanner;
use pelton_scan::scanner::SearchWay;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::found::FoundSummary;
use super::ours::ScanTurn;
use super::text::BenchText;
use crate::error::CliError;

/// The limit on the compiled size of a set, which is larger than that of the crate since the sets are large too.
const SET_SIZE_MAX: usize = 1 << 30;
/// The room for the states of the set's automaton, which it builds as it goes.
const SET_CACHE_MAX: usize = 64 << 20;

/// The expressions of all rules, each compiled by the `regex` crate as the oracle does.
pub(super) fn compile_oracle(scanner: &Scanner) -> Result<Vec<Regex>, CliError> {
    let expressions = scanner.rules().rules.iter().filter_map(|rule| rule.expression.as_ref());
    expressions
        .map(|expression| {
            let mut builder = RegexBuilder::new(expression.text());
            builder.unicode(expression.unicode()).build().map_err(|error| peer_failed("regex", &error))
        })
        .collect()
}

fn peer_failed(peer: &str, error: &dyn std::error::Error) -> CliError {
    CliError::Wrong(format!("{peer} cannot compile the rules: {error}"))
}

/// Adds all matches of a rule in a file.
pub(super) fn add_matches(regex: &Regex, file: usize, rule: u32, text: &[u8], found: &mut FoundSummary) {
    for matched in regex.find_iter(text) {
        found.add(file as u64, rule, matched.start() as u64, matched.end() as u64);
    }
}

/// A set of the `regex` crate: it says which rules match in a file, and these are searched for one by one.
pub(super) struct SetPeer {
    set: RegexSet,
}

impl SetPeer {
    /// Compiles the set.
    pub(super) fn new(scanner: &Scanner) -> Result<SetPeer, CliError> {
        let expressions = scanner.rules().rules.iter().filter_map(|rule| rule.expression.as_ref());
        let texts = expressions.map(|expression| match expression.unicode() {
            true => format!("(?u:{})", expression.text()),
            false => expression.text().to_owned(),
        });
        let mut builder = RegexSetBuilder::new(texts);
        let builder = builder.unicode(false).size_limit(SET_SIZE_MAX).dfa_size_limit(SET_CACHE_MAX);
        Ok(SetPeer { set: builder.build().map_err(|error| peer_failed("the regex set", &error))? })
    }

    /// Scans some files.
    pub(super) fn scan(&self, regexes: &[Regex], text: &BenchText, files: Range<usize>) -> ScanTurn {
        let mut found = FoundSummary::default();
        let start = Instant::now();
        for file in files.clone() {
            let bytes = text.file(file);
            for rule in self.set.matches(bytes) {
                add_matches(&regexes[rule], file, rule as u32, bytes, &mut found);
            }
        }
        turn(start, text, files, found)
    }
}

/// An automaton of the literals, and the rules that each of them belongs to.
pub(super) struct LiteralPeer {
    automaton: AhoCorasick,
    /// The rules of each literal.
    rules: Vec<Vec<u32>>,
    /// The rules without literals.
    always: Vec<u32>,
}

impl LiteralPeer {
    /// Compiles the literals of the scanner's plans.
    pub(super) fn new(scanner: &Scanner) -> Result<LiteralPeer, CliError> {
        let mut literals = BTreeMap::<Vec<u8>, Vec<u32>>::new();
        let mut always = Vec::new();
        for rule in 0..scanner.rules().rules.len() {
            match scanner.plan(rule).way {
                SearchWay::Factors { literals: own, runs } if runs.is_empty() => {
                    own.into_iter()
                        .for_each(|literal| literals.entry(literal).or_default().push(rule as u32));
                }
                SearchWay::Path => {}
                _ => always.push(rule as u32),
            }
        }
        let automaton = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(literals.keys())
            .map_err(|error| peer_failed("aho-corasick", &error))?;
        Ok(LiteralPeer { automaton, rules: literals.into_values().collect(), always })
    }
    /// Counts the positions at which literals end in the whole text. What is found are these positions.
    pub(super) fn find_literals(&self, text: &BenchText) -> ScanTurn {
        let start = Instant::now();
        let (mut count, mut last) = (0, usize::MAX);
        for hit in self.automaton.find_overlapping_iter(&text.bytes) {
            // Literals that end at the same position come one after the other.
            count += u64::from(hit.end() != last);
            last = hit.end();
        }
        let seconds = start.elapsed().as_secs_f64();
        ScanTurn { seconds, bytes: text.bytes.len(), found: FoundSummary::count_only(count) }
    }

    /// Scans some files: every rule one of whose literals is in a file is searched for in it.
    pub(super) fn scan(&self, regexes: &[Regex], text: &BenchText, files: Range<usize>) -> ScanTurn {
        let mut found = FoundSummary::default();
        let mut wanted_in = vec![usize::MAX; regexes.len()];
        let start = Instant::now();
        for file in files.clone() {
            let bytes = text.file(file);
            let mut wanted = self.always.clone();
            for hit in self.automaton.find_overlapping_iter(bytes) {
                for &rule in &self.rules[hit.pattern().as_usize()] {
                    if wanted_in[rule as usize] != file {
                        wanted_in[rule as usize] = file;
                        wanted.push(rule);
                    }
                }
            }
            for rule in wanted {
                add_matches(&regexes[rule as usize], file, rule, bytes, &mut found);
            }
        }
        turn(start, text, files, found)
    }
}

/// Ends a turn over some files.
fn turn(start: Instant, text: &BenchText, files: Range<usize>, found: FoundSummary) -> ScanTurn {
    let seconds = start.elapsed().as_secs_f64();
    ScanTurn { seconds, bytes: text.bytes_of(files), found }
}

/// Counts the positions of the text at which the automata of a catalog say that literals end, one automaton after the
/// other.
pub(super) fn count_literal_ends(scanner: &Scanner, text: &[u8]) -> u64 {
    let mut count = 0;
    for table in scanner.catalog().factors() {
        let mut state = 0;
        for byte in text {
            let class = usize::from(table.classes[usize::from(*byte)]);
            state = usize::from(table.next[state * table.class_count as usize + class]);
            count += u64::from(state >= table.first_accepting as usize);
        }
    }
    count
}
