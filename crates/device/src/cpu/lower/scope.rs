//! Scopes of lowering: the loops over subgroups and lanes that code runs in, and where its values are found.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use pelton_ir::arena::{Handle, Inst, Value};
use pelton_ir::module::Operand;
use pelton_ir::op::Op;
use pelton_ir::types::Type;
use pelton_ir::valid::UniformLevel;

use super::super::plan::{LoopNest, PlanStep, ScopePlan};
use super::{KernelLowering, clif, trusted};

/// The loops that code runs in.
#[derive(Clone, Copy)]
pub(super) struct LaneScope {
    /// The loops around the code, by their numbers in the plan.
    pub at: LoopNest,
    /// Whether the group has only one lane, so that there are no loops.
    pub alone: bool,
    /// The number of the lane that runs, in a loop over lanes.
    pub lane: Option<ir::Value>,
    /// The number of the subgroup that runs, in a loop over subgroups.
    pub subgroup: Option<ir::Value>,
    /// The block that ends a turn of the innermost loop over lanes or subgroups.
    pub turn: Option<ir::Block>,
    /// The offset in the scratch of the marks of lanes that have left.
    pub mask: i32,
}

impl LaneScope {
    /// The scope of code that runs once per group.
    pub(super) fn group() -> Self {
        LaneScope { at: LoopNest::default(), alone: false, lane: None, subgroup: None, turn: None, mask: 0 }
    }

    /// Whether the code runs once per group, per subgroup or per lane.
    pub(super) fn level(&self) -> UniformLevel {
        match (self.at.lanes, self.at.subgroups) {
            (Some(_), _) => UniformLevel::Lane,
            (None, Some(_)) => UniformLevel::Subgroup,
            (None, None) => UniformLevel::Group,
        }
    }
}

impl KernelLowering<'_> {
    /// Lowers the steps of a plan in the current scope.
    pub(super) fn plan(&mut self, plan: &ScopePlan) {
        for step in &plan.steps {
            match step {
                PlanStep::Once(inst) => self.step(*inst),
                PlanStep::Meet(inst) => self.meet(*inst),
                PlanStep::Nest(inst, plans) => self.nest(*inst, Some(plans)),
                PlanStep::End(inst) => self.end(*inst),
                PlanStep::Lanes(id, insts) => self.lanes(*id, insts),
                PlanStep::Subgroups(id, plan) => self.each_subgroup(*id, |lower| lower.plan(plan)),
            }
        }
    }

    /// The lanes of the scope: the number of the first, and the number after the last.
    pub(super) fn bounds_of_lanes(&mut self) -> (ir::Value, ir::Value) {
        let all = self.int(types::I32, self.lanes.into());
        match self.scope.subgroup {
            None => (self.int(types::I32, 0), all),
            Some(subgroup) => {
                let first = self.builder.ins().imul_imm_u(subgroup, i64::from(self.subgroup));
                let next = self.builder.ins().iadd_imm_u(first, i64::from(self.subgroup));
                (first, self.builder.ins().umin(next, all))
            }
        }
    }

    /// Writes a loop over the lanes of the scope.
    pub(super) fn each_lane(&mut self, id: u32, body: impl FnOnce(&mut Self)) {
        let bounds = self.bounds_of_lanes();
        self.span(id, bounds, 1, body);
    }

    /// Writes a loop over some lanes, several at a time, that passes over lanes that have left.
    pub(super) fn span(
        &mut self,
        id: u32,
        bounds: (ir::Value, ir::Value),
        by: i64,
        body: impl FnOnce(&mut Self),
    ) {
        let masked = self.split.is_some_and(|split| split.strays);
        let mask = self.scope.mask;
        self.turns(bounds, by, |lower, lane, turn| {
            let outer = lower.scope;
            lower.scope.at.lanes = Some(id);
            lower.scope.lane = Some(lane);
            lower.scope.turn = Some(turn);
            if masked {
                let gone = lower.load_at(types::I32, mask, lane);
                let there = lower.builder.create_block();
                lower.builder.ins().brif(gone, turn, &[], there, &[]);
                lower.builder.switch_to_block(there);
            }
            body(lower);
            lower.scope = outer;
        });
    }

    /// Writes a loop over the subgroups of the group.
    fn each_subgroup(&mut self, id: u32, body: impl FnOnce(&mut Self)) {
        let first = self.int(types::I32, 0);
        let end = self.int(types::I32, self.lanes.div_ceil(self.subgroup).into());
        self.turns((first, end), 1, |lower, subgroup, turn| {
            let outer = lower.scope;
            lower.scope.at.subgroups = Some(id);
            lower.scope.subgroup = Some(subgroup);
            lower.scope.turn = Some(turn);
            body(lower);
            lower.scope = outer;
        });
    }

    /// Writes a loop from `first` up to `end`, which may have no turn.
    fn turns(
        &mut self,
        (first, end): (ir::Value, ir::Value),
        by: i64,
        body: impl FnOnce(&mut Self, ir::Value, ir::Block),
    ) {
        let head = self.builder.create_block();
        let turn = self.builder.create_block();
        let after = self.builder.create_block();
        let at = self.builder.append_block_param(head, types::I32);
        let some = self.builder.ins().icmp(IntCC::UnsignedLessThan, first, end);
        self.builder.ins().brif(some, head, &[BlockArg::Value(first)], after, &[]);
        self.builder.switch_to_block(head);
        body(self, at, turn);
        self.builder.ins().jump(turn, &[]);
        self.builder.switch_to_block(turn);
        let next = self.builder.ins().iadd_imm_u(at, by);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, next, end);
        self.builder.ins().brif(more, head, &[BlockArg::Value(next)], after, &[]);
        self.builder.switch_to_block(after);
    }

    /// The operation of the instruction that gives a value, if an instruction does.
    pub(super) fn op_of(&self, value: Value) -> Option<Op> {
        self.defs[value.index()].map(|inst| self.function.inst(inst).op)
    }

    /// Whether a value is computed again wherever it is used, instead of being kept.
    pub(super) fn rebuilt(&self, value: Value) -> bool {
        matches!(self.op_of(value), Some(Op::Lane | Op::Sublane | Op::Subgroup | Op::Elect))
    }

    /// Computes such a value again for a lane.
    fn rebuild(&mut self, op: Op, lane: ir::Value) -> ir::Value {
        let size = i64::from(self.subgroup);
        let zero = self.int(types::I32, 0);
        let size = self.int(types::I32, size);
        match op {
            Op::Lane => lane,
            Op::Subgroup => self.builder.ins().udiv(lane, size),
            Op::Sublane => self.builder.ins().urem(lane, size),
            _ => {
                let sublane = self.builder.ins().urem(lane, size);
                self.builder.ins().icmp(IntCC::Equal, sublane, zero)
            }
        }
    }

    /// The value of an operand in the current scope.
    pub(super) fn get(&mut self, operand: Operand) -> ir::Value {
        match operand {
            Operand::Const(c) => self.literal(c.ty(), c.bits()),
            Operand::Value(value) => match self.scope.lane {
                Some(lane) => self.at_lane(value, lane),
                None => self.shared_by_scope(value),
            },
        }
    }

    /// Writes a constant.
    pub(super) fn literal(&mut self, ty: Type, bits: u64) -> ir::Value {
        match ty {
            Type::F32 => self.builder.ins().f32const(f32::from_bits(bits as u32)),
            Type::U64 => self.int(types::I64, bits as i64),
            Type::Bool => self.int(types::I8, bits as i64),
            Type::U32 | Type::I32 => self.int(types::I32, bits as i64),
        }
    }

    /// The value of something that all lanes of the scope share.
    fn shared_by_scope(&mut self, value: Value) -> ir::Value {
        match (self.op_of(value), self.scope.subgroup) {
            (Some(Op::Subgroup), Some(subgroup)) => subgroup,
            _ if self.reaches(value) => self.made(value),
            (_, subgroup) => {
                let at = if self.uniform.value_level(value) == UniformLevel::Group { None } else { subgroup };
                let at = at.unwrap_or_else(|| self.int(types::I32, 0));
                self.load_home(value, at)
            }
        }
    }

    /// A value as a given lane has it, which need not be the lane that runs.
    pub(super) fn at_lane(&mut self, value: Value, lane: ir::Value) -> ir::Value {
        if let Some(op @ (Op::Lane | Op::Sublane | Op::Subgroup | Op::Elect)) = self.op_of(value) {
            return self.rebuild(op, lane);
        }
        if self.reaches(value) {
            return self.made(value);
        }
        let at = match self.uniform.value_level(value) {
            UniformLevel::Lane => lane,
            UniformLevel::Subgroup => self.rebuild(Op::Subgroup, lane),
            UniformLevel::Group => self.int(types::I32, 0),
        };
        self.load_home(value, at)
    }

    fn reaches(&self, value: Value) -> bool {
        self.split.is_none_or(|split| {
            split.made[value.index()].reaches(self.scope.at) && self.made[value.index()].is_some()
        })
    }

    fn made(&self, value: Value) -> ir::Value {
        self.made[value.index()].expect("a value is made before it is used")
    }

    /// Defines a value in the scope, and stores it if it has a home.
    pub(super) fn set(&mut self, value: Value, made: ir::Value) {
        self.made[value.index()] = Some(made);
        if self.homes[value.index()].is_some() {
            self.keep(value, made);
        }
    }

    /// Stores a value of the scope's lane or subgroup in its home.
    pub(super) fn keep(&mut self, value: Value, made: ir::Value) {
        let at = match (self.uniform.value_level(value), self.scope.lane, self.scope.subgroup) {
            (UniformLevel::Lane, Some(lane), _) => lane,
            (UniformLevel::Subgroup, Some(lane), _) => self.rebuild(Op::Subgroup, lane),
            (UniformLevel::Subgroup, None, Some(subgroup)) => subgroup,
            _ => self.int(types::I32, 0),
        };
        let home = self.homes[value.index()].expect("the value has a home");
        self.store_at(home, at, made);
    }

    fn load_home(&mut self, value: Value, at: ir::Value) -> ir::Value {
        let home = self.homes[value.index()].expect("a value out of reach has a home");
        self.load_at(clif(self.function.ty(value)), home, at)
    }

    /// The address of an element of an array in the scratch.
    fn load_at(&mut self, ty: ir::Type, array: i32, at: ir::Value) -> ir::Value {
        let address = self.element(ty, at);
        self.builder.ins().load(ty, trusted(), address, array)
    }

    fn store_at(&mut self, array: i32, at: ir::Value, x: ir::Value) {
        let address = self.element(self.builder.func.dfg.value_type(x), at);
        self.builder.ins().store(trusted(), x, address, array);
    }

    pub(super) fn element(&mut self, ty: ir::Type, at: ir::Value) -> ir::Value {
        let at = self.builder.ins().uextend(types::I64, at);
        let bytes = self.builder.ins().imul_imm_u(at, i64::from(ty.bytes()));
        self.builder.ins().iadd(self.entry.scratch, bytes)
    }

    /// Clears the marks of lanes that have left.
    pub(super) fn clear_mask(&mut self) {
        let zero = self.int(types::I32, 0);
        let mask = self.scope.mask;
        let (first, end) = self.bounds_of_lanes();
        self.turns((first, end), 1, |lower, lane, _| lower.store_at(mask, lane, zero));
    }

    /// Marks the lane that runs as gone until the group reaches the target. Without a target it is gone for good.
    pub(super) fn leave(&mut self, target: Option<Inst>) {
        let id = self.mark(target);
        let (mask, lane) = (self.scope.mask, self.scope.lane.expect("a lane runs"));
        self.store_at(mask, lane, id);
    }

    /// Clears the marks of the lanes that left for a target, because the group has reached it.
    pub(super) fn rejoin(&mut self, target: Inst) {
        if !self.split.is_some_and(|split| split.strays) || self.scope.lane.is_some() {
            return;
        }
        let mask = self.scope.mask;
        let (first, end) = self.bounds_of_lanes();
        self.turns((first, end), 1, |lower, lane, _| {
            let id = lower.mark(Some(target));
            let zero = lower.int(types::I32, 0);
            let gone = lower.load_at(types::I32, mask, lane);
            let back = lower.builder.ins().icmp(IntCC::Equal, gone, id);
            let now = lower.builder.ins().select(back, zero, gone);
            lower.store_at(mask, lane, now);
        });
    }

    fn mark(&mut self, target: Option<Inst>) -> ir::Value {
        let id = target.map_or(i64::from(u32::MAX), |inst| inst.index() as i64 + 1);
        self.int(types::I32, id)
    }
}
