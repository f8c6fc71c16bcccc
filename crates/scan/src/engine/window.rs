//! Running the windows of stage two over text, several at once.
//!
//! A step of a window waits for a load that depends on the step before, like a step of stage one. So hits are collected
//! first, and then several windows take turns.

use crate::candidate::Candidate;
use crate::catalog::{Catalog, FactorOutput, WINDOW_MAYBE, WINDOW_START, WindowInfo, WindowTables};
use crate::factor::LITERAL_MAX;

/// The number of windows that take turns. More of them would need more registers than processors have.
const LANES: usize = 4;

/// The number of bytes that a window reads in its turn. What it reads after its answer does not change the answer,
/// because the states *no* and *maybe* are never left.
const TURN: usize = 8;

/// Returns the hit of an output, which is a candidate if its window answers *maybe*, or `None` if the literal does not
/// agree in case. `end` is the position of the literal's last byte.
#[inline]
pub(super) fn literal_hit(text: &[u8], end: usize, output: &FactorOutput) -> Option<Candidate> {
    let first = (end + 1).checked_sub(output.back as usize)? as u32;
    agrees(output, text, end).then_some(Candidate { first, last: first, branch: output.branch })
}

/// Returns whether the bytes that end at `end` are those of the literal, with its case.
#[inline]
fn agrees(output: &FactorOutput, text: &[u8], end: usize) -> bool {
    let mut bytes = [0; LITERAL_MAX];
    match (end + 1).checked_sub(LITERAL_MAX) {
        Some(start) => bytes.copy_from_slice(&text[start..=end]),
        // Before the text there is nothing, and the literal does not begin there, so these bytes are not compared.
        None => bytes[LITERAL_MAX - 1 - end..].copy_from_slice(&text[..=end]),
    }
    u128::from_ne_bytes(bytes) & u128::from_ne_bytes(output.mask) == u128::from_ne_bytes(output.value)
}

/// Removes those of the hits from `start` on whose windows answer *no*. The others keep their order.
pub(super) fn keep_allowed(catalog: &Catalog, text: &[u8], hits: &mut Vec<Candidate>, start: usize) {
    let tables = catalog.windows();
    let mut allowed = vec![true; hits.len() - start];
    let mut waiting = (0..).zip(&hits[start..]).filter_map(|(hit, candidate)| {
        let window = &tables.windows[candidate.branch as usize];
        (window.class_count != 0).then(|| WindowLane::new(window, candidate.first as usize, text, hit))
    });
    let mut lanes: Vec<WindowLane> = waiting.by_ref().take(LANES).collect();
    if let Ok(lanes) = <&mut [WindowLane; LANES]>::try_from(lanes.as_mut_slice()) {
        take_turns(tables, text, lanes, &mut waiting, &mut allowed);
    }
    for lane in lanes {
        allowed[lane.hit] = lane.finish(tables, text);
    }
    let mut kept = start;
    for (hit, _) in (start..).zip(allowed).filter(|(_, allowed)| *allowed) {
        hits[kept] = hits[hit];
        kept += 1;
    }
    hits.truncate(kept);
}

/// Runs windows in turns until none waits any more. The ones that are left in `lanes` have yet to be finished.
fn take_turns(
    tables: &WindowTables,
    text: &[u8],
    lanes: &mut [WindowLane; LANES],
    waiting: &mut impl Iterator<Item = WindowLane>,
    allowed: &mut [bool],
) {
    loop {
        for lane in lanes.iter_mut() {
            while lane.state < usize::from(WINDOW_START) || lane.at + TURN > lane.end {
                let Some(next) = waiting.next() else { return };
                let done = std::mem::replace(lane, next);
                allowed[done.hit] = done.finish(tables, text);
            }
        }
        let mut words: [u64; LANES] = std::array::from_fn(|lane| {
            let at = lanes[lane].at;
            u64::from_le_bytes(text[at..at + TURN].try_into().expect("the range has this length"))
        });
        let mut states: [usize; LANES] = std::array::from_fn(|lane| lanes[lane].state);
        for _ in 0..TURN {
            for lane in 0..LANES {
                states[lane] = lanes[lane].step(tables, states[lane], words[lane] as u8);
                words[lane] >>= 8;
            }
        }
        for (lane, state) in lanes.iter_mut().zip(states) {
            lane.state = state;
            lane.at += TURN;
        }
    }
}

/// A window that has read a part of its text.
#[derive(Clone, Copy, Debug)]
struct WindowLane {
    /// The number of the hit to which it belongs.
    hit: usize,
    /// The position of the next byte.
    at: usize,
    /// The position before which the window ends.
    end: usize,
    state: usize,
    /// The place of its automaton in the tables.
    base: usize,
    width: usize,
    classes: usize,
    /// Whether the answer at the end is *maybe*.
    at_end: bool,
}

impl WindowLane {
    #[inline]
    fn new(window: &WindowInfo, first: usize, text: &[u8], hit: usize) -> WindowLane {
        let (rest, limit) = (text.len() - first, window.limit as usize);
        WindowLane {
            hit,
            at: first,
            end: first + rest.min(limit),
            state: usize::from(WINDOW_START),
            base: window.base as usize,
            width: window.class_count as usize,
            classes: window.class_map as usize * 256,
            at_end: rest < limit || window.at_limit,
        }
    }

    /// Returns the state after a byte. `state` must be the initial one or one that this returned, for the same window.
    #[inline(always)]
    fn step(&self, tables: &WindowTables, state: usize, byte: u8) -> usize {
        // SAFETY: a catalog is valid, so every window has a map of 256 bytes.
        let class = unsafe { *tables.classes.get_unchecked(self.classes + usize::from(byte)) };
        let entry = self.base + state * self.width + usize::from(class);
        // SAFETY: a catalog is valid, so the class is less than the width, and the state, which is the initial one or
        // an entry of the same automaton, has a row in it.
        usize::from(unsafe { *tables.next.get_unchecked(entry) })
    }

    /// Reads the rest of the text. Returns whether the answer is *maybe*.
    #[inline]
    fn finish(&self, tables: &WindowTables, text: &[u8]) -> bool {
        let mut state = self.state;
        for &byte in &text[self.at..self.end] {
            if state < usize::from(WINDOW_START) {
                break;
            }
            state = self.step(tables, state, byte);
        }
        state == usize::from(WINDOW_MAYBE) || (state >= usize::from(WINDOW_START) && self.at_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::oracle::{FragmentRandom, literal, literal_rule, run_rule, walk_window};

    #[test]
    fn windows_that_take_turns_answer_like_windows_alone() {
        let rules = [
            literal_rule(&[literal("k", 0)], r"k[a-c]{2,30}x"),
            literal_rule(&[literal("k", 0)], r"(?s)k.{0,20}ab"),
            literal_rule(&[literal("k", 0)], r"k[a-ck]*="),
            literal_rule(&[literal("k", 0)], r"k.?"),
            run_rule("abc", 3),
        ];
        let catalog = Catalog::build(&rules).unwrap();
        let mut random = FragmentRandom(7);
        let (mut kept, mut denied) = (0, 0);
        for round in 0..400 {
            let len = 1 + random.below(900);
            let text = random.text(&["k", "a", "bc", "abcabcabc", "x", "=", "\n"], len).to_ascii_lowercase();
            let firsts: Vec<usize> = (0..len).filter(|&at| at % 40 == 0 || text[at] == b'k').collect();
            let mut hits: Vec<Candidate> = (0..random.below(1 + round % 90))
                .map(|_| {
                    let first = firsts[random.below(firsts.len())] as u32;
                    Candidate { first, last: first, branch: random.below(rules.len()) as u32 }
                })
                .collect();
            let start = random.below(hits.len() + 1);
            let allows = |hit: &Candidate| walk_window(&catalog, hit.branch, &text[hit.first as usize..]);
            let mut expected = hits[..start].to_vec();
            expected.extend(hits[start..].iter().filter(|hit| allows(hit)));
            denied += hits.len() - expected.len();
            kept += expected.len() - start;
            keep_allowed(&catalog, &text, &mut hits, start);
            assert_eq!(hits, expected, "from {start} in {:?}", text.escape_ascii());
        }
        assert!(kept > 1000 && denied > 1000, "{kept} kept, {denied} denied");
    }
}
