//! Compares scans of a folder with the `regex` crate: every file, every rule, every match.
//!
//! ```console
//! cargo run --release -p pelton-scan --example compare-tree -- FOLDER [RULES]
//! ```
//!
//! Rules are those of the starter set, or of a file. Filters are not used, so every match counts. Each file is scanned
//! in memory and as a stream in small pieces. The exit status is 1 if something differs.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{env, fs, thread};

use pelton_scan::rule::{FilterUse, RuleSet};
use pelton_scan::scanner::StreamOptions;
use pelton_scan::{Scanner, rules};
use regex::bytes::{Regex, RegexBuilder};

/// What a match is compared by.
type Found = (u32, u64, u64);

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1).map(PathBuf::from);
    let folder = args.next().expect("give a folder");
    let set = args
        .next()
        .map_or_else(rules::starter, |path| rules::read_file(&path).expect("the rules can be read"));
    let scanner = Scanner::new(without_filters(set)).expect("the rules can be compiled");
    let regexes: Vec<Regex> = scanner
        .rules()
        .rules
        .iter()
        .filter_map(|rule| rule.expression.as_ref())
        .map(|one| {
            RegexBuilder::new(one.text()).unicode(one.unicode()).build().expect("the scanner compiled it")
        })
        .collect();
    let mut files = vec![];
    collect(&folder, &mut files);
    let (next, bytes, matches, wrong) =
        (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Ok(text) = fs::read(path) else { continue };
                    let wanted = oracle(&regexes, &text);
                    bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                    matches.fetch_add(wanted.len() as u64, Ordering::Relaxed);
                    if whole(&scanner, path, &text) != wanted || stream(&scanner, path, &text) != wanted {
                        wrong.fetch_add(1, Ordering::Relaxed);
                        println!("{} differs", path.display());
                    }
                }
            });
        }
    });
    let (bytes, matches, wrong) = (bytes.into_inner(), matches.into_inner(), wrong.into_inner());
    println!(
        "{} rules, {} files, {bytes} bytes, {matches} matches, {wrong} files differ",
        regexes.len(),
        files.len()
    );
    ExitCode::from(u8::from(wrong > 0))
}

/// Returns the rules that have an expression, without what drops matches.
fn without_filters(set: RuleSet) -> RuleSet {
    let mut rules = set.rules;
    rules.retain(|rule| rule.expression.is_some());
    for rule in &mut rules {
        (rule.filters, rule.path) = (FilterUse::Skip, None);
    }
    RuleSet { rules, ..RuleSet::default() }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

fn oracle(regexes: &[Regex], text: &[u8]) -> Vec<Found> {
    let all = (0..).zip(regexes).flat_map(|(rule, regex)| {
        regex.find_iter(text).map(move |found| (rule, found.start() as u64, found.end() as u64))
    });
    let mut all: Vec<Found> = all.collect();
    all.sort_unstable();
    all
}

fn whole(scanner: &Scanner, path: &Path, text: &[u8]) -> Vec<Found> {
    let findings = scanner.scan_bytes(path, text).expect("the native engine does not fail");
    let mut all: Vec<Found> =
        findings.iter().map(|one| (one.found.rule, one.found.start, one.found.end)).collect();
    all.sort_unstable();
    all
}

fn stream(scanner: &Scanner, path: &Path, mut text: &[u8]) -> Vec<Found> {
    let mut all = vec![];
    let options = StreamOptions { retain: 1 << 30, ..StreamOptions::default() };
    let report = scanner.scan_reader(path, &mut text, options, &mut |one| {
        all.push((one.found.rule, one.found.start, one.found.end));
        ControlFlow::Continue(())
    });
    assert!(report.expect("memory can be read").gave_up.is_empty());
    all.sort_unstable();
    all
}
