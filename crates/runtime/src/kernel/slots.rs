//! The slots of one placement as a kernel sees them: which slot a position has, and what its first word must be.

use pelton_ir::builder::{Buf, FunctionBuilder};

use super::context::{KernelContext, U32, U64};
use super::layout::SlotBank;
use crate::protocol::{Status, slot};

/// The slots of one placement, with the buffers that hold them.
pub(super) struct BankSlots {
    pub bank: SlotBank,
    /// The words of the slots.
    pub words: Buf<u64>,
    /// The completion records of the slots.
    pub done: Buf<u64>,
    /// The beginning of the names of functions that are written for this placement.
    pub prefix: &'static str,
}

impl BankSlots {
    /// The name of a function that is written for each placement.
    pub(super) fn function_name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    /// How many rings of each level a group polls.
    pub(super) fn polled_level_rings(&self, kernel: &KernelContext<'_>) -> u32 {
        self.bank.polled_rings() / kernel.layout.levels
    }

    /// The number of a ring among all rings, given its number among those that a group polls.
    pub(super) fn ring_of_polled<'b>(&self, polled: U32<'b>) -> U32<'b> {
        match self.bank.group_stripes() {
            1 => polled,
            stripes => polled / stripes,
        }
    }

    /// How many of the rings of a level that a group polls belong to so many producers.
    pub(super) fn rings_of_producers<'b>(&self, producers: U32<'b>) -> U32<'b> {
        match self.bank.group_stripes() {
            1 => producers,
            stripes => producers * stripes,
        }
    }

    /// The number of a stripe's first slot.
    pub(super) fn first_slot<'b>(&self, stripe: U32<'b>) -> U32<'b> {
        // The mask changes no number. Where the number of stripes is a power of two, it lets the bounds analysis prove
        // that the slot is in range.
        (stripe & (self.bank.stripe_count().next_power_of_two() - 1)) * self.bank.stripe_slots()
    }

    /// The number of a position's slot within its stripe.
    pub(super) fn slot_in_stripe<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        f.cast::<u32>(position) & (self.bank.stripe_slots() - 1)
    }

    /// A stripe's number among all stripes of a session.
    pub(super) fn session_stripe<'b>(&self, stripe: U32<'b>) -> U32<'b> {
        if self.bank.first_stripe == 0 { stripe } else { stripe + self.bank.first_stripe }
    }

    /// A slot's number among all slots of a session.
    pub(super) fn session_slot<'b>(&self, number: U32<'b>) -> U32<'b> {
        if self.bank.first_slot == 0 { number } else { number + self.bank.first_slot }
    }

    /// The generation of a position, shifted to where word 0 of a slot and a record have it.
    pub(super) fn generation_bits<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        f.cast::<u32>(position >> self.bank.log2_slots) << slot::GENERATION_SHIFT
    }

    /// What the lower half of word 0 is when the task of this position is published.
    pub(super) fn ready_word<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        self.generation_bits(f, position) | Status::Published.code()
    }
}
