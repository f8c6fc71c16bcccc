//! An automaton as a table of next states, checked.

use thiserror::Error;

/// The largest number of states of an automaton.
pub const STATE_MAX: usize = 32;

/// The largest number of states of an automaton whose steps are shifts.
pub(super) const SHIFT_STATE_MAX: usize = 10;

/// How many bits of a word belong to a state, if steps are shifts. A shift takes its count modulo 64, so these are the
/// only bits of a word that count.
pub(super) const SHIFT_BITS: u32 = 6;

/// Why a table is not an automaton, or a number is not one of its states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TransitionError {
    /// There are no states, or too many.
    #[error("an automaton has 1 to {STATE_MAX} states, not {0}")]
    StateCount(usize),
    /// The table does not have the same number of next states for every state, or it has none.
    #[error("{entries} next states cannot be divided evenly among {states} states")]
    Uneven {
        /// How many entries the table has.
        entries: usize,
        /// How many states there are.
        states: usize,
    },
    /// A byte belongs to a class for which the table has no next states.
    #[error("byte {byte:#04x} belongs to class {class}, but there are {classes} classes")]
    Class {
        /// The byte.
        byte: u8,
        /// Its class.
        class: u8,
        /// How many classes the table has.
        classes: usize,
    },
    /// A next state does not exist.
    #[error("state {state} and class {class} lead to state {next}, but there are {states} states")]
    NextState {
        /// The state.
        state: usize,
        /// The class.
        class: usize,
        /// The next state.
        next: u8,
        /// How many states there are.
        states: usize,
    },
    /// A run cannot begin in a state that does not exist.
    #[error("there is no state {state}: the automaton has {states} states")]
    UnknownState {
        /// The state.
        state: u32,
        /// How many states there are.
        states: usize,
    },
}

/// A deterministic automaton over bytes with at most [`STATE_MAX`] states. All next states exist.
///
/// ```
/// use pelton_scan::composed::TransitionTable;
///
/// // Is the end of a text inside quotes? There are two classes: quotes, and all other bytes.
/// let mut classes = [0; 256];
/// classes[usize::from(b'"')] = 1;
/// let [outside, inside] = [0, 1];
/// let quotes = TransitionTable::new(2, &classes, &[outside, inside, inside, outside])?;
/// assert_eq!(quotes.run_serially(0, br#"say "hello" and "good"#)?, 1);
/// # Ok::<(), pelton_scan::composed::TransitionError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionTable {
    state_count: usize,
    /// The next state for `byte * state_count + state`.
    next: Vec<u8>,
    /// For each byte a word with [`SHIFT_BITS`] bits per state: by how many bits the word of the next byte is to be
    /// shifted. Empty if there are too many states.
    shift_words: Vec<u64>,
}

impl TransitionTable {
    /// Makes an automaton of `state_count` states. Byte `b` belongs to the class `classes[b]`, and `next` has one row of
    /// classes per state: class `c` leads from state `s` to `next[s * class_count + c]`, where `class_count` is the
    /// length of a row.
    ///
    /// # Errors
    ///
    /// The [`TransitionError`] that says what is wrong with the table.
    pub fn new(
        state_count: usize,
        classes: &[u8; 256],
        next: &[u8],
    ) -> Result<TransitionTable, TransitionError> {
        if !(1..=STATE_MAX).contains(&state_count) {
            return Err(TransitionError::StateCount(state_count));
        }
        if next.is_empty() || !next.len().is_multiple_of(state_count) {
            return Err(TransitionError::Uneven { entries: next.len(), states: state_count });
        }
        let class_count = next.len() / state_count;
        if let Some((byte, class)) =
            (0..=255).zip(*classes).find(|(_, class)| usize::from(*class) >= class_count)
        {
            return Err(TransitionError::Class { byte, class, classes: class_count });
        }
        if let Some(at) = next.iter().position(|next| usize::from(*next) >= state_count) {
            let (state, class) = (at / class_count, at % class_count);
            return Err(TransitionError::NextState { state, class, next: next[at], states: state_count });
        }
        let rows = classes.iter().flat_map(|class| {
            let of_state = move |state| next[state * class_count + usize::from(*class)];
            (0..state_count).map(of_state)
        });
        let next: Vec<u8> = rows.collect();
        let shift_words = match state_count <= SHIFT_STATE_MAX {
            true => next.chunks(state_count).map(|row| shift_word(row.iter().copied())).collect(),
            false => Vec::new(),
        };
        Ok(TransitionTable { state_count, next, shift_words })
    }

    /// Returns the number of states. They are numbered from 0 on.
    pub fn state_count(&self) -> usize {
        self.state_count
    }

    /// Returns the next states of all states for a byte.
    pub fn next_states(&self, byte: u8) -> &[u8] {
        &self.next[usize::from(byte) * self.state_count..][..self.state_count]
    }

    /// Runs the automaton over a text, one byte after the other, and returns the state after it.
    ///
    /// # Errors
    ///
    /// [`TransitionError::UnknownState`] if the automaton has no state `from`.
    pub fn run_serially(&self, from: u32, text: &[u8]) -> Result<u32, TransitionError> {
        self.check_state(from)?;
        if let Ok(words) = <&[u64; 256]>::try_from(&self.shift_words[..]) {
            let step = |shift: u64, byte: &u8| words[usize::from(*byte)] >> (shift & 63);
            let shift = text.iter().fold(u64::from(from * SHIFT_BITS), step);
            return Ok((shift & 63) as u32 / SHIFT_BITS);
        }
        let step = |state: u8, byte: &u8| self.next_states(*byte)[usize::from(state)];
        Ok(text.iter().fold(from as u8, step).into())
    }

    /// Returns an error if there is no such state.
    pub(super) fn check_state(&self, state: u32) -> Result<(), TransitionError> {
        let states = self.state_count;
        let exists = (state as usize) < states;
        if exists { Ok(()) } else { Err(TransitionError::UnknownState { state, states }) }
    }
}

/// The word of a byte, if steps are shifts: for each state by how many bits the word of the next byte is to be shifted.
pub(super) fn shift_word(next_states: impl Iterator<Item = u8>) -> u64 {
    let fields = (0..).zip(next_states).map(|(state, next)| {
        let shift = u64::from(next) * u64::from(SHIFT_BITS);
        shift << (state * SHIFT_BITS)
    });
    fields.fold(0, |word, field| word | field)
}
