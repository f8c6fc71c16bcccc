//! The walker that all passes share. It copies a function under a rule, which may replace instructions.
//!
//! Everything goes through a [`FunctionWriter`], so what comes out is numbered as the text shows it. Names and places
//! go along; a name that is taken already is dropped. What would follow a jump in its region is not copied.
//!
//! An access whose index has become a constant out of range is no error of the program, which wrote no such
//! constant, but the validator would refuse it. So its copy is what it does: nothing, with zeros as results.

use std::collections::HashSet;

use crate::arena::{Buffer, Handle, Inst, Region, Value, Values};
use crate::module::{Attr, Function, Module, Node, Operand, TextPlace, elements_per_wide};
use crate::op::{Op, OpForm};
use crate::types::{Const, Len, Type};
use crate::write::FunctionWriter;

/// Decides which instructions of a function a pass replaces, and writes the replacements.
pub(super) trait RewriteRule: Sized {
    /// Replaces an instruction and returns true, or returns false to have it copied.
    fn inst(&mut self, copy: &mut FunctionCopier<'_>, inst: Inst) -> bool;

    /// Is called when the region at index `at` of an instruction has been opened.
    fn enter(&mut self, _copy: &mut FunctionCopier<'_>, _inst: Inst, _at: usize) {}

    /// Is called when that region is about to be closed.
    fn leave(&mut self, _copy: &mut FunctionCopier<'_>, _inst: Inst, _at: usize) {}
}

/// A function that is being copied.
pub(super) struct FunctionCopier<'a> {
    /// The module that contains the function.
    pub module: &'a Module,
    /// The function that is copied.
    pub from: &'a Function,
    /// The copy that is being written.
    pub to: FunctionWriter,
    /// The operand of the copy that stands for each value of `from`.
    values: Vec<Option<Operand>>,
    /// The copy of each loop and block of `from`.
    labels: Vec<Option<Inst>>,
    /// The instruction that gives each value of `to`.
    defs: Vec<Option<Inst>>,
    /// The names that are taken, if another function is copied too, and whether it is being copied.
    taken: (HashSet<&'a str>, bool),
    /// A list of types that is reused, to avoid allocations.
    types: Vec<Type>,
}

/// Copies a function under a rule.
pub(super) fn rewrite(module: &Module, from: &Function, rule: &mut impl RewriteRule) -> Function {
    let params: Vec<Type> = from.params.iter().map(|param| from.ty(param)).collect();
    let mut copy = FunctionCopier {
        module,
        from,
        to: FunctionWriter::new(from.name.clone(), from.kind, &params, &from.results),
        values: vec![None; from.values().len()],
        labels: vec![None; from.insts().len()],
        defs: Vec::new(),
        taken: Default::default(),
        types: Vec::new(),
    };
    copy.to.debug_mut().head = from.debug.head;
    let params = copy.to.function().params;
    copy.stand(from.params, params, |_| true);
    copy.insts(rule, from.body);
    let body = copy.to.function().body;
    copy.end(from.body, body);
    copy.to.finish()
}

impl<'a> FunctionCopier<'a> {
    /// What stands for an operand.
    pub(crate) fn operand(&self, operand: Operand) -> Operand {
        match operand {
            // Only code that cannot be reached uses a value that nothing stands for.
            Operand::Value(value) => {
                self.values[value.index()].unwrap_or(Operand::Const(Const::zero(self.from.ty(value))))
            }
            Operand::Const(_) => operand,
        }
    }

    /// What stands for each of some operands.
    pub(crate) fn operands(&self, operands: &[Operand]) -> Vec<Operand> {
        operands.iter().map(|operand| self.operand(*operand)).collect()
    }

    /// Lets an operand stand for a value from here on.
    pub(crate) fn set(&mut self, value: Value, operand: Operand) {
        self.values[value.index()] = Some(operand);
    }

    /// Lets operands stand for values one by one.
    pub(crate) fn bind(&mut self, values: Values, operands: &[Operand]) {
        for (value, operand) in values.iter().zip(operands) {
            self.set(value, *operand);
        }
    }

    /// The instruction that gives what has been written, if one does.
    pub(crate) fn def(&self, operand: Operand) -> Option<&Node> {
        let inst = self.defs.get(operand.value()?.index()).copied().flatten()?;
        Some(self.to.function().inst(inst))
    }

    /// Copies the instructions of a region, up to the first jump.
    pub(crate) fn insts(&mut self, rule: &mut impl RewriteRule, region: Region) {
        for inst in &self.from.region(region).insts {
            self.inst(rule, *inst);
            if self.to.region_ended() {
                break;
            }
        }
    }

    /// Copies the instructions of a region into the one that is open, up to but without its `end`, and gives what
    /// that ends with. Without an `end` the region jumps elsewhere and gives nothing.
    pub(crate) fn splice(
        &mut self,
        rule: &mut impl RewriteRule,
        region: Region,
        end: Option<Inst>,
    ) -> Vec<Operand> {
        for inst in &self.from.region(region).insts {
            if Some(*inst) == end {
                return self.operands(&self.from.inst(*inst).args);
            }
            self.inst(rule, *inst);
            if self.to.region_ended() {
                break;
            }
        }
        Vec::new()
    }

    /// Copies an instruction as the rule has it.
    pub(crate) fn inst(&mut self, rule: &mut impl RewriteRule, inst: Inst) {
        if rule.inst(self, inst) {
            return;
        }
        if self.from.inst(inst).op.has_regions() {
            self.nest(rule, inst);
        } else {
            self.plain(inst);
        }
    }

    /// Copies an instruction that has no regions, unless it turns out to do nothing.
    pub(crate) fn plain(&mut self, inst: Inst) -> Option<Inst> {
        let node = self.from.inst(inst);
        let args = self.operands(&node.args);
        if misses(self.module, node, &args) {
            for value in node.results.iter() {
                self.set(value, Operand::Const(Const::zero(self.from.ty(value))));
            }
            return None;
        }
        Some(self.write_inst(inst, node.op, self.attr(node), args))
    }

    /// Copies an instruction with its regions.
    fn nest(&mut self, rule: &mut impl RewriteRule, inst: Inst) {
        let node = self.from.inst(inst);
        let new = self.write_inst(inst, node.op, node.attr.clone(), self.operands(&node.args));
        for at in 0..node.regions.len() {
            self.open(new, node.regions[at], |_| true);
            rule.enter(self, inst, at);
            self.insts(rule, node.regions[at]);
            rule.leave(self, inst, at);
            self.close(node.regions[at]);
        }
    }

    /// What an instruction names, as the copy has it.
    pub(crate) fn attr(&self, node: &Node) -> Attr {
        match node.attr {
            Attr::Target(target) => Attr::Target(self.labels[target.index()].unwrap_or(target)),
            ref attr => attr.clone(),
        }
    }

    /// Writes an instruction in the place of another, with the same results.
    pub(crate) fn write_inst(&mut self, like: Inst, op: Op, attr: Attr, args: Vec<Operand>) -> Inst {
        self.choose(like, op, attr, args, |_| true)
    }

    /// Writes an instruction in the place of another, with those of its results that are kept.
    pub(crate) fn choose(
        &mut self,
        like: Inst,
        op: Op,
        attr: Attr,
        args: Vec<Operand>,
        keep: impl Fn(usize) -> bool,
    ) -> Inst {
        let old = self.from.inst(like).results;
        let types = self.types(old, &keep);
        let (inst, results) = self.push(like, op, attr, args, &types);
        self.types = types;
        self.stand(old, results, keep);
        self.labels[like.index()] = Some(inst);
        if let Some(name) = self.from.debug.label(like) {
            self.to.debug_mut().labels.push((inst, name.into()));
        }
        inst
    }

    /// Writes an instruction where another stood.
    pub(crate) fn push(
        &mut self,
        like: Inst,
        op: Op,
        attr: Attr,
        args: Vec<Operand>,
        results: &[Type],
    ) -> (Inst, Values) {
        let (inst, results) = self.to.push(op, attr, args, results);
        for value in results.iter() {
            self.defs.resize(value.index(), None);
            self.defs.push(Some(inst));
        }
        if let Some(place) = self.from.debug.place(like) {
            self.to.set_place(inst, place);
        }
        (inst, results)
    }

    /// Opens a copy of a region, with those of its parameters that are kept.
    pub(crate) fn open(&mut self, inst: Inst, region: Region, keep: impl Fn(usize) -> bool) {
        let old = self.from.region(region).params;
        let types = self.types(old, &keep);
        let params = self.to.open_region(inst, &types);
        self.types = types;
        self.stand(old, params, keep);
    }

    /// Closes a copy of a region.
    pub(crate) fn close(&mut self, region: Region) {
        let closed = self.to.close_region();
        self.end(region, closed);
    }

    /// Copies from another function of the module, with these operands for its parameters, while `body` runs.
    pub(crate) fn within<R>(
        &mut self,
        callee: &'a Function,
        args: &[Operand],
        body: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let from = std::mem::replace(&mut self.from, callee);
        if self.taken.0.is_empty() {
            self.taken.0.extend(from.debug.values.iter().map(|name| &**name));
        }
        self.taken.1 = true;
        let values = std::mem::replace(&mut self.values, vec![None; callee.values().len()]);
        let labels = std::mem::replace(&mut self.labels, vec![None; callee.insts().len()]);
        self.bind(callee.params, args);
        let result = body(self);
        self.taken.1 = false;
        (self.from, self.values, self.labels) = (from, values, labels);
        result
    }

    /// The types of those values that are kept.
    fn types(&mut self, values: Values, keep: impl Fn(usize) -> bool) -> Vec<Type> {
        let mut types = std::mem::take(&mut self.types);
        types.clear();
        types.extend(values.iter().enumerate().filter(|(k, _)| keep(*k)).map(|(_, v)| self.from.ty(v)));
        types
    }

    /// Lets new values stand for those old ones that are kept, one by one.
    fn stand(&mut self, old: Values, new: Values, keep: impl Fn(usize) -> bool) {
        let kept = old.iter().enumerate().filter(|(k, _)| keep(*k));
        for ((_, old), new) in kept.zip(new.iter()) {
            self.set(old, new.into());
            self.name(old, new);
        }
    }

    /// Gives a value the name that another has, unless it is taken.
    pub(crate) fn name(&mut self, old: Value, new: Value) {
        let Some(name) = self.from.debug.value(old) else { return };
        if !self.taken.1 || self.taken.0.insert(name) {
            let names = &mut self.to.debug_mut().values;
            names.resize(names.len().max(new.index() + 1), "".into());
            names[new.index()] = name.into();
        }
    }

    /// Lets a region end where another did.
    fn end(&mut self, old: Region, new: Region) {
        if let Some(place) = self.from.debug.ends.get(old.index()) {
            let ends = &mut self.to.debug_mut().ends;
            ends.resize(ends.len().max(new.index() + 1), TextPlace::default());
            ends[new.index()] = *place;
        }
    }
}

/// Whether an access has a constant index out of range of a buffer of known length, or names a byte that no element
/// has.
fn misses(module: &Module, node: &Node, args: &[Operand]) -> bool {
    let beyond = |buffer: Buffer, at: usize, ahead: u64| {
        let Some(Len::Fixed(len)) = module.buffers.get(buffer).map(|b| b.len) else { return false };
        args.get(at).and_then(|arg| arg.constant()).is_some_and(|at| at.bits() | ahead >= len)
    };
    let no_byte = |buffer: Buffer| {
        let bytes = module.buffers.get(buffer).map_or(0, |b| b.elem.bytes());
        args.get(1).and_then(|arg| arg.constant()).is_some_and(|byte| byte.bits() >= bytes.into())
    };
    match (node.op.row().form, &node.attr) {
        (OpForm::Place, Attr::Buffer(b)) if node.op == Op::LoadByte => beyond(*b, 0, 0) || no_byte(*b),
        (OpForm::Place | OpForm::Atomic, Attr::Buffer(b) | Attr::Atomic(b, ..)) => beyond(*b, 0, 0),
        (OpForm::Wide, Attr::Atomic(b, ..)) => {
            let elem = module.buffers.get(*b).map_or(Type::U32, |b| b.elem);
            beyond(*b, 0, elements_per_wide(elem) as u64 - 1)
        }
        (OpForm::Copy, Attr::Copy { to, from }) => beyond(*to, 0, 0) || beyond(*from, 1, 0),
        _ => false,
    }
}
