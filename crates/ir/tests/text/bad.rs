//! Texts that are wrong.

use pelton_ir::text::{self, Diagnostic};

use crate::SAMPLE;

fn errors(text: &str) -> Vec<Diagnostic> {
    text::parse(text).expect_err("the text has errors")
}

#[test]
fn a_text_cut_anywhere_is_an_error_or_a_module() {
    for end in 0..=SAMPLE.len() {
        let cut = &SAMPLE[..end];
        if let Err(errors) = text::parse(cut) {
            assert!(!errors.is_empty());
            assert!(!text::render("cut", cut, &errors, false).is_empty());
        }
    }
}

#[test]
fn a_huge_literal_is_an_error_with_a_short_diagram() {
    let long = 5 << 20;
    for word in ["1".repeat(long), format!("0.{}", "1".repeat(long)), format!("%{}", "x".repeat(long))] {
        let text = format!("kernel main {{\n  trap {word}\n}}\n");
        let errors = errors(&text);
        assert_eq!(errors.len(), 1);
        let shown = text::render("huge", &text, &errors, false);
        assert!(shown.len() < 2000, "{} bytes", shown.len());
        assert!(shown.contains("huge:2:8"), "{shown}");
    }
}

#[test]
fn deep_regions_are_an_error() {
    for head in ["block {", "if true {", "wrong {", "switch 0 {\ncase 0 {"] {
        let text = format!("kernel main {{\n{}", format!("{head}\n").repeat(20_000));
        assert!(errors(&text).iter().any(|error| error.code == "limit" || error.notes.len() == 1), "{head}");
    }
}
