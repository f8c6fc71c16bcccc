//! Searching runs of bytes of one class.

use std::ops::Range;

use crate::candidate::Candidate;
use crate::catalog::ClassRun;

/// Appends the candidates of a run: every position at which a part can begin whose first `run.length` bytes all belong
/// to the class and end in `own`. Neighbouring positions are one candidate.
///
/// So a long run that lies in several pieces of an input is divided among them, without gaps, and what a piece reports
/// depends on nothing but the piece and the `run.length - 1` bytes before it.
pub(super) fn find_runs(run: &ClassRun, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
    let length = run.length as usize;
    let inside = |at: usize| run.class.contains(text[at]);
    // No part that is still to be reported begins before `low`, and the `known` bytes from there on are inside.
    let (mut low, mut known) = (own.start.saturating_sub(length - 1), 0);
    while own.end.saturating_sub(low) >= length {
        // Looking backwards skips most bytes: one outside says that no run of `length` bytes contains it.
        let probe = low + length - 1;
        let unknown = low + known..probe + 1;
        let before = unknown.clone().rev().take_while(|&at| inside(at)).count();
        if before < unknown.len() {
            (low, known) = (probe + 1 - before, before);
            continue;
        }
        let after = (probe + 1..own.end).take_while(|&at| inside(at)).count();
        out.push(Candidate { first: low as u32, last: (low + after) as u32, branch: run.branch });
        // The byte after the run is outside, or the piece ends there.
        (low, known) = (probe + after + 2, 0);
    }
}
