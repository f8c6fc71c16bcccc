//! The trees of the cases `tree` and `join` with rayon, on one thread.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use super::trees::{COUNTERS, check};
use crate::error::CliError;

/// The number of a leaf, mixed. This is the result of the leaf in the case `join`.
pub(super) fn mix_number(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    mixed ^ (mixed >> 15)
}

/// The sum of the results of all leaves of a tree.
pub(super) fn leaf_sum(depth: u32) -> u32 {
    (1u32 << depth..2 << depth).fold(0, |sum, leaf| sum.wrapping_add(mix_number(leaf)))
}

/// A pool of one thread, and the counters of leaves.
pub(super) struct RayonTrees {
    pool: ThreadPool,
    counters: Vec<AtomicU32>,
}

impl RayonTrees {
    pub(super) fn new() -> Result<Self, CliError> {
        let pool = ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| CliError::Wrong(format!("rayon does not start: {error}")))?;
        Ok(RayonTrees { pool, counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect() })
    }

    /// Runs a tree of jobs that spawn others, and returns the number of its nodes. Every counter of leaves is checked.
    pub(super) fn run_tree(&self, depth: u32) -> Result<u64, CliError> {
        let counters = &self.counters;
        self.pool.scope(|scope| spawn_children(scope, counters, 1, depth));
        let each = (1 << depth) / COUNTERS;
        counters.iter().try_for_each(|counter| {
            check("a counter of leaves of rayon", counter.swap(0, Ordering::Relaxed), each)
        })?;
        Ok((2 << depth) - 1)
    }

    /// Runs a tree of calls of `join`, whose results are added up, and returns the number of its nodes. `sum` is what the
    /// result must be.
    pub(super) fn run_join(&self, depth: u32, sum: u32) -> Result<u64, CliError> {
        check("the sum of rayon", self.pool.install(|| join_children(1, depth)), sum)?;
        Ok((2 << depth) - 1)
    }
}

/// Visits a node: counts it if it is a leaf, and spawns its children if it is not.
fn spawn_children<'s>(scope: &Scope<'s>, counters: &'s [AtomicU32], number: u32, height: u32) {
    if height == 0 {
        counters[(number % COUNTERS) as usize].fetch_add(1, Ordering::Relaxed);
        return;
    }
    for child in [2 * number, 2 * number + 1] {
        scope.spawn(move |scope| spawn_children(scope, counters, child, height - 1));
    }
}

/// The sum of the results of the leaves below a node.
fn join_children(number: u32, height: u32) -> u32 {
    if height == 0 {
        return mix_number(number);
    }
    let sum = |child| move || join_children(child, height - 1);
    let (left, right) = rayon::join(sum(2 * number), sum(2 * number + 1));
    left.wrapping_add(right)
}
