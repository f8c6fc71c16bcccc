//! The analysis of which values are needed, and which ptxas would delete together with everything that leads to them.

use crate::arena::{Handle, Inst, Value};
use crate::module::{Attr, Function, Operand};
use crate::op::{Op, OpEffect};

/// Returns for each value whether an observable effect depends on it.
pub(super) fn live(function: &Function) -> Vec<bool> {
    let mut graph = Graph { function, needs: vec![Vec::new(); function.values().len()], roots: Vec::new() };
    graph.region(None, function.body);
    let mut live = vec![false; graph.needs.len()];
    while let Some(value) = graph.roots.pop() {
        if !std::mem::replace(&mut live[value.index()], true) {
            graph.roots.extend(&graph.needs[value.index()]);
        }
    }
    live
}

struct Graph<'a> {
    function: &'a Function,
    /// The values that each value depends on.
    needs: Vec<Vec<Value>>,
    roots: Vec<Value>,
}

impl Graph<'_> {
    /// Records that each of some values depends on the operand at the same index.
    fn flow(&mut self, to: impl Iterator<Item = Value>, from: &[Operand]) {
        for (to, from) in to.zip(from) {
            self.needs[to.index()].extend(from.value());
        }
    }

    fn region(&mut self, owner: Option<(Inst, usize)>, region: crate::arena::Region) {
        let function = self.function;
        for inst in &function.region(region).insts {
            let node = function.inst(*inst);
            match (node.op, &node.attr) {
                (Op::Yield, _) => self.end(owner, &node.args),
                (Op::Break, Attr::Target(target)) => {
                    self.flow(function.inst(*target).results.iter(), &node.args);
                }
                (Op::Continue, Attr::Target(target)) => self.flow(carried(function, *target), &node.args),
                (op, _) if op.has_regions() => {
                    let fixed = op.row().args.len();
                    self.roots.extend(node.args[..fixed].iter().filter_map(|arg| arg.value()));
                    if op.is_loop() {
                        self.flow(carried(function, *inst), node.carried());
                    }
                    if matches!(op, Op::Loop | Op::While) {
                        let params: Vec<Operand> = carried(function, *inst).map(Operand::Value).collect();
                        self.flow(node.results.iter(), &params);
                    }
                    for (k, region) in node.regions.iter().enumerate() {
                        self.region(Some((*inst, k)), *region);
                    }
                }
                (op, _) => {
                    let used = node.args.iter().filter_map(|arg| arg.value());
                    match op.effect() {
                        OpEffect::Pure | OpEffect::Read => {
                            for result in node.results.iter() {
                                self.needs[result.index()].extend(used.clone());
                            }
                        }
                        _ => self.roots.extend(used),
                    }
                }
            }
        }
    }

    fn end(&mut self, owner: Option<(Inst, usize)>, args: &[Operand]) {
        let Some((owner, at)) = owner else { return };
        let node = self.function.inst(owner);
        match node.op {
            Op::While if at == 0 => self.roots.extend(args.iter().filter_map(|arg| arg.value())),
            op if op.is_loop() => self.flow(carried(self.function, owner), args),
            _ => self.flow(node.results.iter(), args),
        }
    }
}

/// The values that a loop carries, as its body sees them.
pub(super) fn carried(function: &Function, inst: Inst) -> impl Iterator<Item = Value> + use<> {
    let node = function.inst(inst);
    let params = function.region(node.regions[0]).params;
    params.iter().skip(usize::from(node.op == Op::Loop))
}
