//! `pelton demo --lose-device`: loses the device while a session runs on it, and shows that the session goes on.
//!
//! The tasks of this demo depend on nothing but their arguments, because what lies in the memory of a device is lost with it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::HumanCount;
use pelton::Session;
use pelton::telemetry::LastRecovery;
use pelton_device::Device;
use pelton_device::process::ProcessDevice;
use serde_json::json;

use crate::error::CliError;
use crate::loss_load::{LossLoad, losable_config, loss_spec};
use crate::term::Term;
use crate::{CliStatus, stop};

/// The number of threads that feed the kernel.
const FEEDERS: u32 = 4;
/// The time between two updates of the progress bar.
const GLANCE: Duration = Duration::from_millis(5);

/// What the demo has seen.
struct LossReport {
    device: String,
    tasks: u64,
    wrong: u64,
    seconds: f64,
    /// How many tasks had been checked when the device was lost.
    lost_after: Option<u64>,
    gap: Duration,
    recoveries: u64,
    last: Option<LastRecovery>,
}

/// Plays the demo, and prints what became of it.
pub(super) fn run_lossy_demo(
    name: &str,
    asked: Option<u64>,
    as_json: bool,
    term: &Term,
) -> Result<CliStatus, CliError> {
    let process = Arc::new(ProcessDevice::new(losable_config(name))?);
    let device: Arc<dyn Device> = process.clone();
    let usual = if device.caps().name.contains("reference") { 500_000 } else { 20_000_000 };
    let asked = asked.unwrap_or(usual);
    stop::listen()?;
    let session = Session::launch(&device, &loss_spec(FEEDERS))?;
    if !as_json {
        term.line(format_args!("{}: {}", device.caps().name, device.caps().about))?;
        term.line(format_args!(
            "{FEEDERS} threads feed one kernel {} tasks; when half of them have ended, its device is lost",
            HumanCount(asked)
        ))?;
    }
    let report = play(&session, &process, asked, term)?;
    session.stop()?;
    if as_json {
        print_json(&report, term)?
    } else {
        print_report(&report, &process, term)?
    }
    Ok(match report.wrong {
        0 if stop::pressed() && report.tasks < asked => CliStatus::Interrupted,
        0 => CliStatus::Fine,
        _ => CliStatus::Wrong,
    })
}

/// Feeds the kernel from all threads, and loses the device when half of the tasks have ended.
fn play(session: &Session, process: &ProcessDevice, asked: u64, term: &Term) -> Result<LossReport, CliError> {
    let (load, began) = (LossLoad::new(session, asked), Instant::now());
    let bar = term.bar(asked, "{bar:40} {human_pos}/{human_len} tasks checked, {per_sec}");
    let mut lost_after = None;
    thread::scope(|scope| {
        let feed = |feeder| {
            let load = &load;
            scope.spawn(move || load.feed(feeder))
        };
        let feeders: Vec<_> = (0..FEEDERS).map(feed).collect();
        while feeders.iter().any(|feeder| !feeder.is_finished()) {
            thread::sleep(GLANCE);
            let done = load.done();
            bar.set_position(done);
            if lost_after.is_none() && done >= asked / 2 {
                process.lose()?;
                lost_after = Some(done);
            }
        }
        let ended = feeders.into_iter().map(|feeder| super::join_thread(feeder.join()));
        ended.collect::<Result<Vec<()>, CliError>>()
    })?;
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let recovery = session.snapshot()?.recovery;
    Ok(LossReport {
        device: session_device(&recovery.as_ref().and_then(|recovery| recovery.last.clone()), process),
        tasks: load.done(),
        wrong: load.wrong(),
        seconds,
        lost_after,
        gap: load.longest_gap(),
        recoveries: recovery.as_ref().map_or(0, |recovery| recovery.count),
        last: recovery.and_then(|recovery| recovery.last),
    })
}

/// The name of the device that the session ended on.
fn session_device(last: &Option<LastRecovery>, process: &ProcessDevice) -> String {
    last.as_ref().map_or_else(|| process.caps().name.clone(), |last| last.to.clone())
}

fn print_report(report: &LossReport, process: &ProcessDevice, term: &Term) -> Result<(), CliError> {
    let LossReport { tasks, wrong, seconds, lost_after, gap, last, .. } = report;
    match (lost_after, last) {
        (Some(after), Some(last)) => {
            let how = if process.caps().name.contains("cuda") {
                "by a kernel that traps"
            } else {
                "with its process"
            };
            term.line(format_args!("{} was lost {how}, after {} tasks", last.from, HumanCount(*after)))?;
            term.line(format_args!(
                "the session went on with {}: launched {:.1} ms after the loss was known, with {} tasks that had not ended",
                last.to,
                last.took.as_secs_f64() * 1e3,
                HumanCount(last.unfinished)
            ))?;
            term.line(format_args!("for {:.1} ms, nobody saw a result", gap.as_secs_f64() * 1e3))?;
        }
        _ => term.line("the device was not lost")?,
    }
    term.line(format_args!("{} tasks in {seconds:.2} s", HumanCount(*tasks)))?;
    match wrong {
        0 => term.line("right: every task ended once, with its result"),
        wrong => {
            term.note(format_args!("wrong: {} tasks ended without their result", HumanCount(*wrong)));
            Ok(())
        }
    }
}

fn print_json(report: &LossReport, term: &Term) -> Result<(), CliError> {
    let last = report.last.as_ref();
    term.line(json!({
        "device": report.device,
        "tasks": report.tasks,
        "wrong": report.wrong,
        "seconds": report.seconds,
        "lost_after": report.lost_after,
        "gap_ms": report.gap.as_secs_f64() * 1e3,
        "recoveries": report.recoveries,
        "from": last.map(|last| &last.from),
        "to": last.map(|last| &last.to),
        "launched_after_ms": last.map(|last| last.took.as_secs_f64() * 1e3),
        "unfinished": last.map(|last| last.unfinished),
    }))
}
