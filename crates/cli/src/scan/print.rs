//! Prints what the threads of a scan deliver, while they work.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::error::CliError;
use crate::scan::order::OutputPiece;
use crate::scan::report::ScanCounters;
use crate::scan::threads::WorkerThreads;
use crate::scan::work::ScanWork;
use crate::size::spell_size;
use crate::stop;
use crate::term::Term;

/// The time between two checks for Ctrl-C and for threads that have ended.
const GLANCE: Duration = Duration::from_millis(50);

/// The time that threads have after Ctrl-C to deliver what they have found.
const GRACE: Duration = Duration::from_millis(350);

/// The time after which progress is shown. A bar that appears only for a moment would be distracting.
const BAR_DELAY: Duration = Duration::from_millis(400);

/// Whether progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProgressUse {
    /// On a terminal.
    Show,
    /// Never.
    Hide,
}

/// How a scan ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScanEnd {
    /// Everything was looked at.
    Complete,
    /// Ctrl-C was pressed.
    Interrupted,
    /// The reader of the output has gone.
    Unread,
}

/// Prints output in order.
pub(super) struct ScanPrinter<'p> {
    term: &'p Term,
    work: &'p Arc<ScanWork>,
    /// Shows nothing at first.
    bar: ProgressBar,
    /// When the bar is to be shown, if it is not shown yet and ever will be.
    bar_from: Option<Instant>,
    /// Whether a finding was printed.
    begun: bool,
    /// The number of messages about what went wrong.
    pub problems: usize,
}

impl<'p> ScanPrinter<'p> {
    /// Makes a printer for some work, with a progress bar unless that is not wanted or standard error is no terminal.
    pub(super) fn new(term: &'p Term, work: &'p Arc<ScanWork>, progress: ProgressUse) -> ScanPrinter<'p> {
        let bar = match work.inputs.len() {
            0 | 1 => term.bar(0, "{spinner} {msg}"),
            count => term.bar(count as u64, "{bar:40} {pos}/{len} files, {msg}"),
        };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let shown = progress == ProgressUse::Show && io::stderr().is_terminal();
        let bar_from = shown.then(|| Instant::now() + BAR_DELAY);
        ScanPrinter { term, work, bar, bar_from, begun: false, problems: 0 }
    }

    /// Prints until the threads have ended, Ctrl-C is pressed or nobody reads any more.
    pub(super) fn print_all(&mut self, threads: &WorkerThreads) -> Result<ScanEnd, CliError> {
        let end = self.print_report(threads);
        self.bar.finish_and_clear();
        match end {
            Err(error) => {
                self.work.end_early();
                self.work.output.close();
                if matches!(error, CliError::Pipe) { Ok(ScanEnd::Unread) } else { Err(error) }
            }
            Ok(end) => Ok(end),
        }
    }

    fn print_report(&mut self, threads: &WorkerThreads) -> Result<ScanEnd, CliError> {
        let rules = &self.work.scanner.rules().rules;
        self.write(&self.work.reporter.formatter.header(rules))?;
        let end = self.print_findings(threads)?;
        let complete = end == ScanEnd::Complete && self.problems == 0;
        self.write(&self.work.reporter.formatter.footer(complete))?;
        Ok(end)
    }

    fn print_findings(&mut self, threads: &WorkerThreads) -> Result<ScanEnd, CliError> {
        while self.work.job_count() > 0 {
            // Looked at before output is taken, so that nothing can be delivered after the last take.
            let all_ended = threads.have_ended();
            let (piece, jobs) = self.work.output.take(GLANCE);
            let stuck = all_ended && piece.is_empty();
            self.print(piece)?;
            self.show_progress();
            if jobs == self.work.job_count() {
                // A pipe that Ctrl-C has cut off looks as if it had ended.
                return Ok(if stop::pressed() { ScanEnd::Interrupted } else { ScanEnd::Complete });
            }
            if stop::pressed() {
                return self.print_rest(threads);
            }
            if stuck {
                let rest = self.work.output.close();
                self.print(rest)?;
                return Err(CliError::Wrong(
                    "a thread of the scan has ended unexpectedly; this is a bug in pelton".into(),
                ));
            }
        }
        Ok(ScanEnd::Complete)
    }

    /// Prints what was found until Ctrl-C was pressed.
    fn print_rest(&mut self, threads: &WorkerThreads) -> Result<ScanEnd, CliError> {
        self.work.end_early();
        let until = Instant::now() + GRACE;
        while !threads.have_ended() && Instant::now() < until {
            let (piece, _) = self.work.output.take(GLANCE);
            self.print(piece)?;
        }
        let rest = self.work.output.close();
        self.print(rest)?;
        Ok(ScanEnd::Interrupted)
    }

    fn print(&mut self, piece: OutputPiece) -> Result<(), CliError> {
        let OutputPiece { out, problems } = piece;
        if !out.is_empty() {
            let formatter = &self.work.reporter.formatter;
            let bytes = if self.begun { &out } else { formatter.trim_first(&out) };
            self.begun = true;
            self.write(bytes)?;
        }
        self.problems += problems.len();
        for problem in problems {
            self.bar.suspend(|| self.term.wrong(problem));
        }
        Ok(())
    }

    /// Writes to standard output.
    fn write(&self, bytes: &[u8]) -> Result<(), CliError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.bar.suspend(|| {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            Ok(out.flush()?)
        })
    }

    fn show_progress(&mut self) {
        if self.bar_from.take_if(|from| *from <= Instant::now()).is_some() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.bar.is_hidden() {
            return;
        }
        let counters = &self.work.reporter.counters;
        self.bar.set_position(ScanCounters::get(&counters.inputs));
        let (bytes, found) = (ScanCounters::get(&counters.bytes), ScanCounters::get(&counters.found));
        self.bar.set_message(format!("{}, {found} found", spell_size(bytes)));
        self.bar.tick();
    }
}
