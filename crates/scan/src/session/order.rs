//! The order in which the states of an automaton stand in an image: those first that are visited most often.
//!
//! The handler keeps the first rows in a group's own memory, which is much faster than the caches for lanes that each
//! read another word. How often a state is visited is estimated: bytes are taken to be independent of each other, with
//! the frequencies that they have in source code.

use crate::catalog::FactorTable;

/// How many bytes the estimate reads. Literals have at most 16 bytes, and later bytes change next to nothing.
const STEPS: usize = 24;

/// How often bytes occur in source code, in parts per 10,000: groups of bytes that are about equally frequent.
const FREQUENCIES: [(&[u8], u32); 9] = [
    (b" ", 1700),
    (b"e", 650),
    (b"rstn", 450),
    (b"aiol", 400),
    (b"cdfmup", 230),
    (b"_\nbghy0", 170),
    (b"(),.:;=/-*12&<>\"vkwx", 90),
    (b"3456789{}[]'#!SIETACRNDLPO", 45),
    (b"jqzUMFBVKGHWXYZQJ+?@\\|$%^`~\t\r", 15),
];

/// The order of the states of an automaton.
pub(super) struct StateOrder {
    /// The states in their new order.
    pub states: Vec<u32>,
    places: Vec<u32>,
}

impl StateOrder {
    /// Puts the initial state first, accepting states last and in their order, and all others by how often they are
    /// visited.
    pub(super) fn new(table: &FactorTable) -> StateOrder {
        let weights = visits(table);
        let mut states: Vec<u32> = (0..table.state_count).collect();
        let others = 1.min(table.first_accepting as usize)..table.first_accepting as usize;
        let weight = |state: &u32| weights[*state as usize];
        states[others].sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let mut places = vec![0; states.len()];
        for (place, state) in (0..).zip(&states) {
            places[*state as usize] = place;
        }
        StateOrder { states, places }
    }

    /// The new number of a state.
    pub(super) fn place(&self, state: u16) -> u32 {
        self.places[usize::from(state)]
    }
}

/// How likely it is that an automaton is in each of its states.
fn visits(table: &FactorTable) -> Vec<f64> {
    let classes = table.class_count as usize;
    // Bytes that are not listed are rare.
    let mut likely = vec![0.0; classes];
    let mut bytes = [1.0; 256];
    for (group, frequency) in FREQUENCIES {
        group.iter().for_each(|byte| bytes[usize::from(*byte)] = f64::from(frequency));
    }
    let all: f64 = bytes.iter().sum();
    for (byte, class) in table.classes.iter().enumerate() {
        likely[usize::from(*class)] += bytes[byte] / all;
    }
    let mut now = vec![0.0; table.state_count as usize];
    now[0] = 1.0;
    for _ in 0..STEPS {
        let mut next = vec![0.0; now.len()];
        for (row, weight) in table.next.chunks_exact(classes).zip(&now).filter(|(_, weight)| **weight > 0.0) {
            for (target, likely) in row.iter().zip(&likely) {
                next[usize::from(*target)] += weight * likely;
            }
        }
        now = next;
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_state_is_first_and_accepting_states_keep_their_places() {
        // Four states over two classes: state 1 is rare, state 2 is frequent, and state 3 accepts.
        let mut classes = vec![0; 256];
        classes[usize::from(b'~')] = 1;
        let table = FactorTable {
            classes,
            class_count: 2,
            state_count: 4,
            first_accepting: 3,
            next: vec![2, 1, 2, 1, 0, 1, 2, 3],
            output_rows: vec![0, 0],
            outputs: Vec::new(),
        };
        let order = StateOrder::new(&table);
        assert_eq!(order.states, [0, 2, 1, 3]);
        assert_eq!([0, 1, 2, 3].map(|state| order.place(state)), [0, 2, 1, 3]);
    }
}
