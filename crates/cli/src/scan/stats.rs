//! The summary and the statistics of a scan, which are printed on standard error at its end.

use std::fmt::Write as _;
use std::time::Duration;

use crate::scan::escape::shown_text;
use crate::scan::print::ScanEnd;
use crate::scan::report::ScanCounters;
use crate::scan::work::ScanWork;
use crate::size::spell_size;
use crate::term::Term;

/// How long the parts of a scan took.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanTimes {
    /// Reading and preparing the rules.
    pub prepare: Duration,
    /// Finding the inputs.
    pub walk: Duration,
    /// Scanning the inputs.
    pub scan: Duration,
}

/// Prints a summary of one line.
pub(super) fn print_summary(work: &ScanWork, times: ScanTimes, end: ScanEnd, term: &Term) {
    let counters = &work.reporter.counters;
    let total = times.prepare + times.walk + times.scan;
    term.note(format_args!(
        "{}{}; scanned {}, {}, in {:.2} s",
        end_text(end),
        found_text(counters),
        counted(scanned_inputs(counters), "file"),
        spell_size(ScanCounters::get(&counters.bytes)),
        total.as_secs_f64()
    ));
}

/// Prints the table of `--stats`. `no_gpu` says why no GPU is used although one would be.
pub(super) fn print_stats(
    work: &ScanWork,
    times: ScanTimes,
    end: ScanEnd,
    no_gpu: Option<&str>,
    term: &Term,
) {
    let counters = &work.reporter.counters;
    let bytes = ScanCounters::get(&counters.bytes);
    let seconds = times.scan.as_secs_f64();
    let rate = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    let mut rows = vec![
        ("findings", format!("{}{}", end_text(end), found_text(counters))),
        ("files", files_text(counters)),
        ("bytes", format!("{}, {}/s", spell_size(bytes), spell_size(rate as u64))),
        (
            "time",
            format!(
                "{:.3} s for the rules, {:.3} s to find files, {seconds:.3} s to scan them",
                times.prepare.as_secs_f64(),
                times.walk.as_secs_f64()
            ),
        ),
        ("rules", work.scanner.rules().rules.len().to_string()),
        (
            "engine",
            format!(
                "{}, on {}",
                work.scanner.engine().describe(),
                counted(work.options.threads as u64, "thread")
            ),
        ),
    ];
    rows.extend(no_gpu.map(|why| ("no GPU", shown_text(why))));
    let mut lines = String::new();
    for (what, value) in rows {
        let _ = writeln!(lines, "{what:<9} {value}");
    }
    term.notes(&lines);
}

fn end_text(end: ScanEnd) -> &'static str {
    match end {
        ScanEnd::Complete => "",
        ScanEnd::Interrupted => "interrupted; until then ",
        ScanEnd::Unread => "ended early; until then ",
    }
}

fn found_text(counters: &ScanCounters) -> String {
    let found = ScanCounters::get(&counters.found);
    let mut text = if found == 0 {
        "nothing found".to_string()
    } else {
        let files = counted(ScanCounters::get(&counters.found_inputs), "file");
        format!("{} in {files}", counted(found, "finding"))
    };
    let known = ScanCounters::get(&counters.known);
    if known > 0 {
        let _ = write!(text, ", {known} known or ignored");
    }
    text
}

/// Returns the number of inputs that were not skipped.
fn scanned_inputs(counters: &ScanCounters) -> u64 {
    let skipped = ScanCounters::get(&counters.binary) + ScanCounters::get(&counters.too_large);
    ScanCounters::get(&counters.inputs).saturating_sub(skipped)
}

fn files_text(counters: &ScanCounters) -> String {
    let (binary, too_large) = (ScanCounters::get(&counters.binary), ScanCounters::get(&counters.too_large));
    let mut text = format!("{} scanned", scanned_inputs(counters));
    for (count, why) in [(binary, "binary"), (too_large, "too large")] {
        if count > 0 {
            let _ = write!(text, ", {count} skipped as {why}");
        }
    }
    text
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
