//! `pelton run --stream`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{RunOutput, ScratchFolder, command, pelton, pelton_with};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The example, which counts lines.
fn example() -> String {
    format!("{ROOT}/examples/run/stream.toml")
}

/// Counts lines of paths with the example.
fn count_lines(paths: &[&str], options: &[&str]) -> RunOutput {
    let spec = example();
    pelton(&[&["run", &spec, "--op", "lines"], options, &["--stream"], paths].concat())
}

fn rows(ran: &RunOutput) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

fn sum(rows: &[Value]) -> u64 {
    rows.iter().map(|row| row["result"].as_u64().expect("it has a result")).sum()
}

/// A text with so many lines, each of ten bytes.
fn text(lines: usize) -> String {
    (0..lines).map(|line| format!("{line:09}\n")).collect()
}

#[test]
fn files_and_folders_become_lines_of_results() {
    let folder = ScratchFolder::new("stream");
    let first = folder.file("first", text(1000));
    fs::create_dir_all(folder.path("more/below")).expect("it can be made");
    folder.file("more/b", text(50));
    folder.file("more/below/a", text(7));
    let more = folder.path("more");
    for options in [
        &[][..],
        &["--engine", "plain"],
        &["--engine", "io-uring"],
        &["--unordered"],
        &["--device", "reference"],
    ] {
        if options.contains(&"io-uring") && !cfg!(target_os = "linux") {
            continue;
        }
        let ran = count_lines(&[&first, &more], &[options, &["--chunk", "4K"]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let rows = rows(&ran);
        assert_eq!((rows.len(), sum(&rows)), (5, 1057), "{}", ran.out);
        if !options.contains(&"--unordered") {
            let places: Vec<_> =
                rows.iter().map(|row| (row["file"].as_str(), row["offset"].as_u64())).collect();
            let (b, a) = (folder.path("more/b"), folder.path("more/below/a"));
            let expected = [(&first, 0), (&first, 4096), (&first, 8192), (&b, 0), (&a, 0)];
            let expected = expected.map(|(file, offset): (&String, u64)| (Some(file.as_str()), Some(offset)));
            assert_eq!(places, expected);
            assert_eq!(rows[2]["bytes"], 10_000 - 8192);
        }
        assert!(ran.err.contains("done: 5 chunks, 10.3 KiB of 3 files in "), "{}", ran.err);
        assert!(
            options.len() < 2
                || !options.contains(&"--engine")
                || ran.err.contains(&format!("read by {}", options[1])),
            "{}",
            ran.err
        );
    }
}

#[test]
fn overlaps_lines_and_arguments_are_options() {
    let folder = ScratchFolder::new("stream-options");
    let path = folder.file("text", text(1000));
    let ran = count_lines(&[&path], &["--chunk", "1024", "--overlap", "100"]);
    let rows_of = rows(&ran);
    assert_eq!((rows_of.len(), sum(&rows_of)), (10, 1000), "{}{}", ran.out, ran.err);
    assert_eq!((&rows_of[1]["offset"], &rows_of[1]["bytes"]), (&Value::from(924), &Value::from(1124)));
    let ran = count_lines(&[&path], &["--chunk", "1024", "--lines"]);
    let rows_of = rows(&ran);
    assert!(
        rows_of.iter().all(|row| row["bytes"].as_u64().is_some_and(|bytes| bytes % 10 == 0)),
        "{}",
        ran.out
    );
    assert_eq!(sum(&rows_of), 1000);
}

#[test]
fn the_summary_is_json_if_asked_for() {
    let folder = ScratchFolder::new("stream-json");
    let path = folder.file("text", text(10));
    let ran = count_lines(&[&path], &["--json"]);
    let summary: Value = serde_json::from_str(ran.err.trim()).expect("it is JSON");
    for (key, value) in [("bytes", 100), ("chunks", 1), ("files", 1), ("faults", 0)] {
        assert_eq!(summary[key], value, "{summary}");
    }
    assert_eq!((&summary["end"], summary["engine"].is_string()), (&Value::from("done"), true), "{summary}");
}

#[test]
fn standard_input_is_a_dash() {
    let spec = example();
    let ran = pelton_with(&["run", &spec, "--op", "lines", "--chunk", "4096", "--stream", "-"], text(1000));
    assert_eq!((ran.code, sum(&rows(&ran))), (Some(0), 1000), "{}", ran.err);
    assert!(
        ran.out.starts_with("{\"file\": \"standard input\", \"offset\": 0, \"bytes\": 4096, "),
        "{}",
        ran.out
    );
}

#[test]
fn sockets_are_named_by_their_kind() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = format!("tcp://{}", listener.local_addr().expect("it has one"));
    let sender = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("somebody comes");
        socket.write_all(text(500).as_bytes()).expect("it is read");
    });
    let ran = count_lines(&[&address], &[]);
    sender.join().expect("it was sent");
    assert_eq!((ran.code, sum(&rows(&ran))), (Some(0), 500), "{}", ran.err);
    let refused = count_lines(&[&address], &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains(&format!("cannot open {address}")), "{}", refused.err);
    #[cfg(unix)]
    {
        let folder = ScratchFolder::new("socket");
        // The path of a socket must be short.
        let path = std::env::temp_dir().join(format!("pelton-{}", std::process::id()));
        let _ = (fs::remove_file(&path), &folder);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it can be made");
        let sender = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("somebody comes");
            socket.write_all(text(30).as_bytes()).expect("it is read");
        });
        let ran = count_lines(&[&format!("unix:{}", path.display())], &[]);
        sender.join().expect("it was sent");
        fs::remove_file(&path).expect("it is there");
        assert_eq!((ran.code, sum(&rows(&ran))), (Some(0), 30), "{}", ran.err);
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let folder = ScratchFolder::new("stream-absent");
    let path = folder.file("text", text(10));
    let ran = count_lines(&[&path, &folder.path("absent")], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "nothing is read if a path is wrong");
    assert!(ran.err.contains("absent: No such file"), "{}", ran.err);
    if cfg!(target_os = "linux") {
        let ran = count_lines(&[&path, "/proc/self/mem"], &[]);
        assert_eq!((ran.code, sum(&rows(&ran))), (Some(1), 10), "{}", ran.err);
        assert!(ran.err.contains("error: cannot read /proc/self/mem at byte 0: "), "{}", ran.err);
        assert!(ran.err.contains("stopped by an error: 1 chunk, 100 B on "), "{}", ran.err);
    }
    for (args, what) in [
        (&["--chunk", "100M"][..], "has 8388608 bytes, but one chunk with its overlap needs 104857600"),
        (&["--region", "data"], "does not lie in host memory"),
        (&["--tenant", "nobody"], "there is no tenant `nobody`"),
        (&["--args", "1,2,3,4,5,6,7"], "7 arguments were given"),
    ] {
        let ran = count_lines(&[&path], args);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
    }
    let example_text = fs::read_to_string(example()).expect("it is there");
    for (rights, what) in [("quota = 5", "tenant `0` has a quota"), ("mask = 0", "tenant `0` is disabled")] {
        let spec = folder.file("rights.toml", format!("{example_text}\n[[tenant]]\nid = 0\n{rights}\n"));
        let ran = pelton(&["run", &spec, "--op", "lines", "--stream", &path]);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.err.contains(what), "{}", ran.err);
    }
    let spec = example();
    for args in
        [&["--op", "lines"][..], &["--stream", &path], &["--stream", &path, "--op", "lines", "--watch"]]
    {
        assert_eq!(pelton(&[&["run", &spec], args].concat()).code, Some(64), "{args:?}");
    }
}

/// Catches a folder that is left out because it may not be read. The superuser may read everything, so the program runs as
/// somebody else then.
#[test]
#[cfg(unix)]
fn a_folder_that_may_not_be_read_is_an_error() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let folder = ScratchFolder::new("stream-locked");
    folder.file("text", text(10));
    fs::create_dir(folder.path("locked")).expect("it can be made");
    fs::set_permissions(folder.path("locked"), fs::Permissions::from_mode(0o000)).expect("it is ours");
    let mut child = command();
    child.args(["run", &example(), "--op", "lines", "--stream", &folder.path("")]).stdin(Stdio::null());
    if fs::metadata(folder.path("")).expect("it is there").uid() == 0 {
        child.uid(65534);
    }
    let ran: RunOutput = child.output().expect("it starts").into();
    fs::set_permissions(folder.path("locked"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("locked: Permission denied"), "{}", ran.err);
}

#[test]
fn faults_of_tasks_are_results() {
    let folder = ScratchFolder::new("stream-faults");
    let path = folder.file("text", text(100));
    let spec = folder.file(
        "spec.toml",
        "[[region]]\nname = \"stream\"\ntype = \"u32\"\nlen = 4096\nmemory = \"host\"\n\n[[handler]]\nname = \"bad\"\n\
         text = '''\nfn bad() -> u32 {\n  fault 0x100\n  return 0\n}\n'''\n",
    );
    let ran = pelton(&["run", &spec, "--op", "bad", "--chunk", "500", "--stream", &path]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 2);
    assert!(
        rows(&ran).iter().all(|row| row["status"] == "fault" && row["fault"]["code"] == 256),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("2 faults"), "{}", ran.err);
}

/// Catches Ctrl-C that loses results of what was read, or does not end a stream that waits.
#[test]
#[cfg(unix)]
fn ctrl_c_reports_what_was_read() {
    let mut child = command()
        .args(["run", &example(), "--op", "lines", "--chunk", "4096", "--flush-after", "10", "--stream", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("it was piped");
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    input.write_all(text(3).as_bytes()).expect("it is read");
    let mut line = String::new();
    // The input stays open, and nothing more comes.
    output.read_line(&mut line).expect("it is text");
    assert!(line.contains("\"bytes\": 30, \"status\": \"done\", \"result\": 3"), "{line}");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    let ran: RunOutput = child.wait_with_output().expect("it ends").into();
    drop(input);
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(ran.err.contains("interrupted: 1 chunk, 30 B"), "{}", ran.err);
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_ends_the_stream() {
    let script = format!(
        "{} run {} --op lines --chunk 64 --stream /dev/zero | head -3",
        env!("CARGO_BIN_EXE_pelton"),
        example()
    );
    let ran: RunOutput = Command::new("sh").args(["-c", &script]).output().expect("it starts").into();
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);
    assert!(ran.err.contains("stopped, because the results cannot be written"), "{}", ran.err);
}

/// Catches a file that is gone when its turn comes, and is then left out.
#[test]
#[cfg(unix)]
fn a_file_that_vanishes_is_an_error() {
    let folder = ScratchFolder::new("stream-vanishes");
    let (pipe, victim) = (folder.path("pipe"), folder.file("victim", text(10)));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
    let child = command()
        .args(["run", &example(), "--op", "lines", "--stream", &pipe, &victim])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Opening the pipe waits until the program reads it, and it has looked at both paths by then.
    let mut sender = fs::OpenOptions::new().write(true).open(&pipe).expect("it is there");
    sender.write_all(text(5).as_bytes()).expect("it is read");
    fs::remove_file(&victim).expect("it is there");
    drop(sender);
    let ran: RunOutput = child.wait_with_output().expect("it ends").into();
    assert_eq!((ran.code, sum(&rows(&ran))), (Some(1), 5), "{}", ran.err);
    assert!(ran.err.contains(&format!("error: cannot open {victim}: No such file")), "{}", ran.err);
}

/// Catches a file that becomes shorter and whose results look as if it had always been so. Nobody reads the results at
/// first, so the program cannot get far.
#[test]
#[cfg(unix)]
fn a_file_that_shrinks_is_an_error() {
    let folder = ScratchFolder::new("stream-shrinks");
    let path = folder.file("text", text(100_000));
    for engine in ["plain", "auto"] {
        folder.file("text", text(100_000));
        let mut child = command()
            .args([
                "run",
                &example(),
                "--op",
                "lines",
                "--chunk",
                "64",
                "--engine",
                engine,
                "--stream",
                &path,
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut out = String::new();
        output.read_line(&mut out).expect("it is text");
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(900_000))
            .expect("it is ours");
        output.read_to_string(&mut out).expect("it is text");
        let ran: RunOutput = child.wait_with_output().expect("it ends").into();
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let why = format!("{path} ended at byte 900000, although it had 1000000 bytes when it was opened");
        assert!(ran.err.contains(&why), "{}", ran.err);
        assert_eq!(out.lines().count(), 900_000 / 64, "whole chunks before it are there");
    }
}

/// Catches a stream that is refused and overwrites a file all the same.
#[test]
fn a_refused_stream_saves_nothing() {
    let folder = ScratchFolder::new("stream-refused-out");
    let (input, kept) = (folder.file("text", text(10)), folder.file("kept", "precious"));
    let out = format!("stream={kept}");
    for wrong in [["--op", "nope"], ["--chunk", "0"]] {
        let args = ["run", &example(), "--op", "lines", "--stream", &input, "--out", &out];
        let args: Vec<&str> = match wrong {
            ["--op", _] => [&["run", args[1]], &wrong[..], &args[4..]].concat(),
            _ => [&args[..], &wrong[..]].concat(),
        };
        let ran = pelton_with(&args, "");
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert_eq!(folder.read("kept"), b"precious");
    }
}
