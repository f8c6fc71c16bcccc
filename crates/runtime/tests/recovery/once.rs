//! Tasks that must not begin twice.

use pelton::kernel::SlotBody;
use pelton::protocol::packed::Packed;
use pelton::{Class, LossReason, TaskError};

use crate::*;

const LOST: TaskError = TaskError::Lost { reason: LossReason::Device, may_have_run: true };

/// The spec with a handler that waits and must not begin twice.
fn spec(shape: &Shape, slots: u32) -> Spec {
    let once = |handler: Handler| handler.class(Class::Once);
    shape.spec(slots).handler("once", once(mark())).handler("wait_once", once(wait_for_go()))
}

/// Catches a task that begins although it has not said so, which then runs twice, and one that ends as lost although it
/// has not begun.
#[test]
fn a_task_that_has_begun_ends_as_lost_and_one_that_has_not_runs() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut done = submit(&session, &mut producer, "once", 1);
        assert_eq!(done.wait(LONG), Ok(2), "{}", shape.name);
        let mut begun = submit(&session, &mut producer, "wait_once", 2);
        until_waiting(&session);
        session.set_mask(0, 0).unwrap();
        let mut waits = submit(&session, &mut producer, "once", 3);
        go_on(&session);
        shape.device.lose();
        assert_eq!(begun.wait(LONG), Err(LOST), "{}", shape.name);
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(waits.wait(LONG), Ok(6), "{}", shape.name);
        assert_eq!(done.result(), Ok(2), "{}", shape.name);
        let marks: Vec<u32> = (1..4).map(|at| element(&session, at)).collect();
        assert_eq!(marks, [0, 0, 1], "{}: nothing ran twice", shape.name);
        let last = recovery(&session).last.unwrap();
        assert_eq!((last.lost, last.unfinished), (1, 1), "{}", shape.name);
        let occupancy = session.snapshot().unwrap().occupancy;
        assert_eq!((occupancy.lost, occupancy.done), (1, 2), "{}", shape.name);
    });
}

/// Catches a cancel that hides the opcode of a task which has begun: the task ends as lost, and not as one that never ran.
#[test]
fn a_task_that_was_cancelled_after_it_has_begun_ends_as_lost() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut begun = submit(&session, &mut producer, "wait_once", 2);
        until_waiting(&session);
        begun.cancel();
        shape.device.lose();
        assert_eq!(begun.wait(LONG), Err(LOST), "{}", shape.name);
    });
}

/// Catches fences that wait for ever for a task that was lost, and slots that are not used again.
#[test]
fn fences_pass_tasks_that_were_lost() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 16));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let fence = Task::new(Opcode::BATCH_FENCE).args([1, 9]);
        let mut span = producer.submit_all([task(&session, "wait_once", &[1]), fence]).unwrap();
        until_waiting(&session);
        shape.device.lose();
        span.wait(LONG).unwrap();
        assert_eq!(span.results().collect::<Vec<_>>(), [Err(LOST), Ok(1)], "{}", shape.name);
        drop(span);
        for at in 0..100 {
            let end = submit(&session, &mut producer, "once", at).wait(LONG);
            assert_eq!(end, Ok(at * 2), "{}", shape.name);
        }
    });
}

/// Catches a group-wide task, or one of a kernel with a single handler, that does not say that it begins.
#[test]
fn tasks_of_every_kind_of_handler_say_that_they_begin() {
    everywhere(|shape| {
        let wide = Handler::group_wide(|group| {
            let (f, data) = (group.body(), group.data());
            f.when(f.lane().eq(0), || f.store(data.at(WAITING), 1u32));
            f.forever::<_, ()>(f.lit(0), |wait, turns| {
                let go = f.group_broadcast(f.load(data.at(GO)), 0);
                f.when(go.ne(0), || wait.leave(()));
                turns + 1
            });
            group.finish(7);
        });
        let bare = |shape: &Shape| {
            let spec = shape.spec(16);
            Spec { handlers: Vec::new(), ..spec }
        };
        let fused = bare(shape).body(SlotBody::Fused).handler("it", wait_for_go().class(Class::Once));
        for spec in [bare(shape).handler("it", wide.class(Class::Once)), fused] {
            let session = shape.launch(&spec);
            let mut producer = session.producer(0).unwrap();
            let mut ticket = submit(&session, &mut producer, "it", 1);
            until_waiting(&session);
            shape.device.lose();
            assert_eq!(ticket.wait(LONG), Err(LOST), "{}", shape.name);
        }
    });
}

/// Catches tasks that say nothing, because they share a slot with others.
#[test]
fn a_task_that_must_not_begin_twice_is_refused_in_a_packed_slot() {
    in_shapes(&["cpu"], &[Placement::Near], |shape| {
        let session = shape.launch(&spec(shape, 16));
        let op = session.opcode("once").unwrap();
        let mut packed = Packed::new();
        packed.push(op, &[1]).unwrap();
        let slot = Task::new(Opcode::PACKED_SLOT).args(packed.encode().unwrap());
        let end = session.producer(0).unwrap().submit(slot).unwrap().wait(LONG);
        assert!(matches!(end, Err(TaskError::Fault(_))), "{end:?}");
    });
}

/// Catches tickets that do not say whether their task may have run when the session ends for good.
#[test]
fn tickets_of_a_session_that_ends_say_what_may_have_run() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut begun = submit(&session, &mut producer, "wait_once", 1);
        until_waiting(&session);
        session.set_mask(0, 0).unwrap();
        let mut waits = submit(&session, &mut producer, "once", 2);
        let mut unknown = submit(&session, &mut producer, "mark", 3);
        shape.device.lose_for_good();
        let lost = |may_have_run| Err(TaskError::Lost { reason: LossReason::Device, may_have_run });
        assert_eq!(begun.wait(LONG), lost(true), "{}", shape.name);
        assert_eq!(waits.wait(LONG), lost(false), "{}", shape.name);
        assert_eq!(unknown.wait(LONG), lost(true), "{}", shape.name);
    });
}

/// Catches a word that says that a task has begun, and which a later task of the same slot takes for its own.
#[test]
fn tasks_of_other_laps_and_handlers_are_not_taken_for_begun() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 4));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for round in 0..4u64 {
            for at in 0..16 {
                let end = submit(&session, &mut producer, "once", at).wait(LONG);
                assert_eq!(end, Ok(at * 2), "{}", shape.name);
            }
            session.set_mask(0, 0).unwrap();
            let mut tickets: Vec<Ticket> =
                (0..4).map(|at| submit(&session, &mut producer, "once", at)).collect();
            shape.device.lose();
            until_recovered(&session, round + 1);
            session.set_mask(0, u32::MAX).unwrap();
            for (at, ticket) in (0..).zip(&mut tickets) {
                assert_eq!(ticket.wait(LONG), Ok(at * 2), "{}", shape.name);
            }
        }
    });
}
