//! A session on a device with memory of its own, compared with what the device and the way to it cost without a
//! session.
//!
//! These floors are a round trip of a word through host memory (far) and through device memory (near), a copy, and
//! a launch. Every figure of a session is compared with the floor that it cannot beat, in the same
//! [rounds](crate::bench::rounds). A device has one resident kernel at a time, so each measurement launches its own
//! and stops it.

mod batch;
mod floor;
mod life;
mod load;

use std::sync::Arc;
use std::time::Duration;

use pelton::kernel::{Report, SlotBody, Visible};
use pelton::{Opcode, Placement, Task};
use pelton_device::Device;

use self::batch::{BatchMemory, Calls, ReadyBatches};
use self::floor::HostCopier;
use self::load::{HandlerKind, PRODUCERS, SessionShape};
use super::{SessionArgs, series_row};
use crate::bench::BenchRow;
use crate::bench::flood::FloodWork;
use crate::bench::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The time for which each contender is measured in a round, and the number of rounds.
struct RemotePace {
    time: Duration,
    trips: u32,
    /// The number of repetitions of what takes long.
    few: u32,
    /// The number of tasks in the largest batch.
    batch: u32,
    rounds: u32,
}

const FULL: RemotePace =
    RemotePace { time: Duration::from_millis(200), trips: 20_000, few: 5, batch: 1 << 20, rounds: 9 };
const QUICK: RemotePace =
    RemotePace { time: Duration::from_millis(100), trips: 4_000, few: 2, batch: 1 << 16, rounds: 5 };

/// The number of copies per round, of which the best counts. Together they take a hundredth of a second.
const COPIES: u32 = 8;
/// The number of times that a session is woken per round.
const WAKES: u32 = 2;
/// The largest number of rounds of starts. Each round compiles a kernel that stays in the cache on disk and is
/// never used again.
const MOST_STARTS: u32 = 3;

/// What is measured in a round.
enum Contender {
    /// A round trip of a word, in microseconds.
    Mailbox(Placement),
    /// A copy to the device, in slots per second.
    Copy,
    /// A launch of an empty kernel, in microseconds.
    Launch,
    /// Producers that feed a session, in slots per second; beside it the share of time for which they wait, in
    /// percent.
    Sustained(SessionShape, FloodWork),
    /// Producers that feed a session with packed slots of a number of operations, in operations per second.
    Packed(Task, u32),
    /// Single tasks, in microseconds.
    Trips(SessionShape),
    /// Single tasks while others submit a number of tasks per second; beside it the number that they really
    /// submitted.
    Loaded(SessionShape, f64),
    /// A single task after a pause, in microseconds.
    Wake(SessionShape),
    /// A stop under load, in milliseconds.
    Stop(SessionShape),
    /// Batches, in tasks per second, by the median of a number of runs.
    Drain(Box<ReadyBatches>, u32),
}

/// A contender and its name, which is the case of its row.
type NamedContender = (String, Contender);

/// A run of the benchmark, with the rows so far.
struct RemoteBench<'a> {
    device: &'a Arc<dyn Device>,
    pace: RemotePace,
    only: &'a str,
    term: &'a Term,
    rows: Vec<BenchRow>,
    copier: HostCopier,
}

/// Measures the cases whose name contains `only`, and adds their rows. After a failure the rows of the cases
/// before it stay.
pub(super) fn run_remote(
    device: &Arc<dyn Device>,
    args: &SessionArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    let pace = if args.quick { QUICK } else { FULL };
    let pace = RemotePace { rounds: rounds.unwrap_or(pace.rounds), ..pace };
    let caps = device.caps();
    term.note(format_args!("{}: {}", caps.name, caps.about));
    let mut bench =
        RemoteBench { device, pace, only, term, rows: Vec::new(), copier: HostCopier::new(device)? };
    let mut places = vec![(Placement::Far, "far")];
    match &caps.near_memory {
        Ok(()) => places.extend([(Placement::Near, "near"), (Placement::Both, "both")]),
        Err(why) => term.note(format_args!("near is left out: {why}")),
    }
    let ended = bench.measure_all(&places);
    bench.rows.retain(|row| row.case.contains(only));
    rows.append(&mut bench.rows);
    ended
}

/// The floor of single tasks by placement; where there are both, a single task goes near.
fn mailbox_floor(place: Placement) -> NamedContender {
    match place {
        Placement::Far => ("mailbox, far".into(), Contender::Mailbox(Placement::Far)),
        _ => ("mailbox, near".into(), Contender::Mailbox(Placement::Near)),
    }
}

/// The floor of cases that carry many slots.
fn copy_floor() -> NamedContender {
    ("copy".into(), Contender::Copy)
}

impl RemoteBench<'_> {
    fn measure_all(&mut self, places: &[(Placement, &str)]) -> Result<(), CliError> {
        self.floors(places)?;
        for (place, name) in places {
            self.sustained(*place, name)?;
            self.trips(*place, name)?;
            self.loaded(*place, name)?;
            self.life(*place, name)?;
        }
        self.packed()?;
        self.drains()?;
        self.copier.verify()
    }

    /// Whether a case is to be measured.
    fn wants(&self, case: &str) -> bool {
        case.contains(self.only) && !stop::pressed()
    }

    /// Announces the next measurement, because it takes a while.
    fn announce(&self, what: &str) {
        self.term.note(format_args!("{what} …"));
    }

    fn push(&mut self, case: &str, metric: &'static str, series: &Series, against: Option<(&str, &Series)>) {
        self.rows.extend(series_row(case, &self.device.caps().name, metric, series, against));
    }

    fn measure(&self, contender: &mut Contender) -> Result<Sample, CliError> {
        let (device, pace) = (self.device, &self.pace);
        Ok(match contender {
            Contender::Mailbox(place) => Sample::times(floor::time_mailbox(device, *place, pace.trips)?),
            Contender::Copy => Sample::figure(self.copier.rate(COPIES)? / floor::SLOT),
            Contender::Launch => Sample::times(floor::time_launches(device, pace.trips / 100)?),
            Contender::Sustained(shape, work) => {
                let seen = load::sustained_load(device, *shape, *work, pace.time)?;
                // Producers that never wait are the limit themselves.
                let waited = seen.waited.as_secs_f64() / seen.took.as_secs_f64() / f64::from(shape.producers);
                Sample::figure(seen.rate()).beside(waited * 100.0)
            }
            Contender::Packed(task, each) => {
                let shape = SessionShape::new(Placement::Far);
                let seen = load::sustained_load(device, shape, FloodWork::Same(*task), pace.time)?;
                Sample::figure(seen.rate() * f64::from(*each))
            }
            Contender::Trips(shape) => Sample::times(load::time_alone(device, *shape, pace.trips)?),
            Contender::Loaded(shape, rate) => {
                let (times, load) = load::time_loaded(device, *shape, *rate, pace.trips / 2)?;
                Sample::times(times).beside(load)
            }
            Contender::Wake(shape) => Sample::times(life::time_wakes(device, *shape, WAKES)?),
            Contender::Stop(shape) => Sample::times(life::time_stops(device, *shape, 1)?),
            Contender::Drain(ready, turns) => Sample::figure(ready.rate(*turns)?),
        })
    }

    fn play_all(&self, entries: &mut [NamedContender]) -> Result<Vec<Series>, CliError> {
        play_rounds(self.pace.rounds, entries, |(_, contender)| self.measure(contender))
    }

    /// Measures contenders together with a floor, adds a row for each, and returns their series. The caller must
    /// have left out those that are not wanted; if there are none, nothing is measured.
    fn compare_with(
        &mut self,
        floor: NamedContender,
        contenders: Vec<NamedContender>,
        metric: &'static str,
    ) -> Result<Vec<(String, Series)>, CliError> {
        if contenders.is_empty() {
            return Ok(Vec::new());
        }
        let name = floor.0.clone();
        let mut entries: Vec<NamedContender> = std::iter::once(floor).chain(contenders).collect();
        let all = self.play_all(&mut entries)?;
        for ((case, _), series) in entries.iter().zip(&all).skip(1) {
            self.push(case, metric, series, Some((&name, &all[0])));
        }
        Ok(entries.into_iter().map(|(case, _)| case).zip(all).skip(1).collect())
    }

    /// Measures the floors as rows of their own: mailboxes by placement, copy, launch, and a node of a graph.
    fn floors(&mut self, places: &[(Placement, &str)]) -> Result<(), CliError> {
        let boxes = places.iter().filter(|(place, _)| *place != Placement::Both);
        let mut entries: Vec<NamedContender> = boxes.map(|(place, _)| mailbox_floor(*place)).collect();
        entries.push(("launch and wait".into(), Contender::Launch));
        entries.retain(|(case, _)| self.wants(case));
        if !entries.is_empty() {
            self.announce("floors");
        }
        let all = self.play_all(&mut entries)?;
        for ((case, _), series) in entries.iter().zip(&all) {
            self.push(case, "us", series, None);
        }
        let (bytes, slots) = ("copy, host to device", "copy, in slots");
        if self.wants(bytes) || self.wants(slots) {
            let all = self.play_all(&mut [copy_floor()])?;
            self.push(bytes, "GB/s", &all[0].scaled(floor::SLOT / 1e9), None);
            self.push(slots, "slots/s", &all[0], None);
        }
        let case = "node of a graph";
        if self.wants(case) {
            match floor::time_graph_nodes(self.device, self.pace.few * self.pace.rounds)? {
                Some(times) => {
                    let series =
                        play_rounds(1, &mut [times], |times| Ok(Sample::times(std::mem::take(times))))?;
                    self.push(case, "us", &series[0], None);
                }
                None => self.term.note("a node of a graph is left out: the device has no graphs"),
            }
        }
        Ok(())
    }

    /// Measures slots per second by the number of producers, and a kernel with a single handler.
    fn sustained(&mut self, place: Placement, name: &str) -> Result<(), CliError> {
        for (does, work, what) in [
            (HandlerKind::Mark, FloodWork::Mark, "every word checked"),
            (HandlerKind::Add, FloodWork::Add { at: 0 }, "adds"),
        ] {
            let shape = |producers| SessionShape { does, producers, ..SessionShape::new(place) };
            let entry = |producers| {
                let case = format!("{name}, producers {producers}, {what}");
                (case, Contender::Sustained(shape(producers), work))
            };
            let mut entries: Vec<NamedContender> = [1, 2, 4, PRODUCERS].map(entry).into();
            if place == Placement::Far && does == HandlerKind::Add {
                let fused = SessionShape { body: SlotBody::Fused, ..shape(PRODUCERS) };
                let case = format!("{name}, producers {PRODUCERS}, fused, {what}");
                entries.push((case, Contender::Sustained(fused, work)));
            }
            // The rows of waiting come from the same measurement.
            entries.retain(|(case, _)| self.wants(case) || self.wants(&waiting_case(case)));
            if !entries.is_empty() {
                self.announce(&format!("{name}, {what}"));
            }
            for (case, series) in self.compare_with(copy_floor(), entries, "slots/s")? {
                self.push(&waiting_case(&case), "% time", &series.beside(), None);
            }
        }
        Ok(())
    }

    /// Measures round trips of single tasks without other work.
    fn trips(&mut self, place: Placement, name: &str) -> Result<(), CliError> {
        let entries = [
            (SlotBody::Dispatch, Visible::Memory, HandlerKind::Add, "dispatch, memory seen"),
            (SlotBody::Dispatch, Visible::Result, HandlerKind::Add, "dispatch, result alone"),
            (SlotBody::Dispatch, Visible::Result, HandlerKind::Mix, "dispatch, no memory"),
            (SlotBody::Fused, Visible::Result, HandlerKind::Add, "fused, result alone"),
        ]
        .into_iter()
        .map(|(body, visible, does, what)| {
            let shape = SessionShape { body, visible, does, ..SessionShape::new(place) };
            (format!("{name}, task, {what}"), Contender::Trips(shape))
        })
        .filter(|(case, _)| self.wants(case))
        .collect::<Vec<NamedContender>>();
        if !entries.is_empty() {
            self.announce(&format!("{name}, task"));
        }
        self.compare_with(mailbox_floor(place), entries, "us")?;
        Ok(())
    }

    /// Measures round trips of single tasks beside half of what the session can carry.
    fn loaded(&mut self, place: Placement, name: &str) -> Result<(), CliError> {
        let kinds = [(Visible::Memory, "memory seen"), (Visible::Result, "result alone")];
        let names = |what: &str| {
            [format!("{name}, half load, task, {what}"), format!("{name}, half load, the load, {what}")]
        };
        let kinds: Vec<_> =
            kinds.into_iter().filter(|(_, what)| names(what).iter().any(|case| self.wants(case))).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        self.announce(&format!("{name}, half load"));
        let (shape, work) = (SessionShape::new(place), FloodWork::Add { at: 0 });
        let half = load::sustained_load(self.device, shape, work, self.pace.time)?.rate() / 2.0;
        let mut entries = vec![mailbox_floor(place), ("all".into(), Contender::Sustained(shape, work))];
        entries.extend(kinds.iter().map(|(visible, what)| {
            (what.to_string(), Contender::Loaded(SessionShape { visible: *visible, ..shape }, half))
        }));
        let all = self.play_all(&mut entries)?;
        for ((what, _), series) in entries.iter().zip(&all).skip(2) {
            let [task, load] = names(what);
            self.push(&task, "us", series, Some((&entries[0].0, &all[0])));
            self.push(&load, "slots/s", &series.beside(), Some((&entries[1].0, &all[1])));
        }
        Ok(())
    }

    /// Measures waking, starting and stopping a session.
    fn life(&mut self, place: Placement, name: &str) -> Result<(), CliError> {
        let shape = SessionShape::new(place);
        let case = format!("{name}, wake");
        if self.wants(&case) {
            self.announce(&case);
            self.compare_with(mailbox_floor(place), vec![(case, Contender::Wake(shape))], "us")?;
        }
        let case = format!("{name}, start");
        let names = ["never compiled", "in the cache", "loaded before"].map(|how| format!("{case}, {how}"));
        if names.iter().any(|case| self.wants(case)) {
            self.announce(&case);
            let mut starts = Vec::new();
            for round in 0..self.pace.rounds.min(MOST_STARTS) {
                if !stop::pressed() {
                    starts.push(life::time_starts(self.device, shape, round)?);
                }
            }
            let series = |of: fn(&life::Starts) -> f64| starts.iter().map(of).collect::<Series>();
            let cold = series(|starts| starts.cold);
            let against = Some(("never compiled", &cold));
            self.push(&names[0], "ms", &cold, None);
            self.push(&names[1], "ms", &series(|starts| starts.cached), against);
            self.push(&names[2], "ms", &series(|starts| starts.loaded), against);
        }
        let case = format!("{name}, stop under load");
        if self.wants(&case) {
            self.announce(&case);
            let all = self.play_all(&mut [(case.clone(), Contender::Stop(shape))])?;
            self.push(&case, "ms", &all[0], None);
        }
        Ok(())
    }

    /// Measures packed slots in operations per second, compared with single ones.
    fn packed(&mut self) -> Result<(), CliError> {
        let mut entries = Vec::new();
        for (op, args) in [(Opcode::NOP, &[][..]), (Opcode::ATOMIC_ADD, &[1, 0][..])] {
            let (task, each) = load::packed_task(op, args)?;
            let case = format!("far, packed, {each} of {op}");
            if self.wants(&case) {
                self.announce(&case);
                entries.push((case, Contender::Packed(task, each)));
            }
        }
        let single = Contender::Sustained(SessionShape::new(Placement::Far), FloodWork::Add { at: 0 });
        self.compare_with(("adds".into(), single), entries, "ops/s")?;
        Ok(())
    }

    /// Measures batches from host to host: by size, by the memory that holds them, and many in one call.
    fn drains(&mut self) -> Result<(), CliError> {
        let most = self.pace.batch;
        for tasks in [1 << 8, 1 << 12, 1 << 16, 1 << 20].into_iter().filter(|tasks| *tasks <= most) {
            let mut entries = Vec::new();
            for (report, lies, what) in [
                (Report::Full, BatchMemory::Lent, "every result"),
                (Report::Control, BatchMemory::Lent, "control words"),
                (Report::Full, BatchMemory::Own, "every result, copied"),
            ] {
                let case = format!("drain of {tasks}, {what}");
                if self.wants(&case) {
                    self.announce(&case);
                    // Small batches end before the clock has moved much, so they are run more often.
                    let turns = self.pace.few.max(self.pace.trips / tasks);
                    let ready = ReadyBatches::one(self.device, tasks, report, lies)?;
                    entries.push((case, Contender::Drain(ready.into(), turns)));
                }
            }
            self.compare_with(copy_floor(), entries, "tasks/s")?;
        }
        let case = format!("drains of {}, {} in one call", batch::SMALL, batch::MANY);
        if self.wants(&case) {
            self.announce(&case);
            let many = |calls| -> Result<Contender, CliError> {
                Ok(Contender::Drain(ReadyBatches::many(self.device, calls)?.into(), self.pace.few))
            };
            let (single, together) = (many(Calls::Each)?, many(Calls::All)?);
            self.compare_with(("one by one".into(), single), vec![(case, together)], "tasks/s")?;
        }
        Ok(())
    }
}

/// The name of the case that says how long producers wait.
fn waiting_case(case: &str) -> String {
    format!("{case}, waiting")
}
