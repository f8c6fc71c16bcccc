//! `pelton run --watch`: the spec changes while lines come through a pipe.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{ScratchFolder, command, pelton, pelton_with};

/// A spec with handlers that return a number each.
fn constants(handlers: &[(&str, u32)]) -> String {
    let handler = |(name, number): &(&str, u32)| {
        format!("[[handler]]\nname = \"{name}\"\ntext = \"fn {name}() -> u32 {{ return {number} }}\"\n")
    };
    format!("[geometry]\nslots = 64\n{}", handlers.iter().map(handler).collect::<String>())
}

/// A run that is fed line by line, while its spec is watched.
struct WatchedRun {
    folder: ScratchFolder,
    child: Child,
    lines: Option<ChildStdin>,
    results: Option<BufReader<ChildStdout>>,
    notes: BufReader<ChildStderr>,
}

impl WatchedRun {
    /// Runs the file `spec.toml` of a folder.
    fn start(folder: ScratchFolder, options: &[&str]) -> WatchedRun {
        let mut child = command()
            .args(["run", &folder.path("spec.toml"), "--watch"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = child.stdin.take();
        let results = child.stdout.take().map(BufReader::new);
        let notes = BufReader::new(child.stderr.take().expect("it was piped"));
        WatchedRun { folder, child, lines, results, notes }
    }

    /// Writes a line of a task.
    fn send(&mut self, line: &str) {
        writeln!(self.lines.as_mut().expect("they have not ended"), "{line}").expect("the program reads");
    }

    /// Reads the next result.
    fn result(&mut self) -> Value {
        let mut line = String::new();
        let results = self.results.as_mut().expect("nobody else reads them");
        assert_ne!(results.read_line(&mut line).expect("it is text"), 0, "there is no result");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Runs a task without arguments, and returns its result without the number of its line.
    fn run(&mut self, name: &str) -> Value {
        self.send(&format!("{{\"op\": \"{name}\"}}"));
        let mut result = self.result();
        assert_eq!(result["op"].take(), json!(name));
        result["result"].take()
    }

    /// Reads notes up to the first line that contains a text, and returns them.
    fn notes_until(&mut self, sign: &str) -> String {
        let mut notes = String::new();
        while !notes.lines().last().is_some_and(|line| line.contains(sign)) {
            assert_ne!(self.notes.read_line(&mut notes).expect("it is text"), 0, "no {sign:?}: {notes}");
        }
        notes
    }

    /// Saves the spec, and returns the notes up to the one that says what came of it.
    fn save(&mut self, spec: &str) -> String {
        self.folder.file("spec.toml", spec);
        self.notes_until("spec.toml")
    }

    /// Ends the lines, and returns the exit status and the notes that are left.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.lines.take());
        let notes = self.notes_until("done: ");
        (self.child.wait().expect("it ends").code(), notes)
    }
}

/// Whether the run says that it goes on with the handlers that it has.
fn goes_on(notes: &str) -> bool {
    notes.contains("spec.toml was not handed over, and the session goes on with the handlers that it has: ")
}

#[test]
fn handlers_come_change_and_go() {
    let folder = ScratchFolder::new("watch-handlers");
    folder.file("spec.toml", constants(&[("one", 1)]));
    let mut run = WatchedRun::start(folder, &[]);
    assert_eq!(run.run("one"), json!(1));

    let notes = run.save(&constants(&[("two", 2), ("one", 11)]));
    assert!(
        notes.contains("spec.toml: installed two; replaced one; compiled and handed over in "),
        "{notes}"
    );
    assert_eq!((run.run("one"), run.run("two")), (json!(11), json!(2)));

    // Another file takes the place of the spec, as many editors save.
    let next = run.folder.file("next.toml", constants(&[("two", 2), ("three", 3)]));
    std::fs::rename(next, run.folder.path("spec.toml")).expect("it can be renamed");
    let notes = run.notes_until("spec.toml");
    assert!(notes.contains(": installed three; removed one; "), "{notes}");
    assert_eq!((run.run("two"), run.run("three")), (json!(2), json!(3)));
    run.send("{\"op\": \"one\"}");
    let fault = json!({ "code": 1, "name": "unknown opcode" });
    assert_eq!(run.result(), json!({ "line": 6, "op": "one", "status": "fault", "fault": fault }));

    let last = constants(&[("one", 111), ("two", 2)]);
    let notes = run.save(&last);
    assert!(notes.contains(": installed one; removed three; "), "{notes}");
    assert_eq!((run.run("one"), run.run("two")), (json!(111), json!(2)));
    let notes = run.save(&format!("share = 1\n{last}"));
    assert!(notes.contains("spec.toml: changed share; compiled and handed over in "), "{notes}");
    assert_eq!(run.run("one"), json!(111));
    let (code, notes) = run.end();
    assert_eq!(code, Some(2), "{notes}");
    assert!(notes.contains("done: 8 done, 1 fault in "), "{notes}");
}

#[test]
fn a_mistake_leaves_the_session_as_it_is() {
    let folder = ScratchFolder::new("watch-mistakes");
    let spec = constants(&[("one", 1)]);
    folder.file("spec.toml", &spec);
    let mut run = WatchedRun::start(folder, &["--bad", "skip"]);
    assert_eq!(run.run("one"), json!(1));
    let parks = "[[handler]]\nname = \"p\"\ntext = '''\nimport fn park()\n\
                 fn p() -> u32 {\n  call park()\n  return 0\n}\n'''\n";
    for (text, why) in [
        (spec.replace("return", "retrun"), "spec.toml:5:"),
        (spec.replace("slots", "solts"), "did you mean slots?"),
        (spec.replace("64", "128"), "`geometry.slots` cannot change while a session runs"),
        (spec.replace("64", "64\ngroups = 9999"), "and 9999 were asked for"),
        (format!("events = 3\n{spec}"), "`events` cannot change while a session runs"),
        (format!("lifetime = \"drain\"\n{spec}"), "`lifetime` cannot change while a session runs"),
        (format!("{spec}{parks}"), "handler \"p\" imports `park`"),
        (spec.replace("{ return 1 }", "{ trap 7\\n return 1 }"), "`trap` ends the kernel"),
    ] {
        let notes = run.save(&text);
        // Diagrams name the file too, and come before the line that says that the session goes on.
        let notes = if goes_on(&notes) { notes } else { notes + &run.notes_until("was not handed over") };
        assert!(goes_on(&notes) && notes.contains(why), "{text}\ngave\n{notes}");
        assert_eq!(run.run("one"), json!(1));
    }
    // A name that has not come does not exist.
    run.send("{\"op\": \"two\"}");
    let notes = run.notes_until("there is no opcode `two`");
    assert!(notes.contains("error: line 10: "), "{notes}");
    let notes = run.save(&spec);
    assert!(notes.ends_with("spec.toml: saved without a change\n"), "{notes}");
    let notes = run.save(&constants(&[("one", 1), ("two", 2)]));
    assert!(notes.contains("spec.toml: installed two; "), "{notes}");
    assert_eq!((run.run("one"), run.run("two")), (json!(1), json!(2)));
    let (code, notes) = run.end();
    assert_eq!(code, Some(1), "{notes}");
    assert!(notes.contains("done: 11 done, 1 bad line in "), "{notes}");
}

#[test]
fn files_that_the_spec_names_are_watched() {
    let folder = ScratchFolder::new("watch-files");
    folder.file("spec.toml", "libraries = ['two.pel']\n[[handler]]\nname = 'sum'\nfile = 'sum.pel'\n");
    folder.file("two.pel", "fn two() -> u32 { return 2 }\n");
    let sum =
        "import fn two() -> u32\nfn sum() -> u32 {\n  %a = call two()\n  %b = add %a, 1\n  return %b\n}\n";
    folder.file("sum.pel", sum);
    let mut run = WatchedRun::start(folder, &[]);
    assert_eq!(run.run("sum"), json!(3));
    run.folder.file("sum.pel", sum.replace("%a, 1", "%a, 100"));
    let notes = run.notes_until("handed over");
    assert!(notes.contains("spec.toml: replaced sum; "), "{notes}");
    assert_eq!(run.run("sum"), json!(102));
    run.folder.file("two.pel", "fn two() -> u32 { return");
    let notes = run.notes_until("was not handed over");
    assert!(goes_on(&notes) && notes.contains("two.pel:1:"), "{notes}");
    assert_eq!(run.run("sum"), json!(102));
    run.folder.file("two.pel", "fn two() -> u32 { return 50 }\n");
    let notes = run.notes_until("handed over");
    assert!(notes.contains("spec.toml: changed libraries; "), "{notes}");
    assert_eq!(run.run("sum"), json!(150));
    let (code, notes) = run.end();
    assert_eq!(code, Some(0), "{notes}");
}

/// A spec whose handler `spin` counts its steps in the second element of the data, and never ends.
const SPIN: &str = r#"
[[handler]]
name = "spin"
text = '''
import fn yield_now()
buffer data: [u32; ?] global read_write

fn spin() -> u32 {
  %steps = atomic_add relaxed device @data[1], 1
  call yield_now()
  return 0
}
'''
"#;

#[test]
fn tasks_that_have_begun_are_kept_or_taken_over() {
    let folder = ScratchFolder::new("watch-begun");
    folder.file("spec.toml", SPIN);
    let mut run = WatchedRun::start(folder, &["--order", "done"]);
    run.send("{\"op\": \"spin\"}");
    // It has begun once its second step has.
    loop {
        run.send("{\"op\": \"ATOMIC_ADD\", \"args\": [0, 1]}");
        if run.result()["result"].as_u64() > Some(1) {
            break;
        }
    }
    let ends = SPIN.replace(
        "  call yield_now()\n  return 0",
        "  if false {\n    call yield_now()\n    yield\n  }\n  return 7",
    );
    let notes = run.save(&ends);
    assert!(
        goes_on(&notes) && notes.contains("1 task of handler \"spin\" has begun and not ended"),
        "{notes}"
    );
    let notes = run.save(&ends.replace("text =", "takes_over = true\ntext ="));
    assert!(notes.contains("spec.toml: replaced spin; "), "{notes}");
    assert_eq!(run.result(), json!({ "line": 1, "op": "spin", "status": "done", "result": 7 }));
    let (code, notes) = run.end();
    assert_eq!(code, Some(0), "{notes}");
}

#[test]
fn no_line_is_lost_while_handlers_change() {
    let folder = ScratchFolder::new("watch-load");
    folder.file("spec.toml", constants(&[("one", 0)]));
    let mut run = WatchedRun::start(folder, &[]);
    // The program has read the spec once it has run a task.
    assert_eq!(run.run("one"), json!(0));
    let mut lines = run.lines.take().expect("it was piped");
    let (changing, changed) = std::sync::mpsc::channel::<()>();
    // Lines come until all changes were made, and some more after that.
    let writer = std::thread::spawn(move || {
        let mut count = 0;
        loop {
            let last = changed.try_recv() == Err(TryRecvError::Disconnected);
            lines.write_all("{\"op\": \"one\"}\n".repeat(100).as_bytes()).expect("the program reads");
            count += 100;
            if last {
                return count;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let out = run.results.take().expect("it was piped");
    let reader =
        std::thread::spawn(move || out.lines().map(|line| line.expect("it is text")).collect::<Vec<_>>());
    for number in 1..=3 {
        let notes = run.save(&constants(&[("one", number)]));
        assert!(notes.contains("spec.toml: replaced one; "), "{notes}");
    }
    drop(changing);
    let count = writer.join().expect("it ends");
    let (code, notes) = run.end();
    assert_eq!(code, Some(0), "{notes}");
    let results = reader.join().expect("it ends");
    assert_eq!(results.len(), count);
    let found: Vec<Value> =
        results.iter().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert!(
        found.iter().zip(2u64..).all(|(result, line)| result["line"] == json!(line)),
        "they are in order"
    );
    assert!(found.iter().all(|result| result["result"].as_u64() <= Some(3)), "each ran with some version");
    assert_eq!(found[found.len() - 1]["result"], json!(3));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_watch() {
    let folder = ScratchFolder::new("watch-interrupt");
    folder.file("spec.toml", constants(&[("one", 1)]));
    let mut run = WatchedRun::start(folder, &[]);
    assert_eq!(run.run("one"), json!(1));
    let sent = std::process::Command::new("kill").args(["-INT", &run.child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    let notes = run.notes_until("interrupted: 1 done in ");
    assert_eq!(run.child.wait().expect("it ends").code(), Some(130), "{notes}");
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let folder = ScratchFolder::new("watch-refused");
    let spec = folder.file("spec.toml", format!("lifetime = \"drain\"\n{}", constants(&[("one", 1)])));
    let ran = pelton_with(&["run", &spec, "--watch"], "{\"op\": \"one\"}\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    assert!(
        ran.err.contains("--watch changes the handlers of a session, and the spec has lifetime = \"drain\"")
    );
    let ran = pelton(&["run", &folder.path(""), "--watch"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("--watch needs a file that can be read again"), "{}", ran.err);
}

#[test]
fn help_teaches_it() {
    let help = pelton(&["run", "--help"]).out;
    for part in ["pelton run spec.toml --watch\n", "With --watch, save the spec", "takes_over = true"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
