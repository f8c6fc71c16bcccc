//! `pelton scan`: a new user's first minute, options, formats of output, and exit statuses.

use std::process::Stdio;

use serde_json::Value;

use crate::{RunOutput, ScratchFolder, command, pelton, pelton_with};

/// A key that the starter rules find. It is in two parts, so that a scan of this repository does not find it.
pub(crate) const KEY: &str = concat!("AKIA", "QYLPMN5HXZ7DVW3T");

/// The name of the rule that finds it.
pub(crate) const KEY_RULE: &str = "aws-access-key-id";

/// Runs the command in a folder.
pub(crate) fn scan_in(folder: &ScratchFolder, args: &[&str]) -> RunOutput {
    let output = command().arg("scan").args(args).current_dir(&folder.0).stdin(Stdio::null()).output();
    output.expect("the program starts").into()
}

/// A folder with one finding of the starter rules, and one of `KEY-[0-9]+` in each of two files.
fn planted(name: &str) -> ScratchFolder {
    let folder = ScratchFolder::new(name);
    std::fs::create_dir_all(folder.0.join("src")).expect("the folder can be made");
    folder.file("src/config.py", format!("debug = True\naws_key = \"{KEY}\"\n"));
    folder.file("a.txt", "one KEY-123456789 here\n");
    folder.file("b.txt", "nothing\n  KEY-42\nKEY-42 again\n");
    folder
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
fn help_fits_an_ordinary_terminal() {
    let help = pelton(&["scan", "--help"]);
    assert_eq!(help.code, Some(0));
    for line in help.out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    // No line of the text was cut in two.
    for text in [
        "\nSymbolic links are not followed.",
        "\noutput is not a terminal",
        "\n  130  interrupted by Ctrl-C, after",
    ] {
        assert!(help.out.contains(text), "{text} is not in {}", help.out);
    }
}

#[test]
fn a_planted_key_is_found_without_any_configuration() {
    let folder = planted("scan-first");
    for args in [&[][..], &["."], &["src"], &["src/config.py"]] {
        let ran = scan_in(&folder, args);
        let line = format!("src/config.py:2:12: {KEY_RULE}: AKIA…(20 bytes)\n");
        assert_eq!((ran.code, ran.out), (Some(1), line), "{args:?}");
        assert_eq!(ran.err, "", "{args:?}");
    }
}

#[test]
fn a_clean_tree_has_status_0() {
    let folder = planted("scan-clean");
    folder.file("src/config.py", "debug = True\n");
    let ran = scan_in(&folder, &[]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "", ""));
    let empty = ScratchFolder::new("scan-empty");
    assert_eq!(scan_in(&empty, &[]).code, Some(0));
}

#[test]
fn expressions_replace_the_starter_rules_and_add_up() {
    let folder = planted("scan-expressions");
    let ran = scan_in(&folder, &["--no-redact", "-e", "KEY-[0-9]+", "-e", "debug|again"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let expected = "\
a.txt:1:5: KEY-[0-9]+: one KEY-123456789 here
b.txt:2:3: KEY-[0-9]+: KEY-42
b.txt:3:1: KEY-[0-9]+: KEY-42 again
b.txt:3:8: debug|again: KEY-42 again
src/config.py:1:1: debug|again: debug = True
";
    assert_eq!(ran.out, expected);
    // The same expression twice is one rule.
    let ran = scan_in(&folder, &["--count", "-e", "KEY-[0-9]+", "-e", "KEY-[0-9]+"]);
    assert_eq!(ran.out, "a.txt:1\nb.txt:2\n");
}

#[test]
fn secrets_are_redacted_unless_told_otherwise() {
    let folder = planted("scan-redact");
    for (args, shown) in [
        (&["-e", "KEY-[0-9]+"][..], "a.txt:1:5: KEY-[0-9]+: KEY…(13 bytes)\n"),
        (&["-e", "KEY-[0-9]+", "--redact"], "a.txt:1:5: KEY-[0-9]+: KEY…(13 bytes)\n"),
        (&["-e", "KEY-[0-9]+", "--no-redact"], "a.txt:1:5: KEY-[0-9]+: one KEY-123456789 here\n"),
    ] {
        assert_eq!(scan_in(&folder, &[args, &["a.txt"]].concat()).out, shown, "{args:?}");
    }
    for format in ["--json", "--sarif"] {
        let hidden = scan_in(&folder, &[format, "src"]);
        assert!(!hidden.out.contains(KEY) && hidden.out.contains("AKIA…(20 bytes)"), "{}", hidden.out);
        assert!(scan_in(&folder, &[format, "--no-redact", "src"]).out.contains(KEY), "{format}");
    }
}

#[test]
fn json_has_one_object_per_finding() {
    let folder = planted("scan-json");
    let ran = scan_in(&folder, &["--json", "--no-redact", "-e", "KEY-[0-9]+", "--stats"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("3 findings in 2 files"), "{}", ran.err);
    let found = json_lines(&ran.out);
    assert_eq!(found.len(), 3);
    let second = &found[1];
    for (field, value) in [
        ("path", Value::from("b.txt")),
        ("line", 2.into()),
        ("column", 3.into()),
        ("end_line", 2.into()),
        ("start", 10.into()),
        ("end", 16.into()),
        ("rule", "KEY-[0-9]+".into()),
        ("match", "KEY-42".into()),
        ("redacted", false.into()),
    ] {
        assert_eq!(second[field], value, "{field}");
    }
    assert_eq!(second["fingerprint"], found[2]["fingerprint"]);
    assert_ne!(second["fingerprint"], found[0]["fingerprint"]);
}

#[test]
fn sarif_has_what_the_format_requires() {
    let folder = planted("scan-sarif");
    for (args, count) in [(&["-e", "KEY-[0-9]+"][..], 3), (&["-e", "not there"], 0)] {
        let ran = scan_in(&folder, &[args, &["--sarif"]].concat());
        assert_eq!(ran.code, Some(i32::from(count > 0)), "{}", ran.err);
        let report: Value = serde_json::from_str(&ran.out).expect("it is JSON");
        assert_eq!(report["version"], "2.1.0");
        assert!(report["$schema"].as_str().is_some_and(|schema| schema.contains("sarif-2.1.0")));
        let run = &report["runs"][0];
        assert_eq!(run["tool"]["driver"]["name"], "pelton");
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], args[1]);
        let results = run["results"].as_array().expect("there are results");
        assert_eq!(results.len(), count);
        for result in results {
            assert_eq!((&result["ruleId"], &result["ruleIndex"]), (&args[1].into(), &0.into()));
            assert_eq!(result["level"], "error");
            assert!(result["message"]["text"].is_string());
            let place = &result["locations"][0]["physicalLocation"];
            assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|uri| uri.ends_with(".txt")));
            for field in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(place["region"][field].as_u64().is_some_and(|number| number > 0), "{field}");
            }
            assert!(result["partialFingerprints"].as_object().is_some_and(|prints| prints.len() == 1));
        }
    }
}

#[test]
fn counts_and_paths_are_printed_alone() {
    let folder = planted("scan-count");
    assert_eq!(scan_in(&folder, &["-e", "KEY", "--count"]).out, "a.txt:1\nb.txt:2\n");
    for option in ["-l", "--files-with-matches"] {
        assert_eq!(scan_in(&folder, &["-e", "KEY", option]).out, "a.txt\nb.txt\n");
    }
}

#[test]
fn the_status_of_findings_can_be_set() {
    let folder = planted("scan-status");
    for (code, status) in [("0", 0), ("7", 7), ("255", 255)] {
        assert_eq!(scan_in(&folder, &["--exit-code", code]).code, Some(status));
    }
    assert_eq!(scan_in(&folder, &["--exit-code", "7", "-e", "not there"]).code, Some(0));
    // An error counts more.
    assert_eq!(scan_in(&folder, &["--exit-code", "7", ".", "missing"]).code, Some(2));
}

#[test]
fn a_wrong_command_line_is_refused() {
    let folder = planted("scan-usage");
    for args in [
        &["--jsno"][..],
        &["--json", "--sarif"],
        &["--json", "--count"],
        &["--count", "-l"],
        &["--sarif", "-l"],
        &["--redact", "--no-redact"],
        &["--explain", "--sarif"],
        &["--check-rules", "--json"],
        &["--exit-code", "256"],
        &["--exit-code", "-1"],
        &["--threads", "0"],
        &["--threads", "many"],
        &["--max-filesize", "ten"],
        &["-e"],
    ] {
        let ran = scan_in(&folder, args);
        assert_eq!((ran.code, &*ran.out), (Some(64), ""), "{args:?}: {}", ran.err);
        assert!(!ran.err.is_empty(), "{args:?}");
    }
    assert!(scan_in(&folder, &["--max-filesize", "ten"]).err.contains("as in 10M"));
}

#[test]
fn an_unknown_device_is_an_error() {
    let ran = pelton(&["scan", "--device", "cup"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("there is no device \"cup\": devices are "), "{}", ran.err);
}

#[test]
fn all_devices_find_the_same() {
    let folder = planted("scan-devices");
    folder.file("large.txt", format!("{}KEY-99\n", "x\n".repeat(40_000)));
    let args = ["--no-redact", "-e", "KEY-[0-9]+", "-e", "[A-Z0-9]{20}"];
    let native = scan_in(&folder, &args);
    assert_eq!((native.code, native.out.lines().count()), (Some(1), 5), "{}{}", native.out, native.err);
    for device in ["cpu:2", "reference:2", "auto"] {
        let ran = scan_in(&folder, &[&args[..], &["--device", device]].concat());
        assert_eq!((ran.code, &*ran.out), (native.code, &*native.out), "{device}: {}", ran.err);
    }
}

#[test]
fn it_is_said_why_there_is_no_gpu() {
    let folder = planted("scan-no-gpu");
    let auto = |args: &[&str]| scan_in(&folder, &[&["--device", "auto", "-e", "KEY"], args].concat());
    let named = scan_in(&folder, &["--device", "cuda", "-e", "KEY"]);
    let Some((_, why)) = named.err.trim_end().split_once("cannot scan on cuda: ") else {
        // There is one.
        assert_eq!(named.code, Some(1), "{}", named.err);
        assert!(!auto(&["--stats"]).err.contains("no GPU"));
        return;
    };
    let (stats, explained) = (auto(&["--stats"]), auto(&["--explain"]));
    assert!(stats.err.contains(&format!("no GPU    {why}\n")), "{}", stats.err);
    assert!(explained.out.contains(&format!("no GPU can be used: {why}\n")), "{}", explained.out);
    assert!(!scan_in(&folder, &["--stats", "-e", "KEY"]).err.contains("no GPU"));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = ScratchFolder::new("scan-threads");
    for number in 0..300 {
        folder.file(&format!("{number:03}.txt"), format!("{}KEY-{number}\n", "\n".repeat(number % 7)));
    }
    let one = scan_in(&folder, &["-e", "KEY-[0-9]+", "--no-redact", "--threads", "1"]);
    assert_eq!((one.code, one.out.lines().count()), (Some(1), 300));
    for threads in ["2", "7", "64"] {
        let many = scan_in(&folder, &["-e", "KEY-[0-9]+", "--no-redact", "--threads", threads]);
        assert_eq!(many.out, one.out, "{threads} threads");
    }
}

#[test]
fn statistics_are_printed_on_request() {
    let folder = planted("scan-stats");
    folder.file("binary", b"KEY-1\0");
    folder.file("large", "x".repeat(5000));
    let ran = scan_in(&folder, &["-e", "KEY-[0-9]+", "--stats", "--max-filesize", "4K"]);
    for text in
        ["3 findings in 2 files", "3 scanned, 1 skipped as binary, 1 skipped as too large", "rules     1"]
    {
        assert!(ran.err.contains(text), "{text} is not in {}", ran.err);
    }
    assert_eq!(scan_in(&folder, &["-e", "x"]).err, "");
}

#[test]
fn rules_are_explained() {
    let ran = pelton(&["scan", "--explain", "-e", "KEY-[0-9]+", "-e", r"\p{Greek}+", "-e", "."]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for text in ["KEY-[0-9]+", "matches     bytes", "matches     Unicode", "everywhere, because", "engine  "]
    {
        assert!(ran.out.contains(text), "{text} is not in {}", ran.out);
    }
    let ran = pelton(&["scan", "--explain", "--json", "-e", "KEY-[0-9]+", "-e", "."]);
    let plan: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert!(plan["engine"]["name"].is_string() && plan["engine"]["reason"].is_string());
    let rules = plan["rules"].as_array().expect("there are rules");
    assert_eq!((&rules[0]["search"], &rules[0]["mode"]), (&"literals".into(), &"bytes".into()));
    assert_eq!(rules[1]["search"], "always");
    let starter = pelton(&["scan", "--explain"]);
    assert!(starter.code == Some(0) && starter.out.contains(KEY_RULE), "{}", starter.out);
}

#[test]
fn a_baseline_hides_what_is_known() {
    let folder = planted("scan-baseline");
    let rule = ["-e", "KEY-[0-9]+"];
    for format in ["--json", "--sarif"] {
        let known = scan_in(&folder, &[&rule[..], &[format]].concat());
        // The report is redacted, and lies where it is not scanned.
        assert!(!known.out.contains("KEY-42"), "{}", known.out);
        let outside = ScratchFolder::new(&format!("scan-known{format}"));
        let report = outside.file("known", &known.out);
        let args = [&rule[..], &["--no-redact", "--baseline", &report]].concat();
        let ran = scan_in(&folder, &args);
        assert_eq!((ran.code, &*ran.out), (Some(0), ""), "{format}: {}", ran.err);
        // Lines may move, but a third KEY-42 in the file is new.
        folder.file("b.txt", "moved\nmoved\nKEY-42\nKEY-42\nKEY-42\nKEY-7\n");
        let ran = scan_in(&folder, &args);
        assert_eq!(ran.code, Some(1));
        assert_eq!(ran.out, "b.txt:5:1: KEY-[0-9]+: KEY-42\nb.txt:6:1: KEY-[0-9]+: KEY-7\n");
        folder.file("b.txt", "nothing\n  KEY-42\nKEY-42 again\n");
    }
    let bad = folder.file("bad.jsonl", "{}\n");
    let ran = scan_in(&folder, &["--baseline", &bad]);
    assert!(ran.code == Some(2) && ran.err.contains("line 1: it has no valid `fingerprint`"), "{}", ran.err);
    let ran = scan_in(&folder, &["--baseline", "missing.jsonl"]);
    assert!(ran.code == Some(2) && ran.err.contains("missing.jsonl"), "{}", ran.err);
}

#[test]
fn what_gitleaksignore_lists_is_not_reported() {
    let folder = planted("scan-ignore-file");
    folder.file(".gitleaksignore", format!("# known\nsrc/config.py:{KEY_RULE}:2\nb.txt:KEY-[0-9]+:3\n"));
    assert_eq!(scan_in(&folder, &[]).code, Some(0));
    assert_eq!(scan_in(&folder, &["-e", "KEY-[0-9]+", "--count"]).out, "a.txt:1\nb.txt:1\n");
    folder.file("src/config.py", format!("\n\naws_key = \"{KEY}\"\n"));
    assert_eq!(scan_in(&folder, &[]).code, Some(1));
}

#[test]
fn a_comment_allows_a_secret() {
    let folder = planted("scan-allow");
    folder.file("src/config.py", format!("aws_key = \"{KEY}\"  # gitleaks:allow\n"));
    assert_eq!(scan_in(&folder, &[]).code, Some(0));
    // An expression of the command line passes no filters.
    assert_eq!(scan_in(&folder, &["-e", "AKIA"]).code, Some(1));
}

#[test]
fn standard_input_is_scanned() {
    let ran = pelton_with(&["scan", "-"], format!("x\nkey {KEY}\n"));
    assert_eq!(ran.out, format!("<stdin>:2:5: {KEY_RULE}: AKIA…(20 bytes)\n"), "{}", ran.err);
    assert_eq!(ran.code, Some(1));
    assert_eq!(pelton_with(&["scan", "-"], "").code, Some(0));
    let both = pelton_with(&["scan", "-e", "KEY", "--count", "-", "-"], "KEY");
    assert_eq!(both.out, "<stdin>:1\n");
}

#[test]
fn a_rule_that_would_have_to_keep_too_much_of_a_pipe_gives_up() {
    let text = format!("one KEY-1\nBEGIN{}\nKEY-2 END\n", "x".repeat(3 << 20));
    let args = ["scan", "--count", "-e", "(?s)BEGIN.*END", "-e", "KEY-[0-9]+", "-"];
    let ran = pelton_with(&args, &text);
    assert_eq!((ran.code, &*ran.out), (Some(1), "<stdin>:3\n"), "{}", ran.err);
    let ran = pelton_with(&[&args[..], &["--max-retain", "1M"]].concat(), &text);
    assert_eq!((ran.code, &*ran.out), (Some(2), "<stdin>:2\n"), "{}", ran.err);
    assert!(ran.err.contains("error: <stdin>: rule (?s)BEGIN.*END gave up"), "{}", ran.err);
    assert!(ran.err.contains("--max-retain"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_ends_the_scan_quietly() {
    let folder = ScratchFolder::new("scan-pipe");
    folder.file("a.txt", "KEY\n".repeat(200_000));
    let mut child = command()
        .args(["scan", "-e", "KEY", "--stats"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let ran: RunOutput = child.wait_with_output().expect("the program ends").into();
    // A commit hook must not take a reader that leaves for a clean tree.
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("ended early") && !ran.err.contains("error"), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = planted("scan-full");
    for format in [&[][..], &["--json"], &["--sarif"], &["-l"], &["--explain"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
        let output = command()
            .args([&["scan", "-e", "KEY"], format].concat())
            .current_dir(&folder.0)
            .stdout(full)
            .output();
        let ran: RunOutput = output.expect("the program starts").into();
        assert_eq!(ran.code, Some(2), "{format:?}");
        assert!(ran.err.contains("cannot write the output"), "{format:?}: {}", ran.err);
    }
}
