//! Why a graph is refused.

use std::fmt;

use super::{Graph, NodeId};
use crate::kernel::UnknownOpcode;
use crate::protocol::Opcode;

/// A node that an error names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedNode {
    /// The id of the node.
    pub id: NodeId,
    /// The name of the node.
    pub name: String,
}

impl fmt::Display for NamedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What names a node that does not exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeReference {
    /// An argument of this node, which takes the result of the other.
    Argument(NamedNode),
    /// The beginning of an edge.
    EdgeFrom,
    /// The end of an edge.
    EdgeTo,
    /// The result of the graph.
    Result,
    /// A priority that was set.
    Priority,
}

impl fmt::Display for NodeReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeReference::Argument(node) => write!(f, "node {node} takes the result of"),
            NodeReference::EdgeFrom => f.write_str("an edge begins at"),
            NodeReference::EdgeTo => f.write_str("an edge ends at"),
            NodeReference::Result => f.write_str("the result of the graph is that of"),
            NodeReference::Priority => f.write_str("a priority was set for"),
        }
    }
}

/// Why a node cannot run an operation.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeOpError {
    /// No handler and no built-in operation has the name.
    #[error(transparent)]
    UnknownName(#[from] UnknownOpcode),
    /// The `Spec` has no handler for the opcode.
    #[error("there is no handler for opcode {0}")]
    NoHandler(Opcode),
    /// Nodes cannot have the opcode.
    #[error("a node cannot run {op}: {why}")]
    NotNode { op: Opcode, why: &'static str },
}

/// Why a graph cannot be used with a `Spec`. The texts speak of "the graph", so that whoever shows them can put its name
/// in front.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The name of the graph cannot be one.
    #[error("the name of the graph is {name:?}, and {}", must_be_identifier())]
    Name { name: String },
    /// The graph has no nodes.
    #[error("the graph has no nodes")]
    NoNodes,
    /// The graph has more nodes than it may have.
    #[error("the graph has {found} nodes; it may have at most {most}", most = Graph::MAX_NODES)]
    TooManyNodes { found: usize },
    /// The graph has more edges than it may have.
    #[error("the graph has {found} edges; it may have at most {most}", most = Graph::MAX_EDGES)]
    TooManyEdges { found: usize },
    /// The graph has more parameters than it may have.
    #[error("the graph has {found} parameters; it may have at most {most}", most = Graph::MAX_PARAMETERS)]
    TooManyParameters { found: u32 },
    /// The name of a node cannot be one.
    #[error("the name of node {} is {:?}, and {}", node.id, node.name, must_be_identifier())]
    NodeName { node: NamedNode },
    /// Two nodes have the same name.
    #[error("nodes {first} and {} are both named {:?}", node.id, node.name)]
    DuplicateNode { first: NodeId, node: NamedNode },
    /// A node has more arguments than it may have.
    #[error("node {node} has {found} arguments; it may have at most {most}", most = Graph::MAX_ARGUMENTS)]
    TooManyArguments { node: NamedNode, found: usize },
    /// A node cannot run its operation.
    #[error("node {node}: {source}")]
    Op { node: NamedNode, source: NodeOpError },
    /// A node takes a parameter that the graph does not have.
    #[error("node {node} takes parameter {parameter}, and {}", has_parameters(*parameters))]
    UnknownParameter { node: NamedNode, parameter: u32, parameters: u32 },
    /// An id is not that of a node of this graph. It may come from another graph.
    #[error("{by} node {id}, and the graph has no such node; its last is node {last}")]
    UnknownNode { by: NodeReference, id: NodeId, last: NodeId },
    /// A node waits for itself, because it takes its own result or because of an edge.
    #[error("node {node} waits for itself")]
    SelfEdge { node: NamedNode },
    /// Nodes wait for each other, so none of them could ever begin. Each waits for the one before it, and the first
    /// waits for the last.
    #[error("nodes wait for each other in a cycle: {}", draw_cycle(nodes))]
    Cycle { nodes: Vec<NamedNode> },
}

impl GraphError {
    /// Returns the node at which the mistake is, or `None` if it is not at a certain node.
    pub fn node(&self) -> Option<&NamedNode> {
        match self {
            GraphError::NodeName { node }
            | GraphError::DuplicateNode { node, .. }
            | GraphError::TooManyArguments { node, .. }
            | GraphError::Op { node, .. }
            | GraphError::UnknownParameter { node, .. }
            | GraphError::UnknownNode { by: NodeReference::Argument(node), .. }
            | GraphError::SelfEdge { node } => Some(node),
            GraphError::Cycle { nodes } => nodes.first(),
            _ => None,
        }
    }
}

/// What names must look like, as a clause.
fn must_be_identifier() -> String {
    format!(
        "it must have 1 to {} letters, digits and underscores and must not start with a digit",
        Graph::MAX_NAME
    )
}

/// How many parameters a graph has, as a clause.
fn has_parameters(parameters: u32) -> String {
    match parameters {
        0 => "the graph has no parameters".into(),
        1 => "the graph has one parameter, which is parameter 0".into(),
        count => format!("the graph has {count} parameters, 0 to {}", count - 1),
    }
}

/// The most nodes of a cycle that are shown.
const SHOWN: usize = 16;

/// A cycle with an arrow from each node to one that waits for it. The middle of a long one is left out.
fn draw_cycle(nodes: &[NamedNode]) -> String {
    let mut names: Vec<String> = nodes.iter().chain(nodes.first()).map(NamedNode::to_string).collect();
    if nodes.len() > SHOWN {
        let left_out = SHOWN / 2..nodes.len() - SHOWN / 2;
        let count = left_out.len();
        names.splice(left_out, [format!("({count} more)")]);
    }
    names.join(" -> ")
}
