//! Packed slots: several small operations in one slot.
//!
//! The twelve argument words are read as bytes: n, the number of inner operations; a, the number of argument words;
//! then n pairs (opcode, offset). The argument area starts at the first whole word behind the pairs, and an offset
//! counts words from there.

use super::slot::ARGS;
use super::{Malformed, Opcode};

/// Inner operations that fit: with more, the pairs alone leave the slot.
pub const MAX_INNER: usize = 23;

/// The word, of the twelve, at which the argument area of n inner operations starts.
pub const fn argument_start(n: usize) -> usize {
    (2 + 2 * n).div_ceil(4)
}

/// An inner operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InnerOp {
    /// Its opcode.
    pub op: u8,
    /// The word, of the slot's twelve, at which its arguments start.
    pub at: u8,
}

/// Which rule a packed slot breaks.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// Too few or too many operations.
    #[error("{n} inner operations, and it has 1 to {MAX_INNER}")]
    Count { n: u8 },
    /// The argument area leaves the slot.
    #[error("{a} argument words from word {start} on, and it has {ARGS}")]
    Area { start: u8, a: u8 },
    /// An opcode that cannot be packed.
    #[error("inner operation {inner} is {op}, which cannot be packed")]
    Opcode { inner: u8, op: Opcode },
    /// Arguments outside the argument area.
    #[error("inner operation {inner} takes {arity} arguments at offset {offset} of {a} words")]
    Offset { inner: u8, offset: u8, arity: u32, a: u8 },
}

/// Whether an opcode may stand in a packed slot, its handler apart: it fits in a byte and is no fence.
const fn can_be_packed(op: Opcode) -> bool {
    op.code() <= 0xff && op.code() != Opcode::BATCH_FENCE.code()
}

/// The inner operations of a packed slot, all rules checked.
///
/// `arity` says how many arguments an opcode takes, and nothing of those that have no handler or one for whole groups.
pub fn decode_packed(
    words: &[u32; ARGS],
    arity: impl Fn(u8) -> Option<u32>,
) -> Result<Vec<InnerOp>, Malformed> {
    let byte = |k: usize| (words[k / 4] >> (k % 4 * 8)) as u8;
    let (n, a) = (byte(0), byte(1));
    if n == 0 || usize::from(n) > MAX_INNER {
        return Err(Malformed::Packed(PackedError::Count { n }));
    }
    let start = argument_start(n.into());
    if start + usize::from(a) > ARGS {
        return Err(Malformed::Packed(PackedError::Area { start: start as u8, a }));
    }
    let inner = |k: u8| {
        let (op, offset) = (byte(2 + 2 * usize::from(k)), byte(3 + 2 * usize::from(k)));
        let opcode = Opcode::from_code(op.into());
        let takes = if can_be_packed(opcode) { arity(op) } else { None };
        let arity = takes.ok_or(PackedError::Opcode { inner: k, op: opcode })?;
        if u64::from(offset) + u64::from(arity) > a.into() {
            return Err(PackedError::Offset { inner: k, offset, arity, a });
        }
        Ok(InnerOp { op, at: start as u8 + offset })
    };
    (0..n).map(|k| inner(k).map_err(Malformed::Packed)).collect()
}

/// A packed slot in the making.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packed {
    /// Opcodes and offsets.
    pairs: [(u8, u8); MAX_INNER],
    n: usize,
    words: [u32; ARGS],
    a: usize,
}

impl Packed {
    /// An empty one.
    pub fn new() -> Packed {
        Packed::default()
    }

    /// Adds an operation behind the others; what does not fit leaves it as it was.
    pub fn push(&mut self, op: Opcode, args: &[u32]) -> Result<(), Malformed> {
        if !can_be_packed(op) {
            return Err(Malformed::Packed(PackedError::Opcode { inner: self.n as u8, op }));
        }
        if let Some(row) = op.builtin_row()
            && row.args.len() != args.len()
        {
            return Err(Malformed::Arity { opcode: op, takes: row.args.len(), found: args.len() });
        }
        let found = argument_start(self.n + 1) + self.a + args.len();
        if found > ARGS {
            return Err(Malformed::Long { what: "packed slot", found, most: ARGS });
        }
        self.pairs[self.n] = (op.code() as u8, self.a as u8);
        self.n += 1;
        self.words[self.a..self.a + args.len()].copy_from_slice(args);
        self.a += args.len();
        Ok(())
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether it has none, in which case it is not a packed slot yet.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The argument words of the slot.
    pub fn encode(&self) -> Result<[u32; ARGS], Malformed> {
        if self.is_empty() {
            return Err(Malformed::Packed(PackedError::Count { n: 0 }));
        }
        let mut words = [0; ARGS];
        let pairs = self.pairs[..self.n].iter().flat_map(|(op, offset)| [*op, *offset]);
        for (k, byte) in [self.n as u8, self.a as u8].into_iter().chain(pairs).enumerate() {
            words[k / 4] |= u32::from(byte) << (k % 4 * 8);
        }
        let start = argument_start(self.n);
        words[start..start + self.a].copy_from_slice(&self.words[..self.a]);
        Ok(words)
    }
}
