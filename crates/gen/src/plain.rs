//! Statements of one instruction that access no memory.

use std::sync::LazyLock;

use pelton_ir::module::Attr;
use pelton_ir::op::{Op, OpEffect, OpForm, OpRow, TABLE, TypePattern};
use pelton_ir::types::{Type, TypeClass};
use pelton_ir::valid::UniformLevel;

use crate::body::{BodyWriter, constant_operand};
use crate::scope::LeveledOperand;

/// The rows of the op table that only compute.
static PURE: LazyLock<Vec<&OpRow>> = LazyLock::new(|| {
    let forms = [OpForm::Plain, OpForm::Typed];
    TABLE.iter().filter(|row| row.effect == OpEffect::Pure && forms.contains(&row.form)).collect()
});

/// The rows of the op table that lanes of a subgroup execute together.
static TOGETHER: LazyLock<Vec<&OpRow>> = LazyLock::new(|| {
    let whole = [Op::Barrier, Op::GroupBroadcast];
    TABLE.iter().filter(|row| row.effect == OpEffect::Sync && !whole.contains(&row.op)).collect()
});

impl BodyWriter<'_, '_> {
    /// Writes a pure instruction on any types.
    pub(crate) fn write_pure(&mut self) -> bool {
        let row = self.maker.choose.pick(&PURE);
        let ty = self.choose_type(row);
        let attr = match row.op {
            Op::Cast => Attr::Type(self.maker.choose.pick(TypeClass::Num.types())),
            Op::Bitcast => Attr::Type(self.maker.choose.pick(TypeClass::Word32.types())),
            _ => Attr::None,
        };
        let args = self.row_operands(row, ty, UniformLevel::Lane);
        self.push_inst(row.op, attr, &args);
        true
    }

    /// Writes an op that the lanes of a subgroup execute together.
    pub(crate) fn write_subgroup_op(&mut self) -> bool {
        if self.control_level() < UniformLevel::Subgroup {
            return false;
        }
        let row = self.maker.choose.pick(&TOGETHER);
        let ty = self.choose_type(row);
        let mut args = self.row_operands(row, ty, UniformLevel::Lane);
        if let Op::Shuffle | Op::Broadcast = row.op {
            let least = if row.op == Op::Broadcast { UniformLevel::Subgroup } else { UniformLevel::Lane };
            args[1] = self.number_below(least, 31);
        }
        self.push_inst(row.op, Attr::None, &args);
        true
    }

    /// Writes an op that the lanes of a group execute together.
    pub(crate) fn write_group_op(&mut self) -> bool {
        if self.control_level() < UniformLevel::Group {
            return false;
        }
        if self.maker.choose.one_in(3) {
            self.push_inst(Op::Barrier, Attr::None, &[]);
        } else {
            let ty = self.maker.choose.pick(Type::ALL);
            let args = [self.any_operand(ty), self.number_below(UniformLevel::Group, 31)];
            self.push_inst(Op::GroupBroadcast, Attr::None, &args);
        }
        true
    }

    /// Writes a fault, a pause, a wake, or rarely a trap.
    pub(crate) fn write_effect(&mut self) -> bool {
        let code = constant_operand(self.maker.code);
        match self.maker.choose.below(8) {
            0..4 => self.push_inst(Op::Fault, Attr::None, &[code]),
            4 => self.push_inst(Op::Wake, Attr::None, &[]),
            7 if self.maker.traps => self.push_inst(Op::Trap, Attr::None, &[code]),
            _ => self.push_inst(Op::Backoff, Attr::None, &[constant_operand(10_u32)]),
        };
        true
    }

    /// Writes a call of a function whose terms can be met at this place.
    pub(crate) fn write_call(&mut self) -> bool {
        let (control, times) = (self.control_level(), self.times);
        let room = self.maker.config.steps.saturating_sub(self.steps);
        let fits = |k: &usize| {
            let callee = &self.maker.callees[*k];
            let quiet = self.section.is_none() || !callee.shares;
            control >= callee.control && quiet && callee.steps.saturating_mul(times) <= room
        };
        let fitting: Vec<usize> = (0..self.maker.callees.len()).filter(fits).collect();
        if fitting.is_empty() {
            return false;
        }
        let at = self.maker.choose.pick(&fitting);
        let callee = self.maker.callees[at].clone();
        let mut args = vec![self.own];
        args.extend(callee.params[1..].iter().map(|(ty, level)| self.operand(*ty, *level)));
        let operands = args.iter().map(|arg| arg.operand).collect();
        let types = crate::make::types(&callee.results);
        let (_, values) = self.write_inst(Op::Call, Attr::Call(callee.func), operands, &types);
        self.define_values(values, &callee.results);
        self.steps = self.steps.saturating_add(callee.steps.saturating_mul(times));
        self.shares |= callee.shares;
        true
    }

    /// Chooses the type that `T` stands for in a row.
    pub(crate) fn choose_type(&mut self, row: &OpRow) -> Type {
        row.class.map_or(Type::U32, |class| self.maker.choose.pick(class.types()))
    }

    /// Chooses operands of a row's types.
    pub(crate) fn row_operands(&mut self, row: &OpRow, ty: Type, least: UniformLevel) -> Vec<LeveledOperand> {
        let of = |pat: &TypePattern| if let TypePattern::Is(ty) = pat { *ty } else { ty };
        row.args.iter().map(|(_, pat)| self.operand(of(pat), least)).collect()
    }

    /// Writes a number from 0 to `most`, which is a power of two minus one; sometimes any number.
    pub(crate) fn number_below(&mut self, least: UniformLevel, most: u32) -> LeveledOperand {
        let any = self.operand(Type::U32, least);
        match self.maker.choose.below(4) {
            3 => any,
            2 => constant_operand(self.maker.choose.below(most as usize + 1) as u32),
            _ => self.push_single(Op::And, Attr::None, &[any, constant_operand(most)]),
        }
    }
}
