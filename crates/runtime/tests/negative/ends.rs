//! How sessions end: every stop returns and says what it left, and every ticket ends.

use std::sync::Arc;
use std::time::Duration;

use pelton::device::DeviceError;
use pelton::device::null::{Faults, Null};
use pelton::{
    Aim, Deadline, EndReason, Error, Handler, LossReason, Session, SessionEnd, Spec, SubmitError, Task,
    TaskError, Tenant, Ticket,
};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    stop_ends_a_kernel_with_work_in_flight,
    stop_ends_a_handler_that_never_does,
    tickets_outlive_their_session,
    producers_outlive_their_session,
    producers_are_given_back_and_taken_again,
    two_sessions_share_a_device,
    a_trap_loses_the_session_and_every_ticket_ends,
    a_lease_that_runs_out_says_so,
];

/// The opcode of a task that returns, after a while, how many came before it.
const NEXT: u32 = 9;
/// The opcode of a task that never ends.
const ENDLESS: u32 = 10;
/// The opcode of a task that ends the kernel.
const TRAP: u32 = 11;

fn spec(shape: Shape) -> Spec {
    shape
        .spec(256, 2)
        .fuel(u32::MAX)
        .handler_at(
            op(NEXT),
            "next",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let place = slot.atomic_add(0, 1);
                let x = f.range((f.lit(0), f.lit(300), f.lit(1)), f.lit(1), |_, k, x| x * 5 + k);
                slot.store(1, x);
                slot.finish(place);
            }),
        )
        .handler_at(
            op(ENDLESS),
            "endless",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                f.forever::<_, ()>(f.lit(0), |_, k| {
                    slot.store(1, k);
                    k + 1
                });
            }),
        )
        .handler_at(op(TRAP), "trap", Handler::lane_wide(|slot| slot.body().trap(7)).may_trap())
}

/// Catches a stop that waits for an empty ring, and one that forgets what it left.
fn stop_ends_a_kernel_with_work_in_flight(on: &On) {
    for shape in shapes(on, ALL) {
        // There is time enough to finish the tasks that were taken, so the device need not end the kernel.
        let session = launch(on, &spec(shape).tenant(Tenant::new(0).producers(2)));
        let mut producers = [session.producer(0).unwrap(), session.producer(0).unwrap()];
        let tasks = vec![Task::new(op(NEXT)); 200];
        let mut spans: Vec<_> = producers.iter_mut().map(|p| p.submit_all(tasks.clone()).unwrap()).collect();
        until("something has run", || Ok(data(&session)[0] > 0));
        let stopped = session.stop_within(Duration::from_secs(60)).unwrap();
        assert!(!stopped.forced, "{shape}");
        let mut places = Vec::new();
        for (span, left) in spans.iter_mut().zip(&stopped.left) {
            assert!(span.has_ended(), "{shape}: every ticket ends");
            let before = places.len();
            for end in span.results() {
                match end {
                    Ok(place) => places.push(place),
                    end => assert_eq!(end, Err(TaskError::Stopped { steps: 0 }), "{shape}"),
                }
            }
            assert_eq!((places.len() - before) as u64 + left, 200, "{shape}: {stopped:?}");
        }
        // Tasks that were taken were finished and the others never ran, so no turn is missing.
        places.sort();
        assert_eq!(places, (0..places.len() as u32).collect::<Vec<_>>(), "{shape}");
        assert!(matches!(producers[0].submit(add(1, 0)), Err(SubmitError::Ended(_))), "{shape}");
    }
}

/// Catches a kernel whose only stop is between windows.
fn stop_ends_a_handler_that_never_does(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let mut endless: Vec<Ticket> =
            (0..4).map(|_| producer.submit(Task::new(op(ENDLESS))).unwrap()).collect();
        let mut behind: Vec<Ticket> = (0..4).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        until("it runs", || Ok(data(&session)[1] > 0));
        let stopped = session.stop_within(Duration::from_millis(100)).unwrap();
        assert!(stopped.forced, "{shape}");
        let ends = endless.iter_mut().chain(&mut behind).map(|ticket| ticket.result());
        let left = ends.filter(|end| *end == Err(TaskError::Stopped { steps: 0 })).count();
        assert!(left >= 4 && stopped.tasks_left() == left as u64, "{shape}: {stopped:?}, {left} tickets");
    }
}

/// Catches tickets that wait for a kernel that is gone.
fn tickets_outlive_their_session(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).tenant(Tenant::new(1).mask(0)));
        let (mut producer, mut idle) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        let mut done = producer.submit(add(1, 5)).unwrap();
        assert_eq!(done.wait(soon()), Ok(0), "{shape}");
        let mut left = idle.submit(add(1, 5)).unwrap();
        let mut span = idle.submit_all([add(1, 5); 5]).unwrap();
        let waits = idle.submit(add(1, 5)).unwrap();
        let waiter = std::thread::spawn(move || {
            let mut waits = waits;
            waits.wait(Deadline::Never)
        });
        drop(session);
        assert_eq!(waiter.join().unwrap(), Err(TaskError::Stopped { steps: 0 }), "{shape}");
        assert_eq!(done.result(), Ok(0), "{shape}: what has ended keeps its result");
        assert_eq!(left.result(), Err(TaskError::Stopped { steps: 0 }), "{shape}");
        assert_eq!(span.wait(soon()).unwrap().left, 5, "{shape}");
        left.cancel();
        assert_eq!(left.wait(soon()), Err(TaskError::Stopped { steps: 0 }), "{shape}");
    }
}

/// Catches a producer that waits for room that nobody will make.
fn producers_outlive_their_session(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).tenant(Tenant::new(0).mask(0)));
        let producer = session.producer(0).unwrap().aim(Aim::Throughput);
        let mut producer = producer.patience(Deadline::Never);
        let feeder = std::thread::spawn(move || {
            let mut tickets = Vec::new();
            loop {
                match producer.submit(add(1, 0)) {
                    Ok(ticket) => tickets.push(ticket),
                    Err(error) => return (tickets, error, producer),
                }
            }
        });
        // The producer waits once its rings are full.
        let room = session
            .layout()
            .banks
            .iter()
            .next_back()
            .map_or(0, |bank| u64::from(bank.ring_stripes * bank.stripe_slots()));
        until("the ring is full", || Ok(session.snapshot()?.occupancy.published == room));
        assert_eq!(session.stop().unwrap().tasks_left(), room, "{shape}");
        let (mut tickets, error, mut producer) = feeder.join().unwrap();
        let stopped = SubmitError::Ended(EndReason::Stopped);
        assert_eq!((tickets.len() as u64, error), (room, stopped), "{shape}");
        assert!(
            tickets.iter_mut().all(|ticket| ticket.result() == Err(TaskError::Stopped { steps: 0 })),
            "{shape}"
        );
        assert_eq!(producer.submit_all([add(1, 0)]).err(), Some(stopped), "{shape}");
        assert!(matches!(producer.session_end(), Some(SessionEnd::Stopped)), "{shape}");
    }
}

/// Catches a producer that forgets where the one before it was, or what is still held.
fn producers_are_given_back_and_taken_again(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &shape.spec(8, 1).producers(2));
        let keep = session.producer(0).unwrap();
        let mut held = Vec::new();
        for round in 0..20 {
            let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
            assert!(
                matches!(session.producer(0), Err(Error::NoIdleProducer { tenant: 0, count: 2 })),
                "{shape}"
            );
            // Three tasks at a time go into eight slots, and are held until the next producer has had its turn.
            let next = producer.submit_all([add(1, 2); 3]).unwrap();
            held.push(next);
            if held.len() > 1 {
                let mut span = held.remove(0);
                assert_eq!(span.wait(soon()).unwrap().done, 3, "{shape}, round {round}");
            }
            if round == 10 {
                let full = SubmitError::Full { room: 5, wanted: 6 };
                assert_eq!(producer.submit_all([add(1, 2); 6]).err(), Some(full), "{shape}");
            }
        }
        drop(keep);
        held.remove(0).wait(soon()).unwrap();
        assert_eq!(data(&session)[2], 60, "{shape}");
    }
}

/// Catches words that sessions of a device share.
fn two_sessions_share_a_device(on: &On) {
    for shape in shapes(on, SOME) {
        let spec = shape.spec(64, 1).share(50);
        let sessions = [launch(on, &spec), launch(on, &spec)];
        let mut producers = sessions.each_ref().map(|session| session.producer(0).unwrap());
        for round in 0..50 {
            assert_eq!(run(&mut producers[0], add(1, 0)), Ok(round), "{shape}");
            assert_eq!(run(&mut producers[1], add(2, 0)), Ok(round * 2), "{shape}");
        }
        let [first, second] = sessions;
        first.stop().unwrap();
        assert_eq!(run(&mut producers[1], add(2, 0)), Ok(100), "{shape}: the other goes on");
        assert_eq!(second.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// Catches a kernel that ends by itself and is waited for all the same.
fn a_trap_loses_the_session_and_every_ticket_ends(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape).tenant(Tenant::new(1).mask(0)));
        let (mut producer, mut idle) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        assert_eq!(run(&mut producer, add(1, 0)), Ok(0), "{shape}");
        let mut waits = idle.submit(add(1, 0)).unwrap();
        let mut trap = producer.submit(Task::new(op(TRAP))).unwrap();
        let reason = LossReason::Trap;
        assert_eq!(trap.wait(soon()), Err(TaskError::Lost { reason, may_have_run: true }), "{shape}");
        assert_eq!(waits.wait(soon()), Err(TaskError::Lost { reason, may_have_run: true }), "{shape}");
        let ended = SubmitError::Ended(EndReason::Lost(reason));
        assert_eq!(idle.submit(add(1, 0)).err(), Some(ended), "{shape}");
        assert!(matches!(session.producer(0), Err(Error::Ended(_))), "{shape}");
        assert!(matches!(session.quiesce(soon()), Err(Error::Ended(_))), "{shape}");
        assert!(matches!(session.stop(), Err(Error::Device(_))), "{shape}");
    }
}

/// Catches a lease that runs out and leaves tickets waiting, or an end that does not say that it was the lease.
fn a_lease_that_runs_out_says_so(on: &On) {
    for shape in shapes(on, &[near(1), far(8)]) {
        let lease = Duration::from_millis(200);
        let spec = spec(shape).tenant(Tenant::new(1).mask(0)).lease(lease);
        let session = launch(on, &spec);
        let (mut producer, mut idle) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        assert_eq!(run(&mut producer, add(1, 0)), Ok(0), "{shape}");
        assert!(session.session_end().is_none() && producer.session_end().is_none(), "{shape}");
        let mut waits = idle.submit(add(1, 0)).unwrap();
        session.stop_renewing();
        assert_eq!(
            waits.wait(soon()),
            Err(TaskError::Lost { reason: LossReason::Lease, may_have_run: true }),
            "{shape}"
        );
        let ended = SubmitError::Ended(EndReason::Lost(LossReason::Lease));
        assert_eq!(producer.submit(add(1, 0)).err(), Some(ended), "{shape}");
        let text =
            "the session has ended: the lease of its kernel ran out without a sign of life from the host";
        assert_eq!(ended.to_string(), text, "{shape}");
        let says = |error: Error| {
            let text =
                "the session has ended: the lease of its kernel ran out after 200ms without a sign of life";
            assert!(error.to_string().starts_with(text), "{shape}: {error}");
        };
        says(session.producer(0).unwrap_err());
        says(session.quiesce(soon()).unwrap_err());
        assert!(matches!(session.session_end(), Some(SessionEnd::Lease(found)) if found == lease), "{shape}");
        says(session.stop().unwrap_err());
        // A producer that outlives its session still knows how it ended.
        assert!(
            matches!(producer.session_end(), Some(SessionEnd::Lease(found)) if found == lease),
            "{shape}"
        );
    }
}

/// Catches an end whose cause is not reported.
pub(crate) fn a_lost_session_says_why() {
    let soon_lost = Some(Duration::from_millis(20));
    let trap = Faults { trap_after: soon_lost, ..Faults::default() };
    let lost = Faults { lost_after: soon_lost, ..Faults::default() };
    for (faults, reason, text) in [
        (trap, LossReason::Trap, "the session has ended: the kernel trapped with code 7 in `"),
        (lost, LossReason::Device, "the session has ended: the device is lost: told to be"),
    ] {
        let device: On = Arc::new(Null::new(faults));
        let session = Session::launch(&device, &Spec::default()).unwrap();
        let mut producer = session.producer(0).unwrap();
        let mut ticket = producer.submit(Task::new(pelton::Opcode::NOP)).unwrap();
        assert_eq!(ticket.wait(soon()), Err(TaskError::Lost { reason, may_have_run: true }));
        let error = session.producer(0).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
        let end = producer.session_end().unwrap();
        assert_eq!(end.reason(), EndReason::Lost(reason));
        // A trap is reported with its instruction.
        match end {
            SessionEnd::Device(error) => match &*error {
                DeviceError::Fault { code, function, instruction, .. } => {
                    assert!(*code == 7 && !function.is_empty() && !instruction.is_empty(), "{error}");
                    let text = format!("the kernel trapped with code 7 in `{instruction}` of `{function}`");
                    assert_eq!(error.to_string(), text);
                }
                error => assert!(matches!(error, DeviceError::Lost(_)), "{error}"),
            },
            end => panic!("{end}"),
        }
        assert!(matches!(session.stop(), Err(Error::Device(_))));
    }
}

/// Catches tickets that only a kernel can end.
pub(crate) fn lost_by_its_device() {
    let faults = Faults { lost_after: Some(Duration::from_millis(50)), ..Faults::default() };
    let device: On = Arc::new(Null::new(faults));
    let session = Session::launch(&device, &Spec::default()).unwrap();
    let mut producer = session.producer(0).unwrap();
    let mut ticket = producer.submit(Task::new(pelton::Opcode::NOP)).unwrap();
    assert_eq!(ticket.wait(soon()), Err(TaskError::Lost { reason: LossReason::Device, may_have_run: true }));
    let ended = SubmitError::Ended(EndReason::Lost(LossReason::Device));
    assert_eq!(producer.submit(Task::new(pelton::Opcode::NOP)).err(), Some(ended));
    assert!(session.stop().is_err());
    for faults in [
        Faults { alloc: Some(0), ..Faults::default() },
        Faults { alloc: Some(5), ..Faults::default() },
        Faults { load: Some(0), ..Faults::default() },
        Faults { launch: Some(0), ..Faults::default() },
    ] {
        let device: On = Arc::new(Null::new(faults));
        assert!(matches!(Session::launch(&device, &Spec::default()), Err(Error::Device(_))), "{faults:?}");
        // A launch that failed leaves nothing behind, and the next one may succeed.
        assert_eq!(launch(&device, &Spec::default()).stop().unwrap().tasks_left(), 0, "{faults:?}");
    }
}
