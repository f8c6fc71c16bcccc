//! The law on every device: findings are those of `find_iter` of the `regex` crate, whichever device finds the
//! candidates. The tests of devices that this machine does not have are ignored by name.

#[path = "../law/rules.rs"]
#[expect(dead_code, reason = "the law itself uses more of it")]
mod rules;
#[path = "../law/sample.rs"]
mod sample;

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton::device::{Device, open};
use pelton_scan::finding::Match;
use pelton_scan::rule::RuleSet;
use pelton_scan::scanner::StreamOptions;
use pelton_scan::session::{SessionConfig, SessionEngine};
use pelton_scan::{Expression, Scanner};

use pelton_scan::sample_rules::SampleRandom;
use sample::sampled_text;

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, texts, len) in [("cpu", 20, 20_000), ("reference", 3, 2_000), ("cuda", 20, 50_000)] {
        let device = open(name).ok();
        let absent = device.is_none();
        let test = move || device.map_or(Ok(()), |device| findings_are_those_of_regex(&device, texts, len));
        all.push(Trial::test(format!("findings_are_those_of_regex@{name}"), test).with_ignored_flag(absent));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    run(&arguments, all).exit_code()
}

fn findings_are_those_of_regex(device: &Arc<dyn Device>, texts: u64, len: usize) -> Result<(), Failed> {
    let rule =
        |(number, text): (usize, &&str)| pelton_scan::rules::from_expression(&format!("r{number}"), text);
    let rules = rules::HARD.iter().enumerate().map(rule).collect::<Result<_, _>>()?;
    let scanner = Scanner::new(RuleSet { rules, ..RuleSet::default() })?;
    // Small chunks, so that texts are cut often.
    let config = SessionConfig { chunk_bytes: 1 << 12, piece_bytes: 1 << 10, ..SessionConfig::default() };
    let engine = SessionEngine::launch(Arc::clone(device), Arc::clone(scanner.catalog()), config)?;
    let scanner = scanner.with_engine(Box::new(engine));
    let expressions: Vec<Expression> =
        rules::HARD.iter().map(|text| Expression::parse(text)).collect::<Result<_, _>>()?;
    let expressions: Vec<&Expression> = expressions.iter().collect();
    for seed in 0..texts {
        let text = sampled_text(&expressions, &mut SampleRandom::new(seed), len);
        let wanted = oracle(&expressions, &text)?;
        if whole(&scanner, &text)? != wanted {
            return Err(format!("text {seed} differs in memory").into());
        }
        if stream(&scanner, &text)? != wanted {
            return Err(format!("text {seed} differs as a stream").into());
        }
    }
    Ok(())
}

/// Returns what the `regex` crate finds.
fn oracle(expressions: &[&Expression], text: &[u8]) -> Result<Vec<Match>, Failed> {
    let mut all = vec![];
    for (rule, expression) in (0..).zip(expressions) {
        let regex =
            regex::bytes::RegexBuilder::new(expression.text()).unicode(expression.unicode()).build()?;
        all.extend(regex.find_iter(text).map(|one| Match {
            rule,
            start: one.start() as u64,
            end: one.end() as u64,
        }));
    }
    all.sort_unstable();
    Ok(all)
}

fn whole(scanner: &Scanner, text: &[u8]) -> Result<Vec<Match>, Failed> {
    let mut all: Vec<Match> =
        scanner.scan_bytes(Path::new("text"), text)?.iter().map(|one| one.found).collect();
    all.sort_unstable();
    Ok(all)
}

fn stream(scanner: &Scanner, text: &[u8]) -> Result<Vec<Match>, Failed> {
    let mut all = vec![];
    let options = StreamOptions { retain: 1 << 30, ..StreamOptions::default() };
    scanner.scan_reader(Path::new("text"), &mut Cursor::new(text), options, &mut |one| {
        all.push(one.found);
        ControlFlow::Continue(())
    })?;
    all.sort_unstable();
    Ok(all)
}
