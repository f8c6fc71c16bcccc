//! What the nodes of a random graph must leave in their block.

use pelton::{GraphEdge, NodeArg, NodeId};

use super::handlers::{hash_words, mix_word};
use super::{NodeKind, PARAMETERS, RandomGraph, node_arg, row_word};

/// How much of a graph ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// Every node ran once.
    Whole,
    /// The launch was cancelled, so some nodes ran, each after those that it waits for. A node may have begun without
    /// ending.
    Partly,
    /// No node ran.
    Nothing,
}

impl RandomGraph {
    /// The result of each node for these parameters.
    pub(crate) fn node_results(&self, parameters: [u32; PARAMETERS as usize]) -> Vec<u32> {
        let mut results = vec![0; self.kinds.len()];
        for node in &self.order {
            let args = &self.graph.nodes[*node as usize].args;
            let value = |arg: &NodeArg| match *arg {
                NodeArg::Constant(word) => word,
                NodeArg::Parameter(at) => parameters[at as usize],
                NodeArg::Result(from) => results[from.index() as usize],
            };
            let mut words = [0; node_arg::COUNT as usize];
            words.iter_mut().zip(args).for_each(|(word, arg)| *word = value(arg));
            let seen = match words[node_arg::WITNESS as usize] {
                0 => 0,
                witness => results[witness as usize - 1],
            };
            let hash = hash_words(words.into_iter().skip(node_arg::NODE as usize).chain([seen]));
            results[*node as usize] = match self.kinds[*node as usize] {
                NodeKind::Fork => {
                    let leaves = [hash, words[node_arg::FIRST as usize]].map(mix_word);
                    hash.wrapping_add(leaves[0]).wrapping_add(leaves[1])
                }
                NodeKind::Quick | NodeKind::Slow | NodeKind::Wide => hash,
            };
        }
        results
    }

    /// The result of a launch, given those of the nodes.
    pub(crate) fn launch_result(&self, results: &[u32]) -> u32 {
        self.graph.result_node().map_or(0, |node| results[node.index() as usize])
    }

    /// Compares the block of a launch that has ended with what the nodes must have left there, and says what differs.
    pub(crate) fn check_block(&self, block: &[u32], results: &[u32], ran: Ran) -> Result<(), String> {
        let rows: Vec<NodeRow> =
            block[1..].chunks_exact(row_word::WORDS as usize).map(NodeRow::new).collect();
        let mut stamped = vec![false; 2 * self.kinds.len() + 1];
        for (node, row) in rows.iter().take(self.kinds.len()).enumerate() {
            let right = match ran {
                Ran::Whole => row.runs == 1,
                Ran::Partly => row.runs <= 1,
                Ran::Nothing => row.runs == 0,
            };
            if !right {
                return Err(format!("node n{node} ran {} times ({ran:?})", row.runs));
            }
            let began = row.runs == 1;
            if began != (row.begin != 0) || !began && row.end != 0 || ran == Ran::Whole && row.end == 0 {
                return Err(format!("node n{node} has the row {row:?}"));
            }
            if row.end != 0 && row.result != results[node] {
                return Err(format!("node n{node} left {:#x}, not {:#x}", row.result, results[node]));
            }
            for stamp in [row.begin, row.end].into_iter().filter(|stamp| *stamp != 0) {
                let place = stamped.get_mut(stamp as usize);
                if place.is_none_or(|stamped| std::mem::replace(stamped, true)) {
                    return Err(format!(
                        "node n{node} has the number {stamp}, which the clock never gave, or gave before"
                    ));
                }
            }
        }
        let count = stamped.iter().filter(|stamped| **stamped).count();
        if block[0] as usize != count || !stamped.iter().skip(1).take(count).all(|stamped| *stamped) {
            return Err(format!("the clock stands at {}, and nodes have {count} numbers", block[0]));
        }
        self.check_order(&rows)
    }

    /// Checks that every node that ran began after all nodes that it waits for had ended.
    fn check_order(&self, rows: &[NodeRow]) -> Result<(), String> {
        for GraphEdge { from, to } in self.edges() {
            let (before, after) = (rows[from.index() as usize], rows[to.index() as usize]);
            if after.runs > 0 && !(1..after.begin).contains(&before.end) {
                return Err(format!(
                    "node n{to} began at {} and waits for node n{from}, which ended at {}",
                    after.begin, before.end
                ));
            }
        }
        Ok(())
    }

    /// All edges, those that arguments imply and those that only order two nodes.
    pub(super) fn edges(&self) -> impl Iterator<Item = GraphEdge> {
        let implied = (0..).zip(&self.graph.nodes).flat_map(|(to, node)| {
            let to = NodeId::from_index(to);
            node.args.iter().filter_map(move |arg| match *arg {
                NodeArg::Result(from) => Some(GraphEdge { from, to }),
                _ => None,
            })
        });
        implied.chain(self.graph.edges.iter().copied())
    }
}

/// What a node has left.
#[derive(Clone, Copy, Debug)]
struct NodeRow {
    runs: u32,
    begin: u32,
    end: u32,
    result: u32,
}

impl NodeRow {
    fn new(words: &[u32]) -> Self {
        let word = |at: u32| words[at as usize];
        NodeRow {
            runs: word(row_word::RUNS),
            begin: word(row_word::BEGIN),
            end: word(row_word::END),
            result: word(row_word::RESULT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a graph on the host, one node after the other.
    fn run_in_order(graph: &RandomGraph, results: &[u32]) -> Vec<u32> {
        let mut block = vec![0; graph.block_words()];
        for node in &graph.order {
            let at = 1 + (node * row_word::WORDS) as usize;
            block[0] += 2;
            let row = [1, block[0] - 1, block[0], results[*node as usize]];
            block[at..at + 4].copy_from_slice(&row);
        }
        block
    }

    #[test]
    fn whatever_is_wrong_in_a_block_is_found() {
        for number in 0..200 {
            let graph = RandomGraph::new(number);
            let results = graph.node_results([0, 5, 6]);
            let right = run_in_order(&graph, &results);
            assert_eq!(graph.check_block(&right, &results, Ran::Whole), Ok(()), "{number}");
            assert!(graph.check_block(&right, &results, Ran::Nothing).is_err(), "{number}");
            let nothing = vec![0; right.len()];
            assert_eq!(graph.check_block(&nothing, &results, Ran::Nothing), Ok(()), "{number}");
            assert_eq!(graph.check_block(&nothing, &results, Ran::Partly), Ok(()), "{number}");
            assert!(graph.check_block(&nothing, &results, Ran::Whole).is_err(), "{number}");
            for at in 0..right.len() {
                for change in [1, 2, u32::MAX] {
                    let mut wrong = right.clone();
                    wrong[at] = wrong[at].wrapping_add(change);
                    let found = graph.check_block(&wrong, &results, Ran::Whole);
                    assert!(found.is_err(), "{number}: word {at} is {}, not {}", wrong[at], right[at]);
                }
            }
        }
    }

    #[test]
    fn a_node_that_runs_too_early_is_found() {
        for number in 0..200 {
            let graph = RandomGraph::new(number);
            let results = graph.node_results([0, 5, 6]);
            for GraphEdge { from, to } in graph.edges() {
                let mut early = run_in_order(&graph, &results);
                let at = |node: NodeId, word| (1 + node.index() * row_word::WORDS + word) as usize;
                early.swap(at(from, row_word::END), at(to, row_word::BEGIN));
                assert!(graph.check_block(&early, &results, Ran::Whole).is_err(), "{number}: {from} {to}");
                assert!(graph.check_block(&early, &results, Ran::Partly).is_err(), "{number}: {from} {to}");
            }
        }
    }
}
