//! The slots of one placement, as a kernel sees them: where a position lies, and what its line must say.

use pelton_ir::builder::{Buf, FunctionBuilder};

use super::context::{U32, U64};
use super::layout::SlotBank;
use crate::protocol::{Status, slot};

/// The slots of one placement.
pub(super) struct BankSlots {
    pub bank: SlotBank,
    /// Their words.
    pub words: Buf<u64>,
    /// Their completion records.
    pub done: Buf<u64>,
    /// What the names of its functions begin with.
    pub prefix: &'static str,
}

impl BankSlots {
    /// The name of a function that is written for each placement.
    pub fn function_name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    /// The number of a stripe's first slot.
    pub fn first_slot<'b>(&self, stripe: U32<'b>) -> U32<'b> {
        // It changes no number; where stripes are a power of two it tells whoever checks ranges that they fit.
        (stripe & (self.bank.stripe_count().next_power_of_two() - 1)) * self.bank.stripe_slots()
    }

    /// The number of a position's slot in its stripe.
    pub fn slot_in_stripe<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        f.cast::<u32>(position) & (self.bank.stripe_slots() - 1)
    }

    /// A stripe's number among all stripes of a session.
    pub fn session_stripe<'b>(&self, stripe: U32<'b>) -> U32<'b> {
        if self.bank.first_stripe == 0 { stripe } else { stripe + self.bank.first_stripe }
    }

    /// A slot's number among all slots of a session.
    pub fn session_slot<'b>(&self, number: U32<'b>) -> U32<'b> {
        if self.bank.first_slot == 0 { number } else { number + self.bank.first_slot }
    }

    /// The generation of a position, in its place in a word.
    pub fn generation_bits<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        f.cast::<u32>(position >> self.bank.log2_slots) << slot::GENERATION_SHIFT
    }

    /// Word 0 of a slot that is ready at a position.
    pub fn ready_word<'b>(&self, f: &'b FunctionBuilder<'b>, position: U64<'b>) -> U32<'b> {
        self.generation_bits(f, position) | Status::Published.code()
    }
}
