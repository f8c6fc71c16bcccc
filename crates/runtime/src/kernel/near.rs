//! Near rings: every group polls a stripe of its own in each ring, so nobody claims anything.
//!
//! A line is taken when its generation is the one expected and its check holds; nothing is inferred from a neighbour. A line
//! whose check fails is looked at again, and counted if it fails twice: the host may have been writing it. A group of one lane in the
//! host's memory acquires word 0 of a line before it reads the rest, so there the order of memory says that the line is whole, and
//! nothing is checked.
//!
//! Where host memory is far from the device, slots lie at the device, and one group more keeps the host's control words there.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::claim::{self, Credit, NO_RING};
use super::context::{KernelContext, LINE, U32, U64, state};
use super::light::LightTasks;
use super::mode::KeptControl;
use super::slots::BankSlots;
use super::window::{RingOwner, TaskWindow, WindowOwner, WindowRunner};
use super::{line, notice, route, watch};
use crate::protocol::control;

/// The ring of a group that is to stop.
const STOP_RING: u32 = u32::MAX - 1;
/// The ring of a group whose watch had tasks that it ran itself.
const BUSY_RING: u32 = u32::MAX - 2;

/// What a look at the rings has shown.
pub(super) mod look {
    /// Nothing.
    pub const NOTHING: u32 = 0;
    /// Tasks that were run at once.
    pub const RAN: u32 = 1;
    /// Something for the group.
    pub const FOUND: u32 = 2;
    /// The stop.
    pub const HALT: u32 = 3;
}

/// What a group serves its stripes with.
#[derive(Clone, Copy)]
pub(super) struct NearServer<'k> {
    run: WindowRunner<'k>,
    /// Whether the line at a word is whole, where that is not known otherwise.
    check: Option<Callee<u32, bool>>,
    /// The next ring.
    pick: Callee<(), u32>,
    /// Looks at all rings at once, where there are lanes for it: one of [`look`].
    watch: Option<Callee<(), u32>>,
}

impl<'k> NearServer<'k> {
    /// Writes the functions. `light` runs light tasks, if the groups watch their rings.
    pub fn write(m: &mut Builder, run: WindowRunner<'k>, light: Option<LightTasks>, caps: &Caps) -> Self {
        let (kernel, slots) = (run.kernel, run.slots);
        let acquired = kernel.source.live && !kernel.layout.remote;
        let check = (!acquired).then(|| write_check(m, slots));
        let ready = write_ready(m, run, check);
        let pick = claim::write_choice(m, kernel, slots, ready);
        let watch = light.map(|light| watch::write_watch(m, run, light, caps.independent_subgroups));
        NearServer { run, check, pick, watch }
    }

    /// Groups that serve near rings.
    pub fn groups(self) -> u32 {
        self.run.slots.bank.groups
    }

    /// Serves a group's stripes. Where there is a copy of the control words, the last group keeps it for the others instead.
    pub fn serve_or_keep<'b>(self, f: &'b FunctionBuilder<'b>, copy: Option<&KeptControl>) {
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

    /// Serves a group's stripes until the stop.
    pub fn serve<'b>(self, f: &'b FunctionBuilder<'b>) {
        let NearServer { run, check, .. } = self;
        let kernel = run.kernel;
        claim::load_heads(f, kernel, |ring| own_stripe(f, run.slots, ring));
        f.forever::<_, ()>(f.lit(0), |serve, idle| {
            let nothing = || f.lit(look::NOTHING);
            let news = match self.watch {
                Some(watch) => f.choose(f.subgroup().eq(0), || f.call(watch, ()), nothing),
                None => f.select(halt_word(f, kernel, Order::Relaxed).ne(0), look::HALT, look::FOUND),
            };
            let ring = f.choose(f.lane().eq(0), || self.next_ring(f, news), || f.lit(NO_RING));
            let ring = f.group_broadcast(ring, 0).named("ring");
            f.when(ring.eq(STOP_RING), || serve.leave(()));
            f.choose(
                ring.ge(BUSY_RING),
                || {
                    let idle = f.select(ring.eq(BUSY_RING), 0, idle + 1);
                    f.when(idle.ne(0), || claim::back_off(f, kernel, idle));
                    idle
                },
                || {
                    // The lanes have met since the watch wrote it.
                    let head = f.load(kernel.shared.heads.at(ring)).named("head");
                    let count = take_window(f, run, check, ring, head);
                    f.select(count.eq(0), idle + 1, 0)
                },
            )
        });
    }

    /// The next ring, chosen by one lane for its group. The watch may have run the task that is found waiting there.
    fn next_ring<'b>(self, f: &'b FunctionBuilder<'b>, news: U32<'b>) -> U32<'b> {
        let kernel = self.run.kernel;
        // Pairs with the release of the host, or of who keeps its words: what was written before it asked is seen.
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

/// Whether the host has asked for the stop, or who keeps its words has said so.
pub(super) fn halt_word<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, order: Order) -> U32<'b> {
    match kernel.mode.control_copy() {
        Some(copy) => f.atomic_load(order, Scope::Device, copy.buffers.flags.at(flag::HALT)),
        None => f.atomic_load(order, Scope::System, kernel.global.host.at(control::SHUTDOWN)),
    }
}

/// The most tasks that a group takes at once.
fn most_tasks(run: WindowRunner<'_>) -> u32 {
    run.kernel.layout.window.min(run.slots.bank.stripe_slots())
}

/// A group's stripe of a ring.
pub(super) fn own_stripe<'b>(f: &'b FunctionBuilder<'b>, slots: &BankSlots, ring: U32<'b>) -> U32<'b> {
    ring * slots.bank.ring_stripes + f.group()
}

/// Takes what is ready of a stripe and runs it; how many tasks that were.
fn take_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    check: Option<Callee<u32, bool>>,
    ring: U32<'b>,
    first: U64<'b>,
) -> U32<'b> {
    let (kernel, slots) = (run.kernel, run.slots);
    let base = slots.first_slot(own_stripe(f, slots, ring));
    let tenant = f.load(kernel.global.rings.at(ring));
    let none = f.lit(0);
    let level = claim::ring_level(f, kernel, ring);
    let owner = RingOwner { ring, level, tenant, mask: none };
    let window = TaskWindow { base, first, count: none, owner: WindowOwner::Ring(owner) };
    // One lane's reading for all: a change of the mask that comes meanwhile holds from the next window on.
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
        // Before the lanes meet for the last time: the watch is to see it.
        f.when(f.lane().eq(0), || {
            f.store(kernel.shared.heads.at(ring), first + f.cast::<u64>(count));
            f.store(kernel.shared.suspect.at(ring), 0);
            claim::note_served(f, kernel, slots, ring, level);
        });
        match kernel.source.live {
            true => run.finish_window(f, window),
            false => run.run_window(f, window),
        }
    });
    count
}

/// One lane runs what is ready as it goes, where it lies; how many tasks that were, and what their tenant may do.
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
    let most = f.choose(mask.ne(0), || credit.take(f, kernel, f.lit(most_tasks(run))), || f.lit(0));
    let count = f.range((f.lit(0), most, f.lit(1)), f.lit(0), |look, task, count| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + slots.slot_in_stripe(f, position)) * LINE;
        // Pairs with the producer's release: the rest of the line, and what it wrote before, is seen.
        let word = f.atomic_load(Order::Acquire, Scope::System, slots.words.at(at));
        let fresh = f.cast::<u32>(word).eq(slots.ready_word(f, position));
        let whole = check.map_or(fresh, |check| f.choose(fresh, || f.call(check, at), || f.lit(false)));
        f.when(!whole, || look.leave(count));
        // A task that was submitted after a change of these words does not begin under the old ones.
        let same = kernel.host_word(f, owner.tenant + control::MASKS).eq(mask) & credit.holds(f, kernel);
        f.when(!same, || look.leave(count));
        run.run_task(f, window, task);
        task + 1
    });
    credit.give(f, kernel, most - count);
    if check.is_some() {
        suspect_head(f, kernel, owner.ring, count, most);
    }
    (count, mask)
}

/// All lanes copy what is ready; how many tasks of it may be run, and what their tenant may do.
fn copy_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    (window, owner): (TaskWindow<'b>, RingOwner<'b>),
) -> (U32<'b>, U32<'b>) {
    let (kernel, slots) = (run.kernel, run.slots);
    let limit = kernel.shared.state.at(state::LIMIT);
    let mask = || kernel.host_word(f, owner.tenant + control::MASKS);
    // A group that is told of changes may read the mask while the lines are on their way; any other must have the lines first.
    let early = kernel.pollers_are_told().then(mask);
    f.range((f.lane(), f.lit(most_tasks(run)), f.lanes()), (), |look, task, ()| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + slots.slot_in_stripe(f, position)) * LINE;
        f.when(!copy_line(f, run, (task, position, at)), || {
            f.atomic_min(Order::Relaxed, Scope::Group, limit, task);
            look.leave(());
        });
    });
    f.barrier();
    // While lane 0 sees to what may be run.
    if kernel.layout.remote {
        f.when(is_last_lane(f, kernel), || kernel.refresh_after_lines(f));
    }
    f.choose(
        f.lane().eq(0),
        || {
            run.clear_state(f);
            let mask = early.unwrap_or_else(mask);
            let ready = f.load(limit);
            let wanted = f.select(mask.eq(0), 0, ready);
            suspect_head(f, kernel, owner.ring, ready, f.lit(1));
            (Credit::new(f, kernel, owner.tenant).take(f, kernel, wanted), mask)
        },
        || (f.lit(0), f.lit(0)),
    )
}

/// Whether this is the last lane of its group, which makes the fence after the lines of a window.
fn is_last_lane<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) -> Val<'b, bool> {
    f.lane().eq(kernel.layout.lanes - 1)
}

/// Nothing was taken though something might have been: the head was fresh a moment ago, so its check has failed.
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

/// Whether a ring has something for this group. A head that has failed its check must hold it now.
fn write_ready(
    m: &mut Builder,
    run: WindowRunner<'_>,
    check: Option<Callee<u32, bool>>,
) -> Callee<u32, bool> {
    let (kernel, slots) = (run.kernel, run.slots);
    m.function(slots.function_name("ready"), |f, ring| {
        let head = f.load(kernel.shared.heads.at(ring));
        let at = (slots.first_slot(own_stripe(f, slots, ring)) + slots.slot_in_stripe(f, head)) * LINE;
        let word = f.atomic_load(Order::Relaxed, Scope::System, slots.words.at(at));
        let fresh = f.cast::<u32>(word).eq(slots.ready_word(f, head));
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
        f.choose(
            fresh,
            || {
                let open = claim::may_run(f, kernel, f.load(kernel.global.rings.at(ring)));
                check.map_or(open, |check| believed(check) & open)
            },
            || f.lit(false),
        )
    })
}

/// Copies a line as it was checked, if it is the one expected: what is run is what was whole.
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

/// Whether the line at a word is whole.
fn write_check(m: &mut Builder, slots: &BankSlots) -> Callee<u32, bool> {
    m.function(slots.function_name("check"), |f, at| {
        let head = |k: u32| f.atomic_load(Order::Relaxed, Scope::System, slots.words.at(at + k));
        let rest = |k: u32| f.load(slots.words.at(at + k));
        let words: Vec<U64<'_>> = (0..LINE).map(|k| if k < 2 { head(k) } else { rest(k) }).collect();
        line::is_whole(f, &words)
    })
}
