//! Explores the pause of a hand-over: every task runs once although runs change while it is published, and nobody takes the
//! end of a run that is replaced for the end of the session.

use std::sync::Arc;

use loom::sync::RwLock;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};

use super::near::{How, Near, task};
use super::plan::{Plan, holds};

/// A near ring of two slots that two runs serve, one after the other.
struct Pause {
    plan: Plan,
    near: Arc<Near>,
    /// The word by which a run is asked to end.
    shutdown: AtomicU32,
    /// Where the producer notes how far it has published, after it has done so.
    tail: AtomicU64,
    /// How often each task ran.
    ran: [AtomicU64; 2],
}

impl Pause {
    /// A run that serves the ring from a position on, until it is asked to end or has served both tasks.
    fn serve(&self, from: u64) {
        let mut next = from;
        while next < 2 && self.shutdown.load(self.plan.order("stopped")) == 0 {
            match self.near.serve(next) {
                Some(()) => {
                    self.ran[next as usize].fetch_add(1, Ordering::Relaxed);
                    next += 1;
                }
                None => yield_now(),
            }
        }
    }

    /// Lets the first run end, and launches the second where the first one stopped.
    fn hand_over(self: &Arc<Self>) {
        let first_run = spawn({
            let pause = self.clone();
            move || pause.serve(0)
        });
        // Pairs with the acquire of the run.
        self.shutdown.store(1, self.plan.order("stop"));
        let early = self.near.ring.frontier(0, 2);
        first_run.join().unwrap();
        let start = match () {
            () if self.plan.wrong("the host looks before the run has ended") => early,
            () if self.plan.wrong("the next run begins where the producer has published") => {
                self.tail.load(Ordering::Acquire)
            }
            () if self.plan.wrong("the next run begins at the slots that are not free") => 0,
            () => self.near.ring.frontier(0, 2),
        };
        self.shutdown.store(0, Ordering::Release);
        self.serve(start);
    }
}

/// The producer publishes two tasks while the runs change.
#[test]
fn every_task_runs_once_while_runs_change() {
    let mistakes = [
        "the host looks before the run has ended",
        "the next run begins where the producer has published",
        "the next run begins at the slots that are not free",
    ];
    holds(2, &[], &mistakes, |plan| {
        let pause = Arc::new(Pause {
            plan,
            near: Near::new(plan, 1, How::InPlace),
            shutdown: AtomicU32::new(0),
            tail: AtomicU64::new(0),
            ran: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        let changing = spawn({
            let pause = pause.clone();
            move || pause.hand_over()
        });
        for position in 0..2 {
            pause.near.points[position as usize].write();
            pause.near.ring.publish(position, &task(position));
        }
        pause.tail.store(2, Ordering::Release);
        changing.join().unwrap();
        let ran = [0, 1].map(|position: usize| pause.ran[position].load(Ordering::Relaxed));
        assert_eq!(ran, [1, 1], "a task was lost or ran twice");
    });
}

/// A session as those who wait for tasks see it: which run serves it, and whether it has ended.
struct Watched {
    shutdown: AtomicU32,
    /// Whether each of two runs has ended.
    ended: [AtomicBool; 2],
    /// The run that serves the rings. It is locked while a run is being replaced.
    current: RwLock<usize>,
    /// Whether somebody has noted that the session has ended.
    over: AtomicBool,
}

impl Watched {
    /// What a ticket that has waited for long does, and the reaper now and then.
    fn check_for_end(&self, plan: Plan) {
        let asked = || self.shutdown.load(Ordering::Relaxed) != 0;
        if asked() {
            return;
        }
        let Ok(current) = self.current.try_read() else { return };
        // Pairs with the release of a run that ends, which was asked to before.
        let has_ended = self.ended[*current].load(Ordering::Acquire);
        if has_ended && (plan.wrong("nobody looks again whether the run was asked to end") || !asked()) {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    /// Replaces the first run, which ends when it is asked to, by the second.
    fn hand_over(self: &Arc<Self>, plan: Plan) {
        let first_run = spawn({
            let watched = self.clone();
            move || {
                while watched.shutdown.load(Ordering::Acquire) == 0 {
                    yield_now();
                }
                watched.ended[0].store(true, Ordering::Release);
            }
        });
        self.shutdown.store(1, Ordering::Release);
        first_run.join().unwrap();
        let clear = || self.shutdown.store(0, Ordering::Release);
        if plan.wrong("the word is cleared before the lock is taken") {
            clear();
        }
        let mut current = self.current.write().unwrap();
        clear();
        *current = 1;
    }
}

/// Somebody looks for the end of the session while its runs change.
#[test]
fn the_end_of_a_run_that_is_replaced_is_not_that_of_the_session() {
    let mistakes = [
        "nobody looks again whether the run was asked to end",
        "the word is cleared before the lock is taken",
    ];
    holds(3, &[], &mistakes, |plan| {
        let watched = Arc::new(Watched {
            shutdown: AtomicU32::new(0),
            ended: [AtomicBool::new(false), AtomicBool::new(false)],
            current: RwLock::new(0),
            over: AtomicBool::new(false),
        });
        let looking = spawn({
            let watched = watched.clone();
            move || watched.check_for_end(plan)
        });
        watched.hand_over(plan);
        looking.join().unwrap();
        assert!(!watched.over.load(Ordering::Relaxed), "the session goes on");
    });
}
