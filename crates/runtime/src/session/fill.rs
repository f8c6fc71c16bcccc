//! Fills the buffers of a kernel with their first content, as the [table of buffers](crate::kernel::buffers) says.

use super::memory::BufferMemories;
use super::rights::{quota_limit, quota_word};
use crate::error::Error;
use crate::kernel::buffers::{BufferMemory, BufferRow, FirstContent, STRIDE};
use crate::kernel::layout::BufferKey;
use crate::kernel::ring_shares::share_table;
use crate::kernel::stride::tenant_strides;
use crate::kernel::{Layout, Spec, Tenant};
use crate::protocol::control;

/// Fills every buffer whose first content is not zeros. `starts` has the first position of each stripe.
pub(crate) fn fill_buffers(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
) -> Result<(), Error> {
    fill_some(spec, layout, memories, starts, |_| true)
}

/// Fills the buffers that say where a run begins, for a run that follows another over the same memory. `starts` has the
/// position at which the run begins to take tasks of each stripe. All other buffers stay as the last run and the host
/// have left them.
pub(super) fn fill_next_run(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
) -> Result<(), Error> {
    fill_some(spec, layout, memories, starts, BufferRow::begins_each_run)
}

/// Fills the buffers of a kernel that begins after a loss, as those of a first one, but leaves the memory of the rings alone.
/// `starts` has the position at which it begins to take tasks of each stripe.
pub(super) fn fill_after_loss(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
) -> Result<(), Error> {
    let is_shared = |row: &BufferRow| matches!(row.memory, BufferMemory::Host | BufferMemory::HostInSessions);
    fill_some(spec, layout, memories, starts, |row| !is_shared(row))
}

/// Fills those buffers whose rows are chosen. Memory is zero when it is allocated, so nothing is done for zeros that only
/// the first run needs.
fn fill_some(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
    chosen: impl Fn(&BufferRow) -> bool,
) -> Result<(), Error> {
    for (key, memory) in memories.iter() {
        let BufferKey::Kernel(id) = key else { continue };
        let row = id.row();
        if !chosen(row) {
            continue;
        }
        let words = match row.first {
            FirstContent::Zeros => continue,
            FirstContent::AllOnes => FirstWords::W64(vec![u64::MAX; memory.len()]),
            FirstContent::GraphInstances => FirstWords::W64(instance_bits(layout)),
            FirstContent::ZerosEachRun => FirstWords::W32(vec![0; memory.len()]),
            FirstContent::ControlWords => FirstWords::W32(control_words(spec)),
            FirstContent::RingTenants => {
                FirstWords::W32(layout.rings.iter().map(|ring| ring.tenant).collect())
            }
            FirstContent::TenantStrides => FirstWords::W32(tenant_strides(spec)),
            FirstContent::TenantShares => FirstWords::W32(share_table(spec, layout)),
            FirstContent::Pieces => FirstWords::W32(pieces(layout)),
            FirstContent::StripeStarts => FirstWords::W64(starts.to_vec()),
            FirstContent::NearStripeStarts => FirstWords::W64(near_stripe_starts(layout, starts)),
            FirstContent::RingStarts => FirstWords::W64(ring_starts(layout, starts, 1)),
            FirstContent::RingStartsTwice => FirstWords::W64(ring_starts(layout, starts, 2)),
        };
        if words.len() != memory.len() {
            return Err(Error::Internal(row.names[0]));
        }
        match words {
            FirstWords::W32(words) => memory.upload(0, &words)?,
            FirstWords::W64(words) => memory.upload(0, &words)?,
        }
    }
    Ok(())
}

/// The first content of a buffer.
enum FirstWords {
    W32(Vec<u32>),
    W64(Vec<u64>),
}

impl FirstWords {
    fn len(&self) -> usize {
        match self {
            FirstWords::W32(words) => words.len(),
            FirstWords::W64(words) => words.len(),
        }
    }
}

/// Returns the host's control words, with the mask and the quota of each tenant.
fn control_words(spec: &Spec) -> Vec<u32> {
    let mut words = vec![0u32; control::OBSERVABLES as usize];
    words[control::TENANT_BASE as usize] = control::MASKS;
    for tenant in &spec.tenants {
        words[(control::MASKS + tenant.id) as usize] = tenant.mask;
        words[(control::QUOTAS + tenant.id) as usize] = quota_word(quota_limit(tenant.quota));
    }
    words
}

/// Returns one bit per instance of a graph.
fn instance_bits(layout: &Layout) -> Vec<u64> {
    let count = layout.trees.and_then(|trees| trees.graphs).map_or(0, |graphs| graphs.instances);
    let word = |first: u32| match count - first {
        64.. => u64::MAX,
        few => (1 << few) - 1,
    };
    (0..count).step_by(64).map(word).collect()
}

/// Returns the start of each near stripe, one stride apart.
fn near_stripe_starts(layout: &Layout, starts: &[u64]) -> Vec<u64> {
    let Some(near) = layout.banks.near() else { return Vec::new() };
    let starts = &starts[near.first_stripe as usize..][..near.stripe_count() as usize];
    let stride = STRIDE as usize;
    starts
        .iter()
        .flat_map(|start| std::iter::once(*start).chain(std::iter::repeat_n(0, stride - 1)))
        .collect()
}

/// Returns the start of each far ring, `per_ring` times per ring and one stride apart. A far ring has one stripe, and
/// so has the only ring of a drained batch.
fn ring_starts(layout: &Layout, starts: &[u64], per_ring: u32) -> Vec<u64> {
    let stride = STRIDE as usize;
    let mut words = vec![0; layout.rings.len() * per_ring as usize * stride];
    let Some(far) = layout.banks.far() else { return words };
    let first = far.first_stripe as usize;
    let stripes = &starts[first..first + far.stripe_count() as usize];
    for (at, start) in
        stripes.iter().flat_map(|start| std::iter::repeat_n(start, per_ring as usize)).enumerate()
    {
        words[at * stride] = *start;
    }
    words
}

/// Returns the first element and the number of elements of every piece, by tenant and then by region. The last pair of
/// each tenant is its observables.
fn pieces(layout: &Layout) -> Vec<u32> {
    let mut words = Vec::new();
    for tenant in 0..Tenant::MAX_TENANTS as usize {
        let areas = layout.areas.iter().map(|area| area.pieces[tenant]);
        for (first, len) in areas.chain([layout.observables[tenant]]) {
            words.extend([first, len]);
        }
    }
    words
}
