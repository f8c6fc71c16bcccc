//! Maps from states to states, which say what a piece of text does to an automaton.

use super::transitions::{STATE_MAX, TransitionTable};

/// What a piece of text does to an automaton: for each state in which it may enter the piece, the state in which it
/// leaves it.
///
/// ```
/// use pelton_scan::composed::{StateMap, TransitionTable};
///
/// let mut classes = [0; 256];
/// classes[usize::from(b'"')] = 1;
/// let quotes = TransitionTable::new(2, &classes, &[0, 1, 1, 0])?;
/// let [first, second] = [&b"one \"two"[..], b" three\" four"].map(|text| StateMap::of_text(&quotes, text));
/// assert_eq!(first.leaving_states(), [1, 0]);
/// assert_eq!(first.followed_by(&second), StateMap::of_text(&quotes, b"one \"two three\" four"));
/// # Ok::<(), pelton_scan::composed::TransitionError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateMap {
    /// The states in which the automaton leaves the piece. Those beyond the last state of the automaton are themselves.
    leaves_in: [u8; STATE_MAX],
    state_count: usize,
}

impl StateMap {
    /// Returns the map of an empty piece, which changes no state.
    pub fn identity(table: &TransitionTable) -> StateMap {
        StateMap { leaves_in: std::array::from_fn(|state| state as u8), state_count: table.state_count() }
    }

    /// Runs an automaton over a piece from all of its states.
    pub fn of_text(table: &TransitionTable, text: &[u8]) -> StateMap {
        let mut map = StateMap::identity(table);
        for byte in text {
            let next = table.next_states(*byte);
            map.leaves_in[..map.state_count].iter_mut().for_each(|state| *state = next[usize::from(*state)]);
        }
        map
    }

    /// Returns the map of this piece followed by another one of the same automaton.
    pub fn followed_by(&self, later: &StateMap) -> StateMap {
        StateMap { leaves_in: self.leaves_in.map(|state| later.leaves_in[usize::from(state)]), ..*self }
    }

    /// Returns, for each state in which the automaton may enter the piece, the state in which it leaves it.
    pub fn leaving_states(&self) -> &[u8] {
        &self.leaves_in[..self.state_count]
    }
}
