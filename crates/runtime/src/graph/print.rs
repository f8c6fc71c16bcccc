//! Graphs as text for people: a line for the graph, and one per node.

use std::fmt;

use super::{CheckedGraph, EdgeKind, Graph, GraphNode, NodeArg, NodeId, NodeOp};
use crate::protocol::Opcode;

/// Prints the name of an operation, or the number of an opcode that has no name.
impl fmt::Display for NodeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeOp::Named(name) => f.pad(name),
            NodeOp::Code(op) => Opcode::fmt(op, f),
        }
    }
}

impl Graph {
    /// Returns the name of a node, or its number if it has none.
    pub(crate) fn node_text(&self, id: NodeId) -> String {
        match self.get(id) {
            Some(node) if !node.name.is_empty() => node.name.clone(),
            _ => id.to_string(),
        }
    }

    /// Returns an argument as texts of graphs have it: a number for a constant, `$0` for parameter 0, and `@left` for
    /// the result of the node `left`.
    pub fn argument_text(&self, arg: NodeArg) -> String {
        match arg {
            NodeArg::Constant(word) => word.to_string(),
            NodeArg::Parameter(parameter) => format!("${parameter}"),
            NodeArg::Result(node) => format!("@{}", self.node_text(node)),
        }
    }

    /// Returns the operation of a node with its arguments, as in `add(@left, 1)`.
    pub(super) fn call_text(&self, node: &GraphNode) -> String {
        let args: Vec<String> = node.args.iter().map(|arg| self.argument_text(*arg)).collect();
        format!("{}({})", node.op, args.join(", "))
    }

    /// Writes the line of the graph, and then one per node, with what `note` says about it.
    fn write_lines(
        &self,
        f: &mut fmt::Formatter<'_>,
        note: impl Fn(NodeId) -> Option<String>,
    ) -> fmt::Result {
        let parameters = match self.parameters {
            0 => "no parameters".into(),
            1 => "one parameter".into(),
            count => format!("{count} parameters"),
        };
        write!(f, "graph {} of {parameters}", self.name)?;
        match self.result_node() {
            Some(result) => writeln!(f, ", whose result is that of {}", self.node_text(result))?,
            None => writeln!(f, " and without nodes")?,
        }
        let mut after = vec![Vec::new(); self.nodes.len()];
        for (edge, _) in self.all_edges().iter().filter(|(_, kind)| *kind == EdgeKind::Order) {
            if let Some(list) = after.get_mut(edge.to.index() as usize) {
                list.push(self.node_text(edge.from));
            }
        }
        for ((id, node), after) in self.iter().zip(after) {
            write!(f, "  {} = {}", self.node_text(id), self.call_text(node))?;
            if !after.is_empty() {
                write!(f, ", after {}", after.join(" and "))?;
            }
            if let Some(priority) = node.priority {
                write!(f, ", priority {}", priority.name().to_lowercase())?;
            }
            writeln!(f, "{}", note(id).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Writes the graph for people. The [text of a `Spec`](crate::kernel::text) is the form that can be read back.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_lines(f, |_| None)
    }
}

/// Writes the graph for people, and which nodes queue at another level than their own because of what waits for them.
impl fmt::Display for CheckedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph().write_lines(f, |id| {
            let (own, found) = (self.graph().get(id)?.priority.unwrap_or_default(), self.priority(id)?);
            (own != found).then(|| format!(", queues as {}", found.name().to_lowercase()))
        })
    }
}
