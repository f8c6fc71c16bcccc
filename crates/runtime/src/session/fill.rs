//! What the buffers of a kernel hold when it starts, as the [table of buffers](crate::kernel::buffers) says.

use super::memory::BufferMemories;
use super::rights::{quota_limit, quota_word};
use crate::error::Error;
use crate::kernel::buffers::{FirstContent, STRIDE};
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Layout, Spec, Tenant};
use crate::protocol::control;

/// Fills every buffer that does not begin with zeros. `starts` has the first position of each stripe.
pub(crate) fn fill_buffers(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
) -> Result<(), Error> {
    fill_some(spec, layout, memories, starts, |_| true)
}

/// Fills the buffers that say where a run begins, for a run that follows another over the same memory: `starts` has the position at which it
/// begins to serve each stripe. Everything else stays as the last run and the host have left it.
#[cfg(feature = "inject")]
pub(super) fn fill_next_run(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
) -> Result<(), Error> {
    fill_some(spec, layout, memories, starts, |id| {
        matches!(id, BufferId::Start | BufferId::Route | BufferId::Front)
    })?;
    // The groups of the next run arrive anew, and nobody has asked them to halt.
    match memories.get(BufferKey::Kernel(BufferId::Flags)) {
        Some(flags) => Ok(flags.upload(0, &vec![0u32; flags.len()])?),
        None => Ok(()),
    }
}

/// Fills the buffers that are chosen and do not begin with zeros.
fn fill_some(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    starts: &[u64],
    chosen: impl Fn(BufferId) -> bool,
) -> Result<(), Error> {
    for (key, memory) in memories.iter() {
        let BufferKey::Kernel(id) = key else { continue };
        if !chosen(id) {
            continue;
        }
        let row = id.row();
        let words = match row.first {
            FirstContent::Zeros => continue,
            FirstContent::ControlWords => FirstWords::W32(control_words(spec)),
            FirstContent::RingTenants => {
                FirstWords::W32(layout.rings.iter().map(|ring| ring.tenant).collect())
            }
            FirstContent::Pieces => FirstWords::W32(pieces(layout)),
            FirstContent::StripeStarts => FirstWords::W64(starts.to_vec()),
            FirstContent::RingStarts { per_ring } => FirstWords::W64(ring_starts(layout, starts, per_ring)),
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

/// The words of a buffer.
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

/// The host's control words, with each tenant's mask and quota.
fn control_words(spec: &Spec) -> Vec<u32> {
    let mut words = vec![0u32; control::OBSERVABLES as usize];
    words[control::TENANT_BASE as usize] = control::MASKS;
    for tenant in &spec.tenants {
        words[(control::MASKS + tenant.id) as usize] = tenant.mask;
        words[(control::QUOTAS + tenant.id) as usize] = quota_word(quota_limit(tenant.quota));
    }
    words
}

/// The start of each far ring, so many times per ring, each with a stride of its own. A far ring has one stripe, and so has the one ring of
/// a drained batch.
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

/// First element and number of elements of every piece, by tenant and column; the last column is the observables.
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
