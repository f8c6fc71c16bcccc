//! Explores events: signals and cancels that race with tasks that begin to wait, and with whoever holds the list of them.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};

use super::cells::{CANCEL, PARKED, PHASE, RUNNABLE};
use super::plan::{Plain, Plan, holds};

/// The task of a cell is PARKED until an event has come.
const AWAITS_EVENT: u64 = 1 << 14;

/// A task that waits for the event.
struct Waiter {
    state: AtomicU64,
    /// The words of the cell, which belong to whoever has it.
    words: Vec<Plain>,
    /// The count that it waits for.
    wanted: u64,
    /// The next cell of the list, and one more.
    next: AtomicU64,
    /// How often it went on.
    woken: AtomicU64,
}

/// An event and the tasks that wait for it.
struct Event {
    plan: Plan,
    count: AtomicU64,
    /// How many tasks were cancelled.
    cancels: AtomicU64,
    /// The first cell of the list, and one more.
    list: AtomicU64,
    waiters: Vec<Waiter>,
    /// What each signaller has written before it signalled. There are as many as some task waits for, which sees it all.
    written: Vec<Plain>,
}

impl Event {
    /// Returns an event for which no task waits yet, but so many that run will.
    fn new(plan: Plan, wanted: &[u64]) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let waiter = |wanted: &u64| Waiter {
            state: AtomicU64::new(RUNNABLE),
            words: Plain::several(1),
            wanted: *wanted,
            next: word(),
            woken: word(),
        };
        let waiters = wanted.iter().map(waiter).collect();
        let (count, cancels, list) = (word(), word(), word());
        let most = wanted.iter().max().map_or(0, |most| *most as usize);
        Arc::new(Event { plan, count, cancels, list, waiters, written: Plain::several(most) })
    }

    fn change(&self, step: &str, cell: usize, change: impl Fn(u64) -> u64) -> u64 {
        let state = &self.waiters[cell].state;
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            let order = self.plan.order(step);
            match state.compare_exchange(seen, change(seen), order, Ordering::Relaxed) {
                Ok(_) => return seen,
                Err(found) => seen = found,
            }
        }
    }

    /// Lets the task of a cell wait, unless it need not.
    fn wait(&self, cell: usize) {
        let waiter = &self.waiters[cell];
        waiter.words[0].write();
        let come = self.count.load(self.plan.order("come")) >= waiter.wanted;
        let goes_on = |seen: u64| come || seen & CANCEL != 0;
        let seen = self.change("park", cell, |seen| match goes_on(seen) {
            true => seen,
            false => (seen & !PHASE) | AWAITS_EVENT | PARKED,
        });
        if goes_on(seen) {
            return self.go_on(cell, seen);
        }
        self.enlist(cell as u64 + 1, cell);
        let count = self.count.load(self.plan.order("recheck"));
        let cancelled = waiter.state.load(Ordering::Relaxed) & CANCEL != 0;
        if (count >= waiter.wanted || cancelled) && !self.plan.wrong("a waiter looks once") {
            self.wake(count);
        }
    }

    /// Puts a chain of cells in front of the list.
    fn enlist(&self, first: u64, last: usize) {
        let mut head = 0;
        loop {
            self.waiters[last].words[0].write();
            self.waiters[last].next.store(head, Ordering::Relaxed);
            match self.list.compare_exchange(head, first, self.plan.order("enlist"), Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Signals the event once.
    fn signal(&self, signaller: usize) {
        self.written[signaller].write();
        let before = self.count.fetch_add(1, self.plan.order("signal"));
        self.wake(before + 1);
    }

    /// Cancels the task of a cell.
    fn cancel(&self, cell: usize) {
        self.change("apply", cell, |seen| seen | CANCEL);
        self.cancels.fetch_add(1, self.plan.order("count cancel"));
        self.wake(self.count.load(self.plan.order("present")));
    }

    /// Takes the list, wakes those that need not wait any longer, and puts the others back.
    fn wake(&self, mut count: u64) {
        let plan = self.plan;
        loop {
            let mut at = match () {
                () if plan.wrong("the list is not taken") => self.list.load(Ordering::Acquire),
                // A plain look does not tell the waiting side anything.
                () if plan.wrong("an empty list is not taken") && self.list.load(Ordering::Acquire) == 0 => 0,
                () => self.list.swap(0, plan.order("unlist")),
            };
            if at == 0 {
                return;
            }
            let mut kept: Option<(u64, usize, u64)> = None;
            while at != 0 {
                let cell = at as usize - 1;
                let waiter = &self.waiters[cell];
                waiter.words[0].write();
                let next = waiter.next.load(Ordering::Relaxed);
                let due = count >= waiter.wanted;
                let cancels = if due { 0 } else { self.cancels.load(plan.order("see cancel")) };
                if due || waiter.state.load(Ordering::Relaxed) & CANCEL != 0 {
                    self.take_entry(cell);
                } else {
                    waiter.next.store(kept.map_or(0, |(first, ..)| first), Ordering::Relaxed);
                    let (last, cancels) = kept.map_or((cell, cancels), |(_, last, cancels)| (last, cancels));
                    kept = Some((at, last, cancels));
                }
                at = next;
            }
            let Some((first, last, cancels)) = kept else { return };
            self.enlist(first, last);
            let now = self.count.load(plan.order("come"));
            let same = now == count
                && (self.cancels.load(plan.order("see cancel")) == cancels
                    || plan.wrong("cancels are not looked at"));
            if same || plan.wrong("whoever holds the list looks once") {
                return;
            }
            count = now;
        }
    }

    /// Takes a cell from its queue, which only one thread can do, and makes its task go on.
    fn take_entry(&self, cell: usize) {
        let seen = self.waiters[cell].state.fetch_sub(AWAITS_EVENT + PARKED - RUNNABLE, Ordering::Relaxed);
        assert_eq!(seen & (AWAITS_EVENT | PHASE), AWAITS_EVENT | PARKED, "the task was woken twice");
        self.go_on(cell, seen);
    }

    /// Lets the task of a cell go on, which this thread has.
    fn go_on(&self, cell: usize, seen: u64) {
        let waiter = &self.waiters[cell];
        waiter.words[0].write();
        waiter.woken.fetch_add(1, Ordering::Relaxed);
        if seen & CANCEL == 0 && waiter.wanted == self.written.len() as u64 {
            self.written.iter().for_each(Plain::read);
        }
    }

    /// How often each task went on.
    fn woken(&self) -> Vec<u64> {
        self.waiters.iter().map(|waiter| waiter.woken.load(Ordering::Relaxed)).collect()
    }
}

/// The steps of a task that waits and of one that signals.
pub(crate) const SIGNAL: &[&str] = &["signal", "come", "recheck", "enlist", "unlist"];

#[test]
fn a_signal_is_not_lost_and_wakes_once() {
    let wrong = &["a waiter looks once", "the list is not taken", "an empty list is not taken"];
    holds(3, SIGNAL, wrong, |plan| {
        let event = Event::new(plan, &[1]);
        let signaller = spawn({
            let event = event.clone();
            move || event.signal(0)
        });
        event.wait(0);
        signaller.join().unwrap();
        assert_eq!(event.woken(), [1]);
    });
}

/// The steps of whoever holds the list while another one signals.
pub(crate) const HOLD: &[&str] = &["signal", "enlist", "unlist"];

/// The first signal is not enough, so whoever made it puts the task back. The second one may find no list meanwhile.
#[test]
fn a_signal_that_finds_the_list_taken_is_not_lost() {
    holds(3, HOLD, &["whoever holds the list looks once", "an empty list is not taken"], |plan| {
        let event = Event::new(plan, &[2]);
        event.wait(0);
        let signaller = spawn({
            let event = event.clone();
            move || event.signal(0)
        });
        event.signal(1);
        signaller.join().unwrap();
        assert_eq!(event.woken(), [1]);
    });
}

/// Of two tasks in the list, one goes on after the first signal and one after the second.
#[test]
fn those_that_are_put_back_are_woken_later() {
    holds(2, &[], &["whoever holds the list looks once", "the list is not taken"], |plan| {
        let event = Event::new(plan, &[1, 2]);
        event.wait(0);
        event.wait(1);
        let signaller = spawn({
            let event = event.clone();
            move || event.signal(0)
        });
        event.signal(1);
        signaller.join().unwrap();
        assert_eq!(event.waiters[1].woken.load(Ordering::Relaxed), 1);
        assert_eq!(event.waiters[0].woken.load(Ordering::Relaxed), 1);
    });
}

/// The steps of whoever holds the list while a task is cancelled.
pub(crate) const CANCELS: &[&str] = &["count cancel", "see cancel", "enlist", "unlist"];

#[test]
fn a_cancel_that_finds_the_list_taken_is_not_lost() {
    holds(3, CANCELS, &["cancels are not looked at"], |plan| {
        let event = Event::new(plan, &[2]);
        event.wait(0);
        let signaller = spawn({
            let event = event.clone();
            move || event.signal(0)
        });
        event.cancel(0);
        signaller.join().unwrap();
        assert_eq!(event.woken(), [1]);
    });
}

#[test]
fn a_task_that_is_cancelled_as_it_begins_to_wait_goes_on() {
    holds(3, &["enlist", "unlist"], &["a waiter looks once"], |plan| {
        let event = Event::new(plan, &[1]);
        let host = spawn({
            let event = event.clone();
            move || event.cancel(0)
        });
        event.wait(0);
        host.join().unwrap();
        assert_eq!(event.woken(), [1]);
    });
}

/// The step of whoever cancels a task and finds that an event has come for which another one waits.
pub(crate) const PRESENT: &[&str] = &["present"];

#[test]
fn a_task_that_is_woken_because_another_is_cancelled_sees_what_was_before_the_signal() {
    holds(3, PRESENT, &[], |plan| {
        let event = Event::new(plan, &[1, 9]);
        let event = Arc::new(Event { written: Plain::several(1), ..Arc::into_inner(event).unwrap() });
        event.wait(0);
        let signaller = spawn({
            let event = event.clone();
            move || event.signal(0)
        });
        event.cancel(1);
        signaller.join().unwrap();
        assert_eq!(event.woken(), [1, 0]);
    });
}

/// The steps between a host that says for which event a task waits and the group that adopts the task.
pub(crate) const AFTER: &[&str] = &["publish", "after"];

#[test]
fn a_group_sees_for_which_event_a_task_waits() {
    holds(2, AFTER, &[], |plan| {
        let words = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let group = spawn({
            let words = words.clone();
            move || {
                while words.0.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
                plan.fence("after");
                words.1.load(Ordering::Relaxed)
            }
        });
        words.1.store(7, Ordering::Relaxed);
        words.0.store(1, plan.order("publish"));
        assert_eq!(group.join().unwrap(), 7);
    });
}
