//! Packed slots, in which several small operations share one slot.
//!
//! The twelve argument words are read as bytes: n, the number of inner operations; a, the number of argument words;
//! then n pairs of an opcode and an offset. The argument area starts at the first whole word after the pairs, and
//! offsets count words from there.

use super::slot::ARGS;
use super::{Malformed, Opcode};

/// The greatest number of inner operations. With one more, the pairs alone would not fit.
pub const MAX_INNER: usize = 23;

/// Returns the argument word at which the argument area of n inner operations starts.
pub const fn argument_start(n: usize) -> usize {
    (2 + 2 * n).div_ceil(4)
}

/// An operation inside a packed slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InnerOp {
    /// The opcode of the operation.
    pub op: u8,
    /// The argument word of the slot at which the arguments of the operation start.
    pub at: u8,
}

/// The rule that a packed slot breaks.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// There are too few or too many operations.
    #[error("it has {n} inner operations, but 1 to {MAX_INNER} are allowed")]
    Count { n: u8 },
    /// The argument area does not fit into the slot.
    #[error("it has {a} argument words starting at word {start}, but the slot has {ARGS}")]
    Area { start: u8, a: u8 },
    /// The opcode cannot be in a packed slot.
    #[error("inner operation {inner} is {op}, which cannot be packed")]
    Opcode { inner: u8, op: Opcode },
    /// The arguments of an operation lie outside the argument area.
    #[error("inner operation {inner} takes {arity} arguments at offset {offset}, but there are {a} words")]
    Offset { inner: u8, offset: u8, arity: u32, a: u8 },
}

/// Returns whether an opcode may be in a packed slot as far as its number tells: it fits into a byte and is not a
/// fence.
const fn can_be_packed(op: Opcode) -> bool {
    op.code() <= 0xff && op.code() != Opcode::BATCH_FENCE.code()
}

/// Returns the inner operations of a packed slot, or an error that names the rule that is broken.
///
/// `arity` returns how many arguments an opcode takes, and `None` for opcodes without a handler or with a group-wide
/// one.
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

/// A packed slot that is being composed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packed {
    /// The opcodes and the offsets of the operations.
    pairs: [(u8, u8); MAX_INNER],
    n: usize,
    words: [u32; ARGS],
    a: usize,
}

impl Packed {
    /// Returns a packed slot without operations.
    pub fn new() -> Packed {
        Packed::default()
    }

    /// Adds an operation after the others. If the operation does not fit, this is an error and nothing changes.
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

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns whether there are no operations yet. A packed slot needs at least one.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the argument words of the slot, or an error if there are no operations.
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
