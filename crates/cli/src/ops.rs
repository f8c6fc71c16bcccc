//! `pelton ops`: the op table for people.

use std::fmt::Write;

use pelton_filetest::near::hint;
use pelton_ir::op::{Form, Op, Pat, Row, TABLE};

use crate::Status;
use crate::error::Error;
use crate::term::{Role, Term};

/// Show the operations of the language
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton ops                     every operation, by chapter
  pelton ops atomic_add          one of them
  pelton ops --markdown          the tables of the language's manual")]
pub struct Args {
    /// An operation
    name: Option<String>,

    /// Print Markdown tables
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

pub fn run(args: &Args, term: &Term) -> Result<Status, Error> {
    match &args.name {
        Some(name) => {
            let op = Op::named(name).ok_or_else(|| {
                let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
                Error::Unknown { kind: "operation", name: name.clone(), hint: hint(name, &names) }
            })?;
            term.text(&one(op.row(), term))?;
        }
        None if args.markdown => term.text(&markdown())?,
        None => term.text(&all(term))?,
    }
    Ok(Status::Fine)
}

/// Chapters in the order of the table, each with all its rows.
fn chapters() -> Vec<(&'static str, Vec<&'static Row>)> {
    let mut chapters: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in TABLE {
        match chapters.iter_mut().find(|(name, _)| *name == row.chapter) {
            Some((_, rows)) => rows.push(row),
            None => chapters.push((row.chapter, vec![row])),
        }
    }
    chapters
}

fn all(term: &Term) -> String {
    let mut text = String::new();
    for (chapter, rows) in chapters() {
        let _ = writeln!(text, "{}\n", term.paint(Role::Strong, chapter));
        for row in rows {
            let name = term.paint(Role::Good, row.name);
            let _ = writeln!(text, "  {name} {}\n      {}", signature(row), row.doc);
        }
        text.push('\n');
    }
    text
}

fn one(row: &Row, term: &Term) -> String {
    let mut text = format!("{} {}\n\n{}\n\n", term.paint(Role::Good, row.name), signature(row), row.doc);
    if let Some(class) = row.class {
        let types: Vec<&str> = class.types().iter().map(|ty| ty.word()).collect();
        let _ = writeln!(text, "T is {}.", types.join(", "));
    }
    let _ = writeln!(text, "Effect: {}. Chapter: {}.", effect(row), row.chapter);
    text
}

fn effect(row: &Row) -> String {
    format!("{:?}", row.effect).to_lowercase()
}

fn pat(pat: &Pat) -> &'static str {
    match pat {
        Pat::T => "T",
        Pat::To => "TYPE",
        Pat::Is(ty) => ty.word(),
    }
}

/// Operands and results with their types.
fn signature(row: &Row) -> String {
    let args: Vec<String> = row.args.iter().map(|(name, ty)| format!("{name}: {}", pat(ty))).collect();
    let results: Vec<&str> = row.results.iter().map(pat).collect();
    let dots = if row.form == Form::Wide { "…" } else { "" };
    let mut text = format!("({}{})", args.join(", "), if results.is_empty() { dots } else { "" });
    if !results.is_empty() {
        let _ = write!(text, " -> {}{dots}", results.join(", "));
    }
    text
}

/// One table a chapter.
fn markdown() -> String {
    let mut text = String::new();
    for (k, (chapter, rows)) in chapters().into_iter().enumerate() {
        let gap = if k == 0 { "" } else { "\n" };
        let _ = write!(text, "{gap}### {chapter}\n\n| op | operands and results | T | effect | meaning |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in rows {
            let types = row.class.map_or_else(String::new, |class| {
                class.types().iter().map(|ty| ty.word()).collect::<Vec<_>>().join(" ")
            });
            // A bar would end the cell.
            let doc = row.doc.replace('|', "\\|");
            let _ = writeln!(
                text,
                "| `{}` | `{}` | {types} | {} | {doc} |",
                row.name,
                signature(row),
                effect(row)
            );
        }
    }
    text
}
