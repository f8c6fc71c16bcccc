//! `pelton graph`.

use crate::{ScratchFolder, pelton, pelton_with};
use serde_json::{Value, json};

const SPEC: &str = r#"
claim = "priority"

[[graph]]
name = "sum"
parameters = 2

[[graph.node]]
name = "left"
op = "atomic_add"
args = ["$0", 10]

[[graph.node]]
name = "right"
op = 2
args = ["$1", 20]
after = ["left"]

[[graph.node]]
name = "total"
op = "nop"
args = ["@left", "@right"]
priority = "high"

[[graph]]
name = "alone"
node = [{ name = "only", op = "nop" }]
"#;

/// Runs the command with a spec on standard input.
fn graph(args: &[&str]) -> (Option<i32>, String, String) {
    let ran = pelton_with(&[&["graph", "-"], args].concat(), SPEC);
    (ran.code, ran.out, ran.err)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

#[test]
fn graphs_are_listed() {
    let (code, out, err) = graph(&[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "sum  3 nodes, 3 edges, 2 parameters\nalone  1 node, 0 edges, 0 parameters\n");
    let none = pelton_with(&["graph", "-"], "");
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert_eq!(none.err, "the spec has no graphs\n");
}

#[test]
fn one_graph_is_printed_for_people() {
    let (code, out, err) = graph(&["sum"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(
        out,
        "graph sum of 2 parameters, whose result is that of total\n  \
           left = atomic_add($0, 10), queues as high\n  \
           right = ATOMIC_ADD($1, 20), after left, queues as high\n  \
           total = nop(@left, @right), priority high\n"
    );
}

#[test]
fn graphs_are_printed_for_graphviz() {
    let (code, out, err) = graph(&["sum", "--dot"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("digraph \"sum\" {\n") && out.ends_with("}\n"), "{out}");
    for line in ["  n0 [label=\"left\\natomic_add($0, 10)\"];", "  n0 -> n1 [style=dashed];", "  n0 -> n2;"] {
        assert!(out.lines().any(|found| found == line), "{line} is not in\n{out}");
    }
    let (_, all, _) = graph(&["--dot"]);
    assert_eq!(all.matches("digraph ").count(), 2);
    assert!(all.starts_with(&out), "{all}");
}

#[test]
fn graphs_are_printed_for_programs() {
    let (code, out, err) = graph(&["--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let [sum, alone] = &lines(&out)[..] else { panic!("two lines, not {out}") };
    assert_eq!(
        sum,
        &json!({
            "name": "sum",
            "parameters": 2,
            "result": "total",
            "nodes": [
                { "name": "left", "op": "atomic_add", "code": 2, "args": ["$0", 10], "priority": "normal", "queues_as": "high" },
                { "name": "right", "op": "ATOMIC_ADD", "code": 2, "args": ["$1", 20], "priority": "normal", "queues_as": "high" },
                { "name": "total", "op": "nop", "code": 0, "args": ["@left", "@right"], "priority": "high", "queues_as": "high" },
            ],
            "edges": [
                { "from": "left", "to": "right", "kind": "order" },
                { "from": "left", "to": "total", "kind": "result" },
                { "from": "right", "to": "total", "kind": "result" },
            ],
        })
    );
    assert_eq!(lines(&graph(&["alone", "--json"]).1), std::slice::from_ref(alone));
    let owned = pelton_with(&["graph", "-", "alone", "--json"], SPEC.replace("\"priority\"", "\"owned\""));
    assert_eq!(lines(&owned.out)[0]["nodes"][0]["queues_as"], Value::Null, "{}", owned.err);
}

#[test]
fn what_is_wrong_is_shown() {
    let (code, out, err) = graph(&["smu"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("there is no graph `smu`; did you mean sum? there is sum, alone"), "{err}");
    let (code, out, _) = graph(&["sum", "--dot", "--json"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    let folder = ScratchFolder::new("graph-wrong");
    let spec = folder.file("spec.toml", SPEC.replace("[\"$0\", 10]", "[\"@total\"]"));
    let ran = pelton(&["graph", &spec]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    for part in ["spec.toml:9:8", "in a cycle: left -> "] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

/// Catches a help whose example is not a spec.
#[test]
fn the_help_shows_a_graph_that_works() {
    let help = pelton(&["graph", "--help"]).out;
    let toml: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "  [[graph]]")
        .take_while(|line| line.is_empty() || line.starts_with("  "))
        .collect();
    let spec = format!(
        "{}\n[[handler]]\nname = \"add\"\ntext = 'fn add() -> u32 {{ return 0 }}'\n",
        toml.join("\n")
    );
    let ran = pelton_with(&["graph", "-", "sum"], &spec);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 4), "{spec}\n{}", ran.err);
}
