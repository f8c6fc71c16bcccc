//! Making a window automaton as small as possible.

use rustc_hash::FxHashMap;

use super::determinize::WindowAutomaton;
use super::tables::{WINDOW_NO, WINDOW_START, WINDOW_YES};

/// Merges states that no text tells apart, and then byte classes that no state tells apart.
pub(super) fn minimize(automaton: &WindowAutomaton) -> WindowAutomaton {
    merge_classes(&merge_states(automaton))
}

/// Merges states by refinement: states are together as long as equal bytes lead them to states that are together.
fn merge_states(automaton: &WindowAutomaton) -> WindowAutomaton {
    let (count, width) = (automaton.state_count(), automaton.class_count);
    // At first only `WINDOW_YES` is apart, so states from which it cannot be reached end up with `WINDOW_NO`.
    let mut block: Vec<u16> = (0..count).map(|state| u16::from(state == usize::from(WINDOW_YES))).collect();
    let mut block_count = 2;
    let mut signature = Vec::with_capacity(width + 1);
    loop {
        let mut numbers: FxHashMap<Vec<u16>, u16> = FxHashMap::default();
        let mut refined = Vec::with_capacity(count);
        for state in 0..count {
            signature.clear();
            signature.push(block[state]);
            signature.extend(
                automaton.next[state * width..][..width].iter().map(|&next| block[usize::from(next)]),
            );
            let fresh = numbers.len() as u16;
            let number = match numbers.get(&signature) {
                Some(&number) => number,
                None => *numbers.entry(signature.clone()).or_insert(fresh),
            };
            refined.push(number);
        }
        // Numbers are given in the order of states, so the first states keep the first numbers.
        let settled = numbers.len() == block_count;
        (block, block_count) = (refined, numbers.len());
        if settled {
            break;
        }
    }
    // The beginning keeps a state of its own, even if nothing can match.
    if block[usize::from(WINDOW_START)] == WINDOW_NO {
        let next = [vec![WINDOW_NO; width], vec![WINDOW_YES; width], vec![WINDOW_NO; width]].concat();
        return WindowAutomaton { next, ..automaton.clone() };
    }
    let mut next = Vec::with_capacity(block_count * width);
    for (state, &number) in block.iter().enumerate() {
        if usize::from(number) * width == next.len() {
            next.extend(
                automaton.next[state * width..][..width].iter().map(|&next| block[usize::from(next)]),
            );
        }
    }
    WindowAutomaton { next, ..automaton.clone() }
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
