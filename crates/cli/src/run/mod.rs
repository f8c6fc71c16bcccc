//! `pelton run`: a kernel fed with lines of JSON.

mod batches;
mod feed;
mod flights;
mod intake;
mod lines;
mod results;
mod task;
mod workspace;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pelton::kernel::{Lifetime, Report};
use pelton::{Deadline, Drain, Session};
use pelton_device::open;
use pelton_filetest::init::Init;
use serde::Serialize;
use serde_json::{Value, json};

use self::batches::Batches;
use self::feed::Feed;
use self::flights::{Flights, Order};
use self::intake::{Bad, Halt, Intake, Sink};
use self::results::{Ends, Results};
use self::task::Names;
use self::workspace::{Home, Target};
use crate::error::Error;
use crate::term::Term;
use crate::{Status, kernel, stop};

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
pub struct Args {
    /// The spec, in TOML; `pelton kernel` prints what it assembles to
    spec: PathBuf,

    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// In which order results are written
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Input)]
    order: Order,

    /// What becomes of the lines after a bad one
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Bad::Stop)]
    bad: Bad,

    /// What a tenant's region starts with; may be given again
    #[arg(long = "buffer", short, value_name = "TENANT.REGION=INIT", value_parser = workspace::buffer)]
    buffers: Vec<(Target, Init)>,

    /// Write a tenant's region to a file in the end; may be given again
    #[arg(long = "out", short, value_name = "TENANT.REGION=FILE", value_parser = workspace::out)]
    outs: Vec<(Target, PathBuf)>,

    /// Say on standard error what the kernel counted
    #[arg(long)]
    stats: bool,

    /// Write the summary, which goes to standard error, as JSON
    #[arg(long)]
    json: bool,
}

/// How a run went.
struct Summary {
    halt: Result<(), Halt>,
    ends: Ends,
    skipped: u64,
    took: Duration,
    /// What the kernel counted, for people and for programs.
    stats: Option<(String, Value)>,
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    let spec = kernel::read(&args.spec, term)?;
    stop::word()?;
    let device = open(&args.device)?;
    let names = Names::new(&spec);
    let results = Results::new(&names, BufWriter::with_capacity(1 << 16, io::stdout()));
    let job = Job { args, term, names: &names, bar: bar(term) };
    let summary = match spec.lifetime {
        Lifetime::Persistent => job.feed(Session::launch(&device, &spec)?, results)?,
        Lifetime::Drain if spec.report == Report::Control => {
            let why = "report = control: there would be no results; say full";
            return Err(Error::Wrong(why.into()));
        }
        Lifetime::Drain => job.drain(Drain::new(&device, &spec)?, results)?,
    };
    tell(args, term, &device.caps().name, &summary);
    Ok(match summary.halt {
        Err(Halt::Failed(error) | Halt::Unwritten(error @ Error::Output(_))) => return Err(error),
        Err(Halt::Interrupted) => Status::Interrupted,
        Err(Halt::Bad | Halt::Lost | Halt::Unwritten(_)) => Status::Wrong,
        Ok(()) if summary.skipped > 0 => Status::Wrong,
        Ok(()) if summary.ends.faults > 0 => Status::Failed,
        Ok(()) => Status::Fine,
    })
}

/// A run to be made.
struct Job<'a> {
    args: &'a Args,
    term: &'a Term,
    names: &'a Names,
    bar: ProgressBar,
}

impl<'a> Job<'a> {
    /// Fills the workspace before anything runs.
    fn open(&self, home: &impl Home) -> Result<(), Error> {
        workspace::check(home, self.names, &self.args.outs)?;
        workspace::fill(home, self.names, &self.args.buffers)
    }

    /// Takes in all lines. Gives why that ended early, and how many lines were bad.
    fn intake(&self, sink: &mut impl Sink) -> Result<(Result<(), Halt>, u64), Error> {
        let mut intake = Intake::new(self.names, self.term, self.args.bad);
        let chunks = lines::read(io::stdin()).map_err(Error::Input)?;
        let halt = intake.run(sink, &chunks, |bytes, tasks| {
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
    fn feed<W: Write>(&self, session: Session, results: Results<'a, W>) -> Result<Summary, Error> {
        self.open(&session)?;
        let began = Instant::now();
        let mut flights = Flights::new(self.args.order, results);
        let (mut halt, skipped) = self.intake(&mut Feed::new(&session, self.term, &mut flights))?;
        if halt.is_err() {
            // What has not ended by then ends as stopped.
            let _ = session.quiesce(Deadline::after(GRACE));
        }
        workspace::save(&session, self.names, &self.args.outs)?;
        let stats = if self.args.stats { Some(both(&session.snapshot()?)) } else { None };
        if let Err(error) = session.stop() {
            halt = Err(Halt::Failed(error.into()));
        }
        while !flights.is_empty() {
            unwritten(flights.collect().map(drop), &mut halt);
        }
        unwritten(flights.results.flush(), &mut halt);
        Ok(Summary { halt, ends: flights.results.ends, skipped, took: began.elapsed(), stats })
    }

    /// Runs batches until the end.
    fn drain<W: Write>(&self, mut drain: Drain, mut results: Results<'a, W>) -> Result<Summary, Error> {
        self.open(&drain)?;
        let began = Instant::now();
        let mut batches = Batches::new(&mut drain, self.term, &mut results);
        let (mut halt, skipped) = self.intake(&mut batches)?;
        let stats = batches.statistics.as_ref().filter(|_| self.args.stats).map(both);
        unwritten(results.flush(), &mut halt);
        workspace::save(&drain, self.names, &self.args.outs)?;
        Ok(Summary { halt, ends: results.ends, skipped, took: began.elapsed(), stats })
    }
}

/// Notes that the last results could not be written, unless something has gone wrong before.
fn unwritten(written: Result<(), Error>, halt: &mut Result<(), Halt>) {
    if let (Err(error), Ok(())) = (written, &*halt) {
        *halt = Err(error.into());
    }
}

/// For people and for programs.
fn both(stats: &(impl Display + Serialize)) -> (String, Value) {
    (stats.to_string(), json!(stats))
}

/// How far the input is, if it is a file, else how many tasks have ended. Not shown among results.
fn bar(term: &Term) -> ProgressBar {
    if io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    match length() {
        Some(len) => term.bar(len, "{bar:40} {percent}%, {msg}"),
        None => term.bar(0, "{spinner} {msg}"),
    }
}

/// The length of standard input, if it is a file.
fn length() -> Option<u64> {
    let meta = std::fs::metadata("/dev/stdin").ok()?;
    meta.is_file().then_some(meta.len())
}

/// Says how it went.
fn tell(args: &Args, term: &Term, device: &str, summary: &Summary) {
    let Summary { halt, ends, skipped, took, stats } = summary;
    let end = match halt {
        Ok(()) => "done",
        Err(Halt::Bad) => "stopped at a bad line",
        Err(Halt::Interrupted) => "interrupted",
        Err(Halt::Unwritten(Error::Pipe)) => "stopped, since nobody reads the results any more",
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
