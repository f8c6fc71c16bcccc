//! The plan of an exploration: the orders of the table, perhaps with one of them weakened, and words that follow the
//! plan.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread::yield_now;
use pelton::protocol::step::{self, StepActor, TABLE};
use pelton::ring;
use pelton_ir::op::Op;
use pelton_ir::types::Order;

/// The step that is weakened, or the mistake that is made.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Plan {
    weak: Option<&'static str>,
    wrong: Option<&'static str>,
}

impl Plan {
    /// Returns the order of a step according to the table, or relaxed if the step is the weakened one.
    pub(crate) fn order(self, name: &str) -> Ordering {
        let step =
            step::ordering_step(name).unwrap_or_else(|| panic!("the table has no step {name:?} that orders"));
        if self.weak == Some(step.name) { Ordering::Relaxed } else { order(step.order) }
    }

    /// Executes a fence of the table, unless it is the weakened step.
    pub(crate) fn fence(self, name: &str) {
        match self.order(name) {
            Ordering::Relaxed => {}
            order => fence(order),
        }
    }

    /// Returns whether this mistake is to be made.
    pub(crate) fn wrong(self, mistake: &str) -> bool {
        self.wrong == Some(mistake)
    }

    /// Returns the order of an access of the host, which must be in the table.
    fn host(self, buffer: &str, op: Op, asked: Ordering) -> Ordering {
        let row = TABLE.iter().find(|row| {
            row.actor == StepActor::Host && row.buffer == buffer && row.op == op && order(row.order) == asked
        });
        match row {
            Some(row) if row.order == Order::Relaxed => asked,
            Some(row) => self.order(row.name),
            None => panic!("the table has no {op:?} of {buffer} that is {asked:?}"),
        }
    }
}

fn order(order: Order) -> Ordering {
    match order {
        Order::Relaxed => Ordering::Relaxed,
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        Order::AcqRel => Ordering::AcqRel,
        Order::SeqCst => Ordering::SeqCst,
    }
}

/// The words of a buffer.
#[derive(Clone)]
pub(crate) struct Words {
    plan: Plan,
    buffer: &'static str,
    words: Arc<Vec<AtomicU64>>,
}

/// The number of words of a line that differ from task to task. The others are zero and do not exist in the model.
const USED: usize = 3;
const LINE: usize = 8;

impl Words {
    pub(crate) fn new(plan: Plan, buffer: &'static str, len: usize) -> Self {
        let len = if buffer == "slots" { len * USED } else { len };
        Words { plan, buffer, words: Arc::new((0..len).map(|_| AtomicU64::new(0)).collect()) }
    }

    /// Returns a word as the device sees it.
    pub(crate) fn at(&self, at: usize) -> &AtomicU64 {
        &self.words[at]
    }

    /// Returns a word of a slot as the device sees it.
    pub(crate) fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        &self.words[slot * USED + word]
    }

    fn used(&self, at: usize) -> Option<&AtomicU64> {
        match self.buffer {
            "slots" if at % LINE >= USED => None,
            "slots" => Some(self.word(at / LINE, at % LINE)),
            _ => Some(self.at(at)),
        }
    }
}

impl ring::RingWords for Words {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        let order = self.plan.host(self.buffer, Op::AtomicLoad, order);
        self.used(at).map_or(0, |word| word.load(order))
    }

    fn store(&self, at: usize, value: u64, order: Ordering) {
        let order = self.plan.host(self.buffer, Op::AtomicStore, order);
        match self.used(at) {
            Some(word) => word.store(value, order),
            None => assert_eq!(value, 0, "only the first arguments are used"),
        }
    }
}

/// Memory that only the protocol's order protects. Accesses that may overlap are a failure.
pub(crate) struct Plain(UnsafeCell<()>);

// SAFETY: the cell holds no data, and loom decides whether accesses overlap.
unsafe impl Sync for Plain {}

impl Plain {
    pub(crate) fn several(count: usize) -> Vec<Plain> {
        (0..count).map(|_| Plain(UnsafeCell::new(()))).collect()
    }

    pub(crate) fn read(&self) {
        self.0.with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

/// How often a thread may find nothing before it leaves. Threads that poll for ever would be explored for ever, so the
/// work that they leave undone is done after all threads have ended.
pub(crate) struct Patience(pub u32);

impl Patience {
    /// Polls until there is something or patience is exhausted.
    pub(crate) fn poll<T>(&mut self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let found = look();
            if found.is_some() || self.0 == 0 {
                return found;
            }
            self.0 -= 1;
            yield_now();
        }
    }
}

/// Explores a scenario with the orders of the table, and it must hold. Then explores it with each of these steps
/// weakened and with each of these mistakes made, and each must be found.
pub(crate) fn holds(bound: usize, weak: &[&'static str], wrong: &[&'static str], scenario: fn(Plan)) {
    let explore = |plan: Plan| {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(bound);
        model.max_branches = 4_000;
        model.check(move || scenario(plan));
    };
    explore(Plan::default());
    let weak = weak.iter().map(|step| Plan { weak: Some(*step), wrong: None });
    let wrong = wrong.iter().map(|mistake| Plan { weak: None, wrong: Some(*mistake) });
    for plan in weak.chain(wrong) {
        let found = catch_unwind(AssertUnwindSafe(|| explore(plan))).is_err();
        assert!(found, "{plan:?} was not found");
    }
}
