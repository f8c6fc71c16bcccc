//! Explores far rings, in which a router passes tails on and groups claim windows.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;
use pelton::protocol::record::TaskEnd;
use pelton::ring::{EndsSeen, HostRing};

use super::near::{How, Near, task, through};
use super::plan::{Patience, Plain, Plan, Words, holds};

/// A far ring with one tail in host memory and one in device memory.
pub(crate) struct Far {
    pub near: Near,
    pub tails: Words,
    /// The tail in device memory.
    pub tail: AtomicU64,
    pub claimed: AtomicU64,
}

impl Far {
    pub(crate) fn new(plan: Plan, log2: u32) -> Arc<Self> {
        let slots = 1 << log2;
        let tails = Words::new(plan, "tails", 1);
        Arc::new(Far {
            near: Near {
                plan,
                how: How::InPlace,
                ring: HostRing {
                    lines: Words::new(plan, "slots", slots),
                    done: Words::new(plan, "done", slots),
                    taken: Words::new(plan, "taken", slots),
                    tail: Some((tails.clone(), 0)),
                    first: 0,
                    log2,
                },
                points: Plain::several(slots),
                effects: Plain::several(slots),
            },
            tails,
            tail: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
        })
    }

    /// Passes the tail on, and returns how far it is now.
    pub(crate) fn route(&self) -> u64 {
        let plan = self.near.plan;
        let now = self.tails.at(0).load(plan.order("route"));
        if now != self.tail.load(Ordering::Relaxed) {
            self.tail.store(now, plan.order("pass on"));
        }
        now
    }

    /// Passes the tail on until all tasks are there or patience is exhausted.
    fn forward(&self, patience: u32) {
        Patience(patience).poll(|| (self.route() == COUNT).then_some(()));
    }

    /// Claims one task if there is one below `room`.
    pub(crate) fn claim(&self, room: impl FnOnce() -> u64) -> Option<u64> {
        let plan = self.near.plan;
        let from = self.claimed.load(Ordering::Relaxed);
        let end = self.tail.load(plan.order("tail")).min(room());
        let left =
            if plan.wrong("the tail is newer") { end.wrapping_sub(from) } else { end.max(from) - from };
        if left == 0 {
            return None;
        }
        let won = self.claimed.compare_exchange(from, from + 1, Ordering::Relaxed, Ordering::Relaxed);
        if plan.wrong("no claim") {
            return Some(from);
        }
        won.ok()
    }

    /// Runs a task that was claimed.
    fn run(&self, position: u64) {
        let near = &self.near;
        let slot = near.slot(position);
        assert_eq!(near.ring.lines.word(slot, 2).load(Ordering::Relaxed), position + 1, "it is another line");
        near.points[slot].read();
        near.effects[slot].write();
        near.plan.fence("complete");
        near.post(position, TaskEnd::Done(position as u32 + 1), Ordering::Relaxed);
    }
}

/// The steps that only far rings have.
pub(crate) const ROUTE: &[&str] = &["commit", "route", "pass on", "tail"];

const COUNT: u64 = 2;

/// Claims and runs the tasks that there are.
fn work(far: &Far, ran: &[AtomicU64; 2], patience: u32) {
    through(0, COUNT, patience, |_| {
        let position = far.claim(|| u64::MAX)?;
        let before = ran[position as usize].fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "position {position} ran twice");
        far.run(position);
        Some(())
    });
}

/// Lets two groups share a ring.
fn groups(plan: Plan) {
    let far = Far::new(plan, 1);
    let ran = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let groups = [0, 1].map(|_| {
        let (far, ran) = (far.clone(), ran.clone());
        spawn(move || work(&far, &ran, 1))
    });
    let router = spawn({
        let far = far.clone();
        move || far.forward(1)
    });
    for position in 0..COUNT {
        far.near.points[position as usize].write();
        far.near.ring.publish(position, &task(position));
        far.near.ring.commit(position + 1);
    }
    router.join().unwrap();
    groups.into_iter().for_each(|group| group.join().unwrap());
    far.forward(0);
    work(&far, &ran, 0);
    for position in 0..COUNT {
        let record = far.near.ring.record_at(position).map(|record| record.end());
        assert_eq!(record, Some(Ok(TaskEnd::Done(position as u32 + 1))));
    }
}

#[test]
fn groups_share_a_ring() {
    holds(2, ROUTE, &["the tail is newer", "no claim"], groups);
}

/// Whoever sees the record of a task sees what the task wrote, and a slot is written again only after it was read.
#[test]
fn a_group_goes_round() {
    holds(2, &[ROUTE, &["complete", "see"]].concat(), &[], |plan| {
        let far = Far::new(plan, 0);
        let group = spawn({
            let far = far.clone();
            move || through(0, COUNT, 2, |_| far.claim(|| u64::MAX).map(|position| far.run(position)))
        });
        let router = spawn({
            let far = far.clone();
            move || far.forward(2)
        });
        let (mut free, mut seen) = (0, 0);
        let tail = through(0, COUNT, 2, |position| {
            far.near.publish(position, &mut free, &mut seen)?;
            far.near.ring.give_up(position, 1, EndsSeen::NotAll);
            Some(())
        });
        if far.near.ring.record_at(tail - 1).is_some() {
            far.near.effects[0].read();
        }
        group.join().unwrap();
        router.join().unwrap();
    });
}
