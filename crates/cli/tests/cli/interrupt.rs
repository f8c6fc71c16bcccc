//! Ctrl-C in commands that measure: the rows before it are shown, and written to the file that `--json` names.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{RunOutput, ScratchFolder, command};

/// Runs the program, and sends Ctrl-C once standard error has a line that contains a text.
fn interrupted_at(args: &[&str], sign: &str) -> RunOutput {
    let mut child = command()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut notes = BufReader::new(child.stderr.take().expect("it was piped"));
    let mut err = String::new();
    while !err.lines().last().is_some_and(|line| line.contains(sign)) {
        assert_ne!(notes.read_line(&mut err).expect("it is text"), 0, "it ended by itself: {err}");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    notes.read_to_string(&mut err).expect("it is text");
    let ran: RunOutput = child.wait_with_output().expect("the program ends").into();
    RunOutput { err, ..ran }
}

/// Interrupts a command that has a row of the first case and is working on another.
fn first_case_is_shown(args: &[&str], sign: &str, case: &str) {
    let folder = ScratchFolder::new(&format!("interrupt-{}", args.join("-")));
    let path = folder.path("rows.jsonl");
    let ran = interrupted_at(&[args, &["--json", &path]].concat(), sign);
    assert_eq!(ran.code, Some(130), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("interrupted: these are the figures so far"), "{}", ran.err);
    let mut lines = ran.out.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("case ")), "{}", ran.out);
    assert!(lines.next().is_some_and(|line| line.starts_with(case)), "{}", ran.out);
    let text = String::from_utf8(folder.read("rows.jsonl")).expect("it is text");
    let first: Value =
        serde_json::from_str(text.lines().next().expect("there is a row")).expect("it is JSON");
    assert!(first["case"].as_str().is_some_and(|name| name.starts_with(case)), "{text}");
}

#[test]
fn bench_device_shows_what_is_measured() {
    first_case_is_shown(&["bench", "device", "--only", "m"], "histogram", "map");
}

#[test]
fn bench_echo_shows_what_is_measured() {
    first_case_is_shown(&["bench", "echo"], "resident workers", "round trip, two threads of Rust");
}

#[test]
fn rounds_end_early_and_those_that_were_complete_count() {
    for (group, only, sign) in [("device", "map", "map"), ("echo", "trip", "round trips")] {
        let args = ["bench", group, "--only", only, "--rounds", "1000", "--json", "-"];
        let ran = interrupted_at(&args, sign);
        assert_eq!(ran.code, Some(130), "{group}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("interrupted"), "{group}: {}", ran.err);
        for line in ran.out.lines() {
            let row: Value = serde_json::from_str(line).expect("it is JSON");
            assert!(row["against"].is_null() || row["rounds"].as_u64() < Some(1000), "{group}: {row}");
        }
    }
}

#[test]
fn bench_compile_shows_what_is_measured() {
    first_case_is_shown(&["bench", "compile"], "20000 instructions", "parse and validate, 2000 ");
}

#[test]
fn bench_soak_shows_what_was_checked() {
    for load in ["tasks", "graphs", "stress"] {
        let ran = interrupted_at(&["bench", "soak", "--load", load, "--json", "-"], "under way");
        assert_eq!(ran.code, Some(130), "{load}: {}", ran.err);
        assert!(ran.err.contains("interrupted: these are the figures so far"), "{load}: {}", ran.err);
        assert!(ran.out.lines().count() > 0, "{load}");
    }
}

#[test]
fn litmus_shows_what_was_played() {
    let args = ["litmus", "--device", "reference", "--rounds", "1e6"];
    first_case_is_shown(&args, "host to device, near", "host to device, far");
}

#[test]
fn nothing_measured_is_said_too() {
    let ran =
        interrupted_at(&["litmus", "--device", "cpu", "--rounds", "1e9", "--json", "-"], "host to device");
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""), "{}", ran.err);
    assert!(ran.err.contains("interrupted before there was a figure"), "{}", ran.err);
}
