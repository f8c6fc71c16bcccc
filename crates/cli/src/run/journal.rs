//! `--journal`: tasks whose results the journal has are not run again, and no result is printed before it is journalled.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use pelton::journal::{FsyncPolicy, Journal, JournalError, JournalOptions, RecordPlace, TornTail};
use pelton::{Class, Spec};

use super::RunArgs;
use super::output::ResultOutput;
use super::printing::OutputFile;
use super::results::EndCounts;
use super::stores::StoringOps;
use crate::error::CliError;
use crate::recording::{
    RecordedBuffer, RecordingError, RunHeader, RunRecord, TaskEnd, find_line, shown_text,
};

/// The number of bytes of results that are journalled and printed together.
const GROUP: usize = 1 << 18;

/// The time between two syncs with `--fsync interval`.
const INTERVAL: Duration = Duration::from_secs(1);

/// When the journal is handed to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum FsyncArg {
    /// Leave it to the system: results survive the end of the program
    Never,
    /// Once per second: if the machine loses power, a second of results may be lost
    Interval,
    /// Before results are printed: they survive the loss of power too
    Answer,
}

impl FsyncArg {
    fn policy(self) -> FsyncPolicy {
        match self {
            FsyncArg::Never => FsyncPolicy::Never,
            FsyncArg::Interval => FsyncPolicy::Interval(INTERVAL),
            FsyncArg::Answer => FsyncPolicy::BeforeAnswering,
        }
    }
}

/// A task of the journal.
struct KnownTask {
    line: u64,
    /// The hash of its text.
    hash: u64,
    has_result: bool,
}

/// The journal of a run.
pub(super) struct RunJournal {
    journal: Journal,
    fsync: FsyncPolicy,
    hasher: RandomState,
    /// The tasks that were there when the journal was opened, in the order of their lines.
    known: Vec<KnownTask>,
    /// How many of these the input has had again.
    compared: usize,
    /// Results that are to be printed, each with the end of its line.
    unprinted: VecDeque<Vec<u8>>,
    /// How many results were printed.
    printed: u64,
    /// The results that were there when the journal was opened, by how their tasks had ended.
    pub ends: EndCounts,
    /// The tasks that may have stored something that is lost if they are not run again.
    pub storing: StoringOps,
}

/// Whether a task is to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunTask {
    Run,
    /// The journal has its result.
    HasResult,
}

impl RunJournal {
    /// Opens the journal that the options name, if they do. Options that do not go together with it are refused.
    pub(super) fn from_args(args: &RunArgs, spec: &Spec) -> Result<Option<RefCell<RunJournal>>, CliError> {
        let Some(folder) = &args.journal else { return Ok(None) };
        refuse_others(args, spec)?;
        let buffers = args.buffers.iter().map(|(name, init)| RecordedBuffer::new(name.to_string(), init));
        let header = RunHeader::new(spec, buffers.collect::<Result<_, _>>()?);
        let (fsync, storing) = (args.fsync.policy(), StoringOps::new(spec));
        RunJournal::open(folder, &header, fsync, storing).map(|journal| Some(RefCell::new(journal)))
    }

    fn open(
        folder: &Path,
        header: &RunHeader,
        fsync: FsyncPolicy,
        storing: StoringOps,
    ) -> Result<RunJournal, CliError> {
        let options = JournalOptions::new(header.fingerprint()).fsync(fsync);
        let mut found = FoundRecords::default();
        let opened = Journal::open(folder, &options, |record| match RunRecord::decode(record) {
            Some(record) => found.take(record),
            None => found.unknown = found.unknown.or(Some(record.place)),
        });
        let mut journal = match opened {
            Err(JournalError::OtherFingerprint { .. }) => return Err(header.other_run(folder)),
            opened => opened?,
        };
        if let Some(place) = found.unknown {
            return Err(RecordingError::Unknown { place }.into());
        }
        if !found.has_header {
            RunRecord::Header(&header.text()).encode(|kind, parts| journal.append(kind, parts))?;
        }
        let FoundRecords { hasher, known, unprinted, printed, ends, .. } = found;
        Ok(RunJournal { journal, fsync, hasher, known, compared: 0, unprinted, printed, ends, storing })
    }

    /// The tail that was cut off, if there was one.
    pub(super) fn torn_tail(&self) -> Option<&TornTail> {
        self.journal.torn_tail()
    }

    /// Notes the device on which tasks run from now on.
    pub(super) fn note_start(&mut self, device: &str) -> Result<(), CliError> {
        self.append(&RunRecord::Started(device))
    }

    /// Journals the task of a line, or compares it with the one that the journal has.
    pub(super) fn take_task(&mut self, line: u64, text: &[u8]) -> Result<RunTask, CliError> {
        let hash = self.hasher.hash_one(text);
        match self.known.get(self.compared) {
            None => self.append(&RunRecord::Task { line, text }).map(|()| RunTask::Run),
            Some(known) if (known.line, known.hash) == (line, hash) => {
                self.compared += 1;
                Ok(if known.has_result { RunTask::HasResult } else { RunTask::Run })
            }
            Some(known) if known.line > line => {
                Err(RecordingError::NewLine { line, found: shown_text(text) }.into())
            }
            Some(known) if known.line < line => Err(self.missing_line(known.line)),
            Some(_) => {
                let recorded = self.recorded_text(line);
                Err(RecordingError::OtherLine { line, found: shown_text(text), recorded }.into())
            }
        }
    }

    /// Refuses an input that has ended before the tasks of the journal have.
    pub(super) fn end_input(&self) -> Result<(), CliError> {
        self.known.get(self.compared).map_or(Ok(()), |known| Err(self.missing_line(known.line)))
    }

    fn missing_line(&self, line: u64) -> CliError {
        RecordingError::MissingLine { line, recorded: self.recorded_text(line) }.into()
    }

    fn recorded_text(&self, line: u64) -> String {
        let found = find_line(self.journal.folder(), line).ok().and_then(|(task, _)| task);
        found.unwrap_or_else(|| "another one".into())
    }

    /// Hands the tasks that were read to the system, so that a recording has those that were under way at a crash.
    pub(super) fn write_out(&mut self) -> Result<(), CliError> {
        Ok(self.journal.write_out()?)
    }

    /// Notes that the results that end in this text were printed.
    fn note_printed(&mut self, lines: &[u8]) -> Result<(), CliError> {
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        if count == 0 {
            return Ok(());
        }
        self.printed += count;
        self.append(&RunRecord::Printed(self.printed))?;
        self.write_out()
    }

    /// Commits everything, and notes that the run has ended.
    pub(super) fn close(self) -> Result<(), CliError> {
        Ok(self.journal.close()?)
    }

    fn append(&mut self, record: &RunRecord<'_>) -> Result<(), CliError> {
        Ok(record.encode(|kind, parts| self.journal.append(kind, parts))?)
    }
}

/// Refuses what a journal cannot be combined with.
fn refuse_others(args: &RunArgs, spec: &Spec) -> Result<(), CliError> {
    let refused =
        |option: &str, reason| Err(RecordingError::Refused { option: option.into(), reason }.into());
    if args.watch {
        return refused("--watch", "a journal is of one spec, which --watch would change");
    }
    if !args.outs.is_empty() {
        let reason =
            "a journal does not keep memory, so a region would lack what tasks before a crash have stored";
        return refused("--out", reason);
    }
    if spec.events > 0 {
        let reason =
            "a journal does not keep signals, so tasks that wait for them could wait in vain after a crash";
        return refused("the events of a spec", reason);
    }
    if spec.handlers.iter().any(|handler| handler.class == Class::Once) {
        let reason = "after a crash, tasks without a result are run again, although they may have begun";
        return refused("a handler of the class \"once\"", reason);
    }
    Ok(())
}

/// What is found in a journal when it is opened.
#[derive(Default)]
struct FoundRecords {
    hasher: RandomState,
    has_header: bool,
    known: Vec<KnownTask>,
    unprinted: VecDeque<Vec<u8>>,
    printed: u64,
    ends: EndCounts,
    unknown: Option<RecordPlace>,
}

impl FoundRecords {
    fn take(&mut self, record: RunRecord<'_>) {
        match record {
            RunRecord::Header(_) => self.has_header = true,
            RunRecord::Task { line, text } => {
                self.known.push(KnownTask { line, hash: self.hasher.hash_one(text), has_result: false });
            }
            RunRecord::Result { line, end, text } => {
                if let Ok(at) = self.known.binary_search_by_key(&line, |known| known.line) {
                    self.known[at].has_result = true;
                }
                self.ends.add(end);
                self.unprinted.push_back([text, b"\n"].concat());
            }
            RunRecord::Printed(count) => {
                while self.printed < count && self.unprinted.pop_front().is_some() {
                    self.printed += 1;
                }
            }
            RunRecord::Started(_) | RunRecord::Closed => {}
        }
    }
}

/// Journals results, and prints them afterwards.
pub(super) struct JournalledOutput<'j, W> {
    journal: &'j RefCell<RunJournal>,
    out: W,
    /// The results that are not printed yet. The first may lack what was printed of it before a crash.
    waiting: Vec<u8>,
    /// What standard output is.
    file: OutputFile,
}

impl<'j, W: Write> JournalledOutput<'j, W> {
    /// Begins with the results that the journal has but that may not have been printed.
    pub(super) fn new(journal: &'j RefCell<RunJournal>, out: W) -> Result<Self, CliError> {
        let unprinted = std::mem::take(&mut journal.borrow_mut().unprinted);
        let mut waiting: Vec<u8> = unprinted.into_iter().flatten().collect();
        let file = OutputFile::of_stdout();
        let printed = file.printed_length(&waiting);
        journal.borrow_mut().note_printed(&waiting[..printed])?;
        waiting.drain(..printed);
        Ok(JournalledOutput { journal, out, waiting, file })
    }
}

impl<W: Write> ResultOutput for JournalledOutput<'_, W> {
    fn put(&mut self, line: u64, end: Option<TaskEnd>, text: &[u8]) -> Result<(), CliError> {
        // A task that has not run to its end is run again when the command is, so nothing is said about it now.
        let Some(end) = end else { return Ok(()) };
        let record = RunRecord::Result { line, end, text: text.trim_ascii_end() };
        self.journal.borrow_mut().append(&record)?;
        self.waiting.extend(text);
        if self.waiting.len() >= GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CliError> {
        let mut journal = self.journal.borrow_mut();
        if self.waiting.is_empty() {
            // Nothing is answered, so nothing has to be on the disk but what the interval asks for.
            return match journal.fsync {
                FsyncPolicy::BeforeAnswering => journal.write_out(),
                _ => Ok(journal.journal.commit()?),
            };
        }
        journal.journal.commit()?;
        let mut rest = self.waiting.as_slice();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(self.file.write_piece(&mut self.out, rest)?);
            if journal.fsync == FsyncPolicy::BeforeAnswering {
                self.file.sync()?;
            }
            journal.note_printed(piece)?;
            rest = later;
        }
        self.waiting.clear();
        Ok(())
    }
}
