//! What the host asks of tasks in cells: at any time, of any use of a cell, and in any number.

use pelton::{Producer, Session, Task, TaskError, Ticket};

use crate::cells::{CELLS, LATER, counting, settle, spec, wait_for, waiting};
use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    asks_reach_only_the_use_that_they_mean,
    a_resume_is_kept_through_a_pause,
    a_resume_that_ends_a_pause_ends_nothing_else,
    more_asks_than_the_ring_holds_are_all_applied,
];

/// Catches an ask for a task that has ended and reaches the next one, and an ask for the next task that reaches this
/// one.
fn asks_reach_only_the_use_that_they_mean(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        for lap in 0..5 {
            let mut ticket = producer.submit(waiting(10 + lap, 3)).unwrap();
            wait_for(&session, 10 + lap, 1);
            for later in [-2, -1, 1, 2, 3, 1 << 23] {
                ticket.cancel_generation(later);
                ticket.pause_generation(later);
                ticket.resume_generation(later);
            }
            settle(&session, &mut other);
            assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}: it was asked of another use");
            ticket.resume();
            assert_eq!(ticket.wait(soon()), Ok(3), "{shape}");
            // The task has ended, and the next one does not notice what was asked of this one or of later ones.
            for later in [-1, 0, 2] {
                ticket.cancel_generation(later);
                ticket.pause_generation(later);
            }
            settle(&session, &mut other);
            drop(ticket);
            assert_eq!(run(&mut producer, counting(3, 4)), Ok(4), "{shape}");
        }
        // What is asked of the next use of a cell whose task has ended is for that use.
        let mut ticket = producer.submit(counting(0, 0)).unwrap();
        ticket.wait(soon()).unwrap();
        ticket.cancel_generation(1);
        settle(&session, &mut other);
        drop(ticket);
        let ends: Vec<_> = [0; CELLS as usize]
            .map(|_| producer.submit(counting(2, 1)).unwrap())
            .map(|mut t| t.wait(soon()))
            .into();
        let cancelled = ends.iter().filter(|end| **end == Err(TaskError::Cancelled { steps: 0 })).count();
        assert_eq!((cancelled, ends.iter().flatten().count()), (1, CELLS as usize - 1), "{shape}");
    }
}

/// Submits a task that can be told when to wait for the host, and returns it once it has begun.
fn begun(session: &Session, producer: &mut Producer, at: u32) -> Ticket {
    session.view::<u32>(0, "data").unwrap().write(at as usize, &[0, 0]).unwrap();
    let ticket = producer.submit(Task::new(op(LATER)).args([at])).unwrap();
    wait_for(session, at, 1);
    ticket
}

/// Catches a resume that is forgotten because the task was paused and resumed between it and the `park` that it is for.
fn a_resume_is_kept_through_a_pause(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        for parks_paused in [false, true] {
            let mut ticket = begun(&session, &mut producer, 20);
            ticket.resume();
            ticket.pause();
            if parks_paused {
                settle(&session, &mut other);
                let steps = wait_for(&session, 20, 0);
                settle(&session, &mut other);
                assert_eq!(wait_for(&session, 20, 0), steps, "{shape}: it took a step while it was paused");
            }
            ticket.resume();
            settle(&session, &mut other);
            assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}");
            session.view::<u32>(0, "data").unwrap().write(21, &[1]).unwrap();
            assert_eq!(ticket.wait(soon()), Ok(1), "{shape}: the first resume was lost");
        }
    }
}

/// Catches a resume that ends both a pause and the `park` before it: whether it does would depend on which of them came
/// first.
fn a_resume_that_ends_a_pause_ends_nothing_else(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        for parked_first in [false, true] {
            let mut ticket = begun(&session, &mut producer, 20);
            let park = || {
                session.view::<u32>(0, "data").unwrap().write(21, &[1]).unwrap();
            };
            if parked_first {
                park();
                settle(&session, &mut other);
            }
            ticket.pause();
            settle(&session, &mut other);
            ticket.resume();
            park();
            settle(&session, &mut other);
            assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}: parked first: {parked_first}");
            ticket.resume();
            assert_eq!(ticket.wait(soon()), Ok(1), "{shape}");
        }
    }
}

/// Catches an ask that overwrites one that was not read.
fn more_asks_than_the_ring_holds_are_all_applied(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        let mut ticket = producer.submit(waiting(3, 6)).unwrap();
        wait_for(&session, 3, 1);
        for _ in 0..3000 {
            ticket.pause_generation(1);
            ticket.resume_generation(1);
        }
        settle(&session, &mut other);
        assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}");
        ticket.resume();
        assert_eq!(ticket.wait(soon()), Ok(6), "{shape}");
    }
}
