//! `pelton demo`: a kernel is launched once and fed from several threads, and everything that comes back is checked.

mod feed;
mod kernel;
mod report;
mod sample;
mod tally;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pelton::kernel::assemble;
use pelton::telemetry::Quantiles;
use pelton::{Aim, Session};
use pelton_device::{Device, open};
use pelton_ir::text;

use self::feed::{ALL, Fed, Load};
use self::report::Report;
use self::sample::Sampler;
use self::tally::Tally;
use self::work::{TABLE, Table};
use crate::count::within;
use crate::error::Error;
use crate::term::Term;
use crate::{Status, stop};

/// How often the bar moves, and printed lines are read.
const GLANCE: Duration = Duration::from_millis(20);

/// Launch a kernel on the best device, feed it millions of mixed tasks, and check every result
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton demo
  pelton demo --tasks 1e8
  pelton demo --device reference
  pelton demo --json
  pelton demo --text > kernel.pel && pelton check kernel.pel

Two tenants feed it from two threads each, a span of 256 tasks at a time: built-in opcodes, one of its own
that a lane runs, one that a whole group runs, packed slots, fences, priorities, and tasks that must be refused.
Another thread sends single tasks and measures them. Ctrl-C stops it, and what has come so far is reported.")]
pub struct Args {
    /// How many tasks to submit, such as 1e8; 20 million if not given, or 50,000 on the interpreter
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=1 << 40), allow_negative_numbers = true)]
    tasks: Option<u64>,

    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// Print one JSON object instead of the report
    #[arg(long, conflicts_with = "text")]
    json: bool,

    /// Print the text of the kernel and do nothing else
    #[arg(long)]
    text: bool,
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    let device = open(&args.device)?;
    if args.text {
        let made = assemble(&kernel::spec(), device.caps()).map_err(pelton::Error::from)?;
        term.text(&text::print(&made.module))?;
        return Ok(Status::Fine);
    }
    stop::word()?;
    let report = demo(args, &device, term)?;
    if args.json {
        term.line(report.json())?;
    } else {
        report.print(term)?;
    }
    for wrong in &report.tally.wrongs {
        term.note(format_args!("wrong: {wrong}"));
    }
    Ok(match report.tally.wrong {
        0 if report.interrupted => Status::Interrupted,
        0 => Status::Fine,
        _ => Status::Wrong,
    })
}

/// Launches, measures, feeds, compares, stops.
fn demo(args: &Args, device: &Arc<dyn Device>, term: &Term) -> Result<Report, Error> {
    let usual = if device.caps().name.starts_with("reference") { 50_000 } else { 20_000_000 };
    let asked = args.tasks.unwrap_or(usual);
    let began = Instant::now();
    let session = Session::launch(device, &kernel::spec())?;
    let launched = began.elapsed();
    let table = Table::new();
    for tenant in 0..kernel::TENANTS.len() as u32 {
        session.view::<u32>(tenant, "data")?.write(0, &table.words)?;
    }
    let opening = report::opening(device.caps(), session.layout(), asked, launched);
    if !args.json {
        for line in &opening {
            term.line(line)?;
        }
    }
    let mut sampler = Sampler { producer: session.producer(0)?.aim(Aim::Latency), count: 0 };
    let idle = sampler.idle()?;
    let (left, done) = (AtomicU64::new(asked), AtomicU64::new(0));
    let load = Load { session: &session, table: &table, left, done, failed: AtomicBool::new(false) };
    let Run { fed, busy, lines, seconds } = under_load(&load, &mut sampler, asked, term)?;
    let tasks = load.done.load(Ordering::Relaxed);
    let mut tally = Tally::default();
    compare(&session, &table, &fed, sampler.count, &mut tally)?;
    fed.into_iter().for_each(|fed| tally.add(fed.tally));
    let snapshot = session.snapshot()?;
    report::counted(&snapshot, &mut tally, (lines.len() as u64, sampler.count.into(), tasks));
    drop(sampler);
    let stopped = session.stop()?;
    if stopped.total() > 0 || stopped.forced {
        tally.wrong(format!("the stop left {} tasks, forced: {}", stopped.total(), stopped.forced));
    }
    let (device, interrupted) = (device.caps().name.clone(), stop::pressed() && tasks < asked);
    Ok(Report { device, opening, asked, tasks, seconds, idle, busy, snapshot, lines, tally, interrupted })
}

/// What a run under load gave.
struct Run {
    fed: Vec<Fed>,
    busy: Quantiles,
    lines: Vec<String>,
    seconds: f64,
}

/// Feeds from all threads until everything is done, and moves the bar meanwhile.
fn under_load(load: &Load<'_>, sampler: &mut Sampler, tasks: u64, term: &Term) -> Result<Run, Error> {
    let bar = term.bar(tasks, "{bar:40} {human_pos}/{human_len} tasks checked, {per_sec}");
    let over = AtomicBool::new(false);
    let mut lines = Vec::new();
    let began = Instant::now();
    let (fed, busy) = thread::scope(|scope| {
        let start = |feeder: u32| {
            let named = thread::Builder::new().name(format!("feeder-{feeder}"));
            named.spawn_scoped(scope, move || load.feed(feeder)).map_err(pelton::Error::Thread)
        };
        let feeders: Result<Vec<_>, _> = (0..ALL).map(start).collect();
        let feeders = feeders.inspect_err(|_| load.failed.store(true, Ordering::Relaxed))?;
        let sampling = scope.spawn(|| sampler.load(&over));
        while feeders.iter().any(|feeder| !feeder.is_finished()) {
            thread::sleep(GLANCE);
            bar.set_position(load.done.load(Ordering::Relaxed));
            // A log that cannot be read now is read, or missed, at the end.
            lines.extend(load.session.log().unwrap_or_default());
        }
        over.store(true, Ordering::Relaxed);
        let fed: Result<Vec<Fed>, Error> = feeders.into_iter().map(|feeder| joined(feeder.join())).collect();
        Ok::<_, Error>((fed?, joined(sampling.join())?))
    })?;
    bar.finish_and_clear();
    lines.extend(load.session.log()?);
    let ended = fed.iter().map(|fed| fed.ended).max().unwrap_or(began);
    Ok(Run { fed, busy, lines, seconds: (ended - began).as_secs_f64() })
}

/// What a thread gave. One that panicked has said why, and so does this one.
fn joined<T>(ended: thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Compares every word of both tenants with what the host has worked out.
fn compare(
    session: &Session,
    table: &Table,
    fed: &[Fed],
    sampled: u32,
    tally: &mut Tally,
) -> Result<(), Error> {
    for tenant in 0..kernel::TENANTS.len() as u32 {
        let mut data = vec![0; kernel::DATA as usize];
        data[..TABLE as usize].copy_from_slice(&table.words);
        data[kernel::SAMPLER as usize] = if tenant == 0 { sampled } else { 0 };
        let mut observables = vec![0; kernel::OBSERVABLES as usize];
        for area in fed.iter().filter(|fed| fed.tenant == tenant).flat_map(|fed| &fed.areas) {
            let put = |to: &mut [u32], at: u32, from: &[u32]| {
                to[at as usize..at as usize + from.len()].copy_from_slice(from);
            };
            put(&mut data, area.first, &area.words);
            put(&mut observables, area.observable, &area.observables);
        }
        for (name, first, expect) in [("data", 0, data), ("observable", 1, observables)] {
            // The first observable is the tag of whichever fence came last.
            let found = session.view::<u32>(tenant, name)?.all()?;
            for at in (first..expect.len()).filter(|at| found[*at] != expect[*at]) {
                let whose = kernel::TENANTS[tenant as usize];
                let (found, expect) = (found[at], expect[at]);
                tally.wrong(format!("word {at} of {whose}'s {name} is {found:#x}, expected {expect:#x}"));
            }
        }
    }
    Ok(())
}
