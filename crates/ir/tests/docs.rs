//! `docs/ir.md` says what the tables say. `BLESS=1` writes them into it.

use std::fs;
use std::path::Path;

use pelton_ir::manual;
use pelton_ir::op::{Op, OpRow, TABLE, TypePattern};
use pelton_ir::text::{self, ColorMode};
use pelton_ir::types::Type;
use pelton_ir::valid::validate;

/// The text with a marked part replaced.
fn filled(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("docs/ir.md has no {begin}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/ir.md has no {end}"));
    format!("{head}{begin}\n{part}\n{end}{tail}")
}

#[test]
fn the_manual_is_made_from_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ir.md");
    let text = fs::read_to_string(&path).expect("docs/ir.md can be read");
    let parts = [
        ("ops", manual::op_tables()),
        ("rules", manual::rule_table()),
        ("passes", manual::pass_table()),
        ("limits", manual::limit_table()),
    ];
    let made = parts.iter().fold(text.clone(), |text, (name, part)| filled(&text, name, part));
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, made).expect("docs/ir.md can be written");
    } else {
        assert!(
            text == made,
            "docs/ir.md is not what the tables say: BLESS=1 cargo test -p pelton-ir --test docs"
        );
    }
}

/// A value of a type, the same in every lane.
fn value(ty: Type) -> &'static str {
    match ty {
        Type::U32 => "groups",
        Type::I32 => "add 1i32, 2i32",
        Type::U64 => "clock",
        Type::F32 => "add 1.0, 2.0",
        Type::Bool => "eq 1, 2",
    }
}

/// A module in which the example of a row stands, with what it takes to be valid.
fn around(row: &OpRow) -> String {
    let example = manual::row_example(row);
    let first = row.class.map(|class| class.types()[0]).unwrap_or(Type::U32);
    let ty = |name: &str| match row.args.iter().find(|(arg, _)| *arg == name) {
        Some((_, TypePattern::Is(ty))) => *ty,
        Some(_) => first,
        None if name == "c" => Type::Bool,
        None => Type::U32,
    };
    let mut body = String::new();
    let mut known = Vec::new();
    for word in example.split('%').skip(1) {
        let name: String = word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        // What the example defines itself stands before a mark that says so.
        let rest = word[name.len()..].trim_start();
        let listed = name.starts_with('w') && !row.results.is_empty();
        let defined = rest.starts_with('=') || rest.starts_with(": ") || listed;
        if !known.contains(&name) && !defined {
            body += &format!("  %{name} = {}\n", value(ty(&name)));
        }
        known.push(name);
    }
    for line in example.lines() {
        body += &format!("  {line}\n");
    }
    let kind = match row.op {
        Op::Return => "fn g() -> u32",
        _ => "kernel main",
    };
    format!(
        "buffer b: [u32; 16] global read_write\nbuffer tile: [u32; 16] shared read_write\n\nfn f(%a: u32, %b: u32) -> u32 {{\n  return %a\n}}\n\n{kind} {{\n{body}}}\n"
    )
}

#[test]
fn every_example_is_a_program_in_canonical_form() {
    for row in TABLE {
        let source = around(row);
        let report =
            |list: &[text::Diagnostic]| text::render_diagnostics(row.name, &source, list, ColorMode::Plain);
        let module = text::parse(&source).unwrap_or_else(|list| panic!("{}", report(&list)));
        let valid = validate(module).unwrap_or_else(|invalid| panic!("{}", report(&invalid.diagnostics())));
        assert!(
            valid.functions.iter().any(|(_, f)| f.insts().any(|(_, node)| node.op == row.op)),
            "the example of {} has none",
            row.name
        );
        assert_eq!(text::print(&valid), source, "{}", row.name);
    }
}

#[test]
fn programs_of_the_manual_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ir.md");
    let manual = fs::read_to_string(&path).expect("docs/ir.md can be read");
    let programs: Vec<&str> =
        manual.split("```text\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    for source in &programs {
        let report = |list: &[text::Diagnostic]| {
            text::render_diagnostics("docs/ir.md", source, list, ColorMode::Plain)
        };
        let module = text::parse(source).unwrap_or_else(|list| panic!("{}", report(&list)));
        validate(module).unwrap_or_else(|invalid| panic!("{}", report(&invalid.diagnostics())));
    }
    // What the text says about names.
    let either = programs.iter().find(|source| source.contains("kernel either")).expect("it is there");
    let again = either.replace("%y", "%x");
    let list = text::parse(&again).expect_err("`%x` is defined twice");
    assert_eq!(list.iter().map(|found| found.code).collect::<Vec<_>>(), ["duplicate"]);
    let twice = format!("{either}\n{}", either.replace("kernel either", "kernel other"));
    assert!(text::parse(&twice).is_ok(), "another function may use the same names");
}
