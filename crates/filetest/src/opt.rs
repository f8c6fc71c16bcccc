//! `test opt`: prints the text after passes, and launches every `run` line before and after them.

use pelton_ir::pass::bounds::{Bounds, KnownGeometry};
use pelton_ir::pass::{self, Pass};
use pelton_ir::text;
use pelton_ir::valid::Valid;

use crate::command::{CommandContext, Printed, TestCommand};
use crate::failure::Failure;
use crate::hint::name_hint;
use crate::run::{check_run_lines, valid_module};
use crate::target::ReferenceTarget;

/// The command `opt`, which applies the passes that the `test` line names, in its order, or the whole pipeline if
/// it names none. The word `proofs` adds what the bounds analysis has proved about the result.
pub struct OptCommand;

impl TestCommand for OptCommand {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run_on(&self, context: &CommandContext<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let proofs = context.args.iter().any(|arg| arg == PROOFS);
        let names = context.args.iter().filter(|arg| *arg != PROOFS);
        let passes: Vec<Pass> = names.map(|name| pass_named(name)).collect::<Result<_, _>>()?;
        let before = valid_module(file)?;
        let after = apply_passes(&before, &passes);
        check_run_lines(&before, &file.runs, &ReferenceTarget)?;
        check_run_lines(&after, &file.runs, &ReferenceTarget)?;
        Ok(Some(if proofs { annotated_text(&after) } else { text::print(&after) }))
    }
}

/// The argument that adds proofs to the output.
const PROOFS: &str = "proofs";

fn pass_named(name: &str) -> Result<Pass, Failure> {
    Pass::ALL.iter().copied().find(|pass| pass.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).chain([PROOFS]).collect();
        Failure::Argument { command: "opt", arg: name.into(), hint: name_hint(name, &names) }
    })
}

/// The module after these passes, or after the whole pipeline if there are none.
pub fn apply_passes(module: &Valid, passes: &[Pass]) -> Valid {
    if passes.is_empty() {
        return pass::optimize(module);
    }
    passes.iter().fold(module.clone(), |module, pass| pass.run(&module))
}

/// The module's text, in which each access that is proved to be in range has its proof as a comment.
pub fn annotated_text(module: &Valid) -> String {
    let bounds = Bounds::new(module, KnownGeometry::default());
    text::print_annotated(module, |site| bounds.proof(site).map(|proof| proof.to_string()))
}
