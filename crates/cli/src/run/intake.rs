//! From lines to whatever runs tasks: one loop that reads, submits and takes results, and never waits for one of them alone.

use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use pelton::kernel::TenantId;

use super::lines::Chunks;
use super::task::{TaskNames, TaskOrder};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// How often Ctrl-C is looked for while nothing comes.
const GLANCE: Duration = Duration::from_millis(20);

/// The byte order mark in UTF-8, with which some programs begin what they write.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// What becomes of the lines after a bad one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum BadLines {
    /// They are submitted; the bad line is left out
    Skip,
    /// They are not submitted; what came before is finished
    Stop,
}

/// Why it ended before the lines did.
#[derive(Debug)]
pub enum Halt {
    /// A bad line.
    Bad,
    /// Ctrl-C.
    Interrupted,
    /// The kernel has ended by itself.
    Lost,
    /// ResultWriter cannot be written, perhaps because nobody reads them any more.
    Unwritten(CliError),
    /// Something failed.
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
pub fn halt_if_pressed() -> Result<(), Halt> {
    if stop::pressed() { Err(Halt::Interrupted) } else { Ok(()) }
}

/// What runs tasks.
pub trait TaskSink {
    /// Whether it would take a task.
    fn check(&mut self, order: &TaskOrder) -> Result<(), String>;
    /// Takes the task of a line.
    fn push(&mut self, order: TaskOrder, line: u64) -> Result<(), Halt>;
    /// Some lines are at their end, and more may be long in coming.
    fn pause(&mut self) -> Result<(), Halt>;
    /// Takes results, or waits a moment for some. Without any under way it does nothing.
    fn progress(&mut self) -> Result<(), Halt>;
    /// Waits until everything has ended and its results are written.
    fn settle(&mut self) -> Result<(), Halt>;
    /// Whether nothing is under way.
    fn idle(&self) -> bool;
    /// How many tasks have ended.
    fn total(&self) -> u64;
}

/// What is read.
pub struct Intake<'a> {
    names: &'a TaskNames,
    term: &'a Term,
    bad: BadLines,
    /// Tasks so far, by tenant.
    counts: Vec<(TenantId, u64)>,
    /// Lines so far.
    lines: u64,
    bytes: u64,
    /// What is wrong with the lines of the chunk in hand.
    mistakes: String,
    /// The number of bad lines so far.
    pub skipped: u64,
}

impl<'a> Intake<'a> {
    pub fn new(names: &'a TaskNames, term: &'a Term, bad: BadLines) -> Self {
        Intake {
            names,
            term,
            bad,
            counts: Vec::new(),
            lines: 0,
            bytes: 0,
            mistakes: String::new(),
            skipped: 0,
        }
    }

    /// Takes in all lines, and finishes what was submitted. `show` is told from time to time how many bytes were read and
    /// how many tasks have ended.
    pub fn take_all(
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
            // It waits for lines only while nothing is under way.
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
                Err(RecvTimeoutError::Disconnected) => return sink.settle(),
            };
            if let Err(Halt::Bad | Halt::Failed(CliError::Input(_))) = &taken {
                sink.settle()?;
            }
            taken?;
        }
    }

    /// Takes in the lines of a chunk. What is wrong with them is written at once in the end, which is soon: a chunk is what
    /// one read gave.
    fn take_chunk(&mut self, sink: &mut impl TaskSink, bytes: &[u8]) -> Result<(), Halt> {
        let taken = self.take_each_line(sink, bytes);
        if !self.mistakes.is_empty() {
            self.term.notes(&self.mistakes);
            self.mistakes.clear();
        }
        taken?;
        sink.pause()
    }

    fn take_each_line(&mut self, sink: &mut impl TaskSink, bytes: &[u8]) -> Result<(), Halt> {
        self.bytes += bytes.len() as u64;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let line = if self.lines == 0 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
            self.lines += 1;
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            match self.admitted_order(sink, line) {
                Ok(order) => sink.push(order, self.lines)?,
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

    /// What a line asks for, if it can be done.
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
