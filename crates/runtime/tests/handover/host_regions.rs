//! Regions in host memory stay where they are, whatever kernel a session goes on with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton::Placement::{Both, Far, Near};
use pelton::device::{Device, open};
use pelton::{Geometry, Handler, Producer, Region, Session, Spec, Task};
use pelton_ir::types::Type;

use crate::moves::{alone, journey, open_any};
use crate::{LONG, version};

/// Adds its first argument to element 3 of `words`, which lies in host memory.
fn adds() -> Handler {
    Handler::lane_wide(|task| {
        let (f, words) = (task.body(), task.region::<u32>("words"));
        let sum = f.load(words.at(3)) + task.arg(0);
        f.store(words.at(3), sum);
        task.finish(sum);
    })
}

fn spec() -> Spec {
    Spec::new(Geometry::new(64).groups(3))
        .region(Region::new("words", Type::U32, 1000).in_host_memory())
        .handler("adds", adds())
        .handler("plain", version(100))
}

/// Runs a task that adds, and checks that host and task see the same word, at the same address as ever.
fn check(session: &Session, producer: &mut Producer, (sum, place): (&mut u32, &mut usize), what: &str) {
    let view = session.view::<u32>(0, "words").unwrap();
    let words = view.words().unwrap();
    *sum += 1;
    words[3].fetch_add(1, Ordering::Relaxed);
    let task = Task::new(session.opcode("adds").unwrap()).args([10]);
    *sum += 10;
    assert_eq!(producer.submit(task).unwrap().wait(LONG), Ok(*sum), "{what}");
    assert_eq!(words[3].load(Ordering::Relaxed), *sum, "{what}");
    let at = words.as_ptr() as usize;
    assert!(*place == 0 || *place == at, "{what}: the words are elsewhere");
    *place = at;
}

/// Catches a host region that is copied, allocated again or forgotten when a session goes on with another kernel or on
/// another device.
#[test]
fn a_host_region_stays_in_its_place() {
    let _alone = alone();
    for (placement, first) in
        [(Near, "cpu"), (Near, "island"), (Far, "cpu"), (Both, "island"), (Far, "apart")]
    {
        let mut session = Session::launch(&open_any(first), &spec().placement(placement)).unwrap();
        let mut producer = session.producer(0).unwrap();
        let (mut sum, mut place) = (0, 0);
        check(&session, &mut producer, (&mut sum, &mut place), first);
        session.replace("plain", version(7), LONG).unwrap();
        check(&session, &mut producer, (&mut sum, &mut place), "another handler");
        session.resize(2).unwrap();
        check(&session, &mut producer, (&mut sum, &mut place), "fewer groups");
        for name in journey() {
            let device: Arc<dyn Device> = open_any(name);
            session.move_to(&device).unwrap();
            check(&session, &mut producer, (&mut sum, &mut place), &format!("from {first}, now on {name}"));
        }
    }
}

/// Catches a hand-over that changes the memory of a region, for which there is no room in the rings of a session.
#[test]
fn a_hand_over_cannot_change_the_memory_of_a_region() {
    let session = Session::launch(&open("cpu").unwrap(), &spec()).unwrap();
    let elsewhere = spec().region(Region::new("words", Type::U32, 1000));
    let refused = session.hand_over(&elsewhere, LONG).unwrap_err().to_string();
    assert!(refused.contains("regions"), "{refused}");
}
