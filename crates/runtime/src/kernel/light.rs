//! LightTasks tasks: run by the lane that finds them, without a window.
//!
//! A handler is light if one lane runs it and it has no loop. A task of a light handler that waits alone is not worth a group:
//! whoever polls its ring takes the line as it is, if it is the one expected and whole, runs it, and posts its record.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, LINE, Rights, U32, U64};
use super::dispatch::{HandlerEntry, allows, end};
use super::handler::{Visible, Width};
use super::line;
use super::window::WindowRunner;
use crate::protocol::{FaultCode, Opcode, Status, WindowState, control, slot};

/// The bit above the status that says that others may look at what the task wrote.
const VISIBLE_BIT: u32 = 1 << slot::GENERATION_SHIFT;

/// No counter.
const NO_COUNTER: u32 = u32::MAX;

/// About so many tasks are run by the lane that finds them; more are worth a group.
pub(super) const FEW_TASKS: u64 = 4;

/// What became of a line.
pub(super) mod attempt {
    /// It is not the one expected, or not whole.
    pub const NOT_READY: u32 = 0;
    /// It was run.
    pub const RAN: u32 = 1;
    /// It is not light.
    pub const NEEDS_WINDOW: u32 = 2;
}

/// Task, place of its words, opcode, tenant, mask.
type Params = (u32, u32, u32, u32, u32);

/// How light tasks are run.
#[derive(Clone, Copy)]
pub(super) struct LightTasks {
    /// Gives state, value and the number of its counter. The state is [`WindowState::Heavy`] if the task is not light.
    call: Callee<Params, (u32, u32, u32)>,
}

/// What is known of what a tenant's light tasks may do.
#[derive(Clone, Copy)]
pub(super) enum TaskPermit<'b> {
    /// The mask, which is not 0.
    Mask(U32<'b>),
    /// The words that were read together with the line.
    Rights(Rights<'b>),
    /// Nothing yet: it is read now that the line is there.
    Unread,
}

/// A line that a lane has read, and where.
#[derive(Clone, Copy)]
pub(super) struct FoundLine<'b> {
    pub words: [U64<'b>; LINE as usize],
    pub position: U64<'b>,
    /// The number of its slot.
    pub number: U32<'b>,
    pub tenant: U32<'b>,
    pub permit: TaskPermit<'b>,
    pub level: U32<'b>,
}

impl LightTasks {
    /// Writes the function that runs light tasks.
    pub fn write(m: &mut Builder, kernel: &KernelContext<'_>, entries: &[HandlerEntry]) -> Self {
        let call = m.function::<Params, (u32, u32, u32)>("light", |f, (task, at, op, tenant, mask)| {
            f.store(kernel.shared.faults.at(task), 0);
            let ends = |state: u32, value: u32| (f.lit(state), f.lit(value), f.lit(NO_COUNTER));
            let may = op.eq(Opcode::CANCEL.code()) | allows(f, mask, op);
            let run = || {
                let mut switch = f.switch::<(U32<'_>, U32<'_>, U32<'_>)>(op);
                for entry in entries.iter().filter(|entry| entry.light && entry.width == Width::Lane) {
                    switch = switch.case([entry.op.code()], || {
                        let counter = f.lit(control::OBSERVABLES + entry.counter);
                        let result = f.call(entry.whole, (task, at, tenant));
                        let (status, value) = end(f, kernel, task, result);
                        match entry.visible {
                            Visible::Memory => (status | VISIBLE_BIT, value, counter),
                            Visible::Result => (status, value, counter),
                        }
                    });
                }
                switch
                    .case([Opcode::CANCEL.code()], || ends(Status::Cancelled.code(), 0))
                    .default(|| ends(WindowState::Heavy.code(), 0))
            };
            f.choose(may, run, || ends(Status::Fault.code(), FaultCode::DENIED.code()))
        });
        LightTasks { call }
    }

    /// Runs a line that waits alone, in this lane; one of [`attempt`].
    pub fn attempt<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        run: WindowRunner<'_>,
        found: FoundLine<'b>,
    ) -> U32<'b> {
        let (kernel, slots) = (run.kernel, run.slots);
        let fresh = f.cast::<u32>(found.words[0]).eq(slots.ready_word(f, found.position));
        let whole = f.choose(fresh, || line::is_whole(f, &found.words), || f.lit(false));
        let attempt = || {
            kernel.acquire_host_writes(f);
            let permitted = |mask| {
                let task = f.lane();
                let at = task * LINE;
                for (k, word) in found.words.iter().enumerate() {
                    f.store(kernel.source.words.at(at + k as u32), *word);
                }
                let op = f.cast::<u32>(found.words[0] >> 32);
                let end = f.call(self.call, (task, at, op, found.tenant, mask));
                f.choose(
                    end.0.eq(WindowState::Heavy.code()),
                    || f.lit(attempt::NEEDS_WINDOW),
                    || finish_light(f, run, found, end),
                )
            };
            let tested = |rights: Rights<'b>| {
                let mask = rights.light_mask(f);
                f.choose(mask.ne(0), || permitted(mask), || f.lit(attempt::NEEDS_WINDOW))
            };
            match found.permit {
                TaskPermit::Mask(mask) => permitted(mask),
                TaskPermit::Rights(rights) => tested(rights),
                TaskPermit::Unread => tested(kernel.rights(f, found.tenant)),
            }
        };
        f.choose(whole, attempt, || f.lit(attempt::NOT_READY))
    }
}

/// Posts the record of a light task and counts it.
fn finish_light<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    found: FoundLine<'b>,
    (status, value, counter): (U32<'b>, U32<'b>, U32<'b>),
) -> U32<'b> {
    let (kernel, slots) = (run.kernel, run.slots);
    let low = f.cast::<u64>((status & (VISIBLE_BIT - 1)) | slots.generation_bits(f, found.position));
    let record = low | f.cast::<u64>(value) << 32;
    // Others may look at what this lane wrote, and at nothing else.
    let post = |order| f.atomic_store(order, Scope::System, slots.done.at(found.number), record);
    f.choose((status & VISIBLE_BIT).ne(0), || post(Order::Release), || post(Order::Relaxed));
    // Counted afterwards: the record is what somebody waits for.
    if kernel.counts_tasks() {
        f.when(counter.ne(NO_COUNTER), || kernel.bump_shared(f, counter));
        for counter in
            [f.lit(control::DONE_COUNT), found.tenant + control::CLAIMS, found.level + control::LEVELS]
        {
            kernel.bump_shared(f, counter);
        }
    }
    f.lit(attempt::RAN)
}

/// A line that should be there and is not whole may have been read too early; one that is not whole the next time either is counted.
pub(super) fn note_failed_check<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, ring: U32<'b>) {
    let suspect = kernel.shared.suspect.at(ring);
    let before = f.load(suspect);
    f.when(before.eq(1), || kernel.bump_shared(f, f.lit(control::CHECKS)));
    f.store(suspect, f.min(before + 1, 2));
}
