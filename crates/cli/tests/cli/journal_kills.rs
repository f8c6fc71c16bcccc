//! `pelton run --journal` is killed again and again, and goes on each time.
//!
//! `PELTON_KILLS` and `PELTON_KILL_TASKS` change how often it is killed and how many tasks it has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{ScratchFolder, command};

/// A handler whose tasks take some time, and whose results depend on nothing but their arguments.
const SPEC: &str = r#"
[geometry]
slots = 64

[[handler]]
name = "mix"
text = '''
buffer arg: [u32; 12] global read

fn mix() -> u32 {
  %seed = load @arg[0]
  %turns = load @arg[1]
  %end: u32 = loop %k = 0 to %turns step 1 with %x = %seed {
    %a = mul %x, 2654435761
    %b = add %a, %k
    yield %b
  }
  return %end
}
'''
"#;

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    /// A number below `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

fn number_from(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().expect("it is a number"))
}

/// Writes the spec and the tasks. Some lines are no tasks, and some tasks end with a fault.
fn write_inputs(folder: &ScratchFolder, tasks: u64, turns: u64) -> (String, String) {
    let mut text = String::from("# tasks\n");
    for task in 0..tasks {
        match task % 50 {
            7 => text += "{\"op\": \"LOAD_U32\", \"args\": [4000000]}\n",
            9 => text += "\n",
            _ => text += &format!("{{\"op\": \"mix\", \"args\": [{task}, {turns}]}}\n"),
        }
    }
    (folder.file("spec.toml", SPEC), folder.file("tasks.jsonl", text))
}

fn start(args: &[&str], input: &str, out: Stdio) -> Child {
    let input = File::open(input).expect("the input is there");
    let mut command = command();
    command.arg("run").args(args).stdin(input).stdout(out).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

fn kill(child: &mut Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

/// The results by line. A line that was printed twice must say the same twice.
fn results(text: &str) -> (BTreeMap<u64, String>, usize) {
    let (mut found, mut twice) = (BTreeMap::new(), 0);
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = value["line"].as_u64().expect("a result has a line");
        if let Some(before) = found.insert(number, line.to_string()) {
            assert_eq!(before, line);
            twice += 1;
        }
    }
    (found, twice)
}

/// The results of a run without a journal.
fn plain_results(spec: &str, input: &str) -> BTreeMap<u64, String> {
    let output = start(&[spec], input, Stdio::piped()).wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    results(&String::from_utf8(output.stdout).expect("it is text")).0
}

/// Runs to the end, and says with which status.
fn finish(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("the program ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Results go to a file, to which every run appends. Runs are killed after a random time.
fn kills_with_a_file(name: &str, fsync: &str, kills: u64, tasks: u64) {
    let folder = ScratchFolder::new(name);
    let (spec, input) = write_inputs(&folder, tasks, 20_000);
    let (journal, out) = (folder.path("journal"), folder.path("results.jsonl"));
    let args = [&*spec, "--journal", &journal, "--fsync", fsync, "--device", "cpu"];
    let append = || -> Stdio {
        File::options().create(true).append(true).open(&out).expect("the file can be written").into()
    };
    let time_of = |input: &str| {
        let began = Instant::now();
        let found = plain_results(&spec, input);
        (found, began.elapsed())
    };
    let (_, startup) = time_of(&folder.file("few.jsonl", "{\"op\": \"LOAD_U32\", \"args\": [4000000]}\n"));
    let (plain, whole) = time_of(&input);
    // Half of the tasks are run before the last kill, on average.
    let longest = whole.saturating_sub(startup).as_micros() as u64 / kills;
    let (began, mut dice, mut killed) = (Instant::now(), Dice(kills), 0);
    while killed < kills {
        let mut child = start(&args, &input, append());
        // One run in four is killed before it has its first result.
        let least = if dice.roll(4) == 0 { 0 } else { startup.as_micros() as u64 };
        std::thread::sleep(Duration::from_micros(least + dice.roll(longest)));
        match child.try_wait().expect("it can be asked") {
            None => kill(&mut child),
            Some(_) => break,
        }
        killed += 1;
    }
    assert!(killed > kills / 2, "only {killed} runs were killed before all tasks had ended");
    let (code, err) = finish(start(&args, &input, append()));
    assert_eq!(code, Some(2), "{err}");
    let text = fs::read_to_string(&out).expect("it is text");
    let (found, twice) = results(&text);
    assert!(found == plain, "after {killed} kills, results differ from those of a plain run");
    if cfg!(target_os = "linux") {
        assert_eq!(twice, 0, "what a file ends with is not printed again");
    }
    println!("{killed} kills, {} tasks, {twice} results twice, {:.1?}", plain.len(), began.elapsed());
}

#[test]
fn a_run_that_is_killed_goes_on() {
    let kills = number_from("PELTON_KILLS", 20);
    let tasks = number_from("PELTON_KILL_TASKS", 20_000);
    kills_with_a_file("journal-kills-never", "never", kills, tasks);
}

#[test]
fn a_run_that_syncs_and_is_killed_goes_on() {
    kills_with_a_file("journal-kills-answer", "answer", 5, 3000);
}

#[test]
fn a_reader_of_a_pipe_sees_whole_lines() {
    let folder = ScratchFolder::new("journal-kills-pipe");
    let (spec, input) = write_inputs(&folder, 6000, 20_000);
    let journal = folder.path("journal");
    let args = [&*spec, "--journal", &journal, "--fsync", "interval", "--device", "cpu"];
    let (mut dice, mut text) = (Dice(1), String::new());
    for _ in 0..10 {
        let mut child = start(&args, &input, Stdio::piped());
        let mut out = BufReader::new(child.stdout.take().expect("it was piped"));
        for _ in 0..dice.roll(600) {
            out.read_line(&mut text).expect("it is text");
        }
        kill(&mut child);
        out.read_to_string(&mut text).expect("it is text");
    }
    let mut child = start(&args, &input, Stdio::piped());
    let mut out = child.stdout.take().expect("it was piped");
    out.read_to_string(&mut text).expect("it is text");
    let (code, err) = finish(child);
    assert_eq!(code, Some(2), "{err}");
    let (found, twice) = results(&text);
    assert!(found == plain_results(&spec, &input));
    assert!(twice < 10 * 4096 / 50, "{twice} results were printed twice, more than a piece per kill");
}

#[test]
fn ctrl_c_closes_the_journal_and_the_rest_is_run_later() {
    let folder = ScratchFolder::new("journal-ctrl-c");
    let (spec, input) = write_inputs(&folder, 6000, 50_000);
    let (journal, out) = (folder.path("journal"), folder.path("results.jsonl"));
    let args = [&*spec, "--journal", &journal, "--device", "cpu"];
    let append = || -> Stdio {
        File::options().create(true).append(true).open(&out).expect("the file can be written").into()
    };
    let child = start(&args, &input, append());
    while fs::metadata(&out).expect("it is there").len() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    let (code, err) = finish(child);
    assert_eq!(code, Some(130), "{err}");
    let counts = crate::pelton(&["journal", "stat", &journal, "--json"]).out;
    let counts: Value = serde_json::from_str(&counts).expect("it is JSON");
    assert_eq!(counts["closed"], true, "{counts}");
    let text = fs::read_to_string(&out).expect("it is text");
    assert!(!text.contains("stopped"), "tasks that were stopped are run later, and have no result yet");
    let (code, err) = finish(start(&args, &input, append()));
    assert_eq!(code, Some(2), "{err}");
    let (found, twice) = results(&fs::read_to_string(&out).expect("it is text"));
    assert!(found == plain_results(&spec, &input) && twice == 0);
}

#[test]
fn the_lock_dies_with_its_holder_and_executors_do_not_have_it() {
    let folder = ScratchFolder::new("journal-lock");
    let (spec, input) = write_inputs(&folder, 1, 1);
    let journal = folder.path("journal");
    let args = [&*spec, "--journal", &journal, "--device", "process:cpu"];
    let mut child = command()
        .arg("run")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    std::io::Write::write_all(&mut stdin, b"# tasks\n{\"op\": \"mix\", \"args\": [0, 1]}\n")
        .expect("it is read");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it was piped"));
    out.read_line(&mut line).expect("it is text");
    assert!(line.starts_with("{\"line\": 2, "), "{line}");
    let (code, err) = finish(start(&args, &input, Stdio::piped()));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(&format!("is in use by process {}", child.id())), "{err}");
    // The executor may live on for a moment, and the lock does not.
    let sent = Command::new("kill").args(["-KILL", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    child.wait().expect("it ends");
    let (code, err) = finish(start(&args, &input, Stdio::piped()));
    assert_eq!(code, Some(0), "{err}");
}
