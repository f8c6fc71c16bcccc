//! Scans inputs that are in memory, many at once.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::Scanner;
use crate::candidate::Candidate;
use crate::engine::TextArena;
use crate::error::ScanError;
use crate::exact::StartRange;
use crate::exact::whole::{find_everywhere, find_in_ranges};
use crate::finding::{Finding, Match};

/// Several inputs in one block of memory, which [`Scanner::scan_batch`] scans together. [`Scanner::batch`] makes one.
pub struct InputBatch {
    arena: Box<dyn TextArena>,
    used: usize,
    inputs: Vec<BatchInput>,
}

/// An input of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchInput {
    /// A number that the caller has chosen, by which it recognises the input.
    pub key: u64,
    /// The path that filters see.
    pub path: PathBuf,
    /// Where its bytes lie in the batch.
    pub range: Range<usize>,
}

impl InputBatch {
    /// Returns the memory that is left for further inputs. Write an input to its beginning, then call
    /// [`push`](Self::push).
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.arena.bytes_mut()[self.used..]
    }

    /// Adds the first `len` bytes of the [`room`](Self::room) as an input.
    ///
    /// # Panics
    ///
    /// If there is not that much room.
    pub fn push(&mut self, key: u64, path: &Path, len: usize) {
        assert!(
            len <= self.arena.bytes().len() - self.used,
            "an input of {len} bytes is larger than the room that is left"
        );
        self.inputs.push(BatchInput { key, path: path.into(), range: self.used..self.used + len });
        self.used += len;
    }

    /// Returns the inputs.
    pub fn inputs(&self) -> &[BatchInput] {
        &self.inputs
    }

    /// Returns the bytes of an input.
    pub fn text(&self, input: &BatchInput) -> &[u8] {
        &self.arena.bytes()[input.range.clone()]
    }

    /// Removes all inputs.
    pub fn clear(&mut self) {
        self.used = 0;
        self.inputs.clear();
    }
}

/// Where matches of a rule may begin in an input of a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InputRange {
    input: u32,
    rule: u32,
    range: StartRange,
}

impl Scanner {
    /// Makes an empty batch with room for `capacity` bytes.
    pub fn batch(&self, capacity: usize) -> Result<InputBatch, ScanError> {
        Ok(InputBatch { arena: self.engine.arena(capacity)?, used: 0, inputs: vec![] })
    }

    /// Scans the inputs of a batch. Returns one list of findings per input, each sorted by position.
    pub fn scan_batch(&self, batch: &InputBatch) -> Result<Vec<Vec<Finding>>, ScanError> {
        let mut all = vec![vec![]; batch.inputs.len()];
        self.visit_batch(batch, &mut |input, finding| {
            all[input].push(finding);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Scans the inputs of a batch, and calls a function with the index of an input and a finding in it, in the order
    /// of inputs and positions. A text of nothing but matches takes far less memory than with
    /// [`scan_batch`](Self::scan_batch), because findings have the lines around them. `Break` ends the scan.
    pub fn visit_batch(
        &self,
        batch: &InputBatch,
        visit: &mut dyn FnMut(usize, Finding) -> ControlFlow<()>,
    ) -> Result<(), ScanError> {
        let mut candidates = vec![];
        self.engine.candidates(&*batch.arena, batch.used, 0..batch.used, &mut candidates)?;
        let mut ranges = self.ranges_of_inputs(&candidates, &batch.inputs);
        ranges.sort_unstable();
        let mut rest = &ranges[..];
        for (number, input) in (0..).zip(&batch.inputs) {
            let own = rest.partition_point(|range| range.input <= number);
            let mut visit_own = |finding| visit(number as usize, finding);
            if self.scan_whole(&input.path, batch.text(input), &rest[..own], &mut visit_own).is_break() {
                break;
            }
            rest = &rest[own..];
        }
        Ok(())
    }

    /// Assigns candidates to the inputs in which matches through them would begin.
    fn ranges_of_inputs(&self, candidates: &[Candidate], inputs: &[BatchInput]) -> Vec<InputRange> {
        let mut ranges = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let branch = &self.catalog.branches()[candidate.branch as usize];
            let first = inputs.partition_point(|input| input.range.end <= candidate.first as usize);
            // A run of a class can reach over several inputs.
            let touched = (first..)
                .zip(&inputs[first..])
                .take_while(|(_, input)| input.range.start <= candidate.last as usize);
            for (number, input) in touched {
                let local = |position: u32| {
                    (position as usize).max(input.range.start) as u64 - input.range.start as u64
                };
                let range = StartRange::of_part(branch, local(candidate.first), local(candidate.last));
                ranges.push(InputRange { input: number as u32, rule: branch.rule, range });
            }
        }
        ranges
    }

    /// Scans one input, with the ranges of all rules that have candidates in it, sorted by rule.
    fn scan_whole(
        &self,
        path: &Path,
        text: &[u8],
        ranges: &[InputRange],
        visit: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.applies_to(path) {
            return ControlFlow::Continue(());
        }
        let mut matches = self.matches_in_ranges(path, text, ranges);
        for &rule in self.everywhere.iter().filter(|&&rule| self.filters.searches(rule as usize, path)) {
            let Some(search) = &self.searches[rule as usize] else { continue };
            find_everywhere(&search.matcher, text, |start, end| {
                matches.push(Match { rule, start: start as u64, end: end as u64 });
            });
        }
        matches.sort_unstable_by_key(|found| (found.start, found.end, found.rule));
        for finding in self.path_findings(path) {
            visit(finding)?;
        }
        self.report_whole(path, text, &matches, visit)
    }

    /// Finds the matches of all rules that have candidates.
    fn matches_in_ranges(&self, path: &Path, text: &[u8], ranges: &[InputRange]) -> Vec<Match> {
        let mut matches = vec![];
        for group in ranges.chunk_by(|one, other| one.rule == other.rule) {
            let rule = group[0].rule;
            let Some(search) = &self.searches[rule as usize] else { continue };
            if !self.filters.searches(rule as usize, path) {
                continue;
            }
            let mut starts = group.iter().map(|own| own.range).collect();
            find_in_ranges(&search.matcher, text, &mut starts, |start, end| {
                matches.push(Match { rule, start: start as u64, end: end as u64 });
            });
        }
        matches
    }
}
