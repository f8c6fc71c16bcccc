//! Explores changes of control words: a task that is submitted after a change must meet it.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread::{spawn, yield_now};

use super::plan::{Plain, Plan, holds};

/// A control word that is being changed: the host's word, the copy that is kept for groups, and the words by which
/// host and keeper agree.
struct Change {
    host: AtomicU32,
    changed: AtomicU32,
    mirror: AtomicU32,
    ack: AtomicU32,
}

impl Change {
    fn new() -> Self {
        let word = || AtomicU32::new(0);
        Change { host: word(), changed: word(), mirror: word(), ack: word() }
    }

    /// Changes the word as the host does, and waits until the keeper has answered.
    fn make(&self, plan: Plan) {
        self.host.store(1, Ordering::Relaxed);
        self.changed.store(1, plan.order("change"));
        until(|| self.ack.load(plan.order("heard")) == 1);
    }

    /// Copies the change as the keeper does, and answers when the pollers know of it.
    fn keep(&self, plan: Plan, tell: impl FnOnce()) {
        until(|| self.changed.load(plan.order("changed")) == 1);
        self.mirror.store(self.host.load(Ordering::Relaxed), Ordering::Relaxed);
        tell();
        self.ack.store(1, plan.order("answer"));
    }
}

fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        yield_now();
    }
}

/// The steps between a change and a group of far rings that takes a task.
pub(crate) const FAR: &[&str] =
    &["change", "changed", "answer", "heard", "commit", "route", "pass on", "tail"];

/// A group of far rings acquires a task through the router, and reads the copy that another subgroup has changed.
#[test]
fn a_window_meets_a_change_that_was_made_before_its_tasks() {
    holds(2, FAR, &[], |plan| {
        let shared = Arc::new((Change::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let keeper = spawn({
            let shared = shared.clone();
            move || shared.0.keep(plan, || ())
        });
        let router = spawn({
            let shared = shared.clone();
            move || {
                until(|| shared.1.load(plan.order("route")) == 1);
                shared.2.store(1, plan.order("pass on"));
            }
        });
        let group = spawn({
            let shared = shared.clone();
            move || {
                until(|| shared.2.load(plan.order("tail")) == 1);
                assert_eq!(shared.0.mirror.load(Ordering::Relaxed), 1, "the task began under the old value");
            }
        });
        shared.0.make(plan);
        shared.1.store(1, plan.order("commit"));
        for thread in [keeper, router, group] {
            thread.join().unwrap();
        }
    });
}

const CHANGED: u32 = 1;
const AWAY: u32 = 2;

/// A poller that reads the copy together with a line, and the word in which it is told of a change.
struct Poller {
    change: Change,
    notice: AtomicU32,
    line: AtomicU32,
    /// Memory that is used under the old value. The host may change it once the change is in effect.
    old: Vec<Plain>,
}

impl Poller {
    fn new() -> Arc<Self> {
        Arc::new(Poller {
            change: Change::new(),
            notice: AtomicU32::new(0),
            line: AtomicU32::new(0),
            old: Plain::several(1),
        })
    }

    fn tell(&self, plan: Plan) {
        self.notice.fetch_or(CHANGED, plan.order("tell"));
        if !plan.wrong("answers at once") {
            until(|| self.notice.load(plan.order("told")) & (CHANGED | AWAY) != CHANGED);
        }
    }

    /// Looks at the ring once, and returns whether it ran a task. The copy is loaded only where it decides something,
    /// because a value that nothing orders may still be read as it was before.
    fn round(&self, plan: Plan, knows: &mut bool) -> bool {
        let told = self.notice.load(Ordering::Relaxed) & CHANGED != 0;
        let line = self.line.load(Ordering::Relaxed) == 1;
        let uses = !told || plan.wrong("runs what it read before");
        if uses && !*knows && !line {
            self.old[0].read();
        }
        let ran = uses && line;
        if ran {
            let copy = self.change.mirror.load(Ordering::Relaxed);
            assert_eq!(copy, 1, "the task began under the old value");
        }
        if told {
            plan.fence("heed");
            self.notice.fetch_and(!CHANGED, plan.order("know"));
            *knows = true;
        }
        ran
    }

    /// Looks at the ring until there is a task.
    fn rounds(&self, plan: Plan) {
        let mut knows = false;
        until(|| self.round(plan, &mut knows));
    }

    /// Does what the host does once the change is in effect.
    fn publish(&self, plan: Plan) {
        self.old[0].write();
        self.line.store(1, plan.order("publish"));
    }
}

/// The steps between a change and a poller.
pub(crate) const POLLER: &[&str] = &["tell", "heed", "know", "told"];

/// For a task that was submitted after a change, a poller uses nothing that it read before the change.
#[test]
fn a_poller_meets_a_change_that_was_made_before_its_task() {
    holds(3, POLLER, &["answers at once"], |plan| {
        let all = Poller::new();
        let keeper = spawn({
            let all = all.clone();
            move || all.change.keep(plan, || all.tell(plan))
        });
        let poller = spawn({
            let all = all.clone();
            move || all.rounds(plan)
        });
        all.change.make(plan);
        all.publish(plan);
        keeper.join().unwrap();
        poller.join().unwrap();
    });
}

/// The step between the lines of a window and the word that says that the group is running them.
pub(crate) const AWAY_STEPS: &[&str] = &["lines"];

/// The keeper does not wait for a window, and the poller that comes back from one still meets the change. Host and
/// keeper are one thread here.
#[test]
fn a_poller_that_was_away_meets_the_change() {
    holds(3, AWAY_STEPS, &["runs what it read before"], |plan| {
        let all = Poller::new();
        let poller = spawn({
            let all = all.clone();
            move || {
                // These are the lines of its window.
                all.old[0].read();
                plan.fence("lines");
                all.notice.fetch_or(AWAY, Ordering::Relaxed);
                all.notice.fetch_and(!AWAY, Ordering::Relaxed);
                all.rounds(plan);
            }
        });
        all.change.mirror.store(1, Ordering::Relaxed);
        all.tell(plan);
        all.publish(plan);
        poller.join().unwrap();
    });
}
