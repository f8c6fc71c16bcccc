//! Losses at random moments, while several producers submit tasks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use pelton::{Class, LossReason, Producer, TaskError};

use crate::*;

/// How many elements each producer marks, each for one task.
const EACH: u32 = 1000;
const PRODUCERS: u32 = 3;

/// The environment variable that says how many losses there are in each session.
const LOSSES: &str = "PELTON_LOSSES";

/// A task under way, and how it is to end.
struct Flight {
    ticket: Ticket,
    at: u32,
    once: bool,
    cancelled: bool,
}

/// How a task ended, and how often the device had been lost when that was seen.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Done(u64),
    Lost,
    Cancelled,
    /// The ticket was dropped.
    Unknown {
        once: bool,
    },
}

/// Numbers that look random.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Waits for a task and checks how it ended.
fn check(shape: &Shape, flight: &mut Flight) -> Seen {
    let end = flight.ticket.wait(LONG);
    let lost = TaskError::Lost { reason: LossReason::Device, may_have_run: true };
    match end {
        Ok(result) => {
            assert_eq!(result, flight.at * 2, "{}", shape.name);
            Seen::Done(shape.device.losses())
        }
        Err(error) if error == lost && flight.once => Seen::Lost,
        Err(TaskError::Cancelled { steps: 0 }) if flight.cancelled => Seen::Cancelled,
        Err(error) => panic!("{}: task {}: {error}", shape.name, flight.at),
    }
}

/// Submits a task for each of its elements with a few in flight, until the losses are over, and then the rest. Returns how
/// they ended.
fn feed(
    shape: &Shape,
    session: &Session,
    mut producer: Producer,
    first: u32,
    over: &AtomicBool,
) -> Vec<Seen> {
    let mut random = Random(u64::from(first) + 7);
    let mut flights: VecDeque<Flight> = VecDeque::new();
    let mut seen = Vec::new();
    let settle = |flights: &mut VecDeque<Flight>, seen: &mut Vec<Seen>, random: &mut Random| {
        let mut flight = flights.pop_front().expect("there is one");
        seen.push(match random.next(16) {
            0 => Seen::Unknown { once: flight.once },
            _ => check(shape, &mut flight),
        });
    };
    for k in 0..EACH {
        let (at, once) = (first + k, random.next(3) == 0);
        let name = if once { "once" } else { "mark" };
        let mut ticket = producer.submit(task(session, name, &[at])).unwrap();
        let cancelled = random.next(16) == 0;
        if cancelled {
            ticket.cancel();
        }
        flights.push_back(Flight { ticket, at, once, cancelled });
        if flights.len() as u64 > random.next(48) {
            settle(&mut flights, &mut seen, &mut random);
        }
        if !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(random.next(300)));
        }
    }
    while !flights.is_empty() {
        settle(&mut flights, &mut seen, &mut random);
    }
    seen
}

/// How many losses there are in each session.
pub(crate) fn loss_count() -> u64 {
    std::env::var(LOSSES).map_or(12, |text| text.parse().expect("the variable is a number"))
}

/// Loses the device at random moments.
pub(crate) fn lose_often(shape: &Shape, losses: u64) {
    let mut random = Random(losses);
    for _ in 0..losses {
        std::thread::sleep(Duration::from_micros(random.next(30_000)));
        shape.device.lose();
    }
}

/// Catches tasks that never end, have wrong results, run again after they have ended, or begin twice although they must not.
#[test]
fn every_task_ends_once_while_the_device_is_lost_again_and_again() {
    let losses = loss_count();
    everywhere(|shape| {
        let spec = shape.spec(64).producers(PRODUCERS).handler("once", mark().class(Class::Once));
        let (session, over) = (shape.launch(&spec), AtomicBool::new(false));
        let seen: Vec<Vec<Seen>> = std::thread::scope(|threads| {
            let (session, over) = (&session, &over);
            let feeders: Vec<_> = (0..PRODUCERS)
                .map(|k| {
                    let producer = session.producer(0).unwrap().patience(LONG);
                    threads.spawn(move || feed(shape, session, producer, k * EACH, over))
                })
                .collect();
            lose_often(shape, losses);
            over.store(true, Ordering::Relaxed);
            feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect()
        });
        session.quiesce(LONG).unwrap();
        // The last loss may have come when nothing was left to do, and only a task that waits makes anyone look.
        let spare = PRODUCERS * EACH;
        let mut producer = session.producer(0).unwrap();
        assert_eq!(
            submit(&session, &mut producer, "mark", spare).wait(LONG),
            Ok(spare * 2),
            "{}",
            shape.name
        );
        let mut lives = shape.lost_marks();
        let last = session.view::<u32>(0, "data").unwrap().read_all().unwrap();
        lives.push((shape.device.losses(), last));
        for (at, seen) in seen.iter().flatten().enumerate() {
            let marks: Vec<(u64, u32)> = lives.iter().map(|(life, data)| (*life, data[at])).collect();
            let total: u32 = marks.iter().map(|(_, marks)| marks).sum();
            let after = |life: u64| marks.iter().filter(|m| m.0 > life).map(|(_, marks)| marks).sum::<u32>();
            let right = match seen {
                Seen::Done(life) => total >= 1 && after(*life) == 0,
                Seen::Lost | Seen::Unknown { once: true } => total <= 1,
                Seen::Cancelled | Seen::Unknown { once: false } => true,
            };
            assert!(right, "{}: task {at} ended as {seen:?}, and ran {marks:?}", shape.name);
            assert!(marks.iter().all(|(_, marks)| *marks <= 1), "{}: task {at}: {marks:?}", shape.name);
        }
        assert!(session.session_end().is_none(), "{}", shape.name);
    });
}
