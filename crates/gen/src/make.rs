//! Modules from choices.
//!
//! A body is written statement after statement, each chosen by lot from what is valid there. With
//! [`Promise::Same`](crate::config::Promise) the results of a run do not depend on who ran when, and this is why:
//!
//! - **Own slots.** A lane stores only to slots that are its own: four in each such buffer, found from its number.
//!   Nobody else touches them, so a lane may do anything there, atomics and wide accesses included.
//! - **Inputs** are never written.
//! - **Sums** are changed by all lanes, by atomics of one kind that commute, whose results nobody looks at.
//! - **Shared buffers** likewise are own slots or sums. Lanes look at each other's in a *section*: between two
//!   barriers, where nobody writes.
//! - **Loops** count a few steps, or carry fuel.
//! - **Faults and traps** of a module all have one code. What a kernel that traps leaves in memory is open.
//!
//! NaNs need no care: the language shows their bits to nobody but the host, and hosts hold them equal.

use pelton_ir::arena::Func;
use pelton_ir::module::{Function, Kind, Module};
use pelton_ir::op::Op;
use pelton_ir::types::{Need, Type};
use pelton_ir::valid::Level;
use pelton_ir::write::Writer;

use crate::body::Body;
use crate::choose::{Choose, Seed};
use crate::config::Config;
use crate::frame::Slot;
use crate::stock::Stock;

/// A valid module that choices decide.
pub fn module(choose: &mut dyn Choose, config: &Config) -> Module {
    let insts = choose.below(config.insts + 1);
    let count = choose.below(config.functions + 1);
    let mut plan: Vec<usize> = (0..count).map(|_| choose.below(insts / 2 + 1)).collect();
    plan.push(insts);
    assemble(choose, config, &plan, Fill::Some)
}

/// A valid module of about `insts` instructions, always the same: a kernel, and functions of a thousand each.
pub fn sized(insts: usize) -> Module {
    const FUNCTION: usize = 1000;
    let config = Config { insts, steps: u64::MAX, ..Config::DEFAULT };
    let mut plan = vec![FUNCTION; insts / 2 / FUNCTION];
    plan.push(insts - plan.iter().sum::<usize>());
    assemble(&mut Seed(insts as u64), &config, &plan, Fill::All)
}

/// A module with functions of about so many instructions, of which the last is the kernel.
fn assemble(choose: &mut dyn Choose, config: &Config, plan: &[usize], fill: Fill) -> Module {
    let needs = if choose.one_in(16) { Need::ALL.to_vec() } else { Vec::new() };
    let names = choose.below(4);
    let traps = choose.one_in(24);
    let code = choose.below(256) as u32;
    let mut make = Make {
        choose,
        config: *config,
        module: Module { needs, ..Module::default() },
        stock: Vec::new(),
        callees: Vec::new(),
        budget: 0,
        fill,
        names,
        traps,
        code,
    };
    let (kernel, functions) = plan.split_last().expect("a plan has a kernel");
    for insts in functions {
        make.budget = *insts;
        make.function();
    }
    make.budget = *kernel;
    make.kernel();
    make.module
}

/// How much of its budget a function uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// What choices say. Bytes that have ended say that it is enough, so that a shorter list is a shorter module.
    Some,
    /// All of it.
    All,
}

/// A module in the making.
pub struct Make<'c> {
    /// Who chooses.
    pub choose: &'c mut dyn Choose,
    /// Its bounds.
    pub config: Config,
    /// What there is of it.
    pub module: Module,
    /// Its buffers, with what they are for.
    pub stock: Vec<Stock>,
    /// Its functions, with what a call must keep to.
    pub callees: Vec<Callee>,
    /// How many instructions the function at hand may still have.
    pub budget: usize,
    /// How much of that it uses.
    pub fill: Fill,
    /// How values and labels are named.
    names: usize,
    /// Whether it may trap.
    pub traps: bool,
    /// The code of all its faults and traps.
    pub code: u32,
}

/// A function that can be called.
#[derive(Clone, Debug)]
pub struct Callee {
    /// Its handle.
    pub func: Func,
    /// How uniform control must be where it is called.
    pub control: Level,
    /// How uniform its arguments must be. The first says where the lane's own slots begin.
    pub params: Vec<Slot>,
    /// How uniform its results are.
    pub results: Vec<Slot>,
    /// About how many instructions a lane runs in it at most.
    pub steps: u64,
    /// Whether it or what it calls uses shared memory.
    pub shares: bool,
}

impl Make<'_> {
    /// Types, and levels of at most `level`, for what a function or loop takes or gives.
    pub fn slots(&mut self, most: usize, level: Level) -> Vec<Slot> {
        let count = self.choose.below(most + 1);
        (0..count).map(|_| (self.choose.pick(Type::ALL), self.level(level))).collect()
    }

    /// A level of at most `most`.
    pub fn level(&mut self, most: Level) -> Level {
        let levels = [Level::Group, Level::Subgroup, Level::Lane];
        let from = levels.iter().position(|level| *level == most).unwrap_or(0);
        self.choose.pick(&levels[from..])
    }

    /// Writes a function. What it asks of its callers is chosen first; what it gives to them follows from that.
    fn function(&mut self) {
        let control = self.level(Level::Group);
        let mut params = vec![(Type::U32, Level::Lane)];
        params.extend(self.slots(3, Level::Group));
        let results = self.slots(3, Level::Group);
        let name = self.name();
        let writer = Writer::new(name, Kind::Function, &types(&params), &types(&results));
        let mut body = Body::new(self, writer, control);
        body.enter(&params, &results);
        body.statements();
        body.leave();
        let (writer, steps, shares) = (body.writer, body.steps, body.shares);
        let func = self.finish(writer);
        self.callees.push(Callee { func, control, params, results, steps, shares });
    }

    fn kernel(&mut self) {
        let mut body = Body::new(self, Writer::new("main", Kind::Kernel, &[], &[]), Level::Group);
        body.number();
        body.statements();
        body.keep();
        let writer = body.writer;
        self.finish(writer);
    }

    fn finish(&mut self, writer: Writer) -> Func {
        let mut function = writer.finish();
        call(&mut function, self.names);
        self.module.functions.push(function)
    }

    /// A function's name. Some are also words of the language, which the text must keep apart.
    fn name(&mut self) -> String {
        let words = ["f", "load", "u32", "kernel", "true", "if", "_", "x."];
        let count = self.module.functions.len();
        let word = if self.names == 3 { self.choose.pick(&words) } else { words[0] };
        if self.module.function(word).is_none() { word.into() } else { format!("{word}{count}") }
    }
}

/// The types of slots.
pub fn types(slots: &[Slot]) -> Vec<Type> {
    slots.iter().map(|(ty, _)| *ty).collect()
}

/// Names values and labels in one of four ways: not, all, only some, and several alike.
fn call(function: &mut Function, way: usize) {
    let name = |k: usize, sort: &str| match way {
        0 => String::new(),
        1 => format!("{sort}{k}"),
        2 if k.is_multiple_of(3) => format!("{sort}.{k}"),
        2 => String::new(),
        _ => ["a", "b", "c", "_", "add"][k % 5].into(),
    };
    let values = (0..function.values().len()).map(|k| name(k, "v").into()).collect();
    let nests = function.insts().enumerate().filter(|(_, (_, node))| node.op.loops() || node.op == Op::Block);
    let labels = nests.map(|(k, (inst, _))| (inst, name(k, "l").into())).collect::<Vec<(_, Box<str>)>>();
    function.debug.values = values;
    function.debug.labels = labels.into_iter().filter(|(_, name)| !name.is_empty()).collect();
}
