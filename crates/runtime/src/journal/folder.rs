//! The files of a journal's folder, and the lock on it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::JournalError;

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// Turns a failure into an error that names the file.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::Io { action, path: path.into(), source }
}

/// The path of a segment.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.seg"))
}

/// The number of a segment by its name.
fn segment_number(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(".seg")?.parse().ok()?;
    (name == format!("{number:08}.seg") && number > 0).then_some(number)
}

/// The numbers of the segments in a folder, in order. It is an error if one is missing between others.
pub(super) fn list_segments(folder: &Path) -> Result<Vec<u64>, JournalError> {
    let numbers = list_all_segments(folder)?;
    match numbers.iter().zip(1..).find(|(found, wanted)| *found != wanted) {
        Some((_, number)) => Err(JournalError::MissingSegment { folder: folder.into(), number }),
        None => Ok(numbers),
    }
}

/// The numbers of the segments in a folder, in order, even if some are missing.
pub(super) fn list_all_segments(folder: &Path) -> Result<Vec<u64>, JournalError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error("read", folder))? {
        let name = entry.map_err(io_error("read", folder))?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Refuses to make a journal in a folder that is used for something else.
pub(super) fn refuse_other_files(folder: &Path) -> Result<(), JournalError> {
    for entry in fs::read_dir(folder).map_err(io_error("read", folder))? {
        if entry.map_err(io_error("read", folder))?.file_name() != LOCK {
            return Err(JournalError::OtherFiles { folder: folder.into() });
        }
    }
    Ok(())
}

/// Hands the names of a folder's files to the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    // Only on Unix can a folder be opened and synced like a file.
    if cfg!(unix) {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("sync", folder))?;
    }
    Ok(())
}

/// The lock on a folder. It is released when this is dropped or when the process ends.
#[derive(Debug)]
pub(super) struct FolderLock {
    /// The standard library opens files so that programs that are started do not inherit them, and the lock with them.
    _file: File,
}

impl FolderLock {
    /// Takes the lock, and makes the folder if there is none.
    pub(super) fn take(folder: &Path) -> Result<FolderLock, JournalError> {
        fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
        if list_all_segments(folder)?.is_empty() {
            refuse_other_files(folder)?;
        }
        let path = folder.join(LOCK);
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                return Err(JournalError::InUse { folder: folder.into(), holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(JournalError::Io { action: "lock", path, source });
            }
        }
        // The number only serves the message for others, so a full disk does not matter here.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(FolderLock { _file: file })
    }
}
