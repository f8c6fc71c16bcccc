//! A handler as the kernel calls it: its accesses become the tenant's own, checked; its loops burn fuel.
//!
//! The function that comes out takes the task's place in the window, where its words are, and its tenant. `arg` becomes
//! loads of the slot. A region becomes the tenant's piece of that region's buffer: an index beyond the piece records fault 2 and
//! the access goes nowhere, which in the language gives zero or does nothing. Where all tenants have the same piece, its place is known when
//! the kernel is assembled: the piece then lies inside the buffer, and the check against the piece is the only one. `fault` records a code unless one is there;
//! a number that is no code is recorded as fault 5.
//!
//! A loop that is not brief takes fuel for each turn and is left when there is not enough, with fault 6. All later loops of the task
//! are then left at once, so the function runs to its end: lanes that must meet still do. A turn takes one unit, and one more for every
//! [`INSTS_PER_UNIT`] instructions that it may run, brief loops included, so fuel bounds the work of a task's loops and not only their turns.
//!
//! Shared buffers of a handler are zero when a task begins: they would otherwise show one tenant what another's task left there.
//!
//! The host may rewrite a region while the kernel runs, even one that handlers only read. So lanes that meet where such a region decides
//! take lane 0's reading, and a device with memory of its own reads regions past its nearest cache where nothing was acquired before
//! the task: a light task is one that a poller takes from a line which it only looked at.

use std::collections::HashMap;

use pelton_ir::arena::{Buffer, Func, Inst, Region};
use pelton_ir::builder::{self, Builder, Callee, FunctionBuilder, Val, Vals};
use pelton_ir::module::{Attr, BufferDecl, Function, Node, Operand, elements_per_wide};
use pelton_ir::op::{Op, OpEffect, OpForm};
use pelton_ir::types::{Const, Len, Order, Scalar, Scope, Space, Type};
use pelton_ir::valid::{UniformLevel, Uniformity, Valid};

use super::context::{KernelContext, U32};
use super::handler::{ARG, ARGS, OBSERVABLE, Width};
use crate::protocol::{FaultCode, Opcode, fault, slot};

/// A handler as the kernel calls it: place in the window, where its words are, tenant.
pub(super) type Adapted = Callee<(u32, u32, u32), u32>;

/// What each buffer of a handler is in the kernel.
pub(super) type KernelBuffers = HashMap<Buffer, Named>;

/// What a handler's buffer is in the kernel.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// The arguments.
    Arg,
    /// A tenant's piece of a buffer; its place is in that column of the table.
    Piece { buffer: Buffer, column: u32, elem: Type },
    /// Its own.
    Own(Buffer),
}

/// How the words of a task are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Args {
    /// In its slot, from word 4 on; the place is that of the slot's first 64 bits.
    Slot,
    /// Anywhere; the place is that of the first argument in words of 32 bits.
    Word,
}

/// A handler that has been checked.
pub(super) struct Checked {
    /// Its module, without calls.
    pub module: Valid,
    /// Its function.
    pub func: Func,
    /// Who runs it.
    pub width: Width,
    /// Whether it was written by users.
    pub fueled: bool,
    /// Whether its lanes meet where arguments or read-only regions decide, so that what is read of them must be the same in all lanes.
    pub agreed: bool,
}

/// Instructions of a turn that take one unit of fuel more.
const INSTS_PER_UNIT: u64 = 256;

impl Checked {
    /// Whether it has no loop.
    pub fn light(&self) -> bool {
        !self.module.functions[self.func].insts().any(|(_, node)| node.op.is_loop())
    }

    /// Whether it has loops that burn fuel.
    pub fn burns(&self) -> bool {
        let function = &self.module.functions[self.func];
        self.fueled && function.insts().any(|(_, node)| node.op.is_loop() && !brief(function, node))
    }

    /// Writes it into a kernel.
    pub fn adapt(
        &self,
        m: &mut Builder,
        kernel: &KernelContext<'_>,
        (name, named): (&str, &KernelBuffers),
        args: Args,
    ) -> Adapted {
        let function = &self.module.functions[self.func];
        m.function::<(u32, u32, u32), u32>(name, |f, (index, at, tenant)| {
            let (index, at, tenant) = (index.named("task"), at.named("at"), tenant.named("tenant"));
            let task = Task { f, kernel, index, at, tenant, args, width: self.width, agreed: None };
            self.clear(&task, named);
            let agreed = self.agreed.then(|| std::array::from_fn(|k| self.agreed(&task, k as u32)));
            let task = Task { agreed: agreed.as_ref(), ..task };
            let levels = self.module.uniformity(self.func);
            let past = kernel.layout.remote && self.width == Width::Lane && self.light();
            let mut rule = Rule { task, named, function, levels, fueled: self.fueled, past };
            let results = f.graft(function, &[], &mut rule);
            f.value(results[0])
        })
    }

    /// Clears the handler's shared buffers, with all lanes of the group.
    fn clear(&self, task: &Task<'_, '_>, named: &KernelBuffers) {
        let f = task.f;
        let own = self.module.buffers.iter().filter_map(|(at, decl)| match (named.get(&at), decl.len) {
            (Some(Named::Own(buffer)), Len::Fixed(len)) => Some((*buffer, decl.elem, len as u32)),
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

    /// An argument as lane 0 has it, if anything reads it.
    fn agreed<'b>(&self, task: &Task<'b, '_>, index: u32) -> U32<'b> {
        let f = task.f;
        let arg = |node: &Node| node.buffer().is_some_and(|b| self.module.buffers[b].name == ARG);
        let read = self.module.functions[self.func].insts().any(|(_, node)| {
            let known = node.args.first().and_then(|at| at.constant());
            node.op.effect() == OpEffect::Read
                && arg(node)
                && known.is_none_or(|at| at.bits() == u64::from(index))
        });
        if read { f.group_broadcast(task.arg(f.lit(index)), 0) } else { f.lit(0) }
    }

    /// What its buffers are in the kernel, where shared ones are declared. Their names have the handler's opcode in them, so that no other
    /// buffer can have the same.
    pub fn buffers(&self, m: &mut Builder, kernel: &KernelContext<'_>, op: Opcode) -> KernelBuffers {
        let columns = kernel.layout.areas.len() as u32;
        let named = |decl: &BufferDecl, m: &mut Builder| match (&*decl.name, decl.space) {
            (ARG, _) => Named::Arg,
            (_, Space::Shared) => {
                let own = format!("own.{}.{}", op.code(), decl.name);
                Named::Own(m.declare(BufferDecl { name: own, ..decl.clone() }))
            }
            (OBSERVABLE, _) => {
                Named::Piece { buffer: kernel.global.observables.handle(), column: columns, elem: decl.elem }
            }
            (region, _) => {
                let column =
                    kernel.layout.areas.iter().position(|area| area.region.name == region).unwrap_or(0);
                Named::Piece { buffer: kernel.areas[column], column: column as u32, elem: decl.elem }
            }
        };
        self.module.buffers.iter().map(|(at, decl)| (at, named(decl, m))).collect()
    }
}

/// The task that an adapted handler runs.
#[derive(Clone, Copy)]
struct Task<'b, 'k> {
    f: &'b FunctionBuilder<'b>,
    kernel: &'k KernelContext<'k>,
    index: U32<'b>,
    at: U32<'b>,
    tenant: U32<'b>,
    args: Args,
    width: Width,
    /// Its arguments, the same in all lanes, where that matters.
    agreed: Option<&'k [U32<'b>; ARGS as usize]>,
}

impl<'b> Task<'b, '_> {
    /// Records a fault, unless one is recorded.
    fn fault(self, code: U32<'b>) {
        let (f, at) = (self.f, self.kernel.shared.faults.at(self.index));
        match self.width {
            Width::Lane => f.when(f.load(at).eq(0), || f.store(at, code)),
            Width::Group => drop(f.atomic_cas(Order::Relaxed, Scope::Group, at, 0, code)),
        }
    }

    /// A code that the host can read as a fault: one of the protocol's or a handler's own; else the arguments are at fault.
    fn code(self, code: U32<'b>) -> U32<'b> {
        let ours = (code - 1).lt(fault::TABLE.len() as u32);
        let own = (code - fault::FIRST_USER).le(fault::MAX_CODE - fault::FIRST_USER);
        self.f.select(ours | own, code, FaultCode::ARGUMENTS.code())
    }

    /// An argument; 0 beyond the last.
    fn arg(self, index: U32<'b>) -> U32<'b> {
        let (f, source) = (self.f, self.kernel.source);
        let known = index.constant().map(|c| c.bits() as u32);
        if let Some(agreed) = self.agreed {
            let at = |k: usize| index.eq(k as u32);
            return match known {
                Some(index) => agreed.get(index as usize).copied().unwrap_or_else(|| f.lit(0)),
                None => {
                    agreed.iter().enumerate().fold(f.lit(0), |rest, (k, arg)| f.select(at(k), *arg, rest))
                }
            };
        }
        let half = |at: U32<'b>, odd: U32<'b>| f.cast::<u32>(source.load(f, at) >> (odd << 5));
        match (self.args, known) {
            (_, Some(ARGS..)) => f.lit(0),
            (Args::Slot, Some(index)) => {
                let word = slot::ARG + index;
                half(self.at + word / 2, f.lit(word % 2))
            }
            _ => {
                let word = match self.args {
                    Args::Slot => (self.at << 1) + slot::ARG + index,
                    Args::Word => self.at + index,
                };
                f.select(index.lt(ARGS), half(word >> 1, word & 1), 0)
            }
        }
    }

    /// A word of the table of pieces.
    fn piece(self, column: u32, word: u32) -> U32<'b> {
        let columns = self.kernel.layout.areas.len() as u32 + 1;
        match self.kernel.pieces {
            Some(pieces) if self.width == Width::Lane => {
                self.f.load([pieces.firsts, pieces.lens][word as usize].at(self.tenant * columns + column))
            }
            // Here all lanes know that all read the same.
            _ => {
                self.f.load(self.kernel.global.regions.at(self.tenant * (columns * 2) + (column * 2 + word)))
            }
        }
    }

    /// Where the piece of every tenant that has tasks lies, if that is one place. A drained slot says whose it is, and whoever has no
    /// piece must not get the others' one; so there the table decides.
    fn known_piece(self, column: u32) -> Option<(u32, u32)> {
        let layout = &self.kernel.layout;
        let area = layout.areas.get(column as usize).filter(|_| !self.kernel.mode.drains())?;
        let mut pieces = layout.rings.iter().map(|ring| area.pieces[ring.tenant as usize]);
        let first = pieces.next()?;
        pieces.all(|piece| piece == first).then_some(first)
    }

    /// Whether an element is one of a piece; it is a fault if not.
    fn check(self, last: U32<'b>, len: U32<'b>) -> Val<'b, bool> {
        let inside = last.lt(len);
        self.f.when(!inside, || self.fault(self.f.lit(FaultCode::REGION.code())));
        inside
    }

    /// An access to the tenant's piece, which `emit` makes of a place in the buffer. `many` elements are accessed at once: those of the
    /// 16 bytes that hold the index. Pieces start at such 16 bytes.
    fn access(
        self,
        (column, index): (u32, U32<'b>),
        many: u32,
        shape: Access<'_>,
        emit: impl Fn(U32<'b>) -> Vec<Operand>,
    ) -> Vec<Operand> {
        let f = self.f;
        let last = if many > 1 { index | (many - 1) } else { index };
        let known = self.known_piece(column).filter(|(_, len)| *len >= many);
        let Some((start, len)) = known else {
            let inside = self.check(last, self.piece(column, 1));
            return emit(f.select(inside, self.piece(column, 0) + index, u32::MAX));
        };
        let inside = self.check(last, f.lit(len));
        let place = |at: U32<'b>| if start == 0 { at } else { at + start };
        match shape {
            // What is beyond is read as the last that is not, and is not shown.
            Access::Load(types) => {
                let read = emit(place(f.min(last, len / many * many - 1)));
                let shown = |(value, ty): (&Operand, &Type)| {
                    let zero = Operand::Const(Const::zero(*ty));
                    f.push_op(Op::Select, Attr::None, vec![builder::Arg::operand(inside), *value, zero])[0]
                };
                read.iter().zip(types).map(shown).collect()
            }
            Access::Store => {
                f.when(inside, || drop(emit(place(last))));
                Vec::new()
            }
            Access::Modify(elem) => {
                let old = || emit(place(last))[0];
                let operand = match elem {
                    Type::I32 => modified::<i32>(f, inside, old),
                    Type::U64 => modified::<u64>(f, inside, old),
                    Type::F32 => modified::<f32>(f, inside, old),
                    _ => modified::<u32>(f, inside, old),
                };
                vec![operand]
            }
        }
    }
}

/// What an access does.
#[derive(Clone, Copy)]
enum Access<'a> {
    /// Gives values of these types.
    Load(&'a [Type]),
    /// Gives nothing.
    Store,
    /// Changes an element of this type and gives what it was.
    Modify(Type),
}

/// What a read-modify-write gives that is made only where its element is inside; 0 elsewhere.
fn modified<'b, T: Scalar + Default + Into<Const>>(
    f: &'b FunctionBuilder<'b>,
    inside: Val<'b, bool>,
    old: impl Fn() -> Operand,
) -> Operand
where
    Val<'b, T>: Vals<'b>,
{
    let zero = || f.value::<T>(Operand::Const(T::default().into()));
    builder::Arg::operand(f.choose(inside, || f.value::<T>(old()), zero))
}

/// What a handler's instructions become.
struct Rule<'b, 'k, 'h> {
    task: Task<'b, 'k>,
    named: &'h KernelBuffers,
    function: &'h Function,
    levels: &'h Uniformity,
    fueled: bool,
    /// Whether regions are read past the nearest cache.
    past: bool,
}

impl Rule<'_, '_, '_> {
    /// The scope that an access to a piece needs: with one group, a group's is all there is of the device.
    /// What is read past the nearest cache is read at the device's scope at least.
    fn scope(&self, op: Op, scope: Scope) -> Scope {
        match scope {
            Scope::Group if self.past && op == Op::LoadWide => Scope::Device,
            Scope::Device if self.task.kernel.layout.groups == 1 && !(self.past && op == Op::LoadWide) => {
                Scope::Group
            }
            scope => scope,
        }
    }

    /// What an access to a region becomes.
    fn access(
        &self,
        inst: Inst,
        node: &Node,
        (buffer, column, elem): (Buffer, u32, Type),
        args: &[Operand],
    ) -> Vec<Operand> {
        let (f, op) = (self.task.f, node.op);
        let at = |at: U32<'_>| {
            let mut args = args.to_vec();
            args[0] = builder::Arg::operand(at);
            args
        };
        let emit = |place: U32<'_>| match node.attr {
            Attr::Atomic(_, order, scope) => {
                f.push_op(op, Attr::Atomic(buffer, order, self.scope(op, scope)), at(place))
            }
            _ if self.past && op.effect() == OpEffect::Read => self.load_past(op, (buffer, elem), &at(place)),
            _ => f.push_op(op, Attr::Buffer(buffer), at(place)),
        };
        let types: Vec<Type> = node.results.iter().map(|value| self.function.ty(value)).collect();
        let shape = match types.is_empty() {
            true => Access::Store,
            false if op.is_read_modify_write() => Access::Modify(elem),
            false => Access::Load(&types),
        };
        let many = if op.row().form == OpForm::Wide { elements_per_wide(elem) as u32 } else { 1 };
        let found = self.task.access((column, f.value(args[0])), many, shape, emit);
        if op.effect() == OpEffect::Read { self.agree(inst, node, found) } else { found }
    }

    /// What a load of a region gives that is read past the nearest cache.
    fn load_past(&self, op: Op, (buffer, elem): (Buffer, Type), args: &[Operand]) -> Vec<Operand> {
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

    /// What a load of a region gives, the same in all lanes where that matters.
    fn agree(&self, inst: Inst, node: &Node, read: Vec<Operand>) -> Vec<Operand> {
        let f = self.task.f;
        // The handler's own module says that nobody writes what it only reads, so what is loaded may decide where lanes meet.
        let level = self.levels.value_level(node.results.get(0)).min(self.levels.control_level(inst));
        match level {
            _ if self.task.agreed.is_none() => read,
            UniformLevel::Group => f.push_op(Op::GroupBroadcast, Attr::None, vec![read[0], 0u32.into()]),
            UniformLevel::Subgroup => f.push_op(Op::Broadcast, Attr::None, vec![read[0], 0u32.into()]),
            UniformLevel::Lane => read,
        }
    }
}

impl builder::GraftRule for Rule<'_, '_, '_> {
    fn inst(&mut self, inst: Inst, node: &Node, args: &[Operand]) -> Option<Vec<Operand>> {
        let (f, task) = (self.task.f, self.task);
        if node.op == Op::Fault {
            task.fault(task.code(f.value(args[0])));
            return Some(Vec::new());
        }
        match (node.op, self.named.get(&node.buffer()?)?) {
            (Op::Len, Named::Arg) => Some(vec![ARGS.into()]),
            (op, Named::Arg) => {
                let arg = task.arg(f.value(args[0]));
                let arg = if op == Op::LoadByte { byte_of(f, arg, f.value(args[1])) } else { arg };
                Some(vec![builder::Arg::operand(arg)])
            }
            (Op::Len, Named::Piece { column, .. }) => {
                Some(vec![builder::Arg::operand(task.piece(*column, 1))])
            }
            (_, Named::Piece { buffer, column, elem }) => {
                Some(self.access(inst, node, (*buffer, *column, *elem), args))
            }
            (op, Named::Own(buffer)) => {
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
        if !self.fueled || !node.op.is_loop() || at != body || brief(self.function, node) {
            return;
        }
        let (f, task) = (self.task.f, self.task);
        let fuel = task.kernel.shared.fuel.at(task.index);
        // The test of a `while` is run in every turn too.
        let turn =
            node.regions.iter().map(|region| weight(self.function, *region)).fold(0, u64::saturating_add);
        let cost = 1 + (turn / INSTS_PER_UNIT).min(u64::from(u32::MAX / 2)) as u32;
        let first = self.function.region(node.regions[at]).insts[0];
        // Lanes that go through the loop together leave it together: lane 0 keeps the account.
        let together = task.width == Width::Group && self.levels.control_level(first) == UniformLevel::Group;
        // Lanes that go their own ways share one account: turns of several lanes may be counted as one, so it lasts for that many at most.
        let shared = task.width == Width::Group && !together;
        let left = if shared { f.atomic_load(Order::Relaxed, Scope::Group, fuel) } else { f.load(fuel) };
        let left = match self.levels.control_level(first) {
            _ if together => f.group_broadcast(left, 0),
            // Lanes of a subgroup that go through the loop together must leave it together too.
            UniformLevel::Subgroup if shared => f.broadcast(left, 0),
            _ => left,
        };
        f.when(left.lt(cost), || {
            // What is left is not enough for another loop either.
            match shared {
                true => f.atomic_store(Order::Relaxed, Scope::Group, fuel, 0),
                false => f.when(f.lit(!together) | f.lane().eq(0), || f.store(fuel, 0)),
            }
            task.fault(f.lit(FaultCode::FUEL.code()));
            let zeros =
                node.results.iter().map(|v| Operand::Const(Const::zero(self.function.ty(v)))).collect();
            f.push_op(Op::Break, Attr::Target(copy), zeros);
        });
        match (together, shared) {
            (true, _) => f.when(f.lane().eq(0), || f.store(fuel, left - cost)),
            // It only ever falls, whatever other lanes have taken meanwhile.
            (_, true) => drop(f.atomic_min(Order::Relaxed, Scope::Group, fuel, left - cost)),
            _ => f.store(fuel, left - cost),
        }
    }
}

/// A byte of a word, as `load_byte` numbers them; 0 if the word has none of that number.
fn byte_of<'b>(f: &'b FunctionBuilder<'b>, word: U32<'b>, byte: U32<'b>) -> U32<'b> {
    f.select(byte.lt(4), (word >> (byte << 3)) & 0xff, 0)
}

/// How many instructions one run of a region may take, bodies of loops that burn fuel themselves left out.
fn weight(function: &Function, region: Region) -> u64 {
    let of = |node: &Node| {
        let regions = node.regions.iter().map(|region| weight(function, *region));
        match node.op.is_loop() {
            // It takes fuel for its body itself, but a test that fails at once is run for nothing.
            true if !brief(function, node) => match node.op {
                Op::While => weight(function, node.regions[0]),
                _ => 0,
            },
            true => regions.fold(0, u64::saturating_add).saturating_mul(BRIEF_TURNS),
            false => regions.fold(0, u64::saturating_add),
        }
    };
    function
        .region(region)
        .insts
        .iter()
        .fold(0u64, |all, inst| all.saturating_add(1 + of(function.inst(*inst))))
}

/// A loop that is known to take at most so many turns, and has no loop in it, burns no fuel.
const BRIEF_TURNS: u64 = 256;

/// Whether a loop is known to take few turns, and has no loop in it.
fn brief(function: &Function, node: &Node) -> bool {
    let bits = |at: usize| node.args.get(at).and_then(|arg| arg.constant()).map(|c| c.bits());
    // Numbers below zero have the highest bit set, whatever their width.
    let most = i32::MAX as u64;
    let few = match (node.op, bits(0), bits(1), bits(2)) {
        (Op::Loop, Some(from), Some(to), Some(step)) => {
            from <= most
                && to <= most
                && (1..=most).contains(&step)
                && to.saturating_sub(from) <= BRIEF_TURNS.saturating_mul(step)
        }
        _ => false,
    };
    few && !node.regions.iter().any(|region| loops(function, *region))
}

/// Whether there is a loop in a region.
fn loops(function: &Function, region: Region) -> bool {
    function.region(region).insts.iter().any(|inst| {
        let node = function.inst(*inst);
        node.op.is_loop() || node.regions.iter().any(|region| loops(function, *region))
    })
}
