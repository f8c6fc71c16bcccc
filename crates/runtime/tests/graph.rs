//! Graphs: what `check` makes of them, what it refuses, and how they print.

mod graphs;

use std::collections::BTreeSet;

use graphs::{acyclic_graph, any_graph};
use pelton::graph::{NamedNode, NodeOpError, NodeReference};
use pelton::kernel::{Claim, SlotBody, UnknownOpcode};
use pelton::protocol::graph::{ArgKind, GraphView};
use pelton::{Graph, GraphError, GraphNode, Handler, NodeArg, NodeId, NodeOp, Opcode, Priority, Spec};
use proptest::prelude::*;

fn spec() -> Spec {
    let nothing = || Handler::lane_wide(|task| task.finish(0));
    Spec::default().claim(Claim::PRIORITY).handler("part", nothing()).handler("add", nothing())
}

/// The graph of the module's documentation, with an edge for order alone.
fn sum() -> (Graph, [NodeId; 3]) {
    let mut graph = Graph::new("sum", 2);
    let left = graph.node("left", "part", [NodeArg::Parameter(0), 10.into()]);
    let right = graph.node("right", "part", [NodeArg::Parameter(1), 20.into()]);
    let total = graph.node("total", Opcode::from_code(9), [left.into(), right.into(), left.into()]);
    graph.edge(left, right);
    graph.edge(left, total);
    graph.set_priority(total, Priority::High);
    (graph, [left, right, total])
}

/// The node of an error.
fn named(id: u32, name: &str) -> NamedNode {
    NamedNode { id: NodeId::from_index(id), name: name.into() }
}

fn refusal(graph: &Graph) -> GraphError {
    graph.check(&spec()).expect_err("it is refused")
}

/// The refusal of a graph of three nodes after a change.
fn changed(change: impl FnOnce(&mut Graph)) -> GraphError {
    let (mut graph, _) = sum();
    change(&mut graph);
    refusal(&graph)
}

#[test]
fn a_graph_becomes_exactly_these_words() {
    let (graph, [left, right, total]) = sum();
    let checked = graph.check(&spec()).unwrap();
    #[rustfmt::skip]
    assert_eq!(
        checked.words(),
        [
            3, 2, 2, 0, 3, 0, 0, 0,
            8, 1, 0, 0, 2, 0b00_01, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
            8, 1, 1, 2, 1, 0b00_01, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0,
            9, 1, 2, 3, 0, 0b10_10_10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            1, 2, 2,
        ]
    );
    assert_eq!((checked.edge_count(), checked.levels()), (3, 5));
    let part = spec().opcode("part").unwrap();
    assert_eq!([left, right].map(|node| checked.opcode(node)), [Some(part); 2]);
    assert_eq!(checked.priority(left), Some(Priority::High));
    assert_eq!((checked.opcode(NodeId::from_index(3)), checked.level(NodeId::from_index(3))), (None, None));
    assert_eq!(checked.graph(), &graph);
    // Without levels, all nodes queue at level 0.
    let flat = graph.check(&spec().claim(Claim::Owned)).unwrap();
    assert_eq!([left, right, total].map(|node| flat.level(node)), [Some(0); 3]);
    assert_eq!((flat.levels(), flat.priority(total)), (1, None));
}

#[test]
fn urgency_goes_against_the_edges_and_no_further() {
    let mut graph = Graph::new("urgent", 0);
    let nodes: Vec<NodeId> = (0..5).map(|k| graph.node(format!("n{k}"), "nop", [])).collect();
    let [first, second, last, low, apart] = nodes[..] else { panic!("five nodes") };
    graph.edge(first, second);
    graph.edge(second, last);
    graph.edge(last, low);
    graph.set_priority(first, Priority::Idle);
    graph.set_priority(second, Priority::Critical);
    graph.set_priority(low, Priority::Low);
    let checked = graph.check(&spec()).unwrap();
    let levels = nodes.iter().map(|node| checked.priority(*node).unwrap()).collect::<Vec<_>>();
    // `last` waits for an urgent node, which does not make it urgent.
    assert_eq!(
        levels,
        [Priority::Critical, Priority::Critical, Priority::Normal, Priority::Low, Priority::Normal]
    );
    assert_eq!(checked.priority(apart), Some(Priority::Normal));
    assert!(checked.to_string().contains("  n0 = nop(), priority idle, queues as critical\n"), "{checked}");
}

#[test]
fn names_are_checked() {
    let long = "n".repeat(Graph::MAX_NAME + 1);
    for bad in ["", "7up", "a b", "a-b", "é", "a\n", &long] {
        assert_eq!(changed(|graph| graph.name = bad.into()), GraphError::Name { name: bad.into() });
        let found = changed(|graph| graph.nodes[1].name = bad.into());
        assert_eq!(found, GraphError::NodeName { node: named(1, bad) });
    }
    let found = changed(|graph| graph.nodes[1].name = String::new());
    assert_eq!(
        found.to_string(),
        "the name of node 1 is \"\", and it must have 1 to 64 letters, digits and underscores and must not start with a digit"
    );
    let found = changed(|graph| graph.nodes[2].name = "left".into());
    assert_eq!(found, GraphError::DuplicateNode { first: NodeId::from_index(0), node: named(2, "left") });
    assert_eq!(found.to_string(), "nodes 0 and 2 are both named \"left\"");
    let (mut graph, _) = sum();
    graph.nodes[0].name = "_".repeat(Graph::MAX_NAME);
    assert!(graph.check(&spec()).is_ok());
}

#[test]
fn sizes_are_checked_at_their_limits() {
    assert_eq!(refusal(&Graph::new("none", 0)), GraphError::NoNodes);
    let mut with_result = Graph::new("none", 0);
    with_result.set_result(NodeId::from_index(0));
    assert_eq!(refusal(&with_result), GraphError::NoNodes);
    assert_eq!(changed(|graph| graph.parameters = 12), GraphError::TooManyParameters { found: 12 });
    let found = changed(|graph| graph.nodes[1].args = vec![0.into(); 13]);
    assert_eq!(found, GraphError::TooManyArguments { node: named(1, "right"), found: 13 });
    assert_eq!(found.to_string(), "node right has 13 arguments; it may have at most 12");

    let wide = |count: u32| {
        let mut graph = Graph::new("wide", Graph::MAX_PARAMETERS);
        for k in 0..count {
            graph.node(format!("n{k}"), "nop", [NodeArg::Parameter(10); 12]);
        }
        graph
    };
    let mut graph = wide(Graph::MAX_NODES);
    assert!(graph.check(&spec()).is_ok());
    assert_eq!(refusal(&wide(Graph::MAX_NODES + 1)), GraphError::TooManyNodes { found: 4097 });

    // All edges from one half of 512 nodes to the other.
    for (from, to) in (0..256).flat_map(|from| (256..512).map(move |to| (from, to))) {
        graph.edge(NodeId::from_index(from), NodeId::from_index(to));
    }
    assert_eq!(graph.check(&spec()).unwrap().edge_count(), Graph::MAX_EDGES);
    // An argument that says the same is no further edge.
    graph.nodes[300].args[0] = NodeId::from_index(7).into();
    assert_eq!(graph.check(&spec()).unwrap().edge_count(), Graph::MAX_EDGES);
    graph.nodes[300].args[0] = NodeId::from_index(256).into();
    assert_eq!(refusal(&graph), GraphError::TooManyEdges { found: 65537 });
    graph.edge(NodeId::from_index(0), NodeId::from_index(1));
    assert_eq!(refusal(&graph), GraphError::TooManyEdges { found: 65537 });
}

#[test]
fn operations_must_be_ones_that_a_node_can_run() {
    let with_op = |op: NodeOp| changed(|graph| graph.nodes[0].op = op);
    let found = with_op("prat".into());
    let unknown = UnknownOpcode { name: "prat".into(), nearest: Some("part".into()) };
    assert_eq!(found, GraphError::Op { node: named(0, "left"), source: unknown.into() });
    assert_eq!(found.to_string(), "node left: there is no opcode \"prat\"; did you mean \"part\"?");
    for code in [10, 0xfff0, 0x8000_0000] {
        let source = NodeOpError::NoHandler(Opcode::from_code(code));
        assert_eq!(
            with_op(Opcode::from_code(code).into()),
            GraphError::Op { node: named(0, "left"), source }
        );
    }
    let refused = [
        Opcode::DFA_STEP,
        Opcode::BATCH_FENCE,
        Opcode::LOAD_MISS,
        Opcode::PRINTF,
        Opcode::PACKED_SLOT,
        Opcode::LAUNCH_GRAPH,
        Opcode::SIGNAL,
        Opcode::CANCEL,
        Opcode::SHUTDOWN,
    ];
    for row in pelton::protocol::opcode::TABLE {
        for op in [NodeOp::from(row.opcode), row.name.into(), row.name.to_lowercase().into()] {
            let (mut graph, _) = sum();
            graph.nodes[0].op = op;
            match graph.check(&spec()) {
                Ok(checked) => {
                    assert!(!refused.contains(&row.opcode), "{}", row.name);
                    assert_eq!(checked.opcode(NodeId::from_index(0)), Some(row.opcode));
                }
                Err(error) => {
                    assert!(refused.contains(&row.opcode), "{error}");
                    let begins = format!("node left: a node cannot run {}: ", row.name);
                    assert!(error.to_string().starts_with(&begins), "{error}");
                }
            }
        }
    }
    // Names mean the same as everywhere, even if two handlers have one.
    let nothing = Handler::lane_wide(|task| task.finish(0));
    let twice = spec().handler("part", nothing);
    let checked = sum().0.check(&twice).unwrap();
    assert_eq!(checked.opcode(NodeId::from_index(0)), Some(twice.opcode("part").unwrap()));
    // A kernel with a handler for an opcode of the protocol has it, and a fused one has nothing that is built in.
    let step = Handler::lane_wide(|task| task.finish(task.arg(0)));
    let mut graph = Graph::new("steps", 0);
    graph.node("step", Opcode::DFA_STEP, []);
    let stepping = Spec::default().handler_at(Opcode::DFA_STEP, "dfa_step", step);
    assert!(graph.check(&stepping).is_ok());
    let fused = stepping.body(SlotBody::Fused);
    assert!(graph.check(&fused).is_ok());
    graph.node("nothing", "nop", []);
    let found = graph.check(&fused).unwrap_err().to_string();
    assert_eq!(found, "node nothing: a node cannot run NOP: a fused kernel has no built-in operations");
}

#[test]
fn references_must_lead_somewhere() {
    let found = changed(|graph| graph.nodes[0].args[1] = NodeArg::Parameter(2));
    let node = named(0, "left");
    assert_eq!(found, GraphError::UnknownParameter { node: node.clone(), parameter: 2, parameters: 2 });
    assert_eq!(found.to_string(), "node left takes parameter 2, and the graph has 2 parameters, 0 to 1");
    let alone = changed(|graph| graph.parameters = 0);
    assert_eq!(alone.to_string(), "node left takes parameter 0, and the graph has no parameters");
    let (stray, last) = (NodeId::from_index(3), NodeId::from_index(2));
    type Change = fn(&mut Graph, NodeId);
    let changes: [(NodeReference, Change); 5] = [
        (NodeReference::Argument(node), |graph, id| graph.nodes[0].args.push(id.into())),
        (NodeReference::EdgeFrom, |graph, id| graph.edge(id, NodeId::from_index(0))),
        (NodeReference::EdgeTo, |graph, id| graph.edge(NodeId::from_index(0), id)),
        (NodeReference::Result, |graph, id| graph.set_result(id)),
        (NodeReference::Priority, |graph, id| graph.set_priority(id, Priority::Low)),
    ];
    for (by, change) in changes {
        for id in [stray, NodeId::from_index(u32::MAX)] {
            let found = changed(|graph| change(graph, id));
            assert_eq!(found, GraphError::UnknownNode { by: by.clone(), id, last });
        }
    }
    assert_eq!(
        changed(|graph| graph.nodes[2].args.push(stray.into())).to_string(),
        "node total takes the result of node 3, and the graph has no such node; its last is node 2"
    );
}

#[test]
fn cycles_are_shown() {
    let own_result = changed(|graph| graph.nodes[1].args.push(NodeId::from_index(1).into()));
    assert_eq!(own_result, GraphError::SelfEdge { node: named(1, "right") });
    let own_edge = changed(|graph| graph.edge(NodeId::from_index(2), NodeId::from_index(2)));
    assert_eq!(own_edge.to_string(), "node total waits for itself");
    let found = changed(|graph| {
        graph.edges.clear();
        graph.edge(NodeId::from_index(2), NodeId::from_index(1));
    });
    assert_eq!(found, GraphError::Cycle { nodes: vec![named(1, "right"), named(2, "total")] });
    assert_eq!(found.node(), Some(&named(1, "right")));
    assert_eq!(found.to_string(), "nodes wait for each other in a cycle: right -> total -> right");
}

/// Catches a search that recurses, and a message that nobody can read.
#[test]
fn a_long_chain_is_fine_and_a_long_cycle_is_shown_in_part() {
    let mut graph = Graph::new("chain", 1);
    let mut last: Option<NodeId> = None;
    for k in 0..Graph::MAX_NODES {
        last = Some(graph.node(format!("n{k}"), "nop", [last.map_or(NodeArg::Parameter(0), NodeArg::from)]));
    }
    graph.set_priority(last.unwrap(), Priority::Critical);
    let checked = graph.check(&spec()).unwrap();
    assert!(graph.iter().all(|(id, _)| checked.level(id) == Some(0)));
    graph.edge(last.unwrap(), NodeId::from_index(0));
    let GraphError::Cycle { nodes } = refusal(&graph) else { panic!("it is a cycle") };
    assert_eq!(nodes.len(), 4096);
    let shown = GraphError::Cycle { nodes }.to_string();
    assert!(shown.contains("n6 -> n7 -> (4080 more) -> n4088 -> "), "{shown}");
    assert!(shown.ends_with(" -> n4094 -> n4095 -> n0"), "{shown}");
}

#[test]
fn graphs_print_as_text_and_as_dot() {
    let (graph, _) = sum();
    assert_eq!(
        graph.to_string(),
        "graph sum of 2 parameters, whose result is that of total\n  \
           left = part($0, 10)\n  \
           right = part($1, 20), after left\n  \
           total = 0x9(@left, @right, @left), priority high\n"
    );
    assert_eq!(
        graph.to_dot(),
        r#"digraph "sum" {
  node [shape=box];
  n0 [label="left\npart($0, 10)"];
  n1 [label="right\npart($1, 20)"];
  n2 [label="total\n0x9(@left, @right, @left)\nhigh", peripheries=2];
  n0 -> n1 [style=dashed];
  n0 -> n2;
  n1 -> n2;
}
"#
    );
    assert_eq!(Graph::new("none", 0).to_string(), "graph none of no parameters and without nodes\n");
    assert_eq!(Graph::new("none", 0).to_dot(), "digraph \"none\" {\n  node [shape=box];\n}\n");
    // What cannot be checked can be printed.
    let mut odd = Graph::new("a\"b", 1);
    odd.node("", "\\l", [NodeId::from_index(7).into()]);
    odd.edge(NodeId::from_index(8), NodeId::from_index(9));
    let dot = odd.to_dot();
    for line in
        ["digraph \"a\\\"b\" {", "label=\"\\n\\\\l(@7)\"", "  n7 -> n0;", "  n8 -> n9 [style=dashed];"]
    {
        assert!(dot.contains(line), "{dot}");
    }
    assert!(odd.to_string().contains("  0 = \\l(@7)\n"), "{odd}");
}

/// The edges of a graph, by the simplest means.
fn naive_edges(graph: &Graph) -> BTreeSet<(u32, u32)> {
    let mut edges: BTreeSet<(u32, u32)> =
        graph.edges.iter().map(|edge| (edge.from.index(), edge.to.index())).collect();
    for (to, node) in (0..).zip(&graph.nodes) {
        for arg in &node.args {
            if let NodeArg::Result(from) = arg {
                edges.insert((from.index(), to));
            }
        }
    }
    edges
}

/// For each pair of nodes, whether the second waits for the first, however indirectly.
fn naive_waits(graph: &Graph) -> Vec<Vec<bool>> {
    let count = graph.nodes.len();
    let mut waits = vec![vec![false; count]; count];
    for (from, to) in naive_edges(graph) {
        waits[from as usize][to as usize] = true;
    }
    for (middle, from, to) in
        (0..count).flat_map(|a| (0..count).flat_map(move |b| (0..count).map(move |c| (a, b, c))))
    {
        waits[from][to] |= waits[from][middle] && waits[middle][to];
    }
    waits
}

fn own_level(node: &GraphNode) -> u32 {
    node.priority.unwrap_or(Priority::Normal).code()
}

proptest! {
    #[test]
    fn words_hold_the_whole_graph(graph in acyclic_graph()) {
        let spec = spec();
        let checked = graph.check(&spec).map_err(|error| TestCaseError::fail(format!("{error}\n{graph}")))?;
        let view = GraphView::new(checked.words()).unwrap();
        let last = graph.nodes.len() as u32 - 1;
        prop_assert_eq!((view.parameters(), view.tenant()), (graph.parameters, 0));
        prop_assert_eq!(view.result(), graph.result.map_or(last, NodeId::index));
        prop_assert_eq!(view.rows().len(), graph.nodes.len());
        let edges = naive_edges(&graph);
        let mut listed = BTreeSet::new();
        for (id, (row, node)) in (0..).zip(view.rows().iter().zip(&graph.nodes)) {
            let op = match &node.op {
                NodeOp::Named(name) => spec.opcode(name).unwrap(),
                NodeOp::Code(op) => *op,
            };
            prop_assert_eq!(row.op, op);
            prop_assert_eq!(row.predecessors as usize, edges.iter().filter(|(_, to)| *to == id).count());
            listed.extend(view.successors(row).iter().map(|to| (id, *to)));
            for (k, found) in row.args.into_iter().enumerate() {
                let expect = match node.args.get(k) {
                    None => (ArgKind::Constant, 0),
                    Some(NodeArg::Constant(word)) => (ArgKind::Constant, *word),
                    Some(NodeArg::Parameter(parameter)) => (ArgKind::Parameter, *parameter),
                    Some(NodeArg::Result(from)) => (ArgKind::Result, from.index()),
                };
                prop_assert_eq!(found, expect);
            }
        }
        prop_assert_eq!(listed, edges);
    }

    #[test]
    fn a_node_is_as_urgent_as_the_most_urgent_that_waits_for_it(graph in acyclic_graph()) {
        let (checked, flat) = (graph.check(&spec()).unwrap(), graph.check(&Spec::default()).unwrap());
        let waits = naive_waits(&graph);
        for (id, node) in graph.iter() {
            let waiting = graph.nodes.iter().zip(&waits[id.index() as usize]).filter(|(_, waits)| **waits);
            let expect = waiting.map(|(node, _)| own_level(node)).fold(own_level(node), u32::min);
            prop_assert_eq!(checked.level(id), Some(expect));
            prop_assert_eq!(flat.level(id), Some(0));
        }
    }

    #[test]
    fn exactly_the_graphs_with_cycles_are_refused_and_the_cycle_is_real(graph in any_graph()) {
        let waits = naive_waits(&graph);
        let cyclic = (0..graph.nodes.len()).any(|node| waits[node][node]);
        match graph.check(&spec()) {
            Ok(_) => prop_assert!(!cyclic, "a cycle was not seen\n{graph}"),
            Err(GraphError::Cycle { nodes }) => {
                let edges = naive_edges(&graph);
                let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
                prop_assert_eq!(names.len(), nodes.len(), "a node is there twice");
                for (from, to) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
                    prop_assert_eq!(&graph.get(from.id).unwrap().name, &from.name);
                    prop_assert!(edges.contains(&(from.id.index(), to.id.index())), "{from} -> {to}\n{graph}");
                }
            }
            Err(other) => prop_assert!(false, "{other}\n{graph}"),
        }
    }

    #[test]
    fn no_graph_is_too_odd(graph in any_graph(), ids in any::<[u32; 4]>(), name in any::<String>()) {
        let [from, to, result, taken] = ids.map(NodeId::from_index);
        let mut graph = graph;
        graph.edge(from, to);
        graph.set_result(result);
        graph.set_priority(from, Priority::High);
        graph.node(name, "nop", [taken.into(), NodeArg::Parameter(taken.index())]);
        let _ = graph.check(&spec()).map_err(|error| error.to_string());
        let _ = (graph.to_string(), graph.to_dot(), Spec::default().graph(graph).to_string().parse::<Spec>());
    }
}
