//! Decoding functions into flat code.
//!
//! The kernel and the functions that it reaches are decoded callee first. A function's registers lie above those of
//! everything it may call, so a chain of calls never meets a register twice, and a call is two jumps and some moves.
//! The end of a region is moves and a jump; `loop` and `while` give their carried registers as results.

use std::collections::HashMap;

use super::LoadError;
use super::code::{Code, Pc, Reg, Step, SwitchTable, fixed};
use super::emit::{CodeEmitter, Move};
use super::lower;
use crate::arena::{Func, Handle, Inst, Region, Value, Values};
use crate::eval::{self, PureFunction};
use crate::module::{Attr, Function, FunctionKind, Module, Node, Operand, Site};
use crate::op::{Op, OpEffect};
use crate::types::Type;

/// A kernel that has been decoded.
#[derive(Debug)]
pub(super) struct DecodedKernel {
    pub code: Code,
    pub entry: Pc,
    /// The initial content of a lane's registers, as far as it does not depend on the launch.
    pub registers: Vec<u64>,
}

/// The position of a decoded function, and the registers that it shares with its callers.
#[derive(Clone, Copy)]
struct CallFrame {
    entry: Pc,
    link: Reg,
    params: Reg,
    results: Reg,
    /// The register after the last one of the function.
    end: Reg,
}

/// Decodes a kernel.
pub(super) fn decode(module: &Module, kernel: Func) -> Result<DecodedKernel, LoadError> {
    let reached = reachable_functions(module, kernel)?;
    let mut registers = vec![0; fixed::LENGTHS as usize + module.buffers.len()];
    let mut consts = HashMap::new();
    for &func in &reached {
        for (_, node) in module.functions[func].insts() {
            for bits in node.args.iter().filter_map(|arg| arg.constant()).map(|c| c.bits()) {
                consts.entry(bits).or_insert_with(|| {
                    registers.push(bits);
                    registers.len() as Reg - 1
                });
            }
        }
    }
    let (mut code, mut frames) = (Code::default(), HashMap::new());
    let floor = registers.len() as Reg;
    for &func in &reached {
        let frame = decode_function(module, func, floor, &consts, &frames, &mut code);
        registers.resize(registers.len().max(frame.end as usize), 0);
        frames.insert(func, frame);
    }
    Ok(DecodedKernel { code, entry: frames[&kernel].entry, registers })
}

/// Returns the kernel and all functions that it may call, callees first. Ops that the interpreter cannot run are an
/// error.
fn reachable_functions(module: &Module, kernel: Func) -> Result<Vec<Func>, LoadError> {
    let mut marked = vec![false; kernel.index() + 1];
    marked[kernel.index()] = true;
    let mut reached = Vec::new();
    for func in (0..=kernel.index()).rev().map(Func::new) {
        if !marked[func.index()] {
            continue;
        }
        reached.push(func);
        for (inst, node) in module.functions[func].insts() {
            match node.attr {
                Attr::Call(callee) => marked[callee.index()] = true,
                _ if matches!(node.op, Op::AsyncLoad | Op::AsyncWait) => {
                    return Err(LoadError::Refused { op: node.op, site: Site { func, inst } });
                }
                _ => {}
            }
        }
    }
    reached.reverse();
    Ok(reached)
}

/// Decodes one function and appends its code.
fn decode_function(
    module: &Module,
    func: Func,
    floor: Reg,
    consts: &HashMap<u64, Reg>,
    frames: &HashMap<Func, CallFrame>,
    code: &mut Code,
) -> CallFrame {
    let function = &module.functions[func];
    let mut uses = vec![0; function.values().len()];
    let mut base = floor;
    for (_, node) in function.insts() {
        node.args.iter().filter_map(|arg| arg.value()).for_each(|value| uses[value.index()] += 1);
        if let Attr::Call(callee) = node.attr {
            base = base.max(frames[&callee].end);
        }
    }
    let entry = code.steps.len() as Pc;
    let emit = CodeEmitter::new(code, func, Inst::new(0), base);
    let regs = vec![0; uses.len()];
    let targets = Vec::new();
    let frame = CallFrame { entry, link: 0, params: 0, results: 0, end: 0 };
    let mut body =
        FunctionDecoder { module, function, frames, consts, frame, emit, regs, uses, targets, held: None };
    body.frame.link = body.emit.take_registers(1);
    body.frame.params = body.define(function.params);
    body.frame.results = body.emit.take_registers(function.results.len());
    body.region(function.body, &Exit::Leave);
    CallFrame { end: body.emit.finish(), ..body.frame }
}

/// What the `yield` of a region does.
enum Exit {
    /// Nothing: the region is a function's body, which ends with `return`.
    Leave,
    /// Sets these registers and jumps.
    Give(Reg, Pc),
    /// Goes on if its value holds, else jumps.
    Test(Pc),
}

/// A loop or block seen from inside.
struct OpenTarget {
    inst: Inst,
    /// The first register of its results, and where it ends.
    leave: (Reg, Pc),
    /// The first register of the carried values, and where the next iteration starts.
    next: (Reg, Pc),
}

/// A function being decoded.
pub(super) struct FunctionDecoder<'c, 'm> {
    pub module: &'m Module,
    pub function: &'m Function,
    pub emit: CodeEmitter<'c>,
    frames: &'m HashMap<Func, CallFrame>,
    consts: &'m HashMap<u64, Reg>,
    /// The register of each value that has been defined.
    regs: Vec<Reg>,
    /// How often each value is used as an operand.
    uses: Vec<u32>,
    targets: Vec<OpenTarget>,
    /// A comparison that is fused with the branch that follows it.
    held: Option<(Value, PureFunction, Reg, Reg)>,
    frame: CallFrame,
}

impl<'m> FunctionDecoder<'_, 'm> {
    /// Assigns new consecutive registers to values, and returns the first.
    pub(crate) fn define(&mut self, values: Values) -> Reg {
        let first = self.emit.take_registers(values.len());
        self.name(values.iter(), first);
        first
    }

    /// Assigns existing consecutive registers to values.
    pub(crate) fn name(&mut self, values: impl Iterator<Item = Value>, first: Reg) {
        for (value, reg) in values.zip(first..) {
            self.regs[value.index()] = reg;
        }
    }

    /// The register of an operand.
    pub(crate) fn reg(&self, operand: Operand) -> Reg {
        match operand {
            Operand::Value(value) => self.regs[value.index()],
            Operand::Const(c) => self.consts[&c.bits()],
        }
    }

    /// Sets registers in a row to operands, all at once.
    fn assign(&mut self, first: Reg, args: &[Operand]) {
        let last = |arg: &Operand| arg.value().is_some_and(|value| self.uses[value.index()] == 1);
        let moves = args.iter().zip(first..);
        let moves = moves.map(|(arg, dst)| Move { dst, src: self.reg(*arg), last: last(arg) }).collect();
        self.emit.assign(moves);
    }

    fn region(&mut self, region: Region, exit: &Exit) {
        let top = self.emit.top();
        self.open(region, exit);
        self.emit.release_registers(top);
    }

    /// Decodes a region and leaves its values visible.
    fn open(&mut self, region: Region, exit: &Exit) {
        let function = self.function;
        let insts = &function.region(region).insts;
        for (k, &inst) in insts.iter().enumerate() {
            self.emit.set_inst(inst);
            let node = function.inst(inst);
            let next = insts.get(k + 1).map(|inst| function.inst(*inst));
            match node.op.effect() {
                OpEffect::Control => self.control(inst, node, exit),
                OpEffect::Pure => self.pure(node, next, exit),
                _ => lower::step(self, node),
            }
        }
    }

    /// An op without effect. Of what is fixed for the launch there is nothing to compute.
    fn pure(&mut self, node: &Node, next: Option<&Node>, exit: &Exit) {
        if let Some(reg) = lower::known(node) {
            return self.name(node.results.iter(), reg);
        }
        let first = node.args.first().map_or(Type::U32, |arg| self.function.operand_ty(*arg));
        let ty = self.module.type_argument(node, self.function).unwrap_or(first);
        let to = if let Attr::Type(to) = node.attr { to } else { ty };
        let f = eval::pure_function(node.op, ty, to).expect("the validator has checked the types");
        let args: Vec<Reg> = node.args.iter().map(|arg| self.reg(*arg)).collect();
        if let ([a, b], true) = (&args[..], self.decides(node.results.get(0), next, exit)) {
            self.held = Some((node.results.get(0), f, *a, *b));
            return;
        }
        let dst = self.define(node.results);
        self.emit.push(lower::pure(f, dst, &args));
    }

    /// Whether a value does nothing but decide the branch that follows at once.
    fn decides(&self, value: Value, next: Option<&Node>, exit: &Exit) -> bool {
        let Some(next) = next else { return false };
        let branches = next.op == Op::If || next.op == Op::Yield && matches!(exit, Exit::Test(_));
        branches && next.args[0] == Operand::Value(value) && self.uses[value.index()] == 1
    }

    fn branch(&mut self, c: Operand, or: Pc) {
        let step = match self.held.take() {
            Some((value, f, a, b)) if c == Operand::Value(value) => Step::Compare { f, a, b, or },
            _ => Step::Branch { c: self.reg(c), or },
        };
        self.emit.push(step);
    }

    fn control(&mut self, inst: Inst, node: &'m Node, exit: &Exit) {
        match node.op {
            Op::If => self.choice(node),
            Op::Switch => self.switch(node),
            Op::Block => self.block(inst, node),
            Op::Loop => self.counted(inst, node),
            Op::While => self.repeat(inst, node),
            Op::Forever => self.forever(inst, node),
            Op::Call => self.call(node),
            Op::Yield => match *exit {
                Exit::Leave => {}
                Exit::Give(first, to) => self.jump((first, to), &node.args),
                Exit::Test(or) => self.branch(node.args[0], or),
            },
            Op::Return if self.function.kind == FunctionKind::Kernel => self.emit.push(Step::End),
            Op::Return => {
                self.assign(self.frame.results, &node.args);
                self.emit.push(Step::Return { link: self.frame.link });
            }
            _ => {
                let Attr::Target(target) = node.attr else { return };
                let target = self.targets.iter().rev().find(|t| t.inst == target);
                let target = target.expect("the validator has checked the targets");
                let to = if node.op == Op::Break { target.leave } else { target.next };
                self.jump(to, &node.args);
            }
        }
    }

    fn jump(&mut self, (first, to): (Reg, Pc), args: &[Operand]) {
        self.assign(first, args);
        self.emit.push(Step::Jump { to });
    }

    fn choice(&mut self, node: &Node) {
        let results = self.define(node.results);
        let (or, end) = (self.emit.label(), self.emit.label());
        self.branch(node.args[0], or);
        self.region(node.regions[0], &Exit::Give(results, end));
        let other = &self.function.region(node.regions[1]).insts;
        let empty = node.results.is_empty() && self.function.inst(other[0]).op == Op::Yield;
        if !empty {
            self.emit.bind_label(or);
            self.region(node.regions[1], &Exit::Give(results, end));
        }
        self.emit.bind_label(end);
        if empty {
            self.emit.bind_label(or);
        }
    }

    fn switch(&mut self, node: &Node) {
        let Attr::Cases(numbers) = &node.attr else { return };
        let results = self.define(node.results);
        let labels: Vec<Pc> = node.regions.iter().map(|_| self.emit.label()).collect();
        let end = self.emit.label();
        let mut cases: Vec<(u32, Pc)> =
            numbers.iter().zip(&labels).flat_map(|(on, label)| on.iter().map(|n| (*n, *label))).collect();
        cases.sort_unstable();
        let default = labels[labels.len() - 1];
        self.emit.push(Step::Switch(Box::new(SwitchTable { on: self.reg(node.args[0]), cases, default })));
        for (region, label) in node.regions.iter().zip(labels) {
            self.emit.bind_label(label);
            self.region(*region, &Exit::Give(results, end));
        }
        self.emit.bind_label(end);
    }

    fn block(&mut self, inst: Inst, node: &Node) {
        let results = self.define(node.results);
        let end = self.emit.label();
        self.inside(OpenTarget { inst, leave: (results, end), next: (results, end) }, |body| {
            body.region(node.regions[0], &Exit::Give(results, end));
        });
        self.emit.bind_label(end);
    }

    /// Runs a closure while a loop or block is open as a target of jumps.
    fn inside(&mut self, target: OpenTarget, build: impl FnOnce(&mut Self)) {
        self.targets.push(target);
        build(self);
        self.targets.pop();
    }

    fn counted(&mut self, inst: Inst, node: &Node) {
        let carried = self.define(node.results);
        self.assign(carried, node.carried());
        let top = self.emit.top();
        let (body, next, end) = (self.emit.label(), self.emit.label(), self.emit.label());
        let params = self.function.region(node.regions[0]).params;
        let (left, i) = (self.emit.take_registers(1), self.emit.take_registers(1));
        self.name(params.iter().take(1), i);
        self.name(params.iter().skip(1), carried);
        let enter = lower::enter(self, node, left, i, end);
        let step = enter.step;
        self.emit.push(Step::Enter(Box::new(enter)));
        self.emit.bind_label(body);
        self.inside(OpenTarget { inst, leave: (carried, end), next: (carried, next) }, |this| {
            this.region(node.regions[0], &Exit::Give(carried, next));
        });
        self.emit.bind_label(next);
        self.emit.set_inst(inst);
        self.emit.push(Step::Next { left, i, step, body });
        self.emit.bind_label(end);
        self.emit.release_registers(top);
    }

    fn repeat(&mut self, inst: Inst, node: &Node) {
        let carried = self.define(node.results);
        self.assign(carried, node.carried());
        let top = self.emit.top();
        let (next, end) = (self.emit.label(), self.emit.label());
        self.name(self.function.region(node.regions[0]).params.iter(), carried);
        self.emit.bind_label(next);
        self.inside(OpenTarget { inst, leave: (carried, end), next: (carried, next) }, |this| {
            this.open(node.regions[0], &Exit::Test(end));
            this.region(node.regions[1], &Exit::Give(carried, next));
        });
        self.emit.bind_label(end);
        self.emit.release_registers(top);
    }

    fn forever(&mut self, inst: Inst, node: &Node) {
        let results = self.define(node.results);
        let top = self.emit.top();
        let carried = self.define(self.function.region(node.regions[0]).params);
        self.assign(carried, node.carried());
        let (next, end) = (self.emit.label(), self.emit.label());
        self.emit.bind_label(next);
        self.inside(OpenTarget { inst, leave: (results, end), next: (carried, next) }, |this| {
            this.region(node.regions[0], &Exit::Give(carried, next));
        });
        self.emit.bind_label(end);
        self.emit.release_registers(top);
    }

    fn call(&mut self, node: &Node) {
        let Attr::Call(callee) = node.attr else { return };
        let frame = self.frames[&callee];
        self.assign(frame.params, &node.args);
        self.emit.push(Step::Call { to: frame.entry, link: frame.link });
        let dst = self.define(node.results);
        for k in 0..node.results.len() as Reg {
            self.emit.push(Step::Move { dst: dst + k, src: frame.results + k });
        }
    }
}
