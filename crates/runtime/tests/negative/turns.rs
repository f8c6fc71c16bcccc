//! Priorities take turns: no level starves another.

use pelton::{Claim, Geometry, Handler, Priority, Producer, Spec, Task, Tenant, Ticket};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![a_waiting_task_is_served_within_the_bound, urgent_tasks_come_first];

/// Once in this many windows, the level that has waited longest is served.
const EVERY: u32 = 3;
const LEVELS: u32 = 5;

/// A kernel of one group that takes tasks one by one, each of which says how many came before it.
fn spec(shape: Shape, producers: u32) -> Spec {
    let spec = shape.bare(256, 1).claim(Claim::Priority { every: EVERY });
    let spec = Spec { geometry: Geometry { window: 1, ..spec.geometry.clone() }, ..spec };
    let spec = spec.handler_at(op(9), "op9", Handler::lane_wide(|slot| slot.finish(slot.atomic_add(0, 1))));
    spec.tenant(Tenant::new(0).producers(producers).mask(0)).tenant(Tenant::new(1))
}

fn next(priority: Priority) -> Task {
    Task::new(op(9)).priority(priority)
}

/// Lets the kernel see every ring as it is: it moves all tails between the first of these and the last.
fn seen(other: &mut Producer) {
    for _ in 0..3 {
        run(other, Task::new(pelton::Opcode::NOP)).unwrap();
    }
}

/// Catches levels that are served strictly, and producers of a level that do not take turns: by the order in which
/// tasks ran, not by time.
fn a_waiting_task_is_served_within_the_bound(on: &On) {
    for (shape, producers) in [(near(1), 1), (near(8), 3), (far(1), 3), (far(32), 1)] {
        if shapes(on, &[shape]).count() == 0 {
            continue;
        }
        let session = launch(on, &spec(shape, producers));
        let mut other = session.producer(1).unwrap();
        let mut feeds: Vec<Producer> = (0..producers).map(|_| session.producer(0).unwrap()).collect();
        // Everything waits before anything runs. Every level has a stream, or one task alone.
        let mut tickets: Vec<Vec<Vec<Ticket>>> = Vec::new();
        for (at, feed) in feeds.iter_mut().enumerate() {
            let many = |priority: Priority| match priority {
                Priority::Critical | Priority::Normal => 200,
                Priority::High => 40,
                _ if at == 0 => 3,
                _ => 1,
            };
            let one = |p: &Priority| (0..many(*p)).map(|_| feed.submit(next(*p)).unwrap()).collect();
            tickets.push(Priority::ALL.iter().map(one).collect());
        }
        seen(&mut other);
        session.set_mask(0, u32::MAX).unwrap();
        // A level comes once in EVERY × LEVELS windows, a producer of it once in `producers` such turns.
        let bound = EVERY * LEVELS * producers;
        for (at, levels) in tickets.iter_mut().enumerate() {
            for (level, tickets) in levels.iter_mut().enumerate() {
                let mut last = 0;
                for ticket in tickets {
                    let place = ticket.wait(soon()).unwrap();
                    assert!(
                        place.wrapping_sub(last) <= bound,
                        "{shape}, producer {at}, level {level}: ran as {place} after {last}"
                    );
                    last = place;
                }
            }
        }
        assert!(session.snapshot().unwrap().guarded > 0, "{shape}");
    }
}

/// Catches priorities that have no effect.
fn urgent_tasks_come_first(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let session = launch(on, &spec(shape, 1));
        let (mut feed, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        let mut idle: Vec<Ticket> = (0..90).map(|_| feed.submit(next(Priority::Idle)).unwrap()).collect();
        let mut urgent: Vec<Ticket> =
            (0..90).map(|_| feed.submit(next(Priority::Critical)).unwrap()).collect();
        seen(&mut other);
        session.set_mask(0, u32::MAX).unwrap();
        let mean = |tickets: &mut [Ticket]| -> u32 {
            let places = tickets.iter_mut().map(|ticket| ticket.wait(soon()).unwrap());
            places.sum::<u32>() / 90
        };
        // Of three windows two are for the most urgent, and the third may be for the one that waits.
        let (urgent, idle) = (mean(&mut urgent), mean(&mut idle));
        assert!(urgent + 40 < idle, "{shape}: {urgent} and {idle}");
    }
}
