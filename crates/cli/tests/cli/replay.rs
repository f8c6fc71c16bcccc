//! `pelton replay`.

use std::fs;

use serde_json::Value;

use crate::{ScratchFolder, pelton, pelton_with};

/// A handler that keeps nothing, and one that doubles what it is given.
const SPEC: &str = r#"
[[handler]]
name = "hash"
text = '''
buffer arg: [u32; 12] global read
buffer data: [u32; ?] global read

fn hash() -> u32 {
  %x = load @arg[0]
  %salt = load @data[3]
  %y = mul %x, 2654435761
  %z = xor %y, %salt
  return %z
}
'''
"#;

/// Records a run of some tasks, and returns the folder of its journal.
fn record(folder: &ScratchFolder, spec: &str, device: &str) -> String {
    let journal = folder.path("journal");
    let mut tasks: String = (0..300).map(|k| format!("{{\"op\": \"hash\", \"args\": [{k}]}}\n")).collect();
    tasks += "\n{\"op\": \"LOAD_U32\", \"args\": [70000]}\n";
    let spec = folder.file("spec.toml", spec);
    let args = ["run", &spec, "--journal", &journal, "--device", device, "--buffer", "data=iota"];
    let ran = pelton_with(&args, tasks);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    folder.file("results.jsonl", ran.out);
    journal
}

#[test]
fn every_device_gives_the_recorded_results() {
    for (on, drain) in [("cpu", false), ("reference", false), ("cpu", true)] {
        let folder = ScratchFolder::new(&format!("replay-{on}-{drain}"));
        let lifetime = if drain { "lifetime = \"drain\"\n" } else { "" };
        let journal = record(&folder, &format!("{lifetime}{SPEC}"), on);
        for device in ["cpu", "reference"] {
            let ran = pelton(&["replay", &journal, "--device", device, "--compare"]);
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            assert_eq!(ran.out, format!("301 results are the same on {device}\n"));
        }
        // The results can be printed, too, and the spec is not needed for that.
        fs::remove_file(folder.path("spec.toml")).expect("it is there");
        let printed = pelton(&["replay", &journal, "--device", "cpu"]);
        assert_eq!((printed.code, printed.out.as_bytes()), (Some(2), &*folder.read("results.jsonl")));
    }
}

#[test]
fn tasks_without_a_recorded_result_are_run_and_counted() {
    let folder = ScratchFolder::new("replay-torn");
    let journal = record(&folder, SPEC, "cpu");
    let segment = format!("{journal}/00000001.seg");
    let bytes = fs::read(&segment).expect("it can be read");
    // The last result, and what is behind it.
    let shown = pelton(&["journal", "show", &journal]).out;
    let last = shown.lines().find(|line| line.contains("\"line\": 302")).expect("it is there");
    let place: usize = last.split([':', ' ']).nth(1).and_then(|at| at.parse().ok()).expect("it has a place");
    fs::write(segment, &bytes[..place + 3]).expect("it can be written");
    let ran = pelton(&["replay", &journal, "--compare"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.ends_with(", and 1 task has no recorded result\n"), "{}", ran.out);
}

#[test]
fn a_planted_difference_is_found() {
    let folder = ScratchFolder::new("replay-difference");
    // The handler of this run gives another result from task 100 on.
    let other = SPEC.replace(
        "  return %z",
        "  %late = ge %x, 100\n  %w = add %z, 1\n  %v = select %late, %w, %z\n  return %v",
    );
    let journal = record(&folder, SPEC, "cpu");
    let plain = fs::read_to_string(folder.path("results.jsonl")).expect("it is text");
    // A recording with the spec of one run and the results of the other.
    let lies = folder.path("lies");
    plant(&folder, &other, &journal, &lies);
    let ran = pelton(&["replay", &lies, "--device", "cpu", "--compare"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    let recorded = plain.lines().nth(100).expect("there are 300");
    for part in [
        "error: the task of line 101 has another result than the journal:\n",
        "\n  task      {\"op\": \"hash\", \"args\": [100]}\n",
        &format!("\n  recorded  {recorded}\n"),
        "\n  replayed  {\"line\": 101, ",
        "\nthe result may depend on the order between tasks, which differs from run to run",
    ] {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
    let ran = pelton(&["replay", &lies, "--device", "cpu", "--compare", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!((&found["same"], &found["difference"]["line"]), (&100.into(), &101.into()));
    assert_eq!(found["difference"]["recorded"], recorded);
    assert_eq!(
        found["difference"]["may_depend_on_order"], true,
        "it reads `data`, which other tasks may change"
    );
}

/// Catches a difference that is excused by the order between tasks although no order can make it.
#[test]
fn a_difference_that_no_order_explains_is_said_to_be_one() {
    let folder = ScratchFolder::new("replay-no-order");
    let apart = SPEC
        .replace("buffer data: [u32; ?] global read\n", "")
        .replace("%salt = load @data[3]", "%salt = add %x, 3");
    let journal = folder.path("journal");
    let spec = folder.file("spec.toml", &apart);
    let tasks = "{\"op\": \"hash\", \"args\": [1]}\n{\"op\": \"hash\", \"args\": [2]}\n";
    let ran = pelton_with(&["run", &spec, "--journal", &journal, "--device", "cpu"], tasks);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lies = folder.path("lies");
    plant(&folder, &apart.replace("add %x, 3", "add %x, 4"), &journal, &lies);
    let ran = pelton(&["replay", &lies, "--device", "cpu", "--compare"]);
    let why = "the task finds nothing that other tasks change, so the order between tasks is not the reason";
    assert!(ran.code == Some(1) && ran.err.contains(why), "{}", ran.err);
}

/// Writes a journal that has the tasks and results of one run and the spec of another.
fn plant(folder: &ScratchFolder, spec: &str, from: &str, to: &str) {
    use pelton::journal::{Journal, JournalOptions, JournalReader, RecordKind};
    let spec = folder.file("other.toml", spec);
    let whole = pelton(&["kernel", &spec, "--whole"]).out;
    let mut reader = JournalReader::open(from.as_ref()).expect("it is a journal");
    let mut copy = Journal::open(to.as_ref(), &JournalOptions::new([0; 32]), |_| {}).expect("it can be made");
    while let Some(record) = reader.next_record().expect("it is whole") {
        let mut bytes = record.bytes.to_vec();
        if record.kind == RecordKind::new(1) {
            let mut header: Value = serde_json::from_slice(&bytes).expect("it is JSON");
            header["spec"] = whole.clone().into();
            bytes = header.to_string().into();
        }
        copy.append(record.kind, &[&bytes]).expect("it can be written");
    }
    copy.close().expect("it can be written");
}

#[test]
fn a_journal_of_another_program_is_refused() {
    use pelton::journal::{Journal, JournalOptions, RecordKind};
    let folder = ScratchFolder::new("replay-other");
    let journal = folder.path("journal");
    let mut other =
        Journal::open(journal.as_ref(), &JournalOptions::new([0; 32]), |_| {}).expect("it can be made");
    other.append(RecordKind::new(77), &[b"mine"]).expect("it can be written");
    other.close().expect("it can be written");
    for args in [&["replay"][..], &["journal", "stat"]] {
        let ran = pelton(&[args, &[&journal]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(ran.err.contains("was not written by `pelton run`"), "{args:?}: {}", ran.err);
    }
    let shown = pelton(&["journal", "show", &journal]);
    assert!(shown.out.contains(" other    kind 77, 4 bytes"), "{}", shown.out);
    assert_eq!(pelton(&["journal", "verify", &journal]).code, Some(0));
}
