//! What came of the tasks, summed up.

use std::collections::BTreeMap;

use pelton::Opcode;

use super::kernel::{MIX, SUM};

/// How many things that are wrong are told.
const TOLD: usize = 3;

/// Opcodes, and how what they did is checked.
pub const ROWS: [(Opcode, &str); 11] = [
    (Opcode::ATOMIC_ADD, "every count is found once, and the last is in memory"),
    (Opcode::STORE_U32, "every word of memory, at the end"),
    (Opcode::LOAD_U32, "every result recomputed, and the observables at the end"),
    (Opcode::COMPARE_SWAP, "every result recomputed, and memory at the end"),
    (Opcode::MEMCPY, "every word of memory, at the end"),
    (MIX, "every result recomputed"),
    (SUM, "every result recomputed; a whole group runs each"),
    (Opcode::PACKED_SLOT, "the last result recomputed, memory at the end"),
    (Opcode::BATCH_FENCE, "every epoch is found once: their sum, and that of their squares"),
    (Opcode::PRINTF, "lines read, or counted as lost"),
    (Opcode::NOP, "none was submitted"),
];

/// What was asked for, and what came.
#[derive(Clone, Default)]
pub struct Tally {
    /// Runs that the kernel must have counted, in the order of `ROWS`.
    pub ran: [u64; ROWS.len()],
    /// Faults, by what they say.
    pub faults: BTreeMap<String, u64>,
    /// Epochs that fences found: how many, their sum, and the sum of their squares.
    pub epochs: [u128; 3],
    /// Printed lines.
    pub printed: u64,
    /// Results that are not what they must be, and the first few of them.
    pub wrong: u64,
    pub wrongs: Vec<String>,
}

impl Tally {
    /// Counts a run.
    pub fn ran(&mut self, op: Opcode) {
        if let Some(at) = ROWS.iter().position(|row| row.0 == op) {
            self.ran[at] += 1;
        }
    }

    /// Takes note of something wrong.
    pub fn wrong(&mut self, what: String) {
        self.wrong += 1;
        if self.wrongs.len() < TOLD {
            self.wrongs.push(what);
        }
    }

    /// Adds another's.
    pub fn add(&mut self, other: Tally) {
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
