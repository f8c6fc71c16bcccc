//! `pelton run` when its device is lost.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::{ScratchFolder, command, pelton_with};

/// A handler that finds something in memory, and one that takes long and must not run twice.
const SPEC: &str = r#"
recovery = "on"
fuel = 4294967295

[[handler]]
name = "fetch"
text = '''
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read

fn fetch() -> u32 {
  %at = load @arg[0]
  %x = load @data[%at]
  return %x
}
'''

[[handler]]
name = "spin"
class = "once"
text = '''
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read_write

fn spin() -> u32 {
  %turns = load @arg[0]
  %end: u32 = loop %k = 0 to %turns step 1 with %x = 1 {
    %y = atomic_add relaxed device @data[0], %k
    %z = add %x, %y
    yield %z
  }
  return %end
}
'''
"#;

/// A run that is fed line by line.
struct FedRun {
    child: Child,
    stdin: ChildStdin,
    results: Lines<BufReader<ChildStdout>>,
}

impl FedRun {
    fn start(args: &[&str]) -> FedRun {
        let pipe = Stdio::piped;
        let mut child = command();
        let mut child =
            child.args(args).stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().expect("it starts");
        let stdin = child.stdin.take().expect("it was piped");
        let results = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        FedRun { child, stdin, results }
    }

    fn submit(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("it reads");
    }

    fn result(&mut self) -> String {
        self.results.next().expect("there is a result").expect("it is text")
    }

    /// Closes the input, and returns the summary.
    fn finish(self) -> (Option<i32>, Value) {
        let FedRun { mut child, stdin, .. } = self;
        drop(stdin);
        let mut text = String::new();
        child.stderr.take().expect("it was piped").read_to_string(&mut text).expect("it is text");
        let code = child.wait().expect("it ends").code();
        let summary = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        (code, summary.unwrap_or_else(|| panic!("no summary: {text}")))
    }
}

/// Kills every process that a process has started.
fn kill_children(parent: u32) {
    let children = format!("/proc/{parent}/task");
    for task in std::fs::read_dir(children).into_iter().flatten().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in list.split_whitespace() {
            let _ = Command::new("kill").args(["-9", child]).stderr(Stdio::null()).status();
        }
    }
}

/// Kills processes until something was done.
fn killing<T>(parent: u32, every: Duration, during: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(every);
                kill_children(parent);
            }
        });
        let result = during();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Catches a list of devices that reaches no session, memory that is not filled again, and a loss that gives no reason.
#[cfg(target_os = "linux")]
#[test]
fn a_run_goes_on_with_the_next_device() {
    let folder = ScratchFolder::new("run-failover");
    let spec = folder.file("spec.toml", SPEC);
    let devices = ["--device", "process:cpu", "--failover", "cpu"];
    let other = ["--buffer", "data=iota", "--order", "done", "--json", "--stats"];
    let mut run = FedRun::start(&[&["run", spec.as_str()], &devices[..], &other].concat());
    let parent = run.child.id();
    run.submit("{\"op\": \"fetch\", \"args\": [7]}");
    assert_eq!(run.result(), "{\"line\": 1, \"op\": \"fetch\", \"status\": \"done\", \"result\": 7}");
    run.submit("{\"op\": \"spin\", \"args\": [4000000000]}");
    // A task that has not begun yet is run in the next process.
    let lost = killing(parent, Duration::from_secs(1), || run.result());
    let wanted = "{\"line\": 2, \"op\": \"spin\", \"status\": \"lost\", \"reason\": \"device\", \"may_have_run\": true}";
    assert_eq!(lost, wanted);
    // No process lives long enough to be used.
    let found = killing(parent, Duration::from_millis(1), || {
        run.submit("{\"op\": \"fetch\", \"args\": [9]}");
        let first = run.result();
        std::thread::sleep(Duration::from_millis(200));
        run.submit("{\"op\": \"fetch\", \"args\": [8]}");
        [first, run.result()]
    });
    assert_eq!(found[0], "{\"line\": 3, \"op\": \"fetch\", \"status\": \"done\", \"result\": 9}");
    assert_eq!(found[1], "{\"line\": 4, \"op\": \"fetch\", \"status\": \"done\", \"result\": 8}");
    let (code, summary) = run.finish();
    assert_eq!(code, Some(2), "a task was lost: {summary}");
    let last = &summary["stats"]["recovery"]["last"];
    assert_eq!((&last["from"], &last["to"]), (&"process:cpu".into(), &"cpu".into()), "{summary}");
}

/// Catches devices that are ignored, because nothing would ever use them or because they cannot be opened.
#[test]
fn devices_that_cannot_be_gone_on_with_are_refused() {
    let folder = ScratchFolder::new("run-failover-refused");
    let spec = folder.file("spec.toml", SPEC);
    let ran = pelton_with(&["run", &spec, "--device", "cpu", "--failover", "cpu:1,reference"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = pelton_with(&["run", &spec, "--device", "cpu", "--failover", "cpu,nothing"], "");
    assert!(ran.code == Some(1) && ran.err.contains("nothing"), "{}", ran.err);
    folder.file("spec.toml", SPEC.replace("recovery = \"on\"", ""));
    let ran = pelton_with(&["run", &spec, "--device", "cpu", "--failover", "cpu"], "");
    let why =
        "error: --failover is for sessions that go on after a loss; write recovery = \"on\" in the spec";
    assert!(ran.code == Some(1) && ran.err.contains(why), "{}", ran.err);
}

/// A handler that adds to a kept region and shows what it finds in a region in host memory.
const LASTING_SPEC: &str = r#"
recovery = "on"

[[region]]
name = "sums"
type = "u32"
len = 16
retention = "kept"

[[region]]
name = "table"
type = "u32"
len = 16
memory = "host"

[[handler]]
name = "add"
class = "commuting"
text = '''
buffer arg: [u32; 12] global read
buffer sums: [u32; ?] global read_write

fn add() -> u32 {
  %by = load @arg[0]
  %old = atomic_add relaxed device @sums[3], %by
  return %old
}
'''

[[handler]]
name = "change"
text = '''
buffer arg: [u32; 12] global read
buffer table: [u32; ?] global read_write

fn change() -> u32 {
  %old = load @table[2]
  %new = load @arg[0]
  store @table[2], %new
  return %old
}
'''
"#;

/// Catches a run that cannot go on because it would fill a kept region again, or that takes back what tasks have stored in host
/// memory.
#[cfg(target_os = "linux")]
#[test]
fn regions_that_outlive_the_device_are_not_filled_again() {
    let folder = ScratchFolder::new("run-lasting");
    let spec = folder.file("spec.toml", LASTING_SPEC);
    let buffers = ["--buffer", "sums=iota", "--buffer", "table=iota", "--order", "done", "--json"];
    let mut run = FedRun::start(&[&["run", spec.as_str(), "--device", "process:cpu"], &buffers[..]].concat());
    let parent = run.child.id();
    let done = |line: u32, op: &str, result: u32| {
        format!("{{\"line\": {line}, \"op\": \"{op}\", \"status\": \"done\", \"result\": {result}}}")
    };
    run.submit("{\"op\": \"add\", \"args\": [10]}");
    assert_eq!(run.result(), done(1, "add", 3));
    run.submit("{\"op\": \"change\", \"args\": [50]}");
    assert_eq!(run.result(), done(2, "change", 2));
    kill_children(parent);
    run.submit("{\"op\": \"add\", \"args\": [1]}");
    assert_eq!(run.result(), done(3, "add", 13));
    run.submit("{\"op\": \"change\", \"args\": [60]}");
    assert_eq!(run.result(), done(4, "change", 50));
    assert_eq!(run.finish().0, Some(0));
}

/// Catches a run that ends because it looks at a device which is lost for a moment: for whether it stands still, for what tasks
/// have printed, to add a graph, and for its statistics.
#[cfg(target_os = "linux")]
#[test]
fn looks_at_a_lost_device_end_nothing() {
    let folder = ScratchFolder::new("run-looks");
    let text = r#"
recovery = "on"
events = 1
formats = ["{} {}", "{} {}"]

[[graph]]
name = "one"

[[graph.node]]
name = "only"
op = "NOP"
"#;
    let spec = folder.file("spec.toml", text);
    let mut run =
        FedRun::start(&["run", &spec, "--device", "process:cpu", "--order", "done", "--json", "--stats"]);
    let parent = run.child.id();
    run.submit("{\"op\": \"NOP\"}");
    assert!(run.result().contains("\"status\": \"done\""));
    for line in 0..10 {
        kill_children(parent);
        run.submit(match line % 3 {
            0 => "{\"graph\": \"one\"}",
            1 => "{\"op\": \"PRINTF\", \"args\": [1, 2, 3]}",
            _ => "{\"op\": \"NOP\"}",
        });
        let result = run.result();
        assert!(result.contains("\"status\": \"done\""), "{line}: {result}");
    }
    kill_children(parent);
    let (code, summary) = run.finish();
    assert_eq!(code, Some(0), "{summary}");
}

/// Catches a journal that lets tasks begin twice which must not.
#[test]
fn a_journal_is_refused_beside_tasks_that_must_not_begin_twice() {
    let folder = ScratchFolder::new("run-journal-once");
    let (spec, journal) = (folder.file("spec.toml", SPEC), folder.path("journal"));
    let ran = pelton_with(&["run", &spec, "--device", "cpu", "--journal", &journal], "");
    assert!(ran.code == Some(1) && ran.err.contains("class \"once\""), "{}", ran.err);
    assert!(!std::path::Path::new(&journal).exists());
}
