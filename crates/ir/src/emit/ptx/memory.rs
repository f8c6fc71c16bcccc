//! Loads, stores, atomics and fences.
//!
//! An access that is not proved to be in range runs under a predicate, with its result zero before. A wide one is in
//! range if its 16 bytes are, so both its place and the length are counted in such pieces; of others, elements are the
//! pieces.

use std::fmt;

use crate::arena::{Buffer, Handle, Inst};
use crate::module::{Attr, Node, Operand, Site, elements_per_wide};
use crate::op::{Op, OpForm};
use crate::types::{Access, Const, Len, Order, Scope, Space, Type};

use super::fixed::Fixed;
use super::lower::PtxLowering;
use super::write::{Predicate, PtxReg, RegKind, bits, literal, number};

/// The largest offset that an address is written with.
const OFFSET: u64 = 1 << 30;

/// An address: a register, and a number that is added to it.
#[derive(Clone, Copy)]
struct Address {
    base: PtxReg,
    offset: u64,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plus(self.base, self.offset))
    }
}

impl PtxLowering<'_> {
    /// An access to a buffer.
    pub(crate) fn access(&mut self, inst: Inst, node: &Node) {
        let (buffer, order, scope) = match node.attr {
            Attr::Atomic(buffer, order, scope) => (buffer, order, scope),
            _ => (node.buffer().expect("an access names a buffer"), Order::Relaxed, Scope::Group),
        };
        let decl = &self.flat.module.buffers[buffer];
        let (elem, space) = (decl.elem, decl.space);
        let log = if node.op.row().form == OpForm::Wide { elements_per_wide(elem).ilog2() } else { 0 };
        let at = self.piece(node, log);
        let mut guard = self.guard(inst, buffer, at, log);
        let mut address = self.address(buffer, at, elem.bytes() << log);
        if node.op == Op::LoadByte {
            guard = self.byte_guard(inst, node.args[1], elem, guard);
            if elem == Type::F32 {
                return self.byte_of_float(node, guard, (space, decl.access), &address);
            }
            address = self.byte_address(node.args[1], address);
        }
        let zero = guard != Predicate::Always;
        if zero {
            for value in node.results.iter() {
                let to = self.reg(value);
                let zero = if self.function.ty(value) == Type::F32 { "0f00000000" } else { "0" };
                self.out.push_line(format_args!("mov.{} {to}, {zero}", to.kind.words().1));
            }
        }
        let place = place(space);
        match node.op {
            Op::Load | Op::LoadByte | Op::Store => {
                let how = plain(space, if node.op == Op::Store { Access::Write } else { decl.access });
                if node.op == Op::LoadByte {
                    let to = self.result(node);
                    self.out.push_line(format_args!("{guard}ld{how}.u8 {to}, [{address}]"));
                } else {
                    self.move_word(node, guard, how, elem, &address);
                }
            }
            Op::LoadWide | Op::StoreWide => {
                let how = format!(".relaxed{}{place}", reach(scope));
                self.move_wide(node, guard, &how, elem, &address);
            }
            Op::AtomicLoad if order.acquires() && !self.live[node.results.get(0).index()] => {
                self.out.push_line(format_args!("fence.acq_rel{}", reach(scope)));
            }
            Op::AtomicLoad | Op::AtomicStore => {
                let how = format!(".{order}{}{place}", reach(scope));
                self.move_word(node, guard, &how, elem, &address);
            }
            _ => self.modify(node, guard, (order, scope, place), elem, &address),
        }
    }

    /// Which piece of the buffer an access is to, in a register or known.
    fn piece(&mut self, node: &Node, log: u32) -> Result<PtxReg, u64> {
        match self.constant(node.args[0]) {
            Some(at) => Err(at >> log),
            None => {
                let at = self.held(node.args[0]);
                Ok(self.shifted(at, log))
            }
        }
    }

    /// When the access runs: if it is in range, and if an `if` around it that became a predicate holds.
    fn guard(&mut self, inst: Inst, buffer: Buffer, at: Result<PtxReg, u64>, log: u32) -> Predicate {
        if self.bounds.in_bounds(Site { func: self.flat.kernel, inst }) {
            return self.when;
        }
        let p = self.truth();
        match (at, self.flat.module.buffers[buffer].len) {
            (Err(at), Len::Fixed(len)) => {
                let inside = i32::from(at < len >> log);
                self.out.push_line(format_args!("mov.pred {p}, {inside}"));
            }
            (Ok(at), Len::Fixed(len)) => {
                self.out.push_line(format_args!("setp.lt.u32 {p}, {at}, {}", len >> log));
            }
            (at, Len::Launch) => {
                let len = self.fixed(Fixed::Len(buffer));
                let pieces = self.shifted(len, log);
                let at = at.map_or_else(|at| at.to_string(), |at| at.to_string());
                self.out.push_line(format_args!("setp.gt.u32 {p}, {pieces}, {at}"));
            }
        }
        if let Predicate::If(other) = self.when {
            self.out.push_line(format_args!("and.pred {p}, {p}, {other}"));
        }
        Predicate::If(p)
    }

    /// A word shifted right.
    fn shifted(&mut self, word: PtxReg, by: u32) -> PtxReg {
        if by == 0 {
            return word;
        }
        let shifted = self.word();
        self.out.push_line(format_args!("shr.u32 {shifted}, {word}, {by}"));
        shifted
    }

    /// When a load of a byte runs: if its element is in range, and the byte is one of the element.
    fn byte_guard(&mut self, inst: Inst, byte: Operand, elem: Type, element: Predicate) -> Predicate {
        if self.bounds.byte_in_bounds(Site { func: self.flat.kernel, inst }) {
            return element;
        }
        let p = self.truth();
        let byte = self.held(byte);
        self.out.push_line(format_args!("setp.lt.u32 {p}, {byte}, {}", elem.bytes()));
        if let Predicate::If(other) = element {
            self.out.push_line(format_args!("and.pred {p}, {p}, {other}"));
        }
        Predicate::If(p)
    }

    /// A byte of a float, whose bits are those that `bitcast` shows.
    fn byte_of_float(
        &mut self,
        node: &Node,
        when: Predicate,
        (space, access): (Space, Access),
        address: &Address,
    ) {
        let (float, to) = (self.out.new_reg(RegKind::Float), self.result(node));
        if when != Predicate::Always {
            self.out.push_line(format_args!("mov.f32 {float}, 0f00000000"));
        }
        self.out.push_line(format_args!("{when}ld{}.f32 {float}, [{address}]", plain(space, access)));
        self.bits_of_float(to, float);
        match self.constant(node.args[1]) {
            Some(byte) => self.out.push_line(format_args!("shr.u32 {to}, {to}, {}", 8 * (byte & 3))),
            None => {
                let (byte, by) = (self.held(node.args[1]), self.word());
                self.out.push_line(format_args!("shl.b32 {by}, {byte}, 3"));
                self.out.push_line(format_args!("shr.u32 {to}, {to}, {by}"));
            }
        }
        self.out.push_line(format_args!("and.b32 {to}, {to}, 255"));
    }

    /// The address of a byte of the element at an address.
    fn byte_address(&mut self, byte: Operand, Address { base, offset }: Address) -> Address {
        match self.constant(byte) {
            Some(byte) if byte < OFFSET => Address { base, offset: offset + byte },
            _ => {
                let (byte, place) = (self.held(byte), self.out.new_reg(base.kind));
                match base.kind {
                    RegKind::Long => {
                        self.out.push_line(format_args!("mad.wide.u32 {place}, {byte}, 1, {base}"))
                    }
                    _ => self.out.push_line(format_args!("add.u32 {place}, {base}, {byte}")),
                }
                Address { base: place, offset }
            }
        }
    }

    /// The address of a piece of so many bytes.
    fn address(&mut self, buffer: Buffer, at: Result<PtxReg, u64>, bytes: u32) -> Address {
        let shared = self.flat.module.buffers[buffer].space == Space::Shared;
        let first = if shared { u64::from(self.offsets[buffer.index()]) } else { 0 };
        let base = self.fixed(if shared { Fixed::Shared } else { Fixed::Base(buffer) });
        let at = match at {
            Ok(at) => at,
            Err(at) if at * u64::from(bytes) < OFFSET => {
                return Address { base, offset: first + at * u64::from(bytes) };
            }
            Err(at) => self.held(Operand::from(at as u32)),
        };
        let place = self.out.new_reg(base.kind);
        let wide = if base.kind == RegKind::Long { "wide" } else { "lo" };
        self.out.push_line(format_args!("mad.{wide}.u32 {place}, {at}, {bytes}, {base}"));
        Address { base: place, offset: first }
    }

    /// A load or store of one element.
    fn move_word(&mut self, node: &Node, when: Predicate, how: &str, elem: Type, address: &Address) {
        let ty = number(elem);
        match node.args.get(1) {
            None => {
                let to = self.result(node);
                self.out.push_line(format_args!("{when}ld{how}.{ty} {to}, [{address}]"));
            }
            Some(value) => {
                let value = self.arg(*value);
                self.out.push_line(format_args!("{when}st{how}.{ty} [{address}], {value}"));
            }
        }
    }

    /// A load or store of 16 bytes.
    fn move_wide(&mut self, node: &Node, when: Predicate, how: &str, elem: Type, address: &Address) {
        let shape = format!("v{}.{}", elements_per_wide(elem), number(elem));
        if node.op == Op::LoadWide {
            let to: Vec<String> = node.results.iter().map(|value| self.reg(value).to_string()).collect();
            self.out.push_line(format_args!("{when}ld{how}.{shape} {{{}}}, [{address}]", to.join(", ")));
        } else {
            let from: Vec<String> = node.args[1..].iter().map(|value| self.arg(*value)).collect();
            self.out.push_line(format_args!("{when}st{how}.{shape} [{address}], {{{}}}", from.join(", ")));
        }
    }

    /// An atomic that modifies.
    fn modify(
        &mut self,
        node: &Node,
        when: Predicate,
        (order, scope, place): (Order, Scope, &str),
        elem: Type,
        address: &Address,
    ) {
        let to = self.result(node);
        let reach = reach(scope);
        let unused = !self.live[node.results.get(0).index()];
        // Without its value the acquire would go as well.
        let fenced = unused && order.acquires();
        let order = match (fenced, order) {
            (true, Order::AcqRel) => Order::Release,
            (true, _) => Order::Relaxed,
            (false, order) => order,
        };
        let mut values: Vec<String> = node.args[1..].iter().map(|value| self.arg(*value)).collect();
        let op = match node.op {
            Op::AtomicSub => {
                values = vec![self.negative(node.args[1], elem)];
                format!("add.{}", unsigned(elem))
            }
            Op::AtomicAdd => format!("add.{}", unsigned(elem)),
            Op::AtomicMin => format!("min.{}", number(elem)),
            Op::AtomicMax => format!("max.{}", number(elem)),
            Op::AtomicAnd => format!("and.{}", bits(elem)),
            Op::AtomicOr => format!("or.{}", bits(elem)),
            Op::AtomicXor => format!("xor.{}", bits(elem)),
            Op::AtomicCas => format!("cas.{}", bits(elem)),
            _ => format!("exch.{}", bits(elem)),
        };
        let values = values.join(", ");
        self.out.push_line(format_args!("{when}atom.{order}{reach}{place}.{op} {to}, [{address}], {values}"));
        if fenced {
            self.out.push_line(format_args!("fence.acq_rel{reach}"));
        }
    }

    /// What to add to subtract an operand.
    fn negative(&mut self, operand: Operand, elem: Type) -> String {
        if let Some(bits) = self.constant(operand) {
            return literal(Const::new(elem, bits.wrapping_neg()));
        }
        let value = self.held(operand);
        let negative = self.out.new_reg(value.kind);
        let ty = if elem == Type::U64 { "s64" } else { "s32" };
        self.out.push_line(format_args!("neg.{ty} {negative}, {value}"));
        negative.to_string()
    }

    /// A fence.
    pub(crate) fn fence(&mut self, node: &Node) {
        let Attr::Fence(order, scope) = node.attr else { return };
        let order = if order == Order::SeqCst { "sc" } else { "acq_rel" };
        self.out.push_line(format_args!("fence.{order}{}", reach(scope)));
    }
}

/// An address with an offset.
pub(super) fn plus(base: PtxReg, offset: u64) -> String {
    if offset == 0 { base.to_string() } else { format!("{base}+{offset}") }
}

/// The type in which integers are added whatever their sign.
fn unsigned(elem: Type) -> &'static str {
    if elem == Type::U64 { "u64" } else { "u32" }
}

/// The suffix of a plain access. A load of a buffer that is never written may go through the read-only cache.
fn plain(space: Space, access: Access) -> &'static str {
    match (space, access) {
        (Space::Host, _) => ".relaxed.sys.global",
        (Space::Shared, _) => ".shared",
        (Space::Global, Access::Read) => ".global.nc",
        _ => ".global",
    }
}

fn place(space: Space) -> &'static str {
    if space == Space::Shared { ".shared" } else { ".global" }
}

fn reach(scope: Scope) -> &'static str {
    match scope {
        Scope::Group => ".cta",
        Scope::Device => ".gpu",
        Scope::System => ".sys",
    }
}
