//! From a graph to words for the device: the one step that can refuse a graph.
//!
//! Nothing here recurses, and apart from sorting the edges, the time that it takes is proportional to the size of the
//! graph. So a graph that a stranger has written can do no harm.

use std::collections::HashMap;

use super::edges::SuccessorLists;
use super::{Graph, GraphEdge, GraphError, NamedNode, NodeArg, NodeId, NodeReference, OpFinder};
use crate::identifier::is_identifier;
use crate::kernel::Spec;
use crate::protocol::graph::{self, ArgKind, NodeRow};
use crate::protocol::{Opcode, Priority};

/// A graph that was checked against a `Spec`: every node has an opcode and a level, and can run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CheckedGraph {
    graph: Graph,
    words: Vec<u32>,
    /// How many levels the kernel has.
    levels: u32,
}

impl CheckedGraph {
    /// Returns the graph that was checked.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the words of the graph, which [`protocol::graph`](crate::protocol::graph) describes. The tenant in them
    /// is 0.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns how many levels the kernel has: one, or one per priority.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Returns how many edges the graph has, each counted once.
    pub fn edge_count(&self) -> u32 {
        self.words[graph::EDGES as usize]
    }

    /// Returns the opcode of a node, or `None` if the graph has no such node.
    pub fn opcode(&self, node: NodeId) -> Option<Opcode> {
        self.node_word(node, graph::OP).map(Opcode::from_code)
    }

    /// Returns the level at which a node queues, or `None` if the graph has no such node. 0 is the most urgent level.
    pub fn level(&self, node: NodeId) -> Option<u32> {
        self.node_word(node, graph::LEVEL)
    }

    /// Returns the priority at which a node queues. It is `None` if the graph has no such node, or if the kernel does not
    /// serve tasks by priority.
    pub fn priority(&self, node: NodeId) -> Option<Priority> {
        if self.levels == 1 { None } else { self.level(node).and_then(Priority::from_code) }
    }

    fn node_word(&self, node: NodeId, word: u32) -> Option<u32> {
        self.graph.get(node).map(|_| self.words[graph::node_at(node.index()) + word as usize])
    }
}

/// Checks a graph, and writes its words.
pub(super) fn check_graph(graph: &Graph, spec: &Spec) -> Result<CheckedGraph, GraphError> {
    let result = check_sizes(graph)?;
    let ops = check_nodes(graph, spec)?;
    check_references(graph, result)?;
    let edges = graph.all_edges();
    if let Some((edge, _)) = edges.iter().find(|(edge, _)| edge.from == edge.to) {
        return Err(GraphError::SelfEdge { node: named(graph, edge.to) });
    }
    if edges.len() > Graph::MAX_EDGES as usize {
        return Err(GraphError::TooManyEdges { found: edges.len() });
    }
    let lists = SuccessorLists::new(graph.nodes.len(), &edges);
    let order = lists.order().map_err(|cycle| GraphError::Cycle {
        nodes: cycle.into_iter().map(|node| named(graph, NodeId::from_index(node as u32))).collect(),
    })?;
    let levels = spec.claim.levels();
    let node_levels = effective_levels(graph, &lists, &order, levels);
    let rows: Vec<NodeRow> = (0..graph.nodes.len())
        .map(|node| {
            let (first_successor, successors) = lists.place(node);
            NodeRow {
                op: ops[node],
                level: node_levels[node],
                predecessors: lists.predecessors[node],
                first_successor,
                successors,
                args: encode_args(&graph.nodes[node].args),
            }
        })
        .collect();
    let words = graph::encode_graph(graph.parameters, result.index(), &rows, &lists.list);
    Ok(CheckedGraph { graph: graph.clone(), words, levels })
}

/// Refuses a graph that cannot be named, or that is too large or empty. Returns the node whose result it gives.
fn check_sizes(graph: &Graph) -> Result<NodeId, GraphError> {
    if !is_identifier(&graph.name, Graph::MAX_NAME) {
        return Err(GraphError::Name { name: graph.name.clone() });
    }
    if graph.parameters > Graph::MAX_PARAMETERS {
        return Err(GraphError::TooManyParameters { found: graph.parameters });
    }
    if graph.nodes.len() > Graph::MAX_NODES as usize {
        return Err(GraphError::TooManyNodes { found: graph.nodes.len() });
    }
    if graph.edges.len() > Graph::MAX_EDGES as usize {
        return Err(GraphError::TooManyEdges { found: graph.edges.len() });
    }
    graph.result_node().filter(|_| !graph.nodes.is_empty()).ok_or(GraphError::NoNodes)
}

/// Checks each node by itself, and returns the opcodes.
fn check_nodes(graph: &Graph, spec: &Spec) -> Result<Vec<Opcode>, GraphError> {
    let finder = OpFinder::new(spec);
    let mut first_of = HashMap::with_capacity(graph.nodes.len());
    let mut ops = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let named = || named(graph, id);
        if !is_identifier(&node.name, Graph::MAX_NAME) {
            return Err(GraphError::NodeName { node: named() });
        }
        let first = *first_of.entry(node.name.as_str()).or_insert(id);
        if first != id {
            return Err(GraphError::DuplicateNode { first, node: named() });
        }
        if node.args.len() > Graph::MAX_ARGUMENTS as usize {
            return Err(GraphError::TooManyArguments { node: named(), found: node.args.len() });
        }
        ops.push(finder.find(&node.op).map_err(|source| GraphError::Op { node: named(), source })?);
    }
    Ok(ops)
}

/// Refuses references to parameters and nodes that do not exist.
fn check_references(graph: &Graph, result: NodeId) -> Result<(), GraphError> {
    let last = NodeId::from_index(graph.nodes.len() as u32 - 1);
    let check_id = |id: NodeId, by: NodeReference| {
        if id <= last { Ok(()) } else { Err(GraphError::UnknownNode { by, id, last }) }
    };
    for (id, node) in graph.iter() {
        for arg in &node.args {
            match *arg {
                NodeArg::Parameter(parameter) if parameter >= graph.parameters => {
                    let (node, parameters) = (named(graph, id), graph.parameters);
                    return Err(GraphError::UnknownParameter { node, parameter, parameters });
                }
                NodeArg::Result(from) => check_id(from, NodeReference::Argument(named(graph, id)))?,
                NodeArg::Constant(_) | NodeArg::Parameter(_) => {}
            }
        }
    }
    for GraphEdge { from, to } in &graph.edges {
        check_id(*from, NodeReference::EdgeFrom)?;
        check_id(*to, NodeReference::EdgeTo)?;
    }
    check_id(result, NodeReference::Result)?;
    graph.stray.map_or(Ok(()), |stray| check_id(stray, NodeReference::Priority))
}

/// Returns the level of each node: the most urgent, which is the lowest, of its own and of those of its successors.
fn effective_levels(graph: &Graph, lists: &SuccessorLists, order: &[usize], levels: u32) -> Vec<u32> {
    let mut found = vec![0; graph.nodes.len()];
    if levels > 1 {
        for &node in order.iter().rev() {
            let own = graph.nodes[node].priority.unwrap_or_default().code();
            found[node] = lists.of(node).iter().map(|to| found[*to as usize]).fold(own, u32::min);
        }
    }
    found
}

/// Returns the arguments of a node as its row has them.
fn encode_args(args: &[NodeArg]) -> [(ArgKind, u32); graph::ARGS] {
    let mut row = [(ArgKind::Constant, 0); graph::ARGS];
    for (to, arg) in row.iter_mut().zip(args) {
        *to = match arg {
            NodeArg::Constant(word) => (ArgKind::Constant, *word),
            NodeArg::Parameter(parameter) => (ArgKind::Parameter, *parameter),
            NodeArg::Result(node) => (ArgKind::Result, node.index()),
        };
    }
    row
}

/// A node as errors name it.
fn named(graph: &Graph, id: NodeId) -> NamedNode {
    NamedNode { id, name: graph.get(id).map_or_else(|| id.to_string(), |node| node.name.clone()) }
}
