//! A session beside the queues that programs use today: tasks a second, and one task there and back.
//!
//! One worker runs the tasks everywhere: a group of the kernel here, a thread there. Contenders take turns and the best
//! stretch of each counts, so that what else the machine does falls on all alike. A device with memory of its own has other
//! limits, and [other cases](remote).

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

/// Someone who carries tasks.
#[derive(Clone, Copy)]
enum Who {
    Peer(Queue, u32),
    Ours(Load),
}

/// A contender, and who it is held against: others that come before it.
struct Case {
    name: &'static str,
    who: Who,
    against: &'static [&'static str],
}

/// The contenders.
fn cases() -> Vec<Case> {
    let case = |name, who, against| Case { name, who, against };
    let peer = |name, queue, producers| case(name, Who::Peer(queue, producers), &[]);
    let ours = |name, load, against| case(name, Who::Ours(load), against);
    let (one, chunks) = (Queue::Ring { chunk: 1 }, Queue::Ring { chunk: 256 });
    let two = Load { producers: 2, ..PLAIN };
    let quiet = Load { telemetry: Telemetry::Off, ..PLAIN };
    vec![
        peer("crossbeam", Queue::Channel, 1),
        peer("rtrb", one, 1),
        peer("rtrb, chunks", chunks, 1),
        ours("one by one", Load { batch: 1, ..PLAIN }, &["crossbeam", "rtrb"]),
        ours("batched", PLAIN, &["crossbeam", "rtrb, chunks"]),
        peer("crossbeam, 2 producers", Queue::Channel, 2),
        peer("rtrb, 2 producers", one, 2),
        peer("rtrb, chunks, 2 producers", chunks, 2),
        ours(
            "one by one, 2 producers",
            Load { batch: 1, ..two },
            &["crossbeam, 2 producers", "rtrb, 2 producers"],
        ),
        ours("batched, 2 producers", two, &["crossbeam, 2 producers", "rtrb, chunks, 2 producers"]),
        ours("fused", Load { body: Body::Fused, ..PLAIN }, &["batched"]),
        ours("no telemetry", quiet, &["batched"]),
        ours("fused, no telemetry", Load { body: Body::Fused, ..quiet }, &["batched", "rtrb, chunks"]),
        ours("far", Load { placement: Some(Placement::Far), ..PLAIN }, &["batched"]),
    ]
}

/// How long things are measured.
struct Pace {
    time: Duration,
    turns: u32,
    rounds: u32,
}

const FULL: Pace = Pace { time: Duration::from_millis(300), turns: 5, rounds: 100_000 };
const QUICK: Pace = Pace { time: Duration::from_millis(50), turns: 2, rounds: 10_000 };

pub fn run(args: &Args, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    stop::word()?;
    let device = open(&args.device)?;
    if device.caps().memory_bytes.is_some() {
        return remote::run(&device, args.quick, only, term);
    }
    let pace = if args.quick { QUICK } else { FULL };
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
        let rate = |report| drain::throughput(device, drain::Load { items, report }, pace.time);
        let (value, name) = (rate(Report::Full)?, &device.caps().name);
        rows.push(row(&full, name, "items/s", value, None, None));
        let against = Some((full, value));
        rows.push(row(&counted, name, "items/s", rate(Report::Control)?, None, against));
    }
    Ok(rows)
}

/// Whether the rows of a case are asked for, or it is held against what is.
fn wanted(case: &Case, cases: &[Case], only: &str) -> bool {
    case.name.contains(only) || cases.iter().any(|c| c.name.contains(only) && c.against.contains(&case.name))
}

/// Tasks a second.
fn feeds(device: &Arc<dyn Device>, pace: &Pace, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    let all = cases();
    let cases: Vec<&Case> = all.iter().filter(|case| wanted(case, &all, only)).collect();
    let mut best = vec![0f64; cases.len()];
    let bar = term.bar(cases.len() as u64 * u64::from(pace.turns), "{bar:40} {msg}");
    for _ in 0..pace.turns {
        for (case, best) in cases.iter().zip(&mut best) {
            if stop::pressed() {
                break;
            }
            bar.set_message(case.name);
            let rate = match case.who {
                Who::Peer(queue, producers) => peers::throughput(queue, producers, pace.time)?,
                Who::Ours(load) => feed::throughput(device, load, pace.time)?,
            };
            *best = best.max(rate);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let value = |name: &str| cases.iter().zip(&best).find(|(case, _)| case.name == name).map(|(_, v)| *v);
    let mut rows = Vec::new();
    for (case, best) in cases.iter().zip(&best).filter(|(case, _)| case.name.contains(only)) {
        let device = match case.who {
            Who::Peer(..) => "rust",
            Who::Ours(_) => &device.caps().name,
        };
        let row = |against| row(case.name, device, "tasks/s", *best, None, against);
        if case.against.is_empty() {
            rows.push(row(None));
        }
        rows.extend(case.against.iter().filter_map(|name| Some(row(Some((name.to_string(), value(name)?))))));
    }
    // What Ctrl-C kept from being measured at all is no figure.
    rows.retain(|row| row.value > 0.0 && row.against.as_ref().is_none_or(|(_, value)| *value > 0.0));
    Ok(rows)
}

/// One task there and back, beside a word there and back.
fn trips(device: &Arc<dyn Device>, pace: &Pace, only: &str, term: &Term) -> Result<Vec<Row>, Error> {
    const WORD: &str = "round trip of a word";
    let cases = [
        ("round trip", PLAIN),
        ("round trip, fused, no telemetry", Load { body: Body::Fused, telemetry: Telemetry::Off, ..PLAIN }),
        ("round trip, far", Load { placement: Some(Placement::Far), ..PLAIN }),
    ];
    let wanted = |case: &str| case.contains(only) && !stop::pressed();
    if !wanted(WORD) && !cases.iter().any(|(case, _)| wanted(case)) {
        return Ok(Vec::new());
    }
    term.note("one task there and back …");
    let word = echo::spread(&echo::trips(device)?);
    let name = &device.caps().name;
    let mut rows = vec![row(WORD, name, "us", word[0], Some(word), None)];
    for (case, load) in cases {
        if wanted(case) {
            let spread = echo::spread(&trip::times(device, load, pace.rounds)?);
            rows.push(row(case, name, "us", spread[0], Some(spread), Some((WORD.to_string(), word[0]))));
        }
    }
    Ok(rows)
}

fn row(
    case: &str,
    device: &str,
    metric: &'static str,
    value: f64,
    spread: Option<[f64; 3]>,
    against: Option<(String, f64)>,
) -> Row {
    Row { group: "session", case: case.into(), device: device.into(), metric, value, spread, against }
}
