//! Making a window automaton as small as possible.

use rustc_hash::FxHashMap;

use super::determinize::WindowAutomaton;
use super::tables::{WINDOW_MAYBE, WINDOW_NO, WINDOW_START};

/// Merges states that no text tells apart, and then byte classes that no state tells apart. Returns `None` if more than
/// `state_max` states are left.
pub(super) fn minimize(automaton: &WindowAutomaton, state_max: usize) -> Option<WindowAutomaton> {
    let block = merge_states(automaton, state_max)?;
    let width = automaton.class_count;
    // The beginning keeps a state of its own, even if nothing can match.
    if block[usize::from(WINDOW_START)] == WINDOW_NO {
        let next = [vec![WINDOW_NO; width], vec![WINDOW_MAYBE; width], vec![WINDOW_NO; width]].concat();
        return Some(merge_classes(&WindowAutomaton { next, ..automaton.clone() }));
    }
    let mut next = Vec::new();
    for (state, &number) in block.iter().enumerate() {
        if usize::from(number) * width == next.len() {
            let row = &automaton.next[state * width..][..width];
            next.extend(row.iter().map(|&next| block[usize::from(next)]));
        }
    }
    Some(merge_classes(&WindowAutomaton { next, ..automaton.clone() }))
}

/// Divides states into blocks that no text tells apart, and returns the number of each state's block. Blocks are numbered
/// in the order of their first states, so the first states keep their numbers.
///
/// Only [`WINDOW_MAYBE`] is apart at first, so states from which it cannot be reached end up with [`WINDOW_NO`]. A block is
/// divided where a byte leads its states to different blocks, until there is none.
fn merge_states(automaton: &WindowAutomaton, state_max: usize) -> Option<Vec<u16>> {
    let (count, width) = (automaton.state_count(), automaton.class_count);
    let mut block: Vec<u16> = (0..count).map(|state| u16::from(state == usize::from(WINDOW_MAYBE))).collect();
    let mut refined = block.clone();
    let mut numbers: FxHashMap<(u16, u16), u16> = FxHashMap::default();
    let mut block_count = 2;
    loop {
        let before = block_count;
        for class in 0..width {
            numbers.clear();
            for state in 0..count {
                let next = block[usize::from(automaton.next[state * width + class])];
                let fresh = numbers.len() as u16;
                refined[state] = *numbers.entry((block[state], next)).or_insert(fresh);
            }
            block_count = numbers.len();
            if block_count > state_max {
                return None;
            }
            std::mem::swap(&mut block, &mut refined);
        }
        if block_count == before {
            return Some(block);
        }
    }
}

/// Merges byte classes whose bytes lead every state to the same states.
fn merge_classes(automaton: &WindowAutomaton) -> WindowAutomaton {
    let width = automaton.class_count;
    let mut numbers: FxHashMap<Vec<u16>, usize> = FxHashMap::default();
    let mut kept = Vec::new();
    let merged: Vec<u8> = (0..width)
        .map(|class| {
            let column = automaton.next.iter().skip(class).step_by(width).copied().collect();
            let fresh = numbers.len();
            let number = *numbers.entry(column).or_insert(fresh);
            if number == kept.len() {
                kept.push(class);
            }
            number as u8
        })
        .collect();
    WindowAutomaton {
        classes: Box::new(automaton.classes.map(|class| merged[usize::from(class)])),
        class_count: kept.len(),
        next: automaton.next.chunks(width).flat_map(|row| kept.iter().map(|&class| row[class])).collect(),
    }
}
