//! The checks of control flow: terminators and their values, the regions of instructions, and calls.

use std::collections::HashSet;

use super::Rule;
use super::error::{CheckResult, Fail, fail};
use super::types::{hint, plural};
use super::walk::{FunctionCheck, OpenInst};
use crate::arena::{Handle, Inst, Values};
use crate::module::{Attr, FunctionKind, Node, Operand};
use crate::op::Op;
use crate::types::Type;

/// Where the values of a terminator go.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// Results of an instruction.
    Results(Inst),
    /// Values that a loop carries.
    Carried(Inst),
    /// The decision whether a `while` goes on.
    Test(Inst),
    /// Results of the function.
    Function,
}

impl FunctionCheck<'_> {
    /// Checks that a terminator may stand here and passes the values that its goal takes.
    pub(crate) fn end(&mut self, node: &Node) -> CheckResult {
        self.results(node, 0, |_| None)?;
        let goal = self.goal(node)?;
        let (Goal::Results(inst) | Goal::Carried(inst) | Goal::Test(inst)) = goal else {
            return self.gives(node, goal);
        };
        let sure = self.frames.iter().rev().find(|f| f.inst == inst).is_some_and(|f| !f.unsure);
        if sure { self.gives(node, goal) } else { Ok(()) }
    }

    fn goal(&self, node: &Node) -> Result<Goal, Fail> {
        match (node.op, &node.attr) {
            (Op::Return, _) => Ok(Goal::Function),
            (Op::Yield, _) => match self.frames.last() {
                None => fail(Rule::Yield, "`yield` cannot end the body of a function: write `return`"),
                Some(frame) => Ok(match self.function.insts[frame.inst].op {
                    Op::While if frame.region == 0 => Goal::Test(frame.inst),
                    op if op.is_loop() => Goal::Carried(frame.inst),
                    _ => Goal::Results(frame.inst),
                }),
            },
            (op, Attr::Target(target)) => {
                let frame = self.target(op, *target)?;
                Ok(if op == Op::Break { Goal::Results(frame.inst) } else { Goal::Carried(frame.inst) })
            }
            // `check_attribute` has refused this before.
            _ => Ok(Goal::Function),
        }
    }

    /// The frame that a jump names.
    fn target(&self, op: Op, target: Inst) -> Result<&OpenInst, Fail> {
        let name = op.row().name;
        let Some(frame) = self.frames.iter().rev().find(|frame| frame.inst == target) else {
            let label = self.function.debug.label(target).map_or(target.to_string(), |l| format!("^{l}"));
            return fail(Rule::Target, format!("`{name}` names `{label}`, which does not enclose it"));
        };
        let aim = self.function.insts[target].op;
        match (op, aim) {
            (_, aim) if !aim.is_loop() && aim != Op::Block => fail(
                Rule::Target,
                format!("`{name}` names an `{}`, but only loops and blocks can be left", aim.row().name),
            ),
            (Op::Continue, Op::Block) => fail(
                Rule::Continue,
                "`continue` names a block, which does not repeat: use `break` to leave it",
            ),
            (Op::Continue, Op::While) if frame.region == 0 => {
                fail(Rule::Continue, "`continue` cannot stand in the test of a `while`: move it to the body")
            }
            _ => Ok(frame),
        }
    }

    /// Returns the types that a goal takes, or `None` where they are not certain.
    fn wanted(&self, goal: Goal) -> Vec<Option<Type>> {
        let types = |values: Values, skip: usize| {
            values.iter().skip(skip).map(|value| self.ty(Operand::Value(value))).collect()
        };
        match goal {
            Goal::Test(_) => vec![Some(Type::Bool)],
            Goal::Function => self.function.results.iter().copied().map(Some).collect(),
            Goal::Results(inst) => types(self.function.insts[inst].results, 0),
            Goal::Carried(inst) => {
                let node = &self.function.insts[inst];
                let params = node.regions.first().map(|region| self.function.regions[*region].params);
                params.map_or_else(Vec::new, |params| types(params, usize::from(node.op == Op::Loop)))
            }
        }
    }

    /// Checks that a terminator passes as many values as its goal takes, with the right types.
    fn gives(&mut self, node: &Node, goal: Goal) -> CheckResult {
        let wanted = self.wanted(goal);
        let rule = if matches!(goal, Goal::Test(_)) { Rule::Test } else { Rule::Ends };
        let name = node.op.row().name;
        let op = |inst| self.function.insts[inst].op.row().name;
        let found: Vec<Option<Type>> = node.args.iter().map(|arg| self.ty(*arg)).collect();
        let message = if wanted.len() != found.len() {
            let takes = match goal {
                Goal::Test(_) => "the test of a `while` takes one bool".to_string(),
                Goal::Function => format!("the function has {}", plural(wanted.len(), "result")),
                Goal::Results(inst) => format!("the `{}` has {}", op(inst), plural(wanted.len(), "result")),
                Goal::Carried(inst) => {
                    format!("the `{}` carries {}", op(inst), plural(wanted.len(), "value"))
                }
            };
            match (node.op, found.len()) {
                // In most cases the writer has added this terminator and nobody wrote it.
                (Op::Yield | Op::Return, 0) => {
                    format!("this ends without values, but {takes}: end it with `{name}` and the values")
                }
                (_, n) => format!("`{name}` gives {}, but {takes}", plural(n, "value")),
            }
        } else {
            let differ = |k: &usize| wanted[*k].zip(found[*k]).is_some_and(|(wanted, found)| wanted != found);
            let Some(k) = (0..wanted.len()).find(differ) else { return Ok(()) };
            let (Some(want), Some(have)) = (wanted[k], found[k]) else { return Ok(()) };
            let takes = match goal {
                Goal::Test(_) => "the test of a `while` takes".to_string(),
                Goal::Function => format!("result {} of the function is", k + 1),
                Goal::Results(inst) => format!("result {} of the `{}` is", k + 1, op(inst)),
                Goal::Carried(inst) => format!("value {} that the `{}` carries is", k + 1, op(inst)),
            };
            let hint = hint(self.function, node.args[k], have, want);
            format!("value {} of `{name}` is {have}, but {takes} {want}{hint}", k + 1)
        };
        if self.told.insert((goal, found)) { fail(rule, message) } else { Ok(()) }
    }

    /// Checks that an instruction with regions has the operands, regions, parameters and results that its op requires.
    pub(crate) fn shape(&self, node: &Node) -> CheckResult {
        let name = node.op.row().name;
        self.fixed(node)?;
        let wanted = match (node.op, &node.attr) {
            (Op::If | Op::While, _) => 2,
            (Op::Switch, Attr::Cases(cases)) => cases.len() + 1,
            _ => 1,
        };
        if node.regions.len() != wanted {
            let found = plural(node.regions.len(), "region");
            return fail(Rule::Regions, format!("`{name}` has {found}, but {wanted} are expected"));
        }
        if let Attr::Cases(cases) = &node.attr {
            distinct(cases)?;
        }
        // The counter has the type of the step. Both come right before the carried values.
        let counter = usize::from(node.op == Op::Loop);
        let params: &[Operand] = &node.args[node.op.row().args.len() - counter..];
        for (k, region) in node.regions.iter().enumerate() {
            let values = self.function.regions.get(*region).map_or(node.results, |block| block.params);
            let wanted = if node.op.is_loop() && k == 0 { params } else { &[] };
            let fits = values.len() == wanted.len() && self.alike(values, wanted).is_none();
            if !fits {
                let text = format!(
                    "the parameters of region {k} of `{name}` do not match the values that it carries"
                );
                return fail(Rule::Regions, text);
            }
        }
        if !matches!(node.op, Op::Loop | Op::While) {
            return Ok(());
        }
        let carried = node.carried();
        if node.results.len() != carried.len() {
            let (found, carried) = (plural(node.results.len(), "result"), plural(carried.len(), "value"));
            return fail(Rule::Result, format!("the `{name}` has {found}, but carries {carried}"));
        }
        match self.alike(node.results, carried) {
            Some((k, found, carried)) => {
                let text = format!(
                    "result {} of the `{name}` is {found}, but the value it carries is {carried}",
                    k + 1
                );
                fail(Rule::Result, text)
            }
            None => Ok(()),
        }
    }

    /// Returns the first value whose type differs from that of its operand.
    fn alike(&self, values: Values, operands: &[Operand]) -> Option<(usize, Type, Type)> {
        let mut pairs = values.iter().zip(operands).enumerate();
        pairs.find_map(|(k, (value, operand))| {
            let (found, wanted) = (*self.function.values.get(value)?, self.ty(*operand)?);
            (found != wanted).then_some((k, found, wanted))
        })
    }

    /// Checks that a call names a function that may be called, with the right arguments.
    pub(crate) fn call(&self, node: &Node) -> CheckResult {
        let Attr::Call(callee) = node.attr else { return Ok(()) };
        let Some(function) = self.module.functions.get(callee) else {
            return fail(Rule::Callee, "`call` names a function that does not exist");
        };
        let name = &function.name;
        if callee == self.func {
            return fail(
                Rule::Callee,
                format!("`{name}` calls itself, and there is no recursion: write a loop"),
            );
        }
        if callee.index() > self.func.index() {
            return fail(
                Rule::Callee,
                format!("`{name}` is declared after this function: move it before this one"),
            );
        }
        if function.kind == FunctionKind::Kernel {
            return fail(
                Rule::CallKernel,
                format!("`{name}` is a kernel and cannot be called: move the shared code to a function"),
            );
        }
        if node.args.len() != function.params.len() {
            let (found, wanted) =
                (plural(node.args.len(), "operand"), plural(function.params.len(), "parameter"));
            return fail(Rule::Count, format!("the call has {found}, but `{name}` has {wanted}"));
        }
        for (k, (arg, param)) in node.args.iter().zip(function.params.iter()).enumerate() {
            let Some((found, wanted)) = self.ty(*arg).zip(function.values.get(param).copied()) else {
                continue;
            };
            if found != wanted {
                let hint = hint(self.function, *arg, found, wanted);
                let text =
                    format!("operand {} of the call is {found}, but `{name}` takes {wanted}{hint}", k + 1);
                return fail(Rule::Operand, text);
            }
        }
        self.results(node, function.results.len(), |k| function.results.get(k).copied())
    }
}

/// Checks that every case of a switch has values and no value has two cases.
fn distinct(cases: &[Vec<u32>]) -> CheckResult {
    let mut seen = HashSet::new();
    for case in cases {
        if case.is_empty() {
            return fail(Rule::Case, "a case of the `switch` has no value");
        }
        for value in case {
            if !seen.insert(*value) {
                return fail(Rule::Case, format!("the value {value} has two cases: remove one"));
            }
        }
    }
    Ok(())
}
