//! Printing modules as text, with one instruction per line and an indent of two spaces.
//!
//! The printer keeps its own stack, because it also prints modules that have not been validated. Listings, notes and
//! the formatter use a [`Hook`] to observe the lines or to add to them.

use std::fmt::{self, Write};

use super::PrintedLine;
use super::names::ValueNames;
use crate::arena::{Func, Inst, Region};
use crate::limits::MAX_DEPTH;
use crate::module::{Attr, Function, FunctionKind, ImportFlow, Module, TextPlace};
use crate::op::Op;
use crate::types::{Const, Len};

/// Prints a module.
pub fn print(module: &Module) -> String {
    ModulePrinter::new(module, Plain).module().0
}

/// Prints the module as [`print()`] does.
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

/// Callbacks around the lines that are printed.
pub(super) trait Hook {
    /// Is called before a line. `apart` asks for an empty line before it, and `depth` is the indent of the lines above.
    fn before(&mut self, _line: PrintedLine, apart: bool, _depth: usize, out: &mut String) {
        if apart && !out.is_empty() {
            out.push('\n');
        }
    }

    /// Is called after the content of a line, before the line ends.
    fn after(&mut self, _line: PrintedLine, _out: &mut String) {}

    /// Is called with the place at which something was printed. A part that is not printed has the place of the brace
    /// that would follow it.
    fn mark(&mut self, _line: PrintedLine, _place: TextPlace) {}

    /// Prints a constant.
    fn literal(&mut self, value: Const, out: &mut String) {
        push(out, format_args!("{value}"));
    }

    /// Prints how many elements a buffer has.
    fn len(&mut self, len: Len, out: &mut String) {
        push(out, format_args!("{len}"));
    }

    /// Whether an import stands before a buffer, where both stand before all functions.
    fn leads(&self, _import: PrintedLine, _buffer: PrintedLine) -> bool {
        true
    }

    /// Whether a region must be printed though it is empty.
    fn keeps(&self, _func: Func, _region: Region) -> bool {
        false
    }
}

/// The hook that does nothing.
struct Plain;

impl Hook for Plain {}

/// Adds to a text.
pub(super) fn push(out: &mut String, what: fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a string takes everything");
}

/// Adds the space before a line.
pub(super) fn indent(out: &mut String, depth: usize) {
    // Without this bound, a module that is nested too deep would be printed in quadratic size.
    for _ in 0..depth.min(MAX_DEPTH) {
        out.push_str("  ");
    }
}

/// A text that is being printed.
pub(super) struct ModulePrinter<'m, H> {
    pub module: &'m Module,
    pub out: String,
    pub hook: H,
    depth: usize,
}

/// A function that is being printed.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s> {
    pub func: Func,
    pub function: &'s Function,
    pub names: &'s ValueNames<'s>,
}

/// A region, and its end if that is not written.
#[derive(Clone, Copy)]
struct Closed {
    region: Region,
    implied: Option<Inst>,
}

/// A region that is being printed.
struct PrintedRegion {
    closed: Closed,
    /// The next instruction in it.
    at: usize,
    /// The instruction that has the region, and the index of the region.
    of: Option<(Inst, usize)>,
}

impl<'m, H: Hook> ModulePrinter<'m, H> {
    pub(crate) fn new(module: &'m Module, hook: H) -> Self {
        ModulePrinter { module, out: String::new(), depth: 0, hook }
    }

    pub(crate) fn module(mut self) -> (String, H) {
        let module = self.module;
        for (k, need) in module.needs.iter().enumerate() {
            self.line(PrintedLine::Need(k), false, 0, |p| push(&mut p.out, format_args!("need {need}")));
        }
        let mut functions = module.functions.iter().peekable();
        for (buffer, decl) in module.buffers.iter() {
            let line = PrintedLine::Buffer(buffer);
            while let Some((func, function)) = functions
                .next_if(|(func, f)| f.is_import() && self.hook.leads(PrintedLine::Head(*func), line))
            {
                self.function(func, function, false);
            }
            self.line(line, false, 0, |p| {
                push(&mut p.out, format_args!("buffer {}: [{}; ", decl.name, decl.elem));
                p.hook.len(decl.len, &mut p.out);
                push(&mut p.out, format_args!("] {} {}", decl.space, decl.access));
            });
        }
        let mut bodies = false;
        for (func, function) in functions {
            self.function(func, function, bodies || !function.is_import());
            bodies = !function.is_import();
        }
        (self.out, self.hook)
    }

    /// Prints a function, or the one line of an import.
    fn function(&mut self, func: Func, function: &Function, apart: bool) {
        let names = ValueNames::new(function);
        let scope = Scope { func, function, names: &names };
        self.line(PrintedLine::Head(func), apart, 0, |p| p.head(scope));
        if !function.is_import() {
            self.body(scope);
        }
    }

    /// Prints one line; `inner` is how much deeper things stand above it.
    fn line(&mut self, line: PrintedLine, apart: bool, inner: usize, write: impl FnOnce(&mut Self)) {
        self.hook.before(line, apart, self.depth + inner, &mut self.out);
        indent(&mut self.out, self.depth);
        let start = self.out.len() as u32;
        write(self);
        self.hook.mark(line, TextPlace { start, end: self.out.len() as u32 });
        self.hook.after(line, &mut self.out);
        self.out.push('\n');
    }

    fn head(&mut self, Scope { function, names, .. }: Scope<'_>) {
        let (word, bare) = match function.kind {
            FunctionKind::Kernel => ("kernel", function.params.is_empty()),
            FunctionKind::Function => ("fn", false),
            FunctionKind::Import(ImportFlow::Any) => ("import fn", false),
            FunctionKind::Import(ImportFlow::Uniform) => ("import uniform fn", false),
        };
        push(&mut self.out, format_args!("{word} {}", function.name));
        if !bare {
            self.out.push('(');
            self.list(function.params.iter(), |p, value| {
                push(&mut p.out, format_args!("{}: {}", names.value(value), function.ty(value)));
            });
            self.out.push(')');
        }
        match &function.results[..] {
            [] => {}
            [ty] => push(&mut self.out, format_args!(" -> {ty}")),
            types => {
                self.out.push_str(" -> (");
                self.list(types, |p, ty| push(&mut p.out, format_args!("{ty}")));
                self.out.push(')');
            }
        }
        if !function.is_import() {
            self.out.push_str(" {");
        }
    }

    fn body(&mut self, scope: Scope<'_>) {
        let mut stack = Vec::new();
        self.enter(scope.function.body, None, &mut stack);
        while let Some(frame) = stack.last_mut() {
            let insts = &scope.function.region(frame.closed.region).insts;
            let Some(inst) = insts.get(frame.at).copied() else {
                self.leave(scope, &mut stack);
                continue;
            };
            frame.at += 1;
            if frame.at == insts.len() && implied(scope.function, insts, frame.of.is_none()) {
                frame.closed.implied = Some(inst);
                continue;
            }
            let node = scope.function.inst(inst);
            self.line(PrintedLine::Inst(scope.func, inst), false, 0, |p| p.inst(scope, inst));
            match node.regions.first() {
                Some(_) if node.op == Op::Switch => {
                    self.depth += 1;
                    self.arm(scope, inst, 0, &mut stack);
                }
                Some(region) => self.enter(*region, Some((inst, 0)), &mut stack),
                None if node.op.has_regions() => self.brace(scope, PrintedLine::Close(scope.func, inst), &[]),
                None => {}
            }
        }
    }

    fn enter(&mut self, region: Region, of: Option<(Inst, usize)>, stack: &mut Vec<PrintedRegion>) {
        self.depth += 1;
        stack.push(PrintedRegion { closed: Closed { region, implied: None }, at: 0, of });
    }

    /// Prints what follows a region: its brace, and the head of the next.
    fn leave(&mut self, scope: Scope<'_>, stack: &mut Vec<PrintedRegion>) {
        let Some(PrintedRegion { closed, of, .. }) = stack.pop() else { return };
        self.depth -= 1;
        let line = PrintedLine::End(scope.func, closed.region);
        let Some((inst, k)) = of else {
            return self.brace(scope, line, &[closed]);
        };
        let node = scope.function.inst(inst);
        if node.op == Op::Switch {
            self.brace(scope, line, &[closed]);
            return self.arm(scope, inst, k + 1, stack);
        }
        let Some(next) = node.regions.get(k + 1).copied() else {
            return self.brace(scope, line, &[closed]);
        };
        if let (Op::If, Some(absent)) = (node.op, self.absent(scope, inst, next)) {
            return self.brace(scope, line, &[closed, absent]);
        }
        self.line(PrintedLine::Arm(scope.func, next), false, 1, |p| {
            p.close(scope, closed);
            p.out.push_str(if node.op == Op::While { "} do {" } else { "} else {" });
        });
        self.enter(next, Some((inst, k + 1)), stack);
    }

    /// Prints the head of a switch's k-th region, or the brace after the last.
    fn arm(&mut self, scope: Scope<'_>, inst: Inst, k: usize, stack: &mut Vec<PrintedRegion>) {
        let node = scope.function.inst(inst);
        let last = k + 1 >= node.regions.len();
        let region = node.regions.get(k).copied();
        let absent = region.filter(|_| last).and_then(|region| self.absent(scope, inst, region));
        let Some(region) = region.filter(|_| absent.is_none()) else {
            self.depth -= 1;
            return self.brace(scope, PrintedLine::Close(scope.func, inst), absent.as_slice());
        };
        self.line(PrintedLine::Arm(scope.func, region), false, 0, |p| match &node.attr {
            Attr::Cases(cases) if !last => {
                p.out.push_str("case ");
                let values = cases.get(k).map_or(&[][..], |values| values);
                p.list(values, |p, value| p.hook.literal((*value).into(), &mut p.out));
                p.out.push_str(" {");
            }
            _ => p.out.push_str("default {"),
        });
        self.enter(region, Some((inst, k)), stack);
    }

    /// A region that need not be printed, with its end.
    fn absent(&self, scope: Scope<'_>, inst: Inst, region: Region) -> Option<Closed> {
        let insts = &scope.function.region(region).insts;
        let empty = insts.len() == 1
            && implied(scope.function, insts, false)
            && scope.function.inst(inst).results.is_empty()
            && !self.hook.keeps(scope.func, region);
        empty.then(|| Closed { region, implied: insts.first().copied() })
    }

    /// Prints a line that is a brace, which ends these regions.
    fn brace(&mut self, scope: Scope<'_>, line: PrintedLine, closed: &[Closed]) {
        self.line(line, false, 1, |p| {
            for closed in closed {
                p.close(scope, *closed);
            }
            p.out.push('}');
        });
    }

    /// Marks the brace that comes next as the end of a region.
    fn close(&mut self, scope: Scope<'_>, closed: Closed) {
        let start = self.out.len() as u32;
        let place = TextPlace { start, end: start + 1 };
        self.hook.mark(PrintedLine::End(scope.func, closed.region), place);
        if let Some(inst) = closed.implied {
            self.hook.mark(PrintedLine::Inst(scope.func, inst), place);
        }
    }

    /// Prints things with commas between.
    pub(crate) fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        for (k, item) in items.into_iter().enumerate() {
            if k > 0 {
                self.out.push_str(", ");
            }
            each(self, item);
        }
    }
}

/// Whether the last of a region's instructions is the end that the writer would add if it were missing.
fn implied(function: &Function, insts: &[Inst], body: bool) -> bool {
    let [before @ .., last] = insts else { return false };
    let node = function.inst(*last);
    let end = if body { Op::Return } else { Op::Yield };
    let ended = before.last().is_some_and(|inst| function.inst(*inst).op.is_terminator());
    node.op == end && node.args.is_empty() && !ended
}
