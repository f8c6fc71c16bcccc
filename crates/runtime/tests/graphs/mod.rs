//! Random graphs, for tests of what graphs become.

// Not every test that has this module uses all of it.
#![allow(dead_code)]

use pelton::{Graph, NodeArg, NodeId, NodeOp, Opcode, Priority};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// What a random node is, apart from its name. References are numbers that are reduced to nodes.
type NodeChoice = (NodeOp, Option<Priority>, Vec<(u8, u32)>);

fn node_choice() -> impl Strategy<Value = NodeChoice> {
    let op = prop_oneof![
        select(&["nop", "STORE_U32", "Atomic_Add"][..]).prop_map(NodeOp::from),
        select(&[Opcode::LOAD_U32, Opcode::MEMCPY][..]).prop_map(NodeOp::from),
    ];
    (op, option::of(select(Priority::ALL)), vec((0..4u8, any::<u32>()), 0..=12))
}

/// Makes a graph in which a node refers only to nodes that `may_wait_for` allows. Its arguments are waiting and
/// waited-for node.
fn build(
    parameters: u32,
    nodes: Vec<NodeChoice>,
    edges: Vec<(u32, u32)>,
    result: Option<u32>,
    may_wait_for: impl Fn(u32, u32) -> bool,
) -> Graph {
    let count = nodes.len() as u32;
    let mut graph = Graph::new("random", parameters);
    for (node, (op, priority, args)) in (0..).zip(nodes) {
        let args = args.into_iter().map(|(kind, word)| match kind {
            0 if parameters > 0 => NodeArg::Parameter(word % parameters),
            1 if may_wait_for(node, word % count) => NodeId::from_index(word % count).into(),
            _ => word.into(),
        });
        // Names in another order than the nodes.
        let id = graph.node(format!("n{:x}", (node + 1).wrapping_mul(0x9e37_79b1)), op, args);
        if let Some(priority) = priority {
            graph.set_priority(id, priority);
        }
    }
    for (from, to) in edges.into_iter().map(|(from, to)| (from % count, to % count)) {
        if may_wait_for(to, from) {
            graph.edge(NodeId::from_index(from), NodeId::from_index(to));
        }
    }
    if let Some(result) = result {
        graph.set_result(NodeId::from_index(result % count));
    }
    graph
}

/// Graphs without cycles. The numbers of their nodes say nothing about the order.
pub(crate) fn acyclic_graph() -> impl Strategy<Value = Graph> {
    (1..24usize).prop_flat_map(|count| {
        let ranks = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
        let edges = vec(any::<(u32, u32)>(), 0..2 * count);
        (0..=11u32, vec(node_choice(), count), edges, any::<Option<u32>>(), ranks).prop_map(
            |(parameters, nodes, edges, result, ranks)| {
                build(parameters, nodes, edges, result, |to, from| ranks[from as usize] < ranks[to as usize])
            },
        )
    })
}

/// Graphs with and without cycles, but without nodes that wait for themselves.
pub(crate) fn any_graph() -> impl Strategy<Value = Graph> {
    (1..12usize).prop_flat_map(|count| {
        let nodes = vec(node_choice().prop_map(|(op, priority, args)| (op, priority, thin(args))), count);
        let edges = vec(any::<(u32, u32)>(), 0..=2 * count);
        (0..=11u32, nodes, edges, any::<Option<u32>>()).prop_map(|(parameters, nodes, edges, result)| {
            build(parameters, nodes, edges, result, |a, b| a != b)
        })
    })
}

/// Keeps few references, so that not almost every graph has a cycle.
fn thin(args: Vec<(u8, u32)>) -> Vec<(u8, u32)> {
    args.into_iter().map(|(kind, word)| (if word & 0x700 == 0 { kind } else { 3 }, word)).collect()
}
