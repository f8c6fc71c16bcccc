//! The queues of cells that are ready and that no group has at home, one per tenant and level.
//!
//! **Entries.** An entry is put at the next position of its queue, with the number of its lap, by one store that releases
//! the cell. A group first reads entries, and then takes those that it found written, from the front on and without a gap,
//! by one compare-exchange of the position up to which entries were taken. So no group ever waits for an entry whose
//! position is reserved but not written, and a group that is slow takes nothing twice. A queue has at least
//! as many places as its tenant has cells, and no cell is in two places at once, so it never overflows.
//!
//! **Which queue comes next.** A group that has free places at home decides in two steps:
//!
//! - The most urgent level that has cells comes first. But one time in [`OTHER_LEVEL_EVERY`] that the group has shared its
//!   home, the search begins at a level that changes each time. So a group serves every level that has cells at least
//!   once in `TURNS_AT_HOME × OTHER_LEVEL_EVERY × levels` turns.
//! - Among the tenants that have cells of that level, the one whose *time* is least comes first, as
//!   [strides](super::stride) explain. The time of a tenant advances with every cell that the group takes from its
//!   queues. So while several tenants have cells that wait, a group divides the places of its home among them by weight,
//!   up to what one full home takes before it is shared. If their steps are alike, this divides the steps too.
//!
//! **Disabled tenants.** Cells of a tenant whose mask is 0 stay in its queues. But when the host has asked something of any
//! cell, groups go through these queues once: they take the cells that waited when they heard of it, end those whose tasks
//! are cancelled, and put the others back. All groups move the same front, so they share this work. No cancelled task is
//! missed: a group that puts one back has not heard of the ask yet, and when it does, the queue already has that entry.

use pelton_ir::builder::FunctionBuilder;
use pelton_ir::types::{Order, Scope};

use super::buffers::CellBuffers;
use super::claim;
use super::context::{KernelContext, LINE, STRIDE, U32, U64};
use super::home::{CellServer, home_word};
use super::layout::Layout;
use super::stride::strides_of;
use crate::protocol::control;

/// While cells wait in the queues, a group shares its home after this many turns.
pub(super) const TURNS_AT_HOME: u32 = 8;
/// One time in this many that a group has shared its home, it begins its search at a level that changes each time.
const OTHER_LEVEL_EVERY: u32 = 4;
/// The number that stands for no queue.
pub(super) const NO_QUEUE: u32 = u32::MAX;

/// The word with the position up to which entries of a queue were taken.
fn queue_front(queue: U32<'_>) -> U32<'_> {
    queue * (2 * STRIDE)
}

/// The word with the position of the next entry of a queue.
fn queue_back(queue: U32<'_>) -> U32<'_> {
    queue * (2 * STRIDE) + STRIDE
}

/// Where an entry of a queue lies, and what its upper half must be.
fn queue_entry<'b>(
    f: &'b FunctionBuilder<'b>,
    layout: &Layout,
    queue: U32<'b>,
    position: U64<'b>,
) -> (U32<'b>, U32<'b>) {
    let slots = layout.queue_slots();
    let at = queue * slots + (f.cast::<u32>(position) & (slots - 1));
    (at, f.cast::<u32>(position >> slots.ilog2()) + 1)
}

/// The number of the queue in which a cell that this lane has would wait: that of its tenant and level.
pub(super) fn queue_number<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) -> U32<'b> {
    let owner = f.load(cells.lines.at(cell * LINE + 1));
    let (tenant, level) = (f.cast::<u32>(owner), f.cast::<u32>(owner >> 32));
    match (kernel.layout.levels, &kernel.trees) {
        (1, _) => tenant,
        (levels, None) => tenant * levels + level,
        (levels, Some(tree)) => tenant * levels + tree.urgency(f, cell, level),
    }
}

/// Puts a cell that this lane has into the queue of its tenant and level.
pub(super) fn push_ready<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    push_to_queue(f, kernel, cells, (cell, queue_number(f, kernel, cells, cell)));
}

/// Puts a cell that this lane has into the queue with this number, which is that of its tenant and level.
pub(super) fn push_to_queue<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    (cell, queue): (U32<'b>, U32<'b>),
) {
    let position = f.atomic_add(Order::Relaxed, Scope::Device, cells.ready_ends.at(queue_back(queue)), 1u64);
    let (at, lap) = queue_entry(f, &kernel.layout, queue, position);
    let entry = f.cast::<u64>(lap) << 32 | f.cast::<u64>(cell);
    // Pairs with the acquire of the group that takes the entry: it sees the words of the cell.
    f.atomic_store(Order::Release, Scope::Device, cells.ready.at(at), entry);
    claim::wake_groups(f, kernel);
}

impl CellServer<'_> {
    /// Takes cells from a queue, as many as there are free places at home. All lanes call it.
    pub(super) fn fill_home<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        let queues = kernel.layout.queue_count();
        let idle = kernel.trees.as_ref().map(|tree| tree.idle_groups(f));
        kernel.each_by_lane(f, f.lit(queues), queues, |queue| self.look_at_queue(f, cells, queue));
        if let Some(idle) = idle {
            f.when(f.lane().eq(0), || self.limit_home(f, cells, idle));
        }
        f.barrier();
        let none = || (f.lit(0), f.lit(0));
        if kernel.trees.is_some() {
            let choose = || self.choose_queue_beside_arrivals(f, cells);
            let (queue, wanted) = f.choose(f.lane().eq(0), choose, none);
            let wanted = f.group_broadcast(wanted, 0);
            f.when(wanted.ne(0), || self.take_entries(f, cells, (f.group_broadcast(queue, 0), wanted)));
            return self.place_last_arrivals(f, cells);
        }
        let (queue, wanted) = f.choose(f.lane().eq(0), || self.choose_queue(f, cells), none);
        let wanted = f.group_broadcast(wanted, 0);
        f.when(wanted.ne(0), || {
            self.take_entries(f, cells, (f.group_broadcast(queue, 0), wanted));
            self.place_arrivals(f, cells);
        });
    }

    /// Notes how many cells of a queue may be taken. If the tenant is disabled, these are only cells that have waited
    /// since the host has asked something of any cell.
    fn look_at_queue<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, queue: U32<'b>) {
        let end_of = |at: U32<'b>| f.atomic_load(Order::Relaxed, Scope::Device, cells.ready_ends.at(at));
        let mask = self.kernel.host_word(f, queue / self.kernel.layout.levels + control::MASKS);
        let (front, back) = (end_of(queue_front(queue)), end_of(queue_back(queue)));
        // An older back makes the difference wrap. That is harmless, because entries that are not written are not taken.
        let count = |from: U64<'b>, to: U64<'b>| f.cast::<u32>(f.min(to - from, u64::from(u32::MAX)));
        let waiting = f.choose(
            mask.ne(0),
            || count(front, back),
            || {
                // Pairs with the release of whoever applies asks: the states that they have changed are seen, and so
                // are the entries of cells that go on because of them.
                let asks = f.atomic_load(Order::Acquire, Scope::Device, cells.applied.at(0));
                let back = end_of(queue_back(queue));
                let (seen, end) = (cells.asks_seen.at(queue), cells.look_ends.at(queue));
                f.when(f.load(seen).ne(asks), || {
                    f.store(seen, asks);
                    f.store(end, back);
                });
                count(front, f.max(f.load(end), front))
            },
        );
        f.store(cells.fronts.at(queue), front);
        f.store(cells.waiting.at(queue), waiting);
    }

    /// Chooses the queue from which cells are taken, and how many. Decides whether tasks that yield at the end of this
    /// turn are shared. One lane does this.
    fn choose_queue<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) -> (U32<'b>, U32<'b>) {
        let word = |at: u32| cells.words.at(at);
        let turns = f.load(word(home_word::TURNS));
        f.store(word(home_word::TURNS), turns + 1);
        let (best, time) = self.find_queue(f, cells, turns);
        let some = best.ne(NO_QUEUE);
        let waiting = f.choose(some, || f.load(cells.waiting.at(best)), || f.lit(0));
        let room = f.lit(self.kernel.layout.home_cells()) - f.load(word(home_word::COUNT));
        let wanted = f.min(waiting, room);
        let others = self.are_cells_left(f, cells, wanted);
        f.store(word(home_word::OTHERS), others);
        let last = (turns % TURNS_AT_HOME).eq(TURNS_AT_HOME - 1);
        f.store(word(home_word::SHARES), f.select(last, others, 0));
        // Nothing has arrived since the last cells got their places, so the word is free for those of the queue.
        f.store(word(home_word::ARRIVED), wanted);
        f.when(wanted.ne(0), || self.raise_times(f, cells, time));
        (best, wanted)
    }

    /// Finds the queue that comes next: the one of the tenant whose time is least, at the most urgent level that has cells or
    /// at another one. Gives [`NO_QUEUE`] if no queue has cells, and the time of the tenant.
    pub(super) fn find_queue<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        turns: U32<'b>,
    ) -> (U32<'b>, U64<'b>) {
        let (levels, queues) = (self.kernel.layout.levels, self.kernel.layout.queue_count());
        // How often the group may have shared its home.
        let times = turns / TURNS_AT_HOME;
        let other = (times % OTHER_LEVEL_EVERY).eq(OTHER_LEVEL_EVERY - 1);
        let first = f.select(other, (times / OTHER_LEVEL_EVERY) % levels, 0);
        let none = (f.lit(NO_QUEUE), f.lit(u64::MAX));
        f.range((0u32, levels, 1u32), none, |all, k, none| {
            let level = (first + k) % levels;
            let found = f.range((level, f.lit(queues), f.lit(levels)), none, |_, queue, (best, least)| {
                let time = f.load(cells.times.at(queue / levels));
                let better = f.load(cells.waiting.at(queue)).ne(0) & time.lt(least);
                (f.select(better, queue, best), f.select(better, time, least))
            });
            f.when(found.0.ne(NO_QUEUE), || all.leave(found));
            none
        })
    }

    /// Gives 1 if cells are left in a queue when this many are taken from one, and 0 otherwise.
    pub(super) fn are_cells_left<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        taken: U32<'b>,
    ) -> U32<'b> {
        let queues = self.kernel.layout.queue_count();
        let all = f.range((0u32, queues, 1u32), f.lit(0), |_, queue, all| {
            f.max(all, all + f.min(f.load(cells.waiting.at(queue)), 1 << 24))
        });
        f.select(all.gt(taken), 1, 0)
    }

    /// Brings the times of tenants none of whose cells wait up to that of the tenant that was chosen.
    pub(super) fn raise_times<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, time: U64<'b>) {
        let (levels, queues) = (self.kernel.layout.levels, self.kernel.layout.queue_count());
        f.range((0u32, queues / levels, 1u32), (), |_, tenant, ()| {
            let waiting = f.range((0u32, levels, 1u32), f.lit(0), |_, level, some| {
                some | f.load(cells.waiting.at(tenant * levels + level))
            });
            let at = cells.times.at(tenant);
            f.when(waiting.eq(0), || f.store(at, f.max(f.load(at), time)));
        });
    }

    /// Takes entries from the front of a queue, unless another group is faster. Their cells have then arrived, as many as
    /// [`home_word::ARRIVED`] says. All lanes call it.
    fn take_entries<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        (queue, wanted): (U32<'b>, U32<'b>),
    ) {
        let kernel = self.kernel;
        let arrived = cells.words.at(home_word::ARRIVED);
        let (most, front) = (kernel.layout.home_cells(), f.load(cells.fronts.at(queue)));
        // Cells that have arrived before and have no place yet stay where they are.
        let kept = kernel.trees.is_some().then(|| f.group_broadcast(f.load(arrived), 0) - wanted);
        let behind = |k: U32<'b>| kept.map_or(k, |kept| kept + k);
        kernel.each_by_lane(f, wanted, most, |k| {
            let (at, lap) = queue_entry(f, &kernel.layout, queue, front + f.cast::<u64>(k));
            // Pairs with the release of the entry: the words of the cell are seen.
            let entry = f.atomic_load(Order::Acquire, Scope::Device, cells.ready.at(at));
            let written = f.cast::<u32>(entry >> 32).eq(lap);
            f.when(!written, || {
                f.atomic_min(Order::Relaxed, Scope::Group, arrived, behind(k));
            });
            f.store(cells.arrivals.at(behind(k)), f.cast::<u32>(entry));
        });
        f.barrier();
        f.when(f.lane().eq(0), || {
            let found = f.load(arrived);
            let found = f.cast::<u64>(kept.map_or(found, |kept| found - kept));
            let taken = cells.ready_ends.at(queue_front(queue));
            let before = f.atomic_cas(Order::Relaxed, Scope::Device, taken, front, front + found);
            f.choose(
                before.eq(front),
                || {
                    let tenant = queue / kernel.layout.levels;
                    let by = strides_of(f, found, f.load(cells.strides.at(tenant)));
                    f.store(cells.times.at(tenant), f.load(cells.times.at(tenant)) + by);
                },
                || f.store(arrived, behind(f.lit(0))),
            );
        });
        f.barrier();
    }
}
