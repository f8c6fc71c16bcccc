//! Statements of one instruction that touch no memory.

use std::sync::LazyLock;

use pelton_ir::module::Attr;
use pelton_ir::op::{Effect, Form, Op, Pat, Row, TABLE};
use pelton_ir::types::{Class, Type};
use pelton_ir::valid::Level;

use crate::body::{Body, known};
use crate::scope::Given;

/// Every row that only computes.
static PURE: LazyLock<Vec<&Row>> = LazyLock::new(|| {
    let forms = [Form::Plain, Form::Typed];
    TABLE.iter().filter(|row| row.effect == Effect::Pure && forms.contains(&row.form)).collect()
});

/// Every row that lanes of a subgroup do together.
static TOGETHER: LazyLock<Vec<&Row>> = LazyLock::new(|| {
    let whole = [Op::Barrier, Op::GroupBroadcast];
    TABLE.iter().filter(|row| row.effect == Effect::Sync && !whole.contains(&row.op)).collect()
});

impl Body<'_, '_> {
    /// A pure instruction on any types.
    pub fn pure(&mut self) -> bool {
        let row = self.make.choose.pick(&PURE);
        let ty = self.bound(row);
        let attr = match row.op {
            Op::Cast => Attr::Type(self.make.choose.pick(Class::Num.types())),
            Op::Bitcast => Attr::Type(self.make.choose.pick(Class::Word32.types())),
            _ => Attr::None,
        };
        let args = self.args(row, ty, Level::Lane);
        self.push(row.op, attr, &args);
        true
    }

    /// Something that the lanes of a subgroup do together.
    pub fn subgroup(&mut self) -> bool {
        if self.control() < Level::Subgroup {
            return false;
        }
        let row = self.make.choose.pick(&TOGETHER);
        let ty = self.bound(row);
        let mut args = self.args(row, ty, Level::Lane);
        if let Op::Shuffle | Op::Broadcast = row.op {
            let least = if row.op == Op::Broadcast { Level::Subgroup } else { Level::Lane };
            args[1] = self.number_below(least, 31);
        }
        self.push(row.op, Attr::None, &args);
        true
    }

    /// Something that the lanes of a group do together.
    pub fn group(&mut self) -> bool {
        if self.control() < Level::Group {
            return false;
        }
        if self.make.choose.one_in(3) {
            self.push(Op::Barrier, Attr::None, &[]);
        } else {
            let ty = self.make.choose.pick(Type::ALL);
            let args = [self.any(ty), self.number_below(Level::Group, 31)];
            self.push(Op::GroupBroadcast, Attr::None, &args);
        }
        true
    }

    /// A fault, a pause, or rarely a trap.
    pub fn world(&mut self) -> bool {
        let code = known(self.make.code);
        match self.make.choose.below(8) {
            0..4 => self.push(Op::Fault, Attr::None, &[code]),
            7 if self.make.traps => self.push(Op::Trap, Attr::None, &[code]),
            _ => self.push(Op::Backoff, Attr::None, &[known(10_u32)]),
        };
        true
    }

    /// Calls a function whose terms can be met here.
    pub fn call(&mut self) -> bool {
        let (control, times) = (self.control(), self.times);
        let room = self.make.config.steps.saturating_sub(self.steps);
        let fits = |k: &usize| {
            let callee = &self.make.callees[*k];
            let quiet = self.section.is_none() || !callee.shares;
            control >= callee.control && quiet && callee.steps.saturating_mul(times) <= room
        };
        let fitting: Vec<usize> = (0..self.make.callees.len()).filter(fits).collect();
        if fitting.is_empty() {
            return false;
        }
        let at = self.make.choose.pick(&fitting);
        let callee = self.make.callees[at].clone();
        let mut args = vec![self.own];
        args.extend(callee.params[1..].iter().map(|(ty, level)| self.operand(*ty, *level)));
        let operands = args.iter().map(|arg| arg.operand).collect();
        let types = crate::make::types(&callee.results);
        let (_, values) = self.inst(Op::Call, Attr::Call(callee.func), operands, &types);
        self.define(values, &callee.results);
        self.steps = self.steps.saturating_add(callee.steps.saturating_mul(times));
        self.shares |= callee.shares;
        true
    }

    /// What `T` is to be in a row.
    pub fn bound(&mut self, row: &Row) -> Type {
        row.class.map_or(Type::U32, |class| self.make.choose.pick(class.types()))
    }

    /// Operands of a row's types.
    pub fn args(&mut self, row: &Row, ty: Type, least: Level) -> Vec<Given> {
        let of = |pat: &Pat| if let Pat::Is(ty) = pat { *ty } else { ty };
        row.args.iter().map(|(_, pat)| self.operand(of(pat), least)).collect()
    }

    /// A number from 0 to `most`, which is a power of two less one, or sometimes any.
    pub fn number_below(&mut self, least: Level, most: u32) -> Given {
        let any = self.operand(Type::U32, least);
        match self.make.choose.below(4) {
            3 => any,
            2 => known(self.make.choose.below(most as usize + 1) as u32),
            _ => self.plain(Op::And, Attr::None, &[any, known(most)]),
        }
    }
}
