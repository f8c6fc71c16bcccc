//! Feeds a session or batches from beginning to end.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pelton::kernel::{Lifetime, Recovery, Report};
use pelton::{Drain, Session, Spec};
use pelton_device::Device;
use serde::Serialize;
use serde_json::{Value, json};

use super::batches::BatchFeed;
use super::feed::SessionFeed;
use super::intake::{Halt, Intake, TaskSink};
use super::journal::RunJournal;
use super::output::ResultOutput;
use super::passing::once_recovered;
use super::results::{EndCounts, ResultWriter};
use super::submitted::SubmittedSpans;
use super::task::TaskNames;
use super::watch::{SpecWatch, WatchedSpec};
use super::workspace::{RegionFill, WorkspaceOwner};
use super::{RunArgs, lines, workspace};
use crate::error::CliError;
use crate::term::Term;

/// The time that tasks under way have to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

/// How a run ended, and what it counted.
pub(super) struct RunSummary {
    pub halt: Result<(), Halt>,
    pub ends: EndCounts,
    pub skipped: u64,
    pub took: Duration,
    /// Whether the regions that `--out` names were written.
    pub saved: Result<(), CliError>,
    /// The kernel's statistics, as text and as JSON.
    pub stats: Option<(String, Value)>,
}

/// What a run works with.
pub(super) struct RunJob<'a> {
    pub args: &'a RunArgs,
    pub term: &'a Term,
    pub names: &'a TaskNames,
    /// The devices to go on with after a loss.
    pub failover: Vec<Arc<dyn Device>>,
    pub bar: ProgressBar,
    pub journal: Option<&'a RefCell<RunJournal>>,
    /// The lines, until they are read.
    pub input: Cell<Option<Box<dyn Read + Send>>>,
}

impl<'a> RunJob<'a> {
    /// Runs all lines in a session or in batches, as the spec says.
    pub(super) fn run(
        &self,
        device: &Arc<dyn Device>,
        spec: &Spec,
        watched: Option<WatchedSpec>,
        out: impl ResultOutput,
    ) -> Result<RunSummary, CliError> {
        let results = ResultWriter::new(self.names, out);
        match spec.lifetime {
            Lifetime::Persistent => self.feed_session(Session::launch(device, spec)?, watched, results),
            Lifetime::Drain if watched.is_some() => {
                let why = "--watch changes the handlers of a session, and the spec has lifetime = \"drain\"; \
                           set lifetime = \"persistent\"";
                Err(CliError::Wrong(why.into()))
            }
            Lifetime::Drain if spec.report == Report::Control => {
                let why =
                    "the spec has report = \"control\", which returns no results; set report = \"full\"";
                Err(CliError::Wrong(why.into()))
            }
            Lifetime::Drain => self.drain_batches(Drain::new(device, spec)?, results),
        }
    }

    /// Checks the options about regions, and fills the workspace before any task runs. Returns what it is filled with.
    fn fill_workspace(&self, home: &impl WorkspaceOwner) -> Result<Vec<RegionFill>, CliError> {
        workspace::check_outs(home, self.names, &self.args.outs)?;
        let fills = workspace::region_fills(home, self.names, &self.args.buffers)?;
        fills.iter().try_for_each(|fill| fill.write_to(home))?;
        Ok(fills)
    }

    /// Submits the tasks of all lines. Returns why that ended early, if it did, and the number of bad lines.
    fn take_lines(&self, sink: &mut impl TaskSink) -> Result<(Result<(), Halt>, u64), CliError> {
        let mut intake = Intake::new(self.names, self.term, self.args.bad, self.journal);
        let input = self.input.take().unwrap_or_else(|| Box::new(std::io::empty()));
        let chunks = lines::read_chunks(input).map_err(CliError::Input)?;
        let halt = intake.take_all(sink, &chunks, |bytes, tasks| {
            self.bar.set_position(bytes);
            self.bar.set_message(format!("{tasks} tasks"));
        });
        self.bar.finish_and_clear();
        match halt {
            Err(Halt::Failed(error)) => Err(error),
            halt => Ok((halt, intake.skipped)),
        }
    }

    /// Feeds a session until the lines end, and stops it.
    fn feed_session<O: ResultOutput>(
        &self,
        session: Session,
        watched: Option<WatchedSpec>,
        results: ResultWriter<'a, O>,
    ) -> Result<RunSummary, CliError> {
        let fills = self.fill_workspace(&session)?;
        session.set_failover(self.failover.clone());
        workspace::refill_after_losses(&session, fills);
        let began = Instant::now();
        let mut submitted = SubmittedSpans::new(self.args.order, results, session.layout().places.reply);
        let mut feed = SessionFeed::new(&session, self.names, self.term, &mut submitted);
        let (mut halt, skipped) = match watched {
            None => self.take_lines(&mut feed)?,
            Some(spec) => {
                let (path, term) = (self.args.spec.as_path(), self.term);
                let watch = SpecWatch { path, spec, session: &session, term };
                watch.watch_during(|| self.take_lines(&mut feed)).map_err(pelton::Error::Thread)??
            }
        };
        if halt.is_err() {
            // Tasks that have not ended by then end as stopped.
            let _ = session.quiesce(GRACE);
        }
        let saved = workspace::save_session_regions(&session, self.names, &self.args.outs);
        let stats = match self.args.stats {
            true => Some(text_and_json(&once_recovered(&session, || session.snapshot())?)),
            false => None,
        };
        let recovers = session.spec().recovery == Recovery::On;
        match session.stop() {
            // The device was lost when all tasks had ended, so nothing is missing.
            Err(_) if recovers && halt.is_ok() && submitted.is_empty() => {}
            Err(error) => halt = Err(Halt::Failed(error.into())),
            Ok(_) => {}
        }
        while !submitted.is_empty() {
            note_unwritten(submitted.collect().map(drop), &mut halt);
        }
        note_unwritten(submitted.results.flush(), &mut halt);
        Ok(RunSummary { halt, ends: submitted.results.ends, skipped, took: began.elapsed(), saved, stats })
    }

    /// Runs batches until the lines end.
    fn drain_batches<O: ResultOutput>(
        &self,
        mut drain: Drain,
        mut results: ResultWriter<'a, O>,
    ) -> Result<RunSummary, CliError> {
        self.fill_workspace(&drain)?;
        let began = Instant::now();
        let mut batches = BatchFeed::new(&mut drain, self.term, &mut results);
        let (mut halt, skipped) = self.take_lines(&mut batches)?;
        let stats = batches.statistics.as_ref().filter(|_| self.args.stats).map(text_and_json);
        note_unwritten(results.flush(), &mut halt);
        let saved = workspace::save_regions(&drain, self.names, &self.args.outs);
        Ok(RunSummary { halt, ends: results.ends, skipped, took: began.elapsed(), saved, stats })
    }
}

/// Records that the last results could not be written, unless something went wrong before.
fn note_unwritten(written: Result<(), CliError>, halt: &mut Result<(), Halt>) {
    if let (Err(error), Ok(())) = (written, &*halt) {
        *halt = Err(error.into());
    }
}

/// Statistics as text and as JSON.
fn text_and_json(stats: &(impl Display + Serialize)) -> (String, Value) {
    (stats.to_string(), json!(stats))
}
