//! `pelton ops`: shows the op table.

use std::fmt::Write;

use pelton_filetest::hint::name_hint;
use pelton_ir::manual::{self, chapters, effect_name, row_example, row_signature};
use pelton_ir::op::{Op, OpRow, TABLE};

use crate::CliStatus;
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// List the operations of the language, or explain one
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton ops                     list every operation, by chapter
  pelton ops atomic_add          explain one operation, with an example
  pelton ops --markdown          print the tables of the language's manual")]
pub(crate) struct OpsArgs {
    /// The operation to explain; all are listed if it is left out
    name: Option<String>,

    /// Print the tables as Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

pub(crate) fn run_ops(args: &OpsArgs, term: &Term) -> Result<CliStatus, CliError> {
    match &args.name {
        Some(name) => {
            let op = Op::from_name(name).ok_or_else(|| {
                let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
                CliError::Unknown { kind: "operation", name: name.clone(), hint: name_hint(name, &names) }
            })?;
            term.text(&describe_op(op.row(), term))?;
        }
        None if args.markdown => term.text(&manual::op_tables())?,
        None => term.text(&list_ops(term))?,
    }
    Ok(CliStatus::Fine)
}

fn list_ops(term: &Term) -> String {
    let mut text = String::new();
    for (chapter, rows) in chapters() {
        let _ = writeln!(text, "{}\n", term.paint(TextRole::Strong, chapter));
        for row in rows {
            let name = term.paint(TextRole::Good, row.name);
            let _ = writeln!(text, "  {name} {}\n      {}", row_signature(row), row.doc);
        }
        text.push('\n');
    }
    text
}

fn describe_op(row: &OpRow, term: &Term) -> String {
    let mut text = format!("{} {}\n\n", term.paint(TextRole::Good, row.name), row_signature(row));
    for line in row_example(row).lines() {
        let _ = writeln!(text, "    {line}");
    }
    let _ = write!(text, "\n{}\n\n", row.doc);
    if let Some(class) = row.class {
        let types: Vec<&str> = class.types().iter().map(|ty| ty.word()).collect();
        let _ = writeln!(text, "T is {}.", types.join(", "));
    }
    let _ = writeln!(text, "Effect: {}. Chapter: {}.", effect_name(row), row.chapter);
    text
}
