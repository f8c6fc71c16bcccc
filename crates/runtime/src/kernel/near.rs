//! Near rings: every group polls a stripe of its own in each ring, so nobody claims anything.
//!
//! A line is taken when its generation is the one expected and its check holds; nothing is inferred from a neighbour. A line
//! whose check fails is looked at again, and counted if it fails twice: the host may have been writing it.
//!
//! Where host memory is far from the device, slots lie at the device, and one group more keeps the host's control words there.

use pelton_ir::builder::{Body, Builder, Callee, Val};
use pelton_ir::types::{Order, Scope};

use super::claim::{self, Credit, NONE};
use super::kit::{Kit, LINE, U32, U64, flag, state};
use super::window::{Runner, Window};
use super::{line, route, watch};
use crate::protocol::control;

/// The ring of a group that is to stop.
const STOP: u32 = u32::MAX - 1;
/// The ring of a group whose watch had tasks that it ran itself.
const BUSY: u32 = u32::MAX - 2;

/// What a group serves its stripes with.
#[derive(Clone, Copy)]
struct Near<'k> {
    run: Runner<'k>,
    /// Whether the line at a word is whole.
    check: Callee<u32, bool>,
    /// The next ring.
    pick: Callee<(), u32>,
    /// Looks at all rings at once, where there are lanes for it.
    watch: Option<Callee<(), (bool, bool)>>,
}

/// Writes the kernel.
pub(super) fn write(m: &mut Builder, run: Runner<'_>) {
    let kit = run.kit;
    let check = check(m, kit);
    let ready = ready(m, kit, check);
    let pick = claim::write(m, kit, ready);
    let watch = kit.watches().then(|| watch::write(m, run));
    let near = Near { run, check, pick, watch };
    m.kernel("main", |f| match &kit.mirror {
        // The last group keeps the control words for the others.
        Some(mirror) => f.choose(
            f.group().eq(kit.layout.stripes),
            || f.when(f.subgroup().eq(0), || route::clerk(f, kit, mirror)),
            || serve(f, near),
        ),
        None => serve(f, near),
    });
}

/// Serves a group's stripes until the stop.
fn serve<'b>(f: &'b Body<'b>, near: Near<'_>) {
    let Near { run, check, pick, watch } = near;
    let kit = run.kit;
    let rings = kit.layout.rings.len() as u32;
    f.count((f.lane(), f.lit(rings), f.lanes()), (), |_, ring, ()| {
        f.store(kit.shared.heads.at(ring), f.load(kit.start.at(stripe(f, kit, ring))));
        f.store(kit.shared.owners.at(ring), f.load(kit.rings.at(ring)));
    });
    f.barrier();
    f.forever::<_, ()>(f.lit(0), |serve, idle| {
        // On its way while the rings are looked at.
        let halt = halted(f, kit, Order::Relaxed);
        let seen = match watch {
            Some(watch) => {
                f.choose(f.subgroup().eq(0), || f.call(watch, ()), || (f.lit(false), f.lit(false)))
            }
            None => (f.lit(true), f.lit(false)),
        };
        let nothing = || (f.lit(NONE), f.lit(0u64));
        let (ring, head) = f.choose(f.lane().eq(0), || turn(f, run, pick, (halt, seen)), nothing);
        let ring = f.group_broadcast(ring, 0).named("ring");
        let head = f.group_broadcast(head, 0).named("head");
        f.when(ring.eq(STOP), || serve.leave(()));
        f.choose(
            ring.ge(BUSY),
            || {
                let idle = f.select(ring.eq(BUSY), 0, idle + 1);
                f.when(idle.ne(0), || claim::rest(f, kit, idle));
                idle
            },
            || {
                let count = take(f, run, check, ring, head);
                f.select(count.eq(0), idle + 1, 0)
            },
        )
    });
}

/// Whether the host has asked for the stop, or who keeps its words has said so.
fn halted<'b>(f: &'b Body<'b>, kit: &Kit<'_>, order: Order) -> U32<'b> {
    match &kit.mirror {
        Some(mirror) => f.atomic_load(order, Scope::Device, mirror.flags.at(flag::HALT)),
        None => f.atomic_load(order, Scope::System, kit.host.at(control::SHUTDOWN)),
    }
}

/// A group's stripe of a ring.
pub(super) fn stripe<'b>(f: &'b Body<'b>, kit: &Kit<'_>, ring: U32<'b>) -> U32<'b> {
    ring * kit.layout.stripes + f.group()
}

/// The next ring and the position of its next task, chosen by one lane for its group: if there is something for it,
/// or if its watch ran something.
fn turn<'b>(
    f: &'b Body<'b>,
    run: Runner<'_>,
    pick: Callee<(), u32>,
    (halt, (some, ran)): (U32<'b>, (Val<'b, bool>, Val<'b, bool>)),
) -> (U32<'b>, U64<'b>) {
    let kit = run.kit;
    // Pairs with the release of the host, or of who keeps its words: what was written before it asked is seen.
    let halt = f.choose(halt.ne(0), || halted(f, kit, Order::Acquire), || f.lit(0));
    f.choose(
        halt.ne(0),
        || (f.lit(STOP), f.lit(0u64)),
        || {
            let ring = f.choose(some, || f.call(pick, ()), || f.select(ran, BUSY, NONE));
            f.store(kit.shared.state.at(state::LIMIT), kit.layout.window);
            (ring, f.load(kit.shared.heads.at(ring)))
        },
    )
}

/// Takes what is ready of a stripe and runs it; how many tasks that were.
fn take<'b>(
    f: &'b Body<'b>,
    run: Runner<'_>,
    check: Callee<u32, bool>,
    ring: U32<'b>,
    first: U64<'b>,
) -> U32<'b> {
    let kit = run.kit;
    let base = kit.base(stripe(f, kit, ring));
    let tenant = f.load(kit.rings.at(ring));
    // One lane's reading for all: a tenant that is disabled meanwhile is disabled for the whole window.
    let mask = f.group_broadcast(kit.host_word(f, tenant + control::MASKS), 0);
    let none = f.lit(0);
    let window = Window { ring, level: claim::level(f, kit, ring), base, first, count: none, tenant, mask };
    let count = match kit.source.live {
        true => in_place(f, run, check, window),
        false => copied(f, run, window),
    };
    let count = f.group_broadcast(count, 0).named("count");
    f.when(count.ne(0), || {
        let window = Window { count, ..window };
        match kit.source.live {
            true => run.finish(f, window),
            false => run.run(f, window),
        }
        f.when(f.lane().eq(0), || {
            f.store(kit.shared.heads.at(ring), first + f.cast::<u64>(count));
            f.store(kit.shared.suspect.at(ring), 0);
            claim::served(f, kit, ring, window.level);
        });
    });
    count
}

/// One lane runs what is ready as it goes, where it lies; how many tasks that were.
fn in_place<'b>(f: &'b Body<'b>, run: Runner<'_>, check: Callee<u32, bool>, window: Window<'b>) -> U32<'b> {
    let kit = run.kit;
    run.clear(f);
    let credit = Credit::new(f, kit, window.tenant);
    let most = f.choose(window.mask.ne(0), || credit.take(f, kit, f.lit(kit.layout.window)), || f.lit(0));
    let count = f.count((f.lit(0), most, f.lit(1)), f.lit(0), |look, task, count| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + kit.slot(f, position)) * LINE;
        // Pairs with the producer's release: the rest of the line, and what it wrote before, is seen.
        let word = f.atomic_load(Order::Acquire, Scope::System, kit.slots.at(at));
        let fresh = f.cast::<u32>(word).eq(kit.ready(f, position));
        let whole = f.choose(fresh, || f.call(check, at), || f.lit(false));
        f.when(!whole, || look.leave(count));
        run.one(f, window, task);
        task + 1
    });
    credit.give(f, kit, most - count);
    doubt(f, kit, window.ring, count, most);
    count
}

/// All lanes copy what is ready; how many tasks of it may be run.
fn copied<'b>(f: &'b Body<'b>, run: Runner<'_>, window: Window<'b>) -> U32<'b> {
    let kit = run.kit;
    let limit = kit.shared.state.at(state::LIMIT);
    f.count((f.lane(), f.lit(kit.layout.window), f.lanes()), (), |look, task, ()| {
        let position = window.first + f.cast::<u64>(task);
        let at = (window.base + kit.slot(f, position)) * LINE;
        f.when(!copy(f, kit, (task, position, at)), || {
            f.atomic_min(Order::Relaxed, Scope::Group, limit, task);
            look.leave(());
        });
    });
    f.barrier();
    f.choose(
        f.lane().eq(0) & window.mask.ne(0),
        || {
            run.clear(f);
            let ready = f.load(limit);
            doubt(f, kit, window.ring, ready, f.lit(1));
            Credit::new(f, kit, window.tenant).take(f, kit, ready)
        },
        || f.lit(0),
    )
}

/// Nothing was taken though something might have been: the head was fresh a moment ago, so its check has failed.
fn doubt<'b>(f: &'b Body<'b>, kit: &Kit<'_>, ring: U32<'b>, taken: U32<'b>, most: U32<'b>) {
    let suspect = kit.shared.suspect.at(ring);
    f.when(taken.eq(0) & most.ne(0), || f.store(suspect, f.max(f.load(suspect), 1)));
}

/// Whether a ring has something for this group. A head that has failed its check must hold it now.
fn ready(m: &mut Builder, kit: &Kit<'_>, check: Callee<u32, bool>) -> Callee<u32, bool> {
    m.function("ready", |f, ring| {
        let head = f.load(kit.shared.heads.at(ring));
        let at = (kit.base(stripe(f, kit, ring)) + kit.slot(f, head)) * LINE;
        let word = f.atomic_load(Order::Relaxed, Scope::System, kit.slots.at(at));
        let fresh = f.cast::<u32>(word).eq(kit.ready(f, head));
        f.choose(
            fresh,
            || {
                let suspect = kit.shared.suspect.at(ring);
                let before = f.load(suspect);
                let whole = f.choose(before.eq(0), || f.lit(true), || f.call(check, at));
                f.when(before.eq(1) & !whole, || {
                    kit.count(f, f.lit(control::CHECKS), f.lit(1));
                    f.store(suspect, 2);
                });
                whole & claim::open(f, kit, f.load(kit.rings.at(ring)))
            },
            || f.lit(false),
        )
    })
}

/// Copies a line as it was checked, if it is the one expected: what is run is what was whole.
fn copy<'b>(
    f: &'b Body<'b>,
    kit: &Kit<'_>,
    (task, position, at): (U32<'b>, U64<'b>, U32<'b>),
) -> Val<'b, bool> {
    let words = line::read(f, kit.slots, at);
    let fresh = f.cast::<u32>(words[0]).eq(kit.ready(f, position));
    let whole = f.choose(fresh, || line::whole(f, &words), || f.lit(false));
    f.when(whole, || {
        for (k, word) in words.iter().enumerate() {
            f.store(kit.source.words.at(task * LINE + k as u32), *word);
        }
        kit.follow(f);
    });
    whole
}

/// Whether the line at a word is whole.
fn check(m: &mut Builder, kit: &Kit<'_>) -> Callee<u32, bool> {
    m.function("check", |f, at| {
        let head = |k: u32| f.atomic_load(Order::Relaxed, Scope::System, kit.slots.at(at + k));
        let rest = |k: u32| f.load(kit.slots.at(at + k));
        let words: Vec<U64<'_>> = (0..LINE).map(|k| if k < 2 { head(k) } else { rest(k) }).collect();
        line::whole(f, &words)
    })
}
