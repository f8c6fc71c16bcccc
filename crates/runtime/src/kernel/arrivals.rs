//! Cells that have arrived at a group and have no place at home yet, in kernels whose tasks make or await others.
//!
//! A group runs first what it has spawned last. So a tree is worked off in depth, and the number of cells that it needs
//! at once grows with its depth and not with its width. For this, the group keeps a list of the cells that have
//! *arrived* and have no place at home yet, and mostly fills free places from the end of this list. The rest of the
//! list must not wait for ever, and other groups need work too:
//!
//! - After every `TURNS_AT_HOME` turns, the group gives half of the list to the queues, namely the cells that have
//!   arrived first. In the next turn, it takes cells from the queues before those of the list. So within a few such
//!   turns, every cell that has arrived is either at home or in a queue, and queues are served in order.
//! - If cells of another tenant or level wait in queues, the group gives the whole list to the queues, so that
//!   weights and levels decide what runs next.
//! - While other groups are idle, the group gives half of the list to the queues at every turn.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::CellBuffers;
use super::context::U32;
use super::home::{CellServer, home_word, share};
use super::ready::{NO_QUEUE, TURNS_AT_HOME, push_ready, queue_number};
use super::tree::TreeContext;

impl TreeContext {
    /// How many groups are idle.
    pub(super) fn idle_groups<'b>(&self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        f.atomic_load(Order::Relaxed, Scope::Device, self.buffers.idle.at(0))
    }
}

impl CellServer<'_> {
    /// Chooses the queue from which cells are taken, and how many, beside the cells that have arrived. Decides what is
    /// shared at the end of this turn. One lane does this.
    pub(super) fn choose_queue_beside_arrivals<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
    ) -> (U32<'b>, U32<'b>) {
        let layout = &self.kernel.layout;
        let word = |at: u32| cells.words.at(at);
        let turns = f.load(word(home_word::TURNS));
        f.store(word(home_word::TURNS), turns + 1);
        let (best, time) = self.find_queue(f, cells, turns);
        let some = best.ne(NO_QUEUE);
        let waiting = f.choose(some, || f.load(cells.waiting.at(best)), || f.lit(0));
        let (count, kept) = (f.load(word(home_word::COUNT)), f.load(word(home_word::ARRIVED)));
        let room = f.max(f.load(word(home_word::LIMIT)), count) - count;
        // Mostly what has arrived comes first. But after every `TURNS_AT_HOME` turns, what waits in the queues does.
        let shared = f.load(word(home_word::SHARES)).ne(share::NOTHING);
        let left = f.select(shared, room, f.max(room, kept) - kept);
        let wanted = f.min(f.min(waiting, left), f.lit(layout.arrival_cells()) - kept);
        let others = self.are_cells_left(f, cells, wanted);
        f.store(word(home_word::OTHERS), others);
        let last = (turns % TURNS_AT_HOME).eq(TURNS_AT_HOME - 1);
        let crowded = others.ne(0) | (kept + wanted).gt(room);
        let foreign = || f.choose(kept.ne(0), || self.do_others_wait(f, cells, kept), || f.lit(false));
        let foreign = f.choose(last & others.ne(0), foreign, || f.lit(false));
        let shares = f.select(foreign, f.lit(share::EVERYTHING), share::PLACES);
        f.store(word(home_word::SHARES), f.select(last & crowded, shares, share::NOTHING));
        f.store(word(home_word::ARRIVED), kept + wanted);
        f.when(wanted.ne(0), || self.raise_times(f, cells, time));
        (best, wanted)
    }

    /// Whether cells wait in another queue than the one for the cell that has arrived last.
    fn do_others_wait<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        arrived: U32<'b>,
    ) -> Val<'b, bool> {
        let layout = &self.kernel.layout;
        let own = queue_number(f, self.kernel, cells, f.load(cells.arrivals.at(arrived - 1)));
        f.range((0u32, layout.queue_count(), 1u32), f.lit(false), |_, queue, some| {
            some | (queue.ne(own) & f.load(cells.waiting.at(queue)).ne(0))
        })
    }

    /// Gives the cells that have arrived last free places at home. The others stay, or go to the queues if the group
    /// shares them or others are idle. All lanes call it.
    pub(super) fn place_last_arrivals<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers) {
        let kernel = self.kernel;
        let (word, most) = (|at: u32| cells.words.at(at), kernel.layout.home_cells());
        let arrived = f.group_broadcast(f.load(word(home_word::ARRIVED)), 0);
        f.when(arrived.ne(0), || {
            let count = f.group_broadcast(f.load(word(home_word::COUNT)), 0);
            let limit = f.group_broadcast(f.load(word(home_word::LIMIT)), 0);
            let shares = f.group_broadcast(f.load(word(home_word::SHARES)), 0);
            let others_idle = f.group_broadcast(f.load(word(home_word::OTHERS_IDLE)), 0);
            let wanted = f.min(arrived, f.max(limit, count) - count);
            kernel.each_by_lane(f, f.lit(most), most, |place| {
                f.when(f.load(cells.home.at(place)).eq(0) & wanted.ne(0), || {
                    let at = f.atomic_add(Order::Relaxed, Scope::Group, word(home_word::PLACED), 1);
                    f.when(at.lt(wanted), || {
                        f.store(cells.home.at(place), f.load(cells.arrivals.at(arrived - 1 - at)) + 1);
                        f.atomic_add(Order::Relaxed, Scope::Group, word(home_word::COUNT), 1);
                    });
                });
            });
            f.barrier();
            let rest = arrived - f.min(f.load(word(home_word::PLACED)), wanted);
            // Those that have arrived first are mostly the roots of the largest subtrees, and have waited longest.
            let gives = others_idle.ne(0) | shares.ne(share::NOTHING);
            let half = f.select(gives, rest - rest / 2, 0);
            let given = f.select(shares.eq(share::EVERYTHING), rest, half);
            kernel.each_by_lane(f, given, kernel.layout.arrival_cells(), |k| {
                push_ready(f, kernel, cells, f.load(cells.arrivals.at(k)));
            });
            f.barrier();
            // At least half of them are given away, so the others move to places that are free.
            let moved = f.select(given.ne(0), rest - given, 0);
            kernel.each_by_lane(f, moved, kernel.layout.arrival_cells(), |k| {
                f.store(cells.arrivals.at(k), f.load(cells.arrivals.at(given + k)));
            });
            f.barrier();
            f.when(f.lane().eq(0), || {
                f.store(word(home_word::ARRIVED), rest - given);
                f.store(word(home_word::PLACED), 0);
            });
            f.barrier();
        });
    }

    /// Decides how many places at home the group uses in this turn, given how many groups are idle. One lane does this.
    pub(super) fn limit_home<'b>(self, f: &'b FunctionBuilder<'b>, cells: &CellBuffers, idle: U32<'b>) {
        let most = self.kernel.layout.home_cells();
        let own = f.load(cells.words.at(home_word::IDLE));
        let others = idle.gt(own);
        f.store(cells.words.at(home_word::LIMIT), f.select(others, self.kernel.layout.lanes.min(most), most));
        f.store(cells.words.at(home_word::OTHERS_IDLE), f.select(others, 1, 0));
    }

    /// Counts the group among those that are idle, or no longer. One lane does this, after each turn.
    pub(super) fn count_idle<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        cells: &CellBuffers,
        tree: &TreeContext,
        busy: Val<'b, bool>,
    ) {
        let word = cells.words.at(home_word::IDLE);
        let (before, now) = (f.load(word), f.select(busy, 0, 1));
        f.when(before.ne(now), || {
            // Taking one off is adding the greatest number.
            f.atomic_add(Order::Relaxed, Scope::Device, tree.buffers.idle.at(0), now - before);
            f.store(word, now);
        });
    }
}
