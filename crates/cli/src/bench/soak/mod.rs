//! A session under load for a long time: every argument checked in the kernel, every result on the host.

mod mark;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::{Deadline, Geometry, Opcode, Producer, Session, Span, Spec, Task};
use pelton_device::open;

use super::Row;
use crate::error::Error;
use crate::stop;
use crate::term::Term;

/// Tasks at once.
const BATCH: u32 = 256;
/// How often the bar moves.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a task may take; longer says that it was lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session under load for a long time, with every word checked
#[derive(clap::Args)]
pub struct Args {
    /// What to run it on; `pelton devices` lists what there is
    #[arg(long, short, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// How many tasks, such as 1e9
    #[arg(long, value_name = "N", default_value = "1e9", value_parser = amount)]
    tasks: u64,

    /// Slots of a ring, a power of two
    #[arg(long, value_name = "N", default_value_t = 4096)]
    slots: u32,

    /// Threads that submit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    producers: u32,

    /// Groups of the kernel; what suits the device unless said
    #[arg(long, value_name = "N")]
    groups: Option<u32>,

    /// The position that rings start from, to go past an edge such as 4294967296
    #[arg(long, value_name = "N", default_value = "0", value_parser = amount)]
    start: u64,
}

/// A number of tasks, also as 1e9.
pub fn amount(text: &str) -> Result<u64, String> {
    let text = text.replace('_', "");
    match (text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(n), _) => Ok(n),
        (_, Ok(x)) if x >= 0.0 && x < 2f64.powi(56) && x.fract() == 0.0 => Ok(x as u64),
        _ => Err("a whole number, such as 1000000 or 1e6".into()),
    }
}

/// What one producer is to send, and where it says how far it is.
struct Part<'a> {
    op: Opcode,
    producer: u32,
    start: u64,
    count: u64,
    /// Batches under way at once.
    deep: usize,
    batch: u32,
    done: &'a AtomicU64,
    /// Whether another has failed.
    failed: &'a AtomicBool,
}

/// What a producer has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tasks: u64,
    /// What its tasks have added to the sum.
    sum: u32,
}

pub fn run(args: &Args, term: &Term) -> Result<Vec<Row>, Error> {
    stop::word()?;
    let device = open(&args.device)?;
    let op = Opcode::user(8).map_err(pelton::Error::from)?;
    let geometry = Geometry { groups: args.groups, ..Geometry::new(args.slots) };
    let spec = Spec::new(geometry).producers(args.producers);
    let handler = mark::handler(op, &spec.regions);
    let session = Session::launch_at(&device, &spec.with(handler), args.start)?;
    let batch = BATCH.min(args.slots / 2).max(1);
    let deep = (args.slots / batch / 2).max(1) as usize * session.layout().stripes as usize;
    let (done, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let part = |producer: u32| {
        let (each, rest) = (args.tasks / u64::from(args.producers), args.tasks % u64::from(args.producers));
        let count = each + u64::from(u64::from(producer) < rest);
        Part { op, producer, start: args.start, count, deep, batch, done: &done, failed: &failed }
    };
    let began = Instant::now();
    let mut producers =
        (0..args.producers).map(|_| session.producer(0)).collect::<Result<Vec<Producer>, _>>()?;
    let parts: Vec<_> = producers.iter_mut().zip((0..args.producers).map(part)).collect();
    let seen = all(parts, args.tasks, term)?;
    let took = began.elapsed().as_secs_f64();
    let sum = seen.iter().fold(0u32, |sum, seen| sum.wrapping_add(seen.sum));
    let last = producers[0].submit(Task::new(Opcode::ATOMIC_ADD))?.wait(Deadline::after(PATIENCE))?;
    if last != sum {
        return Err(Error::Wrong(format!("the tasks have added {last:#x}, and must have added {sum:#x}")));
    }
    drop(producers);
    let left = session.stop()?.total();
    if left != 0 {
        return Err(Error::Wrong(format!("{left} tasks were left behind")));
    }
    let tasks: u64 = seen.iter().map(|seen| seen.tasks).sum();
    let names = format!("{tasks} tasks, {} slots, producers {}", args.slots, args.producers);
    let device = device.caps().name.clone();
    let (group, metric, value) = ("soak", "tasks/s", tasks as f64 / took);
    Ok(vec![Row { group, case: names, device, metric, value, spread: None, against: None }])
}

/// Runs all producers, and moves the bar meanwhile.
fn all(parts: Vec<(&mut Producer, Part<'_>)>, tasks: u64, term: &Term) -> Result<Vec<Seen>, Error> {
    let bar = term.bar(tasks, "{bar:40} {human_pos}/{human_len} tasks, {per_sec}, {eta} left");
    let seen = std::thread::scope(|scope| {
        let done = parts.first().map(|(_, part)| part.done);
        let threads: Vec<_> = parts
            .into_iter()
            .map(|(producer, part)| {
                scope.spawn(move || {
                    let seen = feed(producer, &part);
                    part.failed.fetch_or(seen.is_err(), Ordering::Relaxed);
                    seen
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(GLANCE);
            bar.set_position(done.map_or(0, |done| done.load(Ordering::Relaxed)));
        }
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::Wrong("a producer ended early".into())))
        });
        joined.collect()
    });
    bar.finish_and_clear();
    seen
}

/// Sends a producer's part, and checks every result.
fn feed(producer: &mut Producer, part: &Part<'_>) -> Result<Seen, Error> {
    let mut open: VecDeque<(u64, Span)> = VecDeque::with_capacity(part.deep);
    let mut seen = Seen::default();
    let end = part.start + part.count;
    let mut at = part.start;
    while at < end && !stop::pressed() && !part.failed.load(Ordering::Relaxed) {
        if open.len() == part.deep
            && let Some((first, span)) = open.pop_front()
        {
            settle(part, first, span, &mut seen)?;
        }
        let batch = u64::from(part.batch).min(end - at) as u32;
        let tasks = (0..batch).map(|k| mark::task(part.op, mark::number(part.producer, at + u64::from(k))));
        open.push_back((at, producer.submit_all(tasks)?));
        at += u64::from(batch);
    }
    open.into_iter().try_for_each(|(first, span)| settle(part, first, span, &mut seen))?;
    Ok(seen)
}

/// Waits for a batch, and looks at every record of it.
fn settle(part: &Part<'_>, first: u64, mut span: Span, seen: &mut Seen) -> Result<(), Error> {
    span.wait(Deadline::after(PATIENCE))?;
    for (position, result) in (first..).zip(span.results()) {
        let number = mark::number(part.producer, position);
        let wrong =
            |what: String| Error::Wrong(format!("task {position} of producer {}: {what}", part.producer));
        let result = result.map_err(|why| wrong(why.to_string()))?;
        if result != mark::result(number) {
            return Err(wrong(format!("gave {result:#x}, not {:#x}", mark::result(number))));
        }
        seen.sum = seen.sum.wrapping_add(mark::share(number));
    }
    seen.tasks += span.len() as u64;
    part.done.fetch_add(span.len() as u64, Ordering::Relaxed);
    Ok(())
}
