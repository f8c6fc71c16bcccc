//! `bench scan`: many rules over much text, compared with the libraries and programs that are used for it today.
//!
//! All contenders of a set of rules are measured in turns, in [rounds](super::rounds). Whatever a contender finds is
//! compared with what the scanner found, match by match.

mod cases;
mod compiling;
mod composed;
mod contenders;
mod found;
mod hyperscan;
mod ours;
mod peers;
mod remote;
mod ripgrep;
mod scratch;
mod source_words;
mod text;

use pelton_device::open;
use pelton_scan::Scanner;
use pelton_scan::catalog::CatalogCache;
use pelton_scan::sample_rules::SampleRules;

use self::cases::{ScanCase, case_name, wanted_cases};
use self::compiling::RuleCompiler;
use self::contenders::{Contenders, PeerSlices};
use self::ours::scan_failed;
use self::remote::{TextPlaces, measure_remote};
use self::scratch::ScratchText;
use self::text::BenchText;
use super::BenchRow;
use super::rounds::{Sample, Series, play_rounds};
use crate::count::parse_count_in;
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// Measure scans for many rules, compared with other libraries and programs
#[derive(clap::Args)]
#[command(after_help = "\
Hyperscan is measured if `python3` finds the package hyperscan, and ripgrep if there is a program rg.
The text is source code from cargo's registry if there is any, with matches planted in it.")]
pub(super) struct ScanBenchArgs {
    /// The device to scan on; `pelton devices` lists them. `cpu` is a loop on the CPU, and every other device runs a
    /// session
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure with less text and for a shorter time, with less certain figures
    #[arg(long)]
    quick: bool,

    /// The amount of text in megabytes; 32 with --quick and 256 without, unless it is given
    #[arg(long, value_name = "N", value_parser = parse_count_in::<u32>(1..=2000), allow_negative_numbers = true)]
    megabytes: Option<u32>,
}

/// How long is measured.
struct ScanPace {
    megabytes: u32,
    rounds: u32,
    compile_rounds: u32,
}

const FULL: ScanPace = ScanPace { megabytes: 256, rounds: 9, compile_rounds: 3 };
const QUICK: ScanPace = ScanPace { megabytes: 32, rounds: 5, compile_rounds: 1 };

/// A set of rules to measure.
struct RuleSample {
    name: &'static str,
    rules: fn() -> SampleRules,
    slices: PeerSlices,
}

const RULE_SAMPLES: [RuleSample; 2] = [
    RuleSample {
        name: "easy",
        rules: SampleRules::easy,
        slices: PeerSlices { regex_set: 500_000, literals_and_regex: 4_000_000, ripgrep: 500_000 },
    },
    RuleSample {
        name: "hard",
        rules: SampleRules::hard,
        slices: PeerSlices { regex_set: 100_000, literals_and_regex: 1_000_000, ripgrep: 100_000 },
    },
];

impl ScanBenchArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--device".into(), self.device.clone()];
        flags.extend(self.quick.then(|| "--quick".into()));
        if let Some(megabytes) = self.megabytes {
            flags.extend(["--megabytes".into(), megabytes.to_string()]);
        }
        flags
    }
}

/// Measures the cases whose name contains `only`, and adds their rows. After a failure the rows of the cases before it
/// stay.
pub(super) fn run_scan(
    args: &ScanBenchArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let device = open(&args.device)?;
    // The native engine is what this machine is best at; every other name asks for a session there.
    let is_remote = args.device != "cpu";
    let pace = if args.quick { QUICK } else { FULL };
    let pace = ScanPace {
        megabytes: args.megabytes.unwrap_or(pace.megabytes),
        rounds: rounds.unwrap_or(pace.rounds),
        compile_rounds: rounds.map_or(pace.compile_rounds, |rounds| rounds.min(pace.compile_rounds)),
    };
    let is_wanted = |set: &&RuleSample| match is_remote {
        true => remote::is_wanted(set.name, only),
        false => !wanted_cases(set.name, only).is_empty() || compiling::is_wanted(set.name, only),
    };
    let wanted: Vec<&RuleSample> = RULE_SAMPLES.iter().filter(is_wanted).collect();
    if wanted.is_empty() && !composed::is_wanted(only) {
        return Ok(());
    }
    term.note("gathering text …");
    let all: Vec<SampleRules> = RULE_SAMPLES.iter().map(|set| (set.rules)()).collect();
    let text = BenchText::gather(pace.megabytes as usize * 1_000_000, &all.iter().collect::<Vec<_>>());
    let scratch = ScratchText::write(&text)?;
    term.note(format_args!(
        "{} in {} files, with {} planted matches",
        text.origin,
        text.files.len(),
        text.planted
    ));
    if composed::is_wanted(only) {
        composed::measure_composed(&device, (pace.rounds, only), &text, rows, term)?;
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let places = TextPlaces { text: &text, scratch: &scratch };
    if !is_remote {
        note_absent_peers(term);
    }
    for set in wanted {
        stop::unless_pressed()?;
        if is_remote {
            term.note(format_args!("{}: preparing …", set.name));
            let cache = CatalogCache::new(scratch.cache_folder());
            let make = || Scanner::with_cache((set.rules)().set(), Some(&cache)).map_err(scan_failed);
            measure_remote(set.name, &device, (pace.rounds, only), make, places, rows, term)?;
            continue;
        }
        measure_set(set, &pace, only, &text, &scratch, rows, term)?;
    }
    Ok(())
}

/// Says which peers are not there.
fn note_absent_peers(term: &Term) {
    if !hyperscan::is_installed() {
        term.note("not installed: hyperscan (`pip install hyperscan`), so no row is compared with it");
    }
    if !ripgrep::is_installed() {
        term.note("not installed: rg (ripgrep), so no row is compared with it");
    }
}

/// Measures one set of rules.
fn measure_set(
    set: &RuleSample,
    pace: &ScanPace,
    only: &str,
    text: &BenchText,
    scratch: &ScratchText,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let rules = (set.rules)().set();
    term.note(format_args!("{}: compiling {} rules …", set.name, rules.rules.len()));
    let (compiler, scanner) = RuleCompiler::start(set.name, &rules, scratch)?;
    let cases = wanted_cases(set.name, only);
    if cases.is_empty() {
        return compiler.add_rows(pace.compile_rounds, None, only, rows);
    }
    let mut contenders = Contenders::new(scanner, &cases, set.slices, text, scratch)?;
    contenders.describe(set.name, term);
    let mut cases: Vec<&ScanCase> = cases.into_iter().filter(|case| contenders.has(case.who)).collect();
    let bar = term.bar(cases.len() as u64 * u64::from(pace.rounds), "{bar:40} {msg}");
    let series = play_rounds(pace.rounds, &mut cases, |case| {
        bar.set_message(case_name(set.name, case.name));
        let turn = contenders.measure(case.who)?;
        bar.inc(1);
        Ok(Sample::figure(turn.bytes as f64 / 1e6 / turn.seconds))
    })?;
    bar.finish_and_clear();
    add_count_rows(set.name, &contenders, only, text, rows);
    add_case_rows(set.name, &cases, &series, only, rows);
    let peer = contenders.hyperscan().map(|peer| peer.about.compile_seconds);
    drop(contenders);
    compiler.add_rows(pace.compile_rounds, peer, only, rows)
}

/// Adds the rows that say how much there is to do in the text.
fn add_count_rows(
    set: &str,
    contenders: &Contenders<'_>,
    only: &str,
    text: &BenchText,
    rows: &mut Vec<BenchRow>,
) {
    for (name, count) in contenders.counts() {
        let value = count as f64 / (text.bytes.len() as f64 / 1e6);
        let case = case_name(set, name);
        if case.contains(only) {
            rows.push(scan_row(case, "cpu", "per MB", value));
        }
    }
}

/// Adds the rows of cases that were measured in rounds.
fn add_case_rows(set: &str, cases: &[&ScanCase], series: &[Series], only: &str, rows: &mut Vec<BenchRow>) {
    let all = || cases.iter().zip(series);
    for (case, ours) in all() {
        let (name, Some(value)) = (case_name(set, case.name), ours.value()) else { continue };
        if !name.contains(only) {
            continue;
        }
        let row = scan_row(name, case.device, "MB/s", value);
        let peers: Vec<_> =
            case.against.iter().filter_map(|name| all().find(|(peer, _)| peer.name == *name)).collect();
        if peers.is_empty() {
            rows.push(row.clone());
        }
        for (peer, theirs) in peers {
            rows.push(BenchRow { against: ours.against(peer.name, theirs), ..row.clone() });
        }
    }
}

/// A row that is compared with nothing.
fn scan_row(case: String, device: &str, metric: &'static str, value: f64) -> BenchRow {
    BenchRow {
        group: "scan",
        case,
        device: device.into(),
        metric: metric.into(),
        value,
        spread: None,
        against: None,
    }
}
