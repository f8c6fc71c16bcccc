//! The home of a group: the cells whose tasks the group runs, a few steps of each per turn.
//!
//! A group has one cell per lane at home at most, or 16 if it has fewer lanes and its window has room for so many. They
//! are listed in its shared memory. Everything else that is ready waits in queues in device memory, one per tenant and
//! level, which all groups share. So work that a group has taken stays with it, which is much faster than passing every
//! step through a queue, and work that it has not taken is there for groups that are idle.
//!
//! **A turn.** Between two looks at its rings, the group takes a turn. First, cells that have arrived get a place at
//! home, and the places that are left are filled from one of the queues. Then each lane runs the lane-wide tasks at its
//! places: it looks at the state of the cell once, and then runs up to [`STEPS_PER_TURN`] steps, as long as the task
//! yields. Lanes do not meet in between. After that, all lanes together run one step of each group-wide task.
//!
//! While other cells wait in the [queues](super::ready), tasks that are adopted go there too, and after every
//! [`TURNS_AT_HOME`](super::ready::TURNS_AT_HOME) turns, the tasks at home that yield go to the queues instead of staying.
//! A task in a ring waits for one turn of its group at most. A tenant whose mask is 0 is disabled: its cells go to its
//! queues, and take no step until it is enabled again. They are taken from there only to end those that are cancelled.

use pelton_ir::builder::{FunctionBuilder, Val, Vals};
use pelton_ir::types::{Order, Scope};

use super::adapt::HandlerArgs;
use super::buffers::CellBuffers;
use super::cells::{self, cell_fact, cell_state, fact};
use super::context::{KernelContext, LINE, U32, U64, state};
use super::dispatch::{HandlerEntry, HandlerTable, end_task};
use super::fence::Fences;
use super::graphs::GraphRunner;
use super::handler::Width;
use super::ready::push_ready;
use super::steps::{outcome, step_counter};
use super::{recovery, spawn};
use crate::protocol::{Opcode, Status, control};

/// The most steps that a lane-wide task takes in one turn.
pub(super) const STEPS_PER_TURN: u32 = 8;

/// The words of [`CellBuffers::words`].
pub(super) mod home_word {
    /// How many places at home have a cell.
    pub(crate) const COUNT: u32 = 0;
    /// How many cells have arrived and have no place yet.
    pub(crate) const ARRIVED: u32 = 1;
    /// How many free places were found for cells that have arrived.
    pub(crate) const PLACED: u32 = 2;
    /// Whether tasks that yield at the end of this turn go to the queues. In kernels whose tasks make or await others, one of
    /// [`share`](super::share).
    pub(crate) const SHARES: u32 = 3;
    /// Whether cells were left in the queues at the last look.
    pub(crate) const OTHERS: u32 = 4;
    /// How many turns there have been.
    pub(crate) const TURNS: u32 = 5;
    /// The first of the counts of this turn, which are those of `step_counter`.
    pub(crate) const COUNTS: u32 = 6;
    /// The first word after the counts, in kernels whose tasks make or await others: the most places at home that may
    /// have a cell now.
    pub(crate) const LIMIT: u32 = COUNTS + super::step_counter::ALL;
    /// Whether the group is counted among those that are idle, in such kernels.
    pub(crate) const IDLE: u32 = LIMIT + 1;
    /// Whether other groups are idle, in such kernels.
    pub(crate) const OTHERS_IDLE: u32 = IDLE + 1;

    /// How many words there are, given the number of counters of steps.
    pub(crate) const fn words(counters: u32) -> u32 {
        if counters == super::step_counter::COUNT { COUNTS + counters } else { OTHERS_IDLE + 1 }
    }
}

/// What a group shares with others at the end of a turn, in kernels whose tasks make or await others.
pub(super) mod share {
    /// Nothing.
    pub(crate) const NOTHING: u32 = 0;
    /// Tasks that yield go to the queues. At the next turn, cells that wait in queues come before those that have arrived.
    pub(crate) const PLACES: u32 = 1;
    /// The cells that have arrived and that arrive now go to the queues too, because cells of another tenant or level wait.
    pub(crate) const EVERYTHING: u32 = 2;
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
pub(super) struct CellTask<'b> {
    /// Its place at home.
    pub place: U32<'b>,
    pub cell: U32<'b>,
    pub op: U32<'b>,
    pub tenant: U32<'b>,
}

impl<'b> CellTask<'b> {
    /// What the task's handler is told of it.
    fn handler_args(self) -> HandlerArgs<'b> {
        HandlerArgs { task: self.place, words: self.cell * LINE, tenant: self.tenant }
    }
}

/// Gives a cell that this lane has to the group, which finds a place for it at home before its next turn. If too many
/// have arrived already, or if other cells wait in queues, the cell goes into the queue of its tenant and level.
pub(super) fn push_home<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    let alone = f.load(cells.words.at(home_word::OTHERS)).eq(0);
    arrive_or_queue(f, kernel, cells, (cell, alone));
}

/// Gives a cell that this lane has to the group, because another task of its tree has run here. The group runs it before
/// others, unless it shares its home in this turn or too many have arrived already.
pub(super) fn push_spawned<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) {
    let keeps = f.load(cells.words.at(home_word::SHARES)).ne(share::EVERYTHING);
    arrive_or_queue(f, kernel, cells, (cell, keeps));
}

/// Adds a cell to those that have arrived if the group keeps it and has room for it, and puts it into its queue otherwise.
fn arrive_or_queue<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    (cell, keeps): (U32<'b>, Val<'b, bool>),
) {
    let queued = f.choose(keeps, || !arrive(f, kernel, cells, cell), || f.lit(true));
    f.when(queued, || push_ready(f, kernel, cells, cell));
}

/// Adds a cell to those that have arrived. Gives whether there was room for it.
fn arrive<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
) -> Val<'b, bool> {
    let arrived = cells.words.at(home_word::ARRIVED);
    // Once the count has reached the room that there is, it does not fall below that again before the cells get places.
    // So no two lanes get the same number.
    let at = f.atomic_add(Order::Relaxed, Scope::Group, arrived, 1);
    let room = at.lt(kernel.layout.arrival_cells());
    f.when(room, || f.store(cells.arrivals.at(at), cell));
    f.when(!room, || {
        f.atomic_sub(Order::Relaxed, Scope::Group, arrived, 1);
    });
    room
}

impl<'k> CellServer<'k> {
    /// Takes a turn. All lanes call it between two looks at the rings. Gives whether there was anything to do, which is
    /// the same in all lanes.
    pub(super) fn take_turn<'b>(self, f: &'b FunctionBuilder<'b>) -> Val<'b, bool> {
        let Some(cells) = self.kernel.cells() else { return f.lit(false) };
        let count = cells.words.at(home_word::COUNT);
        f.barrier();
        if self.kernel.trees.is_none() {
            self.place_arrivals(f, cells);
        }
        self.fill_home(f, cells);
        let busy = f.group_broadcast(f.load(count), 0).ne(0);
        if let Some(tree) = &self.kernel.trees {
            f.when(f.lane().eq(0), || self.count_idle(f, cells, tree, busy));
        }
        f.when(busy, || self.run_home(f, cells));
        busy
    }

    /// Runs the tasks at home.
    fn run_home<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        let most = kernel.layout.home_cells();
        if self.has_width(Width::Group) {
            f.when(f.lane().eq(0), || f.store(kernel.shared.state.at(state::WIDES), 0));
            f.barrier();
        }
        kernel.each_by_lane(f, f.lit(most), most, |place| {
            let place = place.named("place");
            let entry = f.load(cells.home.at(place));
            match &kernel.trees {
                Some(tree) => f.when(entry.ne(0), || self.run_tree_cells(f, cells, tree, (place, entry - 1))),
                None => f.when(entry.ne(0), || self.run_cell(f, cells, (place, entry - 1))),
            }
        });
        if self.has_width(Width::Group) {
            self.run_group_wide(f, cells);
        }
        f.barrier();
        f.when(f.lane().eq(0), || self.count_turn(f, cells));
    }

    /// Gives cells that have arrived free places at home. Those that find none go to the queues. All lanes call it,
    /// after they have met.
    pub(super) fn place_arrivals<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        let (word, most) = (|at: u32| cells.words.at(at), kernel.layout.home_cells());
        let arrived = f.group_broadcast(f.load(word(home_word::ARRIVED)), 0);
        f.when(arrived.ne(0), || {
            kernel.each_by_lane(f, f.lit(most), most, |place| {
                f.when(f.load(cells.home.at(place)).eq(0), || {
                    let at = f.atomic_add(Order::Relaxed, Scope::Group, word(home_word::PLACED), 1);
                    f.when(at.lt(arrived), || {
                        f.store(cells.home.at(place), f.load(cells.arrivals.at(at)) + 1);
                        f.atomic_add(Order::Relaxed, Scope::Group, word(home_word::COUNT), 1);
                    });
                });
            });
            f.barrier();
            let placed = f.min(f.load(word(home_word::PLACED)), arrived);
            kernel.each_by_lane(f, arrived - placed, most, |k| {
                push_ready(f, kernel, cells, f.load(cells.arrivals.at(placed + k)));
            });
            f.barrier();
            f.when(f.lane().eq(0), || {
                f.store(word(home_word::ARRIVED), 0);
                f.store(word(home_word::PLACED), 0);
            });
            f.barrier();
        });
    }

    /// Whether some resumable handler has this width.
    fn has_width(self, width: Width) -> bool {
        let launches = width == Width::Group && GraphRunner::new(self.kernel).is_some();
        launches || self.table.stepped(width).next().is_some()
    }

    /// Runs the task of a cell for one turn, unless the host has asked something of it or its tenant is disabled. A
    /// group-wide task is put aside.
    fn run_cell<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        (place, cell): (U32<'b>, U32<'b>),
    ) {
        let kernel = self.kernel;
        // All loads are under way at once.
        let seen = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let line = cell * LINE;
        let op = f.cast::<u32>(f.load(cells.lines.at(line)) >> 32);
        let tenant = f.cast::<u32>(f.load(cells.lines.at(line + 1)));
        let mask = kernel.host_word(f, tenant + control::MASKS);
        let asked = seen & (cell_state::CANCEL | cell_state::PAUSE);
        f.choose(
            asked.eq(0) & mask.ne(0),
            || {
                let task = CellTask { place, cell, op, tenant };
                self.run_steps(f, cells, task, |ended| self.finish_steps(f, cells, task, ended), || ());
            },
            || self.hold_back(f, cells, (place, cell), (seen, mask)),
        );
    }

    /// Does what the host has asked of a task that was about to take a step, or puts the task into its queue because its
    /// tenant is disabled.
    fn hold_back<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        (place, cell): (U32<'b>, U32<'b>),
        (seen, mask): (U64<'b>, U32<'b>),
    ) {
        let cancelled = (seen & cell_state::CANCEL).ne(0);
        let stays = f.choose(
            cancelled,
            || {
                let steps = f.cast::<u32>(f.load(fact(cells, cell, cell_fact::STEPS)));
                self.end_task_of(f, cells, cell, (f.lit(Status::Cancelled.code()), steps));
                f.lit(false)
            },
            || self.pause_or_queue(f, cells, cell, (seen, mask)),
        );
        f.when(!stays, || self.free_place(f, cells, place));
    }

    /// Puts a task aside that the host has paused, or puts it into its queue because its tenant is disabled. Gives whether it
    /// keeps its place at home, because neither holds any more.
    pub(super) fn pause_or_queue<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
        (seen, mask): (U64<'b>, U32<'b>),
    ) -> Val<'b, bool> {
        let paused = (seen & cell_state::PAUSE).ne(0);
        let ready = f.choose(paused, || cells::park_cell(f, cells, cell, f.lit(false)), || f.lit(true));
        f.when(ready & mask.eq(0), || push_ready(f, self.kernel, cells, cell));
        ready & mask.ne(0)
    }

    /// Frees a place at home.
    pub(super) fn free_place<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, place: U32<'b>) {
        f.store(cells.home.at(place), 0);
        f.atomic_sub(Order::Relaxed, Scope::Group, cells.words.at(home_word::COUNT), 1);
    }

    /// Runs steps of a lane-wide task, or puts a group-wide one aside. `ran` follows the steps and gets the status, the value
    /// and the outcome of the last one, and the number of steps. `waits` follows if the task was put aside.
    pub(super) fn run_steps<'b, R: Vals<'b>>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        task: CellTask<'b>,
        ran: impl FnOnce((U32<'b>, U32<'b>, U32<'b>, U32<'b>)) -> R,
        waits: impl FnOnce() -> R,
    ) -> R {
        let kernel = self.kernel;
        let is_lane_wide = |entry: &HandlerEntry| entry.stepped.is_some() && entry.width == Width::Lane;
        let lane_wide = self.table.is_one_of(f, task.op, is_lane_wide);
        let aside = || {
            let wides = kernel.shared.state.at(state::WIDES);
            let at = f.atomic_add(Order::Relaxed, Scope::Group, wides, 1);
            f.store(kernel.shared.wide.at(at), task.place);
            waits()
        };
        let run = || {
            self.restore_place(f, cells, task);
            self.say_cell_begun(f, cells, task);
            let none = (f.lit(0), f.lit(0), f.lit(0), f.lit(0));
            ran(f.range((0u32, STEPS_PER_TURN, 1u32), none, |turns, _, (.., steps)| {
                self.begin_step(f, task.place);
                let result = self.table.call_lane_wide_step(f, || task.op, task.handler_args());
                let (status, value) = end_task(f, kernel, task.place, result);
                let asked = self.outcome(f, task.place);
                let after = (status, value, asked, steps + 1);
                let yields = status.eq(Status::Done.code()) & asked.eq(outcome::YIELD);
                let yields = match &kernel.trees {
                    // The children of a step begin before the next one.
                    Some(tree) => yields & !spawn::has_children(f, tree, task.place),
                    None => yields,
                };
                f.when(!yields, || turns.leave(after));
                after
            }))
        };
        match (self.has_width(Width::Lane), self.has_width(Width::Group)) {
            (true, true) => f.choose(lane_wide, run, aside),
            (true, false) => run(),
            (false, _) => aside(),
        }
    }

    /// Prepares the group's memory for a step of the task at a place.
    fn begin_step<'b>(self, f: &'b FunctionBuilder<'b>, place: U32<'b>) {
        let kernel = self.kernel;
        f.store(kernel.shared.faults.at(place), 0);
        if kernel.fueled {
            f.store(kernel.shared.fuel.at(place), kernel.spec.fuel);
        }
        if let Some(steps) = &kernel.steps {
            f.store(steps.buffers.outcomes.at(place), 0);
        }
    }

    /// What the step of the task at a place has asked for.
    fn outcome<'b>(self, f: &'b FunctionBuilder<'b>, place: U32<'b>) -> U32<'b> {
        self.kernel.steps.as_ref().map_or(f.lit(0), |steps| f.load(steps.buffers.outcomes.at(place)))
    }

    /// Runs one step of each group-wide task, one after the other, with all lanes.
    fn run_group_wide<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        f.barrier();
        let wides = f.group_broadcast(f.load(kernel.shared.state.at(state::WIDES)), 0);
        f.range((f.lit(0), wides, f.lit(1)), (), |_, k, ()| {
            let place = f.group_broadcast(f.load(kernel.shared.wide.at(k)), 0);
            let cell = f.group_broadcast(f.load(cells.home.at(place)), 0) - 1;
            let op = f.group_broadcast(f.cast::<u32>(f.load(cells.lines.at(cell * LINE)) >> 32), 0);
            let tenant = f.group_broadcast(f.cast::<u32>(f.load(cells.lines.at(cell * LINE + 1))), 0);
            f.when(f.lane().eq(0), || {
                let task = CellTask { place, cell, op, tenant };
                self.restore_place(f, cells, task);
                self.say_cell_begun(f, cells, task);
                self.begin_step(f, place);
            });
            f.barrier();
            let mut switch = f.switch::<U32<'b>>(op);
            for (entry, handler) in self.table.stepped_handlers(Width::Group) {
                switch = switch.case([entry.op.code()], || f.call(handler, (place, cell * LINE, tenant)));
            }
            if let Some(graphs) = GraphRunner::new(kernel) {
                let task = CellTask { place, cell, op, tenant };
                switch = switch.case([Opcode::LAUNCH_GRAPH.code()], || graphs.launch(f, task));
            }
            let result = switch.default(|| f.lit(0));
            f.barrier();
            f.when(f.lane().eq(0), || {
                let (status, value) = end_task(f, kernel, place, result);
                let asked = self.outcome(f, place);
                let (task, ended) = (CellTask { place, cell, op, tenant }, (status, value, asked, f.lit(1)));
                match &kernel.trees {
                    Some(tree) => self.finish_tree_steps(f, cells, tree, task, ended),
                    None => self.finish_steps(f, cells, task, ended),
                }
            });
        });
    }

    /// Does what comes after the last step of a turn: ends the task, puts it where it goes on from, or leaves it at home.
    /// The status, the value and what was asked are those of the last step.
    fn finish_steps<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        task: CellTask<'b>,
        (status, value, asked, steps): (U32<'b>, U32<'b>, U32<'b>, U32<'b>),
    ) {
        let kernel = self.kernel;
        let CellTask { place, cell, .. } = task;
        let begun = f.load(fact(cells, cell, cell_fact::STEPS));
        self.note_steps(f, cells, task, (begun, steps));
        let goes_on = status.eq(Status::Done.code()) & asked.ne(0);
        let kind = asked & outcome::KIND;
        let stays = f.choose(
            goes_on,
            || {
                let moves = kind.eq(outcome::REQUEUE);
                f.when(moves, || self.change_level(f, cells, cell, asked));
                let ready = f.choose(
                    kind.eq(outcome::PARK),
                    || {
                        self.count(f, cells, step_counter::PARKS, f.lit(1));
                        let park = || cells::park_cell(f, cells, cell, f.lit(true));
                        match &kernel.recovery {
                            Some(_) => {
                                let resumed = recovery::takes_resume(f, kernel, cells, cell);
                                f.choose(resumed, || f.lit(true), park)
                            }
                            None => park(),
                        }
                    },
                    || f.lit(true),
                );
                let shares = f.load(cells.words.at(home_word::SHARES)).ne(0);
                // A task of another level takes its turn among those of that level.
                let leaves = if kernel.layout.levels > 1 { shares | moves } else { shares };
                f.when(ready & leaves, || push_ready(f, kernel, cells, cell));
                ready & !leaves
            },
            || {
                self.count(f, cells, step_counter::ENDED, f.lit(1));
                self.give_reply(f, cells, task);
                self.end_task_of(f, cells, cell, (status, value));
                f.lit(false)
            },
        );
        f.when(!stays, || self.free_place(f, cells, place));
    }

    /// Notes in the cell of a task that it has taken so many steps more than `begun`, and how long its payload and its reply
    /// are.
    pub(super) fn note_steps<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        task: CellTask<'b>,
        (begun, steps): (U64<'b>, U32<'b>),
    ) {
        f.store(fact(cells, task.cell, cell_fact::STEPS), begun + f.cast::<u64>(steps));
        self.count(f, cells, step_counter::BEGUN, steps);
        if let Some(places) = &self.kernel.places {
            f.store(fact(cells, task.cell, cell_fact::SIZES), places.kept_sizes(f, task.place));
        }
    }

    /// Tells the handler of a cell's task where its payload and its reply are.
    fn restore_place<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, task: CellTask<'b>) {
        if let Some(places) = &self.kernel.places {
            let sizes = f.load(fact(cells, task.cell, cell_fact::SIZES));
            places.restore_place(f, (task.place, cells::cell_place(self.kernel, task.cell)), sizes);
        }
    }

    /// Gives the reply of a task that ends to the host.
    pub(super) fn give_reply<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, task: CellTask<'b>) {
        if let Some(places) = &self.kernel.places {
            let seen = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(task.cell));
            let place = cells::cell_place(self.kernel, task.cell);
            places.give_reply(f, (task.place, place), cells::cell_generation(f, seen));
        }
    }

    /// Changes the level of a task that has asked for it.
    pub(super) fn change_level<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
        asked: U32<'b>,
    ) {
        self.count(f, cells, step_counter::REQUEUES, f.lit(1));
        if self.kernel.layout.levels > 1 {
            let owner = cells.lines.at(cell * LINE + 1);
            let level = f.cast::<u64>(asked >> outcome::LEVEL_SHIFT) << 32;
            f.store(owner, f.load(owner) & u64::from(u32::MAX) | level);
        }
    }

    /// Ends the task of a cell, and retires fences that have waited for it.
    pub(super) fn end_task_of<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        cell: U32<'b>,
        end: (U32<'b>, U32<'b>),
    ) {
        let stripe = f.atomic_load(Order::Relaxed, Scope::Device, fact(cells, cell, cell_fact::STRIPE));
        let stripe = f.cast::<u32>(stripe);
        let tenant = f.cast::<u32>(f.load(cells.lines.at(cell * LINE + 1)));
        cells::end_cell(f, self.kernel, cells, cell, end);
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

    /// Adds to a count of this turn.
    pub(super) fn count<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        counter: u32,
        by: U32<'b>,
    ) {
        if self.kernel.counts_tasks() {
            let word = cells.words.at(home_word::COUNTS + counter);
            f.atomic_add(Order::Relaxed, Scope::Group, word, by);
        }
    }

    /// Adds the counts of this turn to the group's row of counters. One lane does this.
    fn count_turn<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        if !self.kernel.counts_tasks() {
            return;
        }
        let counters = self.kernel.layout.step_counters();
        for counter in 0..counters {
            let word = cells.words.at(home_word::COUNTS + counter);
            let count = f.load(word);
            f.when(count.ne(0), || {
                let total = cells.counts.at(f.group() * counters + counter);
                let old = f.atomic_load(Order::Relaxed, Scope::System, total);
                f.atomic_store(Order::Relaxed, Scope::System, total, old + f.cast::<u64>(count));
                f.store(word, 0);
            });
        }
    }

    /// Puts everything at home into the queues, because the group is about to end. A kernel that follows finds it there.
    pub(super) fn leave_home<'b>(self, f: &'b FunctionBuilder<'b>) {
        let Some(cells) = self.kernel.cells() else { return };
        let most = self.kernel.layout.home_cells();
        f.barrier();
        self.kernel.each_by_lane(f, f.lit(most), most, |place| {
            let entry = f.load(cells.home.at(place));
            f.when(entry.ne(0), || push_ready(f, self.kernel, cells, entry - 1));
        });
        let arrived = f.load(cells.words.at(home_word::ARRIVED));
        self.kernel.each_by_lane(f, arrived, self.kernel.layout.arrival_cells(), |k| {
            push_ready(f, self.kernel, cells, f.load(cells.arrivals.at(k)));
        });
    }
}
