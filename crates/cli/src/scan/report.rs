//! Decides which findings are reported, counts them, and formats them.

use std::sync::atomic::{AtomicU64, Ordering};

use pelton_scan::{Finding, Scanner};

use crate::scan::baseline::Baseline;
use crate::scan::fingerprint::Fingerprint;
use crate::scan::format::{FindingFormatter, FindingView};
use crate::scan::ignore_file::{FindingPlace, IgnoredPlaces};
use crate::scan::inputs::{InputSource, ScanInput};
use crate::scan::staged::{PathState, StagedBlob};

/// What a scan has counted so far.
#[derive(Default)]
pub(super) struct ScanCounters {
    /// The inputs that were scanned or skipped.
    pub inputs: AtomicU64,
    /// The bytes that were scanned.
    pub bytes: AtomicU64,
    /// The files that were skipped because they are binary.
    pub binary: AtomicU64,
    /// The files that were skipped because they are too large.
    pub too_large: AtomicU64,
    /// The findings that were reported.
    pub found: AtomicU64,
    /// The inputs with findings that were reported.
    pub found_inputs: AtomicU64,
    /// The findings that were not reported because they are known or ignored.
    pub known: AtomicU64,
}

impl ScanCounters {
    /// Adds to a counter. The order of memory accesses does not matter, because counters are only displayed.
    pub(super) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Reads a counter.
    pub(super) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// Whether an input was scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scanned {
    /// All of it.
    Whole,
    /// All of it, after it was decoded, so that its lines are not those that git counts.
    Decoded,
    /// Only its path: rules without an expression apply to files that are skipped too.
    PathOnly,
}

/// Reports findings. Threads share it.
pub(super) struct FindingReporter {
    /// What is printed.
    pub formatter: FindingFormatter,
    /// Findings of earlier reports.
    pub baseline: Baseline,
    /// Places that are not reported.
    pub ignored: IgnoredPlaces,
    /// What was counted.
    pub counters: ScanCounters,
}

impl FindingReporter {
    /// Formats a finding if it is to be reported, and returns whether it is.
    pub(super) fn report(
        &self,
        scanner: &Scanner,
        input: &ScanInput,
        scanned: Scanned,
        finding: &Finding,
        out: &mut Vec<u8>,
    ) -> bool {
        let index = finding.found.rule;
        let rule = &scanner.rules().rules[index as usize];
        let by_path = rule.expression.is_none();
        if scanned == Scanned::PathOnly && !by_path {
            return false;
        }
        if let InputSource::Staged(blob) = &input.source
            && !is_added(blob, scanned, finding, by_path)
        {
            return false;
        }
        let fingerprint = Fingerprint::of(&rule.id, &input.path, finding);
        let place = FindingPlace { path: input.path.clone(), rule: rule.id.clone(), line: finding.line };
        if self.ignored.contains(&place) || self.baseline.takes(fingerprint, &place) {
            ScanCounters::add(&self.counters.known, 1);
            return false;
        }
        ScanCounters::add(&self.counters.found, 1);
        let view = FindingView { path: &input.path, rule: (index, rule), finding, fingerprint };
        self.formatter.push_finding(out, &view);
        true
    }

    /// Notes that all findings of an input were reported.
    pub(super) fn end_input(&self, input: &ScanInput, found: u64, out: &mut Vec<u8>) {
        ScanCounters::add(&self.counters.inputs, 1);
        if found > 0 {
            ScanCounters::add(&self.counters.found_inputs, 1);
        }
        self.formatter.push_input_end(out, &input.path, found);
    }
}

/// Returns whether a finding belongs to what is new in a staged file.
fn is_added(blob: &StagedBlob, scanned: Scanned, finding: &Finding, by_path: bool) -> bool {
    if by_path {
        return blob.path == PathState::New;
    }
    scanned == Scanned::Decoded || blob.added.touch(finding.line, finding.end_line)
}
