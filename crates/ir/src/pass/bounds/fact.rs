//! What is known of each value at a place in the program, and what conditions add to it.

use crate::arena::{Buffer, Handle, Inst, Value};
use crate::module::{Function, Module, Node, Operand};
use crate::op::Op;
use crate::types::{Len, Type};

use super::range::IntRange;

/// The most nested ops of a condition that are examined.
const CONDITION: usize = 16;

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValueFact {
    /// The interval that contains the value.
    pub range: IntRange,
    /// The buffers whose length the value is below, one bit per buffer.
    pub below: u64,
    /// The buffers whose length the value does not exceed, one bit per buffer.
    pub upto: u64,
}

impl ValueFact {
    /// Creates a fact that states a range and nothing else.
    pub(crate) fn from_range(range: IntRange) -> ValueFact {
        ValueFact { range, below: 0, upto: 0 }
    }

    /// What holds of either of two values.
    pub(crate) fn join(self, other: ValueFact) -> ValueFact {
        ValueFact {
            range: self.range.join(other.range),
            below: self.below & other.below,
            upto: self.upto & other.upto,
        }
    }

    /// What holds of a value of which both hold.
    fn meet(self, other: ValueFact) -> ValueFact {
        ValueFact {
            range: self.range.meet(other.range),
            below: self.below | other.below,
            upto: self.upto | other.upto,
        }
    }
}

/// The bit of a buffer. Those beyond the 64th have none, and nothing is known of their lengths.
pub(super) fn bit(buffer: Buffer) -> u64 {
    1u64.checked_shl(buffer.index() as u32).unwrap_or(0)
}

/// The facts that hold where the walk is.
pub(super) struct ValueFacts<'a> {
    module: &'a Module,
    function: &'a Function,
    /// By value, and behind the values the length of each buffer.
    facts: Vec<ValueFact>,
    /// The instruction that gives each value.
    defs: Vec<Option<Inst>>,
    /// The facts to restore when the walk leaves a region.
    undo: Vec<(usize, ValueFact)>,
}

impl<'a> ValueFacts<'a> {
    pub(crate) fn new(module: &'a Module, function: &'a Function) -> Self {
        let values = function.values().map(|(_, ty)| ValueFact::from_range(IntRange::all_of(ty)));
        let lengths = module.buffers.iter().map(|(_, b)| match b.len {
            Len::Fixed(len) => ValueFact::from_range(IntRange::new(len.into(), len.into())),
            Len::Launch => ValueFact::from_range(IntRange::all_of(Type::U32)),
        });
        let mut defs = vec![None; function.values().len()];
        for (inst, node) in function.insts() {
            for value in node.results.iter() {
                defs[value.index()] = Some(inst);
            }
        }
        ValueFacts { module, function, facts: values.chain(lengths).collect(), defs, undo: Vec::new() }
    }

    pub(crate) fn get(&self, operand: Operand) -> ValueFact {
        match operand {
            Operand::Value(value) => self.facts[value.index()],
            Operand::Const(c) => ValueFact::from_range(IntRange::from_constant(c)),
        }
    }

    /// The length of a buffer.
    pub(crate) fn len(&self, buffer: Buffer) -> ValueFact {
        self.facts[self.function.values().len() + buffer.index()]
    }

    /// What holds of a value wherever it is seen.
    pub(crate) fn define(&mut self, value: Value, fact: ValueFact) {
        self.facts[value.index()] = fact;
    }

    /// Returns the current state, for [`restore`](Self::restore).
    pub(crate) fn checkpoint(&self) -> usize {
        self.undo.len()
    }

    /// Forgets everything that was learned since a checkpoint.
    pub(crate) fn restore(&mut self, mark: usize) {
        for (at, fact) in self.undo.drain(mark..).rev() {
            self.facts[at] = fact;
        }
    }

    /// Adds a fact about an operand, which holds until it is restored.
    pub(crate) fn learn(&mut self, operand: Operand, fact: ValueFact) {
        let Some(value) = operand.value() else { return };
        self.refine(value.index(), fact);
        let len = self.def(operand).filter(|node| node.op == Op::Len).and_then(Node::buffer);
        if let Some(b) = len {
            self.refine(self.function.values().len() + b.index(), ValueFact::from_range(fact.range));
        }
    }

    fn refine(&mut self, at: usize, fact: ValueFact) {
        let old = self.facts[at];
        let new = old.meet(fact);
        if new != old {
            self.undo.push((at, old));
            self.facts[at] = new;
        }
    }

    fn def(&self, operand: Operand) -> Option<&'a Node> {
        Some(self.function.inst(self.defs[operand.value()?.index()]?))
    }

    /// Adds what follows from a condition being `truth`.
    pub(crate) fn assume(&mut self, condition: Operand, truth: bool) {
        let mut work = vec![(condition, truth)];
        for _ in 0..CONDITION {
            let Some((operand, truth)) = work.pop() else { break };
            let Some(node) = self.def(operand) else { continue };
            match (node.op, truth) {
                (Op::Not, _) => work.push((node.args[0], !truth)),
                (Op::And, true) | (Op::Or, false) => work.extend(node.args.iter().map(|arg| (*arg, truth))),
                _ => self.compare(node, truth),
            }
        }
    }

    /// Adds what follows from a comparison of integers.
    fn compare(&mut self, node: &Node, truth: bool) {
        let &[a, b] = &node.args[..] else { return };
        if matches!(self.function.operand_ty(a), Type::F32 | Type::Bool) {
            return;
        }
        match (node.op, truth) {
            (Op::Lt, true) | (Op::Ge, false) => self.less(a, b, 1),
            (Op::Gt, true) | (Op::Le, false) => self.less(b, a, 1),
            (Op::Le, true) | (Op::Gt, false) => self.less(a, b, 0),
            (Op::Ge, true) | (Op::Lt, false) => self.less(b, a, 0),
            (Op::Eq, true) | (Op::Ne, false) => {
                let (at, bt) = (self.get(a), self.get(b));
                self.learn(a, bt);
                self.learn(b, at);
            }
            (Op::Ne, true) | (Op::Eq, false) => {
                self.differ(a, b);
                self.differ(b, a);
            }
            _ => {}
        }
    }

    /// a + gap ≤ b.
    fn less(&mut self, a: Operand, b: Operand, gap: i128) {
        let (fa, fb) = (self.get(a), self.get(b));
        let range = IntRange::new(fa.range.lo.min(fb.range.hi - gap), fb.range.hi - gap);
        let below = if gap > 0 { fb.below | fb.upto } else { fb.below };
        self.learn(a, ValueFact { range, below, upto: fb.upto | below });
        self.learn(
            b,
            ValueFact::from_range(IntRange::new(fa.range.lo + gap, fb.range.hi.max(fa.range.lo + gap))),
        );
    }

    /// a ≠ b: if b is one number at an end of a's range, that end goes.
    fn differ(&mut self, a: Operand, b: Operand) {
        let (ra, rb) = (self.get(a).range, self.get(b).range);
        if rb.lo == rb.hi && ra.lo < ra.hi {
            let lo = ra.lo + i128::from(ra.lo == rb.lo);
            let hi = ra.hi - i128::from(ra.hi == rb.hi);
            self.learn(a, ValueFact::from_range(IntRange::new(lo.min(hi), hi)));
        }
    }

    /// Which buffers' lengths bound the result of an op from above, by what its operands are known to be.
    pub(crate) fn capped(&self, node: &Node) -> (u64, u64) {
        let fact = |k: usize| self.get(node.args[k]);
        let u32s = node.results.len() == 1 && self.function.ty(node.results.get(0)) == Type::U32;
        let same = node.args.first().is_some_and(|arg| self.function.operand_ty(*arg) == Type::U32);
        match node.op {
            Op::Len => node.buffer().map_or((0, 0), |b| (0, bit(b))),
            Op::Select if u32s => {
                let both = fact(1).join(fact(2));
                (both.below, both.upto)
            }
            _ if !u32s || !same => (0, 0),
            // Never more than either operand.
            Op::And | Op::Min => (fact(0).below | fact(1).below, fact(0).upto | fact(1).upto),
            Op::Max => (fact(0).below & fact(1).below, fact(0).upto & fact(1).upto),
            // Never more than the first.
            Op::Shr | Op::Div => (fact(0).below, fact(0).upto),
            Op::Rem => {
                let (a, b) = (fact(0), fact(1));
                let under = if b.range.lo > 0 { b.below | b.upto } else { 0 };
                (a.below | under, a.upto | b.upto | under)
            }
            Op::Sub if fact(0).range.lo >= fact(1).range.hi => {
                let (a, b) = (fact(0), fact(1));
                let under = if b.range.lo > 0 { a.below | a.upto } else { a.below };
                (under, a.upto | under)
            }
            _ => (0, 0),
        }
    }

    /// The range of a buffer's length, as an op gives it.
    pub(crate) fn length(&self, node: &Node) -> Option<IntRange> {
        let b = node.buffer().filter(|b| self.module.buffers.get(*b).is_some())?;
        Some(self.len(b).range)
    }
}
