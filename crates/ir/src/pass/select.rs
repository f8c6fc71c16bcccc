//! Turns `if` and `switch` into `select`, because a choice between cheap values is not worth a branch.
//!
//! **Law.** An `if` or `switch` all of whose regions yield, and hold but a few cheap pure ops, becomes those ops and
//! `select`s. Pure ops have no effect and never trap, so running every side changes nothing; the results are the
//! same, and as uniform as before, since both forms take the least of the condition and the sides. Loads stay where
//! they are: a load that was not asked for may cost more than a branch.

use crate::arena::{Handle, Inst, Values};
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::{Op, OpEffect};
use crate::types::Type;

use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::{RegionTree, yielded};

/// The most ops that one `if` may turn into, the selects included.
const IF: u32 = 6;

/// The most ops that one `switch` may turn into. A jump to one of many places is foreseen less often than a branch.
const SWITCH: u32 = 24;

/// More ops than any instruction may turn into.
const NEVER: u32 = SWITCH + 1;

/// The most results that it may have: with more, the selects would be more than the `if` and its two yields.
const RESULTS: usize = 3;

/// Turns the cheap choices of every function into selects.
pub(super) fn apply(module: &mut Module) -> bool {
    super::rewrite_each(module, |module, function| {
        let mut select = Select { costs: costs(function) };
        let some = function.insts().any(|(inst, node)| select.takes(node, inst));
        some.then(|| rewrite(module, function, &mut select))
    })
}

struct Select {
    costs: Vec<u32>,
}

impl Select {
    fn takes(&self, node: &Node, inst: Inst) -> bool {
        matches!(node.op, Op::If | Op::Switch) && self.costs[inst.index()] <= limit(node.op)
    }
}

/// The most ops that an instruction may turn into.
fn limit(op: Op) -> u32 {
    match op {
        Op::If => IF,
        _ => SWITCH,
    }
}

/// How many ops each instruction is once its choices are selects; `NEVER` if they cannot all be.
fn costs(function: &Function) -> Vec<u32> {
    let shape = RegionTree::new(function);
    let nodes: Vec<&Node> = function.insts().map(|(_, node)| node).collect();
    let mut costs: Vec<u32> = nodes.iter().map(|node| cost(function, node)).collect();
    // What an instruction holds comes after it, so the last are whole first.
    for at in (0..costs.len()).rev() {
        let own = if costs[at] <= limit(nodes[at].op) { costs[at] } else { NEVER };
        costs[at] = own;
        if let Some(parent) = shape.parent[at] {
            costs[parent.index()] = (costs[parent.index()] + own).min(NEVER);
        }
    }
    costs
}

/// How many ops an instruction counts for, without what it holds.
fn cost(function: &Function, node: &Node) -> u32 {
    let yields = || node.regions.iter().all(|region| yielded(function, *region).is_some());
    let chosen = || node.results.len() <= RESULTS && yields();
    match (node.op, &node.attr) {
        (Op::Yield, _) => 0,
        (Op::If, _) if chosen() => node.results.len() as u32,
        // A case of n values is n comparisons, n − 1 ors, and one select per result.
        (Op::Switch, Attr::Cases(cases)) if chosen() => {
            let ops = cases
                .iter()
                .map(|case| (2 * case.len()).saturating_sub(1) + node.results.len())
                .sum::<usize>();
            u32::try_from(ops).unwrap_or(NEVER).min(NEVER)
        }
        (Op::Div | Op::Rem | Op::Sqrt, _) => NEVER,
        (op, _) if op.effect() == OpEffect::Pure => 1,
        _ => NEVER,
    }
}

impl RewriteRule for Select {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        if !self.takes(node, inst) {
            return false;
        }
        let on = copy.operand(node.args[0]);
        let sides: Vec<Vec<Operand>> = node
            .regions
            .iter()
            .map(|region| {
                let end = yielded(copy.from, *region);
                copy.splice(self, *region, end)
            })
            .collect();
        let (last, sides) = sides.split_last().expect("a choice has regions");
        let conditions: Vec<Operand> = match &node.attr {
            Attr::Cases(cases) => cases.iter().map(|case| among(copy, inst, on, case)).collect(),
            _ => vec![on],
        };
        for (k, result) in node.results.iter().enumerate() {
            let ty = copy.from.ty(result);
            let mut chosen = last[k];
            for (condition, side) in conditions.iter().zip(sides) {
                if side[k] != chosen {
                    let args = vec![*condition, side[k], chosen];
                    chosen = value(copy.push(inst, Op::Select, Attr::None, args, &[ty]).1);
                }
            }
            copy.set(result, chosen);
            if let Operand::Value(value) = chosen
                && last[k] != chosen
            {
                copy.name(result, value);
            }
        }
        true
    }
}

/// Whether a number is one of a case's.
fn among(copy: &mut FunctionCopier<'_>, inst: Inst, on: Operand, case: &[u32]) -> Operand {
    let mut any = None;
    for number in case {
        let args = vec![on, Operand::from(*number)];
        let equal = value(copy.push(inst, Op::Eq, Attr::None, args, &[Type::Bool]).1);
        any = Some(match any {
            None => equal,
            Some(any) => value(copy.push(inst, Op::Or, Attr::None, vec![any, equal], &[Type::Bool]).1),
        });
    }
    any.unwrap_or(Operand::from(false))
}

fn value(values: Values) -> Operand {
    Operand::Value(values.get(0))
}
