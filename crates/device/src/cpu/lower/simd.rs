//! Lowering of loops over lanes that take sixteen lanes at a time with SIMD instructions.
//!
//! Where every lane does the same straight 32-bit arithmetic, counted loops with uniform bounds included, and accesses
//! are to consecutive elements, sixteen neighbouring lanes are four vectors of four. What remains of the lanes is done
//! one by one. Nothing promises an order among lanes between two meetings, so doing sixteen at once is as good as any.
//!
//! A vector access is checked as a whole; one that is not wholly in range goes element by element through a spill.
//! A truth value is a mask of all ones or zeros.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, types};
use pelton_ir::arena::{Buffer, Handle, Inst, Value};
use pelton_ir::module::{Attr, Node, Operand, Site};
use pelton_ir::op::{Op, OpEffect};
use pelton_ir::types::{NAN, Type};
use pelton_ir::valid::UniformLevel;

use super::{KernelLowering, SPILL, clif, trusted};

/// How many lanes are taken at a time.
const WIDTH: i64 = 16;
/// How many vectors hold a value of these lanes.
const PARTS: usize = 4;

type Vector = [ir::Value; PARTS];

/// The vectors of the values that the sixteen lanes of a turn have made.
type Made = HashMap<Value, Vector>;

/// Flags of vector accesses, which are aligned only to their elements.
fn loose() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

fn vector_type(ty: Type) -> ir::Type {
    if ty == Type::F32 { types::F32X4 } else { types::I32X4 }
}

impl KernelLowering<'_> {
    /// Writes a loop over the lanes of the scope, sixteen at a time as far as possible, and the remaining lanes one by one.
    pub(super) fn lanes(&mut self, id: u32, insts: &[Inst]) {
        let wide = self.simd && self.lanes >= WIDTH as u32 && !self.split.is_some_and(|split| split.strays);
        if !wide || !insts.iter().all(|inst| self.fits(*inst)) {
            return self.each_lane(id, |lower| insts.iter().for_each(|inst| lower.step(*inst)));
        }
        let (first, end) = self.bounds_of_lanes();
        let count = self.builder.ins().isub(end, first);
        let whole = self.builder.ins().band_imm_s(count, -WIDTH);
        let middle = self.builder.ins().iadd(first, whole);
        self.span(id, (first, middle), WIDTH, |lower| {
            let mut made = Made::new();
            insts.iter().for_each(|inst| lower.vector(*inst, &mut made));
        });
        self.span(id, (middle, end), 1, |lower| insts.iter().for_each(|inst| lower.step(*inst)));
    }

    /// Whether a value is the same in all lanes of the scope around the loop.
    fn same(&self, operand: Operand) -> bool {
        operand.value().is_none_or(|value| self.uniform.value_level(value) >= self.around())
    }

    /// Whether the code around the loop over lanes runs once per group or per subgroup.
    fn around(&self) -> UniformLevel {
        match self.scope.subgroup {
            Some(_) => UniformLevel::Subgroup,
            None => UniformLevel::Group,
        }
    }

    /// Whether an instruction runs once for all lanes of a turn.
    fn single(&self, node: &Node) -> bool {
        node.op.effect() == OpEffect::Pure
            && !node.results.is_empty()
            && node.results.iter().all(|value| self.uniform.value_level(value) >= self.around())
    }

    /// Whether an instruction can be done for sixteen lanes at once.
    fn fits(&self, inst: Inst) -> bool {
        let node = self.function.inst(inst);
        if self.single(node) {
            return true;
        }
        let narrow = |ty: Type| ty.bits() <= 32;
        let typed = node.results.iter().all(|value| narrow(self.function.ty(value)) && self.keeps(value))
            && node.args.iter().all(|arg| narrow(self.function.operand_ty(*arg)) && self.finds(*arg));
        typed
            && match node.op {
                Op::Load | Op::Store => node.args[0].value().is_some_and(|index| self.consecutive(index)),
                Op::LoadByte => self.fits_byte(node),
                Op::Loop => self.fits_loop(node),
                Op::Yield => true,
                op => self.fits_op(op, node),
            }
    }

    /// A load of the same byte of consecutive elements of 32 bits.
    fn fits_byte(&self, node: &Node) -> bool {
        let narrow = node.buffer().is_some_and(|buffer| self.module.buffers[buffer].elem.bits() == 32);
        narrow && self.same(node.args[1]) && node.args[0].value().is_some_and(|index| self.consecutive(index))
    }

    fn fits_op(&self, op: Op, node: &Node) -> bool {
        let ty = self.module.type_argument(node, self.function).unwrap_or(Type::F32);
        match op {
            Op::Add | Op::Sub | Op::Mul | Op::Min | Op::Max | Op::Neg | Op::Abs => true,
            Op::And | Op::Or | Op::Xor | Op::Not | Op::Select => true,
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => ty != Type::Bool,
            Op::Shl | Op::Shr | Op::Rotl | Op::Rotr => self.same(node.args[1]),
            Op::Div => ty == Type::F32,
            Op::Sqrt | Op::Floor | Op::Ceil | Op::Trunc | Op::Nearest => true,
            Op::Bitcast | Op::Popcount => true,
            Op::Cast => matches!(
                (ty, &node.attr),
                (Type::U32 | Type::I32, Attr::Type(Type::U32 | Type::I32))
                    | (Type::I32, Attr::Type(Type::F32))
            ),
            Op::Lane => true,
            _ => false,
        }
    }

    /// Whether a counted loop is one that all lanes run equally often and leave only at its end, and whose carried values differ by lane.
    fn fits_loop(&self, node: &Node) -> bool {
        let block = self.function.region(node.regions[0]);
        let own = |value: Value| self.function.ty(value) != Type::Bool && !self.same(Operand::Value(value));
        node.args[..3].iter().all(|arg| self.same(*arg))
            && node.results.iter().chain(block.params.iter().skip(1)).all(own)
            && block.insts.iter().all(|inst| self.fits(*inst))
    }

    /// Whether the results of an instruction can be stored in their homes as vectors.
    fn keeps(&self, value: Value) -> bool {
        let by_lane =
            self.uniform.value_level(value) == UniformLevel::Lane && self.function.ty(value) != Type::Bool;
        self.homes[value.index()].is_none() || by_lane
    }

    /// Whether an operand is available for sixteen lanes.
    fn finds(&self, operand: Operand) -> bool {
        match operand.value() {
            Some(value) if self.op_of(value) == Some(Op::Lane) || self.same(operand) => true,
            Some(value) => !self.rebuilt(value) && self.keeps(value),
            None => true,
        }
    }

    /// Whether neighbouring lanes have neighbouring values.
    fn consecutive(&self, value: Value) -> bool {
        let Some(inst) = self.defs[value.index()] else { return false };
        let node = self.function.inst(inst);
        let steps = |operand: Operand| operand.value().is_some_and(|value| self.consecutive(value));
        match node.op {
            Op::Lane => true,
            Op::Add => {
                let (a, b) = (node.args[0], node.args[1]);
                (steps(a) && self.same(b)) || (self.same(a) && steps(b))
            }
            Op::Sub => steps(node.args[0]) && self.same(node.args[1]),
            _ => false,
        }
    }

    /// The value of such an operand in the first lane of the turn.
    fn first_of(&mut self, operand: Operand) -> ir::Value {
        let inst = operand.value().filter(|_| !self.same(operand)).and_then(|value| self.defs[value.index()]);
        let Some(inst) = inst else { return self.get(operand) };
        let node = self.function.inst(inst);
        match node.op {
            Op::Lane => self.scope.lane.expect("lanes run"),
            op => {
                let (a, b) = (self.first_of(node.args[0]), self.first_of(node.args[1]));
                if op == Op::Add { self.builder.ins().iadd(a, b) } else { self.builder.ins().isub(a, b) }
            }
        }
    }

    /// Lowers an instruction for the sixteen lanes of a turn.
    fn vector(&mut self, inst: Inst, made: &mut Made) {
        let node = self.function.inst(inst);
        if self.single(node) {
            return self.step(inst);
        }
        match (node.op, node.buffer()) {
            (Op::Load, Some(buffer)) => {
                let loaded = self.vector_load(inst, buffer);
                self.make_vector(node.results.get(0), loaded, made);
            }
            (Op::LoadByte, Some(buffer)) => {
                let loaded = self.vector_load(inst, buffer);
                let bytes = self.vector_byte(inst, self.module.buffers[buffer].elem, loaded);
                self.make_vector(node.results.get(0), bytes, made);
            }
            (Op::Store, Some(buffer)) => {
                let value = self.vector_of(node.args[1], made);
                self.vector_store(inst, buffer, value);
            }
            (Op::Loop, _) => self.vector_loop(inst, made),
            _ => {
                let value = self.vector_op(node, made);
                self.make_vector(node.results.get(0), value, made);
            }
        }
    }

    fn make_vector(&mut self, value: Value, vector: Vector, made: &mut Made) {
        made.insert(value, vector);
        if let Some(home) = self.homes[value.index()] {
            let address = self.element(types::I32, self.scope.lane.expect("lanes run"));
            for (k, part) in vector.into_iter().enumerate() {
                self.builder.ins().store(loose(), part, address, home + 16 * k as i32);
            }
        }
    }

    /// The vectors of an operand.
    fn vector_of(&mut self, operand: Operand, made: &Made) -> Vector {
        let ty = self.function.operand_ty(operand);
        if let Some(vector) = operand.value().and_then(|value| made.get(&value)) {
            return *vector;
        }
        if let Some(value) = operand.value().filter(|_| !self.same(operand)) {
            if self.op_of(value) == Some(Op::Lane) {
                return self.lane_numbers();
            }
            let home = self.homes[value.index()].expect("a value out of reach has a home");
            let address = self.element(types::I32, self.scope.lane.expect("lanes run"));
            return std::array::from_fn(|k| {
                self.builder.ins().load(vector_type(ty), loose(), address, home + 16 * k as i32)
            });
        }
        let scalar = self.get(operand);
        let scalar = match ty {
            Type::Bool => {
                let wide = self.builder.ins().uextend(types::I32, scalar);
                self.builder.ins().ineg(wide)
            }
            _ => scalar,
        };
        [self.builder.ins().splat(vector_type(ty), scalar); PARTS]
    }

    fn lane_numbers(&mut self) -> Vector {
        let first = self.builder.ins().splat(types::I32X4, self.scope.lane.expect("lanes run"));
        std::array::from_fn(|k| {
            let bytes: Vec<u8> = (0..4u32).flat_map(|at| (4 * k as u32 + at).to_le_bytes()).collect();
            let constant = self.builder.func.dfg.constants.insert(bytes.into());
            let offsets = self.builder.ins().vconst(types::I32X4, constant);
            self.builder.ins().iadd(first, offsets)
        })
    }

    fn vector_loop(&mut self, inst: Inst, made: &mut Made) {
        let node = self.function.inst(inst);
        let block = self.function.region(node.regions[0]);
        let (from, to, step) = (self.get(node.args[0]), self.get(node.args[1]), self.get(node.args[2]));
        let signed = self.function.operand_ty(node.args[0]) == Type::I32;
        let turns = self.turns_of((from, to, step), signed, self.constant(node.args[2]) == Some(1));
        let [head, body, after] = [(); 3].map(|()| self.builder.create_block());
        let mut args = vec![BlockArg::Value(from), BlockArg::Value(turns)];
        for arg in node.carried() {
            args.extend(self.vector_of(*arg, made).map(BlockArg::Value));
        }
        self.builder.ins().jump(head, &args);
        self.builder.switch_to_block(head);
        let at = self.builder.append_block_param(head, types::I32);
        let left = self.builder.append_block_param(head, types::I32);
        let carried: Vec<Value> = block.params.iter().skip(1).collect();
        for (value, result) in carried.iter().zip(node.results.iter()) {
            let ty = vector_type(self.function.ty(*value));
            let vector = std::array::from_fn(|_| self.builder.append_block_param(head, ty));
            made.insert(*value, vector);
            made.insert(result, vector);
        }
        self.builder.ins().brif(left, body, &[], after, &[]);
        self.builder.switch_to_block(body);
        self.set(block.params.get(0), at);
        let (end, inner) = block.insts.split_last().expect("a region has an end");
        inner.iter().for_each(|inst| self.vector(*inst, made));
        if !self.brief(inst) {
            self.look_at_stop();
        }
        let next = self.builder.ins().iadd(at, step);
        let fewer = self.builder.ins().iadd_imm_s(left, -1);
        let mut args = vec![BlockArg::Value(next), BlockArg::Value(fewer)];
        for arg in &self.function.inst(*end).args {
            args.extend(self.vector_of(*arg, made).map(BlockArg::Value));
        }
        self.builder.ins().jump(head, &args);
        self.builder.switch_to_block(after);
        for result in node.results.iter() {
            self.make_vector(result, made[&result], made);
        }
    }

    fn vector_op(&mut self, node: &Node, made: &Made) -> Vector {
        let ty = self.module.type_argument(node, self.function).unwrap_or(Type::F32);
        match (node.op, &node.attr) {
            (Op::Lane, _) => return self.lane_numbers(),
            (Op::Shl | Op::Shr | Op::Rotl | Op::Rotr, _) => {
                let value = self.vector_of(node.args[0], made);
                let by = self.get(node.args[1]);
                return value.map(|a| self.shift(node.op, ty == Type::I32, a, by));
            }
            _ => {}
        }
        let args: Vec<Vector> = node.args.iter().map(|arg| self.vector_of(*arg, made)).collect();
        std::array::from_fn(|k| {
            let parts: Vec<ir::Value> = args.iter().map(|vector| vector[k]).collect();
            match (node.op, &node.attr) {
                (Op::Select, _) => self.blend(ty, &parts),
                (Op::Cast, Attr::Type(to)) if *to == Type::F32 => {
                    self.builder.ins().fcvt_from_sint(types::F32X4, parts[0])
                }
                (Op::Cast, _) => parts[0],
                (Op::Bitcast, Attr::Type(to)) => self.vector_bitcast(ty, *to, parts[0]),
                (Op::Not, _) => self.builder.ins().bnot(parts[0]),
                (Op::Popcount, _) => self.vector_popcount(parts[0]),
                (op, _) if ty == Type::F32 => self.float(op, &parts),
                (op, _) => self.integer(op, ty, &parts),
            }
        })
    }

    /// A byte of each element, the same one of all.
    fn vector_byte(&mut self, inst: Inst, elem: Type, elements: Vector) -> Vector {
        let byte = self.get(self.function.inst(inst).args[1]);
        let by = self.builder.ins().ishl_imm_u(byte, 3);
        let mask = self.byte_mask(inst, byte);
        let mask = self.builder.ins().splat(types::I32X4, mask);
        elements.map(|element| {
            let element = self.vector_bitcast(elem, Type::U32, element);
            let moved = self.builder.ins().ushr(element, by);
            self.builder.ins().band(moved, mask)
        })
    }

    fn shift(&mut self, op: Op, signed: bool, a: ir::Value, by: ir::Value) -> ir::Value {
        match op {
            Op::Shl => self.builder.ins().ishl(a, by),
            Op::Shr if signed => self.builder.ins().sshr(a, by),
            Op::Shr => self.builder.ins().ushr(a, by),
            // Shift counts are taken modulo 32, so for a rotation by 0 both halves are the value itself.
            _ => {
                let width = self.int(types::I32, 32);
                let rest = self.builder.ins().isub(width, by);
                let (left, right) = if op == Op::Rotl { (by, rest) } else { (rest, by) };
                let high = self.builder.ins().ishl(a, left);
                let low = self.builder.ins().ushr(a, right);
                self.builder.ins().bor(high, low)
            }
        }
    }

    /// Writes a selection by a mask.
    fn blend(&mut self, ty: Type, parts: &[ir::Value]) -> ir::Value {
        let (mask, mut a, mut b) = (parts[0], parts[1], parts[2]);
        if ty == Type::F32 {
            a = self.builder.ins().bitcast(types::I32X4, MemFlagsData::new(), a);
            b = self.builder.ins().bitcast(types::I32X4, MemFlagsData::new(), b);
        }
        let chosen = self.builder.ins().bitselect(mask, a, b);
        match ty {
            Type::F32 => self.builder.ins().bitcast(types::F32X4, MemFlagsData::new(), chosen),
            _ => chosen,
        }
    }

    fn vector_bitcast(&mut self, from: Type, to: Type, a: ir::Value) -> ir::Value {
        let a = match from {
            Type::F32 => {
                let nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
                let bits = self.builder.ins().bitcast(types::I32X4, MemFlagsData::new(), a);
                let one = self.int(types::I32, NAN.into());
                let one = self.builder.ins().splat(types::I32X4, one);
                self.builder.ins().bitselect(nan, one, bits)
            }
            _ => a,
        };
        match to {
            Type::F32 => self.builder.ins().bitcast(types::F32X4, MemFlagsData::new(), a),
            _ => a,
        }
    }

    /// Writes a count of bits: in pairs, then nibbles, then bytes, whose counts are added.
    fn vector_popcount(&mut self, a: ir::Value) -> ir::Value {
        let [pairs, nibbles, bytes, ones] =
            [0x5555_5555, 0x3333_3333, 0x0f0f_0f0f, 0x0101_0101].map(|mask| {
                let mask = self.int(types::I32, mask);
                self.builder.ins().splat(types::I32X4, mask)
            });
        let half = self.builder.ins().ushr_imm_u(a, 1);
        let odd = self.builder.ins().band(half, pairs);
        let a = self.builder.ins().isub(a, odd);
        let low = self.builder.ins().band(a, nibbles);
        let high = self.builder.ins().ushr_imm_u(a, 2);
        let high = self.builder.ins().band(high, nibbles);
        let a = self.builder.ins().iadd(low, high);
        let high = self.builder.ins().ushr_imm_u(a, 4);
        let a = self.builder.ins().iadd(a, high);
        let a = self.builder.ins().band(a, bytes);
        let sum = self.builder.ins().imul(a, ones);
        self.builder.ins().ushr_imm_u(sum, 24)
    }

    /// Writes a reduction over homes that takes four lanes at a time. `None` if the reduction has to go lane by lane.
    pub(super) fn reduce_wide(
        &mut self,
        inst: Inst,
        (first, end): (ir::Value, ir::Value),
    ) -> Option<ir::Value> {
        let node = self.function.inst(inst);
        let value = node.args[0].value()?;
        let ty = self.function.ty(value);
        let home = self.homes[value.index()]?;
        let whole = self.lanes.is_multiple_of(4) && self.subgroup.is_multiple_of(4);
        let by_lane = self.uniform.value_level(value) == UniformLevel::Lane && !self.rebuilt(value);
        if !(self.simd && whole && by_lane && ty.bits() == 32 && ty != Type::F32) {
            return None;
        }
        let load = |lower: &mut Self, lane: ir::Value| {
            let address = lower.element(types::I32, lane);
            lower.builder.ins().load(types::I32X4, loose(), address, home)
        };
        let head = self.builder.create_block();
        let turn = self.builder.create_block();
        let after = self.builder.create_block();
        let lane = self.builder.append_block_param(head, types::I32);
        let sum = self.builder.append_block_param(head, types::I32X4);
        let start = load(self, first);
        let second = self.builder.ins().iadd_imm_u(first, 4);
        self.builder.ins().jump(head, &[BlockArg::Value(second), BlockArg::Value(start)]);
        self.builder.switch_to_block(head);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, lane, end);
        self.builder.ins().brif(more, turn, &[], after, &[]);
        self.builder.switch_to_block(turn);
        let brought = load(self, lane);
        let joined = self.join_values(node.op, ty, sum, brought);
        let next = self.builder.ins().iadd_imm_u(lane, 4);
        self.builder.ins().jump(head, &[BlockArg::Value(next), BlockArg::Value(joined)]);
        self.builder.switch_to_block(after);
        let parts: Vec<ir::Value> = (0..4u8).map(|k| self.builder.ins().extractlane(sum, k)).collect();
        let low = self.join_values(node.op, ty, parts[0], parts[1]);
        let high = self.join_values(node.op, ty, parts[2], parts[3]);
        Some(self.join_values(node.op, ty, low, high))
    }

    /// Where the sixteen elements of an access begin, and whether all of them are in range; none if that was proved.
    fn vector_place(&mut self, inst: Inst, buffer: Buffer) -> (ir::Value, ir::Value, Option<ir::Value>) {
        let node = self.function.inst(inst);
        let (start, len) = self.buffers[buffer.index()];
        let first = self.first_of(node.args[0]);
        let wide = self.builder.ins().uextend(types::I64, first);
        let bytes = self.builder.ins().imul_imm_u(wide, 4);
        let address = self.builder.ins().iadd(start, bytes);
        if self.bounds.in_bounds(Site { func: self.kernel, inst }) {
            return (first, address, None);
        }
        let last = self.builder.ins().iadd_imm_u(first, WIDTH - 1);
        let straight = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, last, first);
        let below = self.builder.ins().icmp(IntCC::UnsignedLessThan, last, len);
        (first, address, Some(self.builder.ins().band(straight, below)))
    }

    fn vector_load(&mut self, inst: Inst, buffer: Buffer) -> Vector {
        let ty = vector_type(self.module.buffers[buffer].elem);
        let (first, address, inside) = self.vector_place(inst, buffer);
        let Some(inside) = inside else { return self.parts(ty, address, 0) };
        let [fast, slow, join] = [(); 3].map(|()| self.builder.create_block());
        self.builder.set_cold_block(slow);
        self.builder.ins().brif(inside, fast, &[], slow, &[]);
        self.builder.switch_to_block(fast);
        let parts = self.parts(ty, address, 0).map(BlockArg::Value);
        self.builder.ins().jump(join, &parts);
        self.builder.switch_to_block(slow);
        self.one_by_one(first, |lower, index, spill| {
            let from = lower.element_of(buffer, index, lower.entry.scratch);
            let word = lower.builder.ins().load(types::I32, trusted(), from, 0);
            lower.builder.ins().store(trusted(), word, spill, 0);
        });
        let parts = self.parts(ty, self.entry.scratch, SPILL).map(BlockArg::Value);
        self.builder.ins().jump(join, &parts);
        self.builder.switch_to_block(join);
        std::array::from_fn(|_| self.builder.append_block_param(join, ty))
    }

    fn vector_store(&mut self, inst: Inst, buffer: Buffer, value: Vector) {
        let (first, address, inside) = self.vector_place(inst, buffer);
        let put = |lower: &mut Self, address: ir::Value, at: i32| {
            for (k, part) in value.into_iter().enumerate() {
                lower.builder.ins().store(loose(), part, address, at + 16 * k as i32);
            }
        };
        let Some(inside) = inside else { return put(self, address, 0) };
        let [fast, slow, join] = [(); 3].map(|()| self.builder.create_block());
        self.builder.set_cold_block(slow);
        self.builder.ins().brif(inside, fast, &[], slow, &[]);
        self.builder.switch_to_block(fast);
        put(self, address, 0);
        self.builder.ins().jump(join, &[]);
        self.builder.switch_to_block(slow);
        put(self, self.entry.scratch, SPILL);
        let sink = self.entry.sink;
        self.one_by_one(first, |lower, index, spill| {
            let word = lower.builder.ins().load(types::I32, trusted(), spill, 0);
            let to = lower.element_of(buffer, index, sink);
            lower.builder.ins().store(trusted(), word, to, 0);
        });
        self.builder.ins().jump(join, &[]);
        self.builder.switch_to_block(join);
    }

    /// Loads four vectors from memory.
    fn parts(&mut self, ty: ir::Type, address: ir::Value, at: i32) -> Vector {
        std::array::from_fn(|k| self.builder.ins().load(ty, loose(), address, at + 16 * k as i32))
    }

    /// The address of an element, or of the sink if the index is out of range.
    fn element_of(&mut self, buffer: Buffer, index: ir::Value, sink: ir::Value) -> ir::Value {
        let (start, len) = self.buffers[buffer.index()];
        debug_assert_eq!(clif(self.module.buffers[buffer].elem).bytes(), 4);
        let inside = self.builder.ins().icmp(IntCC::UnsignedLessThan, index, len);
        let wide = self.builder.ins().uextend(types::I64, index);
        let bytes = self.builder.ins().imul_imm_u(wide, 4);
        let address = self.builder.ins().iadd(start, bytes);
        self.builder.ins().select(inside, address, sink)
    }

    /// Writes a loop over sixteen elements from an index on, which gives `body` each index and its address in the spill.
    fn one_by_one(&mut self, first: ir::Value, body: impl FnOnce(&mut Self, ir::Value, ir::Value)) {
        let head = self.builder.create_block();
        let after = self.builder.create_block();
        let at = self.builder.append_block_param(head, types::I32);
        let zero = self.int(types::I32, 0);
        self.builder.ins().jump(head, &[BlockArg::Value(zero)]);
        self.builder.switch_to_block(head);
        let index = self.builder.ins().iadd(first, at);
        let place = self.element(types::I32, at);
        let spill = self.builder.ins().iadd_imm_u(place, i64::from(SPILL));
        body(self, index, spill);
        let next = self.builder.ins().iadd_imm_u(at, 1);
        let more = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, WIDTH);
        self.builder.ins().brif(more, head, &[BlockArg::Value(next)], after, &[]);
        self.builder.switch_to_block(after);
    }
}
