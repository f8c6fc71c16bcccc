//! Explores cells: asks of the host that race with adoption, with `park` and with the end of a task.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;

use super::plan::{Patience, Plain, Plan, holds};

/// The bits of a cell's state, as in the kernel.
pub(crate) const PHASE: u64 = 3;
pub(crate) const ENDED: u64 = 0;
pub(crate) const RUNNABLE: u64 = 1;
pub(crate) const PARKED: u64 = 2;
pub(crate) const CANCEL: u64 = 1 << 4;
const PAUSE: u64 = 1 << 5;
const RESUMED: u64 = 1 << 6;
const ASKED: u64 = CANCEL | PAUSE | RESUMED;
const NEXT_SHIFT: u32 = 4;
const AWAITS_HOST: u64 = 1 << 12;
pub(crate) const GENERATION_SHIFT: u32 = 32;

/// What the host asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Cancel,
    Pause,
    Resume,
}

/// A cell, and one entry of a queue.
struct Cell {
    plan: Plan,
    state: AtomicU64,
    /// The words of the cell, which belong to whoever has it.
    words: Vec<Plain>,
    /// The step that comes next: one that waits for the host, or the last one. It is one of the words of the cell.
    step: AtomicU64,
    /// The entry of the queue, which is 0 if there is none.
    entry: AtomicU64,
    ends: AtomicU64,
    cancels: AtomicU64,
}

impl Cell {
    /// Returns a cell with a task in its first use, or without a task before its first use.
    fn new(plan: Plan, state: u64) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let (step, entry, ends, cancels) = (word(), word(), word(), word());
        Arc::new(Cell {
            plan,
            state: AtomicU64::new(state),
            words: Plain::several(1),
            step,
            entry,
            ends,
            cancels,
        })
    }

    fn change(&self, step: &str, change: impl Fn(u64) -> u64) -> u64 {
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            let order = self.plan.order(step);
            match self.state.compare_exchange(seen, change(seen), order, Ordering::Relaxed) {
                Ok(_) => return seen,
                Err(found) => seen = found,
            }
        }
    }

    /// Adopts the next task of the cell.
    fn adopt(&self) {
        let seen = self.change("adopt", |seen| {
            let asked = if self.plan.wrong("early asks are lost") { 0 } else { (seen >> NEXT_SHIFT) & ASKED };
            ((seen >> GENERATION_SHIFT) + 1) << GENERATION_SHIFT | asked | RUNNABLE
        });
        assert_eq!(seen & PHASE, ENDED, "the cell is in use");
        self.words[0].write();
        self.step.store(0, Ordering::Relaxed);
    }

    /// Puts the cell aside, and returns whether it has to go on after all.
    fn park(&self, by_itself: bool) -> bool {
        let goes_on = |seen: u64| {
            let resumed = if by_itself { seen & RESUMED != 0 } else { seen & PAUSE == 0 };
            resumed || seen & CANCEL != 0
        };
        let seen = self.change("park", |seen| match (goes_on(seen), by_itself) {
            (true, true) => seen & !RESUMED,
            (true, false) => seen,
            (false, _) => (seen & !PHASE) | PARKED | if by_itself { AWAITS_HOST } else { 0 },
        });
        goes_on(seen)
    }

    /// Applies an ask as the kernel does, and puts the cell into the queue if it has to go on.
    fn apply(&self, ask: Ask, meant: u64) {
        let plan = self.plan;
        let add = |asks: u64| match ask {
            Ask::Cancel => asks | CANCEL,
            Ask::Pause => asks | PAUSE,
            Ask::Resume if asks & PAUSE != 0 => asks & !PAUSE,
            Ask::Resume if plan.wrong("a resume is not kept") => asks,
            Ask::Resume => asks | RESUMED,
        };
        let same_task = |seen: u64| seen >> GENERATION_SHIFT == meant || plan.wrong("any use is meant");
        let wakes = |seen: u64| {
            let stays = seen & (AWAITS_HOST | PAUSE) == AWAITS_HOST | PAUSE
                && !plan.wrong("a resume ends a pause and a park");
            let goes_on = ask == Ask::Cancel || ask == Ask::Resume && !stays;
            let parked =
                seen & PHASE == PARKED || seen & PHASE == RUNNABLE && plan.wrong("a runnable cell is queued");
            parked && goes_on && same_task(seen)
        };
        let seen = self.change("apply", |seen| {
            let told = (seen & !ASKED) | add(seen & ASKED);
            let asks =
                if ask == Ask::Resume && seen & AWAITS_HOST != 0 { seen & ASKED } else { told & ASKED };
            let forgets =
                plan.wrong("a pause forgets a resume") || plan.wrong("a resume ends a pause and a park");
            let asks = if forgets { asks & CANCEL } else { asks };
            match seen & PHASE {
                ENDED if (seen >> GENERATION_SHIFT) + 1 == meant => {
                    (seen & !(ASKED << NEXT_SHIFT)) | add((seen >> NEXT_SHIFT) & ASKED) << NEXT_SHIFT
                }
                ENDED => seen,
                _ if !same_task(seen) => seen,
                _ if wakes(seen) => (seen & !(ASKED | PHASE | AWAITS_HOST)) | asks | RUNNABLE,
                _ => told,
            }
        });
        if wakes(seen) {
            let before = self.entry.load(Ordering::Relaxed);
            assert_eq!(before, 0, "the cell is in the queue already");
            self.entry.store(1, plan.order("ready"));
        }
    }

    /// Takes the cell from the queue if it is there, and runs its task.
    fn take(&self) -> Option<()> {
        if self.entry.load(self.plan.order("fill")) == 0 {
            return None;
        }
        self.entry.store(0, Ordering::Relaxed);
        self.run();
        Some(())
    }

    /// Runs the task of a cell that this thread has, until it ends or is put aside. It waits for the host once.
    fn run(&self) {
        loop {
            let seen = self.state.load(Ordering::Relaxed);
            if seen & CANCEL != 0 {
                return self.end(&self.cancels);
            }
            if seen & PAUSE != 0 {
                if self.park(false) {
                    continue;
                }
                return;
            }
            self.words[0].write();
            if self.step.load(Ordering::Relaxed) == 1 {
                return self.end(&self.ends);
            }
            self.step.store(1, Ordering::Relaxed);
            if !self.park(true) {
                return;
            }
        }
    }

    fn end(&self, count: &AtomicU64) {
        self.words[0].write();
        count.fetch_add(1, Ordering::Relaxed);
        self.state.fetch_and(!0 << GENERATION_SHIFT, self.plan.order("finish"));
    }

    /// How often the task has ended, how often it was cancelled, and the phase of the cell.
    fn outcome(&self) -> (u64, u64, u64) {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (word(&self.ends), word(&self.cancels), word(&self.state) & PHASE)
    }
}

const FIRST_USE: u64 = 1 << GENERATION_SHIFT;

/// Lets one thread run a task, one apply asks, and one take the cell from the queue. Returns the cell when all of them
/// have nothing to do any more.
fn ask_while_it_runs(plan: Plan, asks: &'static [Ask]) -> Arc<Cell> {
    let cell = Cell::new(plan, FIRST_USE | RUNNABLE);
    cell.words[0].write();
    let group = spawn({
        let cell = cell.clone();
        move || cell.run()
    });
    let other = spawn({
        let cell = cell.clone();
        move || {
            Patience(1).poll(|| cell.take());
        }
    });
    asks.iter().for_each(|ask| cell.apply(*ask, 1));
    group.join().unwrap();
    other.join().unwrap();
    while cell.take().is_some() {}
    cell
}

/// The steps of a cell that passes from one group through the queue to another.
pub(crate) const PASSES: &[&str] = &["park", "apply", "ready", "fill"];

#[test]
fn a_resume_is_neither_lost_nor_does_it_count_twice() {
    holds(2, PASSES, &["a resume is not kept", "a runnable cell is queued"], |plan| {
        let cell = ask_while_it_runs(plan, &[Ask::Resume]);
        assert_eq!(cell.outcome(), (1, 0, ENDED), "it was resumed once");
    });
}

#[test]
fn a_cancelled_task_ends_once() {
    holds(2, PASSES, &["a runnable cell is queued"], |plan| {
        let cell = ask_while_it_runs(plan, &[Ask::Cancel]);
        assert_eq!(cell.outcome(), (0, 1, ENDED));
    });
}

#[test]
fn a_resume_before_a_pause_is_kept() {
    holds(2, &[], &["a pause forgets a resume"], |plan| {
        let cell = ask_while_it_runs(plan, &[Ask::Resume, Ask::Pause, Ask::Resume]);
        assert_eq!(cell.outcome(), (1, 0, ENDED));
    });
}

#[test]
fn a_resume_that_ends_a_pause_ends_no_park() {
    holds(2, &[], &["a resume ends a pause and a park"], |plan| {
        let cell = ask_while_it_runs(plan, &[Ask::Pause, Ask::Resume]);
        assert_eq!(cell.outcome(), (0, 0, PARKED), "it waits for the host");
    });
}

/// An ask may come before the task is adopted. An ask for the task before, which has ended, changes nothing.
#[test]
fn asks_meet_the_use_that_they_mean() {
    holds(2, &[], &["early asks are lost", "any use is meant"], |plan| {
        let cell = Cell::new(plan, FIRST_USE | ENDED);
        let group = spawn({
            let cell = cell.clone();
            move || {
                cell.adopt();
                cell.run();
            }
        });
        cell.apply(Ask::Cancel, 1);
        cell.apply(Ask::Resume, 2);
        cell.apply(Ask::Pause, 1);
        group.join().unwrap();
        while cell.take().is_some() {}
        assert_eq!(cell.outcome(), (1, 0, ENDED));
        assert_eq!(
            cell.state.load(Ordering::Relaxed),
            2 << GENERATION_SHIFT,
            "nothing is left for the next use"
        );
    });
}

/// The steps between the host that asks and the lane that applies asks.
pub(crate) const ASKS: &[&str] = &["asks", "asked", "applied", "answered"];

/// The ring of asks, with room for one.
#[test]
fn an_ask_stays_until_it_was_read() {
    holds(2, ASKS, &["the ring is never full"], |plan| {
        let ring = Arc::new((Plain::several(1), AtomicU64::new(0), AtomicU64::new(0)));
        let lane = spawn({
            let ring = ring.clone();
            move || apply_asks(plan, &ring, 0, 2)
        });
        let mut asked = 0;
        let mut patience = Patience(2);
        while asked < 2 {
            let free =
                || ring.2.load(plan.order("answered")) == asked || plan.wrong("the ring is never full");
            if patience.poll(|| free().then_some(())).is_none() {
                break;
            }
            ring.0[0].write();
            asked += 1;
            ring.1.store(asked, plan.order("asks"));
        }
        let applied = lane.join().unwrap();
        assert!(applied <= asked);
    });
}

/// Applies asks until so many were applied or there are no more, and returns their number.
fn apply_asks(plan: Plan, ring: &(Vec<Plain>, AtomicU64, AtomicU64), from: u64, to: u64) -> u64 {
    let mut done = from;
    let mut patience = Patience(2);
    while done < to {
        let more = || Some(ring.1.load(plan.order("asked"))).filter(|asked| *asked != done);
        let Some(asked) = patience.poll(more) else { break };
        ring.0[0].read();
        done = asked;
        ring.2.store(done, plan.order("applied"));
    }
    done
}

/// The steps between the lane that applies asks and the groups that go through the queues of disabled tenants.
pub(crate) const HEED: &[&str] = &["pass ask", "heed ask"];

/// A group that has heard that an ask was applied sees that its task is cancelled. It looks once, so it would miss the
/// task otherwise.
#[test]
fn who_hears_of_an_ask_sees_that_its_task_is_cancelled() {
    holds(2, HEED, &["the count comes before the state"], |plan| {
        let cell = Arc::new((AtomicU64::new(RUNNABLE), AtomicU64::new(0)));
        let lane = spawn({
            let cell = cell.clone();
            move || {
                let count = || cell.1.store(1, plan.order("pass ask"));
                let early = plan.wrong("the count comes before the state");
                if early {
                    count();
                }
                cell.0.fetch_or(CANCEL, Ordering::Relaxed);
                if !early {
                    count();
                }
            }
        });
        if cell.1.load(plan.order("heed ask")) == 1 {
            assert_ne!(cell.0.load(Ordering::Relaxed) & CANCEL, 0, "the cancelled task is missed");
        }
        lane.join().unwrap();
    });
}
