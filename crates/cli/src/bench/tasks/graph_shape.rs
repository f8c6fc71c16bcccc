//! The graphs of the case `graph`: what their nodes compute, and what runs them apart from sessions.

use std::sync::Arc;
use std::time::Duration;

use pelton::graph::{Graph, NodeArg, NodeId};
use pelton_device::Device;
use pelton_device::cuda::MixNode;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::bench::cuda::open_as_cuda;
use crate::error::CliError;

/// A graph of layers. Every node computes a number from those of two nodes of the layer before, or from the parameter of
/// the graph in the first layer. Each node of the last layer depends on all nodes of the first few layers, and each node
/// of any layer reaches the last one.
#[derive(Clone, Debug)]
pub(super) struct GraphShape {
    /// The number of nodes per layer.
    pub width: usize,
    /// The nodes, layer by layer.
    pub nodes: Vec<MixNode>,
}

impl GraphShape {
    pub(super) fn new(layers: usize, width: usize) -> Self {
        let node = |place: usize| {
            let before = |side: usize| {
                let first = (place / width).checked_sub(1)? * width;
                Some((first + (2 * (place % width) + side) % width) as u32)
            };
            MixNode { inputs: [before(0), before(1)], add: (place as u32 + 1).wrapping_mul(0x9e37_79b1) }
        };
        GraphShape { width, nodes: (0..layers * width).map(node).collect() }
    }

    /// The places of the nodes of the last layer.
    pub(super) fn last_layer(&self) -> std::ops::Range<usize> {
        self.nodes.len() - self.width..self.nodes.len()
    }

    /// The numbers of all nodes for a parameter.
    pub(super) fn numbers(&self, parameter: u32) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            numbers.push(mix_inputs(node, inputs_of(node, parameter, &numbers)));
        }
        numbers
    }

    /// The graph for a session. Nodes are tasks of the handler `mix`, and those of the last layer of the handler `last`,
    /// which also takes the place of the node in its layer.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::new("layers", 1);
        for (place, node) in self.nodes.iter().enumerate() {
            let [a, b] = node.inputs.map(|input| {
                input.map_or(NodeArg::Parameter(0), |input| NodeArg::Result(NodeId::from_index(input)))
            });
            let last = place.checked_sub(self.last_layer().start);
            let args = [a, b, node.add.into()].into_iter().chain(last.map(|at| NodeArg::Constant(at as u32)));
            graph.node(format!("n{place}"), if last.is_some() { "last" } else { "mix" }, args);
        }
        graph
    }
}

/// The numbers that a node takes, given those of the nodes before it.
pub(super) fn inputs_of(node: &MixNode, parameter: u32, numbers: &[u32]) -> [u32; 2] {
    node.inputs.map(|input| input.map_or(parameter, |input| numbers[input as usize]))
}

/// The number of a node.
fn mix_inputs(node: &MixNode, [a, b]: [u32; 2]) -> u32 {
    (a ^ b.rotate_left(5)).wrapping_add(node.add)
}

/// Runs graphs with rayon, on one thread. Each node is a job, and the layers come one after the other.
pub(super) struct RayonGraphs {
    pool: ThreadPool,
}

impl RayonGraphs {
    pub(super) fn new() -> Result<Self, CliError> {
        let pool = ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| CliError::Wrong(format!("rayon does not start: {error}")))?;
        Ok(RayonGraphs { pool })
    }

    /// The numbers of all nodes for a parameter.
    pub(super) fn run(&self, shape: &GraphShape, parameter: u32) -> Vec<u32> {
        let mut numbers = vec![0; shape.nodes.len()];
        self.pool.install(|| {
            for layer in 0..shape.nodes.len() / shape.width {
                let (before, these) = numbers.split_at_mut(layer * shape.width);
                let nodes = shape.nodes[layer * shape.width..].par_iter().take(shape.width);
                these[..shape.width].par_iter_mut().zip(nodes).with_max_len(1).for_each(|(number, node)| {
                    *number = mix_inputs(node, inputs_of(node, parameter, before));
                });
            }
        });
        numbers
    }
}

/// Launches the same graph as CUDA graphs for a while, as many at once as there are parameters, and returns how long each
/// round took, in seconds. Every number of every node is checked after the last round. `None` if the device is not an
/// NVIDIA GPU.
pub(super) fn time_cuda_graphs(
    device: &Arc<dyn Device>,
    shape: &GraphShape,
    parameters: &[u32],
    time: Duration,
) -> Result<Option<Vec<f64>>, CliError> {
    let Some(gpu) = open_as_cuda(device)? else { return Ok(None) };
    let mixed = gpu.mix_graphs(&shape.nodes, parameters, time)?;
    if !parameters.iter().zip(&mixed.numbers).all(|(parameter, found)| *found == shape.numbers(*parameter)) {
        return Err(CliError::Wrong("a CUDA graph has computed wrong numbers".into()));
    }
    Ok(Some(mixed.times.iter().map(Duration::as_secs_f64).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_reaches_the_last_layer() {
        let shape = GraphShape::new(10, 100);
        assert_eq!((shape.nodes.len(), shape.last_layer()), (1000, 900..1000));
        let wanted = shape.numbers(5);
        for place in 0..shape.nodes.len() {
            let mut changed = shape.clone();
            changed.nodes[place].add ^= 1;
            let found = changed.numbers(5);
            assert_ne!(found[shape.last_layer()], wanted[shape.last_layer()], "node {place}");
        }
    }

    #[test]
    fn rayon_computes_the_same_numbers() {
        let rayon = RayonGraphs::new().expect("it starts");
        for shape in [GraphShape::new(10, 100), GraphShape::new(50, 1)] {
            assert_eq!(rayon.run(&shape, 3), shape.numbers(3));
        }
    }
}
