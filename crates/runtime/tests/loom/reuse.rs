//! Explores the end of a task in a cell: its record, the next use of its cell, and fences that wait for it.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{spawn, yield_now};

use super::cells::{ENDED, GENERATION_SHIFT, PHASE, RUNNABLE};
use super::plan::{Patience, Plain, Plan, holds};

/// One record that is owed, and the bits that count them.
const ONE_OWED: u64 = 1 << 56;
const OWED: u64 = 0xff << 56;

/// The generation of a cell with this state.
fn generation(state: u64) -> u64 {
    (state & !OWED) >> GENERATION_SHIFT
}

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
    /// The fact that a look for a fence reads: which use the cell's last task is.
    fact: AtomicU64,
}

impl UsedCell {
    fn new(plan: Plan) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let (state, done, slot, fact) = (word(), word(), word(), word());
        let (words, effects) = (Plain::several(1), Plain::several(1));
        Arc::new(UsedCell { plan, state, words, effects, done, slot, fact })
    }

    /// Adopts a task, which must find the cell as its use before has left it. The record of that use may still be owed.
    fn adopt(&self, number: u64, phase: u64) {
        // Nothing is owed, unless another lane has not taken off yet what it has paid.
        let mut seen = (number - 1) << GENERATION_SHIFT | ENDED;
        loop {
            assert_eq!((generation(seen), seen & PHASE), (number - 1, ENDED), "the cell was in use");
            let owed = match phase {
                ENDED => seen & OWED,
                _ if self.plan.wrong("owed is a flag") => ONE_OWED,
                _ => (seen & OWED) + ONE_OWED,
            };
            let after = owed | number << GENERATION_SHIFT | phase;
            match self.state.compare_exchange(seen, after, self.plan.order("adopt"), Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => seen = found,
            }
        }
        self.words[0].write();
        self.fact.store(number, Ordering::Relaxed);
    }

    /// Runs a task and ends it.
    fn finish(&self, number: u64) {
        self.words[0].write();
        self.effects[0].write();
        self.state.fetch_and(!0 << GENERATION_SHIFT, self.plan.order("finish"));
        self.plan.fence("over");
        if self.plan.wrong("a record is paid before it is posted") {
            self.state.fetch_sub(ONE_OWED, self.plan.order("paid"));
            return self.done.store(number, Ordering::Relaxed);
        }
        self.done.store(number, Ordering::Relaxed);
        match self.plan.wrong("owed is a flag") {
            true => self.state.fetch_and(!OWED, self.plan.order("paid")),
            false => self.state.fetch_sub(ONE_OWED, self.plan.order("paid")),
        };
    }

    /// Looks at the cell for a batch fence, until it has ended and owes no record, or says which use its task is. Gives its
    /// state and that use, or nothing if its patience is exhausted.
    fn look(&self) -> Option<(u64, u64)> {
        Patience(2).poll(|| {
            let state = self.state.load(Ordering::Relaxed);
            let fact = self.fact.load(Ordering::Relaxed);
            let settled = match state & PHASE {
                ENDED => state & OWED == 0 || self.plan.wrong("a look does not wait for a record"),
                _ => fact == generation(state) || self.plan.wrong("any use is meant"),
            };
            settled.then_some((state, fact))
        })
    }

    /// Waits for the record of the first task as its ticket does, and then submits the second one. Gives whether it did.
    fn submit_next(&self) -> bool {
        let seen = || (self.done.load(self.plan.order("see")) == 1).then_some(());
        let ended = Patience(2).poll(seen).is_some();
        if ended {
            self.effects[0].read();
            self.slot.store(1, self.plan.order("publish"));
        }
        ended
    }

    /// Waits for the slot of the second task. Gives whether it came.
    fn take_slot(&self) -> bool {
        let taken = || (self.slot.load(self.plan.order("take")) == 1).then_some(());
        Patience(2).poll(taken).is_some()
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
                let runs = number == 1 || cell.take_slot();
                if runs {
                    cell.adopt(number, RUNNABLE);
                    cell.finish(number);
                }
                u64::from(runs)
            })
        });
        cell.submit_next();
        let uses: u64 = groups.into_iter().map(|group| group.join().unwrap()).sum();
        assert_eq!(cell.state.load(Ordering::Relaxed), uses << GENERATION_SHIFT);
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
        assert!(cell.take_slot());
        cell.adopt(2, RUNNABLE);
        group.join().unwrap();
    });
}

/// The step between what a cell says of its task and a look at the cell by a group that has followed a mark.
pub(crate) const MARKED: &[&str] = &["mark"];

/// A look for a fence meets a cell that is being adopted, and does not take its last task for the new one. It finds a task
/// that was adopted before the mark that it has followed, or the task has ended and has its record.
#[test]
fn a_look_never_sees_the_last_task_of_a_cell_in_its_next_use() {
    holds(2, MARKED, &["any use is meant", "a look does not wait for a record"], |plan| {
        let cell = UsedCell::new(plan);
        let mark = Arc::new(AtomicU64::new(0));
        let group = spawn({
            let (cell, mark) = (cell.clone(), mark.clone());
            move || {
                cell.adopt(1, RUNNABLE);
                mark.store(1, plan.order("mark"));
                cell.finish(1);
                cell.submit_next();
                cell.adopt(2, RUNNABLE);
            }
        });
        let marked = mark.load(plan.order("follow")) == 1;
        if let Some((state, fact)) = marked.then(|| cell.look()).flatten() {
            assert_ne!(generation(state), 0, "the look comes before the adoption");
            if state & PHASE == ENDED || fact != 1 {
                plan.fence("settle");
                assert_eq!(cell.done.load(Ordering::Relaxed), 1, "the fence came before the record");
            } else {
                assert_eq!(generation(state), 1, "the first task is over");
            }
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

/// The step between the record of a task in a cell and the end of a fence behind it.
pub(crate) const RECORDS: &[&str] = &["paid", "settle"];

/// A fence that finds that the cell has ended ends after the record of the cell.
#[test]
fn a_fence_comes_after_the_records_of_tasks_in_cells() {
    holds(
        3,
        RECORDS,
        &["a look does not wait for a record", "a record is paid before it is posted"],
        |plan| {
            let cell = UsedCell::new(plan);
            cell.adopt(1, RUNNABLE);
            let group = spawn({
                let cell = cell.clone();
                move || cell.finish(1)
            });
            if cell.look().is_some_and(|(state, _)| state & PHASE == ENDED) {
                plan.fence("settle");
                assert_eq!(cell.done.load(Ordering::Relaxed), 1, "the fence came before the record");
            }
            group.join().unwrap();
        },
    );
}

/// The lane that has ended the first task may be slow, and the second one ends before the first is paid for.
#[test]
fn a_record_that_is_paid_late_does_not_pay_for_the_next() {
    holds(3, &[], &["owed is a flag"], |plan| {
        let cell = UsedCell::new(plan);
        cell.adopt(1, RUNNABLE);
        let groups = [1, 2].map(|number| {
            let cell = cell.clone();
            spawn(move || {
                let runs = number == 1 || cell.submit_next();
                if runs && number == 2 {
                    cell.adopt(2, RUNNABLE);
                }
                if runs {
                    cell.finish(number);
                }
                u64::from(runs)
            })
        });
        if let Some((state, _)) = cell.look().filter(|(state, _)| state & PHASE == ENDED) {
            plan.fence("settle");
            let posted = cell.done.load(Ordering::Relaxed);
            assert!(posted >= generation(state), "the fence came before the record");
        }
        let uses: u64 = groups.into_iter().map(|group| group.join().unwrap()).sum();
        assert_eq!(cell.state.load(Ordering::Relaxed), uses << GENERATION_SHIFT, "all records are paid for");
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
