//! Why a journal cannot be opened, read or written.

use std::io;
use std::path::PathBuf;

use super::MAX_RECORD;
use super::format::VERSION;

/// The reasons why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The folder has no journal, or does not exist.
    #[error("there is no journal in {}", folder.display())]
    NoJournal {
        /// The folder.
        folder: PathBuf,
    },
    /// A journal is to be made in a folder that has other files.
    #[error("{} has other files and no journal; name an empty folder, or one that does not exist", folder.display())]
    OtherFiles {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process has the journal open.
    #[error("the journal in {} is in use{}", folder.display(), holder.map_or(String::new(), |pid| format!(" by process {pid}")))]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The process ID of the other process, if it is known.
        holder: Option<u32>,
    },
    /// A file or folder cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The journal was written by another version of this library.
    #[error("{} has version {found} of the format of journals, and this program reads version {VERSION}", path.display())]
    OtherVersion {
        /// The segment.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The journal belongs to another program, or to another run.
    #[error("the journal in {} has another fingerprint than this program expects, so it belongs to something else", folder.display())]
    OtherFingerprint {
        /// The folder.
        folder: PathBuf,
        /// What it is of.
        found: [u8; 32],
        /// What it should be of.
        wanted: [u8; 32],
    },
    /// A segment is missing between others, or at the beginning.
    #[error("the journal in {} has no segment {number}, but later ones", folder.display())]
    MissingSegment {
        /// The folder.
        folder: PathBuf,
        /// The number of the first missing segment.
        number: u64,
    },
    /// A segment belongs to another journal.
    #[error("{} belongs to another journal than the segments before it", path.display())]
    OtherJournal {
        /// The segment.
        path: PathBuf,
    },
    /// Something in a segment is not what was written there.
    #[error("{} is corrupt at byte {offset}: {damage}", path.display())]
    Corrupt {
        /// The segment.
        path: PathBuf,
        /// The position of the damage, in bytes.
        offset: u64,
        /// What is wrong there.
        damage: Damage,
    },
    /// The content of a record is too long.
    #[error("a record of {bytes} bytes is too long for the journal, which takes at most {MAX_RECORD}")]
    RecordTooLong {
        /// The length of the content.
        bytes: usize,
    },
    /// A write or a sync has failed before, so the journal takes no more records.
    #[error("the journal takes no more records, because {} could not be written before", path.display())]
    Failed {
        /// The segment.
        path: PathBuf,
    },
}

/// What is wrong at a position of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The header is not that of a segment.
    #[error("the header of the segment is wrong")]
    Header,
    /// The header says that the segment has another number than its name.
    #[error("the header is that of segment {0}")]
    Number(u64),
    /// The segment ends in the middle of a record.
    #[error("the segment ends in the middle of a record")]
    Incomplete,
    /// The bytes are not those of a record.
    #[error("the checksum of the record is wrong")]
    Checksum,
    /// The segment is longer or shorter than the next one says.
    #[error("the segment ends there, but had {0} bytes when the next one was begun")]
    Length(u64),
    /// The segment is longer than any that is written.
    #[error("the segment is longer than any segment can be")]
    TooLong,
}
