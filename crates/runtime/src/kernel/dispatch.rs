//! The dispatch function, which runs one task: by the handler of its opcode, by the only handler there is, or by what
//! is built in.
//!
//! The function takes [`DispatchArgs`] and gives a state and a value. The state is the status with which the task has
//! ended, or the [`WindowState`] of a task that has not ended: a group-wide task runs after the window's other tasks, a
//! task of a resumable handler takes its [steps] later, and a fence ends after everything before it.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::adapt::{AdaptedHandler, ArgumentPlace, HandlerArgs, HandlerCode};
use super::context::{KernelContext, U32, state};
use super::handler::{Class, Visible, Width};
use super::{builtin, event, packed, print, spec, steps};
use crate::protocol::{FaultCode, Opcode, Status, WindowState, slot};

/// The types of [`DispatchArgs`], in their order.
type DispatchTypes = (u32, u32, u32, u32, u32, u32);

/// The function that runs one task. It takes [`DispatchArgs`] as a tuple and gives state and value.
pub(super) type DispatchFunction = Callee<DispatchTypes, (u32, u32)>;

/// What the dispatch function is told of a task.
#[derive(Clone, Copy)]
pub(super) struct DispatchArgs<'b> {
    /// The task's place in its window.
    pub task: U32<'b>,
    /// Where the first of the task's words of 64 bits is.
    pub words: U32<'b>,
    /// The number of the task's slot among all slots of the session.
    pub slot: U32<'b>,
    /// The task's opcode.
    pub op: U32<'b>,
    /// The tenant that the task belongs to.
    pub tenant: U32<'b>,
    /// The opcodes that the tenant may use.
    pub mask: U32<'b>,
}

/// The arguments of a call of the dispatch function, as the builder passes them.
type DispatchTuple<'b> = (U32<'b>, U32<'b>, U32<'b>, U32<'b>, U32<'b>, U32<'b>);

impl<'b> DispatchArgs<'b> {
    /// Names the parameters of the dispatch function.
    fn from_tuple((task, words, slot, op, tenant, mask): DispatchTuple<'b>) -> Self {
        DispatchArgs { task, words, slot, op, tenant, mask }
    }

    /// The arguments of a call, in the order of [`DispatchFunction`].
    fn tuple(self) -> DispatchTuple<'b> {
        (self.task, self.words, self.slot, self.op, self.tenant, self.mask)
    }

    /// What the task's handler is told of it.
    fn handler_args(self) -> HandlerArgs<'b> {
        HandlerArgs { task: self.task, words: self.words, tenant: self.tenant }
    }
}

/// An opcode and the functions that run its tasks.
pub(super) struct HandlerEntry {
    pub op: Opcode,
    pub width: Width,
    pub visible: Visible,
    /// Whether a task that had begun when the device was lost begins again.
    pub class: Class,
    /// How many arguments the handler reads.
    pub arity: u32,
    /// The number of the counter of the opcode's tasks.
    pub counter: u32,
    /// Whether the handler has no loop and is not resumable, so that a poller may run its tasks on the spot.
    pub light: bool,
    /// Whether the handler's tasks can take several steps.
    pub resumable: bool,
    /// How many words the handler's frame has.
    pub frame_words: u32,
    /// Runs a task that has a slot to itself.
    pub whole: AdaptedHandler,
    /// Runs one step of a task that was put aside in a drained batch or has moved to a cell, if tasks of this opcode can.
    pub stepped: Option<AdaptedHandler>,
    /// Whether the handler sees how many children of its task have ended with a fault.
    pub sees_faults: bool,
    /// Runs a task in a packed slot, if tasks of this opcode can be in one.
    pub inner: Option<AdaptedHandler>,
}

/// Everything that can run in a slot.
pub(super) struct HandlerTable {
    pub entries: Vec<HandlerEntry>,
    pub dispatch: DispatchFunction,
}

impl HandlerTable {
    /// Calls the dispatch function, which runs one task.
    pub(super) fn call_dispatch<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        args: DispatchArgs<'b>,
    ) -> (U32<'b>, U32<'b>) {
        f.call(self.dispatch, args.tuple())
    }

    /// The handlers of a width whose tasks take steps outside of a window, with the functions that run one step.
    pub(super) fn stepped_handlers(
        &self,
        width: Width,
    ) -> impl Iterator<Item = (&HandlerEntry, AdaptedHandler)> {
        let entries = self.entries.iter().filter(move |entry| entry.width == width);
        entries.filter_map(|entry| entry.stepped.map(|stepped| (entry, stepped)))
    }

    /// The handlers of a width whose tasks take steps outside of a window.
    pub(super) fn stepped(&self, width: Width) -> impl Iterator<Item = &HandlerEntry> {
        self.stepped_handlers(width).map(|(entry, _)| entry)
    }

    /// Whether an opcode is that of a handler for which `wanted` holds.
    pub(super) fn is_one_of<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        op: U32<'b>,
        wanted: impl Fn(&HandlerEntry) -> bool,
    ) -> Val<'b, bool> {
        let entries = self.entries.iter().filter(|entry| wanted(entry));
        entries.fold(f.lit(false), |some, entry| some | op.eq(entry.op.code()))
    }

    /// Whether tasks of some handler must not begin twice.
    pub(super) fn has_once(&self) -> bool {
        self.entries.iter().any(|entry| entry.class == Class::Once)
    }

    /// Decides whether a task that names a cell may move there, and counts it. Gives [`WindowState::Again`], or the status
    /// and the value with which the task ends.
    pub(super) fn admit<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        (op, mask): (U32<'b>, U32<'b>),
    ) -> (U32<'b>, U32<'b>) {
        let admit = || {
            let mut switch = f.switch::<(U32<'_>, U32<'_>)>(op);
            for entry in self.entries.iter().filter(|entry| entry.stepped.is_some()) {
                switch = switch.case([entry.op.code()], || {
                    note_task(f, kernel, entry.counter, Visible::Result);
                    (f.lit(WindowState::Again.code()), f.lit(0))
                });
            }
            if kernel.trees.as_ref().is_some_and(|trees| trees.graphs.is_some()) {
                switch = switch.case([Opcode::LAUNCH_GRAPH.code()], || {
                    note_task(f, kernel, counter_of(kernel, Opcode::LAUNCH_GRAPH), Visible::Result);
                    (f.lit(WindowState::Again.code()), f.lit(0))
                });
            }
            switch
                .case([Opcode::CANCEL.code()], || ends(f, Status::Cancelled, 0))
                .default(|| ends(f, Status::Fault, FaultCode::UNKNOWN.code()))
        };
        let may = op.eq(Opcode::CANCEL.code()) | allows(f, mask, op);
        f.choose(may, admit, || ends(f, Status::Fault, FaultCode::DENIED.code()))
    }

    /// Calls the handler of a lane-wide task of a resumable handler, for one step. `op` loads the task's opcode, which is
    /// needed only if there are several such handlers.
    pub(super) fn call_lane_wide_step<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        op: impl FnOnce() -> U32<'b>,
        args: HandlerArgs<'b>,
    ) -> U32<'b> {
        let entries: Vec<_> = self.stepped_handlers(Width::Lane).collect();
        let Some(((_, first), rest)) = entries.split_first() else { return f.lit(0) };
        let call = |handler: AdaptedHandler| f.call(handler, args.tuple());
        if rest.is_empty() {
            return call(*first);
        }
        let mut switch = f.switch::<U32<'b>>(op());
        for (entry, handler) in rest {
            switch = switch.case([entry.op.code()], || call(*handler));
        }
        switch.default(|| call(*first))
    }
}

/// A user's handler, ready to be written into the kernel.
pub(super) struct CheckedHandler<'s> {
    pub handler: &'s super::handler::NamedHandler,
    pub code: HandlerCode,
    /// How many arguments the handler reads.
    pub arity: u32,
    /// Whether tasks of the handler can have children.
    pub has_children: bool,
}

/// Writes all handlers and the dispatch function, which chooses among them.
pub(super) fn write_dispatch(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    handlers: &[CheckedHandler<'_>],
) -> HandlerTable {
    let fused = kernel.spec.body == spec::SlotBody::Fused;
    let mut entries = Vec::new();
    if !fused {
        for (op, name, visible, code) in builtin::builtin_functions() {
            let arity = op.builtin_arity().unwrap_or(0);
            let facts = EntryFacts { op, name, visible, class: Class::Restart, arity };
            entries.push(write_entry(m, kernel, facts, &code));
        }
    }
    for CheckedHandler { handler, code, arity, .. } in handlers {
        let (op, name, visible, class) = (handler.op, &*handler.name, handler.visible, handler.class);
        let facts = EntryFacts { op, name, visible, class, arity: *arity };
        entries.push(write_entry(m, kernel, facts, code));
    }
    let dispatch = match fused {
        true => write_fused_dispatch(m, kernel, &entries[0]),
        false => write_opcode_dispatch(m, kernel, &entries),
    };
    HandlerTable { entries, dispatch }
}

/// What is known of a handler beside its code.
struct EntryFacts<'s> {
    op: Opcode,
    name: &'s str,
    visible: Visible,
    class: Class,
    arity: u32,
}

/// Writes the functions of one handler. A fused kernel has no packed slots, and a packed slot has room for opcodes of
/// one byte only, and none for a payload or a reply. A task that has to say that it begins needs a slot of its own.
fn write_entry(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    EntryFacts { op, name, visible, class, arity }: EntryFacts<'_>,
    code: &HandlerCode,
) -> HandlerEntry {
    let says_begun = kernel.recovery.is_some() && class == Class::Once;
    let packs = kernel.spec.body != spec::SlotBody::Fused
        && op.code() <= u8::MAX.into()
        && code.width == Width::Lane
        && !code.resumable
        && !says_begun
        && !code.places.any();
    // The host reads a reply as soon as it has seen the record.
    let visible = if code.places.reply { Visible::Memory } else { visible };
    let counter = counter_of(kernel, op);
    let buffers = code.declare_buffers(m, kernel, op);
    let arguments = match code.resumable && kernel.cells().is_some() {
        true => ArgumentPlace::Cell,
        false => ArgumentPlace::Slot,
    };
    let whole = code.write_adapted(m, kernel, (name, &buffers), arguments);
    let stepped = match (code.resumable, &kernel.trees) {
        (true, _) => Some(whole),
        (false, Some(_)) => {
            let name = format!("{name}.cell");
            Some(code.write_adapted(m, kernel, (&name, &buffers), ArgumentPlace::Cell))
        }
        (false, None) => None,
    };
    let packed_name = format!("{name}.packed");
    let inner = packs.then(|| code.write_adapted(m, kernel, (&packed_name, &buffers), ArgumentPlace::Word));
    let HandlerCode { width, resumable, frame_words, sees_faults, .. } = *code;
    // Whoever polls would run a light task beside that of a window.
    let light = code.is_light() && !resumable && !says_begun && kernel.serial.is_none();
    HandlerEntry {
        op,
        width,
        visible,
        class,
        arity,
        counter,
        light,
        resumable,
        frame_words,
        whole,
        stepped,
        sees_faults,
        inner,
    }
}

/// The number of the counter of an opcode's tasks.
fn counter_of(kernel: &KernelContext<'_>, op: Opcode) -> u32 {
    kernel.layout.ops.iter().position(|counted| *counted == op).unwrap_or(0) as u32
}

/// Counts a task. If others may read what it writes, marks the window as one whose records need a fence before them.
pub(super) fn note_task<'b>(
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

/// The status and value with which a task ends whose handler gave this result. They are those of the task's first
/// fault, if it had one.
pub(super) fn end_task<'b>(
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

/// The status and value of a task that ends without running anything.
fn ends<'b>(f: &'b FunctionBuilder<'b>, status: Status, value: u32) -> (U32<'b>, U32<'b>) {
    (f.lit(status.code()), f.lit(value))
}

/// Runs a handler. A group-wide handler's task is put aside until the whole group can run it.
fn run_handler<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    entry: &HandlerEntry,
    args: DispatchArgs<'b>,
) -> (U32<'b>, U32<'b>) {
    note_task(f, kernel, entry.counter, entry.visible);
    steps::admit_task(f, kernel, entry, args.task);
    match entry.width {
        // A task that moves to a cell is run from there, whatever its width.
        _ if entry.resumable && kernel.cells().is_some() => (f.lit(WindowState::Again.code()), f.lit(0)),
        Width::Lane if entry.resumable => (f.lit(WindowState::Again.code()), f.lit(0)),
        Width::Lane => {
            let result = f.call(entry.whole, args.handler_args().tuple());
            end_task(f, kernel, args.task, result)
        }
        Width::Group => {
            let wides = kernel.shared.state.at(state::WIDES);
            let place = f.atomic_add(Order::Relaxed, Scope::Group, wides, 1);
            f.store(kernel.shared.wide.at(place), args.task);
            (f.lit(WindowState::Wide.code()), f.lit(0))
        }
    }
}

/// Gives a task that starts all its fuel, and takes the fault of an earlier task from its place.
fn start_task<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, task: U32<'b>) {
    f.store(kernel.shared.faults.at(task), 0);
    if kernel.fueled {
        f.store(kernel.shared.fuel.at(task), kernel.spec.fuel);
    }
    kernel.clear_steps(f, task);
}

/// Whether a tenant's mask allows an opcode. Bit i allows opcode i, and the last bit allows all opcodes from 31 on.
pub(super) fn allows<'b>(f: &'b FunctionBuilder<'b>, mask: U32<'b>, op: U32<'b>) -> Val<'b, bool> {
    ((mask >> f.min(op, 31)) & 1).ne(0)
}

/// Writes the dispatch function of a fused kernel, which runs its only handler.
fn write_fused_dispatch(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    entry: &HandlerEntry,
) -> DispatchFunction {
    m.function::<DispatchTypes, (u32, u32)>("dispatch", |f, tuple| {
        let args = DispatchArgs::from_tuple(tuple);
        start_task(f, kernel, args.task);
        let known = args.op.eq(entry.op.code());
        f.choose(
            known & allows(f, args.mask, args.op),
            || run_handler(f, kernel, entry, args),
            || {
                let cancelled = args.op.eq(Opcode::CANCEL.code());
                let code = f.select(known, FaultCode::DENIED.code(), FaultCode::UNKNOWN.code());
                let status = f.select(cancelled, Status::Cancelled.code(), Status::Fault.code());
                (status, f.select(cancelled, 0, code))
            },
        )
    })
}

/// Writes the dispatch function that switches over opcodes.
fn write_opcode_dispatch(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    entries: &[HandlerEntry],
) -> DispatchFunction {
    let print = print::write_printf(m, kernel);
    let packed = packed::write_packed(m, kernel, entries);
    m.function::<DispatchTypes, (u32, u32)>("dispatch", |f, tuple| {
        let args = DispatchArgs::from_tuple(tuple);
        let DispatchArgs { task, words, slot, op, tenant, mask } = args;
        start_task(f, kernel, task);
        let cancel = op.eq(Opcode::CANCEL.code());
        let may = cancel | allows(f, mask, op);
        let note_builtin = |op| note_task(f, kernel, counter_of(kernel, op), Visible::Memory);
        let dispatch = || {
            let mut switch = f.switch::<(U32<'_>, U32<'_>)>(op);
            for entry in entries {
                switch = switch.case([entry.op.code()], || run_handler(f, kernel, entry, args));
            }
            if kernel.events().is_some() {
                switch = switch.case([Opcode::SIGNAL.code()], || {
                    note_builtin(Opcode::SIGNAL);
                    signal_event(f, kernel, args)
                });
            }
            switch
                .case([Opcode::PRINTF.code()], || {
                    note_builtin(Opcode::PRINTF);
                    let format = f.cast::<u32>(kernel.source.load(f, words + slot::ARG / 2));
                    f.choose(
                        (format - 1).lt(u32::from(u16::MAX)),
                        || (f.lit(Status::Done.code()), f.call(print, (words, slot))),
                        || ends(f, Status::Fault, FaultCode::ARGUMENTS.code()),
                    )
                })
                .case([Opcode::PACKED_SLOT.code()], || {
                    note_builtin(Opcode::PACKED_SLOT);
                    let result = f.call(packed, (task, words, tenant, mask));
                    end_task(f, kernel, task, result)
                })
                .case([Opcode::BATCH_FENCE.code()], || {
                    note_builtin(Opcode::BATCH_FENCE);
                    start_fence(f, kernel, args)
                })
                .case([Opcode::CANCEL.code()], || ends(f, Status::Cancelled, 0))
                .default(|| ends(f, Status::Fault, FaultCode::UNKNOWN.code()))
        };
        f.choose(may, dispatch, || ends(f, Status::Fault, FaultCode::DENIED.code()))
    })
}

/// Runs a task that signals an event of its tenant.
fn signal_event<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    args: DispatchArgs<'b>,
) -> (U32<'b>, U32<'b>) {
    let word = kernel.source.load(f, args.words + slot::ARG / 2);
    let (number, times) = (f.cast::<u32>(word), f.cast::<u32>(word >> 32));
    f.choose(
        number.lt(kernel.layout.trees.map_or(0, |trees| trees.events)),
        || {
            let event = event::event_number(kernel, args.tenant, number);
            event::signal_event(f, kernel, event::Signaller::Task, (event, times));
            ends(f, Status::Done, 0)
        },
        || ends(f, Status::Fault, FaultCode::ARGUMENTS.code()),
    )
}

/// Puts a fence aside until everything before it has ended. A fence that asks for more tasks than it can reach back to
/// is a fault.
fn start_fence<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    args: DispatchArgs<'b>,
) -> (U32<'b>, U32<'b>) {
    let count = f.cast::<u32>(kernel.source.load(f, args.words + slot::ARG / 2));
    let too_far = match kernel.mode.drains() {
        // In a drained batch every earlier pass has ended, so a fence may ask for any number of tasks.
        true => f.lit(false),
        false => count.gt(kernel.fence_reach(f, args.slot)),
    };
    f.choose(
        too_far,
        || ends(f, Status::Fault, FaultCode::ARGUMENTS.code()),
        || {
            f.store(kernel.shared.state.at(state::FENCED), 1);
            (f.lit(WindowState::Fence.code()), f.lit(0))
        },
    )
}
