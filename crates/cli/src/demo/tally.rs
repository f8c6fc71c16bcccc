//! Sums up the results of tasks.

use std::collections::BTreeMap;

use pelton::Opcode;

use super::kernel::{MIX, SUM};

/// The number of mistakes that are described.
const TOLD: usize = 3;

/// The opcodes, with how their results are checked.
pub(super) const ROWS: [(Opcode, &str); 11] = [
    (Opcode::ATOMIC_ADD, "every count is returned once, and the last is in memory"),
    (Opcode::STORE_U32, "every word of memory at the end"),
    (Opcode::LOAD_U32, "every result recomputed, and the observables at the end"),
    (Opcode::COMPARE_SWAP, "every result recomputed, and memory at the end"),
    (Opcode::MEMCPY, "every word of memory at the end"),
    (MIX, "every result recomputed"),
    (SUM, "every result recomputed; a whole group runs each"),
    (Opcode::PACKED_SLOT, "the last result recomputed, and memory at the end"),
    (Opcode::BATCH_FENCE, "every epoch is returned once, by the sums of epochs and of squares"),
    (Opcode::PRINTF, "every line is read, or counted as lost"),
    (Opcode::NOP, "none was submitted"),
];

/// The results of a feeder's tasks, or of all feeders' tasks.
#[derive(Clone, Default)]
pub(super) struct Tally {
    /// The number of tasks that the kernel must have counted, in the order of `ROWS`.
    pub ran: [u64; ROWS.len()],
    /// The number of faults, by description.
    pub faults: BTreeMap<String, u64>,
    /// The epochs that fences returned: their number, their sum, and the sum of their squares.
    pub epochs: [u128; 3],
    /// The number of printed lines.
    pub printed: u64,
    /// The number of wrong results, and the descriptions of the first few.
    pub wrong: u64,
    pub wrongs: Vec<String>,
}

impl Tally {
    /// Counts a task of an opcode.
    pub(super) fn ran(&mut self, op: Opcode) {
        if let Some(at) = ROWS.iter().position(|row| row.0 == op) {
            self.ran[at] += 1;
        }
    }

    /// Records a mistake.
    pub(super) fn wrong(&mut self, what: String) {
        self.wrong += 1;
        if self.wrongs.len() < TOLD {
            self.wrongs.push(what);
        }
    }

    /// Adds the results of another tally.
    pub(super) fn add(&mut self, other: Tally) {
        self.ran.iter_mut().zip(other.ran).for_each(|(sum, more)| *sum += more);
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        self.epochs.iter_mut().zip(other.epochs).for_each(|(sum, more)| *sum += more);
        self.printed += other.printed;
        self.wrong += other.wrong;
        self.wrongs.extend(other.wrongs);
        self.wrongs.truncate(TOLD);
    }
}
