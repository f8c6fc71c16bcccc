//! Far rings. One group, the router, polls host memory for all others, which claim windows in device memory.
//!
//! The first group to arrive becomes the [router](super::route), whichever group that is. Each time a producer has
//! moved the tail of its ring, the router copies the tail into device memory. The lane that has acquired the tail also
//! releases it there, so a worker that acquires the copy sees the slots below the tail. The router also keeps a copy of
//! the host's control words in device memory, so workers read nothing but slots from host memory.

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::buffers::flag;
use super::claim::{self, Credit, NO_RING};
use super::context::{KernelContext, LINE, STRIDE, U32, U64};
use super::home::CellServer;
use super::light::LightTasks;
use super::mode::FarRings;
use super::route;
use super::window::{RingOwner, TaskWindow, WindowOwner, WindowRunner};
use crate::protocol::control;

/// When a worker decides how many tasks to take, it assumes that one in this many groups is idle and could take a
/// share.
const IDLE_SHARE: u32 = 8;

/// The word to which the router copies the tail of a ring.
pub(super) fn tail_word(ring: U32<'_>) -> U32<'_> {
    ring * (2 * STRIDE)
}

/// The word that holds the position up to which groups have claimed tasks of a ring.
pub(super) fn claim_word(ring: U32<'_>) -> U32<'_> {
    ring * (2 * STRIDE) + STRIDE
}

/// The functions with which groups serve far rings.
#[derive(Clone, Copy)]
pub(super) struct FarServer<'k> {
    run: WindowRunner<'k>,
    far: &'k FarRings,
    cells: CellServer<'k>,
    /// Does the work of the router until the stop.
    route: Callee<(), ()>,
    /// Chooses the ring that is served next.
    pick: Callee<(), u32>,
}

impl<'k> FarServer<'k> {
    /// Writes the functions.
    pub(super) fn write(
        m: &mut Builder,
        run: WindowRunner<'k>,
        far: &'k FarRings,
        cells: CellServer<'k>,
        light: LightTasks,
        caps: &Caps,
    ) -> Self {
        let kernel = run.kernel;
        let route =
            route::write_router(m, run, far, light, route::polling_subgroups(caps, kernel.layout.lanes));
        let ready = write_ready(m, kernel, far);
        let pick = claim::write_choice(m, kernel, run.slots, ready);
        FarServer { run, far, cells, route, pick }
    }

    /// Does the work of the router if the group is the first to arrive, and of a worker otherwise.
    pub(super) fn serve<'b>(self, f: &'b FunctionBuilder<'b>) {
        let FarServer { run, far, cells, route, pick } = self;
        let first = f.lane().eq(0);
        let ticket = f.choose(
            first,
            || f.atomic_add(Order::Relaxed, Scope::Device, far.copy.buffers.flags.at(flag::ARRIVED), 1),
            || f.lit(0),
        );
        let ticket = f.group_broadcast(ticket, 0).named("ticket");
        f.choose(ticket.eq(0), || f.call(route, ()), || serve_windows(f, run, far, (cells, pick)));
    }
}

/// Writes the function that says whether a ring has tasks that no group has claimed and that may run.
fn write_ready(m: &mut Builder, kernel: &KernelContext<'_>, far: &FarRings) -> Callee<u32, bool> {
    m.function(far.slots.function_name("ready"), |f, ring| {
        let end = f.atomic_load(Order::Relaxed, Scope::Device, far.router.route.at(tail_word(ring)));
        let from = f.atomic_load(Order::Relaxed, Scope::Device, far.router.route.at(claim_word(ring)));
        // The claim is read after the tail, so it may be beyond the tail.
        f.choose(
            end.gt(from),
            || claim::may_run(f, kernel, f.load(kernel.global.rings.at(ring))),
            || f.lit(false),
        )
    })
}

/// Does the work of a worker until the stop: it claims windows, copies their slots, and runs them.
fn serve_windows<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    far: &FarRings,
    (cells, pick): (CellServer<'_>, Callee<(), u32>),
) {
    let kernel = run.kernel;
    f.when(f.lane().eq(0), || claim::prefer_own_producer(f, kernel, run.slots));
    f.forever::<_, ()>(f.lit(0), |serve, idle| {
        let (ring, first, count, halt, mask) = f.choose(
            f.lane().eq(0),
            || {
                // Pairs with the router's release: what the host wrote before it asked for the stop is seen.
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
        let idle = f.choose(
            count.eq(0),
            || {
                claim::back_off(f, kernel, idle);
                idle + 1
            },
            || {
                let tenant = f.load(kernel.global.rings.at(ring));
                let level = claim::ring_level(f, kernel, run.slots, ring);
                let base = run.slots.first_slot(ring);
                fetch_slots(f, run, base, first, count);
                let mask = f.group_broadcast(mask, 0);
                let owner = RingOwner { ring, level, tenant, mask };
                run.run_window(f, TaskWindow { base, first, count, owner: WindowOwner::Ring(owner) });
                f.when(f.lane().eq(0), || {
                    claim::note_served(f, kernel, run.slots, (ring, level, tenant), count);
                });
                f.lit(0)
            },
        );
        if kernel.cells().is_none() {
            return idle;
        }
        f.select(cells.take_turn(f), 0, idle)
    });
    cells.leave_home(f);
}

/// Claims a window. Gives its ring, its first position, the number of tasks and the tenant's mask. The number is 0 if
/// another group was faster.
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
    // Pairs with the router's release: the slots between the claim and this tail are seen.
    let end = f.atomic_load(Order::Acquire, Scope::Device, far.router.route.at(tail_word(ring)));
    // The mask is read after the tail, so tasks that were submitted after a change of the mask are run under the new
    // one. A change that comes later holds from the next window on.
    let (mask, credit) = (kernel.host_word(f, tenant + control::MASKS), Credit::new(f, kernel, tenant));
    // Another group may have seen a newer tail and claimed beyond this one.
    let left = f.max(f.min(end, run.fences.claim_limit(f, kernel, ring, end)), from) - from;
    // A few tasks are spread over several groups, and many tasks are taken at once.
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

/// Copies the slots of a window into the memory of the group. Neighbouring lanes copy neighbouring pieces of 16 bytes.
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
