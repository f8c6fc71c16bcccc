//! Statements with regions that run at most once, and the ends of all regions.

use pelton_ir::arena::Inst;
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;
use pelton_ir::types::Type;
use pelton_ir::valid::UniformLevel;

use crate::body::{BodyWriter, constant_operand};
use crate::frame::{LeveledType, RegionFrame, possible_jumps};
use crate::make::{Fill, types};
use crate::scope::LeveledOperand;

impl BodyWriter<'_, '_> {
    /// Writes an `if`.
    pub(crate) fn write_if(&mut self) -> bool {
        let c = self.any_operand(Type::Bool);
        let Some((inst, results)) = self.begin_nest(Op::If, Attr::None, vec![c.operand]) else {
            return false;
        };
        self.push_frame(inst, Op::If, c.level, results);
        self.write_region(inst, &[]);
        self.write_region(inst, &[]);
        self.close_nest(inst);
        true
    }

    /// Writes a `switch`, usually on a small number.
    pub(crate) fn write_switch(&mut self) -> bool {
        let on = self.number_below(UniformLevel::Lane, 3);
        let count = self.maker.choose.below(4);
        let mut cases: Vec<Vec<u32>> = (0..count as u32).map(|k| vec![k]).collect();
        if let Some(first) = cases.first_mut()
            && self.maker.choose.one_in(2)
        {
            first.extend([u32::MAX, 7]);
        }
        let attr = Attr::Cases(cases);
        let Some((inst, results)) = self.begin_nest(Op::Switch, attr, vec![on.operand]) else { return false };
        self.push_frame(inst, Op::Switch, on.level, results);
        for _ in 0..=count {
            self.write_region(inst, &[]);
        }
        self.close_nest(inst);
        true
    }

    /// Writes a `block`.
    pub(crate) fn write_block(&mut self) -> bool {
        let Some((inst, results)) = self.begin_nest(Op::Block, Attr::None, Vec::new()) else { return false };
        self.push_frame(inst, Op::Block, UniformLevel::Group, results);
        self.write_region(inst, &[]);
        self.close_nest(inst);
        true
    }

    /// Whether an instruction with regions may be written at this place.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < self.maker.config.depth && self.maker.budget > 3
    }

    /// Writes an instruction with regions that carries no values, and chooses the types of its results.
    fn begin_nest(&mut self, op: Op, attr: Attr, args: Vec<Operand>) -> Option<(Inst, Vec<Type>)> {
        if !self.has_room() {
            return None;
        }
        let results = types(&self.maker.choose_types(2, UniformLevel::Lane));
        let (inst, _) = self.write_inst(op, attr, args, &results);
        Some((inst, results))
    }

    /// Begins the frame of an instruction whose control and results are at most at the level `level`.
    fn push_frame(&mut self, inst: Inst, op: Op, level: UniformLevel, results: Vec<Type>) {
        let mut frame = RegionFrame::new(Some((inst, op)), level.min(self.control_level()));
        frame.results = results.into_iter().map(|ty| (ty, level)).collect();
        self.frames.push(frame);
    }

    /// Writes a region of the innermost frame, including its end.
    pub(crate) fn write_region(&mut self, inst: Inst, params: &[LeveledType]) {
        self.open_region(inst, params);
        self.write_inside();
        self.end_region();
        self.close_region();
    }

    /// Opens a region.
    pub(crate) fn open_region(&mut self, inst: Inst, params: &[LeveledType]) -> Vec<LeveledOperand> {
        let start = self.innermost_frame().start;
        self.innermost_frame().control = start;
        self.scope.open();
        let values = self.writer.open_region(inst, &types(params));
        self.define_values(values, params)
    }

    /// Writes a few statements.
    pub(crate) fn write_inside(&mut self) {
        let most = self.maker.config.width.min(self.maker.budget);
        for _ in 0..self.maker.choose.below(most + 1) {
            self.write_statement();
        }
    }

    /// Closes a region whose end has been written.
    pub(crate) fn close_region(&mut self) {
        self.writer.close_region();
        self.scope.close();
    }

    /// Ends an instruction with regions, and makes its results visible to what follows.
    pub(crate) fn close_nest(&mut self, inst: Inst) {
        let frame = self.frames.pop().expect("it was pushed");
        if let Some(escape) = frame.escape {
            let around = self.innermost_frame();
            around.control = around.control.min(escape);
        }
        let values = self.writer.function().inst(inst).results;
        self.define_values(values, &frame.results);
    }

    /// Writes the end of a region: a jump, or a yield of the results.
    pub(crate) fn end_region(&mut self) {
        let floor = self.section.unwrap_or(0);
        let jumps = possible_jumps(&self.frames, floor);
        if jumps.is_empty() || !self.maker.choose.one_in(4) {
            return self.yield_results();
        }
        let jump = self.maker.choose.pick(&jumps);
        // An unconditional return makes everything after it dead. That is allowed now and then, but never in a long
        // function, because some condition may turn out to be a constant.
        let sure = || self.frames[1..].iter().all(RegionFrame::sure);
        let dead = match (jump.op, self.maker.fill) {
            (Op::Return, Fill::All) => true,
            (Op::Return, Fill::Some) => sure() && !self.maker.choose.one_in(16),
            _ => false,
        };
        if dead { self.yield_results() } else { self.write_jump(jump.op, jump.to) }
    }

    /// Writes a yield of the values that the innermost frame needs.
    fn yield_results(&mut self) {
        let at = self.frames.len() - 1;
        let frame = &self.frames[at];
        let args = match (frame.test, frame.loops()) {
            (true, _) => vec![constant_operand(false).operand],
            (_, true) => self.carried_operands(at),
            _ => self.frame_results(at, UniformLevel::Group),
        };
        self.write_inst(Op::Yield, Attr::None, args, &[]);
    }

    /// Writes a jump to a frame.
    pub(crate) fn write_jump(&mut self, op: Op, to: usize) {
        let control = self.control_level();
        let args = match op {
            Op::Break => self.frame_results(to, control),
            Op::Continue => self.carried_operands(to),
            _ => self.returned_operands(),
        };
        for frame in &mut self.frames[to + 1..] {
            frame.escape = Some(frame.escape.map_or(control, |escape| escape.min(control)));
        }
        let attr = self.frames[to].nest.map_or(Attr::None, |(inst, _)| Attr::Target(inst));
        self.write_inst(op, attr, args, &[]);
    }

    /// Chooses results for a frame, and lowers the levels of the frame's results to what the lanes at this place
    /// can promise.
    fn frame_results(&mut self, to: usize, control: UniformLevel) -> Vec<Operand> {
        let mut args = Vec::new();
        for k in 0..self.frames[to].results.len() {
            let (ty, level) = self.frames[to].results[k];
            let given = self.any_operand(ty);
            self.frames[to].results[k].1 = level.min(given.level).min(control);
            args.push(given.operand);
        }
        args
    }

    /// Chooses the values that a loop carries to its next iteration, at their planned levels.
    fn carried_operands(&mut self, to: usize) -> Vec<Operand> {
        let slots = self.frames[to].carried.clone();
        let fuel = self.frames[to].fuel;
        let rest = slots.iter().skip(usize::from(fuel.is_some()));
        let rest: Vec<LeveledOperand> = rest.map(|(ty, level)| self.operand(*ty, *level)).collect();
        fuel.into_iter().chain(rest).map(|given| given.operand).collect()
    }

    /// Chooses the function's results, at their planned levels.
    fn returned_operands(&mut self) -> Vec<Operand> {
        let slots = self.frames[0].results.clone();
        slots.iter().map(|(ty, level)| self.operand(*ty, *level).operand).collect()
    }

    /// Writes the return at the end of a function.
    pub(crate) fn end_function(&mut self) {
        let args = self.returned_operands();
        self.write_inst(Op::Return, Attr::None, args, &[]);
    }

    /// Writes a condition that is at least as uniform as `least` and false once `most` units of fuel are used.
    pub(crate) fn fuel_condition(
        &mut self,
        fuel: LeveledOperand,
        most: u32,
        least: UniformLevel,
    ) -> LeveledOperand {
        let left = self.push_single(Op::Lt, Attr::None, &[fuel, constant_operand(most)]);
        if self.maker.choose.one_in(2) {
            let also = self.operand(Type::Bool, least);
            return self.push_single(Op::And, Attr::None, &[left, also]);
        }
        left
    }
}
