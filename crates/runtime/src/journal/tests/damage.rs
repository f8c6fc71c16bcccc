//! Torn tails are cut off, and everything else that is damaged is found.

use std::fs::OpenOptions;
use std::io::Write;

use super::super::format::{HEADER, RECORD_HEADER, VERSION};
use super::*;

const RECORDS: usize = 11;

/// Makes a journal with one segment, and returns its bytes.
fn written(folder: &TestFolder, options: &JournalOptions, closed: bool) -> Vec<u8> {
    let (mut journal, _) = open(&folder.0, options).unwrap();
    append(&mut journal, 0, RECORDS);
    if closed {
        journal.close().unwrap();
    }
    fs::read(folder.segment(1)).unwrap()
}

/// Where each record begins, and where the last one ends.
fn places(folder: &Path) -> Vec<u64> {
    let mut reader = JournalReader::open(folder).unwrap();
    let (mut places, mut end) = (Vec::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        places.push(record.place.offset);
        end = record.place.offset + (RECORD_HEADER + record.bytes.len()) as u64;
    }
    places.push(end);
    places
}

#[test]
fn a_tail_that_is_torn_at_any_byte_is_cut_off() {
    let folder = TestFolder::new();
    let whole = written(&folder, &options(), true);
    let places = places(&folder.0);
    for length in 0..whole.len() {
        fs::write(folder.segment(1), &whole[..length]).unwrap();
        let (mut journal, found) = open(&folder.0, &options()).unwrap();
        let kept = places.iter().filter(|place| **place <= length as u64).count().saturating_sub(1);
        assert_eq!(found, contents(kept), "{length} bytes");
        let (torn, end) = (journal.torn_tail(), places[kept]);
        match torn {
            None => assert_eq!(length as u64, end),
            Some(torn) if length < HEADER => assert_eq!((torn.offset, torn.bytes), (0, length as u64)),
            Some(torn) => assert_eq!((torn.offset, torn.offset + torn.bytes), (end, length as u64)),
        }
        // The journal goes on behind what was left.
        append(&mut journal, kept, RECORDS);
        drop(journal);
        let (journal, found) = open(&folder.0, &options()).unwrap();
        assert_eq!((found, journal.torn_tail()), (contents(RECORDS), None), "{length} bytes");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let folder = TestFolder::new();
    let whole = written(&folder, &options(), true);
    let closed = places(&folder.0)[RECORDS];
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(folder.segment(1), &bytes).unwrap();
        match open(&folder.0, &options()) {
            Err(JournalError::OtherVersion { .. }) if (8..12).contains(&(bit / 8)) => {}
            Err(JournalError::Corrupt { path, offset, .. }) => {
                assert_eq!(path, folder.segment(1));
                assert!(offset <= bit as u64 / 8 && offset < closed, "bit {bit} is found at {offset}");
            }
            // Only the last record has nothing behind it that shows that it was whole.
            Ok((journal, found)) => {
                assert_eq!(journal.torn_tail().map(|torn| torn.offset), Some(closed), "bit {bit}");
                assert_eq!(found, contents(RECORDS));
            }
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

#[test]
fn damage_behind_the_last_sync_is_a_torn_tail() {
    let folder = TestFolder::new();
    let synced = options().fsync(FsyncPolicy::BeforeAnswering);
    let (mut journal, _) = open(&folder.0, &synced).unwrap();
    journal.append(KIND, &[b"committed"]).unwrap();
    journal.commit().unwrap();
    for record in ["a page of", "this group", "was written"] {
        journal.append(KIND, &[record.as_bytes()]).unwrap();
    }
    journal.write_out().unwrap();
    drop(journal);
    let whole = fs::read(folder.segment(1)).unwrap();
    let places = places(&folder.0);
    for damaged in 1..4 {
        let mut bytes = whole.clone();
        bytes[places[damaged] as usize + 14] ^= 0x10;
        fs::write(folder.segment(1), &bytes).unwrap();
        let (journal, found) = open(&folder.0, &synced).unwrap();
        assert_eq!(found.len(), damaged, "what was committed is there");
        assert_eq!(journal.torn_tail().unwrap().offset, places[damaged]);
    }
    let mut bytes = whole.clone();
    bytes[places[0] as usize + 14] ^= 0x10;
    fs::write(folder.segment(1), &bytes).unwrap();
    let refused = open(&folder.0, &synced).unwrap_err();
    assert!(
        matches!(refused, JournalError::Corrupt { offset, damage: Damage::Checksum, .. } if offset == places[0])
    );
}

#[test]
fn a_record_of_another_place_is_never_taken_for_one() {
    let folder = TestFolder::new();
    written(&folder, &options(), false);
    let places = places(&folder.0);
    let whole = fs::read(folder.segment(1)).unwrap();
    // The last record once more, as if an old block of the disk had come back behind it.
    let mut bytes = whole.clone();
    bytes.extend(&whole[places[RECORDS - 1] as usize..]);
    fs::write(folder.segment(1), &bytes).unwrap();
    let (journal, found) = open(&folder.0, &options()).unwrap();
    assert_eq!(found, contents(RECORDS));
    assert_eq!(journal.torn_tail().unwrap().offset, whole.len() as u64);
    drop(journal);
    // A segment of another journal.
    let other = TestFolder::new();
    written(&other, &options(), false);
    let stranger = fs::read(other.segment(1)).unwrap();
    fs::write(folder.segment(1), [&whole[..HEADER], &stranger[HEADER..]].concat()).unwrap();
    assert!(open(&folder.0, &options()).unwrap().1.is_empty());
}

#[test]
fn segments_that_do_not_fit_are_refused() {
    let folder = TestFolder::new();
    let short = options().segment_bytes(200);
    let (mut journal, _) = open(&folder.0, &short).unwrap();
    append(&mut journal, 0, 30);
    drop(journal);
    let copy = |from: u64, to: u64| fs::copy(folder.segment(from), folder.segment(to)).unwrap();
    let second = fs::read(folder.segment(2)).unwrap();

    copy(3, 2);
    let refused = open(&folder.0, &short).unwrap_err().to_string();
    assert!(
        refused.ends_with("00000002.seg is corrupt at byte 0: the header is that of segment 3"),
        "{refused}"
    );
    fs::write(folder.segment(2), &second[..second.len() - 1]).unwrap();
    let refused = open(&folder.0, &short).unwrap_err().to_string();
    assert!(refused.contains("00000002.seg is corrupt at byte "), "{refused}");
    assert!(refused.ends_with("the segment ends in the middle of a record"), "{refused}");
    fs::write(folder.segment(2), &second[..HEADER]).unwrap();
    let refused = open(&folder.0, &short).unwrap_err().to_string();
    assert!(refused.contains("corrupt at byte 72: the segment ends there, but had "), "{refused}");
    fs::remove_file(folder.segment(2)).unwrap();
    let refused = open(&folder.0, &short).unwrap_err();
    assert!(matches!(refused, JournalError::MissingSegment { number: 2, .. }), "{refused}");

    let other = TestFolder::new();
    let (mut journal, _) = open(&other.0, &short).unwrap();
    append(&mut journal, 0, 30);
    fs::copy(other.segment(2), folder.segment(2)).unwrap();
    assert!(matches!(open(&folder.0, &short), Err(JournalError::OtherJournal { .. })));
    fs::write(folder.segment(2), &second).unwrap();
    assert_eq!(open(&folder.0, &short).unwrap().1, contents(30));
}

#[test]
fn a_segment_that_was_only_begun_is_removed() {
    let folder = TestFolder::new();
    let short = options().segment_bytes(200);
    let (mut journal, _) = open(&folder.0, &short).unwrap();
    append(&mut journal, 0, 9);
    drop(journal);
    let next = JournalReader::open(&folder.0).unwrap().segment_count() + 1;
    for begun in [&[][..], &[0; 200], b"pelt"] {
        fs::write(folder.segment(next), begun).unwrap();
        let (journal, found) = open(&folder.0, &short).unwrap();
        assert_eq!(found, contents(9));
        assert_eq!(journal.torn_tail().unwrap().path, folder.segment(next));
        assert!(!folder.segment(next).exists());
    }
}

#[test]
fn another_version_is_refused() {
    let folder = TestFolder::new();
    let mut bytes = written(&folder, &options(), false);
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    fs::write(folder.segment(1), &bytes).unwrap();
    let refused = open(&folder.0, &options()).unwrap_err().to_string();
    assert!(refused.ends_with("has version 2 of the format of journals, and this program reads version 1"));
}

#[test]
fn damage_is_cut_off_only_when_asked() {
    let folder = TestFolder::new();
    let short = options().segment_bytes(200);
    let (mut journal, _) = open(&folder.0, &short).unwrap();
    append(&mut journal, 0, 30);
    drop(journal);
    assert_eq!(cut_damage(&folder.0).unwrap(), None);
    let mut second = OpenOptions::new().append(true).open(folder.segment(2)).unwrap();
    second.write_all(b"x").unwrap();
    assert!(matches!(open(&folder.0, &short), Err(JournalError::Corrupt { .. })));
    let cut = cut_damage(&folder.0).unwrap().unwrap();
    assert!(cut.path == folder.segment(2) && cut.bytes > 1 && !folder.segment(3).exists());
    let (journal, found) = open(&folder.0, &short).unwrap();
    assert_eq!(journal.torn_tail(), None);
    assert!(!found.is_empty() && found.len() < 30 && found == contents(found.len()));
}

/// Catches a journal that cannot be made usable again, because the name of a segment has never reached the disk.
#[test]
fn a_journal_without_one_of_its_segments_is_cut_there() {
    let folder = TestFolder::new();
    let options = options().segment_bytes(150);
    let (mut journal, _) = open(&folder.0, &options).unwrap();
    append(&mut journal, 0, 30);
    drop(journal);
    let kept = {
        let mut reader = JournalReader::open(&folder.0).unwrap();
        let mut kept = 0;
        while reader.next_record().unwrap().is_some_and(|record| record.place.segment < 3) {
            kept += 1;
        }
        kept
    };
    let behind: u64 =
        (4..).map_while(|number| fs::metadata(folder.segment(number)).ok()).map(|file| file.len()).sum();
    assert!(kept > 0 && behind > 0);
    fs::remove_file(folder.segment(3)).unwrap();
    assert!(matches!(open(&folder.0, &options), Err(JournalError::MissingSegment { number: 3, .. })));
    let cut = cut_damage(&folder.0).unwrap().unwrap();
    assert_eq!((cut.path, cut.bytes), (folder.segment(2), behind));
    let (journal, found) = open(&folder.0, &options).unwrap();
    assert_eq!(found, contents(kept));
    drop(journal);
    fs::remove_file(folder.segment(1)).unwrap();
    assert!(matches!(cut_damage(&folder.0), Err(JournalError::MissingSegment { number: 1, .. })));
}
