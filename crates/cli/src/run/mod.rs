//! `pelton run`: feeds a kernel with tasks that are lines of JSON.

mod batches;
mod feed;
mod intake;
mod job;
mod journal;
mod lines;
mod output;
mod passing;
mod payload;
mod printing;
mod replay;
mod results;
mod standstill;
mod stores;
mod stream;
mod submitted;
mod task;
mod watch;
mod workspace;

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal};
use std::path::PathBuf;

use indicatif::ProgressBar;
use pelton::journal::TornTail;
use pelton::{Recovery, Spec};
use pelton_device::open;
use pelton_filetest::init::Init;
use pelton_ir::module::Module;
use serde_json::json;

use self::intake::{BadLines, Halt};
use self::job::{RunJob, RunSummary};
use self::journal::{FsyncArg, JournalledOutput, RunJournal};
use self::output::PlainOutput;
use self::results::EndCounts;
use self::stream::StreamArgs;
use self::submitted::ResultOrder;
use self::task::TaskNames;
use self::watch::WatchedSpec;
use self::workspace::RegionName;
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, kernel, stop};

pub(crate) use self::replay::{ReplayArgs, ReplayDifference, run_replay};

/// Launch a kernel once, and feed it with tasks from standard input, one JSON object per line
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton run examples/run/spec.toml < examples/run/tasks.jsonl > results.jsonl
  echo '{\"op\": \"ATOMIC_ADD\", \"args\": [5, 0]}' | pelton run spec.toml --out data=data.bin
  pelton run spec.toml --buffer 'alice.data=[1 2 3]' --buffer bob.data=@words.bin < tasks.jsonl
  pelton run spec.toml --order done --bad skip --stats < tasks.jsonl
  tail -f tasks.jsonl | pelton run spec.toml --watch
  pelton run spec.toml --journal run.journal < tasks.jsonl >> results.jsonl
  pelton run examples/run/stream.toml --stream README.md docs --op lines
  pelton run spec.toml --device process:cuda --failover process:cuda:1,cpu < tasks.jsonl

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
  {\"line\": 7, \"op\": \"send\", \"status\": \"lost\", \"reason\": \"device\", \"may_have_run\": true}

With recovery = \"on\" in the spec, a run goes on after its device was lost: on the same device, or
else on the first one of --failover that works. Regions in the memory of the device then hold what
--buffer says; kept regions are restored, and regions in host memory stay. Tasks that had not ended
are run again, except those of a handler of the class \"once\" that may have begun, and a task that
makes the kernel trap each time: they end as lost. The reason is lease, trap, device, returned,
record or quarantine.

With --watch, save the spec, or a file that it names, to change handlers, libraries, fuel, share and
the number of groups while tasks run; nothing else can change. Standard error says what has changed,
or why nothing has, and a mistake leaves the session as it is. A line finds the handlers
that there are when it is read; tasks of a removed one end with the fault \"unknown opcode\". Tasks
that have taken some of their steps go on with a new version that has takes_over = true; any other
version is refused while there are such tasks.

With --journal, every task and every result is kept in a folder, and no result is printed before it
is there. After a crash, run the same command with the same input, and append its output to that of
the first run: tasks whose results the journal has are not run again, and results that may not have
been printed are printed. A few may then be there twice, which the line numbers show. Another spec,
or an input with other tasks, is refused. Memory is not kept, so results that depend on what earlier
tasks have stored may differ after a crash. `pelton journal` shows what a journal has, and
`pelton replay` runs its tasks again.

With --stream, files, folders, pipes and sockets are read in chunks instead of lines, and each chunk
becomes a task of the handler that --op names. Chunks are read into a region of the spec that lies in
host memory (memory = \"host\") and is named stream, several of them ahead. Arguments 0 to 5 of a task
are the chunk's first element in the region, its number of bytes, the low and the high half of its
offset in the file, the number of the file, and how many bytes at its beginning the last chunk had
too (--overlap). Bytes after the last one are zero up to a multiple of 64. One line per chunk:
  {\"file\": \"a.log\", \"offset\": 65536, \"bytes\": 65536, \"status\": \"done\", \"result\": 7}
Ctrl-C reads no more, and prints the results of what was read. If something cannot be read, the
results of everything before it are printed, the error says where that was, and the status is 1.

With lifetime = \"drain\" in the spec, the lines are run in batches, one pass per batch.
INIT is written as for `pelton exec`, and fills a region from its first element on.
If the reader of the results leaves, as in `| head -1`, tasks under way are finished and no more
are submitted. The exit status is 1 if lines were bad, if results could not be written or if tasks
waited for events in vain, else 2 if tasks ended with a fault or were lost.")]
pub(crate) struct RunArgs {
    /// The file with the spec, in TOML; `pelton kernel` prints what it assembles to
    spec: PathBuf,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// A device to go on with if the device is lost and cannot be used again; repeat the option for
    /// others, or separate their names by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    failover: Vec<String>,

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

    /// Keep tasks and results in this folder, so that the same command goes on after a crash
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// When the journal is handed to the disk
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = FsyncArg::Interval, requires = "journal")]
    fsync: FsyncArg,

    /// Print the kernel's statistics on standard error at the end
    #[arg(long)]
    stats: bool,

    /// Print the summary on standard error as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    stream: StreamArgs,
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

/// Refuses devices to go on with, if nothing goes on after a loss.
fn refuse_vain_failover(args: &RunArgs, spec: &Spec) -> Result<(), CliError> {
    match !args.failover.is_empty() && spec.recovery == Recovery::Off {
        true => Err(CliError::Wrong(
            "--failover is for sessions that go on after a loss; write recovery = \"on\" in the spec".into(),
        )),
        false => Ok(()),
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
    refuse_vain_failover(args, &spec)?;
    if !args.stream.paths.is_empty() {
        return stream::run_stream(args, &spec, term);
    }
    let journal = RunJournal::from_args(args, &spec)?;
    stop::listen()?;
    let device = open(&args.device)?;
    let failover = args.failover.iter().map(|name| open(name)).collect::<Result<Vec<_>, _>>()?;
    let names = TaskNames::new(&spec);
    let (bar, input) = (input_bar(term), Cell::new(Some(Box::new(io::stdin()) as _)));
    let job = RunJob { args, term, names: &names, failover, bar, journal: journal.as_ref(), input };
    let mut known = None;
    let summary = match journal {
        None => {
            let out = PlainOutput(BufWriter::with_capacity(1 << 16, io::stdout()));
            job.run(&device, &spec, watched, out)?
        }
        Some(ref journal) => {
            known = Some(begin_with_journal(&mut journal.borrow_mut(), &device.caps().name, term)?);
            job.run(&device, &spec, watched, JournalledOutput::new(journal, io::stdout())?)?
        }
    };
    drop(job);
    journal.map_or(Ok(()), |journal| journal.into_inner().close())?;
    print_summary(args, term, &device.caps().name, &summary, known.as_ref());
    let faults = summary.ends.faults + known.map_or(0, |known| known.faults);
    let status = match summary.halt {
        Err(Halt::Standstill(why)) => {
            term.wrong(why);
            CliStatus::Wrong
        }
        Err(Halt::Failed(error) | Halt::Unwritten(error @ CliError::Output(_))) => return Err(error),
        Err(Halt::Interrupted) => CliStatus::Interrupted,
        Err(Halt::Bad | Halt::Lost | Halt::Unwritten(_)) => CliStatus::Wrong,
        Ok(()) if summary.skipped > 0 => CliStatus::Wrong,
        Ok(()) if faults > 0 || summary.ends.lost > 0 => CliStatus::Failed,
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

/// Says from where a journal is continued. Returns which results it has.
fn begin_with_journal(journal: &mut RunJournal, device: &str, term: &Term) -> Result<EndCounts, CliError> {
    if let Some(TornTail { path, offset, bytes }) = journal.torn_tail() {
        let path = path.display();
        term.note(format_args!(
            "cut off {bytes} bytes at byte {offset} of {path}, which were not whole records"
        ));
    }
    let known = journal.ends;
    if known.total() > 0 {
        let (count, tasks) = match known.total() {
            1 => ("1 result".into(), "task is"),
            count => (format!("{count} results"), "tasks are"),
        };
        term.note(format_args!("the journal has {count}, whose {tasks} not run again"));
    }
    journal.note_start(device)?;
    Ok(known)
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
fn print_summary(args: &RunArgs, term: &Term, device: &str, summary: &RunSummary, known: Option<&EndCounts>) {
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
            "from_journal": known, "seconds": seconds, "stats": stats.as_ref().map(|(_, json)| json),
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
        (known.map_or(0, EndCounts::total), "from the journal".into()),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    term.note(format_args!("{end}: {} in {seconds:.3} s on {device}", parts.join(", ")));
}
