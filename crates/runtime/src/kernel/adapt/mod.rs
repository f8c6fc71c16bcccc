//! A handler as the kernel calls it: its accesses reach only its tenant's memory and are checked, and its loops take
//! fuel.
//!
//! The function that comes out takes [three numbers](HandlerArgs): the task's place in the window, where the task's
//! words are, and its tenant. It is written from the handler's own function, with these replacements:
//!
//! - A load from `arg` becomes a load from the slot.
//! - An access to a region becomes an access to the tenant's piece of that region's buffer. An index beyond the piece
//!   records fault 2, and the access then gives zero or does nothing, as an access that is out of range does in the
//!   language. Where all tenants have the same piece, its place is known when the kernel is assembled. The piece then
//!   lies inside the buffer, and the check against the piece is the only one.
//! - An access to `payload` or `reply` becomes an access to the task's own [`place`], checked in the same way.
//! - `fault` records its code, unless one is recorded already. A number that is no code is recorded as fault 5.
//! - An access to `frame` becomes an access to the task's [frame](super::steps), and a call of a verb becomes what the
//!   verb does.
//! - A loop that is not [brief](fuel) takes fuel for each turn. When there is not enough, the loop is left and fault 6
//!   is recorded. All later loops of the task are then left at once, so the function still runs to its end, and lanes
//!   that must meet still do.
//! - The handler's shared buffers are set to zero when a task begins. They would otherwise show one tenant what the
//!   task of another has left there.
//!
//! The host may write a region while the kernel runs, even a region that handlers only read. This has two consequences.
//! Where the value of such a region decides whether lanes meet, all lanes take the value that lane 0 has read. And on a
//! device with memory of its own, a light task reads regions past the nearest cache: the poller that runs it has taken
//! it from a line without acquiring anything.

mod fuel;
mod place;
mod steps;
mod task;
mod tree;

use std::collections::HashMap;

use pelton_ir::arena::{Buffer, Func, Inst};
use pelton_ir::builder::{self, Builder, Callee};
use pelton_ir::module::{Attr, BufferDecl, Function, Module, Node, Operand, elements_per_wide};
use pelton_ir::op::{Op, OpEffect, OpForm};
use pelton_ir::types::{Const, Len, Order, Scope, Space, Type};
use pelton_ir::valid::{UniformLevel, Uniformity, Valid};

use self::place::HandlerPlaces;
pub(super) use self::place::{PlaceKind, PlaceUse};
use self::task::{HandlerTask, PieceAccess, PieceWord, byte_of};
use super::context::{KernelContext, U32};
use super::handler::{ARG, ARGS, FRAME, OBSERVABLE, Width};
use super::import::{self, VerbAction};
use super::steps::outcome;
use super::tenant::RegionMemory;
use crate::protocol::{FaultCode, Opcode};

/// A handler as the kernel calls it, with [`HandlerArgs`] as a tuple. It gives the task's result.
pub(super) type AdaptedHandler = Callee<(u32, u32, u32), u32>;

/// What an adapted handler is told of its task.
#[derive(Clone, Copy)]
pub(super) struct HandlerArgs<'b> {
    /// The task's place in its window.
    pub task: U32<'b>,
    /// Where the task's words are; [`ArgumentPlace`] says how they are numbered.
    pub words: U32<'b>,
    /// The tenant that the task belongs to.
    pub tenant: U32<'b>,
}

impl<'b> HandlerArgs<'b> {
    /// The arguments of a call, in the order of [`AdaptedHandler`].
    pub(super) fn tuple(self) -> (U32<'b>, U32<'b>, U32<'b>) {
        (self.task, self.words, self.tenant)
    }
}

/// How the arguments of a task are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    /// In the task's slot, from word 4 on. The place is that of the slot's first word of 64 bits.
    Slot,
    /// Anywhere. The place is that of the first argument, in words of 32 bits.
    Word,
    /// In the line of the task's cell, from word 4 on. The place is that of the line's first word of 64 bits.
    Cell,
}

/// What each buffer of a handler is in the kernel.
pub(super) type HandlerBuffers = HashMap<Buffer, HandlerBuffer>;

/// What a buffer that a handler names is in the kernel.
#[derive(Clone, Copy)]
pub(super) enum HandlerBuffer {
    /// The arguments of the task.
    Arguments,
    /// The frame of the task, with this many words.
    Frame(u32),
    /// The tenant's piece of a region's buffer. The column of the table of pieces says where it lies.
    Piece(RegionPiece),
    /// The payload or the reply of the task.
    Place(PlaceKind),
    /// A shared buffer of the handler's own.
    Own(Buffer),
}

/// A region as a handler reaches it.
#[derive(Clone, Copy)]
pub(super) struct RegionPiece {
    /// The buffer that holds the pieces of all tenants.
    buffer: Buffer,
    /// The column of the table of pieces.
    column: u32,
    elem: Type,
    memory: RegionMemory,
}

/// The code of a handler that has been checked.
#[allow(clippy::struct_excessive_bools)] // They are independent facts of one function.
pub(super) struct HandlerCode {
    /// The handler's module, without calls.
    pub module: Valid,
    /// The handler's function.
    pub func: Func,
    /// Who runs it.
    pub width: Width,
    /// Whether its loops take fuel. The loops of built-in handlers do not.
    pub fueled: bool,
    /// Whether it calls an outcome verb, so that its tasks can take several steps.
    pub resumable: bool,
    /// Whether it sees how many children of its task have ended with a fault.
    pub sees_faults: bool,
    /// How many words its frame has.
    pub frame_words: u32,
    /// Whether its lanes meet where arguments or regions that are only read decide, so that all lanes must take the
    /// same values of them.
    pub agreed: bool,
    /// Which places of its task it uses.
    pub places: PlaceUse,
}

impl HandlerCode {
    /// Whether the handler has no loop, and no payload or reply that a window would have to bring or take away.
    pub(super) fn is_light(&self) -> bool {
        !self.places.any() && !self.module.functions[self.func].insts().any(|(_, node)| node.op.is_loop())
    }

    /// Whether the handler has loops that take fuel.
    pub(super) fn takes_fuel(&self) -> bool {
        self.fueled && fuel::takes_fuel(&self.module.functions[self.func])
    }

    /// Writes the handler into a kernel under a name.
    pub(super) fn write_adapted(
        &self,
        m: &mut Builder,
        kernel: &KernelContext<'_>,
        (name, buffers): (&str, &HandlerBuffers),
        arguments: ArgumentPlace,
    ) -> AdaptedHandler {
        let function = &self.module.functions[self.func];
        m.function::<(u32, u32, u32), u32>(name, |f, (task, words, tenant)| {
            let args = HandlerArgs {
                task: task.named("task"),
                words: words.named("at"),
                tenant: tenant.named("tenant"),
            };
            let task =
                HandlerTask { f, kernel, args, arguments, width: self.width, agreed: None, places: None };
            self.clear_shared_buffers(&task, buffers);
            let agreed = self.agreed.then(|| std::array::from_fn(|k| self.agreed_argument(&task, k as u32)));
            let places = HandlerPlaces::begin(&task, self.places, self.resumable);
            let task = HandlerTask { agreed: agreed.as_ref(), places, ..task };
            let levels = self.module.uniformity(self.func);
            let past_cache = kernel.layout.remote && self.width == Width::Lane && self.is_light();
            let (module, fueled) = (&*self.module, self.fueled);
            let mut rule = AdaptRule { task, buffers, module, function, levels, fueled, past_cache };
            let results = f.graft(function, &[], &mut rule);
            f.value(results[0])
        })
    }

    /// Sets the handler's shared buffers to zero, with all lanes of the group.
    fn clear_shared_buffers(&self, task: &HandlerTask<'_, '_>, buffers: &HandlerBuffers) {
        let f = task.f;
        let own = self.module.buffers.iter().filter_map(|(at, decl)| match (buffers.get(&at), decl.len) {
            (Some(HandlerBuffer::Own(buffer)), Len::Fixed(len)) => Some((*buffer, decl.elem, len as u32)),
            _ => None,
        });
        let own = own.collect::<Vec<_>>();
        for (buffer, elem, len) in &own {
            task.kernel.each_by_lane(f, f.lit(*len), *len, |at| {
                let zero = Operand::Const(Const::zero(*elem));
                f.push_op(Op::Store, Attr::Buffer(*buffer), vec![builder::Arg::operand(at), zero]);
            });
        }
        if !own.is_empty() {
            f.barrier();
        }
    }

    /// An argument as lane 0 reads it. It is 0 if the handler never reads it.
    fn agreed_argument<'b>(&self, task: &HandlerTask<'b, '_>, index: u32) -> U32<'b> {
        let f = task.f;
        let arg = |node: &Node| node.buffer().is_some_and(|b| self.module.buffers[b].name == ARG);
        let read = self.module.functions[self.func].insts().any(|(_, node)| {
            let known = node.args.first().and_then(|at| at.constant());
            node.op.effect() == OpEffect::Read
                && arg(node)
                && known.is_none_or(|at| at.bits() == u64::from(index))
        });
        if read { f.group_broadcast(task.argument(f.lit(index)), 0) } else { f.lit(0) }
    }

    /// Finds what the handler's buffers are in the kernel, and declares its shared buffers there. The names of these
    /// contain the handler's opcode, so that no other buffer can have the same name.
    pub(super) fn declare_buffers(
        &self,
        m: &mut Builder,
        kernel: &KernelContext<'_>,
        op: Opcode,
    ) -> HandlerBuffers {
        let areas = &kernel.layout.areas;
        let piece = |buffer, column: usize, elem| {
            let memory = areas.get(column).map(|area| area.region.memory).unwrap_or_default();
            HandlerBuffer::Piece(RegionPiece { buffer, column: column as u32, elem, memory })
        };
        let place = |name: &str| {
            PlaceKind::from_buffer(name).filter(|kind| match kind {
                PlaceKind::Payload => kernel.spec.payload > 0,
                PlaceKind::Reply => kernel.spec.reply > 0,
            })
        };
        let in_kernel = |decl: &BufferDecl, m: &mut Builder| match (&*decl.name, decl.space) {
            (ARG, _) => HandlerBuffer::Arguments,
            (FRAME, _) => HandlerBuffer::Frame(self.frame_words),
            (name, Space::Global) if let Some(kind) = place(name) => HandlerBuffer::Place(kind),
            (_, Space::Shared) => {
                let name = format!("own.{}.{}", op.code(), decl.name);
                HandlerBuffer::Own(m.declare(BufferDecl { name, ..decl.clone() }))
            }
            // Observables have the column after those of the regions.
            (OBSERVABLE, _) => piece(kernel.global.observables.handle(), areas.len(), decl.elem),
            (region, _) => {
                let column = areas.iter().position(|area| area.region.name == region).unwrap_or(0);
                piece(kernel.areas[column], column, decl.elem)
            }
        };
        self.module.buffers.iter().map(|(at, decl)| (at, in_kernel(decl, m))).collect()
    }
}

/// What the instructions of a handler become in the kernel.
struct AdaptRule<'b, 'k, 'h> {
    task: HandlerTask<'b, 'k>,
    buffers: &'h HandlerBuffers,
    module: &'h Module,
    function: &'h Function,
    levels: &'h Uniformity,
    fueled: bool,
    /// Whether regions are read past the nearest cache.
    past_cache: bool,
}

impl AdaptRule<'_, '_, '_> {
    /// The scope that an access to a piece needs. In a kernel of one group, the scope of the group is as good as that
    /// of the device. What is read past the nearest cache is read at the device's scope at least. A device with memory of
    /// its own reads host memory past all of its caches.
    fn access_scope(&self, op: Op, scope: Scope, memory: RegionMemory) -> Scope {
        let past_cache = self.past_cache && op == Op::LoadWide;
        match scope {
            _ if memory == RegionMemory::Host && self.task.kernel.layout.remote => Scope::System,
            Scope::Group if past_cache => Scope::Device,
            Scope::Device if self.task.kernel.layout.groups == 1 && !past_cache => Scope::Group,
            scope => scope,
        }
    }

    /// Writes an access to a region.
    fn access_region(&self, inst: Inst, node: &Node, piece: RegionPiece, args: &[Operand]) -> Vec<Operand> {
        let (f, op) = (self.task.f, node.op);
        let RegionPiece { buffer, column, elem, memory } = piece;
        let at = |at: U32<'_>| {
            let mut args = args.to_vec();
            args[0] = builder::Arg::operand(at);
            args
        };
        let emit = |place: U32<'_>| match node.attr {
            Attr::Atomic(_, order, scope) => {
                f.push_op(op, Attr::Atomic(buffer, order, self.access_scope(op, scope, memory)), at(place))
            }
            // Loads from host memory never stay in a cache of the device.
            _ if self.past_cache && memory == RegionMemory::Device && op.effect() == OpEffect::Read => {
                self.load_past_cache(op, (buffer, elem), &at(place))
            }
            _ => f.push_op(op, Attr::Buffer(buffer), at(place)),
        };
        let types: Vec<Type> = node.results.iter().map(|value| self.function.ty(value)).collect();
        let access = match types.is_empty() {
            true => PieceAccess::Store,
            false if op.is_read_modify_write() => PieceAccess::Modify(elem),
            false => PieceAccess::Load(&types),
        };
        let many = if op.row().form == OpForm::Wide { elements_per_wide(elem) as u32 } else { 1 };
        let found = self.task.access_piece((column, f.value(args[0])), many, access, emit);
        if op.effect() == OpEffect::Read { self.agree_on(inst, node, found) } else { found }
    }

    /// Writes a load of a region that is read past the nearest cache.
    fn load_past_cache(&self, op: Op, (buffer, elem): (Buffer, Type), args: &[Operand]) -> Vec<Operand> {
        let f = self.task.f;
        let attr = Attr::Atomic(buffer, Order::Relaxed, Scope::Device);
        let read = f.push_op(Op::AtomicLoad, attr, vec![args[0]]);
        if op != Op::LoadByte {
            return read;
        }
        let byte: U32<'_> = f.value(args[1]);
        let byte = match elem {
            Type::U64 => {
                let moved = f.cast::<u32>(f.value::<u64>(read[0]) >> (byte << 3));
                f.select(byte.lt(elem.bytes()), moved & 0xff, 0)
            }
            Type::F32 => byte_of(f, f.bitcast(f.value::<f32>(read[0])), byte),
            Type::I32 => byte_of(f, f.bitcast(f.value::<i32>(read[0])), byte),
            _ => byte_of(f, f.value(read[0]), byte),
        };
        vec![builder::Arg::operand(byte)]
    }

    /// What a load of a region gives. Where lanes must meet, all lanes take the value of one of them.
    fn agree_on(&self, inst: Inst, node: &Node, read: Vec<Operand>) -> Vec<Operand> {
        let f = self.task.f;
        // The handler's own module says that nothing writes what it only reads, so a loaded value may decide where lanes meet.
        let level = self.levels.value_level(node.results.get(0)).min(self.levels.control_level(inst));
        match level {
            _ if self.task.agreed.is_none() => read,
            UniformLevel::Group => f.push_op(Op::GroupBroadcast, Attr::None, vec![read[0], 0u32.into()]),
            UniformLevel::Subgroup => f.push_op(Op::Broadcast, Attr::None, vec![read[0], 0u32.into()]),
            UniformLevel::Lane => read,
        }
    }

    /// Writes the start of a turn of a loop: takes fuel for the turn, or leaves the loop if there is not enough.
    /// `first` is the first instruction of the loop's body, and `copy` is the loop in the kernel.
    fn take_fuel(&self, node: &Node, first: Inst, copy: Inst) {
        let (f, task) = (self.task.f, self.task);
        let fuel = task.kernel.shared.fuel.at(task.args.task);
        let cost = fuel::turn_cost(self.function, node);
        // Lanes that go through the loop together leave it together, and lane 0 keeps their account.
        let together = task.width == Width::Group && self.levels.control_level(first) == UniformLevel::Group;
        // Lanes that go their own ways share one account. Turns of several lanes may be taken off as one, so the fuel lasts for at most
        // that many times as many turns.
        let shared = task.width == Width::Group && !together;
        let left = if shared { f.atomic_load(Order::Relaxed, Scope::Group, fuel) } else { f.load(fuel) };
        let left = match self.levels.control_level(first) {
            _ if together => f.group_broadcast(left, 0),
            // Lanes of a subgroup that go through the loop together must leave it together too.
            UniformLevel::Subgroup if shared => f.broadcast(left, 0),
            _ => left,
        };
        f.when(left.lt(cost), || {
            // What is left is not to be enough for any other loop either.
            match shared {
                true => f.atomic_store(Order::Relaxed, Scope::Group, fuel, 0),
                false => f.when(f.lit(!together) | f.lane().eq(0), || f.store(fuel, 0)),
            }
            task.record_fault(f.lit(FaultCode::FUEL.code()));
            let zeros =
                node.results.iter().map(|v| Operand::Const(Const::zero(self.function.ty(v)))).collect();
            f.push_op(Op::Break, Attr::Target(copy), zeros);
        });
        match (together, shared) {
            (true, _) => f.when(f.lane().eq(0), || f.store(fuel, left - cost)),
            // The minimum makes sure that the account only ever falls, whatever other lanes have taken meanwhile.
            (_, true) => drop(f.atomic_min(Order::Relaxed, Scope::Group, fuel, left - cost)),
            _ => f.store(fuel, left - cost),
        }
    }
}

impl AdaptRule<'_, '_, '_> {
    /// Writes what a verb does.
    fn call_verb(&self, action: VerbAction, args: &[Operand]) -> Option<Vec<Operand>> {
        let (f, task) = (self.task.f, self.task);
        match action {
            VerbAction::YieldNow => task.ask_to_yield(),
            VerbAction::Requeue => task.ask_to_requeue(f.value(args[0])),
            VerbAction::Park => task.ask_to_wait(outcome::PARK),
            VerbAction::PayloadLen => return Some(vec![builder::Arg::operand(task.places?.payload_bytes)]),
            VerbAction::ReplyLen => task.places?.note_reply_len(&task, f.value(args[0])),
            VerbAction::ReserveChildren => {
                return Some(vec![builder::Arg::operand(task.reserve_children(f.value(args[0])))]);
            }
            VerbAction::OwnOpcode => return Some(vec![builder::Arg::operand(task.own_opcode())]),
            VerbAction::Spawn => {
                let args: Vec<U32<'_>> = args.iter().map(|arg| f.value(*arg)).collect();
                task.spawn_child(&args);
            }
            VerbAction::WaitChildren => task.ask_to_wait(outcome::JOIN),
            VerbAction::ChildFaults => return Some(vec![builder::Arg::operand(task.child_faults())]),
            VerbAction::Signal => task.signal(f.value(args[0]), f.value(args[1])),
            VerbAction::WaitEvent => task.ask_to_wait_for_event(f.value(args[0]), f.value(args[1])),
        }
        Some(Vec::new())
    }
}

impl builder::GraftRule for AdaptRule<'_, '_, '_> {
    fn inst(&mut self, inst: Inst, node: &Node, args: &[Operand]) -> Option<Vec<Operand>> {
        let (f, task) = (self.task.f, self.task);
        if node.op == Op::Fault {
            task.record_fault(task.readable_code(f.value(args[0])));
            return Some(Vec::new());
        }
        if let Attr::Call(callee) = node.attr {
            return self.call_verb(import::verb_action(&self.module.functions[callee].name)?, args);
        }
        match (node.op, self.buffers.get(&node.buffer()?)?) {
            (Op::Len, HandlerBuffer::Arguments) => Some(vec![ARGS.into()]),
            (op, HandlerBuffer::Arguments) => {
                let arg = task.argument(f.value(args[0]));
                let arg = if op == Op::LoadByte { byte_of(f, arg, f.value(args[1])) } else { arg };
                Some(vec![builder::Arg::operand(arg)])
            }
            (Op::Len, HandlerBuffer::Frame(words)) => Some(vec![(*words).into()]),
            (op, HandlerBuffer::Frame(words)) => Some(task.access_frame(op, &node.attr, *words, args)),
            (Op::Len, HandlerBuffer::Piece(piece)) => {
                Some(vec![builder::Arg::operand(task.piece_word(piece.column, PieceWord::Len))])
            }
            (_, HandlerBuffer::Piece(piece)) => Some(self.access_region(inst, node, *piece, args)),
            (_, HandlerBuffer::Place(kind)) => self.access_place((inst, node), *kind, args),
            (op, HandlerBuffer::Own(buffer)) => {
                let attr = match node.attr {
                    Attr::Atomic(_, order, scope) => Attr::Atomic(*buffer, order, scope),
                    _ => Attr::Buffer(*buffer),
                };
                Some(f.push_op(op, attr, args.to_vec()))
            }
        }
    }

    fn enter(&mut self, inst: Inst, at: usize, copy: Inst) {
        let node = self.function.inst(inst);
        let body = usize::from(node.op == Op::While);
        if self.fueled && node.op.is_loop() && at == body && !fuel::is_brief_loop(self.function, node) {
            self.take_fuel(node, self.function.region(node.regions[at]).insts[0], copy);
        }
    }
}
