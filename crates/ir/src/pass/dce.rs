//! Dead code elimination, which removes what nothing needs.
//!
//! **Law.** Needed are effects, `return`s, calls of functions that have effects, and `while` and `forever`, which
//! may not end. With an instruction everything around it is needed, its operands, and the jumps that decide how
//! often or how far it runs. With a value is needed what gives it: of an `if`, `switch` or block the same result
//! of every way out, of a loop its initial value and the next ones. All else goes: pure ops and plain loads,
//! counted loops and choices without effects, and single results and carried values that are not used. Functions
//! stay, since a host may ask for any of them.

use crate::arena::{Handle, Inst, Value};
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::Op;

use super::effect;
use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::{RegionTree, yielded};

/// Removes what is dead from every function.
pub(super) fn apply(module: &mut Module) -> bool {
    let quiet = effect::quiet(module);
    super::rewrite_each(module, |module, function| {
        let mut live = Live::new(function);
        for (inst, node) in function.insts() {
            if node.op == Op::Return || effect::acts(node, &quiet) {
                live.inst(inst);
            }
        }
        live.close();
        if live.whole() {
            return None;
        }
        Some(rewrite(module, function, &mut Dce { live }))
    })
}

/// What defines a value.
#[derive(Clone, Copy)]
enum ValueOrigin {
    /// The caller of the function, which passes it as a parameter.
    Caller,
    /// An instruction, as the result with this index.
    Result(Inst, usize),
    /// A loop, as the region parameter with this index.
    Param(Inst, usize),
}

/// The instructions and values that are known to be needed.
struct Live<'a> {
    function: &'a Function,
    shape: RegionTree,
    origins: Vec<ValueOrigin>,
    insts: Vec<bool>,
    values: Vec<bool>,
    /// The items that have been marked and whose own needs have not been marked yet.
    work: Vec<LiveItem>,
}

enum LiveItem {
    Inst(Inst),
    Value(Value),
}

impl<'a> Live<'a> {
    fn new(function: &'a Function) -> Self {
        let mut origins = vec![ValueOrigin::Caller; function.values().len()];
        for (inst, node) in function.insts() {
            for (k, value) in node.results.iter().enumerate() {
                origins[value.index()] = ValueOrigin::Result(inst, k);
            }
            for region in &node.regions {
                for (k, value) in function.region(*region).params.iter().enumerate() {
                    origins[value.index()] = ValueOrigin::Param(inst, k);
                }
            }
        }
        Live {
            function,
            shape: RegionTree::new(function),
            insts: vec![false; function.insts().len()],
            values: vec![false; origins.len()],
            origins,
            work: Vec::new(),
        }
    }

    fn inst(&mut self, inst: Inst) {
        if !std::mem::replace(&mut self.insts[inst.index()], true) {
            self.work.push(LiveItem::Inst(inst));
        }
    }

    fn value(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.index()], true) {
            self.work.push(LiveItem::Value(value));
        }
    }

    fn operand(&mut self, operand: Operand) {
        if let Some(value) = operand.value() {
            self.value(value);
        }
    }

    /// Marks everything that the marked items need.
    fn close(&mut self) {
        while let Some(item) = self.work.pop() {
            match item {
                LiveItem::Inst(inst) => self.follow(inst),
                LiveItem::Value(value) => match self.origins[value.index()] {
                    ValueOrigin::Caller => {}
                    ValueOrigin::Result(inst, k) => self.result(inst, k),
                    ValueOrigin::Param(inst, k) => self.param(inst, k),
                },
            }
        }
    }

    /// An instruction needs what is around it, what it always reads, and the jumps to it.
    fn follow(&mut self, inst: Inst) {
        let node = self.function.inst(inst);
        if let Some(parent) = self.shape.parent[inst.index()] {
            self.inst(parent);
        }
        if let Attr::Target(target) = node.attr {
            self.inst(target);
            return;
        }
        let fixed = if node.op.has_regions() { node.op.row().args.len() } else { node.args.len() };
        for arg in &node.args[..fixed] {
            self.operand(*arg);
        }
        for at in 0..self.shape.jumps(inst).len() {
            self.inst(self.shape.jumps(inst)[at]);
        }
        if node.op == Op::While {
            self.exit(yielded(self.function, node.regions[0]), 0);
        }
    }

    /// The `k`-th operand of a way out, if that way exists.
    fn exit(&mut self, exit: Option<Inst>, k: usize) {
        if let Some(exit) = exit {
            self.operand(self.function.inst(exit).args[k]);
        }
    }

    /// The `k`-th operand of all jumps of an op to an instruction.
    fn jumps(&mut self, inst: Inst, op: Op, k: usize) {
        for at in 0..self.shape.jumps(inst).len() {
            let jump = self.shape.jumps(inst)[at];
            if self.function.inst(jump).op == op {
                self.exit(Some(jump), k);
            }
        }
    }

    fn result(&mut self, inst: Inst, k: usize) {
        self.inst(inst);
        let node = self.function.inst(inst);
        match node.op {
            Op::If | Op::Switch | Op::Block => {
                for region in &node.regions {
                    self.exit(yielded(self.function, *region), k);
                }
            }
            // Carried values are the results, so the two come and go together.
            Op::Loop | Op::While => self.value(carried(self.function, node, k)),
            _ => {}
        }
        self.jumps(inst, Op::Break, k);
    }

    fn param(&mut self, inst: Inst, at: usize) {
        self.inst(inst);
        let node = self.function.inst(inst);
        let Some(k) = at.checked_sub(counters(node)) else { return };
        self.operand(node.carried()[k]);
        self.exit(node.regions.last().and_then(|body| yielded(self.function, *body)), k);
        self.jumps(inst, Op::Continue, k);
        if matches!(node.op, Op::Loop | Op::While) {
            self.value(node.results.get(k));
        }
    }

    /// Whether nothing is dead.
    fn whole(&self) -> bool {
        let slots = |node: &Node| {
            let params = node.regions.iter().flat_map(|r| self.function.region(*r).params.iter());
            let skip = counters(node);
            node.results.iter().chain(params.skip(skip)).all(|value| self.values[value.index()])
        };
        self.function.insts().all(|(inst, node)| {
            node.op == Op::Yield || self.insts[inst.index()] && (!node.op.has_regions() || slots(node))
        })
    }

    /// Whether the `k`-th result of an instruction stays.
    fn keeps(&self, inst: Inst, k: usize) -> bool {
        self.values[self.function.inst(inst).results.get(k).index()]
    }

    /// Whether the `k`-th carried value of a loop stays.
    fn carries(&self, inst: Inst, k: usize) -> bool {
        self.values[carried(self.function, self.function.inst(inst), k).index()]
    }
}

/// How many parameters of a loop come before the carried values.
fn counters(node: &Node) -> usize {
    usize::from(node.op == Op::Loop)
}

/// The parameter that is a loop's `k`-th carried value.
fn carried(function: &Function, node: &Node, k: usize) -> Value {
    function.region(node.regions[0]).params.get(counters(node) + k)
}

struct Dce<'a> {
    live: Live<'a>,
}

impl RewriteRule for Dce<'_> {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        match node.op {
            Op::Yield => {
                let parent = self.live.shape.parent[inst.index()];
                let test = parent.is_some_and(|parent| self.tests(parent, inst));
                let looped = parent.is_some_and(|parent| copy.from.inst(parent).op.is_loop());
                self.jump(copy, inst, parent.filter(|_| !test), looped);
            }
            _ if !self.live.insts[inst.index()] => {}
            Op::Break | Op::Continue => {
                let Attr::Target(target) = node.attr else { return false };
                self.jump(copy, inst, Some(target), node.op == Op::Continue);
            }
            op if op.has_regions() => self.nest(copy, inst, node),
            _ => return false,
        }
        true
    }
}

impl Dce<'_> {
    /// Whether an instruction ends the test of a `while`.
    fn tests(&self, parent: Inst, inst: Inst) -> bool {
        let node = self.live.function.inst(parent);
        node.op == Op::While && self.live.function.region(node.regions[0]).insts.last() == Some(&inst)
    }

    /// Copies a way out with the operands that its target keeps: carried values or results.
    fn jump(&self, copy: &mut FunctionCopier<'_>, inst: Inst, target: Option<Inst>, carries: bool) {
        let node = copy.from.inst(inst);
        let stays = |k: usize| match target {
            Some(target) if carries => self.live.carries(target, k),
            Some(target) => self.live.keeps(target, k),
            None => true,
        };
        let args = node.args.iter().enumerate().filter(|(k, _)| stays(*k));
        let args = args.map(|(_, arg)| copy.operand(*arg)).collect();
        copy.write_inst(inst, node.op, copy.attr(node), args);
    }

    fn nest(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) {
        let fixed = node.args.len() - node.carried().len();
        let skip = counters(node);
        let stays =
            node.args.iter().enumerate().filter(|(k, _)| *k < fixed || self.live.carries(inst, k - fixed));
        let args = stays.map(|(_, arg)| copy.operand(*arg)).collect();
        let new = copy.choose(inst, node.op, node.attr.clone(), args, |k| self.live.keeps(inst, k));
        for region in &node.regions {
            copy.open(new, *region, |k| k < skip || self.live.carries(inst, k - skip));
            copy.insts(self, *region);
            copy.close(*region);
        }
    }
}
