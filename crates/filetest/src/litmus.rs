//! `test litmus`: searches many schedules for outcomes that the memory model forbids or allows.
//!
//! A file that only forbids outcomes would also pass on a device that never reorders anything. Therefore each
//! `x.pel` has a weakened twin `x.weak.pel`, in which every outcome that `x.pel` forbids must be seen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pelton_ir::module::Module;
use pelton_ir::valid::Valid;

use crate::command::{CommandContext, Printed, TestCommand};
use crate::data::BufferData;
use crate::failure::{Failure, LineFailure};
use crate::file::TestFile;
use crate::line::{Buffers, EndKind, Ending, LitmusLine};
use crate::run::{PATIENCE, expected_data, launch_line, valid_module};
use crate::target::{LaunchPlan, TargetOutcome, TestTarget};

/// The command `litmus`, which runs the rounds of each `litmus` line.
pub(crate) struct LitmusCommand;

/// The largest number of outcomes that a failure lists.
const LISTED: usize = 16;

/// The end of the name of a weakened twin.
const WEAK: &str = ".weak.pel";

impl TestCommand for LitmusCommand {
    fn name(&self) -> &'static str {
        "litmus"
    }

    fn runs_per_device(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let said = |litmus: &LitmusLine| !litmus.forbidden.is_empty() || !litmus.seen.is_empty();
        if file.litmus.is_empty() {
            return Err(Failure::Lines { command: "litmus", line: "litmus:" });
        }
        if !file.litmus.iter().all(said) {
            return Err(Failure::Lines { command: "litmus", line: "forbidden:` or `; seen:" });
        }
        check_twin(file)?;
        let module = valid_module(file)?;
        for litmus in file.litmus.iter().filter(|line| context.target.suits_geometry(line.setup.geometry)) {
            run_rounds(&module, litmus, context.target)
                .map_err(|why| Failure::Line { line: litmus.line, why })?;
        }
        Ok(None)
    }
}

/// Checks that a file and its twin belong together.
fn check_twin(file: &TestFile) -> Result<(), Failure> {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(stem) = name.strip_suffix(WEAK) {
        let strong = file.path.with_file_name(format!("{stem}.pel"));
        return if strong.is_file() { Ok(()) } else { Err(Failure::Twin(file_name_of(&strong))) };
    }
    let path: PathBuf = file.path.with_extension("weak.pel");
    if !path.is_file() {
        return Err(Failure::Twin(file_name_of(&path)));
    }
    let weak = TestFile::load(&path, file_name_of(&path)).map_err(|error| Failure::File(error.into()))?;
    let seen: Vec<&Buffers> = weak.litmus.iter().flat_map(|litmus| &litmus.seen).collect();
    let mut forbidden = file.litmus.iter().flat_map(|litmus| &litmus.forbidden).peekable();
    if forbidden.peek().is_none() {
        return Err(Failure::Lines { command: "litmus", line: "forbidden:" });
    }
    match forbidden.find(|outcome| !seen.contains(outcome)) {
        Some(outcome) => Err(Failure::Unshown { twin: file_name_of(&path), outcome: spell_outcome(outcome) }),
        None => Ok(()),
    }
}

fn file_name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An outcome as its line spells it.
fn spell_outcome(outcome: &Buffers) -> String {
    let parts: Vec<String> = outcome.iter().map(|(name, init)| format!("{name}={init}")).collect();
    parts.join(" ")
}

/// Runs the rounds of one line.
fn run_rounds(module: &Valid, litmus: &LitmusLine, target: &dyn TestTarget) -> Result<(), LineFailure> {
    let read = |list: &[Buffers]| -> Result<Vec<Vec<Option<BufferData>>>, LineFailure> {
        list.iter().map(|named| expected_data(module, &litmus.setup, named)).collect()
    };
    let (forbidden, seen) = (read(&litmus.forbidden)?, read(&litmus.seen)?);
    let mut times = vec![0u64; seen.len()];
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut wrong = None;
    let plan = LaunchPlan::Explore { rounds: litmus.rounds };
    launch_line(module, &litmus.setup, PATIENCE, target, plan, &mut |found| {
        wrong = round_failure(module, litmus, &forbidden, &found);
        if wrong.is_some() {
            return ControlFlow::Break(());
        }
        for (times, seen) in times.iter_mut().zip(&seen) {
            *times += u64::from(matches_outcome(seen, &found.data));
        }
        *all.entry(describe_outcome(module, litmus, &found.data)).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let demanded = if target.explores() { &times[..] } else { &[] };
    match demanded.iter().position(|times| *times == 0) {
        Some(at) => Err(LineFailure::Unseen {
            outcome: spell_outcome(&litmus.seen[at]),
            rounds: litmus.rounds,
            others: list_outcomes(&all),
        }),
        None => Ok(()),
    }
}

/// Describes what is wrong with one round, if anything.
fn round_failure(
    module: &Module,
    litmus: &LitmusLine,
    forbidden: &[Vec<Option<BufferData>>],
    found: &TargetOutcome,
) -> Option<LineFailure> {
    let expected = Ending { end: EndKind::Done, fault: None };
    if found.ending != expected {
        return Some(LineFailure::Ending { way: found.way.clone(), expected, found: found.ending });
    }
    forbidden.iter().any(|outcome| matches_outcome(outcome, &found.data)).then(|| LineFailure::Forbidden {
        way: found.way.clone(),
        outcome: describe_outcome(module, litmus, &found.data),
    })
}

/// Whether the buffers hold what an outcome says about some of them.
fn matches_outcome(outcome: &[Option<BufferData>], found: &[Option<BufferData>]) -> bool {
    outcome.iter().zip(found).all(|pair| match pair {
        (Some(expect), Some(data)) => expect.first_difference(data).is_none(),
        _ => true,
    })
}

/// The contents of the buffers that the line's outcomes name.
fn describe_outcome(module: &Module, litmus: &LitmusLine, found: &[Option<BufferData>]) -> String {
    let named =
        |name: &str| litmus.forbidden.iter().chain(&litmus.seen).flatten().any(|(other, _)| other == name);
    let mut text = String::new();
    for ((_, decl), data) in module.buffers.iter().zip(found) {
        if let Some(data) = data.as_ref().filter(|_| named(&decl.name)) {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{}={}", decl.name, data.show_elements(LISTED));
        }
    }
    text
}

/// The most frequent outcomes, with how often each was seen.
fn list_outcomes(all: &BTreeMap<String, u64>) -> String {
    let mut lines: Vec<(&String, &u64)> = all.iter().collect();
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let shown = lines.iter().take(LISTED).map(|(outcome, times)| format!("{times:>9} × {outcome}"));
    shown.collect::<Vec<String>>().join("\n")
}
