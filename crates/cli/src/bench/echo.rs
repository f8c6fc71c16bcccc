//! `bench echo`: the cost of one exchange between a host thread and a resident kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pelton_device::{Device, Launch, Memory, MemoryKind, Run, WordWidth, open};

use super::BenchRow;
use super::device::parse_kernel;
use super::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The number of exchanges that are timed together.
const EXCHANGES: u32 = 100_000;
/// The number of exchanges per round.
const PIECE: u32 = 10_000;
/// The number of rounds if none is given.
const ROUNDS: u32 = 10;
/// The time for which an idle kernel is observed.
const IDLE: Duration = Duration::from_secs(1);

/// Waits until a word has a value, and yields the core now and then. Ctrl-C ends the wait.
fn await_word(word: &AtomicU32, wanted: u32) -> Result<(), CliError> {
    let mut spins = 0u32;
    while word.load(Ordering::Acquire) != wanted {
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(256) {
            stop::unless_pressed()?;
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// The CPU time that this process has used on all cores, in seconds.
fn cpu_seconds_used() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    // Linux counts in hundredths of a second on every architecture.
    Some((user + system) / 100.0)
}

/// Resident workers, with the words of each in cache lines of their own.
struct Echo {
    run: Box<dyn Run>,
    ask: Memory,
    answer: Memory,
}

impl Echo {
    fn launch(device: &Arc<dyn Device>, workers: u32) -> Result<Self, CliError> {
        let module = parse_kernel("echo", include_str!("kernels/echo.pel"))?;
        let kernel = device.load(&module, None, 1)?;
        let words = || device.alloc(MemoryKind::Host, WordWidth::W32, 16 * workers as usize);
        let (ask, answer) = (words()?, words()?);
        let mut launch = Launch::new(workers);
        launch.buffers = vec![Some(ask.clone()), Some(answer.clone())];
        Ok(Echo { run: kernel.launch(&launch)?, ask, answer })
    }
}

/// Launches new workers on a device, exchanges a number of words with them in turn, and returns the sorted times in
/// microseconds.
pub(super) fn echo_trips(device: &Arc<dyn Device>, workers: u32, count: u32) -> Result<Vec<f64>, CliError> {
    exchange_words(&Echo::launch(device, workers)?, workers, count)
}

/// Exchanges a number of words with the workers in turn, and returns the sorted times in microseconds.
fn exchange_words(echo: &Echo, workers: u32, count: u32) -> Result<Vec<f64>, CliError> {
    let (ask, answer) = (echo.ask.words32().unwrap_or(&[]), echo.answer.words32().unwrap_or(&[]));
    let mut times = Vec::with_capacity(count as usize);
    for round in 1..=count {
        let at = (round % workers * 16) as usize;
        let start = Instant::now();
        ask[at].store(round, Ordering::Release);
        echo.run.wake();
        await_word(&answer[at], round)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if round.is_multiple_of(256) {
            stop::unless_pressed()?;
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Exchanges a number of words between two threads of Rust, for comparison, and returns the sorted times in
/// microseconds.
fn rust_trips(count: u32) -> Result<Vec<f64>, CliError> {
    let words = [const { AtomicU32::new(0) }; 32];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=count {
                // This fails together with the other thread, which reports it.
                if await_word(&words[0], round).is_err() {
                    break;
                }
                words[16].store(round, Ordering::Release);
            }
        });
        let mut times = Vec::with_capacity(count as usize);
        for round in 1..=count {
            let start = Instant::now();
            words[0].store(round, Ordering::Release);
            await_word(&words[16], round)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    })
}

/// Measures the cases whose name contains `only`, and adds each row as soon as it is measured. After Ctrl-C the
/// rows of round trips come from the rounds that were complete.
pub(super) fn bench_echo(
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    /// The number of workers of each kernel.
    const WORKERS: [u32; 2] = [1, 8];
    let device = open("cpu")?;
    let mut row = |case: String, device: &str, metric: &'static str, value, spread, against| {
        if case.contains(only) {
            let metric = metric.into();
            rows.push(BenchRow {
                group: "echo",
                case,
                device: device.into(),
                metric,
                value,
                spread,
                against,
            });
        }
    };
    term.note("round trips in turns …");
    // `None` stands for two threads of Rust. The workers are new in every round, because idle ones would go on
    // polling for a while.
    let mut contenders = [None, Some(WORKERS[0]), Some(WORKERS[1])];
    let series = play_rounds(rounds.unwrap_or(ROUNDS), &mut contenders, |workers| {
        let times =
            workers.map_or_else(|| rust_trips(PIECE), |workers| echo_trips(&device, workers, PIECE))?;
        Ok(Sample::times(times))
    })?;
    let mut trip = |case: String, device, series: &Series, against| {
        if let Some(value) = series.value() {
            row(case, device, "us", value, series.percentiles(), against);
        }
    };
    trip("round trip, two threads of Rust".into(), "rust", &series[0], None);
    for (workers, ours) in WORKERS.iter().zip(&series[1..]) {
        let against = ours.against("rust", &series[0]);
        trip(format!("round trip, workers {workers}"), "cpu", ours, against);
    }
    for workers in WORKERS {
        stop::unless_pressed()?;
        let cases = [format!("{EXCHANGES} rounds"), "idle".into(), "stop".into()];
        let [exchanges, idle, ending] = cases.map(|case| format!("{case}, workers {workers}"));
        if ![&exchanges, &idle, &ending].iter().any(|case| case.contains(only)) {
            continue;
        }
        term.note(format_args!("{workers} resident workers …"));
        let echo = Echo::launch(&device, workers)?;
        let began = Instant::now();
        exchange_words(&echo, workers, EXCHANGES)?;
        let all = began.elapsed().as_secs_f64();
        row(exchanges, "cpu", "s", all, None, None);
        // The workers must fall asleep first.
        stop::sleep_unless_pressed(Duration::from_millis(200))?;
        let before = cpu_seconds_used();
        stop::sleep_unless_pressed(IDLE)?;
        if let (Some(before), Some(after)) = (before, cpu_seconds_used()) {
            let share = (after - before) / IDLE.as_secs_f64() * 100.0;
            row(idle, "cpu", "% core", share, None, None);
        }
        let start = Instant::now();
        echo.run.stop();
        echo.run.wait(None)?;
        row(ending, "cpu", "us", start.elapsed().as_secs_f64() * 1e6, None, None);
    }
    Ok(())
}
