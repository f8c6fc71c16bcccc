//! A disk that writes less than it is given, is full, or cannot sync.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::super::store::SegmentStore;
use super::super::writer::JournalWriter;
use super::*;

/// What the disk does next.
#[derive(Clone, Default)]
struct Faults {
    /// The most bytes that one write takes; 0 means any number.
    most: Rc<Cell<usize>>,
    /// How many bytes fit on the disk.
    room: Rc<Cell<usize>>,
    sync_fails: Rc<Cell<bool>>,
    truncate_fails: Rc<Cell<bool>>,
    writes: Rc<Cell<usize>>,
    syncs: Rc<Cell<usize>>,
}

#[derive(Default)]
struct FaultyStore {
    faults: Faults,
    segments: BTreeMap<u64, Vec<u8>>,
}

impl FaultyStore {
    fn new(room: usize) -> (FaultyStore, Faults) {
        let faults = Faults { room: Rc::new(Cell::new(room)), ..Faults::default() };
        (FaultyStore { faults: faults.clone(), segments: BTreeMap::new() }, faults)
    }

    fn last(&mut self) -> &mut Vec<u8> {
        self.segments.last_entry().expect("a segment was made").into_mut()
    }

    /// Writes the segments to a folder, and returns the contents of their records.
    fn records(&self) -> Vec<Vec<u8>> {
        let folder = TestFolder::new();
        fs::create_dir_all(&folder.0).unwrap();
        for (number, bytes) in &self.segments {
            fs::write(folder.segment(*number), bytes).unwrap();
        }
        open(&folder.0, &options()).unwrap().1
    }
}

impl SegmentStore for FaultyStore {
    fn create(&mut self, number: u64) -> io::Result<()> {
        self.segments.insert(number, Vec::new());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let faults = self.faults.clone();
        faults.writes.set(faults.writes.get() + 1);
        if faults.writes.get() % 3 == 1 && faults.most.get() > 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let room = faults.room.get();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count =
            bytes.len().min(room).min(if faults.most.get() == 0 { usize::MAX } else { faults.most.get() });
        faults.room.set(room - count);
        self.last().extend(&bytes[..count]);
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.faults.syncs.set(self.faults.syncs.get() + 1);
        if self.faults.sync_fails.get() { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.faults.truncate_fails.get() {
            return Err(io::Error::other("the disk is gone"));
        }
        self.last().truncate(length as usize);
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        segment_path(Path::new("disk"), number)
    }
}

fn create(store: FaultyStore, fsync: FsyncPolicy) -> JournalWriter<FaultyStore> {
    JournalWriter::create(store, &options().fsync(fsync).segment_bytes(300)).unwrap()
}

#[test]
fn short_and_interrupted_writes_are_gone_on_with() {
    let (store, faults) = FaultyStore::new(usize::MAX);
    faults.most.set(5);
    let mut writer = create(store, FsyncPolicy::Never);
    for number in 0..30 {
        writer.append(KIND, &[&content(number)]).unwrap();
        writer.commit().unwrap();
    }
    assert_eq!(writer.into_store().records(), contents(30));
}

#[test]
fn a_full_disk_is_an_error_and_what_was_committed_is_readable() {
    for truncate_fails in [false, true] {
        for room in 72..900 {
            let (store, faults) = FaultyStore::new(room);
            faults.truncate_fails.set(truncate_fails);
            let mut writer = create(store, FsyncPolicy::BeforeAnswering);
            let mut committed = 0;
            let error = loop {
                let content = content(committed);
                let done = writer.append(KIND, &[&content]).and_then(|()| writer.commit());
                match done {
                    Ok(()) => committed += 1,
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(&error, JournalError::Io { action: "write", source, .. } if source.kind() == io::ErrorKind::StorageFull),
                "{error}"
            );
            // Even if there is room again, nothing is written behind what may be missing.
            faults.room.set(usize::MAX);
            assert!(matches!(writer.append(KIND, &[b"later"]), Err(JournalError::Failed { .. })));
            assert!(matches!(writer.commit(), Err(JournalError::Failed { .. })));
            assert!(writer.close().is_err());
            assert_eq!(writer.into_store().records(), contents(committed), "room for {room} bytes");
        }
    }
}

#[test]
fn a_sync_that_fails_is_an_error_for_good() {
    let (store, faults) = FaultyStore::new(usize::MAX);
    let mut writer = create(store, FsyncPolicy::BeforeAnswering);
    writer.append(KIND, &[&content(0)]).unwrap();
    writer.commit().unwrap();
    faults.sync_fails.set(true);
    writer.append(KIND, &[&content(1)]).unwrap();
    let error = writer.commit().unwrap_err().to_string();
    assert!(
        error.starts_with("cannot sync ") && error.ends_with("00000001.seg: the disk is gone"),
        "{error}"
    );
    // A second sync would succeed without having done anything.
    faults.sync_fails.set(false);
    assert!(matches!(writer.commit(), Err(JournalError::Failed { .. })));
    let found = writer.into_store().records();
    assert_eq!(found[..1], contents(1));
}

#[test]
fn many_records_take_one_write_and_one_sync() {
    for (fsync, syncs) in [
        (FsyncPolicy::Never, 0),
        (FsyncPolicy::Interval(Duration::from_secs(3600)), 0),
        (FsyncPolicy::Interval(Duration::ZERO), 1),
        (FsyncPolicy::BeforeAnswering, 1),
    ] {
        let (store, faults) = FaultyStore::new(usize::MAX);
        let mut writer = create(store, fsync);
        faults.writes.set(0);
        faults.syncs.set(0);
        for number in 0..100 {
            writer.append(KIND, &[&content(number)]).unwrap();
        }
        assert_eq!(faults.writes.get(), 0);
        writer.commit().unwrap();
        writer.commit().unwrap();
        assert_eq!((faults.writes.get(), faults.syncs.get()), (1, syncs), "{fsync:?}");
        writer.close().unwrap();
        assert_eq!(faults.syncs.get() > 0, fsync != FsyncPolicy::Never);
        assert_eq!(writer.into_store().records(), contents(100));
    }
}
