//! Loads, stores, atomics and fences.
//!
//! Orders on x86-64: every load acquires and every store releases, so a relaxed or release store is a plain one that
//! the compiler must not move, and only a sequentially consistent fence is an instruction. Elsewhere Cranelift's
//! atomics are stronger than asked, never weaker.
//!
//! At scope `group` nothing need be atomic: the lanes that take part all run on this thread.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AtomicRmwOp, InstBuilder, MemFlagsData, types};
use pelton_ir::arena::{Buffer, Handle, Inst};
use pelton_ir::module::{Attr, Operand, Site, elements_per_wide};
use pelton_ir::op::Op;
use pelton_ir::types::{Order, Scope, Type};

use super::{KernelLowering, clif, trusted};

/// The address of an access, which is safe to use even if the index is out of range.
struct ElementPlace {
    address: ir::Value,
    /// Whether the index is in range. `None` if that was proved at compile time.
    inside: Option<ir::Value>,
}

/// Which memory an access out of range reaches.
#[derive(Clone, Copy)]
enum OutOfRange {
    /// Memory that holds zeros, for loads.
    Load,
    /// Memory that is never read, for stores.
    Store,
}

/// Whether an access need be atomic only towards lanes of the same group, which run on the same thread.
fn alone(attr: &Attr) -> bool {
    matches!(attr, Attr::Atomic(_, _, Scope::Group))
}

impl KernelLowering<'_> {
    /// Lowers an access to memory, or a fence.
    pub(super) fn access(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        if let Attr::Fence(order, _) = node.attr {
            return self.fence(order);
        }
        let buffer = node.buffer().expect("an access names a buffer");
        let elem = self.module.buffers[buffer].elem;
        match node.op {
            Op::Load => {
                let place = self.place(inst, buffer, OutOfRange::Load);
                let value = self.builder.ins().load(clif(elem), trusted(), place.address, 0);
                self.set(node.results.get(0), value);
            }
            Op::LoadByte => {
                let value = match elem {
                    Type::F32 => self.byte_of_float(inst, buffer),
                    _ => {
                        let address = self.byte_place(inst, buffer);
                        self.builder.ins().uload8(types::I32, trusted(), address, 0)
                    }
                };
                self.set(node.results.get(0), value);
            }
            Op::Store => {
                let place = self.place(inst, buffer, OutOfRange::Store);
                let value = self.get(node.args[1]);
                self.builder.ins().store(trusted(), value, place.address, 0);
            }
            Op::AtomicLoad | Op::LoadWide => {
                let place = self.place(inst, buffer, OutOfRange::Load);
                let bytes = clif(elem).bytes() as i32;
                for (k, value) in node.results.iter().enumerate() {
                    let loaded = self.load_word(elem, place.address, k as i32 * bytes, alone(&node.attr));
                    self.set(value, loaded);
                }
            }
            Op::AtomicStore | Op::StoreWide => {
                let place = self.place(inst, buffer, OutOfRange::Store);
                let bytes = clif(elem).bytes() as i32;
                for (k, arg) in node.args[1..].iter().enumerate() {
                    self.store_word(*arg, place.address, k as i32 * bytes, alone(&node.attr));
                }
            }
            _ => self.modify(inst, buffer, elem),
        }
    }

    /// The address that an access reaches: that of the element, or of a sink if the index is out of range.
    fn place(&mut self, inst: Inst, buffer: Buffer, sink: OutOfRange) -> ElementPlace {
        let node = self.function.inst(inst);
        let (start, len) = self.buffers[buffer.index()];
        let elem = self.module.buffers[buffer].elem;
        let proved = self.bounds.in_bounds(Site { func: self.kernel, inst });
        let (base, mut ahead) = if proved { self.apart(node.args[0]) } else { (node.args[0], 0) };
        let mut index = self.get(base);
        let mut last = index;
        if matches!(node.op, Op::LoadWide | Op::StoreWide) {
            let rest = elements_per_wide(elem) as i64 - 1;
            index = self.builder.ins().band_imm_s(index, !rest);
            ahead &= !(rest as u32);
            last = self.builder.ins().bor_imm_u(index, rest);
        }
        let index = self.builder.ins().uextend(types::I64, index);
        let bytes = self.builder.ins().imul_imm_u(index, i64::from(clif(elem).bytes()));
        let address = self.builder.ins().iadd(start, bytes);
        if proved {
            let ahead = i64::from(ahead) * i64::from(clif(elem).bytes());
            let address = self.builder.ins().iadd_imm_u(address, ahead);
            return ElementPlace { address, inside: None };
        }
        let inside = self.builder.ins().icmp(IntCC::UnsignedLessThan, last, len);
        let sink = match sink {
            OutOfRange::Load => self.entry.scratch,
            OutOfRange::Store => self.entry.sink,
        };
        ElementPlace { address: self.builder.ins().select(inside, address, sink), inside: Some(inside) }
    }

    /// The address of the byte that a `load_byte` names, or of a zero.
    fn byte_place(&mut self, inst: Inst, buffer: Buffer) -> ir::Value {
        let node = self.function.inst(inst);
        let place = self.place(inst, buffer, OutOfRange::Load);
        let byte = self.get(node.args[1]);
        let ahead = self.builder.ins().uextend(types::I64, byte);
        let address = self.builder.ins().iadd(place.address, ahead);
        // Of an element out of range, every byte that elements have is a zero of the sink.
        if self.bounds.byte_in_bounds(Site { func: self.kernel, inst }) {
            return address;
        }
        let bytes = self.module.buffers[buffer].elem.bytes();
        let inside = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThan, byte, i64::from(bytes));
        self.builder.ins().select(inside, address, self.entry.scratch)
    }

    /// What a `load_byte` of a float gives: the byte of its bits, those of a NaN always the same.
    fn byte_of_float(&mut self, inst: Inst, buffer: Buffer) -> ir::Value {
        let place = self.place(inst, buffer, OutOfRange::Load);
        let float = self.builder.ins().load(types::F32, trusted(), place.address, 0);
        let bits = self.bitcast(Type::F32, Type::U32, float);
        let byte = self.get(self.function.inst(inst).args[1]);
        let by = self.builder.ins().ishl_imm_u(byte, 3);
        let moved = self.builder.ins().ushr(bits, by);
        let mask = self.byte_mask(inst, byte);
        self.builder.ins().band(moved, mask)
    }

    /// The bits of an element of 32 that a `load_byte` keeps: none if the element has no such byte.
    pub(crate) fn byte_mask(&mut self, inst: Inst, byte: ir::Value) -> ir::Value {
        let mask = self.int(types::I32, 0xff);
        if self.bounds.byte_in_bounds(Site { func: self.kernel, inst }) {
            return mask;
        }
        let inside = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThan, byte, 4);
        let none = self.int(types::I32, 0);
        self.builder.ins().select(inside, mask, none)
    }

    /// An index as a base and what is added to it, where the sum cannot wrap: then addresses of one line differ by constants.
    fn apart(&self, index: Operand) -> (Operand, u32) {
        // Parts of a group that is split keep only what they use of each other.
        let def = match index {
            Operand::Value(value) if self.split.is_none() => self.defs[value.index()],
            _ => None,
        };
        let node = def.map(|inst| self.function.inst(inst)).filter(|node| node.op == Op::Add);
        let Some([base, ahead]) = node.and_then(|node| node.args.first_chunk()) else { return (index, 0) };
        match self.constant(*ahead) {
            Some(ahead) if ahead < 1 << self.zeros(*base).min(31) => (*base, ahead as u32),
            _ => (index, 0),
        }
    }

    /// How many low bits of a number are known to be zero, from the instruction that made it alone.
    fn zeros(&self, operand: Operand) -> u32 {
        let def = match operand {
            Operand::Value(value) => self.defs[value.index()],
            Operand::Const(_) => None,
        };
        let node = def.map(|inst| self.function.inst(inst));
        let Some(by) = node.and_then(|node| self.constant(*node.args.get(1)?)) else { return 0 };
        match node.map(|node| node.op) {
            Some(Op::Mul) => by.trailing_zeros(),
            Some(Op::Shl) => by as u32 & 31,
            _ => 0,
        }
    }

    /// The integer type of a word, which is what atomics work on.
    fn word(elem: Type) -> ir::Type {
        if elem == Type::F32 { types::I32 } else { clif(elem) }
    }

    fn word_of(&mut self, elem: Type, value: ir::Value) -> ir::Value {
        match elem {
            Type::F32 => self.builder.ins().bitcast(types::I32, MemFlagsData::new(), value),
            _ => value,
        }
    }

    fn value_of(&mut self, elem: Type, word: ir::Value) -> ir::Value {
        match elem {
            Type::F32 => self.builder.ins().bitcast(types::F32, MemFlagsData::new(), word),
            _ => word,
        }
    }

    fn load_word(&mut self, elem: Type, address: ir::Value, at: i32, alone: bool) -> ir::Value {
        if alone {
            return self.builder.ins().load(clif(elem), trusted(), address, at);
        }
        let address = self.builder.ins().iadd_imm_u(address, i64::from(at));
        let word = self.builder.ins().atomic_load(Self::word(elem), trusted(), address);
        self.value_of(elem, word)
    }

    fn store_word(&mut self, value: Operand, address: ir::Value, at: i32, alone: bool) {
        let elem = self.function.operand_ty(value);
        let value = self.get(value);
        if alone {
            self.builder.ins().store(trusted(), value, address, at);
        } else if cfg!(target_arch = "x86_64") {
            self.builder.ins().sequence_point();
            self.builder.ins().store(trusted(), value, address, at);
            self.builder.ins().sequence_point();
        } else {
            let word = self.word_of(elem, value);
            let address = self.builder.ins().iadd_imm_u(address, i64::from(at));
            self.builder.ins().atomic_store(trusted(), word, address);
        }
    }

    /// Lowers a read-modify-write. Out of range it works on the sink and gives zero.
    fn modify(&mut self, inst: Inst, buffer: Buffer, elem: Type) {
        let node = self.function.inst(inst);
        let place = self.place(inst, buffer, OutOfRange::Store);
        let value = self.get(node.args[1]);
        let word = self.word_of(elem, value);
        let signed = elem == Type::I32;
        let ty = Self::word(elem);
        let op = match node.op {
            Op::AtomicAdd => AtomicRmwOp::Add,
            Op::AtomicSub => AtomicRmwOp::Sub,
            Op::AtomicAnd => AtomicRmwOp::And,
            Op::AtomicOr => AtomicRmwOp::Or,
            Op::AtomicXor => AtomicRmwOp::Xor,
            Op::AtomicMin if signed => AtomicRmwOp::Smin,
            Op::AtomicMin => AtomicRmwOp::Umin,
            Op::AtomicMax if signed => AtomicRmwOp::Smax,
            Op::AtomicMax => AtomicRmwOp::Umax,
            _ => AtomicRmwOp::Xchg,
        };
        let desired = node.args.get(2).map(|desired| self.get(*desired));
        let old = match desired {
            _ if alone(&node.attr) => self.modify_alone(op, (place.address, word), desired),
            Some(desired) => self.builder.ins().atomic_cas(trusted(), place.address, word, desired),
            None => self.builder.ins().atomic_rmw(ty, trusted(), op, place.address, word),
        };
        let old = match place.inside {
            Some(inside) => {
                let zero = self.int(ty, 0);
                self.builder.ins().select(inside, old, zero)
            }
            None => old,
        };
        let old = self.value_of(elem, old);
        self.set(node.results.get(0), old);
    }

    /// The same for words that no other thread changes meanwhile. With a desired value, compares and exchanges.
    fn modify_alone(
        &mut self,
        op: AtomicRmwOp,
        (address, x): (ir::Value, ir::Value),
        desired: Option<ir::Value>,
    ) -> ir::Value {
        let ty = self.builder.func.dfg.value_type(x);
        let old = self.builder.ins().load(ty, trusted(), address, 0);
        let ins = self.builder.ins();
        let new = match (desired, op) {
            (Some(desired), _) => {
                let same = ins.icmp(IntCC::Equal, old, x);
                self.builder.ins().select(same, desired, old)
            }
            (None, AtomicRmwOp::Add) => ins.iadd(old, x),
            (None, AtomicRmwOp::Sub) => ins.isub(old, x),
            (None, AtomicRmwOp::And) => ins.band(old, x),
            (None, AtomicRmwOp::Or) => ins.bor(old, x),
            (None, AtomicRmwOp::Xor) => ins.bxor(old, x),
            (None, AtomicRmwOp::Smin) => ins.smin(old, x),
            (None, AtomicRmwOp::Umin) => ins.umin(old, x),
            (None, AtomicRmwOp::Smax) => ins.smax(old, x),
            (None, AtomicRmwOp::Umax) => ins.umax(old, x),
            (None, _) => x,
        };
        self.builder.ins().store(trusted(), new, address, 0);
        old
    }

    fn fence(&mut self, order: Order) {
        if order == Order::SeqCst || !cfg!(target_arch = "x86_64") {
            self.builder.ins().fence();
        } else {
            self.builder.ins().sequence_point();
        }
    }
}
