//! Drained batches: rings that the host fills, a kernel runs in one pass, and the host reads back.

use super::control::TENANTS;
use super::slot::{ARG, ARGS, BYTES, GENERATION_SHIFT, OPCODE, PRIORITY, STATUS, TABLE, TENANT, WORDS};
use super::{Malformed, Opcode, Priority, Slot, Status, WirePlace, table};

/// The fields of a slot of a drained batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchEntry {
    /// How far the task has progressed.
    pub status: Status,
    /// What the task asks for.
    pub opcode: Opcode,
    /// The tenant whose task it is.
    pub tenant: u32,
    /// How urgent the task is.
    pub priority: Priority,
    /// The arguments of the task.
    pub args: [u32; ARGS],
}

impl BatchEntry {
    /// Returns the slot with these fields.
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

    /// Returns the fields of the slot at `index` of its ring, or an error that names the word that is malformed.
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
            .filter(|status| !matches!(status, Status::Cancelled | Status::Lost))
            .ok_or_else(|| wrong(STATUS, "which is not the status of a slot"))?;
        let tenant = slot.0[TENANT as usize];
        if tenant as usize >= TENANTS {
            return Err(wrong(TENANT, "and tenants are 0 to 28"));
        }
        let priority = Priority::from_code(slot.0[PRIORITY as usize])
            .ok_or_else(|| wrong(PRIORITY, "and priorities are 0 to 4"))?;
        Ok(BatchEntry { status, opcode: slot.opcode(), tenant, priority, args: *slot.args() })
    }
}

/// Returns the words of a ring with these entries.
pub fn encode_ring(entries: &[BatchEntry]) -> Vec<u32> {
    entries.iter().flat_map(|entry| entry.encode().0).collect()
}

/// Returns the entries of a ring in order, or an error if the words end within a slot.
pub fn decode_ring(
    words: &[u32],
) -> Result<impl ExactSizeIterator<Item = Result<BatchEntry, Malformed>> + '_, Malformed> {
    let (slots, rest) = words.as_chunks::<WORDS>();
    if !rest.is_empty() {
        return Err(partial_slot(words.len() * 4));
    }
    Ok(slots.iter().enumerate().map(|(index, words)| BatchEntry::decode(&Slot(*words), index)))
}

/// Returns the words of a ring that was stored as bytes, or an error if the bytes end within a slot.
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
