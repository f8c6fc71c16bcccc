//! `if` to `select`: a choice between values that are cheap is not worth a branch.
//!
//! **Law.** An `if` both of whose regions yield, and hold but a few cheap pure ops, becomes those ops and a
//! `select` a result. Pure ops have no effect and never trap, so running both sides changes nothing; the results
//! are the same, and as uniform as before, since both forms take the least of the condition and the sides. Loads
//! stay where they are: a load that was not asked for may cost more than a branch.

use crate::arena::{Handle, Inst};
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::{Effect, Op};

use super::rewrite::{Copier, Rule, rewrite};
use super::shape::{Shape, yielded};

/// The most ops that one `if` may turn into, the selects included.
const LIMIT: u32 = 6;

/// The most results that it may have: with more, the selects would be more than the `if` and its two yields.
const RESULTS: usize = 3;

/// Turns the cheap `if`s of every function into selects.
pub(super) fn apply(module: &mut Module) -> bool {
    super::each(module, |module, function| {
        let mut select = Select { costs: costs(function) };
        let some =
            function.insts().any(|(inst, node)| node.op == Op::If && select.costs[inst.index()] <= LIMIT);
        some.then(|| rewrite(module, function, &mut select))
    })
}

struct Select {
    costs: Vec<u32>,
}

/// How many ops each instruction is once its `if`s are selects; beyond the limit if it cannot be.
fn costs(function: &Function) -> Vec<u32> {
    let shape = Shape::new(function);
    let mut costs: Vec<u32> = function.insts().map(|(_, node)| cost(function, node)).collect();
    // What an instruction holds comes after it, so the last are whole first.
    for at in (0..costs.len()).rev() {
        if let Some(parent) = shape.parent[at] {
            costs[parent.index()] = (costs[parent.index()] + costs[at]).min(LIMIT + 1);
        }
    }
    costs
}

/// What an instruction itself counts.
fn cost(function: &Function, node: &Node) -> u32 {
    let yields = || node.regions.iter().all(|region| yielded(function, *region).is_some());
    match node.op {
        Op::Yield => 0,
        Op::If if node.results.len() <= RESULTS && yields() => node.results.len() as u32,
        Op::Div | Op::Rem | Op::Sqrt => LIMIT + 1,
        op if op.effect() == Effect::Pure => 1,
        _ => LIMIT + 1,
    }
}

impl Rule for Select {
    fn inst(&mut self, copy: &mut Copier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        if node.op != Op::If || self.costs[inst.index()] > LIMIT {
            return false;
        }
        let c = copy.operand(node.args[0]);
        let [then, other] = [0, 1].map(|at| {
            let end = yielded(copy.from, node.regions[at]);
            copy.splice(self, node.regions[at], end)
        });
        for (k, result) in node.results.iter().enumerate() {
            if then[k] == other[k] {
                copy.set(result, then[k]);
                continue;
            }
            let args = vec![c, then[k], other[k]];
            let (_, values) = copy.push(inst, Op::Select, Attr::None, args, &[copy.from.ty(result)]);
            copy.set(result, Operand::Value(values.get(0)));
            copy.name(result, values.get(0));
        }
        true
    }
}
