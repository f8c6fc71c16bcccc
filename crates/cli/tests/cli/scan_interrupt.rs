//! `pelton scan` and Ctrl-C: what was found until then is printed, and the status is 130.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::{RunOutput, ScratchFolder, command};

fn start(folder: &ScratchFolder, args: &[&str]) -> Child {
    let mut child = command();
    child.arg("scan").args(args).current_dir(&folder.0);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Scans the file `a.txt`, which contains `KEY-1`, and then the pipe `b-pipe`, which is left open after a text was written.
fn start_with_pipe(folder: &ScratchFolder, args: &[&str], text: &[u8]) -> (Child, fs::File) {
    let made = Command::new("mkfifo").arg(folder.0.join("b-pipe")).status();
    assert!(made.expect("mkfifo is there").success());
    folder.file("a.txt", "KEY-1");
    let child = start(folder, &[&["--no-redact", "a.txt", "b-pipe"], args].concat());
    let mut pipe = fs::File::options().write(true).open(folder.0.join("b-pipe")).expect("it can be opened");
    pipe.write_all(text).expect("it can be written");
    (child, pipe)
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
}

/// Waits for the end. `read` is what was read of the output before.
fn end(mut child: Child, out: BufReader<ChildStdout>, read: String) -> RunOutput {
    let mut all = read;
    let mut out = out;
    out.read_to_string(&mut all).expect("it is text");
    let mut err = String::new();
    let mut notes = child.stderr.take().expect("it was piped");
    notes.read_to_string(&mut err).expect("it is text");
    RunOutput { code: child.wait().expect("it ends").code(), out: all, err }
}

fn output_of(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().expect("it was piped"))
}

/// Interrupts a scan with `--sarif` once its report has begun, which is before the first finding. The report must be
/// whole all the same, and say that the scan is not.
fn interrupt_report(mut child: Child) {
    let mut out = output_of(&mut child);
    let mut first = [0];
    out.read_exact(&mut first).expect("it can be read");
    interrupt(&child);
    let ran = end(child, out, char::from(first[0]).into());
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON all the same");
    assert_eq!(report["runs"][0]["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn a_pipe_that_never_ends() {
    let folder = ScratchFolder::new("scan-endless");
    folder.file("c.txt", "KEY-3\n");
    let args = ["-e", "KEY-[0-9]+", "--stats", "c.txt"];
    let (mut child, pipe) = start_with_pipe(&folder, &args, b"KEY-2\nKEY-22\n");
    let mut out = output_of(&mut child);
    // The first file is done, and the pipe stays open.
    let mut read = String::new();
    out.read_line(&mut read).expect("it is text");
    assert_eq!(read, "a.txt:1:1: KEY-[0-9]+: KEY-1\n");
    interrupt(&child);
    let ran = end(child, out, read);
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    for key in ["b-pipe:1:1: KEY-[0-9]+: KEY-2\n", "b-pipe:2:1: KEY-[0-9]+: KEY-22\n"] {
        assert!(ran.out.contains(key), "{key} is not in {}", ran.out);
    }
    assert!(ran.err.contains("interrupted"), "{}", ran.err);
    drop(pipe);
}

/// Whether the pipe would have ended here is not known.
#[test]
fn a_pipe_has_no_end_where_it_was_left() {
    let folder = ScratchFolder::new("scan-cut");
    let rules = ["-e", "KEY-[0-9]+", "-e", "KEY-[0-9]+$"];
    let (mut child, pipe) = start_with_pipe(&folder, &rules, b"KEY-2");
    let mut out = output_of(&mut child);
    let mut read = String::new();
    for _ in 0..2 {
        out.read_line(&mut read).expect("it is text");
    }
    assert_eq!(read, "a.txt:1:1: KEY-[0-9]+: KEY-1\na.txt:1:1: KEY-[0-9]+$: KEY-1\n");
    interrupt(&child);
    let ran = end(child, out, read.clone());
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert_eq!(ran.out, read + "b-pipe:1:1: KEY-[0-9]+: KEY-2\n");
    drop(pipe);
}

#[test]
fn standard_input_that_never_ends() {
    let folder = ScratchFolder::new("scan-endless-stdin");
    let mut child = start(&folder, &["--sarif", "-e", "KEY-[0-9]+", "-"]);
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin.write_all(b"KEY-1\n").expect("it can be written");
    interrupt_report(child);
    drop(stdin);
}

#[test]
fn a_device_that_yields_bytes_as_fast_as_they_are_read() {
    let folder = ScratchFolder::new("scan-zeros");
    let child = start(&folder, &["--sarif", "-e", "KEY-[0-9]+", "/dev/zero"]);
    interrupt_report(child);
}

#[test]
fn a_huge_file() {
    let folder = ScratchFolder::new("scan-huge");
    folder.file("a.txt", "KEY-1\n");
    // A sparse file, which takes no room and minutes to scan.
    let huge = fs::File::create(folder.0.join("b.bin")).expect("it can be made");
    huge.set_len(1 << 42).expect("it can be sparse");
    let mut child = start(&folder, &["--no-redact", "--binary", "-e", "KEY-[0-9]+"]);
    let mut out = output_of(&mut child);
    let mut read = String::new();
    out.read_line(&mut read).expect("it is text");
    interrupt(&child);
    let ran = end(child, out, read);
    assert_eq!((ran.code, &*ran.out), (Some(130), "a.txt:1:1: KEY-[0-9]+: KEY-1\n"), "{}", ran.err);
    assert_eq!(ran.err, "interrupted: these are the findings so far\n");
}

#[test]
fn rules_that_take_long_to_prepare() {
    let folder = ScratchFolder::new("scan-long-rules");
    let rule = |number| {
        format!(r"word{number}.{{0,40}}?(?:secret|token|key).{{0,40}}?\b[a-z0-9]{{{}}}\b", 20 + number % 40)
    };
    folder.file("rules.txt", (0..4000).map(rule).collect::<Vec<_>>().join("\n"));
    let mut child = command();
    // A bad expression is reported before the rules are prepared.
    child.args(["scan", "--rules", "rules.txt", "-e", "bad(", "."]).current_dir(&folder.0);
    child.env("PELTON_CACHE", folder.0.join("cache")).stdin(Stdio::null());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut notes = BufReader::new(child.stderr.take().expect("it was piped"));
    let mut first = String::new();
    notes.read_line(&mut first).expect("it is text");
    assert!(first.starts_with("error: the value of -e"), "{first}");
    interrupt(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    // Rules that were prepared to the end would be in the cache.
    assert!(!folder.0.join("cache").exists());
}
