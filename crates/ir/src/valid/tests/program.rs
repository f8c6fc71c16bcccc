//! Random valid modules that end: every kind of region and jump, calls, and what differs between lanes.

use super::random::Random;
use crate::arena::{Func, Handle, Inst, Value, Values};
use crate::module::{Attr, BufferDecl, FunctionKind, Module, Operand, TextPlace};
use crate::op::Op;
use crate::types::{Access, Len, Space, Type};
use crate::write::FunctionWriter;

fn num(n: u32) -> Operand {
    n.into()
}

/// A function in the making: every value is a `u32`, every condition is made where it is used.
struct Gen<'r> {
    random: &'r mut Random,
    writer: FunctionWriter,
    /// The values that are seen.
    seen: Vec<Value>,
    /// Loops and blocks around: how many results, how many carried values, the one that counts.
    around: Vec<(Inst, usize, usize, Option<Value>)>,
    functions: Vec<(Func, usize, usize)>,
    results: usize,
    fuel: usize,
}

impl Gen<'_> {
    fn push(&mut self, op: Op, attr: Attr, args: Vec<Operand>) -> Value {
        let ty = if matches!(op, Op::Lt | Op::Ne | Op::Eq) { Type::Bool } else { Type::U32 };
        self.writer.push(op, attr, args, &[ty]).1.get(0)
    }

    fn plain(&mut self, op: Op, args: Vec<Operand>) -> Value {
        self.push(op, Attr::None, args)
    }

    fn operand(&mut self) -> Operand {
        match self.seen.len() {
            0 => num(self.random.below(4) as u32),
            _ if self.random.once(5) => num(self.random.below(4) as u32),
            // Mostly recent ones, so that what differs spreads.
            n => self.seen[n - 1 - self.random.below(n.min(6))].into(),
        }
    }

    fn operands(&mut self, n: usize) -> Vec<Operand> {
        (0..n).map(|_| self.operand()).collect()
    }

    fn condition(&mut self) -> Operand {
        let (a, n) = (self.operand(), self.random.below(4) as u32);
        let a = self.plain(Op::And, vec![a, num(3)]);
        let op = self.random.of(&[Op::Lt, Op::Ne, Op::Eq]);
        self.plain(op, vec![a.into(), n.into()]).into()
    }

    /// Writes a region; `first` sees its parameters, and the end has as many values as asked for.
    fn region(&mut self, inst: Inst, params: usize, first: impl FnOnce(&mut Self, Values), end: usize) {
        let seen = self.seen.len();
        let params = self.writer.open_region(inst, &vec![Type::U32; params]);
        self.seen.extend(params.iter());
        first(self, params);
        self.statements();
        if !self.writer.region_ended() {
            let mut args = self.operands(end);
            if let Some((loops, .., Some(counter))) = self.around.last()
                && *loops == inst
            {
                args[0] = (*counter).into();
            }
            self.writer.push(Op::Yield, Attr::None, args, &[]);
        }
        self.writer.close_region();
        self.seen.truncate(seen);
    }

    fn statements(&mut self) {
        for _ in 0..self.random.below(5) {
            if self.fuel == 0 || self.writer.region_ended() {
                return;
            }
            self.fuel -= 1;
            self.statement();
        }
        if self.writer.depth() > 1 && self.random.once(4) {
            self.leave();
        }
    }

    fn statement(&mut self) {
        let deep = self.writer.depth() > 6;
        let value = match self.random.below(if deep { 7 } else { 13 }) {
            0 => self.plain(Op::Lane, vec![]),
            1 => self.plain(Op::Subgroup, vec![]),
            2 => self.plain(Op::Group, vec![]),
            3 => {
                let at = self.operands(1);
                self.push(Op::Load, Attr::Buffer(Handle::new(0)), at)
            }
            4 if !self.functions.is_empty() => return self.call(),
            4..=6 => {
                let op = self.random.of(&[Op::Add, Op::Xor, Op::Min, Op::Mul]);
                let args = self.operands(2);
                self.plain(op, args)
            }
            7 | 8 => return self.choice(),
            9 => return self.block(),
            10 => return self.counted(),
            11 => return self.whiled(),
            _ => return self.forever(),
        };
        self.seen.push(value);
    }

    fn nest(&mut self, op: Op, attr: Attr, args: Vec<Operand>, results: usize) -> (Inst, Values) {
        self.writer.push(op, attr, args, &vec![Type::U32; results])
    }

    fn choice(&mut self) {
        let results = self.random.below(2);
        let (inst, values) = if self.random.once(3) {
            let on = self.operand();
            self.nest(Op::Switch, Attr::Cases(vec![vec![0], vec![1, 2]]), vec![on], results)
        } else {
            let c = self.condition();
            self.nest(Op::If, Attr::None, vec![c], results)
        };
        let regions = if matches!(self.writer.attr_mut(inst), Attr::Cases(_)) { 3 } else { 2 };
        for _ in 0..regions {
            self.region(inst, 0, |_, _| (), results);
        }
        self.seen.extend(values.iter());
    }

    fn block(&mut self) {
        let results = self.random.below(2);
        let (inst, values) = self.nest(Op::Block, Attr::None, vec![], results);
        self.around.push((inst, results, 0, None));
        self.region(inst, 0, |_, _| (), results);
        self.around.pop();
        self.seen.extend(values.iter());
    }

    fn counted(&mut self) {
        let carried = self.random.below(3);
        let mut args = Vec::new();
        for most in [1, 3, 3] {
            let bound = self.operand();
            args.push(self.plain(Op::And, vec![bound, num(most)]).into());
        }
        args.extend(self.operands(carried));
        let (inst, values) = self.nest(Op::Loop, Attr::None, args, carried);
        self.around.push((inst, carried, carried, None));
        self.region(inst, carried + 1, |_, _| (), carried);
        self.around.pop();
        self.seen.extend(values.iter());
    }

    /// Counts its iterations in the first carried value, so that it ends.
    fn whiled(&mut self) {
        let carried = 1 + self.random.below(2);
        let mut args = vec![num(0)];
        args.extend(self.operands(carried - 1));
        let (inst, values) = self.nest(Op::While, Attr::None, args, carried);
        let params = self.writer.open_region(inst, &vec![Type::U32; carried]);
        let seen = self.seen.len();
        self.seen.extend(params.iter());
        let counter = self.plain(Op::Add, vec![params.get(0).into(), num(1)]);
        let bound = self.operand();
        let bound = self.plain(Op::And, vec![bound, num(3)]);
        let c = self.plain(Op::Lt, vec![params.get(0).into(), bound.into()]);
        self.writer.push(Op::Yield, Attr::None, vec![c.into()], &[]);
        self.writer.close_region();
        self.around.push((inst, carried, carried, Some(counter)));
        self.region(inst, 0, |_, _| (), carried);
        self.around.pop();
        self.seen.truncate(seen);
        self.seen.extend(values.iter());
    }

    fn forever(&mut self) {
        let (carried, results) = (1 + self.random.below(2), self.random.below(3));
        let mut args = vec![num(0)];
        args.extend(self.operands(carried - 1));
        let (inst, values) = self.nest(Op::Forever, Attr::None, args, results);
        let first = |g: &mut Self, params: Values| {
            let counter = g.plain(Op::Add, vec![params.get(0).into(), num(1)]);
            g.around.push((inst, results, carried, Some(counter)));
            let done = g.plain(Op::Lt, vec![num(2), counter.into()]);
            let (out, _) = g.nest(Op::If, Attr::None, vec![done.into()], 0);
            g.writer.open_region(out, &[]);
            let args = g.operands(results);
            g.writer.push(Op::Break, Attr::Target(inst), args, &[]);
            g.writer.close_region();
            g.writer.open_region(out, &[]);
            g.writer.close_region();
        };
        self.region(inst, carried, first, carried);
        self.around.pop();
        self.seen.extend(values.iter());
    }

    fn call(&mut self) {
        let (func, params, results) = self.random.of(&self.functions);
        let args = self.operands(params);
        let (_, values) = self.nest(Op::Call, Attr::Call(func), args, results);
        self.seen.extend(values.iter());
    }

    /// Ends the open region with a jump.
    fn leave(&mut self) {
        if self.around.is_empty() || self.random.once(5) {
            let args = self.operands(self.results);
            self.writer.push(Op::Return, Attr::None, args, &[]);
            return;
        }
        let (inst, results, carried, counter) = self.random.of(&self.around);
        let loops = self.writer.function().inst(inst).op.is_loop();
        if loops && self.random.once(2) {
            let mut args = self.operands(carried);
            if let Some(counter) = counter {
                args[0] = counter.into();
            }
            self.writer.push(Op::Continue, Attr::Target(inst), args, &[]);
        } else {
            let args = self.operands(results);
            self.writer.push(Op::Break, Attr::Target(inst), args, &[]);
        }
    }
}

/// A random valid module: two functions and a kernel.
pub(crate) fn module(seed: u64) -> Module {
    let mut random = Random::new(seed);
    let mut module = Module::default();
    module.buffers.push(BufferDecl {
        name: "table".into(),
        elem: Type::U32,
        len: Len::Launch,
        space: Space::Global,
        access: Access::Read,
        place: TextPlace::default(),
    });
    let mut functions = Vec::new();
    for k in 0..3 {
        let kind = if k == 2 { FunctionKind::Kernel } else { FunctionKind::Function };
        let called = k < 2;
        let (params, results) = if called { (random.below(3), random.below(3)) } else { (0, 0) };
        let writer =
            FunctionWriter::new(format!("f{k}"), kind, &vec![Type::U32; params], &vec![Type::U32; results]);
        let seen = writer.function().params.iter().collect();
        let known = functions.clone();
        let random = &mut random;
        let mut g = Gen { random, writer, seen, around: vec![], functions: known, results, fuel: 30 };
        while g.fuel > 0 && !g.writer.region_ended() {
            g.fuel -= 1;
            g.statement();
        }
        let args = g.operands(results);
        g.writer.push(Op::Return, Attr::None, args, &[]);
        functions.push((module.functions.push(g.writer.finish()), params, results));
    }
    module
}
