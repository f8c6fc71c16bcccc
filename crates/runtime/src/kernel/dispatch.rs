//! What runs in a slot: the handler of its opcode, the one handler there is, or what is built in.
//!
//! Every function here takes a *call*: the task's place in the window, where its words are, the number of its slot, its
//! opcode, its tenant and what that tenant may do. It gives a state and a value. The state is the status with which the task ended, or
//! the [`WindowState`] of a task that has not: it is group-wide and runs when the window's other tasks have, or it is a fence.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::adapt::{Adapted, Args, Checked};
use super::context::{KernelContext, U32, state};
use super::handler::{Visible, Width};
use super::{builtin, packed, print, spec};
use crate::protocol::{FaultCode, Opcode, Status, WindowState, slot};

/// Task, place of its words, slot number, opcode, tenant, mask.
type Params = (u32, u32, u32, u32, u32, u32);

/// Gives state and value.
pub(super) type Call = Callee<Params, (u32, u32)>;

/// An opcode and what runs for it.
pub(super) struct HandlerEntry {
    pub op: Opcode,
    pub width: Width,
    pub visible: Visible,
    /// How many arguments it reads.
    pub arity: u32,
    /// Its counter.
    pub counter: u32,
    /// Whether it has no loop.
    pub light: bool,
    pub whole: Adapted,
    /// The same for a task in a packed slot, if it can be in one.
    pub inner: Option<Adapted>,
}

/// Everything that can run.
pub(super) struct HandlerTable {
    pub entries: Vec<HandlerEntry>,
    pub call: Call,
}

/// A user's handler, ready to be written into the kernel.
pub(super) struct CheckedHandler<'s> {
    pub handler: &'s super::handler::NamedHandler,
    pub checked: Checked,
    pub arity: u32,
}

/// Writes all handlers and the function that chooses among them.
pub(super) fn write_dispatch(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    ready: &[CheckedHandler<'_>],
) -> HandlerTable {
    let fused = kernel.spec.body == spec::Body::Fused;
    let mut entries = Vec::new();
    if !fused {
        for (op, name, visible, checked) in builtin::builtin_functions() {
            let arity = op.builtin_arity().unwrap_or(0);
            entries.push(entry(m, kernel, (op, name, visible, arity), &checked, true));
        }
    }
    for CheckedHandler { handler, checked, arity } in ready {
        let facts = (handler.op, &*handler.name, handler.visible, *arity);
        entries.push(entry(m, kernel, facts, checked, !fused));
    }
    let call = if fused { alone(m, kernel, &entries[0]) } else { choose(m, kernel, &entries) };
    HandlerTable { entries, call }
}

fn entry(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    (op, name, visible, arity): (Opcode, &str, Visible, u32),
    checked: &Checked,
    packs: bool,
) -> HandlerEntry {
    let packs = packs && op.code() <= u8::MAX.into() && checked.width == Width::Lane;
    let counter = kernel.layout.ops.iter().position(|counted| *counted == op).unwrap_or(0) as u32;
    let buffers = checked.buffers(m, kernel, op);
    let whole = checked.adapt(m, kernel, (name, &buffers), Args::Slot);
    let inner = packs.then(|| checked.adapt(m, kernel, (&format!("{name}.packed"), &buffers), Args::Word));
    HandlerEntry { op, width: checked.width, visible, arity, counter, light: checked.light(), whole, inner }
}

/// Counts a task, and says whether others may look at what it wrote.
pub(super) fn note<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    counter: u32,
    visible: Visible,
) {
    if kernel.counts_tasks() {
        f.atomic_add(Order::Relaxed, Scope::Group, kernel.tally(counter), 1);
    }
    if visible == Visible::Memory {
        f.store(kernel.shared.state.at(state::DIRTY), 1);
    }
}

/// How a task ends whose handler gave this result: with its first fault, if there was one.
pub(super) fn end<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    task: U32<'b>,
    result: U32<'b>,
) -> (U32<'b>, U32<'b>) {
    let fault = f.load(kernel.shared.faults.at(task));
    let well = fault.eq(0);
    let status = f.select(well, Status::Done.code(), Status::Fault.code());
    (status, f.select(well, result, fault))
}

/// A task that ends at once.
fn ends<'b>(f: &'b FunctionBuilder<'b>, status: Status, value: u32) -> (U32<'b>, U32<'b>) {
    (f.lit(status.code()), f.lit(value))
}

/// Runs a handler, or puts its task aside until the whole group is there.
fn run<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    entry: &HandlerEntry,
    (task, at, tenant): (U32<'b>, U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    note(f, kernel, entry.counter, entry.visible);
    match entry.width {
        Width::Lane => {
            let result = f.call(entry.whole, (task, at, tenant));
            end(f, kernel, task, result)
        }
        Width::Group => {
            let wides = kernel.shared.state.at(state::WIDES);
            let place = f.atomic_add(Order::Relaxed, Scope::Group, wides, 1);
            f.store(kernel.shared.wide.at(place), task);
            (f.lit(WindowState::Wide.code()), f.lit(0))
        }
    }
}

/// Starts a task: no fault yet, all its fuel.
fn start<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, task: U32<'b>) {
    f.store(kernel.shared.faults.at(task), 0);
    if kernel.fueled {
        f.store(kernel.shared.fuel.at(task), kernel.spec.fuel);
    }
}

/// What a tenant may do: bit i allows opcode i, the last bit all others.
pub(super) fn allows<'b>(
    f: &'b FunctionBuilder<'b>,
    mask: U32<'b>,
    op: U32<'b>,
) -> pelton_ir::builder::Val<'b, bool> {
    ((mask >> f.min(op, 31)) & 1).ne(0)
}

/// The one handler there is.
fn alone(m: &mut Builder, kernel: &KernelContext<'_>, entry: &HandlerEntry) -> Call {
    m.function::<Params, (u32, u32)>("dispatch", |f, (task, at, _slot, op, tenant, mask)| {
        start(f, kernel, task);
        let known = op.eq(entry.op.code());
        f.choose(
            known & allows(f, mask, op),
            || run(f, kernel, entry, (task, at, tenant)),
            || {
                let cancelled = op.eq(Opcode::CANCEL.code());
                let code = f.select(known, FaultCode::DENIED.code(), FaultCode::UNKNOWN.code());
                let status = f.select(cancelled, Status::Cancelled.code(), Status::Fault.code());
                (status, f.select(cancelled, 0, code))
            },
        )
    })
}

/// The handler of the opcode.
fn choose(m: &mut Builder, kernel: &KernelContext<'_>, entries: &[HandlerEntry]) -> Call {
    let print = print::write_printf(m, kernel);
    let packed = packed::write_packed(m, kernel, entries);
    let counter = |op| kernel.layout.ops.iter().position(|counted| *counted == op).unwrap_or(0) as u32;
    m.function::<Params, (u32, u32)>("dispatch", |f, (task, at, number, op, tenant, mask)| {
        start(f, kernel, task);
        let cancel = op.eq(Opcode::CANCEL.code());
        let may = cancel | allows(f, mask, op);
        let dispatch = || {
            let mut switch = f.switch::<(U32<'_>, U32<'_>)>(op);
            for entry in entries {
                switch = switch.case([entry.op.code()], || run(f, kernel, entry, (task, at, tenant)));
            }
            switch
                .case([Opcode::PRINTF.code()], || {
                    note(f, kernel, counter(Opcode::PRINTF), Visible::Memory);
                    let format = f.cast::<u32>(kernel.source.load(f, at + slot::ARG / 2));
                    f.choose(
                        (format - 1).lt(u32::from(u16::MAX)),
                        || (f.lit(Status::Done.code()), f.call(print, (at, number))),
                        || ends(f, Status::Fault, FaultCode::ARGUMENTS.code()),
                    )
                })
                .case([Opcode::PACKED_SLOT.code()], || {
                    note(f, kernel, counter(Opcode::PACKED_SLOT), Visible::Memory);
                    let result = f.call(packed, (task, at, tenant, mask));
                    end(f, kernel, task, result)
                })
                .case([Opcode::BATCH_FENCE.code()], || {
                    note(f, kernel, counter(Opcode::BATCH_FENCE), Visible::Memory);
                    let count = f.cast::<u32>(kernel.source.load(f, at + slot::ARG / 2));
                    f.choose(
                        // What a long batch had before this pass has ended.
                        if kernel.mode.drains() {
                            f.lit(false)
                        } else {
                            count.gt(kernel.fence_reach(f, number))
                        },
                        || ends(f, Status::Fault, FaultCode::ARGUMENTS.code()),
                        || {
                            f.store(kernel.shared.state.at(state::FENCED), 1);
                            (f.lit(WindowState::Fence.code()), f.lit(0))
                        },
                    )
                })
                .case([Opcode::CANCEL.code()], || ends(f, Status::Cancelled, 0))
                .default(|| ends(f, Status::Fault, FaultCode::UNKNOWN.code()))
        };
        f.choose(may, dispatch, || ends(f, Status::Fault, FaultCode::DENIED.code()))
    })
}
