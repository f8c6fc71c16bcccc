//! The law of levels: what the analysis calls uniform is the same in every run.
//!
//! Random functions run lane by lane. Whatever a lane does is noted under the iterations and calls it does it in;
//! then the lanes of each subgroup and of the group are compared with what the analysis says of them.

use std::collections::HashMap;

use super::program::module;
use crate::arena::{Func, Handle, Inst, Region, Value, Values};
use crate::eval::eval;
use crate::module::{Attr, Function, Module, Node, Operand};
use crate::op::Op;
use crate::valid::{UniformLevel, Valid, validate};

const LANES: u32 = 7;
const SUBGROUP: u32 = 4;

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
                (op, _) if op.has_regions() => match self.nest(func, function, env, *inst, &args) {
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
fn holds(level: UniformLevel, value: bool, met: &[(u32, u64)]) -> bool {
    let unit = |lane: u32| match level {
        UniformLevel::Lane => lane,
        UniformLevel::Subgroup => lane / SUBGROUP,
        UniformLevel::Group => 0,
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
    for seed in 0..500 {
        let module = module(seed);
        let valid = validate(module).unwrap_or_else(|e| panic!("seed {seed}: {e} at {:?}", e.errors[0].site));
        let kernel = valid.kernels().next().expect("the last function is one");
        let (met, ran) = run(&valid, kernel);
        steps += ran;
        for ((path, func, value, index), lanes) in met {
            let levels = valid.uniformity(func);
            let level = if value {
                levels.value_level(Value::new(index))
            } else {
                levels.control_level(Inst::new(index))
            };
            let what = if value { "value" } else { "control" };
            assert!(
                holds(level, value, &lanes),
                "seed {seed}: {what} {index} of {func} is not {level} in {path:?}: {lanes:?}"
            );
            total += 1;
            uniform += usize::from(level > UniformLevel::Lane);
        }
    }
    // The law says nothing if nothing runs or nothing is uniform.
    assert!(steps > 100_000, "only {steps} steps");
    assert!(uniform * 4 > total, "only {uniform} of {total} are uniform");
}
