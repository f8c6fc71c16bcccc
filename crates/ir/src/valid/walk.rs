//! The walk over a function in the order of the text: numbering, definitions, scopes, the shape of regions.
//!
//! The walk counts values, instructions and regions as it meets them and compares every handle with the count. So the
//! arenas are in the order of the text, every item is met once, and the walk ends.

use std::collections::HashSet;

use super::Rule;
use super::ends::Goal;
use super::error::{CheckResult, ErrorSite, Errors, fail};
use crate::arena::{Func, Handle, Inst, Region, Value, Values};
use crate::limits::{MAX_ARGS, MAX_CASES, MAX_DEPTH};
use crate::module::{Attr, Function, Module, Node, Operand, Site};
use crate::op::{Op, OpForm, TypePattern};
use crate::text::UnsureInsts;
use crate::types::Type;

/// Checks the body of a function. Instructions in `doubts` count as refused, because the parser has already reported an
/// error for them.
pub(super) fn check_function(module: &Module, func: Func, doubts: &UnsureInsts, errors: &mut Errors) {
    let function = &module.functions[func];
    let mut walk = FunctionCheck {
        module,
        func,
        function,
        defs: vec![ValueDef { home: None, sure: true }; function.values.len()],
        open: vec![false; function.regions.len()],
        frames: Vec::new(),
        next: Next::default(),
        muted: false,
        told: HashSet::new(),
        doubts,
        errors,
    };
    if function.is_import() {
        let check = walk.bodiless();
        return walk.errors.record(ErrorSite::Function(func), check);
    }
    if let Err(Stop::Lost) = walk.body() {
        let lost = "values, instructions or regions are not numbered in the order of the text";
        walk.errors.record(ErrorSite::Function(func), fail(Rule::Order, lost));
    }
}

/// Why the rest of a function cannot be checked.
enum Stop {
    /// The numbering is broken.
    Lost,
    /// Regions are nested too deep, which has been reported.
    Deep,
}

/// What is known about a value.
#[derive(Clone, Copy)]
struct ValueDef {
    /// The region in which the value is defined, or `None` before its definition.
    home: Option<Region>,
    /// Whether the type of the value is certain. It is not if the definition has an error.
    sure: bool,
}

/// The handles that come next.
#[derive(Default)]
struct Next {
    value: usize,
    inst: usize,
    region: usize,
}

/// An instruction whose region is being walked.
pub(super) struct OpenInst {
    pub inst: Inst,
    /// The index of the region that is being walked.
    pub region: usize,
    /// Whether values that are passed to the instruction are not checked, because the instruction itself has an error.
    pub unsure: bool,
}

/// A function that is being checked.
pub(super) struct FunctionCheck<'m> {
    pub module: &'m Module,
    pub func: Func,
    pub function: &'m Function,
    defs: Vec<ValueDef>,
    /// Whether the values of each region are visible at the current position.
    open: Vec<bool>,
    /// The instructions around the current one, outermost first.
    pub frames: Vec<OpenInst>,
    next: Next,
    /// Whether errors are not reported.
    muted: bool,
    /// The wrong types that jumps pass to a target, which are reported once per target.
    pub told: HashSet<(Goal, Vec<Option<Type>>)>,
    doubts: &'m UnsureInsts,
    errors: &'m mut Errors,
}

impl<'m> FunctionCheck<'m> {
    fn body(&mut self) -> Result<(), Stop> {
        let function = self.function;
        self.count(function.params)?;
        self.define(function.params, function.body, true);
        self.region(function.body)?;
        let met = (self.next.value, self.next.inst, self.next.region);
        let all = (function.values.len(), function.insts.len(), function.regions.len());
        if met == all { Ok(()) } else { Err(Stop::Lost) }
    }

    /// Checks that an import has a head and nothing else.
    fn bodiless(&self) -> CheckResult {
        let function = self.function;
        let bare = function.params == Values::new(0, function.values.len())
            && function.insts.is_empty()
            && function.regions.len() == 1
            && function
                .regions
                .get(function.body)
                .is_some_and(|body| body.params.is_empty() && body.insts.is_empty());
        if bare {
            return Ok(());
        }
        fail(
            Rule::ImportBody,
            format!("import `{}` has a body: remove it, or make it a function", function.name),
        )
    }

    /// Counts values, which must be consecutive and start with the next one.
    fn count(&mut self, values: Values) -> Result<(), Stop> {
        let end = self.next.value + values.len();
        if values != Values::new(self.next.value, values.len()) || end > self.defs.len() {
            return Err(Stop::Lost);
        }
        self.next.value = end;
        Ok(())
    }

    fn define(&mut self, values: Values, home: Region, sure: bool) {
        for value in values.iter() {
            self.defs[value.index()] = ValueDef { home: Some(home), sure };
        }
    }

    /// Walks a region. Its values stay visible until the caller hides them.
    fn region(&mut self, region: Region) -> Result<(), Stop> {
        let block = self.function.regions.get(region).ok_or(Stop::Lost)?;
        if region.index() != self.next.region {
            return Err(Stop::Lost);
        }
        self.next.region += 1;
        self.open[region.index()] = true;
        let muted = self.muted;
        let mut ended: Option<Op> = None;
        for inst in &block.insts {
            if inst.index() != self.next.inst {
                return Err(Stop::Lost);
            }
            self.next.inst += 1;
            let node = self.function.insts.get(*inst).ok_or(Stop::Lost)?;
            if let (Some(end), false) = (ended, self.muted) {
                let text = format!("nothing runs after `{}`: remove what follows it", end.row().name);
                self.report(*inst, fail(Rule::End, text));
                // All that follows causes one error. The writer adds a terminator that nobody wrote.
                self.muted = true;
            }
            self.inst(*inst, node, region)?;
            ended = ended.or(node.op.is_terminator().then_some(node.op));
        }
        self.muted = muted;
        if ended.is_none() {
            let last = block.insts.last().ok_or(Stop::Lost)?;
            self.report(
                *last,
                fail(
                    Rule::End,
                    "the region does not end after this: add `yield`, `return`, `break` or `continue`",
                ),
            );
        }
        Ok(())
    }

    fn inst(&mut self, inst: Inst, node: &'m Node, home: Region) -> Result<(), Stop> {
        self.count(node.results)?;
        let refused = if self.doubts.contains(&inst) {
            true
        } else {
            let check = self.check_inst(node);
            let refused = check.is_err();
            self.report(inst, check);
            refused
        };
        if !node.regions.is_empty() {
            self.nested(inst, node, refused)?;
        }
        // An op with regions states the types of its results itself.
        let sure = node.op.has_regions() || !refused && !self.guessed(node);
        self.define(node.results, home, sure);
        Ok(())
    }

    fn nested(&mut self, inst: Inst, node: &Node, refused: bool) -> Result<(), Stop> {
        if self.frames.len() + 1 >= MAX_DEPTH {
            let deep = format!(
                "regions are nested {MAX_DEPTH} deep here, and deeper is not allowed: move some to a function"
            );
            self.report(inst, fail(Rule::Depth, deep));
            return Err(Stop::Deep);
        }
        self.frames.push(OpenInst { inst, region: 0, unsure: refused });
        for (k, region) in node.regions.iter().enumerate() {
            let params = self.function.regions.get(*region).ok_or(Stop::Lost)?.params;
            self.count(params)?;
            self.define(params, *region, !refused);
            // This compares from the back, because carried values come last on both sides and the counter corresponds
            // to the step.
            for (param, init) in params.iter().rev().zip(node.args.iter().rev()) {
                self.defs[param.index()].sure &= self.ty(*init).is_some();
            }
            if let Some(frame) = self.frames.last_mut() {
                frame.region = k;
            }
            self.region(*region)?;
            // The body of a `while` sees its test.
            if node.op != Op::While {
                self.open[region.index()] = false;
            }
        }
        for region in &node.regions {
            self.open[region.index()] = false;
        }
        self.frames.pop();
        Ok(())
    }

    /// Records an error, unless errors are not reported here.
    fn report(&mut self, inst: Inst, check: CheckResult) {
        if !self.muted {
            self.errors.record(ErrorSite::Inst(Site { func: self.func, inst }), check);
        }
    }

    /// Checks everything about one instruction except the contents of its regions.
    fn check_inst(&mut self, node: &Node) -> CheckResult {
        self.check_attribute(node)?;
        self.check_counts(node)?;
        for arg in &node.args {
            if let Operand::Value(value) = arg {
                self.check_visible(*value)?;
            }
        }
        if !node.op.has_regions() && !node.regions.is_empty() {
            return fail(Rule::Regions, format!("`{}` has no regions", node.op.row().name));
        }
        match node.op {
            op if op.is_terminator() => self.end(node),
            Op::Call => self.call(node),
            op if op.has_regions() => self.shape(node),
            _ => {
                self.buffers(node)?;
                self.row(node)?;
                self.memory(node)
            }
        }
    }

    /// Checks that the instruction names what its form asks for.
    fn check_attribute(&self, node: &Node) -> CheckResult {
        let row = node.op.row();
        let right = match (row.form, &node.attr) {
            (OpForm::Plain, Attr::None)
            | (OpForm::Typed, Attr::Type(_))
            | (OpForm::Buffer | OpForm::Place, Attr::Buffer(_))
            | (OpForm::Wide | OpForm::Atomic, Attr::Atomic(..))
            | (OpForm::Fence, Attr::Fence(..))
            | (OpForm::Copy, Attr::Copy { .. }) => true,
            (OpForm::Control, attr) => match node.op {
                Op::Switch => matches!(attr, Attr::Cases(_)),
                Op::Break | Op::Continue => matches!(attr, Attr::Target(_)),
                Op::Call => matches!(attr, Attr::Call(_)),
                _ => *attr == Attr::None,
            },
            _ => false,
        };
        if right {
            Ok(())
        } else {
            fail(Rule::Attribute, format!("`{}` cannot name {:?}", row.name, node.attr))
        }
    }

    /// Checks the numbers of operands, results and cases against their limits.
    fn check_counts(&self, node: &Node) -> CheckResult {
        let row = node.op.row();
        let free = node.args.len().saturating_sub(row.args.len());
        let params = node.regions.iter().filter_map(|region| self.function.regions.get(*region));
        let params = params.map(|block| block.params.len()).max().unwrap_or(0);
        for (found, what) in [(free, "operands"), (params, "parameters"), (node.results.len(), "results")] {
            if found > MAX_ARGS {
                let text = format!("`{}` has {found} {what}, but at most {MAX_ARGS} are allowed", row.name);
                return fail(Rule::Values, text);
            }
        }
        let Attr::Cases(cases) = &node.attr else { return Ok(()) };
        let values = cases.iter().map(Vec::len).sum::<usize>().max(node.regions.len());
        if values > MAX_CASES {
            let text = format!("the `switch` has {values} cases, but at most {MAX_CASES} are allowed");
            return fail(Rule::Cases, text);
        }
        Ok(())
    }

    /// Checks that a value is defined and visible at the current position.
    fn check_visible(&self, value: Value) -> CheckResult {
        let (rule, problem) = match self.defs.get(value.index()) {
            None => (Rule::Undefined, "does not exist in this function"),
            Some(ValueDef { home: None, .. }) => (Rule::Undefined, "is used before it is defined"),
            Some(ValueDef { home: Some(home), .. }) if !self.open[home.index()] => (
                Rule::Scope,
                "is not visible here, because its region has ended: pass it out of the region with `yield`",
            ),
            _ => return Ok(()),
        };
        fail(rule, format!("`{}` {problem}", self.name(value)))
    }

    /// Returns whether the result types of an instruction were derived from an operand or a buffer whose type is not
    /// certain.
    pub(crate) fn guessed(&self, node: &Node) -> bool {
        let row = node.op.row();
        row.results.contains(&TypePattern::T)
            && match row.form {
                OpForm::Plain => node.args.iter().any(|arg| self.ty(*arg).is_none()),
                _ => self.elem(node).is_none(),
            }
    }

    /// Returns the type of a visible operand, or `None` if it is not certain.
    pub(crate) fn ty(&self, operand: Operand) -> Option<Type> {
        match operand {
            Operand::Const(c) => Some(c.ty()),
            Operand::Value(value) => {
                let def = self.defs.get(value.index())?;
                def.sure.then(|| self.function.values[value])
            }
        }
    }

    /// Returns the value as the text spells it.
    pub(crate) fn name(&self, value: Value) -> String {
        spell(self.function, value)
    }
}

/// Returns a value of a function as the text spells it.
pub(super) fn spell(function: &Function, value: Value) -> String {
    function.debug.value(value).map_or_else(|| value.to_string(), |name| format!("%{name}"))
}
