//! Explores fences: marks, the count of marks, the frontier and the epoch.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;
use pelton::protocol::record::TaskEnd;

use super::far::Far;
use super::near::{How, Near, through};
use super::plan::{Patience, Plain, Plan, holds};

/// The steps of a group that marks and follows.
pub(crate) const FOLLOW: &[&str] = &["mark", "follow", "news", "quiet"];
/// The steps that keep marks from being overwritten too early.
pub(crate) const KEEP: &[&str] = &["room", "front"];
/// The step that moves a frontier on behalf of the router.
pub(crate) const PASS: &[&str] = &["pass"];
/// The memory fences around the end of a fence task.
pub(crate) const RETIRE: &[&str] = &["settle", "show"];

/// The bit that distinguishes the mark of a fence.
const FENCE: u64 = 1 << 63;

/// The marks and the frontier of a ring.
struct Front {
    plan: Plan,
    marks: Vec<AtomicU64>,
    /// The content of each mark, as memory that only the protocol's order protects.
    said: Vec<Plain>,
    front: AtomicU64,
    /// The frontier, as memory that only the protocol's order protects, because one group follows at a time.
    turn: Vec<Plain>,
    news: AtomicU64,
    epoch: AtomicU64,
}

impl Front {
    fn new(plan: Plan, slots: usize) -> Self {
        Front {
            plan,
            marks: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            said: Plain::several(slots),
            front: AtomicU64::new(0),
            turn: Plain::several(1),
            news: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    fn mark(&self, position: u64, fence: bool) {
        let slot = position as usize % self.marks.len();
        self.said[slot].write();
        let mark = if fence { (position + 1) | FENCE } else { position + 1 };
        self.marks[slot].store(mark, self.plan.order("mark"));
    }

    /// Counts a mark, and follows the marks if no other group does. `retire` is called for every fence on the way.
    fn tell(&self, retire: impl Fn(u64)) {
        if self.news.fetch_add(1, self.plan.order("news")) != 0 && !self.plan.wrong("all follow") {
            return;
        }
        let mut seen = 1;
        loop {
            self.turn[0].write();
            let from = self.front.load(Ordering::Relaxed);
            let mut at = from;
            loop {
                let slot = at as usize % self.marks.len();
                let mark = self.marks[slot].load(self.plan.order("follow"));
                if (mark & !FENCE).wrapping_sub(at + 1) >= self.marks.len() as u64 {
                    break;
                }
                self.said[slot].read();
                if mark & FENCE != 0 {
                    retire(at);
                    self.epoch.fetch_add(1, Ordering::Relaxed);
                }
                at = mark & !FENCE;
            }
            if at != from || self.plan.wrong("a frontier that stands is stored") {
                self.front.store(at, self.plan.order("front"));
            }
            let before = self.news.fetch_sub(seen, self.plan.order("quiet"));
            if before == seen || self.plan.wrong("one round") {
                return;
            }
            seen = before - seen;
        }
    }
}

/// Two tasks and a fence after them are ended by three groups in any order.
#[test]
fn a_fence_comes_after_what_was_before_it() {
    holds(2, FOLLOW, &["all follow", "one round"], |plan| {
        let front = Arc::new((Front::new(plan, 4), Plain::several(2)));
        let end = |front: &(Front, Vec<Plain>), position: u64| {
            if let Some(effect) = front.1.get(position as usize) {
                effect.write();
            }
            front.0.mark(position, position == 2);
            front.0.tell(|fence| {
                assert_eq!(fence, 2);
                front.1.iter().for_each(Plain::read);
            });
        };
        let groups: Vec<_> = [0, 2]
            .map(|position| {
                let front = front.clone();
                spawn(move || end(&front, position))
            })
            .into();
        end(&front, 1);
        groups.into_iter().for_each(|group| group.join().unwrap());
        assert_eq!(front.0.epoch.load(Ordering::Relaxed), 1, "the fence was lost or came twice");
        assert_eq!(front.0.front.load(Ordering::Relaxed), 3);
        assert_eq!(front.0.news.load(Ordering::Relaxed), 0);
    });
}

/// Claims and ends the tasks that there are, one of which may be a fence.
fn work(far: &Far, front: &Front, fence: u64, patience: u32) {
    let plan = front.plan;
    let room = || match plan.wrong("no room") {
        true => u64::MAX,
        false => front.front.load(plan.order("room")) + front.marks.len() as u64,
    };
    through(0, COUNT, patience, |_| {
        let position = far.claim(room)?;
        if position != fence {
            far.near.post(position, TaskEnd::Done(0), Ordering::Relaxed);
        }
        front.mark(position, position == fence);
        front.tell(|fence| {
            let before = far.near.slot(fence - 1);
            let record = far.near.ring.done.at(before).load(Ordering::Relaxed);
            assert_ne!(record, 0, "the fence came too early");
            far.near.post(fence, TaskEnd::Done(0), Ordering::Relaxed);
        });
        Some(())
    });
}

const COUNT: u64 = 3;
/// The position of a fence that does not exist.
const NONE: u64 = u64::MAX;

/// Publishes a task if there is room. This model has neither lines nor a router, which other tests explore.
fn publish(far: &Far, position: u64) -> Option<()> {
    if position >= 2 {
        far.near.ring.record_at(position - 2)?;
    }
    far.tail.store(position + 1, Ordering::Release);
    Some(())
}

/// Explores a task, a fence and a task of the next lap: a mark must stay until it has been followed.
fn laps(plan: Plan) {
    let far = Far::new(plan, 1);
    let front = Arc::new(Front::new(plan, 2));
    through(0, 2, 0, |position| publish(&far, position));
    let groups = [0, 1].map(|_| {
        let (far, front) = (far.clone(), front.clone());
        spawn(move || work(&far, &front, 1, 1))
    });
    let mut tail = through(2, COUNT, 2, |position| publish(&far, position));
    groups.into_iter().for_each(|group| group.join().unwrap());
    for _ in 0..COUNT {
        tail = through(tail, COUNT, 0, |position| publish(&far, position));
        work(&far, &front, 1, 0);
    }
    assert_eq!(front.epoch.load(Ordering::Relaxed), 1, "the fence was lost or came twice");
    assert_eq!(front.front.load(Ordering::Relaxed), COUNT);
}

#[test]
fn marks_stay_until_they_were_followed() {
    holds(2, KEEP, &["no room"], laps);
}

/// Lets the router run the task at a position if everything before it has ended and was followed, and then shows the
/// tasks up to `tail`.
fn attempt(far: &Far, front: &Front, position: u64, tail: u64) -> Option<()> {
    let quiet =
        far.claimed.load(Ordering::Relaxed) == position && front.front.load(Ordering::Relaxed) == position;
    quiet.then(|| {
        far.near.post(position, TaskEnd::Done(0), Ordering::Relaxed);
        far.claimed.store(position + 1, Ordering::Relaxed);
        front.plan.fence("pass");
        front.front.store(position + 1, Ordering::Relaxed);
        far.tail.store(tail, front.plan.order("pass on"));
    })
}

/// Two groups have the tasks before `position`. The router runs that task when they are quiet, and leaves the rest to
/// them.
fn between(plan: Plan, log2: u32, position: u64) {
    let far = Far::new(plan, log2);
    let front = Arc::new(Front::new(plan, 1 << log2));
    far.tail.store(position, Ordering::Release);
    let groups = [0, 1].map(|_| {
        let (far, front) = (far.clone(), front.clone());
        spawn(move || work(&far, &front, NONE, 1))
    });
    let mut ran = Patience(2).poll(|| attempt(&far, &front, position, COUNT));
    groups.into_iter().for_each(|group| group.join().unwrap());
    for _ in 0..2 {
        work(&far, &front, NONE, 0);
        ran = ran.or_else(|| attempt(&far, &front, position, COUNT));
    }
    assert_eq!(far.claimed.load(Ordering::Relaxed), COUNT);
    assert_eq!(front.front.load(Ordering::Relaxed), COUNT, "the frontier is stuck");
}

/// A task that the router runs stands between two tasks that mark the same place.
#[test]
fn the_router_runs_a_task_between_two() {
    holds(2, PASS, &[], |plan| between(plan, 0, 1));
}

/// The mark of a group may be followed before it is counted, and then that group has nothing left to do.
#[test]
fn the_router_runs_a_task_after_two() {
    holds(2, &[], &["a frontier that stands is stored"], |plan| between(plan, 2, 2));
}

/// Whoever sees the epoch sees the ends of the tasks before the fence, and whoever sees the record of the fence sees
/// the epoch.
#[test]
fn the_epoch_is_between_the_records() {
    holds(2, &[RETIRE, &["see"]].concat(), &[], |plan| {
        let both = Arc::new((Near::new(plan, 1, How::InPlace), AtomicU64::new(0)));
        let group = spawn({
            let both = both.clone();
            move || {
                both.0.post(0, TaskEnd::Done(0), Ordering::Relaxed);
                plan.fence("settle");
                both.1.fetch_add(1, Ordering::Relaxed);
                plan.fence("show");
                both.0.post(1, TaskEnd::Done(1), Ordering::Relaxed);
            }
        });
        if both.1.load(Ordering::Acquire) != 0 {
            assert!(both.0.ring.record_at(0).is_some(), "the epoch came before the record");
        }
        if both.0.ring.record_at(1).is_some() {
            assert_eq!(both.1.load(Ordering::Relaxed), 1, "the record came before the epoch");
        }
        group.join().unwrap();
    });
}
