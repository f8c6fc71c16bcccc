//! The watch of near rings: the subgroup of a group that looks at the heads of all rings at once.
//!
//! Each lane of the watch has a ring. It reads the whole line at the ring's head, and the first word of a line a few
//! places further on. If a light task waits alone, the lane runs it at once. If more tasks wait, or if the task is not
//! light, the watch tells the group that there are tasks for it.
//!
//! Where subgroups progress independently, the watch continues by itself until it has found tasks for the group. The
//! group waits for the watch meanwhile, so its lanes need not meet after a look that has found nothing.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{LINE, Rights, U32, U64};
use super::light::{FEW_TASKS, FoundLine, LightTasks, TaskPermit, attempt, note_failed_check};
use super::near::{halt_word, look, polled_stripe};
use super::window::WindowRunner;
use super::{claim, line, notice};

/// Writes the function of the watch, which gives one of [`look`]. All lanes of a subgroup call it together.
/// `independent` says whether the watch may continue by itself until it has found tasks for the group.
pub(super) fn write_watch(
    m: &mut Builder,
    run: WindowRunner<'_>,
    light: LightTasks,
    independent: bool,
) -> Callee<(), u32> {
    m.function("watch", |f, ()| {
        f.when(f.sublane().eq(0), || notice::say_back(f, run.kernel, f.group()));
        match independent {
            true => f.forever(f.lit(0), |rounds, idle| {
                let found = look_at_rings(f, run, light);
                f.when(found.ge(look::FOUND), || rounds.leave(found));
                let idle = f.select(found.eq(look::RAN), 0, idle + 1);
                f.when(idle.gt(claim::LOOKS_BEFORE_REST), || claim::back_off(f, run.kernel, idle));
                idle
            }),
            false => look_at_rings(f, run, light),
        }
    })
}

/// Looks at every ring once, and gives one of [`look`].
fn look_at_rings<'b>(f: &'b FunctionBuilder<'b>, run: WindowRunner<'_>, light: LightTasks) -> U32<'b> {
    let kernel = run.kernel;
    let (rings, subgroup) = (run.slots.bank.polled_rings(), kernel.layout.subgroup);
    // Both words are on their way while the lanes look at the rings.
    let halt = halt_word(f, kernel, Order::Relaxed);
    let notice = notice::notice_word(f, kernel, f.group());
    let turns = rings.div_ceil(subgroup);
    let found = f.range((0u32, turns, 1u32), f.lit(look::NOTHING), |_, turn, found| {
        let ring = f.sublane() + turn * subgroup;
        let there = ring.lt(rings);
        let nothing = || f.lit(attempt::NOT_READY);
        let took = match notice {
            // All loads are under way before the lanes meet to find out whether the values may be used.
            Some(notice) => {
                let head = RingHead::read(f, run, f.select(there, ring, 0));
                let may = there & !notice::was_told(f, notice);
                f.choose(may, || head.take(f, run, light), nothing)
            }
            None => f.choose(there, || RingHead::read(f, run, ring).take(f, run, light), nothing),
        };
        let some = f.select(f.any(took.eq(attempt::NEEDS_WINDOW)), look::FOUND, look::NOTHING);
        let ran = f.select(f.any(took.eq(attempt::RAN)), look::RAN, look::NOTHING);
        f.max(found, f.max(some, ran))
    });
    notice::acknowledge_change(f, kernel, f.group(), notice);
    f.select(f.any(halt.ne(0)), look::HALT, found)
}

/// What a lane has read about the head of a ring.
struct RingHead<'b> {
    ring: U32<'b>,
    /// Whether the group has a stripe of this ring, unless it always has.
    there: Option<Val<'b, bool>>,
    /// The position of the ring's next task.
    position: U64<'b>,
    /// The number of that task's slot.
    number: U32<'b>,
    tenant: U32<'b>,
    /// The tenant's mask and quota, where they are read together with the line.
    rights: Option<Rights<'b>>,
    words: [U64<'b>; LINE as usize],
    /// Word 0 of a line a few places further on, and the position of that line.
    later: (U64<'b>, U64<'b>),
}

impl<'b> RingHead<'b> {
    /// Reads the head of a ring. All loads are under way at once.
    fn read(f: &'b FunctionBuilder<'b>, run: WindowRunner<'_>, ring: U32<'b>) -> Self {
        let (kernel, slots) = (run.kernel, run.slots);
        let position = f.load(kernel.shared.heads.at(ring));
        let tenant = f.load(kernel.shared.owners.at(ring));
        let (stripe, there) = polled_stripe(f, slots, ring);
        let base = slots.first_slot(stripe);
        let number = base + slots.slot_in_stripe(f, position);
        let further = position + (FEW_TASKS - 1).min(u64::from(slots.bank.stripe_slots()) - 1);
        let rights = kernel.pollers_are_told().then(|| kernel.rights(f, tenant));
        let at = (base + slots.slot_in_stripe(f, further)) * LINE;
        let later = f.atomic_load(Order::Relaxed, Scope::System, slots.words.at(at));
        let words = line::read_line(f, slots.words, number * LINE);
        RingHead { ring, there, position, number, tenant, rights, words, later: (later, further) }
    }

    /// Runs the task at the head if it waits alone and is light. Gives one of [`attempt`].
    fn take(self, f: &'b FunctionBuilder<'b>, run: WindowRunner<'_>, light: LightTasks) -> U32<'b> {
        let (kernel, slots) = (run.kernel, run.slots);
        let RingHead { ring, there, position, number, tenant, rights, words, later: (later, further) } = self;
        let fresh = f.cast::<u32>(words[0]).eq(slots.ready_word(f, position));
        let may_have_ended = kernel
            .recovery
            .as_ref()
            .map(|recovery| recovery.buffers.may_have_ended(f, slots, (ring, position)));
        // A group passes over a task that has ended before, whatever its slot holds by now.
        let fresh = match run.has_ended_before(f, (ring, position)) {
            Some(ended) => fresh | ended,
            None => fresh,
        };
        let fresh = there.map_or(fresh, |there| there & fresh);
        let alone = f.cast::<u32>(later).ne(slots.ready_word(f, further)) & f.lane().lt(kernel.layout.window);
        let alone = match run.fences.frontier() {
            Some(_) => alone & run.fences.is_quiet(f, ring, position),
            None => alone,
        };
        let taken = || {
            let permit = rights.map_or(TaskPermit::Unread, TaskPermit::Rights);
            let took = f.choose(
                alone,
                || {
                    let level = claim::ring_level(f, kernel, slots, ring);
                    let found = FoundLine { words, position, number, tenant, permit, level, may_have_ended };
                    light.attempt(f, run, found)
                },
                || f.lit(attempt::NEEDS_WINDOW),
            );
            f.when(took.eq(attempt::RAN), || {
                f.store(kernel.shared.heads.at(ring), position + 1u64);
                f.store(kernel.shared.suspect.at(ring), 0);
                run.fences.move_frontier(f, ring, position + 1u64);
            });
            f.when(took.eq(attempt::NOT_READY), || note_failed_check(f, kernel, ring));
            took
        };
        f.choose(fresh, taken, || f.lit(attempt::NOT_READY))
    }
}
