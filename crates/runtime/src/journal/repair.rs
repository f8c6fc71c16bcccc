//! Cuts what is damaged off the end of a journal.

use std::fs::{self, File};
use std::path::Path;

use super::RecordPlace;
use super::error::JournalError;
use super::folder::{FolderLock, io_error, list_all_segments, segment_path, sync_folder};
use super::reader::{JournalReader, TornTail};

/// Cuts a journal off at the first damage, and returns what was cut off. Every record behind the damage is lost, and so
/// are all later segments.
///
/// [`Journal::open`](super::Journal::open) never does this by itself, because records may be lost that were committed. It
/// is for journals that the loss of power has left with gaps, under a policy that allows them.
///
/// # Errors
///
/// [`JournalError`] if another process has the journal open, if its first segment is missing or has a wrong header, or if
/// its files cannot be read and written.
pub fn cut_damage(folder: &Path) -> Result<Option<TornTail>, JournalError> {
    // Whatever is no journal is refused before a file is made there.
    let missing = match JournalReader::open(folder) {
        Err(JournalError::MissingSegment { number, .. }) if number > 1 => Some(number),
        opened => opened.map(|_| None)?,
    };
    let _lock = FolderLock::take(folder)?;
    let behind_gap = missing.map_or(Ok(0), |number| remove_behind(folder, number - 1))?;
    let mut reader = JournalReader::open(folder)?;
    let damage = loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(
                error @ (JournalError::Corrupt { .. }
                | JournalError::OtherVersion { .. }
                | JournalError::OtherJournal { .. }),
            ) => break Some(error),
            Err(error) => return Err(error),
        }
    };
    let Some(end) = reader.end() else { return Ok(reader.torn_tail().cloned()) };
    if damage.is_none() && reader.torn_tail().is_none() && missing.is_none() {
        return Ok(None);
    }
    let path = segment_path(folder, end.place.segment);
    let bytes = behind_gap + cut_after(folder, end.place)?;
    Ok(Some(TornTail { path, offset: end.place.offset, bytes }))
}

/// Cuts off everything behind a place, and returns how many bytes that was.
pub(super) fn cut_after(folder: &Path, place: RecordPlace) -> Result<u64, JournalError> {
    let mut bytes = remove_behind(folder, place.segment)?;
    let path = segment_path(folder, place.segment);
    let length = fs::metadata(&path).map_err(io_error("read", &path))?.len();
    if length > place.offset {
        let file = File::options().write(true).open(&path).map_err(io_error("open", &path))?;
        file.set_len(place.offset).and_then(|()| file.sync_all()).map_err(io_error("cut", &path))?;
        bytes += length - place.offset;
    }
    if bytes > 0 {
        sync_folder(folder)?;
    }
    Ok(bytes)
}

/// Removes all segments behind one, and returns how many bytes they had.
fn remove_behind(folder: &Path, last: u64) -> Result<u64, JournalError> {
    let mut bytes = 0;
    // From the last one on, so that no segment is ever missing between others.
    for number in list_all_segments(folder)?.into_iter().filter(|number| *number > last).rev() {
        let path = segment_path(folder, number);
        bytes += fs::metadata(&path).map_err(io_error("read", &path))?.len();
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
    }
    Ok(bytes)
}
