//! Tickets as futures, with the smallest of executors.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pelton::{Patience, Session, Tenant, Ticket};

use crate::common::*;

pub const TESTS: &[Test] = named![
    a_thousand_tickets_are_awaited,
    several_threads_await,
    futures_wake_when_the_session_ends,
    a_future_that_is_dropped_wakes_nobody_else,
];

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which is parked while it waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// Catches a wake that is lost between the look at a record and the registration.
fn a_thousand_tickets_are_awaited(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(1024, 2));
        let mut producer = session.producer(0).unwrap();
        let tickets: Vec<Ticket> = (0..1000).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        let mut olds = block_on(async {
            let mut olds = Vec::new();
            // From behind, so that most have ended when they are first looked at, and the first has not.
            for ticket in tickets.into_iter().rev() {
                olds.push(ticket.await.unwrap());
            }
            olds
        });
        olds.sort();
        assert_eq!(olds, (0..1000).collect::<Vec<_>>(), "{shape}");
        let ends = block_on(producer.submit_all([add(1, 1); 100]).unwrap());
        assert_eq!(ends.done, 100, "{shape}");
        // One at a time: each is registered before it ends.
        for k in 0..100 {
            assert_eq!(block_on(producer.submit(add(1, 2)).unwrap()), Ok(k), "{shape}");
        }
    }
}

/// Catches wakers of different threads that are taken for one another.
fn several_threads_await(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(32, 2).producers(2));
        std::thread::scope(|threads| {
            for cell in 0..2 {
                let mut producer = session.producer(0).unwrap().patience(Patience::Endless);
                let (give, take) = std::sync::mpsc::channel::<Ticket>();
                threads.spawn(move || {
                    (0..200).for_each(|_| give.send(producer.submit(add(1, cell)).unwrap()).unwrap())
                });
                threads.spawn(move || take.iter().all(|ticket| block_on(ticket).is_ok()));
            }
        });
        assert_eq!(data(&session)[..2], [200, 200], "{shape}");
    }
}

/// A session of a tenant that is not served, with a thread that awaits its task.
fn waiting(on: &On, shape: Shape) -> (Session, std::thread::JoinHandle<Result<u32, pelton::TaskError>>) {
    let session = launch(on, &shape.spec(32, 2).tenant(Tenant::new(0).mask(0)));
    let ticket = session.producer(0).unwrap().submit(add(1, 0)).unwrap();
    let thread = std::thread::spawn(move || block_on(ticket));
    (session, thread)
}

/// Catches futures that nobody wakes when there will be no record.
fn futures_wake_when_the_session_ends(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, thread) = waiting(on, shape);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!thread.is_finished(), "{shape}");
        session.stop().unwrap();
        assert_eq!(thread.join().unwrap(), Err(pelton::TaskError::Stopped), "{shape}");
        // And if it is enabled, they wake by their record.
        let (session, thread) = waiting(on, shape);
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(thread.join().unwrap(), Ok(0), "{shape}");
    }
}

/// Catches a place among the waiters that is kept by one who is gone.
fn a_future_that_is_dropped_wakes_nobody_else(on: &On) {
    for shape in shapes(on, &[near(1), far(8)]) {
        let session = launch(on, &shape.spec(4, 1));
        let mut producer = session.producer(0).unwrap().patience(Patience::Endless);
        for round in 0..100 {
            let mut ticket = producer.submit(add(1, 0)).unwrap();
            // Looked at once and dropped, so that its place is used again by the next lap.
            let mut context = Context::from_waker(Waker::noop());
            let _ = std::pin::Pin::new(&mut ticket).poll(&mut context);
            if round % 3 != 0 {
                assert_eq!(block_on(ticket), Ok(round), "{shape}");
            }
        }
    }
}
