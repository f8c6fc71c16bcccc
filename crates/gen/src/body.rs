//! The body of a function: statements by lot, and what they all need.

use pelton_ir::arena::{Inst, Values};
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::{Effect, Op};
use pelton_ir::types::{Access, Const, Space, Type};
use pelton_ir::valid::Level;
use pelton_ir::write::{self, Writer};

use crate::config::Promise;
use crate::constant::constant;
use crate::frame::{Frame, Slot};
use crate::make::{Fill, Make};
use crate::scope::{Given, Scope};

/// A body in the making.
pub struct Body<'m, 'c> {
    /// The module it belongs to.
    pub make: &'m mut Make<'c>,
    /// Writes it.
    pub writer: Writer,
    /// What it can use here.
    pub scope: Scope,
    /// What is around this place, the body first.
    pub frames: Vec<Frame>,
    /// Where the lane's own slots begin.
    pub own: Given,
    /// How often a lane comes here at most.
    pub times: u64,
    /// How many instructions a lane runs at most, so far.
    pub steps: u64,
    /// Whether it uses shared memory.
    pub shares: bool,
    /// In a section: the first frame that jumps may still go to.
    pub section: Option<usize>,
}

/// A statement; false if it cannot be made here.
type Statement = fn(&mut Body<'_, '_>) -> bool;

/// All statements with their shares. The first can be made anywhere.
const STATEMENTS: &[(usize, Statement)] = &[
    (28, |b| b.pure()),
    (10, |b| b.load()),
    (9, |b| b.store()),
    (5, |b| b.update()),
    (5, |b| b.atomic()),
    (4, |b| b.sum()),
    (4, |b| b.wide()),
    (1, |b| b.fence()),
    (1, |b| b.length()),
    (5, |b| b.subgroup()),
    (2, |b| b.group()),
    (3, |b| b.section()),
    (6, |b| b.choice()),
    (3, |b| b.switch()),
    (3, |b| b.block()),
    (4, |b| b.count()),
    (2, |b| b.repeat()),
    (2, |b| b.forever()),
    (4, |b| b.call()),
    (1, |b| b.world()),
    (3, |b| b.wild()),
];

/// How far back an operand is looked for.
const BACK: &[usize] = &[0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6, 9];

impl<'m, 'c> Body<'m, 'c> {
    /// An empty body with that control at its start.
    pub fn new(make: &'m mut Make<'c>, writer: Writer, control: Level) -> Self {
        let own = Given { operand: 0_u32.into(), level: Level::Lane };
        Body {
            make,
            writer,
            scope: Scope::default(),
            frames: vec![Frame::new(None, control)],
            own,
            times: 1,
            steps: 0,
            shares: false,
            section: None,
        }
    }

    /// Begins a function: the first parameter says where the lane's own slots are.
    pub fn enter(&mut self, params: &[Slot], results: &[Slot]) {
        let values = self.writer.function().params;
        self.own.operand = values.get(0).into();
        for (value, (ty, level)) in values.iter().zip(params) {
            self.scope.define(value, *ty, *level);
        }
        self.frames[0].results = results.to_vec();
    }

    /// Begins a kernel: the lane finds its own slots.
    pub fn number(&mut self) {
        let plain = |body: &mut Self, op, args: &[Given]| body.plain(op, Attr::None, args);
        let group = plain(self, Op::Group, &[]);
        let lanes = plain(self, Op::Lanes, &[]);
        let before = plain(self, Op::Mul, &[group, lanes]);
        let lane = plain(self, Op::Lane, &[]);
        let number = plain(self, Op::Add, &[before, lane]);
        self.own = plain(self, Op::Mul, &[number, known(4_u32)]);
    }

    /// Statements until the budget is spent or it is enough.
    pub fn statements(&mut self) {
        while self.make.budget > 0 && (self.make.fill == Fill::All || self.make.choose.below(256) > 0) {
            self.statement();
        }
    }

    /// A statement.
    pub fn statement(&mut self) {
        let total = STATEMENTS.iter().map(|(share, _)| share).sum();
        let mut lot = self.make.choose.below(total);
        let found = STATEMENTS.iter().find(|(share, _)| {
            let here = lot < *share;
            lot = lot.saturating_sub(if here { 0 } else { *share });
            here
        });
        if !found.is_some_and(|(_, statement)| statement(self)) {
            self.pure();
        }
    }

    /// Whether the module promises the same results under every schedule.
    pub fn same(&self) -> bool {
        self.make.config.promise == Promise::Same
    }

    /// The innermost frame.
    pub fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the body is a frame")
    }

    /// How uniform control is here.
    pub fn control(&self) -> Level {
        self.frames.last().map_or(Level::Lane, |frame| frame.control)
    }

    /// An operand of a type that is at least so uniform: mostly a value that came not long ago, so that what comes at
    /// last depends on much of what came before.
    pub fn operand(&mut self, ty: Type, least: Level) -> Given {
        let back = BACK.get(self.make.choose.below(BACK.len() + 4));
        let value = back.and_then(|back| self.scope.find(ty, least, *back));
        value.unwrap_or_else(|| known(constant(self.make.choose, ty)))
    }

    /// An operand of any level.
    pub fn any(&mut self, ty: Type) -> Given {
        self.operand(ty, Level::Lane)
    }

    /// Writes an instruction without regions, and lets what follows use its results.
    pub fn push(&mut self, op: Op, attr: Attr, args: &[Given]) -> Vec<Given> {
        let operands: Vec<Operand> = args.iter().map(|arg| arg.operand).collect();
        let tys: Vec<Type> = operands.iter().map(|arg| self.writer.function().operand_ty(*arg)).collect();
        let results = write::results(&self.make.module, op, &attr, &tys);
        let least = args.iter().map(|arg| arg.level).min().unwrap_or(Level::Group);
        let level = self.result_level(op, &attr, least);
        let (_, values) = self.inst(op, attr, operands, &results);
        let slots: Vec<Slot> = results.iter().map(|ty| (*ty, level)).collect();
        self.define(values, &slots)
    }

    /// Writes an instruction with one result.
    pub fn plain(&mut self, op: Op, attr: Attr, args: &[Given]) -> Given {
        self.push(op, attr, args)[0]
    }

    /// Writes any instruction, and counts it.
    pub fn inst(&mut self, op: Op, attr: Attr, args: Vec<Operand>, results: &[Type]) -> (Inst, Values) {
        self.make.budget = self.make.budget.saturating_sub(1);
        self.steps = self.steps.saturating_add(self.times);
        self.writer.push(op, attr, args, results)
    }

    /// Makes values visible.
    pub fn define(&mut self, values: Values, slots: &[Slot]) -> Vec<Given> {
        for (value, (ty, level)) in values.iter().zip(slots) {
            self.scope.define(value, *ty, *level);
        }
        let given = |(value, (_, level)): (_, &Slot)| Given { operand: Operand::Value(value), level: *level };
        values.iter().zip(slots).map(given).collect()
    }

    /// How uniform the results of an instruction are whose operands are at least so uniform.
    fn result_level(&self, op: Op, attr: &Attr, least: Level) -> Level {
        let frozen = |b| {
            let decl = &self.make.module.buffers[b];
            decl.access == Access::Read && decl.space != Space::Host
        };
        match (op, op.effect(), attr) {
            (Op::Lane | Op::Sublane | Op::Elect | Op::Shuffle, ..) => Level::Lane,
            (Op::Subgroup, ..) => Level::Subgroup,
            (Op::GroupBroadcast, ..) => Level::Group,
            (_, Effect::Sync, _) => Level::Subgroup,
            (_, Effect::Pure, _) => least,
            (Op::Load, _, Attr::Buffer(b)) if frozen(*b) => least,
            _ => Level::Lane,
        }
    }
}

/// A constant as an operand.
pub fn known(c: impl Into<Const>) -> Given {
    Given { operand: Operand::Const(c.into()), level: Level::Group }
}
