//! Nothing is lost and nothing is done twice: many items, equal items, counters at their edges, many in flight.

use std::collections::VecDeque;

use pelton::ir::types::Type;
use pelton::kernel::Lifetime;
use pelton::{
    Aim, Batch, Claim, Deadline, Drain, Error, Geometry, Handler, Opcode, Priority, Producer, Region,
    Session, Spec, Task, Ticket,
};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    every_item_of_many_runs_once,
    every_item_of_a_batch_runs_once,
    ten_equal_adds_add_ten_times,
    counters_go_past_their_edges,
    a_start_that_is_too_far_is_refused,
    every_stripe_has_a_start_of_its_own,
    starts_are_refused_that_are_not_one_per_stripe,
    none_lost_and_none_doubled_with_many_in_flight,
];

fn sized(spec: Spec, len: u32) -> Spec {
    spec.region(Region::new("data", Type::U32, len))
}

/// The interpreter takes a while for a million tasks; without optimisation it would take minutes.
fn slow(on: &On) -> bool {
    on.caps().name == "reference" && cfg!(debug_assertions)
}

/// Catches a launch that is sized by its lanes and not by its items, and a window that is cut where lanes are.
fn every_item_of_many_runs_once(on: &On) {
    let million = if slow(on) { 0 } else { 1 << 20 };
    for (shape, items) in
        [(near(1), 1 << 16), (near(32), million), (far(8), million), (far(32), 1 << 16), (near(24), 1 << 16)]
    {
        if shapes(on, &[shape]).count() == 0 || items == 0 {
            continue;
        }
        let session = launch(on, &sized(shape.bare(4096, 2), items));
        let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
        let mut behind: VecDeque<pelton::Span> = VecDeque::new();
        for first in (0..items).step_by(1000) {
            let last = items.min(first + 1000);
            let tasks = (first..last).map(|at| Task::new(Opcode::ATOMIC_ADD).args([1, at]));
            behind.push_back(producer.submit_all(tasks).unwrap());
            if behind.len() > 2 {
                behind.pop_front().map(|mut span| span.wait(soon()).unwrap());
            }
        }
        for span in &mut behind {
            let ends = span.wait(soon()).unwrap();
            assert_eq!(ends.done as usize, span.len(), "{shape}, {items} items");
        }
        let found = data(&session);
        let wrong = found.iter().position(|count| *count != 1);
        assert_eq!((wrong, found.len()), (None, items as usize), "{shape}");
        counted(&session, items.into());
    }
}

/// Catches a pass that is sized by its lanes or by its ring and not by its items.
fn every_item_of_a_batch_runs_once(on: &On) {
    let million = if slow(on) { 3000 } else { 1 << 20 };
    // The batch takes one pass, or many.
    for (lanes, slots, items) in [(1, 1 << 16, 1 << 16), (24, 1 << 16, 1 << 16), (32, 1 << 15, million)] {
        let spec = Spec::new(Geometry::new(slots).lanes(lanes)).lifetime(Lifetime::Drain);
        let mut drain = Drain::new(on, &sized(spec, items)).unwrap();
        let mut batch = Batch::with_capacity(items as usize);
        for at in 0..items {
            batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([1, at])).unwrap();
        }
        let done = drain.run(&batch).unwrap().outcomes().into_iter().flatten().filter(|end| *end == Ok(0));
        assert_eq!(done.count(), items as usize, "{lanes} lanes");
        let found = drain.view::<u32>(0, "data").unwrap().read_all().unwrap();
        assert_eq!(found.iter().position(|count| *count != 1), None, "{lanes} lanes");
    }
}

/// Catches adds of equal tasks that are made one by whoever combines them, or are not atomic.
fn ten_equal_adds_add_ten_times(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &shape.bare(64, 2));
        let mut producer = session.producer(0).unwrap();
        let task = Task::new(Opcode::ATOMIC_ADD).args([3, 5]);
        let mut span = producer.submit_all([task; 10]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, 10, "{shape}");
        let mut olds: Vec<u32> = span.results().map(|end| end.unwrap()).collect();
        olds.sort();
        assert_eq!(olds, (0..10).map(|k| k * 3).collect::<Vec<_>>(), "{shape}");
        assert_eq!(data(&session)[5], 30, "{shape}");
    }
}

/// Catches positions of 32 bits, and generations that are compared as if they never wrapped.
fn counters_go_past_their_edges(on: &On) {
    // Positions where generations of 24 bits wrap, in small and in large rings; where positions need a 33rd bit, in a
    // ring whose generations hold that bit; and the last possible start.
    let starts = [
        (16, (16 << 24) - 37),
        (1024, (1024 << 24) - 37),
        (1024, (1u64 << 32) - 37),
        (1024, Session::LAST_START),
    ];
    for shape in shapes(on, SOME) {
        for (slots, start) in starts {
            let what = format!("{shape}, {slots} slots, from {start:#x}");
            let spec = shape.spec(slots, 1);
            let spec = spec.tenant(pelton::Tenant::new(0).observables(1));
            let session = Session::launch_at(on, &spec, start).unwrap();
            let mut producer = session.producer(0).unwrap();
            let mut expected = 0;
            for round in 0..15 {
                assert_eq!(run(&mut producer, add(1, 2)), Ok(expected), "{what}");
                let fence = Task::new(Opcode::BATCH_FENCE).args([4, round]);
                let tasks = [add(1, 2), add(1, 2), add(1, 2), add(1, 2), fence];
                let mut span = producer.submit_all(tasks).unwrap();
                assert_eq!(span.wait(soon()).unwrap().done, 5, "{what}");
                let mut olds: Vec<u32> = span.results().take(4).map(|end| end.unwrap()).collect();
                olds.sort();
                assert_eq!(olds, (expected + 1..expected + 5).collect::<Vec<_>>(), "{what}");
                assert_eq!(span.result(4), Some(Ok(round + 1)), "{what}");
                expected += 5;
            }
            assert_eq!(session.stop().unwrap().tasks_left(), 0, "{what}");
        }
    }
}

/// Catches positions that run into the bits of a kernel's marks, which a far kernel follows for ever.
fn a_start_that_is_too_far_is_refused(on: &On) {
    for shape in shapes(on, SOME) {
        for start in [Session::LAST_START + 1, 1 << 62, (1 << 63) - 10, 1 << 63, u64::MAX] {
            let refused = Session::launch_at(on, &shape.spec(16, 1), start);
            let last = Session::LAST_START;
            let right = |error: &Error| matches!(error, Error::StartPosition { start: s, last: l } if (*s, *l) == (start, last));
            assert!(refused.is_err_and(|error| right(&error)), "{shape}, from {start:#x}");
        }
    }
}

/// Catches a start that is taken from another stripe, or from the first one for all.
fn every_stripe_has_a_start_of_its_own(on: &On) {
    let starts = [0, (8 << 24) - 5, 7, (1u64 << 32) - 3, Session::LAST_START, 1 << 40, 8];
    for shape in shapes(on, SOME) {
        for claim in [Claim::Owned, Claim::PRIORITY] {
            let spec = shape.spec(8, 2).producers(3).claim(claim);
            let stripes = launch(on, &spec).positions().len();
            let starts: Vec<u64> = starts.iter().copied().cycle().take(stripes).collect();
            let what = format!("{shape}, {claim:?}, from {starts:?}");
            let session = Session::launch_at(on, &spec, starts.clone()).unwrap();
            assert_eq!(session.positions(), starts, "{what}");
            let levels = if claim == Claim::Owned { &[Priority::Normal][..] } else { Priority::ALL };
            let mut producers = [0, 1, 2].map(|_| session.producer(0).unwrap());
            let mut tasks = 0;
            for (aim, level, producer) in [Aim::Latency, Aim::Throughput]
                .into_iter()
                .flat_map(|aim| levels.iter().flat_map(move |level| (0..3).map(move |k| (aim, *level, k))))
            {
                let producer = &mut producers[producer];
                producer.set_aim(aim);
                for _lap in 0..3 {
                    // There are enough tasks for every stripe to get some.
                    let count = producer.largest_batch() as u32;
                    let mut span =
                        producer.submit_all((0..count).map(|_| add(1, 0).priority(level))).unwrap();
                    assert_eq!(span.wait(soon()).unwrap().done, count, "{what}");
                    tasks += count;
                }
            }
            assert_eq!(data(&session)[0], tasks, "{what}");
            let moved: Vec<u64> =
                session.positions().iter().zip(&starts).map(|(to, from)| to - from).collect();
            assert!(moved.iter().all(|count| *count > 8), "{what}: {moved:?}");
            assert_eq!(moved.iter().sum::<u64>(), tasks.into(), "{what}");
            counted(&session, tasks.into());
        }
    }
}

/// Catches a list of starts that is cut or filled up in silence, and a start in it that is not looked at.
fn starts_are_refused_that_are_not_one_per_stripe(on: &On) {
    for shape in shapes(on, SOME) {
        let spec = shape.spec(16, 2);
        let stripes = launch(on, &spec).positions().len();
        for found in [0, stripes - 1, stripes + 1] {
            let refused = Session::launch_at(on, &spec, vec![3; found]).unwrap_err();
            let right =
                matches!(refused, Error::StartCount { found: f, stripes: s } if (f, s) == (found, stripes));
            assert!(right, "{shape}: {refused}");
        }
        let mut starts = vec![0; stripes];
        starts[stripes - 1] = Session::LAST_START + 1;
        let refused = Session::launch_at(on, &spec, starts).unwrap_err();
        assert!(matches!(refused, Error::StartPosition { .. }), "{shape}: {refused}");
    }
}

/// A task that differs from all others: it counts itself, and returns its own word.
fn token(at: u32) -> Task {
    Task::new(op(9)).args([at, at.wrapping_mul(0x9e37_79b9)])
}

fn redeem(ticket: &mut Ticket, at: u32) {
    assert_eq!(ticket.wait(soon()), Ok(at.wrapping_mul(0x9e37_79b9) ^ at), "task {at}");
}

/// Submits tasks with up to `most` in flight, and takes their results sometimes in order and sometimes from the end.
fn feed(mut producer: Producer, tokens: std::ops::Range<u32>, most: usize) {
    let mut flight = VecDeque::new();
    for at in tokens {
        while flight.len() >= most {
            let (mut ticket, at) = if at % 3 == 0 { flight.pop_back() } else { flight.pop_front() }.unwrap();
            redeem(&mut ticket, at);
        }
        flight.push_back((producer.submit(token(at)).unwrap(), at));
    }
    for (mut ticket, at) in flight {
        redeem(&mut ticket, at);
    }
}

/// Catches a slot that is written before its result was read, a claim that two groups win, and a record of another
/// task.
fn none_lost_and_none_doubled_with_many_in_flight(on: &On) {
    let each = if on.caps().name == "reference" { 400 } else { 3000 };
    for shape in shapes(on, ALL) {
        let spec = sized(shape.bare(32, 3).producers(3), each * 3);
        let spec = Spec { geometry: Geometry { window: 8, ..spec.geometry.clone() }, ..spec };
        let spec = spec.handler_at(
            op(9),
            "op9",
            Handler::lane_wide(|slot| {
                slot.atomic_add(slot.arg(0), 1);
                slot.finish(slot.arg(0) ^ slot.arg(1));
            }),
        );
        let session = launch(on, &spec);
        std::thread::scope(|threads| {
            for k in 0..3 {
                let producer = session.producer(0).unwrap().patience(Deadline::Never);
                // Taking results from the end leaves gaps, so that 16 tickets may span a ring of 32.
                let most = [2, 9, 16][k as usize];
                threads.spawn(move || feed(producer, k * each..(k + 1) * each, most));
            }
        });
        let found = data(&session);
        let wrong = found.iter().position(|count| *count != 1);
        assert_eq!(wrong.map(|at| (at, found[at])), None, "{shape}");
        counted(&session, (each * 3).into());
    }
}
