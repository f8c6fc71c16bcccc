//! Writing choices, blocks and jumps.

use crate::arena::{Inst, Region, Value};
use crate::module::{Attr, Operand};
use crate::op::{Op, OpEffect};
use crate::types::Order;
use crate::valid::UniformLevel;

use super::live::carried;
use super::lower::PtxLowering;
use super::write::{Predicate, PtxLabel, PtxReg};
use crate::arena::Handle;

/// The most instructions of an `if` that run under a predicate instead of being branched around.
const FEW: usize = 3;

/// The most values of a `switch` that are compared one after the other. More values are searched by halving.
const ROW: usize = 3;

/// What jumps to an instruction need to know.
#[derive(Clone)]
pub(super) struct JumpFrame {
    /// The label to which `break` goes, with the results.
    pub leave: PtxLabel,
    /// The label to which `continue` goes, with the carried values.
    pub again: Option<PtxLabel>,
    pub carried: Vec<Value>,
    pub results: Vec<Value>,
}

impl PtxLowering<'_> {
    /// The instructions of a region.
    pub(crate) fn region(&mut self, region: Region) {
        let function = self.function;
        function.region(region).insts.iter().for_each(|inst| self.inst(*inst));
    }

    /// A region of an instruction.
    pub(crate) fn within(&mut self, inst: Inst, at: usize) {
        self.owners.push((inst, at));
        self.region(self.function.inst(inst).regions[at]);
        self.owners.pop();
    }

    /// Returns whether a region ends with `yield` and not with a jump.
    pub(crate) fn falls(&self, inst: Inst, at: usize) -> bool {
        let block = self.function.region(self.function.inst(inst).regions[at]);
        block.insts.last().is_some_and(|last| self.function.inst(*last).op == Op::Yield)
    }

    /// Returns whether a region does nothing.
    fn idle(&self, inst: Inst, at: usize) -> bool {
        let block = self.function.region(self.function.inst(inst).regions[at]);
        let node = block.insts.first().map(|first| self.function.inst(*first));
        node.is_some_and(|node| node.op == Op::Yield && node.args.is_empty())
    }

    /// Whether a whole warp takes the same way at an instruction that chooses by an operand.
    fn together(&self, inst: Inst, on: Operand) -> bool {
        self.uniform.control_level(inst).min(self.uniform.operand_level(on)) >= UniformLevel::Subgroup
    }

    /// An instruction with regions.
    pub(crate) fn nest(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        if node.op == Op::If && self.predicated(inst) {
            return;
        }
        let leave = self.out.new_label("end");
        let again = node.op.is_loop().then(|| self.out.new_label("again"));
        let carried = if node.op.is_loop() { carried(self.function, inst).collect() } else { Vec::new() };
        let results = node.results.iter().collect();
        self.frames[inst.index()] = Some(JumpFrame { leave, again, carried, results });
        match node.op {
            Op::If => self.choice(inst, leave),
            Op::Switch => self.switch(inst, leave),
            Op::Block => self.within(inst, 0),
            Op::Loop => self.count(inst),
            _ => self.repeat(inst),
        }
        self.frames[inst.index()] = None;
        self.out.place_label(leave);
    }

    fn choice(&mut self, inst: Inst, leave: PtxLabel) {
        let on = self.function.inst(inst).args[0];
        let (c, uniform) = (self.held(on), self.together(inst, on));
        match (self.idle(inst, 0), self.idle(inst, 1)) {
            (true, _) => {
                self.out.branch(Predicate::If(c), leave, uniform);
                self.within(inst, 1);
            }
            (_, true) => {
                self.out.branch(Predicate::Unless(c), leave, uniform);
                self.within(inst, 0);
            }
            _ => {
                let other = self.out.new_label("else");
                self.out.branch(Predicate::Unless(c), other, uniform);
                self.within(inst, 0);
                if self.falls(inst, 0) {
                    self.out.branch(Predicate::Always, leave, true);
                }
                self.out.place_label(other);
                self.within(inst, 1);
            }
        }
    }

    /// An `if` without results that holds a few cheap instructions, or a jump: no branch around them.
    fn predicated(&mut self, inst: Inst) -> bool {
        let function = self.function;
        let node = function.inst(inst);
        let block = &function.region(node.regions[0]).insts;
        if !node.results.is_empty()
            || !self.idle(inst, 1)
            || block.len() > FEW
            || self.when != Predicate::Always
        {
            return false;
        }
        let (last, others) = block.split_last().expect("a region has an end");
        let last_node = function.inst(*last);
        let jumps = last_node.op != Op::Yield;
        let cheap = |inst: &Inst| {
            let node = function.inst(*inst);
            let quick =
                node.op.effect() == OpEffect::Pure && !matches!(node.op, Op::Div | Op::Rem | Op::Sqrt);
            let relaxed = !matches!(node.attr, Attr::Atomic(_, order, _) if order != Order::Relaxed);
            let writes = matches!(node.op, Op::Store | Op::AtomicStore | Op::StoreWide)
                || node.op.is_read_modify_write();
            quick || writes && relaxed
        };
        if !others.iter().all(cheap) || (others.is_empty() && !jumps) {
            return false;
        }
        let on = node.args[0];
        let (c, uniform) = (self.held(on), self.together(inst, on));
        self.when = Predicate::If(c);
        others.iter().for_each(|inst| self.inst(*inst));
        self.when = Predicate::Always;
        if jumps {
            self.jump(*last, Predicate::If(c), uniform);
        }
        true
    }

    fn switch(&mut self, inst: Inst, leave: PtxLabel) {
        let function = self.function;
        let node = function.inst(inst);
        let Attr::Cases(cases) = &node.attr else { return };
        let (on, uniform) = (self.held(node.args[0]), self.together(inst, node.args[0]));
        let labels: Vec<PtxLabel> = node.regions.iter().map(|_| self.out.new_label("case")).collect();
        let mut values: Vec<(u32, PtxLabel)> = Vec::new();
        for (case, label) in cases.iter().zip(&labels) {
            values.extend(case.iter().map(|value| (*value, *label)));
        }
        values.sort_unstable_by_key(|(value, _)| *value);
        let last = labels.len() - 1;
        self.search(on, &values, labels[last], uniform);
        for (k, label) in labels.iter().enumerate() {
            self.out.place_label(*label);
            self.within(inst, k);
            if k < last && self.falls(inst, k) {
                self.out.branch(Predicate::Always, leave, true);
            }
        }
    }

    /// Branches by a value to its label.
    fn search(&mut self, on: PtxReg, values: &[(u32, PtxLabel)], other: PtxLabel, uniform: bool) {
        let p = self.truth();
        if values.len() <= ROW {
            for (value, label) in values {
                self.out.push_line(format_args!("setp.eq.u32 {p}, {on}, {value}"));
                self.out.branch(Predicate::If(p), *label, uniform);
            }
            return self.out.branch(Predicate::Always, other, true);
        }
        let (low, high) = values.split_at(values.len() / 2);
        let upper = self.out.new_label("from");
        self.out.push_line(format_args!("setp.ge.u32 {p}, {on}, {}", high[0].0));
        self.out.branch(Predicate::If(p), upper, uniform);
        self.search(on, low, other, uniform);
        self.out.place_label(upper);
        self.search(on, high, other, uniform);
    }

    /// The end of a region.
    pub(crate) fn end(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        if node.op != Op::Yield {
            return self.jump(inst, Predicate::Always, false);
        }
        let Some((owner, at)) = self.owners.last().copied() else { return };
        let frame = self.frames[owner.index()].clone();
        match (self.function.inst(owner).op, frame) {
            (Op::While, _) if at == 0 => self.test(node.args[0]),
            (op, Some(frame)) if op.is_loop() => self.moves(Predicate::Always, &frame.carried, &node.args),
            (_, Some(frame)) => self.moves(Predicate::Always, &frame.results, &node.args),
            _ => {}
        }
    }

    /// `break`, `continue` and `return`.
    fn jump(&mut self, inst: Inst, when: Predicate, uniform: bool) {
        let node = self.function.inst(inst);
        let uniform = uniform || when == Predicate::Always;
        let frame = match node.attr {
            Attr::Target(target) => self.frames[target.index()].clone(),
            _ => None,
        };
        match (node.op, frame) {
            (Op::Break, Some(frame)) => {
                self.moves(when, &frame.results, &node.args);
                self.out.branch(when, frame.leave, uniform);
            }
            (Op::Continue, Some(JumpFrame { again: Some(again), carried, .. })) => {
                self.moves(when, &carried, &node.args);
                self.out.branch(when, again, uniform);
            }
            _ => self.out.push_line(format_args!("{when}exit")),
        }
    }
}
