//! The cases `tree` and `join`: tasks that spawn two others each.
//!
//! Both are complete binary trees. A task of the case `tree` spawns its children and ends, and nobody waits but the host,
//! for the whole tree. A task of the case `join` waits for its children and adds up their results. A task that finds no
//! room for children visits the leaves below it itself. The figure counts only tasks that were spawned, and a row says
//! which share of all nodes that was.
//!
//! Node 1 is the root, and the children of node n are nodes 2n and 2n + 1. In the case `tree`, each leaf adds one to a
//! counter that its number chooses, and each counter is compared with what it must be. In the case `join`, the result of a
//! leaf is its number, mixed, so the sum would show a leaf that is missing or came twice.

use std::sync::Arc;

use pelton::ir::builder::Val;
use pelton::kernel::HandlerBody;
use pelton::kernel::handler_trees::Child;
use pelton::{Deadline, Geometry, Handler, Region, Session, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::{Order, Scope, Type};

use super::contender::{Contender, contender_rows, play_contenders, repeat};
use super::rayon_trees::{RayonTrees, leaf_sum};
use super::{BenchRow, TasksBench};
use crate::bench::rounds::Sample;
use crate::error::CliError;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "trees of tasks that spawn two others each";

/// The number of counters among which the leaves are divided.
pub(super) const COUNTERS: u32 = 1 << 10;

/// The region with these counters, and the region whose only element counts nodes that were not spawned.
const LEAVES: &str = "leaves";
const WALKED: &str = "walked";

/// The unit of the rates.
const METRIC: &str = "tasks/s";

/// What runs a tree in a round.
#[derive(Clone, Copy)]
enum TreeContender {
    /// Tasks of a session that spawn others.
    Tree,
    /// Plain tasks of a session, which the host submits level by level.
    Host,
    /// Jobs of rayon that spawn others, on one thread.
    RayonTree,
    /// Tasks of a session that wait for those that they have spawned.
    Join,
    /// Calls of rayon's `join`, on one thread.
    RayonJoin,
}

/// How large the trees are, and where they grow.
#[derive(Clone, Copy)]
struct TreeShape {
    /// The depth of the tree in the case `tree`. The root has depth 0.
    tree_depth: u32,
    /// The depth of the tree in the case `join`.
    join_depth: u32,
    /// The depth of the tree that the host drives.
    host_depth: u32,
    spawn_cells: u32,
    groups: Option<u32>,
}

impl TreeShape {
    fn of(device: &Arc<dyn Device>, quick: bool) -> Self {
        match (device.caps().memory_bytes, quick) {
            (Some(_), false) => TreeShape {
                tree_depth: 23,
                join_depth: 21,
                host_depth: 13,
                spawn_cells: 1 << 20,
                groups: None,
            },
            (Some(_), true) => TreeShape { tree_depth: 19, join_depth: 17, ..Self::of(device, false) },
            (None, false) => TreeShape {
                tree_depth: 17,
                join_depth: 17,
                host_depth: 12,
                spawn_cells: 1 << 16,
                groups: Some(1),
            },
            (None, true) => TreeShape { tree_depth: 13, join_depth: 13, ..Self::of(device, false) },
        }
    }

    fn spec(&self) -> Spec {
        let mut geometry = Geometry::new(4096);
        geometry.groups = self.groups;
        Spec::new(geometry)
            .spawn_cells(self.spawn_cells)
            // A task that finds no room may have to visit most leaves.
            .fuel(u32::MAX / 2)
            .region(Region::new(LEAVES, Type::U32, COUNTERS))
            .region(Region::new(WALKED, Type::U32, 1))
            .handler("tree", tree_handler())
            .handler("join", join_handler())
            .handler("visit", visit_handler())
    }
}

/// The number of nodes of a tree.
fn node_count(depth: u32) -> u64 {
    (2 << depth) - 1
}

/// Counts a leaf.
fn count_leaf<'b>(task: &HandlerBody<'b>, number: Val<'b, u32>) {
    let counter = task.region::<u32>(LEAVES).at(number & (COUNTERS - 1));
    task.body().atomic_add(Order::Relaxed, Scope::Device, counter, 1u32);
}

/// Visits the leaves below a node, for which a handler has found no room, one after the other. `height` is the height of
/// the node, and `visit` gets the number of a leaf and the sum before it, and gives the sum after it.
fn walk_leaves<'b>(
    task: &HandlerBody<'b>,
    (number, height): (Val<'b, u32>, Val<'b, u32>),
    visit: impl FnOnce(Val<'b, u32>, Val<'b, u32>) -> Val<'b, u32>,
) -> Val<'b, u32> {
    let f = task.body();
    let walked = task.region::<u32>(WALKED).at(0u32);
    f.atomic_add(Order::Relaxed, Scope::Device, walked, (f.lit(2) << height) - 2);
    let (first, end) = (number << height, (number + 1) << height);
    f.range((first, end, f.lit(1)), f.lit(0), |_, leaf, sum| visit(leaf, sum))
}

/// Spawns the children of the node in its first argument, whose height is the second, and ends.
fn tree_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, number, height) = (task.body(), task.arg(0), task.arg(1));
        f.when(height.eq(0), || {
            count_leaf(&task, number);
            task.finish(number);
        });
        f.when(!task.reserve_children(2), || {
            walk_leaves(&task, (number, height), |leaf, sum| {
                count_leaf(&task, leaf);
                sum
            });
            task.finish(number);
        });
        for side in [0, 1] {
            task.spawn(Child::same_handler(&task).args([number * 2 + side, height - 1]));
        }
        task.finish(number);
    })
}

/// Spawns the children of the node in its first argument, whose height is the second, waits for them, and gives the sum of
/// their results.
fn join_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, number, height) = (task.body(), task.arg(0), task.arg(1));
        let (left, right) = (task.frame_word(), task.frame_word());
        task.step(|| {
            f.when(height.eq(0), || task.finish(mix_in_kernel(number)));
            f.when(!task.reserve_children(2), || {
                task.finish(walk_leaves(&task, (number, height), |leaf, sum| sum + mix_in_kernel(leaf)));
            });
            for (side, word) in [(0, left), (1, right)] {
                task.spawn(
                    Child::same_handler(&task).result_into(word).args([number * 2 + side, height - 1]),
                );
            }
            task.wait_children();
        });
        task.finish(left.load() + right.load());
    })
}

/// What [`mix_number`](super::rayon_trees::mix_number) does, in a kernel.
pub(super) fn mix_in_kernel<'b>(number: Val<'b, u32>) -> Val<'b, u32> {
    let mixed = number * 0x9e37_79b1u32;
    mixed ^ (mixed >> 15)
}

/// Counts the node in its first argument if it is a leaf, and gives its number.
fn visit_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, number, height) = (task.body(), task.arg(0), task.arg(1));
        f.when(height.eq(0), || count_leaf(&task, number));
        task.finish(number);
    })
}

/// Measures trees of tasks.
pub(super) fn measure_trees(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let shape = TreeShape::of(bench.device, bench.quick);
    let new = |name: &str, what| Contender::new(name, METRIC, what);
    let [tree, join] = [("tree", TreeContender::Tree), ("join", TreeContender::Join)]
        .map(|(case, what)| new(&format!("{case}, session"), what));
    let host = new("tree, driven by the host", TreeContender::Host);
    let contenders = if bench.is_local() {
        vec![
            tree.against("tree, rayon"),
            host,
            new("tree, rayon", TreeContender::RayonTree),
            join.against("join, rayon"),
            new("join, rayon", TreeContender::RayonJoin),
        ]
    } else {
        vec![tree.against("tree, driven by the host"), host, join]
    };
    let (spec, rayon, sum) = (shape.spec(), RayonTrees::new()?, leaf_sum(shape.join_depth));
    let measured = play_contenders(bench, contenders, |contender| {
        // A device loads no code while a kernel is resident, so every session ends with its turn.
        let trees = || {
            let session = Session::launch(bench.device, &spec)?;
            Ok::<_, CliError>(SessionTrees { session, leaves: 0, sum })
        };
        match contender {
            TreeContender::Tree => trees()?.measure(bench, shape.tree_depth, SessionTrees::run_tree),
            TreeContender::Join => trees()?.measure(bench, shape.join_depth, SessionTrees::run_join),
            TreeContender::Host => trees()?.measure(bench, shape.host_depth, SessionTrees::drive_tree),
            TreeContender::RayonTree => {
                Ok(Sample::figure(repeat(bench.time, || rayon.run_tree(shape.tree_depth))?))
            }
            TreeContender::RayonJoin => {
                Ok(Sample::figure(repeat(bench.time, || rayon.run_join(shape.join_depth, sum))?))
            }
        }
    })?;
    let mut rows = contender_rows(bench, &measured);
    for (contender, series) in &measured {
        if matches!(contender.what, TreeContender::Tree | TreeContender::Join) {
            let name = format!("{}, share of spawned tasks", contender.name);
            rows.extend(bench.row_of(&name, "%", &series.beside(), None));
        }
    }
    Ok(rows)
}

/// A session that runs trees, and what has been counted in it.
struct SessionTrees {
    session: Session,
    /// How many leaves have been counted.
    leaves: u64,
    /// The sum of the results of all leaves in the case `join`.
    sum: u32,
}

impl SessionTrees {
    /// Runs trees of a depth for a while, and checks the counters at the end. The figure is the number of tasks per second
    /// that were spawned or submitted, and beside it is their share of all nodes in percent.
    fn measure(
        mut self,
        bench: &TasksBench<'_>,
        depth: u32,
        run: fn(&mut Self, u32) -> Result<(), CliError>,
    ) -> Result<Sample, CliError> {
        let mut nodes = 0;
        let rate = repeat(bench.time, || {
            run(&mut self, depth)?;
            nodes += node_count(depth);
            Ok(node_count(depth))
        })?;
        self.check_leaves()?;
        let walked = self.session.view::<u32>(0, WALKED)?.read(0, 1)?[0];
        let share = 1.0 - f64::from(walked) / nodes as f64;
        Ok(Sample::figure(rate * share).beside(100.0 * share))
    }

    /// Runs a tree of which nobody waits for anything but the host for all of it.
    fn run_tree(&mut self, depth: u32) -> Result<(), CliError> {
        let result = self.run_root("tree", depth)?;
        self.leaves += 1 << depth;
        check("the result of the root", result, 1)
    }

    /// Runs a tree whose tasks wait for their children.
    fn run_join(&mut self, depth: u32) -> Result<(), CliError> {
        let result = self.run_root("join", depth)?;
        check("the sum of all leaves", result, self.sum)
    }

    /// Runs a task for the root of a tree, and returns its result.
    fn run_root(&self, handler: &str, depth: u32) -> Result<u32, CliError> {
        let task = Task::new(self.session.opcode(handler)?).args([1, depth]);
        Ok(self.session.producer(0)?.submit(task)?.wait(Deadline::Never)?)
    }

    /// Runs a tree as a host does whose tasks cannot spawn any: it submits a level when the level above it has ended.
    fn drive_tree(&mut self, depth: u32) -> Result<(), CliError> {
        let op = self.session.opcode("visit")?;
        let mut producer = self.session.producer(0)?.patience(Deadline::Never);
        let (batch, mut level) = (producer.largest_batch() as usize, vec![1]);
        for height in (0..=depth).rev() {
            for numbers in level.chunks(batch) {
                let tasks = numbers.iter().map(|number| Task::new(op).args([*number, height]));
                let mut span = producer.submit_all(tasks)?;
                span.wait(Deadline::Never)?;
                let mut results = vec![0; numbers.len()];
                span.read_results(&mut results);
                for (result, number) in results.into_iter().zip(numbers) {
                    check("the result of a node", result, *number)?;
                }
            }
            level = level.into_iter().flat_map(|number| [2 * number, 2 * number + 1]).collect();
        }
        self.leaves += 1 << depth;
        Ok(())
    }

    /// Compares every counter of leaves with what it must be.
    fn check_leaves(&self) -> Result<(), CliError> {
        let each = (self.leaves / u64::from(COUNTERS)) as u32;
        let counters = self.session.view::<u32>(0, LEAVES)?.read(0, COUNTERS as usize)?;
        counters.into_iter().try_for_each(|counter| check("a counter of leaves", counter, each))
    }
}

/// Compares what a tree has computed with what it must be.
pub(super) fn check(what: &str, found: u32, wanted: u32) -> Result<(), CliError> {
    match found == wanted {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("{what} is {found} instead of {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(spawn_cells: u32) -> SessionTrees {
        let device = pelton_device::open("cpu").expect("there is a CPU");
        let spec = TreeShape { spawn_cells, ..TreeShape::of(&device, true) }.spec();
        let session = Session::launch(&device, &spec).expect("the spec is right");
        SessionTrees { session, leaves: 0, sum: leaf_sum(10) }
    }

    fn walked(trees: &SessionTrees) -> u32 {
        trees
            .session
            .view::<u32>(0, WALKED)
            .expect("it has the region")
            .read(0, 1)
            .expect("it has one element")[0]
    }

    #[test]
    fn every_leaf_is_counted_whether_there_is_room_or_not() {
        for cells in [4096, Spec::MIN_SPAWN_CELLS] {
            let mut trees = trees(cells);
            for run in [SessionTrees::run_tree, SessionTrees::run_join, SessionTrees::drive_tree] {
                run(&mut trees, 10).expect("every result is right");
            }
            assert_eq!(walked(&trees) == 0, cells == 4096, "there is room for all, or not");
            trees.check_leaves().expect("every counter is right");
            trees.leaves += 1024;
            assert!(trees.check_leaves().is_err(), "a tree that never ran is missed");
        }
    }

    #[test]
    fn rayon_runs_the_same_trees() {
        let rayon = RayonTrees::new().expect("it starts");
        assert_eq!(rayon.run_tree(10).expect("every counter is right"), 2047);
        assert_eq!(rayon.run_join(10, leaf_sum(10)).expect("the sum is right"), 2047);
        assert!(rayon.run_join(11, leaf_sum(10)).is_err());
    }
}
