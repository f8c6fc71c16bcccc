//! Which states of a window are superfluous beside which others.
//!
//! A window answers *maybe* at the first match, whatever follows. So in `[a-z]{40}`, a state that has 10 letters behind
//! it can be left out where another has 20: whenever the first one comes to a match, the other one came to one before. It
//! is said to *dominate* the first one. Without dominated states, far fewer sets of states differ.

use regex_automata::nfa::thompson::NFA;
use regex_automata::util::primitives::StateID;

/// The largest number of states for which it is found out which dominate which. The time grows with its square.
const STATES_MAX: usize = 320;

/// What a state leads to with one byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reached {
    /// A match.
    Match,
    /// These states, each of which reads a byte.
    States(Vec<StateID>),
}

/// A relation between the states of an automaton that read a byte.
#[derive(Debug)]
pub(super) struct Dominance {
    /// The row of each state that reads a byte.
    rows: Vec<usize>,
    /// For each row the set of the states that dominate it, each state being a bit.
    above: BitRows,
}

impl Dominance {
    /// Finds out which states dominate which others, unless there are too many states. `readers` are the states that
    /// read a byte, `representatives` has a byte of each class, and `reached` says what a state leads to with a byte.
    ///
    /// This is the largest relation with the following property: if `q` dominates `p`, then wherever a byte leads `p`,
    /// it leads `q` to a match or to a state that dominates that one.
    pub(super) fn find(
        nfa: &NFA,
        readers: &[StateID],
        representatives: &[u8],
        mut reached: impl FnMut(StateID, u8) -> Reached,
    ) -> Option<Dominance> {
        let count = readers.len();
        if count > STATES_MAX {
            return None;
        }
        let mut rows = vec![usize::MAX; nfa.states().len()];
        for (row, state) in readers.iter().enumerate() {
            rows[state.as_usize()] = row;
        }
        let mut steps: Vec<ByteSteps> = representatives
            .iter()
            .map(|&byte| ByteSteps::new(count, |row| reached(readers[row], byte), &rows))
            .collect();
        let mut above = BitRows::new(count, count);
        (0..count).for_each(|row| above.row_mut(row).fill(u64::MAX));
        let mut allowed = vec![0; above.width];
        let mut changed = true;
        while changed {
            changed = false;
            // States are numbered from the left to the right of an expression, and what one dominates depends on those
            // to the right of it.
            for row in (0..count).rev() {
                allowed.copy_from_slice(above.row(row));
                steps.iter_mut().for_each(|step| step.restrict(row, &above, &mut allowed));
                if intersect(above.row_mut(row), &allowed) {
                    changed = true;
                    steps.iter_mut().for_each(|step| step.leading[row] = None);
                }
            }
        }
        Some(Dominance { rows, above })
    }

    /// Removes the states of a set that another one of them dominates. The others keep their order.
    pub(super) fn prune(&self, members: &mut Vec<StateID>) {
        let mut set = [0u64; STATES_MAX.div_ceil(64)];
        let bit = |state: StateID| {
            let row = self.rows[state.as_usize()];
            (row, row / 64, 1 << (row % 64))
        };
        for &state in members.iter() {
            let (_, word, mask) = bit(state);
            set[word] |= mask;
        }
        members.retain(|&state| {
            let (row, word, mask) = bit(state);
            set[word] &= !mask;
            let dominated = self.above.row(row).iter().zip(&set).any(|(above, set)| above & set != 0);
            // Of two that dominate each other one is left, because those that were removed do not count.
            if !dominated {
                set[word] |= mask;
            }
            !dominated
        });
    }
}

/// What all states do with the bytes of one class.
struct ByteSteps {
    /// The rows of the states that a state leads to; `None` for a match.
    targets: Vec<Option<Vec<usize>>>,
    /// For each row the states that lead to it.
    sources: BitRows,
    /// The states that lead to a match.
    matching: Vec<u64>,
    /// For each row the states that lead to a match or to a state that dominates it, as far as this is known.
    leading: Vec<Option<Vec<u64>>>,
}

impl ByteSteps {
    fn new(count: usize, mut reached: impl FnMut(usize) -> Reached, rows: &[usize]) -> ByteSteps {
        let mut sources = BitRows::new(count, count);
        let mut matching = vec![0; sources.width];
        let targets = (0..count)
            .map(|row| match reached(row) {
                Reached::Match => {
                    matching[row / 64] |= 1 << (row % 64);
                    None
                }
                Reached::States(states) => {
                    let targets: Vec<usize> = states.iter().map(|state| rows[state.as_usize()]).collect();
                    for &target in &targets {
                        sources.row_mut(target)[row / 64] |= 1 << (row % 64);
                    }
                    Some(targets)
                }
            })
            .collect();
        ByteSteps { targets, sources, matching, leading: vec![None; count] }
    }

    /// Removes the states from `allowed` that do not dominate a state, because they do not follow it with these bytes.
    fn restrict(&mut self, row: usize, above: &BitRows, allowed: &mut [u64]) {
        match &self.targets[row] {
            None => {
                intersect(allowed, &self.matching);
            }
            Some(targets) => {
                for &target in targets {
                    let leading = self.leading[target]
                        .get_or_insert_with(|| lead_to(&self.sources, &self.matching, above.row(target)));
                    intersect(allowed, leading);
                }
            }
        }
    }
}

/// Returns the states that lead to a match or to a state of a set.
fn lead_to(sources: &BitRows, matching: &[u64], set: &[u64]) -> Vec<u64> {
    let mut leading = matching.to_vec();
    for (row, source) in sources.words.chunks_exact(sources.width).enumerate() {
        if set[row / 64] >> (row % 64) & 1 == 1 {
            leading.iter_mut().zip(source).for_each(|(word, more)| *word |= more);
        }
    }
    leading
}

/// Keeps what two sets have in common. Returns whether the first one has changed.
fn intersect(set: &mut [u64], other: &[u64]) -> bool {
    let mut changed = false;
    for (word, other) in set.iter_mut().zip(other) {
        changed |= *word & !other != 0;
        *word &= other;
    }
    changed
}

/// Rows of bits.
#[derive(Debug)]
struct BitRows {
    width: usize,
    words: Vec<u64>,
}

impl BitRows {
    fn new(rows: usize, bits: usize) -> BitRows {
        let width = bits.div_ceil(64);
        BitRows { width, words: vec![0; rows * width] }
    }
    fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.width..][..self.width]
    }
    fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.words[row * self.width..][..self.width]
    }
}
