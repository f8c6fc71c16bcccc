//! The tables of the manual, made from the tables of the language.
//!
//! `docs/ir.md` embeds them between markers, and a test holds it to what these functions give.

use std::fmt::Write;

use crate::limits;
use crate::op::{Form, Pat, Row, TABLE};
use crate::pass::Pass;
use crate::valid::Rule;

/// Chapters in the order of the op table, each with all its rows.
pub fn chapters() -> Vec<(&'static str, Vec<&'static Row>)> {
    let mut chapters: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in TABLE {
        match chapters.iter_mut().find(|(name, _)| *name == row.chapter) {
            Some((_, rows)) => rows.push(row),
            None => chapters.push((row.chapter, vec![row])),
        }
    }
    chapters
}

/// What a row's op does besides giving values, in a word.
pub fn effect(row: &Row) -> String {
    format!("{:?}", row.effect).to_lowercase()
}

fn pat(pat: &Pat) -> &'static str {
    match pat {
        Pat::T => "T",
        Pat::To => "TYPE",
        Pat::Is(ty) => ty.word(),
    }
}

/// Operands and results of a row with their types.
pub fn signature(row: &Row) -> String {
    let args: Vec<String> = row.args.iter().map(|(name, ty)| format!("{name}: {}", pat(ty))).collect();
    let results: Vec<&str> = row.results.iter().map(pat).collect();
    let dots = if row.form == Form::Wide { "…" } else { "" };
    let mut text = format!("({}{})", args.join(", "), if results.is_empty() { dots } else { "" });
    if !results.is_empty() {
        let _ = write!(text, " -> {}{dots}", results.join(", "));
    }
    text
}

/// A cell of a table: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The ops, one table a chapter.
pub fn ops() -> String {
    let mut text = String::new();
    for (k, (chapter, rows)) in chapters().into_iter().enumerate() {
        let gap = if k == 0 { "" } else { "\n" };
        let _ = write!(text, "{gap}### {chapter}\n\n| op | operands and results | T | effect | meaning |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in rows {
            let types = row.class.map_or_else(String::new, |class| {
                class.types().iter().map(|ty| ty.word()).collect::<Vec<_>>().join(" ")
            });
            let (signature, effect, doc) = (signature(row), effect(row), cell(row.doc));
            let _ = writeln!(text, "| `{}` | `{signature}` | {types} | {effect} | {doc} |", row.name);
        }
    }
    text
}

/// The validator's rules.
pub fn rules() -> String {
    let mut text = String::from("| code | a valid module |\n|---|---|\n");
    for rule in Rule::ALL {
        let _ = writeln!(text, "| `{}` | {} |", rule.code(), cell(rule.doc()));
    }
    text
}

/// The passes.
pub fn passes() -> String {
    let mut text = String::from("| pass | does |\n|---|---|\n");
    for pass in Pass::ALL {
        let _ = writeln!(text, "| `{}` | {} |", pass.name(), cell(pass.doc()));
    }
    text
}

/// The limits.
pub fn limits() -> String {
    let rows: [(&str, u64); 10] = [
        ("regions within regions, the function's body included", limits::MAX_DEPTH as u64),
        ("instructions of a module", limits::MAX_INSTS as u64),
        ("operands, results or carried values", limits::MAX_ARGS as u64),
        ("bytes of a name", limits::MAX_NAME as u64),
        ("buffers of a module", limits::MAX_BUFFERS as u64),
        ("functions of a module", limits::MAX_FUNCTIONS as u64),
        ("elements that a buffer declares", limits::MAX_LEN),
        ("bytes of all shared buffers together", limits::MAX_SHARED),
        ("values of all the cases of a `switch`", limits::MAX_CASES as u64),
        ("bytes of a text", limits::MAX_TEXT as u64),
    ];
    let mut text = String::from("| of | at most |\n|---|---|\n");
    for (what, most) in rows {
        let _ = writeln!(text, "| {what} | {most} |");
    }
    text
}
