//! Passes the same tasks through queues between threads to a closure of Rust.
//!
//! The closure adds one to a word and reads every word of the task, as the kernel does when it checks a line.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::SLOTS;
use crate::error::CliError;
use crate::stop;

/// A task in a queue: 64 bytes.
type QueueLine = [u64; 8];

/// The number of tasks between two looks at the clock.
const GLANCE: u64 = 1 << 14;

/// The queue that carries tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// A bounded channel of crossbeam-channel.
    Channel,
    /// One ring of rtrb per producer.
    Ring {
        /// The number of tasks per chunk.
        chunk: usize,
    },
}

fn queue_line(number: u64) -> QueueLine {
    [1, number, !number, number, !number, number, !number, number]
}

/// The totals of the worker.
#[derive(Clone, Copy, Debug, Default)]
struct WorkerTotals {
    tasks: u64,
    words: u64,
}

/// The worker: a word that it adds to, and its totals.
struct Worker {
    word: AtomicU32,
    seen: WorkerTotals,
}

impl Worker {
    #[inline]
    fn run_line(&mut self, line: &QueueLine) {
        self.word.fetch_add(line[0] as u32, Ordering::Relaxed);
        self.seen.tasks += 1;
        self.seen.words = line.iter().fold(self.seen.words, |sum, word| sum.wrapping_add(*word));
    }
}

/// Feeds a worker for a time from a number of threads, and returns the tasks per second.
pub(super) fn peer_throughput(queue: Queue, producers: u32, time: Duration) -> Result<f64, CliError> {
    let mut worker = Worker { word: AtomicU32::new(0), seen: WorkerTotals::default() };
    let start = Instant::now();
    let sent = match queue {
        Queue::Channel => send_through_channel(&mut worker, producers, time),
        Queue::Ring { chunk } => send_through_rings(&mut worker, producers, chunk, time),
    };
    let took = start.elapsed().as_secs_f64();
    let Worker { word, seen } = worker;
    // Words 1 and 2 of a task sum to -1, and so do the next pairs; word 7 is the number again.
    let numbers = |sent: u64| (0..sent).fold(0u64, |sum, number| sum.wrapping_add(number));
    let words = sent.iter().fold(0u64, |sum, sent| sum.wrapping_add(numbers(*sent).wrapping_sub(2 * sent)));
    let tasks: u64 = sent.iter().sum();
    if seen.tasks != tasks || word.into_inner() != tasks as u32 || seen.words != words {
        return Err(CliError::Wrong(format!(
            "{queue:?} carried {} of {tasks} tasks, or changed their words",
            seen.tasks
        )));
    }
    Ok(tasks as f64 / took)
}

fn is_over(tasks: u64, start: Instant, time: Duration) -> bool {
    tasks.is_multiple_of(GLANCE) && (start.elapsed() >= time || stop::pressed())
}

/// Returns the number of tasks that each producer sent.
fn send_through_channel(worker: &mut Worker, producers: u32, time: Duration) -> Vec<u64> {
    let (to, from) = crossbeam_channel::bounded::<QueueLine>(SLOTS as usize);
    let send = move |to: crossbeam_channel::Sender<QueueLine>| {
        let (start, mut tasks) = (Instant::now(), 0);
        while !is_over(tasks, start, time) && to.send(queue_line(tasks)).is_ok() {
            tasks += 1;
        }
        tasks
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..producers).map(|_| (scope, to.clone())).collect();
        let threads: Vec<_> = threads.into_iter().map(|(scope, to)| scope.spawn(move || send(to))).collect();
        drop(to);
        for line in from {
            worker.run_line(&line);
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
    })
}

/// Spins, and yields the core now and then.
#[derive(Default)]
struct Spin(u32);

impl Spin {
    fn turn(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(256) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// Returns the number of tasks that each producer sent.
fn send_through_rings(worker: &mut Worker, producers: u32, chunk: usize, time: Duration) -> Vec<u64> {
    let (to, mut from): (Vec<_>, Vec<_>) =
        (0..producers).map(|_| rtrb::RingBuffer::<QueueLine>::new(SLOTS as usize)).unzip();
    std::thread::scope(|scope| {
        let send = move |to| if chunk == 1 { push_singly(to, time) } else { push_chunks(to, chunk, time) };
        let threads: Vec<_> = to.into_iter().map(|to| scope.spawn(move || send(to))).collect();
        let mut spin = Spin::default();
        while from.iter().any(|ring| !ring.is_abandoned() || !ring.is_empty()) {
            let mut idle = true;
            for ring in &mut from {
                idle &=
                    !(if chunk == 1 { take_singly(worker, ring) } else { take_chunk(worker, ring, chunk) });
            }
            if idle {
                spin.turn();
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
    })
}

fn push_singly(mut to: rtrb::Producer<QueueLine>, time: Duration) -> u64 {
    let (start, mut tasks, mut spin) = (Instant::now(), 0, Spin::default());
    while !is_over(tasks, start, time) {
        while to.push(queue_line(tasks)).is_err() {
            spin.turn();
        }
        tasks += 1;
    }
    tasks
}

fn push_chunks(mut to: rtrb::Producer<QueueLine>, chunk: usize, time: Duration) -> u64 {
    let (start, mut tasks, mut spin) = (Instant::now(), 0, Spin::default());
    while !is_over(tasks, start, time) {
        match to.write_chunk_uninit(chunk) {
            Ok(slots) => tasks += slots.fill_from_iter((tasks..).map(queue_line)) as u64,
            Err(_) => spin.turn(),
        }
    }
    tasks
}

/// Takes up to a chunk of tasks one by one, and returns whether there were any.
fn take_singly(worker: &mut Worker, from: &mut rtrb::Consumer<QueueLine>) -> bool {
    let mut any = false;
    for _ in 0..256 {
        let Ok(line) = from.pop() else { break };
        worker.run_line(&line);
        any = true;
    }
    any
}

/// Takes a chunk of tasks, or the rest, and returns whether there were any.
fn take_chunk(worker: &mut Worker, from: &mut rtrb::Consumer<QueueLine>, chunk: usize) -> bool {
    let ready = from.slots().min(chunk);
    let Ok(slots) = from.read_chunk(ready) else { return false };
    let (first, second) = slots.as_slices();
    for line in first.iter().chain(second) {
        worker.run_line(line);
    }
    slots.commit_all();
    ready > 0
}
