//! Graphs: tasks that wait for each other, submitted as one.
//!
//! A [`Graph`] is a value. It has *nodes*, each of which is a task: an opcode, up to twelve arguments and a priority. An
//! argument is a constant, a *parameter* of the graph, which is given anew at each launch, or the result of another node.
//! *Edges* say which node waits for which. A node that takes the result of another waits for it, and
//! [`edge`](Graph::edge) adds edges that only order two nodes. The result of one node is the result of the graph.
//!
//! ```
//! use pelton::{Graph, Handler, NodeArg, Priority, Spec};
//!
//! let spec = Spec::default()
//!     .handler("part", Handler::lane_wide(|task| task.finish(task.arg(0) * task.arg(1))))
//!     .handler("add", Handler::lane_wide(|task| task.finish(task.arg(0) + task.arg(1))));
//!
//! // sum(x, y) = 10 x + 20 y
//! let mut sum = Graph::new("sum", 2);
//! let left = sum.node("left", "part", [NodeArg::Parameter(0), 10.into()]);
//! let right = sum.node("right", "part", [NodeArg::Parameter(1), 20.into()]);
//! let total = sum.node("total", "add", [left.into(), right.into()]);
//! sum.set_priority(total, Priority::High);
//! assert_eq!(
//!     sum.to_string(),
//!     "graph sum of 2 parameters, whose result is that of total\n  \
//!        left = part($0, 10)\n  \
//!        right = part($1, 20)\n  \
//!        total = add(@left, @right), priority high\n"
//! );
//!
//! let checked = sum.check(&spec)?;
//! assert_eq!(checked.opcode(total), Some(spec.opcode("add")?));
//!
//! // An edge that closes a cycle is refused, and the error shows the cycle.
//! sum.edge(total, left);
//! assert_eq!(
//!     sum.check(&spec).unwrap_err().to_string(),
//!     "nodes wait for each other in a cycle: left -> total -> left"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Checking
//!
//! Building a graph never fails. [`Graph::check`] holds it against a [`Spec`], as [`assemble`](crate::kernel::assemble)
//! does with the graphs of a `Spec`, and names what is wrong. What comes out is a [`CheckedGraph`]. It has found the
//! opcode of every node and knows that every node can run once: references lead to nodes that exist, and no node waits
//! for itself, however indirectly. It also has the graph as words for the device, which
//! [`protocol::graph`](crate::protocol::graph) describes.
//!
//! # Urgency
//!
//! A node that has to wait for a less urgent node would be as late as that node. So a node queues at the most urgent of
//! its own level and of the levels at which the nodes that wait for it queue. Its own level is its priority, or
//! [`Priority::Normal`] if it has none. These levels are worked out when the graph is checked. In a kernel that does
//! not serve tasks by priority, all nodes queue at level 0.
//!
//! # Forms
//!
//! `Display` writes a graph for people, [`Graph::to_dot`] writes it for Graphviz, and the
//! [text of a `Spec`](crate::kernel::text) has graphs as tables. `pelton graph` prints the graphs of a `Spec`.

mod check;
mod dot;
mod edges;
mod error;
mod ops;
mod print;

use std::collections::BTreeSet;
use std::fmt;

use crate::kernel::Spec;
use crate::protocol::{Opcode, Priority, graph};

pub use check::CheckedGraph;
pub use error::{GraphError, NamedNode, NodeOpError, NodeReference};
pub(crate) use ops::OpFinder;

/// The number of a node in its graph. The first node has number 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// Returns the id of the node with this number.
    pub const fn from_index(index: u32) -> Self {
        NodeId(index)
    }

    /// Returns the number of the node.
    pub const fn index(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a node does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum NodeOp {
    /// The operation with this name, which is looked up as [`Spec::opcode`] does.
    Named(String),
    /// The operation with this opcode.
    Code(Opcode),
}

impl From<&str> for NodeOp {
    fn from(name: &str) -> Self {
        NodeOp::Named(name.into())
    }
}

impl From<String> for NodeOp {
    fn from(name: String) -> Self {
        NodeOp::Named(name)
    }
}

impl From<Opcode> for NodeOp {
    fn from(op: Opcode) -> Self {
        NodeOp::Code(op)
    }
}

/// An argument of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeArg {
    /// The same word at each launch.
    Constant(u32),
    /// The parameter of the graph with this number. The first has number 0.
    Parameter(u32),
    /// The result of another node.
    Result(NodeId),
}

impl From<u32> for NodeArg {
    fn from(word: u32) -> Self {
        NodeArg::Constant(word)
    }
}

impl From<NodeId> for NodeArg {
    fn from(node: NodeId) -> Self {
        NodeArg::Result(node)
    }
}

/// A node of a graph, which is one task per launch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GraphNode {
    /// The name of the node, which no other node of its graph has.
    pub name: String,
    /// What the node does.
    pub op: NodeOp,
    /// How urgent the node is by itself. If this is `None`, its priority is normal.
    pub priority: Option<Priority>,
    /// The arguments. Those that are not given are 0.
    pub args: Vec<NodeArg>,
}

/// An order between two nodes: `to` begins after `from` has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GraphEdge {
    /// The node that is waited for.
    pub from: NodeId,
    /// The node that waits.
    pub to: NodeId,
}

/// Why one node of a graph waits for another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum EdgeKind {
    /// The node takes the result of the other.
    Result,
    /// The node only has to run after the other.
    Order,
}

/// Tasks that wait for each other. The [module](self) explains graphs with an example.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Graph {
    /// The name of the graph.
    pub name: String,
    /// How many parameters the graph has.
    pub parameters: u32,
    /// The nodes, by their numbers.
    pub nodes: Vec<GraphNode>,
    /// The edges that were added, apart from those that arguments imply.
    pub edges: BTreeSet<GraphEdge>,
    /// The node whose result is the result of the graph. If this is `None`, it is the last node.
    pub result: Option<NodeId>,
    /// The first id that was given a priority and is not that of a node.
    stray: Option<NodeId>,
}

impl Graph {
    /// The most nodes that a graph can have.
    pub const MAX_NODES: u32 = graph::MAX_NODES;
    /// The most edges that a graph can have. Edges between the same two nodes count once.
    pub const MAX_EDGES: u32 = graph::MAX_EDGES;
    /// The most parameters that a graph can have. One argument of the task that launches the graph says which graph it
    /// is.
    pub const MAX_PARAMETERS: u32 = graph::MAX_PARAMETERS;
    /// The most arguments that a node can have.
    pub const MAX_ARGUMENTS: u32 = graph::ARGS as u32;
    /// The longest name of a graph or a node, in characters.
    pub const MAX_NAME: usize = 64;

    /// Makes a graph with this many parameters and no nodes.
    pub fn new(name: impl Into<String>, parameters: u32) -> Self {
        let (nodes, edges) = (Vec::new(), BTreeSet::new());
        Graph { name: name.into(), parameters, nodes, edges, result: None, stray: None }
    }

    /// Adds a node, and returns its id. It waits for the nodes whose results it takes.
    pub fn node(
        &mut self,
        name: impl Into<String>,
        op: impl Into<NodeOp>,
        args: impl IntoIterator<Item = NodeArg>,
    ) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let args = args.into_iter().collect();
        self.nodes.push(GraphNode { name: name.into(), op: op.into(), priority: None, args });
        id
    }

    /// Lets the node `to` begin only after the node `from` has ended. Saying this twice changes nothing.
    pub fn edge(&mut self, from: NodeId, to: NodeId) {
        self.edges.insert(GraphEdge { from, to });
    }

    /// Sets how urgent a node is by itself. An id that is not that of a node is reported when the graph is checked.
    pub fn set_priority(&mut self, node: NodeId, priority: Priority) {
        match self.nodes.get_mut(node.0 as usize) {
            Some(node) => node.priority = Some(priority),
            None => self.stray = self.stray.or(Some(node)),
        }
    }

    /// Makes the result of a node the result of the graph. Without this, it is that of the last node.
    pub fn set_result(&mut self, node: NodeId) {
        self.result = Some(node);
    }

    /// Returns the node whose result is the result of the graph, or `None` if the graph has no nodes.
    pub fn result_node(&self) -> Option<NodeId> {
        self.result.or_else(|| self.nodes.len().checked_sub(1).map(|last| NodeId(last as u32)))
    }

    /// Returns the node with this id, or `None` if the graph has no such node.
    pub fn get(&self, node: NodeId) -> Option<&GraphNode> {
        self.nodes.get(node.0 as usize)
    }

    /// Returns the ids and the nodes, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &GraphNode)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// Checks the graph against the handlers and the levels of a `Spec`.
    ///
    /// # Errors
    ///
    /// [`GraphError`] names the first thing that is wrong, and the node at which it is.
    pub fn check(&self, spec: &Spec) -> Result<CheckedGraph, GraphError> {
        check::check_graph(self, spec)
    }
}
