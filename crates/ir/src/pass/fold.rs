//! Constant folding, which computes what is known in advance and simplifies what follows from it.
//!
//! **Law.** An op of constants becomes the constant that [`eval`] gives, which is what the interpreter would have
//! got. An identity of [`algebra`](super::algebra) replaces an op by an equal one. `if` and `switch` on a
//! constant become the region they choose; a loop that runs no time or once, and a block that nothing leaves
//! early, become what they hold. What all ways out of an instruction agree on is its result, and a value that a
//! loop hands on unchanged is its initial value. Inside a region that runs only if a condition holds, that
//! condition is a constant.
//!
//! Effects are neither dropped nor moved: only regions that never run go. A NaN that folding makes is the
//! canonical one, since the language leaves its bits open.

use crate::arena::{Inst, Value};
use crate::eval::eval;
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::{Op, OpEffect};
use crate::types::{Const, Len, NAN, Type};

use super::algebra::{self, Simplified};
use super::rewrite::{FunctionCopier, RewriteRule, rewrite};
use super::shape::{RegionTree, last, yielded};

/// Folds every function.
pub(super) fn apply(module: &mut Module) -> bool {
    super::rewrite_each(module, |module, function| {
        let mut fold = Fold { shape: RegionTree::new(function), learned: Vec::new() };
        Some(rewrite(module, function, &mut fold))
    })
}

struct Fold {
    shape: RegionTree,
    /// The operand that stood for the condition of each open region before the region was entered.
    learned: Vec<Option<(Value, Operand)>>,
}

impl RewriteRule for Fold {
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool {
        let node = copy.from.inst(inst);
        match node.op {
            Op::If | Op::Switch => self.choice(copy, node),
            Op::Block => self.block(copy, inst, node),
            Op::Loop => self.counted(copy, inst, node),
            Op::While => self.tested(copy, inst, node),
            op if op.effect() == OpEffect::Pure => pure(copy, inst, node),
            _ => false,
        }
    }

    fn enter(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, at: usize) {
        let node = copy.from.inst(inst);
        if at == 0 {
            self.agree(copy, inst, node);
        }
        let known = condition(copy.from, node, at);
        let value = known.and_then(|(operand, c)| Some((operand.value()?, c)));
        self.learned.push(value.map(|(value, _)| (value, copy.operand(value.into()))));
        if let Some((value, c)) = value {
            copy.set(value, Operand::Const(c));
        }
    }

    fn leave(&mut self, copy: &mut FunctionCopier<'_>, _inst: Inst, _at: usize) {
        if let Some((value, operand)) = self.learned.pop().flatten() {
            copy.set(value, operand);
        }
    }
}

impl Fold {
    /// An `if` or `switch` whose region is known.
    fn choice(&mut self, copy: &mut FunctionCopier<'_>, node: &Node) -> bool {
        let Operand::Const(on) = copy.operand(node.args[0]) else { return false };
        let at = match &node.attr {
            Attr::Cases(cases) => {
                let hit = cases.iter().position(|list| list.iter().any(|case| u64::from(*case) == on.bits()));
                hit.unwrap_or(node.regions.len() - 1)
            }
            _ => usize::from(on.bits() == 0),
        };
        let region = node.regions[at];
        let end = yielded(copy.from, region);
        let results = copy.splice(self, region, end);
        copy.bind(node.results, &results);
        true
    }

    /// A block that is left at its end alone.
    fn block(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) -> bool {
        let region = node.regions[0];
        let end = match *self.shape.jumps(inst) {
            [] => yielded(copy.from, region),
            [only] if last(copy.from, region) == Some(only) => Some(only),
            _ => return false,
        };
        let results = copy.splice(self, region, end);
        copy.bind(node.results, &results);
        true
    }

    /// A counted loop that runs no time, or once with nothing jumping to it.
    fn counted(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) -> bool {
        let args = copy.operands(&node.args);
        let (from, init) = (args[0], &args[3..]);
        match trips(&args) {
            Some(0) => copy.bind(node.results, init),
            Some(1) if self.shape.jumps(inst).is_empty() => {
                let region = node.regions[0];
                copy.bind(copy.from.region(region).params, &[&[from], init].concat());
                let end = yielded(copy.from, region);
                let results = copy.splice(self, region, end);
                copy.bind(node.results, &results);
            }
            _ => return false,
        }
        true
    }

    /// A `while` whose test is false: the test still runs once.
    fn tested(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) -> bool {
        let test = node.regions[0];
        let Some(end) = yielded(copy.from, test) else { return false };
        let never = copy.from.inst(end).args[..] == [false.into()];
        if !never || !self.shape.jumps(inst).is_empty() {
            return false;
        }
        let init = copy.operands(&node.args);
        copy.bind(copy.from.region(test).params, &init);
        copy.splice(self, test, Some(end));
        copy.bind(node.results, &init);
        true
    }

    /// Results on which all ways out agree, and carried values that never change.
    fn agree(&self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) {
        if node.op.is_loop() {
            self.invariant(copy, inst, node);
        }
        if matches!(node.op, Op::Loop | Op::While) || node.results.is_empty() {
            return;
        }
        let from = copy.from;
        let before = node.results.get(0);
        let yields = node.regions.iter().filter(|_| node.op != Op::Forever).filter_map(|r| yielded(from, *r));
        let exits = yields.chain(self.shape.jumps_by(inst, Op::Break, from));
        let exits: Vec<&[Operand]> = exits.map(|exit| &from.inst(exit).args[..]).collect();
        let Some((first, rest)) = exits.split_first() else { return };
        for (k, result) in node.results.iter().enumerate() {
            let outer = first[k].value().is_none_or(|value| value < before);
            if outer && rest.iter().all(|args| args[k] == first[k]) {
                copy.set(result, copy.operand(first[k]));
            }
        }
    }

    /// A carried value is its initial value if every next one is either.
    fn invariant(&self, copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) {
        let from = copy.from;
        let args = |exit: Inst| &from.inst(exit).args[..];
        let ends = node.regions.last().and_then(|body| yielded(from, *body));
        let nexts: Vec<_> =
            ends.into_iter().chain(self.shape.jumps_by(inst, Op::Continue, from)).map(args).collect();
        let breaks: Vec<_> = self.shape.jumps_by(inst, Op::Break, from).map(args).collect();
        let params = from.region(node.regions[0]).params;
        let skip = params.len() - node.carried().len();
        for (k, init) in node.carried().iter().enumerate() {
            let param = params.get(skip + k);
            let same = |args: &&[Operand]| args[k] == Operand::Value(param) || args[k] == *init;
            if !nexts.iter().all(same) {
                continue;
            }
            let init = copy.operand(*init);
            copy.set(param, init);
            if node.op != Op::Forever && breaks.iter().all(same) {
                copy.set(node.results.get(k), init);
            }
        }
    }
}

/// What is known of an operand in the `at`-th region of an instruction.
fn condition(from: &Function, node: &Node, at: usize) -> Option<(Operand, Const)> {
    match (node.op, &node.attr) {
        (Op::If, _) => Some((node.args[0], (at == 0).into())),
        (Op::Switch, Attr::Cases(cases)) => match cases.get(at).map(|list| &list[..]) {
            Some([only]) => Some((node.args[0], (*only).into())),
            _ => None,
        },
        (Op::While, _) if at == 1 => {
            let test = yielded(from, node.regions[0])?;
            Some((from.inst(test).args[0], true.into()))
        }
        _ => None,
    }
}

/// How often a counted loop runs, if that is known: none, once, or more.
fn trips(args: &[Operand]) -> Option<u32> {
    let number = |operand: Operand| {
        let c = operand.constant()?;
        Some(if c.ty() == Type::I32 { i64::from(c.bits() as u32 as i32) } else { c.bits() as i64 })
    };
    let [from, to, step] = [args[0], args[1], args[2]].map(number);
    if step.is_some_and(|step| step <= 0) || args[0] == args[1] {
        return Some(0);
    }
    let span = to? - from?;
    if span <= 0 { Some(0) } else { Some(if span <= step? { 1 } else { 2 }) }
}

/// A pure op: constants are computed, identities applied.
fn pure(copy: &mut FunctionCopier<'_>, inst: Inst, node: &Node) -> bool {
    let args = copy.operands(&node.args);
    match simpler(copy, node, &args) {
        Some(Simplified::As(operand)) => copy.bind(node.results, &[operand]),
        Some(Simplified::Op(op, args)) => {
            copy.write_inst(inst, op, Attr::None, args);
        }
        None => return false,
    }
    true
}

fn simpler(copy: &FunctionCopier<'_>, node: &Node, args: &[Operand]) -> Option<Simplified> {
    if let (Op::Len, Some(b)) = (node.op, node.buffer()) {
        let Len::Fixed(len) = copy.module.buffers.get(b)?.len else { return None };
        return Some(Simplified::As(u32::try_from(len).ok()?.into()));
    }
    let ty = copy.module.type_argument(node, copy.from).unwrap_or(Type::F32);
    if let Some(same) = algebra::simplify(copy, node.op, ty, &node.attr, args) {
        return Some(same);
    }
    let bits: Option<Vec<u64>> = args.iter().map(|arg| arg.constant().map(Const::bits)).collect();
    let to = if let Attr::Type(to) = node.attr { to } else { ty };
    let value = eval(node.op, ty, to, &bits.filter(|bits| !bits.is_empty())?)?;
    let result = copy.from.ty(node.results.get(0));
    let nan = result == Type::F32 && f32::from_bits(value as u32).is_nan();
    Some(Simplified::As(Operand::Const(Const::new(result, if nan { NAN.into() } else { value }))))
}
