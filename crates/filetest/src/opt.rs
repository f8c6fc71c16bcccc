//! `test opt`: the text after passes, with every `run` line run before and after.

use pelton_ir::pass::bounds::{Bounds, Geometry};
use pelton_ir::pass::{self, Pass};
use pelton_ir::text;
use pelton_ir::valid::Valid;

use crate::command::{Command, Context, Printed};
use crate::failure::Failure;
use crate::near::hint;
use crate::run::{lines, valid};
use crate::target::Reference;

/// Applies the passes that the `test` line names, in its order, or the whole pipeline if it names none. The word
/// `proofs` adds what the bounds analysis proved of the result.
pub struct Opt;

impl Command for Opt {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn prints(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Printed, Failure> {
        let file = context.file;
        let proofs = context.args.iter().any(|arg| arg == PROOFS);
        let names = context.args.iter().filter(|arg| *arg != PROOFS);
        let passes: Vec<Pass> = names.map(|name| named(name)).collect::<Result<_, _>>()?;
        let before = valid(file)?;
        let after = apply(&before, &passes);
        lines(&before, &file.runs, &Reference)?;
        lines(&after, &file.runs, &Reference)?;
        Ok(Some(if proofs { annotated(&after) } else { text::print(&after) }))
    }
}

/// The argument that asks for proofs.
const PROOFS: &str = "proofs";

fn named(name: &str) -> Result<Pass, Failure> {
    Pass::ALL.iter().copied().find(|pass| pass.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Pass::ALL.iter().map(|pass| pass.name()).chain([PROOFS]).collect();
        Failure::Argument { command: "opt", arg: name.into(), hint: hint(name, &names) }
    })
}

/// The module after these passes, or after the whole pipeline if there are none.
pub fn apply(module: &Valid, passes: &[Pass]) -> Valid {
    if passes.is_empty() {
        return pass::optimize(module);
    }
    passes.iter().fold(module.clone(), |module, pass| pass.run(&module))
}

/// The text, each access that is proved to be in range with its proof as a comment.
pub fn annotated(module: &Valid) -> String {
    let bounds = Bounds::new(module, Geometry::default());
    text::annotated(module, |site| bounds.proof(site).map(|proof| proof.to_string()))
}
