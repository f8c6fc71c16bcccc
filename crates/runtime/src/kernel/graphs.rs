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
//! that acquire and release, so that lane sees the results of all predecessors. A node that has one predecessor needs no
//! count: whoever ends that predecessor starts the node.
//!
//! **Chains.** The lane that ends a node mostly goes on with a node that it has started. It then *owes* the task that has
//! launched the graph the end of the node that it leaves behind, and takes all that it owes off the count of children at
//! once. It does so no later than it ends a node without going on with another one, and before it gives the node that it
//! runs to anybody else. So the count reaches zero only when the lane has paid, and whoever brings it to zero knows that.
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
use super::context::{KernelContext, LINE, U32, U64};
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

/// What is known of a node when it runs. Of a task that is no node, everything is zero.
#[derive(Clone, Copy)]
pub(super) struct NodeFacts<'b> {
    /// Where the words of its graph begin, and in the upper half the number of the instance plus one.
    link: U64<'b>,
    /// How many successors it has.
    count: U32<'b>,
    /// The first of them.
    next: U32<'b>,
}

/// The parts of a [`NodeFacts`], in their order.
pub(super) type NodeFactsTuple<'b> = (U64<'b>, U32<'b>, U32<'b>);

impl<'b> NodeFacts<'b> {
    /// What is known of a task that is no node.
    pub(super) fn none(f: &'b FunctionBuilder<'b>) -> Self {
        NodeFacts { link: f.lit(0u64), count: f.lit(0), next: f.lit(0) }
    }

    pub(super) fn tuple(self) -> NodeFactsTuple<'b> {
        (self.link, self.count, self.next)
    }

    pub(super) fn from_tuple((link, count, next): NodeFactsTuple<'b>) -> Self {
        NodeFacts { link, count, next }
    }
}

/// The arguments of a node that are results, in KINDS, apart from its first two arguments.
const LATER_RESULTS: u32 = {
    let (mut kinds, mut k) = (0, 2);
    while k < graph::ARGS as u32 {
        kinds |= ArgKind::Result.code() << (k * KIND_BITS);
        k += 1;
    }
    kinds
};

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
        self.instance_of(f, f.load(self.tree.link(cell, tree_word::GRAPH)), root)
    }

    /// The instance of a graph that a word [`tree_word::GRAPH`] names.
    fn instance_of<'b>(self, f: &'b FunctionBuilder<'b>, word: U64<'b>, root: U32<'b>) -> Instance<'b> {
        let (graph, number) = (f.cast::<u32>(word), f.cast::<u32>(word >> 32) - 1);
        Instance { graph, base: number * self.layout.nodes + self.kernel.layout.first_graph_cell(), root }
    }

    /// Which graph the task of a cell is a node of, or 0 if it is no node. No branch depends on that, so that the load is
    /// under way together with others.
    pub(super) fn link_of_node<'b>(self, f: &'b FunctionBuilder<'b>, cell: U32<'b>) -> U64<'b> {
        let at = cell * tree_word::WORDS + tree_word::GRAPH;
        f.load(self.tree.buffers.links.at(f.select(self.is_node(cell), at, u32::MAX)))
    }

    /// What is known of the node of a cell, if it is one. `link` is that of [`link_of_node`](Self::link_of_node).
    pub(super) fn node_facts<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        (cell, root, link): (U32<'b>, U32<'b>, U64<'b>),
    ) -> NodeFacts<'b> {
        let instance = self.instance_of(f, link, root);
        let row = node_row(instance.graph, cell - instance.base);
        let is_node = self.is_node(cell);
        let word = |word: u32| self.word(f, f.select(is_node, row + word, u32::MAX));
        NodeFacts { link, count: word(graph::SUCCESSORS), next: word(graph::NEXT) }
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
        self.fill_arguments(f, instance, node);
    }

    /// The value of an argument of a node. `own` is the node that has just ended and its result, which need not be loaded.
    ///
    /// No branch depends on what an argument is, so that loads are under way at once. A load beyond a buffer gives 0.
    fn argument<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        (kind, value): (U32<'b>, U32<'b>),
        own: Option<(U32<'b>, U32<'b>)>,
    ) -> U32<'b> {
        let is = |wanted: ArgKind| kind.eq(wanted.code());
        // The first argument of the task that launches names the graph.
        let at = value + (slot::ARG + 1);
        let line = f.select(is(ArgKind::Parameter), instance.root * LINE + at / 2, u32::MAX);
        let parameter = f.cast::<u32>(f.load(self.cells.lines.at(line)) >> ((at & 1) << 5));
        let end = (instance.base + value) * tree_word::WORDS + tree_word::END;
        let known = own.map(|(node, result)| (is(ArgKind::Result) & value.eq(node), result));
        let loaded = known.map_or(is(ArgKind::Result), |(known, _)| is(ArgKind::Result) & !known);
        let end = self.tree.buffers.links.at(f.select(loaded, end, u32::MAX));
        let result = f.cast::<u32>(f.load(end) >> 32);
        let result = known.map_or(result, |(known, own)| f.select(known, own, result));
        f.select(is(ArgKind::Constant), value, parameter | result)
    }

    /// Fills in two arguments of a node, the first of which has the number `first`.
    fn fill_pair<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        (node, first): (U32<'b>, U32<'b>),
        [one, other]: [(U32<'b>, U32<'b>); 2],
        own: Option<(U32<'b>, U32<'b>)>,
    ) {
        let (one, other) = (self.argument(f, instance, one, own), self.argument(f, instance, other, own));
        let pair = f.cast::<u64>(one) | f.cast::<u64>(other) << 32;
        f.store(self.cells.lines.at((instance.base + node) * LINE + slot::ARG / 2 + first / 2), pair);
    }

    /// Fills in the arguments of a node that are known when its graph is launched. Results are not, and are zero so far.
    fn fill_arguments<'b>(self, f: &'b FunctionBuilder<'b>, instance: Instance<'b>, node: U32<'b>) {
        let row = node_row(instance.graph, node);
        let kinds = self.word(f, row + graph::KINDS);
        f.range((0u32, graph::ARGS as u32, 2u32), (), |_, first, ()| {
            let pair = [first, first + 1].map(|k| (kind_of(kinds, k), self.word(f, row + k + graph::ARG)));
            self.fill_pair(f, instance, (node, first), pair, None);
        });
    }

    /// Fills in those arguments of a node that are results, after all predecessors of the node have ended. `kinds` says
    /// what the arguments are, `values` are the words of the first two, and `own` is a predecessor and its result. Only
    /// pairs that have a result among them are written, because all others were written when the graph was launched.
    fn fill_results<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        (node, kinds, values): (U32<'b>, U32<'b>, [U32<'b>; 2]),
        own: (U32<'b>, U32<'b>),
    ) {
        let result = ArgKind::Result.code();
        let [one, other] = [0, 1].map(|k| kind_of(kinds, f.lit(k)));
        let pair = [(one, values[0]), (other, values[1])];
        f.when(one.eq(result) | other.eq(result), || {
            self.fill_pair(f, instance, (node, f.lit(0)), pair, Some(own));
        });
        f.when((kinds & LATER_RESULTS).ne(0), || {
            let row = node_row(instance.graph, node);
            f.range((2u32, graph::ARGS as u32, 2u32), (), |_, first, ()| {
                let [one, other] = [first, first + 1].map(|k| kind_of(kinds, k));
                f.when(one.eq(result) | other.eq(result), || {
                    let at = row + first + graph::ARG;
                    let pair = [(one, self.word(f, at)), (other, self.word(f, at + 1))];
                    self.fill_pair(f, instance, (node, first), pair, Some(own));
                });
            });
        });
    }

    /// Ends a node: keeps its result or its fault, and starts the nodes that were waiting for no other node. If there is
    /// no `next` task already, the lane may go on with the first of the nodes that it starts if it `keeps` its place, unless
    /// its group has much to do. Gives the number of the cell, plus one, of the task that it goes on with, or 0, and
    /// whether that is a node that was started here.
    pub(super) fn end_node<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        (cell, root, facts): (U32<'b>, U32<'b>, NodeFacts<'b>),
        (status, value): (U32<'b>, U32<'b>),
        (next, keeps): (U32<'b>, Val<'b, bool>),
    ) -> (U32<'b>, Val<'b, bool>) {
        let instance = self.instance_of(f, facts.link, root);
        let node = cell - instance.base;
        let end = f.cast::<u64>(status) | f.cast::<u64>(value) << 32;
        f.store(self.tree.link(cell, tree_word::END), end);
        f.when(status.eq(Status::Fault.code()), || {
            let fault = self.tree.link(root, tree_word::FIRST_FAULT);
            f.atomic_cas(Order::Relaxed, Scope::Device, fault, 0u64, f.cast::<u64>(value));
        });
        f.atomic_store(Order::Relaxed, Scope::Device, self.cells.states.at(cell), cell_state::ENDED);
        // A group with much to do spreads nodes that become ready over all of its lanes.
        let few = (self.kernel.layout.lanes / 8).max(1);
        let count = f.atomic_load(Order::Relaxed, Scope::Group, self.cells.words.at(home_word::COUNT));
        let keeps = keeps & count.le(few);
        // The row has the first successor, so that the list is read only if there are more.
        let find_list = || {
            let nodes = self.word(f, instance.graph + graph::NODES);
            node_row(instance.graph, nodes)
                + self.word(f, node_row(instance.graph, node) + graph::FIRST_SUCCESSOR)
        };
        let list = f.choose(facts.count.gt(1), find_list, || f.lit(0));
        let none = (next, f.lit(false));
        f.range((f.lit(0), facts.count, f.lit(1)), none, |_, k, (next, chained)| {
            let successor = f.choose(k.eq(0), || facts.next, || self.word(f, list + k));
            let started = self.start_node(f, instance, successor, (node, value));
            f.choose(
                started,
                || {
                    let (ready, kept) = (instance.base + successor, next.eq(0) & keeps);
                    f.when(!kept, || push_spawned(f, self.kernel, self.cells, ready));
                    (f.select(kept, ready + 1, next), chained | kept)
                },
                || (next, chained),
            )
        })
    }

    /// Takes the node `own`, which has ended, off the count of predecessors of another node. If it was the last one, fills
    /// in the arguments that are results and makes the other node RUNNABLE. Gives whether it did.
    fn start_node<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        instance: Instance<'b>,
        node: U32<'b>,
        own: (U32<'b>, U32<'b>),
    ) -> Val<'b, bool> {
        let (cell, row) = (instance.base + node, node_row(instance.graph, node));
        // All loads are under way at once.
        let predecessors = self.word(f, row + graph::PREDECESSORS);
        let kinds = self.word(f, row + graph::KINDS);
        let values = [0, 1].map(|k| self.word(f, row + graph::ARG + k));
        let last = f.choose(
            predecessors.eq(1),
            || f.lit(true),
            || {
                // Pairs with itself: the lane that subtracts the last predecessor sees the results of all of them.
                f.atomic_sub(Order::AcqRel, Scope::Device, self.left_of(cell), 1).eq(1)
            },
        );
        f.when(last, || {
            self.fill_results(f, instance, (node, kinds, values), own);
            f.atomic_store(Order::Relaxed, Scope::Device, self.cells.states.at(cell), cell_state::RUNNABLE);
        });
        last
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

    /// Whether a task is a node that is skipped, because another node of its graph has ended with a fault. `root` is the
    /// cell of its root.
    pub(super) fn is_skipped<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        (cell, root): (U32<'b>, U32<'b>),
    ) -> Val<'b, bool> {
        let at = root * tree_word::WORDS + tree_word::FIRST_FAULT;
        let fault = self.tree.buffers.links.at(f.select(self.is_node(cell), at, u32::MAX));
        f.atomic_load(Order::Relaxed, Scope::Device, fault).ne(0)
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

/// What the argument with this number is, given KINDS.
fn kind_of<'b>(kinds: U32<'b>, argument: U32<'b>) -> U32<'b> {
    (kinds >> (argument * KIND_BITS)) & ((1 << KIND_BITS) - 1)
}
