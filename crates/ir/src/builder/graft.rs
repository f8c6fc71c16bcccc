//! Copying a function of another module into a function that is being built.
//!
//! The buffers and callees that the function names belong to another module. A [`GraftRule`] therefore replaces each
//! instruction that names one, and every other instruction is copied as it is. The values that the function returns
//! become the results of the copy.

use super::{FunctionBuilder, Val};
use crate::arena::{Handle, Inst, Region, Values};
use crate::module::{Attr, Function, Node, Operand};
use crate::op::Op;
use crate::types::{Const, Scalar, Type};

/// Decides which instructions of a grafted function are replaced, and writes the replacements.
pub trait GraftRule {
    /// Replaces an instruction that has no regions and returns the operands that stand for its results, or returns
    /// `None` to have it copied. `args` are the operands that stand for its operands in the copy.
    fn inst(&mut self, inst: Inst, node: &Node, args: &[Operand]) -> Option<Vec<Operand>>;

    /// Is called when the region at index `at` of an instruction has been opened. `copy` is the copy of the
    /// instruction.
    fn enter(&mut self, _inst: Inst, _at: usize, _copy: Inst) {}
}

/// Methods that write instructions by their op, for code that copies or transforms functions.
impl<'b> FunctionBuilder<'b> {
    /// Adds an instruction without regions and returns its results, whose types come from the op table.
    pub fn push_op(&'b self, op: Op, attr: Attr, args: Vec<Operand>) -> Vec<Operand> {
        self.push(op, attr, args).iter().map(Operand::from).collect()
    }

    /// Returns an operand as a value of type `T`. The caller states the type.
    pub fn value<T: Scalar>(&'b self, operand: Operand) -> Val<'b, T> {
        Val { body: self, operand, ty: std::marker::PhantomData }
    }

    /// Copies the body of a function to this place under a rule, with `args` in place of its parameters. Returns what
    /// stands for the function's results.
    pub fn graft(&'b self, from: &Function, args: &[Operand], rule: &mut impl GraftRule) -> Vec<Operand> {
        let mut copy = Graft {
            body: self,
            from,
            values: vec![None; from.values().len()],
            labels: vec![None; from.insts().len()],
            out: None,
        };
        copy.bind(from.params, args);
        let insts = &from.region(from.body).insts;
        let returns = from.insts().filter(|(_, node)| node.op == Op::Return).count();
        if let Some(last) = insts.last()
            && returns == 1
            && from.inst(*last).op == Op::Return
        {
            // Nothing leaves early, so there is no block to leave.
            for inst in &insts[..insts.len() - 1] {
                copy.inst(*inst, rule);
            }
            return copy.operands(&from.inst(*last).args);
        }
        let (block, results) = self.nest(Op::Block, Attr::None, Vec::new(), &from.results);
        copy.out = Some(block);
        self.writer.borrow_mut().open_region(block, &[]);
        copy.region(from.body, rule);
        self.writer.borrow_mut().close_region();
        results.iter().map(Operand::from).collect()
    }
}

struct Graft<'b, 'f> {
    body: &'b FunctionBuilder<'b>,
    from: &'f Function,
    /// The operand that stands for each value of the function.
    values: Vec<Option<Operand>>,
    /// The copy of each loop and block.
    labels: Vec<Option<Inst>>,
    /// The block that a `return` leaves, if the function returns early.
    out: Option<Inst>,
}

impl Graft<'_, '_> {
    fn operands(&self, operands: &[Operand]) -> Vec<Operand> {
        let of = |operand: &Operand| match operand {
            // Only code that cannot be reached uses a value that nothing stands for.
            Operand::Value(value) => self.values[value.index()]
                .unwrap_or_else(|| Operand::Const(Const::zero(self.from.ty(*value)))),
            Operand::Const(_) => *operand,
        };
        operands.iter().map(of).collect()
    }

    fn bind(&mut self, values: Values, operands: &[Operand]) {
        for (value, operand) in values.iter().zip(operands) {
            self.values[value.index()] = Some(*operand);
            if let (Some(name), Operand::Value(new)) = (self.from.debug.value(value), operand) {
                self.body.name(*new, name);
            }
        }
    }

    /// Copies the instructions of a region into the one that is open, up to the first jump.
    fn region(&mut self, region: Region, rule: &mut impl GraftRule) {
        for inst in &self.from.region(region).insts {
            self.inst(*inst, rule);
            if self.body.writer.borrow().region_ended() {
                break;
            }
        }
    }

    fn inst(&mut self, inst: Inst, rule: &mut impl GraftRule) {
        let from = self.from;
        let node = from.inst(inst);
        let args = self.operands(&node.args);
        if node.op.has_regions() {
            return self.nest(inst, args, rule);
        }
        if let Some(results) = rule.inst(inst, node, &args) {
            return self.bind(node.results, &results);
        }
        let (op, attr) = match (node.op, &node.attr, self.out) {
            (Op::Return, _, Some(out)) => (Op::Break, Attr::Target(out)),
            (op, Attr::Target(target), _) => {
                (op, Attr::Target(self.labels[target.index()].unwrap_or(*target)))
            }
            (op, attr, _) => (op, attr.clone()),
        };
        let results = self.body.push_op(op, attr, args);
        self.bind(node.results, &results);
    }

    fn nest(&mut self, inst: Inst, args: Vec<Operand>, rule: &mut impl GraftRule) {
        let from = self.from;
        let node = from.inst(inst);
        let types = |values: Values| values.iter().map(|v| from.ty(v)).collect::<Vec<Type>>();
        let (new, results) = self.body.nest(node.op, node.attr.clone(), args, &types(node.results));
        self.labels[inst.index()] = Some(new);
        if let Some(name) = from.debug.label(inst) {
            self.body.writer.borrow_mut().debug_mut().labels.push((new, name.into()));
        }
        for (at, region) in node.regions.iter().enumerate() {
            let params = from.region(*region).params;
            let opened = self.body.writer.borrow_mut().open_region(new, &types(params));
            self.bind(params, &opened.iter().map(Operand::from).collect::<Vec<_>>());
            rule.enter(inst, at, new);
            self.region(*region, rule);
            self.body.writer.borrow_mut().close_region();
        }
        self.bind(node.results, &results.iter().map(Operand::from).collect::<Vec<_>>());
    }
}
