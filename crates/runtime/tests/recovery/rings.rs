//! What tickets, futures and producers see of a loss.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park_timeout};

use pelton::{Claim, Deadline, Priority, TaskError, Tenant};

use crate::*;

/// Catches a session that ends with its device, and tickets that end as lost although their task can run again.
#[test]
fn a_session_goes_on_after_each_of_many_losses() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for round in 0..5 {
            for at in 0..10 {
                let end = submit(&session, &mut producer, "mark", at).wait(LONG);
                assert_eq!(end, Ok(at * 2), "{} round {round}", shape.name);
            }
            shape.device.lose();
        }
        assert_eq!(submit(&session, &mut producer, "mark", 7).wait(LONG), Ok(14), "{}", shape.name);
        assert_eq!(recovery(&session).count, 5, "{}", shape.name);
        assert!(session.session_end().is_none(), "{}", shape.name);
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{}", shape.name);
    });
}

/// Catches a kernel that ignores a record below the position up to which the session has recovered, so that a task runs
/// twice; one that lets a cancel win over a record that came before it; and one that counts a task twice.
#[test]
fn a_task_with_a_record_is_passed_over() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        session.set_mask(0, 0).unwrap();
        let mut tickets: Vec<Ticket> = (0..6).map(|at| submit(&session, &mut producer, "mark", at)).collect();
        tickets[1].cancel();
        tickets[1].post_result(111);
        tickets[3].post_result(333);
        tickets[4].cancel();
        shape.device.lose();
        until_recovered(&session, 1);
        let last = recovery(&session).last.unwrap();
        assert_eq!((last.unfinished, last.lost), (4, 0), "{}", shape.name);
        session.set_mask(0, u32::MAX).unwrap();
        let ends: Vec<_> = tickets.iter_mut().map(|ticket| ticket.wait(LONG)).collect();
        let cancelled = Err(TaskError::Cancelled { steps: 0 });
        assert_eq!(ends, [Ok(0), Ok(111), Ok(4), Ok(333), cancelled, Ok(10)], "{}", shape.name);
        session.quiesce(LONG).unwrap();
        let marks: Vec<u32> = (0..6).map(|at| element(&session, at)).collect();
        assert_eq!(marks, [1, 0, 1, 0, 0, 1], "{}", shape.name);
        until("tasks are counted", || session.snapshot().unwrap().done >= 4);
        assert_eq!(session.snapshot().unwrap().done, 4, "{}", shape.name);
    });
}

/// Catches a poller that runs a light task at once which has ended before: it waits alone behind one that has not.
#[test]
fn a_poller_leaves_what_may_have_ended_to_a_group() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        session.set_mask(0, 0).unwrap();
        let mut tickets: Vec<Ticket> = (0..3).map(|at| submit(&session, &mut producer, "mark", at)).collect();
        let first_of_stripe: Vec<bool> = (0..3)
            .map(|at| tickets[..at].iter().all(|earlier| earlier.stripe() != tickets[at].stripe()))
            .collect();
        for (ticket, _) in tickets.iter_mut().zip(&first_of_stripe).filter(|(_, first)| !**first) {
            ticket.post_result(222);
        }
        shape.device.lose();
        until_recovered(&session, 1);
        session.set_mask(0, u32::MAX).unwrap();
        session.quiesce(LONG).unwrap();
        for ((at, ticket), first) in (0..).zip(&mut tickets).zip(first_of_stripe) {
            assert_eq!(ticket.wait(LONG), Ok(if first { at * 2 } else { 222 }), "{}", shape.name);
            assert_eq!(element(&session, at), u32::from(first), "{}", shape.name);
        }
    });
}

/// Catches a group that waits for ever for the line of a task that has ended, because the producer has used its slot again.
/// It also catches a tenant that is charged for tasks in another way than before the loss.
#[test]
fn slots_of_ended_tasks_may_be_used_again_before_the_kernel_gets_there() {
    for placement in [Placement::Near, Placement::Far] {
        in_shapes(ALL, &[placement], |shape| {
            let mut spec = shape.spec(8).tenant(Tenant::new(0).quota(1));
            spec.geometry.groups = Some(1);
            let session = shape.launch(&spec);
            let mut producer = session.producer(0).unwrap().patience(LONG);
            session.set_mask(0, 0).unwrap();
            let mut tickets: Vec<Ticket> =
                (0..4).map(|at| submit(&session, &mut producer, "mark", at)).collect();
            (1..4).for_each(|at| tickets[at].post_result(100 + at as u32));
            shape.device.lose();
            until_recovered(&session, 1);
            assert_eq!(session.credit(0).unwrap(), Some(1), "{}", shape.name);
            session.set_mask(0, u32::MAX).unwrap();
            assert_eq!(tickets[0].wait(LONG), Ok(0), "{}", shape.name);
            assert_eq!(session.credit(0).unwrap(), Some(0), "{}", shape.name);
            // The kernel has no credit to pass over the others, and their slots are free for the next lap.
            tickets.clear();
            let mut next: Vec<Ticket> =
                (10..18).map(|at| submit(&session, &mut producer, "mark", at)).collect();
            session.grant(0, 3 + 8).unwrap();
            for (at, ticket) in (10..18).zip(&mut next) {
                assert_eq!(ticket.wait(LONG), Ok(at * 2), "{}", shape.name);
            }
            assert_eq!(session.credit(0).unwrap(), Some(0), "{}", shape.name);
            assert_eq!((1..4).map(|at| element(&session, at)).sum::<u32>(), 0, "{}", shape.name);
        });
    }
}

/// Catches a task that runs again although another group has ended it, while one before it had not ended.
#[test]
fn what_ended_before_an_older_task_stays_ended() {
    in_shapes(ALL, &[Placement::Far], |shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let mut old = submit(&session, &mut producer, "wait", 1);
        until_waiting(&session);
        let mut young: Vec<Ticket> = (2..20).map(|at| submit(&session, &mut producer, "mark", at)).collect();
        for (at, ticket) in (2..20).zip(&mut young) {
            assert_eq!(ticket.wait(LONG), Ok(at * 2), "{}", shape.name);
        }
        go_on(&session);
        shape.device.lose();
        assert_eq!(old.wait(LONG), Ok(2), "{}", shape.name);
        assert_eq!(submit(&session, &mut producer, "mark", 20).wait(LONG), Ok(40), "{}", shape.name);
        let marks: Vec<u32> = (1..21).map(|at| element(&session, at)).collect();
        assert_eq!(marks[0], 1, "{}", shape.name);
        assert!(marks[1..19].iter().all(|marks| *marks == 0), "{}: {marks:?}", shape.name);
        assert_eq!(marks[19], 1, "{}", shape.name);
        let last = recovery(&session).last.unwrap();
        assert_eq!((last.unfinished, last.lost), (1, 0), "{}", shape.name);
    });
}

/// A waker that unparks a thread.
pub(crate) struct Unpark(pub(crate) Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Catches a future that is not woken, because the reaper that should wake it is the one who recovers.
#[test]
fn futures_are_woken_after_a_loss() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let mut ticket = submit(&session, &mut producer, "wait", 1);
        let waker = Waker::from(Arc::new(Unpark(current())));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending(), "{}", shape.name);
        until_waiting(&session);
        go_on(&session);
        shape.device.lose();
        let end = Instant::now() + LONG;
        loop {
            if let Poll::Ready(result) = Pin::new(&mut ticket).poll(&mut context) {
                break assert_eq!(result, Ok(2), "{}", shape.name);
            }
            assert!(Instant::now() < end, "{}: it is never woken", shape.name);
            park_timeout(LONG);
        }
    });
}

/// Catches fences that end before tasks that begin again, and epochs that come twice or go back.
#[test]
fn fences_end_after_tasks_that_begin_again() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64).tenant(Tenant::new(0).observables(1)));
        let mut producer = session.producer(0).unwrap();
        let fence = |count: u32| Task::new(Opcode::BATCH_FENCE).args([count, 9]);
        let mut before = producer.submit_all([task(&session, "mark", &[1]), fence(1)]).unwrap();
        before.wait(LONG).unwrap();
        assert_eq!(before.result(1), Some(Ok(1)), "{}", shape.name);
        drop(before);
        assert_eq!(session.epoch().unwrap(), 1, "{}", shape.name);
        let tasks = [task(&session, "wait", &[1]), fence(1), task(&session, "mark", &[2]), fence(3)];
        let mut span = producer.submit_all(tasks).unwrap();
        until_waiting(&session);
        go_on(&session);
        shape.device.lose();
        span.wait(LONG).unwrap();
        let results: Vec<_> = span.results().collect();
        assert_eq!(results, [Ok(2), Ok(2), Ok(4), Ok(3)], "{}", shape.name);
        assert_eq!(session.epoch().unwrap(), 3, "{}", shape.name);
        assert_eq!(session.view::<u32>(0, "observable").unwrap().read(0, 1).unwrap(), [9], "{}", shape.name);
    });
}

/// Catches replies that are lost or overwritten, and payloads that a task which begins again does not find.
#[test]
fn payloads_and_replies_survive() {
    everywhere(|shape| {
        let swap = Handler::lane_wide(|task| {
            let (f, data) = (task.body(), task.data());
            f.forever::<_, ()>(f.lit(0), |wait, turns| {
                let go = f.atomic_load(Order::Relaxed, Scope::System, data.at(GO));
                f.when(go.ge(task.arg(0)), || wait.leave(()));
                turns + 1
            });
            let (payload, reply) = (task.payload(), task.reply());
            f.store(reply.at(0), f.load(payload.at(1)) + f.load(data.at(GO)) * 100);
            f.store(reply.at(1), f.load(payload.at(0)));
            task.set_reply_len(8);
            task.finish(task.payload_len());
        });
        let session = shape.launch(&shape.spec(64).payload(64).reply(16).handler("swap", swap));
        let mut producer = session.producer(0).unwrap();
        let swap = |arg: u32| task(&session, "swap", &[arg]);
        let mut ended = producer.submit(swap(0).words(&[3, 4])).unwrap();
        assert_eq!(ended.wait(LONG), Ok(8), "{}", shape.name);
        let mut open = producer.submit(swap(1).words(&[5, 6])).unwrap();
        go_on(&session);
        shape.device.lose();
        let mut reply = [0; 2];
        assert_eq!(open.wait_words(LONG, &mut reply), Ok(2), "{}", shape.name);
        assert_eq!(reply, [106, 5], "{}", shape.name);
        assert_eq!(ended.reply_words(&mut reply), Ok(2), "{}", shape.name);
        assert_eq!(reply, [4, 3], "{}: what has ended stays as it is", shape.name);
    });
}

/// Catches rings of some level that are not served after a loss.
#[test]
fn every_level_is_served_after_a_loss() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(16).claim(Claim::PRIORITY));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        session.set_mask(0, 0).unwrap();
        let mut tickets: Vec<Ticket> = Vec::new();
        for (at, priority) in (0..).zip(Priority::ALL.iter().copied()) {
            let mark = task(&session, "mark", &[at]).priority(priority);
            tickets.extend((0..4).map(|_| producer.submit(mark).unwrap()));
        }
        shape.device.lose();
        until_recovered(&session, 1);
        session.set_mask(0, u32::MAX).unwrap();
        for (at, ticket) in tickets.iter_mut().enumerate() {
            assert_eq!(ticket.wait(LONG), Ok(at as u32 / 4 * 2), "{}", shape.name);
        }
    });
}

/// Catches a producer that never gets its slots back, because their tickets were dropped before the loss.
#[test]
fn slots_of_dropped_tickets_come_back() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(16));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for round in 0..3 {
            session.set_mask(0, 0).unwrap();
            for at in 0..producer.largest_batch() as u32 {
                drop(submit(&session, &mut producer, "mark", at % 7));
            }
            shape.device.lose();
            until_recovered(&session, round + 1);
            session.set_mask(0, u32::MAX).unwrap();
            session.quiesce(LONG).unwrap();
        }
        producer.set_patience(Deadline::Now);
        let all = vec![task(&session, "mark", &[1]); producer.largest_batch() as usize];
        let mut span = producer.submit_all(all).unwrap();
        span.wait(LONG).unwrap();
        assert!(span.results().all(|result| result == Ok(2)), "{}", shape.name);
    });
}
