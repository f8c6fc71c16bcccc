//! Explores trees: children that end at the same time, parents that wait for them or have ended before, and the cells that
//! they live in.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{JoinHandle, spawn};

use super::cells::{CANCEL, PARKED, PHASE, RUNNABLE};
use super::plan::{Patience, Plain, Plan, holds};

/// More bits of a cell's state, as in the kernel.
const AWAITS_CHILDREN: u64 = 1 << 13;
const ENDED_BEFORE_CHILDREN: u64 = 1 << 15;
const CHILD_SHIFT: u32 = 16;
const CHILD: u64 = 1 << CHILD_SHIFT;

/// The cell of a task that has two children in the end.
struct Parent {
    plan: Plan,
    state: AtomicU64,
    /// The words of the cell, which belong to whoever has it.
    words: Vec<Plain>,
    /// What each child has done.
    results: Vec<Plain>,
    /// What the task ends with while it has children.
    end: Vec<Plain>,
    /// How often the task went on after it had waited, and how often it ended.
    resumed: AtomicU64,
    ends: AtomicU64,
}

fn children(state: u64) -> u64 {
    state >> CHILD_SHIFT
}

fn waits(state: u64, reason: u64) -> bool {
    state & PHASE == PARKED && state & reason != 0 && children(state) == 0
}

impl Parent {
    /// Returns a task that runs and has so many children.
    fn new(plan: Plan, children: u64) -> Arc<Self> {
        let (resumed, ends) = (AtomicU64::new(0), AtomicU64::new(0));
        let (words, results, end) = (Plain::several(1), Plain::several(2), Plain::several(1));
        let state = AtomicU64::new(RUNNABLE | children << CHILD_SHIFT);
        Arc::new(Parent { plan, state, words, results, end, resumed, ends })
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

    /// Counts the children of a step and waits for all of them. The task goes on at once if there is none left, or if it was
    /// cancelled.
    fn join(&self, more: u64) {
        self.words[0].write();
        let goes_on = |seen: u64| seen & CANCEL != 0 || children(seen) + more == 0;
        let seen = self.change("park", |seen| match goes_on(seen) {
            true => seen + more * CHILD,
            false => ((seen & !PHASE) | AWAITS_CHILDREN | PARKED) + more * CHILD,
        });
        if goes_on(seen) {
            self.go_on();
        }
    }

    /// Takes the last step of the task, which this thread has.
    fn go_on(&self) {
        self.words[0].write();
        let seen = self.state.load(Ordering::Relaxed);
        if seen & CANCEL == 0 {
            self.results.iter().for_each(Plain::read);
        }
        self.resumed.fetch_add(1, Ordering::Relaxed);
        self.end_or_keep();
    }

    /// Ends the task if it has no children left, and keeps what it ends with otherwise.
    fn end_or_keep(&self) {
        let seen = self.state.load(self.plan.order("childless"));
        if children(seen) != 0 {
            self.end[0].write();
            let kept = |seen: u64| children(seen) != 0 || self.plan.wrong("the end is kept without a look");
            let seen = self.change("keep end", |seen| match kept(seen) {
                true => (seen & !PHASE) | ENDED_BEFORE_CHILDREN | PARKED,
                false => seen,
            });
            if kept(seen) {
                return;
            }
        }
        self.end();
    }

    /// Ends the task after all of its children.
    fn end(&self) {
        self.words[0].write();
        self.results.iter().for_each(Plain::read);
        self.ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a child: its result is stored, and it is taken off the count.
    fn end_child(&self, number: usize) {
        let plan = self.plan;
        self.results[number].write();
        let before = self.state.fetch_sub(CHILD, plan.order("child"));
        if children(before) != 1 {
            return;
        }
        let woken = |seen: u64| {
            if waits(seen, ENDED_BEFORE_CHILDREN) {
                (seen & !(PHASE | ENDED_BEFORE_CHILDREN)) | RUNNABLE
            } else if waits(seen, AWAITS_CHILDREN) {
                (seen & !(PHASE | AWAITS_CHILDREN)) | RUNNABLE
            } else {
                seen
            }
        };
        let seen = if plan.wrong("the last child only looks") {
            let seen = self.state.load(Ordering::Acquire);
            self.state.store(woken(seen), Ordering::Release);
            seen
        } else {
            self.change("last", woken)
        };
        if waits(seen, AWAITS_CHILDREN) {
            self.go_on();
        }
        if waits(seen, ENDED_BEFORE_CHILDREN) {
            self.end[0].read();
            self.end();
        }
    }

    /// Cancels the task as the kernel does. One that waits for its children runs once more, and ends then.
    fn cancel(&self) {
        let plan = self.plan;
        let wakes = |seen: u64| {
            let ended =
                seen & ENDED_BEFORE_CHILDREN != 0 && !plan.wrong("a cancel wakes a task that has ended");
            seen & PHASE == PARKED && !ended
        };
        let reasons = if plan.wrong("a cancel leaves the reason") { 0 } else { AWAITS_CHILDREN };
        let seen = self.change("apply", |seen| match wakes(seen) {
            true => (seen & !(PHASE | reasons)) | CANCEL | RUNNABLE,
            false => seen | CANCEL,
        });
        if wakes(seen) {
            self.go_on();
        }
    }

    /// Lets children run in threads of their own.
    fn begin(self: &Arc<Self>, numbers: impl Iterator<Item = usize>) -> Vec<JoinHandle<()>> {
        let begin = |number| {
            let parent = self.clone();
            spawn(move || parent.end_child(number))
        };
        numbers.map(begin).collect()
    }

    /// How often the task went on and ended.
    fn outcome(&self) -> (u64, u64) {
        (self.resumed.load(Ordering::Relaxed), self.ends.load(Ordering::Relaxed))
    }
}

fn join_all(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The step by which children that end at the same time see each other.
pub(crate) const JOIN: &[&str] = &["child"];

#[test]
fn a_parent_goes_on_once_after_both_children() {
    holds(2, JOIN, &["children begin before they are counted"], |plan| {
        let early = plan.wrong("children begin before they are counted");
        let parent = Parent::new(plan, 0);
        let threads = if early { parent.begin(0..2) } else { Vec::new() };
        parent.join(2);
        join_all(if early { threads } else { parent.begin(0..2) });
        assert_eq!(parent.outcome(), (1, 1));
    });
}

/// The step by which a lane makes a parent go on that has waited since the lane took its last child off.
pub(crate) const LATER: &[&str] = &["last"];

/// A child takes itself off as the last one while its parent runs, and is slow. Meanwhile the parent has another child and
/// waits for that, so either lane may make it go on.
#[test]
fn a_slow_child_may_make_its_parent_go_on_for_another() {
    holds(3, LATER, &["the last child only looks"], |plan| {
        let parent = Parent::new(plan, 1);
        let threads = parent.begin(0..1);
        parent.join(1);
        parent.end_child(1);
        join_all(threads);
        assert_eq!(parent.outcome(), (1, 1));
    });
}

/// The steps of a task that ends before its children, or just after them.
pub(crate) const ENDS: &[&str] = &["childless", "keep end", "child"];

#[test]
fn a_task_ends_once_after_its_children() {
    holds(2, ENDS, &["the end is kept without a look"], |plan| {
        let parent = Parent::new(plan, 2);
        let threads = parent.begin(0..2);
        parent.end_or_keep();
        join_all(threads);
        assert_eq!(parent.outcome(), (0, 1));
    });
}

#[test]
fn a_cancelled_parent_ends_once_after_its_children() {
    holds(2, JOIN, &["a cancel leaves the reason"], |plan| {
        let parent = Parent::new(plan, 0);
        parent.join(2);
        let threads = parent.begin(0..2);
        parent.cancel();
        join_all(threads);
        assert_eq!(parent.outcome(), (1, 1));
    });
}

#[test]
fn a_task_that_has_ended_does_not_run_when_it_is_cancelled() {
    holds(2, &[], &["a cancel wakes a task that has ended"], |plan| {
        let parent = Parent::new(plan, 2);
        let threads = parent.begin(0..2);
        let host = spawn({
            let parent = parent.clone();
            move || parent.cancel()
        });
        parent.end_or_keep();
        join_all(threads);
        host.join().unwrap();
        assert_eq!(parent.outcome(), (0, 1));
    });
}

/// A word with a bit for each free cell.
struct Pool {
    plan: Plan,
    free: AtomicU64,
    words: Vec<Plain>,
    /// The steps that take cells and give them back.
    steps: [&'static str; 2],
}

impl Pool {
    /// Takes so many cells, uses them and gives them back. Returns whether there were enough.
    fn use_cells(&self, count: u32) -> Option<()> {
        let [take, give] = self.steps;
        let free = self.free.load(Ordering::Relaxed);
        if free.count_ones() < count {
            return None;
        }
        let rest = (0..count).fold(free, |rest, _| rest & (rest - 1));
        if self.plan.wrong("cells are taken by a store") {
            self.free.store(rest, self.plan.order(give));
        } else {
            let order = self.plan.order(take);
            self.free.compare_exchange(free, rest, order, Ordering::Relaxed).ok()?;
        }
        let taken = free ^ rest;
        let cells = || (0..self.words.len()).filter(|cell| taken >> cell & 1 != 0);
        cells().for_each(|cell| self.words[cell].write());
        let back = if self.plan.wrong("more is given back than was taken") { 3 } else { taken };
        self.free.fetch_or(back, self.plan.order(give));
        Some(())
    }
}

/// Two lanes use cells of one word, one of them all at once in the end.
fn share_cells(plan: Plan, steps: [&'static str; 2]) {
    let pool = Arc::new(Pool { plan, free: AtomicU64::new(3), words: Plain::several(2), steps });
    let other = spawn({
        let pool = pool.clone();
        move || {
            Patience(1).poll(|| pool.use_cells(1));
            Patience(1).poll(|| pool.use_cells(2));
        }
    });
    Patience(1).poll(|| pool.use_cells(1));
    other.join().unwrap();
    assert_eq!(pool.free.load(Ordering::Relaxed), 3, "all are free again");
}

const POOL_MISTAKES: &[&str] = &["cells are taken by a store", "more is given back than was taken"];

/// The steps between who gives a cell for a spawned task back and who takes it next.
pub(crate) const CELLS: &[&str] = &["reserve", "free cell"];

#[test]
fn a_cell_for_a_child_has_one_user_at_a_time() {
    holds(3, CELLS, POOL_MISTAKES, |plan| share_cells(plan, ["reserve", "free cell"]));
}

/// The same for the cells of the nodes of a graph.
pub(crate) const INSTANCES: &[&str] = &["take run", "free run"];

#[test]
fn an_instance_of_a_graph_has_one_user_at_a_time() {
    holds(3, INSTANCES, POOL_MISTAKES, |plan| share_cells(plan, ["take run", "free run"]));
}
