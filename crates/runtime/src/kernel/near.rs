//! Near rings. Every group polls a stripe of its own in each ring, so groups never compete for tasks. In a session that has
//! fewer groups than it was launched with, a group polls several stripes of each ring, and each of them is like a ring of its
//! own to the group.
//!
//! A group takes a line when its generation is the expected one and its check holds. It infers nothing from
//! neighbouring lines. If the check fails, the host may have been writing the line, so the group looks at the line
//! again, and counts it if the check fails twice. A group of one lane that works in the host's memory acquires word 0
//! of a line before it reads the rest. The order of memory then guarantees that the line is whole, so such a group
//! checks nothing.
//!
//! On a device with memory of its own, the slots lie in that memory, unless the session has moved there, and one more group keeps a copy of the host's
//! control words there.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::cells;
use super::claim::{self, Credit, NO_RING};
use super::context::{KernelContext, LINE, U32, U64, state};
use super::home::CellServer;
use super::layout::SlotBank;
use super::light::LightTasks;
use super::mode::KeptControl;
use super::slots::BankSlots;
use super::window::{RingOwner, TaskWindow, WindowOwner, WindowRunner};
use super::{line, notice, payload, route, watch};
use crate::protocol::control;

/// The number that stands for a ring when the group is to stop.
const STOP_RING: u32 = u32::MAX - 1;
/// The number that stands for a ring when the watch has run all tasks that it found.
const BUSY_RING: u32 = u32::MAX - 2;

/// What a look at the rings has found.
pub(super) mod look {
    /// There are no tasks.
    pub(crate) const NOTHING: u32 = 0;
    /// There were tasks, and the watch has run them.
    pub(crate) const RAN: u32 = 1;
    /// There are tasks that the group must run.
    pub(crate) const FOUND: u32 = 2;
    /// The host has asked for the stop.
    pub(crate) const HALT: u32 = 3;
}

/// The functions with which a group serves its stripes of near rings.
#[derive(Clone, Copy)]
pub(super) struct NearServer<'k> {
    run: WindowRunner<'k>,
    cells: CellServer<'k>,
    /// Says whether the line at a word is whole. There is none where the order of memory guarantees it.
    check: Option<Callee<u32, bool>>,
    /// Chooses the ring that is served next.
    pick: Callee<(), u32>,
    /// Looks at all rings at once and gives one of [`look`], if a group has enough lanes for that.
    watch: Option<Callee<(), u32>>,
}

impl<'k> NearServer<'k> {
    /// Writes the functions. `light` runs light tasks; there is none if the groups have no watch.
    pub(super) fn write(
        m: &mut Builder,
        run: WindowRunner<'k>,
        cells: CellServer<'k>,
        light: Option<LightTasks>,
        caps: &Caps,
    ) -> Self {
        let (kernel, slots) = (run.kernel, run.slots);
        let acquired = kernel.source.live && !kernel.layout.remote;
        let check = (!acquired).then(|| write_check(m, slots));
        let ready = write_ready(m, run, check);
        let pick = claim::write_choice(m, kernel, slots, ready);
        // A watch that went on by itself would keep the group from the tasks of its cells.
        let independent = caps.independent_subgroups && kernel.cells().is_none();
        let watch = light.map(|light| watch::write_watch(m, run, light, independent));
        NearServer { run, cells, check, pick, watch }
    }

    /// How many groups serve near rings.
    pub(super) fn groups(self) -> u32 {
        self.run.slots.bank.groups
    }

    /// Serves the group's stripes. Where there is a copy of the control words, the last group serves none, and keeps
    /// the copy for the others.
    pub(super) fn serve_or_keep<'b>(self, f: &'b FunctionBuilder<'b>, copy: Option<&KeptControl>) {
        let kernel = self.run.kernel;
        match copy {
            Some(copy) => f.choose(
                f.group().eq(self.groups()),
                || f.when(f.subgroup().eq(0), || route::keep_control_words(f, kernel, copy)),
                || self.serve(f),
            ),
            None => self.serve(f),
        }
    }

    /// Serves the group's stripes until the stop.
    pub(super) fn serve<'b>(self, f: &'b FunctionBuilder<'b>) {
        let NearServer { run, check, .. } = self;
        let kernel = run.kernel;
        claim::load_heads(f, kernel, run.slots, |ring| polled_stripe(f, run.slots, ring).0);
        f.forever::<_, ()>(f.lit(0), |serve, idle| {
            let nothing = || f.lit(look::NOTHING);
            let news = match self.watch {
                Some(watch) => f.choose(f.subgroup().eq(0), || f.call(watch, ()), nothing),
                None => f.select(halt_word(f, kernel, Order::Relaxed).ne(0), look::HALT, look::FOUND),
            };
            let ring = f.choose(f.lane().eq(0), || self.next_ring(f, news), || f.lit(NO_RING));
            let ring = f.group_broadcast(ring, 0).named("ring");
            f.when(ring.eq(STOP_RING), || serve.leave(()));
            let idle = f.choose(
                ring.ge(BUSY_RING),
                || {
                    let idle = f.select(ring.eq(BUSY_RING), 0, idle + 1);
                    f.when(idle.ne(0), || claim::back_off(f, kernel, idle));
                    idle
                },
                || {
                    // The lanes have met since the watch wrote the head.
                    let head = f.load(kernel.shared.heads.at(ring)).named("head");
                    let count = take_window(f, run, check, ring, head);
                    f.select(count.eq(0), idle + 1, 0)
                },
            );
            if kernel.cells().is_none() {
                return idle;
            }
            cells::apply_asks_as_first_group(f, kernel);
            f.select(self.cells.take_turn(f), 0, idle)
        });
        self.cells.leave_home(f);
    }

    /// Chooses the ring that the group serves next; one lane does this for its group. The watch may already have run
    /// the task for which the ring is chosen.
    fn next_ring<'b>(self, f: &'b FunctionBuilder<'b>, news: U32<'b>) -> U32<'b> {
        let kernel = self.run.kernel;
        // Pairs with the release of the host, or of the keeper: what the host wrote before it asked for the stop is
        // seen.
        let halt = f.choose(news.eq(look::HALT), || halt_word(f, kernel, Order::Acquire), || f.lit(0));
        f.choose(
            halt.ne(0),
            || f.lit(STOP_RING),
            || {
                let none = || f.select(news.eq(look::RAN), BUSY_RING, NO_RING);
                f.store(kernel.shared.state.at(state::LIMIT), most_tasks(self.run));
                f.choose(news.eq(look::FOUND), || f.call(self.pick, ()), none)
            },
        )
    }
}

/// Loads the word that says whether the host has asked for the stop, or the copy of it that the keeper writes.
pub(super) fn halt_word<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, order: Order) -> U32<'b> {
    match kernel.mode.control_copy() {
        Some(copy) => f.atomic_load(order, Scope::Device, copy.buffers.flags.at(flag::HALT)),
        None => f.atomic_load(order, Scope::System, kernel.global.host.at(control::SHUTDOWN)),
    }
}

/// The most tasks that a group takes at once from its stripe.
fn most_tasks(run: WindowRunner<'_>) -> u32 {
    run.kernel.layout.window.min(run.slots.bank.stripe_slots())
}

/// The number of this group's stripe of a ring. If a group has several stripes of each ring, each of them counts as a ring.
pub(super) fn own_stripe<'b>(f: &'b FunctionBuilder<'b>, slots: &BankSlots, ring: U32<'b>) -> U32<'b> {
    let SlotBank { ring_stripes, groups, .. } = slots.bank;
    match slots.bank.group_stripes() {
        1 => ring * ring_stripes + f.group(),
        stripes => ring / stripes * ring_stripes + ring % stripes * groups + f.group(),
    }
}

/// The number of this group's stripe of a ring, and whether there is one, unless there always is. If there is none, the
/// number is that of another stripe.
pub(super) fn polled_stripe<'b>(
    f: &'b FunctionBuilder<'b>,
    slots: &BankSlots,
    ring: U32<'b>,
) -> (U32<'b>, Option<Val<'b, bool>>) {
    let SlotBank { ring_stripes, groups, .. } = slots.bank;
    let own = own_stripe(f, slots, ring);
    if ring_stripes % groups == 0 {
        return (own, None);
    }
    let there = (ring % slots.bank.group_stripes() * groups + f.group()).lt(ring_stripes);
    (f.select(there, own, 0), Some(there))
}

/// Takes the tasks of a stripe that are ready, runs them, and gives their number.
fn take_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    check: Option<Callee<u32, bool>>,
    ring: U32<'b>,
    first: U64<'b>,
) -> U32<'b> {
    let (kernel, slots) = (run.kernel, run.slots);
    let base = slots.first_slot(own_stripe(f, slots, ring));
    let tenant = f.load(kernel.global.rings.at(slots.ring_of_polled(ring)));
    let none = f.lit(0);
    let level = claim::ring_level(f, kernel, slots, ring);
    let owner = RingOwner { ring, level, tenant, mask: none };
    let window = TaskWindow { base, first, count: none, owner: WindowOwner::Ring(owner) };
    // All lanes take the mask that one lane has read. A later change of the mask holds from the next window on.
    let (count, mask) = match kernel.source.live {
        true => run_in_place(f, run, check, (window, owner)),
        false => copy_window(f, run, (window, owner)),
    };
    let count = f.group_broadcast(count, 0).named("count");
    let mask = f.group_broadcast(mask, 0).named("mask");
    f.when(count.ne(0), || {
        let owner = WindowOwner::Ring(RingOwner { mask, ..owner });
        let window = TaskWindow { count, owner, ..window };
        if kernel.pollers_are_told() {
            f.when(is_last_lane(f, kernel), || notice::say_away(f, kernel, f.group()));
        }
        // The head is stored before the lanes meet for the last time in this window, so that the watch sees it.
        f.when(f.lane().eq(0), || {
            f.store(kernel.shared.heads.at(ring), first + f.cast::<u64>(count));
            f.store(kernel.shared.suspect.at(ring), 0);
            claim::note_served(f, kernel, slots, (ring, level, tenant), count);
        });
        match kernel.source.live {
            true => run.finish_window(f, window),
            false => run.run_window(f, window),
        }
    });
    count
}

/// How many of so many tasks at the head of a stripe the group may take now, if they leave marks.
fn claimable<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    (window, owner): (TaskWindow<'b>, RingOwner<'b>),
    count: U32<'b>,
) -> U32<'b> {
    if run.fences.frontier().is_none() {
        return count;
    }
    let end = window.first + f.cast::<u64>(count);
    let limit = run.fences.claim_limit(f, run.kernel, owner.ring, end);
    f.cast::<u32>(f.max(f.min(end, limit), window.first) - window.first)
}

/// Runs the tasks that are ready where they lie, in a group of one lane. Gives their number and the tenant's mask.
fn run_in_place<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    check: Option<Callee<u32, bool>>,
    (window, owner): (TaskWindow<'b>, RingOwner<'b>),
) -> (U32<'b>, U32<'b>) {
    let (kernel, slots) = (run.kernel, run.slots);
    run.clear_state(f);
    let mask = kernel.host_word(f, owner.tenant + control::MASKS);
    let window = TaskWindow { owner: WindowOwner::Ring(RingOwner { mask, ..owner }), ..window };
    let credit = Credit::new(f, kernel, owner.tenant);
    let wanted = claimable(f, run, (window, owner), f.lit(most_tasks(run)));
    let most = f.choose(mask.ne(0), || credit.take(f, kernel, wanted), || f.lit(0));
    let count = f.range((f.lit(0), most, f.lit(1)), f.lit(0), |look, task, count| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + slots.slot_in_stripe(f, position)) * LINE;
        // Pairs with the producer's release: the rest of the line, and what the host wrote before, is seen.
        let word = f.atomic_load(Order::Acquire, Scope::System, slots.words.at(at));
        let fresh = f.cast::<u32>(word).eq(slots.ready_word(f, position));
        let whole = check.map_or(fresh, |check| f.choose(fresh, || f.call(check, at), || f.lit(false)));
        let whole = run.has_ended_before(f, (owner.ring, position)).map_or(whole, |ended| whole | ended);
        f.when(!whole, || look.leave(count));
        // A task that was submitted after a change of the mask or the quota must not begin under the old ones.
        let same = kernel.host_word(f, owner.tenant + control::MASKS).eq(mask) & credit.holds(f, kernel);
        f.when(!same, || look.leave(count));
        if let Some(places) = &kernel.places {
            places.begin_lone_task(f, &kernel.shared, task, run.place_number(f, window, task));
        }
        run.run_task(f, window, task);
        task + 1
    });
    credit.give(f, kernel, most - count);
    if check.is_some() {
        suspect_head(f, kernel, owner.ring, count, most);
    }
    (count, mask)
}

/// Copies the tasks that are ready, with all lanes. Lane 0 gives the number of tasks that may run and the tenant's
/// mask.
fn copy_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    (window, owner): (TaskWindow<'b>, RingOwner<'b>),
) -> (U32<'b>, U32<'b>) {
    let (kernel, slots) = (run.kernel, run.slots);
    let limit = kernel.shared.state.at(state::LIMIT);
    let mask = || kernel.host_word(f, owner.tenant + control::MASKS);
    // A group that is told of changes may read the mask while it reads the lines. Any other group must have the lines
    // before it reads the mask.
    let early = kernel.pollers_are_told().then(mask);
    f.range((f.lane(), f.lit(most_tasks(run)), f.lanes()), (), |look, task, ()| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + slots.slot_in_stripe(f, position)) * LINE;
        let copy = || copy_line(f, run, (task, position, at));
        let there = match run.has_ended_before(f, (owner.ring, position)) {
            Some(ended) => f.choose(ended, || f.lit(true), copy),
            None => copy(),
        };
        f.when(!there, || {
            f.atomic_min(Order::Relaxed, Scope::Group, limit, task);
            look.leave(());
        });
    });
    f.barrier();
    // The last lane does this while lane 0 works out what may run.
    if kernel.layout.remote {
        f.when(is_last_lane(f, kernel), || {
            kernel.refresh_after_lines(f);
            payload::acquire_payloads(f, kernel);
        });
    }
    f.choose(
        f.lane().eq(0),
        || {
            run.clear_state(f);
            let mask = early.unwrap_or_else(mask);
            let ready = f.load(limit);
            let wanted = f.select(mask.eq(0), 0, claimable(f, run, (window, owner), ready));
            suspect_head(f, kernel, owner.ring, ready, f.lit(1));
            (Credit::new(f, kernel, owner.tenant).take(f, kernel, wanted), mask)
        },
        || (f.lit(0), f.lit(0)),
    )
}

/// Whether this is the last lane of its group, which issues the fence after the lines of a window.
fn is_last_lane<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) -> Val<'b, bool> {
    f.lane().eq(kernel.layout.lanes - 1)
}

/// Notes that the check of the line at the head has failed, if no task was taken although at least one could have been:
/// the head had the expected generation a moment ago.
fn suspect_head<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    ring: U32<'b>,
    taken: U32<'b>,
    most: U32<'b>,
) {
    let suspect = kernel.shared.suspect.at(ring);
    f.when(taken.eq(0) & most.ne(0), || f.store(suspect, f.max(f.load(suspect), 1)));
}

/// Writes the function that says whether a ring has tasks for this group. If the check of its head has failed before,
/// it must hold now.
fn write_ready(
    m: &mut Builder,
    run: WindowRunner<'_>,
    check: Option<Callee<u32, bool>>,
) -> Callee<u32, bool> {
    let (kernel, slots) = (run.kernel, run.slots);
    m.function(slots.function_name("ready"), |f, ring| {
        let head = f.load(kernel.shared.heads.at(ring));
        let (stripe, there) = polled_stripe(f, slots, ring);
        let at = (slots.first_slot(stripe) + slots.slot_in_stripe(f, head)) * LINE;
        let word = f.atomic_load(Order::Relaxed, Scope::System, slots.words.at(at));
        let fresh = f.cast::<u32>(word).eq(slots.ready_word(f, head));
        let fresh = there.map_or(fresh, |there| there & fresh);
        let believed = |check| {
            let suspect = kernel.shared.suspect.at(ring);
            let before = f.load(suspect);
            let whole = f.choose(before.eq(0), || f.lit(true), || f.call(check, at));
            f.when(before.eq(1) & !whole, || {
                kernel.bump_own(f, f.lit(control::CHECKS), f.lit(1));
                f.store(suspect, 2);
            });
            whole
        };
        let open = || claim::may_run(f, kernel, f.load(kernel.global.rings.at(slots.ring_of_polled(ring))));
        let look = || {
            let ready = || {
                let open = open();
                check.map_or(open, |check| believed(check) & open)
            };
            f.choose(fresh, ready, || f.lit(false))
        };
        match run.has_ended_before(f, (ring, head)) {
            Some(ended) => {
                let ended = there.map_or(ended, |there| there & ended);
                f.choose(ended, open, look)
            }
            None => look(),
        }
    })
}

/// Copies a line if it is the expected one and whole. The words that are copied are those that were checked.
fn copy_line<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    (task, position, at): (U32<'b>, U64<'b>, U32<'b>),
) -> Val<'b, bool> {
    let (kernel, slots) = (run.kernel, run.slots);
    let words = line::read_line(f, slots.words, at);
    let fresh = f.cast::<u32>(words[0]).eq(slots.ready_word(f, position));
    let whole = f.choose(fresh, || line::is_whole(f, &words), || f.lit(false));
    f.when(whole, || {
        for (k, word) in words.iter().enumerate() {
            f.store(kernel.source.words.at(task * LINE + k as u32), *word);
        }
        kernel.acquire_host_writes(f);
    });
    whole
}

/// Writes the function that says whether the line at a word is whole.
fn write_check(m: &mut Builder, slots: &BankSlots) -> Callee<u32, bool> {
    m.function(slots.function_name("check"), |f, at| {
        let head = |k: u32| f.atomic_load(Order::Relaxed, Scope::System, slots.words.at(at + k));
        let rest = |k: u32| f.load(slots.words.at(at + k));
        let words: Vec<U64<'_>> = (0..LINE).map(|k| if k < 2 { head(k) } else { rest(k) }).collect();
        line::is_whole(f, &words)
    })
}
