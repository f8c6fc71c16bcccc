//! `test run`: launches each `run` line on every device, under several schedules that must agree.

use std::ops::ControlFlow;
use std::time::Duration;

use pelton_ir::link::link;
use pelton_ir::module::Module;
use pelton_ir::text::{self, ColorMode};
use pelton_ir::valid::{Valid, validate, validate_text};

use crate::bind::{bind_buffers, find_buffer};
use crate::command::{CommandContext, Coverage, Printed, TestCommand};
use crate::data::BufferData;
use crate::failure::{Failure, LineFailure};
use crate::file::TestFile;
use crate::line::{Buffers, EndKind, RunLine, Setup};
use crate::print::parse_module;
use crate::target::{LaunchPlan, OutcomeSink, TargetJob, TargetOutcome, TestTarget};

/// The command `run`, which launches each `run` line.
pub(crate) struct RunCommand;

/// The deadline of a launch that should end by itself. It is long enough for a slow machine, and no test that
/// passes waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time after which a launch that never ends is stopped. Every launch of such a line takes this long.
const STOP: Duration = Duration::from_millis(100);

/// The largest number of a buffer's elements that a failure shows.
const SHOWN: usize = 64;

impl TestCommand for RunCommand {
    fn name(&self) -> &'static str {
        "run"
    }

    fn runs_per_device(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        if file.runs.is_empty() {
            return Err(Failure::Lines { command: "run", line: "run:" });
        }
        let module = valid_module(file)?;
        check_run_lines(&module, &file.runs, context.target)?;
        Ok(None)
    }

    fn coverage(&self, file: &TestFile) -> Coverage {
        let mut ops = Coverage::default();
        if let Ok(module) = text::parse(&file.source) {
            for (_, function) in module.functions.iter() {
                ops.ops.extend(function.insts().map(|(_, node)| node.op));
            }
        }
        ops
    }
}

/// Parses and validates the module of a file, and links it with the libraries of the file if there are any.
pub fn valid_module(file: &TestFile) -> Result<Valid, Failure> {
    let module = parse_module(file, &file.source)?;
    let module = validate(module).map_err(|invalid| {
        Failure::Invalid(invalid.report(file.title(), Some(&file.source), ColorMode::Plain))
    })?;
    if file.libraries.is_empty() {
        return Ok(module);
    }
    link(&module, &library_modules(file)?).map_err(Failure::Link)
}

/// Parses and validates the libraries of a file.
pub(crate) fn library_modules(file: &TestFile) -> Result<Vec<Valid>, Failure> {
    let check = |source: &String| {
        validate_text(source).map_err(|list| {
            Failure::Invalid(text::render_diagnostics("library", source, &list, ColorMode::Plain))
        })
    };
    file.libraries.iter().map(check).collect()
}

/// Launches each line, and compares every outcome with what the line says.
pub(crate) fn check_run_lines(
    module: &Valid,
    runs: &[RunLine],
    target: &dyn TestTarget,
) -> Result<(), Failure> {
    for run in runs.iter().filter(|run| target.suits_geometry(run.setup.geometry)) {
        check_run_line(module, run, target).map_err(|why| Failure::Line { line: run.line, why })?;
    }
    Ok(())
}

fn check_run_line(module: &Valid, run: &RunLine, target: &dyn TestTarget) -> Result<(), LineFailure> {
    let expect = expected_data(module, &run.setup, &run.expect)?;
    let deadline = if run.ending.end == EndKind::Stopped { STOP } else { PATIENCE };
    let mut wrong = None;
    launch_line(module, &run.setup, deadline, target, LaunchPlan::Agree, &mut |found| {
        wrong = compare_outcome(module, run, &expect, found);
        if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    wrong.map_or(Ok(()), Err)
}

/// Binds the buffers of a line, and launches it.
pub(crate) fn launch_line(
    module: &Valid,
    setup: &Setup,
    deadline: Duration,
    target: &dyn TestTarget,
    plan: LaunchPlan,
    see: OutcomeSink<'_>,
) -> Result<(), LineFailure> {
    let data = bind_buffers(module, &setup.buffers)?;
    let kernel = setup.kernel.as_deref();
    let job = TargetJob { module, kernel, geometry: setup.geometry, data: &data, deadline, plan };
    Ok(target.run_job(&job, see)?)
}

/// The contents that a line expects some buffers to end with, in the module's order; `None` for buffers that it
/// does not name.
pub(crate) fn expected_data(
    module: &Module,
    setup: &Setup,
    named: &Buffers,
) -> Result<Vec<Option<BufferData>>, LineFailure> {
    let mut all: Vec<Option<BufferData>> = module.buffers.iter().map(|_| None).collect();
    for (name, init) in named {
        // A length that is bound at launch follows from the buffer's initial contents.
        let mut decl = find_buffer(module, name)?.clone();
        if let Some((_, start)) = setup.buffers.iter().find(|(other, _)| other == name) {
            let fail = |source| LineFailure::Expect { name: name.clone(), source };
            decl.len = pelton_ir::types::Len::Fixed(start.element_count(&decl).map_err(fail)?);
        }
        let data =
            init.make_data(&decl).map_err(|source| LineFailure::Expect { name: name.clone(), source })?;
        if let Some(at) = module.buffers.iter().position(|(_, decl)| decl.name == *name) {
            all[at] = Some(data);
        }
    }
    Ok(all)
}

/// Describes how an outcome differs from what its line expects, if it does.
fn compare_outcome(
    module: &Module,
    run: &RunLine,
    expect: &[Option<BufferData>],
    found: TargetOutcome,
) -> Option<LineFailure> {
    if found.ending != run.ending {
        return Some(LineFailure::Ending { way: found.way, expected: run.ending, found: found.ending });
    }
    for ((_, decl), (expect, found_data)) in module.buffers.iter().zip(expect.iter().zip(&found.data)) {
        let (Some(expect), Some(data)) = (expect, found_data) else { continue };
        if let Some(at) = expect.first_difference(data) {
            return Some(LineFailure::Buffer {
                way: found.way,
                name: decl.name.clone(),
                at,
                expected: expect.show_elements(SHOWN),
                found: data.show_elements(SHOWN),
            });
        }
    }
    None
}
