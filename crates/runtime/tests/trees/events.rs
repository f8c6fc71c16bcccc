//! Events: nobody is resumed twice, and no signal is lost.

use std::time::Duration;

use pelton::protocol::FaultCode;
use pelton::{Batch, Handler, Opcode, Session, Spec, SubmitError, Task, TaskError, TaskState};

use crate::everywhere::{LONG, everywhere};
use crate::{element, fault_code};

/// Waits for the event and the count in its arguments, and then adds one to element 0 and gives the value before.
fn waiter() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| task.wait_event(task.arg(0), task.arg(1)));
        task.finish(task.atomic_add(0, 1));
    })
}

/// Signals the event in its first argument as often as the second says.
fn signaller() -> Handler {
    Handler::lane_wide(|task| {
        task.signal(task.arg(0), task.arg(1));
        task.finish(0);
    })
}

/// Every device assembles and compiles the kernel once for all cases. Each case has events of its own.
#[test]
fn events_on_every_device() {
    let spec =
        |spec: Spec| spec.cells(256).events(6).handler("waiter", waiter()).handler("signaller", signaller());
    everywhere(spec, |session, shape| {
        tasks_wait_until_an_event_has_come_often_enough(session, (0, 1), shape);
        tasks_begin_after_an_event(session, 2, shape);
        a_task_that_waits_for_an_event_can_be_cancelled_paused_and_resumed(session, 3, shape);
        signals_and_waits_that_meet_lose_nothing(session, 4, shape);
        session.quiesce(LONG).unwrap();
    });
}

fn tasks_wait_until_an_event_has_come_often_enough(
    session: &Session,
    (event, other_event): (u32, u32),
    shape: &str,
) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = |name| session.opcode(name).unwrap();
    let wait = |event: u32, count: u32| Task::new(op("waiter")).args([event, count]);
    let mut come = producer.submit(wait(event, 0)).unwrap();
    assert_eq!(come.wait(LONG), Ok(0), "{shape}: nobody waits for a count of 0");
    let mut tickets: Vec<_> = (1..=30).map(|count| producer.submit(wait(event, count)).unwrap()).collect();
    let mut other = producer.submit(wait(other_event, 1)).unwrap();
    // The signals come from a handler, from the built-in opcode and from the host in turn.
    for (k, ticket) in tickets.iter_mut().enumerate() {
        let state = session.task_state(ticket).unwrap();
        assert_ne!(state, TaskState::Ended, "{shape}: {k} signals are not enough");
        let op = [op("signaller"), Opcode::SIGNAL].get(k % 3).copied();
        match op {
            Some(op) => {
                let mut signal = producer.submit(Task::new(op).args([event, 1])).unwrap();
                assert_eq!(signal.wait(LONG), Ok(0), "{shape}");
            }
            None => session.signal(0, event, 1).unwrap(),
        }
        let end = ticket.wait(LONG);
        assert_eq!(end, Ok(1 + k as u32), "{shape}: the one that waits for the least goes on");
    }
    assert_eq!(session.event_count(0, event).unwrap(), 30, "{shape}");
    let late = other.wait(Duration::from_millis(1));
    assert_eq!(late, Err(TaskError::Late), "{shape}: it waits for another event");
    session.signal(0, other_event, 1000).unwrap();
    assert_eq!(other.wait(LONG), Ok(31), "{shape}");
}

fn tasks_begin_after_an_event(session: &Session, event: u32, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let add = Task::new(Opcode::ATOMIC_ADD);
    let before = element(session, 0);
    let mut late = producer.submit(add.args([100, 0]).after(event, 2)).unwrap();
    let waiter = Task::new(session.opcode("waiter").unwrap());
    let mut resumable = producer.submit(waiter.args([event, 3]).after(event, 2)).unwrap();
    let mut plain = producer.submit(add.args([1, 0])).unwrap();
    assert_eq!(plain.wait(LONG), Ok(before), "{shape}");
    session.signal(0, event, 1).unwrap();
    assert_eq!(late.wait(Duration::from_millis(2)), Err(TaskError::Late), "{shape}");
    session.signal(0, event, 1).unwrap();
    assert_eq!(late.wait(LONG), Ok(before + 1), "{shape}");
    session.signal(0, event, 1).unwrap();
    assert_eq!(resumable.wait(LONG), Ok(before + 101), "{shape}");
    let span: Vec<_> = (0..8).map(|k| add.args([1, 5 + k]).after(event, 3)).collect();
    producer.submit_all(span).unwrap().wait(LONG).unwrap();
    let unknown = SubmitError::UnknownEvent { event: 6, events: 6 };
    assert_eq!(producer.submit(add.after(6, 1)).map(drop), Err(unknown), "{shape}");
    let error = session.signal(0, 6, 1).unwrap_err().to_string();
    assert_eq!(error, "there is no event 6: each tenant has the events 0 to 5 (`Spec::events`)", "{shape}");
    for op in [Opcode::SIGNAL, Opcode::PRINTF, Opcode::BATCH_FENCE, Opcode::PACKED_SLOT] {
        let refused = producer.submit(Task::new(op).after(event, 1)).map(drop);
        assert_eq!(refused, Err(SubmitError::CannotWait(op)), "{shape}");
    }
    let drained = Batch::new().push(0, add.after(0, 1));
    let none = SubmitError::UnknownEvent { event: 0, events: 0 };
    assert_eq!(drained, Err(none), "{shape}: it has no events");
    assert_eq!(
        none.to_string(),
        "there is no event 0, because there are no events here: a session has as many per tenant as `Spec::events` says, and a \
         drained batch has none"
    );
    for task in [Task::new(Opcode::SIGNAL), Task::new(session.opcode("signaller").unwrap())] {
        let end = producer.submit(task.args([6, 1])).unwrap().wait(LONG);
        assert_eq!(fault_code(end), Some(FaultCode::ARGUMENTS), "{shape}");
    }
}

fn a_task_that_waits_for_an_event_can_be_cancelled_paused_and_resumed(
    session: &Session,
    event: u32,
    shape: &str,
) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let wait = Task::new(session.opcode("waiter").unwrap());
    let before = element(session, 0);
    let mut tickets: Vec<_> = (0..9).map(|_| producer.submit(wait.args([event, 1])).unwrap()).collect();
    let mut held = producer.submit(Task::new(Opcode::NOP).after(event, 1)).unwrap();
    for ticket in tickets.iter_mut().chain([&mut held]) {
        while session.task_state(ticket).unwrap() != TaskState::Waiting {
            std::thread::yield_now();
        }
    }
    let events = session.snapshot().unwrap().cells.and_then(|cells| cells.trees).unwrap().events;
    let now: Vec<_> = events.iter().filter(|seen| seen.event == event).collect();
    assert!(matches!(*now, [seen] if (seen.count, seen.waiters) == (0, 10)), "{shape}: {now:?}");
    held.cancel();
    assert_eq!(held.wait(LONG), Err(TaskError::Cancelled { steps: 0 }), "{shape}");
    let (cancelled, rest) = tickets.split_at_mut(3);
    let (paused, rest) = rest.split_at_mut(3);
    cancelled.iter_mut().for_each(|ticket| ticket.cancel());
    for ticket in cancelled {
        assert_eq!(ticket.wait(LONG), Err(TaskError::Cancelled { steps: 1 }), "{shape}");
    }
    paused.iter_mut().for_each(|ticket| ticket.pause());
    rest.iter_mut().for_each(|ticket| ticket.resume());
    session.signal(0, event, 1).unwrap();
    for ticket in rest {
        assert!(ticket.wait(LONG).is_ok(), "{shape}: only the signal lets it go on");
    }
    for ticket in paused {
        assert_eq!(ticket.wait(Duration::from_millis(1)), Err(TaskError::Late), "{shape}: it is paused");
        ticket.resume();
        assert!(ticket.wait(LONG).is_ok(), "{shape}");
    }
    assert_eq!(element(session, 0) - before, 6, "{shape}: each went on once");
}

fn signals_and_waits_that_meet_lose_nothing(session: &Session, event: u32, shape: &str) {
    let op = |name| session.opcode(name).unwrap();
    let rounds = if shape.starts_with("reference") { 10u32 } else { 500 };
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let before = element(session, 0);
    for round in 1..=rounds {
        let wait = |k: u32| Task::new(op("waiter")).args([event, 4 * (round - 1) + k % 4 + 1]);
        let mut waits = producer.submit_all((0..8).map(wait)).unwrap();
        let signal = |_| Task::new(op("signaller")).args([event, 1]);
        let mut signals = producer.submit_all((0..4).map(signal)).unwrap();
        signals.wait(LONG).unwrap();
        waits.wait(LONG).unwrap_or_else(|error| panic!("{shape}: round {round}: {error}"));
    }
    assert_eq!(element(session, 0) - before, 8 * rounds, "{shape}");
}
