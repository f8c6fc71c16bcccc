//! Tasks that make other tasks and wait for them.
//!
//! A task may [spawn](super::spawn) others, its *children*, which may spawn further ones. All of them together are a
//! *tree*, and the task that the host has submitted is its *root*. Children live in cells, as their root does, but it
//! is the kernel that gives these cells out. They have no records that the host could see: what a child ends with goes
//! to its parent. For each cell, the words of [`tree_word`] say how its task is connected with others.
//!
//! **The count of children** is part of the state of the parent's cell, so that one read-modify-write decides together
//! what the count, the phase and the asks of the host are:
//!
//! - At the end of a step, the lane that ran it adds the children of the step to the count, and decides in the same
//!   compare-exchange whether the task waits for them. Only then are the children put at home. So no child ends before
//!   it was counted, and the children see everything that the step wrote.
//! - A child that ends stores its result in the parent's frame, gives its cell back, and subtracts itself from the
//!   count. The lane that subtracts the last child looks at the parent again: if the parent waits, it is made RUNNABLE
//!   and put at home, and if it has ended, its end becomes known now. Each of the two is a compare-exchange that
//!   succeeds only if the count is zero and the parent still waits for that reason. So it happens exactly once, whoever
//!   else looks at the parent at the same time.
//!
//! **A task ends after its children.** Until they have ended, its cell keeps what the task itself has ended with. So
//! the record of a root says that its whole tree has ended, a fence that waits for the root waits for its tree, and no
//! cell of a tree outlives its root. For the same reason, every task can safely look at the state of its root at any
//! time.
//!
//! **Cancelling** a root cancels its tree. Every task looks at the state of its root before each turn and not before
//! each step, so a few steps may still be taken.
//!
//! **Faults of children** are counted. A handler that imports `child_faults` can see how many there were. A task of any
//! other handler ends with the fault CHILD as soon as one of its children has ended with a fault.
//!
//! **Urgency.** When a task enters a queue, it enters that of its own level or that of its root's level, whichever is
//! more urgent. So a root that waits for its tree is never held up by tasks that are less urgent than the root itself.
//! If the level of the root changes, cells that are in a queue already are not moved.
//!
//! The module [`arrivals`](super::arrivals) decides which task of a tree runs next, and [`tree_end`](super::tree_end) has
//! the ends of tasks.

use pelton_ir::builder::{At, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, EventBuffers, GraphBuffers, SpawnBuffers, TreeBuffers};
use super::cells::{cell_fact, cell_state, change_state_from, fact};
use super::context::{LINE, U32, U64};
use super::declare::Declarer;
use super::dispatch::allows;
use super::graphs::{GraphLayout, GraphRunner, NodeFacts};
use super::home::{self, CellServer, CellTask, STEPS_PER_TURN, home_word, share};
use super::ready::push_ready;
use super::steps::{outcome, step_counter};
use super::tree_end::pay_unless;
use super::{event, recovery, spawn};
use crate::protocol::{FaultCode, Status, control};

/// What tasks that make or await other tasks need of a kernel's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeLayout {
    /// How many cells each tenant has for spawned tasks.
    pub spawn_cells: u32,
    /// How many events each tenant has.
    pub events: u32,
    /// What graphs need, if the kernel has graphs.
    pub graphs: Option<GraphLayout>,
}

/// The words of [`TreeBuffers::links`].
pub(crate) mod tree_word {
    /// In the lower half, the number of the parent's cell plus one, or 0 if the host has submitted the task. In the
    /// upper half, the word of the parent's frame that the result goes to.
    pub(crate) const PARENT: u32 = 0;
    /// The cell of the task's root, which is its own if the host has submitted the task.
    pub(crate) const ROOT: u32 = 1;
    /// How many children of the task have ended with a fault.
    pub(crate) const FAULTS: u32 = 2;
    /// What a task has ended with, if it has ended and some of its children have not: the status and, in the upper
    /// half, the value. The cells of nodes keep it until their instance ends, because other nodes may take the value.
    pub(crate) const END: u32 = 3;
    /// The number of the event that the task waits for, among those of all tenants, and in the upper half the count
    /// that the event must reach.
    pub(crate) const WAIT: u32 = 4;
    /// The number of the next cell that waits for the same event, plus one, and in the upper half the count that it waits
    /// for, or 0 for the last one.
    pub(crate) const NEXT: u32 = 5;
    /// The level of the task, which its whole tree looks at if it is a root.
    pub(crate) const LEVEL: u32 = 6;
    /// How often in a row the task has found no room for children.
    pub(crate) const TRIES: u32 = 7;
    /// Where the words of the graph begin that the task has launched or is a node of, and in the upper half the number
    /// of the instance plus one. The word is 0 if the host has submitted the task and it has launched no graph.
    pub(crate) const GRAPH: u32 = 8;
    /// The code of the first fault among the nodes of that graph, or 0.
    pub(crate) const FIRST_FAULT: u32 = 9;
    /// How many words there are per cell.
    pub(crate) const WORDS: u32 = 10;
}

/// The buffers of a kernel whose tasks make or await others.
pub(super) struct TreeContext {
    pub buffers: TreeBuffers,
    /// The cells for spawned tasks, if a handler spawns any.
    pub spawn: Option<SpawnBuffers>,
    /// The events, if there are any.
    pub events: Option<EventBuffers>,
    /// The graphs, if the kernel can have any.
    pub graphs: Option<GraphBuffers>,
}

impl TreeContext {
    /// Declares the buffers, if the kernel's tasks make or await others.
    pub(super) fn declare(d: &mut Declarer<'_>) -> Option<Self> {
        let TreeLayout { spawn_cells, events, graphs } = d.plan.layout.trees?;
        Some(TreeContext {
            buffers: TreeBuffers::declare(d),
            spawn: (spawn_cells > 0).then(|| SpawnBuffers::declare(d)),
            events: (events > 0).then(|| EventBuffers::declare(d)),
            graphs: graphs.is_some().then(|| GraphBuffers::declare(d)),
        })
    }

    /// Where a word of [`tree_word`] is for the task of a cell.
    pub(super) fn link<'b>(&self, cell: U32<'b>, word: u32) -> At<'b, u64> {
        self.buffers.links.at(cell * tree_word::WORDS + word)
    }

    /// The state of the root of a cell's task.
    pub(super) fn root_state<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
    ) -> U64<'b> {
        let root = f.cast::<u32>(f.load(self.link(cell, tree_word::ROOT)));
        f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(root))
    }

    /// The level of the queue that a task enters: its own or that of its root, whichever is more urgent.
    pub(super) fn urgency<'b>(&self, f: &'b FunctionBuilder<'b>, cell: U32<'b>, level: U32<'b>) -> U32<'b> {
        let root = f.cast::<u32>(f.load(self.link(cell, tree_word::ROOT)));
        let of_root = f.atomic_load(Order::Relaxed, Scope::Device, self.link(root, tree_word::LEVEL));
        f.min(level, f.cast::<u32>(of_root))
    }

    /// Prepares the words of a task that has just come to a cell. `parent` is the number of the parent's cell
    /// plus one, or 0 for a root.
    pub(super) fn begin_task<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        cell: U32<'b>,
        (parent, root, level): (U64<'b>, U32<'b>, U32<'b>),
    ) {
        f.store(self.link(cell, tree_word::PARENT), parent);
        f.store(self.link(cell, tree_word::ROOT), f.cast::<u64>(root));
        f.store(self.link(cell, tree_word::TRIES), 0u64);
        for (word, value) in [(tree_word::FAULTS, f.lit(0u64)), (tree_word::LEVEL, f.cast::<u64>(level))] {
            f.atomic_store(Order::Relaxed, Scope::Device, self.link(cell, word), value);
        }
    }
}

/// How many children of a task have not ended, given the state of its cell.
pub(super) fn child_count(state: U64<'_>) -> U64<'_> {
    (state >> cell_state::CHILD_SHIFT) & cell_state::MAX_CHILDREN
}

/// The most nodes of a graph that a lane runs one after the other in one turn.
const MOST_NODES_PER_TURN: u32 = 4 * STEPS_PER_TURN;

/// What a lane brings along when it runs the task of a cell, in kernels with graphs.
#[derive(Clone, Copy)]
pub(super) struct Run<'b> {
    /// Two counts in one word, because registers are short: how many ends of nodes the lane owes, in the low bits, and how
    /// many steps it has begun in this turn, above them.
    counts: U32<'b>,
    /// Whether the lane may go on with another task in this turn.
    pub goes_on: Val<'b, bool>,
    /// The cell of the root of the task that the lane has run before, and the word of that task's cell that names its graph.
    /// While the lane owes ends of nodes, the task that it runs has the same, and they need not be loaded.
    before: Option<(U32<'b>, U64<'b>)>,
}

impl<'b> Run<'b> {
    /// How many low bits of the counts say how many ends of nodes the lane owes. It never owes more than the nodes of a turn.
    const OWED_BITS: u32 = 8;

    /// How many ends of nodes the lane owes to the task that has launched the graph. If there are any, the task that it
    /// runs is a node of that graph.
    pub(super) fn owed(self) -> U32<'b> {
        self.counts & ((1 << Run::OWED_BITS) - 1)
    }

    /// How many steps the lane has begun in this turn.
    fn begun(self) -> U32<'b> {
        self.counts >> Run::OWED_BITS
    }

    /// The same with another number of owed ends, and after further steps.
    fn after_steps(self, owed: U32<'b>, steps: U32<'b>) -> Self {
        Run { counts: (self.begun() + steps) << Run::OWED_BITS | owed, ..self }
    }
}

const _: () = assert!(MOST_NODES_PER_TURN < 1 << Run::OWED_BITS);

/// What decides whether a task may take a step.
#[derive(Clone, Copy)]
struct FoundTask<'b> {
    /// The state of its cell, and that of its root.
    seen: U64<'b>,
    root_state: U64<'b>,
    /// How many steps it has begun.
    begun: U64<'b>,
    /// How many of its children have ended with a fault.
    faults: U64<'b>,
    /// The opcodes that its tenant may use.
    mask: U32<'b>,
    /// Whether it is a node that is skipped.
    skipped: Val<'b, bool>,
}

/// What a step leaves behind, or what becomes of a task that may take no step.
#[derive(Clone, Copy)]
pub(super) struct StepEnd<'b> {
    /// Whether the task ends.
    pub ends: Val<'b, bool>,
    pub status: U32<'b>,
    pub value: U32<'b>,
    /// Whether the task keeps its place at home.
    pub stays: Val<'b, bool>,
    /// The number of the cell, plus one, of a task that the step has made ready and that the lane may go on with, or 0
    /// if there is none. It is always 0 if the task keeps its place, because the other one needs that place.
    pub next: U32<'b>,
    /// Whether the task has had children.
    pub had_children: Val<'b, bool>,
}

/// The parts of a [`StepEnd`], in their order.
type StepEndTuple<'b> = (Val<'b, bool>, U32<'b>, U32<'b>, Val<'b, bool>, U32<'b>, Val<'b, bool>);

impl<'b> StepEnd<'b> {
    fn tuple(self) -> StepEndTuple<'b> {
        (self.ends, self.status, self.value, self.stays, self.next, self.had_children)
    }

    fn from_tuple((ends, status, value, stays, next, had_children): StepEndTuple<'b>) -> Self {
        StepEnd { ends, status, value, stays, next, had_children }
    }

    /// The task goes on.
    fn goes_on(f: &'b FunctionBuilder<'b>, stays: Val<'b, bool>) -> Self {
        let (no, zero) = (f.lit(false), f.lit(0));
        StepEnd { ends: no, status: zero, value: zero, stays, next: zero, had_children: no }
    }
}

impl CellServer<'_> {
    /// Runs the task of a cell for one turn. The task may make another one ready: a child that it spawns, its parent if
    /// it is the last child to end, or a node if it is the last of the node's predecessors to end. Then the lane goes
    /// on with that one at the same place, up to [`STEPS_PER_TURN`] times, or up to [`MOST_NODES_PER_TURN`] times in a
    /// kernel with graphs while its group has nothing else to do.
    pub(super) fn run_tree_cells<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        (place, cell): (U32<'b>, U32<'b>),
    ) {
        if GraphRunner::new(self.kernel).is_none() {
            f.range((0u32, STEPS_PER_TURN, 1u32), cell, |turns, _, cell| {
                let run = Run { counts: f.lit(0), goes_on: f.lit(true), before: None };
                let (next, _) = self.run_tree_cell(f, cells, tree, (place, cell), run);
                f.when(next.eq(0), || turns.leave(cell));
                next - 1
            });
            return;
        }
        let first = (cell, f.lit(0), f.lit(0), f.lit(0u64));
        f.range((0u32, MOST_NODES_PER_TURN, 1u32), first, |turns, k, (cell, counts, root, link)| {
            let run = Run { counts, goes_on: f.lit(true), before: Some((root, link)) };
            // This is decided before the task runs, because the lane owes nothing when it stops.
            let more = || {
                let word = |word: u32| f.atomic_load(Order::Relaxed, Scope::Group, cells.words.at(word));
                let others = word(home_word::ARRIVED) | f.load(cells.words.at(home_word::OTHERS));
                let alone = word(home_word::COUNT).le(1) & others.eq(0);
                alone & run.begun().lt(MOST_NODES_PER_TURN) & k.lt(MOST_NODES_PER_TURN - 1)
            };
            let goes_on = f.choose(k.lt(STEPS_PER_TURN - 1), || f.lit(true), more);
            let run = Run { goes_on, ..run };
            let (next, after) = self.run_tree_cell(f, cells, tree, (place, cell), run);
            let (root, link) = after.before.unwrap_or((root, link));
            f.when(next.eq(0) | !goes_on, || turns.leave((cell, after.counts, root, link)));
            (next - 1, after.counts, root, link)
        });
    }

    /// Runs the task of a cell for one turn, unless it has to end or to wait. Gives the number of the cell that the
    /// lane goes on with, plus one, or 0 if there is none, and what it leaves behind of `run`.
    fn run_tree_cell<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        (place, cell): (U32<'b>, U32<'b>),
        run: Run<'b>,
    ) -> (U32<'b>, Run<'b>) {
        let (kernel, line) = (self.kernel, cell * LINE);
        let graphs = GraphRunner::new(kernel);
        // These loads are under way at once, and those that depend on them are so too.
        let seen = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let op = f.cast::<u32>(f.load(cells.lines.at(line)) >> 32);
        let tenant = match kernel.layout.tenant_count() {
            // What depends on the tenant need not wait for the line.
            1 => f.lit(0),
            _ => f.cast::<u32>(f.load(cells.lines.at(line + 1))),
        };
        let begun = f.load(fact(cells, cell, cell_fact::STEPS));
        let faults = f.atomic_load(Order::Relaxed, Scope::Device, tree.link(cell, tree_word::FAULTS));
        let load_root = || f.cast::<u32>(f.load(tree.link(cell, tree_word::ROOT)));
        // Where memory is near, what is known of a node is loaded when it ends.
        let early = graphs.filter(|_| kernel.layout.remote);
        let before = early.zip(run.before).map(|(graphs, before)| {
            f.choose(run.owed().ne(0), || before, || (load_root(), graphs.link_of_node(f, cell)))
        });
        let (root, link) = before.map_or_else(|| (load_root(), None), |(root, link)| (root, Some(link)));
        let mask = kernel.host_word(f, tenant + control::MASKS);
        let skipped = graphs.map_or(f.lit(false), |graphs| graphs.is_skipped(f, (cell, root)));
        let node = early.zip(link).map(|(graphs, link)| graphs.node_facts(f, (cell, root, link)));
        let load_root_state = || f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(root));
        let root_state = match kernel.layout.remote {
            // A task that the host has submitted is its own root. It does not wait for a second trip to memory.
            true => f.choose(cell.lt(kernel.layout.producer_cell_count()), || seen, load_root_state),
            false => load_root_state(),
        };
        let seen = event::end_wait(f, kernel, (cell, seen));
        let task = CellTask { place, cell, op, tenant };
        let found = FoundTask { seen, root_state, begun, faults, mask, skipped };
        let (held, end) = self.reason_to_hold(f, task, found);
        let none = || (f.lit(0), f.lit(0), f.lit(0), f.lit(0));
        let steps = || self.run_steps(f, cells, task, |ended| ended, none);
        let (status, value, asked, steps) = f.choose(held, none, steps);
        let pay = || {
            let ended = steps.ne(0) & !(status.eq(Status::Done.code()) & asked.ne(0));
            let childless = (seen & cell_state::HAD_CHILDREN).eq(0) & !spawn::has_children(f, tree, place);
            pay_unless(f, cells, (root, run.owed()), f.select(held, end.ends, ended) & childless)
        };
        let owed = graphs.map_or(f.lit(0), |_| f.choose(run.owed().ne(0), pay, || f.lit(0)));
        let run = run.after_steps(owed, steps);
        let end = f.choose(
            held,
            || {
                let kept = || StepEnd::goes_on(f, self.pause_or_queue(f, cells, cell, (seen, mask))).tuple();
                f.choose(end.ends, || end.tuple(), kept)
            },
            || {
                // A group-wide task that was put aside has taken no step.
                let aside = || StepEnd::goes_on(f, f.lit(true)).tuple();
                let ended = (status, value, asked, steps);
                let after = || self.after_steps(f, cells, tree, task, (seen, begun), ended).tuple();
                f.choose(steps.eq(0), aside, after)
            },
        );
        let end = StepEnd::from_tuple(end);
        let (next, owed) = self.settle_step(f, cells, tree, task, (end, node), run);
        (next, Run { before, ..run.after_steps(owed, f.lit(0)) })
    }

    /// Does what comes after the step of a group-wide task. One lane calls it.
    pub(super) fn finish_tree_steps<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        task: CellTask<'b>,
        ended: (U32<'b>, U32<'b>, U32<'b>, U32<'b>),
    ) {
        // A task that has launched a graph has children that its step did not make.
        let seen = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(task.cell));
        let begun = f.load(fact(cells, task.cell, cell_fact::STEPS));
        let end = self.after_steps(f, cells, tree, task, (seen, begun), ended);
        let none = Run { counts: f.lit(0), goes_on: f.lit(false), before: None };
        self.settle_step(f, cells, tree, task, (end, None), none);
    }

    /// What is known of the node of a cell, if it is one.
    pub(super) fn load_node_facts<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        tree: &TreeContext,
        cell: U32<'b>,
    ) -> NodeFacts<'b> {
        let Some(graphs) = GraphRunner::new(self.kernel) else { return NodeFacts::none(f) };
        let (root, link) = (f.load(tree.link(cell, tree_word::ROOT)), graphs.link_of_node(f, cell));
        graphs.node_facts(f, (cell, f.cast::<u32>(root), link))
    }

    /// Does what the end of a step demands: ends the task if it ends, and gives its place at home to the task that the
    /// lane goes on with, or frees the place. Gives the number of that task's cell plus one, or 0 if there is no such
    /// task, and how many ends of nodes the lane owes.
    fn settle_step<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        task: CellTask<'b>,
        (end, node): (StepEnd<'b>, Option<NodeFacts<'b>>),
        run: Run<'b>,
    ) -> (U32<'b>, U32<'b>) {
        // While the group shares its home, it keeps nothing that it need not keep.
        let shares = self.shares_place(f, cells, task.place);
        let ended = || self.end_or_keep(f, cells, tree, (task.cell, end, node), (run, !shares));
        let (next, owed) = f.choose(end.ends, ended, || (end.next, f.lit(0)));
        f.when(shares & next.ne(0), || home::push_spawned(f, self.kernel, cells, next - 1));
        let next = f.select(shares, 0, next);
        f.when(next.ne(0), || f.store(cells.home.at(task.place), next));
        f.when(!end.stays & next.eq(0), || self.free_place(f, cells, task.place));
        (next, owed)
    }

    /// Whether the group shares what the lane could go on with at a place. This stays the same until the end of the turn.
    fn shares_place<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        place: U32<'b>,
    ) -> Val<'b, bool> {
        let shares = f.load(cells.words.at(home_word::SHARES)).ne(share::NOTHING);
        shares | place.ge(f.load(cells.words.at(home_word::LIMIT)))
    }

    /// Whether a task may take no step now, and whether it ends because of that.
    fn reason_to_hold<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        task: CellTask<'b>,
        found: FoundTask<'b>,
    ) -> (Val<'b, bool>, StepEnd<'b>) {
        let CellTask { cell, op, .. } = task;
        let FoundTask { seen, root_state, begun, faults, mask, skipped } = found;
        let steps = f.cast::<u32>(begun);
        let cancelled = ((seen | root_state) & cell_state::CANCEL).ne(0);
        let ignores_faults =
            self.table.is_one_of(f, op, |entry| entry.stepped.is_some() && !entry.sees_faults);
        let child_failed = ignores_faults & faults.ne(0);
        // The window that took a task from its slot has checked its rights. Those of a spawned task are checked here.
        let spawned = cell.ge(self.kernel.layout.producer_cell_count());
        let known = self.table.is_one_of(f, op, |entry| entry.stepped.is_some());
        let denied = spawned & steps.eq(0) & mask.ne(0) & !(known & allows(f, mask, op));
        let cancelled = cancelled | skipped;
        let ends = cancelled | child_failed | denied;
        let status = f.select(cancelled, Status::Cancelled.code(), Status::Fault.code());
        let refused = f.select(known, FaultCode::DENIED.code(), FaultCode::UNKNOWN.code());
        let value = f.select(child_failed, FaultCode::CHILD.code(), refused);
        let value = f.select(cancelled, steps, value);
        let had_children = (seen & cell_state::HAD_CHILDREN).ne(0);
        let end = StepEnd { ends, status, value, stays: f.lit(false), next: f.lit(0), had_children };
        (ends | (seen & cell_state::PAUSE).ne(0) | mask.eq(0), end)
    }

    /// Does what comes after the last step of a turn: counts the children, and puts the task where it goes on from.
    /// `seen` is the state of the cell before the turn and `begun` the number of its steps before; the status, the value
    /// and what was asked are those of the last step.
    fn after_steps<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        task: CellTask<'b>,
        (seen, begun): (U64<'b>, U64<'b>),
        (status, value, asked, steps): (U32<'b>, U32<'b>, U32<'b>, U32<'b>),
    ) -> StepEnd<'b> {
        let kernel = self.kernel;
        let CellTask { place, cell, .. } = task;
        self.note_steps(f, cells, task, (begun, steps));
        // Nobody could resume a spawned task that calls `park`.
        let spawned = cell.ge(kernel.layout.producer_cell_count());
        let unreachable = spawned & status.eq(Status::Done.code()) & asked.eq(outcome::PARK);
        let status = f.select(unreachable, Status::Fault.code(), status);
        let value = f.select(unreachable, FaultCode::UNREACHABLE.code(), value);
        let well = status.eq(Status::Done.code());
        let goes_on = well & asked.ne(0);
        let kind = f.select(goes_on, asked & outcome::KIND, 0);
        let moves = kind.eq(outcome::REQUEUE);
        f.when(moves, || {
            self.change_level(f, cells, cell, asked);
            let level = f.cast::<u64>(asked >> outcome::LEVEL_SHIFT);
            f.atomic_store(Order::Relaxed, Scope::Device, tree.link(cell, tree_word::LEVEL), level);
        });
        let children = spawn::settle_children(f, kernel, tree, (place, task.tenant), well);
        let waits = kind.ge(outcome::PARK);
        let changes = waits | children.ne(0);
        let ready = f.choose(
            changes,
            || self.wait_or_go_on(f, cells, tree, (cell, seen, kind), children),
            || f.lit(true),
        );
        // While other groups are idle, tasks at places beyond the limit are shared too.
        let beyond = place.ge(f.load(cells.words.at(home_word::LIMIT)));
        let shares = f.load(cells.words.at(home_word::SHARES)).ne(share::NOTHING) | beyond;
        // A task of another level takes its turn among those of that level.
        let leaves = if kernel.layout.levels > 1 { shares | moves } else { shares };
        // A launch that waits for others to end must not keep a place from their nodes.
        let launches = GraphRunner::new(kernel).map_or(f.lit(false), |_| GraphRunner::is_launch(task.op));
        let leaves = leaves | launches;
        let stays = goes_on & ready & !leaves;
        let next = f.choose(
            children.ne(0),
            || {
                self.count(f, cells, step_counter::SPAWNED, f.popcount(children));
                spawn::put_children_at_home(f, kernel, cells, tree, (place, children, stays))
            },
            || f.lit(0),
        );
        f.when(goes_on & ready & leaves, || push_ready(f, kernel, cells, cell));
        f.when(!goes_on, || {
            self.count(f, cells, step_counter::ENDED, f.lit(1));
            f.when(!spawned, || self.give_reply(f, cells, task));
        });
        let had_children = (seen & cell_state::HAD_CHILDREN).ne(0) | children.ne(0);
        StepEnd { ends: !goes_on, status, value, stays, next, had_children }
    }

    /// Adds the children of a step to the count, and puts the task aside if it has asked for that. `seen` is the state of
    /// its cell as it was before the step. Gives whether the task goes on.
    fn wait_or_go_on<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        (cell, seen, kind): (U32<'b>, U64<'b>, U32<'b>),
        children: U64<'b>,
    ) -> Val<'b, bool> {
        use cell_state::{
            AWAITS_CHILDREN, AWAITS_HOST, CANCEL, CHILD_SHIFT, HAD_CHILDREN, PARKED, PHASE, RESUMED,
        };
        let (calls_park, joins) = (kind.eq(outcome::PARK), kind.eq(outcome::JOIN));
        f.when(calls_park, || self.count(f, cells, step_counter::PARKS, f.lit(1)));
        f.when(kind.gt(outcome::PARK), || self.count(f, cells, step_counter::WAITS, f.lit(1)));
        // A task that has begun again after a loss does not wait for what it has waited for before.
        let (parks, resumed_before) = match &self.kernel.recovery {
            Some(_) => {
                let resume = || recovery::takes_resume(f, self.kernel, cells, cell);
                let resumed = f.choose(calls_park, resume, || f.lit(false));
                (calls_park & !resumed, Some(resumed))
            }
            None => (calls_park, None),
        };
        // An event that has come already is not waited for.
        let awaited = event::has_come(f, tree, cell, kind.eq(outcome::EVENT));
        let more = f.cast::<u64>(f.popcount(children)) << CHILD_SHIFT;
        let goes_on = |seen: U64<'b>| {
            let all = child_count(seen + more);
            let resumed = parks & (seen & RESUMED).ne(0);
            let never_waits = kind.lt(outcome::PARK);
            let never_waits = resumed_before.map_or(never_waits, |resumed| never_waits | resumed);
            let waits_for_none = never_waits | (joins & all.eq(0)) | awaited;
            (seen & CANCEL).ne(0) | resumed | waits_for_none
        };
        let seen = change_state_from(f, cells, (cell, seen), |seen| {
            let reason = f.select(parks, f.lit(AWAITS_HOST), f.lit(cell_state::AWAITS_EVENT));
            let reason = f.select(joins, f.lit(AWAITS_CHILDREN), reason);
            let parked = (seen & !PHASE) | reason | PARKED;
            let unparked = f.select(parks, seen & !RESUMED, seen);
            let had = f.select(children.ne(0), f.lit(HAD_CHILDREN), f.lit(0u64));
            (f.select(goes_on(seen), unparked, parked) + more) | had
        });
        let goes_on = goes_on(seen);
        event::wait_for_event(f, self.kernel, tree, cell, kind.eq(outcome::EVENT) & !goes_on);
        goes_on
    }
}
