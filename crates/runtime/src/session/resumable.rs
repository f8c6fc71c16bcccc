//! The opcodes whose tasks live in cells. Producers look here at every submit, so nothing locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::protocol::Opcode;

/// How many opcodes a block of the list has room for.
const BLOCK: usize = 32;

/// No handler can have this opcode, so it marks the end of the list.
const NONE: u32 = u32::MAX;

/// A list of opcodes that only grows. One thread adds to it at a time, and any number of threads look at it.
#[derive(Debug)]
pub(super) struct ResumableOps {
    ops: [AtomicU32; BLOCK],
    more: OnceLock<Box<ResumableOps>>,
}

impl ResumableOps {
    /// Makes a list of these opcodes.
    pub(super) fn new(ops: &[Opcode]) -> Self {
        let list = ResumableOps { ops: [const { AtomicU32::new(NONE) }; BLOCK], more: OnceLock::new() };
        list.add(ops);
        list
    }

    /// Whether an opcode is in the list.
    #[inline]
    pub(super) fn contains(&self, op: Opcode) -> bool {
        for known in &self.ops {
            // Relaxed: a new opcode is added before the session has the kernel in which threads look it up, behind a lock.
            let known = known.load(Ordering::Relaxed);
            if known == op.code() || known == NONE {
                return known != NONE;
            }
        }
        self.more.get().is_some_and(|more| more.contains(op))
    }

    /// Adds the opcodes that are not in the list yet. Only one thread may do so at a time.
    pub(super) fn add(&self, ops: &[Opcode]) {
        for op in ops.iter().filter(|op| !self.contains(**op)) {
            match self.ops.iter().find(|known| known.load(Ordering::Relaxed) == NONE) {
                Some(free) => free.store(op.code(), Ordering::Relaxed),
                None => self.more.get_or_init(|| Box::new(ResumableOps::new(&[]))).add(&[*op]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_grows_and_keeps_what_it_has() {
        let op = Opcode::from_code;
        let list = ResumableOps::new(&[op(8)]);
        for code in 9..100 {
            assert!(!list.contains(op(code)));
            list.add(&[op(8), op(code)]);
            assert!((8..=code).all(|code| list.contains(op(code))));
        }
        assert!(!list.contains(op(7)) && !list.contains(op(100)));
    }
}
