//! Random graphs with a mistake, and the errors with which they must be refused.

use std::collections::HashSet;

use pelton::graph::{NamedNode, NodeReference};
use pelton::{Error, Graph, GraphEdge, GraphError, NodeArg, NodeId, Opcode, Priority};

use super::{MAX_NODES, PARAMETERS, Random, RandomGraph, node_arg};

/// The error with which a graph with a mistake must be refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Exactly this error.
    Exactly(GraphError),
    /// A node cannot run its operation.
    Op(NamedNode),
    /// The edge closes a cycle.
    Cycle(GraphEdge),
    /// The graph has more nodes than the session takes.
    Size,
}

/// The number of different mistakes.
const MISTAKES: u32 = 14;

/// Makes a mistake in a graph. Returns the graph and the error that it must be refused with, or `None` if the graph has no
/// place for the mistake.
pub(crate) fn broken_graph(random: &mut Random, from: &RandomGraph) -> Option<(Graph, Refusal)> {
    let mut graph = from.graph.clone();
    let count = graph.nodes.len() as u32;
    let (last, beyond) = (NodeId::from_index(count - 1), NodeId::from_index(count + random.below(5)));
    let node = NodeId::from_index(random.below(count));
    let named = NamedNode { id: node, name: graph.nodes[node.index() as usize].name.clone() };
    let broken = &mut graph.nodes[node.index() as usize];
    let unknown = |by| Refusal::Exactly(GraphError::UnknownNode { by, id: beyond, last });
    let refusal = match random.below(MISTAKES) {
        0 | 1 => {
            let edges: Vec<GraphEdge> = from.edges().collect();
            let edge = edges.get(random.below(edges.len().max(1) as u32) as usize)?;
            graph.edge(edge.to, edge.from);
            Refusal::Cycle(GraphEdge { from: edge.to, to: edge.from })
        }
        2 => {
            graph.edge(node, node);
            Refusal::Exactly(GraphError::SelfEdge { node: named })
        }
        3 => {
            broken.op = "quick_mode".into();
            Refusal::Op(named)
        }
        4 => {
            broken.op = [Opcode::PRINTF, Opcode::BATCH_FENCE, Opcode::LAUNCH_GRAPH, Opcode::CANCEL]
                [random.below(4) as usize]
                .into();
            Refusal::Op(named)
        }
        5 => {
            let parameter = PARAMETERS + random.below(3);
            broken.args[random.below(node_arg::FIRST) as usize] = NodeArg::Parameter(parameter);
            let parameters = PARAMETERS;
            Refusal::Exactly(GraphError::UnknownParameter { node: named, parameter, parameters })
        }
        6 => {
            broken.args[random.below(node_arg::FIRST) as usize] = beyond.into();
            unknown(NodeReference::Argument(named))
        }
        7 => {
            graph.edge(beyond, node);
            unknown(NodeReference::EdgeFrom)
        }
        8 => {
            graph.edge(node, beyond);
            unknown(NodeReference::EdgeTo)
        }
        9 => {
            graph.set_result(beyond);
            unknown(NodeReference::Result)
        }
        10 => {
            graph.set_priority(beyond, Priority::High);
            unknown(NodeReference::Priority)
        }
        11 => {
            broken.args.resize(node_arg::COUNT as usize + 1, 7.into());
            let found = broken.args.len();
            Refusal::Exactly(GraphError::TooManyArguments { node: named, found })
        }
        12 => {
            let name = named.name;
            let id = graph.node(name.clone(), "quick_node", []);
            Refusal::Exactly(GraphError::DuplicateNode { first: node, node: NamedNode { id, name } })
        }
        _ => {
            for node in 0..=MAX_NODES {
                graph.node(format!("more{node}"), "quick_node", []);
            }
            Refusal::Size
        }
    };
    Some((graph, refusal))
}

impl Refusal {
    /// Compares the answer of a session with the error that it must give, and says what differs.
    pub(crate) fn check<T>(&self, graph: &Graph, answer: Result<T, Error>) -> Result<(), String> {
        let error = answer.err().ok_or_else(|| format!("a graph with a mistake was taken: {self:?}"))?;
        let right = match (self, &error) {
            (Refusal::Exactly(wanted), Error::Graph { source: found, .. }) => found == wanted,
            (Refusal::Op(wanted), Error::Graph { source: GraphError::Op { node, .. }, .. }) => node == wanted,
            (Refusal::Cycle(edge), Error::Graph { source: GraphError::Cycle { nodes }, .. }) => {
                is_cycle_with(graph, nodes, *edge)
            }
            (Refusal::Size, Error::GraphSize { found, .. }) => *found == graph.nodes.len(),
            _ => false,
        };
        if right {
            Ok(())
        } else {
            Err(format!("a graph was refused with the wrong error: {error}, not {self:?}"))
        }
    }
}

/// Whether these nodes are a cycle of the graph that has this edge: each waits for the one before it.
fn is_cycle_with(graph: &Graph, nodes: &[NamedNode], edge: GraphEdge) -> bool {
    let names = nodes.iter().all(|node| graph.get(node.id).is_some_and(|known| known.name == node.name));
    let different: HashSet<NodeId> = nodes.iter().map(|node| node.id).collect();
    let steps = nodes.iter().zip(nodes.iter().cycle().skip(1));
    let steps: Vec<GraphEdge> = steps.map(|(from, to)| GraphEdge { from: from.id, to: to.id }).collect();
    let has = |step: &GraphEdge| {
        let takes = |arg: &NodeArg| *arg == NodeArg::Result(step.from);
        graph.edges.contains(step) || graph.get(step.to).is_some_and(|node| node.args.iter().any(takes))
    };
    names && different.len() == nodes.len() && steps.contains(&edge) && steps.iter().all(has)
}
