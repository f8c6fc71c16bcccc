//! The operation PRINTF, which writes a debug record for the host to read, or counts the record as lost.
//!
//! A lane reserves a record by moving the cursor, so no two lanes write the same one. It does so only if the host has
//! read the record that would be overwritten. The first word of a record is stored last and carries the lap, so a host
//! that reads in the meantime takes only complete records.

use pelton_ir::builder::{Builder, Callee};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, U32};
use crate::protocol::{control, log, slot};

/// How often a lane tries to move the cursor before it counts its record as lost.
const TRIES: u32 = 64;

/// Writes the function that prints. It takes the place of the task's words and the number of the slot, and returns 1
/// if the record was written and 0 if it was lost.
pub(super) fn write_printf(m: &mut Builder, kernel: &KernelContext<'_>) -> Callee<(u32, u32), u32> {
    m.function("printf", |f, (at, number)| {
        let first = kernel.source.load(f, at + slot::ARG / 2);
        let second = kernel.source.load(f, at + slot::ARG / 2 + 1);
        let read = kernel.host_word(f, f.lit(control::LOG_READ));
        let written = f.range((0u32, TRIES, 1u32), f.lit(0), |tries, _, none| {
            let cursor = f.atomic_load(Order::Relaxed, Scope::Device, kernel.global.log.at(log::CURSOR));
            f.when((cursor - read).ge(log::CAPACITY), || tries.leave(none));
            let old = f.atomic_cas(
                Order::Relaxed,
                Scope::Device,
                kernel.global.log.at(log::CURSOR),
                cursor,
                cursor + 1,
            );
            f.when(old.eq(cursor), || {
                let record = (cursor & (log::CAPACITY - 1)) * log::RECORD_WORDS + log::RECORDS;
                let word = |k: u32, value: U32<'_>| {
                    f.atomic_store(Order::Relaxed, Scope::System, kernel.global.log.at(record + k), value);
                };
                word(log::A1, f.cast(first >> 32));
                word(log::A2, f.cast(second));
                word(log::SLOT, number);
                let lap = (cursor / log::CAPACITY) << log::LAP_SHIFT;
                let head = lap | f.cast::<u32>(first);
                // Whoever sees the lap also sees the rest of the record.
                f.atomic_store(Order::Release, Scope::System, kernel.global.log.at(record), head);
                tries.leave(f.lit(1));
            });
            none
        });
        f.when(written.eq(0), || {
            f.atomic_add(Order::Relaxed, Scope::Device, kernel.global.control.at(control::LOG_LOST), 1u64);
        });
        written
    })
}
