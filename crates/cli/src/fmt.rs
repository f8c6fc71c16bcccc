//! `pelton fmt`: rewrites modules in the standard form.

use std::path::{Path, PathBuf};

use pelton_filetest::replace::replace_file;
use pelton_ir::text;

use crate::CliStatus;
use crate::error::CliError;
use crate::source::{ModuleSource, is_stdin};
use crate::term::Term;

/// Rewrite modules in the standard form, keeping comments
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton fmt a.pel b.pel         rewrite files in place, and print the names of those that changed
  pelton fmt --check *.pel       change nothing; exit with status 1 if a file would change
  pelton fmt - < a.pel           read standard input and write standard output")]
pub(crate) struct FmtArgs {
    /// The files to format; `-` reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Change nothing, print the names of files that would change
    #[arg(long)]
    check: bool,
}

pub(crate) fn run_fmt(args: &FmtArgs, term: &Term) -> Result<CliStatus, CliError> {
    let mut status = CliStatus::Fine;
    for path in &args.files {
        match format_file(path, args.check, term) {
            Ok(CliStatus::Fine) => {}
            Ok(other) => status = other,
            Err(CliError::Pipe) => return Err(CliError::Pipe),
            Err(error) => {
                term.error(&error);
                status = CliStatus::Wrong;
            }
        }
    }
    Ok(status)
}

fn format_file(path: &Path, check: bool, term: &Term) -> Result<CliStatus, CliError> {
    let source = ModuleSource::read(path)?;
    let formatted =
        text::format(&source.text).map_err(|list| CliError::Report(source.render(&list, term)))?;
    let same = formatted == source.text;
    match (check, is_stdin(path)) {
        (false, true) => term.text(&formatted)?,
        _ if same => {}
        (true, _) => {
            term.line(&source.name)?;
            return Ok(CliStatus::Wrong);
        }
        (false, false) => {
            replace_file(path, &formatted)
                .map_err(|cause| CliError::Write { path: path.into(), source: cause })?;
            term.line(&source.name)?;
        }
    }
    Ok(CliStatus::Fine)
}
