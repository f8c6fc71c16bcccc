//! The disk of a simulation: real files, of which the simulation knows what would survive.
//!
//! What was written is in the files, and stays there when the process is killed. When the power fails, only what was synced
//! is sure to stay. Of everything else, each sector may be there or not.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::random::Random;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The disk of one seed.
pub(crate) struct SimulatedDisk(RefCell<DiskState>);

struct DiskState {
    random: Random,
    /// The content of each file when it was synced last.
    synced: BTreeMap<PathBuf, Vec<u8>>,
    /// The files whose names were synced.
    named: BTreeSet<PathBuf>,
    /// How many bytes fit on the disk.
    room: usize,
    /// After how many writes the process is killed, if it is.
    writes_left: Option<u64>,
    /// Whether the process was killed, so that nothing is written any more.
    killed: bool,
    sync_fails: bool,
    sync_count: u64,
}

impl SimulatedDisk {
    pub(crate) fn new(seed: u64) -> Self {
        SimulatedDisk(RefCell::new(DiskState {
            random: Random::new(seed, 2),
            synced: BTreeMap::new(),
            named: BTreeSet::new(),
            room: usize::MAX,
            writes_left: None,
            killed: false,
            sync_fails: false,
            sync_count: 0,
        }))
    }

    /// Says how many of these bytes a write takes, which are often not all of them.
    pub(crate) fn write(&self, _path: &Path, bytes: &[u8]) -> io::Result<usize> {
        let state = &mut *self.0.borrow_mut();
        state.check_alive()?;
        if state.room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if state.random.one_in(8) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let whole = bytes.len().min(state.room);
        let some = state.random.within(1..=whole as u64) as usize;
        let mut count = if state.random.one_in(4) { some } else { whole };
        if let Some(left) = &mut state.writes_left {
            match left.checked_sub(1) {
                Some(rest) => *left = rest,
                None => {
                    state.killed = true;
                    count = some;
                }
            }
        }
        state.room -= count;
        Ok(count)
    }

    /// Notes that a file is safe from now on, or that the names of a folder's files are.
    pub(crate) fn sync(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.check_alive()?;
        if state.sync_fails {
            return Err(io::Error::other("the disk is broken"));
        }
        if path.is_dir() {
            state.named.extend(segments_of(path)?);
        } else {
            state.synced.insert(path.into(), fs::read(path)?);
            state.sync_count += 1;
        }
        Ok(())
    }

    /// Returns how many times a file was synced.
    pub(crate) fn sync_count(&self) -> u64 {
        self.0.borrow().sync_count
    }

    /// Kills the process after so many writes.
    pub(crate) fn kill_after(&self, writes: u64) {
        self.0.borrow_mut().writes_left = Some(writes);
    }

    /// Lets so many bytes fit on the disk.
    pub(crate) fn set_room(&self, room: usize) {
        self.0.borrow_mut().room = room;
    }

    /// Lets syncs fail.
    pub(crate) fn break_syncs(&self) {
        self.0.borrow_mut().sync_fails = true;
    }

    /// Begins another process, on a disk that works.
    pub(crate) fn repair(&self) {
        let mut state = self.0.borrow_mut();
        (state.killed, state.sync_fails, state.writes_left, state.room) = (false, false, None, usize::MAX);
    }

    /// Leaves in a folder what a loss of power may leave.
    pub(crate) fn lose_power(&self, folder: &Path) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        for path in segments_of(folder)? {
            if !state.named.contains(&path) && state.random.one_in(2) {
                fs::remove_file(&path)?;
                continue;
            }
            let written = fs::read(&path)?;
            let safe = state.synced.get(&path).map_or(0, Vec::len);
            if written.len() > safe {
                let kept = state.garble(&written, safe);
                fs::write(&path, kept)?;
            }
        }
        Ok(())
    }
}

impl DiskState {
    fn check_alive(&self) -> io::Result<()> {
        if self.killed { Err(io::Error::other("the process was killed")) } else { Ok(()) }
    }

    /// Returns what may be left of a file of which only the first bytes are safe.
    fn garble(&mut self, written: &[u8], safe: usize) -> Vec<u8> {
        let length = match self.random.below(3) {
            0 => safe,
            1 => written.len(),
            _ => self.random.within(safe as u64..=written.len() as u64) as usize,
        };
        let mut kept = written[..length].to_vec();
        for (number, sector) in kept.chunks_mut(SECTOR).enumerate() {
            let from = safe.saturating_sub(number * SECTOR).min(sector.len());
            if self.random.one_in(3) {
                sector[from..].fill(0);
            }
        }
        kept
    }
}

/// The segments of a journal's folder, in order.
fn segments_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths.sort();
    Ok(paths)
}
