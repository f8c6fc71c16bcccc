//! What a kernel does so that its session can go on after the device was lost.
//!
//! What tasks did in the device's memory is lost with it. Rings and records lie in the host's memory and stay. So a session
//! that [recovers](crate::session::recovery) launches a kernel that begins each stripe at its first task without a record.
//! A kernel that can be launched in this way differs from others in these respects.
//!
//! **Ended tasks are passed over.** Windows end out of order, and the lanes of a group post the records of a window in any
//! order. So when a device is lost, tasks above the first one without a record may have records. The host tells the next
//! kernel for each stripe up to which position that may be so, in `recovered`. A group reads the record of each task below
//! that position first. If the task has a record, the group does not run it, and does not count it either. The same record
//! is posted once more, which changes nothing. The line is not looked at: the ticket may have given the slot up, and then the
//! line may already be that of the next lap. So near rings take such a position without a fresh line, and whoever polls leaves
//! it to a group. The record also comes before a cancel that has come too late.
//!
//! **Tasks say that they begin**, if their handler is of [`Class::Once`]. The lane that runs the task, or that puts it
//! aside because it is group-wide, stores the position in `begun`, and a fence follows before the task does anything. If the
//! device is lost then, the host finds that the task may have run. The host writes the record of such a task itself before it
//! launches the next kernel, which then passes the task over like any other that has ended. A position is stored in full,
//! and not as a generation: other words of the slot are written anew in each lap, but this one only by some tasks, so a
//! generation could come again.
//!
//! **Tasks in cells say so too**, before their first step, in `cell_begun`. The word names the task by the generation of its
//! cell and by the position of the slot that brought it there. The host knows nothing of spawned tasks and of nodes of graphs:
//! they vanish with the device, and are made again when their root begins again. So such a task says that its *root* begins. If
//! the device is lost then, the whole tree ends as lost.
//!
//! **Signals of tasks are noted.** A task that has ended does not signal again, so what it has signalled must not be lost.
//! Whoever signals on behalf of a task stores in `event_notes`, in the host's memory, how often tasks have signalled the event,
//! and goes on only then. The fence before every record stands between that note and the record of the task. (A task that has
//! signalled and has not ended begins again, and signals again.) The device may be lost at any moment, so a note must never
//! go back, not even for a moment: then the signal of a task that has ended could be missing. So one lane at a time notes the
//! signals of an event. It takes the word that counts them by a compare-exchange which sets a bit, and clears the bit when it has
//! stored the note. Another lane tries again until then. It does not wait for a task, but only for the other lane's next two
//! stores, between which lanes never meet. The host counts its own signals.
//!
//! **Resumes are given again.** A task that begins again waits again for the host wherever it has waited before. The host does not
//! know that, and has resumed it already. So `cell_resumes` says how often it has, and a task that has some left goes on at once.
//!
//! **The epoch is noted.** Whoever retires a fence stores the epoch in a word of the fence's stripe in the host's memory,
//! before the fence's record. So the next kernel does not give an epoch to a fence that an earlier one has had.
//!
//! The host charges passed tasks to their tenant as if they ran again: it lets the account begin with the tasks below the
//! first one without a record, and every task that is taken above it is charged as usual.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, RecoveryBuffers, RecoveryCells, RecoveryEvents};
use super::cells::{cell_fact, cell_generation, fact, names_cell};
use super::context::{KernelContext, U32, U64};
use super::declare::Declarer;
use super::handler::Class;
use super::home::{CellServer, CellTask};
use super::near;
use super::placement::Placement;
use super::slots::BankSlots;
use super::spec::Recovery;
use super::tree::tree_word;
use super::window::{STATUS_BITS, TaskPlace, WindowRunner};
use crate::simulated::{PlantedBug, has_bug};

/// In a word of `cell_begun`, the first bit of the generation of the cell. The bits below it hold those of the position of
/// the task's slot.
pub(crate) const BEGUN_GENERATION_SHIFT: u32 = 40;

/// In a word of `task_signals`, the bit which says that a lane is about to note the count.
const BEING_NOTED: u64 = 1 << 63;

/// How long a lane rests before it tries again to note a signal while another one does.
const NOTE_AGAIN_NS: u32 = 40;

/// Returns the word which says that the task of this generation of a cell has begun, if its slot had this position.
pub(crate) fn begun_word(generation: u32, position: u64) -> u64 {
    u64::from(generation) << BEGUN_GENERATION_SHIFT | position & ((1 << BEGUN_GENERATION_SHIFT) - 1)
}

/// The buffers of a kernel whose session can recover.
pub(super) struct RecoveryContext {
    pub buffers: RecoveryBuffers,
    /// What tasks in cells need, if there are any.
    pub cells: Option<RecoveryCells>,
    /// What events need, if there are any.
    pub events: Option<RecoveryEvents>,
}

impl RecoveryContext {
    /// Declares the buffers, if the session can recover.
    pub(super) fn declare(d: &mut Declarer<'_>) -> Option<Self> {
        if d.plan.spec.recovery == Recovery::Off {
            return None;
        }
        let layout = d.plan.layout;
        let (has_cells, has_events) =
            (layout.cell_count() > 0, layout.trees.is_some_and(|trees| trees.events > 0));
        Some(RecoveryContext {
            buffers: RecoveryBuffers::declare(d),
            cells: has_cells.then(|| RecoveryCells::declare(d)),
            events: has_events.then(|| RecoveryEvents::declare(d)),
        })
    }
}

impl BankSlots {
    /// The number among all stripes of the session of the stripe that this group serves of a ring.
    fn served_stripe<'b>(&self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> U32<'b> {
        let stripe = match self.bank.placement {
            Placement::Near => near::own_stripe(f, self, ring),
            _ => ring,
        };
        self.session_stripe(stripe)
    }
}

impl RecoveryBuffers {
    /// Whether a task of this position of a ring may have a record from before a loss.
    pub(super) fn may_have_ended<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        slots: &BankSlots,
        (ring, position): (U32<'b>, U64<'b>),
    ) -> Val<'b, bool> {
        position.lt(f.load(self.recovered.at(slots.served_stripe(f, ring))))
    }

    /// The record that the task of a position and its slot has from before a loss, or 0 if it has none.
    pub(super) fn earlier_record<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        slots: &BankSlots,
        (ring, position, number): (U32<'b>, U64<'b>, U32<'b>),
    ) -> U64<'b> {
        f.choose(
            self.may_have_ended(f, slots, (ring, position)),
            || {
                let record = f.atomic_load(Order::Relaxed, Scope::System, slots.done.at(number));
                let low = f.cast::<u32>(record);
                let ended =
                    (low & STATUS_BITS).ne(0) & (low & !STATUS_BITS).eq(slots.generation_bits(f, position));
                f.select(ended, record, 0u64)
            },
            || f.lit(0u64),
        )
    }

    /// Notes the epoch after a fence of a stripe was retired.
    pub(super) fn note_epoch<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        slots: &BankSlots,
        number: U32<'b>,
        epoch: U64<'b>,
    ) {
        let stripe = slots.session_stripe(number >> slots.bank.log2_slots);
        f.atomic_store(Order::Relaxed, Scope::System, self.epochs.at(stripe), epoch);
    }
}

impl WindowRunner<'_> {
    /// Whether the task of a position of a ring has ended before a loss. `None` if there can be no such task.
    pub(super) fn has_ended_before<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        (ring, position): (U32<'b>, U64<'b>),
    ) -> Option<Val<'b, bool>> {
        let recovery = self.kernel.recovery.as_ref()?;
        let slots = self.slots;
        let stripe = match slots.bank.placement {
            Placement::Near => near::own_stripe(f, slots, ring),
            _ => ring,
        };
        let number = slots.first_slot(stripe) + slots.slot_in_stripe(f, position);
        Some(recovery.buffers.earlier_record(f, slots, (ring, position, number)).ne(0))
    }

    /// Runs a task of a ring, unless it has ended before a loss. Then its record is kept as it is.
    pub(super) fn run_unless_ended<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        ring: U32<'b>,
        (task, place): (U32<'b>, &TaskPlace<'b>),
        run: impl FnOnce(),
    ) {
        let Some(recovery) = &self.kernel.recovery else { return run() };
        let record = recovery.buffers.earlier_record(f, self.slots, (ring, place.position, place.number));
        let pass = || {
            f.store(self.kernel.shared.records.at(task), record);
            if self.kernel.counts_tasks() {
                f.atomic_add(Order::Relaxed, Scope::Group, recovery.buffers.passed.at(0), 1);
            }
        };
        f.choose(record.ne(0), pass, run);
    }

    /// Says that a task begins, if it must not begin twice.
    pub(super) fn say_begun<'b>(self, f: &'b FunctionBuilder<'b>, op: U32<'b>, place: &TaskPlace<'b>) {
        let Some(recovery) = &self.kernel.recovery else { return };
        if !self.table.has_once() || has_bug(PlantedBug::NoBegunWord) {
            return;
        }
        let once = self.table.is_one_of(f, op, |entry| entry.class == Class::Once);
        // A task that moves to a cell says so there.
        let begins = match self.kernel.cells() {
            Some(_) => once & !names_cell(f, self.kernel, place),
            None => once,
        };
        f.when(begins, || {
            let slot = self.slots.session_slot(place.number);
            let begun = recovery.buffers.begun.at(slot);
            f.atomic_store(Order::Relaxed, Scope::System, begun, place.position + 1u64);
            // Stands between the word and everything that the task does. The host looks at both only when no kernel runs.
            f.fence(Order::AcqRel, Scope::System);
        });
    }

    /// How many of a window's tasks have run in this kernel.
    pub(super) fn tasks_run<'b>(self, f: &'b FunctionBuilder<'b>, count: U32<'b>) -> U32<'b> {
        match &self.kernel.recovery {
            Some(recovery) => count - f.load(recovery.buffers.passed.at(0)),
            None => count,
        }
    }
}

impl CellServer<'_> {
    /// Says that the task of a cell begins, if it must not begin twice and has taken no step. If another task has made it, it
    /// is the root of its tree that begins.
    pub(super) fn say_cell_begun<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        task: CellTask<'b>,
    ) {
        let Some(recovery) = self.kernel.recovery.as_ref().and_then(|recovery| recovery.cells.as_ref())
        else {
            return;
        };
        if !self.table.has_once() {
            return;
        }
        let once = self.table.is_one_of(f, task.op, |entry| entry.class == Class::Once);
        let first = || f.load(fact(cells, task.cell, cell_fact::STEPS)).eq(0u64);
        let begins = f.choose(once, first, || f.lit(false));
        f.when(begins, || {
            let root = match &self.kernel.trees {
                Some(tree) => f.cast::<u32>(f.load(tree.link(task.cell, tree_word::ROOT))),
                None => task.cell,
            };
            let state = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(root));
            let position =
                f.atomic_load(Order::Relaxed, Scope::Device, fact(cells, root, cell_fact::POSITION));
            let generation = f.cast::<u64>(cell_generation(f, state)) << BEGUN_GENERATION_SHIFT;
            let word = generation | (position & ((1 << BEGUN_GENERATION_SHIFT) - 1));
            f.atomic_store(Order::Relaxed, Scope::System, recovery.begun.at(root), word);
            // Stands between the word and everything that the task does, as in windows.
            f.fence(Order::AcqRel, Scope::System);
        });
    }
}

/// Notes how often tasks have signalled an event, after its count was raised.
pub(super) fn note_signal<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (event, times): (U32<'b>, U64<'b>),
) {
    let Some(recovery) = kernel.recovery.as_ref().and_then(|recovery| recovery.events.as_ref()) else {
        return;
    };
    let word = recovery.signals.at(event);
    let seen = f.atomic_load(Order::Relaxed, Scope::Device, word);
    f.forever::<_, ()>(seen, |tries, seen| {
        let before = seen & !BEING_NOTED;
        let now = before + times;
        // Pairs with the release below: the note of the last lane comes before this one's.
        let found = f.atomic_cas(Order::Acquire, Scope::Device, word, before, now | BEING_NOTED);
        f.when(found.eq(before), || {
            f.atomic_store(Order::Relaxed, Scope::System, recovery.notes.at(event), now);
            f.atomic_store(Order::Release, Scope::Device, word, now);
            tries.leave(());
        });
        f.backoff(NOTE_AGAIN_NS);
        found
    });
}

/// Whether a task that is about to wait for the host goes on at once, because it has begun again after a loss and the host had
/// resumed it before. This uses one such resume up. The lane has the cell.
pub(super) fn takes_resume<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) -> Val<'b, bool> {
    let Some(recovery) = kernel.recovery.as_ref().and_then(|recovery| recovery.cells.as_ref()) else {
        return f.lit(false);
    };
    // A spawned task has no word, and is never resumed.
    let left = f.load(recovery.resumes.at(cell));
    let state = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
    let meant = f.cast::<u32>(left >> 32).eq(cell_generation(f, state));
    let takes = meant & f.cast::<u32>(left).ne(0);
    f.when(takes, || f.store(recovery.resumes.at(cell), left - 1u64));
    takes
}
