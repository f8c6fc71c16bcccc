//! The journal of a simulated host, and what must be in it after the process was killed or the power has failed.
//!
//! The host writes each result down before it answers with it. The model is a list of everything that was appended: whatever
//! happens, the journal has a beginning of this list, and that has at least what was promised.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use pelton::journal::{FsyncPolicy, Journal, JournalError, JournalOptions, RecordKind, cut_damage};

use crate::disk::SimulatedDisk;
use crate::model::Verdict;
use crate::random::Random;
use crate::workload::{Expected, Job};

const RESULT: RecordKind = RecordKind::new(1);

/// Something that the program was asked for.
struct LedgerJob {
    tenant: u32,
    job: Job,
    /// Whether it needs no record, because it ended without a result or nobody wants the result any more.
    is_settled: bool,
}

/// How a process comes to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Crash {
    Kill,
    PowerLoss,
}

/// A folder that exists for as long as a simulation.
struct LedgerFolder(PathBuf);

impl Drop for LedgerFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A journal with what it must have.
pub(crate) struct Ledger {
    disk: Rc<SimulatedDisk>,
    random: Random,
    options: JournalOptions,
    /// Everything that the program was asked for.
    jobs: Vec<LedgerJob>,
    /// `None` after a failure, until it is opened again.
    journal: Option<Journal>,
    /// Everything that was appended, as far as the journal may have it.
    appended: Vec<Vec<u8>>,
    /// How many records survive the end of the process.
    committed: usize,
    /// How many records survive the loss of power.
    synced: usize,
    folder: LedgerFolder,
}

impl Ledger {
    /// Makes the journal of a seed.
    pub(crate) fn new(disk: &Rc<SimulatedDisk>, seed: u64) -> Result<Ledger, String> {
        let mut random = Random::new(seed, 4);
        let interval = FsyncPolicy::Interval(Duration::from_micros(random.below(300)));
        let fsync = random.pick(&[FsyncPolicy::Never, interval, FsyncPolicy::BeforeAnswering]);
        let options =
            JournalOptions::new([7; 32]).fsync(fsync).segment_bytes(random.pick(&[100, 400, 1 << 20]));
        let name =
            format!("pelton-simulator-{}-{seed}-{:?}", std::process::id(), std::thread::current().id());
        let folder = LedgerFolder(std::env::temp_dir().join(name));
        let mut ledger = Ledger {
            disk: disk.clone(),
            random,
            options,
            journal: None,
            jobs: Vec::new(),
            appended: Vec::new(),
            committed: 0,
            synced: 0,
            folder,
        };
        ledger.open(0)?;
        Ok(ledger)
    }

    /// Returns the number of the next thing that the program is asked for.
    pub(crate) fn next_number(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// Notes what the program is asked for. Something that it was asked for before is noted again.
    pub(crate) fn note_job(&mut self, tenant: u32, job: &Job) {
        if job.number == self.next_number() {
            self.jobs.push(LedgerJob { tenant, job: job.clone(), is_settled: false });
        }
    }

    /// Notes that something needs no record.
    pub(crate) fn settle(&mut self, number: u64) {
        self.jobs[number as usize].is_settled = true;
    }

    /// Writes a result down.
    pub(crate) fn append_result(&mut self, number: u64, result: u32) -> Verdict {
        self.append([&number.to_le_bytes()[..], &result.to_le_bytes()].concat())
    }

    /// Returns everything that has no record among those that were found, and needs one. Fails if a record is wrong.
    pub(crate) fn missing(&self, found: &[Vec<u8>]) -> Result<Vec<(u32, Job)>, String> {
        let mut results: Vec<Option<u32>> = vec![None; self.jobs.len()];
        for record in found.iter().filter(|record| !record.is_empty()) {
            let (number, result) = record.split_at(8);
            let number = u64::from_le_bytes(number.try_into().expect("eight bytes were taken")) as usize;
            let result = u32::from_le_bytes(result.try_into().map_err(|_| "a record is too short")?);
            let entry = &self.jobs[number];
            match (entry.job.kind.expected)(&entry.job) {
                _ if results[number].is_some() => return Err(format!("{number} has two records")),
                Expected::Result(wanted, _) if wanted == result => results[number] = Some(result),
                wanted => return Err(format!("the record of {number} has {result}, and not {wanted:?}")),
            }
        }
        let missing =
            self.jobs.iter().zip(results).filter(|(job, result)| !job.is_settled && result.is_none());
        Ok(missing.map(|(entry, _)| (entry.tenant, entry.job.clone())).collect())
    }

    /// Writes a record down. If that fails, the process is as good as killed.
    fn append(&mut self, record: Vec<u8>) -> Verdict {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let appended = journal.append(RESULT, &[&record]);
        // Even if it fails, an unfinished write may have left the record in the file.
        self.appended.push(record);
        self.note(appended)
    }

    /// Commits everything, and returns whether the host may answer with what it has written.
    pub(crate) fn commit(&mut self) -> Result<bool, String> {
        let Some(journal) = &mut self.journal else { return Ok(false) };
        let syncs = self.disk.sync_count();
        let committed = journal.commit();
        let is_done = committed.is_ok();
        if is_done {
            self.committed = self.appended.len();
            let has_synced = self.disk.sync_count() > syncs;
            if has_synced || self.options.fsync == FsyncPolicy::BeforeAnswering {
                self.synced = self.appended.len();
            }
        }
        self.note(committed)?;
        Ok(is_done)
    }

    /// Lets something go wrong with the disk soon.
    pub(crate) fn plan_fault(&mut self) {
        match self.random.below(4) {
            0 => self.disk.set_room(self.random.below(200) as usize),
            1 => self.disk.break_syncs(),
            _ => self.disk.kill_after(self.random.below(4)),
        }
    }

    /// Returns whether everything that the host has answered with survives this.
    pub(crate) fn survives(&self, how: Crash) -> bool {
        how == Crash::Kill || self.options.fsync == FsyncPolicy::BeforeAnswering
    }

    /// Returns whether the last process has left an unfinished end.
    pub(crate) fn had_torn_tail(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.torn_tail().is_some())
    }

    /// Returns whether the journal takes no more records.
    pub(crate) fn has_failed(&self) -> bool {
        self.journal.is_none()
    }

    fn note(&mut self, done: Result<(), JournalError>) -> Verdict {
        match done {
            Ok(()) => Ok(()),
            Err(JournalError::Io { .. } | JournalError::Failed { .. }) => {
                self.journal = None;
                Ok(())
            }
            Err(error) => Err(format!("the journal: {error}")),
        }
    }

    /// Ends the process in this way, and opens the journal in another one. Returns the records that are there.
    pub(crate) fn crash(&mut self, how: Crash) -> Result<Vec<Vec<u8>>, String> {
        self.journal = None;
        let mut promised = self.committed;
        if how == Crash::PowerLoss {
            self.disk.lose_power(&self.folder.0).map_err(|error| error.to_string())?;
            promised = self.synced;
        }
        self.disk.repair();
        self.open(promised)
    }

    /// Opens the journal, and checks what it has.
    fn open(&mut self, promised: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut found = Vec::new();
        let mut opened = self.try_open(&mut found);
        let gaps_are_allowed = self.options.fsync == FsyncPolicy::Never;
        let has_gap = |error: &JournalError| {
            matches!(error, JournalError::Corrupt { .. } | JournalError::MissingSegment { .. })
        };
        if gaps_are_allowed && opened.as_ref().is_err_and(has_gap) {
            match cut_damage(&self.folder.0) {
                Ok(_) => {}
                // Not even the beginning is there.
                Err(
                    JournalError::Corrupt { offset: 0, .. } | JournalError::MissingSegment { number: 1, .. },
                ) => {
                    std::fs::remove_dir_all(&self.folder.0).map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(format!("the journal cannot be cut: {error}")),
            }
            found.clear();
            opened = self.try_open(&mut found);
        }
        self.journal = Some(opened.map_err(|error| format!("the journal cannot be opened: {error}"))?);
        if found.len() < promised {
            let what = format!("{promised} records were promised, and {} are left", found.len());
            return Err(format!("{what} ({:?})", self.options.fsync));
        }
        if !self.appended.starts_with(&found) {
            return Err("the journal has records that were not appended".into());
        }
        self.appended.truncate(found.len());
        self.committed = found.len();
        // Opening the journal syncs what is there.
        let syncs = self.options.fsync != FsyncPolicy::Never;
        self.synced = if syncs { found.len() } else { self.synced.min(found.len()) };
        Ok(found)
    }

    fn try_open(&self, found: &mut Vec<Vec<u8>>) -> Result<Journal, JournalError> {
        Journal::open(&self.folder.0, &self.options, |record| found.push(record.bytes.to_vec()))
    }
}
