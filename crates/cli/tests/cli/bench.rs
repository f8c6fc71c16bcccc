//! `pelton bench`: its rows, its table, and the comparison of builds.

use serde_json::Value;

use crate::pelton;

/// Runs a benchmark, and returns its rows.
fn rows(args: &[&str]) -> Vec<Value> {
    let ran = pelton(&[&["bench"], args, &["--json", "-"]].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

#[test]
fn rows_say_how_far_rounds_differ() {
    let groups: [(&[&str], &str, u32); 3] = [
        (&["session", "--quick"], "fused, no telemetry", 3),
        (&["device"], "map", 1),
        (&["echo"], "trip", 2),
    ];
    for (group, only, rounds) in groups {
        let rows = rows(&[group, &["--only", only, "--rounds", &rounds.to_string()]].concat());
        let (compared, alone): (Vec<&Value>, Vec<&Value>) =
            rows.iter().partition(|row| row["against"].is_string());
        assert!(compared.len() >= 2, "{rows:?}");
        for row in compared {
            let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
            assert_eq!(row["rounds"], rounds, "{row}");
            assert!(row["steady"].is_boolean() && (rounds >= 3 || row["steady"] == false), "{row}");
            assert!(figure("value") > 0.0 && figure("against_value") > 0.0, "{row}");
            assert!(0.0 < figure("ratio_low") && figure("ratio_low") <= figure("ratio"), "{row}");
            assert!(figure("ratio") <= figure("ratio_high"), "{row}");
        }
        for row in alone {
            for name in ["against_value", "ratio", "ratio_low", "ratio_high", "rounds", "steady"] {
                assert_eq!(row.get(name), Some(&Value::Null), "{name} of {row}");
            }
        }
    }
}

#[test]
fn payloads_are_compared_with_copies() {
    let rows = rows(&["tasks", "--quick", "--rounds", "1", "--only", "payload, "]);
    let cases: Vec<&Value> = rows.iter().map(|row| &row["case"]).collect();
    let ours = ["payload, near", "payload, near, 1e8 words", "payload, far", "payload, far, 1e8 words"];
    assert_eq!(cases[..], [&["payload, memcpy"], &ours[..]].concat());
    for row in &rows {
        assert_eq!((&row["group"], &row["metric"]), (&"tasks".into(), &"tasks/s".into()), "{row}");
        assert!(row["value"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["against"].is_null(), row["case"] == "payload, memcpy", "{row}");
    }
    let one = self::rows(&["tasks", "--quick", "--rounds", "1", "--only", "payload, far"]);
    assert!(one.iter().all(|row| row["against"] == "memcpy") && one.len() == 2, "{one:?}");
    assert_eq!(pelton(&["bench", "tasks", "--only", "no such case"]).code, Some(1));
}

/// Checks the names of the rows that a part of their names selects, and what each of them is compared with.
fn check_peers(only: &str, wanted: &[(&str, Option<&str>)]) {
    let rows = rows(&["tasks", "--quick", "--rounds", "1", "--only", only]);
    let found: Vec<(&str, Option<&str>)> = rows
        .iter()
        .map(|row| (row["case"].as_str().expect("a case is text"), row["against"].as_str()))
        .collect();
    assert_eq!(found, wanted);
    for row in &rows {
        assert!(row["value"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn trees_are_compared_with_rayon() {
    check_peers(
        "tree",
        &[
            ("tree, session", Some("tree, rayon")),
            ("tree, driven by the host", None),
            ("tree, rayon", None),
            ("tree, session, share of spawned tasks", None),
            ("urgent tree under load", Some("idle tree under load")),
            ("idle tree under load", None),
        ],
    );
    check_peers(
        "join, session",
        &[("join, session", Some("join, rayon")), ("join, session, share of spawned tasks", None)],
    );
}

#[test]
fn events_are_compared_with_tokio_and_threads() {
    check_peers(
        "event",
        &[
            ("event, ping-pong", Some("event, ping-pong, tokio")),
            ("event, ping-pong, tokio", None),
            ("event, to another group", Some("event, to another group, two threads")),
            ("event, to another group, two threads", None),
            ("event, 1000 waiters", Some("event, 1000 waiters, tokio")),
            ("event, 1000 waiters, tokio", None),
        ],
    );
}

#[test]
fn graphs_are_compared_with_rayon() {
    check_peers(
        "graph",
        &[
            ("graph, 1000 nodes, session", Some("graph, 1000 nodes, rayon")),
            ("graph, 1000 nodes, driven by the host", None),
            ("graph, 1000 nodes, rayon", None),
            ("graph, chain, session", Some("graph, chain, rayon")),
            ("graph, chain, driven by the host", None),
            ("graph, chain, rayon", None),
            ("urgent graph under load", Some("idle graph under load")),
            ("idle graph under load", None),
        ],
    );
}

#[test]
fn hand_overs_are_compared_with_quiet_times_and_with_what_they_cannot_avoid() {
    let args = ["handover", "--quick", "--rounds", "1", "--only"];
    let rows = |only| rows(&[&args[..], &[only]].concat());
    let found = |rows: &[Value]| -> Vec<(String, Option<String>)> {
        let text = |value: &Value| value.as_str().map(String::from);
        rows.iter().map(|row| (text(&row["case"]).expect("a case is text"), text(&row["against"]))).collect()
    };
    let floor = "stop, load and launch";
    let mut wanted = Vec::new();
    for case in ["same kernel", "install", "replace", "resize", "move", "make way"] {
        let undisturbed = format!("{case}, undisturbed");
        wanted.push((case.into(), Some(undisturbed.clone())));
        wanted.push((case.into(), Some(floor.into())));
        wanted.push((undisturbed, None));
    }
    wanted.extend(["stop", "load", "launch", floor].map(|name| (name.into(), None)));
    let all = rows("");
    assert_eq!(found(&all), wanted);
    for row in &all {
        assert_eq!((&row["group"], &row["metric"]), (&"handover".into(), &"us".into()), "{row}");
        assert!(row["value"].as_f64() > Some(0.0) && row["p99"].as_f64() >= row["p50"].as_f64(), "{row}");
        assert_eq!(row["ratio"].is_number(), row["against"].is_string(), "{row}");
    }
    // What a hand-over is compared with is measured too, whether its own rows are wanted or not.
    assert_eq!(found(&rows("same kernel")), wanted[..3]);
    assert_eq!(pelton(&["bench", "handover", "--only", "no such case"]).code, Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn losses_are_compared_with_what_no_recovery_can_avoid() {
    let rows = rows(&["recovery", "--quick", "--rounds", "1"]);
    let found: Vec<_> = rows.iter().map(|row| (row["case"].as_str(), row["against"].as_str())).collect();
    let (gone, started) = (Some("process gone"), Some("process started"));
    let wanted = [
        (Some("lost, fresh"), started),
        (Some("lost, spare"), gone),
        (Some("killed, fresh"), started),
        (Some("killed, spare"), gone),
        (gone, None),
        (started, None),
    ];
    assert_eq!(found, wanted);
    for row in &rows {
        assert_eq!((&row["group"], &row["metric"]), (&"recovery".into(), &"ms".into()), "{row}");
        assert_eq!(row["device"], "process:cpu", "{row}");
        assert!(row["value"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(pelton(&["bench", "recovery", "--only", "no such case"]).code, Some(1));
}

#[test]
fn journals_are_compared_with_plain_writes() {
    let folder = crate::ScratchFolder::new("bench-journal");
    let rows =
        rows(&["journal", "--quick", "--rounds", "1", "--folder", &folder.path(""), "--only", "of 1000"]);
    let cases = ["never", "interval", "answer"].map(|case| format!("{case}, records of 1000 bytes"));
    assert!(rows.iter().map(|row| &row["case"]).eq(cases.iter()), "{rows:?}");
    assert!(
        rows.iter().all(|row| row["against"].as_str().is_some_and(|peer| peer.starts_with("plain write")))
    );
    assert_eq!(std::fs::read_dir(&folder.0).expect("it is there").count(), 0, "what was written is removed");
}

#[test]
fn streams_are_compared_with_a_loop_of_reads() {
    let folder = crate::ScratchFolder::new("bench-io");
    let args = ["io", "--quick", "--rounds", "1", "--device", "cpu", "--folder", &folder.path(""), "--only"];
    let rows = rows(&[&args[..], &["of 1024"]].concat());
    let cases: Vec<&str> = rows.iter().filter_map(|row| row["case"].as_str()).collect();
    let rings = cfg!(target_os = "linux").then_some("page cache, io-uring, chunks of 1024 KiB");
    let others = ["page cache, plain, chunks of 1024 KiB", "host memory, chunks of 1024 KiB"];
    assert!(cases.iter().copied().eq(rings.into_iter().chain(others)), "{cases:?}");
    for row in &rows {
        assert_eq!(
            (&row["group"], &row["metric"], &row["device"]),
            (&"io".into(), &"GB/s".into(), &"cpu".into())
        );
        assert!(row["value"].as_f64() > Some(0.0) && row["ratio"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(std::fs::read_dir(&folder.0).expect("it is there").count(), 0, "what was written is removed");
}

#[test]
fn steps_of_compiling_are_chosen_by_name() {
    let cases = |only| -> Vec<String> {
        let rows = rows(&["compile", "--only", only]);
        rows.iter().map(|row| row["case"].as_str().expect("a case is text").into()).collect()
    };
    assert_eq!(
        cases("parse"),
        ["parse and validate, 2000 instructions", "parse and validate, 20000 instructions"]
    );
    assert_eq!(cases("cache, 2000 "), ["load, from the cache, 2000 instructions"]);
    assert_eq!(pelton(&["bench", "compile", "--only", "no such step"]).code, Some(1));
}

#[test]
fn scans_are_measured_and_their_findings_compared() {
    let args = ["scan", "--quick", "--megabytes", "1", "--rounds", "1", "--only"];
    let rows = |only| rows(&[&args[..], &[only]].concat());
    let easy = rows("easy");
    let case = |name: &str| -> Vec<&Value> { easy.iter().filter(|row| row["case"] == name).collect() };
    for row in &easy {
        assert_eq!(row["group"], "scan", "{row}");
        // How much there is to find depends on the source code that this machine happens to have.
        let is_count = row["metric"] == "per MB";
        assert!(row["value"].as_f64() > Some(0.0) || is_count && row["value"] == 0.0, "{row}");
    }
    for (name, metric) in [
        ("easy, literal hits", "per MB"),
        ("easy, findings", "per MB"),
        ("easy, factors and windows", "MB/s"),
        ("easy, in memory, all threads", "MB/s"),
        ("easy, large file", "MB/s"),
        ("easy, tree", "MB/s"),
        ("easy, compile, cached", "ms"),
    ] {
        assert!(
            case(name).iter().all(|row| row["metric"] == metric) && !case(name).is_empty(),
            "{name}: {easy:?}"
        );
    }
    let peers: Vec<&Value> = case("easy, in memory").iter().map(|row| &row["against"]).collect();
    for peer in ["aho-corasick + regex", "regex set + regex"] {
        assert!(peers.contains(&&peer.into()), "{peers:?}");
    }
    let session: Vec<Value> =
        self::rows(&["scan", "--device", "cpu:2", "--megabytes", "1", "--rounds", "1", "--only", "easy"]);
    let names: Vec<&Value> = session.iter().map(|row| &row["case"]).collect();
    assert_eq!(
        names,
        ["easy, resident", "easy, host-fed", "easy, in memory", "easy, large file", "easy, tree"]
    );
    assert!(session.iter().all(|row| row["metric"] == "GB/s" && row["device"] != "cpu"), "{session:?}");
    let automata = rows("automaton");
    let cases: Vec<&Value> = automata.iter().map(|row| &row["case"]).collect();
    assert_eq!(cases, ["serial automaton", "composed automaton"]);
    assert_eq!(automata[1]["against"], "serial automaton");
    assert!(automata.iter().all(|row| row["value"].as_f64() > Some(0.0)), "{automata:?}");
    let compile: Vec<Value> = rows("easy, compile").into_iter().map(|row| row["case"].clone()).collect();
    assert_eq!(compile, ["easy, compile", "easy, compile, cached"]);
}

#[test]
fn one_round_is_marked_in_the_table() {
    let ran = pelton(&["bench", "session", "--quick", "--only", "drain 256", "--rounds", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("ratio  quartiles") && lines[0].ends_with("rounds"), "{}", ran.out);
    assert_eq!(lines.iter().filter(|line| line.contains("×~ ")).count(), 1, "{}", ran.out);
    assert!(lines[3].starts_with("~ "), "{}", ran.out);
    assert_eq!(pelton(&["bench", "session", "--rounds", "0"]).code, Some(64));
}

#[test]
fn a_build_is_compared_with_another_row_by_row() {
    let this = env!("CARGO_BIN_EXE_pelton");
    let flags = ["session", "--quick", "--only", "drain 256", "--rounds", "3", "--against", this];
    let rows = rows(&flags);
    let cases: Vec<&Value> = rows.iter().map(|row| &row["case"]).collect();
    assert_eq!(cases, ["drain 256", "drain 256, counted only"]);
    for row in &rows {
        assert_eq!(
            (&row["group"], &row["device"], &row["metric"]),
            (&"session".into(), &"cpu".into(), &"items/s".into())
        );
        assert_eq!((&row["against"], &row["rounds"]), (&"other build".into(), &3.into()), "{row}");
        assert!(row["ratio"].as_f64() > Some(0.0), "{row}");
    }
}

#[cfg(unix)]
mod other_builds {
    use std::fs::{self, Permissions};
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use crate::{RunOutput, ScratchFolder, command, pelton};

    /// A script that takes the place of another build.
    fn program(folder: &ScratchFolder, script: &str) -> String {
        let path = folder.file("other", format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it can be made a program");
        path
    }

    #[test]
    fn what_is_not_such_a_build_is_refused() {
        let folder = ScratchFolder::new("bench-refused");
        let against = |path: &str| {
            let ran = pelton(&["bench", "session", "--quick", "--only", "drain 256", "--against", path]);
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
            ran.err
        };
        let err = against(&program(&folder, "echo \"error: unexpected argument '--rounds'\" >&2; exit 64"));
        assert!(
            err.contains("does not understand `bench session --device cpu --quick --only drain 256"),
            "{err}"
        );
        let err = against(&program(&folder, "echo 'error: no such device' >&2; exit 1"));
        assert!(err.contains("failed, exit status: 1: error: no such device"), "{err}");
        let err = against(&program(&folder, "echo case device value"));
        assert!(err.contains("wrote a line that is not a row: case device value"), "{err}");
        let err = against(&program(&folder, "exit 0"));
        assert!(err.contains("the two builds have no row in common"), "{err}");
        let err = against(&folder.path("nobody"));
        assert!(err.contains("cannot run") && err.contains("nobody"), "{err}");
        let soak = pelton(&["bench", "soak", "--against", &program(&folder, "exit 0")]);
        assert_eq!(soak.code, Some(1), "{}", soak.err);
    }

    #[test]
    fn ctrl_c_ends_a_benchmark_between_rounds() {
        let mut child = command()
            .args(["bench", "session", "--only", "drain 256", "--rounds", "1000", "--json", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it was piped")).lines();
        // From here on the program measures.
        assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("batches"))));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let ran = RunOutput::from(child.wait_with_output().expect("the program ends"));
        assert_eq!(ran.code, Some(130));
        assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("interrupted"))));
        for line in ran.out.lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
            assert!(row["against"].is_null() || row["rounds"].as_u64() < Some(1000), "{row}");
        }
    }

    #[test]
    fn ctrl_c_leaves_the_rounds_that_are_whole() {
        let folder = ScratchFolder::new("bench-stopped");
        let calls = folder.path("calls");
        let row = r#"{"case": "drain 256", "device": "cpu", "metric": "items/s", "value": 1}"#;
        let other = program(&folder, &format!("echo call >> '{calls}'; echo '{row}'"));
        let flags = ["bench", "session", "--quick", "--only", "drain 256", "--json", "-", "--rounds", "1000"];
        let mut child = command()
            .args(flags)
            .args(["--against", &other])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The second call belongs to the second round, which goes backwards.
        while fs::read_to_string(&calls).unwrap_or_default().lines().count() < 2 {
            assert!(matches!(child.try_wait(), Ok(None)), "it ended early");
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let ran = RunOutput::from(child.wait_with_output().expect("the program ends"));
        assert_eq!(ran.code, Some(130), "{}", ran.err);
        let rows: Vec<serde_json::Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        let [row] = &rows[..] else { panic!("{}", ran.out) };
        assert!(row["case"] == "drain 256" && row["rounds"].as_u64() >= Some(1), "{row}");
        assert!(row["rounds"].as_u64() < Some(1000), "{row}");
        assert!(ran.err.contains("only this build has: drain 256, counted only"), "{}", ran.err);
    }
}
