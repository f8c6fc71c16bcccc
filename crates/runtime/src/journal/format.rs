//! The bytes of segments and records. The documentation of the module above has them as tables.

use super::error::Damage;
use super::{MAX_RECORD, MAX_SEGMENT, RecordKind};

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// The length of the header of a segment.
pub(super) const HEADER: usize = 72;
/// The length of the header of a record.
pub(super) const RECORD_HEADER: usize = 12;
/// The number of bytes that are collected before they are written without being asked.
pub(super) const GROUP: usize = 1 << 18;
/// More bytes than any segment has.
pub(super) const SEGMENT_LIMIT: u64 = MAX_SEGMENT + (GROUP + MAX_RECORD + HEADER + RECORD_HEADER) as u64;

const MAGIC: [u8; 8] = *b"peltjrnl";
const RECORD_MAGIC: [u8; 2] = 0x6a70_u16.to_le_bytes();

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    pub journal: u64,
    pub number: u64,
    pub previous_length: u64,
    pub fingerprint: [u8; 32],
}

/// Why bytes are not a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadHeader {
    Version(u32),
    Wrong,
    /// There are fewer bytes than a header has, or nothing but zeros: it was never written.
    Unwritten,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.journal.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_length.to_le_bytes());
        bytes[40..].copy_from_slice(&self.fingerprint);
        let sum = header_sum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(segment: &[u8]) -> Result<SegmentHeader, BadHeader> {
        let Some(bytes) = segment.first_chunk::<HEADER>() else { return Err(BadHeader::Unwritten) };
        if segment.iter().all(|byte| *byte == 0) {
            return Err(BadHeader::Unwritten);
        }
        if bytes[..8] != MAGIC {
            return Err(BadHeader::Wrong);
        }
        match u32_at(bytes, 8) {
            VERSION => {}
            other => return Err(BadHeader::Version(other)),
        }
        if u32_at(bytes, 12) != header_sum(bytes) {
            return Err(BadHeader::Wrong);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(&bytes[40..]);
        let [journal, number, previous_length] = [16, 24, 32].map(|at| u64_at(bytes, at));
        Ok(SegmentHeader { journal, number, previous_length, fingerprint })
    }
}

fn header_sum(bytes: &[u8; HEADER]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..12]);
    sum.update(&bytes[16..]);
    sum.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were taken"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were taken"))
}

/// Whether everything before a record had settled when it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BeforeIt {
    MayBeMissing,
    HasSettled,
}

/// Appends a record to `to`. `offset` is where its first byte will lie in the segment.
pub(super) fn encode_record(
    to: &mut Vec<u8>,
    seed: RecordSeed,
    offset: u64,
    (kind, before): (RecordKind, BeforeIt),
    content: &[&[u8]],
) {
    let start = to.len();
    let length: usize = content.iter().map(|part| part.len()).sum();
    let mut head = [0; RECORD_HEADER];
    head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    head[8] = kind.number();
    head[9] = u8::from(before == BeforeIt::HasSettled);
    head[10..].copy_from_slice(&RECORD_MAGIC);
    to.extend_from_slice(&head);
    content.iter().for_each(|part| to.extend_from_slice(part));
    let sum = seed.sum(&to[start..], offset);
    to[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// What the checksums of a segment's records begin with, so that they differ from those of all other segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RecordSeed(u32);

impl RecordSeed {
    /// The seed of a segment: the checksum of its journal's number and its own.
    pub(super) fn new(header: &SegmentHeader) -> RecordSeed {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&header.journal.to_le_bytes());
        sum.update(&header.number.to_le_bytes());
        RecordSeed(sum.finalize())
    }

    /// The checksum of a record. Equal bytes at two positions of a segment never have the same, because positions have
    /// fewer than 32 bits.
    fn sum(self, record: &[u8], offset: u64) -> u32 {
        let mut sum = crc32fast::Hasher::new_with_initial(self.0 ^ offset as u32);
        sum.update(&record[4..]);
        sum.finalize()
    }
}

/// A record in the bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FoundRecord {
    pub kind: RecordKind,
    pub before: BeforeIt,
    /// The position behind its last byte.
    pub end: usize,
}

/// Looks for a record at a position of a segment. There must be at least one byte.
pub(super) fn find_record(segment: &[u8], seed: RecordSeed, offset: u64) -> Result<FoundRecord, Damage> {
    let rest = &segment[offset as usize..];
    let Some(head) = rest.first_chunk::<RECORD_HEADER>() else { return Err(Damage::Incomplete) };
    let length = u32_at(head, 4) as usize;
    let before = match head[9] {
        0 => BeforeIt::MayBeMissing,
        1 => BeforeIt::HasSettled,
        _ => return Err(Damage::Checksum),
    };
    if head[10..] != RECORD_MAGIC || length > MAX_RECORD {
        return Err(Damage::Checksum);
    }
    let Some(record) = rest.get(..RECORD_HEADER + length) else { return Err(Damage::Incomplete) };
    match u32_at(head, 0) == seed.sum(record, offset) {
        true => Ok(FoundRecord { kind: RecordKind(head[8]), before, end: offset as usize + record.len() }),
        false => Err(Damage::Checksum),
    }
}

/// Whether there is a record behind a position that says that everything before it had settled.
pub(super) fn had_settled(segment: &[u8], seed: RecordSeed, offset: u64) -> bool {
    (offset + 1..segment.len() as u64).any(|offset| {
        // Most positions are ruled out here, so that few checksums are computed.
        let plausible = segment.get(offset as usize + 9..offset as usize + 12);
        plausible.is_some_and(|bytes| bytes[0] == 1 && bytes[1..] == RECORD_MAGIC)
            && find_record(segment, seed, offset).is_ok()
    })
}
