//! The law of levels: what the analysis calls uniform is the same in every run.
//!
//! Random functions run lane by lane. Whatever a lane does is noted under the iterations and calls it does it in;
//! then the lanes of each subgroup and of the group are compared with what the analysis says of them.

use std::collections::HashMap;

use super::random::Random;
use crate::arena::{Func, Handle, Inst, Region, Value, Values};
use crate::eval::eval;
use crate::module::{Attr, BufferDecl, Function, Kind, Module, Node, Operand, Place};
use crate::op::Op;
use crate::types::{Access, Len, Space, Type};
use crate::valid::{Level, Valid, validate};
use crate::write::Writer;

const LANES: u32 = 7;
const SUBGROUP: u32 = 4;

fn num(n: u32) -> Operand {
    n.into()
}

/// A function in the making: every value is a `u32`, every condition is made where it is used.
struct Gen<'r> {
    random: &'r mut Random,
    writer: Writer,
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
        let params = self.writer.open(inst, &vec![Type::U32; params]);
        self.seen.extend(params.iter());
        first(self, params);
        self.statements();
        if !self.writer.ended() {
            let mut args = self.operands(end);
            if let Some((loops, .., Some(counter))) = self.around.last()
                && *loops == inst
            {
                args[0] = (*counter).into();
            }
            self.writer.push(Op::Yield, Attr::None, args, &[]);
        }
        self.writer.close();
        self.seen.truncate(seen);
    }

    fn statements(&mut self) {
        for _ in 0..self.random.below(5) {
            if self.fuel == 0 || self.writer.ended() {
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
        let regions = if matches!(self.writer.attr(inst), Attr::Cases(_)) { 3 } else { 2 };
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
        let params = self.writer.open(inst, &vec![Type::U32; carried]);
        let seen = self.seen.len();
        self.seen.extend(params.iter());
        let counter = self.plain(Op::Add, vec![params.get(0).into(), num(1)]);
        let bound = self.operand();
        let bound = self.plain(Op::And, vec![bound, num(3)]);
        let c = self.plain(Op::Lt, vec![params.get(0).into(), bound.into()]);
        self.writer.push(Op::Yield, Attr::None, vec![c.into()], &[]);
        self.writer.close();
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
            g.writer.open(out, &[]);
            let args = g.operands(results);
            g.writer.push(Op::Break, Attr::Target(inst), args, &[]);
            g.writer.close();
            g.writer.open(out, &[]);
            g.writer.close();
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
        let loops = self.writer.function().inst(inst).op.loops();
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
pub fn module(seed: u64) -> Module {
    let mut random = Random::new(seed);
    let mut module = Module::default();
    module.buffers.push(BufferDecl {
        name: "table".into(),
        elem: Type::U32,
        len: Len::Launch,
        space: Space::Global,
        access: Access::Read,
        place: Place::default(),
    });
    let mut functions = Vec::new();
    for k in 0..3 {
        let kind = if k == 2 { Kind::Kernel } else { Kind::Function };
        let called = k < 2;
        let (params, results) = if called { (random.below(3), random.below(3)) } else { (0, 0) };
        let writer = Writer::new(format!("f{k}"), kind, &vec![Type::U32; params], &vec![Type::U32; results]);
        let seen = writer.function().params.iter().collect();
        let known = functions.clone();
        let random = &mut random;
        let mut g = Gen { random, writer, seen, around: vec![], functions: known, results, fuel: 30 };
        while g.fuel > 0 && !g.writer.ended() {
            g.fuel -= 1;
            g.statement();
        }
        let args = g.operands(results);
        g.writer.push(Op::Return, Attr::None, args, &[]);
        functions.push((module.functions.push(g.writer.finish()), params, results));
    }
    module
}

/// How a region was left.
enum Exit {
    Yield(Vec<u64>),
    Break(Inst, Vec<u64>),
    Continue(Inst, Vec<u64>),
    Return(Vec<u64>),
}

/// What happened under one key: who met an instruction, or who computed a value and which.
type Met = HashMap<(Vec<u32>, Func, bool, usize), Vec<(u32, u64)>>;

/// One lane on its way.
struct Lane<'m> {
    module: &'m Module,
    lane: u32,
    /// The calls and iterations it is in.
    path: Vec<u32>,
    met: &'m mut Met,
    steps: usize,
}

impl Lane<'_> {
    fn note(&mut self, func: Func, value: bool, index: usize, bits: u64) {
        let key = (self.path.clone(), func, value, index);
        self.met.entry(key).or_default().push((self.lane, bits));
    }

    fn set(&mut self, func: Func, env: &mut [u64], values: Values, bits: &[u64]) {
        for (value, bits) in values.iter().zip(bits) {
            env[value.index()] = *bits;
            self.note(func, true, value.index(), *bits);
        }
    }

    fn call(&mut self, func: Func, args: &[u64]) -> Vec<u64> {
        let function = &self.module.functions[func];
        let mut env = vec![0; function.values.len()];
        self.set(func, &mut env, function.params, args);
        match self.region(func, function, &mut env, function.body) {
            Exit::Return(results) => results,
            _ => unreachable!("a valid body returns"),
        }
    }

    fn region(&mut self, func: Func, function: &Function, env: &mut Vec<u64>, region: Region) -> Exit {
        for inst in &function.region(region).insts {
            let node = function.inst(*inst);
            self.steps += 1;
            self.note(func, false, inst.index(), 0);
            let read = |env: &[u64], arg: &Operand| match arg {
                Operand::Value(value) => env[value.index()],
                Operand::Const(c) => c.bits(),
            };
            let args: Vec<u64> = node.args.iter().map(|arg| read(env, arg)).collect();
            let results = match (node.op, &node.attr) {
                (Op::Yield, _) => return Exit::Yield(args),
                (Op::Return, _) => return Exit::Return(args),
                (Op::Break, Attr::Target(target)) => return Exit::Break(*target, args),
                (Op::Continue, Attr::Target(target)) => return Exit::Continue(*target, args),
                (Op::Lane, _) => vec![self.lane.into()],
                (Op::Subgroup, _) => vec![(self.lane / SUBGROUP).into()],
                (Op::Group, _) => vec![5],
                (Op::Load, _) => vec![args[0].wrapping_mul(2_654_435_761) >> 7 & 7],
                (Op::Call, Attr::Call(callee)) => {
                    self.path.extend([u32::MAX, inst.index() as u32]);
                    let results = self.call(*callee, &args);
                    self.path.truncate(self.path.len() - 2);
                    results
                }
                (op, _) if op.nests() => match self.nest(func, function, env, *inst, &args) {
                    Ok(results) => results,
                    Err(exit) => return exit,
                },
                (op, _) => {
                    let ty = function.operand_ty(node.args[0]);
                    vec![eval(op, ty, ty, &args).expect("the op is pure")]
                }
            };
            self.set(func, env, node.results, &results);
        }
        unreachable!("a valid region ends")
    }

    /// Runs an instruction with regions; an error is a jump that leaves it.
    fn nest(
        &mut self,
        func: Func,
        function: &Function,
        env: &mut Vec<u64>,
        inst: Inst,
        args: &[u64],
    ) -> Result<Vec<u64>, Exit> {
        let node = function.inst(inst);
        let leave = |exit: Exit| match exit {
            Exit::Yield(values) => Ok(values),
            Exit::Break(target, values) if target == inst => Ok(values),
            exit => Err(exit),
        };
        let region = match (node.op, &node.attr) {
            (Op::If, _) => usize::from(args[0] == 0),
            (Op::Switch, Attr::Cases(cases)) => {
                cases.iter().position(|case| case.contains(&(args[0] as u32))).unwrap_or(cases.len())
            }
            (Op::Block, _) => 0,
            _ => return self.repeat(func, function, env, inst, args),
        };
        leave(self.region(func, function, env, node.regions[region]))
    }

    fn repeat(
        &mut self,
        func: Func,
        function: &Function,
        env: &mut Vec<u64>,
        inst: Inst,
        args: &[u64],
    ) -> Result<Vec<u64>, Exit> {
        let node: &Node = function.inst(inst);
        let mut carried = args[node.op.row().args.len()..].to_vec();
        let params = function.region(node.regions[0]).params;
        let place = self.path.len();
        self.path.extend([inst.index() as u32, 0]);
        let result = loop {
            let mut bits = carried.clone();
            if node.op == Op::Loop {
                let counter = args[0] + u64::from(self.path[place + 1]) * args[2];
                if counter >= args[1] || args[2] == 0 {
                    break Ok(carried);
                }
                bits.insert(0, counter);
            }
            self.set(func, env, params, &bits);
            let mut exit = self.region(func, function, env, node.regions[0]);
            if let (Op::While, Exit::Yield(c)) = (node.op, &exit) {
                if c[0] == 0 {
                    break Ok(carried);
                }
                exit = self.region(func, function, env, node.regions[1]);
            }
            carried = match exit {
                Exit::Yield(values) => values,
                Exit::Continue(target, values) if target == inst => values,
                Exit::Break(target, values) if target == inst => break Ok(values),
                exit => break Err(exit),
            };
            self.path[place + 1] += 1;
        };
        self.path.truncate(place);
        result
    }
}

/// Whether what lanes did agrees with a level.
fn holds(level: Level, value: bool, met: &[(u32, u64)]) -> bool {
    let unit = |lane: u32| match level {
        Level::Lane => lane,
        Level::Subgroup => lane / SUBGROUP,
        Level::Group => 0,
    };
    let together = |(a, x): &(u32, u64)| {
        let mates = met.iter().filter(|(b, _)| unit(*a) == unit(*b));
        let all = (0..LANES).filter(|b| unit(*a) == unit(*b)).count();
        if value { mates.clone().all(|(_, y)| x == y) } else { mates.count() == all }
    };
    met.iter().all(together)
}

fn run(valid: &Valid, kernel: Func) -> (Met, usize) {
    let mut met = Met::new();
    let mut steps = 0;
    for lane in 0..LANES {
        let mut walk = Lane { module: valid, lane, path: vec![], met: &mut met, steps: 0 };
        walk.call(kernel, &[]);
        steps += walk.steps;
    }
    (met, steps)
}

#[test]
fn what_is_called_uniform_is() {
    let (mut steps, mut uniform, mut total) = (0, 0, 0);
    for seed in 0..1000 {
        let module = module(seed);
        let valid = validate(module).unwrap_or_else(|e| panic!("seed {seed}: {e} at {:?}", e.errors[0].site));
        let kernel = valid.kernels().next().expect("the last function is one");
        let (met, ran) = run(&valid, kernel);
        steps += ran;
        for ((path, func, value, index), lanes) in met {
            let levels = valid.uniformity(func);
            let level =
                if value { levels.level(Value::new(index)) } else { levels.control(Inst::new(index)) };
            let what = if value { "value" } else { "control" };
            assert!(
                holds(level, value, &lanes),
                "seed {seed}: {what} {index} of {func} is not {level} in {path:?}: {lanes:?}"
            );
            total += 1;
            uniform += usize::from(level > Level::Lane);
        }
    }
    // The law says nothing if nothing runs or nothing is uniform.
    assert!(steps > 100_000, "only {steps} steps");
    assert!(uniform * 4 > total, "only {uniform} of {total} are uniform");
}
