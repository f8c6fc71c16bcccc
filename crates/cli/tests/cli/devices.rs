//! `pelton devices`, `pelton emit` and `pelton bench`.

use serde_json::Value;

use crate::{DOUBLE, ScratchFolder, pelton, pelton_with};

#[test]
fn every_device_is_listed_by_name() {
    let ran = pelton(&["devices"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for name in ["cuda", "cpu", "reference"] {
        assert!(ran.out.lines().any(|line| line.starts_with(name)), "{}", ran.out);
    }
    let ran = pelton(&["devices", "--json"]);
    let rows: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let there = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["there"].clone());
    assert_eq!(there("cpu"), Some(Value::Bool(true)));
    assert!(rows.iter().all(|row| row["there"] == true || row["why"].is_string()), "{}", ran.out);
}

#[test]
fn the_null_device_is_for_tests_alone() {
    let folder = ScratchFolder::new("null");
    let file = folder.file("double.pel", DOUBLE);
    let spec = folder.file("spec.toml", "");
    let tasks = "{\"op\": \"NOP\"}\n";
    for args in [&["exec", &file, "--buffer", "x=[1]", "--device", "null"][..], &["demo", "--device", "null"]]
    {
        let ran = pelton(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("the null device runs nothing; it is for tests"), "{args:?}: {}", ran.err);
    }
    let ran = pelton_with(&["run", &spec, "--device", "null"], tasks);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    let ran = pelton(&["exec", &file, "--buffer", "x=[1]", "--device", "nul"]);
    assert!(ran.err.contains("devices are cuda, ") && !ran.err.contains("null"), "{}", ran.err);
}

#[test]
fn clif_is_for_a_number_of_lanes() {
    let folder = ScratchFolder::new("emit");
    let file = folder.file("double.pel", DOUBLE);
    let one = pelton(&["emit", "--to", "clif", &file]);
    assert_eq!(one.code, Some(0), "{}", one.err);
    assert!(one.out.starts_with("function u0:0(i64) -> i32"), "{}", one.out);
    let many = pelton(&["emit", "--to", "clif", &file, "--lanes", "8"]);
    assert!(many.out.lines().count() > one.out.lines().count(), "eight lanes need a loop");
    assert_eq!(pelton(&["emit", "--to", "clif", &file, "--lanes", "0"]).code, Some(1));
    assert_eq!(pelton(&["emit", "--to", "brainwaves", &file]).code, Some(64));
}

#[test]
fn benchmarks_write_rows() {
    let folder = ScratchFolder::new("bench");
    let path = folder.path("rows.jsonl");
    let ran = pelton(&["bench", "compile", "--only", " 2000 ", "--json", &path]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("case "), "{}", ran.out);
    let text = String::from_utf8(folder.read("rows.jsonl")).expect("it is text");
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).expect("it is JSON");
        assert!(row["group"] == "compile" && row["value"].is_f64() && row["case"].is_string(), "{row}");
    }
    assert!(text.lines().count() >= 4, "{text}");
    assert_eq!(pelton(&["bench", "device", "--only", "no such case"]).code, Some(1));
}

#[test]
fn a_dash_is_standard_output_for_rows() {
    let ran = pelton(&["bench", "compile", "--only", " 2000 ", "--json", "-"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let rows =
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("rows are all there is"));
    assert_eq!(rows.count(), 4, "{}", ran.out);
    for command in ["bench", "litmus"] {
        let help = pelton(&[command, "--help"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("`-` writes them to standard output instead of the table"), "{help}");
        assert!(help.contains("--json - > rows.jsonl"), "{help}");
    }
}

#[test]
fn rows_that_cannot_be_written_are_refused_before_anything_is_measured() {
    let folder = ScratchFolder::new("rows");
    let path = folder.path("no/such/rows.jsonl");
    for args in [&["bench", "compile"][..], &["litmus", "--device", "cpu"]] {
        let ran = pelton(&[args, &["--json", &path]].concat());
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.starts_with("error: cannot write "), "{}", ran.err);
    }
}
