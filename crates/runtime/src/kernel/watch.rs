//! The watch of a near ring: a subgroup looks at the heads of all rings at once.
//!
//! A lane has a ring. It reads the line at its head whole, and the first word of one some places on. A light task that waits alone is
//! run right here; where more wait, or the task is not light, the group is told that there is something to do.

use pelton_ir::builder::{Body, Builder, Callee};
use pelton_ir::types::{Order, Scope};

use super::kit::{Kit, LINE, U32};
use super::light::{FEW, Found, Light, doubt, took};
use super::near::stripe;
use super::window::Runner;
use super::{claim, line};
use crate::protocol::control;

/// Writes the watch: whether there is something for the group, and whether something was run. A subgroup calls it together.
pub(super) fn write(m: &mut Builder, run: Runner<'_>) -> Callee<(), (bool, bool)> {
    let kit = run.kit;
    let light = Light::write(m, kit, &run.table.entries);
    let rings = kit.layout.rings.len() as u32;
    m.function("watch", |f, ()| {
        let turns = rings.div_ceil(kit.layout.subgroup);
        f.count((0u32, turns, 1u32), (f.lit(false), f.lit(false)), |_, turn, (some, ran)| {
            let ring = f.sublane() + turn * kit.layout.subgroup;
            let took = f.choose(ring.lt(rings), || look(f, kit, light, ring), || f.lit(took::NOTHING));
            (some | f.any(took.eq(took::HEAVY)), ran | f.any(took.eq(took::IT)))
        })
    })
}

/// Looks at a ring: one of [`took`].
fn look<'b>(f: &'b Body<'b>, kit: &Kit<'_>, light: Light, ring: U32<'b>) -> U32<'b> {
    let head = f.load(kit.shared.heads.at(ring));
    let tenant = f.load(kit.shared.owners.at(ring));
    let base = kit.base(stripe(f, kit, ring));
    let number = base + kit.slot(f, head);
    let further = head + (FEW - 1).min(u64::from(kit.layout.slots()) - 1);
    // All on its way at once.
    let mask = kit.host_word(f, tenant + control::MASKS);
    let quota = kit.host_word(f, tenant + control::QUOTAS);
    let later =
        f.atomic_load(Order::Relaxed, Scope::System, kit.slots.at((base + kit.slot(f, further)) * LINE));
    let words = line::read(f, kit.slots, number * LINE);
    let fresh = f.cast::<u32>(words[0]).eq(kit.ready(f, head));
    let alone = f.cast::<u32>(later).ne(kit.ready(f, further)) & f.lane().lt(kit.layout.window);
    let run = || {
        let took = f.choose(
            alone & mask.ne(0) & quota.eq(0),
            || {
                let level = claim::level(f, kit, ring);
                light.attempt(f, kit, Found { words, position: head, number, tenant, mask, level })
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
    f.choose(fresh, run, || f.lit(took::NOTHING))
}
