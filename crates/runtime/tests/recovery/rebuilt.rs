//! What the kernel that follows a loss finds in its memory.

use pelton::{Opcode, Tenant};

use crate::*;

/// Catches masks, quotas and charges of tenants that a loss changes.
#[test]
fn rights_and_credit_stay_as_they_are() {
    everywhere(|shape| {
        let spec = shape.spec(64).tenant(Tenant::new(0).quota(100)).tenant(Tenant::new(1));
        let session = shape.launch(&spec);
        let mut producers = [session.producer(0).unwrap(), session.producer(1).unwrap()];
        for at in 0..10 {
            assert_eq!(submit(&session, &mut producers[0], "mark", at).wait(LONG), Ok(at * 2));
        }
        session.set_quota(1, 5).unwrap();
        assert_eq!(submit(&session, &mut producers[1], "mark", 1).wait(LONG), Ok(2));
        session.allow(1, &[Opcode::NOP]).unwrap();
        session.quiesce(LONG).unwrap();
        let credit = [0, 1].map(|tenant| session.credit(tenant).unwrap());
        assert_eq!(credit, [Some(90), Some(4)], "{}", shape.name);
        shape.device.lose();
        until_recovered(&session, 1);
        let credit = [0, 1].map(|tenant| session.credit(tenant).unwrap());
        assert_eq!(credit, [Some(90), Some(4)], "{}", shape.name);
        let denied = submit(&session, &mut producers[1], "mark", 2).wait(LONG);
        assert!(matches!(denied, Err(pelton::TaskError::Fault(_))), "{}: {denied:?}", shape.name);
        session.set_mask(1, u32::MAX).unwrap();
        assert_eq!(submit(&session, &mut producers[1], "mark", 2).wait(LONG), Ok(4), "{}", shape.name);
    });
}

/// Catches a workspace that is not zero after a loss, and a hook that runs too late or not every time.
#[test]
fn the_workspace_is_zero_or_what_the_hook_writes() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        session.view::<u32>(0, "data").unwrap().write(5, &[1, 2, 3]).unwrap();
        let before = session.view::<u32>(0, "data").unwrap();
        shape.device.lose();
        until_recovered(&session, 1);
        assert_eq!((element(&session, 5), element(&session, 6)), (0, 0), "{}", shape.name);
        assert!(before.read(5, 1).is_err(), "{}: a view of lost memory", shape.name);
        let from = session.snapshot().unwrap().recovery.unwrap().last.unwrap().from;
        session.on_recovery(move |session| {
            assert_eq!((session.lost_device(), session.device()), (&*from, &*from));
            session.view::<u32>(0, "data")?.write(6, &[40 + session.view::<u32>(0, "data")?.read(6, 1)?[0]])
        });
        for count in 2..4 {
            shape.device.lose();
            until_recovered(&session, count);
            assert_eq!((element(&session, 5), element(&session, 6)), (0, 40), "{}", shape.name);
        }
    });
}

/// Catches a log that is not read from its beginning after a loss, or has no room.
#[test]
fn lines_are_printed_after_a_loss() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64).format("{} and {}"));
        let mut producer = session.producer(0).unwrap();
        let print = |producer: &mut pelton::Producer, number: u32| {
            let task = Task::new(Opcode::PRINTF).args([1, number, 7]);
            assert_eq!(producer.submit(task).unwrap().wait(LONG), Ok(1), "{}", shape.name);
        };
        for round in 0..3 {
            (0..50).for_each(|number| print(&mut producer, number));
            let lines = session.log().unwrap();
            assert_eq!(lines.len(), 50, "{}", shape.name);
            assert_eq!(lines[49], "49 and 7", "{}", shape.name);
            shape.device.lose();
            until_recovered(&session, round + 1);
            assert_eq!(session.log().unwrap(), Vec::<String>::new(), "{}", shape.name);
        }
    });
}

/// Catches an epoch or counters that go back.
#[test]
fn what_a_snapshot_has_shown_is_never_taken_back() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        let mut producer = session.producer(0).unwrap();
        let mut epoch = 0;
        for round in 1..4u64 {
            for at in 0..10 {
                assert_eq!(submit(&session, &mut producer, "mark", at).wait(LONG), Ok(at * 2));
                let fence = Task::new(Opcode::BATCH_FENCE).args([0, 0]);
                let next = producer.submit(fence).unwrap().wait(LONG).unwrap();
                assert!(next > epoch, "{}: epoch {next} after {epoch}", shape.name);
                epoch = next;
            }
            until("tasks are counted", || session.snapshot().unwrap().done >= 20 * round);
            let before = session.snapshot().unwrap();
            assert_eq!(before.done, 20 * round, "{}", shape.name);
            shape.device.lose();
            until_recovered(&session, round);
            let after = session.snapshot().unwrap();
            assert_eq!((after.done, after.epoch), (before.done, before.epoch), "{}", shape.name);
            assert_eq!(after.opcodes, before.opcodes, "{}", shape.name);
            assert_eq!(after.runs, before.runs + 1, "{}", shape.name);
        }
    });
}

/// Catches a snapshot that does not say what has happened.
#[test]
fn a_snapshot_says_what_has_happened() {
    everywhere(|shape| {
        let session = shape.launch(&shape.spec(64));
        assert_eq!(recovery(&session), telemetry::RecoverySnapshot { count: 0, last: None });
        let other = open("reference").unwrap();
        session.set_failover(vec![other.clone()]);
        shape.device.lose_for_good();
        until_recovered(&session, 1);
        let last = recovery(&session).last.unwrap();
        assert_eq!((&last.from, &last.to), (&shape.on().caps().name, &other.caps().name), "{}", shape.name);
        assert!(last.at >= last.took, "{}: {last:?}", shape.name);
        let text = session.snapshot().unwrap().to_string();
        assert!(text.contains("recoveries 1, the last at "), "{text}");
        let spec = Spec { recovery: Recovery::Off, ..shape.spec(64) };
        let without = Session::launch(&open("cpu").unwrap(), &spec.placement(Placement::Far)).unwrap();
        assert_eq!(without.snapshot().unwrap().recovery, None);
    });
}
