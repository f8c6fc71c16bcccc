//! `pelton replay`: runs the tasks of a journal again, on any device.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use pelton::Spec;
use pelton::journal::JournalReader;
use pelton_device::open;
use serde_json::json;

use super::intake::{BadLines, Halt};
use super::job::{RunJob, RunSummary};
use super::journal::FsyncArg;
use super::output::{PlainOutput, ResultOutput};
use super::stores::ReadingOps;
use super::stream::StreamArgs;
use super::submitted::ResultOrder;
use super::task::TaskNames;
use super::{RunArgs, input_bar, print_summary};
use crate::error::CliError;
use crate::kernel::show_refusal;
use crate::recording::{RecordedLines, RunHeader, TaskEnd, find_line, read_whole, shown_text};
use crate::term::Term;
use crate::{CliStatus, stop};

/// Run the tasks of a journal again, on any device, and compare their results
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton run spec.toml --journal run.journal < tasks.jsonl > results.jsonl
  pelton replay run.journal                      run the same tasks again, and print their results
  pelton replay run.journal --device reference --compare
  pelton replay run.journal --device cuda --compare --json

A journal of `pelton run --journal` has the spec, what regions were filled with, and every task with
the number of its line. So it is a recording: it can be replayed on another device or with another
version of pelton, and a folder is all that a report of a bug needs, together with the files that
--buffer named, if it did. The journal is not changed.

With --compare, the first result that differs from the recorded one is an error that shows the task
and both results, and the exit status is 1. Tasks run concurrently, so a result that depends on the
order between tasks may differ without anything being wrong. So may a result that depends on
memory, if the recorded run was interrupted and had gone on with empty regions.")]
pub(crate) struct ReplayArgs {
    /// The folder of the journal
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// Compare the results with the recorded ones instead of printing them
    #[arg(long)]
    compare: bool,

    /// Print the outcome of a comparison as JSON on standard output
    #[arg(long, requires = "compare")]
    json: bool,
}

/// A result that is not the recorded one.
#[derive(Debug, thiserror::Error)]
#[error(
    "the task of line {line} has another result than the journal:\n  task      {task}\n  recorded  {recorded}\n  \
     replayed  {replayed}\n{}", reason.text(*starts)
)]
pub(crate) struct ReplayDifference {
    /// The number of the line.
    line: u64,
    task: String,
    recorded: String,
    replayed: String,
    /// How often the recorded run was started.
    starts: u64,
    reason: DifferenceReason,
}

/// Whether there may be a harmless reason why a result differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DifferenceReason {
    /// The task finds what others have stored, and rings are served in any order.
    Order,
    /// Nothing that the task can find is changed by other tasks.
    None,
}

impl DifferenceReason {
    /// Says what the reason may be.
    fn text(self, starts: u64) -> String {
        let memory = match starts {
            0 | 1 => String::new(),
            starts => {
                format!(", and so may what it finds in memory, because the run was started {starts} times")
            }
        };
        match self {
            DifferenceReason::Order => format!(
                "the result may depend on the order between tasks, which differs from run to run and from ring to ring{memory}"
            ),
            DifferenceReason::None => {
                "the task finds nothing that other tasks change, so the order between tasks is not the reason"
                    .into()
            }
        }
    }
}

pub(crate) fn run_replay(args: &ReplayArgs, term: &Term) -> Result<CliStatus, CliError> {
    let mut recorded = RecordedResults::new(&args.folder);
    let (header, counts) = read_whole(&args.folder, |line, text| recorded.add(line, text))?;
    let spec: Spec = header.spec.parse().map_err(|error| show_refusal(&error, term))?;
    recorded.sort(counts.starts, ReadingOps::new(&spec));
    let run_args = replay_run_args(args, &header)?;
    stop::listen()?;
    let device = open(&args.device)?;
    let names = TaskNames::new(&spec);
    let lines = RecordedLines::new(JournalReader::open(&args.folder)?);
    let input = Cell::new(Some(Box::new(lines) as _));
    let (bar, failover) = (input_bar(term), Vec::new());
    let job = RunJob { args: &run_args, term, names: &names, failover, bar, journal: None, input };
    let name = &device.caps().name;
    if !args.compare {
        let out = PlainOutput(BufWriter::with_capacity(1 << 16, io::stdout()));
        let summary = job.run(&device, &spec, None, out)?;
        print_summary(&run_args, term, name, &summary, None);
        return status_of(summary, true);
    }
    let same = Cell::new(0);
    let ran = job.run(&device, &spec, None, ComparedOutput { recorded: &recorded, same: &same });
    let difference = match &ran {
        Err(CliError::Replay(difference)) => Some(difference),
        _ => None,
    };
    if args.json && (ran.is_ok() || difference.is_some()) {
        term.line(json!({
            "device": name, "same": same.get(), "tasks": counts.tasks, "recorded": counts.results,
            "starts": counts.starts, "difference": difference.map(ReplayDifference::json),
        }))?;
        if difference.is_some() {
            return Ok(CliStatus::Wrong);
        }
    }
    let summary = ran?;
    if !args.json && summary.halt.is_ok() {
        term.line(format_args!("{}", same_text(same.get(), counts.tasks, name)))?;
    }
    status_of(summary, false)
}

/// Says that all results are the same.
fn same_text(same: u64, tasks: u64, device: &str) -> String {
    let without = match tasks - same.min(tasks) {
        0 => String::new(),
        1 => ", and 1 task has no recorded result".into(),
        count => format!(", and {count} tasks have no recorded result"),
    };
    let are = if same == 1 { "1 result is" } else { &format!("{same} results are") };
    format!("{are} the same on {device}{without}")
}

/// The exit status of a replay. Faults that were recorded too are no failure of a comparison.
fn status_of(summary: RunSummary, faults_count: bool) -> Result<CliStatus, CliError> {
    match summary.halt {
        Err(Halt::Failed(error) | Halt::Unwritten(error @ CliError::Output(_))) => Err(error),
        Err(Halt::Interrupted) => Ok(CliStatus::Interrupted),
        Err(Halt::Standstill(_) | Halt::Bad | Halt::Lost | Halt::Unwritten(_)) => Ok(CliStatus::Wrong),
        Ok(()) if summary.skipped > 0 => Ok(CliStatus::Wrong),
        Ok(()) if faults_count && summary.ends.faults > 0 => Ok(CliStatus::Failed),
        Ok(()) => Ok(CliStatus::Fine),
    }
}

/// The options of `pelton run` that a replay has.
fn replay_run_args(args: &ReplayArgs, header: &RunHeader) -> Result<RunArgs, CliError> {
    let buffers = header.buffers.iter().map(|buffer| Ok((buffer.region.as_str().into(), buffer.init()?)));
    Ok(RunArgs {
        spec: args.folder.clone(),
        device: args.device.clone(),
        failover: Vec::new(),
        order: ResultOrder::Input,
        bad: BadLines::Stop,
        buffers: buffers.collect::<Result<_, CliError>>()?,
        outs: Vec::new(),
        watch: false,
        stream: StreamArgs::default(),
        journal: None,
        fsync: FsyncArg::Never,
        stats: false,
        json: false,
    })
}

impl ReplayDifference {
    fn json(&self) -> serde_json::Value {
        let ReplayDifference { line, task, recorded, replayed, reason, .. } = self;
        let order = *reason == DifferenceReason::Order;
        json!({
            "line": line, "task": task, "recorded": recorded, "replayed": replayed, "may_depend_on_order": order,
        })
    }
}

/// The results of a recording, as hashes by line.
struct RecordedResults<'f> {
    folder: &'f Path,
    hasher: RandomState,
    hashes: Vec<(u64, u64)>,
    starts: u64,
    reading: ReadingOps,
}

impl<'f> RecordedResults<'f> {
    fn new(folder: &'f Path) -> Self {
        RecordedResults {
            folder,
            hasher: RandomState::new(),
            hashes: Vec::new(),
            starts: 0,
            reading: ReadingOps::default(),
        }
    }

    fn add(&mut self, line: u64, text: &[u8]) {
        self.hashes.push((line, self.hasher.hash_one(text)));
    }

    /// Is called when all results were added.
    fn sort(&mut self, starts: u64, reading: ReadingOps) {
        self.hashes.sort_unstable();
        (self.starts, self.reading) = (starts, reading);
    }

    /// Compares a result with the recorded one. Returns whether there is one.
    fn compare(&self, line: u64, text: &[u8]) -> Result<bool, CliError> {
        let Ok(at) = self.hashes.binary_search_by_key(&line, |(line, _)| *line) else { return Ok(false) };
        if self.hashes[at].1 == self.hasher.hash_one(text) {
            return Ok(true);
        }
        let (task, recorded) = find_line(self.folder, line)?;
        let [task, recorded] = [task, recorded].map(Option::unwrap_or_default);
        let (replayed, starts) = (shown_text(text), self.starts);
        let reason = match self.reading.include_named(&task) {
            true => DifferenceReason::Order,
            false => DifferenceReason::None,
        };
        Err(ReplayDifference { line, task, recorded, replayed, starts, reason }.into())
    }
}

/// Compares results with the recorded ones, and prints nothing.
struct ComparedOutput<'r> {
    recorded: &'r RecordedResults<'r>,
    same: &'r Cell<u64>,
}

impl ResultOutput for ComparedOutput<'_> {
    fn put(&mut self, line: u64, end: Option<TaskEnd>, text: &[u8]) -> Result<(), CliError> {
        if end.is_some() && self.recorded.compare(line, text.trim_ascii_end())? {
            self.same.set(self.same.get() + 1);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CliError> {
        Ok(())
    }
}
