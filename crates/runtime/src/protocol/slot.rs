//! The slot: sixteen words in one line of memory that hold one task.

use pelton_device::memory::Line;

pub use super::check::{is_sealed, line_check, seal_line, seal_slots, seal_slots_into, slot_check};
use super::table::words;
use super::{Opcode, Priority, Status};

/// The number of 32-bit words in a slot.
pub const WORDS: usize = 16;

/// The number of bytes in a slot, which is also its alignment.
pub const BYTES: usize = 64;

/// The number of argument words in a slot.
pub const ARGS: usize = 12;

/// The number of bits in a generation.
pub const GENERATION_BITS: u32 = 24;

/// The position of the generation in word 0 of a slot and of a completion record. The status is in the bits below.
pub const GENERATION_SHIFT: u32 = 8;

/// The greatest generation, which is also the mask that reduces a number to a generation.
pub const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// The uses of the layout in which a word of a slot has its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotUse {
    /// The word means the same in drained batches and in live rings.
    Both,
    /// The word has this meaning in drained batches only.
    Drained,
    /// The word has this meaning in live rings only.
    Live,
}

words! {
    /// The words of a slot.
    SlotUse;
    STATUS   0       Both    "The status in bits 0-7. Bits 8-31 are zero in a drained batch and hold the generation in a live ring.";
    OPCODE   1       Both    "The operation to run. In a live ring, words 0 and 1 are stored as one unit of 8 bytes.";
    TENANT   2       Drained "The tenant whose task it is. In a live ring, the owner of the ring is the tenant.";
    CHECK    2       Live    "The xor of the other fifteen words, each rotated left by its own number.";
    PRIORITY 3       Both    "The priority, from 0 to 4, in bits 0-6. In a live ring, bit 7 says that the task waits for an event before its first step, and bits 8-31 hold the number of the task's cell and one more, or 0 if the task has no cell.";
    ARG      4 [12]  Both    "The arguments of the task.";
}

/// Returns the generation of a position in a ring of 2^`log2` slots: the number of laps before it, modulo 2^24.
#[inline]
pub const fn generation_at(position: u64, log2: u32) -> u32 {
    position.unbounded_shr(log2) as u32 & GENERATION_MASK
}

/// Returns word 0 of a slot, which is also the low word of a completion record. Only the low 24 bits of the generation
/// are used.
#[inline]
pub const fn status_word(status: Status, generation: u32) -> u32 {
    status.code() | generation << GENERATION_SHIFT
}

/// Returns a published slot of a live ring whose check word has not been computed yet.
#[inline(always)]
pub fn unsealed_slot(generation: u32, opcode: Opcode, priority: Priority, args: &[u32; ARGS]) -> Slot {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *args;
    let word0 = status_word(Status::Published, generation);
    Slot([word0, opcode.code(), 0, priority.code(), a, b, c, d, e, f, g, h, i, j, k, l])
}

/// Returns the sealed line of a published slot of a live ring.
#[inline]
pub fn published_line(generation: u32, opcode: Opcode, priority: Priority, args: &[u32; ARGS]) -> Line {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let word0 = status_word(Status::Published, generation);
    let args = |k: usize| pair(args[2 * k], args[2 * k + 1]);
    let head = [pair(word0, opcode.code()), pair(0, priority.code())];
    let mut line = [head[0], head[1], args(0), args(1), args(2), args(3), args(4), args(5)];
    seal_line(&mut line);
    line
}

/// A slot as its sixteen words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(align(64))]
pub struct Slot(pub [u32; WORDS]);

impl Slot {
    /// Returns the opcode.
    pub const fn opcode(&self) -> Opcode {
        Opcode::from_code(self.0[OPCODE as usize])
    }

    /// Returns the generation. Only slots of live rings have one.
    pub const fn generation(&self) -> u32 {
        self.0[STATUS as usize] >> GENERATION_SHIFT
    }

    /// Returns the twelve argument words.
    pub fn args(&self) -> &[u32; ARGS] {
        let [_, _, _, _, args @ ..] = &self.0;
        args
    }

    /// Returns whether the check word matches the other words. Only slots of live rings have a check word.
    pub const fn is_sealed(&self) -> bool {
        self.0[CHECK as usize] == slot_check(&self.0)
    }

    /// Returns the line of memory that holds the slot: element k has word 2k in its low half and word 2k + 1 in its
    /// high half.
    #[inline]
    pub fn line(&self) -> Line {
        std::array::from_fn(|k| u64::from(self.0[2 * k]) | u64::from(self.0[2 * k + 1]) << 32)
    }

    /// Returns the slot as little-endian bytes.
    pub fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

impl From<Line> for Slot {
    fn from(line: Line) -> Slot {
        Slot(std::array::from_fn(|k| (line[k / 2] >> (k % 2 * 32)) as u32))
    }
}
