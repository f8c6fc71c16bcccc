//! Building the dependency graph of a function.
//!
//! **Jumps.** Lanes that jump are missing from the jump to the end of what it leaves or, for `continue`, of the
//! iteration: all control in between depends on the control of the jump. If they leave a loop, its next iterations
//! run without them too: then the whole body does. Where they meet the others again, values come from different
//! ways: results and carried values depend on the control of the jump.

use super::flow::{DependencyGraph, Edge, LANE, Point, SUBGROUP, Summary, param};
use crate::arena::{Handle, Inst, Region, Value, Values};
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::{Op, OpEffect};
use crate::types::{Access, Space};

/// Builds the graph of a function, given the summaries of the functions before it.
pub(super) fn flow(module: &Module, function: &Function, earlier: &[Summary]) -> DependencyGraph {
    let values = function.values.len() as Point;
    let count = function.results.len() as Point;
    let flow = DependencyGraph {
        edges: Vec::with_capacity(function.insts.len() * 2),
        sources: Vec::new(),
        control: vec![0; function.insts.len()],
        results: (values..values + count).collect(),
        points: values + count,
    };
    let mut build = FlowBuilder { module, function, earlier, flow, frames: Vec::new() };
    let start = build.point();
    build.frames.push(EscapeFrame { inst: None, start, escapes: Vec::new() });
    build.region(function.body, start);
    build.flow
}

fn point(value: Value) -> Point {
    value.index() as Point
}

/// The function, or an instruction with regions, while its regions are walked.
struct EscapeFrame {
    /// The instruction, or `None` for the function itself.
    inst: Option<Inst>,
    /// The control that its first region starts with.
    start: Point,
    /// The jumps from inside to frames around this one: the index of the target frame, and the control of the lanes
    /// that jump.
    escapes: Vec<(usize, Point)>,
}

struct FlowBuilder<'m> {
    module: &'m Module,
    function: &'m Function,
    earlier: &'m [Summary],
    flow: DependencyGraph,
    /// What is around the current instruction, the function first.
    frames: Vec<EscapeFrame>,
}

impl FlowBuilder<'_> {
    fn point(&mut self) -> Point {
        self.flow.points += 1;
        self.flow.points - 1
    }

    fn edge(&mut self, to: Point, from: Point, why: Inst) {
        self.flow.edges.push(Edge { to, from, why });
    }

    /// Adds the dependency of a node on an operand. Constants cause no dependency.
    fn uses(&mut self, to: Point, from: Operand, why: Inst) {
        if let Operand::Value(value) = from {
            self.edge(to, point(value), why);
        }
    }

    /// Walks a region and returns the control at its end.
    fn region(&mut self, region: Region, mut control: Point) -> Point {
        let function = self.function;
        for inst in &function.regions[region].insts {
            let node = &function.insts[*inst];
            self.flow.control[inst.index()] = control;
            match node.op {
                Op::Yield => {}
                Op::Break | Op::Continue | Op::Return => self.jump(*inst, node, control),
                Op::Call => self.call(*inst, node),
                op if op.has_regions() => control = self.nest(*inst, node, control),
                _ => self.plain(*inst, node),
            }
        }
        control
    }

    /// An instruction without regions: its results depend on its operands, unless it is a source.
    fn plain(&mut self, inst: Inst, node: &Node) {
        let mask = match (node.op, node.op.effect()) {
            (Op::Lane | Op::Sublane | Op::Elect | Op::Shuffle, _) => LANE,
            (Op::Subgroup, _) => SUBGROUP,
            (Op::GroupBroadcast, _) => return,
            (_, OpEffect::Sync) => SUBGROUP,
            (_, OpEffect::Pure) => 0,
            (_, OpEffect::Read) if self.frozen(node) => 0,
            _ => LANE,
        };
        for result in node.results.iter() {
            let to = point(result);
            match mask {
                0 => node.args.iter().for_each(|arg| self.uses(to, *arg, inst)),
                mask => self.flow.sources.push((to, mask, inst)),
            }
        }
    }

    /// Whether nobody writes the buffer while the kernel runs.
    fn frozen(&self, node: &Node) -> bool {
        let decl = node.buffer().map(|b| &self.module.buffers[b]);
        decl.is_some_and(|decl| decl.access == Access::Read && decl.space != Space::Host)
    }

    /// Adds the dependencies of a call's results, which follow from the masks of the callee. Which lanes make the call
    /// does not matter, because only those lanes get results.
    fn call(&mut self, inst: Inst, node: &Node) {
        let Attr::Call(callee) = node.attr else { return };
        let earlier = self.earlier;
        for (result, mask) in node.results.iter().zip(&earlier[callee.index()].results) {
            let to = point(result);
            if mask & (LANE | SUBGROUP) != 0 {
                self.flow.sources.push((to, mask & (LANE | SUBGROUP), inst));
            }
            for (k, arg) in node.args.iter().enumerate() {
                if mask & param(k) != 0 {
                    self.uses(to, *arg, inst);
                }
            }
        }
    }

    /// An instruction with regions; gives the control after it.
    fn nest(&mut self, inst: Inst, node: &Node, control: Point) -> Point {
        let start = self.point();
        self.edge(start, control, inst);
        self.frames.push(EscapeFrame { inst: Some(inst), start, escapes: Vec::new() });
        match node.op {
            Op::If | Op::Switch => self.choice(inst, node, start),
            Op::Block => self.flows(node.regions[0], start, node.results),
            Op::While => self.test(inst, node, start),
            _ => self.counted(inst, node, start),
        }
        let frame = self.frames.pop().expect("it was pushed");
        if frame.escapes.is_empty() {
            return control;
        }
        // At most as uniform as `control`: the jumps lie inside, so their control is.
        let after = self.point();
        for (target, from) in frame.escapes {
            self.edge(after, from, inst);
            if node.op.is_loop() {
                self.edge(start, from, inst);
            }
            self.escape(target, from, inst);
        }
        after
    }

    fn choice(&mut self, inst: Inst, node: &Node, start: Point) {
        self.uses(start, node.args[0], inst);
        for region in &node.regions {
            self.flows(*region, start, node.results);
        }
        for result in node.results.iter() {
            self.uses(point(result), node.args[0], inst);
        }
    }

    /// A `loop` or `forever`. The bounds of a `loop` decide when lanes leave it.
    fn counted(&mut self, inst: Inst, node: &Node, start: Point) {
        let params = self.function.regions[node.regions[0]].params;
        let bounds = &node.args[..node.op.row().args.len()];
        let carried = self.carried(node);
        for bound in bounds {
            self.uses(start, *bound, inst);
        }
        if let [from, _, step] = bounds {
            let counter = point(params.get(0));
            self.uses(counter, *from, inst);
            self.uses(counter, *step, inst);
            for (result, param) in node.results.iter().zip(carried.iter()) {
                self.edge(point(result), point(param), inst);
                bounds.iter().for_each(|bound| self.uses(point(result), *bound, inst));
            }
        }
        self.starts(inst, node);
        self.flows(node.regions[0], start, carried);
    }

    /// A `while`. Its condition decides when lanes leave it.
    fn test(&mut self, inst: Inst, node: &Node, start: Point) {
        let params = self.function.regions[node.regions[0]].params;
        self.starts(inst, node);
        let end = self.region(node.regions[0], start);
        if let Some(condition) = self.condition(node) {
            self.uses(start, condition, inst);
            for (result, param) in node.results.iter().zip(params.iter()) {
                self.uses(point(result), condition, inst);
                self.edge(point(result), point(param), inst);
            }
        }
        self.flows(node.regions[1], end, params);
    }

    /// What the test of a `while` yields; none if it always leaves.
    fn condition(&self, node: &Node) -> Option<Operand> {
        let last = self.function.regions[node.regions[0]].insts.last()?;
        let last = &self.function.insts[*last];
        last.args.first().copied().filter(|_| last.op == Op::Yield)
    }

    /// What a loop carries, in its first region.
    fn carried(&self, node: &Node) -> Values {
        let params = self.function.regions[node.regions[0]].params;
        let count = node.carried().len();
        let first = params.len() - count;
        if count == 0 { Values::new(0, 0) } else { Values::new(params.get(first).index(), count) }
    }

    /// Carried values depend on those they start with.
    fn starts(&mut self, inst: Inst, node: &Node) {
        for (param, init) in self.carried(node).iter().zip(node.carried()) {
            self.uses(point(param), *init, inst);
        }
    }

    /// Walks a region whose yield goes into these values.
    fn flows(&mut self, region: Region, start: Point, into: Values) {
        self.region(region, start);
        let function = self.function;
        let Some(last) = function.regions[region].insts.last() else { return };
        let node = &function.insts[*last];
        if node.op == Op::Yield {
            into.iter().zip(&node.args).for_each(|(value, arg)| self.uses(point(value), *arg, *last));
        }
    }

    fn jump(&mut self, inst: Inst, node: &Node, control: Point) {
        let function = self.function;
        let target = match node.attr {
            Attr::Target(target) => Some(target),
            _ => None,
        };
        let Some(depth) = self.frames.iter().rposition(|frame| frame.inst == target) else { return };
        let into: Vec<Point> = match (target, node.op) {
            (None, _) => self.flow.results.clone(),
            (Some(target), Op::Break) => function.insts[target].results.iter().map(point).collect(),
            (Some(target), _) => self.carried(&function.insts[target]).iter().map(point).collect(),
        };
        let last = depth + 1 == self.frames.len();
        for (to, arg) in into.into_iter().zip(&node.args) {
            self.uses(to, *arg, inst);
            // All remaining lanes reach the `return` at the end of the body.
            if !(last && target.is_none()) {
                self.edge(to, control, inst);
            }
        }
        if node.op == Op::Break && target.is_some_and(|target| function.insts[target].op.is_loop()) {
            self.edge(self.frames[depth].start, control, inst);
        }
        if !last {
            let gone = self.point();
            self.edge(gone, control, inst);
            self.escape(depth, gone, inst);
        }
    }

    /// Records in the innermost frame that lanes jump to a frame further out.
    fn escape(&mut self, target: usize, from: Point, why: Inst) {
        let inner = self.frames.len() - 1;
        if target >= inner {
            return;
        }
        let known = self.frames[inner].escapes.iter().position(|(other, _)| *other == target);
        match known {
            None => self.frames[inner].escapes.push((target, from)),
            // A new node: what the old one already holds for came before this jump.
            Some(at) => {
                let both = self.point();
                self.edge(both, self.frames[inner].escapes[at].1, why);
                self.edge(both, from, why);
                self.frames[inner].escapes[at].1 = both;
            }
        }
    }
}
