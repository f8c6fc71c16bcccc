//! The ends of tasks that make others: how a task ends after its children, and what its parent is told.
//!
//! [`tree`](super::tree) explains the count of children.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::CellBuffers;
use super::cells::{cell_fact, cell_state, change_state, fact, is_in_phase};
use super::context::{LINE, U32, U64};
use super::graphs::{GraphRunner, NodeFacts};
use super::home::{self, CellServer};
use super::spawn;
use super::tree::{Run, StepEnd, TreeContext, child_count, tree_word};
use crate::protocol::{FaultCode, Status};

impl CellServer<'_> {
    /// Ends a task if all of its children have ended, and otherwise keeps what it ends with. Gives the number of the
    /// cell, plus one, of the task that the lane may go on with, or 0 if there is none, and how many ends of nodes it
    /// owes.
    pub(super) fn end_or_keep<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        (cell, end, node): (U32<'b>, StepEnd<'b>, Option<NodeFacts<'b>>),
        run: (Run<'b>, Val<'b, bool>),
    ) -> (U32<'b>, U32<'b>) {
        use cell_state::{ENDED_BEFORE_CHILDREN, PARKED, PHASE};
        let StepEnd { status, value, next, had_children, .. } = end;
        let keep = || {
            // Only this lane could give the task more children. If none is left, what they did is seen from here on.
            let seen = f.atomic_load(Order::Acquire, Scope::Device, cells.states.at(cell));
            f.choose(
                child_count(seen).ne(0),
                || {
                    let end = f.cast::<u64>(status) | f.cast::<u64>(value) << 32;
                    f.store(tree.link(cell, tree_word::END), end);
                    let seen = change_state(f, cells, cell, |seen| {
                        let parked = (seen & !PHASE) | ENDED_BEFORE_CHILDREN | PARKED;
                        f.select(child_count(seen).eq(0), seen, parked)
                    });
                    child_count(seen).ne(0)
                },
                || f.lit(false),
            )
        };
        let kept = f.choose(had_children, keep, || f.lit(false));
        let faults = || self.with_faults_of_children(f, cells, tree, cell, (status, value));
        let end = f.choose(had_children & !kept, faults, || (status, value));
        let ended = || self.end_tree_task(f, cells, tree, (cell, next, node), end, run);
        f.choose(kept, || (next, f.lit(0)), ended)
    }

    /// Ends a task all of whose children have ended. If its parent has ended before and this was the last child, the
    /// parent's end becomes known too, and so on up the tree. Gives the number of the cell, plus one, of a task that
    /// goes on because of this, or `next` if there is none, and how many ends of nodes the lane owes. If it owes any, the
    /// task that goes on is a node that has not begun.
    fn end_tree_task<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        (cell, next, node): (U32<'b>, U32<'b>, Option<NodeFacts<'b>>),
        (status, value): (U32<'b>, U32<'b>),
        (run, keeps): (Run<'b>, Val<'b, bool>),
    ) -> (U32<'b>, U32<'b>) {
        let kernel = self.kernel;
        let node = node.unwrap_or_else(|| self.load_node_facts(f, tree, cell));
        let (none, (link, count, first)) = (f.lit(0), node.tuple());
        let first = (cell, status, value, next, run.owed(), link, count, first);
        f.forever::<_, (U32<'b>, U32<'b>)>(
            first,
            |up, (cell, status, value, next, owed, link, count, first)| {
                let node = NodeFacts::from_tuple((link, count, first));
                f.when(cell.lt(kernel.layout.producer_cell_count()), || {
                    let end = match GraphRunner::new(kernel) {
                        Some(graphs) => graphs.end_launch(f, cell, (status, value)),
                        None => (status, value),
                    };
                    self.end_task_of(f, cells, cell, end);
                    up.leave((next, none));
                });
                let link = f.load(tree.link(cell, tree_word::PARENT));
                let (parent, result_word) = (f.cast::<u32>(link) - 1, f.cast::<u32>(link >> 32));
                let spawned = || {
                    self.tell_parent(f, tree, (parent, result_word), (status, value));
                    spawn::free_cell(f, kernel, cells, tree, cell);
                    next
                };
                let next = match GraphRunner::new(kernel) {
                    Some(graphs) => {
                        let end_node = || {
                            let (end, then) = ((status, value), (next, keeps));
                            let (next, chained) = graphs.end_node(f, (cell, parent, node), end, then);
                            f.when(chained & run.goes_on, || up.leave((next, owed + 1)));
                            next
                        };
                        f.choose(graphs.is_node(cell), end_node, spawned)
                    }
                    None => spawned(),
                };
                let (claimed, woken) = subtract_children(f, cells, parent, owed + 1);
                let next = f.choose(
                    woken & next.ne(0),
                    || {
                        home::push_spawned(f, kernel, cells, parent);
                        next
                    },
                    || f.select(woken, parent + 1, next),
                );
                f.when(!claimed, || up.leave((next, none)));
                let end = f.load(tree.link(parent, tree_word::END));
                let (status, value) = self.final_outcome(f, cells, tree, parent, end);
                let (link, count, first) = self.load_node_facts(f, tree, parent).tuple();
                (parent, status, value, next, none, link, count, first)
            },
        )
    }

    /// Gives the parent of a task that ends its result, or counts its fault.
    fn tell_parent<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        tree: &TreeContext,
        (parent, result_word): (U32<'b>, U32<'b>),
        (status, value): (U32<'b>, U32<'b>),
    ) {
        let kernel = self.kernel;
        if let Some(frames) = kernel.steps.as_ref().and_then(|steps| steps.frames) {
            let words = kernel.layout.steps.map_or(0, |steps| steps.frame_words);
            let well = status.eq(Status::Done.code());
            f.when(well & result_word.lt(words), || {
                f.store(frames.at(kernel.frame_place(f, parent, result_word)), value);
            });
        }
        f.when(status.eq(Status::Fault.code()), || {
            f.atomic_add(Order::Relaxed, Scope::Device, tree.link(parent, tree_word::FAULTS), 1u64);
        });
    }

    /// The status and the value of a task that has ended before its children, now that these have ended too.
    fn final_outcome<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        cell: U32<'b>,
        end: U64<'b>,
    ) -> (U32<'b>, U32<'b>) {
        let (status, value) = (f.cast::<u32>(end), f.cast::<u32>(end >> 32));
        let own = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let root = tree.root_state(f, cells, cell);
        let well = status.eq(Status::Done.code());
        let cancelled = well & ((own | root) & cell_state::CANCEL).ne(0);
        let steps = f.cast::<u32>(f.load(fact(cells, cell, cell_fact::STEPS)));
        let (status, value) = self.with_faults_of_children(f, cells, tree, cell, (status, value));
        (f.select(cancelled, Status::Cancelled.code(), status), f.select(cancelled, steps, value))
    }

    /// The status and the value of a task that ends after all of its children: the fault CHILD if one of them has ended
    /// with a fault, unless the task has a fault of its own or its handler sees those of its children.
    fn with_faults_of_children<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        cell: U32<'b>,
        (status, value): (U32<'b>, U32<'b>),
    ) -> (U32<'b>, U32<'b>) {
        let op = f.cast::<u32>(f.load(cells.lines.at(cell * LINE)) >> 32);
        let sees = self.table.is_one_of(f, op, |entry| entry.sees_faults);
        let faults = f.atomic_load(Order::Relaxed, Scope::Device, tree.link(cell, tree_word::FAULTS));
        let child_failed = status.eq(Status::Done.code()) & !sees & faults.ne(0);
        (
            f.select(child_failed, Status::Fault.code(), status),
            f.select(child_failed, FaultCode::CHILD.code(), value),
        )
    }
}

/// Pays the ends of nodes that a lane owes, of which there are some, to the task that has launched the graph, unless the task that it has run ends
/// now. That one is a node of the same graph, and is still counted. Gives how many ends the lane owes after that.
pub(super) fn pay_unless<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    (root, owed): (U32<'b>, U32<'b>),
    ends: Val<'b, bool>,
) -> U32<'b> {
    f.when(!ends, || {
        let by = f.cast::<u64>(owed) << cell_state::CHILD_SHIFT;
        // Nothing needs to be ordered here. The node that was run ends after this, and whoever takes it off the count releases
        // what this lane has done before.
        f.atomic_sub(Order::Relaxed, Scope::Device, cells.states.at(root), by);
    });
    f.select(ends, owed, 0)
}

/// Subtracts so many children that have ended from the count of their parent. Gives two answers: whether the parent has
/// ended before and these were its last children, so that its end becomes known now, and whether the parent has waited
/// for its children and goes on. If either is true, this lane has the cell of the parent.
fn subtract_children<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    parent: U32<'b>,
    count: U32<'b>,
) -> (Val<'b, bool>, Val<'b, bool>) {
    use cell_state::{AWAITS_CHILDREN, CHILD_SHIFT, ENDED_BEFORE_CHILDREN, PARKED, PAUSE, PHASE, RUNNABLE};
    // Pairs with itself and with the change of the state below: the lane that subtracts the last child sees what all of
    // them wrote.
    let count = f.cast::<u64>(count);
    let before = f.atomic_sub(Order::AcqRel, Scope::Device, cells.states.at(parent), count << CHILD_SHIFT);
    f.choose(
        child_count(before).eq(count),
        || {
            let waits = |seen: U64<'b>, reason: u64| {
                is_in_phase(seen, PARKED) & (seen & reason).ne(0) & child_count(seen).eq(0)
            };
            let seen = change_state(f, cells, parent, |seen| {
                let ended = (seen & !(PHASE | ENDED_BEFORE_CHILDREN)) | RUNNABLE;
                let paused = seen & !AWAITS_CHILDREN;
                let woken = f.select((seen & PAUSE).ne(0), paused, (paused & !PHASE) | RUNNABLE);
                let joined = f.select(waits(seen, AWAITS_CHILDREN), woken, seen);
                f.select(waits(seen, ENDED_BEFORE_CHILDREN), ended, joined)
            });
            (waits(seen, ENDED_BEFORE_CHILDREN), waits(seen, AWAITS_CHILDREN) & (seen & PAUSE).eq(0))
        },
        || (f.lit(false), f.lit(false)),
    )
}
