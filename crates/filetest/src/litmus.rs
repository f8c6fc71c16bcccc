//! `test litmus`: outcomes that the memory model forbids or allows, searched for under many schedules.
//!
//! A file that only forbids would also pass on a device that never reorders anything. So each `x.pel` has a weakened
//! twin `x.weak.pel` in which every outcome that `x.pel` forbids must be seen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pelton_ir::module::Module;
use pelton_ir::valid::Valid;

use crate::command::{Command, Context, Printed};
use crate::data::Data;
use crate::failure::{Failure, Mishap};
use crate::file::File;
use crate::line::{self, Buffers, End, Ending};
use crate::run::{PATIENCE, launch, outcome, valid};
use crate::target::{Outcome, Plan, Target};

/// Runs the rounds of each `litmus` line.
pub struct Litmus;

/// Outcomes that a failure lists.
const LISTED: usize = 16;

/// How the name of a weakened twin ends.
const WEAK: &str = ".weak.pel";

impl Command for Litmus {
    fn name(&self) -> &'static str {
        "litmus"
    }

    fn devices(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let said = |litmus: &line::Litmus| !litmus.forbidden.is_empty() || !litmus.seen.is_empty();
        if file.litmus.is_empty() {
            return Err(Failure::Lines { command: "litmus", line: "litmus:" });
        }
        if !file.litmus.iter().all(said) {
            return Err(Failure::Lines { command: "litmus", line: "forbidden:` or `; seen:" });
        }
        twin(file)?;
        let module = valid(file)?;
        for litmus in file.litmus.iter().filter(|line| context.target.suits(line.setup.geometry)) {
            rounds(&module, litmus, context.target)
                .map_err(|why| Failure::Line { line: litmus.line, why })?;
        }
        Ok(None)
    }
}

/// Holds a file against its twin.
fn twin(file: &File) -> Result<(), Failure> {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(stem) = name.strip_suffix(WEAK) {
        let strong = file.path.with_file_name(format!("{stem}.pel"));
        return if strong.is_file() { Ok(()) } else { Err(Failure::Twin(shown(&strong))) };
    }
    let path: PathBuf = file.path.with_extension("weak.pel");
    if !path.is_file() {
        return Err(Failure::Twin(shown(&path)));
    }
    let weak = File::load(&path, shown(&path)).map_err(|error| Failure::File(error.into()))?;
    let seen: Vec<&Buffers> = weak.litmus.iter().flat_map(|litmus| &litmus.seen).collect();
    let mut forbidden = file.litmus.iter().flat_map(|litmus| &litmus.forbidden).peekable();
    if forbidden.peek().is_none() {
        return Err(Failure::Lines { command: "litmus", line: "forbidden:" });
    }
    match forbidden.find(|outcome| !seen.contains(outcome)) {
        Some(outcome) => Err(Failure::Unshown { twin: shown(&path), outcome: spelled(outcome) }),
        None => Ok(()),
    }
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An outcome as its line writes it.
fn spelled(outcome: &Buffers) -> String {
    let parts: Vec<String> = outcome.iter().map(|(name, init)| format!("{name}={init}")).collect();
    parts.join(" ")
}

/// Runs the rounds of one line.
fn rounds(module: &Valid, litmus: &line::Litmus, target: &dyn Target) -> Result<(), Mishap> {
    let read = |list: &[Buffers]| -> Result<Vec<Vec<Option<Data>>>, Mishap> {
        list.iter().map(|named| outcome(module, &litmus.setup, named)).collect()
    };
    let (forbidden, seen) = (read(&litmus.forbidden)?, read(&litmus.seen)?);
    let mut times = vec![0u64; seen.len()];
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut wrong = None;
    let plan = Plan::Explore { rounds: litmus.rounds };
    launch(module, &litmus.setup, PATIENCE, target, plan, &mut |found| {
        wrong = refuse(module, litmus, &forbidden, &found);
        if wrong.is_some() {
            return ControlFlow::Break(());
        }
        for (times, seen) in times.iter_mut().zip(&seen) {
            *times += u64::from(matches(seen, &found.data));
        }
        *all.entry(tell(module, litmus, &found.data)).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let demanded = if target.explores() { &times[..] } else { &[] };
    match demanded.iter().position(|times| *times == 0) {
        Some(at) => Err(Mishap::Unseen {
            outcome: spelled(&litmus.seen[at]),
            rounds: litmus.rounds,
            others: listed(&all),
        }),
        None => Ok(()),
    }
}

/// What is wrong with a round by itself.
fn refuse(
    module: &Module,
    litmus: &line::Litmus,
    forbidden: &[Vec<Option<Data>>],
    found: &Outcome,
) -> Option<Mishap> {
    let expected = Ending { end: End::Done, fault: None };
    if found.ending != expected {
        return Some(Mishap::Ending { way: found.way.clone(), expected, found: found.ending });
    }
    forbidden
        .iter()
        .any(|outcome| matches(outcome, &found.data))
        .then(|| Mishap::Forbidden { way: found.way.clone(), outcome: tell(module, litmus, &found.data) })
}

/// Whether the buffers hold what an outcome says of some of them.
fn matches(outcome: &[Option<Data>], found: &[Option<Data>]) -> bool {
    outcome.iter().zip(found).all(|pair| match pair {
        (Some(expect), Some(data)) => expect.differs(data).is_none(),
        _ => true,
    })
}

/// What the buffers hold that the line's outcomes speak of.
fn tell(module: &Module, litmus: &line::Litmus, found: &[Option<Data>]) -> String {
    let named =
        |name: &str| litmus.forbidden.iter().chain(&litmus.seen).flatten().any(|(other, _)| other == name);
    let mut text = String::new();
    for ((_, decl), data) in module.buffers.iter().zip(found) {
        if let Some(data) = data.as_ref().filter(|_| named(&decl.name)) {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{}={}", decl.name, data.show(LISTED));
        }
    }
    text
}

/// The commonest outcomes with how often they came.
fn listed(all: &BTreeMap<String, u64>) -> String {
    let mut lines: Vec<(&String, &u64)> = all.iter().collect();
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let shown = lines.iter().take(LISTED).map(|(outcome, times)| format!("{times:>9} × {outcome}"));
    shown.collect::<Vec<String>>().join("\n")
}
