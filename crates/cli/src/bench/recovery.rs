//! `bench recovery`: for how long producers see no task end when the device of a session is lost.
//!
//! A session that recovers runs on a device in a process of its own, under load. Then the device is lost, by a kernel that
//! executes the PTX instruction `trap` on a GPU, or its process is killed. The figure is the longest time during which no
//! producer saw a span of tasks end. Another process takes over, which is started then or was kept as a spare. What nothing can avoid is measured in the
//! same rounds: how long it takes until the host knows that a process which was killed is gone, and until another one has
//! opened the device.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pelton::Session;
use pelton_device::process::ProcessDevice;
use pelton_device::{Device, MemoryKind, WordWidth};

use super::BenchRow;
use super::rounds::{Sample, Series, take_turns};
use crate::error::CliError;
use crate::loss_load::{LossLoad, losable_config, loss_spec};
use crate::stop;
use crate::term::Term;

/// The number of threads that feed a session.
const FEEDERS: u32 = 2;
/// How long a session is fed before and after the loss.
const CALM: Duration = Duration::from_millis(200);
/// The longest time to wait for a spare, or for the end of a process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measure how long producers wait when the device of a session is lost
///
/// Each row of a loss is the longest time during which no producer saw a span of tasks end, in milliseconds. After a
/// kill, every recovery takes about as long as `process gone`, and without a spare `process started` in addition.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench recovery
  pelton bench recovery --quick --only killed
  pelton bench recovery --device cuda --json rows.jsonl

The device runs in a process of its own. In the cases `lost`, a GPU is lost by a kernel that
executes the PTX instruction trap, and any other device ends its process. In the cases `killed`, the process is killed. `spare` means
that a second process was ready, and `fresh` that another one had to be started. Every result is
checked.")]
pub(super) struct RecoveryArgs {
    /// The device to run on, in a process of its own; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure for a shorter time, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl RecoveryArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let quick = self.quick.then_some("--quick");
        ["--device", &self.device].into_iter().chain(quick).map(String::from).collect()
    }
}

/// What is measured in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecoveryTurn {
    LostFresh,
    LostSpare,
    KilledFresh,
    KilledSpare,
    Gone,
    Started,
}

impl RecoveryTurn {
    const ALL: [RecoveryTurn; 6] = [
        RecoveryTurn::LostFresh,
        RecoveryTurn::LostSpare,
        RecoveryTurn::KilledFresh,
        RecoveryTurn::KilledSpare,
        RecoveryTurn::Gone,
        RecoveryTurn::Started,
    ];

    fn name(self) -> &'static str {
        match self {
            RecoveryTurn::LostFresh => "lost, fresh",
            RecoveryTurn::LostSpare => "lost, spare",
            RecoveryTurn::KilledFresh => "killed, fresh",
            RecoveryTurn::KilledSpare => "killed, spare",
            RecoveryTurn::Gone => "process gone",
            RecoveryTurn::Started => "process started",
        }
    }

    fn has_spare(self) -> bool {
        matches!(self, RecoveryTurn::LostSpare | RecoveryTurn::KilledSpare)
    }

    fn is_killed(self) -> bool {
        matches!(self, RecoveryTurn::KilledFresh | RecoveryTurn::KilledSpare)
    }
}

/// Measures the cases whose name contains `only`, and adds their rows.
pub(super) fn run_recovery(
    args: &RecoveryArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let mut turns = RecoveryTurn::ALL.to_vec();
    turns.retain(|turn| turn.name().contains(only));
    if turns.is_empty() {
        return Ok(());
    }
    term.note(format_args!("losses in turns, with {FEEDERS} producers …"));
    let usual = if args.quick { 3 } else { 15 };
    let name = ProcessDevice::new(losable_config(&args.device))?.caps().name.clone();
    let measure = |turn: &mut RecoveryTurn| measure_turn(*turn, &args.device);
    let samples = take_turns(rounds.unwrap_or(usual), &mut turns, measure)?;
    let measured: Vec<(RecoveryTurn, Series)> =
        turns.iter().copied().zip(samples.into_iter().map(Series::from_iter)).collect();
    for (turn, series) in &measured {
        let Some(value) = series.value() else { continue };
        let floor = if turn.has_spare() { RecoveryTurn::Gone } else { RecoveryTurn::Started };
        let peer = measured.iter().find(|(peer, _)| *peer == floor && *turn != floor);
        let peer = peer.filter(|_| !matches!(turn, RecoveryTurn::Gone | RecoveryTurn::Started));
        rows.push(BenchRow {
            group: "recovery",
            case: turn.name().into(),
            device: name.clone(),
            metric: "ms".into(),
            value,
            spread: series.percentiles(),
            against: peer.and_then(|(peer, theirs)| series.against(peer.name(), theirs)),
        });
    }
    Ok(())
}

fn measure_turn(turn: RecoveryTurn, device: &str) -> Result<Sample, CliError> {
    let took = match turn {
        RecoveryTurn::Gone => time_gone(device)?,
        RecoveryTurn::Started => {
            let started = Instant::now();
            drop(ProcessDevice::new(losable_config(device))?);
            started.elapsed()
        }
        loss => time_loss(loss, device)?,
    };
    Ok(Sample::times(vec![took.as_secs_f64() * 1e3]))
}

/// How long it takes until the host knows that a process which was killed is gone.
fn time_gone(device: &str) -> Result<Duration, CliError> {
    let process = ProcessDevice::new(losable_config(device))?;
    let memory = process.alloc(MemoryKind::Device, WordWidth::W32, 1)?;
    let killed = Instant::now();
    process.kill();
    while memory.upload(0, &[0u32]).is_ok() {
        if killed.elapsed() > PATIENCE {
            return Err(CliError::Wrong("a process that was killed does not end".into()));
        }
    }
    Ok(killed.elapsed())
}

/// Loses the device of a session under load, and returns for how long nobody saw a result.
fn time_loss(turn: RecoveryTurn, device: &str) -> Result<Duration, CliError> {
    let config = losable_config(device);
    let config = if turn.has_spare() { config.warm() } else { config };
    let process = Arc::new(ProcessDevice::new(config)?);
    let on: Arc<dyn Device> = process.clone();
    let session = Session::launch(&on, &loss_spec(FEEDERS))?;
    let waits = Instant::now();
    while turn.has_spare() && !process.has_spare() {
        if waits.elapsed() > PATIENCE {
            return Err(CliError::Wrong("there is no spare process".into()));
        }
        stop::sleep_unless_pressed(Duration::from_millis(1))?;
    }
    let load = LossLoad::new(&session, u64::MAX);
    thread::scope(|scope| {
        let feed = |feeder| {
            let load = &load;
            scope.spawn(move || load.feed(feeder))
        };
        let feeders: Vec<_> = (0..FEEDERS).map(feed).collect();
        let lost = stop::sleep_unless_pressed(CALM).and_then(|()| {
            let before = load.done();
            if turn.is_killed() {
                process.kill()
            } else {
                process.lose()?
            }
            let lost = Instant::now();
            // There is no snapshot while the device is lost.
            let has_recovered =
                || session.snapshot().is_ok_and(|now| now.recovery.is_some_and(|r| r.count > 0));
            while !has_recovered() {
                if lost.elapsed() > PATIENCE {
                    return Err(CliError::Wrong(format!("the session does not go on after {before} tasks")));
                }
                stop::sleep_unless_pressed(Duration::from_millis(1))?;
            }
            stop::sleep_unless_pressed(CALM)
        });
        load.end();
        let ended = feeders.into_iter().map(|feeder| crate::demo::join_thread(feeder.join()));
        let ended = ended.collect::<Result<Vec<()>, CliError>>();
        lost.and(ended.map(drop))
    })?;
    match load.wrong() {
        0 => Ok(load.longest_gap()),
        wrong => Err(CliError::Wrong(format!("{wrong} tasks ended without their result"))),
    }
}
