//! A host thread and a resident kernel that answer each other: what one exchange costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pelton_device::{Device, Kind, Launch, Memory, Run, Width, open};

use super::Row;
use super::device::module;
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// Exchanges that are measured.
const ROUNDS: u32 = 100_000;
/// How long an idle kernel is watched.
const IDLE: Duration = Duration::from_secs(1);

/// Whether a measurement goes on, asked while it waits.
type Proceed = fn() -> Result<(), Error>;

/// Waits for a word, giving the core away now and then.
fn await_word(word: &AtomicU32, wanted: u32, proceed: Proceed) -> Result<(), Error> {
    let mut spins = 0u32;
    while word.load(Ordering::Acquire) != wanted {
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(256) {
            proceed()?;
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// The time this process has had on all cores, in seconds.
fn used() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    // The kernel counts in hundredths of a second on every Linux there is.
    Some((user + system) / 100.0)
}

/// Resident workers, each with words a cache line apart.
struct Echo {
    run: Box<dyn Run>,
    ask: Memory,
    answer: Memory,
}

impl Echo {
    fn launch(device: &Arc<dyn Device>, workers: u32) -> Result<Self, Error> {
        let module = module("echo", include_str!("kernels/echo.pel"))?;
        let kernel = device.load(&module, None, 1)?;
        let words = || device.alloc(Kind::Host, Width::W32, 16 * workers as usize);
        let (ask, answer) = (words()?, words()?);
        let mut launch = Launch::new(workers);
        launch.buffers = vec![Some(ask.clone()), Some(answer.clone())];
        Ok(Echo { run: kernel.launch(&launch)?, ask, answer })
    }
}

/// Sorted times of exchanges of a word with a worker of a device, in microseconds.
pub fn trips(device: &Arc<dyn Device>) -> Result<Vec<f64>, Error> {
    // Others measure more than this, and end by themselves when Ctrl-C is pressed.
    exchange(&Echo::launch(device, 1)?, 1, || Ok(()))
}

/// Exchanges words with the workers in turn; gives the sorted times in microseconds.
fn exchange(echo: &Echo, workers: u32, proceed: Proceed) -> Result<Vec<f64>, Error> {
    let (ask, answer) = (echo.ask.words32().unwrap_or(&[]), echo.answer.words32().unwrap_or(&[]));
    let mut times = Vec::with_capacity(ROUNDS as usize);
    for round in 1..=ROUNDS {
        let at = (round % workers * 16) as usize;
        let start = Instant::now();
        ask[at].store(round, Ordering::Release);
        echo.run.wake();
        await_word(&answer[at], round, proceed)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if round.is_multiple_of(256) {
            proceed()?;
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The same between two threads of Rust, for comparison.
fn rust() -> Result<Vec<f64>, Error> {
    let words = [const { AtomicU32::new(0) }; 32];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                // It fails where the other thread does, which says so.
                if await_word(&words[0], round, stop::unless_pressed).is_err() {
                    break;
                }
                words[16].store(round, Ordering::Release);
            }
        });
        let mut times = Vec::with_capacity(ROUNDS as usize);
        for round in 1..=ROUNDS {
            let start = Instant::now();
            words[0].store(round, Ordering::Release);
            await_word(&words[16], round, stop::unless_pressed)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    })
}

/// Percentiles 50, 99 and 99.9 of sorted times.
pub fn spread(times: &[f64]) -> [f64; 3] {
    [50, 99, 0].map(|p| match p {
        0 => times[times.len() * 999 / 1000],
        p => times[times.len() * p / 100],
    })
}

/// Adds each row as soon as it is measured.
pub fn run(only: &str, rows: &mut Vec<Row>, term: &Term) -> Result<(), Error> {
    let device = open("cpu")?;
    let mut row = |case: String, device: &str, metric, value, spread, against| {
        if case.contains(only) {
            rows.push(Row { group: "echo", case, device: device.into(), metric, value, spread, against });
        }
    };
    let peer = rust()?;
    let floor = spread(&peer)[0];
    row("round trip, two threads of Rust".into(), "rust", "us", floor, Some(spread(&peer)), None);
    for workers in [1, 8] {
        term.note(format_args!("{workers} resident workers …"));
        let echo = Echo::launch(&device, workers)?;
        let began = Instant::now();
        let times = exchange(&echo, workers, stop::unless_pressed)?;
        let all = began.elapsed().as_secs_f64();
        let against = Some(("rust".to_string(), floor));
        row(
            format!("round trip, workers {workers}"),
            "cpu",
            "us",
            spread(&times)[0],
            Some(spread(&times)),
            against,
        );
        row(format!("{ROUNDS} rounds, workers {workers}"), "cpu", "s", all, None, None);
        // Let the workers fall asleep first.
        stop::sleep(Duration::from_millis(200))?;
        let before = used();
        stop::sleep(IDLE)?;
        if let (Some(before), Some(after)) = (before, used()) {
            let share = (after - before) / IDLE.as_secs_f64() * 100.0;
            row(format!("idle, workers {workers}"), "cpu", "% core", share, None, None);
        }
        let start = Instant::now();
        echo.run.stop();
        echo.run.wait(None)?;
        row(format!("stop, workers {workers}"), "cpu", "us", start.elapsed().as_secs_f64() * 1e6, None, None);
    }
    Ok(())
}
