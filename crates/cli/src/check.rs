//! `pelton check`: reports everything that is wrong with modules.

use std::path::PathBuf;

use pelton_ir::module::Module;
use serde_json::json;

use crate::error::CliError;
use crate::source::ModuleSource;
use crate::term::{Term, TextRole};
use crate::{CliStatus, json};

/// Report whether modules are valid, and everything that is wrong with those that are not
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton check add.pel           show all errors, with diagrams
  pelton check kernels/*.pel     check several files; exit with status 1 if one is not valid
  pelton check library.pel       check a library or a module with imports like any other
  pelton fmt - < a.pel | pelton check -
  pelton check --json a.pel      print one JSON object per error: file, code, message, label, notes, start, end, also")]
pub(crate) struct CheckArgs {
    /// The files to check; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print errors as JSON, one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_check(args: &CheckArgs, term: &Term) -> Result<CliStatus, CliError> {
    let mut bad = 0;
    for path in &args.files {
        let source = match ModuleSource::read(path) {
            Ok(source) => source,
            Err(error) => {
                bad += 1;
                report_unreadable(path, &error, args, term)?;
                continue;
            }
        };
        match source.validate() {
            Ok(_) if args.json => {}
            Ok(module) => {
                term.line(format_args!(
                    "{}: {}, {}",
                    source.name,
                    term.paint(TextRole::Good, "valid"),
                    module_size(&module)
                ))?;
            }
            Err(list) => {
                bad += 1;
                if args.json {
                    for diagnostic in &list {
                        term.line(json::diagnostic_json(&source, diagnostic))?;
                    }
                } else {
                    term.note(source.render(&list, term).trim_end());
                }
            }
        }
    }
    if bad == 0 {
        return Ok(CliStatus::Fine);
    }
    if args.files.len() > 1 && !args.json {
        term.note(format_args!("{bad} of {} files are not valid", args.files.len()));
    }
    Ok(CliStatus::Wrong)
}

fn report_unreadable(
    path: &std::path::Path,
    error: &CliError,
    args: &CheckArgs,
    term: &Term,
) -> Result<(), CliError> {
    if args.json {
        let file = path.display().to_string();
        return term.line(json!({ "file": file, "code": "unreadable", "message": error.to_string() }));
    }
    term.error(error);
    Ok(())
}

/// The size of a module, in words.
fn module_size(module: &Module) -> String {
    let insts: usize = module.functions.iter().map(|(_, function)| function.insts().len()).sum();
    let (kernels, imports) = (module.kernels().count(), module.imports().count());
    let parts = [
        (kernels, "kernel"),
        (module.functions.len() - kernels - imports, "function"),
        (imports, "import"),
        (module.buffers.len(), "buffer"),
        (insts, "instruction"),
    ];
    let shown = parts.iter().filter(|(n, _)| *n > 0);
    let words = shown.map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "empty".into() } else { words.join(", ") }
}
