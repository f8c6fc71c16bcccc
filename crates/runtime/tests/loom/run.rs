//! A run that is replaced while a producer publishes: the new run finds the task, or the producer or whoever launches it wakes it.
//!
//! The number of the run is stored and loaded without any order. What orders it are the two fences of the eventcounts: the one of the run
//! that is woken, between publishing and the look at the number, and the one of the new run, between its launch and its last look before it
//! parks. So the mistakes made here are in the sequence of the steps.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread::spawn;
use pelton_device::event::Event;

use super::near::{How, Near, task};
use super::plan::{Plan, holds};

/// Rings that two runs serve, one after the other. Each run parks on an event of its own.
struct Served {
    plan: Plan,
    near: Arc<Near>,
    /// The number of the run that serves the rings: an index into `runs`.
    number: AtomicU64,
    runs: [Event; 2],
    /// The run that is woken by producers. It is locked while a run is being replaced.
    current: Mutex<usize>,
}

impl Served {
    fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Served {
            plan,
            near: Near::new(plan, 0, How::InPlace),
            number: AtomicU64::new(0),
            runs: [Event::default(), Event::default()],
            current: Mutex::new(0),
        })
    }

    /// A run that parks while it finds nothing, until it has run the task.
    fn serve(&self, run: usize) {
        while self.near.serve(0).is_none() {
            let key = self.runs[run].announce();
            if self.near.serve(0).is_some() {
                return self.runs[run].cancel(key);
            }
            self.runs[run].park(key, None);
        }
    }

    /// Replaces the first run, which has ended, by the second.
    fn replace_run(self: &Arc<Self>) {
        let mut current = self.current.lock().unwrap();
        let late = self.plan.wrong("the number is stored after the launch");
        if !late {
            self.number.fetch_add(1, Ordering::Relaxed);
        }
        let run = spawn({
            let served = self.clone();
            move || served.serve(1)
        });
        *current = 1;
        drop(current);
        fence(Ordering::SeqCst);
        self.runs[1].wake();
        if late {
            self.number.fetch_add(1, Ordering::Relaxed);
        }
        run.join().unwrap();
    }

    /// A producer, whose handle is of the first run.
    fn submit(&self) {
        let early = self.plan.wrong("the producer looks at the number before it publishes");
        let number_before = self.number.load(Ordering::Relaxed);
        self.near.points[0].write();
        self.near.ring.publish(0, &task(0));
        // A run on a device that never parks has such a wake.
        if !self.plan.wrong("the wake has no fence") {
            self.runs[0].wake();
        }
        let number = if early { number_before } else { self.number.load(Ordering::Relaxed) };
        if number != 0 && !self.plan.wrong("the producer wakes only the run that it knows") {
            // A run that is still being launched is woken by whoever launches it.
            fence(Ordering::SeqCst);
            if let Ok(run) = self.current.try_lock() {
                self.runs[*run].wake();
            }
        }
    }
}

/// The second run is launched while a producer publishes. Loom reports a deadlock if the run parks and is never woken.
#[test]
fn a_task_that_is_published_while_runs_change_is_run() {
    let mistakes = [
        "the number is stored after the launch",
        "the producer looks at the number before it publishes",
        "the producer wakes only the run that it knows",
        "the wake has no fence",
    ];
    holds(3, &[], &mistakes, |plan| {
        let served = Served::new(plan);
        let replacing = spawn({
            let served = served.clone();
            move || served.replace_run()
        });
        served.submit();
        replacing.join().unwrap();
        assert!(served.near.ring.record_at(0).is_some(), "the task was not run");
    });
}
