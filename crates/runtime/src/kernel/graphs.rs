//! Graphs in a kernel: one task launches a graph, and its nodes run as tasks do.
//!
//! The host puts the [words](crate::protocol::graph) of graphs into device memory while the kernel runs, and a
//! *directory* says where each graph begins. A task of the opcode LAUNCH_GRAPH names a graph and gives its parameters.
//! All lanes of its group together make an *instance* of the graph: a block of cells, one per node, which is taken
//! whole or not at all. If no block is free, the task yields and tries again, and holds nothing but its own cell
//! meanwhile.
//!
//! The nodes are children of the task that has launched them. So everything that is said of [trees](super::tree) holds
//! for them too: the task ends after the last of them, cancelling it cancels them, and a node enters the queue of its
//! own level or that of its root's level, whichever is more urgent. A node may take several steps, spawn tasks and
//! wait. Unlike spawned tasks, nodes are not charged to the tenant's quota: a launch counts as one task.
//!
//! **Edges.** Each node has a count of its predecessors that have not ended. The lane that ends a node stores its
//! result, and then subtracts one from the count of each successor. The lane that brings a count to zero fills in the
//! arguments of that node that are results of others, and puts it at home. The counts are changed by read-modify-writes
//! that acquire and release, so that lane sees the results of all predecessors.
//!
//! **Faults.** After the first fault of a node, the other nodes are skipped: they take no further step, end when their
//! turn comes, and are counted like all others. A node that waits for an event is skipped when the event has come. So
//! the record always comes after the end of the last node. It has the code of the first fault, or, if there was none,
//! the result of the node that the graph names.
//!
//! **Removing a graph.** A directory entry has a generation, which says how often the entry was used, and the task that
//! launches names the generation that it means. Whoever makes an instance first counts it and then looks at the
//! directory; the host first clears the entry and then looks at the count. So either the launch finds the entry gone,
//! or the host waits for the instance to end before it uses the memory again. The two words of an entry are not written
//! at once: the host writes the generation first, and the kernel reads it last, so a launch never takes the graph that
//! comes next for its own.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, GraphBuffers};
use super::cells::{cell_fact, cell_state, fact};
use super::context::{KernelContext, LINE, U32};
use super::home::{CellTask, home_word, push_spawned};
use super::steps::{outcome, step_counter};
use super::tree::{TreeContext, tree_word};
use crate::protocol::graph::{self, ArgKind, HEADER_WORDS, KIND_BITS, NODE_WORDS};
use crate::protocol::{FaultCode, Opcode, Status, slot};

/// What graphs need of a kernel's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphLayout {
    /// How many instances of graphs can be under way at once.
    pub instances: u32,
    /// The most nodes that a graph may have.
    pub nodes: u32,
    /// How many words there are for graphs.
    pub words: u32,
}

/// The most graphs that a session can have at once.
pub(crate) const MAX_GRAPHS: u32 = 1024;

/// How many bits of the argument that names a graph hold its number. The bits above hold the generation of that number.
pub(crate) const GRAPH_BITS: u32 = MAX_GRAPHS.ilog2();

/// The words of a directory entry.
pub(crate) mod entry_word {
    /// Where the words of the graph begin, plus one, or 0 if there is no graph.
    pub(crate) const FIRST: u32 = 0;
    /// The generation: how often the entry was used.
    pub(crate) const GENERATION: u32 = 1;
    /// How many words there are.
    pub(crate) const WORDS: u32 = 2;
}

/// A graph that was launched.
#[derive(Clone, Copy)]
struct Instance<'b> {
    /// Where the words of the graph begin.
    graph: U32<'b>,
    /// The cell of the first node.
    base: U32<'b>,
    /// The cell of the task that has launched the graph.
    root: U32<'b>,
}

/// What the code for graphs needs.
#[derive(Clone, Copy)]
pub(super) struct GraphRunner<'k> {
    kernel: &'k KernelContext<'k>,
    cells: &'k CellBuffers,
    tree: &'k TreeContext,
    buffers: &'k GraphBuffers,
    layout: GraphLayout,
}

impl<'k> GraphRunner<'k> {
    /// What the code for graphs needs, if the kernel has graphs.
    pub(super) fn new(kernel: &'k KernelContext<'k>) -> Option<Self> {
        let tree = kernel.trees.as_ref()?;
        let (buffers, layout) = (tree.graphs.as_ref()?, kernel.layout.trees?.graphs?);
        Some(GraphRunner { kernel, cells: kernel.cells()?, tree, buffers, layout })
    }

    /// Loads a word of graphs. The host may have copied it a moment ago, so it is read past the nearest cache.
    fn word<'b>(self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U32<'b> {
        f.atomic_load(Order::Relaxed, Scope::Device, self.buffers.words.at(at))
    }

    /// The instance that a task has launched, or that the task of `cell` is a node of. There must be one.
    fn instance<'b>(self, f: &'b FunctionBuilder<'b>, (cell, root): (U32<'b>, U32<'b>)) -> Instance<'b> {
        let word = f.load(self.tree.link(cell, tree_word::GRAPH));
        let (graph, number) = (f.cast::<u32>(word), f.cast::<u32>(word >> 32) - 1);
        Instance { graph, base: number * self.layout.nodes + self.kernel.layout.first_graph_cell(), root }
    }

    /// The count of a node's predecessors that have not ended.
    fn left_of<'b>(self, cell: U32<'b>) -> pelton_ir::builder::At<'b, u32> {
        self.buffers.left.at(cell - self.kernel.layout.first_graph_cell())
    }

    /// Whether a cell is that of a node.
    pub(super) fn is_node(self, cell: U32<'_>) -> Val<'_, bool> {
        cell.ge(self.kernel.layout.first_graph_cell())
    }

    /// Runs a task that launches a graph, with all lanes. Gives 0. The task ends after the last node; if there is no
    /// room for an instance, it asks to run again.
    pub(super) fn launch<'b>(self, f: &'b FunctionBuilder<'b>, task: CellTask<'b>) -> U32<'b> {
        let cell = task.cell;
        let first = f.lane().eq(0);
        let begun = f.choose(first, || self.begin_instance(f, task), || f.lit(false));
        let begun = f.group_broadcast(f.select(begun, 1, 0), 0).ne(0);
        f.when(begun, || {
            let instance = self.instance(f, (cell, cell));
            let launch = f.load(self.tree.link(cell, tree_word::GRAPH));
            let nodes = f.group_broadcast(self.word(f, instance.graph + graph::NODES), 0);
            f.range((f.lane(), nodes, f.lanes()), (), |_, node, ()| {
                self.prepare_node(f, instance, (node, task.tenant));
                f.store(self.tree.link(instance.base + node, tree_word::GRAPH), launch);
            });
            f.when(first, || {
                // No node can end before it is counted.
                let more = f.cast::<u64>(nodes) << cell_state::CHILD_SHIFT | cell_state::HAD_CHILDREN;
                f.atomic_add(Order::Relaxed, Scope::Device, self.cells.states.at(cell), more);
                if self.kernel.counts_tasks() {
                    let count = self.cells.words.at(home_word::COUNTS + step_counter::SPAWNED);
                    f.atomic_add(Order::Relaxed, Scope::Group, count, nodes);
                }
            });
            f.barrier();
            f.range((f.lane(), nodes, f.lanes()), (), |_, node, ()| {
                let at = node_row(instance.graph, node) + graph::PREDECESSORS;
                f.when(self.word(f, at).eq(0), || {
                    let cell = instance.base + node;
                    f.atomic_store(
                        Order::Relaxed,
                        Scope::Device,
                        self.cells.states.at(cell),
                        cell_state::RUNNABLE,
                    );
                    push_spawned(f, self.kernel, self.cells, cell);
                });
            });
        });
        f.lit(0)
    }

    /// Takes a block of cells for an instance, and notes which graph it is of. Gives whether there is one now. If there
    /// is not, the task has a fault or asks to run again. One lane does this.
    fn begin_instance<'b>(self, f: &'b FunctionBuilder<'b>, task: CellTask<'b>) -> Val<'b, bool> {
        // Nothing is counted while no instance is free.
        let free = self.is_instance_free(f);
        f.choose(
            free,
            || self.count_instance(f, task),
            || {
                self.run_again(f, task.place);
                f.lit(false)
            },
        )
    }

    /// Whether some instance is free.
    fn is_instance_free<'b>(self, f: &'b FunctionBuilder<'b>) -> Val<'b, bool> {
        let words = self.layout.instances.div_ceil(64);
        let load = |word: u32| f.atomic_load(Order::Relaxed, Scope::Device, self.buffers.free.at(word));
        (0..words).fold(f.lit(0u64), |some, word| some | load(word)).ne(0)
    }

    /// Lets a task run again that has found no room.
    fn run_again<'b>(self, f: &'b FunctionBuilder<'b>, place: U32<'b>) {
        if let Some(steps) = &self.kernel.steps {
            f.store(steps.buffers.outcomes.at(place), outcome::YIELD);
        }
    }

    /// Counts an instance of the graph that a task names, if it exists, and takes one. Gives whether there is one now.
    fn count_instance<'b>(self, f: &'b FunctionBuilder<'b>, task: CellTask<'b>) -> Val<'b, bool> {
        let name = self.launched_name(f, task.cell);
        let (number, generation) = (name & (MAX_GRAPHS - 1), name >> GRAPH_BITS);
        let launches = self.buffers.launches.at(number);
        f.atomic_add(Order::Relaxed, Scope::Device, launches, 1);
        // Stands between the count of instances and the look at the directory.
        f.fence(Order::SeqCst, Scope::System);
        let entry = |word: u32| {
            let at = self.buffers.directory.at(number * entry_word::WORDS + word);
            f.atomic_load(Order::Relaxed, Scope::Device, at)
        };
        let first = entry(entry_word::FIRST);
        // Pairs with the host's release: the words of the graph and the generation were copied before.
        f.fence(Order::Acquire, Scope::System);
        let there = first.ne(0) & entry(entry_word::GENERATION).eq(generation);
        let owner = || self.word(f, first - 1 + graph::TENANT).eq(task.tenant);
        let own = f.choose(there, owner, || f.lit(false));
        let instance = f.choose(own, || self.take_instance(f), || f.lit(0));
        f.choose(
            instance.ne(0),
            || {
                let word = f.cast::<u64>(first - 1) | f.cast::<u64>(instance) << 32;
                f.store(self.tree.link(task.cell, tree_word::GRAPH), word);
            },
            || {
                f.atomic_sub(Order::Release, Scope::Device, launches, 1);
                let code = f.select(there, FaultCode::DENIED.code(), FaultCode::ARGUMENTS.code());
                let fault = || f.store(self.kernel.shared.faults.at(task.place), code);
                f.choose(own, || self.run_again(f, task.place), fault);
            },
        );
        instance.ne(0)
    }

    /// The argument by which a task names the graph that it launches.
    fn launched_name<'b>(self, f: &'b FunctionBuilder<'b>, cell: U32<'b>) -> U32<'b> {
        f.cast::<u32>(f.load(self.cells.lines.at(cell * LINE + slot::ARG / 2)))
    }

    /// Takes a free instance. Gives its number plus one, or 0 if none is free.
    fn take_instance<'b>(self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        let words = self.layout.instances.div_ceil(64);
        f.range((0u32, words, 1u32), f.lit(0), |probes, word, none| {
            let free = self.buffers.free.at(word);
            let first = f.atomic_load(Order::Relaxed, Scope::Device, free);
            let taken = f.forever::<_, U32<'b>>(first, |tries, seen| {
                f.when(seen.eq(0), || tries.leave(f.lit(0)));
                // Pairs with the release of whoever gave the instance back.
                let found = f.atomic_cas(Order::Acquire, Scope::Device, free, seen, seen & (seen - 1u64));
                f.when(found.eq(seen), || tries.leave(word * 64 + f.ctz(seen) + 1));
                found
            });
            f.when(taken.ne(0), || probes.leave(taken));
            none
        })
    }

    /// Prepares the cell of a node, apart from arguments that are results of others.
    fn prepare_node<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        (node, tenant): (U32<'b>, U32<'b>),
    ) {
        let (cell, row) = (instance.base + node, node_row(instance.graph, node));
        let word = |word: u32| self.word(f, row + word);
        let level = word(graph::LEVEL);
        f.store(self.cells.lines.at(cell * LINE), f.cast::<u64>(word(graph::OP)) << 32);
        let owner = f.cast::<u64>(tenant) | f.cast::<u64>(level) << 32;
        f.store(self.cells.lines.at(cell * LINE + 1), owner);
        let link = f.cast::<u64>(instance.root + 1) | u64::from(u32::MAX) << 32;
        self.tree.begin_task(f, cell, (link, instance.root, level));
        for word in [cell_fact::STEPS, cell_fact::SIZES] {
            f.store(fact(self.cells, cell, word), 0u64);
        }
        self.kernel.clear_frame(f, cell, self.kernel.layout.steps.map_or(0, |steps| steps.frame_words));
        f.atomic_store(Order::Relaxed, Scope::Device, self.left_of(cell), word(graph::PREDECESSORS));
        self.fill_arguments(f, instance, (node, ArgKind::Constant));
    }

    /// Makes a node RUNNABLE whose predecessors have all ended, after filling in the arguments that are their results.
    fn start_node<'b>(self, f: &'b FunctionBuilder<'b>, instance: Instance<'b>, node: U32<'b>) {
        self.fill_arguments(f, instance, (node, ArgKind::Result));
        let cell = instance.base + node;
        f.atomic_store(Order::Relaxed, Scope::Device, self.cells.states.at(cell), cell_state::RUNNABLE);
    }

    /// Fills in the arguments of a node, two at a time. If `wanted` is [`ArgKind::Result`], only pairs that have a
    /// result among them are written, because all others were written when the cell was prepared.
    fn fill_arguments<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        (node, wanted): (U32<'b>, ArgKind),
    ) {
        let (cell, row) = (instance.base + node, node_row(instance.graph, node));
        let kinds = self.word(f, row + graph::KINDS);
        const KIND: u32 = (1 << KIND_BITS) - 1;
        // No branch depends on what an argument is, so that loads are under way at once. A load beyond a buffer gives
        // 0.
        let argument = |kind: U32<'b>, value: U32<'b>| {
            let among = |wanted: ArgKind, at: U32<'b>| f.select(kind.eq(wanted.code()), at, u32::MAX);
            // The first argument of the task that launches names the graph.
            let at = value + (slot::ARG + 1);
            let line = among(ArgKind::Parameter, instance.root * LINE + at / 2);
            let parameter = f.cast::<u32>(f.load(self.cells.lines.at(line)) >> ((at & 1) << 5));
            let end = (instance.base + value) * tree_word::WORDS + tree_word::END;
            let end = self.tree.buffers.links.at(among(ArgKind::Result, end));
            let result = f.cast::<u32>(f.load(end) >> 32);
            f.select(kind.eq(ArgKind::Constant.code()), value, parameter | result)
        };
        f.range((0u32, graph::ARGS as u32, 2u32), (), |_, first, ()| {
            let [kind, other] = [first, first + 1].map(|k| (kinds >> (k * KIND_BITS)) & KIND);
            let fill = || {
                let at = row + first + graph::ARG;
                let (value, second) = (self.word(f, at), self.word(f, at + 1));
                let pair =
                    f.cast::<u64>(argument(kind, value)) | f.cast::<u64>(argument(other, second)) << 32;
                f.store(self.cells.lines.at(cell * LINE + slot::ARG / 2 + first / 2), pair);
            };
            match wanted {
                ArgKind::Result => {
                    let result = ArgKind::Result.code();
                    f.when(kind.eq(result) | other.eq(result), fill);
                }
                _ => fill(),
            }
        });
    }

    /// Ends a node: keeps its result or its fault, and starts the nodes that were waiting for no other node. `next` is
    /// the number of the cell, plus one, of a task that the lane may go on with, or 0 if there is none. If there is
    /// none, the lane may go on with the first of the nodes that it starts, unless its group has much to do. Gives the
    /// new `next`.
    pub(super) fn end_node<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        (cell, root, next): (U32<'b>, U32<'b>, U32<'b>),
        (status, value): (U32<'b>, U32<'b>),
    ) -> U32<'b> {
        let instance = self.instance(f, (cell, root));
        let row = node_row(instance.graph, cell - instance.base);
        let end = f.cast::<u64>(status) | f.cast::<u64>(value) << 32;
        f.store(self.tree.link(cell, tree_word::END), end);
        f.when(status.eq(Status::Fault.code()), || {
            let fault = self.tree.link(root, tree_word::FIRST_FAULT);
            f.atomic_cas(Order::Relaxed, Scope::Device, fault, 0u64, f.cast::<u64>(value));
        });
        f.atomic_store(Order::Relaxed, Scope::Device, self.cells.states.at(cell), cell_state::ENDED);
        let nodes = self.word(f, instance.graph + graph::NODES);
        let first = self.word(f, row + graph::FIRST_SUCCESSOR);
        let count = self.word(f, row + graph::SUCCESSORS);
        let list = node_row(instance.graph, nodes) + first;
        // A group with much to do spreads nodes that become ready over all of its lanes.
        let few = (self.kernel.layout.lanes / 8).max(1);
        let goes_on =
            f.atomic_load(Order::Relaxed, Scope::Group, self.cells.words.at(home_word::COUNT)).le(few);
        f.range((f.lit(0), count, f.lit(1)), next, |_, k, next| {
            let successor = self.word(f, list + k);
            let ready = instance.base + successor;
            // Pairs with itself: the lane that subtracts the last predecessor sees the results of all of them.
            let before = f.atomic_sub(Order::AcqRel, Scope::Device, self.left_of(ready), 1);
            f.choose(
                before.eq(1),
                || {
                    self.start_node(f, instance, successor);
                    let kept = next.eq(0) & goes_on;
                    f.when(!kept, || push_spawned(f, self.kernel, self.cells, ready));
                    f.select(kept, ready + 1, next)
                },
                || next,
            )
        })
    }

    /// The status and the value of a task that ends. If it has launched a graph, all nodes have ended, and the instance
    /// is given back.
    pub(super) fn end_launch<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cell: U32<'b>,
        (status, value): (U32<'b>, U32<'b>),
    ) -> (U32<'b>, U32<'b>) {
        let word = f.load(self.tree.link(cell, tree_word::GRAPH));
        f.choose(
            word.ne(0),
            || {
                let instance = self.instance(f, (cell, cell));
                let node = self.word(f, instance.graph + graph::RESULT);
                let end = f.load(self.tree.link(instance.base + node, tree_word::END));
                let fault = self.tree.link(cell, tree_word::FIRST_FAULT);
                let fault = f.cast::<u32>(f.atomic_load(Order::Relaxed, Scope::Device, fault));
                let number = f.cast::<u32>(word >> 32) - 1;
                let bit = f.lit(1u64) << (number & 63);
                // Pairs with the acquire of whoever takes the instance next.
                f.atomic_or(Order::Release, Scope::Device, self.buffers.free.at(number >> 6), bit);
                let launches = self.buffers.launches.at(self.launched_name(f, cell) & (MAX_GRAPHS - 1));
                f.atomic_sub(Order::Release, Scope::Device, launches, 1);
                let faulty = fault.ne(0) & status.ne(Status::Cancelled.code());
                let well = status.eq(Status::Done.code());
                let value = f.select(well, f.cast::<u32>(end >> 32), value);
                (f.select(faulty, Status::Fault.code(), status), f.select(faulty, fault, value))
            },
            || (status, value),
        )
    }

    /// Whether a task is a node that is skipped, because another node of its graph has ended with a fault.
    pub(super) fn is_skipped<'b>(self, f: &'b FunctionBuilder<'b>, cell: U32<'b>) -> Val<'b, bool> {
        f.choose(
            self.is_node(cell),
            || {
                let root = f.cast::<u32>(f.load(self.tree.link(cell, tree_word::ROOT)));
                let fault = self.tree.link(root, tree_word::FIRST_FAULT);
                f.atomic_load(Order::Relaxed, Scope::Device, fault).ne(0)
            },
            || f.lit(false),
        )
    }

    /// Clears the words that say which graph the task of a cell has launched, because an earlier task may have left
    /// some there.
    pub(super) fn clear_launch<'b>(self, f: &'b FunctionBuilder<'b>, cell: U32<'b>) {
        f.store(self.tree.link(cell, tree_word::GRAPH), 0u64);
        let fault = self.tree.link(cell, tree_word::FIRST_FAULT);
        f.atomic_store(Order::Relaxed, Scope::Device, fault, 0u64);
    }

    /// Whether an opcode is the one that launches graphs.
    pub(super) fn is_launch(op: U32<'_>) -> Val<'_, bool> {
        op.eq(Opcode::LAUNCH_GRAPH.code())
    }
}

/// Where the row of a node begins, given where the words of its graph begin.
fn node_row<'b>(graph: U32<'b>, node: U32<'b>) -> U32<'b> {
    graph + node * (NODE_WORDS as u32) + HEADER_WORDS as u32
}
