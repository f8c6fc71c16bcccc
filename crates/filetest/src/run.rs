//! `test run`: launches on every device, under several schedules that must all agree.

use std::ops::ControlFlow;
use std::time::Duration;

use pelton_ir::module::Module;
use pelton_ir::text;
use pelton_ir::valid::{Valid, validate};

use crate::bind::{bind, find};
use crate::command::{Command, Context, Coverage, Printed};
use crate::data::Data;
use crate::failure::{Failure, Mishap};
use crate::file::File;
use crate::line::{self, Buffers, End, Setup};
use crate::print::parse;
use crate::target::{Job, Outcome, Plan, Target};

/// Runs each `run` line.
pub struct Run;

/// When a launch that should end by itself is given up. Long enough for a slow machine; nothing waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// When a launch that never ends is stopped. Every launch of such a line takes this long.
const STOP: Duration = Duration::from_millis(100);

/// Elements of a buffer that a failure shows.
const SHOWN: usize = 64;

impl Command for Run {
    fn name(&self) -> &'static str {
        "run"
    }

    fn devices(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        if file.runs.is_empty() {
            return Err(Failure::Lines { command: "run", line: "run:" });
        }
        let module = valid(file)?;
        lines(&module, &file.runs, context.target)?;
        Ok(None)
    }

    fn coverage(&self, file: &File) -> Coverage {
        let mut ops = Coverage::default();
        if let Ok(module) = text::parse(&file.source) {
            for (_, function) in module.functions.iter() {
                ops.ops.extend(function.insts().map(|(_, node)| node.op));
            }
        }
        ops
    }
}

/// The module of a file that must be valid.
pub fn valid(file: &File) -> Result<Valid, Failure> {
    let module = parse(file, &file.source)?;
    validate(module)
        .map_err(|invalid| Failure::Invalid(invalid.report(file.title(), Some(&file.source), false)))
}

/// Runs each line, and holds every outcome against what the line says.
pub fn lines(module: &Valid, runs: &[line::Run], target: &dyn Target) -> Result<(), Failure> {
    for run in runs.iter().filter(|run| target.suits(run.setup.geometry)) {
        one(module, run, target).map_err(|why| Failure::Line { line: run.line, why })?;
    }
    Ok(())
}

fn one(module: &Valid, run: &line::Run, target: &dyn Target) -> Result<(), Mishap> {
    let expect = outcome(module, &run.setup, &run.expect)?;
    let deadline = if run.ending.end == End::Stopped { STOP } else { PATIENCE };
    let mut wrong = None;
    launch(module, &run.setup, deadline, target, Plan::Agree, &mut |found| {
        wrong = compare(module, run, &expect, found);
        if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    wrong.map_or(Ok(()), Err)
}

/// Binds the buffers of a line and launches it.
pub fn launch(
    module: &Valid,
    setup: &Setup,
    deadline: Duration,
    target: &dyn Target,
    plan: Plan,
    see: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
) -> Result<(), Mishap> {
    let data = bind(module, &setup.buffers)?;
    let kernel = setup.kernel.as_deref();
    let job = Job { module, kernel, geometry: setup.geometry, data: &data, deadline };
    Ok(target.run(&job, plan, see)?)
}

/// The contents that a line says some buffers end with, by the module's order; `None` for those it does not name.
pub fn outcome(module: &Module, setup: &Setup, named: &Buffers) -> Result<Vec<Option<Data>>, Mishap> {
    let mut all: Vec<Option<Data>> = module.buffers.iter().map(|_| None).collect();
    for (name, init) in named {
        // The length that is bound at launch is known from what the buffer starts with.
        let mut decl = find(module, name)?.clone();
        if let Some((_, start)) = setup.buffers.iter().find(|(other, _)| other == name) {
            let fail = |source| Mishap::Expect { name: name.clone(), source };
            decl.len = pelton_ir::types::Len::Fixed(start.len(&decl).map_err(fail)?);
        }
        let data = init.data(&decl).map_err(|source| Mishap::Expect { name: name.clone(), source })?;
        if let Some(at) = module.buffers.iter().position(|(_, decl)| decl.name == *name) {
            all[at] = Some(data);
        }
    }
    Ok(all)
}

/// What is wrong with an outcome.
fn compare(module: &Module, run: &line::Run, expect: &[Option<Data>], found: Outcome) -> Option<Mishap> {
    if found.ending != run.ending {
        return Some(Mishap::Ending { way: found.way, expected: run.ending, found: found.ending });
    }
    for ((_, decl), (expect, found_data)) in module.buffers.iter().zip(expect.iter().zip(&found.data)) {
        let (Some(expect), Some(data)) = (expect, found_data) else { continue };
        if let Some(at) = expect.differs(data) {
            return Some(Mishap::Buffer {
                way: found.way,
                name: decl.name.clone(),
                at,
                expected: expect.show(SHOWN),
                found: data.show(SHOWN),
            });
        }
    }
    None
}
