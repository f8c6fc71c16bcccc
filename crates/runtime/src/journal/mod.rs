//! A journal on disk: records that outlive the process that wrote them.
//!
//! A journal is a folder. Its records are bytes with a kind, in the order in which they were appended, and what they
//! mean is up to the program that writes them: `pelton run --journal` writes the tasks that it has read and the results
//! that it gives. When a program opens the journal again, it is given every record that is there and goes on behind the
//! last one.
//!
//! ```
//! use pelton::journal::{FsyncPolicy, Journal, JournalOptions, RecordKind};
//!
//! # let folder = std::env::temp_dir().join(format!("pelton-journal-doc-{}", std::process::id()));
//! let options = JournalOptions::new([7; 32]).fsync(FsyncPolicy::BeforeAnswering);
//! let mut journal = Journal::open(&folder, &options, |_| {})?;
//! journal.append(RecordKind::new(1), &[b"first"])?;
//! journal.append(RecordKind::new(1), &[b"sec", b"ond"])?; // the parts of one record
//! journal.commit()?; // from here on, both records survive
//! drop(journal);
//!
//! let mut found = Vec::new();
//! let journal = Journal::open(&folder, &options, |record| found.push(record.bytes.to_vec()))?;
//! assert_eq!(found, [&b"first"[..], b"second"]);
//! journal.close()?;
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), pelton::journal::JournalError>(())
//! ```
//!
//! # What survives what
//!
//! | [`FsyncPolicy`] | the process is killed | the machine loses power |
//! |---|---|---|
//! | `Never` | every record that was committed is there | whatever the system has written by itself, perhaps with gaps; [`cut_damage`] makes the rest usable |
//! | `Interval` | the same | every record up to the last time that the journal was synced is there |
//! | `BeforeAnswering` | the same | every record that was committed is there |
//!
//! So a program that answers only after [`Journal::commit`] never gives an answer that the journal has forgotten. A write
//! or a sync that fails, for example because the disk is full, is an error, and the journal takes no more records. What
//! was committed before stays readable.
//!
//! # Files
//!
//! | file | what it holds |
//! |---|---|
//! | `00000001.seg`, `00000002.seg`, … | the *segments*: a header, and then records without gaps. A new segment begins when one has reached [`JournalOptions::segment_bytes`] |
//! | `lock` | locked by the process that may append, and holds its process ID. The system releases the lock when the process ends, however it ends, and a process that it has started does not inherit it |
//!
//! All numbers are little-endian. A segment begins with 72 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 7 | `peltjrnl` |
//! | 8 to 11 | the version of this format, 1 |
//! | 12 to 15 | the CRC-32 of the header without these four bytes |
//! | 16 to 23 | the number of the journal, chosen at random when it was made |
//! | 24 to 31 | the number of the segment, from 1 |
//! | 32 to 39 | the length of the segment before it, or 0 |
//! | 40 to 71 | the *fingerprint*: 32 bytes by which a program knows what is journalled, such as a hash of a `Spec` |
//!
//! A record is 12 bytes and its content:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | the checksum |
//! | 4 to 7 | the length of the content |
//! | 8 | the kind |
//! | 9 | 1 if everything before the record had settled when it was written, or else 0 |
//! | 10 to 11 | `0x6a70` |
//!
//! The checksum is the CRC-32 of bytes 4 to 11 and the content. It does not begin with 0 but with the CRC-32 of the
//! numbers of the journal and of the segment, exclusive or the position of the record in the segment.
//!
//! The checksum covers the place of the record, so bytes that once were a record, in another file or at another
//! position, are never taken for one. Kind 0 is the journal's own: it says that the journal was closed.
//!
//! # Damage
//!
//! A process that is killed leaves at most one write unfinished, and a machine that loses power leaves any part of what
//! was not synced. Both leave a *torn tail*: records at the end that are not whole. [`Journal::open`] cuts it off and
//! says so ([`Journal::torn_tail`]). A process that is killed never leaves committed records in a torn tail. After a loss of
//! power, the tail may hold records that were committed and not synced yet, unless the policy is
//! [`BeforeAnswering`](FsyncPolicy::BeforeAnswering).
//!
//! Everything else is an error that names the file and the position, [`JournalError::Corrupt`]. The two are told apart by
//! byte 9 of the records: a record that is behind the damage and says that everything before it had settled shows that
//! the damage came later. Settled means synced, or merely written if the policy is `Never`.

mod error;
mod folder;
mod format;
mod reader;
mod repair;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::{Damage, JournalError};
pub use reader::{JournalReader, JournalRecord, TornTail};
pub use repair::cut_damage;

use folder::FolderLock;
use store::FolderStore;
use writer::JournalWriter;

/// The most bytes that the content of a record may have.
pub const MAX_RECORD: usize = 1 << 24;

/// The most bytes after which a new segment begins.
const MAX_SEGMENT: u64 = 1 << 30;

/// When what was appended is handed to the disk itself, and not only to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsyncPolicy {
    /// Whenever the system likes. Records survive the end of the process, but perhaps not the loss of power.
    Never,
    /// In a commit, if the last time was at least this long ago. A program that is idle should commit from time to time,
    /// because nothing else looks at the clock.
    Interval(Duration),
    /// In every commit that has something new.
    BeforeAnswering,
}

/// What a record is about, as a number that the writing program chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordKind(u8);

impl RecordKind {
    /// The record that [`Journal::close`] writes.
    pub const CLOSED: RecordKind = RecordKind(0);

    /// Makes a kind. Kind 0 is [`RecordKind::CLOSED`], which programs should leave to the journal.
    pub const fn new(number: u8) -> Self {
        RecordKind(number)
    }

    /// The number of the kind.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The place of a record: its segment, and the position of its first byte in there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordPlace {
    /// The number of the segment, from 1.
    pub segment: u64,
    /// The position in the segment, in bytes.
    pub offset: u64,
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.segment, self.offset))
    }
}

/// How a journal is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// What is journalled. A journal with another fingerprint is refused.
    pub fingerprint: [u8; 32],
    /// When records are handed to the disk; `BeforeAnswering` unless something else is chosen.
    pub fsync: FsyncPolicy,
    /// The length at which a segment is followed by the next one; 64 MiB unless something else is chosen. It is at most
    /// 1 GiB.
    pub segment_bytes: u64,
}

impl JournalOptions {
    /// Options for a journal of what has this fingerprint.
    pub fn new(fingerprint: [u8; 32]) -> Self {
        JournalOptions { fingerprint, fsync: FsyncPolicy::BeforeAnswering, segment_bytes: 1 << 26 }
    }

    /// Says when records are handed to the disk.
    pub fn fsync(self, fsync: FsyncPolicy) -> Self {
        JournalOptions { fsync, ..self }
    }

    /// Says at which length a segment is followed by the next one.
    pub fn segment_bytes(self, segment_bytes: u64) -> Self {
        JournalOptions { segment_bytes: segment_bytes.min(MAX_SEGMENT), ..self }
    }
}

/// A journal that is open for appending. Only one process can have it open at a time.
///
/// Records that were appended but not committed are lost when the journal is dropped.
#[derive(Debug)]
pub struct Journal {
    writer: JournalWriter<FolderStore>,
    folder: PathBuf,
    torn: Option<TornTail>,
    /// Kept until the journal is dropped.
    _lock: FolderLock,
}

impl Journal {
    /// Opens the journal in a folder, and makes both if they are not there. Every record that is there is passed to
    /// `visit`, in order. A torn tail is cut off.
    ///
    /// # Errors
    ///
    /// [`JournalError`] if another process has the journal open, if it is of something else, if it is corrupt, or if its
    /// files cannot be read and written.
    pub fn open(
        folder: &Path,
        options: &JournalOptions,
        mut visit: impl FnMut(JournalRecord<'_>),
    ) -> Result<Journal, JournalError> {
        let lock = FolderLock::take(folder)?;
        let mut store = FolderStore::new(folder);
        if folder::list_segments(folder)?.is_empty() {
            folder::refuse_other_files(folder)?;
            let writer = JournalWriter::create(store, options)?;
            return Ok(Journal { writer, folder: folder.into(), torn: None, _lock: lock });
        }
        let mut reader = JournalReader::open(folder)?;
        reader.expect_fingerprint(options.fingerprint)?;
        while let Some(record) = reader.next_record()? {
            visit(record);
        }
        let torn = reader.torn_tail().cloned();
        let writer = match reader.end() {
            // Not even the header of the first segment had been written.
            None => {
                store.remove(1)?;
                JournalWriter::create(store, options)?
            }
            Some(end) => {
                repair::cut_after(folder, end.place)?;
                JournalWriter::go_on(store, options, end)?
            }
        };
        Ok(Journal { writer, folder: folder.into(), torn, _lock: lock })
    }

    /// The folder of the journal.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The torn tail that was cut off when the journal was opened, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Appends a record, whose content is given in parts. It is written with others in one call, at the latest when it is
    /// committed.
    ///
    /// # Errors
    ///
    /// [`JournalError::RecordTooLong`] if the content has more than [`MAX_RECORD`] bytes, and every error of
    /// [`Journal::commit`].
    pub fn append(&mut self, kind: RecordKind, content: &[&[u8]]) -> Result<(), JournalError> {
        self.writer.append(kind, content)
    }

    /// Hands all records to the system, whatever the policy is. They survive the end of the process then.
    ///
    /// # Errors
    ///
    /// As for [`Journal::commit`].
    pub fn write_out(&mut self) -> Result<(), JournalError> {
        self.writer.write_out()
    }

    /// Commits all records: they survive what the policy promises once this has returned.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if the records cannot be written or synced. Nothing that was appended since the last commit
    /// may be relied on then, and every later call returns [`JournalError::Failed`].
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.writer.commit()
    }

    /// Commits all records, and notes that the journal was closed. If something is damaged later, it can then not be
    /// mistaken for a torn tail.
    ///
    /// # Errors
    ///
    /// As for [`Journal::commit`].
    pub fn close(mut self) -> Result<(), JournalError> {
        self.writer.close()
    }
}
