//! Statements with regions that run at most once, and the ends of all regions.

use pelton_ir::arena::Inst;
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;
use pelton_ir::types::Type;
use pelton_ir::valid::Level;

use crate::body::{Body, known};
use crate::frame::{Frame, Slot, jumps};
use crate::make::{Fill, types};
use crate::scope::Given;

impl Body<'_, '_> {
    /// An `if`.
    pub fn choice(&mut self) -> bool {
        let c = self.any(Type::Bool);
        let Some((inst, results)) = self.nest(Op::If, Attr::None, vec![c.operand]) else { return false };
        self.frame_of(inst, Op::If, c.level, results);
        self.region(inst, &[]);
        self.region(inst, &[]);
        self.close(inst);
        true
    }

    /// A `switch`, mostly on a small number.
    pub fn switch(&mut self) -> bool {
        let on = self.number_below(Level::Lane, 3);
        let count = self.make.choose.below(4);
        let mut cases: Vec<Vec<u32>> = (0..count as u32).map(|k| vec![k]).collect();
        if let Some(first) = cases.first_mut()
            && self.make.choose.one_in(2)
        {
            first.extend([u32::MAX, 7]);
        }
        let attr = Attr::Cases(cases);
        let Some((inst, results)) = self.nest(Op::Switch, attr, vec![on.operand]) else { return false };
        self.frame_of(inst, Op::Switch, on.level, results);
        for _ in 0..=count {
            self.region(inst, &[]);
        }
        self.close(inst);
        true
    }

    /// A `block`.
    pub fn block(&mut self) -> bool {
        let Some((inst, results)) = self.nest(Op::Block, Attr::None, Vec::new()) else { return false };
        self.frame_of(inst, Op::Block, Level::Group, results);
        self.region(inst, &[]);
        self.close(inst);
        true
    }

    /// Whether something with regions may be written here.
    pub fn room(&self) -> bool {
        self.frames.len() < self.make.config.depth && self.make.budget > 3
    }

    /// Writes an instruction with regions that carries nothing, and chooses what it gives.
    fn nest(&mut self, op: Op, attr: Attr, args: Vec<Operand>) -> Option<(Inst, Vec<Type>)> {
        if !self.room() {
            return None;
        }
        let results = types(&self.make.slots(2, Level::Lane));
        let (inst, _) = self.inst(op, attr, args, &results);
        Some((inst, results))
    }

    /// Begins an instruction whose control and results are at most so uniform.
    fn frame_of(&mut self, inst: Inst, op: Op, level: Level, results: Vec<Type>) {
        let mut frame = Frame::new(Some((inst, op)), level.min(self.control()));
        frame.results = results.into_iter().map(|ty| (ty, level)).collect();
        self.frames.push(frame);
    }

    /// Writes a region of the innermost frame, with its end.
    pub fn region(&mut self, inst: Inst, params: &[Slot]) {
        self.open(inst, params);
        self.inside();
        self.end();
        self.shut();
    }

    /// Opens a region.
    pub fn open(&mut self, inst: Inst, params: &[Slot]) -> Vec<Given> {
        let start = self.frame().start;
        self.frame().control = start;
        self.scope.open();
        let values = self.writer.open(inst, &types(params));
        self.define(values, params)
    }

    /// A few statements.
    pub fn inside(&mut self) {
        let most = self.make.config.width.min(self.make.budget);
        for _ in 0..self.make.choose.below(most + 1) {
            self.statement();
        }
    }

    /// Closes a region that has its end.
    pub fn shut(&mut self) {
        self.writer.close();
        self.scope.close();
    }

    /// Ends an instruction with regions, and lets what follows use its results.
    pub fn close(&mut self, inst: Inst) {
        let frame = self.frames.pop().expect("it was pushed");
        if let Some(escape) = frame.escape {
            let around = self.frame();
            around.control = around.control.min(escape);
        }
        let values = self.writer.function().inst(inst).results;
        self.define(values, &frame.results);
    }

    /// Ends a region: by a jump, or by giving what is asked for.
    pub fn end(&mut self) {
        let floor = self.section.unwrap_or(0);
        let jumps = jumps(&self.frames, floor);
        if jumps.is_empty() || !self.make.choose.one_in(4) {
            return self.give();
        }
        let jump = self.make.choose.pick(&jumps);
        // A return that is not in doubt makes all that follows dead. One in a while is enough, and in a long function
        // none, since some condition turns out to be a constant.
        let sure = || self.frames[1..].iter().all(Frame::sure);
        let dead = match (jump.op, self.make.fill) {
            (Op::Return, Fill::All) => true,
            (Op::Return, Fill::Some) => sure() && !self.make.choose.one_in(16),
            _ => false,
        };
        if dead { self.give() } else { self.jump(jump.op, jump.to) }
    }

    /// Yields what the innermost frame asks for.
    fn give(&mut self) {
        let at = self.frames.len() - 1;
        let frame = &self.frames[at];
        let args = match (frame.test, frame.loops()) {
            (true, _) => vec![known(false).operand],
            (_, true) => self.carry(at),
            _ => self.result(at, Level::Group),
        };
        self.inst(Op::Yield, Attr::None, args, &[]);
    }

    /// Jumps to a frame.
    pub fn jump(&mut self, op: Op, to: usize) {
        let control = self.control();
        let args = match op {
            Op::Break => self.result(to, control),
            Op::Continue => self.carry(to),
            _ => self.returned(),
        };
        for frame in &mut self.frames[to + 1..] {
            frame.escape = Some(frame.escape.map_or(control, |escape| escape.min(control)));
        }
        let attr = self.frames[to].nest.map_or(Attr::None, |(inst, _)| Attr::Target(inst));
        self.inst(op, attr, args, &[]);
    }

    /// Results for a frame from lanes that are there together so far.
    fn result(&mut self, to: usize, control: Level) -> Vec<Operand> {
        let mut args = Vec::new();
        for k in 0..self.frames[to].results.len() {
            let (ty, level) = self.frames[to].results[k];
            let given = self.any(ty);
            self.frames[to].results[k].1 = level.min(given.level).min(control);
            args.push(given.operand);
        }
        args
    }

    /// What a loop carries to its next iteration, by its plan.
    fn carry(&mut self, to: usize) -> Vec<Operand> {
        let slots = self.frames[to].carried.clone();
        let fuel = self.frames[to].fuel;
        let rest = slots.iter().skip(usize::from(fuel.is_some()));
        let rest: Vec<Given> = rest.map(|(ty, level)| self.operand(*ty, *level)).collect();
        fuel.into_iter().chain(rest).map(|given| given.operand).collect()
    }

    /// What the function gives, by its plan.
    fn returned(&mut self) -> Vec<Operand> {
        let slots = self.frames[0].results.clone();
        slots.iter().map(|(ty, level)| self.operand(*ty, *level).operand).collect()
    }

    /// Ends a function.
    pub fn leave(&mut self) {
        let args = self.returned();
        self.inst(Op::Return, Attr::None, args, &[]);
    }

    /// A yes or no that is at least so uniform, mostly from a comparison with fuel in it.
    pub fn more(&mut self, fuel: Given, most: u32, least: Level) -> Given {
        let left = self.plain(Op::Lt, Attr::None, &[fuel, known(most)]);
        if self.make.choose.one_in(2) {
            let also = self.operand(Type::Bool, least);
            return self.plain(Op::And, Attr::None, &[left, also]);
        }
        left
    }
}
