//! Makes a module from choices.
//!
//! A body is written statement by statement, each chosen at random from what is valid at that place. With
//! [`Promise::Same`](crate::config::Promise) the results of a run do not depend on the order in which lanes ran,
//! for these reasons:
//!
//! - **Own slots.** A lane stores only to its own slots: four in each such buffer, found from the lane's number. No
//!   other lane touches them, so a lane may do anything there, including atomics and wide accesses.
//! - **Inputs** are never written.
//! - **Sums** are changed by all lanes, with atomics of one kind that commute, and no lane looks at their results.
//! - **Shared buffers** hold own slots or sums as well. Lanes read each other's slots only in a *section*, between
//!   two barriers where no lane writes.
//! - **Loops** run a small number of times, or carry fuel.
//! - **Faults and traps** of a module all have one code. What a trapping kernel leaves in memory is not specified.
//!
//! NaNs need no care: the language shows their bits to the host alone, and comparisons on the host treat all NaNs
//! as equal.

use pelton_ir::arena::Func;
use pelton_ir::module::{Function, FunctionKind, Module};
use pelton_ir::op::Op;
use pelton_ir::types::{Need, Type};
use pelton_ir::valid::UniformLevel;
use pelton_ir::write::FunctionWriter;

use crate::body::BodyWriter;
use crate::buffers::RoleBuffer;
use crate::choose::{Choose, Seed};
use crate::config::GeneratorConfig;
use crate::frame::LeveledType;

/// Makes a valid module from choices.
pub fn module(choose: &mut dyn Choose, config: &GeneratorConfig) -> Module {
    let insts = choose.below(config.insts + 1);
    let count = choose.below(config.functions + 1);
    let mut plan: Vec<usize> = (0..count).map(|_| choose.below(insts / 2 + 1)).collect();
    plan.push(insts);
    make_module(choose, config, &plan, Fill::Some)
}

/// Makes a valid module of about `insts` instructions, the same one on every call: a kernel, and functions of a
/// thousand instructions each.
pub fn sized(insts: usize) -> Module {
    const FUNCTION: usize = 1000;
    let config = GeneratorConfig { insts, steps: u64::MAX, ..GeneratorConfig::DEFAULT };
    let mut plan = vec![FUNCTION; insts / 2 / FUNCTION];
    plan.push(insts - plan.iter().sum::<usize>());
    make_module(&mut Seed(insts as u64), &config, &plan, Fill::All)
}

/// Makes a module from a plan: the approximate number of instructions of each function, the kernel last.
fn make_module(choose: &mut dyn Choose, config: &GeneratorConfig, plan: &[usize], fill: Fill) -> Module {
    let needs = if choose.one_in(16) { Need::ALL.to_vec() } else { Vec::new() };
    let names = choose.below(4);
    let traps = choose.one_in(24);
    let code = choose.below(256) as u32;
    let mut make = ModuleMaker {
        choose,
        config: *config,
        module: Module { needs, ..Module::default() },
        buffers: Vec::new(),
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
        make.write_function();
    }
    make.budget = *kernel;
    make.write_kernel();
    make.module
}

/// How much of its budget of instructions a function uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// As much as the choices say. Bytes that are used up say "enough", so that a shorter list of bytes gives a
    /// shorter module.
    Some,
    /// The whole budget.
    All,
}

/// A module that is being made.
pub struct ModuleMaker<'c> {
    /// The source of choices.
    pub choose: &'c mut dyn Choose,
    /// The bounds that the module keeps to.
    pub config: GeneratorConfig,
    /// The part of the module that has been made so far.
    pub module: Module,
    /// The module's buffers, with their roles.
    pub buffers: Vec<RoleBuffer>,
    /// The module's functions, with the terms of calling each.
    pub callees: Vec<CalleeTerms>,
    /// The number of instructions that the current function may still have.
    pub budget: usize,
    /// How much of the budget functions use.
    pub fill: Fill,
    /// The way in which values and labels are named, from 0 to 3.
    names: usize,
    /// Whether the module may trap.
    pub traps: bool,
    /// The code of every fault and trap in the module.
    pub code: u32,
}

/// A function that can be called, with the terms of a call.
#[derive(Clone, Debug)]
pub struct CalleeTerms {
    /// The function's handle.
    pub func: Func,
    /// How uniform control must be at the call.
    pub control: UniformLevel,
    /// The parameters, with how uniform each argument must be. The first says where the lane's own slots begin.
    pub params: Vec<LeveledType>,
    /// The results, with how uniform each of them is.
    pub results: Vec<LeveledType>,
    /// The largest number of instructions that one lane runs in the function, approximately.
    pub steps: u64,
    /// Whether the function, or one that it calls, uses shared memory.
    pub shares: bool,
}

impl ModuleMaker<'_> {
    /// Chooses up to `most` types, each with a level of at most `level`, for the parameters or results of a
    /// function or loop.
    pub fn choose_types(&mut self, most: usize, level: UniformLevel) -> Vec<LeveledType> {
        let count = self.choose.below(most + 1);
        (0..count).map(|_| (self.choose.pick(Type::ALL), self.choose_level(level))).collect()
    }

    /// Chooses a level of at most `most`.
    pub fn choose_level(&mut self, most: UniformLevel) -> UniformLevel {
        let levels = [UniformLevel::Group, UniformLevel::Subgroup, UniformLevel::Lane];
        let from = levels.iter().position(|level| *level == most).unwrap_or(0);
        self.choose.pick(&levels[from..])
    }

    /// Writes a function. Its demands on callers are chosen first; its promises to them follow from those.
    fn write_function(&mut self) {
        let control = self.choose_level(UniformLevel::Group);
        let mut params = vec![(Type::U32, UniformLevel::Lane)];
        params.extend(self.choose_types(3, UniformLevel::Group));
        let results = self.choose_types(3, UniformLevel::Group);
        let name = self.function_name();
        let writer = FunctionWriter::new(name, FunctionKind::Function, &types(&params), &types(&results));
        let mut body = BodyWriter::new(self, writer, control);
        body.begin_function(&params, &results);
        body.write_statements();
        body.end_function();
        let (writer, steps, shares) = (body.writer, body.steps, body.shares);
        let func = self.add_function(writer);
        self.callees.push(CalleeTerms { func, control, params, results, steps, shares });
    }

    fn write_kernel(&mut self) {
        let mut body = BodyWriter::new(
            self,
            FunctionWriter::new("main", FunctionKind::Kernel, &[], &[]),
            UniformLevel::Group,
        );
        body.find_own_slots();
        body.write_statements();
        body.store_newest();
        let writer = body.writer;
        self.add_function(writer);
    }

    fn add_function(&mut self, writer: FunctionWriter) -> Func {
        let mut function = writer.finish();
        name_values(&mut function, self.names);
        self.module.functions.push(function)
    }

    /// Chooses a name for a function. Some names are also words of the language, which the text must keep apart.
    fn function_name(&mut self) -> String {
        let words = ["f", "load", "u32", "kernel", "true", "if", "_", "x."];
        let count = self.module.functions.len();
        let word = if self.names == 3 { self.choose.pick(&words) } else { words[0] };
        if self.module.function(word).is_none() { word.into() } else { format!("{word}{count}") }
    }
}

/// The types alone, without their levels.
pub fn types(slots: &[LeveledType]) -> Vec<Type> {
    slots.iter().map(|(ty, _)| *ty).collect()
}

/// Names values and labels in one of four ways: no names, names for all, names for some, and several with the same
/// name.
fn name_values(function: &mut Function, way: usize) {
    let name = |k: usize, sort: &str| match way {
        0 => String::new(),
        1 => format!("{sort}{k}"),
        2 if k.is_multiple_of(3) => format!("{sort}.{k}"),
        2 => String::new(),
        _ => ["a", "b", "c", "_", "add"][k % 5].into(),
    };
    let values = (0..function.values().len()).map(|k| name(k, "v").into()).collect();
    let nests =
        function.insts().enumerate().filter(|(_, (_, node))| node.op.is_loop() || node.op == Op::Block);
    let labels = nests.map(|(k, (inst, _))| (inst, name(k, "l").into())).collect::<Vec<(_, Box<str>)>>();
    function.debug.values = values;
    function.debug.labels = labels.into_iter().filter(|(_, name)| !name.is_empty()).collect();
}
