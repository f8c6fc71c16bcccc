//! Spawned tasks: how cells for them are found, filled, put at home and given back.
//!
//! Each tenant has [`Spec::spawn_cells`](super::Spec::spawn_cells) cells for spawned tasks. A bit of `free_cells` says
//! for each of them whether it is free, 64 to a word.
//!
//! **All or none.** Before a step spawns tasks, it reserves cells for them, all by one compare-exchange of one word. If
//! the words that it looks at do not have enough free cells, it gets none. Lanes begin their search at words of their
//! own, and look at [`PROBES`] words at most, so the answer that there is no room may come when there still is some;
//! the next search looks elsewhere. A handler must be able to do the work itself anyway.
//!
//! **Nothing is held in vain.** Cells that a step has reserved and not used are given back when the step ends, and so
//! are the cells of its children if the step ends with a fault. A task that finds no room and tries again in a later
//! step holds its own cell meanwhile, and if all tasks did that, none would get any further. So a task that has found
//! no room [`MAX_TRIES`] times in a row ends with the fault POOL.
//!
//! **Order.** Whoever gives a cell back releases its bit, and whoever reserves it acquires the bit, so the words of a
//! cell have one writer at a time. Until the end of the step, only the lane that runs the step knows of the children.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, SpawnBuffers};
use super::cells::{cell_fact, cell_state, fact};
use super::claim::Credit;
use super::context::{KernelContext, LINE, U32, U64};
use super::home;
use super::tree::{TreeContext, tree_word};
use crate::protocol::slot;

/// How many words of free cells a lane looks at before it gives up.
const PROBES: u32 = 8;

/// How often in a row a task may find no room for children.
pub const MAX_TRIES: u32 = 1 << 16;

/// The most children that a step can reserve room for.
pub const MAX_CHILDREN_PER_STEP: u32 = 64;

/// What became of an attempt to reserve cells.
pub(super) mod attempt {
    /// The cells are reserved.
    pub(crate) const RESERVED: u32 = 1;
    /// There was no room.
    pub(crate) const NO_ROOM: u32 = 0;
    /// There was no room, and the task has tried too often.
    pub(crate) const TOO_OFTEN: u32 = 2;
}

/// Reserves cells for the children of the task at a place of the group's home. The task has reserved none since its
/// step began, and `count` is at least 1 and at most [`MAX_CHILDREN_PER_STEP`]. Gives one of [`attempt`].
pub(super) fn reserve_cells<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree, spawn): (&CellBuffers, &TreeContext, &SpawnBuffers),
    (place, cell, tenant): (U32<'b>, U32<'b>, U32<'b>),
    count: U32<'b>,
) -> U32<'b> {
    let state = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
    let children = f.cast::<u32>((state >> cell_state::CHILD_SHIFT) & cell_state::MAX_CHILDREN);
    let countable = (children + count).le(cell_state::MAX_CHILDREN as u32);
    let credit = Credit::new(f, kernel, tenant);
    let granted = f.choose(countable, || credit.take(f, kernel, count), || f.lit(0));
    let found = f.choose(
        granted.eq(count),
        || take_free_cells(f, kernel, spawn, (place, tenant), count),
        || f.lit(0u64),
    );
    let well = found.ne(0);
    f.when(!well, || credit.give(f, kernel, granted));
    let tries = tree.link(cell, tree_word::TRIES);
    let failed = f.select(well, f.lit(0u64), f.load(tries) + 1u64);
    f.store(tries, failed);
    f.when(well, || f.store(spawn.reserved.at(place), found));
    let too_often = failed.ge(u64::from(MAX_TRIES));
    f.select(well, attempt::RESERVED, f.select(too_often, attempt::TOO_OFTEN, attempt::NO_ROOM))
}

/// Takes free cells of one word, and notes which word it is. Gives the bits of the cells, or 0 if there is no room.
fn take_free_cells<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    spawn: &SpawnBuffers,
    (place, tenant): (U32<'b>, U32<'b>),
    count: U32<'b>,
) -> U64<'b> {
    let words = kernel.layout.trees.map_or(1, |trees| trees.spawn_cells / 64).max(1);
    let last = f.load(spawn.words.at(place));
    // Lanes that have not taken any cells yet begin at words of their own.
    let own = f.group() * kernel.layout.home_cells() + place;
    let first = f.select(last.eq(0), own, last - 1);
    // A search that fails makes the next one begin elsewhere.
    f.store(spawn.words.at(place), tenant * words + ((first + PROBES) & (words - 1)) + 1);
    f.range((0u32, PROBES.min(words), 1u32), f.lit(0u64), |probes, k, none| {
        let word = tenant * words + ((first + k) & (words - 1));
        let free = f.atomic_load(Order::Relaxed, Scope::Device, spawn.free.at(word));
        f.when(f.popcount(free).ge(count), || {
            let rest = f.range((f.lit(0), count, f.lit(1)), free, |_, _, rest| rest & (rest - 1u64));
            // Pairs with the release of whoever has given the cells back: what their last tasks did was before.
            let before = f.atomic_cas(Order::Acquire, Scope::Device, spawn.free.at(word), free, rest);
            f.when(before.eq(free), || {
                f.store(spawn.words.at(place), word + 1);
                probes.leave(free ^ rest);
            });
        });
        none
    })
}

/// The number of a cell, given its word of free cells and its bit there.
fn spawn_cell<'b>(kernel: &KernelContext<'_>, word: U32<'b>, bit: U32<'b>) -> U32<'b> {
    word * 64 + bit + kernel.layout.producer_cell_count()
}

/// What a spawned task begins with.
#[derive(Clone, Copy)]
pub(super) struct ChildTask<'b, 'a> {
    pub op: U32<'b>,
    pub level: U32<'b>,
    /// The word of the parent's frame that the result goes to.
    pub result_word: U32<'b>,
    pub args: &'a [U32<'b>],
}

/// Makes a child of the task at a place of the group's home, in one of the cells that it has reserved. Gives whether
/// there was one left.
pub(super) fn make_child<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree, spawn): (&CellBuffers, &TreeContext, &SpawnBuffers),
    (place, parent, tenant): (U32<'b>, U32<'b>, U32<'b>),
    child: ChildTask<'b, '_>,
) -> Val<'b, bool> {
    let (reserved, made) = (spawn.reserved.at(place), spawn.made.at(place));
    let left = f.load(reserved);
    f.when(left.ne(0), || {
        let rest = left & (left - 1u64);
        f.store(reserved, rest);
        f.store(made, f.load(made) | (left ^ rest));
        let cell = spawn_cell(kernel, f.load(spawn.words.at(place)) - 1, f.ctz(left));
        let to = |word: u32| cells.lines.at(cell * LINE + word);
        f.store(to(0), f.cast::<u64>(child.op) << 32);
        f.store(to(1), f.cast::<u64>(tenant) | f.cast::<u64>(child.level) << 32);
        for word in slot::ARG / 2..LINE {
            let arg = |k: u32| child.args.get(k as usize).map_or(f.lit(0u64), |arg| f.cast::<u64>(*arg));
            let first = word * 2 - slot::ARG;
            f.store(to(word), arg(first) | arg(first + 1) << 32);
        }
        let root = f.cast::<u32>(f.load(tree.link(parent, tree_word::ROOT)));
        let link = f.cast::<u64>(parent + 1) | f.cast::<u64>(child.result_word) << 32;
        tree.begin_task(f, cell, (link, root, child.level));
        f.store(fact(cells, cell, cell_fact::STEPS), 0u64);
        f.store(fact(cells, cell, cell_fact::SIZES), 0u64);
        kernel.clear_frame(f, cell, kernel.layout.steps.map_or(0, |steps| steps.frame_words));
    });
    left.ne(0)
}

/// Gives back what the step at a place has reserved and not used, and its children too if it did not end well. Gives
/// the bits of the children that are left.
pub(super) fn settle_children<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    tree: &TreeContext,
    (place, tenant): (U32<'b>, U32<'b>),
    well: Val<'b, bool>,
) -> U64<'b> {
    let Some(spawn) = &tree.spawn else { return f.lit(0u64) };
    let (reserved, made) = (f.load(spawn.reserved.at(place)), f.load(spawn.made.at(place)));
    f.when((reserved | made).ne(0), || {
        let unused = reserved | f.select(well, f.lit(0u64), made);
        f.when(unused.ne(0), || {
            let word = f.load(spawn.words.at(place)) - 1;
            // Pairs with the acquire of whoever reserves the cells next.
            f.atomic_or(Order::Release, Scope::Device, spawn.free.at(word), unused);
            Credit::new(f, kernel, tenant).give(f, kernel, f.popcount(unused));
        });
        f.store(spawn.reserved.at(place), 0u64);
        f.store(spawn.made.at(place), 0u64);
    });
    f.select(well, made, f.lit(0u64))
}

/// Whether the step at a place has reserved cells or made children.
pub(super) fn has_children<'b>(
    f: &'b FunctionBuilder<'b>,
    tree: &TreeContext,
    place: U32<'b>,
) -> Val<'b, bool> {
    match &tree.spawn {
        Some(spawn) => (f.load(spawn.reserved.at(place)) | f.load(spawn.made.at(place))).ne(0),
        None => f.lit(false),
    }
}

/// Gives the children of the step at a place to the group, except for the last one if the lane may go on with it,
/// because their parent does not keep its place. Gives the number of that child's cell plus one, or 0 if there is none.
pub(super) fn put_children_at_home<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    tree: &TreeContext,
    (place, children, stays): (U32<'b>, U64<'b>, Val<'b, bool>),
) -> U32<'b> {
    let Some(spawn) = &tree.spawn else { return f.lit(0) };
    let word = f.load(spawn.words.at(place)) - 1;
    f.forever::<_, U32<'b>>(children, |each, left| {
        f.when(left.eq(0), || each.leave(f.lit(0)));
        let cell = spawn_cell(kernel, word, f.ctz(left));
        f.atomic_store(Order::Relaxed, Scope::Device, cells.states.at(cell), cell_state::RUNNABLE);
        let rest = left & (left - 1u64);
        f.when(rest.eq(0) & !stays, || each.leave(cell + 1));
        home::push_spawned(f, kernel, cells, cell);
        rest
    })
}

/// Gives the cell of a spawned task back. Nobody has it any more.
pub(super) fn free_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    tree: &TreeContext,
    cell: U32<'b>,
) {
    let Some(spawn) = &tree.spawn else { return };
    f.atomic_store(Order::Relaxed, Scope::Device, cells.states.at(cell), cell_state::ENDED);
    let number = cell - kernel.layout.producer_cell_count();
    let bit = f.lit(1u64) << (number & 63);
    // Pairs with the acquire of whoever reserves the cell next.
    f.atomic_or(Order::Release, Scope::Device, spawn.free.at(number >> 6), bit);
}
