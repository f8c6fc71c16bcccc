//! Counts the tasks that a session leaves when it is stopped.
//!
//! A task never ran if it has no record. But rings may have a million slots, and a stop should not look at all of them.
//! A kernel that ends by itself has run every task that groups have claimed from a far ring, and no other. So in far rings
//! the tasks that are left lie from the claimed position on, and nothing has to be looked at.
//!
//! This does not hold in three cases, in which records are looked at as in near rings. A kernel that the device has ended
//! leaves tasks that it has claimed. A kernel that was launched after a loss begins with tasks some of which have ended. And if there are cells, a fence that was claimed may still wait for a task in a cell,
//! and some slots have only brought a task that is counted with its cell.

use std::sync::atomic::Ordering;

use pelton_device::LaunchOutcome;

use super::kernel::SessionKernel;
use super::rings::{Rings, Stripe};
use crate::error::Error;
use crate::kernel::{BufferId, Placement, STRIDE};

/// Counts for each ring the tasks that were submitted and never ran, after the last kernel has ended in the given way.
pub(super) fn count_tasks_left(
    rings: &Rings,
    kernel: &SessionKernel,
    outcome: Option<LaunchOutcome>,
) -> Vec<u64> {
    // After a loss, tasks that were not claimed again may have ended before.
    let recovered = rings.recovery.as_ref().is_some_and(|recovery| recovery.count() > 0);
    let in_order = outcome == Some(LaunchOutcome::Done) && rings.cells.is_none() && !recovered;
    // If the positions cannot be copied from the device, the records still say what is left.
    let claimed = if in_order { claimed_positions(kernel).unwrap_or_default() } else { Vec::new() };
    let far = rings.layout.bank(Placement::Far).map_or(usize::MAX, |bank| bank.first_stripe as usize);
    let left_in_stripe = |number: usize| {
        let stripe = &rings.stripes[number];
        let claimed = number.checked_sub(far).and_then(|at| claimed.get(at));
        claimed.map_or_else(|| unfinished_tasks(rings, stripe), |claimed| unclaimed_tasks(stripe, *claimed))
    };
    let left_in_ring = |ring| {
        let stripes = 0..rings.layout.ring_stripes();
        stripes.map(|k| left_in_stripe(rings.layout.stripe_number(ring, k))).sum()
    };
    (0..rings.layout.rings.len() as u32).map(left_in_ring).collect()
}

/// Returns the position up to which groups of a kernel that has ended have claimed tasks, for each far ring.
pub(super) fn claimed_positions(kernel: &SessionKernel) -> Result<Vec<u64>, Error> {
    let route = kernel.memories.download_words(BufferId::Route)?;
    Ok(route.chunks(2 * STRIDE as usize).map(|ring| ring[STRIDE as usize]).collect())
}

/// Counts the tasks of a far ring that were published and not claimed. A producer notes its tail after it has published
/// tasks, so more may have been claimed than it has noted.
fn unclaimed_tasks(stripe: &Stripe, claimed: u64) -> u64 {
    stripe.tail.load(Ordering::Acquire).saturating_sub(claimed)
}

/// Counts the tasks of a stripe that were published and have no record.
fn unfinished_tasks(rings: &Rings, stripe: &Stripe) -> u64 {
    let (from, to) = (stripe.free.load(Ordering::Acquire), stripe.tail.load(Ordering::Acquire));
    rings.unfinished_between(stripe, from, to)
}
