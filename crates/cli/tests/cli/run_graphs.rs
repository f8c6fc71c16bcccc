//! `pelton run` with tasks that launch graphs, spawn tasks, and wait for events.

use serde_json::{Value, json};

use crate::{RunOutput, ScratchFolder, pelton_with};

/// A spec with the graph `sum`, which gives 10 x + 20 y, and the handler `tree`, which spawns two tasks of depth n - 1 and
/// gives the number of tasks of its tree.
const SPEC: &str = r#"
cells = 8
spawn_cells = 64
events = 2
graph_instances = 2

[geometry]
slots = 64

[[tenant]]
id = 0
name = "alice"

[[tenant]]
id = 1
name = "bob"

[[handler]]
name = "times"
text = '''
buffer arg: [u32; 12] global read
fn times() -> u32 {
  %a = load @arg[0]
  %b = load @arg[1]
  %c = mul %a, %b
  return %c
}
'''

[[handler]]
name = "plus"
text = '''
buffer arg: [u32; 12] global read
fn plus() -> u32 {
  %a = load @arg[0]
  %b = load @arg[1]
  %c = add %a, %b
  return %c
}
'''

[[handler]]
name = "tree"
text = '''
import fn reserve_children(%count: u32) -> u32
import fn spawn(%op: u32, %level: u32, %into: u32, %argument: u32)
import fn own_opcode() -> u32
import fn wait_children()
buffer arg: [u32; 12] global read
buffer frame: [u32; 3] global read_write

fn tree() -> u32 {
  %depth = load @arg[0]
  %leaf = eq %depth, 0
  if %leaf {
    return 1
  }
  %joined = load @frame[0]
  %first = eq %joined, 0
  if %first {
    %room = call reserve_children(2)
    %none = eq %room, 0
    if %none {
      %all = shl 2, %depth
      %own = sub %all, 1
      return %own
    }
    store @frame[0], 1
    %op = call own_opcode()
    %less = sub %depth, 1
    call spawn(%op, 5, 1, %less)
    call spawn(%op, 5, 2, %less)
    call wait_children()
    return 0
  }
  %left = load @frame[1]
  %right = load @frame[2]
  %both = add %left, %right
  %sum = add %both, 1
  return %sum
}
'''

[[graph]]
name = "sum"
parameters = 2
node = [
  { name = "left", op = "times", args = ["$0", 10] },
  { name = "right", op = "times", args = ["$1", 20] },
  { name = "total", op = "plus", args = ["@left", "@right"] },
]

[[graph]]
name = "faulty"
node = [{ name = "only", op = "LOAD_U32", args = [5000] }]
"#;

fn run(lines: &str, options: &[&str]) -> RunOutput {
    let folder = ScratchFolder::new("run-graphs");
    let spec = folder.file("spec.toml", SPEC);
    pelton_with(&[&["run", &spec, "--device", "cpu"], options].concat(), lines)
}

fn results(ran: &RunOutput) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// There are far more launches than instances, and both tenants launch the same graph.
#[test]
fn graphs_are_launched_any_number_of_times() {
    let launch =
        |k: u32| format!("{{\"graph\": \"sum\", \"args\": [{k}, {}], \"tenant\": {}}}\n", k + 1, k % 2);
    let lines: String = (0..50).map(launch).collect();
    let ran = run(&lines, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for (k, result) in results(&ran).into_iter().enumerate() {
        let right = json!({"line": k + 1, "graph": "sum", "status": "done", "result": 30 * k + 20});
        assert_eq!(result, right);
    }
    let ran = run("{\"graph\": \"faulty\", \"tenant\": 1}\n", &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let right = json!({"line": 1, "graph": "faulty", "status": "fault", "fault": {"code": 2, "name": "out of region"}});
    assert_eq!(results(&ran), [right]);
}

#[test]
fn tasks_begin_after_events() {
    let lines = r#"
{"tenant": 0, "op": "ATOMIC_ADD", "args": [1, 3], "after": {"event": 1, "count": 2}}
{"tenant": 0, "graph": "sum", "args": [1, 1], "after": {"event": 1}}
{"tenant": 0, "op": "times", "args": [6, 7], "after": {"event": 0}}
{"tenant": 0, "op": "SIGNAL", "args": [1, 1]}
{"tenant": 0, "op": "SIGNAL", "args": [0, 1]}
{"tenant": 0, "op": "SIGNAL", "args": [1, 1]}
"#;
    let ran = run(lines, &["--stats", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let results = results(&ran);
    let ended: Vec<&Value> = results.iter().map(|result| &result["result"]).collect();
    assert_eq!(ended, [0, 30, 42, 0, 0, 0]);
    let summary: Value = serde_json::from_str(&ran.err).unwrap();
    let event = |event: u32, count: u32| json!({"tenant": "alice", "event": event, "count": count, "waiters": 0, "awaited": null});
    assert_eq!(summary["stats"]["cells"]["trees"]["events"], json!([event(0, 1), event(1, 2)]), "{summary}");
}

#[test]
fn trees_and_graphs_are_counted() {
    let ran = run(
        "{\"tenant\": 0, \"op\": \"tree\", \"args\": [4]}\n{\"tenant\": 0, \"graph\": \"sum\", \"args\": [1, 2]}\n",
        &["--stats"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let results = results(&ran);
    assert_eq!((&results[0]["result"], &results[1]["result"]), (&json!(31), &json!(50)));
    // Fifteen tasks of the tree wait for their children, and thirty are spawned, beside three nodes.
    assert!(ran.err.contains("15 waits, 33 children"), "{}", ran.err);
    assert!(ran.err.contains("\ngraphs     0 under way\n"), "{}", ran.err);
}

#[test]
fn lines_that_cannot_run_say_why() {
    for (line, why) in [
        (r#"{"graph": "smu"}"#, "line 1: there is no graph `smu`; did you mean sum?"),
        (r#"{"graph": "sum", "tenant": 0}"#, "graph \"sum\" has 2 parameters, and 0 were given"),
        (r#"{"graph": "sum", "op": "tree"}"#, "a task has an `op` or a `graph`, not both"),
        (r#"{"op": "NOP", "tenant": 0, "after": {"event": 2}}"#, "there is no event 2"),
    ] {
        let ran = run(line, &[]);
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
    let plain = "[[handler]]\nname = \"f\"\ntext = \"fn f() -> u32 { return 1 }\"\n";
    for (spec, line, why) in [
        (plain.into(), r#"{"graph": "g"}"#, "there is no graph `g`, because the spec has no graphs"),
        (plain.into(), r#"{"op": "f", "after": {"event": 0}}"#, "event 0"),
        (
            format!("lifetime = \"drain\"\n{plain}"),
            r#"{"op": "f", "after": {"event": 0}}"#,
            "a drained batch has no events",
        ),
    ] {
        let folder = ScratchFolder::new("run-graphs-wrong");
        let ran = pelton_with(&["run", &folder.file("spec.toml", &spec), "--device", "cpu"], line);
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
}
