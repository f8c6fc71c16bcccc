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
fuel = 1000000000

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

# Waits until event 1 was signalled seven times.
[[handler]]
name = "waits"
text = '''
import fn wait_event(%event: u32, %count: u32)
buffer frame: [u32; 1] global read_write

fn waits() -> u32 {
  %before = load @frame[0]
  %first = eq %before, 0
  if %first {
    store @frame[0], 1
    call wait_event(1, 7)
  }
  return %before
}
'''

# Signals event 0 after so many turns of a loop.
[[handler]]
name = "late"
text = '''
import fn signal(%event: u32, %times: u32)
buffer arg: [u32; 12] global read

fn late() -> u32 {
  %turns = load @arg[0]
  %sum: u32 = loop %k = 0 to %turns step 1 with %all = 0 {
    %more = mul %all, 3
    %next = add %more, %k
    yield %next
  }
  call signal(0, 1)
  return %sum
}
'''

# Counts to a number in steps of one, and then signals event 0.
[[handler]]
name = "late_step"
text = '''
import fn signal(%event: u32, %times: u32)
import fn yield_now()
buffer arg: [u32; 12] global read
buffer frame: [u32; 1] global read_write

fn late_step() -> u32 {
  %steps = load @arg[0]
  %taken = load @frame[0]
  %over = eq %taken, %steps
  if %over {
    call signal(0, 1)
    return 0
  }
  %next = add %taken, 1
  store @frame[0], %next
  call yield_now()
  return 0
}
'''

[[graph]]
name = "waits"
node = [{ name = "only", op = "waits" }]

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

/// Nobody signals what is left, so the run ends with an error, after all results that there are.
#[test]
fn waiting_in_vain_is_an_error() {
    let lines = r#"
{"tenant": 0, "op": "times", "args": [6, 7], "after": {"event": 1, "count": 3}}
{"tenant": 0, "op": "SIGNAL", "args": [1, 2]}
{"tenant": 1, "op": "NOP", "after": {"event": 0}}
{"tenant": 1, "graph": "sum", "args": [1, 1], "after": {"event": 0}}
{"tenant": 0, "op": "times", "args": [2, 3]}
"#;
    let ran = run(lines, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let results = results(&ran);
    let ends: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(ends, ["cancelled", "done", "cancelled", "cancelled", "done"], "{}", ran.out);
    for part in [
        "error: the tasks that are left wait for events that nothing can signal any more\n",
        "\n  line 2 waits until event 1 of tenant `alice` was signalled 3 times; it was signalled 2 times\n",
        "\n  lines 4 and 5 wait until event 0 of tenant `bob` was signalled once; it was never signalled\n",
        "stopped, because tasks waited for events in vain: 2 done, 3 not run",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

/// The input waits for tasks that wait for a later line: because of a fence, because all cells are taken, or because
/// results that are written in the order of the input fill the ring.
#[test]
fn waiting_for_a_line_that_is_not_read_is_an_error() {
    let waits =
        |event: u32| format!("{{\"tenant\": 0, \"op\": \"NOP\", \"after\": {{\"event\": {event}}}}}\n");
    let signal = "{\"tenant\": 0, \"op\": \"SIGNAL\", \"args\": [0, 1]}\n";
    let fence = "{\"tenant\": 0, \"op\": \"BATCH_FENCE\", \"args\": [1]}\n";
    let cells = waits(0).repeat(9);
    let many = format!("{}{}", waits(0), "{\"tenant\": 0, \"op\": \"NOP\"}\n".repeat(300));
    for (before, kept, why) in [
        (
            waits(0) + fence,
            1,
            "line 2 and those after it were not run: it is submitted when all tasks before",
        ),
        (cells, 8, "line 9 and those after it were not run: tasks that wait have all cells of its producer"),
        (many, 1, "`--order done` frees their slots as soon as they end"),
    ] {
        let ran = run(&(before + signal), &[]);
        assert_eq!(ran.code, Some(1), "{why}: {}", ran.err);
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
        let cancelled = results(&ran).iter().filter(|result| result["status"] == "cancelled").count();
        assert_eq!(cancelled, kept, "{why}: {}", ran.out);
    }
}

/// Tasks that wait have all cells, and the signal stands in one batch with a task that needs a cell.
#[test]
fn a_signal_does_not_wait_for_the_cell_of_a_later_line() {
    let waits = "{\"tenant\": 0, \"op\": \"NOP\", \"after\": {\"event\": 0}}\n".repeat(8);
    let signal = "{\"tenant\": 0, \"op\": \"SIGNAL\", \"args\": [0, 1]}\n";
    let tree = "{\"tenant\": 0, \"op\": \"tree\", \"args\": [2]}\n";
    let ran = run(&(waits + signal + tree), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let right = json!({"line": 10, "op": "tree", "status": "done", "result": 7});
    assert_eq!(results(&ran).last(), Some(&right), "{}", ran.out);
}

/// A launch that finds no instance tries again and again. That does not hide that all others wait.
#[test]
fn launches_without_an_instance_do_not_hide_a_standstill() {
    let lines = "{\"tenant\": 0, \"graph\": \"waits\"}\n".repeat(5);
    let ran = run(&lines, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    for part in [
        "\n  lines 1, 2, 3, 4 and 5 have begun and not ended\n",
        "\n  event 1 of tenant `alice` was never signalled; a task that has begun waits until it was signalled 7 times\n",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(
        results(&ran).iter().filter(|result| result["status"] == "cancelled").count(),
        5,
        "{}",
        ran.out
    );
}

/// A task that takes long before it signals is not taken for one that never will.
#[test]
fn a_signal_that_comes_late_is_awaited() {
    let lines = r#"
{"tenant": 0, "op": "NOP", "after": {"event": 0, "count": 2}}
{"tenant": 0, "op": "late", "args": [300000000]}
{"tenant": 0, "op": "late_step", "args": [2000000]}
{"tenant": 0, "op": "BATCH_FENCE", "args": [3]}
"#;
    let ran = run(lines, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(results(&ran).len(), 4, "{}", ran.out);
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
