//! `pelton run`: a kernel fed with lines of JSON.

mod batches;
mod feed;
mod intake;
mod lines;
mod results;
mod submitted;
mod task;
mod workspace;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pelton::kernel::{Lifetime, Report};
use pelton::{Drain, Session};
use pelton_device::open;
use pelton_filetest::init::Init;
use serde::Serialize;
use serde_json::{Value, json};

use self::batches::BatchFeed;
use self::feed::SessionFeed;
use self::intake::{BadLines, Halt, Intake, TaskSink};
use self::results::{EndCounts, ResultWriter};
use self::submitted::{ResultOrder, SubmittedSpans};
use self::task::TaskNames;
use self::workspace::{RegionName, WorkspaceOwner};
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, kernel, stop};

/// How long tasks under way may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

/// Launch a kernel once and feed it with lines of JSON
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton run examples/run/spec.toml < examples/run/tasks.jsonl > results.jsonl
  echo '{\"op\": \"ATOMIC_ADD\", \"args\": [5, 0]}' | pelton run spec.toml --out data=data.bin
  pelton run spec.toml --buffer 'alice.data=[1 2 3]' --buffer bob.data=@words.bin < tasks.jsonl
  pelton run spec.toml --order done --bad skip --stats < tasks.jsonl

Tasks, one a line; blank lines and those that begin with # are passed over:
  {\"op\": \"add\", \"args\": [1, 2], \"tenant\": \"alice\", \"priority\": \"high\"}
  op        a handler of the spec, a built-in opcode, or a number
  args      up to 12 numbers: u32, i32, or with a point or an exponent the bits of an f32
  tenant    a name or a number; can be left out if there is one
  priority  critical, high, normal, low or idle, if the spec has claim = \"priority\"
Tasks run at once and in any order; BATCH_FENCE ends when so many before it of its tenant have ended.

Results, one a task:
  {\"line\": 3, \"op\": \"add\", \"status\": \"done\", \"result\": 7}
  {\"line\": 4, \"op\": \"add\", \"status\": \"fault\", \"fault\": {\"code\": 2, \"name\": \"out of region\"}}

A spec with lifetime = \"drain\" runs the lines in batches, one pass each.
Buffers are as in `pelton exec`, and fill a region from its first element on.
If the reader of the results leaves, as in `| head -1`, tasks under way are finished and the rest is not submitted.
Exit status: 1 if lines were bad or results could not be written, else 2 if tasks ended with a fault.")]
pub struct RunArgs {
    /// The spec, in TOML; `pelton kernel` prints what it assembles to
    spec: PathBuf,

    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// In which order results are written
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = ResultOrder::Input)]
    order: ResultOrder,

    /// What becomes of the lines after a bad one
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = BadLines::Stop)]
    bad: BadLines,

    /// What a tenant's region starts with; may be given again
    #[arg(long = "buffer", short, value_name = "TENANT.REGION=INIT", value_parser = workspace::parse_buffer)]
    buffers: Vec<(RegionName, Init)>,

    /// Write a tenant's region to a file in the end; may be given again
    #[arg(long = "out", short, value_name = "TENANT.REGION=FILE", value_parser = workspace::parse_out)]
    outs: Vec<(RegionName, PathBuf)>,

    /// Say on standard error what the kernel counted
    #[arg(long)]
    stats: bool,

    /// Write the summary, which goes to standard error, as JSON
    #[arg(long)]
    json: bool,
}

/// How a run went.
struct RunSummary {
    halt: Result<(), Halt>,
    ends: EndCounts,
    skipped: u64,
    took: Duration,
    /// What the kernel counted, for people and for programs.
    stats: Option<(String, Value)>,
}

pub fn run_spec(args: &RunArgs, term: &Term) -> Result<CliStatus, CliError> {
    let spec = kernel::read_spec(&args.spec, term)?;
    stop::listen()?;
    let device = open(&args.device)?;
    let names = TaskNames::new(&spec);
    let results = ResultWriter::new(&names, BufWriter::with_capacity(1 << 16, io::stdout()));
    let job = RunJob { args, term, names: &names, bar: input_bar(term) };
    let summary = match spec.lifetime {
        Lifetime::Persistent => job.feed_session(Session::launch(&device, &spec)?, results)?,
        Lifetime::Drain if spec.report == Report::Control => {
            let why = "report = control: there would be no results; say full";
            return Err(CliError::Wrong(why.into()));
        }
        Lifetime::Drain => job.drain_batches(Drain::new(&device, &spec)?, results)?,
    };
    print_summary(args, term, &device.caps().name, &summary);
    Ok(match summary.halt {
        Err(Halt::Failed(error) | Halt::Unwritten(error @ CliError::Output(_))) => return Err(error),
        Err(Halt::Interrupted) => CliStatus::Interrupted,
        Err(Halt::Bad | Halt::Lost | Halt::Unwritten(_)) => CliStatus::Wrong,
        Ok(()) if summary.skipped > 0 => CliStatus::Wrong,
        Ok(()) if summary.ends.faults > 0 => CliStatus::Failed,
        Ok(()) => CliStatus::Fine,
    })
}

/// A run to be made.
struct RunJob<'a> {
    args: &'a RunArgs,
    term: &'a Term,
    names: &'a TaskNames,
    bar: ProgressBar,
}

impl<'a> RunJob<'a> {
    /// Fills the workspace before anything runs.
    fn fill_workspace(&self, home: &impl WorkspaceOwner) -> Result<(), CliError> {
        workspace::check_outs(home, self.names, &self.args.outs)?;
        workspace::fill_regions(home, self.names, &self.args.buffers)
    }

    /// Takes in all lines. Gives why that ended early, and how many lines were bad.
    fn take_lines(&self, sink: &mut impl TaskSink) -> Result<(Result<(), Halt>, u64), CliError> {
        let mut intake = Intake::new(self.names, self.term, self.args.bad);
        let chunks = lines::read_chunks(io::stdin()).map_err(CliError::Input)?;
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

    /// Feeds a session until its end.
    fn feed_session<W: Write>(
        &self,
        session: Session,
        results: ResultWriter<'a, W>,
    ) -> Result<RunSummary, CliError> {
        self.fill_workspace(&session)?;
        let began = Instant::now();
        let mut submitted = SubmittedSpans::new(self.args.order, results);
        let (mut halt, skipped) =
            self.take_lines(&mut SessionFeed::new(&session, self.term, &mut submitted))?;
        if halt.is_err() {
            // What has not ended by then ends as stopped.
            let _ = session.quiesce(GRACE);
        }
        workspace::save_regions(&session, self.names, &self.args.outs)?;
        let stats = if self.args.stats { Some(text_and_json(&session.snapshot()?)) } else { None };
        if let Err(error) = session.stop() {
            halt = Err(Halt::Failed(error.into()));
        }
        while !submitted.is_empty() {
            note_unwritten(submitted.collect().map(drop), &mut halt);
        }
        note_unwritten(submitted.results.flush(), &mut halt);
        Ok(RunSummary { halt, ends: submitted.results.ends, skipped, took: began.elapsed(), stats })
    }

    /// Runs batches until the end.
    fn drain_batches<W: Write>(
        &self,
        mut drain: Drain,
        mut results: ResultWriter<'a, W>,
    ) -> Result<RunSummary, CliError> {
        self.fill_workspace(&drain)?;
        let began = Instant::now();
        let mut batches = BatchFeed::new(&mut drain, self.term, &mut results);
        let (mut halt, skipped) = self.take_lines(&mut batches)?;
        let stats = batches.statistics.as_ref().filter(|_| self.args.stats).map(text_and_json);
        note_unwritten(results.flush(), &mut halt);
        workspace::save_regions(&drain, self.names, &self.args.outs)?;
        Ok(RunSummary { halt, ends: results.ends, skipped, took: began.elapsed(), stats })
    }
}

/// Notes that the last results could not be written, unless something has gone wrong before.
fn note_unwritten(written: Result<(), CliError>, halt: &mut Result<(), Halt>) {
    if let (Err(error), Ok(())) = (written, &*halt) {
        *halt = Err(error.into());
    }
}

/// For people and for programs.
fn text_and_json(stats: &(impl Display + Serialize)) -> (String, Value) {
    (stats.to_string(), json!(stats))
}

/// How far the input is, if it is a file, else how many tasks have ended. Not shown among results.
fn input_bar(term: &Term) -> ProgressBar {
    if io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    match stdin_length() {
        Some(len) => term.bar(len, "{bar:40} {percent}%, {msg}"),
        None => term.bar(0, "{spinner} {msg}"),
    }
}

/// The length of standard input, if it is a file.
fn stdin_length() -> Option<u64> {
    let meta = std::fs::metadata("/dev/stdin").ok()?;
    meta.is_file().then_some(meta.len())
}

/// Says how it went.
fn print_summary(args: &RunArgs, term: &Term, device: &str, summary: &RunSummary) {
    let RunSummary { halt, ends, skipped, took, stats } = summary;
    let end = match halt {
        Ok(()) => "done",
        Err(Halt::Bad) => "stopped at a bad line",
        Err(Halt::Interrupted) => "interrupted",
        Err(Halt::Unwritten(CliError::Pipe)) => "stopped, since nobody reads the results any more",
        Err(Halt::Unwritten(_)) => "stopped, since the results cannot be written",
        Err(Halt::Lost | Halt::Failed(_)) => "lost",
    };
    let seconds = took.as_secs_f64();
    if args.json {
        return term.note(json!({
            "end": end, "device": device, "tasks": ends.total(), "ends": ends, "bad_lines": skipped,
            "seconds": seconds, "stats": stats.as_ref().map(|(_, json)| json),
        }));
    }
    if let Some((text, _)) = stats {
        term.note(text);
    }
    let mut parts = vec![format!("{} done", ends.done)];
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    for (count, what) in [
        (ends.faults, format!("fault{}", plural(ends.faults))),
        (ends.unrun, "not run".into()),
        (*skipped, format!("bad line{}", plural(*skipped))),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    term.note(format_args!("{end}: {} in {seconds:.3} s on {device}", parts.join(", ")));
}
