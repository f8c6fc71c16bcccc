//! One mistake in the text of a valid module is one error, whatever depends on the line that has it.

use std::fs;
use std::path::Path;

use pelton_ir::text::{self, ColorMode};
use pelton_ir::valid::validate_text;

/// The valid modules among the filetests.
fn modules(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the filetests can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            modules(&path, into);
        } else if let Ok(source) = fs::read_to_string(&path)
            && source.len() < 10_000
            && path.extension().is_some_and(|end| end == "pel")
            && validate_text(&source).is_ok()
            // Then an instruction is a line.
            && text::format(&source).is_ok_and(|formatted| formatted == source)
        {
            into.push((path.display().to_string(), source));
        }
    }
}

/// A line with its op replaced by one that is not known; none if it is not an instruction on a line of its own.
fn unknown_op(line: &str) -> Option<String> {
    let code = line.split(';').next().unwrap_or_default();
    if !line.starts_with("  ") || code.trim().is_empty() || code.contains(['{', '}']) {
        return None;
    }
    let (results, code) = match code.split_once(" = ") {
        Some((results, code)) => (format!("{results} = "), code),
        None => ("  ".into(), code.trim_start()),
    };
    Some(format!("{results}zzz {}", code.split_once(' ').map_or("", |(_, rest)| rest)))
}

/// A line whose last value is one that is not known.
fn unknown_value(line: &str) -> Option<String> {
    let code = line.split(';').next().unwrap_or_default();
    let (results, used) = code.split_once(" = ").unwrap_or(("", code));
    let start = used.rfind('%')?;
    let after = used[start + 1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    let end = after.map_or(used.len(), |after| start + 1 + after);
    if !line.starts_with("  ") || code.contains(['{', '}']) {
        return None;
    }
    let equals = if results.is_empty() { "" } else { " = " };
    Some(format!("{results}{equals}{}%nobody{}", &used[..start], &used[end..]))
}

#[test]
fn a_line_that_is_not_read_breaks_no_rule() {
    let mut all = Vec::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests"), &mut all);
    let mut tried = 0;
    for (name, source) in &all {
        let lines: Vec<&str> = source.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            for broken in [unknown_op(line), unknown_value(line)].into_iter().flatten() {
                let mut lines = lines.clone();
                lines[at] = &broken;
                let source = lines.join("\n");
                let list = validate_text(&source).expect_err("there is a mistake");
                let report = || text::render_diagnostics(name, &source, &list, ColorMode::Plain);
                assert!(list.len() == 1 && list[0].code == "unknown", "{}", report());
                tried += 1;
            }
        }
    }
    assert!(tried > 1000, "only {tried} lines were tried");
}
