//! Which values are the same across lanes, and which lanes meet at an instruction.
//!
//! **Levels.** A value is uniform at a level if all lanes of one subgroup, or of one group, that compute it at the
//! same time compute the same. Control is uniform at a level if of one subgroup, or of one group, all lanes meet the
//! instruction at the same time or none does. *At the same time* means in the same iterations of the loops around
//! it and in the same call.
//!
//! **Sources.** Constants, `group`, `lanes`, `groups`, `subgroup_size` and `len` are the same in a group, and so is
//! what `group_broadcast` gives. `subgroup` and what `ballot`, `any`, `all`, `broadcast` and the reductions give is
//! the same in a subgroup. `lane`, `sublane`, `elect`, `shuffle`, `clock`, atomics and loads differ; but a `load`
//! from a `read` buffer that is not the host's is as uniform as its index, since nothing writes there. All else
//! follows from these along the graph that `flow` describes and `build` makes.
//!
//! **Calls.** What a call gives depends on that call alone. What is kept of the inside of a function holds in all
//! its calls, and a function that is never called counts as called uniformly. What an import gives differs among lanes,
//! because it is not known yet what the import will be bound to. A uniform import, too, is only known to be called by all
//! lanes of a group at once.

use std::collections::HashSet;
use std::fmt;

use super::error::{ErrorSite, Errors, ValidationError};
use super::flow::{CONTROL, DependencyGraph, LANE, Mask, Point, SUBGROUP, Summary, param};
use super::walk::spell;
use super::why::Explanation;
use super::{Rule, build};
use crate::arena::{Func, Handle, Inst, Value};
use crate::module::{Attr, Function, FunctionKind, ImportFlow, Module, Node, Operand, Site};
use crate::op::{Op, OpEffect};

/// The set of lanes across which something is the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum UniformLevel {
    /// It may differ from lane to lane.
    Lane,
    /// It is the same in all lanes of a subgroup.
    Subgroup,
    /// It is the same in all lanes of a group.
    Group,
}

impl fmt::Display for UniformLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            UniformLevel::Lane => "lane",
            UniformLevel::Subgroup => "subgroup",
            UniformLevel::Group => "group",
        })
    }
}

/// The levels at which the values of a function, and the control flow at its instructions, are uniform.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Uniformity {
    values: Vec<UniformLevel>,
    control: Vec<UniformLevel>,
}

impl Uniformity {
    /// Returns the level at which a value is the same among the lanes that compute it.
    pub fn value_level(&self, value: Value) -> UniformLevel {
        self.values[value.index()]
    }

    /// Returns the level at which an operand is the same. Constants are the same in the whole group.
    pub fn operand_level(&self, operand: Operand) -> UniformLevel {
        operand.value().map_or(UniformLevel::Group, |value| self.value_level(value))
    }

    /// Returns the level at which lanes reach an instruction together or not at all.
    pub fn control_level(&self, inst: Inst) -> UniformLevel {
        self.control[inst.index()]
    }
}

/// How uniform the parameters and the control flow of a function are, as the least uniform of its calls makes them.
#[derive(Clone)]
pub(super) struct Context {
    pub control: Entry,
    pub params: Vec<Entry>,
}

/// How uniform one thing is that comes with calls, and the call that made it less than group.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub level: UniformLevel,
    pub call: Option<Site>,
}

impl Entry {
    fn lower(&mut self, level: UniformLevel, call: Site) {
        if level < self.level {
            *self = Entry { level, call: Some(call) };
        }
    }
}

impl Context {
    fn new(function: &Function) -> Self {
        let uniform = Entry { level: UniformLevel::Group, call: None };
        Context { control: uniform, params: vec![uniform; function.params.len()] }
    }

    /// The sources that are of a level here.
    pub(crate) fn sources(&self, level: UniformLevel) -> Mask {
        let inside = match level {
            UniformLevel::Lane => LANE,
            UniformLevel::Subgroup => SUBGROUP,
            UniformLevel::Group => 0,
        };
        let control = if self.control.level == level { CONTROL } else { 0 };
        let params = self.params.iter().enumerate().filter(|(_, entry)| entry.level == level);
        params.fold(inside | control, |mask, (k, _)| mask | param(k))
    }

    /// The level of each node of a function.
    fn levels(&self, masks: &[Mask]) -> Vec<UniformLevel> {
        let (lane, subgroup) = (self.sources(UniformLevel::Lane), self.sources(UniformLevel::Subgroup));
        let level = |mask: &Mask| match mask {
            mask if mask & lane != 0 => UniformLevel::Lane,
            mask if mask & subgroup != 0 => UniformLevel::Subgroup,
            _ => UniformLevel::Group,
        };
        masks.iter().map(level).collect()
    }
}

/// Computes the levels of every function, and checks the ops at which lanes meet.
pub(super) fn check(module: &Module, errors: &mut Errors) -> Vec<Uniformity> {
    let mut summaries: Vec<Summary> = Vec::with_capacity(module.functions.len());
    for (_, function) in module.functions.iter() {
        let mut summary = build::flow(module, function, &summaries).summary(function);
        if function.is_import() {
            summary.results.fill(LANE);
        }
        summaries.push(summary);
    }
    let mut contexts: Vec<Context> = module.functions.iter().map(|(_, f)| Context::new(f)).collect();
    let mut found = Vec::with_capacity(summaries.len());
    // Callers stand behind what they call, so backwards every context is known when it is needed.
    for (func, function) in module.functions.iter().rev() {
        let summary = &summaries[func.index()];
        let mut levels = contexts[func.index()].levels(&summary.masks);
        let control = summary.control.iter().map(|point| levels[*point as usize]).collect();
        levels.truncate(function.values.len());
        let uniformity = Uniformity { values: levels, control };
        enter(func, function, &uniformity, &mut contexts);
        found.push(uniformity);
    }
    found.reverse();
    for (func, context) in module.functions.handles().zip(&contexts) {
        let uniformity = &found[func.index()];
        let ways = [None, None];
        let mut meeting = Meeting { module, func, uniformity, context, earlier: &summaries, ways };
        meeting.check(errors);
    }
    found
}

/// Takes what a function's calls pass into the contexts of what they call.
fn enter(func: Func, function: &Function, uniformity: &Uniformity, contexts: &mut [Context]) {
    for (inst, node) in function.insts() {
        let Attr::Call(callee) = node.attr else { continue };
        let site = Site { func, inst };
        let context = &mut contexts[callee.index()];
        context.control.lower(uniformity.control_level(inst), site);
        for (entry, arg) in context.params.iter_mut().zip(&node.args) {
            entry.lower(uniformity.operand_level(*arg), site);
        }
    }
}

/// The check of the ops of a function at which lanes meet.
struct Meeting<'m> {
    module: &'m Module,
    func: Func,
    uniformity: &'m Uniformity,
    context: &'m Context,
    earlier: &'m [Summary],
    /// Why something is not uniform in a subgroup or a group. Made when it is asked for; most functions never ask.
    ways: [Option<(DependencyGraph, Explanation<'m>)>; 2],
}

impl<'m> Meeting<'m> {
    fn check(&mut self, errors: &mut Errors) {
        let mut blamed = HashSet::new();
        for (inst, node) in self.module.functions[self.func].insts() {
            let import = self.uniform_import(node);
            let (rule, need) = match (node.op, node.op.effect()) {
                (Op::Barrier | Op::GroupBroadcast, _) => (Rule::Barrier, UniformLevel::Group),
                (_, OpEffect::Sync) => (Rule::Subgroup, UniformLevel::Subgroup),
                _ if import.is_some() => (Rule::UniformImport, UniformLevel::Group),
                _ => continue,
            };
            if self.uniformity.control_level(inst) < need {
                let (flow, why) = self.why(need);
                let point = flow.control[inst.index()];
                // What parts lanes before one op does so before all that follow: it is told once.
                if blamed.insert(why.parting(point)) {
                    let name = import.unwrap_or(node.op.row().name);
                    let message = format!(
                        "`{name}` needs all lanes of a {need} at once, but some of them may not reach it"
                    );
                    let notes = why.notes(point);
                    errors.push(ValidationError { rule, message, site: self.site(inst), notes });
                }
            } else if let Some(value) = self.loose(node, need) {
                let notes = self.why(need).1.notes(value.index() as Point);
                let (name, value) = (node.op.row().name, spell(&self.module.functions[self.func], value));
                let hint = if node.op == Op::Broadcast { ": `shuffle` takes any lane" } else { "" };
                let message =
                    format!("`from` of `{name}` is `{value}`, which differs among lanes of a {need}{hint}");
                errors.push(ValidationError { rule: Rule::From, message, site: self.site(inst), notes });
            }
        }
    }

    /// The name of the uniform import that an instruction calls, if it does.
    fn uniform_import(&self, node: &Node) -> Option<&'m str> {
        let Attr::Call(callee) = node.attr else { return None };
        let callee = &self.module.functions[callee];
        (callee.kind == FunctionKind::Import(ImportFlow::Uniform)).then_some(&*callee.name)
    }

    /// What a broadcast is from, if that is not the same for all.
    fn loose(&self, node: &Node, need: UniformLevel) -> Option<Value> {
        let from = match node.op {
            Op::GroupBroadcast | Op::Broadcast => node.args[1].value()?,
            _ => return None,
        };
        (self.uniformity.value_level(from) < need).then_some(from)
    }

    fn why(&mut self, need: UniformLevel) -> &(DependencyGraph, Explanation<'_>) {
        let function = &self.module.functions[self.func];
        self.ways[usize::from(need == UniformLevel::Group)].get_or_insert_with(|| {
            let flow = build::flow(self.module, function, self.earlier);
            let why = Explanation::new(self.func, function, &flow, self.context, need);
            (flow, why)
        })
    }

    fn site(&self, inst: Inst) -> ErrorSite {
        ErrorSite::Inst(Site { func: self.func, inst })
    }
}
