//! Appends records: many per write, with a sync where the policy asks for one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::Instant;

use super::error::JournalError;
use super::format::{BeforeIt, GROUP, HEADER, RecordSeed, SegmentHeader, encode_record};
use super::reader::JournalEnd;
use super::store::{FolderStore, SegmentStore};
use super::{FsyncPolicy, JournalOptions, MAX_RECORD, RecordKind};
use crate::simulated::{self, PlantedBug};

/// How many bytes are written before the disk is asked to begin with them.
const BUSY: usize = 1 << 22;

/// Appends to the last segment, and begins the next one when it is long enough.
#[derive(Debug)]
pub(super) struct JournalWriter<S> {
    store: S,
    fsync: FsyncPolicy,
    segment_bytes: u64,
    /// The header of the segment that is written to.
    header: SegmentHeader,
    seed: RecordSeed,
    /// How much of the segment is written.
    written: u64,
    /// Records that are not written yet.
    group: Vec<u8>,
    /// Whether everything before the next record has settled.
    before: BeforeIt,
    /// Whether something was written since the last sync.
    dirty: bool,
    /// How many bytes were written since the disk was last asked to begin with them.
    idle_bytes: usize,
    synced: Instant,
    failed: bool,
}

impl<S: SegmentStore> JournalWriter<S> {
    /// Begins a new journal.
    pub(super) fn create(store: S, options: &JournalOptions) -> Result<Self, JournalError> {
        let journal =
            simulated::journal_number().unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let header =
            SegmentHeader { journal, number: 0, previous_length: 0, fingerprint: options.fingerprint };
        let mut writer = Self::new(store, options, header, 0);
        writer.begin_segment()?;
        Ok(writer)
    }

    fn new(store: S, options: &JournalOptions, header: SegmentHeader, written: u64) -> Self {
        JournalWriter {
            store,
            fsync: options.fsync,
            segment_bytes: options.segment_bytes,
            header,
            seed: RecordSeed::new(&header),
            written,
            group: Vec::new(),
            before: BeforeIt::HasSettled,
            dirty: false,
            idle_bytes: 0,
            synced: simulated::now(),
            failed: false,
        }
    }

    /// Appends a record to those that will be written.
    pub(super) fn append(&mut self, kind: RecordKind, content: &[&[u8]]) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        let bytes: usize = content.iter().map(|part| part.len()).sum();
        if bytes > MAX_RECORD {
            return Err(JournalError::RecordTooLong { bytes });
        }
        if self.group.is_empty() && self.written >= self.segment_bytes.max(HEADER as u64 + 1) {
            self.begin_segment()?;
        }
        let offset = self.written + self.group.len() as u64;
        encode_record(&mut self.group, self.seed, offset, (kind, self.before), content);
        self.before = BeforeIt::MayBeMissing;
        if self.group.len() >= GROUP {
            self.write_out()?;
        }
        Ok(())
    }

    /// Hands all records to the system.
    pub(super) fn write_out(&mut self) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        if self.group.is_empty() {
            return Ok(());
        }
        let group = std::mem::take(&mut self.group);
        let written = write_all(&mut self.store, &group);
        self.check("write", written)?;
        self.written += group.len() as u64;
        self.dirty = true;
        if self.fsync == FsyncPolicy::Never {
            self.before = BeforeIt::HasSettled;
        } else {
            self.keep_disk_busy(group.len());
        }
        // The room is used again.
        self.group = group;
        self.group.clear();
        Ok(())
    }

    /// Lets the disk write while the next records are made, so that there is less to wait for in the next sync.
    fn keep_disk_busy(&mut self, written: usize) {
        self.idle_bytes += written;
        if self.idle_bytes >= BUSY {
            self.idle_bytes = 0;
            self.store.begin_sync();
        }
    }

    /// Hands all records to the system, and to the disk if the policy asks for that now.
    pub(super) fn commit(&mut self) -> Result<(), JournalError> {
        self.write_out()?;
        match self.fsync {
            FsyncPolicy::Never => Ok(()),
            FsyncPolicy::Interval(time) if simulated::now() - self.synced < time => Ok(()),
            _ if simulated::has_bug(PlantedBug::AnswerBeforeSync) => Ok(()),
            FsyncPolicy::Interval(_) | FsyncPolicy::BeforeAnswering => self.sync(),
        }
    }

    /// Commits everything, and then notes that the journal was closed.
    pub(super) fn close(&mut self) -> Result<(), JournalError> {
        let end = |writer: &mut Self| match writer.fsync {
            FsyncPolicy::Never => writer.write_out(),
            _ => writer.write_out().and_then(|()| writer.sync()),
        };
        end(self)?;
        self.append(RecordKind::CLOSED, &[])?;
        end(self)
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        if self.dirty {
            let synced = self.store.sync();
            self.check("sync", synced)?;
            self.dirty = false;
            self.before = BeforeIt::HasSettled;
        }
        self.synced = simulated::now();
        Ok(())
    }

    /// Begins the next segment. What is before it has to be on the disk first, because only the last segment of a journal
    /// may have a torn tail.
    fn begin_segment(&mut self) -> Result<(), JournalError> {
        let syncs = self.fsync != FsyncPolicy::Never;
        if syncs {
            self.sync()?;
        }
        let header =
            SegmentHeader { number: self.header.number + 1, previous_length: self.written, ..self.header };
        let created = self.store.create(header.number);
        self.header = header;
        self.seed = RecordSeed::new(&header);
        self.written = 0;
        self.check("make", created)?;
        let begun = write_all(&mut self.store, &header.encode());
        self.check("write", begun)?;
        if syncs {
            let synced = self.store.sync().and_then(|()| self.store.sync_names());
            self.check("sync", synced)?;
        }
        self.written = HEADER as u64;
        self.before = BeforeIt::HasSettled;
        Ok(())
    }

    fn refuse_if_failed(&self) -> Result<(), JournalError> {
        match self.failed {
            true => Err(JournalError::Failed { path: self.store.path(self.header.number) }),
            false => Ok(()),
        }
    }

    /// Notes a failure. Half a record may have been written, which is cut off so that others can read the journal as it
    /// was. If that fails too, it is a torn tail.
    fn check(&mut self, action: &'static str, done: io::Result<()>) -> Result<(), JournalError> {
        done.map_err(|source| {
            self.failed = true;
            self.group = Vec::new();
            if action == "write" {
                let _ = self.store.truncate(self.written);
            }
            JournalError::Io { action, path: self.store.path(self.header.number), source }
        })
    }

    #[cfg(test)]
    pub(super) fn into_store(self) -> S {
        self.store
    }
}

impl JournalWriter<FolderStore> {
    /// Goes on behind the last record of a journal, whose torn tail was cut off.
    pub(super) fn go_on(
        mut store: FolderStore,
        options: &JournalOptions,
        end: JournalEnd,
    ) -> Result<Self, JournalError> {
        store.open(end.place.segment)?;
        let mut writer = Self::new(store, options, end.header, end.place.offset);
        if options.fsync != FsyncPolicy::Never {
            // The process that wrote the last records may have been killed before it had synced them.
            let synced = writer.store.sync().and_then(|()| writer.store.sync_names());
            writer.check("sync", synced)?;
        }
        Ok(writer)
    }
}

fn write_all(store: &mut impl SegmentStore, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match store.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
