//! A window of tasks, from the first handler to the last record.
//!
//! All lanes of the group come here together, and do this:
//!
//! 1. Lane-wide tasks are dealt out to the lanes. Group-wide tasks that are met on the way are put aside, and so are
//!    tasks that can take several [steps](super::steps).
//! 2. All lanes together run the group-wide tasks, one after the other. Tasks with several steps run until all of them
//!    have ended.
//! 3. The group adds what it has counted to its counters, and issues one fence if others may read what a task wrote.
//! 4. The lanes post the records. A host that sees a record therefore sees everything that the window wrote and
//!    counted.
//! 5. Batch fences end last.

use pelton_ir::builder::{FunctionBuilder, Val, Vals};
use pelton_ir::types::{Order, Scope};

use super::cells;
use super::context::{KernelContext, LINE, U32, U64, state};
use super::dispatch::{DispatchArgs, HandlerTable, end_task};
use super::fence::Fences;
use super::handler::Width;
use super::slots::BankSlots;
use super::steps::count_window_steps;
use crate::protocol::{Status, WindowState, control, slot};

/// The tasks that a group has taken. They have consecutive positions in one stripe.
#[derive(Clone, Copy)]
pub(super) struct TaskWindow<'b> {
    /// The number of the first slot of the stripe.
    pub base: U32<'b>,
    /// The position of the first task.
    pub first: U64<'b>,
    /// How many tasks there are. The number is the same in all lanes.
    pub count: U32<'b>,
    /// Who the tasks belong to.
    pub owner: WindowOwner<'b>,
}

/// Who the tasks of a window belong to.
#[derive(Clone, Copy)]
pub(super) enum WindowOwner<'b> {
    /// The window is part of a ring, and a ring has one owner.
    Ring(RingOwner<'b>),
    /// The window is part of a drained batch, in which every slot names its tenant. All slots make up one ring, whose
    /// number is 0.
    EachSlot,
}

/// The ring that a window is part of, and its owner.
#[derive(Clone, Copy)]
pub(super) struct RingOwner<'b> {
    pub ring: U32<'b>,
    /// The level of the ring. It is 0 where there is only one level.
    pub level: U32<'b>,
    pub tenant: U32<'b>,
    /// The opcodes that the tenant may use.
    pub mask: U32<'b>,
}

impl<'b> TaskWindow<'b> {
    /// The ring of the window and its tenant. In a drained batch both are 0, and the tenant has no meaning.
    pub(super) fn ring_and_tenant(self, f: &'b FunctionBuilder<'b>) -> (U32<'b>, U32<'b>) {
        match self.owner {
            WindowOwner::Ring(owner) => (owner.ring, owner.tenant),
            WindowOwner::EachSlot => (f.lit(0), f.lit(0)),
        }
    }
}

/// Everything that is needed to run the windows of one placement.
#[derive(Clone, Copy)]
pub(super) struct WindowRunner<'k> {
    pub kernel: &'k KernelContext<'k>,
    /// The slots that the windows are part of.
    pub slots: &'k BankSlots,
    pub table: &'k HandlerTable,
    pub fences: &'k Fences<'k>,
}

/// Where a task of a window and its words are.
pub(super) struct TaskPlace<'b> {
    pub position: U64<'b>,
    /// The number of the task's slot.
    pub number: U32<'b>,
    /// Where the task's first word is read.
    pub at: U32<'b>,
}

impl<'k> WindowRunner<'k> {
    /// Clears what the last window has left in the group's memory. One lane does this, and a barrier must follow before
    /// the next window runs.
    pub(super) fn clear_state<'b>(self, f: &'b FunctionBuilder<'b>) {
        for word in [state::WIDES, state::FENCED, state::DIRTY] {
            f.store(self.kernel.shared.state.at(word), 0);
        }
        if let Some(recovery) = &self.kernel.recovery {
            f.store(recovery.buffers.passed.at(0), 0);
        }
    }

    /// Runs a window whose slots can be read. All lanes call it.
    pub(super) fn run_window<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        if let Some(places) = &self.kernel.places {
            places.begin_window(f, self, window);
        }
        self.each_task(f, window, |task| self.run_task(f, window, task));
        self.run_rounds(f, window);
        self.finish_window(f, window);
    }

    /// Runs a task of a window in this lane. A group-wide task is put aside until the whole group can run it.
    pub(super) fn run_task<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>, task: U32<'b>) {
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
                self.run_unless_ended(f, owner.ring, (task, &place), || {
                    self.say_begun(f, op, &place);
                    self.number_task(f, &place);
                    let dispatch = || call(owner.tenant, owner.mask);
                    let end = cells::run_or_adopt(f, self, owner, (task, &place, op), dispatch);
                    self.keep_record(f, task, place.position, end);
                });
            }
            // A pass over a batch is one lap, so all of its records have the same generation.
            WindowOwner::EachSlot => {
                let end = super::drain::run_if_permitted(f, kernel, (word, place.at), call);
                self.keep_record(f, task, window.first, end);
            }
        }
    }

    /// Does the rest for a window whose lane-wide tasks have run: group-wide tasks, counters, records and fences.
    pub(super) fn finish_window<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        let kernel = self.kernel;
        let has_wide = self.table.entries.iter().any(|entry| entry.width == Width::Group);
        if has_wide && !kernel.has_rounds() {
            self.run_group_wide(f, window);
        }
        f.barrier();
        if let Some(places) = &kernel.places {
            places.finish_window(f, self, window);
        }
        // A group of a drained batch adds up what it has counted when it leaves. The host does not look at a batch
        // before its pass has ended, so no fence is needed either.
        if let WindowOwner::Ring(owner) = window.owner {
            if kernel.counts_tasks() {
                self.count_window(f, window, owner);
                f.barrier();
            }
            f.when(f.load(kernel.shared.state.at(state::DIRTY)).ne(0), || {
                f.fence(Order::AcqRel, Scope::System);
            });
        }
        if kernel.has_rounds() {
            f.when(f.lane().eq(0), || count_window_steps(f, kernel));
        }
        self.each_task(f, window, |task| self.post_task(f, window, task));
        self.fences.retire_after(f, kernel, window);
    }

    /// Deals the tasks of a window out to the lanes.
    pub(super) fn each_task<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        body: impl FnOnce(U32<'b>),
    ) {
        self.kernel.each_by_lane(f, window.count, self.kernel.layout.window, |task| body(task.named("task")));
    }

    /// The number of the place that a task has for its payload and its reply: that of its slot among all slots of the
    /// session, or that of its cell, which comes after those of all slots.
    pub(super) fn place_number<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        task: U32<'b>,
    ) -> U32<'b> {
        let place = self.task_place(f, window, task);
        let slot = self.slots.session_slot(place.number);
        match window.owner {
            WindowOwner::Ring(owner) => cells::place_of_cell(f, self, owner, (&place, slot)),
            WindowOwner::EachSlot => slot,
        }
    }

    /// The lap of the ring in which a task of a window runs. A pass over a batch is one lap.
    pub(super) fn task_lap<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        task: U32<'b>,
    ) -> U64<'b> {
        let position = match window.owner {
            WindowOwner::Ring(_) => self.task_place(f, window, task).position,
            WindowOwner::EachSlot => window.first,
        };
        position >> self.slots.bank.log2_slots
    }

    /// Works out where a task of a window and its words are.
    pub(super) fn task_place<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        task: U32<'b>,
    ) -> TaskPlace<'b> {
        let position = match window.owner {
            WindowOwner::Ring(_) => window.first + f.cast::<u64>(task),
            // The positions of a batch fit into 32 bits, which saves registers.
            WindowOwner::EachSlot => f.cast::<u64>(f.cast::<u32>(window.first) + task),
        };
        let number = window.base + self.slots.slot_in_stripe(f, position);
        let copied = self.kernel.source.words.handle() != self.slots.words.handle();
        let at = if copied { task } else { number } * LINE;
        TaskPlace { position, number, at }
    }

    /// Writes a task's record into the group's memory, with the status with which the task has ended or with a
    /// [`WindowState`].
    pub(super) fn keep_record<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        task: U32<'b>,
        position: U64<'b>,
        (status, value): (U32<'b>, U32<'b>),
    ) {
        let low = f.cast::<u64>(status | self.slots.generation_bits(f, position));
        f.store(self.kernel.shared.records.at(task), low | f.cast::<u64>(value) << 32);
    }

    /// Runs the group-wide tasks that were put aside, one after the other.
    fn run_group_wide<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        self.each_group_wide(f, (), |k, ()| {
            let (task, place, (ran, result)) = self.call_group_wide(f, window, k);
            f.when(f.lane().eq(0), || {
                let (status, value) = end_task(f, self.kernel, task, result);
                let status = f.select(ran, status, Status::Cancelled.code());
                self.keep_record(f, task, place.position, (status, value));
            });
        });
    }

    /// Runs `body` for the number of each group-wide task that was put aside. All lanes call it.
    pub(super) fn each_group_wide<'b, C: Vals<'b>>(
        self,
        f: &'b FunctionBuilder<'b>,
        init: C,
        body: impl FnOnce(U32<'b>, C) -> C,
    ) -> C {
        f.barrier();
        let wides = f.group_broadcast(f.load(self.kernel.shared.state.at(state::WIDES)), 0);
        f.range((f.lit(0), wides, f.lit(1)), init, |_, k, carried| body(k, carried))
    }

    /// Calls the handler of the `k`-th group-wide task with all lanes. Gives the task's place in the window and its
    /// slot, and then whether the handler ran and what it gave. All lanes have left the handler when this ends.
    pub(super) fn call_group_wide<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        k: U32<'b>,
    ) -> (U32<'b>, TaskPlace<'b>, (Val<'b, bool>, U32<'b>)) {
        let kernel = self.kernel;
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
        // The opcode is another one if the host has cancelled the task in the meantime.
        let ran = switch.default(|| (f.lit(false), f.lit(0)));
        f.barrier();
        (task, place, ran)
    }

    /// Adds the tasks of a window to the group's counters by opcode, tenant and level. All tasks of a window have the
    /// same tenant and level.
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
            let count = self.tasks_run(f, window.count);
            kernel.bump_own(f, f.lit(control::DONE_COUNT), count);
            kernel.bump_own(f, owner.tenant + control::CLAIMS, count);
            kernel.bump_own(f, owner.level + control::LEVELS, count);
        });
    }

    /// Posts the record of a task, if the task has ended.
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

/// The state in a record of a window: the [`Status`] with which the task has ended, a [`WindowState`], or 0 if nothing
/// was written.
pub(super) fn task_state<'b>(f: &'b FunctionBuilder<'b>, record: U64<'b>) -> U32<'b> {
    f.cast::<u32>(record) & STATUS_BITS
}

/// Whether a state is that of a task that has ended.
pub(super) fn has_ended(state: U32<'_>) -> Val<'_, bool> {
    // The state is neither 0 nor one of a task that has not ended.
    (state - 1).lt(WindowState::PENDING - 1)
}

/// The bits of a record that hold the status.
pub(super) const STATUS_BITS: u32 = (1 << slot::GENERATION_SHIFT) - 1;

/// Posts a record, which tells the host that the task has ended.
pub(super) fn post_record<'b>(
    f: &'b FunctionBuilder<'b>,
    slots: &BankSlots,
    number: U32<'b>,
    record: U64<'b>,
) {
    f.atomic_store(Order::Relaxed, Scope::System, slots.done.at(number), record);
}
