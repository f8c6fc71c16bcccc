//! `bench journal`: how fast records reach the disk, compared with plain writes of the same number of bytes.
//!
//! Every round writes a journal with each policy, and a plain file of the same length in pieces of 1 MiB, which is as
//! sequential as writes can be. What ends with a sync is compared with a file that does so as well. Every journal is read
//! back, and its records are counted and compared; that is not timed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pelton::journal::{FsyncPolicy, Journal, JournalOptions, JournalReader, RecordKind};

use super::BenchRow;
use super::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The number of rounds if none is given.
const ROUNDS: u32 = 7;
/// The number of commits that are timed per round.
const COMMITS: u64 = 50;
/// The number of records per commit.
const COMMIT_RECORDS: u64 = 1000;
/// The bytes of a plain write.
const PIECE: usize = 1 << 20;
const KIND: RecordKind = RecordKind::new(1);

/// Measure how fast a journal is written, compared with plain sequential writes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench journal
  pelton bench journal --folder /mnt/disk --quick --json rows.jsonl

The rows `never` end when the system has all bytes, and the rows `interval` when the disk has.
Each is compared with a plain file of the same length. The rows `answer` are single commits of
1000 records, compared with a write and a sync of as many bytes.")]
pub(super) struct JournalBenchArgs {
    /// The folder to write in; a folder for temporary files if it is not given
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Write less, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl JournalBenchArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let folder = self.folder.iter().flat_map(|folder| ["--folder".into(), folder.display().to_string()]);
        folder.chain(self.quick.then(|| "--quick".to_string())).collect()
    }
}

/// What is written in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteTurn {
    /// A journal, of which nothing is synced, or everything at the end.
    Journal(FsyncPolicy),
    /// A plain file, which is synced at the end or not.
    Plain { synced: bool },
    /// A journal with many commits, each of which is synced.
    Commits,
    /// A plain file with as many writes and syncs.
    PlainCommits,
}

/// Measures the cases whose name contains `only`, and adds a row for each.
pub(super) fn bench_journal(
    args: &JournalBenchArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let parent = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let place = WritePlace { folder: parent.join(format!("pelton-bench-journal-{}", std::process::id())) };
    let bytes: u64 = if args.quick { 1 << 24 } else { 1 << 27 };
    for record in [80, 1000] {
        let names = ["never", "interval", "answer"].map(|name| format!("{name}, records of {record} bytes"));
        if names.iter().all(|name| !name.contains(only)) {
            continue;
        }
        term.note(format_args!("records of {record} bytes …"));
        let mut turns = [
            WriteTurn::Journal(FsyncPolicy::Never),
            WriteTurn::Plain { synced: false },
            WriteTurn::Journal(FsyncPolicy::Interval(Duration::from_secs(1))),
            WriteTurn::Plain { synced: true },
            WriteTurn::Commits,
            WriteTurn::PlainCommits,
        ];
        let series = play_rounds(rounds.unwrap_or(ROUNDS), &mut turns, |turn| {
            stop::unless_pressed()?;
            place.measure(*turn, record, bytes)
        })?;
        let peers = ["plain writes", "plain writes and a sync", "plain write and sync"];
        for ((name, peer), pair) in names.into_iter().zip(peers).zip(series.chunks(2)) {
            if name.contains(only) {
                let metric = if name.starts_with("answer") { "us" } else { "MB/s" };
                rows.extend(comparison_row(name, metric, &pair[0], (peer, &pair[1])));
            }
        }
    }
    Ok(())
}

fn comparison_row(
    case: String,
    metric: &'static str,
    ours: &Series,
    (name, peer): (&str, &Series),
) -> Option<BenchRow> {
    let (group, device, metric) = ("journal", "disk".into(), metric.into());
    let (value, spread, against) = (ours.value()?, ours.percentiles(), ours.against(name, peer));
    Some(BenchRow { group, case, device, metric, value, spread, against })
}

/// A folder that is removed at the end.
struct WritePlace {
    folder: PathBuf,
}

impl Drop for WritePlace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl WritePlace {
    fn measure(&self, turn: WriteTurn, record: usize, bytes: u64) -> Result<Sample, CliError> {
        let _ = fs::remove_dir_all(&self.folder);
        let rate =
            |bytes: u64, began: Instant| Sample::figure(bytes as f64 / began.elapsed().as_secs_f64() / 1e6);
        let content = vec![0x5a; record];
        let count = bytes / (record as u64 + 12);
        match turn {
            WriteTurn::Journal(fsync) => {
                let mut journal = self.open_journal(fsync)?;
                let began = Instant::now();
                for number in 0..count {
                    append(&mut journal, number, &content)?;
                }
                journal.close()?;
                let sample = rate(count * (record as u64 + 12), began);
                self.check_journal(&content, count)?;
                Ok(sample)
            }
            WriteTurn::Plain { synced } => {
                let mut file = self.create_file()?;
                let piece = vec![0x5a; PIECE];
                let began = Instant::now();
                for _ in 0..bytes / PIECE as u64 {
                    file.write_all(&piece)?;
                }
                if synced {
                    file.sync_data()?;
                }
                Ok(rate(bytes, began))
            }
            WriteTurn::Commits => {
                let mut journal = self.open_journal(FsyncPolicy::BeforeAnswering)?;
                let mut times = Vec::new();
                for commit in 0..COMMITS {
                    let began = Instant::now();
                    for number in 0..COMMIT_RECORDS {
                        append(&mut journal, commit * COMMIT_RECORDS + number, &content)?;
                    }
                    journal.commit()?;
                    times.push(began.elapsed().as_secs_f64() * 1e6);
                }
                journal.close()?;
                self.check_journal(&content, COMMITS * COMMIT_RECORDS)?;
                Ok(Sample::times(times))
            }
            WriteTurn::PlainCommits => {
                let mut file = self.create_file()?;
                let piece = vec![0x5a; COMMIT_RECORDS as usize * (record + 12)];
                let mut times = Vec::new();
                for _ in 0..COMMITS {
                    let began = Instant::now();
                    file.write_all(&piece)?;
                    file.sync_data()?;
                    times.push(began.elapsed().as_secs_f64() * 1e6);
                }
                Ok(Sample::times(times))
            }
        }
    }

    fn open_journal(&self, fsync: FsyncPolicy) -> Result<Journal, CliError> {
        Ok(Journal::open(&self.folder, &JournalOptions::new([0; 32]).fsync(fsync), |_| {})?)
    }

    fn create_file(&self) -> Result<File, CliError> {
        let make = |folder: &Path| {
            fs::create_dir_all(folder)?;
            File::create(folder.join("plain"))
        };
        make(&self.folder).map_err(|source| CliError::Write { path: self.folder.clone(), source })
    }

    /// Reads the journal back, and checks every record.
    fn check_journal(&self, content: &[u8], count: u64) -> Result<(), CliError> {
        let (mut reader, mut number) = (JournalReader::open(&self.folder)?, 0u64);
        while let Some(record) = reader.next_record()? {
            if record.kind == KIND {
                if record.bytes[..8] != number.to_le_bytes() || record.bytes[8..] != content[8..] {
                    return Err(CliError::Wrong(format!("record {number} of the journal is wrong")));
                }
                number += 1;
            }
        }
        match number == count {
            true => Ok(()),
            false => Err(CliError::Wrong(format!("the journal has {number} records instead of {count}"))),
        }
    }
}

/// Appends a record that begins with its number.
fn append(journal: &mut Journal, number: u64, content: &[u8]) -> Result<(), CliError> {
    Ok(journal.append(KIND, &[&number.to_le_bytes(), &content[8..]])?)
}
