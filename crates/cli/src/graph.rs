//! `pelton graph`: shows the graphs of a spec.

use std::path::PathBuf;

use pelton::graph::{EdgeKind, GraphNode, NodeArg, NodeId};
use pelton::{CheckedGraph, Graph, Spec};
use pelton_filetest::hint::name_hint;
use serde_json::{Value, json};

use crate::CliStatus;
use crate::error::CliError;
use crate::kernel::read_spec_or_stdin;
use crate::term::{Term, TextRole};

/// List the graphs of a spec, or print one as text, DOT or JSON
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton graph spec.toml                           list the graphs, with their sizes
  pelton graph spec.toml sum                       print the graph `sum`, one line per node
  pelton graph spec.toml sum --dot | dot -Tsvg     draw it with Graphviz
  pelton graph spec.toml --json                    print all graphs, one JSON object per line

A graph is a part of a spec. This one computes (x + 10) + (y + 20) from its
parameters x and y, if the handler `add` adds its arguments:

  [[graph]]
  name = \"sum\"
  parameters = 2

  [[graph.node]]
  name = \"left\"
  op = \"add\"
  args = [\"$0\", 10]           # parameter 0, and a constant

  [[graph.node]]
  name = \"right\"
  op = \"add\"
  args = [\"$1\", 20]

  [[graph.node]]
  name = \"total\"
  op = \"add\"
  args = [\"@left\", \"@right\"]  # the results of two nodes, for which it waits
  priority = \"high\"

`after = [\"left\"]` lets a node wait without taking a result; DOT draws such an
edge dashed. The result of the last node is that of the graph, unless the graph
has a key such as `result = \"left\"`. The graphs are checked first, so a cycle or
an unknown operation is an error. If the spec has `claim = \"priority\"`, the text
says which nodes queue at a more urgent level than their own, because a more
urgent node waits for them.")]
pub(crate) struct GraphArgs {
    /// The file with the spec, in TOML; `-` is standard input
    spec: PathBuf,

    /// The graph to print; all are listed if it is left out
    name: Option<String>,

    /// Print in the language DOT, which Graphviz draws
    #[arg(long, conflicts_with = "json")]
    dot: bool,

    /// Print one JSON object per graph
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_graph(args: &GraphArgs, term: &Term) -> Result<CliStatus, CliError> {
    let spec = read_spec_or_stdin(&args.spec, term)?;
    if spec.graphs.is_empty() {
        term.note("the spec has no graphs");
    }
    for graph in chosen_graphs(&spec, args.name.as_deref())? {
        let checked = graph
            .check(&spec)
            .map_err(|error| CliError::Wrong(format!("graph {:?}: {error}", graph.name)))?;
        if args.json {
            term.line(graph_json(&checked))?;
        } else if args.dot {
            term.text(&graph.to_dot())?;
        } else if args.name.is_some() {
            term.text(&checked.to_string())?;
        } else {
            term.line(summary_line(&checked, term))?;
        }
    }
    Ok(CliStatus::Fine)
}

/// The graph with a name, or all graphs.
fn chosen_graphs<'s>(spec: &'s Spec, name: Option<&str>) -> Result<Vec<&'s Graph>, CliError> {
    let Some(name) = name else { return Ok(spec.graphs.iter().collect()) };
    let found = spec.graphs.iter().find(|graph| graph.name == name).ok_or_else(|| {
        let names: Vec<&str> = spec.graphs.iter().map(|graph| graph.name.as_str()).collect();
        CliError::Unknown { kind: "graph", name: name.into(), hint: name_hint(name, &names) }
    })?;
    Ok(vec![found])
}

fn summary_line(checked: &CheckedGraph, term: &Term) -> String {
    let graph = checked.graph();
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    format!(
        "{}  {}, {}, {}",
        term.paint(TextRole::Strong, &graph.name),
        count(graph.nodes.len(), "node"),
        count(checked.edge_count() as usize, "edge"),
        count(graph.parameters as usize, "parameter"),
    )
}

/// A graph as JSON: `{"name", "parameters", "result", "nodes", "edges"}`.
fn graph_json(checked: &CheckedGraph) -> Value {
    let graph = checked.graph();
    let name = |id: NodeId| graph.get(id).map(|node| node.name.as_str());
    let edges = graph.all_edges().into_iter().map(|(edge, kind)| {
        let kind = match kind {
            EdgeKind::Result => "result",
            EdgeKind::Order => "order",
        };
        json!({ "from": name(edge.from), "to": name(edge.to), "kind": kind })
    });
    json!({
        "name": graph.name,
        "parameters": graph.parameters,
        "result": graph.result_node().and_then(name),
        "nodes": graph.iter().map(|(id, node)| node_json(checked, id, node)).collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    })
}

/// A node as JSON. `queues_as` is null if the kernel does not serve tasks by priority.
fn node_json(checked: &CheckedGraph, id: NodeId, node: &GraphNode) -> Value {
    let args = node.args.iter().map(|arg| match arg {
        NodeArg::Constant(word) => json!(word),
        arg => json!(checked.graph().argument_text(*arg)),
    });
    json!({
        "name": node.name,
        "op": node.op.to_string(),
        "code": checked.opcode(id).map(|op| op.code()),
        "args": args.collect::<Vec<_>>(),
        "priority": node.priority.unwrap_or_default().name().to_lowercase(),
        "queues_as": checked.priority(id).map(|priority| priority.name().to_lowercase()),
    })
}
