//! Far rings: one group polls the host for everybody, the others claim windows in device memory.
//!
//! The first group to arrive is the [router](super::route), whichever that is: a group that starts late finds the place taken. It
//! moves each tail that a producer has stored into device memory, and the lane that acquired the tail is the one that releases it: a
//! worker that acquires the tail there sees the slots behind it. It also keeps the host's control words in device memory, so that
//! no worker looks at host memory but for slots.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::claim::{self, Credit, NO_RING};
use super::context::{KernelContext, LINE, STRIDE, U32, U64};
use super::light::LightTasks;
use super::mode::FarRings;
use super::route;
use super::window::{RingOwner, TaskWindow, WindowOwner, WindowRunner};
use crate::protocol::control;

/// One in so many groups is taken to be idle when a window is sized.
const IDLE_SHARE: u32 = 8;

/// Where the router puts a ring's tail.
pub(super) fn tail_word(ring: U32<'_>) -> U32<'_> {
    ring * (2 * STRIDE)
}

/// Where the groups keep what they have claimed of it.
pub(super) fn claim_word(ring: U32<'_>) -> U32<'_> {
    ring * (2 * STRIDE) + STRIDE
}

/// What groups serve far rings with.
#[derive(Clone, Copy)]
pub(super) struct FarServer<'k> {
    run: WindowRunner<'k>,
    far: &'k FarRings,
    /// What the router does.
    route: Callee<(), ()>,
    /// The next ring.
    pick: Callee<(), u32>,
}

impl<'k> FarServer<'k> {
    /// Writes its functions.
    pub fn write(
        m: &mut Builder,
        run: WindowRunner<'k>,
        far: &'k FarRings,
        light: LightTasks,
        caps: &Caps,
    ) -> Self {
        let kernel = run.kernel;
        let route =
            route::write_router(m, run, far, light, route::polling_subgroups(caps, kernel.layout.lanes));
        let ready = write_ready(m, kernel, far);
        let pick = claim::write_choice(m, kernel, run.slots, ready);
        FarServer { run, far, route, pick }
    }

    /// Routes, if the group is the first to arrive; else works.
    pub fn serve<'b>(self, f: &'b FunctionBuilder<'b>) {
        let FarServer { run, far, route, pick } = self;
        let first = f.lane().eq(0);
        let ticket = f.choose(
            first,
            || f.atomic_add(Order::Relaxed, Scope::Device, far.copy.buffers.flags.at(flag::ARRIVED), 1),
            || f.lit(0),
        );
        let ticket = f.group_broadcast(ticket, 0).named("ticket");
        f.choose(ticket.eq(0), || f.call(route, ()), || serve_windows(f, run, far, pick));
    }
}

/// Whether a ring has something that nobody has claimed.
fn write_ready(m: &mut Builder, kernel: &KernelContext<'_>, far: &FarRings) -> Callee<u32, bool> {
    m.function(far.slots.function_name("ready"), |f, ring| {
        let end = f.atomic_load(Order::Relaxed, Scope::Device, far.router.route.at(tail_word(ring)));
        let from = f.atomic_load(Order::Relaxed, Scope::Device, far.router.route.at(claim_word(ring)));
        // The claim may be newer than the tail.
        f.choose(
            end.gt(from),
            || claim::may_run(f, kernel, f.load(kernel.global.rings.at(ring))),
            || f.lit(false),
        )
    })
}

/// A worker: claims windows, fetches their slots, runs them.
fn serve_windows<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    far: &FarRings,
    pick: Callee<(), u32>,
) {
    let kernel = run.kernel;
    f.when(f.lane().eq(0), || claim::prefer_own_producer(f, kernel, run.slots));
    f.forever::<_, ()>(f.lit(0), |serve, idle| {
        let (ring, first, count, halt, mask) = f.choose(
            f.lane().eq(0),
            || {
                // Pairs with the router's release.
                let halt =
                    f.atomic_load(Order::Acquire, Scope::Device, far.copy.buffers.flags.at(flag::HALT));
                run.clear_state(f);
                let (ring, first, count, mask) = f.choose(
                    halt.eq(0),
                    || {
                        let ring = f.call(pick, ());
                        let none = || (ring, f.lit(0u64), f.lit(0), f.lit(0));
                        f.choose(ring.eq(NO_RING), none, || claim_window(f, run, far, ring))
                    },
                    || (f.lit(NO_RING), f.lit(0u64), f.lit(0), f.lit(0)),
                );
                (ring, first, count, halt, mask)
            },
            || (f.lit(NO_RING), f.lit(0u64), f.lit(0), f.lit(0), f.lit(0)),
        );
        let halt = f.group_broadcast(halt, 0);
        f.when(halt.ne(0), || serve.leave(()));
        let ring = f.group_broadcast(ring, 0).named("ring");
        let first = f.group_broadcast(first, 0).named("first");
        let count = f.group_broadcast(count, 0).named("count");
        f.choose(
            count.eq(0),
            || {
                claim::back_off(f, kernel, idle);
                idle + 1
            },
            || {
                let tenant = f.load(kernel.global.rings.at(ring));
                let level = claim::ring_level(f, kernel, ring);
                let base = run.slots.first_slot(ring);
                fetch_slots(f, run, base, first, count);
                let mask = f.group_broadcast(mask, 0);
                let owner = RingOwner { ring, level, tenant, mask };
                run.run_window(f, TaskWindow { base, first, count, owner: WindowOwner::Ring(owner) });
                f.when(f.lane().eq(0), || claim::note_served(f, kernel, run.slots, ring, level));
                f.lit(0)
            },
        )
    });
}

/// Claims a window: its ring, first position and number of tasks, which is 0 if another group was faster.
fn claim_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    far: &FarRings,
    ring: U32<'b>,
) -> (U32<'b>, U64<'b>, U32<'b>, U32<'b>) {
    let kernel = run.kernel;
    let workers = u64::from((run.slots.bank.groups / IDLE_SHARE).max(1));
    let tenant = f.load(kernel.global.rings.at(ring));
    let claims = far.router.route.at(claim_word(ring));
    let from = f.atomic_load(Order::Relaxed, Scope::Device, claims);
    // Pairs with the router's release: what lies between the claim and this tail is seen.
    let end = f.atomic_load(Order::Acquire, Scope::Device, far.router.route.at(tail_word(ring)));
    // After the tail: tasks that were submitted after a change of the mask meet it. One that comes later holds from the next window on.
    let (mask, credit) = (kernel.host_word(f, tenant + control::MASKS), Credit::new(f, kernel, tenant));
    // The claim may be of somebody who has seen a newer tail.
    let left = f.max(f.min(end, claim_limit(f, run, ring, end)), from) - from;
    // A few tasks are spread, many are taken at once.
    let fair = f.max(f.min(left / workers, u64::from(kernel.layout.window)), 1u64);
    let wanted = f.cast::<u32>(f.min(fair, left));
    let wanted = f.select(mask.eq(0), 0, wanted);
    let count = credit.take(f, kernel, wanted);
    let to = from + f.cast::<u64>(count);
    let found = f.choose(
        count.eq(0),
        || from + 1u64,
        || f.atomic_cas(Order::Relaxed, Scope::Device, claims, from, to),
    );
    let won = found.eq(from);
    f.when(!won, || credit.give(f, kernel, count));
    (ring, from, f.select(won, count, 0), mask)
}

/// Up to where windows of a ring may be claimed, for fences to be found: a mark of the last lap that nobody has followed yet must not
/// be written again, and its slot is the host's as soon as the record is there.
fn claim_limit<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    ring: U32<'b>,
    end: U64<'b>,
) -> U64<'b> {
    let Some(frontier) = run.fences.frontier() else { return end };
    let slots = u64::from(run.slots.bank.stripe_slots());
    let seen = run.kernel.shared.heads.at(ring);
    let known = f.load(seen) + slots;
    f.choose(
        end.le(known),
        || known,
        || {
            // Pairs with the release of whoever followed the marks: it has read what is written again now.
            let front = f.atomic_load(Order::Acquire, Scope::Device, frontier.front.at(ring * STRIDE));
            f.store(seen, front);
            front + slots
        },
    )
}

/// Copies the slots of a window: neighbouring lanes take neighbouring pieces of 16 bytes.
pub(super) fn fetch_slots<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    base: U32<'b>,
    first: U64<'b>,
    count: U32<'b>,
) {
    const PIECES: u32 = LINE / 2;
    f.range((f.lane(), count * PIECES, f.lanes()), (), |_, piece, ()| {
        let position = first + f.cast::<u64>(piece / PIECES);
        let from = (base + run.slots.slot_in_stripe(f, position)) * LINE + (piece % PIECES) * 2;
        let pair = f.load_wide::<u64, 2>(Order::Relaxed, Scope::System, run.slots.words.at(from));
        f.store_wide(Order::Relaxed, Scope::Group, run.kernel.source.words.at(piece * 2), pair);
    });
    f.barrier();
}
