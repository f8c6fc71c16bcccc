//! `pelton run --stream`: chunks of files, pipes and sockets become tasks.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::ProgressBar;
use pelton::kernel::{Lifetime, Recovery, TenantId};
use pelton::stream::{Chunk, DEFAULT_REGION, Input, ResultOrder, StreamEngine, StreamError, StreamReport};
use pelton::{Session, Spec, TaskError};
use pelton_device::open;
use serde_json::json;

use super::passing::once_recovered;
use super::results::write_no_result;
use super::task::{NameOrNumber, TaskNames};
use super::{RunArgs, workspace};
use crate::error::CliError;
use crate::size::{parse_size, spell_size};
use crate::term::Term;
use crate::{CliStatus, stop};

/// The options of a run that reads a stream instead of lines.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Streams")]
pub(crate) struct StreamArgs {
    /// Read files, folders, `-` for standard input, tcp://HOST:PORT or unix:PATH, and run a task per chunk
    #[arg(long = "stream", value_name = "PATH", num_args = 1.., requires = "op", conflicts_with_all = ["watch", "journal", "bad", "order"])]
    pub paths: Vec<String>,

    /// The handler that gets the chunks
    #[arg(long, value_name = "NAME", requires = "paths")]
    op: Option<String>,

    /// How many bytes a chunk has, as in 64K; by default a part of the region, and at most 1M
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "paths")]
    chunk: Option<u64>,

    /// How many bytes of a chunk are repeated at the beginning of the next one
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "paths")]
    overlap: Option<u64>,

    /// End every chunk after a line feed, if it has one
    #[arg(long, requires = "paths")]
    lines: bool,

    /// How long bytes of a pipe or a socket wait until their chunk is full, in milliseconds
    #[arg(long, value_name = "MS", requires = "paths")]
    flush_after: Option<u64>,

    /// Print results as tasks end, instead of by file and offset
    #[arg(long, requires = "paths")]
    unordered: bool,

    /// How files are read
    #[arg(long, value_enum, value_name = "HOW", requires = "paths")]
    engine: Option<EngineArg>,

    /// Arguments of every task after the six of the stream, with commas between them
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "paths")]
    args: Vec<u32>,

    /// The tenant whose tasks they are; may be left out if the spec has one tenant
    #[arg(long, value_name = "NAME", requires = "paths")]
    tenant: Option<String>,

    /// The region in host memory that chunks are read into
    #[arg(long, value_name = "NAME", requires = "paths", default_value = DEFAULT_REGION)]
    region: String,
}

/// How files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EngineArg {
    /// By io_uring if the system allows it, and by plain reads if not
    Auto,
    /// By io_uring
    IoUring,
    /// By plain reads
    Plain,
}

impl From<EngineArg> for StreamEngine {
    fn from(arg: EngineArg) -> StreamEngine {
        match arg {
            EngineArg::Auto => StreamEngine::Auto,
            EngineArg::IoUring => StreamEngine::IoUring,
            EngineArg::Plain => StreamEngine::Plain,
        }
    }
}

/// How many chunks a region is divided into, if the size of a chunk is not given.
const CHUNKS: usize = 8;

/// The time between two looks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs a stream.
pub(super) fn run_stream(args: &RunArgs, spec: &Spec, term: &Term) -> Result<CliStatus, CliError> {
    if spec.lifetime == Lifetime::Drain {
        let why =
            "--stream feeds a session, and the spec has lifetime = \"drain\"; set lifetime = \"persistent\"";
        return Err(CliError::Wrong(why.into()));
    }
    stop::listen()?;
    let input = find_input(&args.stream.paths)?;
    let device = open(&args.device)?;
    let names = TaskNames::new(spec);
    let tenant = match &args.stream.tenant {
        Some(name) => names.find_tenant(&NameOrNumber::Text(name.into())),
        None => names.only_tenant(),
    };
    let tenant = tenant.map_err(CliError::Wrong)?;
    names.admit(tenant, 0).map_err(CliError::Wrong)?;
    if spec.tenants.iter().any(|known| known.id == tenant && known.quota > 0) {
        let why = "has a quota, and the run would wait for ever once it is used up; remove the quota from the spec, or grant credit from a program of your own";
        return Err(CliError::Wrong(format!("tenant `{}` {why}", names.tenant_name(tenant))));
    }
    let session = Session::launch(&device, spec)?;
    session.set_failover(args.failover.iter().map(|name| open(name)).collect::<Result<Vec<_>, _>>()?);
    workspace::check_outs(&session, &names, &args.outs)?;
    let fills = workspace::region_fills(&session, &names, &args.buffers)?;
    fills.iter().try_for_each(|fill| fill.write_to(&session))?;
    workspace::refill_after_losses(&session, fills);
    let mut results = StreamResults {
        out: io::stdout(),
        broken: None,
        totals: StreamTotals::default(),
        bar: stream_bar(&input, term),
        stop: Arc::default(),
    };
    let ended = results.run(&session, tenant, input, args);
    results.bar.finish_and_clear();
    // If the stream was refused, nothing has happened that could be saved.
    let began = ended.is_ok() || results.totals.chunks > 0;
    let outs = if began { &args.outs[..] } else { &[] };
    let saved = workspace::save_session_regions(&session, &names, outs);
    let stats = match args.stats {
        true => Some(once_recovered(&session, || session.snapshot())?),
        false => None,
    };
    let recovers = spec.recovery == Recovery::On;
    match session.stop() {
        // The device was lost when all tasks had ended, so nothing is missing.
        Err(_) if recovers && ended.is_ok() => {}
        stopped => drop(stopped?),
    }
    if let Some(stats) = stats.filter(|_| !args.json) {
        term.note(stats);
    }
    let broken = results.broken.take();
    print_totals(args, term, &device.caps().name, (&results.totals, &ended, broken.is_some()));
    let report = ended.map_err(|error| CliError::Wrong(error.to_string()))?;
    saved?;
    match broken {
        Some(error) => Err(error.into()),
        None if stop::pressed() => Ok(CliStatus::Interrupted),
        None if report.faults > 0 => Ok(CliStatus::Failed),
        None => Ok(CliStatus::Fine),
    }
}

/// Finds out what the paths are. A path that is not there is refused before anything is read.
fn find_input(paths: &[String]) -> Result<Input, CliError> {
    let mut input = Input::default();
    for path in paths {
        let part = match path.as_str() {
            "-" => Input::stdin(),
            path if let Some(address) = path.strip_prefix("tcp://") => Input::tcp(address),
            #[cfg(unix)]
            path if let Some(path) = path.strip_prefix("unix:") => Input::unix(path),
            path => {
                let facts = std::fs::metadata(path);
                let facts = facts.map_err(|error| CliError::Wrong(format!("cannot read {path}: {error}")))?;
                if facts.is_dir() { Input::folder(Path::new(path)) } else { Input::files([path]) }
            }
        };
        input = input.and(part);
    }
    Ok(input)
}

/// The progress bar: how much of the files was read. It is hidden if results go to the terminal.
fn stream_bar(input: &Input, term: &Term) -> ProgressBar {
    match input.known_bytes() {
        _ if io::stdout().is_terminal() => ProgressBar::hidden(),
        0 => term.bar(0, "{spinner} {bytes}, {bytes_per_sec}"),
        bytes => {
            term.bar(bytes, "{bar:40} {percent}%, {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
        }
    }
}

/// What was handed over.
#[derive(Default)]
struct StreamTotals {
    chunks: u64,
    bytes: u64,
    faults: u64,
}

/// Writes results, and counts them.
struct StreamResults {
    /// Standard output shows every line at once: there is one per chunk, and whoever reads from a pipe waits for it.
    out: io::Stdout,
    /// Why results cannot be written, if they cannot. From then on they are only counted.
    broken: Option<io::Error>,
    totals: StreamTotals,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl StreamResults {
    /// Runs the stream to its end, or until Ctrl-C.
    fn run(
        &mut self,
        session: &Session,
        tenant: TenantId,
        input: Input,
        args: &RunArgs,
    ) -> Result<StreamReport, StreamError> {
        let StreamArgs { op, chunk, overlap, lines, flush_after, unordered, engine, args, region, .. } =
            &args.stream;
        let overlap = overlap.unwrap_or(0) as usize;
        let chunk = match chunk {
            Some(bytes) => *bytes as usize,
            None => suitable_chunk(session, tenant, region, overlap)?,
        };
        let mut stream = session
            .stream(tenant, input)
            .region(region)
            .op(op.clone().unwrap_or_default())
            .args(args)
            .chunk(chunk)
            .overlap(overlap)
            .order(if *unordered { ResultOrder::AsTheyEnd } else { ResultOrder::ByOffset })
            .engine(engine.map_or(StreamEngine::Auto, StreamEngine::from))
            .stop_flag(self.stop.clone());
        if *lines {
            stream = stream.delimiter(b'\n');
        }
        if let Some(ms) = flush_after {
            stream = stream.flush_after(Duration::from_millis(*ms));
        }
        let (stop, ended) = (self.stop.clone(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    stop.fetch_or(stop::pressed(), Ordering::Relaxed);
                    std::thread::sleep(GLANCE);
                }
            });
            let report = stream.run(|chunk, result| self.take(chunk, result));
            ended.store(true, Ordering::Relaxed);
            report
        })
    }

    /// Counts a chunk, and writes its result.
    fn take(&mut self, chunk: &Chunk<'_>, result: Result<u32, TaskError>) {
        let new = (chunk.len() - chunk.overlap()) as u64;
        self.totals.chunks += 1;
        self.totals.bytes += new;
        self.totals.faults += u64::from(result.is_err());
        self.bar.inc(new);
        if self.broken.is_none()
            && let Err(error) = self.write(chunk, result)
        {
            self.broken = Some(error);
            // What is under way ends, and nothing more is read for nobody.
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn write(&mut self, chunk: &Chunk<'_>, result: Result<u32, TaskError>) -> io::Result<()> {
        let mut line = Vec::with_capacity(160);
        write!(line, "{{\"file\": {}, \"offset\": {}, ", json!(chunk.name()), chunk.offset())?;
        write!(line, "\"bytes\": {}", chunk.len())?;
        match result {
            Ok(result) => line.extend(format!(", \"status\": \"done\", \"result\": {result}}}\n").bytes()),
            Err(why) => write_no_result(&mut line, why, None)?,
        }
        self.out.write_all(&line)
    }
}

/// Returns how large chunks are if several of them are to fit into the region.
fn suitable_chunk(
    session: &Session,
    tenant: TenantId,
    region: &str,
    overlap: usize,
) -> Result<usize, StreamError> {
    let piece = session.piece(tenant, region)?;
    let share = piece.len * piece.elem.bytes() as usize / CHUNKS;
    Ok((share.saturating_sub(overlap) / 64 * 64).clamp(64, 1 << 20))
}

/// Prints the totals on standard error.
fn print_totals(
    args: &RunArgs,
    term: &Term,
    device: &str,
    (totals, ended, broken): (&StreamTotals, &Result<StreamReport, StreamError>, bool),
) {
    let end = match ended {
        Err(_) => "stopped by an error",
        Ok(_) if broken => "stopped, because the results cannot be written",
        Ok(_) if stop::pressed() => "interrupted",
        Ok(_) => "done",
    };
    let report = ended.as_ref().ok();
    let StreamTotals { chunks, bytes, faults } = totals;
    if args.json {
        return term.note(json!({
            "end": end, "device": device, "chunks": chunks, "bytes": bytes, "faults": faults,
            "files": report.map(|report| report.files), "engine": report.map(|report| report.engine.word()),
            "registered": report.map(|report| report.registered), "readers": report.map(|report| report.readers),
            "seconds": report.map(|report| report.took.as_secs_f64()),
        }));
    }
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![plural(*chunks, "chunk"), spell_size(*bytes)];
    if *faults > 0 {
        parts.push(plural(*faults, "fault"));
    }
    let how = report.map(|report| {
        let (seconds, engine) = (report.took.as_secs_f64(), report.engine.word());
        let speed = *bytes as f64 / seconds.max(1e-9) / 1e9;
        format!(" of {} in {seconds:.3} s ({speed:.2} GB/s), read by {engine}", plural(report.files, "file"))
    });
    term.note(format_args!("{end}: {}{} on {device}", parts.join(", "), how.unwrap_or_default()));
}
