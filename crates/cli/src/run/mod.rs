//! `pelton run`: feeds a kernel with tasks that are lines of JSON.

mod batches;
mod feed;
mod intake;
mod lines;
mod payload;
mod results;
mod standstill;
mod submitted;
mod task;
mod watch;
mod workspace;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pelton::kernel::{Lifetime, Report};
use pelton::{Drain, Session, Spec};
use pelton_device::open;
use pelton_filetest::init::Init;
use pelton_ir::module::Module;
use serde::Serialize;
use serde_json::{Value, json};

use self::batches::BatchFeed;
use self::feed::SessionFeed;
use self::intake::{BadLines, Halt, Intake, TaskSink};
use self::results::{EndCounts, ResultWriter};
use self::submitted::{ResultOrder, SubmittedSpans};
use self::task::TaskNames;
use self::watch::{SpecWatch, WatchedSpec};
use self::workspace::{RegionName, WorkspaceOwner};
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, kernel, stop};

/// The time that tasks under way have to end after Ctrl-C.
const GRACE: Duration = Duration::from_millis(500);

/// Launch a kernel once, and feed it with tasks from standard input, one JSON object per line
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton run examples/run/spec.toml < examples/run/tasks.jsonl > results.jsonl
  echo '{\"op\": \"ATOMIC_ADD\", \"args\": [5, 0]}' | pelton run spec.toml --out data=data.bin
  pelton run spec.toml --buffer 'alice.data=[1 2 3]' --buffer bob.data=@words.bin < tasks.jsonl
  pelton run spec.toml --order done --bad skip --stats < tasks.jsonl
  tail -f tasks.jsonl | pelton run spec.toml --watch

Tasks, one per line; blank lines and lines that begin with # are skipped:
  {\"op\": \"add\", \"args\": [1, 2], \"tenant\": \"alice\", \"priority\": \"high\"}
  op        the name of a handler of the spec or of a built-in opcode, or a number
  args      up to 12 numbers: u32 or i32, or f32 if written with a point or an exponent
  tenant    a name or a number; may be left out if the spec has one tenant
  priority  critical, high, normal, low or idle, if the spec has claim = \"priority\"
  graph     in place of op: the name of a graph of the spec, which is launched with args as its
            parameters; its result is that of the graph
  after     waits before it begins, if the spec has events = N: {\"event\": 0, \"count\": 2} waits until
            event 0 of the tenant was signalled twice, and count is 1 if left out
  bytes, text or words
            the payload, if the spec has payload = N: base64, text, or an array of numbers
  reply     bytes, text or words: how the reply is written; as the payload, or as bytes, if left out
Tasks run concurrently and in any order. A BATCH_FENCE ends once the N tasks of its tenant before
it have ended, where N is its first argument. Tasks of handlers that import yield_now or requeue
take several steps; the spec's cells = N says how many of them may be under way at once, together
with launches of graphs and tasks that wait. Nothing resumes a task that calls park. Handlers
signal events, and so does a line such as {\"op\": \"SIGNAL\", \"args\": [0, 1]}, which signals event 0
once. If only tasks that wait for events are left, and neither a task nor a line can signal them any
more, these tasks are cancelled, and an error says what they waited for. A BATCH_FENCE may hold back
the lines after it until the tasks before it have ended, so a signal must stand before the fence.

Results, one per task:
  {\"line\": 3, \"op\": \"add\", \"status\": \"done\", \"result\": 7}
  {\"line\": 6, \"graph\": \"sum\", \"status\": \"done\", \"result\": 33}
  {\"line\": 5, \"op\": \"upper\", \"status\": \"done\", \"result\": 5, \"text\": \"HELLO\"}
  {\"line\": 4, \"op\": \"add\", \"status\": \"fault\", \"fault\": {\"code\": 2, \"name\": \"out of region\"}}

With --watch, save the spec, or a file that it names, to change handlers, libraries, fuel, share and
the number of groups while tasks run; nothing else can change. Standard error says what has changed,
or why nothing has, and a mistake leaves the session as it is. A line finds the handlers
that there are when it is read; tasks of a removed one end with the fault \"unknown opcode\". Tasks
that have taken some of their steps go on with a new version that has takes_over = true; any other
version is refused while there are such tasks.

With lifetime = \"drain\" in the spec, the lines are run in batches, one pass per batch.
INIT is written as for `pelton exec`, and fills a region from its first element on.
If the reader of the results leaves, as in `| head -1`, tasks under way are finished and no more
are submitted. The exit status is 1 if lines were bad, if results could not be written or if tasks
waited for events in vain, else 2 if tasks ended with a fault.")]
pub(crate) struct RunArgs {
    /// The file with the spec, in TOML; `pelton kernel` prints what it assembles to
    spec: PathBuf,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// The order in which results are written
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = ResultOrder::Input)]
    order: ResultOrder,

    /// What to do with the lines after a bad one
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = BadLines::Stop)]
    bad: BadLines,

    /// The initial contents of a tenant's region; repeat the option for other regions
    #[arg(long = "buffer", short, value_name = "TENANT.REGION=INIT", value_parser = workspace::parse_buffer)]
    buffers: Vec<(RegionName, Init)>,

    /// Write a tenant's region to a file at the end; repeat the option for other regions
    #[arg(long = "out", short, value_name = "TENANT.REGION=FILE", value_parser = workspace::parse_out)]
    outs: Vec<(RegionName, PathBuf)>,

    /// Change the handlers of the running kernel whenever the spec, or a file that it names, is saved
    #[arg(long)]
    watch: bool,

    /// Print the kernel's statistics on standard error at the end
    #[arg(long)]
    stats: bool,

    /// Print the summary on standard error as JSON
    #[arg(long)]
    json: bool,
}

/// How a run ended, and what it counted.
struct RunSummary {
    halt: Result<(), Halt>,
    ends: EndCounts,
    skipped: u64,
    took: Duration,
    /// Whether the regions that `--out` names were written.
    saved: Result<(), CliError>,
    /// The kernel's statistics, as text and as JSON.
    stats: Option<(String, Value)>,
}

/// Refuses handlers that wait for a host that resumes them, because nothing here does.
fn refuse_parking(spec: &Spec) -> Result<(), CliError> {
    let parks = |module: &Module| module.imports().any(|func| module.functions[func].name == "park");
    match spec.handlers.iter().find(|handler| parks(&handler.module)) {
        Some(handler) => Err(CliError::Wrong(format!(
            "handler {:?} imports `park`, and `pelton run` never resumes a task; use the library",
            handler.name
        ))),
        None => Ok(()),
    }
}

/// Reads the spec, and keeps in mind what was read if it is to be watched.
fn read_or_watch(args: &RunArgs, term: &Term) -> Result<(Spec, Option<WatchedSpec>), CliError> {
    if !args.watch {
        return Ok((kernel::read_spec(&args.spec, term)?, None));
    }
    let mut watched = WatchedSpec::new(&args.spec)?;
    let spec = watched.read(&Spec::default()).map_err(|error| kernel::show_refusal(&error, term))?;
    Ok((spec, Some(watched)))
}

pub(crate) fn run_spec(args: &RunArgs, term: &Term) -> Result<CliStatus, CliError> {
    let (spec, watched) = read_or_watch(args, term)?;
    refuse_parking(&spec)?;
    stop::listen()?;
    let device = open(&args.device)?;
    let names = TaskNames::new(&spec);
    let results = ResultWriter::new(&names, BufWriter::with_capacity(1 << 16, io::stdout()));
    let job = RunJob { args, term, names: &names, bar: input_bar(term) };
    let summary = match spec.lifetime {
        Lifetime::Persistent => job.feed_session(Session::launch(&device, &spec)?, watched, results)?,
        Lifetime::Drain if args.watch => {
            let why = "--watch changes the handlers of a session, and the spec has lifetime = \"drain\"; \
                       set lifetime = \"persistent\"";
            return Err(CliError::Wrong(why.into()));
        }
        Lifetime::Drain if spec.report == Report::Control => {
            let why = "the spec has report = \"control\", which returns no results; set report = \"full\"";
            return Err(CliError::Wrong(why.into()));
        }
        Lifetime::Drain => job.drain_batches(Drain::new(&device, &spec)?, results)?,
    };
    print_summary(args, term, &device.caps().name, &summary);
    let status = match summary.halt {
        Err(Halt::Standstill(why)) => {
            term.wrong(why);
            CliStatus::Wrong
        }
        Err(Halt::Failed(error) | Halt::Unwritten(error @ CliError::Output(_))) => return Err(error),
        Err(Halt::Interrupted) => CliStatus::Interrupted,
        Err(Halt::Bad | Halt::Lost | Halt::Unwritten(_)) => CliStatus::Wrong,
        Ok(()) if summary.skipped > 0 => CliStatus::Wrong,
        Ok(()) if summary.ends.faults > 0 => CliStatus::Failed,
        Ok(()) => CliStatus::Fine,
    };
    match summary.saved {
        Err(error) if status == CliStatus::Interrupted => {
            term.error(&error);
            Ok(status)
        }
        saved => saved.map(|()| status),
    }
}

/// What a run works with.
struct RunJob<'a> {
    args: &'a RunArgs,
    term: &'a Term,
    names: &'a TaskNames,
    bar: ProgressBar,
}

impl<'a> RunJob<'a> {
    /// Checks the options about regions, and fills the workspace before any task runs.
    fn fill_workspace(&self, home: &impl WorkspaceOwner) -> Result<(), CliError> {
        workspace::check_outs(home, self.names, &self.args.outs)?;
        workspace::fill_regions(home, self.names, &self.args.buffers)
    }

    /// Submits the tasks of all lines. Returns why that ended early, if it did, and the number of bad lines.
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

    /// Feeds a session until the lines end, and stops it.
    fn feed_session<W: Write>(
        &self,
        session: Session,
        watched: Option<WatchedSpec>,
        results: ResultWriter<'a, W>,
    ) -> Result<RunSummary, CliError> {
        self.fill_workspace(&session)?;
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
        let saved = workspace::save_regions(&session, self.names, &self.args.outs);
        let stats = if self.args.stats { Some(text_and_json(&session.snapshot()?)) } else { None };
        if let Err(error) = session.stop() {
            halt = Err(Halt::Failed(error.into()));
        }
        while !submitted.is_empty() {
            note_unwritten(submitted.collect().map(drop), &mut halt);
        }
        note_unwritten(submitted.results.flush(), &mut halt);
        Ok(RunSummary { halt, ends: submitted.results.ends, skipped, took: began.elapsed(), saved, stats })
    }

    /// Runs batches until the lines end.
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

/// The progress bar: the position in the input if that is a file, or else the number of tasks. It is hidden if
/// results go to the terminal.
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

/// Prints the summary on standard error.
fn print_summary(args: &RunArgs, term: &Term, device: &str, summary: &RunSummary) {
    let RunSummary { halt, ends, skipped, took, saved, stats } = summary;
    let end = match halt {
        Ok(()) if saved.is_err() => "done, but a region could not be written",
        Ok(()) => "done",
        Err(Halt::Bad) => "stopped at a bad line",
        Err(Halt::Interrupted) => "interrupted",
        Err(Halt::Standstill(_)) => "stopped, because tasks waited for events in vain",
        Err(Halt::Unwritten(CliError::Pipe)) => "stopped, because the reader of the results has gone",
        Err(Halt::Unwritten(_)) => "stopped, because the results cannot be written",
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
