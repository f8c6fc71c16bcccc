//! What a kernel does so that its session can go on after the device was lost.
//!
//! What tasks did in the device's memory is lost with it. Rings and records lie in the host's memory and stay. So a session
//! that [recovers](crate::session::recovery) launches a kernel that begins each stripe at its first task without a record.
//! A kernel that can be launched in this way differs from others in three respects.
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
//! **The epoch is noted.** Whoever retires a fence stores the epoch in a word of the fence's stripe in the host's memory,
//! before the fence's record. So the next kernel does not give an epoch to a fence that an earlier one has had.
//!
//! The host charges passed tasks to their tenant as if they ran again: it lets the account begin with the tasks below the
//! first one without a record, and every task that is taken above it is charged as usual.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::RecoveryBuffers;
use super::context::{U32, U64};
use super::handler::Class;
use super::near;
use super::placement::Placement;
use super::slots::BankSlots;
use super::window::{STATUS_BITS, TaskPlace, WindowRunner};

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
        Some(recovery.earlier_record(f, slots, (ring, position, number)).ne(0))
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
        let record = recovery.earlier_record(f, self.slots, (ring, place.position, place.number));
        let pass = || {
            f.store(self.kernel.shared.records.at(task), record);
            if self.kernel.counts_tasks() {
                f.atomic_add(Order::Relaxed, Scope::Group, recovery.passed.at(0), 1);
            }
        };
        f.choose(record.ne(0), pass, run);
    }

    /// Says that a task begins, if it must not begin twice.
    pub(super) fn say_begun<'b>(self, f: &'b FunctionBuilder<'b>, op: U32<'b>, place: &TaskPlace<'b>) {
        let Some(recovery) = &self.kernel.recovery else { return };
        if self.table.entries.iter().all(|entry| entry.class != Class::Once) {
            return;
        }
        f.when(self.table.is_one_of(f, op, |entry| entry.class == Class::Once), || {
            let slot = self.slots.session_slot(place.number);
            f.atomic_store(Order::Relaxed, Scope::System, recovery.begun.at(slot), place.position + 1u64);
            // Stands between the word and everything that the task does. The host looks at both only when no kernel runs.
            f.fence(Order::AcqRel, Scope::System);
        });
    }

    /// How many of a window's tasks have run in this kernel.
    pub(super) fn tasks_run<'b>(self, f: &'b FunctionBuilder<'b>, count: U32<'b>) -> U32<'b> {
        match &self.kernel.recovery {
            Some(recovery) => count - f.load(recovery.passed.at(0)),
            None => count,
        }
    }
}
