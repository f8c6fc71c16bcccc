//! Random graphs of tasks that say what they did, and a model of what they must do.
//!
//! Every launch of a random graph has a *block* of words in the region `data`, and every node has a row in the block. A
//! node counts there that it ran, takes a number from the clock of the block when it begins and another one when it
//! ends, and leaves a hash of all of its arguments, which is also its result. So the block shows whether each node ran
//! once, after the nodes that it waits for, and with the right arguments, whatever order they ran in.
//!
//! Tests of the runtime include this module.

mod broken;
mod handlers;
mod model;
mod random;

use pelton::{Graph, NodeArg, NodeId, Priority};

pub(crate) use broken::broken_graph;
pub(crate) use handlers::{mix_in_kernel, mix_word, with_node_handlers};
pub(crate) use model::Ran;
pub(crate) use random::Random;

/// The most nodes of a random graph.
pub(crate) const MAX_NODES: u32 = 200;
/// The number of parameters of a random graph. The first one says where the block begins.
pub(crate) const PARAMETERS: u32 = 3;
/// The number of words of a block: the clock, and a row per node.
pub(crate) const BLOCK_WORDS: u32 = 1 + MAX_NODES * row_word::WORDS;

/// The words of a row.
mod row_word {
    /// How often the node ran.
    pub(super) const RUNS: u32 = 0;
    /// The number that the clock gave the node when it began. The first number is 1.
    pub(super) const BEGIN: u32 = 1;
    /// The number that the clock gave the node when it ended.
    pub(super) const END: u32 = 2;
    /// The result of the node.
    pub(super) const RESULT: u32 = 3;
    /// How many words there are.
    pub(super) const WORDS: u32 = 4;
}

/// The arguments of a node.
mod node_arg {
    /// Where the block begins.
    pub(super) const BLOCK: u32 = 0;
    /// The number of the node.
    pub(super) const NODE: u32 = 1;
    /// One more than the number of a node that this one waits for and whose row it reads, or 0 if there is none.
    pub(super) const WITNESS: u32 = 2;
    /// The first of the arguments that are only hashed.
    pub(super) const FIRST: u32 = 3;
    /// How many arguments there are.
    pub(super) const COUNT: u32 = 12;
}

/// What a node does besides leaving its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NodeKind {
    /// It runs in one step.
    Quick,
    /// It yields a few times.
    Slow,
    /// It spawns two tasks, and adds their results to its own.
    Fork,
    /// A whole group runs it.
    Wide,
}

impl NodeKind {
    const ALL: [NodeKind; 4] = [NodeKind::Quick, NodeKind::Slow, NodeKind::Fork, NodeKind::Wide];

    /// The name of the handler.
    fn op_name(self) -> &'static str {
        match self {
            NodeKind::Quick => "quick_node",
            NodeKind::Slow => "slow_node",
            NodeKind::Fork => "fork_node",
            NodeKind::Wide => "wide_node",
        }
    }
}

/// A random graph without cycles.
#[derive(Clone, Debug)]
pub(crate) struct RandomGraph {
    /// The graph itself.
    pub(crate) graph: Graph,
    /// The kind of each node.
    kinds: Vec<NodeKind>,
    /// The numbers of the nodes in an order in which they could run one after the other.
    order: Vec<u32>,
}

impl RandomGraph {
    /// Makes the graph of a number. Different numbers have different graphs.
    pub(crate) fn new(number: u64) -> Self {
        let random = &mut Random::new(number);
        let count = random_size(random);
        let layers = random_layers(random, count);
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|node| layers[*node as usize]);
        let place_of = |layer: u32| order.partition_point(|node| layers[*node as usize] < layer);
        let mut graph = Graph::new("random", PARAMETERS);
        let mut kinds = Vec::with_capacity(count as usize);
        for node in 0..count {
            let earlier = &order[..place_of(layers[node as usize])];
            let kind = NodeKind::ALL[random.below(16).saturating_sub(12) as usize];
            let extra = random_edges(random, earlier);
            let args = random_args(random, earlier, (node, number), &extra);
            let id = graph.node(format!("n{node}"), kind.op_name(), args);
            extra.into_iter().for_each(|from| graph.edge(NodeId::from_index(from), id));
            if random.one_in(4) {
                graph.set_priority(id, Priority::ALL[random.below(Priority::ALL.len() as u32) as usize]);
            }
            kinds.push(kind);
        }
        if !random.one_in(4) {
            graph.set_result(NodeId::from_index(random.below(count)));
        }
        RandomGraph { graph, kinds, order }
    }

    /// The number of words of the block that a launch uses.
    pub(crate) fn block_words(&self) -> usize {
        1 + self.kinds.len() * row_word::WORDS as usize
    }

    /// The most tasks that the nodes spawn in one launch.
    pub(crate) fn most_spawned(&self) -> u64 {
        2 * self.kinds.iter().filter(|kind| **kind == NodeKind::Fork).count() as u64
    }
}

/// The number of nodes of a graph. Small graphs are the most frequent.
fn random_size(random: &mut Random) -> u32 {
    let most = [8, 64, 64, MAX_NODES][random.below(4) as usize];
    1 + random.below(most)
}

/// The layer of each node. A node waits only for nodes of lower layers, so few layers make a graph wide and many make it
/// deep.
fn random_layers(random: &mut Random, count: u32) -> Vec<u32> {
    let layers = match random.below(4) {
        0 => 1 + random.below(4),
        1 => 1 + random.below(count),
        2 => count.isqrt() + 1,
        _ => 4 * count,
    };
    (0..count).map(|_| random.below(layers)).collect()
}

/// The nodes that a node waits for although it does not take their results.
fn random_edges(random: &mut Random, earlier: &[u32]) -> Vec<u32> {
    let count = if earlier.is_empty() { 0 } else { random.below(8).saturating_sub(4) };
    (0..count).map(|_| earlier_node(random, earlier)).collect()
}

/// One of the earlier nodes. Those just before are the most frequent, because they make long paths.
fn earlier_node(random: &mut Random, earlier: &[u32]) -> u32 {
    let count = earlier.len() as u32;
    let back = if random.one_in(2) { random.below(count.min(4)) } else { random.below(count) };
    earlier[(count - 1 - back) as usize]
}

/// The arguments of a node of a graph.
fn random_args(
    random: &mut Random,
    earlier: &[u32],
    (node, graph): (u32, u64),
    extra: &[u32],
) -> Vec<NodeArg> {
    let most = node_arg::COUNT - node_arg::FIRST;
    let mut hashed: Vec<NodeArg> = (0..random.below(most + 1))
        .map(|_| match random.below(4) {
            0 => NodeArg::Parameter(1 + random.below(PARAMETERS - 1)),
            1 => random.next_word().into(),
            _ if earlier.is_empty() => random.below(1000).into(),
            _ => NodeId::from_index(earlier_node(random, earlier)).into(),
        })
        .collect();
    if node == 0 {
        // This makes all graphs different.
        hashed.truncate(most as usize - 2);
        hashed.extend([NodeArg::Constant(graph as u32), NodeArg::Constant((graph >> 32) as u32)]);
    }
    let results = hashed.iter().filter_map(|arg| match arg {
        NodeArg::Result(from) => Some(from.index()),
        _ => None,
    });
    let awaited: Vec<u32> = results.chain(extra.iter().copied()).collect();
    let witness = match awaited.len() as u32 {
        0 => 0,
        count => awaited[random.below(count) as usize] + 1,
    };
    let mut args = vec![NodeArg::Parameter(0), node.into(), witness.into()];
    args.append(&mut hashed);
    args
}
