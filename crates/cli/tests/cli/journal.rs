//! `pelton run --journal` and `pelton journal`.

use std::fs;

use serde_json::Value;

use crate::{RunOutput, ScratchFolder, exists, pelton, pelton_with};

/// A spec with a handler that keeps nothing, one that adds to memory, one that replies, and a graph.
const SPEC: &str = r#"
payload = 16
reply = 16

[[handler]]
name = "square"
text = '''
buffer arg: [u32; 12] global read

fn square() -> u32 {
  %x = load @arg[0]
  %y = mul %x, %x
  return %y
}
'''

[[handler]]
name = "add"
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

[[handler]]
name = "echo"
text = '''
import fn payload_len() -> u32
import fn reply_len(%bytes: u32)
buffer payload: [u32; ?] global read
buffer reply: [u32; ?] global read_write

fn echo() -> u32 {
  %len = call payload_len()
  %word = load @payload[0]
  store @reply[0], %word
  call reply_len(%len)
  return %len
}
'''

[[graph]]
name = "twice"
parameters = 1

[[graph.node]]
name = "first"
op = "square"
args = ["$0"]

[[graph.node]]
name = "second"
op = "square"
args = ["@first"]
"#;

const TASKS: &str = "\
# squares
{\"op\": \"square\", \"args\": [3]}

{\"graph\": \"twice\", \"args\": [3]}
{\"op\": \"echo\", \"text\": \"ok\"}
{\"op\": \"LOAD_U32\", \"args\": [4000000]}
{\"op\": \"square\", \"args\": [4]}
";

/// A folder with a spec, and a journal in it.
struct TestRun {
    folder: ScratchFolder,
    spec: String,
    journal: String,
}

impl TestRun {
    fn new(name: &str) -> TestRun {
        let folder = ScratchFolder::new(name);
        let (spec, journal) = (folder.file("spec.toml", SPEC), folder.path("journal"));
        TestRun { folder, spec, journal }
    }

    fn run(&self, args: &[&str], tasks: &str) -> RunOutput {
        pelton_with(&[&["run", &self.spec, "--journal", &self.journal], args].concat(), tasks)
    }

    fn refused(&self, args: &[&str], tasks: &str, why: &str) {
        let ran = self.run(args, tasks);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }

    /// Cuts the journal off behind its first record that contains a text, as if the run had been killed then.
    fn kill_after(&self, text: &str) {
        let shown = pelton(&["journal", "show", &self.journal]).out;
        let behind = shown.lines().skip_while(|line| !line.contains(text)).nth(1).expect("a record follows");
        let place =
            behind.split(' ').next().and_then(|place| place.strip_prefix("1:")).expect("it has a place");
        let segment = format!("{}/00000001.seg", self.journal);
        let bytes = fs::read(&segment).expect("it can be read");
        // Half of the next record was written.
        fs::write(segment, &bytes[..place.parse::<usize>().expect("a number") + 7])
            .expect("it can be written");
    }
}

#[test]
fn results_are_those_of_a_plain_run_and_come_once() {
    let test = TestRun::new("journal-plain");
    for fsync in ["never", "interval", "answer"] {
        let _ = fs::remove_dir_all(&test.journal);
        let plain = pelton_with(&["run", &test.spec], TASKS);
        let first = test.run(&["--fsync", fsync], TASKS);
        assert_eq!((first.code, &first.out), (Some(2), &plain.out), "{}", first.err);
        // The exit status still says that a task had ended with a fault.
        let second = test.run(&["--fsync", fsync], TASKS);
        assert_eq!((second.code, second.out.as_str()), (Some(2), ""), "{}", second.err);
        assert!(
            second.err.contains("the journal has 5 results, whose tasks are not run again"),
            "{}",
            second.err
        );
        assert!(second.err.contains("done: 0 done, 5 from the journal in "), "{}", second.err);
        // More lines at the end are new tasks.
        let more = test.run(&["--fsync", fsync], &format!("{TASKS}{{\"op\": \"square\", \"args\": [5]}}\n"));
        assert_eq!(more.out, "{\"line\": 8, \"op\": \"square\", \"status\": \"done\", \"result\": 25}\n");
        let shown = pelton(&["journal", "show", &test.journal, "--as", "results"]);
        assert_eq!(shown.out, plain.out + &more.out);
    }
}

#[test]
fn a_drain_has_a_journal_too() {
    let test = TestRun::new("journal-drain");
    let text = SPEC.split("[[graph]]").next().expect("there is a spec");
    test.folder.file("spec.toml", format!("lifetime = \"drain\"\n{text}"));
    let tasks = TASKS.replace("{\"graph\": \"twice\", \"args\": [3]}", "");
    let plain = pelton_with(&["run", &test.spec], &tasks);
    let first = test.run(&[], &tasks);
    assert_eq!((first.code, &first.out), (Some(2), &plain.out), "{}", first.err);
    test.kill_after("\"result\": 9}");
    let second = test.run(&[], &tasks);
    assert_eq!(
        (second.code, &second.out),
        (Some(2), &plain.out),
        "what may not have been printed is: {}",
        second.err
    );
}

#[test]
fn after_a_kill_only_missing_tasks_run() {
    let test = TestRun::new("journal-kill");
    let plain = test.run(&[], TASKS).out;
    test.kill_after("\"result\": 81}");
    let ran = test.run(&["--json"], TASKS);
    assert_eq!((ran.code, &ran.out), (Some(2), &plain), "{}", ran.err);
    assert!(ran.err.contains("cut off 7 bytes at byte "), "{}", ran.err);
    let summary: Value = serde_json::from_str(ran.err.lines().last().expect("a line")).expect("it is JSON");
    assert_eq!((&summary["tasks"], &summary["from_journal"]["done"]), (&3.into(), &2.into()), "{summary}");
}

#[test]
fn it_says_that_memory_is_not_kept() {
    let test = TestRun::new("journal-memory");
    let tasks = "{\"op\": \"add\", \"args\": [1, 5]}\n{\"op\": \"add\", \"args\": [1, 5]}\n";
    assert!(test.run(&["--device", "cpu:1"], tasks).out.contains("\"result\": 5}"));
    test.kill_after("\"line\": 1, ");
    let ran = test.run(&["--device", "cpu:1"], tasks);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.err.matches("the journal does not keep memory: ").count(), 1, "{}", ran.err);
    assert!(
        ran.out.contains("{\"line\": 2, \"op\": \"add\", \"status\": \"done\", \"result\": 0}"),
        "{}",
        ran.out
    );
}

#[test]
fn other_inputs_and_other_specs_are_refused() {
    let test = TestRun::new("journal-other");
    test.run(&[], TASKS);
    let (old, new) = ("{\"op\": \"square\", \"args\": [3]}", "{\"op\": \"square\", \"args\": [7]}");
    let other = TASKS.replace(old, new);
    test.refused(&[], &other, &format!("error: line 2 of the input is {new}, but the journal has {old}"));
    let why = "error: line 3 of the input is {\"op\": \"NOP\"}, but the journal has no task there";
    test.refused(&[], &TASKS.replace("\n\n", "\n{\"op\": \"NOP\"}\n"), why);
    let why = format!("error: the input has no task at line 2, but the journal has {old}");
    test.refused(&[], &TASKS.replace(old, "# nothing"), &why);
    let why =
        "error: the input has no task at line 5, but the journal has {\"op\": \"echo\", \"text\": \"ok\"}";
    test.refused(&[], &TASKS.lines().take(4).map(|line| format!("{line}\n")).collect::<String>(), why);
    test.refused(
        &["--buffer", "data=iota"],
        TASKS,
        "it has no --buffer, and now there is --buffer data=iota",
    );
    test.folder.file("spec.toml", SPEC.replace("mul %x, %x", "add %x, %x"));
    let why =
        "is of another run: the spec has `%y = add %x, %x` where that of the journal has `%y = mul %x, %x`";
    test.refused(&[], TASKS, why);
    test.folder.file("spec.toml", SPEC);
    assert_eq!(test.run(&[], TASKS).code, Some(2), "nothing of this has changed the journal");
}

#[test]
fn a_file_that_fills_a_region_must_stay_the_same() {
    let test = TestRun::new("journal-file");
    let file = test.folder.file("words.bin", [1, 0, 0, 0, 2, 0, 0, 0]);
    let buffer = format!("data=@{file}");
    let task = "{\"op\": \"add\", \"args\": [1, 0]}\n";
    let ran = test.run(&["--buffer", &buffer], task);
    assert!(ran.out.contains("\"result\": 2}"), "{}{}", ran.out, ran.err);
    let replayed = pelton(&["replay", &test.journal, "--compare"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.err);
    test.folder.file("words.bin", [1, 0, 0, 0, 3, 0, 0, 0]);
    test.refused(&["--buffer", &buffer], task, "and now there is --buffer data=@");
    let replayed = pelton(&["replay", &test.journal, "--compare"]);
    assert!(replayed.code == Some(1) && replayed.err.contains("has changed since the journal was begun"));
}

#[test]
fn options_that_do_not_go_together_are_refused_with_a_reason() {
    let test = TestRun::new("journal-options");
    test.refused(&["--watch"], TASKS, "--journal cannot be combined with --watch: a journal is of one spec");
    let out = format!("data={}", test.folder.path("data.bin"));
    test.refused(&["--out", &out], TASKS, "cannot be combined with --out: a journal does not keep memory");
    test.folder.file("spec.toml", format!("events = 1\n{SPEC}"));
    test.refused(&[], TASKS, "cannot be combined with the events of a spec: a journal does not keep signals");
    assert!(!exists(&test.journal));
    let ran = pelton_with(&["run", &test.spec, "--fsync", "answer"], "");
    assert_eq!(ran.code, Some(64), "{}", ran.err);
}

#[test]
fn bad_lines_are_bad_each_time_and_are_no_tasks() {
    let test = TestRun::new("journal-bad");
    let tasks = "{\"op\": \"square\"}\nwrong\n{\"op\": \"square\", \"args\": [2]}\n";
    let stopped = test.run(&[], tasks);
    assert_eq!(stopped.code, Some(1));
    assert_eq!(stopped.out.lines().count(), 1);
    for results in [1, 0] {
        let skipped = test.run(&["--bad", "skip"], tasks);
        assert_eq!((skipped.code, skipped.out.lines().count()), (Some(1), results), "{}", skipped.err);
        assert!(skipped.err.contains("error: line 2: a task is a JSON object"), "{}", skipped.err);
    }
}

#[test]
fn folders_that_cannot_be_journals_are_refused() {
    let test = TestRun::new("journal-folder");
    let journal = &test.journal;
    fs::create_dir(journal).expect("it can be made");
    fs::write(format!("{journal}/notes.txt"), "mine").expect("it can be written");
    test.refused(
        &[],
        TASKS,
        "has other files and no journal; name an empty folder, or one that does not exist",
    );
    fs::remove_dir_all(journal).expect("it can be removed");
    fs::write(journal, "a file").expect("it can be written");
    test.refused(&[], TASKS, "cannot make the folder ");
    for command in ["show", "verify", "stat", "cut"] {
        let ran = pelton(&["journal", command, &test.folder.path("nothing")]);
        assert_eq!(ran.code, Some(1), "{command}");
        assert!(ran.err.contains("error: there is no journal in "), "{command}: {}", ran.err);
    }
    let ran = pelton(&["replay", &test.folder.path("nothing")]);
    assert!(ran.code == Some(1) && ran.err.contains("error: there is no journal in "), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_cannot_be_written_is_refused() {
    // Not even root can make files there.
    let test = TestRun::new("journal-read-only");
    let ran = pelton_with(&["run", &test.spec, "--journal", "/proc/pelton-journal"], TASKS);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    assert!(ran.err.contains("error: cannot make the folder /proc/pelton-journal: "), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_the_journal_can_be_gone_on_with() {
    use std::process::{Command, Stdio};
    let test = TestRun::new("journal-full");
    let tasks: String = (0..2000).map(|k| format!("{{\"op\": \"square\", \"args\": [{k}]}}\n")).collect();
    let input = test.folder.file("tasks.jsonl", &tasks);
    // Files may have 64 KiB here. Without the signal being ignored, a longer one would end the program.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" run \"$1\" --journal \"$2\" --fsync answer < \"$3\"";
    let mut shell = Command::new("bash");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_pelton"), &test.spec, &test.journal, &input]);
    let ran: RunOutput = shell.stdin(Stdio::null()).output().expect("the shell starts").into();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("error: cannot write ") && ran.err.contains("00000001.seg: "), "{}", ran.err);
    let verified = pelton(&["journal", "verify", &test.journal]);
    assert_eq!(verified.code, Some(0), "{}", verified.err);
    // Whatever was printed is in the journal.
    let shown = pelton(&["journal", "show", &test.journal, "--as", "results"]).out;
    assert!(ran.out.lines().all(|line| shown.contains(line)));
    let rest = test.run(&[], &tasks);
    assert_eq!(rest.code, Some(0), "{}", rest.err);
    let plain = pelton_with(&["run", &test.spec], &tasks).out;
    assert_eq!(pelton(&["journal", "show", &test.journal, "--as", "results"]).out, plain);
}

#[test]
fn a_journal_is_shown_counted_and_verified() {
    let test = TestRun::new("journal-show");
    test.run(&[], TASKS);
    let journal = test.journal.as_str();
    let shown = pelton(&["journal", "show", journal]).out;
    let kinds: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(kinds[..3], ["header", "started", "task"]);
    assert_eq!(kinds[kinds.len() - 1], "closed");
    let rows = pelton(&["journal", "show", journal, "--json"]).out;
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
    assert!(rows.len() == kinds.len() && rows.iter().zip(&kinds).all(|(row, kind)| row["kind"] == *kind));
    let input = pelton(&["journal", "show", journal, "--as", "input"]).out;
    assert_eq!(input, TASKS.replace("# squares", ""));
    let spec = pelton(&["journal", "show", journal, "--as", "spec"]).out;
    assert_eq!(spec, pelton(&["kernel", &test.spec, "--whole"]).out);
    let counts: Value =
        serde_json::from_str(&pelton(&["journal", "stat", journal, "--json"]).out).expect("it is JSON");
    assert_eq!((&counts["tasks"], &counts["done"], &counts["faults"]), (&5.into(), &4.into(), &1.into()));
    assert_eq!(
        (&counts["printed"], &counts["starts"], &counts["closed"]),
        (&5.into(), &1.into(), &true.into())
    );
    assert!(
        pelton(&["journal", "stat", journal]).out.contains("results   4 done, 1 fault, 0 missing, 5 printed")
    );
    assert!(pelton(&["journal", "verify", journal]).out.starts_with("whole: 14 records in 1 segment of "));
}

#[test]
fn damage_is_found_and_cut_off_when_asked() {
    let test = TestRun::new("journal-damage");
    test.run(&[], TASKS);
    let segment = format!("{}/00000001.seg", test.journal);
    let mut bytes = fs::read(&segment).expect("it can be read");
    let at = bytes.len() - 150;
    bytes[at] ^= 4;
    fs::write(&segment, bytes).expect("it can be written");
    let why = "00000001.seg is corrupt at byte ";
    test.refused(&[], TASKS, why);
    for args in [&["journal", "verify"][..], &["journal", "stat"], &["replay"]] {
        let ran = pelton(&[args, &[&test.journal]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
    }
    let verified = pelton(&["journal", "verify", &test.journal, "--json"]);
    assert_eq!(verified.code, Some(1));
    assert!(verified.out.contains("\"whole\":false"), "{}", verified.out);
    let cut = pelton(&["journal", "cut", &test.journal]);
    assert!(cut.code == Some(0) && cut.out.starts_with("cut off "), "{}{}", cut.out, cut.err);
    assert_eq!(test.run(&[], TASKS).code, Some(2));
    assert_eq!(pelton(&["journal", "show", &test.journal, "--as", "results"]).out.lines().count(), 5);
}
