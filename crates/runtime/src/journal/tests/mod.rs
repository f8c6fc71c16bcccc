//! Tests of journals.

mod damage;
mod faults;
mod use_of_folders;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::folder::segment_path;
use super::*;

const FINGERPRINT: [u8; 32] = [9; 32];
const KIND: RecordKind = RecordKind::new(3);

/// A folder that exists during one test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> TestFolder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number itself is shared.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pelton-journal-{}-{number}", std::process::id());
        TestFolder(std::env::temp_dir().join(name))
    }

    fn segment(&self, number: u64) -> PathBuf {
        segment_path(&self.0, number)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> JournalOptions {
    JournalOptions::new(FINGERPRINT).fsync(FsyncPolicy::Never)
}

/// Opens a journal, and returns it with the contents of its records.
fn open(folder: &Path, options: &JournalOptions) -> Result<(Journal, Vec<Vec<u8>>), JournalError> {
    let mut found = Vec::new();
    let journal = Journal::open(folder, options, |record| {
        if record.kind != RecordKind::CLOSED {
            assert_eq!(record.kind, KIND);
            found.push(record.bytes.to_vec());
        }
    })?;
    Ok((journal, found))
}

/// The content of record `number`. Contents have different lengths, and one is empty.
fn content(number: usize) -> Vec<u8> {
    (0..number * 7 % 40).map(|at| (at * 31 + number) as u8).collect()
}

/// Appends records from `from` to `to`, with a commit after every third.
fn append(journal: &mut Journal, from: usize, to: usize) {
    for number in from..to {
        let content = content(number);
        let (left, right) = content.split_at(content.len() / 2);
        journal.append(KIND, &[left, right]).unwrap();
        if number % 3 == 2 {
            journal.commit().unwrap();
        }
    }
    journal.commit().unwrap();
}

fn contents(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(content).collect()
}
