//! `pelton run`: a kernel fed with lines of JSON.

mod feed;
mod flights;
mod lines;
mod task;
mod workspace;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pelton::kernel::Lifetime;
use pelton::{Deadline, Session, Snapshot};
use pelton_device::open;
use pelton_filetest::init::Init;
use serde_json::json;

use self::feed::{Bad, Feed, Halt};
use self::flights::{Ends, Flights, Order};
use self::task::Names;
use self::workspace::Target;
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
  args      up to 12 numbers: u32, i32, or with a point the bits of an f32
  tenant    a name or a number; can be left out if there is one
  priority  critical, high, normal, low or idle, if the spec has claim = \"priority\"
Tasks run at once and in any order; BATCH_FENCE ends when so many before it of its tenant have ended.

Results, one a task:
  {\"line\": 3, \"op\": \"add\", \"status\": \"done\", \"result\": 7}
  {\"line\": 4, \"op\": \"add\", \"status\": \"fault\", \"fault\": {\"code\": 2, \"name\": \"out of region\"}}

Buffers are as in `pelton exec`, and fill a region from its first element on.
Exit status: 1 if lines were bad, else 2 if tasks ended with a fault.")]
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

    /// Write the summary as JSON
    #[arg(long)]
    json: bool,
}

/// How a run went.
struct Summary {
    halt: Result<(), Halt>,
    ends: Ends,
    skipped: u64,
    took: Duration,
    snapshot: Option<Snapshot>,
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    let spec = kernel::read(&args.spec, term)?;
    if spec.lifetime == Lifetime::Drain {
        let why = "lifetime = drain: `pelton run` keeps a kernel that is fed; say persistent";
        return Err(Error::Wrong(why.into()));
    }
    stop::word()?;
    let device = open(&args.device)?;
    let names = Names::new(&spec);
    let session = Session::launch(&device, &spec)?;
    workspace::check(&session, &names, &args.outs)?;
    workspace::fill(&session, &names, &args.buffers)?;
    let out = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut flights = Flights::new(&names, args.order, out);
    let summary = feed(args, term, session, &names, &mut flights)?;
    tell(args, term, &device.caps().name, &summary);
    Ok(match summary.halt {
        Err(Halt::Failed(error)) => return Err(error),
        Err(Halt::Interrupted) => Status::Interrupted,
        Err(Halt::Bad | Halt::Lost) => Status::Wrong,
        Ok(()) if summary.skipped > 0 => Status::Wrong,
        Ok(()) if summary.ends.faults > 0 => Status::Failed,
        Ok(()) => Status::Fine,
    })
}

/// Feeds a session until its end.
fn feed<'n, W: Write>(
    args: &Args,
    term: &Term,
    session: Session,
    names: &'n Names,
    flights: &mut Flights<'n, W>,
) -> Result<Summary, Error> {
    let began = Instant::now();
    let bar = bar(term);
    let mut feed = Feed::new(&session, names, term, flights, args.bad);
    let chunks = lines::read(io::stdin()).map_err(Error::Input)?;
    let mut halt = feed.run(&chunks, |bytes, tasks| {
        bar.set_position(bytes);
        bar.set_message(format!("{tasks} tasks"));
    });
    let skipped = feed.skipped;
    drop(feed);
    bar.finish_and_clear();
    if let Err(Halt::Failed(error)) = halt {
        return Err(error);
    }
    if halt.is_err() {
        // What has not ended by then ends as stopped.
        let _ = session.quiesce(Deadline::after(GRACE));
    }
    workspace::save(&session, names, &args.outs)?;
    let snapshot = if args.stats { Some(session.snapshot()?) } else { None };
    if let Err(error) = session.stop() {
        halt = Err(Halt::Failed(error.into()));
    }
    while !flights.is_empty() {
        flights.collect()?;
    }
    flights.flush()?;
    Ok(Summary { halt, ends: flights.ends, skipped, took: began.elapsed(), snapshot })
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
    meta.is_file().then(|| meta.len())
}

/// Says how it went.
fn tell(args: &Args, term: &Term, device: &str, summary: &Summary) {
    let Summary { halt, ends, skipped, took, snapshot } = summary;
    let end = match halt {
        Ok(()) => "done",
        Err(Halt::Bad) => "stopped at a bad line",
        Err(Halt::Interrupted) => "interrupted",
        Err(Halt::Lost | Halt::Failed(_)) => "lost",
    };
    let seconds = took.as_secs_f64();
    if args.json {
        return term.note(json!({
            "end": end, "device": device, "tasks": ends.total(), "ends": ends, "bad_lines": skipped,
            "seconds": seconds, "snapshot": snapshot,
        }));
    }
    if let Some(snapshot) = snapshot {
        term.note(snapshot);
    }
    let mut parts = vec![format!("{} done", ends.done)];
    for (count, what) in [(ends.faults, "faults"), (ends.unrun, "not run"), (*skipped, "bad lines")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    term.note(format_args!("{end}: {} in {seconds:.3} s on {device}", parts.join(", ")));
}
