//! Explores the end of a task in a cell: its record, the next use of its cell, and fences that wait for it.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};

use super::cells::{ENDED, GENERATION_SHIFT, RUNNABLE};
use super::plan::{Plain, Plan, holds};

/// A cell that is used twice.
struct UsedCell {
    plan: Plan,
    state: AtomicU64,
    /// The words of the cell, and who has begun its last use.
    words: Vec<Plain>,
    /// What its task wrote.
    effects: Vec<Plain>,
    done: AtomicU64,
    /// Whether the slot of the second task is published.
    slot: AtomicU64,
    /// The fact that a look for a fence reads: which use the cell's task is, and 0 between tasks.
    fact: AtomicU64,
}

impl UsedCell {
    fn new(plan: Plan) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let (state, done, slot, fact) = (word(), word(), word(), word());
        let (words, effects) = (Plain::several(1), Plain::several(1));
        Arc::new(UsedCell { plan, state, words, effects, done, slot, fact })
    }

    /// Adopts a task, which must find the cell as its use before has left it.
    fn adopt(&self, number: u64, phase: u64) {
        let (before, after) = ((number - 1) << GENERATION_SHIFT | ENDED, number << GENERATION_SHIFT | phase);
        let order = self.plan.order("adopt");
        let seen = self.state.compare_exchange(before, after, order, Ordering::Relaxed);
        assert_eq!(seen, Ok(before), "the cell was in use");
        self.words[0].write();
        self.fact.store(number, Ordering::Relaxed);
    }

    /// Runs a task and ends it.
    fn finish(&self, number: u64) {
        self.words[0].write();
        self.effects[0].write();
        if !self.plan.wrong("the fact stays") {
            self.fact.store(0, Ordering::Relaxed);
        }
        self.state.fetch_and(!0 << GENERATION_SHIFT, self.plan.order("finish"));
        self.plan.fence("over");
        self.done.store(number, Ordering::Relaxed);
    }

    /// Waits for the record of the first task as its ticket does, and then submits the second one.
    fn submit_next(&self) {
        while self.done.load(self.plan.order("see")) != 1 {
            yield_now();
        }
        self.effects[0].read();
        self.slot.store(1, self.plan.order("publish"));
    }

    /// Waits for the slot of the second task.
    fn take_slot(&self) {
        while self.slot.load(self.plan.order("take")) != 1 {
            yield_now();
        }
    }
}

/// The steps between the end of a task and the next use of its cell.
pub(crate) const REUSE: &[&str] = &["over", "see", "publish", "take"];

#[test]
fn a_cell_is_used_again_after_its_task_has_ended() {
    holds(2, REUSE, &[], |plan| {
        let cell = UsedCell::new(plan);
        let groups = [1, 2].map(|number| {
            let cell = cell.clone();
            spawn(move || {
                if number == 2 {
                    cell.take_slot();
                }
                cell.adopt(number, RUNNABLE);
                cell.finish(number);
            })
        });
        cell.submit_next();
        groups.into_iter().for_each(|group| group.join().unwrap());
        assert_eq!(cell.state.load(Ordering::Relaxed), 2 << GENERATION_SHIFT);
    });
}

/// The step between the end of a cell whose task may not run and its record.
pub(crate) const REFUSE: &[&str] = &["refuse"];

#[test]
fn a_cell_is_used_again_after_its_task_was_refused() {
    holds(2, REFUSE, &[], |plan| {
        let cell = UsedCell::new(plan);
        let group = spawn({
            let cell = cell.clone();
            move || {
                cell.adopt(1, ENDED);
                plan.fence("refuse");
                cell.done.store(1, Ordering::Relaxed);
            }
        });
        while cell.done.load(plan.order("see")) != 1 {
            yield_now();
        }
        cell.slot.store(1, plan.order("publish"));
        cell.take_slot();
        cell.adopt(2, RUNNABLE);
        group.join().unwrap();
    });
}

/// The step between a look at a cell and what is known of its task.
pub(crate) const OLDER: &[&str] = &["older"];

/// A look for a fence meets a cell that is being adopted, and does not take its last task for the new one.
#[test]
fn a_look_never_sees_the_last_task_of_a_cell_in_its_next_use() {
    holds(2, OLDER, &["the fact stays"], |plan| {
        let cell = UsedCell::new(plan);
        cell.adopt(1, RUNNABLE);
        let group = spawn({
            let cell = cell.clone();
            move || {
                cell.finish(1);
                cell.submit_next();
                cell.adopt(2, RUNNABLE);
            }
        });
        let state = cell.state.load(Ordering::Relaxed);
        if state & RUNNABLE != 0 {
            plan.fence("older");
            let fact = cell.fact.load(Ordering::Relaxed);
            assert!(state >> GENERATION_SHIFT == 1 || fact != 1, "the first task is over");
        }
        group.join().unwrap();
    });
}

/// The step between a task's effects and the end of its cell, which a group that retires a fence sees.
pub(crate) const EFFECTS: &[&str] = &["finish", "settle"];

#[test]
fn a_fence_comes_after_the_effects_of_tasks_in_cells() {
    holds(2, EFFECTS, &[], |plan| {
        let cell = UsedCell::new(plan);
        cell.adopt(1, RUNNABLE);
        let group = spawn({
            let cell = cell.clone();
            move || cell.finish(1)
        });
        if cell.state.load(Ordering::Relaxed) & RUNNABLE == 0 {
            plan.fence("settle");
            cell.effects[0].read();
        }
        group.join().unwrap();
    });
}

/// The fences between which a fence of a ring starts to wait for a cell.
pub(crate) const WAITS: &[&str] = &["over", "wait"];

/// Either the look at the cells sees that a task has ended, or the end of the task sees that a fence waits for it.
#[test]
fn a_fence_that_waits_for_a_cell_is_woken() {
    holds(3, WAITS, &["one look", "the end is not looked for"], |plan| {
        let words = Arc::new([RUNNABLE, 0, 0].map(AtomicU64::new));
        let group = spawn({
            let words = words.clone();
            move || {
                let [state, waits, news] = &*words;
                state.fetch_and(!RUNNABLE, plan.order("finish"));
                plan.fence("over");
                if waits.load(Ordering::Relaxed) != 0 && !plan.wrong("the end is not looked for") {
                    news.fetch_add(1, plan.order("news"));
                }
            }
        });
        let [state, waits, news] = &*words;
        let mut has_to_wait = state.load(Ordering::Relaxed) & RUNNABLE != 0;
        if has_to_wait {
            waits.store(1, Ordering::Relaxed);
            plan.fence("wait");
            has_to_wait = state.load(Ordering::Relaxed) & RUNNABLE != 0 || plan.wrong("one look");
        }
        group.join().unwrap();
        assert!(!has_to_wait || news.load(Ordering::Relaxed) != 0, "the fence waits for ever");
    });
}
