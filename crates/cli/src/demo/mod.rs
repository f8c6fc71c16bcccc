//! `pelton demo`: launches a kernel once, feeds it from several threads, and checks every result.

mod feed;
mod kernel;
#[cfg(target_os = "linux")]
mod lose;
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

use self::feed::{ALL_FEEDERS, FeederResult, SharedLoad};
use self::report::DemoReport;
use self::sample::Sampler;
use self::tally::Tally;
use self::work::{TABLE, WordTable};

#[cfg(target_os = "linux")]
pub(crate) use self::work::mix;
use crate::count::parse_count_in;
use crate::error::CliError;
use crate::term::Term;
use crate::{CliStatus, stop};

/// The time between two updates of the progress bar, at which printed lines are read too.
const GLANCE: Duration = Duration::from_millis(20);

/// Launch one kernel on the best device, feed it millions of mixed tasks, and check every result
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton demo
  pelton demo --tasks 1e8
  pelton demo --device reference
  pelton demo --json
  pelton demo --lose-device
  pelton demo --text > kernel.pel && pelton check kernel.pel

Two tenants feed the kernel from two threads each, 256 tasks at a time: built-in opcodes, an
opcode that one lane runs and one that a whole group runs, packed slots, fences, priorities, and
tasks that the kernel must refuse. Another thread submits single tasks and measures their latency.

With --lose-device, the device runs in a process of its own and is lost when half of the tasks have
ended: a GPU by a kernel that executes the PTX instruction trap, after which the driver refuses the
whole process, and any other device by the end of its process. The session goes on in another
process, and every result is checked all the same.

Ctrl-C stops the demo, which then reports what it has so far.")]
pub(crate) struct DemoArgs {
    /// The number of tasks to submit, such as 1e8; 20 million if it is not given, or 50,000 on the interpreter
    #[arg(long, value_name = "N", value_parser = parse_count_in::<u64>(1..=1 << 40), allow_negative_numbers = true)]
    tasks: Option<u64>,

    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "auto")]
    device: String,

    /// Print one JSON object instead of the report
    #[arg(long, conflicts_with = "text")]
    json: bool,

    /// Print the kernel as a module, and do nothing else
    #[arg(long)]
    text: bool,

    /// Lose the device in the middle of the work, and show that the session goes on
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with = "text")]
    lose_device: bool,
}

pub(crate) fn run_demo(args: &DemoArgs, term: &Term) -> Result<CliStatus, CliError> {
    #[cfg(target_os = "linux")]
    if args.lose_device {
        return lose::run_lossy_demo(&args.device, args.tasks, args.json, term);
    }
    let device = open(&args.device)?;
    if args.text {
        let made = assemble(&kernel::demo_spec(), device.caps()).map_err(pelton::Error::from)?;
        term.text(&text::print(&made.module))?;
        return Ok(CliStatus::Fine);
    }
    stop::listen()?;
    let report = play_demo(args, &device, term)?;
    if args.json {
        term.line(report.json())?;
    } else {
        report.print(term)?;
    }
    for wrong in &report.tally.wrongs {
        term.note(format_args!("wrong: {wrong}"));
    }
    Ok(match report.tally.wrong {
        0 if report.interrupted => CliStatus::Interrupted,
        0 => CliStatus::Fine,
        _ => CliStatus::Wrong,
    })
}

/// Plays the whole demo: launches the kernel, measures, feeds, compares, and stops it.
fn play_demo(args: &DemoArgs, device: &Arc<dyn Device>, term: &Term) -> Result<DemoReport, CliError> {
    let usual = if device.caps().name.starts_with("reference") { 50_000 } else { 20_000_000 };
    let asked = args.tasks.unwrap_or(usual);
    let began = Instant::now();
    let session = Session::launch(device, &kernel::demo_spec())?;
    let launched = began.elapsed();
    let table = WordTable::new();
    for tenant in 0..kernel::TENANTS.len() as u32 {
        session.view::<u32>(tenant, "data")?.write(0, &table.words)?;
    }
    let opening = report::opening_lines(device.caps(), &session.layout(), asked, launched);
    if !args.json {
        for line in &opening {
            term.line(line)?;
        }
    }
    let mut sampler = Sampler { producer: session.producer(0)?.aim(Aim::Latency), count: 0 };
    let idle = sampler.measure_idle()?;
    let (left, done) = (AtomicU64::new(asked), AtomicU64::new(0));
    let load = SharedLoad { session: &session, table: &table, left, done, failed: AtomicBool::new(false) };
    let LoadedRun { fed, busy, lines, seconds } = feed_all(&load, &mut sampler, asked, term)?;
    let tasks = load.done.load(Ordering::Relaxed);
    let mut tally = Tally::default();
    compare_memory(&session, &table, &fed, sampler.count, &mut tally)?;
    fed.into_iter().for_each(|fed| tally.add(fed.tally));
    let snapshot = session.snapshot()?;
    report::check_counts(&snapshot, &mut tally, (lines.len() as u64, sampler.count.into(), tasks));
    drop(sampler);
    let stopped = session.stop()?;
    if stopped.tasks_left() > 0 || stopped.forced {
        tally.wrong(format!(
            "the stop left {} tasks behind (forced: {})",
            stopped.tasks_left(),
            stopped.forced
        ));
    }
    let (device, interrupted) = (device.caps().name.clone(), stop::pressed() && tasks < asked);
    Ok(DemoReport { device, opening, asked, tasks, seconds, idle, busy, snapshot, lines, tally, interrupted })
}

/// The result of feeding from all threads.
struct LoadedRun {
    fed: Vec<FeederResult>,
    busy: Quantiles,
    lines: Vec<String>,
    seconds: f64,
}

/// Feeds from all threads until every task is done, and updates the progress bar meanwhile.
fn feed_all(
    load: &SharedLoad<'_>,
    sampler: &mut Sampler,
    tasks: u64,
    term: &Term,
) -> Result<LoadedRun, CliError> {
    let bar = term.bar(tasks, "{bar:40} {human_pos}/{human_len} tasks checked, {per_sec}");
    let over = AtomicBool::new(false);
    let mut lines = Vec::new();
    let began = Instant::now();
    let (fed, busy) = thread::scope(|scope| {
        let start = |feeder: u32| {
            let named = thread::Builder::new().name(format!("feeder-{feeder}"));
            named.spawn_scoped(scope, move || load.feed(feeder)).map_err(pelton::Error::Thread)
        };
        let feeders: Result<Vec<_>, _> = (0..ALL_FEEDERS).map(start).collect();
        let feeders = feeders.inspect_err(|_| load.failed.store(true, Ordering::Relaxed))?;
        let sampling = scope.spawn(|| sampler.measure_loaded(&over));
        while feeders.iter().any(|feeder| !feeder.is_finished()) {
            thread::sleep(GLANCE);
            bar.set_position(load.done.load(Ordering::Relaxed));
            // If the log cannot be read now, it is read at the end.
            lines.extend(load.session.log().unwrap_or_default());
        }
        over.store(true, Ordering::Relaxed);
        let fed: Result<Vec<FeederResult>, CliError> =
            feeders.into_iter().map(|feeder| join_thread(feeder.join())).collect();
        Ok::<_, CliError>((fed?, join_thread(sampling.join())?))
    })?;
    bar.finish_and_clear();
    lines.extend(load.session.log()?);
    let ended = fed.iter().map(|fed| fed.ended).max().unwrap_or(began);
    Ok(LoadedRun { fed, busy, lines, seconds: (ended - began).as_secs_f64() })
}

/// The result of a thread. If the thread panicked, this one panics too.
pub(crate) fn join_thread<T>(ended: thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Compares every word of both tenants with what the host has computed.
fn compare_memory(
    session: &Session,
    table: &WordTable,
    fed: &[FeederResult],
    sampled: u32,
    tally: &mut Tally,
) -> Result<(), CliError> {
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
            // The first observable is the tag of the last fence, whichever that was.
            let found = session.view::<u32>(tenant, name)?.read_all()?;
            for at in (first..expect.len()).filter(|at| found[*at] != expect[*at]) {
                let whose = kernel::TENANTS[tenant as usize];
                let (found, expect) = (found[at], expect[at]);
                tally.wrong(format!("word {at} of {whose}'s {name} is {found:#x}, expected {expect:#x}"));
            }
        }
    }
    Ok(())
}
