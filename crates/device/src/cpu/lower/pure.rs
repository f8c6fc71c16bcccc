//! Lowering of arithmetic. Where the machine's results differ from the language's, extra instructions make them equal.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use pelton_ir::arena::{Handle, Inst};
use pelton_ir::module::Attr;
use pelton_ir::op::Op;
use pelton_ir::types::{NAN, Type};

use super::{KernelLowering, clif};

impl KernelLowering<'_> {
    /// Writes an instruction that only computes, and gives its value.
    pub(super) fn pure(&mut self, inst: Inst) -> ir::Value {
        let node = self.function.inst(inst);
        match (node.op, &node.attr) {
            (Op::Len, Attr::Buffer(buffer)) => return self.buffers[buffer.index()].1,
            (Op::Group, _) => return self.entry.group,
            (Op::Groups, _) => return self.entry.groups,
            (Op::Lanes, _) => return self.int(types::I32, self.lanes.into()),
            (Op::SubgroupSize, _) => return self.int(types::I32, self.subgroup.into()),
            (Op::Lane | Op::Sublane | Op::Subgroup, _) => return self.geometry(node.results.get(0)),
            _ => {}
        }
        let first = node
            .args
            .iter()
            .zip(node.op.row().args)
            .find(|(_, (_, pat))| *pat == pelton_ir::op::TypePattern::T);
        let ty = first.map_or(Type::F32, |(arg, _)| self.function.operand_ty(*arg));
        let args: Vec<ir::Value> = node.args.iter().map(|arg| self.get(*arg)).collect();
        match (node.op, &node.attr) {
            (Op::Cast, Attr::Type(to)) => self.cast(ty, *to, args[0]),
            (Op::Bitcast, Attr::Type(to)) => self.bitcast(ty, *to, args[0]),
            (Op::Select, _) => self.builder.ins().select(args[0], args[1], args[2]),
            (Op::Div | Op::Rem, _) if ty != Type::F32 => {
                let by = self.constant(node.args[1]);
                self.divide(node.op, ty, (args[0], args[1]), by)
            }
            (op, _) if ty == Type::F32 => self.float(op, &args),
            (op, _) => self.integer(op, ty, &args),
        }
    }

    /// The number of a lane or subgroup in the scope where it is asked for.
    fn geometry(&mut self, value: pelton_ir::arena::Value) -> ir::Value {
        match (self.scope.lane, self.scope.subgroup) {
            (Some(lane), _) => self.at_lane(value, lane),
            (None, Some(subgroup)) => subgroup,
            (None, None) => self.int(types::I32, 0),
        }
    }

    pub(super) fn integer(&mut self, op: Op, ty: Type, args: &[ir::Value]) -> ir::Value {
        let signed = ty == Type::I32;
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        let ins = self.builder.ins();
        let compare = match op {
            Op::Eq => Some(IntCC::Equal),
            Op::Ne => Some(IntCC::NotEqual),
            Op::Lt if signed => Some(IntCC::SignedLessThan),
            Op::Lt => Some(IntCC::UnsignedLessThan),
            Op::Le if signed => Some(IntCC::SignedLessThanOrEqual),
            Op::Le => Some(IntCC::UnsignedLessThanOrEqual),
            Op::Gt if signed => Some(IntCC::SignedGreaterThan),
            Op::Gt => Some(IntCC::UnsignedGreaterThan),
            Op::Ge if signed => Some(IntCC::SignedGreaterThanOrEqual),
            Op::Ge => Some(IntCC::UnsignedGreaterThanOrEqual),
            _ => None,
        };
        if let Some(code) = compare {
            return ins.icmp(code, a, b);
        }
        match op {
            Op::Add => ins.iadd(a, b),
            Op::Sub => ins.isub(a, b),
            Op::Mul => ins.imul(a, b),
            Op::MulHi if signed => ins.smulhi(a, b),
            Op::MulHi => ins.umulhi(a, b),
            Op::Min if signed => ins.smin(a, b),
            Op::Min => ins.umin(a, b),
            Op::Max if signed => ins.smax(a, b),
            Op::Max => ins.umax(a, b),
            Op::Neg => ins.ineg(a),
            Op::Abs => ins.iabs(a),
            Op::And => ins.band(a, b),
            Op::Or => ins.bor(a, b),
            Op::Xor => ins.bxor(a, b),
            Op::Not if ty == Type::Bool => ins.bxor_imm_u(a, 1),
            Op::Not => ins.bnot(a),
            Op::Shl => ins.ishl(a, b),
            Op::Shr if signed => ins.sshr(a, b),
            Op::Shr => ins.ushr(a, b),
            Op::Rotl => ins.rotl(a, b),
            Op::Rotr => ins.rotr(a, b),
            Op::Popcount | Op::Clz | Op::Ctz => {
                let count = match op {
                    Op::Popcount => ins.popcnt(a),
                    Op::Clz => ins.clz(a),
                    _ => ins.ctz(a),
                };
                if ty == Type::U64 { self.builder.ins().ireduce(types::I32, count) } else { count }
            }
            op => unreachable!("{op:?} computes nothing of {ty}"),
        }
    }

    /// Writes a division that never traps: x / 0 is 0, and the smallest number divided by −1 is itself.
    fn divide(&mut self, op: Op, ty: Type, (a, b): (ir::Value, ir::Value), by: Option<u64>) -> ir::Value {
        let signed = ty == Type::I32;
        let plain = |lower: &mut Self, b: ir::Value| match (op, signed) {
            (Op::Div, true) => lower.builder.ins().sdiv(a, b),
            (Op::Div, false) => lower.builder.ins().udiv(a, b),
            (_, true) => lower.builder.ins().srem(a, b),
            (_, false) => lower.builder.ins().urem(a, b),
        };
        if by.is_some_and(|by| by != 0 && !(signed && by as u32 as i32 == -1)) {
            return plain(self, b);
        }
        let (zero, one) = (self.int(clif(ty), 0), self.int(clif(ty), 1));
        let by_zero = self.builder.ins().icmp(IntCC::Equal, b, zero);
        let mut special = by_zero;
        let mut minus = None;
        if signed {
            let by_minus = self.builder.ins().icmp_imm_s(IntCC::Equal, b, -1);
            special = self.builder.ins().bor(by_zero, by_minus);
            minus = Some(by_minus);
        }
        let safe = self.builder.ins().select(special, one, b);
        let mut result = plain(self, safe);
        if let Some(by_minus) = minus {
            let turned = if op == Op::Div { self.builder.ins().ineg(a) } else { zero };
            result = self.builder.ins().select(by_minus, turned, result);
        }
        self.builder.ins().select(by_zero, zero, result)
    }

    pub(super) fn float(&mut self, op: Op, args: &[ir::Value]) -> ir::Value {
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        let ins = self.builder.ins();
        match op {
            Op::Add => ins.fadd(a, b),
            Op::Sub => ins.fsub(a, b),
            Op::Mul => ins.fmul(a, b),
            Op::Div => ins.fdiv(a, b),
            Op::Min => ins.fmin(a, b),
            Op::Max => ins.fmax(a, b),
            Op::Neg => ins.fneg(a),
            Op::Abs => ins.fabs(a),
            Op::Fma => ins.fma(a, b, args[2]),
            Op::Sqrt => ins.sqrt(a),
            Op::Floor => ins.floor(a),
            Op::Ceil => ins.ceil(a),
            Op::Trunc => ins.trunc(a),
            Op::Nearest => ins.nearest(a),
            Op::Eq => ins.fcmp(FloatCC::Equal, a, b),
            Op::Ne => ins.fcmp(FloatCC::NotEqual, a, b),
            Op::Lt => ins.fcmp(FloatCC::LessThan, a, b),
            Op::Le => ins.fcmp(FloatCC::LessThanOrEqual, a, b),
            Op::Gt => ins.fcmp(FloatCC::GreaterThan, a, b),
            Op::Ge => ins.fcmp(FloatCC::GreaterThanOrEqual, a, b),
            op => unreachable!("{op:?} computes nothing of f32"),
        }
    }

    fn cast(&mut self, from: Type, to: Type, a: ir::Value) -> ir::Value {
        use Type::{Bool, F32, I32, U32, U64};
        let ins = self.builder.ins();
        match (from, to) {
            (U32 | I32, U32 | I32) | (U64, U64) | (F32, F32) | (Bool, Bool) => a,
            (U32, U64) | (Bool, U32 | I32 | U64) => ins.uextend(clif(to), a),
            (I32, U64) => ins.sextend(types::I64, a),
            (U64, U32 | I32) => ins.ireduce(types::I32, a),
            (Bool, F32) => {
                let wide = ins.uextend(types::I32, a);
                self.builder.ins().fcvt_from_uint(types::F32, wide)
            }
            (U32 | U64, F32) => ins.fcvt_from_uint(types::F32, a),
            (I32, F32) => ins.fcvt_from_sint(types::F32, a),
            (F32, U32 | U64) => ins.fcvt_to_uint_sat(clif(to), a),
            (F32, I32) => ins.fcvt_to_sint_sat(types::I32, a),
            (_, Bool) => unreachable!("there is no cast to bool"),
        }
    }

    pub(crate) fn bitcast(&mut self, from: Type, to: Type, a: ir::Value) -> ir::Value {
        let a = match from {
            Type::F32 => {
                let nan = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
                let bits = self.builder.ins().bitcast(types::I32, MemFlagsData::new(), a);
                let one = self.int(types::I32, NAN.into());
                self.builder.ins().select(nan, one, bits)
            }
            _ => a,
        };
        match to {
            Type::F32 => self.builder.ins().bitcast(types::F32, MemFlagsData::new(), a),
            _ => a,
        }
    }
}
