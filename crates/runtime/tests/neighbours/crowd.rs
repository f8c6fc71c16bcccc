//! Sessions that are launched, fed, changed and stopped at random, all on one device, with drained batches between them.

use std::sync::Arc;

use pelton::device::Device;
use pelton::{Batch, Deadline, Drain, Geometry, Session, Spec, Task};

use crate::{LONG, on_every_device, plus, run_both, slow_plus, spec};

/// The environment variable that says how many actions each thread takes.
const ACTIONS: &str = "PELTON_CROWD_ACTIONS";

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % end
    }
}

/// Takes random actions, one after the other. At most one session of this thread lives at a time.
fn act(device: &Arc<dyn Device>, thread: u32, actions: u32) {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ u64::from(thread + 1));
    // All threads have the same few versions of handlers, so that most kernels are compiled only once.
    let number = 10;
    let mut live: Option<(Session, u32)> = None;
    for action in 0..actions {
        let Some((session, version)) = &mut live else {
            live = Some((Session::launch(device, &spec(number)).unwrap(), number));
            continue;
        };
        match dice.below(8) {
            0 => {
                let (session, _) = live.take().unwrap();
                assert_eq!(session.stop().unwrap().tasks_left(), 0);
            }
            1 => session.hand_over(&session.spec(), Deadline::Now).unwrap(),
            2 => {
                *version = number + dice.below(2);
                session.replace("plus", plus(*version), Deadline::Now).unwrap();
                session.replace("slow", slow_plus(*version), Deadline::Now).unwrap();
            }
            3 => session.resize(1 + dice.below(2)).unwrap(),
            4 => drain(device, number, action),
            _ => {
                let mut producer = session.producer(0).unwrap();
                (0..dice.below(200)).for_each(|arg| run_both(session, &mut producer, *version, arg));
            }
        }
    }
}

/// Runs a batch in one pass.
fn drain(device: &Arc<dyn Device>, number: u32, seed: u32) {
    let spec = Spec::new(Geometry::new(64).groups(1)).handler("plus", plus(number));
    let mut drain = Drain::new(device, &spec).unwrap();
    let (plus, mut batch) = (drain.opcode("plus").unwrap(), Batch::new());
    (0..200).for_each(|arg| batch.push(0, Task::new(plus).args([arg ^ seed])).unwrap());
    let readback = drain.run(&batch).unwrap();
    let results = readback.outcomes().into_iter().flatten();
    assert!(results.zip(0..).all(|(result, arg)| result == Ok((arg ^ seed) + number)));
}

#[test]
fn four_sessions_are_launched_stopped_and_handed_over_at_random() {
    let actions = std::env::var(ACTIONS).map_or(40, |text| text.parse().expect("a number of actions"));
    on_every_device(|device| {
        // A session that lives all the while is asked to make way again and again.
        let bystander = Session::launch(device, &spec(5)).unwrap();
        std::thread::scope(|threads| {
            let actors: Vec<_> =
                (0..4).map(|thread| threads.spawn(move || act(device, thread, actions))).collect();
            let mut producer = bystander.producer(0).unwrap();
            while !actors.iter().all(|actor| actor.is_finished()) {
                run_both(&bystander, &mut producer, 5, 40);
            }
            actors.into_iter().for_each(|actor| actor.join().unwrap());
        });
        bystander.quiesce(LONG).unwrap();
        assert!(bystander.snapshot().unwrap().runs > 1);
    });
}
