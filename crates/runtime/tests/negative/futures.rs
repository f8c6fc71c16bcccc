//! Tickets, spans and rooms as futures, with a minimal executor.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use pelton::{Aim, Deadline, EndReason, Session, SubmitError, Tenant, Ticket};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    a_thousand_tickets_are_awaited,
    several_threads_await,
    futures_wake_when_the_session_ends,
    a_session_is_dropped_by_what_its_own_thread_wakes,
    a_future_that_is_dropped_wakes_nobody_else,
    a_producer_awaits_room,
    a_producer_awaits_room_for_many,
    a_producer_that_awaits_room_hears_of_the_end,
    a_producer_is_woken_no_more_often_than_slots_are_given_up,
    two_producers_await_room_at_once,
];

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which is parked while it waits.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
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
            // The last ticket is awaited first, so that most tasks have ended when they are first looked at, and the
            // first one has not.
            for ticket in tickets.into_iter().rev() {
                olds.push(ticket.await.unwrap());
            }
            olds
        });
        olds.sort();
        assert_eq!(olds, (0..1000).collect::<Vec<_>>(), "{shape}");
        let ends = block_on(producer.submit_all([add(1, 1); 100]).unwrap());
        assert_eq!(ends.done, 100, "{shape}");
        // With one task at a time, each future is registered before its task ends.
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
                let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
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

/// Launches a session whose tenant is disabled, with a thread that awaits a task of it.
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
        assert_eq!(thread.join().unwrap(), Err(pelton::TaskError::Stopped { steps: 0 }), "{shape}");
        // When the tenant is enabled, the futures are woken by their records.
        let (session, thread) = waiting(on, shape);
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(thread.join().unwrap(), Ok(0), "{shape}");
    }
}

/// A waker that drops a session.
#[derive(Default)]
struct DropSession {
    session: Mutex<Option<Session>>,
    dropped: AtomicU32,
}

impl Wake for DropSession {
    fn wake(self: Arc<Self>) {
        drop(self.session.lock().unwrap().take());
        self.dropped.fetch_add(1, Ordering::Release);
    }
}

/// Catches a session that waits for its own thread on that very thread.
fn a_session_is_dropped_by_what_its_own_thread_wakes(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(32, 2).tenant(Tenant::new(0).mask(0)));
        let mut ticket = session.producer(0).unwrap().submit(add(1, 0)).unwrap();
        let waker = Arc::new(DropSession::default());
        let polled = std::pin::Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker.clone().into()));
        assert!(polled.is_pending(), "{shape}");
        // The waker waits for the lock, so it finds the session.
        waker.session.lock().unwrap().insert(session).set_mask(0, u32::MAX).unwrap();
        until("the session is dropped", || Ok(waker.dropped.load(Ordering::Acquire) != 0));
    }
}

/// Catches an entry among the waiters that stays after its future was dropped.
fn a_future_that_is_dropped_wakes_nobody_else(on: &On) {
    for shape in shapes(on, &[near(1), far(8)]) {
        let session = launch(on, &shape.spec(4, 1));
        let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
        for round in 0..100 {
            let mut ticket = producer.submit(add(1, 0)).unwrap();
            // The future is polled once and dropped, and the next lap uses its entry again.
            let mut context = Context::from_waker(Waker::noop());
            let _ = std::pin::Pin::new(&mut ticket).poll(&mut context);
            if round % 3 != 0 {
                assert_eq!(block_on(ticket), Ok(round), "{shape}");
            }
        }
    }
}

/// Catches a producer that is not told of a slot which another thread gives up.
fn a_producer_awaits_room(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 1));
        let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
        let mut tickets: Vec<Ticket> = (0..8).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        session.quiesce(soon()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        {
            // A future that is dropped before it is ready has submitted nothing, and others can still wait.
            let mut given_up = pin!(producer.submit_when_room(add(100, 0)));
            assert!(given_up.as_mut().poll(&mut context).is_pending(), "{shape}");
        }
        let waiter = std::thread::spawn(move || {
            let ticket = block_on(producer.submit_when_room(add(1, 0))).unwrap();
            (block_on(ticket), producer)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished(), "{shape}: there is no room");
        // The ticket is read before it is dropped, so its slot is free at once.
        assert!(tickets[0].has_ended(), "{shape}");
        drop(tickets.remove(0));
        let (end, mut producer) = waiter.join().unwrap();
        assert_eq!(end, Ok(8), "{shape}");
        drop(tickets);
        assert_eq!(run(&mut producer, add(1, 0)), Ok(9), "{shape}");
        let large = Some(SubmitError::TooLarge { wanted: 9, slots: 8 });
        assert_eq!(block_on(producer.submit_all_when_room([add(1, 0); 9])).err(), large, "{shape}");
    }
}

/// Catches a producer that is never woken for a ring whose tickets are dropped before their tasks have ended, or taken
/// elsewhere.
fn a_producer_awaits_room_for_many(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 2).tenant(Tenant::new(0).mask(0)));
        let mut producer = session.producer(0).unwrap();
        let most = producer.largest_batch() as u32;
        let mut total = 0;
        // The tickets are dropped unread. There is room for other tasks once these have run.
        while let Ok(span) = producer.submit_all((0..3).map(|_| add(1, 0))) {
            total += span.len() as u32;
        }
        let (give, take) = std::sync::mpsc::channel::<pelton::Span>();
        let taker = std::thread::spawn(move || {
            take.iter().map(|mut span| span.wait(soon()).unwrap().done).sum::<u32>()
        });
        let feeder = std::thread::spawn(move || {
            block_on(async {
                for round in 0..100 {
                    let count = round * 5 % most + 1;
                    let tasks = (0..count).map(|_| add(1, 0));
                    give.send(producer.submit_all_when_room(tasks).await.unwrap()).unwrap();
                }
            });
        });
        session.set_mask(0, u32::MAX).unwrap();
        feeder.join().unwrap();
        let taken = taker.join().unwrap();
        assert_eq!(taken, (0..100).map(|round| round * 5 % most + 1).sum::<u32>(), "{shape}");
        session.quiesce(soon()).unwrap();
        assert_eq!(data(&session)[0], total + taken, "{shape}");
    }
}

/// Catches a producer that waits for room in a session that is gone.
fn a_producer_that_awaits_room_hears_of_the_end(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 1).tenant(Tenant::new(0).mask(0)));
        let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
        let held = producer.submit_all([add(1, 0); 8]).unwrap();
        let waiter = std::thread::spawn(move || {
            let end = block_on(producer.submit_when_room(add(1, 0))).err();
            (end, block_on(producer.submit_when_room(add(1, 0))).err())
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished(), "{shape}");
        session.stop().unwrap();
        let stopped = Some(SubmitError::Ended(EndReason::Stopped));
        assert_eq!(waiter.join().unwrap(), (stopped, stopped), "{shape}");
        drop(held);
    }
}

/// A waker that counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Catches a producer that is woken again and again for slots that do not help it, or that it has taken back already.
fn a_producer_is_woken_no_more_often_than_slots_are_given_up(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 2));
        let mut producer = session.producer(0).unwrap().aim(Aim::Latency);
        let mut held: Vec<Ticket> = Vec::new();
        // These tasks take all slots of all stripes.
        while let Ok(ticket) = producer.submit(add(1, 0)) {
            held.push(ticket);
        }
        session.quiesce(soon()).unwrap();
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        // A full ring of far slots, or all near ones: what is given up one at a time is not enough until the end.
        producer.set_aim(Aim::Throughput);
        let wanted = producer.largest_batch() as usize;
        let mut future = pin!(producer.submit_all_when_room(vec![add(1, 1); wanted]));
        let (mut polls, slots) = (0, held.len() as u32);
        loop {
            polls += 1;
            let seen = count.0.load(Ordering::Relaxed);
            if let Poll::Ready(span) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                assert_eq!(span.unwrap().wait(soon()).unwrap().done as usize, wanted, "{shape}");
                break;
            }
            // One more slot is given up, always the oldest, so that it can be taken back. Like an executor, this polls
            // again when it is woken.
            drop(held.remove(0));
            until("it is woken", || Ok(count.0.load(Ordering::Relaxed) > seen));
        }
        assert!(polls <= slots + 1 && count.0.load(Ordering::Relaxed) <= slots, "{shape}: {polls} polls");
    }
}

/// Catches a producer that is woken for the slots of another.
fn two_producers_await_room_at_once(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(4, 1).producers(2));
        let mut held = Vec::new();
        let waiters = [0, 1].map(|cell| {
            let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
            held.push(producer.submit_all([add(1, cell); 4]).unwrap());
            std::thread::spawn(move || {
                block_on(async {
                    for before in 4..200 {
                        let ticket = producer.submit_when_room(add(1, cell)).await.unwrap();
                        assert_eq!(ticket.await, Ok(before));
                    }
                });
            })
        });
        // The slots of the second producer are given up first.
        for span in held.into_iter().rev() {
            drop(span);
        }
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(data(&session)[..2], [200, 200], "{shape}");
    }
}
