//! A window of tasks, from the first handler to the last record.
//!
//! All lanes of the group come here together. Lane-wide tasks are dealt out to the lanes; group-wide ones are collected on
//! the way and run afterwards by all lanes, one by one. Then come the counters, one fence for everything that others may
//! look at, and the records: a host that sees a record sees all that the window wrote and counted. Fences come last.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, LINE, U32, U64, state};
use super::dispatch::{DispatchArgs, HandlerTable, end_task};
use super::fence::Fences;
use super::handler::Width;
use super::slots::BankSlots;
use crate::protocol::{Status, WindowState, control, slot};

/// Tasks that a group has taken: consecutive positions of one stripe.
#[derive(Clone, Copy)]
pub(super) struct TaskWindow<'b> {
    /// The number of the stripe's first slot.
    pub base: U32<'b>,
    /// The first position.
    pub first: U64<'b>,
    /// How many, the same in all lanes.
    pub count: U32<'b>,
    /// Whose tasks they are.
    pub owner: WindowOwner<'b>,
}

/// Whose the tasks of a window are.
#[derive(Clone, Copy)]
pub(super) enum WindowOwner<'b> {
    /// The window is of a ring, and a ring has one owner.
    Ring(RingOwner<'b>),
    /// The window is of a drained batch: every slot names its tenant. All of them make up one ring, whose number is 0.
    EachSlot,
}

/// The ring of a window and its owner.
#[derive(Clone, Copy)]
pub(super) struct RingOwner<'b> {
    pub ring: U32<'b>,
    /// The level of the ring, where there are several.
    pub level: U32<'b>,
    pub tenant: U32<'b>,
    /// The opcodes that the tenant may use.
    pub mask: U32<'b>,
}

impl<'b> TaskWindow<'b> {
    /// The ring and its tenant; the tenant says nothing in a drained batch.
    pub fn ring_and_tenant(self, f: &'b FunctionBuilder<'b>) -> (U32<'b>, U32<'b>) {
        match self.owner {
            WindowOwner::Ring(owner) => (owner.ring, owner.tenant),
            WindowOwner::EachSlot => (f.lit(0), f.lit(0)),
        }
    }
}

/// What windows of a kernel are run with.
#[derive(Clone, Copy)]
pub(super) struct WindowRunner<'k> {
    pub kernel: &'k KernelContext<'k>,
    /// The slots that its windows are of.
    pub slots: &'k BankSlots,
    pub table: &'k HandlerTable,
    pub fences: &'k Fences<'k>,
}

/// Where a task of a window is.
struct TaskPlace<'b> {
    position: U64<'b>,
    /// The number of its slot.
    number: U32<'b>,
    /// Its first word, where words are read.
    at: U32<'b>,
}

impl<'k> WindowRunner<'k> {
    /// Makes ready for a window. One lane does; a barrier follows before [`run`](WindowRunner::run).
    pub fn clear_state<'b>(self, f: &'b FunctionBuilder<'b>) {
        for word in [state::WIDES, state::FENCED, state::DIRTY] {
            f.store(self.kernel.shared.state.at(word), 0);
        }
    }

    /// Runs a window.
    pub fn run_window<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        self.each_task(f, window, |task| self.run_task(f, window, task));
        self.finish_window(f, window);
    }

    /// Runs a task of a window in this lane, or puts it aside until the whole group is there.
    pub fn run_task<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>, task: U32<'b>) {
        let kernel = self.kernel;
        let place = self.task_place(f, window, task);
        let word = kernel.source.head(f, place.at);
        let op = f.cast::<u32>(word >> 32);
        let slot = self.slots.session_slot(place.number);
        let call = |tenant, mask| {
            self.table.call_dispatch(f, DispatchArgs { task, words: place.at, slot, op, tenant, mask })
        };
        match window.owner {
            WindowOwner::Ring(owner) => {
                self.keep_record(f, task, place.position, call(owner.tenant, owner.mask));
            }
            // A pass over a batch is one lap.
            WindowOwner::EachSlot => {
                let end = super::drain::run_if_permitted(f, kernel, (word, place.at), call);
                self.keep_record(f, task, window.first, end);
            }
        }
    }

    /// Ends a window whose tasks have been run by lanes: those of the whole group, counters, records, fences.
    pub fn finish_window<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        let kernel = self.kernel;
        if self.table.entries.iter().any(|entry| entry.width == Width::Group) {
            self.run_group_wide(f, window);
        }
        f.barrier();
        // A group of a drained batch tells what it has counted when it leaves, and nobody looks at the batch before it has ended.
        if let WindowOwner::Ring(owner) = window.owner {
            if kernel.counts_tasks() {
                self.count_window(f, window, owner);
                f.barrier();
            }
            f.when(f.load(kernel.shared.state.at(state::DIRTY)).ne(0), || {
                f.fence(Order::AcqRel, Scope::System);
            });
        }
        self.each_task(f, window, |task| self.post_task(f, window, task));
        self.fences.retire_after(f, kernel, window);
    }

    /// Deals the tasks of a window out to the lanes.
    fn each_task<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>, body: impl FnOnce(U32<'b>)) {
        self.kernel.each_by_lane(f, window.count, self.kernel.layout.window, |task| body(task.named("task")));
    }

    fn task_place<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        task: U32<'b>,
    ) -> TaskPlace<'b> {
        let position = match window.owner {
            WindowOwner::Ring(_) => window.first + f.cast::<u64>(task),
            // Positions of a batch have few bits, which saves registers.
            WindowOwner::EachSlot => f.cast::<u64>(f.cast::<u32>(window.first) + task),
        };
        let number = window.base + self.slots.slot_in_stripe(f, position);
        let copied = self.kernel.source.words.handle() != self.slots.words.handle();
        let at = if copied { task } else { number } * LINE;
        TaskPlace { position, number, at }
    }

    /// Notes how a task stands: the status with which it ended, or a [`WindowState`].
    fn keep_record<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        task: U32<'b>,
        position: U64<'b>,
        (status, value): (U32<'b>, U32<'b>),
    ) {
        let low = f.cast::<u64>(status | self.slots.generation_bits(f, position));
        f.store(self.kernel.shared.records.at(task), low | f.cast::<u64>(value) << 32);
    }

    /// Runs the group-wide tasks, one by one.
    fn run_group_wide<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        let kernel = self.kernel;
        f.barrier();
        let wides = f.group_broadcast(f.load(kernel.shared.state.at(state::WIDES)), 0);
        f.range((f.lit(0), wides, f.lit(1)), (), |_, k, ()| {
            let task = f.group_broadcast(f.load(kernel.shared.wide.at(k)), 0);
            let place = self.task_place(f, window, task);
            let op = f.group_broadcast(f.cast::<u32>(kernel.source.head(f, place.at) >> 32), 0);
            let tenant = match window.owner {
                WindowOwner::Ring(owner) => owner.tenant,
                WindowOwner::EachSlot => {
                    f.group_broadcast(f.cast::<u32>(kernel.source.head(f, place.at + slot::TENANT / 2)), 0)
                }
            };
            let mut switch = f.switch::<(Val<'b, bool>, U32<'b>)>(op);
            for entry in self.table.entries.iter().filter(|entry| entry.width == Width::Group) {
                let run = || (f.lit(true), f.call(entry.whole, (task, place.at, tenant)));
                switch = switch.case([entry.op.code()], run);
            }
            // The opcode is another one if it was cancelled meanwhile.
            let (ran, result) = switch.default(|| (f.lit(false), f.lit(0)));
            f.barrier();
            f.when(f.lane().eq(0), || {
                let (status, value) = end_task(f, kernel, task, result);
                let status = f.select(ran, status, Status::Cancelled.code());
                self.keep_record(f, task, place.position, (status, value));
            });
        });
    }

    /// Counts a window: by opcode, and by tenant and level where one window has one of each.
    fn count_window<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>, owner: RingOwner<'b>) {
        let kernel = self.kernel;
        let ops = kernel.layout.ops.len() as u32;
        f.range((f.lane(), f.lit(ops), f.lanes()), (), |_, op, ()| {
            let tally = f.load(kernel.shared.tally.at(op));
            f.when(tally.ne(0), || {
                kernel.bump_own(f, op + control::OBSERVABLES, tally);
                f.store(kernel.shared.tally.at(op), 0);
            });
        });
        f.when(f.lane().eq(0), || {
            kernel.bump_own(f, f.lit(control::DONE_COUNT), window.count);
            kernel.bump_own(f, owner.tenant + control::CLAIMS, window.count);
            kernel.bump_own(f, owner.level + control::LEVELS, window.count);
        });
    }

    /// Posts the record of a task that has ended.
    fn post_task<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>, task: U32<'b>) {
        let kernel = self.kernel;
        let record = f.load(kernel.shared.records.at(task));
        let number = self.task_place(f, window, task).number;
        let state = task_state(f, record);
        if let WindowOwner::EachSlot = window.owner {
            super::drain::count_fault(f, kernel, state);
        }
        f.when(has_ended(state), || post_record(f, self.slots, number, record));
    }
}

/// How the task of a window's record stands: a [`Status`] that ends it, a [`WindowState`], or 0 if nothing was written.
pub(super) fn task_state<'b>(f: &'b FunctionBuilder<'b>, record: U64<'b>) -> U32<'b> {
    f.cast::<u32>(record) & STATUS_BITS
}

/// Whether a state is that of a task that has ended.
pub(super) fn has_ended(state: U32<'_>) -> Val<'_, bool> {
    // Neither 0 nor a state of a task that has not ended.
    (state - 1).lt(WindowState::PENDING - 1)
}

/// The bits of a record that hold the status.
const STATUS_BITS: u32 = (1 << slot::GENERATION_SHIFT) - 1;

/// Posts a record.
pub(super) fn post_record<'b>(
    f: &'b FunctionBuilder<'b>,
    slots: &BankSlots,
    number: U32<'b>,
    record: U64<'b>,
) {
    f.atomic_store(Order::Relaxed, Scope::System, slots.done.at(number), record);
}
