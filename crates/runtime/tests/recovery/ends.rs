//! Which device a session goes on with, and how it ends if there is none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pelton::{Deadline, EndReason, LossReason, SessionEnd, SubmitError, TaskError};

use crate::*;

/// Catches a session that stays on a lost device although there is another one, and one that forgets its tasks there.
#[test]
fn the_devices_are_tried_in_the_order_that_was_given() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let (gone, next, cpu) = (Arc::new(losable("cpu")), Arc::new(losable("apart")), open("cpu").unwrap());
        gone.lose_for_good();
        session.set_failover(vec![gone, next.clone(), cpu.clone()]);
        let mut ticket = submit(&session, &mut producer, "wait", 1);
        until_waiting(&session);
        shape.device.lose_for_good();
        until("it goes on", || session.view::<u32>(0, "data").unwrap().read(0, 1).is_ok());
        assert_eq!(recovery(&session).last.unwrap().to, "apart", "{}", shape.name);
        // The task that waits must not be in the same window as the next one.
        until_waiting(&session);
        assert_eq!(submit(&session, &mut producer, "mark", 3).wait(LONG), Ok(6), "{}", shape.name);
        go_on(&session);
        next.lose_for_good();
        assert_eq!(ticket.wait(LONG), Ok(2), "{}", shape.name);
        assert_eq!(recovery(&session).last.unwrap().to, cpu.caps().name, "{}", shape.name);
        assert_eq!(recovery(&session).count, 2, "{}", shape.name);
        drop(ticket);
        for at in 0..200 {
            let end = producer.submit(task(&session, "mark", &[at])).unwrap().wait(LONG);
            assert_eq!(end, Ok(at * 2), "{}", shape.name);
        }
    });
}

/// Catches a session that waits for ever if no device can go on, and tickets that do not say so.
#[test]
fn a_session_ends_if_no_device_can_go_on() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let other = Arc::new(losable("cpu"));
        other.lose_for_good();
        session.set_failover(vec![other]);
        let mut ticket = submit(&session, &mut producer, "wait", 1);
        until_waiting(&session);
        let mut done = submit(&session, &mut producer, "mark", 2);
        done.wait(LONG).unwrap();
        shape.device.lose_for_good();
        let lost = TaskError::Lost { reason: LossReason::Device, may_have_run: true };
        assert_eq!(ticket.wait(LONG), Err(lost), "{}", shape.name);
        assert_eq!(done.result(), Ok(4), "{}", shape.name);
        let end = session.session_end().unwrap();
        assert!(matches!(end, SessionEnd::NotRecovered(_)), "{}: {end}", shape.name);
        let ended = SubmitError::Ended(EndReason::Lost(LossReason::Device));
        assert_eq!(producer.submit(task(&session, "mark", &[1])).err(), Some(ended), "{}", shape.name);
        assert!(matches!(session.quiesce(LONG), Err(Error::Ended(_))), "{}", shape.name);
        assert!(session.stop().is_err(), "{}", shape.name);
    });
}

/// Catches a session that gives a device up which is lost a second time while it recovers, and one that launches twice.
#[test]
fn a_second_loss_during_a_recovery_is_survived() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let (device, times) = (shape.device.clone(), AtomicU32::new(0));
        session.on_recovery(move |_| {
            if times.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
                device.lose();
            }
            Ok(())
        });
        for round in 1..4 {
            let mut ticket = submit(&session, &mut producer, "mark", 1);
            shape.device.lose();
            assert_eq!(ticket.wait(LONG), Ok(2), "{}", shape.name);
            until_recovered(&session, round);
        }
        session.on_recovery(|_| Ok(()));
        shape.device.lose_launches(2);
        shape.device.lose();
        assert_eq!(submit(&session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
    });
}

/// Catches a hook whose error or panic takes the session down without a word, or that is not asked on the next device.
#[test]
fn a_hook_that_fails_leaves_the_next_device() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        session.set_failover(vec![open("cpu").unwrap()]);
        session.on_recovery(|session| match session.device() == session.lost_device() {
            true => session.view::<u32>(0, "nothing").map(|_| ()),
            false => Ok(()),
        });
        shape.device.lose();
        assert_eq!(submit(&session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
        assert_eq!(recovery(&session).last.unwrap().to, open("cpu").unwrap().caps().name, "{}", shape.name);
    });
    in_shapes(&["cpu"], &[Placement::Near], |shape| {
        let session = shape.launch(&shape.spec(64));
        session.on_recovery(|_| std::panic::resume_unwind(Box::new("on purpose")));
        let mut ticket = submit(&session, &mut session.producer(0).unwrap(), "wait", 1);
        shape.device.lose();
        assert!(matches!(ticket.wait(LONG), Err(TaskError::Lost { .. })));
        let end = session.session_end().unwrap().to_string();
        assert!(end.ends_with("the hook that runs when a session recovers has panicked"), "{end}");
    });
}

/// Catches a stop that waits for a recovery for ever, launches another kernel, or says that tasks never ran which may have.
#[test]
fn a_stop_ends_a_recovery() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let mut ticket = submit(&session, &mut producer, "wait", 1);
        until_waiting(&session);
        let (begun, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (says, waits) = (begun.clone(), stopped.clone());
        session.on_recovery(move |_| {
            says.store(true, Ordering::SeqCst);
            until("the stop comes", || waits.load(Ordering::SeqCst));
            // The stop has to see that a pause is under way.
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        });
        shape.device.lose();
        drop(session.session_end());
        until("it recovers", || begun.load(Ordering::SeqCst));
        stopped.store(true, Ordering::SeqCst);
        drop(session.stop());
        let end = ticket.wait(LONG).unwrap_err();
        let truthful = [
            TaskError::Lost { reason: LossReason::Device, may_have_run: true },
            TaskError::Stopped { steps: 0 },
        ];
        assert!(truthful.contains(&end), "{}: {end}", shape.name);
    });
}

/// Catches a hand-over that takes the loss of its device for the end of the session, or launches a kernel that was planned
/// for memory that is lost.
#[test]
fn hand_overs_go_on_while_the_device_is_lost() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64).producers(2));
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let (session, over) = (&session, &over);
            let feeder = threads.spawn(move || {
                let mut producer = session.producer(0).unwrap().patience(LONG);
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(submit(session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
                }
            });
            let loser = threads.spawn(move || {
                for _ in 0..6 {
                    std::thread::sleep(Duration::from_millis(7));
                    shape.device.lose();
                }
            });
            for number in 0..6u32 {
                let add = Handler::lane_wide(move |task| task.finish(task.arg(0) + number));
                let op = session.install("add", add).unwrap();
                let mut producer = session.producer(0).unwrap().patience(LONG);
                let end = producer.submit(Task::new(op).args([10])).unwrap().wait(LONG);
                assert_eq!(end, Ok(10 + number), "{}", shape.name);
                session.hand_over(&session.spec(), LONG).unwrap();
                session.remove("add").unwrap();
                assert_eq!(session.spec().recovery, Recovery::On);
            }
            loser.join().unwrap();
            over.store(true, Ordering::Relaxed);
            feeder.join().unwrap();
        });
        assert!(session.session_end().is_none(), "{}", shape.name);
    });
}

/// Catches a session that ends because its kernel cannot be launched again after a hand-over, although it could recover.
#[test]
fn a_kernel_that_is_not_launched_again_is_a_loss_too() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        session.set_failover(vec![open("cpu").unwrap()]);
        for (refused, recoveries) in [(1, 1), (2, 2)] {
            shape.device.refuse_launches(refused);
            session.hand_over(&session.spec(), LONG).unwrap();
            assert_eq!(submit(&session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
            assert_eq!(recovery(&session).count, recoveries, "{}", shape.name);
        }
        assert_eq!(recovery(&session).last.unwrap().to, open("cpu").unwrap().caps().name, "{}", shape.name);
    });
}

/// Catches a move to another device after a loss that takes the wrong memory along.
#[test]
fn a_session_moves_before_and_after_a_loss() {
    everywhere(|shape| {
        let mut session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        session.set_failover(vec![shape.on()]);
        let cpu = open("cpu").unwrap();
        for round in 0..2 {
            session.view::<u32>(0, "data").unwrap().write(9, &[5]).unwrap();
            session.move_to(&cpu).unwrap();
            assert_eq!(submit(&session, &mut producer, "mark", 9).wait(LONG), Ok(18), "{}", shape.name);
            assert_eq!(element(&session, 9), 6, "{}", shape.name);
            session.move_to(&shape.on()).unwrap();
            assert_eq!(element(&session, 9), 6, "{}", shape.name);
            shape.device.lose();
            assert_eq!(submit(&session, &mut producer, "mark", 9).wait(LONG), Ok(18), "{}", shape.name);
            assert_eq!(element(&session, 9), 1, "{} {round}", shape.name);
        }
    });
}

/// Catches a trap that ends a session which recovers.
#[test]
fn traps_are_losses_too() {
    in_shapes(&["cpu", "reference"], &[Placement::Near, Placement::Far, Placement::Both], |shape| {
        let trap = Handler::lane_wide(|task| {
            let f = task.body();
            let go = f.atomic_load(Order::Relaxed, Scope::System, task.data().at(GO));
            f.when(go.eq(0), || f.trap(7));
            task.finish(7);
        });
        let spec = shape.spec(64).handler("trap", trap.may_trap());
        let session = shape.launch(&spec);
        let mut producer = session.producer(0).unwrap();
        go_on(&session);
        let mut trap = submit(&session, &mut producer, "trap", 0);
        assert_eq!(trap.wait(LONG), Ok(7), "{}", shape.name);
        assert_eq!(recovery(&session).count, 1, "{}", shape.name);
        assert_eq!(submit(&session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
    });
}

/// Catches a session that launches its kernel again and again although its device is lost each time.
#[test]
fn a_session_gives_up_if_no_task_ends_between_losses() {
    in_shapes(&["cpu"], &[Placement::Near, Placement::Far], |shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let mut ticket = submit(&session, &mut producer, "wait", 0);
        until("the session gives up", || {
            if element(&session, WAITING) > 0 {
                shape.device.lose();
            }
            session.session_end().is_some()
        });
        let lost = TaskError::Lost { reason: LossReason::Device, may_have_run: true };
        assert_eq!(ticket.wait(LONG), Err(lost), "{}", shape.name);
        assert!(matches!(session.session_end(), Some(SessionEnd::Device(_))), "{}", shape.name);
        // A session that has nothing to do may be lost as often as it likes.
        let session = shape.launch(&shape.spec(64));
        for count in 1..20 {
            shape.device.lose();
            until_recovered(&session, count);
        }
    });
}

/// Catches a session that recovers although nobody has asked for it.
#[test]
fn a_session_without_the_axis_ends_with_its_device() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64).recovery(Recovery::Off));
        let mut ticket = submit(&session, &mut session.producer(0).unwrap(), "wait", 1);
        shape.device.lose();
        let lost = TaskError::Lost { reason: LossReason::Device, may_have_run: true };
        assert_eq!(ticket.wait(LONG), Err(lost), "{}", shape.name);
        assert_eq!(ticket.wait(Deadline::Now), Err(lost), "{}", shape.name);
    });
}

/// Catches an axis that changes although the rings lack what the next kernel needs.
#[test]
fn whether_a_session_recovers_cannot_change() {
    let device = open("cpu").unwrap();
    let session = Session::launch(&device, &Spec::default().recovery(Recovery::On)).unwrap();
    let other = session.hand_over(&Spec::default(), LONG).unwrap_err().to_string();
    assert!(other.starts_with("`recovery` cannot change"), "{other}");
}
