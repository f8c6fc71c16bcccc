//! Behaviour of every command: help, completions, the op table, colour, pipes and exit statuses.

use std::process::{Command, Stdio};

use crate::{DOUBLE, ScratchFolder, pelton};

const COMMANDS: [&str; 15] = [
    "demo",
    "check",
    "fmt",
    "opt",
    "exec",
    "run",
    "replay",
    "journal",
    "scan",
    "kernel",
    "graph",
    "test",
    "litmus",
    "ops",
    "completions",
];

#[test]
fn help_teaches_with_examples() {
    let help = pelton(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.out.contains("Exit status:"), "{}", help.out);
    for name in COMMANDS {
        assert!(help.out.contains(&format!("  {name} ")), "{name} is not listed");
        let own = pelton(&[name, "--help"]);
        assert_eq!(own.code, Some(0));
        assert!(own.out.contains("Examples:\n  pelton "), "{name}: {}", own.out);
    }
}

#[test]
fn a_wrong_command_line_is_64() {
    for args in [&["chekc"][..], &[], &["check"], &["exec", "a.pel", "--lanes", "many"], &["ops", "--colour"]]
    {
        let ran = pelton(args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{args:?}");
    }
}

#[test]
fn a_count_is_spelled_the_same_everywhere() {
    let ran = pelton(&["demo", "--device", "cpu", "--tasks", "1e3", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("\"asked\":1000,"), "{}", ran.out);
    let folder = ScratchFolder::new("count");
    let file = folder.file("double.pel", DOUBLE);
    let ran = pelton(&["exec", &file, "--lanes", "0.4e1", "--buffer", "x=[1 2 3 4]"]);
    assert!(ran.code == Some(0) && ran.out.contains("2 4 6 8"), "{}{}", ran.out, ran.err);
    for args in [
        &["demo", "--tasks"][..],
        &["litmus", "--rounds"],
        &["bench", "echo", "--rounds"],
        &["bench", "soak", "--tasks"],
        &["bench", "soak", "--slots"],
        &["bench", "soak", "--producers"],
        &["exec", &file, "--groups"],
        &["emit", &file, "--to", "ptx", "--lanes"],
    ] {
        for (text, why) in [
            ("1.5", "it is not a whole number"),
            ("-1", "it must not be negative"),
            ("1e99", "it must be "),
            ("", "write a whole number, such as 1000000 or 1e6"),
            ("x", "write a whole number, such as 1000000 or 1e6"),
        ] {
            let ran = pelton(&[args, &[text]].concat());
            assert_eq!(ran.code, Some(64), "{args:?} {text}: {}", ran.err);
            assert!(ran.err.contains(why), "{args:?} {text}: {}", ran.err);
        }
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = pelton(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        for name in COMMANDS {
            assert!(ran.out.contains(name), "{shell} lacks {name}");
        }
    }
}

#[test]
fn ops_are_shown_whole_or_one_by_one() {
    let all = pelton(&["ops"]);
    let one = pelton(&["ops", "atomic_cas"]);
    let markdown = pelton(&["ops", "--markdown"]);
    assert_eq!((all.code, one.code, markdown.code), (Some(0), Some(0), Some(0)));
    for row in pelton_ir::op::TABLE {
        assert!(all.out.contains(&format!("  {} (", row.name)), "{}", row.name);
        assert!(markdown.out.contains(&format!("\n| `{}` | ", row.name)), "{}", row.name);
    }
    assert!(one.out.starts_with("atomic_cas (at: u32, expected: T, desired: T) -> T\n"), "{}", one.out);
    let syntax = "\n\n    %r = atomic_cas relaxed device @b[%at], %expected, %desired\n\n";
    assert!(one.out.contains(syntax), "{}", one.out);
    let rows = markdown.out.lines().filter(|line| line.starts_with('|'));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 6, "{row}");
    }
}

#[test]
fn an_unknown_op_gets_a_near_one() {
    let ran = pelton(&["ops", "atomic_ad"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no operation `atomic_ad`; did you mean atomic_add?"), "{}", ran.err);
}

#[test]
fn colour_only_when_asked_for_or_on_a_terminal() {
    let folder = ScratchFolder::new("colour");
    let bad = folder.file("bad.pel", "kernel {");
    assert!(!pelton(&["check", &bad]).err.contains('\x1b'));
    assert!(pelton(&["check", &bad, "--color", "always"]).err.contains('\x1b'));
    assert!(!pelton(&["ops"]).out.contains('\x1b'));
    assert!(pelton(&["ops", "--color=always"]).out.contains('\x1b'));
    assert!(!pelton(&["ops", "--color=never"]).out.contains('\x1b'));
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = ScratchFolder::new("pipe");
    let good = folder.file("good.pel", DOUBLE);
    for args in
        [vec!["ops"], vec!["completions", "bash"], vec!["opt", &good], vec!["check", &good], vec!["--help"]]
    {
        // The program starts only after the reader has left.
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_pelton")])
            .args(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        drop(child.stdout.take());
        drop(child.stdin.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}
