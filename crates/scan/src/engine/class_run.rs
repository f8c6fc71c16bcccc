//! Searching runs of bytes of one class.
//!
//! A run of `n` bytes contains at least `n / s` of the positions that are multiples of `s`. So only every `s`th byte of a
//! text is looked at, and the run itself is measured only where several of these bytes in a row belong to the class. All
//! runs are searched for together: each has a few bits of one word, in which a bit moves up with every byte that belongs
//! to the class.

use std::ops::Range;

use crate::candidate::Candidate;
use crate::catalog::ClassRun;

/// The largest distance between bytes that are looked at.
const STRIDE_MAX: usize = 16;

/// Runs that are searched together.
#[derive(Debug)]
pub(super) struct RunGroup {
    /// The distance between the bytes that are looked at.
    stride: usize,
    /// For each byte the bits of the runs to whose class it belongs.
    members: Box<[u64; 256]>,
    /// The lowest bit of each run.
    lowest: u64,
    /// The highest bit of each run, which says that enough bytes in a row belong to the class.
    highest: u64,
    /// The runs, with their highest bits.
    runs: Vec<(u64, ClassRun)>,
}

/// Puts runs into as few groups as the bits of a word allow.
pub(super) fn group_runs(runs: &[ClassRun]) -> Vec<RunGroup> {
    let mut sorted = runs.to_vec();
    sorted.sort_by_key(|run| (choose_stride(run), run.length));
    let mut groups: Vec<RunGroup> = Vec::new();
    for run in &sorted {
        if !groups.last_mut().is_some_and(|group| group.add(run)) {
            let mut group = RunGroup {
                stride: choose_stride(run),
                members: Box::new([0; 256]),
                lowest: 0,
                highest: 0,
                runs: Vec::new(),
            };
            group.add(run);
            groups.push(group);
        }
    }
    groups
}

/// Returns the number of bytes in a row that should belong to the class before a run is measured, so that few places
/// are measured in vain.
fn wanted_probes(run: &ClassRun) -> u32 {
    let share: f64 = (0..=255u8).filter(|&byte| run.class.contains(byte)).map(byte_share).sum();
    match share {
        ..0.08 => 2,
        ..0.3 => 4,
        _ => 8,
    }
}

/// Chooses the distance between the bytes that are looked at.
fn choose_stride(run: &ClassRun) -> usize {
    ((run.length / wanted_probes(run)) as usize).clamp(1, STRIDE_MAX)
}

/// The share of a byte in texts, roughly.
fn byte_share(byte: u8) -> f64 {
    match byte {
        b'a'..=b'z' => 0.6 / 26.0,
        b'A'..=b'Z' => 0.06 / 26.0,
        b'0'..=b'9' => 0.06 / 10.0,
        b' ' => 0.15,
        b'\n' => 0.03,
        b'!'..=b'~' => 0.1 / 32.0,
        _ => 0.001,
    }
}

impl RunGroup {
    /// Adds a run whose own distance is not below the group's, unless no bits are left for it.
    fn add(&mut self, run: &ClassRun) -> bool {
        let probes = (run.length / self.stride as u32).clamp(1, 2 * wanted_probes(run));
        let used = u64::BITS - self.highest.leading_zeros();
        if used + probes > u64::BITS {
            return false;
        }
        let bits = (u64::MAX >> (u64::BITS - probes)) << used;
        let highest = 1 << (used + probes - 1);
        for byte in (0..=255u8).filter(|&byte| run.class.contains(byte)) {
            self.members[usize::from(byte)] |= bits;
        }
        self.lowest |= 1 << used;
        self.highest |= highest;
        self.runs.push((highest, *run));
        true
    }

    /// Appends the candidates of all runs: every position at which a part can begin whose first `length` bytes all
    /// belong to the class and end in `own`. Neighbouring positions are one candidate.
    ///
    /// So a long run that lies in several pieces of an input is divided among them, without gaps, and what a piece
    /// reports depends on nothing but the piece and the `length - 1` bytes before it.
    pub(super) fn find(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        let longest = self.runs.iter().map(|(_, run)| run.length as usize).max().unwrap_or(1);
        let start = own.start.saturating_sub(longest - 1);
        let text = &text[..own.end];
        // For each run the position before which it was measured.
        let mut measured = vec![0; self.runs.len()];
        let mut counts = 0;
        for (number, &byte) in text[start..].iter().step_by(self.stride).enumerate() {
            // What moves out of a run's highest bit gets into the lowest bit of the next run, which is set anyway.
            counts = (counts << 1 | self.lowest) & self.members[usize::from(byte)];
            if counts & self.highest != 0 {
                let place = start + number * self.stride;
                self.measure(counts, text, own.start, place, &mut measured, out);
            }
        }
    }

    /// Measures the runs whose highest bit is set in `counts` around a place, and appends those that are long enough.
    #[cold]
    fn measure(
        &self,
        counts: u64,
        text: &[u8],
        own_start: usize,
        place: usize,
        measured: &mut [usize],
        out: &mut Vec<Candidate>,
    ) {
        for ((highest, run), measured) in self.runs.iter().zip(measured) {
            // Nothing that begins before this position ends in the engine's own part of the text.
            let low = own_start.saturating_sub(run.length as usize - 1).max(*measured);
            if counts & highest == 0 || place < low {
                continue;
            }
            let outside = |byte: &u8| !run.class.contains(*byte);
            let first = text[low..place].iter().rposition(outside).map_or(low, |at| low + at + 1);
            let end = text[place..].iter().position(outside).map_or(text.len(), |at| place + at);
            *measured = end;
            if let Some(last) = end.checked_sub(run.length as usize).filter(|&last| last >= first) {
                out.push(Candidate { first: first as u32, last: last as u32, branch: run.branch });
            }
        }
    }
}
