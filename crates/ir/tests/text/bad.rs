//! Texts that are wrong.

use pelton_ir::module::TextPlace;
use pelton_ir::text::{self, ColorMode, Diagnostic};

use crate::SAMPLE;

fn errors(text: &str) -> Vec<Diagnostic> {
    text::parse(text).expect_err("the text has errors")
}

/// The errors in the body of a kernel: code and what the place shows, in order.
fn found(body: &str) -> Vec<(&'static str, String)> {
    let text = format!(
        "buffer data: [u32; ?] global read_write\nfn inc(%x: u32) -> u32 {{\n  return %x\n}}\nkernel main {{\n{body}\n}}\n"
    );
    errors(&text).iter().map(|error| (error.code, text[error.place.range()].to_string())).collect()
}

#[test]
fn each_mistake_is_one_error() {
    let one = |body: &str, code, shown: &str| assert_eq!(found(body), [(code, shown.to_string())], "{body}");
    one("%x = ad 1, 2\n%y = add %x, 1", "unknown", "ad");
    one("%x = load @dta[0]\n%x2 = add %x, %x", "unknown", "@dta");
    one("trap %x\ntrap %x", "unknown", "%x");
    one("%x = call incc(1)\ntrap %x", "unknown", "incc");
    one("%x = call main(1)", "unknown", "main");
    one("block ^a {\n  break ^b\n}", "unknown", "^b");
    one("%x = lane\n%x = lane", "duplicate", "%x");
    one("block ^a {\n  block ^a {\n  }\n}", "duplicate", "^a");
    one("trap 1\ntrap 99999999999\ntrap 2", "literal", "99999999999");
    one("%x = if true {\n  yield 1\n} else {\n  yield 2\n}\ntrap %x", "syntax", "%x");
    one("add 1, 2", "syntax", "add");
    one("%a, %b = add 1, 2\ntrap %a\ntrap %b", "syntax", "add");
    one("%1a = lane", "syntax", "%1a");
    one("trap 1, ,", "syntax", ",");
    one("trap $", "syntax", "$");
    one("switch 1 {\n  , \n  case 1 {\n  }\n}\nbarrier", "syntax", ",");
    one("switch 1 {\n  default {\n  }\n  case 1 {\n  }\n}\nbarrier", "syntax", "case");
    one(&format!("if 1 2 {{\n{}}}", "} else {\n".repeat(100_000)), "syntax", "2");
    one("%w: u32 = while with %x = 1 {\n  %c = lt %x, 2\n  yield %c\n}\ntrap %w", "syntax", "");
    one("%i = lane\n%x = add %i %i\n%y = lane\ntrap %x", "syntax", "%i");
    one("break\nbarrier", "syntax", "");
    one("%x = 7\ntrap %x", "syntax", "7");
    one(&format!("%{} = lane", "x".repeat(65)), "limit", &format!("%{}", "x".repeat(65)));
    one(&format!("trap {}1", "1, ".repeat(64)), "limit", "1");
}

#[test]
fn heads_with_mistakes_keep_their_regions() {
    let body = "loop ^l %i = 0 until 4 step 1 with %a = 0 {\n  %b = add %a, %i\n  bad.one\n  continue ^l\n}\nbad.two";
    let shown: Vec<String> = found(body).into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(shown, ["until", "bad.one", "bad.two"]);
    let body = "switch {\n  case 0 {\n    bad.one\n  }\n  default {\n  }\n}\nif true {\n} els {\n  bad.two\n}\nbad.three";
    let shown: Vec<String> = found(body).into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(shown, ["{", "bad.one", "els", "bad.two", "bad.three"]);
    let body = "switch 1 {\n  cas 0 {\n    bad.one\n  }\n  case 1 {\n    bad.two\n  }\n}";
    let shown: Vec<String> = found(body).into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(shown, ["cas", "bad.one", "bad.two"]);
}

#[test]
fn items_with_mistakes_are_passed_over() {
    let text = "\
need independant
bufer x: [u32; 4] global read
buffer x: [u16; 4] global read
fn f(%x) {
  trap %nothing
}
kernel a {
  block {
kernel b {
  %x = load @x[0]
  call f()
}
buffer y: [u32; 1] global read
}
";
    let shown: Vec<&str> = errors(text).iter().map(|error| &text[error.place.range()]).collect();
    assert_eq!(shown, ["independant", "bufer", "u16", ")", "kernel", "buffer", "}"]);
}

#[test]
fn near_names_are_suggested() {
    let notes = |text: &str| errors(text)[0].notes.join(" ");
    assert_eq!(notes("kernel a {\n  bakoff 1\n}"), "did you mean `backoff`?");
    assert_eq!(notes("kernel a {\n  %lane = lane\n  trap %lnae\n}"), "did you mean `%lane`?");
    assert_eq!(
        notes("buffer data: [u32; 1] global read\nkernel a {\n  %x = len @date\n}"),
        "did you mean `@data`?"
    );
    assert_eq!(notes("kernel a {\n  block ^outer {\n    break ^out\n  }\n}"), "");
}

#[test]
fn errors_are_capped_and_say_so() {
    let list = errors(&format!("kernel main {{\n{}}}\n", "  wrong\n".repeat(100)));
    assert_eq!(list.len(), 20);
    assert!(list[19].notes.iter().any(|note| note.contains("only the first")));
    let list = errors(&format!("kernel main {{\n{}}}\n", "  wrong\n".repeat(20)));
    assert_eq!(list.len(), 20);
    assert!(list.iter().all(|error| error.notes.is_empty()));
}

#[test]
fn a_text_cut_or_changed_anywhere_is_an_error_or_a_module() {
    let check = |text: &str| {
        if let Err(errors) = text::parse(text) {
            assert!(!errors.is_empty());
            assert!(text::render_diagnostics("text", text, &errors, ColorMode::Plain).contains("error["));
        }
    };
    for at in 0..=SAMPLE.len() {
        check(&SAMPLE[..at]);
    }
    for at in 0..SAMPLE.len() {
        let probe = ["{", "}", "%", "@", "^", ";", "=", "[", "(", "-", "é", "\n", "7", "\0"][at % 14];
        check(&format!("{}{probe}{}", &SAMPLE[..at], &SAMPLE[at..]));
        check(&format!("{}{probe}{}", &SAMPLE[..at], &SAMPLE[at + 1..]));
    }
}

#[test]
fn a_huge_literal_is_an_error_with_a_short_diagram() {
    let long = 5 << 20;
    for word in ["1".repeat(long), format!("0.{}", "1".repeat(long)), format!("%{}", "x".repeat(long))] {
        let text = format!("kernel main {{\n  trap {word}\n}}\n");
        let errors = errors(&text);
        assert_eq!(errors.len(), 1);
        let shown = text::render_diagnostics("huge", &text, &errors, ColorMode::Plain);
        assert!(shown.len() < 2000, "{} bytes", shown.len());
        assert!(shown.contains("huge:2:8"), "{shown}");
    }
}

#[test]
fn deep_regions_are_one_error() {
    for head in ["block {", "if true {", "forever {", "switch 0 {\ncase 0 {", "while {\nyield true\n} do {"] {
        let text = format!("kernel main {{\n{}", format!("{head}\n").repeat(20_000));
        let list = errors(&text);
        assert_eq!((list.len(), list[0].code), (1, "limit"), "{head}");
    }
    for head in ["wrong {", "wrong {\n", "if wrong wrong {\n} else {\n", "switch 0 {\n,\n"] {
        assert!(errors(&format!("kernel main {{\n{}", head.repeat(20_000))).len() <= 20, "{head}");
    }
}

#[test]
fn diagrams_point_at_the_place() {
    let text = "kernel main {\r\n\t\ttrap %y  ; é\r\n}\r\n";
    let shown = text::render_diagnostics("a.pel", text, &errors(text), ColorMode::Plain);
    let expected = "\
error[unknown]: unknown value `%y`
 --> a.pel:2:8
  |
2 |         trap %y  ; é
  |              ^^ not known here
";
    assert_eq!(shown, expected);
    let list = errors("kernel main {\n  barrier\n\n");
    let expected = "\
error[syntax]: expected `}`, found the end of the text
 --> a.pel:2:10
  |
2 |   barrier
  |          ^ expected `}`
  |
note: it closes this
 --> a.pel:1:13
  |
1 | kernel main {
  |             ^
";
    assert_eq!(
        text::render_diagnostics("a.pel", "kernel main {\n  barrier\n\n", &list, ColorMode::Plain),
        expected
    );
}

#[test]
fn diagrams_can_be_drawn_of_any_place() {
    let ends = [0, 1, 2, 3, 7, 8, 9, 40, 41, 42, u32::MAX];
    for text in [
        "",
        "\n",
        "é",
        "é\r\n\té\n",
        "%x = lane\n\n; ∞ and beyond, to the end of the line",
        &"é".repeat(5000),
    ] {
        for (start, end) in ends.iter().flat_map(|start| ends.map(|end| (*start, end))) {
            let diagnostic =
                Diagnostic::new("odd", TextPlace { start, end }, "it is odd".into()).label("here").note("so");
            let shown =
                text::render_diagnostics("a.pel", text, &[diagnostic.clone(), diagnostic], ColorMode::Ansi);
            assert_eq!(shown.matches("it is odd").count(), 2);
        }
    }
}
