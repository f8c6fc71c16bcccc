//! `bench handover`: for how long producers see no task end while a session changes its handlers, its size or its device.
//!
//! A session is under [load], and its kernel is handed over again and again: to itself, to one with another handler, to one
//! with a new version of a handler whose tasks are under way, to one with another number of groups, and to one on another
//! device. It also makes way for a load of another kernel on its device. The figure is the longest time between the ends of two tasks that any producer saw during one hand-over. Handlers
//! that are installed or replace others are new to the device every time, so they are compiled while the old kernel runs.
//!
//! After each hand-over, the same load is watched for as long without one, which shows what the machine makes producers wait
//! by itself. What a hand-over cannot avoid is measured in the same rounds: a stop of a session under the same load, a load
//! of a kernel that the device has compiled already, and a launch of a kernel that does nothing.

mod load;
mod load_tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::kernel::{Assembled, assemble};
use pelton::{Handler, Region, Session, Spec, Task};
use pelton_device::{CompiledKernel, Device, Kernel, Launch, open};
use pelton_ir::types::Type;

use self::load::{HandOverLoad, LoadWindow};
use self::load_tasks::{LoadShape, YIELDS, yields_handler};
use super::BenchRow;
use super::device::parse_kernel;
use super::flood::PATIENCE;
use super::rounds::{Sample, Series, take_turns};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The most times that floors are measured in a turn.
const MOST_FLOORS: usize = 4;

/// Measure how long producers wait while a session changes its handlers, its size or its device
///
/// Each row is the longest time between the ends of two tasks that any producer saw during one hand-over, in
/// microseconds: p50 and p99 are over all hand-overs. The row with the same name and `undisturbed` is the same
/// figure without a hand-over, in windows of the same length. What no hand-over can avoid is in the rows `stop`,
/// `load` and `launch`, and `stop, load and launch` is their sum.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton bench handover
  pelton bench handover --quick --only replace
  pelton bench handover --device cuda --json rows.jsonl

A GPU is fed by 8 producers. The CPU is fed by as many as there are cores, at most 8, and half
of the cores run tasks. Half of the tasks are plain, three of eight yield up to 49 times, and
one of eight spawns two others. Eight more tasks yield for ever. Every result is checked, and
that each task has run once. In the case `resize`, a session has all its groups and half of them
in turn, and at least two of them at first. In the case `move`, a GPU and the CPU take turns, or
two CPU devices. In the case `make way`, another kernel is loaded on the device, for which a
session on a GPU makes way. Without --quick there is also a session that takes 1 GiB of memory along.")]
pub(super) struct HandOverArgs {
    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure for a shorter time, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl HandOverArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<String> {
        let quick = self.quick.then_some("--quick");
        ["--device", &self.device].into_iter().chain(quick).map(String::from).collect()
    }
}

/// What is measured in a turn.
#[derive(Clone, Copy)]
enum HandOverTurn {
    SameKernel,
    Install,
    Replace,
    Resize,
    Move,
    /// A move with a region of 1 GiB.
    MoveGibibyte,
    /// Another kernel is loaded on the device of the session.
    MakeWay,
    Floors,
}

/// The sum of all floors, with which hand-overs are compared.
const FLOOR_SUM: &str = "stop, load and launch";

impl HandOverTurn {
    const ALL: [HandOverTurn; 8] = [
        HandOverTurn::SameKernel,
        HandOverTurn::Install,
        HandOverTurn::Replace,
        HandOverTurn::Resize,
        HandOverTurn::Move,
        HandOverTurn::MoveGibibyte,
        HandOverTurn::MakeWay,
        HandOverTurn::Floors,
    ];

    /// The names of its rows. The first row of a hand-over is compared with the second one, and with the sum of all floors.
    fn rows(self) -> &'static [&'static str] {
        match self {
            HandOverTurn::SameKernel => &["same kernel", "same kernel, undisturbed"],
            HandOverTurn::Install => &["install", "install, undisturbed"],
            HandOverTurn::Replace => &["replace", "replace, undisturbed"],
            HandOverTurn::Resize => &["resize", "resize, undisturbed"],
            HandOverTurn::Move => &["move", "move, undisturbed"],
            HandOverTurn::MoveGibibyte => &["move 1 GiB", "move 1 GiB, undisturbed"],
            HandOverTurn::MakeWay => &["make way", "make way, undisturbed"],
            HandOverTurn::Floors => &["stop", "load", "launch", FLOOR_SUM],
        }
    }

    /// The most hand-overs of one session. A kernel grows with every handler that is installed, so there are few of those.
    fn most(self) -> usize {
        if matches!(self, HandOverTurn::Install) { 16 } else { 256 }
    }

    /// Whether a row is wanted.
    fn is_wanted(self, only: &str, quick: bool) -> bool {
        let takes_long = matches!(self, HandOverTurn::MoveGibibyte);
        !(quick && takes_long) && self.rows().iter().any(|name| name.contains(only))
    }
}

/// Measures the cases whose name contains `only`, and adds their rows.
pub(super) fn run_handover(
    args: &HandOverArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    stop::listen()?;
    if !HandOverTurn::ALL.iter().any(|turn| turn.is_wanted(only, args.quick)) {
        return Ok(());
    }
    let (time, least, usual_rounds) = if args.quick { (100, 1, 5) } else { (500, 8, 15) };
    let mut bench = HandOverBench::new(&open(&args.device)?, Duration::from_millis(time), least)?;
    term.note(format_args!("hand-overs in turns, producers {} …", bench.shape.producers));
    let mut turns = HandOverTurn::ALL.to_vec();
    // Every hand-over is compared with the floors.
    turns.retain(|turn| matches!(turn, HandOverTurn::Floors) || turn.is_wanted(only, args.quick));
    let samples = take_turns(rounds.unwrap_or(usual_rounds), &mut turns, |turn| bench.measure(*turn))?;
    let mut measured = Vec::new();
    for (turn, rounds) in turns.iter().zip(samples) {
        let mut rounds: Vec<_> = rounds.into_iter().map(Vec::into_iter).collect();
        for name in turn.rows() {
            measured.push((*name, rounds.iter_mut().filter_map(Iterator::next).collect::<Series>()));
        }
    }
    rows.extend(handover_rows(&bench.device, only, &measured));
    Ok(())
}

/// The rows that are wanted. A hand-over has one for each of those that it is compared with.
fn handover_rows(device: &Arc<dyn Device>, only: &str, measured: &[(&'static str, Series)]) -> Vec<BenchRow> {
    let mut rows = Vec::new();
    for (name, series) in measured.iter().filter(|(name, _)| name.contains(only)) {
        let Some(value) = series.value() else { continue };
        let undisturbed = format!("{name}, undisturbed");
        let is_peer = |peer: &str| peer == undisturbed || peer == FLOOR_SUM;
        let is_compared = measured.iter().any(|(peer, _)| *peer == undisturbed);
        let peers = measured.iter().filter(|(peer, _)| is_compared && is_peer(peer));
        let mut against: Vec<_> = peers.map(|(peer, theirs)| series.against(peer, theirs)).collect();
        if against.is_empty() {
            against.push(None);
        }
        rows.extend(against.into_iter().map(|against| BenchRow {
            group: "handover",
            case: (*name).into(),
            device: device.caps().name.clone(),
            metric: "us".into(),
            value,
            spread: series.percentiles(),
            against,
        }));
    }
    rows
}

/// What hand-overs are measured with.
struct HandOverBench {
    device: Arc<dyn Device>,
    /// The device that sessions move to, and from which they come back.
    elsewhere: Arc<dyn Device>,
    shape: LoadShape,
    /// The time for which hand-overs are repeated in a turn, and their least number.
    time: Duration,
    least: usize,
    /// The kernel of all sessions as it is compiled, and how many groups it has.
    compiled: CompiledKernel,
    groups: u32,
    /// A kernel that does nothing.
    nothing: Arc<dyn Kernel>,
    /// The version of the handler that sessions begin with.
    first: u32,
    /// The next number that makes a handler unlike all others.
    next: u32,
}

impl HandOverBench {
    fn new(device: &Arc<dyn Device>, time: Duration, least: usize) -> Result<Self, CliError> {
        let shape = LoadShape::of(device);
        // The process number makes handlers unlike those of other runs, which a cache on disk may know.
        let first = std::process::id().wrapping_mul(1 << 10);
        let Assembled { module, layout } =
            assemble(&shape.spec(first), device.caps()).map_err(pelton::Error::from)?;
        let (compiled, groups) = (device.compile(&module, None, layout.lanes)?, layout.groups);
        let nothing = parse_kernel("nothing", include_str!("../kernels/nothing.pel"))?;
        let nothing = device.load(&nothing, None, 1)?;
        let (device, next) = (device.clone(), first.wrapping_add(1));
        let elsewhere = open("cpu")?;
        Ok(HandOverBench { device, elsewhere, shape, time, least, compiled, groups, nothing, first, next })
    }

    fn spec(&self) -> Spec {
        self.shape.spec(self.first)
    }

    /// Takes a turn, and returns a sample for each of its rows.
    fn measure(&mut self, turn: HandOverTurn) -> Result<Vec<Sample>, CliError> {
        match turn {
            HandOverTurn::Floors => self.measure_floors(),
            hand_over => self.measure_hand_overs(hand_over),
        }
    }

    /// Hands a session over repeatedly. Returns the longest gaps, and those in windows of the same length without a
    /// hand-over.
    fn measure_hand_overs(&mut self, turn: HandOverTurn) -> Result<Vec<Sample>, CliError> {
        let shape = match turn {
            HandOverTurn::Resize => self.shape.with_two_groups(),
            _ => self.shape,
        };
        let spec = match turn {
            HandOverTurn::MoveGibibyte => {
                shape.spec(self.first).region(Region::new("cargo", Type::U64, 1 << 27))
            }
            _ => shape.spec(self.first),
        };
        let mut session = Session::launch(&self.device, &spec)?;
        let mut load = HandOverLoad::start(&session, shape, self.first)?;
        let groups = session.layout().workers;
        let (mut gaps, mut undisturbed) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while gaps.len() < self.least || (start.elapsed() < self.time && gaps.len() < turn.most()) {
            let is_back = gaps.len() % 2 == 1;
            let window = match turn {
                HandOverTurn::Resize => {
                    load.watch(|| Ok(session.resize(if is_back { groups } else { groups / 2 })?))?
                }
                HandOverTurn::Move | HandOverTurn::MoveGibibyte => {
                    let to = if is_back { &self.device } else { &self.elsewhere };
                    load.watch(|| Ok(session.move_to(to)?))?
                }
                HandOverTurn::MakeWay => load.watch(|| self.time_load().map(drop))?,
                _ => self.change_handlers(turn, &session, &mut load)?,
            };
            gaps.push(microseconds(window.longest));
            let calm = load.watch(|| stop::sleep_unless_pressed(window.took))?;
            undisturbed.push(microseconds(calm.longest));
        }
        load.end_and_check(&session)?;
        Ok(vec![Sample::times(gaps), Sample::times(undisturbed)])
    }

    /// Hands a session over once, to other handlers or to the same ones.
    fn change_handlers(
        &mut self,
        turn: HandOverTurn,
        session: &Session,
        load: &mut HandOverLoad,
    ) -> Result<LoadWindow, CliError> {
        match turn {
            HandOverTurn::Replace => {
                load.next_version(|version| Ok(session.replace(YIELDS, yields_handler(version), PATIENCE)?))
            }
            HandOverTurn::Install => {
                let number = self.next;
                self.next = number.wrapping_add(1);
                let (name, installed) = (format!("installed_{number}"), installed_handler(number));
                let window = load.watch(|| Ok(session.install(&*name, installed).map(drop)?))?;
                check_installed(session, &name, number)?;
                Ok(window)
            }
            _ => load.watch(|| Ok(session.hand_over(&session.spec(), PATIENCE)?)),
        }
    }

    /// Measures what a hand-over cannot avoid.
    fn measure_floors(&mut self) -> Result<Vec<Sample>, CliError> {
        let mut floors: [Vec<f64>; 4] = Default::default();
        let start = Instant::now();
        while floors[0].is_empty() || (start.elapsed() < self.time && floors[0].len() < MOST_FLOORS) {
            let (stop, load, launch) = (self.time_stop()?, self.time_load()?, self.time_launch()?);
            let times = [stop, load, launch, stop + load + launch];
            floors.iter_mut().zip(times).for_each(|(floor, time)| floor.push(microseconds(time)));
        }
        Ok(floors.into_iter().map(Sample::times).collect())
    }

    /// Stops a session under load.
    fn time_stop(&self) -> Result<Duration, CliError> {
        let session = Session::launch(&self.device, &self.spec())?;
        let load = HandOverLoad::start(&session, self.shape, self.first)?;
        let start = Instant::now();
        let stopped = session.stop()?;
        let time = start.elapsed();
        load.end_after_stop()?;
        match stopped.forced {
            false => Ok(time),
            true => Err(CliError::Wrong("the kernel did not stop in time; the stop was forced".into())),
        }
    }

    /// Loads the kernel of the sessions, which was compiled before.
    fn time_load(&self) -> Result<Duration, CliError> {
        let start = Instant::now();
        self.compiled.load()?;
        Ok(start.elapsed())
    }

    /// Launches a kernel that does nothing, with as many groups as the sessions have, and waits for its end.
    fn time_launch(&self) -> Result<Duration, CliError> {
        let launch = Launch::new(self.groups);
        let start = Instant::now();
        self.nothing.launch(&launch)?.wait(None)?;
        Ok(start.elapsed())
    }
}

/// A handler that gives a number.
fn installed_handler(number: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let number = task.body().lit(number);
        task.finish(number);
    })
}

/// Checks that a task of such a handler gives its number.
fn check_installed(session: &Session, name: &str, number: u32) -> Result<(), CliError> {
    let task = Task::new(session.opcode(name)?);
    match session.producer(0)?.submit(task)?.wait(PATIENCE)? {
        result if result == number => Ok(()),
        result => Err(CliError::Wrong(format!("handler {name} gave {result} instead of {number}"))),
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
