//! Writes the body of a function: random statements, and the operations that all of them need.

use pelton_ir::arena::{Inst, Values};
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::{Op, OpEffect};
use pelton_ir::types::{Access, Const, Space, Type};
use pelton_ir::valid::UniformLevel;
use pelton_ir::write::{self, FunctionWriter};

use crate::config::Promise;
use crate::constant::constant;
use crate::frame::{LeveledType, RegionFrame};
use crate::make::{Fill, ModuleMaker};
use crate::scope::{LeveledOperand, VisibleValues};

/// A function's body that is being written.
pub(crate) struct BodyWriter<'m, 'c> {
    /// The module that the body belongs to.
    pub maker: &'m mut ModuleMaker<'c>,
    /// The writer that the instructions go to.
    pub writer: FunctionWriter,
    /// The values that are visible at this place.
    pub scope: VisibleValues,
    /// The regions around this place, the outermost first.
    pub frames: Vec<RegionFrame>,
    /// The index at which the lane's own slots begin.
    pub own: LeveledOperand,
    /// The largest number of times that a lane reaches this place.
    pub times: u64,
    /// The largest number of instructions that a lane has run so far.
    pub steps: u64,
    /// Whether the body uses shared memory.
    pub shares: bool,
    /// In a section: the first frame that a jump may still go to.
    pub section: Option<usize>,
}

/// Writes a statement, or returns false if it is not valid at this place.
type Statement = fn(&mut BodyWriter<'_, '_>) -> bool;

/// All statements with their weights. The first is valid everywhere.
const STATEMENTS: &[(usize, Statement)] = &[
    (28, |b| b.write_pure()),
    (10, |b| b.write_load()),
    (9, |b| b.write_store()),
    (5, |b| b.write_update()),
    (5, |b| b.write_atomic()),
    (4, |b| b.write_sum()),
    (4, |b| b.write_wide()),
    (1, |b| b.write_fence()),
    (1, |b| b.write_length()),
    (5, |b| b.write_subgroup_op()),
    (2, |b| b.write_group_op()),
    (3, |b| b.write_section()),
    (6, |b| b.write_if()),
    (3, |b| b.write_switch()),
    (3, |b| b.write_block()),
    (4, |b| b.write_loop()),
    (2, |b| b.write_while()),
    (2, |b| b.write_forever()),
    (4, |b| b.write_call()),
    (1, |b| b.write_effect()),
    (3, |b| b.write_wild()),
];

/// How far back the search for an operand goes, one entry chosen at random.
const BACK: &[usize] = &[0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6, 9];

impl<'m, 'c> BodyWriter<'m, 'c> {
    /// Creates an empty body with a level of control at its start.
    pub(crate) fn new(maker: &'m mut ModuleMaker<'c>, writer: FunctionWriter, control: UniformLevel) -> Self {
        let own = LeveledOperand { operand: 0_u32.into(), level: UniformLevel::Lane };
        BodyWriter {
            maker,
            writer,
            scope: VisibleValues::default(),
            frames: vec![RegionFrame::new(None, control)],
            own,
            times: 1,
            steps: 0,
            shares: false,
            section: None,
        }
    }

    /// Begins a function, whose first parameter says where the lane's own slots are.
    pub(crate) fn begin_function(&mut self, params: &[LeveledType], results: &[LeveledType]) {
        let values = self.writer.function().params;
        self.own.operand = values.get(0).into();
        for (value, (ty, level)) in values.iter().zip(params) {
            self.scope.define(value, *ty, *level);
        }
        self.frames[0].results = results.to_vec();
    }

    /// Begins a kernel, in which the lane computes where its own slots are.
    pub(crate) fn find_own_slots(&mut self) {
        let plain = |body: &mut Self, op, args: &[LeveledOperand]| body.push_single(op, Attr::None, args);
        let group = plain(self, Op::Group, &[]);
        let lanes = plain(self, Op::Lanes, &[]);
        let before = plain(self, Op::Mul, &[group, lanes]);
        let lane = plain(self, Op::Lane, &[]);
        let number = plain(self, Op::Add, &[before, lane]);
        self.own = plain(self, Op::Mul, &[number, constant_operand(4_u32)]);
    }

    /// Writes statements until the budget is spent or the choices say "enough".
    pub(crate) fn write_statements(&mut self) {
        while self.maker.budget > 0 && (self.maker.fill == Fill::All || self.maker.choose.below(256) > 0) {
            self.write_statement();
        }
    }

    /// Writes one statement.
    pub(crate) fn write_statement(&mut self) {
        let total = STATEMENTS.iter().map(|(share, _)| share).sum();
        let mut lot = self.maker.choose.below(total);
        let found = STATEMENTS.iter().find(|(share, _)| {
            let here = lot < *share;
            lot = lot.saturating_sub(if here { 0 } else { *share });
            here
        });
        if !found.is_some_and(|(_, statement)| statement(self)) {
            self.write_pure();
        }
    }

    /// Whether the module promises the same results under every schedule.
    pub(crate) fn promises_same(&self) -> bool {
        self.maker.config.promise == Promise::Same
    }

    /// The innermost frame.
    pub(crate) fn innermost_frame(&mut self) -> &mut RegionFrame {
        self.frames.last_mut().expect("the body is a frame")
    }

    /// How uniform control is here.
    pub(crate) fn control_level(&self) -> UniformLevel {
        self.frames.last().map_or(UniformLevel::Lane, |frame| frame.control)
    }

    /// Chooses an operand of a type that is at least as uniform as `least`. It is usually a recent value, so that
    /// the last results depend on much of what came before.
    pub(crate) fn operand(&mut self, ty: Type, least: UniformLevel) -> LeveledOperand {
        let back = BACK.get(self.maker.choose.below(BACK.len() + 4));
        let value = back.and_then(|back| self.scope.find(ty, least, *back));
        value.unwrap_or_else(|| constant_operand(constant(self.maker.choose, ty)))
    }

    /// Chooses an operand of any level.
    pub(crate) fn any_operand(&mut self, ty: Type) -> LeveledOperand {
        self.operand(ty, UniformLevel::Lane)
    }

    /// Writes an instruction without regions, and makes its results visible to what follows.
    pub(crate) fn push_inst(&mut self, op: Op, attr: Attr, args: &[LeveledOperand]) -> Vec<LeveledOperand> {
        let operands: Vec<Operand> = args.iter().map(|arg| arg.operand).collect();
        let tys: Vec<Type> = operands.iter().map(|arg| self.writer.function().operand_ty(*arg)).collect();
        let results = write::result_types(&self.maker.module, op, &attr, &tys);
        let least = args.iter().map(|arg| arg.level).min().unwrap_or(UniformLevel::Group);
        let level = self.result_level(op, &attr, least);
        let (_, values) = self.write_inst(op, attr, operands, &results);
        let slots: Vec<LeveledType> = results.iter().map(|ty| (*ty, level)).collect();
        self.define_values(values, &slots)
    }

    /// Writes an instruction with one result.
    pub(crate) fn push_single(&mut self, op: Op, attr: Attr, args: &[LeveledOperand]) -> LeveledOperand {
        self.push_inst(op, attr, args)[0]
    }

    /// Writes any instruction, and counts it.
    pub(crate) fn write_inst(
        &mut self,
        op: Op,
        attr: Attr,
        args: Vec<Operand>,
        results: &[Type],
    ) -> (Inst, Values) {
        self.maker.budget = self.maker.budget.saturating_sub(1);
        self.steps = self.steps.saturating_add(self.times);
        self.writer.push(op, attr, args, results)
    }

    /// Makes values visible to what follows.
    pub(crate) fn define_values(&mut self, values: Values, slots: &[LeveledType]) -> Vec<LeveledOperand> {
        for (value, (ty, level)) in values.iter().zip(slots) {
            self.scope.define(value, *ty, *level);
        }
        let given = |(value, (_, level)): (_, &LeveledType)| LeveledOperand {
            operand: Operand::Value(value),
            level: *level,
        };
        values.iter().zip(slots).map(given).collect()
    }

    /// How uniform the results of an instruction are if its operands are at least at the level `least`.
    fn result_level(&self, op: Op, attr: &Attr, least: UniformLevel) -> UniformLevel {
        let frozen = |b| {
            let decl = &self.maker.module.buffers[b];
            decl.access == Access::Read && decl.space != Space::Host
        };
        match (op, op.effect(), attr) {
            (Op::Lane | Op::Sublane | Op::Elect | Op::Shuffle, ..) => UniformLevel::Lane,
            (Op::Subgroup, ..) => UniformLevel::Subgroup,
            (Op::GroupBroadcast, ..) => UniformLevel::Group,
            (_, OpEffect::Sync, _) => UniformLevel::Subgroup,
            (_, OpEffect::Pure, _) => least,
            (_, OpEffect::Read, Attr::Buffer(b)) if frozen(*b) => least,
            _ => UniformLevel::Lane,
        }
    }
}

/// A constant as an operand.
pub(crate) fn constant_operand(c: impl Into<Const>) -> LeveledOperand {
    LeveledOperand { operand: Operand::Const(c.into()), level: UniformLevel::Group }
}
