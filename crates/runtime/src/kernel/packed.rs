//! Packed slots, in which several small tasks share one slot.
//!
//! The whole slot is checked before the first of its tasks runs. Then the tasks run in order, and the first fault ends
//! the slot. The rules are those of [`protocol::packed`](crate::protocol::packed), and a test over every packing holds
//! the two equal.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};

use super::context::{KernelContext, U32};
use super::dispatch::{HandlerEntry, allows, note_task};
use crate::protocol::{FaultCode, fault, packed, slot};

/// Writes the function that runs a packed slot. It takes the task, the place of its words, the tenant and the tenant's
/// mask, and returns the last result. A failure is stored as the fault of the task.
pub(super) fn write_packed(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    entries: &[HandlerEntry],
) -> Callee<(u32, u32, u32, u32), u32> {
    let arity = write_arity(m, entries);
    m.function("packed", |f, (task, at, tenant, mask)| {
        let byte = |k| argument_byte(f, kernel, at, k);
        let (count, area) = (byte(f.lit(0)), byte(f.lit(1)));
        // The arguments start at the first whole word after the pairs.
        let first = (count * 2 + 5) >> 2;
        let shape = count.ge(1) & count.le(packed::MAX_INNER as u32) & (first + area).le(slot::ARGS as u32);
        let whole = f.choose(
            shape,
            || {
                f.range((f.lit(0), count, f.lit(1)), f.lit(true), |check, k, well| {
                    let offset = byte(k * 2 + 3);
                    let needs = f.call(arity, byte(k * 2 + 2));
                    let fits = needs.ne(u32::MAX) & (offset + needs).le(area);
                    f.when(!fits, || check.leave(f.lit(false)));
                    well
                })
            },
            || f.lit(false),
        );
        f.choose(
            whole,
            || {
                f.range((f.lit(0), count, f.lit(1)), f.lit(0), |run, k, _| {
                    let op = byte(k * 2 + 2);
                    let args = (at << 1) + slot::ARG + first + byte(k * 2 + 3);
                    let result =
                        run_inner_task(f, kernel, entries, &InnerTask { task, op, args, tenant, mask });
                    let code = f.load(kernel.shared.faults.at(task));
                    f.when(code.ne(0), || {
                        f.store(kernel.shared.faults.at(task), code | k << fault::INNER_SHIFT);
                        run.leave(result);
                    });
                    result
                })
            },
            || {
                f.store(kernel.shared.faults.at(task), FaultCode::MALFORMED.code());
                f.lit(0)
            },
        )
    })
}

/// Writes the function that returns how many arguments an opcode takes in a packed slot, or `u32::MAX` if it cannot be
/// in one.
fn write_arity(m: &mut Builder, entries: &[HandlerEntry]) -> Callee<u32, u32> {
    m.function("arity", |f, op| {
        let mut switch = f.switch::<U32<'_>>(op);
        for entry in entries.iter().filter(|entry| entry.inner.is_some()) {
            switch = switch.case([entry.op.code()], || f.lit(entry.arity));
        }
        switch.default(|| f.lit(u32::MAX))
    })
}

/// The values of one task inside a packed slot, as the kernel computes them.
struct InnerTask<'b> {
    /// The place of the packed slot's task in its window.
    task: U32<'b>,
    /// The opcode of the inner task.
    op: U32<'b>,
    /// The number of the first word of its arguments.
    args: U32<'b>,
    /// The tenant whose slot it is.
    tenant: U32<'b>,
    /// The opcodes that the tenant may use.
    mask: U32<'b>,
}

/// Writes the code that runs one task of a packed slot, and returns its result.
fn run_inner_task<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    entries: &[HandlerEntry],
    inner_task: &InnerTask<'b>,
) -> U32<'b> {
    let InnerTask { task, op, args, tenant, mask } = *inner_task;
    let may: Val<'b, bool> = allows(f, mask, op);
    f.choose(
        may,
        || {
            let mut switch = f.switch::<U32<'b>>(op);
            for entry in entries {
                let Some(inner) = entry.inner else { continue };
                switch = switch.case([entry.op.code()], || {
                    note_task(f, kernel, entry.counter, entry.visible);
                    f.call(inner, (task, args, tenant))
                });
            }
            switch.default(|| f.lit(0))
        },
        || {
            f.store(kernel.shared.faults.at(task), FaultCode::DENIED.code());
            f.lit(0)
        },
    )
}

/// Writes the code that loads one byte of the argument words of a slot.
fn argument_byte<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    at: U32<'b>,
    k: U32<'b>,
) -> U32<'b> {
    let word = kernel.source.load(f, at + slot::ARG / 2 + (k >> 3));
    f.cast::<u32>(word >> ((k & 7) << 3)) & 0xff
}
