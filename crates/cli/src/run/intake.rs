//! Passes tasks from lines to a session or to batches, in one loop that reads, submits and collects results, and
//! never waits for only one of these.

use std::cell::RefCell;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use pelton::kernel::TenantId;

use super::journal::{RunJournal, RunTask};
use super::lines::Chunks;
use super::task::{TaskNames, TaskOrder};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The time between two looks for Ctrl-C while no lines arrive.
const GLANCE: Duration = Duration::from_millis(20);

/// The byte order mark in UTF-8, which some programs write first.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// What is said when tasks are not run again although they may have stored something.
const LOST_MEMORY: &str = "the journal does not keep memory: regions are as they are when a run begins, without what the \
                           tasks that are not run again had stored there";

/// What to do with the lines after a bad one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum BadLines {
    /// Submit them, and leave out the bad line
    Skip,
    /// Stop reading, and finish the tasks before the bad line
    Stop,
}

/// The reason why a run ended before its lines did.
#[derive(Debug)]
pub(super) enum Halt {
    /// A line was bad.
    Bad,
    /// Ctrl-C was pressed.
    Interrupted,
    /// All tasks that were left waited for events that nothing could signal any more. The string says which.
    Standstill(String),
    /// The kernel ended by itself.
    Lost,
    /// Results cannot be written, perhaps because their reader has gone.
    Unwritten(CliError),
    /// Something else failed.
    Failed(CliError),
}

impl<E: Into<CliError>> From<E> for Halt {
    fn from(error: E) -> Halt {
        match error.into() {
            error @ (CliError::Pipe | CliError::Output(_)) => Halt::Unwritten(error),
            error => Halt::Failed(error),
        }
    }
}

/// Halts if Ctrl-C was pressed.
pub(super) fn halt_if_pressed() -> Result<(), Halt> {
    if stop::pressed() { Err(Halt::Interrupted) } else { Ok(()) }
}

/// A destination of tasks: a session, or batches.
pub(super) trait TaskSink {
    /// Is called when lines were read, before they are parsed.
    fn begin_chunk(&mut self);
    /// Checks whether a task would be accepted.
    fn check(&mut self, order: &TaskOrder) -> Result<(), String>;
    /// Accepts the task of a line.
    fn push(&mut self, order: TaskOrder, line: u64) -> Result<(), Halt>;
    /// Is called when the lines at hand are used up and more may take a while.
    fn pause(&mut self) -> Result<(), Halt>;
    /// Collects results, or waits a moment for some. It does nothing if no task is under way.
    fn progress(&mut self) -> Result<(), Halt>;
    /// Waits until every task has ended and its result is written.
    fn settle(&mut self) -> Result<(), Halt>;
    /// Whether no task is under way.
    fn idle(&self) -> bool;
    /// The number of tasks that have ended.
    fn total(&self) -> u64;
}

/// Reads lines, and passes their tasks on.
pub(super) struct Intake<'a> {
    names: &'a TaskNames,
    term: &'a Term,
    bad: BadLines,
    journal: Option<&'a RefCell<RunJournal>>,
    /// The number of tasks so far, by tenant.
    counts: Vec<(TenantId, u64)>,
    /// The number of lines so far.
    lines: u64,
    bytes: u64,
    /// Messages about the bad lines of the current chunk.
    mistakes: String,
    /// Whether it was said that the memory of tasks before a crash is lost.
    said_what_is_lost: bool,
    /// The number of bad lines so far.
    pub skipped: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        names: &'a TaskNames,
        term: &'a Term,
        bad: BadLines,
        journal: Option<&'a RefCell<RunJournal>>,
    ) -> Self {
        Intake {
            names,
            term,
            bad,
            journal,
            counts: Vec::new(),
            lines: 0,
            bytes: 0,
            mistakes: String::new(),
            said_what_is_lost: false,
            skipped: 0,
        }
    }

    /// Passes on the tasks of all lines, and finishes them. From time to time it calls `show` with the number of
    /// bytes that were read and of tasks that have ended.
    pub(super) fn take_all(
        &mut self,
        sink: &mut impl TaskSink,
        chunks: &Chunks,
        mut show: impl FnMut(u64, u64),
    ) -> Result<(), Halt> {
        let mut shown = Instant::now();
        loop {
            halt_if_pressed()?;
            if shown.elapsed() > 4 * GLANCE {
                show(self.bytes, sink.total());
                shown = Instant::now();
            }
            // The loop waits for lines only while no task is under way.
            let chunk = if sink.idle() {
                chunks.recv_timeout(GLANCE)
            } else {
                chunks.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            };
            let taken = match chunk {
                Ok(Ok(chunk)) => self.take_chunk(sink, &chunk),
                Ok(Err(error)) => Err(CliError::Input(error).into()),
                Err(RecvTimeoutError::Timeout) => sink.progress(),
                Err(RecvTimeoutError::Disconnected) => {
                    sink.settle()?;
                    return self.journal.map_or(Ok(()), |journal| Ok(journal.borrow().end_input()?));
                }
            };
            if let Err(Halt::Bad | Halt::Failed(CliError::Input(_) | CliError::Recording(_))) = &taken {
                sink.settle()?;
            }
            taken?;
        }
    }

    /// Passes on the tasks of a chunk's lines. Messages about bad lines are written together after the chunk, which
    /// is soon, because a chunk is what one read returned.
    fn take_chunk(&mut self, sink: &mut impl TaskSink, bytes: &[u8]) -> Result<(), Halt> {
        let taken = self.take_each_line(sink, bytes);
        if !self.mistakes.is_empty() {
            self.term.notes(&self.mistakes);
            self.mistakes.clear();
        }
        taken?;
        if let Some(journal) = self.journal {
            journal.borrow_mut().write_out()?;
        }
        sink.pause()
    }

    fn take_each_line(&mut self, sink: &mut impl TaskSink, bytes: &[u8]) -> Result<(), Halt> {
        self.bytes += bytes.len() as u64;
        sink.begin_chunk();
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let line = if self.lines == 0 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
            self.lines += 1;
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match self.admitted_order(sink, line) {
                Ok(order) => {
                    if self.is_to_be_run(line, &order)? {
                        sink.push(order, self.lines)?;
                    }
                }
                Err(why) => {
                    self.skipped += 1;
                    self.mistakes += &self.term.error_line(format_args!("line {}: {why}\n", self.lines));
                    if self.bad == BadLines::Stop {
                        return Err(Halt::Bad);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the task of the current line is to be run. It is not if the journal has its result.
    fn is_to_be_run(&mut self, line: &[u8], order: &TaskOrder) -> Result<bool, Halt> {
        let Some(journal) = self.journal else { return Ok(true) };
        let task = journal.borrow_mut().take_task(self.lines, line)?;
        let lost = task == RunTask::HasResult && journal.borrow().storing.include(order);
        if lost && !std::mem::replace(&mut self.said_what_is_lost, true) {
            self.term.note(LOST_MEMORY);
        }
        Ok(task == RunTask::Run)
    }

    /// Parses a line, and checks that its task would be accepted.
    fn admitted_order(&mut self, sink: &mut impl TaskSink, line: &[u8]) -> Result<TaskOrder, String> {
        let order = self.names.parse_order(line)?;
        sink.check(&order)?;
        let at = self.counts.iter().position(|(tenant, _)| *tenant == order.tenant).unwrap_or_else(|| {
            self.counts.push((order.tenant, 0));
            self.counts.len() - 1
        });
        self.names.admit(order.tenant, self.counts[at].1)?;
        self.counts[at].1 += 1;
        Ok(order)
    }
}
