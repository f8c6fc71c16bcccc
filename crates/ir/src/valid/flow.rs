//! The graph of what depends on what in a function, in which uniformity is a question of reachability.
//!
//! A node is a value or a stretch of control: the instructions that the same lanes meet. An edge says that one node
//! is at most as uniform as another: a sum as its operands, a region as the condition before it, what follows a
//! `break` as the control that took it. All rules are of this kind, so the level of a node is the least of the
//! sources that reach it, and one pass that spreads a [`Mask`] of sources along the edges finds it, around loops too.
//!
//! The masks keep apart what comes from inside the function and what comes with its parameters and its call. So a
//! function is looked at once, and what it gives to each caller follows from its masks.

use crate::arena::{Handle, Inst};
use crate::module::Function;

/// A set of sources.
pub(super) type Mask = u128;
/// The source for something inside the function that differs from lane to lane.
pub(super) const LANE: Mask = 1;
/// The source for something inside the function that differs from subgroup to subgroup.
pub(super) const SUBGROUP: Mask = 2;
/// The source for the set of lanes that make the call.
pub(super) const CONTROL: Mask = 4;
/// Returns the source for a parameter. There are at most `MAX_ARGS` parameters.
pub(super) fn param(k: usize) -> Mask {
    8 << k
}

/// A node: first the values by index, then stretches of control and results of the function.
pub(super) type Point = u32;

/// An edge, which says that `to` is at most as uniform as `from`.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub to: Point,
    pub from: Point,
    /// The instruction that causes the dependency.
    pub why: Inst,
}

/// The graph of a function.
pub(super) struct DependencyGraph {
    pub edges: Vec<Edge>,
    /// The nodes that are sources, each with its mask and its instruction.
    pub sources: Vec<(Point, Mask, Inst)>,
    /// The stretch of control of each instruction.
    pub control: Vec<Point>,
    /// The results of the function.
    pub results: Vec<Point>,
    /// How many nodes there are.
    pub points: Point,
}

/// What a function's graph says about each of its nodes.
pub(super) struct Summary {
    pub masks: Vec<Mask>,
    /// The stretch of control of each instruction.
    pub control: Vec<Point>,
    /// The masks of its results.
    pub results: Vec<Mask>,
}

impl DependencyGraph {
    /// The stretch of control that the body starts with.
    pub(crate) fn entry(&self, function: &Function) -> Point {
        (function.values.len() + self.results.len()) as Point
    }

    /// Spreads the masks of the sources along the edges.
    pub(crate) fn summary(self, function: &Function) -> Summary {
        let mut masks = vec![0; self.points as usize];
        masks[self.entry(function) as usize] = CONTROL;
        for (k, value) in function.params.iter().enumerate() {
            masks[value.index()] = param(k);
        }
        for (point, mask, _) in &self.sources {
            masks[*point as usize] |= mask;
        }
        let next = Grouped::new(self.points, &self.edges, |edge| edge.from);
        let mut queue: Vec<Point> = (0..self.points).filter(|point| masks[*point as usize] != 0).collect();
        while let Some(from) = queue.pop() {
            let mask = masks[from as usize];
            for edge in next.edges_at(from) {
                let to = self.edges[*edge as usize].to;
                if mask & !masks[to as usize] != 0 {
                    masks[to as usize] |= mask;
                    queue.push(to);
                }
            }
        }
        let results = self.results.iter().map(|point| masks[*point as usize]).collect();
        Summary { masks, control: self.control, results }
    }
}

/// Edges by one of their nodes.
pub(super) struct Grouped {
    starts: Vec<u32>,
    edges: Vec<u32>,
}

impl Grouped {
    pub(crate) fn new(points: Point, edges: &[Edge], by: impl Fn(&Edge) -> Point) -> Self {
        let mut starts = vec![0; points as usize + 1];
        for edge in edges {
            starts[by(edge) as usize + 1] += 1;
        }
        for k in 1..starts.len() {
            starts[k] += starts[k - 1];
        }
        let mut free = starts.clone();
        let mut grouped = vec![0; edges.len()];
        for (k, edge) in edges.iter().enumerate() {
            let slot = &mut free[by(edge) as usize];
            grouped[*slot as usize] = k as u32;
            *slot += 1;
        }
        Grouped { starts, edges: grouped }
    }

    /// The edges of a node, by their number.
    pub(crate) fn edges_at(&self, point: Point) -> &[u32] {
        let at = point as usize;
        &self.edges[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}
