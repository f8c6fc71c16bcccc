//! Explores stopping against publishing: every task either has a record or is left, and the holder of its ticket is
//! told which.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};

use super::near::{How, Near, task};
use super::plan::{Plain, Plan, holds};

/// A near ring whose group may be stopped.
struct Stop {
    near: Arc<Near>,
    shutdown: AtomicU32,
    /// The state of the session, which is 0 while it runs.
    state: AtomicU32,
    ran: [AtomicU64; 2],
}

impl Stop {
    /// Acts as the group, which looks whether it is to stop and then for the next task.
    fn serve(&self, plan: Plan) {
        let mut next = 0;
        while self.shutdown.load(plan.order("stopped")) == 0 && next < 2 {
            if self.near.serve(next).is_some() {
                self.ran[next as usize].fetch_add(1, Ordering::Relaxed);
                next += 1;
            } else {
                yield_now();
            }
        }
    }

    /// Returns what the holder of a ticket is told: that the task has ended, or that it never will.
    fn ended(&self, plan: Plan, position: u64) -> bool {
        loop {
            if self.near.ring.record_at(position).is_some() {
                return true;
            }
            if self.state.load(plan.order("ended")) != 0 {
                return !plan.wrong("one look") && self.near.ring.record_at(position).is_some();
            }
            yield_now();
        }
    }
}

/// The steps by which a session ends.
pub(crate) const ENDS: &[&str] = &["end", "ended"];
/// The steps by which a session is asked to stop.
pub(crate) const STOPS: &[&str] = &["stop", "stopped", "halt", "halted"];

#[test]
fn every_task_ends_or_is_left() {
    holds(2, ENDS, &["one look"], |plan| {
        let stop = Arc::new(Stop {
            near: Near::new(plan, 1, How::InPlace),
            shutdown: AtomicU32::new(0),
            state: AtomicU32::new(0),
            ran: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        let stopper = spawn({
            let stop = stop.clone();
            move || {
                let group = spawn({
                    let stop = stop.clone();
                    move || stop.serve(plan)
                });
                stop.shutdown.store(1, plan.order("stop"));
                group.join().unwrap();
                stop.state.store(1, plan.order("end"));
            }
        });
        for position in 0..2 {
            stop.near.points[position as usize].write();
            stop.near.ring.publish(position, &task(position));
        }
        let told = [0, 1].map(|position| stop.ended(plan, position));
        stopper.join().unwrap();
        let left = (0..2).filter(|position| stop.near.ring.record_at(*position).is_none()).count();
        let ran = stop.ran.iter().map(|ran| ran.load(Ordering::Relaxed)).sum::<u64>();
        assert_eq!(left as u64 + ran, 2, "a task was lost or ran twice");
        for position in 0..2 {
            let record = stop.near.ring.record_at(position).is_some();
            assert_eq!(told[position as usize], record, "the holder of {position} was told otherwise");
        }
    });
}

/// Groups of far rings are told to stop by the router, and see what the host did before it asked.
#[test]
fn the_word_to_stop_is_passed_on() {
    holds(2, STOPS, &[], |plan| {
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0), Plain::several(1)));
        let router = spawn({
            let words = words.clone();
            move || {
                while words.0.load(plan.order("stopped")) == 0 {
                    yield_now();
                }
                words.1.store(1, plan.order("halt"));
            }
        });
        let group = spawn({
            let words = words.clone();
            move || {
                while words.1.load(plan.order("halted")) == 0 {
                    yield_now();
                }
                words.2[0].read();
            }
        });
        words.2[0].write();
        words.0.store(1, plan.order("stop"));
        router.join().unwrap();
        group.join().unwrap();
    });
}
