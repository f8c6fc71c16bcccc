//! `pelton opt`: prints a module after optimisation.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use pelton_filetest::opt::{annotated_text, apply_passes};
use pelton_ir::pass::Pass;
use pelton_ir::text;

use crate::CliStatus;
use crate::error::CliError;
use crate::link::Libraries;
use crate::source::ModuleSource;
use crate::term::Term;

/// Print a module after the optimisation passes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton opt a.pel                          run the whole pipeline
  pelton opt a.pel --pass fold --pass dce   run these passes, in this order
  pelton opt a.pel --proofs                 add what the bounds analysis proved, as comments
  pelton opt a.pel --link hash.pel          bind imports to a library first; without --link they stay
  diff <(pelton fmt - < a.pel) <(pelton opt a.pel)")]
pub(crate) struct OptArgs {
    /// The file with the module; `-` is standard input
    file: PathBuf,

    #[command(flatten)]
    libraries: Libraries,

    /// Run this pass instead of the pipeline; repeat the option to run several, in that order
    #[arg(long = "pass", value_name = "NAME", value_parser = pass_names())]
    passes: Vec<Pass>,

    /// Add comments that say which accesses the bounds analysis proved to be in range
    #[arg(long)]
    proofs: bool,
}

/// Parses names of passes, which help and completions list.
fn pass_names() -> impl clap::builder::TypedValueParser<Value = Pass> {
    PossibleValuesParser::new(Pass::ALL.iter().map(|pass| pass.name())).map(|name| {
        let found = Pass::ALL.iter().copied().find(|pass| pass.name() == name);
        found.expect("only names of passes are let through")
    })
}

pub(crate) fn run_opt(args: &OptArgs, term: &Term) -> Result<CliStatus, CliError> {
    let source = ModuleSource::read(&args.file)?;
    let module = match args.libraries.is_empty() {
        true => source.module(term)?,
        false => args.libraries.link(&source, term)?,
    };
    let module = apply_passes(&module, &args.passes);
    term.text(&if args.proofs { annotated_text(&module) } else { text::print(&module) })?;
    Ok(CliStatus::Fine)
}
