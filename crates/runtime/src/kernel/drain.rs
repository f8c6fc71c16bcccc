//! Drained batches: one pass over slots that the host has filled.
//!
//! Groups claim windows from a count until there are none. Positions go on from pass to pass, as in a live ring: the records of
//! a pass carry its generation, and the marks of the last one lie behind. Slots carry none.
//!
//! Every slot says whose it is; what is not published, what belongs to a tenant that is disabled and what is beyond a tenant's
//! credit is left as it is. SHUTDOWN ends the pass: windows that nobody has claimed by then are left.

use pelton_ir::builder::{Body, Builder};
use pelton_ir::types::{Order, Scope};

use super::claim::Credit;
use super::far::fetch;
use super::kit::{Frontier, Kit, U32, U64};
use super::tenant::Tenant;
use super::window::{Runner, Window};
use crate::protocol::{Code, Opcode, Status, control, slot};

/// The words of [`Frontier::front`] that only drained batches have.
pub(crate) mod word {
    /// The first position that nobody has claimed.
    pub const NEXT: u32 = 2;
    /// Whether the pass has ended.
    pub const ENDED: u32 = 3;
    /// The position after the last.
    pub const END: u32 = 4;
}

/// What the first words of [`Frontier::front`] are when a pass over these positions begins.
pub(crate) fn front(positions: std::ops::Range<u64>) -> [u64; 5] {
    let mut words = [0; 5];
    words[0] = positions.start;
    words[word::NEXT as usize] = positions.start;
    words[word::END as usize] = positions.end;
    words
}

/// Writes the kernel.
pub(super) fn write(m: &mut Builder, run: Runner<'_>, frontier: &Frontier) {
    let kit = run.kit;
    let window = kit.layout.window;
    m.kernel("main", |f| {
        kit.arm(f);
        let all = f.group_broadcast(f.load(frontier.front.at(word::END)), 0).named("all");
        f.forever::<(), ()>((), |claims, ()| {
            let first = f.choose(
                f.lane().eq(0),
                || {
                    run.clear(f);
                    let ended = f.atomic_load(Order::Relaxed, Scope::Device, frontier.front.at(word::ENDED));
                    let next = frontier.front.at(word::NEXT);
                    f.choose(
                        ended.eq(0),
                        || f.atomic_add(Order::Relaxed, Scope::Device, next, u64::from(window)),
                        || f.lit(u64::MAX),
                    )
                },
                || f.lit(0u64),
            );
            let from = f.group_broadcast(first, 0).named("first");
            f.when(from.ge(all), || claims.leave(()));
            let count = f.cast::<u32>(f.min(all - from, u64::from(window))).named("count");
            let base = f.lit(0);
            if kit.source.words.handle() != run.slots.words.handle() {
                fetch(f, run, base, from, count);
            }
            let nobody = f.lit(0);
            let window = Window {
                ring: nobody,
                level: nobody,
                base,
                first: from,
                count,
                tenant: nobody,
                mask: nobody,
            };
            run.run(f, window);
        });
    });
}

/// Decides whether a slot is to be run, and by `call` with its tenant and mask if so.
pub(super) fn guard<'b>(
    f: &'b Body<'b>,
    kit: &Kit<'_>,
    (word, at): (U64<'b>, U32<'b>),
    call: impl FnOnce(U32<'b>, U32<'b>) -> (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    let owner = kit.source.head(f, at + slot::TENANT / 2);
    let tenant = f.cast::<u32>(owner);
    let left = || (f.lit(Status::Published.code()), f.lit(0));
    let wrong = || (f.lit(Status::Fault.code()), f.lit(Code::MALFORMED.code()));
    let published = f.cast::<u32>(word).eq(Status::Published.code());
    f.choose(
        published,
        || {
            f.choose(
                tenant.lt(Tenant::MOST),
                || {
                    let mask = kit.host_word(f, tenant + control::MASKS);
                    let may = f.choose(
                        mask.ne(0),
                        || Credit::new(f, kit, tenant).take(f, kit, f.lit(1)),
                        || f.lit(0),
                    );
                    f.choose(
                        may.ne(0),
                        || admitted(f, kit, (word, owner), tenant, || call(tenant, mask)),
                        left,
                    )
                },
                wrong,
            )
        },
        left,
    )
}

/// Counts a slot that is run, and runs it unless it ends the pass.
fn admitted<'b>(
    f: &'b Body<'b>,
    kit: &Kit<'_>,
    (word, owner): (U64<'b>, U64<'b>),
    tenant: U32<'b>,
    call: impl FnOnce() -> (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    if kit.counts() {
        let row = f.group() * kit.layout.row();
        let priority = f.min(f.cast::<u32>(owner >> 32), 4);
        for counter in [f.lit(control::DONE_COUNT), tenant + control::CLAIMS, priority + control::LEVELS] {
            f.atomic_add(Order::Relaxed, Scope::Group, kit.rows.at(row + counter), 1u64);
        }
    }
    let (Some(frontier), ends) = (&kit.frontier, f.cast::<u32>(word >> 32).eq(Opcode::SHUTDOWN.code()))
    else {
        return call();
    };
    f.choose(
        ends,
        || {
            f.atomic_store(Order::Relaxed, Scope::Device, frontier.front.at(word::ENDED), 1u64);
            (f.lit(Status::Done.code()), f.lit(0))
        },
        call,
    )
}
