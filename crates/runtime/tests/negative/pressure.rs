//! Full rings: an error says so, nothing is lost, and results that were not read are kept.

use pelton::{Aim, Deadline, SubmitError, Tenant, Ticket};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    a_full_ring_is_an_error_and_nothing_is_lost,
    results_that_nobody_took_hold_their_slots,
    endless_patience_gets_everything_through,
    spans_of_no_tasks_hold_nothing,
];

const SLOTS: u32 = 8;

/// Catches a ring that overwrites what was not taken, and an error after which something was submitted all the same.
fn a_full_ring_is_an_error_and_nothing_is_lost(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(SLOTS, 1).tenant(Tenant::new(0).mask(0)));
        let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
        let large = SubmitError::TooLarge { wanted: 9, slots: 8 };
        assert_eq!(producer.submit_all([add(1, 0); 9]).err(), Some(large), "{shape}");
        let mut tickets: Vec<Ticket> = (0..6).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        let full = |room| Some(SubmitError::Full { room, wanted: 3 });
        assert_eq!(producer.submit_all([add(100, 0); 3]).err(), full(2), "{shape}");
        tickets.extend((6..SLOTS).map(|_| producer.submit(add(1, 0)).unwrap()));
        for patience in [Deadline::Now, Deadline::after_ms(0), Deadline::after_ms(20)] {
            producer.set_patience(patience);
            assert_eq!(producer.submit_all([add(100, 0); 3]).err(), full(0), "{shape}, {patience:?}");
        }
        session.set_mask(0, u32::MAX).unwrap();
        let mut olds: Vec<u32> = tickets.iter_mut().map(|ticket| ticket.wait(soon()).unwrap()).collect();
        olds.sort();
        assert_eq!(olds, (0..SLOTS).collect::<Vec<_>>(), "{shape}");
        assert_eq!(data(&session)[0], SLOTS, "{shape}");
    }
}

/// Catches a slot that is free when its task has ended, though its result was not taken.
fn results_that_nobody_took_hold_their_slots(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(SLOTS, 1));
        let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
        let mut tickets: Vec<Ticket> = (0..SLOTS).map(|k| producer.submit(add(k, 0)).unwrap()).collect();
        session.quiesce(soon()).unwrap();
        let full = Some(SubmitError::Full { room: 0, wanted: 1 });
        assert_eq!(producer.submit(add(50, 0)).err(), full, "{shape}");
        // Dropping a ticket in the middle frees nothing, because the slots before it are still held.
        drop(tickets.remove(3));
        assert_eq!(producer.submit(add(50, 0)).err(), full, "{shape}");
        drop(tickets.drain(..3));
        let mut more: Vec<Ticket> = (0..4).map(|_| producer.submit(add(0, 0)).unwrap()).collect();
        assert_eq!(producer.submit(add(50, 0)).err(), full, "{shape}");
        // The tickets still have their results one lap later.
        assert!(more.iter_mut().all(|ticket| ticket.wait(soon()) == Ok(28)), "{shape}");
        assert!(tickets.iter_mut().all(|ticket| ticket.result().is_ok()), "{shape}");
        // A ticket that is dropped early frees its slot once its task has ended.
        drop((tickets, more));
        for _ in 0..5 * SLOTS {
            producer = producer.patience(Deadline::after_ms(60_000));
            drop(producer.submit(add(1, 1)).unwrap());
        }
        session.quiesce(soon()).unwrap();
        assert_eq!(data(&session)[..2], [28, 40], "{shape}");
    }
}

/// Catches a producer that gives up, or waits for what was there all along.
fn endless_patience_gets_everything_through(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(SLOTS, 2));
        let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
        let (give, take) = std::sync::mpsc::channel::<Ticket>();
        let taker =
            std::thread::spawn(move || take.iter().map(|mut ticket| ticket.wait(soon()).unwrap()).collect());
        for _ in 0..500 {
            give.send(producer.submit(add(1, 0)).unwrap()).unwrap();
        }
        drop(give);
        let mut olds: Vec<u32> = taker.join().unwrap();
        olds.sort();
        assert_eq!(olds, (0..500).collect::<Vec<_>>(), "{shape}");
    }
}

/// Catches a span of no tasks that gives up the slot of the task behind it, or of one a lap ahead.
fn spans_of_no_tasks_hold_nothing(on: &On) {
    for shape in shapes(on, &[near(1), far(1)]) {
        let session = launch(on, &shape.spec(SLOTS, 1));
        let mut producer = session.producer(0).unwrap();
        for round in 0..4 * SLOTS {
            let mut none = producer.submit_all([] as [pelton::Task; 0]).unwrap();
            assert!(none.has_ended() && none.is_empty(), "{shape}");
            let mut ticket = producer.submit(add(1, 0)).unwrap();
            assert_eq!(ticket.wait(soon()), Ok(round), "{shape}");
            drop(ticket);
            drop(none);
        }
        let held: Vec<Ticket> = (0..SLOTS).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        let none = producer.submit_all([] as [pelton::Task; 0]).unwrap();
        session.quiesce(soon()).unwrap();
        drop((held, none));
        assert_eq!(producer.submit_all([add(1, 0); 8]).unwrap().wait(soon()).unwrap().done, 8, "{shape}");
    }
}
