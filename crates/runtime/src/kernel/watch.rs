//! The watch of a near ring: a subgroup looks at the heads of all rings at once.
//!
//! A lane has a ring. It reads the line at its head whole, and the first word of one some places on. A light task that waits alone is
//! run right here; where more wait, or the task is not light, the group is told that there is something to do.
//!
//! Where subgroups progress independently, the watch goes on by itself until it has something for the group, which waits for
//! it meanwhile: nobody meets for a look that finds nothing.

use pelton_ir::builder::{Body, Builder, Callee};
use pelton_ir::types::{Order, Scope};

use super::kit::{LINE, U32};
use super::light::{FEW, Found, Light, doubt, took};
use super::near::{halted, news, stripe};
use super::window::Runner;
use super::{claim, line};
use crate::protocol::control;

/// Writes the watch, which gives one of [`news`]. A subgroup calls it together. `independent` says whether it may go on by itself.
pub(super) fn write(m: &mut Builder, run: Runner<'_>, light: Light, independent: bool) -> Callee<(), u32> {
    m.function("watch", |f, ()| match independent {
        true => f.forever(f.lit(0), |rounds, idle| {
            let found = round(f, run, light);
            f.when(found.ge(news::SOME), || rounds.leave(found));
            let idle = f.select(found.eq(news::RAN), 0, idle + 1);
            f.when(idle.gt(claim::KEEN), || claim::rest(f, run.kit, idle));
            idle
        }),
        false => round(f, run, light),
    })
}

/// Looks at every ring once: one of [`news`].
fn round<'b>(f: &'b Body<'b>, run: Runner<'_>, light: Light) -> U32<'b> {
    let (rings, subgroup) = (run.kit.layout.rings.len() as u32, run.kit.layout.subgroup);
    // On its way while the rings are looked at.
    let halt = halted(f, run.kit, Order::Relaxed);
    let turns = rings.div_ceil(subgroup);
    let found = f.count((0u32, turns, 1u32), f.lit(news::NONE), |_, turn, found| {
        let ring = f.sublane() + turn * subgroup;
        let took = f.choose(ring.lt(rings), || look(f, run, light, ring), || f.lit(took::NOTHING));
        let some = f.select(f.any(took.eq(took::HEAVY)), news::SOME, news::NONE);
        let ran = f.select(f.any(took.eq(took::IT)), news::RAN, news::NONE);
        f.max(found, f.max(some, ran))
    });
    f.select(f.any(halt.ne(0)), news::HALT, found)
}

/// Looks at a ring: one of [`took`].
fn look<'b>(f: &'b Body<'b>, run: Runner<'_>, light: Light, ring: U32<'b>) -> U32<'b> {
    let (kit, slots) = (run.kit, run.slots);
    let head = f.load(kit.shared.heads.at(ring));
    let tenant = f.load(kit.shared.owners.at(ring));
    let base = slots.base(stripe(f, slots, ring));
    let number = base + slots.slot(f, head);
    let further = head + (FEW - 1).min(u64::from(slots.bed.slots()) - 1);
    // All on its way at once.
    let mask = kit.host_word(f, tenant + control::MASKS);
    let quota = kit.host_word(f, tenant + control::QUOTAS);
    let later =
        f.atomic_load(Order::Relaxed, Scope::System, slots.words.at((base + slots.slot(f, further)) * LINE));
    let words = line::read(f, slots.words, number * LINE);
    let fresh = f.cast::<u32>(words[0]).eq(slots.ready(f, head));
    let alone = f.cast::<u32>(later).ne(slots.ready(f, further)) & f.lane().lt(kit.layout.window);
    let taken = || {
        let took = f.choose(
            alone & mask.ne(0) & quota.eq(0),
            || {
                let level = claim::level(f, kit, ring);
                light.attempt(f, run, Found { words, position: head, number, tenant, mask, level })
            },
            || f.lit(took::HEAVY),
        );
        f.when(took.eq(took::IT), || {
            f.store(kit.shared.heads.at(ring), head + 1u64);
            f.store(kit.shared.suspect.at(ring), 0);
        });
        f.when(took.eq(took::NOTHING), || doubt(f, kit, ring));
        took
    };
    f.choose(fresh, taken, || f.lit(took::NOTHING))
}
