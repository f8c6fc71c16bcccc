//! The home of a group: the cells whose tasks the group runs, one step each per round.
//!
//! A group has at most one cell per lane at home, in its shared memory. Everything else that is ready waits in queues in
//! device memory, one per tenant and level, which all groups share. So work that a group has taken stays with it, which is much
//! faster than passing every step through a queue, and work that it has not taken is there for groups that are idle.
//!
//! **A round.** The group fills its home up from the queues, takes all cells at home, and runs one step of each:
//! lane-wide tasks beside each other, group-wide tasks one after the other. A task that yields goes back to the end of
//! the home.
//!
//! **Fairness.** While other cells wait in a queue, one round in [`ROUNDS_AT_HOME`] sends the tasks that yield to the
//! queues instead of keeping them, and tasks that are adopted go to the queues too. Which queue the group then takes
//! cells from is decided in two steps:
//!
//! - The most urgent level that has cells comes first. But one look in [`LOOKS_PER_TURN`] begins at another level, and
//!   these take turns. So a group serves every level that has cells at least once in `LOOKS_PER_TURN × levels` looks.
//! - Among the tenants that have cells of that level, the one whose *time* is least comes first. The time of a tenant
//!   advances with every cell that is taken, the slower the greater the tenant's weight is. A tenant that had nothing to
//!   do does not save its time up: it begins where the others are. So while several tenants have cells that wait, a
//!   group divides its steps among them by weight, except for `ROUNDS_AT_HOME` rounds of a full home.
//!
//! After at most [`ROUNDS_PER_LOOK`] rounds, a group looks at its rings again. A tenant whose mask is 0 is disabled: its
//! cells go to its queues, and nobody takes them from there until it is enabled again.
//!
//! **The queues.** An entry is put at the next position of its queue, with the number of its lap, by one store that
//! releases the cell. A group first reads entries, and then takes those that it found written, from the front on and
//! without a gap, by one compare-exchange of the position up to which entries were taken. So no group ever waits for an
//! entry whose position is reserved but not written, and a group that is slow takes nothing twice. A queue has as many
//! places as there are cells, and no cell is in two places at once, so it never overflows.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::adapt::AdaptedHandler;
use super::buffers::CellBuffers;
use super::cells::{self, cell_fact, cell_state, fact};
use super::context::{KernelContext, LINE, STRIDE, U32, U64, state};
use super::dispatch::{HandlerEntry, HandlerTable, end_task};
use super::fence::Fences;
use super::handler::Width;
use super::layout::Layout;
use super::steps::{outcome, step_counter};
use crate::protocol::{Status, control};

/// One round in this many sends tasks that yield to the queues, if other cells wait there.
const ROUNDS_AT_HOME: u32 = 8;
/// After this many rounds, a group looks at its rings.
const ROUNDS_PER_LOOK: u32 = 4;
/// One look at the queues in this many begins at another level than the most urgent one.
const LOOKS_PER_TURN: u32 = 8;
/// By how much a step advances the time of a tenant of weight 1.
pub(crate) const STRIDE_OF_WEIGHT_1: u32 = 1 << 20;

/// The words of [`CellBuffers::words`].
pub(super) mod home_word {
    /// The place of the first cell at home.
    pub(crate) const FIRST: u32 = 0;
    /// How many cells are at home.
    pub(crate) const COUNT: u32 = 1;
    /// How many rounds the group has run.
    pub(crate) const ROUND: u32 = 2;
    /// Whether tasks that yield in this round go to the queues.
    pub(crate) const SHARES: u32 = 3;
    /// How many entries of a queue the group has found or taken.
    pub(crate) const FOUND: u32 = 4;
    /// How many looks at the queues there have been.
    pub(crate) const LOOKS: u32 = 5;
    /// Whether cells were left in a queue at the last look.
    pub(crate) const OTHERS: u32 = 6;
    /// The first of the counts of this round, which are those of `step_counter`.
    pub(crate) const COUNTS: u32 = 7;
    /// How many words there are.
    pub(crate) const WORDS: u32 = COUNTS + super::step_counter::COUNT;
}

/// What a group needs to run the tasks of cells.
#[derive(Clone, Copy)]
pub(super) struct CellServer<'k> {
    pub kernel: &'k KernelContext<'k>,
    pub table: &'k HandlerTable,
    /// The fences of near and of far rings, which may wait for a cell.
    pub near: Option<&'k Fences<'k>>,
    pub far: Option<&'k Fences<'k>>,
}

/// The task of a cell that takes a step.
#[derive(Clone, Copy)]
struct CellTask<'b> {
    /// Its place in this round.
    place: U32<'b>,
    cell: U32<'b>,
    op: U32<'b>,
    tenant: U32<'b>,
}

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

/// Puts a cell that this lane has into the queue of its tenant and level.
pub(super) fn push_ready<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    let owner = f.load(cells.lines.at(cell * LINE + 1));
    let (tenant, level) = (f.cast::<u32>(owner), f.cast::<u32>(owner >> 32));
    let queue = match kernel.layout.levels {
        1 => tenant,
        levels => tenant * levels + level,
    };
    let position = f.atomic_add(Order::Relaxed, Scope::Device, cells.ready_ends.at(queue_back(queue)), 1u64);
    let (at, lap) = queue_entry(f, &kernel.layout, queue, position);
    let entry = f.cast::<u64>(lap) << 32 | f.cast::<u64>(cell);
    // Pairs with the acquire of the group that takes the entry: it sees the words of the cell.
    f.atomic_store(Order::Release, Scope::Device, cells.ready.at(at), entry);
}

/// Puts a cell that was just adopted to the end of the group's home, or into a queue if other cells wait in queues.
pub(super) fn push_adopted<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    f.choose(
        f.load(cells.words.at(home_word::OTHERS)).eq(0),
        || push_home(f, kernel, cells, cell),
        || push_ready(f, kernel, cells, cell),
    );
}

/// Puts a cell that this lane has to the end of the group's home, or into the queue of its level if the home is full.
pub(super) fn push_home<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    let (most, count) = (kernel.layout.home_cells(), cells.words.at(home_word::COUNT));
    let place = f.atomic_add(Order::Relaxed, Scope::Group, count, 1);
    f.choose(
        place.lt(most),
        || {
            let first = f.load(cells.words.at(home_word::FIRST));
            f.store(cells.home.at((first + place) & (most - 1)), cell);
        },
        || {
            f.atomic_sub(Order::Relaxed, Scope::Group, count, 1);
            push_ready(f, kernel, cells, cell);
        },
    );
}

impl<'k> CellServer<'k> {
    /// Runs a few rounds. All lanes call it between two looks at the rings. Gives whether there was anything to do,
    /// which is the same in all lanes.
    pub(super) fn run_rounds<'b>(self, f: &'b FunctionBuilder<'b>) -> Val<'b, bool> {
        let Some(cells) = self.kernel.cells() else { return f.lit(false) };
        f.range((0u32, ROUNDS_PER_LOOK, 1u32), f.lit(false), |rounds, _, busy| {
            self.fill_home(f, cells);
            let most = self.kernel.layout.window.min(self.kernel.layout.home_cells());
            let count = f.min(f.load(cells.words.at(home_word::COUNT)), most);
            let count = f.group_broadcast(count, 0).named("cells");
            f.when(count.eq(0), || rounds.leave(busy));
            self.run_round(f, cells, (count, most));
            f.lit(true)
        })
    }

    /// Runs one step of each of the first cells at home.
    fn run_round<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, (count, most): (U32<'b>, u32)) {
        let kernel = self.kernel;
        let word = |at: u32| cells.words.at(at);
        let first = f.load(word(home_word::FIRST));
        let capacity = kernel.layout.home_cells();
        kernel.each_by_lane(f, count, most, |place| {
            let cell = f.load(cells.home.at((first + place) & (capacity - 1)));
            f.store(cells.round.at(place), cell);
        });
        f.barrier();
        f.when(f.lane().eq(0), || {
            f.store(word(home_word::FIRST), (first + count) & (capacity - 1));
            f.store(word(home_word::COUNT), f.load(word(home_word::COUNT)) - count);
            f.store(word(home_word::ROUND), f.load(word(home_word::ROUND)) + 1);
            f.store(word(home_word::COUNTS + step_counter::BEGUN), count);
            f.store(kernel.shared.state.at(state::WIDES), 0);
        });
        f.barrier();
        kernel.each_by_lane(f, count, most, |place| self.begin_step(f, cells, place.named("place")));
        if self.has_width(Width::Group) {
            self.run_group_wide(f, cells);
        }
        f.barrier();
        f.when(f.lane().eq(0), || self.count_round(f, cells));
    }

    /// Whether some resumable handler has this width.
    fn has_width(self, width: Width) -> bool {
        self.resumable(width).next().is_some()
    }

    /// The resumable handlers of a width.
    fn resumable(self, width: Width) -> impl Iterator<Item = &'k HandlerEntry> {
        self.table.entries.iter().filter(move |entry| entry.resumable && entry.width == width)
    }

    /// Begins the step of a task, unless the host has asked something of it. A lane-wide task runs at once, and a
    /// group-wide one is put aside.
    fn begin_step<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, place: U32<'b>) {
        let kernel = self.kernel;
        let cell = f.load(cells.round.at(place)).named("cell");
        // All loads are under way at once.
        let seen = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let line = cell * LINE;
        let op = f.cast::<u32>(f.load(cells.lines.at(line)) >> 32);
        let tenant = f.cast::<u32>(f.load(cells.lines.at(line + 1)));
        let mask = kernel.host_word(f, tenant + control::MASKS);
        let asked = seen & (cell_state::CANCEL | cell_state::PAUSE);
        let step = || {
            let steps = fact(cells, cell, cell_fact::STEPS);
            f.store(steps, f.load(steps) + 1u64);
            f.store(kernel.shared.faults.at(place), 0);
            if kernel.fueled {
                f.store(kernel.shared.fuel.at(place), kernel.spec.fuel);
            }
            if let Some(steps) = &kernel.steps {
                f.store(steps.buffers.outcomes.at(place), 0);
            }
            self.run_step(f, cells, CellTask { place, cell, op, tenant });
        };
        f.choose(asked.eq(0) & mask.ne(0), step, || self.hold_back(f, cells, cell, (seen, mask)));
    }

    /// Does what the host has asked of a task that was about to take a step, or puts the task into its queue because its
    /// tenant is disabled.
    fn hold_back<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
        (seen, mask): (U64<'b>, U32<'b>),
    ) {
        // The step that was counted does not begin.
        let begun = cells.words.at(home_word::COUNTS + step_counter::BEGUN);
        f.atomic_sub(Order::Relaxed, Scope::Group, begun, 1);
        let cancelled = (seen & cell_state::CANCEL).ne(0);
        f.when(cancelled, || {
            let steps = f.cast::<u32>(f.load(fact(cells, cell, cell_fact::STEPS)));
            self.end_task_of(f, cells, cell, (f.lit(Status::Cancelled.code()), steps));
        });
        f.when(!cancelled, || {
            let paused = (seen & cell_state::PAUSE).ne(0);
            let ready = f.choose(paused, || cells::park_cell(f, cells, cell, f.lit(false)), || f.lit(true));
            f.when(ready & mask.ne(0), || push_home(f, self.kernel, cells, cell));
            f.when(ready & mask.eq(0), || push_ready(f, self.kernel, cells, cell));
        });
    }

    /// Runs the step of a lane-wide task, or puts a group-wide one aside.
    fn run_step<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, task: CellTask<'b>) {
        let kernel = self.kernel;
        let CellTask { place, cell, op, tenant } = task;
        let aside = || {
            let wides = kernel.shared.state.at(state::WIDES);
            let at = f.atomic_add(Order::Relaxed, Scope::Group, wides, 1);
            f.store(kernel.shared.wide.at(at), place);
        };
        let run = |whole: AdaptedHandler| {
            let result = f.call(whole, (place, cell * LINE, tenant));
            self.finish_step(f, cells, task, result);
        };
        let lane_wide: Vec<&HandlerEntry> = self.resumable(Width::Lane).collect();
        match (&*lane_wide, self.has_width(Width::Group)) {
            ([], _) => aside(),
            ([only], false) => run(only.whole),
            (many, _) => {
                let mut switch = f.switch::<()>(op);
                for entry in many {
                    switch = switch.case([entry.op.code()], || run(entry.whole));
                }
                switch.default(aside);
            }
        }
    }

    /// Runs the group-wide tasks of this round, one after the other, with all lanes.
    fn run_group_wide<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        f.barrier();
        let wides = f.group_broadcast(f.load(kernel.shared.state.at(state::WIDES)), 0);
        f.range((f.lit(0), wides, f.lit(1)), (), |_, k, ()| {
            let place = f.group_broadcast(f.load(kernel.shared.wide.at(k)), 0);
            let cell = f.group_broadcast(f.load(cells.round.at(place)), 0);
            let head = f.group_broadcast(f.cast::<u32>(f.load(cells.lines.at(cell * LINE)) >> 32), 0);
            let tenant = f.group_broadcast(f.cast::<u32>(f.load(cells.lines.at(cell * LINE + 1))), 0);
            let mut switch = f.switch::<U32<'b>>(head);
            for entry in self.resumable(Width::Group) {
                switch = switch.case([entry.op.code()], || f.call(entry.whole, (place, cell * LINE, tenant)));
            }
            let result = switch.default(|| f.lit(0));
            f.barrier();
            f.when(f.lane().eq(0), || {
                self.finish_step(f, cells, CellTask { place, cell, op: head, tenant }, result);
            });
        });
    }

    /// Does what comes after a step: ends the task, or puts it where it goes on from.
    fn finish_step<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        task: CellTask<'b>,
        result: U32<'b>,
    ) {
        let kernel = self.kernel;
        let Some(steps) = &kernel.steps else { return };
        let CellTask { place, cell, .. } = task;
        let (status, value) = end_task(f, kernel, place, result);
        let asked = f.load(steps.buffers.outcomes.at(place));
        let goes_on = status.eq(Status::Done.code()) & asked.ne(0);
        let kind = asked & outcome::KIND;
        f.choose(
            goes_on,
            || {
                f.when(kind.eq(outcome::REQUEUE), || {
                    self.count(f, cells, step_counter::REQUEUES);
                    if kernel.layout.levels > 1 {
                        let owner = cells.lines.at(cell * LINE + 1);
                        let level = f.cast::<u64>(asked >> outcome::LEVEL_SHIFT) << 32;
                        f.store(owner, f.load(owner) & u64::from(u32::MAX) | level);
                    }
                });
                let parks = kind.eq(outcome::PARK);
                let stays = f.choose(
                    parks,
                    || {
                        self.count(f, cells, step_counter::PARKS);
                        cells::park_cell(f, cells, cell, f.lit(true))
                    },
                    || f.lit(true),
                );
                let shares = f.load(cells.words.at(home_word::SHARES)).ne(0);
                f.when(stays & shares, || push_ready(f, kernel, cells, cell));
                f.when(stays & !shares, || push_home(f, kernel, cells, cell));
            },
            || {
                self.count(f, cells, step_counter::ENDED);
                self.end_task_of(f, cells, cell, (status, value));
            },
        );
    }

    /// Ends the task of a cell, and retires fences that have waited for it.
    fn end_task_of<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
        end: (U32<'b>, U32<'b>),
    ) {
        let stripe = f.atomic_load(Order::Relaxed, Scope::Device, fact(cells, cell, cell_fact::STRIPE));
        let stripe = f.cast::<u32>(stripe);
        let tenant = f.cast::<u32>(f.load(cells.lines.at(cell * LINE + 1)));
        cells::end_cell(f, cells, cell, end);
        // From here on, the cell may belong to another task.
        let first_far = self.kernel.layout.banks.far().map_or(u32::MAX, |bank| bank.first_stripe);
        match (self.near, self.far) {
            (Some(near), Some(far)) => f.choose(
                stripe.lt(first_far),
                || near.wake_waiting_fence(f, stripe, tenant),
                || far.wake_waiting_fence(f, stripe - first_far, tenant),
            ),
            (Some(fences), None) | (None, Some(fences)) => fences.wake_waiting_fence(f, stripe, tenant),
            (None, None) => {}
        }
    }

    /// Counts something of this round.
    fn count<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, counter: u32) {
        if self.kernel.counts_tasks() {
            let word = cells.words.at(home_word::COUNTS + counter);
            f.atomic_add(Order::Relaxed, Scope::Group, word, 1);
        }
    }

    /// Adds the counts of this round to the group's row of counters. One lane does this.
    fn count_round<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        if !self.kernel.counts_tasks() {
            return;
        }
        for counter in 0..step_counter::COUNT {
            let word = cells.words.at(home_word::COUNTS + counter);
            let count = f.load(word);
            f.when(count.ne(0), || {
                let total = cells.counts.at(f.group() * step_counter::COUNT + counter);
                let old = f.atomic_load(Order::Relaxed, Scope::System, total);
                f.atomic_store(Order::Relaxed, Scope::System, total, old + f.cast::<u64>(count));
                f.store(word, 0);
            });
        }
    }

    /// Takes cells from a queue, as many as there is room for at home. All lanes call it.
    fn fill_home<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        let word = |at: u32| cells.words.at(at);
        let (count, round) = (f.load(word(home_word::COUNT)), f.load(word(home_word::ROUND)));
        let looks = f.group_broadcast(f.select(count.eq(0) | (round % ROUNDS_PER_LOOK).eq(0), 1, 0), 0);
        // The flag is read by tasks that yield in the round that follows, after the lanes have met.
        f.when(f.lane().eq(0), || f.store(word(home_word::SHARES), 0));
        f.when(looks.ne(0), || {
            kernel.each_by_lane(
                f,
                f.lit(kernel.layout.queue_count()),
                kernel.layout.queue_count(),
                |queue| {
                    self.look_at_queue(f, cells, queue);
                },
            );
            f.barrier();
            let (queue, wanted) = f.choose(
                f.lane().eq(0),
                || self.choose_queue(f, cells, (count, round)),
                || (f.lit(0), f.lit(0)),
            );
            let wanted = f.group_broadcast(wanted, 0);
            f.when(wanted.ne(0), || self.take_entries(f, cells, (f.group_broadcast(queue, 0), wanted)));
        });
    }

    /// Notes how many cells of a queue may be taken: none if the tenant is disabled.
    fn look_at_queue<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, queue: U32<'b>) {
        let end = |at: U32<'b>| f.atomic_load(Order::Relaxed, Scope::Device, cells.ready_ends.at(at));
        let mask = self.kernel.host_word(f, queue / self.kernel.layout.levels + control::MASKS);
        let (front, back) = (end(queue_front(queue)), end(queue_back(queue)));
        // The back is read after the front, and never lies before it.
        let waiting = f.cast::<u32>(f.min(back - front, u64::from(u32::MAX)));
        f.store(cells.fronts.at(queue), front);
        f.store(cells.waiting.at(queue), f.select(mask.eq(0), 0, waiting));
    }

    /// Chooses the queue from which cells are taken, and how many. Decides whether tasks that yield in this round are
    /// shared. One lane does this.
    fn choose_queue<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        (count, round): (U32<'b>, U32<'b>),
    ) -> (U32<'b>, U32<'b>) {
        let (levels, queues) = (self.kernel.layout.levels, self.kernel.layout.queue_count());
        let word = |at: u32| cells.words.at(at);
        let looks = f.load(word(home_word::LOOKS));
        f.store(word(home_word::LOOKS), looks + 1);
        let turn = (looks % LOOKS_PER_TURN).eq(LOOKS_PER_TURN - 1);
        let first = f.select(turn, (looks / LOOKS_PER_TURN) % levels, 0);
        const NONE: u32 = u32::MAX;
        let none = (f.lit(NONE), f.lit(u64::MAX));
        let (best, time) = f.range((0u32, levels, 1u32), none, |all, k, none| {
            let level = (first + k) % levels;
            let found = f.range((level, f.lit(queues), f.lit(levels)), none, |_, queue, (best, least)| {
                let time = f.load(cells.times.at(queue / levels));
                let better = f.load(cells.waiting.at(queue)).ne(0) & time.lt(least);
                (f.select(better, queue, best), f.select(better, time, least))
            });
            f.when(found.0.ne(NONE), || all.leave(found));
            none
        });
        let some = best.ne(NONE);
        let waiting = f.choose(some, || f.load(cells.waiting.at(best)), || f.lit(0));
        let room = f.lit(self.kernel.layout.home_cells()) - count;
        let wanted = f.min(waiting, room);
        let others = self.leave_others(f, cells, wanted);
        f.store(word(home_word::OTHERS), others);
        f.store(word(home_word::SHARES), f.select((round % ROUNDS_AT_HOME).eq(0), others, 0));
        f.store(word(home_word::FOUND), wanted);
        f.when(wanted.ne(0), || {
            let tenant = best / levels;
            let by = f.cast::<u64>(wanted) * f.cast::<u64>(f.load(cells.strides.at(tenant)));
            f.store(cells.times.at(tenant), time + by);
            self.keep_up(f, cells, time);
        });
        (best, wanted)
    }

    /// Gives 1 if cells are left in a queue when this many are taken from one, and 0 otherwise.
    fn leave_others<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, taken: U32<'b>) -> U32<'b> {
        let queues = self.kernel.layout.queue_count();
        let all = f.range((0u32, queues, 1u32), f.lit(0), |_, queue, all| {
            f.max(all, all + f.min(f.load(cells.waiting.at(queue)), 1 << 24))
        });
        f.select(all.gt(taken), 1, 0)
    }

    /// Brings the times of tenants that had nothing to do up to that of the tenant that was chosen.
    fn keep_up<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, time: U64<'b>) {
        let (levels, queues) = (self.kernel.layout.levels, self.kernel.layout.queue_count());
        f.range((0u32, queues / levels, 1u32), (), |_, tenant, ()| {
            let at = cells.times.at(tenant);
            f.store(at, f.max(f.load(at), time));
        });
    }

    /// Takes entries from the front of a queue, unless another group is faster, and puts their cells to the end of the
    /// home. All lanes call it.
    fn take_entries<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        (queue, wanted): (U32<'b>, U32<'b>),
    ) {
        let kernel = self.kernel;
        let word = |at: u32| cells.words.at(at);
        let (most, front) = (kernel.layout.home_cells(), f.load(cells.fronts.at(queue)));
        kernel.each_by_lane(f, wanted, most, |k| {
            let (at, lap) = queue_entry(f, &kernel.layout, queue, front + f.cast::<u64>(k));
            // Pairs with the release of the entry: the words of the cell are seen.
            let entry = f.atomic_load(Order::Acquire, Scope::Device, cells.ready.at(at));
            let written = f.cast::<u32>(entry >> 32).eq(lap);
            f.when(!written, || {
                f.atomic_min(Order::Relaxed, Scope::Group, word(home_word::FOUND), k);
            });
            let (first, count) = (f.load(word(home_word::FIRST)), f.load(word(home_word::COUNT)));
            f.store(cells.home.at((first + count + k) & (most - 1)), f.cast::<u32>(entry));
        });
        f.barrier();
        f.when(f.lane().eq(0), || {
            let found = f.load(word(home_word::FOUND));
            let taken = cells.ready_ends.at(queue_front(queue));
            let next = front + f.cast::<u64>(found);
            let before = f.atomic_cas(Order::Relaxed, Scope::Device, taken, front, next);
            f.when(before.eq(front), || {
                f.store(word(home_word::COUNT), f.load(word(home_word::COUNT)) + found);
            });
        });
        f.barrier();
    }

    /// Puts everything at home into the queues, because the group is about to end. A kernel that follows finds it there.
    pub(super) fn leave_home<'b>(self, f: &'b FunctionBuilder<'b>) {
        let Some(cells) = self.kernel.cells() else { return };
        let most = self.kernel.layout.home_cells();
        f.barrier();
        let (first, count) =
            (f.load(cells.words.at(home_word::FIRST)), f.load(cells.words.at(home_word::COUNT)));
        self.kernel.each_by_lane(f, count, most, |k| {
            push_ready(f, self.kernel, cells, f.load(cells.home.at((first + k) & (most - 1))));
        });
    }
}
