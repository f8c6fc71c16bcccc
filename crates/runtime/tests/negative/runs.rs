//! Runs that follow each other over the same rings, while producers and tickets go on.

use std::sync::atomic::{AtomicBool, Ordering};

use pelton::ir::types::Type;
use pelton::{Deadline, Geometry, Opcode, Producer, Region, Spec, Task, Ticket};

use crate::common::{ALL, On, SOME, Test, add, counted, data, launch, run, shapes, soon};
use crate::futures::block_on;

pub(crate) const TESTS: &[Test] = named![
    tickets_and_producers_outlive_a_run,
    a_replaced_run_does_not_end_its_session,
    tasks_that_are_submitted_while_runs_change_run_once,
    rights_hold_in_the_next_run,
];

/// Catches a handle that reaches for the run that was there when it was made, and a run that begins elsewhere than the
/// last one ended.
fn tickets_and_producers_outlive_a_run(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &shape.spec(16, 2).producers(2));
        let mut producers = [0, 1].map(|_| session.producer(0).unwrap());
        let mut expected = 0;
        for round in 0..5 {
            let mut tickets: Vec<Ticket> = producers
                .iter_mut()
                .flat_map(|p| [p.submit(add(1, 3)), p.submit(add(1, 3))])
                .flatten()
                .collect();
            assert_eq!(tickets.len(), 4, "{shape}, run {round}");
            session.hand_over(&session.spec(), soon()).unwrap();
            let mut olds: Vec<u32> = tickets.iter_mut().map(|t| t.wait(soon()).unwrap()).collect();
            olds.sort();
            assert_eq!(olds, (expected..expected + 4).collect::<Vec<_>>(), "{shape}, run {round}");
            expected += 4;
            for producer in &mut producers {
                assert_eq!(run(producer, add(1, 3)), Ok(expected), "{shape}, run {round}");
                expected += 1;
            }
        }
        assert_eq!(data(&session)[3], expected, "{shape}");
        counted(&session, expected.into());
        drop(producers);
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// Catches the end of a run that is taken for the end of its session: by a ticket that waits, by the reaper, or by
/// whoever asks.
fn a_replaced_run_does_not_end_its_session(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(16, 1));
        let mut producer = session.producer(0).unwrap();
        // Nothing runs yet, so that tickets and futures wait through all of it.
        session.set_mask(0, 0).unwrap();
        let mut tickets: Vec<Ticket> = (0..4).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        let awaited = tickets.split_off(2);
        std::thread::scope(|threads| {
            for mut ticket in tickets {
                threads.spawn(move || ticket.wait(soon()).unwrap());
            }
            for ticket in awaited {
                threads.spawn(move || block_on(ticket).unwrap());
            }
            for _ in 0..5 {
                session.hand_over(&session.spec(), soon()).unwrap();
                assert!(session.session_end().is_none(), "{shape}");
            }
            session.set_mask(0, u32::MAX).unwrap();
        });
        assert_eq!(data(&session)[0], 4, "{shape}");
    }
}

/// Submits a task for each of these elements, with a few in flight.
fn feed(mut producer: Producer, elements: std::ops::Range<u32>) {
    let mut tickets = std::collections::VecDeque::new();
    for at in elements {
        if tickets.len() == 5 {
            let mut ticket: Ticket = tickets.pop_front().unwrap();
            assert_eq!(ticket.wait(soon()), Ok(0));
        }
        tickets.push_back(producer.submit(Task::new(Opcode::ATOMIC_ADD).args([1, at])).unwrap());
    }
    tickets.iter_mut().for_each(|ticket| assert_eq!(ticket.wait(soon()), Ok(0)));
}

/// Catches a wake that goes to a run that has left, a task that two runs take, and one that neither does.
fn tasks_that_are_submitted_while_runs_change_run_once(on: &On) {
    let each = if on.caps().name == "cpu" { 4000 } else { 300 };
    for shape in shapes(on, ALL) {
        let bare = shape.bare(8, 2).producers(3);
        let spec = Spec { geometry: Geometry { window: 4, ..bare.geometry.clone() }, ..bare };
        let spec = spec.region(Region::new("data", Type::U32, each * 3));
        let session = launch(on, &spec);
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let feeders: Vec<_> = (0..3)
                .map(|k| {
                    let producer = session.producer(0).unwrap().patience(Deadline::Never);
                    threads.spawn(move || feed(producer, k * each..(k + 1) * each))
                })
                .collect();
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    session.hand_over(&session.spec(), soon()).unwrap();
                    std::thread::yield_now();
                }
            });
            let ended: Vec<_> = feeders.into_iter().map(|feeder| feeder.join()).collect();
            over.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok), "{shape}");
        });
        assert_eq!(data(&session).iter().position(|count| *count != 1), None, "{shape}");
        counted(&session, u64::from(each) * 3);
    }
}

/// Catches a run that begins with the rights that the session was launched with, and one that answers for the last
/// one's changes.
fn rights_hold_in_the_next_run(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(16, 1));
        let mut producer = session.producer(0).unwrap();
        session.allow(0, &[Opcode::NOP]).unwrap();
        session.hand_over(&session.spec(), soon()).unwrap();
        assert!(run(&mut producer, add(1, 0)).is_err(), "{shape}");
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(run(&mut producer, add(1, 0)), Ok(0), "{shape}");
        session.set_quota(0, 2).unwrap();
        assert_eq!(run(&mut producer, add(1, 0)), Ok(1), "{shape}");
        session.hand_over(&session.spec(), soon()).unwrap();
        assert_eq!(session.credit(0).unwrap(), Some(1), "{shape}");
    }
}
