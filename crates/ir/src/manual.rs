//! The tables of the manual, which are generated from the tables of the language.
//!
//! `docs/ir.md` embeds them between markers, and a test checks that it has what these functions return.

use std::fmt::Write;

use crate::limits;
use crate::op::{Op, OpForm, OpRow, TABLE, TypePattern};
use crate::pass::Pass;
use crate::valid::Rule;

/// Returns the chapters in the order of the op table, each with all its rows.
pub fn chapters() -> Vec<(&'static str, Vec<&'static OpRow>)> {
    let mut chapters: Vec<(&str, Vec<&OpRow>)> = Vec::new();
    for row in TABLE {
        match chapters.iter_mut().find(|(name, _)| *name == row.chapter) {
            Some((_, rows)) => rows.push(row),
            None => chapters.push((row.chapter, vec![row])),
        }
    }
    chapters
}

/// Returns the side effect of a row's op in one word.
pub fn effect_name(row: &OpRow) -> String {
    format!("{:?}", row.effect).to_lowercase()
}

fn pattern_name(pat: &TypePattern) -> &'static str {
    match pat {
        TypePattern::T => "T",
        TypePattern::To => "TYPE",
        TypePattern::Is(ty) => ty.word(),
    }
}

/// Returns the operands and results of a row with their types.
pub fn row_signature(row: &OpRow) -> String {
    let args: Vec<String> =
        row.args.iter().map(|(name, ty)| format!("{name}: {}", pattern_name(ty))).collect();
    let results: Vec<&str> = row.results.iter().map(pattern_name).collect();
    let dots = if row.form == OpForm::Wide { "…" } else { "" };
    let mut text = format!("({}{})", args.join(", "), if results.is_empty() { dots } else { "" });
    if !results.is_empty() {
        let _ = write!(text, " -> {}{dots}", results.join(", "));
    }
    text
}

/// Returns an instruction of a row's op in the canonical form of the text. Its operands have the names that the row
/// gives them, and each buffer is one of `u32`.
pub fn row_example(row: &OpRow) -> String {
    const WIDE: &str = "%w0, %w1, %w2, %w3";
    let name = row.name;
    let operand = |(name, _): &(&str, TypePattern)| format!("%{name}");
    let operands = |from: usize| row.args[from..].iter().map(operand).collect::<Vec<_>>().join(", ");
    // An access at the first operand, and the operands that follow it.
    let at = |buffer: &str| {
        let rest = if row.args.len() > 1 { format!(", {}", operands(1)) } else { String::new() };
        format!("@{buffer}[%{}]{rest}", row.args[0].0)
    };
    let order = match row.op {
        Op::AtomicLoad => "acquire",
        Op::AtomicStore => "release",
        _ => "relaxed",
    };
    let code = match row.form {
        OpForm::Plain => format!("{name} {}", operands(0)),
        OpForm::Typed => format!("{name} f32 {}", operands(0)),
        OpForm::Buffer => format!("{name} @b"),
        OpForm::Place => format!("{name} {}", at("b")),
        OpForm::Wide if row.results.is_empty() => format!("{name} relaxed device @b[%at], {WIDE}"),
        OpForm::Wide => return format!("{WIDE} = {name} relaxed device {}", at("b")),
        OpForm::Atomic => format!("{name} {order} device {}", at("b")),
        OpForm::Fence => format!("{name} acq_rel device"),
        OpForm::Copy => format!("{name} @tile[%to], @b[%from], {}", operands(2)),
        OpForm::Control => return control_example(row.op).into(),
    };
    let code = code.trim_end();
    if row.results.is_empty() { code.into() } else { format!("%r = {code}") }
}

/// Returns an example of a control op. Each control op has a form of its own.
fn control_example(op: Op) -> &'static str {
    match op {
        Op::If | Op::Yield => "%r: u32 = if %c {\n  yield %a\n} else {\n  yield %b\n}",
        Op::Switch => {
            "%r: u32 = switch %on {\n  case 0 {\n    yield %a\n  }\n  case 1, 7 {\n    yield %b\n  }\n  default {\n    yield 0\n  }\n}"
        }
        Op::Block | Op::Break => "%r: u32 = block ^out {\n  if %c {\n    break ^out %a\n  }\n  yield %b\n}",
        Op::Loop => {
            "%r: u32 = loop %i = %from to %to step %step with %sum = 0 {\n  %next = add %sum, %i\n  yield %next\n}"
        }
        Op::While => {
            "%r: u32 = while with %x = %a {\n  %more = lt %x, %b\n  yield %more\n} do {\n  %next = mul %x, 2\n  yield %next\n}"
        }
        Op::Forever => {
            "%r: u32 = forever ^poll with %x = %a {\n  if %c {\n    break ^poll %x\n  }\n  %next = add %x, 1\n  yield %next\n}"
        }
        Op::Continue => {
            "%r: u32 = loop ^all %i = 0 to %b step 1 with %sum = 0 {\n  if %c {\n    continue ^all %sum\n  }\n  %next = add %sum, %i\n  yield %next\n}"
        }
        Op::Return => "return %a",
        Op::Call => "%r = call f(%a, %b)",
        _ => "",
    }
}

/// Escapes the text of a table cell, because a bar would end the cell.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the ops as Markdown, with one table per chapter.
pub fn op_tables() -> String {
    let mut text = String::new();
    for (k, (chapter, rows)) in chapters().into_iter().enumerate() {
        let gap = if k == 0 { "" } else { "\n" };
        let _ = write!(text, "{gap}### {chapter}\n\n| op | operands and results | T | effect | meaning |\n");
        text.push_str("|---|---|---|---|---|\n");
        for row in rows {
            let types = row.class.map_or_else(String::new, |class| {
                class.types().iter().map(|ty| ty.word()).collect::<Vec<_>>().join(" ")
            });
            let (signature, effect, doc) = (row_signature(row), effect_name(row), escape_cell(row.doc));
            let _ = writeln!(text, "| `{}` | `{signature}` | {types} | {effect} | {doc} |", row.name);
        }
    }
    text
}

/// Returns the rules of the validator as a Markdown table.
pub fn rule_table() -> String {
    let mut text = String::from("| code | a valid module |\n|---|---|\n");
    for rule in Rule::ALL {
        let _ = writeln!(text, "| `{}` | {} |", rule.code(), escape_cell(rule.doc()));
    }
    text
}

/// Returns the passes as a Markdown table.
pub fn pass_table() -> String {
    let mut text = String::from("| pass | does |\n|---|---|\n");
    for pass in Pass::ALL {
        let _ = writeln!(text, "| `{}` | {} |", pass.name(), escape_cell(pass.doc()));
    }
    text
}

/// Returns the limits as a Markdown table.
pub fn limit_table() -> String {
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
