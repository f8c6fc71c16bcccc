//! How a group shares its windows among tenants by weight, in kernels whose `Spec` states weights.
//!
//! Every level has an account of its own. It has a time per tenant, as [strides](super::stride) explain, and a *floor*,
//! which is the time of the tenant that was served last, when it was chosen. No tenant that has tasks is below the floor,
//! and none is above it by more than a full window of weight 1, [`MOST_AHEAD`]. So a group compares how far tenants are
//! ahead of the floor, and one that is not within these limits has had no tasks and is at the floor. Times may therefore
//! wrap, and tenants without tasks need not be looked for.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder};

use super::buffers::RingShareBuffers;
use super::claim::{NO_RING, has_own_producer};
use super::context::{KernelContext, U32, U64};
use super::layout::Layout;
use super::slots::BankSlots;
use super::spec::{Geometry, Spec};
use super::stride::{STRIDE_OF_WEIGHT_1, strides_of, tenant_strides};

/// How far a tenant can be ahead of the floor: by a full window of tasks of weight 1.
const MOST_AHEAD: u64 = Geometry::MAX_WINDOW as u64 * STRIDE_OF_WEIGHT_1 as u64;

/// The words of a tenant in [`RingShareBuffers::table`].
pub(super) mod share_word {
    /// The tenant's first producer.
    pub(crate) const FIRST: u32 = 0;
    /// How many producers the tenant has.
    pub(crate) const PRODUCERS: u32 = 1;
    /// The tenant's stride.
    pub(crate) const STRIDE: u32 = 2;
    /// How many words there are.
    pub(crate) const WORDS: u32 = 3;
}

/// Returns what [`RingShareBuffers::table`] holds.
pub(crate) fn share_table(spec: &Spec, layout: &Layout) -> Vec<u32> {
    let strides = tenant_strides(spec);
    let of = |tenant: u32| {
        let owned = || layout.rings.iter().filter(move |ring| ring.level == 0 && ring.tenant == tenant);
        let first = owned().map(|ring| ring.producer).min().unwrap_or(0);
        [first, owned().count() as u32, strides[tenant as usize]]
    };
    (0..layout.tenant_count()).flat_map(of).collect()
}

/// The rings of a kernel as tenants share them.
#[derive(Clone, Copy)]
pub(super) struct RingShares<'k> {
    pub kernel: &'k KernelContext<'k>,
    pub buffers: &'k RingShareBuffers,
}

impl RingShares<'_> {
    /// Writes the function that chooses a ring of a level that has tasks for this group: of the tenant that is least far
    /// ahead, the next producer in turn. It gives [`NO_RING`] if there is none.
    pub(super) fn write_look(
        self,
        m: &mut Builder,
        slots: &BankSlots,
        ready: Callee<u32, bool>,
    ) -> Callee<u32, u32> {
        let tenants = self.kernel.layout.tenant_count();
        m.function(slots.function_name("look"), |f, level| {
            let none = (f.lit(NO_RING), f.lit(u64::MAX));
            let (best, _) = f.range((0u32, tenants, 1u32), none, |_, k, (best, least)| {
                // Of several tenants that are equally far ahead, different groups prefer different ones.
                let tenant = (k + f.group()) % tenants;
                let ahead = self.time_ahead(f, level, tenant);
                let look = || self.find_ready_ring(f, slots, (level, tenant), ready);
                let found = f.choose(ahead.lt(least), look, || f.lit(NO_RING));
                let better = found.ne(NO_RING);
                (f.select(better, found, best), f.select(better, ahead, least))
            });
            best
        })
    }

    /// Finds a ring of a tenant and a level that has tasks for this group, beginning at the producer whose turn it is.
    fn find_ready_ring<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        slots: &BankSlots,
        (level, tenant): (U32<'b>, U32<'b>),
        ready: Callee<u32, bool>,
    ) -> U32<'b> {
        let all = slots.polled_level_rings(self.kernel);
        let producers = slots.rings_of_producers(self.share(f, tenant, share_word::PRODUCERS));
        let first_ring = level * all + slots.rings_of_producers(self.share(f, tenant, share_word::FIRST));
        let cursor = f.load(self.kernel.shared.cursor.at(self.account(level, tenant)));
        f.range((f.lit(0), producers, f.lit(1)), f.lit(NO_RING), |rings, k, none| {
            let at = cursor + k;
            let ring = first_ring + f.select(at.ge(producers), at - producers, at);
            f.when(f.call(ready, ring), || rings.leave(ring));
            none
        })
    }

    /// Charges a tenant for the tasks that the group has taken from one of its rings, and lets its other producers come
    /// first next time.
    pub(super) fn charge<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        slots: &BankSlots,
        (ring, level, tenant): (U32<'b>, U32<'b>, U32<'b>),
        count: U32<'b>,
    ) {
        let (account, floor) = (self.account(level, tenant), self.buffers.floors.at(level));
        let time = f.load(floor) + self.time_ahead(f, level, tenant);
        let stride = self.share(f, tenant, share_word::STRIDE);
        f.store(floor, time);
        f.store(self.buffers.times.at(account), time + strides_of(f, f.cast::<u64>(count), stride));
        if !has_own_producer(self.kernel, slots) {
            let first = slots.rings_of_producers(self.share(f, tenant, share_word::FIRST));
            let next = ring - level * slots.polled_level_rings(self.kernel) - first + 1;
            let producers = slots.rings_of_producers(self.share(f, tenant, share_word::PRODUCERS));
            f.store(self.kernel.shared.cursor.at(account), f.select(next.ge(producers), 0, next));
        }
    }

    /// Lets a group start its searches through the producers of each tenant at one of them.
    pub(super) fn prefer_own_producers<'b>(self, f: &'b FunctionBuilder<'b>) {
        let tenants = self.kernel.layout.tenant_count();
        f.range((0u32, tenants, 1u32), (), |_, tenant, ()| {
            let own = f.group() % self.share(f, tenant, share_word::PRODUCERS);
            for level in 0..self.kernel.layout.levels {
                f.store(self.kernel.shared.cursor.at(self.account(f.lit(level), tenant)), own);
            }
        });
    }

    /// How far a tenant is ahead of the floor of a level. A tenant that has had no tasks is not ahead.
    fn time_ahead<'b>(self, f: &'b FunctionBuilder<'b>, level: U32<'b>, tenant: U32<'b>) -> U64<'b> {
        let time = f.load(self.buffers.times.at(self.account(level, tenant)));
        let ahead = time - f.load(self.buffers.floors.at(level));
        f.select(ahead.gt(MOST_AHEAD), 0u64, ahead)
    }

    /// The number of a tenant's account at a level.
    fn account<'b>(self, level: U32<'b>, tenant: U32<'b>) -> U32<'b> {
        level * self.kernel.layout.tenant_count() + tenant
    }

    /// A word of what is known of a tenant's share.
    fn share<'b>(self, f: &'b FunctionBuilder<'b>, tenant: U32<'b>, word: u32) -> U32<'b> {
        f.load(self.buffers.table.at(tenant * share_word::WORDS + word))
    }
}
