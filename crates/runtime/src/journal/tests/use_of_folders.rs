//! What is written is found again, in one process at a time.

use std::time::Duration;

use super::*;

#[test]
fn what_was_committed_is_found_again() {
    for fsync in
        [FsyncPolicy::Never, FsyncPolicy::Interval(Duration::from_millis(1)), FsyncPolicy::BeforeAnswering]
    {
        let folder = TestFolder::new();
        // Segments this short hold two or three groups each.
        let options = options().fsync(fsync).segment_bytes(200);
        for round in 0..5 {
            let (mut journal, found) = open(&folder.0, &options).unwrap();
            assert_eq!(found, contents(round * 20), "{fsync:?}");
            assert_eq!(journal.torn_tail(), None);
            append(&mut journal, round * 20, round * 20 + 20);
            match round % 2 {
                0 => drop(journal),
                _ => journal.close().unwrap(),
            }
        }
        let mut reader = JournalReader::open(&folder.0).unwrap();
        let (mut records, mut last) = (0, RecordPlace { segment: 0, offset: 0 });
        while let Some(record) = reader.next_record().unwrap() {
            assert!(record.place > last);
            last = record.place;
            records += 1;
        }
        assert_eq!(records, 102, "100 records, and two that say that the journal was closed");
        assert!(reader.segment_count() > 5 && last.segment == reader.segment_count());
        let bytes: u64 =
            (1..=reader.segment_count()).map(|n| fs::metadata(folder.segment(n)).unwrap().len()).sum();
        assert_eq!(reader.byte_count(), bytes);
    }
}

#[test]
fn what_was_not_committed_is_not_there() {
    let folder = TestFolder::new();
    let (mut journal, _) = open(&folder.0, &options()).unwrap();
    append(&mut journal, 0, 4);
    journal.append(KIND, &[b"lost"]).unwrap();
    drop(journal);
    assert_eq!(open(&folder.0, &options()).unwrap().1, contents(4));
}

#[test]
fn many_bytes_are_written_without_being_asked() {
    let folder = TestFolder::new();
    let (mut journal, _) = open(&folder.0, &options()).unwrap();
    let large = vec![5; MAX_RECORD];
    journal.append(KIND, &[&large]).unwrap();
    assert!(matches!(
        journal.append(KIND, &[&large, &[1]]),
        Err(JournalError::RecordTooLong { bytes }) if bytes == MAX_RECORD + 1
    ));
    drop(journal);
    let found = open(&folder.0, &options()).unwrap().1;
    assert!(found == [large]);
}

#[test]
fn a_second_opening_is_refused_until_the_first_is_dropped() {
    let folder = TestFolder::new();
    let (journal, _) = open(&folder.0, &options()).unwrap();
    let refused = open(&folder.0, &options()).unwrap_err();
    let own = std::process::id();
    assert!(matches!(&refused, JournalError::InUse { holder: Some(pid), .. } if *pid == own), "{refused}");
    assert!(refused.to_string().ends_with(&format!(" is in use by process {own}")));
    assert!(matches!(cut_damage(&folder.0), Err(JournalError::InUse { .. })));
    // Reading needs no lock.
    assert!(JournalReader::open(&folder.0).unwrap().next_record().unwrap().is_none());
    drop(journal);
    open(&folder.0, &options()).unwrap();
}

#[test]
fn another_fingerprint_and_other_folders_are_refused() {
    let folder = TestFolder::new();
    assert!(matches!(JournalReader::open(&folder.0), Err(JournalError::NoJournal { .. })));
    assert!(matches!(cut_damage(&folder.0), Err(JournalError::NoJournal { .. })));
    assert!(!folder.0.exists(), "reading makes nothing");
    drop(open(&folder.0, &options()).unwrap());
    let other = JournalOptions { fingerprint: [1; 32], ..options() };
    assert!(matches!(
        open(&folder.0, &other),
        Err(JournalError::OtherFingerprint { found: FINGERPRINT, wanted, .. }) if wanted == [1; 32]
    ));

    let full = TestFolder::new();
    fs::create_dir_all(&full.0).unwrap();
    assert!(matches!(JournalReader::open(&full.0), Err(JournalError::NoJournal { .. })));
    fs::write(full.0.join("notes.txt"), "mine").unwrap();
    assert!(matches!(open(&full.0, &options()), Err(JournalError::OtherFiles { .. })));
    assert_eq!(fs::read_dir(&full.0).unwrap().count(), 1, "nothing was made there");
    assert!(matches!(open(&full.0.join("notes.txt"), &options()), Err(JournalError::Io { .. })));
}
