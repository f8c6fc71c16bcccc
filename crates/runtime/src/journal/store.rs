//! Where segments are written: files of a folder, or something else in tests.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::JournalError;
use super::folder::{io_error, segment_path, sync_folder};
#[cfg(feature = "inject")]
use crate::simulated::{disk_sync, disk_write};

/// The last segment of a journal, to which bytes are appended. Every call may fail, and a write may write less than it
/// was given.
pub(super) trait SegmentStore {
    /// Makes the next segment, which is empty, and appends to it from now on.
    fn create(&mut self, number: u64) -> io::Result<()>;
    /// Appends bytes, and returns how many of them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Asks the system to begin handing what was written to the disk, without waiting for it. This is not needed for
    /// anything to be right.
    fn begin_sync(&mut self) {}
    /// Hands everything that was written to the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Hands the names of the segments to the disk.
    fn sync_names(&mut self) -> io::Result<()>;
    /// Cuts the segment to a length, and appends behind it from now on.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// The path of a segment, for messages.
    fn path(&self, number: u64) -> PathBuf;
}

/// Segments as files of a folder.
#[derive(Debug)]
pub(super) struct FolderStore {
    folder: PathBuf,
    file: Option<File>,
    /// The segment that is open.
    number: u64,
}

impl FolderStore {
    pub(super) fn new(folder: &Path) -> Self {
        FolderStore { folder: folder.into(), file: None, number: 0 }
    }

    /// Opens a segment that is there.
    pub(super) fn open(&mut self, number: u64) -> Result<(), JournalError> {
        let path = segment_path(&self.folder, number);
        let file = File::options().write(true).open(&path).and_then(|mut file| {
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        });
        self.file = Some(file.map_err(io_error("open", &path))?);
        self.number = number;
        Ok(())
    }

    /// Removes a segment.
    pub(super) fn remove(&mut self, number: u64) -> Result<(), JournalError> {
        let path = segment_path(&self.folder, number);
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
        sync_folder(&self.folder)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("no segment is open"))
    }
}

impl SegmentStore for FolderStore {
    fn create(&mut self, number: u64) -> io::Result<()> {
        self.file = Some(File::create_new(segment_path(&self.folder, number))?);
        self.number = number;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "inject")]
        let bytes = &bytes[..disk_write(&self.path(self.number), bytes)?];
        self.file()?.write(bytes)
    }

    #[cfg(target_os = "linux")]
    fn begin_sync(&mut self) {
        use std::os::fd::AsRawFd;
        if let Some(file) = &self.file {
            // SAFETY: the call takes nothing but numbers, and the file is open for as long as it is borrowed. It does not
            // wait, so it reports no failure of the disk, and does not keep the next sync from reporting one.
            unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        #[cfg(feature = "inject")]
        if let Some(synced) = disk_sync(&self.path(self.number)) {
            return synced;
        }
        self.file()?.sync_data()
    }

    fn sync_names(&mut self) -> io::Result<()> {
        #[cfg(feature = "inject")]
        if let Some(synced) = disk_sync(&self.folder) {
            return synced;
        }
        match sync_folder(&self.folder) {
            Err(JournalError::Io { source, .. }) => Err(source),
            _ => Ok(()),
        }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let file = self.file()?;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length)).map(drop)
    }

    fn path(&self, number: u64) -> PathBuf {
        segment_path(&self.folder, number)
    }
}
