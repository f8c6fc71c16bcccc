//! How a kernel is split into loops over lanes when a group of several lanes runs on one thread.
//!
//! A kernel without barriers could run as one loop over its lanes. Where lanes must meet, the loop is split: what lies
//! between two meetings becomes a loop of its own, and values that live across the split are kept a lane each in
//! memory, their *home*. A [`ScopePlan`] is that split as a tree. There are three scopes: code that runs once a group, once
//! a subgroup, and once a lane.
//!
//! - An instruction whose results are uniform and that has no effect runs *once* in its scope.
//! - An instruction with regions in which lanes meet, or which all lanes leave by one jump, becomes control flow of the
//!   scope; the validator has made sure that all lanes take the same way there.
//! - Everything else runs in a loop over lanes, control flow included.
//!
//! Law: each instruction runs as often as the interpreter runs it, or is pure; the order of effects of one lane is
//! kept; and between two meetings nothing promises an order among lanes, so one after the other is as good as any.

use std::collections::HashSet;

use pelton_ir::arena::{Handle, Inst, Region, Value};
use pelton_ir::module::{Attr, Function};
use pelton_ir::op::{Op, OpEffect};
use pelton_ir::valid::{UniformLevel, Uniformity};

/// The steps of a region, or of a part of it, in one scope.
#[derive(Debug, Default)]
pub struct ScopePlan {
    /// The steps in the order in which they run.
    pub steps: Vec<PlanStep>,
}

/// A step of a plan.
#[derive(Debug)]
pub enum PlanStep {
    /// An instruction without effects and with uniform results, which runs once in the scope.
    Once(Inst),
    /// An instruction at which the lanes of the scope meet.
    Meet(Inst),
    /// Control flow of the scope, with a plan for each region.
    Nest(Inst, Vec<ScopePlan>),
    /// Instructions that every lane of the scope runs, one lane after the other. The number tells loops apart.
    Lanes(u32, Vec<Inst>),
    /// A plan that every subgroup of the group runs, one after the other. The number tells loops apart.
    Subgroups(u32, ScopePlan),
    /// The end of the region, as control flow of the scope.
    End(Inst),
}

/// The loops around the place where an instruction runs or a value is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopNest {
    /// The number of the loop over subgroups, if there is one.
    pub subgroups: Option<u32>,
    /// The number of the loop over lanes, if there is one.
    pub lanes: Option<u32>,
}

impl LoopNest {
    /// Whether a value that is made here can be used there without a home.
    pub fn reaches(self, there: LoopNest) -> bool {
        (self.subgroups.is_none() || self.subgroups == there.subgroups)
            && (self.lanes.is_none() || self.lanes == there.lanes)
    }
}

/// The split of a kernel: its plan, and which values need a home.
#[derive(Debug)]
pub struct KernelSplit {
    /// The plan of the kernel's body.
    pub plan: ScopePlan,
    /// The loops in which each value is made.
    pub made: Vec<LoopNest>,
    /// Whether each value has a home in memory.
    pub home: Vec<bool>,
    /// Whether a lane or subgroup can leave control flow of a wider scope by itself, so that later loops must pass over it.
    pub strays: bool,
}

impl KernelSplit {
    /// Splits a kernel for groups of more than one lane.
    pub fn new(function: &Function, uniform: &Uniformity) -> Self {
        let mut splitter = KernelSplitter { function, uniform, loops: 0 };
        let plan = splitter.items(&function.region(function.body).insts, UniformLevel::Group);
        let values = function.values().len();
        let mut homes = HomeFinder {
            function,
            uniform,
            made: vec![LoopNest::default(); values],
            home: vec![false; values],
            nests: vec![LoopNest::default(); function.insts().len()],
            strays: false,
        };
        homes.plan(&plan, UniformLevel::Group, LoopNest::default());
        let HomeFinder { made, home, strays, .. } = homes;
        // If there is only one loop, there is no later loop.
        KernelSplit { plan, made, home, strays: strays && splitter.loops > 1 }
    }
}

/// Whether lanes meet inside an instruction, and the widest scope in which they do.
fn meets(function: &Function, inst: Inst) -> Option<UniformLevel> {
    let node = function.inst(inst);
    let own = match node.op {
        Op::Barrier | Op::GroupBroadcast => Some(UniformLevel::Group),
        op if op.effect() == OpEffect::Sync => Some(UniformLevel::Subgroup),
        _ => None,
    };
    let inner = node.regions.iter().flat_map(|region| &function.region(*region).insts);
    inner.filter_map(|inst| meets(function, *inst)).chain(own).max()
}

struct KernelSplitter<'a> {
    function: &'a Function,
    uniform: &'a Uniformity,
    loops: u32,
}

impl KernelSplitter<'_> {
    /// Plans a sequence of instructions in a scope.
    fn items(&mut self, insts: &[Inst], scope: UniformLevel) -> ScopePlan {
        let mut plan = ScopePlan::default();
        let mut pending: Vec<Inst> = Vec::new();
        // The values that the pending instructions will have made.
        let mut held: HashSet<Value> = HashSet::new();
        for &inst in insts {
            let node = self.function.inst(inst);
            let ready = !node.args.iter().filter_map(|arg| arg.value()).any(|value| held.contains(&value));
            if ready && self.once(inst, scope) {
                plan.steps.push(PlanStep::Once(inst));
                continue;
            }
            let scoped = meets(self.function, inst) >= Some(scope) || self.jumps(inst, inst, scope);
            if !node.op.is_terminator() && !scoped {
                pending.push(inst);
                held.extend(node.results.iter());
                continue;
            }
            self.flush(&mut plan, &mut pending);
            held.clear();
            plan.steps.push(match node.op {
                op if op.is_terminator() => PlanStep::End(inst),
                op if op.has_regions() => PlanStep::Nest(
                    inst,
                    node.regions.iter().map(|region| self.region(*region, scope)).collect(),
                ),
                _ => PlanStep::Meet(inst),
            });
        }
        self.flush(&mut plan, &mut pending);
        plan
    }

    fn region(&mut self, region: Region, scope: UniformLevel) -> ScopePlan {
        self.items(&self.function.region(region).insts, scope)
    }

    /// Whether an instruction runs once in a scope. Its order does not matter then, so it runs before the pending instructions.
    fn once(&self, inst: Inst, scope: UniformLevel) -> bool {
        let node = self.function.inst(inst);
        let movable = matches!(node.op.effect(), OpEffect::Pure | OpEffect::Read);
        movable && node.results.iter().all(|value| self.uniform.value_level(value) >= scope)
    }

    /// Whether all lanes of the scope together jump out of `outer`, somewhere in `inst`.
    fn jumps(&self, outer: Inst, inst: Inst, scope: UniformLevel) -> bool {
        let node = self.function.inst(inst);
        let leaves = match (node.op, &node.attr) {
            (Op::Return, _) => true,
            // Instructions are numbered in the order of the text: what encloses another comes before it.
            (_, Attr::Target(target)) => target.index() < outer.index(),
            _ => false,
        };
        let inner = node.regions.iter().flat_map(|region| &self.function.region(*region).insts);
        (leaves && self.uniform.control_level(inst) >= scope)
            || inner.into_iter().any(|inst| self.jumps(outer, *inst, scope))
    }

    /// Turns the pending instructions into a loop.
    fn flush(&mut self, plan: &mut ScopePlan, pending: &mut Vec<Inst>) {
        if pending.is_empty() {
            return;
        }
        let insts = std::mem::take(pending);
        self.loops += 1;
        let id = self.loops;
        let met = insts.iter().any(|inst| meets(self.function, *inst).is_some());
        plan.steps.push(match met {
            true => PlanStep::Subgroups(id, self.items(&insts, UniformLevel::Subgroup)),
            false => PlanStep::Lanes(id, insts),
        });
    }
}

/// Finds where values are made, and which values are used out of reach and so need a home.
struct HomeFinder<'a> {
    function: &'a Function,
    uniform: &'a Uniformity,
    made: Vec<LoopNest>,
    home: Vec<bool>,
    /// The loops in which each instruction runs that jumps can name.
    nests: Vec<LoopNest>,
    strays: bool,
}

impl HomeFinder<'_> {
    fn plan(&mut self, plan: &ScopePlan, scope: UniformLevel, at: LoopNest) {
        for step in &plan.steps {
            match step {
                PlanStep::Once(inst) => self.own(*inst, at),
                PlanStep::Meet(inst) => self.meet(*inst, scope, at),
                PlanStep::Nest(inst, plans) => {
                    self.own(*inst, at);
                    self.exchange(*inst, scope);
                    plans.iter().for_each(|plan| self.plan(plan, scope, at));
                }
                PlanStep::Lanes(id, insts) => {
                    let at = LoopNest { lanes: Some(*id), ..at };
                    insts.iter().for_each(|inst| self.run(*inst, at));
                }
                PlanStep::Subgroups(id, plan) => {
                    self.plan(plan, UniformLevel::Subgroup, LoopNest { subgroups: Some(*id), lanes: None });
                }
                PlanStep::End(inst) => self.own(*inst, at),
            }
        }
    }

    /// Notes what an instruction uses and makes in these loops.
    fn own(&mut self, inst: Inst, at: LoopNest) {
        let node = self.function.inst(inst);
        for value in node.args.iter().filter_map(|arg| arg.value()) {
            self.home[value.index()] |= !self.made[value.index()].reaches(at);
        }
        let params = node.regions.iter().flat_map(|region| self.function.region(*region).params.iter());
        for value in params.chain(node.results.iter()) {
            self.made[value.index()] = at;
        }
        self.nests[inst.index()] = at;
        self.strays |= match (node.op, &node.attr) {
            (Op::Return, _) => at != LoopNest::default(),
            (_, Attr::Target(target)) => self.nests[target.index()] != at,
            _ => false,
        };
    }

    /// Notes an instruction in a loop over lanes, with all its regions.
    fn run(&mut self, inst: Inst, at: LoopNest) {
        self.own(inst, at);
        let function = self.function;
        for region in &function.inst(inst).regions {
            function.region(*region).insts.iter().for_each(|inst| self.run(*inst, at));
        }
    }

    /// Notes an instruction at which lanes meet. Values that differ among the lanes are brought and found in homes.
    fn meet(&mut self, inst: Inst, scope: UniformLevel, at: LoopNest) {
        self.own(inst, at);
        self.exchange(inst, scope);
        for value in self.function.inst(inst).args.iter().filter_map(|arg| arg.value()) {
            self.home[value.index()] |= self.uniform.value_level(value) < scope;
        }
    }

    /// Gives homes to results and parameters that differ within the scope.
    fn exchange(&mut self, inst: Inst, scope: UniformLevel) {
        let node = self.function.inst(inst);
        let params = node.regions.iter().flat_map(|region| self.function.region(*region).params.iter());
        for value in params.chain(node.results.iter()) {
            self.home[value.index()] |= self.uniform.value_level(value) < scope;
        }
    }
}
