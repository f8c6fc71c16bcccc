//! Explores near rings: publish, take, complete, see, give up and reuse; torn lines; cancelling.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};
use pelton::protocol::record::TaskEnd;
use pelton::protocol::slot::{generation_at, is_sealed, status_word};
use pelton::protocol::{CompletionRecord, Status};
use pelton::ring::{EndsSeen, HostRing};
use pelton::{Opcode, Task};

use super::plan::{Patience, Plain, Plan, Words, holds};

/// How a group takes and ends tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The group acquires the first word of a line, and has a fence before the record.
    InPlace,
    /// The group reads a line at once, acquires afterwards, and has a fence before the record.
    Copies,
    /// The group reads lines that lie in the device's memory at once, and then acquires the payloads in the host's.
    Apart,
    /// The group reads a line at once, acquires afterwards, and stores the record with release.
    Light,
}

/// A stripe, its group, and memory that only the protocol's order protects.
pub(crate) struct Near {
    pub plan: Plan,
    pub how: How,
    pub ring: HostRing<Words, Words>,
    /// The memory that tasks point to, such as their payloads, which the producer writes before it publishes.
    pub points: Vec<Plain>,
    /// The memory that tasks write, such as their replies, which the holder of the ticket reads before it gives up.
    pub effects: Vec<Plain>,
}

pub(crate) fn task(position: u64) -> Task {
    Task::new(Opcode::NOP).args([position as u32 + 1])
}

impl Near {
    pub(crate) fn new(plan: Plan, log2: u32, how: How) -> Arc<Self> {
        let slots = 1 << log2;
        Arc::new(Near {
            plan,
            how,
            ring: HostRing {
                lines: Words::new(plan, "slots", slots),
                done: Words::new(plan, "done", slots),
                taken: Words::new(plan, "taken", slots),
                tail: None,
                first: 0,
                log2,
            },
            points: Plain::several(slots),
            effects: Plain::several(slots),
        })
    }

    pub(crate) fn slot(&self, position: u64) -> usize {
        (position & (self.ring.capacity() - 1)) as usize
    }

    /// Returns a line if it is complete and belongs to this position. The first word is loaded before all of them.
    pub(crate) fn take(&self, position: u64, first: Ordering) -> Option<[u64; 8]> {
        let slot = self.slot(position);
        let ready = status_word(Status::Published, generation_at(position, self.ring.log2));
        if self.ring.lines.word(slot, 0).load(first) as u32 != ready {
            return None;
        }
        let mut line = [0; 8];
        for (k, word) in line.iter_mut().take(3).enumerate() {
            *word = self.ring.lines.word(slot, k).load(Ordering::Relaxed);
        }
        (is_sealed(&line) || self.plan.wrong("no check")).then_some(line)
    }

    pub(crate) fn post(&self, position: u64, end: TaskEnd, order: Ordering) {
        let record = CompletionRecord::new(end, generation_at(position, self.ring.log2));
        self.ring.done.at(self.slot(position)).store(record.0, order);
    }

    /// Takes and runs the task at a position if it is there.
    pub(crate) fn serve(&self, position: u64) -> Option<()> {
        let line = match self.how {
            How::Copies | How::Light => {
                let line = self.take(position, Ordering::Relaxed)?;
                self.plan.fence("taken");
                line
            }
            How::Apart => {
                let line = self.take(position, Ordering::Relaxed)?;
                self.plan.fence("brought");
                line
            }
            How::InPlace => self.take(position, self.plan.order("take"))?,
        };
        assert_eq!(line[2], position + 1, "it is another line");
        self.points[self.slot(position)].read();
        self.effects[self.slot(position)].write();
        let order = match self.how {
            How::Light => self.plan.order("post"),
            _ => {
                self.plan.fence("complete");
                Ordering::Relaxed
            }
        };
        self.post(position, TaskEnd::Done(line[2] as u32), order);
        Some(())
    }

    /// Publishes a task if there is room.
    pub(crate) fn publish(&self, position: u64, free: &mut u64, seen: &mut u64) -> Option<()> {
        if position - *free == self.ring.capacity() {
            *free = self.ring.reclaim(*free, position, seen);
        }
        (position - *free < self.ring.capacity()).then(|| {
            self.points[self.slot(position)].write();
            self.ring.publish(position, &task(position));
            self.ring.commit(position + 1);
        })
    }

    /// Gives up a task if it has ended.
    fn end(&self, position: u64) -> Option<()> {
        let record = self.ring.record_at(position)?;
        assert_eq!(record.end(), Ok(TaskEnd::Done(position as u32 + 1)));
        self.effects[self.slot(position)].read();
        self.ring.give_up(position, 1, EndsSeen::All);
        Some(())
    }
}

/// Steps through positions from `from` on as far as patience allows, and returns where it stopped.
pub(crate) fn through(from: u64, to: u64, patience: u32, mut step: impl FnMut(u64) -> Option<()>) -> u64 {
    let mut patience = Patience(patience);
    (from..to).find(|position| patience.poll(|| step(*position)).is_none()).unwrap_or(to)
}

/// Runs a producer, a group, and another thread that holds the tickets.
fn laps(plan: Plan, log2: u32, count: u64, how: How) {
    let near = Near::new(plan, log2, how);
    let group = spawn({
        let near = near.clone();
        move || through(0, count, 2, |position| near.serve(position))
    });
    let holder = spawn({
        let near = near.clone();
        move || through(0, count, 2, |position| near.end(position))
    });
    let (mut free, mut seen) = (0, 0);
    let mut tail = through(0, count, 2, |position| near.publish(position, &mut free, &mut seen));
    let (mut taken, mut ended) = (group.join().unwrap(), holder.join().unwrap());
    while ended < count {
        tail = through(tail, count, 0, |position| near.publish(position, &mut free, &mut seen));
        taken = through(taken, tail, 0, |position| near.serve(position));
        let before = ended;
        ended = through(ended, taken, 0, |position| near.end(position));
        assert_ne!(before, ended, "the ring is stuck");
    }
}

pub(crate) const LAPS: &[&str] = &["publish", "take", "complete", "see", "give up", "reclaim"];

#[test]
fn one_slot_is_used_again_and_again() {
    holds(2, LAPS, &[], |plan| laps(plan, 0, 3, How::InPlace));
}

/// The same, where a group reads lines at once.
pub(crate) const COPIES: &[&str] = &["publish", "taken", "complete", "see", "give up", "reclaim"];

#[test]
fn lines_are_copied() {
    holds(2, COPIES, &[], |plan| laps(plan, 0, 3, How::Copies));
}

/// The same, where lines lie at the device and payloads do not.
pub(crate) const APART: &[&str] = &["publish", "brought", "complete", "see", "give up", "reclaim"];

#[test]
fn payloads_are_brought() {
    holds(2, APART, &[], |plan| laps(plan, 0, 3, How::Apart));
}

/// The same, where the poller runs the task.
pub(crate) const LIGHT: &[&str] = &["publish", "taken", "post", "see", "give up", "reclaim"];

#[test]
fn light_tasks_are_run_at_once() {
    holds(2, LIGHT, &[], |plan| laps(plan, 0, 3, How::Light));
}

#[test]
fn two_slots_are_used_again_and_again() {
    holds(2, LAPS, &[], |plan| laps(plan, 1, 5, How::InPlace));
}

/// Tickets that are dropped at once occupy a slot only until its record is there.
#[test]
fn nobody_waits() {
    holds(2, &["publish", "take", "complete", "see"], &[], |plan| {
        let near = Near::new(plan, 0, How::InPlace);
        let group = spawn({
            let near = near.clone();
            move || through(0, 3, 4, |position| near.serve(position))
        });
        let (mut free, mut seen) = (0, 0);
        through(0, 3, 4, |position| {
            near.publish(position, &mut free, &mut seen)?;
            near.ring.give_up(position, 1, EndsSeen::NotAll);
            Some(())
        });
        group.join().unwrap();
    });
}

/// A group that reads a whole line at once, in no order, is protected from torn lines by the check.
#[test]
fn torn_lines_are_not_taken() {
    holds(3, &[], &["no check"], |plan| {
        let near = Near::new(plan, 0, How::InPlace);
        let group = spawn({
            let near = near.clone();
            move || {
                for _ in 0..2 {
                    if let Some(line) = near.take(0, Ordering::Relaxed) {
                        assert_eq!(line[2], 1, "it is torn");
                    }
                }
            }
        });
        near.ring.publish(0, &task(0));
        group.join().unwrap();
    });
}

/// Runs a task that may be cancelled in the meantime, correctly or with the mistake of the plan.
fn cancel(plan: Plan) {
    let near = Near::new(plan, 0, How::InPlace);
    let ran = Arc::new(AtomicU64::new(0));
    near.ring.publish(0, &task(0));
    let group = spawn({
        let (near, ran) = (near.clone(), ran.clone());
        move || {
            while near.take(0, plan.order("take")).is_none() {
                yield_now();
            }
            let cancelled = || near.ring.lines.word(0, 0).load(Ordering::Relaxed) >> 32 == CANCEL;
            // A group-wide task is put aside because of its opcode and run later according to it, and the opcode may
            // change in between.
            let aside = !cancelled();
            let runs = aside && !cancelled();
            if runs {
                ran.fetch_add(1, Ordering::Relaxed);
            }
            plan.fence("complete");
            let done = if plan.wrong("done by the first look") { aside } else { runs };
            near.post(
                0,
                if done { TaskEnd::Done(0) } else { TaskEnd::Cancelled { steps: 0 } },
                Ordering::Relaxed,
            );
        }
    });
    near.ring.cancel(0);
    let record = loop {
        match near.ring.record_at(0) {
            Some(record) => break record.end().unwrap(),
            None => yield_now(),
        }
    };
    let times = if record == (TaskEnd::Cancelled { steps: 0 }) { 0 } else { 1 };
    assert_eq!(ran.load(Ordering::Relaxed), times, "the record says {record:?}");
    group.join().unwrap();
}

const CANCEL: u64 = Opcode::CANCEL.code() as u64;

#[test]
fn a_cancelled_task_either_ran_or_did_not() {
    holds(3, &["complete", "see"], &["done by the first look"], cancel);
}
