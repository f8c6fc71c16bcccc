//! A session beside the queues that programs use today: tasks a second, and one task there and back.
//!
//! One worker runs the tasks everywhere: a group of the kernel here, a thread there. Contenders are measured in turns, in
//! [rounds](super::rounds). A device with memory of its own has other limits, and [other cases](remote).

mod drain;
mod feed;
mod peers;
mod remote;
mod trip;

use std::sync::Arc;
use std::time::Duration;

use pelton::kernel::{Body, Report, Telemetry};
use pelton_device::{Device, Placement, open};

use self::feed::{Load, PLAIN};
use self::peers::Queue;
use super::Row;
use super::echo;
use super::rounds::{Sample, Series, play};
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// Items a second that an interpreter of such batches is published with; measured elsewhere, so no row is held against it.
const PUBLISHED: u32 = 15_500;

/// Slots of every ring and queue.
const SLOTS: u32 = 4096;

/// A session beside the queues that programs use today
#[derive(clap::Args)]
pub struct Args {
    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure for a shorter time
    #[arg(long)]
    quick: bool,
}

impl Args {
    /// The flags that give these arguments again.
    pub fn flags(&self) -> Vec<&str> {
        let quick = self.quick.then_some("--quick");
        ["--device", &self.device].into_iter().chain(quick).collect()
    }
}

/// Someone who carries tasks.
#[derive(Clone, Copy)]
enum Who {
    Peer(Queue, u32),
    Ours(Load),
}

/// A contender, and who it is held against: others of its family.
struct Case {
    name: &'static str,
    who: Who,
    against: &'static [&'static str],
}

/// The contenders by family. Those of a family are measured in the same rounds.
fn families() -> [Vec<Case>; 2] {
    let case = |name, who, against| Case { name, who, against };
    let peer = |name, queue, producers| case(name, Who::Peer(queue, producers), &[]);
    let ours = |name, load, against| case(name, Who::Ours(load), against);
    let (one, chunks) = (Queue::Ring { chunk: 1 }, Queue::Ring { chunk: 256 });
    let two = Load { producers: 2, ..PLAIN };
    let quiet = Load { telemetry: Telemetry::Off, ..PLAIN };
    let single = vec![
        peer("crossbeam", Queue::Channel, 1),
        peer("rtrb", one, 1),
        ours("one by one", Load { batch: 1, ..PLAIN }, &["crossbeam", "rtrb"]),
        peer("rtrb, chunks", chunks, 1),
        ours("batched", PLAIN, &["crossbeam", "rtrb, chunks"]),
        ours("fused", Load { body: Body::Fused, ..PLAIN }, &["batched"]),
        ours("no telemetry", quiet, &["batched"]),
        ours("fused, no telemetry", Load { body: Body::Fused, ..quiet }, &["batched", "rtrb, chunks"]),
        ours("far", Load { placement: Some(Placement::Far), ..PLAIN }, &["batched"]),
    ];
    let double = vec![
        peer("crossbeam, 2 producers", Queue::Channel, 2),
        peer("rtrb, 2 producers", one, 2),
        ours(
            "one by one, 2 producers",
            Load { batch: 1, ..two },
            &["crossbeam, 2 producers", "rtrb, 2 producers"],
        ),
        peer("rtrb, chunks, 2 producers", chunks, 2),
        ours("batched, 2 producers", two, &["crossbeam, 2 producers", "rtrb, chunks, 2 producers"]),
    ];
    [single, double]
}

/// How long each contender is measured in a round, and how many rounds there are.
struct Pace {
    time: Duration,
    trips: u32,
    rounds: u32,
}

const FULL: Pace = Pace { time: Duration::from_millis(100), trips: 20_000, rounds: 15 };
const QUICK: Pace = Pace { time: Duration::from_millis(40), trips: 10_000, rounds: 9 };

pub fn run(args: &Args, only: &str, rounds: Option<u32>, term: &Term) -> Result<Vec<Row>, Error> {
    stop::word()?;
    let device = open(&args.device)?;
    if device.caps().memory_bytes.is_some() {
        return remote::run(&device, args.quick, only, rounds, term);
    }
    let pace = if args.quick { QUICK } else { FULL };
    let pace = Pace { rounds: rounds.unwrap_or(pace.rounds), ..pace };
    let mut rows = feeds(&device, &pace, only, term)?;
    rows.extend(trips(&device, &pace, only, term)?);
    rows.extend(drains(&device, &pace, only, term)?);
    Ok(rows)
}

/// Batches, by size; those whose results come back, against those that are only counted.
fn drains(device: &Arc<dyn Device>, pace: &Pace, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for items in drain::SIZES {
        let (full, counted) = (format!("drain {items}"), format!("drain {items}, counted only"));
        if stop::pressed() || !(full.contains(only) || counted.contains(only)) {
            continue;
        }
        if items == drain::SIZES[0] {
            term.note(format_args!("batches … (a published interpreter on a CPU: {PUBLISHED} items/s)"));
        }
        let ready = |report| drain::Ready::new(device, drain::Load { items, report });
        let mut contenders = [ready(Report::Full)?, ready(Report::Control)?];
        let series =
            play(pace.rounds, &mut contenders, |ready| Ok(Sample::figure(ready.throughput(pace.time)?)))?;
        let name = &device.caps().name;
        rows.extend(row(&full, name, "items/s", &series[0], None));
        rows.extend(row(&counted, name, "items/s", &series[1], Some((&full, &series[0]))));
    }
    Ok(rows)
}

/// Whether the rows of a case are asked for, or it is held against what is.
fn wanted(case: &Case, family: &[Case], only: &str) -> bool {
    case.name.contains(only) || family.iter().any(|c| c.name.contains(only) && c.against.contains(&case.name))
}

/// Tasks per second.
fn feeds(device: &Arc<dyn Device>, pace: &Pace, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for family in families() {
        let mut cases: Vec<&Case> = family.iter().filter(|case| wanted(case, &family, only)).collect();
        let bar = term.bar(cases.len() as u64 * u64::from(pace.rounds), "{bar:40} {msg}");
        let series = play(pace.rounds, &mut cases, |case| {
            bar.set_message(case.name);
            let rate = match case.who {
                Who::Peer(queue, producers) => peers::throughput(queue, producers, pace.time)?,
                Who::Ours(load) => feed::throughput(device, load, pace.time)?,
            };
            bar.inc(1);
            Ok(Sample::figure(rate))
        })?;
        bar.finish_and_clear();
        let all = || cases.iter().zip(&series);
        for (case, ours) in all().filter(|(case, _)| case.name.contains(only)) {
            let device = match case.who {
                Who::Peer(..) => "rust",
                Who::Ours(_) => &device.caps().name,
            };
            let row = |against| row(case.name, device, "tasks/s", ours, against);
            if case.against.is_empty() {
                rows.extend(row(None));
            }
            let peers = case.against.iter().filter_map(|name| all().find(|(peer, _)| peer.name == *name));
            rows.extend(peers.filter_map(|(peer, theirs)| row(Some((peer.name, theirs)))));
        }
    }
    Ok(rows)
}

/// One task there and back, beside a word there and back.
fn trips(device: &Arc<dyn Device>, pace: &Pace, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    const WORD: &str = "round trip of a word";
    let cases = [
        (WORD, None),
        ("round trip", Some(PLAIN)),
        (
            "round trip, fused, no telemetry",
            Some(Load { body: Body::Fused, telemetry: Telemetry::Off, ..PLAIN }),
        ),
        ("round trip, far", Some(Load { placement: Some(Placement::Far), ..PLAIN })),
    ];
    if stop::pressed() || !cases.iter().any(|(case, _)| case.contains(only)) {
        return Ok(Vec::new());
    }
    // All are held against the word, so that it is always measured.
    let mut cases: Vec<_> =
        cases.into_iter().filter(|(case, _)| *case == WORD || case.contains(only)).collect();
    term.note("one task there and back …");
    let series = play(pace.rounds, &mut cases, |(_, load)| {
        Ok(Sample::times(match load {
            None => echo::trips(device, 1, pace.trips)?,
            Some(load) => trip::times(device, *load, pace.trips)?,
        }))
    })?;
    let against = |load: Option<Load>| load.map(|_| (WORD, &series[0]));
    let rows = cases.iter().zip(&series).filter(|((case, _), _)| case.contains(only));
    Ok(rows
        .filter_map(|((case, load), ours)| row(case, &device.caps().name, "us", ours, against(*load)))
        .collect())
}

/// A row of what was measured in rounds; `None` if Ctrl-C came before the first of them ended.
fn row(
    case: &str,
    device: &str,
    metric: &'static str,
    series: &Series,
    against: Option<(&str, &Series)>,
) -> Option<Row> {
    Some(Row {
        group: "session",
        case: case.into(),
        device: device.into(),
        metric: metric.into(),
        value: series.value()?,
        spread: series.percentiles(),
        against: against.and_then(|(name, peer)| series.against(name, peer)),
    })
}
