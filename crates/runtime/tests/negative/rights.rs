//! Rights and credit that change while the kernel runs: when a change holds, and what cannot be asked for.

use std::sync::atomic::{AtomicBool, Ordering};

use pelton::kernel::AssembleError;
use pelton::protocol::FaultCode;
use pelton::{Error, Handler, Opcode, Producer, Session, Spec, Task, TaskError, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    a_mask_holds_for_the_next_task,
    a_mask_holds_for_tasks_of_other_threads,
    a_quota_holds_for_the_next_task,
    a_change_does_not_wait_for_tasks_that_run,
    a_tenant_that_waits_for_rights_is_served_as_soon_as_it_has_them,
    credit_is_granted_read_and_used_up,
    more_credit_than_can_be_counted_is_refused,
];

/// The opcode of tasks that run for a while, in a loop that uses fuel.
const TURN: u32 = 9;
/// The element of `data` in which those tasks count how many of them have begun.
const BEGUN: u32 = 9;

/// A session with another tenant, whose producer keeps the kernel's groups busy.
fn session(on: &On, shape: Shape) -> Session {
    launch(on, &spec(shape))
}

fn spec(shape: Shape) -> Spec {
    shape.spec(64, 2).tenant(Tenant::new(1)).fuel(u32::MAX).handler_at(
        op(TURN),
        "turn",
        Handler::lane_wide(|slot| {
            let f = slot.body();
            let many = slot.arg(0);
            // The test can see in `data` that the task has begun.
            slot.atomic_add(BEGUN, 1);
            let turns = f.forever::<_, _>(f.lit(0), |turns, k| {
                f.when(k.eq(many), || turns.leave(k));
                k + 1
            });
            slot.finish(turns);
        }),
    )
}

/// Lets another thread submit tasks of a tenant while a closure runs.
fn beside(session: &Session, test: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = session.producer(1).unwrap();
            while !over.load(Ordering::Relaxed) {
                let mut span = producer.submit_all([add(1, 5); 9]).unwrap();
                span.wait(soon()).unwrap();
                std::thread::yield_now();
            }
        });
        test();
        over.store(true, Ordering::Relaxed);
    });
}

/// Catches a mask that is read before the task is seen, a copy of the control words that is renewed now and then, a
/// watch or a router that goes on with what it read before, and a host that does not wait.
fn a_mask_holds_for_the_next_task(on: &On) {
    for shape in shapes(on, ALL) {
        let session = session(on, shape);
        let mut producer = session.producer(0).unwrap();
        beside(&session, || {
            for round in 0..60 {
                session.set_mask(0, !op(ADD).mask_bit()).unwrap();
                // A single task is run by the lane that polls, and a few tasks by a group.
                for count in [1, 5] {
                    let mut span = producer.submit_all(vec![add(1, 3); count]).unwrap();
                    span.wait(soon()).unwrap();
                    let denied = span.results().filter(|end| *end == fault(FaultCode::DENIED)).count();
                    assert_eq!(denied, count, "{shape}, round {round}: a mask came late");
                }
                session.allow(0, &[op(ADD)]).unwrap();
                for count in [1, 5] {
                    let mut span = producer.submit_all(vec![add(1, 3); count]).unwrap();
                    assert_eq!(span.wait(soon()).unwrap().done as usize, count, "{shape}, round {round}");
                }
            }
        });
        assert_eq!(data(&session)[3], 60 * 6, "{shape}");
    }
}

/// Catches a promise that is kept only for the thread that makes the change.
fn a_mask_holds_for_tasks_of_other_threads(on: &On) {
    for shape in shapes(on, SOME) {
        let session = session(on, shape);
        let (ask, asked) = std::sync::mpsc::channel::<Result<u32, TaskError>>();
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let mut producer: Producer = session.producer(0).unwrap();
            scope.spawn(move || {
                for expected in asked {
                    assert_eq!(run(&mut producer, Task::new(Opcode::NOP)), expected, "{shape}");
                    answer.send(()).unwrap();
                }
            });
            for _ in 0..40 {
                for (mask, expected) in
                    [(!Opcode::NOP.mask_bit(), fault(FaultCode::DENIED)), (u32::MAX, Ok(0))]
                {
                    session.set_mask(0, mask).unwrap();
                    ask.send(expected).unwrap();
                    answered.recv().unwrap();
                }
            }
            drop(ask);
        });
    }
}

/// Catches a task that begins without being charged although there is a quota, and one that waits although there is
/// none.
fn a_quota_holds_for_the_next_task(on: &On) {
    for shape in shapes(on, ALL) {
        let session = session(on, shape);
        let mut producer = session.producer(0).unwrap();
        let mut charged = 0;
        beside(&session, || {
            for round in 0..25 {
                session.set_quota(0, charged + 3).unwrap();
                let mut tickets: Vec<_> = (0..5).map(|_| producer.submit(add(1, 7)).unwrap()).collect();
                charged += 3;
                until("the credit is used up", || Ok(session.credit(0)? == Some(0)));
                until("what had credit has run", || Ok(data(&session)[7] >= round * 5 + 3));
                // Other tenants are served meanwhile, and this one is not.
                std::thread::yield_now();
                assert_eq!(data(&session)[7], round * 5 + 3, "{shape}, round {round}: a quota came late");
                session.set_quota(0, 0).unwrap();
                for ticket in &mut tickets {
                    ticket.wait(soon()).unwrap();
                }
                assert_eq!(session.credit(0).unwrap(), None, "{shape}");
            }
        });
    }
}

/// Catches a change that waits until a window has ended: whoever runs long tasks would decide when others lose their
/// rights.
fn a_change_does_not_wait_for_tasks_that_run(on: &On) {
    for shape in shapes(on, ALL) {
        let session = session(on, shape);
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        // There are more tasks than groups, and each runs for longer than any test may take.
        let many = 8 * shape.lanes.max(1) as usize;
        let mut long = other.submit_all(vec![Task::new(op(TURN)).args([u32::MAX]); many.min(64)]).unwrap();
        let view = session.view::<u32>(1, "data").unwrap();
        until("a long task has begun", || Ok(view.read(BEGUN as usize, 1)?[0] > 0));
        for _ in 0..10 {
            session.set_mask(0, 0).unwrap();
            session.set_mask(0, u32::MAX).unwrap();
            session.set_quota(0, 1).unwrap();
            session.set_quota(0, 0).unwrap();
        }
        session.set_mask(0, 0).unwrap();
        let mut ticket = producer.submit(add(1, 0)).unwrap();
        assert!(!ticket.has_ended(), "{shape}");
        assert!(!long.has_ended(), "{shape}: they are meant to take long");
        let stopped = session.stop_within(std::time::Duration::from_millis(1)).unwrap();
        assert!(stopped.forced, "{shape}: they were to run until the device stopped them: {stopped:?}");
    }
}

/// Catches groups that rest although a change has given them something to do.
fn a_tenant_that_waits_for_rights_is_served_as_soon_as_it_has_them(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape).tenant(Tenant::new(0).mask(0)));
        let mut producer = session.producer(0).unwrap();
        for round in 0..3 {
            let mut span = producer.submit_all([add(1, 2); 7]).unwrap();
            // This is long enough for every group to park.
            std::thread::sleep(std::time::Duration::from_millis(60));
            assert_eq!(data(&session)[2], round * 7, "{shape}");
            session.set_mask(0, u32::MAX).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, 7, "{shape}");
            session.set_mask(0, 0).unwrap();
        }
    }
}

/// Catches credit that is not what is left, that a grant replaces instead of adding to it, and a grant that takes an
/// unlimited tenant's freedom away.
fn credit_is_granted_read_and_used_up(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).tenant(Tenant::new(0).quota(4)));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        assert_eq!(session.credit(0).unwrap(), Some(4), "{shape}");
        assert_eq!(session.credit(1).unwrap(), None, "{shape}");
        session.grant(1, 5).unwrap();
        assert_eq!(session.credit(1).unwrap(), None, "{shape}");
        let mut tickets: Vec<_> = (0..12).map(|_| producer.submit(add(1, 7)).unwrap()).collect();
        for (more, ran) in [(0, 4), (3, 7), (1, 8), (0, 8), (4, 12)] {
            session.grant(0, more).unwrap();
            until("the credit is used up", || Ok(data(&session)[7] >= ran));
            assert_eq!(run(&mut other, add(1, 0)).err(), None, "{shape}");
            assert_eq!(data(&session)[7], ran, "{shape}, {more} more");
            until("the account is settled", || Ok(session.credit(0)? == Some(0)));
        }
        for ticket in &mut tickets {
            ticket.wait(soon()).unwrap();
        }
        session.grant(0, 10).unwrap();
        assert_eq!(session.credit(0).unwrap(), Some(10), "{shape}");
        // The quota counts from the launch, and 12 tasks were charged since.
        session.set_quota(0, 20).unwrap();
        assert_eq!(session.credit(0).unwrap(), Some(8), "{shape}");
        session.set_quota(0, 5).unwrap();
        assert_eq!(session.credit(0).unwrap(), Some(0), "{shape}");
        // Seven tasks more were charged than the quota allows now, so a grant of ten leaves three.
        session.grant(0, 10).unwrap();
        assert_eq!(session.credit(0).unwrap(), Some(3), "{shape}");
        for id in [2, 29, u32::MAX] {
            assert!(matches!(session.grant(id, 1), Err(Error::UnknownTenant(n)) if n == id), "{shape}");
            assert!(matches!(session.credit(id), Err(Error::UnknownTenant(n)) if n == id), "{shape}");
            assert!(matches!(session.set_quota(id, 1), Err(Error::UnknownTenant(n)) if n == id), "{shape}");
        }
    }
}

/// Catches a quota that is so large that it looks used up, and is taken without a word.
fn more_credit_than_can_be_counted_is_refused(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let most = Tenant::MAX_QUOTA;
        for quota in [most + 1, 1 << 31, u32::MAX] {
            let end = Session::launch(on, &spec(shape).tenant(Tenant::new(0).quota(quota))).err();
            assert!(
                matches!(end, Some(Error::Refused(AssembleError::Tenant { id: 0, .. }))),
                "{shape}: {quota}"
            );
        }
        let session = launch(on, &spec(shape).tenant(Tenant::new(0).quota(most)));
        let mut producer = session.producer(0).unwrap();
        assert_eq!(run(&mut producer, add(1, 0)), Ok(0), "{shape}");
        until("the task is charged", || Ok(session.credit(0)? == Some(u64::from(most) - 1)));
        session.grant(0, 1).unwrap();
        assert!(matches!(session.grant(0, 1), Err(Error::TooMuchCredit { tenant: 0, .. })), "{shape}");
        assert!(
            matches!(session.set_quota(0, u32::MAX), Err(Error::TooMuchCredit { tenant: 0, .. })),
            "{shape}"
        );
        assert_eq!(session.credit(0).unwrap(), Some(most.into()), "{shape}");
        assert_eq!(run(&mut producer, add(1, 0)), Ok(1), "{shape}");
    }
}
