//! `pelton run`.

use serde_json::{Value, json};

use crate::{RunOutput, ScratchFolder, exists, pelton_with};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/run");

/// A spec with one tenant, and a handler `add` over its data.
const SPEC: &str = r#"
[geometry]
slots = 64

[[handler]]
name = "add"
op = 8
text = '''
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read_write

fn add() -> u32 {
  %at = load @arg[0]
  %by = load @arg[1]
  %old = atomic_add relaxed device @data[%at], %by
  return %old
}
'''
"#;

/// Runs lines with a spec that is written to a new folder of that name.
fn run(name: &str, spec: &str, args: &[&str], lines: &str) -> RunOutput {
    let folder = ScratchFolder::new(name);
    let spec = folder.file("spec.toml", spec);
    pelton_with(&[&["run", &spec], args].concat(), lines)
}

fn results(ran: &RunOutput) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn the_example_runs_on_every_device() {
    let folder = ScratchFolder::new("run-example");
    let tasks = std::fs::read_to_string(format!("{FOLDER}/tasks.jsonl")).expect("the example is there");
    for device in ["cpu", "reference"] {
        let out = format!("alice.data={}", folder.path("data.bin"));
        let spec = format!("{FOLDER}/spec.toml");
        let args = ["run", &spec, "--device", device, "--buffer", "alice.prices=[1 2 3 4 5]", "--out", &out];
        let ran = pelton_with(&args, &tasks);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        let fault = |line, op, code, name| json!({ "line": line, "op": op, "status": "fault", "fault": { "code": code, "name": name } });
        let done = |line, op, result| json!({ "line": line, "op": op, "status": "done", "result": result });
        let expect = [
            done(2, "add", 0),
            done(3, "add", 0),
            done(6, "BATCH_FENCE", 1),
            done(9, "add", 0),
            fault(10, "add", 2, "out of region"),
            fault(13, "total", 3, "denied"),
            done(14, "total", 10),
            done(15, "PRINTF", 1),
            done(17, "steps", 111),
            fault(18, "steps", 0x100, "0x100"),
        ];
        let mut found = results(&ran);
        // A fence returns the epoch that it began.
        found[2]["result"] = json!(1);
        assert_eq!(found, expect, "{device}");
        assert!(ran.err.contains("the total of 4 numbers is 10\n"), "{}", ran.err);
        assert!(ran.err.contains("done: 7 done, 3 faults in "), "{}", ran.err);
        assert_eq!(folder.read("data.bin")[12..20], [40, 0, 0, 0, 2, 0, 0, 0]);
    }
}

#[test]
fn many_lines_come_back_in_order() {
    let count = 20_000u32;
    let lines: String = (0..count).map(|k| format!("{{\"op\":\"add\",\"args\":[{},1]}}\n", k % 64)).collect();
    for order in ["input", "done"] {
        let ran = run("run-many", SPEC, &["--order", order], &lines);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let found = results(&ran);
        let mut at: Vec<u64> = found.iter().filter_map(|result| result["line"].as_u64()).collect();
        if order == "done" {
            at.sort();
        }
        assert!(at.into_iter().eq(1..=u64::from(count)), "{order}");
        // Every old value of every element is returned once, whatever the order.
        let sum: u64 = found.iter().filter_map(|result| result["result"].as_u64()).sum();
        let each = |k: u64| (u64::from(count) + 63 - k) / 64;
        assert_eq!(sum, (0..64).map(|k| each(k) * (each(k) - 1) / 2).sum::<u64>(), "{order}");
    }
}

#[test]
fn a_bad_line_stops_or_is_skipped() {
    let lines =
        "{\"op\": \"add\", \"args\": [0, 1]}\n{\"op\": \"ad\"}\n# {\n\n{\"op\": \"add\", \"args\": [0, 1]}\n";
    let ran = run("run-bad-stop", SPEC, &[], lines);
    assert_eq!(ran.code, Some(1));
    assert_eq!(results(&ran).len(), 1, "{}", ran.out);
    assert!(ran.err.contains("error: line 2: there is no opcode `ad`; did you mean add?"), "{}", ran.err);
    assert!(ran.err.contains("stopped at a bad line: 1 done, 1 bad line in "), "{}", ran.err);
    let ran = run("run-bad-skip", SPEC, &["--bad", "skip"], lines);
    assert_eq!(ran.code, Some(1));
    let found: Vec<Value> = results(&ran).iter().map(|result| result["line"].clone()).collect();
    assert_eq!(found, [1, 5]);
    assert!(ran.err.contains("done: 2 done, 1 bad line in "), "{}", ran.err);
}

#[test]
fn bad_lines_say_why() {
    for (line, why) in [
        ("{\"op\": \"add\", \"args\": [1", "line 1: EOF while parsing a list at column 24"),
        ("{\"op\": \"add\", \"tenant\": \"eve\"}", "line 1: there is no tenant `eve`; there is 0"),
        (
            "{\"op\": \"add\", \"priority\": \"high\"}",
            "line 1: priority HIGH has no effect, because the session serves its rings in turn",
        ),
        ("{\"op\": \"SHUTDOWN\"}", "line 1: SHUTDOWN cannot be submitted"),
        ("{\"op\": \"LOAD_MISS\"}", "line 1: LOAD_MISS cannot be submitted: it is not implemented yet"),
        ("\u{feff}{}", "line 1: a task needs an `op`, or a `graph` to launch"),
        ("{\"op\": \"add\"} \u{feff}", "line 1: trailing characters at column 15"),
    ] {
        let ran = run("run-bad", SPEC, &[], line);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{line}");
        assert!(ran.err.contains(why), "{line}\ngave\n{}", ran.err);
    }
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let folder = ScratchFolder::new("run-bom");
    let handler = SPEC.split("'''").nth(1).expect("the spec has a handler");
    folder.file("add.pel", format!("\u{feff}{handler}"));
    let spec = "\u{feff}[[handler]]\nname = \"add\"\nop = 8\nfile = \"add.pel\"\n";
    let spec = folder.file("spec.toml", spec);
    let lines = "\u{feff}{\"op\": \"add\", \"args\": [0, 1]}\n\u{feff}{\"op\": \"add\"}\n";
    let ran = pelton_with(&["run", &spec], lines);
    assert_eq!((ran.code, results(&ran).len()), (Some(1), 1), "{}", ran.err);
    let why =
        "line 2: a task is a JSON object, such as {\"op\": \"NOP\"}, but this is something that begins with";
    assert!(ran.err.contains(why), "one in the middle is wrong: {}", ran.err);
    assert_eq!(pelton_with(&["kernel", "-", "--whole"], format!("\u{feff}{SPEC}")).code, Some(0));
    let module = format!("\u{feff}{}", crate::DOUBLE);
    let ran = pelton_with(&["fmt", "-"], &module);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), crate::DOUBLE), "{}", ran.err);
    assert_eq!(pelton_with(&["check", "-"], &module).code, Some(0));
}

#[test]
fn opcodes_can_be_numbers() {
    let ran = run(
        "run-numbers",
        SPEC,
        &[],
        "{\"op\": 8, \"args\": [0, 5]}\n{\"op\": 77}\n{\"op\": 2, \"args\": [-1, 0]}",
    );
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let expect = [
        json!({ "line": 1, "op": "add", "status": "done", "result": 0 }),
        json!({ "line": 2, "op": 77, "status": "fault", "fault": { "code": 1, "name": "unknown opcode" } }),
        json!({ "line": 3, "op": "ATOMIC_ADD", "status": "done", "result": 5 }),
    ];
    // Both additions are to one element, and either may come first.
    let mut found = results(&ran);
    if found[0]["result"] != json!(0) {
        assert_eq!((found[0]["result"].take(), found[2]["result"].take()), (json!(u32::MAX), json!(0)));
        (found[0]["result"], found[2]["result"]) = (json!(0), json!(5));
    }
    assert_eq!(found, expect);
}

#[test]
fn a_handler_that_would_end_the_kernel_is_refused() {
    let spec =
        "[[handler]]\nname = \"end\"\nop = 8\ntext = '''\nfn end() -> u32 {\n  trap 7\n  return 0\n}\n'''\n";
    for lifetime in ["persistent", "drain"] {
        let spec = format!("lifetime = \"{lifetime}\"\n{spec}");
        let ran = run("run-trap", &spec, &["--device", "cpu"], "{\"op\": \"end\"}\n");
        assert_eq!(ran.code, Some(1), "{lifetime}: {}", ran.err);
        assert!(ran.err.contains("handler \"end\" (0x8): `trap` ends the kernel"), "{lifetime}: {}", ran.err);
    }
}

#[test]
fn a_region_that_is_too_large_is_named() {
    let tenants = "[[tenant]]\nid = 0\n[[tenant]]\nid = 1\n";
    let spec = format!("{SPEC}\n{tenants}[[region]]\nname = \"wide\"\ntype = \"u32\"\nlen = 4000000000\n");
    let ran = run("run-large", &spec, &["--device", "cpu"], "");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("region \"wide\": its tenants have 8000000000 elements in all"), "{}", ran.err);
}

#[test]
fn regions_are_filled_and_saved() {
    let folder = ScratchFolder::new("run-regions");
    let spec = format!("{SPEC}\n[[region]]\nname = \"wide\"\ntype = \"u64\"\nlen = 3\n");
    let (data, wide) = (format!("data={}", folder.path("d.bin")), format!("0.wide={}", folder.path("w.bin")));
    let outs = ["--out", &data, "--out", &wide];
    let inits = ["--buffer", "data=[7 8]", "--buffer", "0.wide=iota"];
    let ran =
        run("run-regions-spec", &spec, &[&inits[..], &outs].concat(), "{\"op\":\"add\",\"args\":[1,1]}");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(results(&ran)[0]["result"], json!(8));
    assert_eq!(folder.read("d.bin")[..12], [7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(folder.read("d.bin").len(), 4096);
    assert_eq!(folder.read("w.bin"), [0u64, 1, 2].map(u64::to_le_bytes).concat());
    for (args, why) in [
        (["--buffer", "0.wide=zero:4"], "region `wide`: 4 elements are given, but the region has 3"),
        (["--buffer", "0.wid=zero:4"], "there is no region `wid`; did you mean wide?"),
        (["--buffer", "5.wide=zero"], "there is no tenant `5`; there is 0"),
        (["--buffer", "wide=[1.5]"], "region `wide`: `1.5` "),
        (["--out", "data=none/d.bin"], "cannot write none/d.bin"),
    ] {
        let ran = run("run-regions-bad", &spec, &args, "{\"op\":\"add\"}");
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}");
        assert!(ran.err.contains(why), "{args:?}\ngave\n{}", ran.err);
    }
    assert!(!exists("none/d.bin"));
}

#[test]
fn a_quota_is_not_waited_for() {
    let spec = format!("{SPEC}\n[[tenant]]\nid = 0\nname = \"alice\"\nquota = 3\n");
    let ran = run("run-quota", &spec, &["--bad", "skip"], &"{\"op\": \"NOP\"}\n".repeat(5));
    assert_eq!((ran.code, results(&ran).len()), (Some(1), 3), "{}", ran.err);
    assert!(ran.err.contains("line 4: the tenant has used up its quota of 3 tasks"), "{}", ran.err);
}

#[test]
fn a_disabled_tenant_is_not_waited_for() {
    let others =
        "{\"op\": \"NOP\", \"tenant\": \"bob\"}\n{\"op\": \"NOP\", \"tenant\": \"alice\"}\n".repeat(2);
    for (none, lifetime) in [
        ("mask = 0", "persistent"),
        ("allow = []", "persistent"),
        ("mask = 0", "drain"),
        ("allow = []", "drain"),
    ] {
        let tenants =
            format!("[[tenant]]\nid = 0\nname = \"alice\"\n{none}\n[[tenant]]\nid = 1\nname = \"bob\"\n");
        let spec = format!("lifetime = \"{lifetime}\"\n{SPEC}\n{tenants}");
        let ran = run("run-disabled", &spec, &["--bad", "skip"], &others);
        assert_eq!((ran.code, results(&ran).len()), (Some(1), 2), "{none}: {}", ran.err);
        for line in [2, 4] {
            let why = format!(
                "error: line {line}: tenant `alice` is disabled, because its mask in the spec allows no opcode\n"
            );
            assert!(ran.err.contains(&why), "{none}: {}", ran.err);
        }
        assert!(ran.err.contains("done: 2 done, 2 bad lines"), "{none}: {}", ran.err);
    }
}

#[test]
fn every_printed_line_is_seen() {
    let spec = format!("formats = [\"at {{}}\"]\n{SPEC}");
    let lines: String = (0..500).map(|k| format!("{{\"op\": \"PRINTF\", \"args\": [1, {k}]}}\n")).collect();
    let ran = run("run-print", &spec, &[], &lines);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let mut seen: Vec<u32> =
        ran.err.lines().filter_map(|line| line.strip_prefix("at ")?.parse().ok()).collect();
    seen.sort();
    assert!(seen.into_iter().eq(0..500), "{}", ran.err);
}

#[test]
fn a_fence_reaches_as_far_as_it_says() {
    let adds = "{\"op\": \"add\", \"args\": [1, 1]}\n".repeat(700);
    let lines = format!("{adds}{{\"op\": \"BATCH_FENCE\", \"args\": [700, 9]}}\n");
    let spec = format!("{SPEC}\n[[tenant]]\nid = 0\nobservables = 1\n");
    let folder = ScratchFolder::new("run-fence-out");
    let out = format!("observable={}", folder.path("o.bin"));
    let ran = run("run-fence", &spec, &["--out", &out], &lines);
    assert_eq!((ran.code, results(&ran).len()), (Some(0), 701), "{}", ran.err);
    assert_eq!(folder.read("o.bin"), [9, 0, 0, 0]);
}

#[test]
fn the_summary_can_be_json() {
    let ran = run("run-json", SPEC, &["--json", "--stats"], "{\"op\": \"add\"}\n");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.err).expect("it is JSON");
    assert_eq!(
        (&found["end"], &found["tasks"], &found["ends"]["done"]),
        (&json!("done"), &json!(1), &json!(1))
    );
    assert_eq!(found["stats"]["done"], json!(1));
    let ran = run("run-stats", SPEC, &["--stats"], "{\"op\": \"add\"}\n");
    assert!(ran.err.contains("opcodes    add 1\n"), "{}", ran.err);
}

#[test]
fn a_drained_spec_runs_batches() {
    let folder = ScratchFolder::new("run-drain-out");
    let spec = format!("lifetime = \"drain\"\nclaim = \"priority\"\nformats = [\"at {{}}\"]\n{SPEC}");
    let mut lines: String =
        (0..150).map(|k| format!("{{\"op\": \"PRINTF\", \"args\": [1, {k}]}}\n")).collect();
    for k in 0..3000 {
        let priority = ["low", "high"][k % 2];
        lines += &format!("{{\"op\": \"add\", \"args\": [{}, 1], \"priority\": \"{priority}\"}}\n", k % 1025);
    }
    lines += "{\"op\": \"BATCH_FENCE\", \"args\": [90000]}\n";
    let out = format!("data={}", folder.path("d.bin"));
    let ran = run("run-drain", &spec, &["--out", &out, "--stats", "--buffer", "data=[5]"], &lines);
    // One element in 1,025 is out of the region.
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let found = results(&ran);
    let at: Vec<u64> = found.iter().filter_map(|result| result["line"].as_u64()).collect();
    assert!(at.into_iter().eq(1..=3151), "{}", ran.out);
    assert_eq!(found[150 + 1024]["fault"]["name"], json!("out of region"));
    assert_eq!(found[3150]["status"], json!("done"));
    assert_eq!(folder.read("d.bin")[..8], [8, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("at ")).count(), 150, "{}", ran.err);
    assert!(ran.err.contains("done: 3149 done, 2 faults in "), "{}", ran.err);
    assert!(ran.err.contains("BATCH_FENCE 1, PRINTF 150, add 3000"), "{}", ran.err);
    let ran = run("run-drain-control", "lifetime = \"drain\"\nreport = \"control\"", &[], "");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("which returns no results; set report = "), "{}", ran.err);
}

/// Starts a run whose input stays open.
#[cfg(target_os = "linux")]
fn open_ended(folder: &ScratchFolder) -> (std::process::Child, std::process::ChildStdin) {
    use std::process::Stdio;
    let spec = folder.file("spec.toml", SPEC);
    let mut child = crate::command()
        .args(["run", &spec])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let input = child.stdin.take().expect("it was piped");
    (child, input)
}

#[cfg(target_os = "linux")]
#[test]
fn results_do_not_wait_for_more_lines_and_ctrl_c_ends_the_run() {
    use std::io::{BufRead, BufReader, Read, Write};
    let folder = ScratchFolder::new("run-open");
    let (mut child, mut input) = open_ended(&folder);
    let mut out = BufReader::new(child.stdout.take().expect("it was piped"));
    for k in 1..4 {
        writeln!(input, "{{\"op\": \"add\", \"args\": [0, 1]}}").expect("it listens");
        let mut line = String::new();
        out.read_line(&mut line).expect("it answers");
        let found: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(found, json!({ "line": k, "op": "add", "status": "done", "result": k - 1 }));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    let status = child.wait().expect("it ends");
    let mut err = String::new();
    child.stderr.take().expect("it was piped").read_to_string(&mut err).expect("it is UTF-8");
    assert_eq!(status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted: 3 done in "), "{err}");
    drop(input);
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_leaves_ends_the_run() {
    use std::io::Write;
    let folder = ScratchFolder::new("run-pipe");
    let (mut child, mut input) = open_ended(&folder);
    drop(child.stdout.take());
    // The program may have ended before all is written.
    while input.write_all(b"{\"op\": \"add\"}\n").is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let ran: RunOutput = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("stopped, because the reader of the results has gone: "), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_reported_with_the_summary() {
    let folder = ScratchFolder::new("run-full");
    for lifetime in ["persistent", "drain"] {
        let spec = folder.file("spec.toml", format!("lifetime = \"{lifetime}\"\n{SPEC}"));
        let tasks = folder.file("tasks.jsonl", "{\"op\": \"add\", \"args\": [0, 1]}\n".repeat(3));
        let out = format!("data={}", folder.path("d.bin"));
        let ran: RunOutput = crate::command()
            .args(["run", &spec, "--out", &out])
            .stdin(std::fs::File::open(tasks).expect("it was written"))
            .stdout(std::fs::File::options().write(true).open("/dev/full").expect("Linux has it"))
            .output()
            .expect("the program starts")
            .into();
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(
            ran.err.contains("stopped, because the results cannot be written: 3 done in "),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("error: cannot write the output: No space left"), "{}", ran.err);
        assert_eq!(folder.read("d.bin")[..4], [3, 0, 0, 0], "{lifetime}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_region_that_cannot_be_written_is_reported_with_the_summary() {
    let folder = ScratchFolder::new("run-full-region");
    for lifetime in ["persistent", "drain"] {
        let spec = folder.file("spec.toml", format!("lifetime = \"{lifetime}\"\n{SPEC}"));
        let tasks = folder.file("tasks.jsonl", "{\"op\": \"add\", \"args\": [0, 1]}\n".repeat(3));
        let ran: RunOutput = crate::command()
            .args(["run", &spec, "--out", "data=/dev/full"])
            .stdin(std::fs::File::open(tasks).expect("it was written"))
            .output()
            .expect("the program starts")
            .into();
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert_eq!(ran.out.lines().count(), 3, "{lifetime}: {}", ran.out);
        let summary = "done, but a region could not be written: 3 done in ";
        assert!(ran.err.contains(summary), "{lifetime}: {}", ran.err);
        assert!(ran.err.contains("error: cannot write /dev/full: No space left"), "{}", ran.err);
    }
}

/// The texts that a run writes to standard error, one per call.
#[cfg(target_os = "linux")]
fn calls(spec: &str, lines: &str) -> Vec<String> {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;
    let folder = ScratchFolder::new("run-calls");
    let spec = folder.file("spec.toml", spec);
    let lines = folder.file("lines.jsonl", lines);
    // Each datagram holds what one call has written.
    let (ours, theirs) = UnixDatagram::pair().expect("there are sockets");
    ours.set_read_timeout(Some(Duration::from_millis(20))).expect("it can be set");
    let mut child = crate::command()
        .args(["run", &spec, "--bad", "skip"])
        .stdin(std::fs::File::open(lines).expect("it was written"))
        .stderr(OwnedFd::from(theirs))
        .spawn()
        .expect("the program starts");
    let (mut calls, mut bytes) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        let ended = child.try_wait().expect("it can be asked").is_some();
        match ours.recv(&mut bytes) {
            Ok(0) => return calls,
            Ok(len) => calls.push(String::from_utf8_lossy(&bytes[..len]).into_owned()),
            Err(_) if ended => return calls,
            Err(_) => {}
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_bad_line_costs_at_most_one_write() {
    let count = 50;
    let calls = calls(SPEC, &"{\"op\": \"ad\"}\n".repeat(count));
    let all = calls.concat();
    assert_eq!(all.lines().filter(|line| line.starts_with("error: line ")).count(), count, "{all}");
    assert!(all.ends_with('\n') && all.contains("done: 0 done, 50 bad lines"), "{all}");
    assert!(calls.len() <= count + 1, "{} calls", calls.len());
    assert!(calls.iter().all(|call| call.ends_with('\n')), "{calls:?}");
}
