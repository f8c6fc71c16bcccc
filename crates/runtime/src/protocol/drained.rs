//! Drained batches: a ring that the host fills, a kernel runs in one pass, and the host reads back.

use super::control::TENANTS;
use super::slot::{ARG, ARGS, BYTES, GENERATION_SHIFT, OPCODE, PRIORITY, STATUS, TABLE, TENANT, WORDS};
use super::{Malformed, Opcode, Priority, Slot, Status, WirePlace, table};

/// A slot of a drained batch, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchEntry {
    /// How far it has come.
    pub status: Status,
    /// What to do.
    pub opcode: Opcode,
    /// Whose task it is.
    pub tenant: u32,
    /// How urgent it is.
    pub priority: Priority,
    /// The arguments.
    pub args: [u32; ARGS],
}

impl BatchEntry {
    /// The slot.
    #[inline]
    pub fn encode(&self) -> Slot {
        let mut words = [0; WORDS];
        words[STATUS as usize] = self.status.code();
        words[OPCODE as usize] = self.opcode.code();
        words[TENANT as usize] = self.tenant;
        words[PRIORITY as usize] = self.priority.code();
        words[ARG as usize..].copy_from_slice(&self.args);
        Slot(words)
    }

    /// The entry of the slot that stands at `index` of its ring.
    pub fn decode(slot: &Slot, index: usize) -> Result<BatchEntry, Malformed> {
        let wrong = |word: u32, why| {
            let (name, value) = (table::word_name(TABLE, word), slot.0[word as usize].into());
            Malformed::Word { place: WirePlace::Slot(index), word, name, value, why }
        };
        let status = slot.0[STATUS as usize];
        if status >> GENERATION_SHIFT != 0 {
            return Err(wrong(STATUS, "bits 8-31 must be zero"));
        }
        let status = Status::from_code(status)
            .filter(|status| *status != Status::Cancelled)
            .ok_or_else(|| wrong(STATUS, "which is no status of a slot"))?;
        let tenant = slot.0[TENANT as usize];
        if tenant as usize >= TENANTS {
            return Err(wrong(TENANT, "and tenants are 0 to 28"));
        }
        let priority = Priority::from_code(slot.0[PRIORITY as usize])
            .ok_or_else(|| wrong(PRIORITY, "and priorities are 0 to 4"))?;
        Ok(BatchEntry { status, opcode: slot.opcode(), tenant, priority, args: *slot.args() })
    }
}

/// The words of a ring of these entries.
pub fn encode_ring(entries: &[BatchEntry]) -> Vec<u32> {
    entries.iter().flat_map(|entry| entry.encode().0).collect()
}

/// The entries of a ring of words, in order.
pub fn decode_ring(
    words: &[u32],
) -> Result<impl ExactSizeIterator<Item = Result<BatchEntry, Malformed>> + '_, Malformed> {
    let (slots, rest) = words.as_chunks::<WORDS>();
    if !rest.is_empty() {
        return Err(partial_slot(words.len() * 4));
    }
    Ok(slots.iter().enumerate().map(|(index, words)| BatchEntry::decode(&Slot(*words), index)))
}

/// The words of a ring of bytes.
pub fn words_from_bytes(bytes: &[u8]) -> Result<Vec<u32>, Malformed> {
    if !bytes.len().is_multiple_of(BYTES) {
        return Err(partial_slot(bytes.len()));
    }
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

fn partial_slot(bytes: usize) -> Malformed {
    Malformed::Bytes { what: "ring", bytes, unit: BYTES, units: "slots" }
}
