//! Lowering of operations that the lanes of a group or subgroup do together.
//!
//! All lanes of the scope run on one thread and have reached the operation, so a barrier needs no code, and an exchange reads
//! the homes of the values that the lanes brought.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use pelton_ir::arena::Inst;
use pelton_ir::module::Operand;
use pelton_ir::op::Op;
use pelton_ir::types::Type;

use super::{KernelLowering, clif};

impl KernelLowering<'_> {
    /// Lowers an operation at which the lanes of the scope meet.
    pub(super) fn meet(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        match node.op {
            // The result of `elect` is computed again wherever it is used.
            Op::Barrier | Op::Elect => {}
            Op::GroupBroadcast | Op::Broadcast => {
                let from = self.get(node.args[1]);
                let value = self.of_lane(node.args[0], from);
                self.set(node.results.get(0), value);
            }
            Op::Shuffle => {
                let bounds = self.bounds_of_lanes();
                let result = node.results.get(0);
                self.each_lane(0, |lower| {
                    let from = lower.get(node.args[1]);
                    let value = lower.of_lane_in(node.args[0], from, bounds);
                    lower.keep(result, value);
                });
            }
            _ => self.reduce(inst),
        }
    }

    /// The value that a lane of the scope brought, or 0 if there is no such lane.
    fn of_lane(&mut self, value: Operand, from: ir::Value) -> ir::Value {
        let bounds = self.bounds_of_lanes();
        self.of_lane_in(value, from, bounds)
    }

    fn of_lane_in(
        &mut self,
        value: Operand,
        from: ir::Value,
        (first, end): (ir::Value, ir::Value),
    ) -> ir::Value {
        let count = self.builder.ins().isub(end, first);
        let there = self.builder.ins().icmp(IntCC::UnsignedLessThan, from, count);
        let lane = self.builder.ins().iadd(first, from);
        let lane = self.builder.ins().select(there, lane, first);
        let brought = self.brought(value, lane);
        let zero = self.literal(self.function.operand_ty(value), 0);
        self.builder.ins().select(there, brought, zero)
    }

    fn brought(&mut self, operand: Operand, lane: ir::Value) -> ir::Value {
        match operand {
            Operand::Const(_) => self.get(operand),
            Operand::Value(value) => self.at_lane(value, lane),
        }
    }

    /// Lowers ballots, votes and reductions to one pass over the lanes.
    fn reduce(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let ty = self.function.operand_ty(node.args[0]);
        let (first, end) = self.bounds_of_lanes();
        if let Some(result) = self.reduce_wide(inst, (first, end)) {
            return self.set(node.results.get(0), result);
        }
        let start = match node.op {
            Op::Ballot => self.int(types::I32, 0),
            Op::Any => self.int(types::I8, 0),
            Op::All => self.int(types::I8, 1),
            // Combining a value twice does not change a conjunction, disjunction, minimum or maximum.
            Op::ReduceAnd | Op::ReduceOr | Op::ReduceMin | Op::ReduceMax => self.brought(node.args[0], first),
            _ => self.literal(ty, 0),
        };
        let head = self.builder.create_block();
        let after = self.builder.create_block();
        let lane = self.builder.append_block_param(head, types::I32);
        let sum = self.builder.append_block_param(head, self.builder.func.dfg.value_type(start));
        let result = self.builder.append_block_param(after, self.builder.func.dfg.value_type(start));
        self.builder.ins().jump(head, &[BlockArg::Value(first), BlockArg::Value(start)]);
        self.builder.switch_to_block(head);
        let brought = self.brought(node.args[0], lane);
        let sum = self.join(node.op, ty, (sum, brought), (lane, first));
        let next = self.builder.ins().iadd_imm_u(lane, 1);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, next, end);
        let on = [BlockArg::Value(next), BlockArg::Value(sum)];
        self.builder.ins().brif(more, head, &on, after, &[BlockArg::Value(sum)]);
        self.builder.switch_to_block(after);
        self.set(node.results.get(0), result);
    }

    fn join(
        &mut self,
        op: Op,
        ty: Type,
        (sum, brought): (ir::Value, ir::Value),
        (lane, first): (ir::Value, ir::Value),
    ) -> ir::Value {
        if op == Op::Ballot {
            let bit = self.builder.ins().uextend(types::I32, brought);
            let at = self.builder.ins().isub(lane, first);
            let bit = self.builder.ins().ishl(bit, at);
            return self.builder.ins().bor(sum, bit);
        }
        self.join_values(op, ty, sum, brought)
    }

    /// Combines two partial results of a reduction, or two vectors of them.
    pub(super) fn join_values(&mut self, op: Op, ty: Type, sum: ir::Value, brought: ir::Value) -> ir::Value {
        let signed = ty == Type::I32;
        match op {
            Op::ReduceAdd => self.builder.ins().iadd(sum, brought),
            Op::Any | Op::ReduceOr => self.builder.ins().bor(sum, brought),
            Op::All | Op::ReduceAnd => self.builder.ins().band(sum, brought),
            Op::ReduceXor => self.builder.ins().bxor(sum, brought),
            Op::ReduceMin if ty == Type::F32 => self.builder.ins().fmin(sum, brought),
            Op::ReduceMax if ty == Type::F32 => self.builder.ins().fmax(sum, brought),
            Op::ReduceMin if signed => self.builder.ins().smin(sum, brought),
            Op::ReduceMin => self.builder.ins().umin(sum, brought),
            _ if signed => self.builder.ins().smax(sum, brought),
            _ => self.builder.ins().umax(sum, brought),
        }
    }

    /// Lowers such an operation for a group of one lane.
    pub(super) fn alone(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        let Some(result) = node.results.iter().next() else { return };
        let value = match node.op {
            Op::Elect => self.int(types::I8, 1),
            Op::Ballot => {
                let p = self.get(node.args[0]);
                self.builder.ins().uextend(types::I32, p)
            }
            Op::GroupBroadcast | Op::Broadcast | Op::Shuffle => {
                let (value, from) = (self.get(node.args[0]), self.get(node.args[1]));
                let zero = self.literal(self.function.operand_ty(node.args[0]), 0);
                debug_assert_eq!(self.builder.func.dfg.value_type(zero), clif(self.function.ty(result)));
                self.builder.ins().select(from, zero, value)
            }
            _ => self.get(node.args[0]),
        };
        self.set(result, value);
    }
}
