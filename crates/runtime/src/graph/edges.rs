//! The edges of a graph, and the order that they allow.

use super::{EdgeKind, Graph, GraphEdge, NodeArg};

impl Graph {
    /// Returns all edges, those that arguments imply and those that were added. They are sorted, and each is there once:
    /// an edge that was added between two nodes of which one takes the result of the other is an edge of kind
    /// [`EdgeKind::Result`].
    pub fn all_edges(&self) -> Vec<(GraphEdge, EdgeKind)> {
        let implied = self.iter().flat_map(|(to, node)| {
            node.args.iter().filter_map(move |arg| match arg {
                NodeArg::Result(from) => Some((GraphEdge { from: *from, to }, EdgeKind::Result)),
                NodeArg::Constant(_) | NodeArg::Parameter(_) => None,
            })
        });
        let added = self.edges.iter().map(|edge| (*edge, EdgeKind::Order));
        let mut all: Vec<_> = implied.chain(added).collect();
        all.sort_unstable();
        all.dedup_by_key(|(edge, _)| *edge);
        all
    }
}

/// The edges of a graph as lists of successors. All of them lead from a node of the graph to another one.
pub(super) struct SuccessorLists {
    /// Where the successors of each node begin, and where those of the last node end.
    first: Vec<u32>,
    /// The numbers of the successors of all nodes.
    pub(super) list: Vec<u32>,
    /// How many predecessors each node has.
    pub(super) predecessors: Vec<u32>,
}

impl SuccessorLists {
    /// Makes the lists for a graph of so many nodes from its edges, which are sorted and in range.
    pub(super) fn new(nodes: usize, edges: &[(GraphEdge, EdgeKind)]) -> Self {
        let mut first = vec![0; nodes + 1];
        let mut predecessors = vec![0; nodes];
        for (edge, _) in edges {
            first[edge.from.0 as usize + 1] += 1;
            predecessors[edge.to.0 as usize] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        SuccessorLists { first, list: edges.iter().map(|(edge, _)| edge.to.0).collect(), predecessors }
    }

    /// Returns where the successors of a node begin in the list, and how many there are.
    pub(super) fn place(&self, node: usize) -> (u32, u32) {
        (self.first[node], self.first[node + 1] - self.first[node])
    }

    /// Returns the successors of a node.
    pub(super) fn of(&self, node: usize) -> &[u32] {
        &self.list[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// Returns the nodes in an order in which each comes after those that it waits for.
    ///
    /// # Errors
    ///
    /// The nodes of a cycle, if there is one. Each waits for the one before it, and the first waits for the last.
    pub(super) fn order(&self) -> Result<Vec<usize>, Vec<usize>> {
        let nodes = self.predecessors.len();
        let mut waits_for = self.predecessors.clone();
        let mut order: Vec<usize> = (0..nodes).filter(|node| waits_for[*node] == 0).collect();
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &to in self.of(node) {
                waits_for[to as usize] -= 1;
                if waits_for[to as usize] == 0 {
                    order.push(to as usize);
                }
            }
        }
        if order.len() == nodes { Ok(order) } else { Err(self.cycle(&waits_for)) }
    }

    /// Finds a cycle among the nodes that still wait for others. Each of them has a predecessor that waits too, so going
    /// from predecessor to predecessor comes back to a node that was seen before.
    fn cycle(&self, waits_for: &[u32]) -> Vec<usize> {
        let waiting = || (0..waits_for.len()).filter(|node| waits_for[*node] > 0);
        let mut before = vec![0; waits_for.len()];
        for node in waiting() {
            self.of(node).iter().for_each(|to| before[*to as usize] = node);
        }
        let mut seen = vec![false; waits_for.len()];
        let mut at = waiting().next().unwrap_or_default();
        while !std::mem::replace(&mut seen[at], true) {
            at = before[at];
        }
        let end = at;
        let mut cycle = vec![end];
        at = before[end];
        while at != end {
            cycle.push(at);
            at = before[at];
        }
        cycle.reverse();
        let least = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or_default();
        cycle.rotate_left(least);
        cycle
    }
}
