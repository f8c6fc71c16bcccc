//! Light tasks, which the lane that finds them runs at once, without a window.
//!
//! A handler is light if one lane runs it and it has no loop. A task of a light handler that waits alone is not worth
//! the work of a whole group. So the lane that polls its ring reads the line, makes sure that it is the expected one
//! and whole, runs the task, and posts its record.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::adapt::HandlerArgs;
use super::cells;
use super::context::{KernelContext, LINE, Rights, U32, U64};
use super::dispatch::{HandlerEntry, allows, end_task};
use super::handler::{Visible, Width};
use super::line;
use super::window::WindowRunner;
use crate::protocol::{FaultCode, Opcode, Status, WindowState, control, slot};

/// The bit above the status that says that others may read what the task wrote.
const VISIBLE_BIT: u32 = 1 << slot::GENERATION_SHIFT;

/// The number that stands for no counter, where a task is not counted by its opcode.
const NO_COUNTER: u32 = u32::MAX;

/// Up to about this many waiting tasks are run by the lane that finds them. More tasks are worth the work of a group. In a
/// session with near and far rings, producers send at most this many tasks at once near by their own choice.
pub(crate) const FEW_TASKS: u64 = 4;

/// What became of a line that a lane tried to run.
pub(super) mod attempt {
    /// The line is not the expected one, or it is not whole.
    pub(crate) const NOT_READY: u32 = 0;
    /// The task was run.
    pub(crate) const RAN: u32 = 1;
    /// The task is not light, or its tenant may not run it without a window. It is left to a group.
    pub(crate) const NEEDS_WINDOW: u32 = 2;
}

/// The types of [`LightArgs`], in their order.
type LightTypes = (u32, u32, u32, u32, u32);

/// What the function that runs light tasks is told of a task.
#[derive(Clone, Copy)]
struct LightArgs<'b> {
    /// The place of the task's words and of its fault: the number of the lane that runs it.
    task: U32<'b>,
    /// Where the first of the task's words of 64 bits is.
    words: U32<'b>,
    op: U32<'b>,
    tenant: U32<'b>,
    /// The opcodes that the tenant may use.
    mask: U32<'b>,
}

/// The arguments of a call, as the builder passes them.
type LightTuple<'b> = (U32<'b>, U32<'b>, U32<'b>, U32<'b>, U32<'b>);

impl<'b> LightArgs<'b> {
    /// Names the parameters of the function.
    fn from_tuple((task, words, op, tenant, mask): LightTuple<'b>) -> Self {
        LightArgs { task, words, op, tenant, mask }
    }

    /// The arguments of a call, in the order of [`LightTypes`].
    fn tuple(self) -> LightTuple<'b> {
        (self.task, self.words, self.op, self.tenant, self.mask)
    }

    /// What the task's handler is told of it.
    fn handler_args(self) -> HandlerArgs<'b> {
        HandlerArgs { task: self.task, words: self.words, tenant: self.tenant }
    }
}

/// How light tasks are run.
#[derive(Clone, Copy)]
pub(super) struct LightTasks {
    /// Runs a task if it is light. It takes [`LightArgs`] as a tuple and gives the task's state, its value and the
    /// number of its counter. The state is [`WindowState::Heavy`] if the task is not light.
    run: Callee<LightTypes, (u32, u32, u32)>,
}

/// What is known of a tenant's rights when a lane is about to run one of its light tasks.
#[derive(Clone, Copy)]
pub(super) enum TaskPermit<'b> {
    /// The tenant's mask is known, and it is not 0.
    Mask(U32<'b>),
    /// The tenant's words were read together with the line.
    Rights(Rights<'b>),
    /// Nothing is known. The tenant's words have to be read after the line.
    Unread,
}

/// A line that a lane has read, and what is known of its ring.
#[derive(Clone, Copy)]
pub(super) struct FoundLine<'b> {
    pub words: [U64<'b>; LINE as usize],
    pub position: U64<'b>,
    /// The number of its slot.
    pub number: U32<'b>,
    pub tenant: U32<'b>,
    pub permit: TaskPermit<'b>,
    pub level: U32<'b>,
    /// Whether the task may have ended before the device was lost, if it can have. Then only a group takes it.
    pub may_have_ended: Option<Val<'b, bool>>,
}

impl LightTasks {
    /// Writes the function that runs light tasks.
    pub(super) fn write(m: &mut Builder, kernel: &KernelContext<'_>, entries: &[HandlerEntry]) -> Self {
        let run = m.function::<LightTypes, (u32, u32, u32)>("light", |f, tuple| {
            let args = LightArgs::from_tuple(tuple);
            let LightArgs { task, op, mask, .. } = args;
            f.store(kernel.shared.faults.at(task), 0);
            let ends = |state: u32, value: u32| (f.lit(state), f.lit(value), f.lit(NO_COUNTER));
            let may = op.eq(Opcode::CANCEL.code()) | allows(f, mask, op);
            let run = || {
                let mut switch = f.switch::<(U32<'_>, U32<'_>, U32<'_>)>(op);
                for entry in entries.iter().filter(|entry| entry.light && entry.width == Width::Lane) {
                    switch = switch.case([entry.op.code()], || {
                        let counter = f.lit(control::OBSERVABLES + entry.counter);
                        let result = f.call(entry.whole, args.handler_args().tuple());
                        let (status, value) = end_task(f, kernel, task, result);
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
        LightTasks { run }
    }

    /// Runs the task of a line that waits alone, in this lane. Gives one of [`attempt`].
    pub(super) fn attempt<'b>(
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
                let words = task * LINE;
                for (k, word) in found.words.iter().enumerate() {
                    f.store(kernel.source.words.at(words + k as u32), *word);
                }
                let op = f.cast::<u32>(found.words[0] >> 32);
                let args = LightArgs { task, words, op, tenant: found.tenant, mask };
                let end = f.call(self.run, args.tuple());
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
        // A task that names a cell is not light, whatever its opcode is. A group decides what becomes of it.
        let refuse_cells = || match kernel.cells() {
            Some(_) => {
                let number = cells::cell_number(f, found.words[slot::PRIORITY as usize / 2]);
                f.choose(number.eq(0), attempt, || f.lit(attempt::NEEDS_WINDOW))
            }
            None => attempt(),
        };
        let try_line = || f.choose(whole, refuse_cells, || f.lit(attempt::NOT_READY));
        match found.may_have_ended {
            Some(may) => f.choose(may, || f.lit(attempt::NEEDS_WINDOW), try_line),
            None => try_line(),
        }
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
    // Others may read what this lane wrote and nothing else, so a release by this lane is enough.
    let post = |order| f.atomic_store(order, Scope::System, slots.done.at(found.number), record);
    f.choose((status & VISIBLE_BIT).ne(0), || post(Order::Release), || post(Order::Relaxed));
    // The task is counted after its record is posted, because a host thread may be waiting for the record.
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

/// Notes that the line at the head of a ring should be there and is not whole. The line may have been read too early,
/// so it is counted only if it is not whole the next time either.
pub(super) fn note_failed_check<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, ring: U32<'b>) {
    let suspect = kernel.shared.suspect.at(ring);
    let before = f.load(suspect);
    f.when(before.eq(1), || kernel.bump_shared(f, f.lit(control::CHECKS)));
    f.store(suspect, f.min(before + 1, 2));
}
