//! `pelton check`.

use serde_json::Value;

use crate::{DOUBLE, ScratchFolder, pelton, pelton_with};

/// A text with two errors, in lines 4 and 5.
const BAD: &str =
    "buffer x: [u32; 4] global read_write\n\nkernel main {\n  %a = lode @x[0]\n  %b = add %nobody, 1\n}\n";

#[test]
fn a_good_module_is_described() {
    let folder = ScratchFolder::new("check-good");
    let good = folder.file("good.pel", DOUBLE);
    let ran = pelton(&["check", &good]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out, format!("{good}: valid, 1 kernel, 1 buffer, 5 instructions\n"));
}

#[test]
fn all_errors_come_at_once() {
    let folder = ScratchFolder::new("check-bad");
    let (bad, good) = (folder.file("bad.pel", BAD), folder.file("good.pel", DOUBLE));
    let ran = pelton(&["check", &bad, &good, &bad]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("good.pel: valid"), "{}", ran.out);
    assert!(ran.err.contains("bad.pel:4:") && ran.err.contains("bad.pel:5:"), "{}", ran.err);
    assert!(ran.err.contains("2 of 3 files are not valid"), "{}", ran.err);
}

#[test]
fn the_validator_is_heard_too() {
    let ran = pelton_with(&["check", "-"], "kernel main {\n  %a = add 1, 2.0\n}\n");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("<stdin>:2:"), "{}", ran.err);
}

#[test]
fn a_mistake_in_the_text_hides_none_elsewhere() {
    let text = "fn f() {\n  %a = add 1, 2.0\n}\n\nkernel main {\n  %b = ad 1, 2\n  %c = add %b, 1.0\n  %d = not 0.5\n}\n";
    let ran = pelton_with(&["check", "--json", "-"], text);
    assert_eq!(ran.code, Some(1));
    let codes: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON")["code"].clone())
        .collect();
    assert_eq!(codes, ["operand-type", "unknown", "operand-type"], "{}", ran.out);
}

#[test]
fn json_has_one_object_a_line() {
    let folder = ScratchFolder::new("check-json");
    let (bad, good) = (folder.file("bad.pel", BAD), folder.file("good.pel", DOUBLE));
    let missing = folder.path("missing.pel");
    let ran = pelton(&["check", "--json", &good, &bad, &missing]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.err, "");
    let lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(lines.len(), 3, "{}", ran.out);
    for (line, number) in lines.iter().zip([4, 5]) {
        assert_eq!(line["file"], Value::from(bad.clone()));
        assert_eq!(line["start"]["line"], number, "{line}");
        assert!(line["start"]["column"].is_u64() && line["end"]["byte"].is_u64(), "{line}");
        for key in ["code", "message", "label"] {
            assert!(line[key].is_string(), "{key} in {line}");
        }
        assert!(line["notes"].is_array(), "{line}");
    }
    assert_eq!(lines[2]["code"], "unreadable");
    assert_eq!(lines[2]["file"], Value::from(missing));
    assert_eq!(pelton(&["check", "--json", &good]).out, "");
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = ScratchFolder::new("check-read");
    let latin = folder.file("latin.pel", b"; caf\xe9\nkernel main {\n}\n");
    let ran = pelton(&["check", &folder.path("missing.pel"), &folder.path(""), &latin]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("missing.pel: "), "{}", ran.err);
    assert!(ran.err.to_lowercase().contains("directory"), "{}", ran.err);
    assert!(ran.err.contains("latin.pel is not UTF-8: byte 5 "), "{}", ran.err);
    assert!(ran.err.contains("3 of 3 files are not valid"), "{}", ran.err);
    assert_eq!(pelton_with(&["check", "-"], b"\xff").code, Some(1));
}

#[test]
fn hostile_texts_are_errors() {
    let nested = format!("kernel main {{\n{}", "block {\n".repeat(20_000));
    let literal = format!("kernel main {{\n  %a = add {}, 1\n}}\n", "7".repeat(5 << 20));
    let huge = "buffer x: [u32; 4294967296] global read\nkernel main {\n}\n";
    let cut = &DOUBLE[..DOUBLE.len() / 2];
    for text in [nested.as_str(), &literal, huge, cut, "\0", "kernel"] {
        let ran = pelton_with(&["check", "-"], text);
        assert_eq!(ran.code, Some(1), "{}", &ran.err[..ran.err.len().min(2000)]);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        assert!(ran.err.len() < 1 << 16, "the report has {} bytes", ran.err.len());
    }
}
