//! Regions in host memory outlive the device.

use std::sync::atomic::Ordering;

use crate::*;

/// The spec of these tests: a handler that writes a region in host memory, and one that reads it.
fn spec(shape: &Shape) -> Spec {
    let notes = Handler::lane_wide(|task| {
        let (f, notes) = (task.body(), task.region::<u32>("notes"));
        f.store(notes.at(task.arg(0)), task.arg(1));
        task.finish(f.load(notes.at(task.arg(2))));
    });
    shape.spec(64).region(Region::new("notes", Type::U32, 64).in_host_memory()).handler("notes", notes)
}

/// Catches a host region that is zero after a loss, that lies elsewhere, or that a view from before does not show any more.
#[test]
fn a_host_region_survives_every_loss() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape));
        let mut producer = session.producer(0).unwrap();
        let before = session.view::<u32>(0, "notes").unwrap();
        before.write(0, &[5]).unwrap();
        for round in 1..4 {
            let mut ticket =
                producer.submit(task(&session, "notes", &[round, round * 11, round - 1])).unwrap();
            let last = if round == 1 { 5 } else { (round - 1) * 11 };
            assert_eq!(ticket.wait(LONG), Ok(last), "{}: what was written before the loss", shape.name);
            session.view::<u32>(0, "data").unwrap().write(3, &[1]).unwrap();
            shape.device.lose();
            until_recovered(&session, u64::from(round));
            assert_eq!(element(&session, 3), 0, "{}: memory of the device is lost", shape.name);
            let after = session.view::<u32>(0, "notes").unwrap();
            assert_eq!(after.read(round as usize, 1).unwrap(), [round * 11], "{}", shape.name);
            // A view from before is still a view of the same words.
            before.words().unwrap()[63].store(round, Ordering::Relaxed);
            assert_eq!(after.words().unwrap()[63].load(Ordering::Relaxed), round, "{}", shape.name);
        }
    });
}

/// Catches a hook that finds zeros in a host region, or that cannot write it.
#[test]
fn the_hook_sees_a_host_region_as_it_was_left() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape));
        session.view::<u32>(0, "notes").unwrap().write(7, &[70]).unwrap();
        session.on_recovery(|session| {
            let notes = session.view::<u32>(0, "notes")?;
            notes.write(8, &[notes.read(7, 1)?[0] + 1])
        });
        shape.device.lose();
        until_recovered(&session, 1);
        let mut producer = session.producer(0).unwrap();
        let mut ticket = producer.submit(task(&session, "notes", &[0, 0, 8])).unwrap();
        assert_eq!(ticket.wait(LONG), Ok(71), "{}", shape.name);
    });
}

/// Adds one to an element of `counts`, in host memory, after it has said that it runs and was told to go on.
fn counting(class: pelton::Class) -> Handler {
    let handler = Handler::lane_wide(|task| {
        let (f, counts, data) = (task.body(), task.region::<u32>("counts"), task.data());
        f.store(counts.at(0), f.load(counts.at(0)) + 1);
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(WAITING), 1u32);
        f.forever::<_, ()>(f.lit(0), |wait, turns| {
            let go = f.atomic_load(Order::Relaxed, Scope::System, data.at(GO));
            f.when(go.ne(0), || wait.leave(()));
            turns + 1
        });
        task.finish(f.load(counts.at(0)));
    });
    handler.class(class)
}

/// Shows why the class of a handler that writes a host region matters: what a task that begins again has written there
/// before the loss is still there, and a task of the class `once` does not begin again.
#[test]
fn what_begins_again_finds_its_own_writes() {
    everywhere(|shape| {
        for (class, counted) in [(pelton::Class::Restart, 2), (pelton::Class::Once, 1)] {
            let counts = Region::new("counts", Type::U32, 4).in_host_memory();
            let session = shape.launch(&shape.spec(64).region(counts).handler("counting", counting(class)));
            let mut producer = session.producer(0).unwrap();
            let mut ticket = producer.submit(task(&session, "counting", &[])).unwrap();
            until_waiting(&session);
            go_on(&session);
            shape.device.lose();
            let ended = ticket.wait(LONG);
            match class {
                pelton::Class::Restart => assert_eq!(ended, Ok(2), "{}", shape.name),
                _ => {
                    assert!(matches!(ended, Err(pelton::TaskError::Lost { .. })), "{}: {ended:?}", shape.name)
                }
            }
            let counts = session.view::<u32>(0, "counts").unwrap();
            assert_eq!(counts.read(0, 1).unwrap(), [counted], "{}, {class:?}", shape.name);
        }
    });
}
