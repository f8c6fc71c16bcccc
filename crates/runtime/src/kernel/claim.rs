//! How a group chooses the ring that it serves next, how tenants are charged for their tasks, and how idle groups rest
//! and are woken.
//!
//! A group looks through the levels from the most urgent down, and through the producers of a level in turn. But in one
//! of `every` windows, the level that has waited longest comes first. So each group serves a level that has tasks at
//! least once in `every × levels` windows, and each producer of that level once in `producers` such turns. Where there
//! are many more groups than producers, each group always starts its search at one producer, and each producer has
//! several groups that look at it first.
//!
//! If the `Spec` states weights, then [tenants share](super::ring_shares) each level, and the producers of a tenant come
//! in turn. The time of a tenant advances with every task that the group takes from its rings of that level. So a tenant
//! of weight `w` of which the group has taken `n` tasks at once is served again before the group has taken more than
//! `n × v / w` tasks of that level, and a window, from any tenant of weight `v`. Light tasks that wait alone are not
//! counted, because whoever polls runs them without a window.
//!
//! Where the host can wake groups, an idle group sleeps for up to a second. So whoever stores something that a group may
//! be waiting for has to wake it afterwards: the host when it has published tasks or asks, or when a change of control
//! words holds; the router when it has passed on a tail or the stop; and a group when it has put a cell into a queue, or
//! has moved the frontier of a stripe that another group may serve.

use std::time::Duration;

use pelton_device::Caps;
use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::context::{KernelContext, U32, U64, state};
use super::placement::Placement;
use super::slots::BankSlots;
use super::spec::Claim;
use crate::protocol::control;

/// The number that stands for no ring.
pub(super) const NO_RING: u32 = u32::MAX;

/// The longest time that a group rests before it looks for tasks again, on devices that the host cannot wake.
pub(super) const REST_NS: u32 = 2000;

/// The longest time that an idle kernel rests before it looks for tasks again, or `None` on devices that the host
/// wakes. A task may have to wait for one such rest in a near ring, and for two in a far ring: first for the router's
/// rest, then for a group's.
pub const fn longest_rest(caps: &Caps) -> Option<Duration> {
    rest_unless(caps.wakes)
}

/// The longest rest of an idle kernel, unless the host wakes it.
pub(super) const fn rest_unless(woken: bool) -> Option<Duration> {
    if woken { None } else { Some(Duration::from_nanos(REST_NS as u64)) }
}

/// Writes the function that chooses the ring to serve next. It gives [`NO_RING`] if there is none. `ready` is the
/// function that says whether a ring has tasks for this group.
pub(super) fn write_choice(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    ready: Callee<u32, bool>,
) -> Callee<(), u32> {
    let levels = kernel.layout.levels;
    let look = match kernel.ring_shares() {
        Some(shares) => shares.write_look(m, slots, ready),
        None => write_look_in_turn(m, kernel, slots, ready),
    };
    m.function(slots.function_name("pick"), |f, ()| {
        let Claim::Priority { every } = kernel.spec.claim else {
            return f.call(look, f.lit(0));
        };
        let turn = f.load(kernel.shared.state.at(state::TURN));
        let guard = (turn % every).eq(every - 1);
        let (best, _) =
            f.range((0u32, levels, 1u32), (f.lit(NO_RING), f.lit(0)), |all, level, (best, age)| {
                let found = f.call(look, level);
                let some = found.ne(NO_RING);
                f.when(some & !guard, || all.leave((found, age)));
                let waited = turn - f.load(kernel.shared.served.at(level));
                let better = some & (best.eq(NO_RING) | waited.gt(age));
                (f.select(better, found, best), f.select(better, waited, age))
            });
        if kernel.counts_tasks() {
            f.when(guard & best.ne(NO_RING), || kernel.bump_own(f, f.lit(control::STARVATION), f.lit(1)));
        }
        best
    })
}

/// Writes the function that chooses a ring of a level that has tasks for this group: that of the next producer in turn.
/// It gives [`NO_RING`] if there is none.
fn write_look_in_turn(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    ready: Callee<u32, bool>,
) -> Callee<u32, u32> {
    let producers = slots.polled_level_rings(kernel);
    m.function(slots.function_name("look"), |f, level| {
        let first = f.load(kernel.shared.cursor.at(level));
        f.range((0u32, producers, 1u32), f.lit(NO_RING), |rings, k, none| {
            let at = first + k;
            let ring = level * producers + f.select(at.ge(producers), at - producers, at);
            f.when(f.call(ready, ring), || rings.leave(ring));
            none
        })
    })
}

/// Whether each group always starts its search at one producer, because there are several groups per producer.
pub(super) fn has_own_producer(kernel: &KernelContext<'_>, slots: &BankSlots) -> bool {
    slots.bank.placement == Placement::Far && slots.bank.groups > 2 * kernel.layout.producers
}

/// Notes that a group has taken `count` tasks from a ring, so that other rings come first next time.
pub(super) fn note_served<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    (ring, level, tenant): (U32<'b>, U32<'b>, U32<'b>),
    count: U32<'b>,
) {
    let producers = slots.polled_level_rings(kernel);
    let turn = f.load(kernel.shared.state.at(state::TURN));
    f.store(kernel.shared.served.at(level), turn);
    f.store(kernel.shared.state.at(state::TURN), turn + 1);
    if let Some(shares) = kernel.ring_shares() {
        shares.charge(f, slots, (ring, level, tenant), count);
    } else if !has_own_producer(kernel, slots) {
        let next = ring - level * producers + 1;
        f.store(kernel.shared.cursor.at(level), f.select(next.ge(producers), 0, next));
    }
}

/// Loads the first position and the tenant of each ring into the memory of a group that polls. `stripe` gives the
/// stripe that the group polls of a ring.
pub(super) fn load_heads<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    stripe: impl FnOnce(U32<'b>) -> U32<'b>,
) {
    let rings = slots.bank.polled_rings();
    f.range((f.lane(), f.lit(rings), f.lanes()), (), |_, ring, ()| {
        f.store(kernel.shared.heads.at(ring), f.load(kernel.global.start.at(stripe(ring))));
        f.store(kernel.shared.owners.at(ring), f.load(kernel.global.rings.at(slots.ring_of_polled(ring))));
    });
    f.barrier();
}

/// Lets a group start its searches at one producer, where there are many more groups than producers.
pub(super) fn prefer_own_producer<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
) {
    if !has_own_producer(kernel, slots) {
        return;
    }
    if let Some(shares) = kernel.ring_shares() {
        shares.prefer_own_producers(f);
    } else {
        for level in 0..kernel.layout.levels {
            f.store(kernel.shared.cursor.at(level), f.group() % kernel.layout.producers);
        }
    }
}

/// The level of a ring.
pub(super) fn ring_level<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    ring: U32<'b>,
) -> U32<'b> {
    if kernel.layout.levels == 1 { f.lit(0) } else { ring / slots.polled_level_rings(kernel) }
}

/// The credit of a tenant. The quota is read once, because the host may change it between the taking and the giving
/// back of credit.
#[derive(Clone, Copy)]
pub(super) struct Credit<'b> {
    tenant: U32<'b>,
    quota: U32<'b>,
}

impl<'b> Credit<'b> {
    /// Reads the tenant's quota.
    pub(super) fn new(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, tenant: U32<'b>) -> Self {
        Credit { tenant, quota: kernel.host_word(f, tenant + control::QUOTAS) }
    }

    /// Whether the tenant's quota is still the one that was read.
    pub(super) fn holds(self, f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) -> Val<'b, bool> {
        kernel.host_word(f, self.tenant + control::QUOTAS).eq(self.quota)
    }

    /// Takes credit for `count` tasks, or for as many as there is credit left for. Gives the number of tasks.
    pub(super) fn take(
        self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        count: U32<'b>,
    ) -> U32<'b> {
        f.choose(
            self.quota.eq(0),
            || count,
            || {
                let claims = kernel.global.control.at(self.tenant + control::CLAIMS);
                let before = f.atomic_add(Order::Relaxed, Scope::Device, claims, f.cast::<u64>(count));
                let room = f.cast::<u32>(f.max(credit_left(f, self.quota, before), 0i32)) >> 1;
                let taken = f.min(room, count);
                self.give(f, kernel, count - taken);
                taken
            },
        )
    }

    /// Gives back the credit for `count` tasks.
    pub(super) fn give(self, f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, count: U32<'b>) {
        f.when(self.quota.ne(0) & count.ne(0), || {
            let claims = kernel.global.control.at(self.tenant + control::CLAIMS);
            f.atomic_sub(Order::Relaxed, Scope::Device, claims, f.cast::<u64>(count));
        });
    }
}

/// Whether a tenant may run any task now: it is not disabled, and has credit left.
pub(super) fn may_run<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    tenant: U32<'b>,
) -> Val<'b, bool> {
    let mask = kernel.host_word(f, tenant + control::MASKS);
    let quota = kernel.host_word(f, tenant + control::QUOTAS);
    let claims =
        f.atomic_load(Order::Relaxed, Scope::Device, kernel.global.control.at(tenant + control::CLAIMS));
    mask.ne(0) & (quota.eq(0) | credit_left(f, quota, claims).gt(0i32))
}

/// Twice the credit that is left of a quota when `claims` tasks were charged. It is below 0 if more tasks were charged
/// than the quota allows. It is doubled because the account has 31 bits: bit 31 of a quota only says that there is one.
fn credit_left<'b>(f: &'b FunctionBuilder<'b>, quota: U32<'b>, claims: U64<'b>) -> Val<'b, i32> {
    f.cast::<i32>((quota - f.cast::<u32>(claims)) << 1)
}

/// How many looks at near rings in a row may find nothing before the group begins to rest between looks.
pub(super) const LOOKS_BEFORE_REST: u32 = 1 << 13;

/// Rests, the longer the more looks in a row have found nothing.
pub(super) fn back_off<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, idle: U32<'b>) {
    let ns = if kernel.layout.wakes {
        // First the group spins, then it gives its core away, and then it sleeps until it is woken.
        let over = f.min(idle - 2047, 1000u32);
        let short = f.select(idle.lt(2048u32), 50_000u32, over * 1_000_000u32);
        f.select(idle.lt(1024u32), 0u32, short)
    } else {
        // The host cannot wake the group, so the group never rests for longer than a task may wait.
        f.select(idle.lt(1u32 << 14), 40u32, REST_NS)
    };
    f.backoff(ns);
}

/// Wakes groups that sleep, after something was stored that another group waits for. Where groups do not sleep, or where
/// there is only one, this writes nothing.
pub(super) fn wake_groups<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) {
    if kernel.layout.wakes && kernel.layout.groups > 1 {
        f.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, Schedule};
    use pelton_ir::types::{Access, Len, Space};
    use pelton_ir::valid::validate;

    use super::*;
    use crate::kernel::Tenant;
    use crate::session::quota_word;

    /// What the kernel computes as the credit left of a quota when this many tasks were charged.
    fn left_of(quota: u64, charged: u64) -> i32 {
        let mut m = Builder::new();
        let words = m.buffer::<u32>("words", Len::Fixed(2), Space::Global, Access::ReadWrite);
        let claims = m.buffer::<u64>("claims", Len::Fixed(1), Space::Global, Access::Read);
        m.kernel("main", |f| {
            let left = credit_left(f, f.load(words.at(0)), f.load(claims.at(0)));
            f.store(words.at(1), f.cast::<u32>(left));
        });
        let program = InterpKernel::new(&validate(m.finish()).expect("it is valid"), None).expect("it loads");
        let words = [AtomicU32::new(quota_word(Some(quota))), AtomicU32::new(0)];
        let claims = [AtomicU64::new(charged)];
        let launch = InterpLaunch {
            groups: 1,
            lanes: 1,
            subgroup: 32,
            buffers: vec![BoundWords::W32(&words), BoundWords::W64(&claims)],
            stop: None,
            deadline: None,
            schedule: Schedule::Threads(1),
        };
        program.run(&launch).expect("it runs");
        words[1].load(Ordering::Relaxed) as i32
    }

    #[test]
    fn an_account_goes_through_zero_and_never_runs_out_of_bits() {
        let most = u64::from(Tenant::MAX_QUOTA);
        for charged in [0, 1, most, (1 << 31) - 2, 1 << 31, (1 << 32) - 3, 1 << 32, (1 << 40) + 7] {
            for credit in [0, 1, 2, 1000, most - 1, most] {
                let doubled = left_of(charged + credit, charged);
                assert_eq!(i64::from(doubled), 2 * credit as i64, "{credit} beyond {charged}");
            }
            for over in [1, 1000, most].into_iter().filter(|over| *over <= charged) {
                assert!(left_of(charged - over, charged) < 0, "{over} below {charged}");
            }
        }
    }
}
