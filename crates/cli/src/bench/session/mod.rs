//! `bench session`: a session compared with the queues that programs use today, in tasks per second and in the time
//! of a round trip.
//!
//! One worker runs the tasks in every case: a group of the kernel, or a thread. The contenders are measured in
//! turns, in [rounds](super::rounds). A device with memory of its own has other limits, and [other cases](remote).

mod drain;
mod feed;
mod peers;
mod remote;
mod trip;

use std::sync::Arc;
use std::time::Duration;

use pelton::Placement;
use pelton::kernel::{Report, SlotBody, Telemetry};
use pelton_device::{Device, open};

use self::feed::{FeedLoad, PLAIN};
use self::peers::Queue;
use super::BenchRow;
use super::echo;
use super::rounds::{Sample, Series, play_rounds};
use crate::error::CliError;
use crate::stop;
use crate::term::Term;

/// The rate, in items per second, that is published for an interpreter of such batches. It was measured on another
/// machine, so no row is compared with it.
const PUBLISHED: u32 = 15_500;

/// The number of slots of every ring and queue.
const SLOTS: u32 = 4096;

/// Measure a session, compared with the queues that programs use today
#[derive(clap::Args)]
pub(super) struct SessionArgs {
    /// The device to run on; `pelton devices` lists them
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// Measure for a shorter time, with less certain figures
    #[arg(long)]
    quick: bool,
}

impl SessionArgs {
    /// The flags that produce these arguments again.
    pub(super) fn flags(&self) -> Vec<&str> {
        let quick = self.quick.then_some("--quick");
        ["--device", &self.device].into_iter().chain(quick).collect()
    }
}

/// What carries tasks to the worker.
#[derive(Clone, Copy)]
enum Carrier {
    Peer(Queue, u32),
    Ours(FeedLoad),
}

/// A contender, and the members of its family that it is compared with.
struct SessionCase {
    name: &'static str,
    who: Carrier,
    against: &'static [&'static str],
}

/// The contenders by family. Those of one family are measured in the same rounds.
fn case_families() -> [Vec<SessionCase>; 2] {
    let case = |name, who, against| SessionCase { name, who, against };
    let peer = |name, queue, producers| case(name, Carrier::Peer(queue, producers), &[]);
    let ours = |name, load, against| case(name, Carrier::Ours(load), against);
    let (one, chunks) = (Queue::Ring { chunk: 1 }, Queue::Ring { chunk: 256 });
    let two = FeedLoad { producers: 2, ..PLAIN };
    let quiet = FeedLoad { telemetry: Telemetry::Off, ..PLAIN };
    let single = vec![
        peer("crossbeam", Queue::Channel, 1),
        peer("rtrb", one, 1),
        ours("one by one", FeedLoad { batch: 1, ..PLAIN }, &["crossbeam", "rtrb"]),
        peer("rtrb, chunks", chunks, 1),
        ours("batched", PLAIN, &["crossbeam", "rtrb, chunks"]),
        ours("fused", FeedLoad { body: SlotBody::Fused, ..PLAIN }, &["batched"]),
        ours("no telemetry", quiet, &["batched"]),
        ours(
            "fused, no telemetry",
            FeedLoad { body: SlotBody::Fused, ..quiet },
            &["batched", "rtrb, chunks"],
        ),
        ours("far", FeedLoad { placement: Some(Placement::Far), ..PLAIN }, &["batched"]),
    ];
    let double = vec![
        peer("crossbeam, 2 producers", Queue::Channel, 2),
        peer("rtrb, 2 producers", one, 2),
        ours(
            "one by one, 2 producers",
            FeedLoad { batch: 1, ..two },
            &["crossbeam, 2 producers", "rtrb, 2 producers"],
        ),
        peer("rtrb, chunks, 2 producers", chunks, 2),
        ours("batched, 2 producers", two, &["crossbeam, 2 producers", "rtrb, chunks, 2 producers"]),
    ];
    [single, double]
}

/// The time for which each contender is measured in a round, and the number of rounds.
struct SessionPace {
    time: Duration,
    trips: u32,
    rounds: u32,
}

const FULL: SessionPace = SessionPace { time: Duration::from_millis(100), trips: 20_000, rounds: 15 };
const QUICK: SessionPace = SessionPace { time: Duration::from_millis(40), trips: 10_000, rounds: 9 };

/// Measures the cases whose name contains `only`, and adds their rows. After a failure the rows of the cases
/// before it stay.
pub(super) fn run_session(
    args: &SessionArgs,
    only: &str,
    rounds: Option<u32>,
    rows: &mut Vec<BenchRow>,
    term: &Term,
) -> Result<(), CliError> {
    stop::listen()?;
    let device = open(&args.device)?;
    if device.caps().memory_bytes.is_some() {
        return remote::run_remote(&device, args, only, rounds, rows, term);
    }
    let pace = if args.quick { QUICK } else { FULL };
    let pace = SessionPace { rounds: rounds.unwrap_or(pace.rounds), ..pace };
    rows.extend(feed_rows(&device, &pace, only, term)?);
    rows.extend(trip_rows(&device, &pace, only, term)?);
    rows.extend(drain_rows(&device, &pace, only, term)?);
    Ok(())
}

/// Measures batches by size: those whose results come back, compared with those that are only counted.
fn drain_rows(
    device: &Arc<dyn Device>,
    pace: &SessionPace,
    only: &str,
    term: &Term,
) -> Result<Vec<BenchRow>, CliError> {
    let mut rows = Vec::new();
    for items in drain::SIZES {
        let (full, counted) = (format!("drain {items}"), format!("drain {items}, counted only"));
        if stop::pressed() || !(full.contains(only) || counted.contains(only)) {
            continue;
        }
        if items == drain::SIZES[0] {
            term.note(format_args!("batches … (a published interpreter on a CPU: {PUBLISHED} items/s)"));
        }
        let ready = |report| drain::ReadyDrain::new(device, drain::DrainLoad { items, report });
        let mut contenders = [ready(Report::Full)?, ready(Report::Control)?];
        let series = play_rounds(pace.rounds, &mut contenders, |ready| {
            Ok(Sample::figure(ready.throughput(pace.time)?))
        })?;
        let name = &device.caps().name;
        rows.extend(series_row(&full, name, "items/s", &series[0], None));
        rows.extend(series_row(&counted, name, "items/s", &series[1], Some((&full, &series[0]))));
    }
    Ok(rows)
}

/// Whether a case is wanted for its own row, or because a wanted case is compared with it.
fn is_wanted(case: &SessionCase, family: &[SessionCase], only: &str) -> bool {
    case.name.contains(only) || family.iter().any(|c| c.name.contains(only) && c.against.contains(&case.name))
}

/// Measures tasks per second.
fn feed_rows(
    device: &Arc<dyn Device>,
    pace: &SessionPace,
    only: &str,
    term: &Term,
) -> Result<Vec<BenchRow>, CliError> {
    let mut rows = Vec::new();
    for family in case_families() {
        let mut cases: Vec<&SessionCase> =
            family.iter().filter(|case| is_wanted(case, &family, only)).collect();
        let bar = term.bar(cases.len() as u64 * u64::from(pace.rounds), "{bar:40} {msg}");
        let series = play_rounds(pace.rounds, &mut cases, |case| {
            bar.set_message(case.name);
            let rate = match case.who {
                Carrier::Peer(queue, producers) => peers::peer_throughput(queue, producers, pace.time)?,
                Carrier::Ours(load) => feed::feed_throughput(device, load, pace.time)?,
            };
            bar.inc(1);
            Ok(Sample::figure(rate))
        })?;
        bar.finish_and_clear();
        let all = || cases.iter().zip(&series);
        for (case, ours) in all().filter(|(case, _)| case.name.contains(only)) {
            let device = match case.who {
                Carrier::Peer(..) => "rust",
                Carrier::Ours(_) => &device.caps().name,
            };
            let row = |against| series_row(case.name, device, "tasks/s", ours, against);
            if case.against.is_empty() {
                rows.extend(row(None));
            }
            let peers = case.against.iter().filter_map(|name| all().find(|(peer, _)| peer.name == *name));
            rows.extend(peers.filter_map(|(peer, theirs)| row(Some((peer.name, theirs)))));
        }
    }
    Ok(rows)
}

/// Measures round trips of one task, compared with round trips of one word.
fn trip_rows(
    device: &Arc<dyn Device>,
    pace: &SessionPace,
    only: &str,
    term: &Term,
) -> Result<Vec<BenchRow>, CliError> {
    const WORD: &str = "round trip of a word";
    let cases = [
        (WORD, None),
        ("round trip", Some(PLAIN)),
        (
            "round trip, fused, no telemetry",
            Some(FeedLoad { body: SlotBody::Fused, telemetry: Telemetry::Off, ..PLAIN }),
        ),
        ("round trip, far", Some(FeedLoad { placement: Some(Placement::Far), ..PLAIN })),
    ];
    if stop::pressed() || !cases.iter().any(|(case, _)| case.contains(only)) {
        return Ok(Vec::new());
    }
    // All cases are compared with the word, so that it is always measured.
    let mut cases: Vec<_> =
        cases.into_iter().filter(|(case, _)| *case == WORD || case.contains(only)).collect();
    term.note("round trips of one task …");
    let series = play_rounds(pace.rounds, &mut cases, |(_, load)| {
        Ok(Sample::times(match load {
            None => echo::echo_trips(device, 1, pace.trips)?,
            Some(load) => trip::session_trips(device, *load, pace.trips)?,
        }))
    })?;
    let against = |load: Option<FeedLoad>| load.map(|_| (WORD, &series[0]));
    let rows = cases.iter().zip(&series).filter(|((case, _), _)| case.contains(only));
    Ok(rows
        .filter_map(|((case, load), ours)| series_row(case, &device.caps().name, "us", ours, against(*load)))
        .collect())
}

/// A row from what was measured in rounds; `None` if Ctrl-C was pressed before the first round ended.
fn series_row(
    case: &str,
    device: &str,
    metric: &'static str,
    series: &Series,
    against: Option<(&str, &Series)>,
) -> Option<BenchRow> {
    Some(BenchRow {
        group: "session",
        case: case.into(),
        device: device.into(),
        metric: metric.into(),
        value: series.value()?,
        spread: series.percentiles(),
        against: against.and_then(|(name, peer)| series.against(name, peer)),
    })
}
