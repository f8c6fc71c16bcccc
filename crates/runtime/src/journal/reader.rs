//! Reads a journal, and tells a torn tail from damage.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::{Damage, JournalError};
use super::folder::{io_error, list_segments, segment_path};
use super::format::{
    BadHeader, HEADER, RECORD_HEADER, RecordSeed, SEGMENT_LIMIT, SegmentHeader, find_record, had_settled,
};
use super::{RecordKind, RecordPlace};

/// A record of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalRecord<'a> {
    /// Where it is.
    pub place: RecordPlace,
    /// What it is about.
    pub kind: RecordKind,
    /// Its content.
    pub bytes: &'a [u8],
}

/// The bytes at the end of a journal that are not whole records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// The segment.
    pub path: PathBuf,
    /// The position of the first of these bytes.
    pub offset: u64,
    /// The number of these bytes.
    pub bytes: u64,
}

/// Where a journal ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JournalEnd {
    /// The header of the last segment.
    pub header: SegmentHeader,
    /// The position behind its last record.
    pub place: RecordPlace,
}

/// Reads the records of a journal in order, and changes nothing. It takes no lock, so a journal can be read while a
/// process appends to it.
#[derive(Debug)]
pub struct JournalReader {
    folder: PathBuf,
    /// The numbers of the segments are 1 to this.
    count: u64,
    /// The segment that is read.
    segment: Vec<u8>,
    seed: RecordSeed,
    end: Option<JournalEnd>,
    /// The number of bytes of all segments before this one.
    bytes_before: u64,
    torn: Option<TornTail>,
}

impl JournalReader {
    /// Opens the journal in a folder, and reads its first segment.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if there is no journal, if segments are missing, or if the first one cannot be read.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let no_journal = || JournalError::NoJournal { folder: folder.into() };
        if !fs::exists(folder).map_err(io_error("read", folder))? {
            return Err(no_journal());
        }
        let count = list_segments(folder)?.len() as u64;
        if count == 0 {
            return Err(no_journal());
        }
        let mut reader = JournalReader {
            folder: folder.into(),
            count,
            segment: Vec::new(),
            seed: RecordSeed::default(),
            end: None,
            bytes_before: 0,
            torn: None,
        };
        reader.enter_segment(1)?;
        Ok(reader)
    }

    /// What is journalled, or `None` if the process that made the journal was killed before it had written that.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.end.map(|end| end.header.fingerprint)
    }

    /// The number of segments.
    pub fn segment_count(&self) -> u64 {
        self.count
    }

    /// The number of bytes of all segments that were read so far.
    pub fn byte_count(&self) -> u64 {
        self.bytes_before + self.segment.len() as u64
    }

    /// The torn tail, if the end was reached and has one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Returns the next record, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if a segment cannot be read or is corrupt. The same error is returned again if this is called
    /// again.
    pub fn next_record(&mut self) -> Result<Option<JournalRecord<'_>>, JournalError> {
        loop {
            let Some(JournalEnd { header, place }) = self.end else { return Ok(None) };
            if self.torn.is_some() {
                return Ok(None);
            }
            if place.offset == self.segment.len() as u64 {
                if header.number == self.count {
                    return Ok(None);
                }
                self.enter_segment(header.number + 1)?;
                continue;
            }
            return match find_record(&self.segment, self.seed, place.offset) {
                Ok(found) => {
                    let bytes = &self.segment[place.offset as usize + RECORD_HEADER..found.end];
                    let behind = RecordPlace { offset: found.end as u64, ..place };
                    self.end = Some(JournalEnd { header, place: behind });
                    Ok(Some(JournalRecord { place, kind: found.kind, bytes }))
                }
                Err(damage) => {
                    let (path, offset) = (segment_path(&self.folder, header.number), place.offset);
                    if header.number < self.count || had_settled(&self.segment, self.seed, place.offset) {
                        return Err(JournalError::Corrupt { path, offset, damage });
                    }
                    let bytes = self.segment.len() as u64 - offset;
                    self.torn = Some(TornTail { path, offset, bytes });
                    Ok(None)
                }
            };
        }
    }

    pub(super) fn expect_fingerprint(&self, wanted: [u8; 32]) -> Result<(), JournalError> {
        match self.fingerprint() {
            Some(found) if found != wanted => {
                Err(JournalError::OtherFingerprint { folder: self.folder.clone(), found, wanted })
            }
            _ => Ok(()),
        }
    }

    /// Where the journal ends, as far as it was read; `None` if not even the first header was written.
    pub(super) fn end(&self) -> Option<JournalEnd> {
        self.end
    }

    /// Reads a segment and its header.
    fn enter_segment(&mut self, number: u64) -> Result<(), JournalError> {
        let path = segment_path(&self.folder, number);
        let segment = read_segment(&path)?;
        let header = match SegmentHeader::decode(&segment) {
            Ok(header) => header,
            Err(BadHeader::Unwritten) if number == self.count => {
                self.torn = Some(TornTail { path, offset: 0, bytes: segment.len() as u64 });
                return Ok(());
            }
            Err(BadHeader::Version(found)) => return Err(JournalError::OtherVersion { path, found }),
            Err(BadHeader::Wrong | BadHeader::Unwritten) => return Err(corrupt(path, 0, Damage::Header)),
        };
        if header.number != number {
            return Err(corrupt(path, 0, Damage::Number(header.number)));
        }
        match self.end {
            Some(JournalEnd { header: before, .. }) => {
                let of_before = (before.journal, before.fingerprint);
                if (header.journal, header.fingerprint) != of_before {
                    return Err(JournalError::OtherJournal { path });
                }
                let length = self.segment.len() as u64;
                if header.previous_length != length {
                    let before = segment_path(&self.folder, before.number);
                    return Err(corrupt(before, length, Damage::Length(header.previous_length)));
                }
            }
            None if header.previous_length != 0 => return Err(corrupt(path, 0, Damage::Header)),
            None => {}
        }
        self.bytes_before += self.segment.len() as u64;
        self.segment = segment;
        self.seed = RecordSeed::new(&header);
        let place = RecordPlace { segment: number, offset: HEADER as u64 };
        self.end = Some(JournalEnd { header, place });
        Ok(())
    }
}

fn corrupt(path: PathBuf, offset: u64, damage: Damage) -> JournalError {
    JournalError::Corrupt { path, offset, damage }
}

fn read_segment(path: &Path) -> Result<Vec<u8>, JournalError> {
    let mut segment = Vec::new();
    let file = File::open(path).map_err(io_error("read", path))?;
    file.take(SEGMENT_LIMIT + 1).read_to_end(&mut segment).map_err(io_error("read", path))?;
    match segment.len() as u64 > SEGMENT_LIMIT {
        true => Err(corrupt(path.into(), SEGMENT_LIMIT, Damage::TooLong)),
        false => Ok(segment),
    }
}
