//! Resizing: a session goes on with another number of groups.
//!
//! This is a [hand-over](super::handover) to a kernel that differs in its size. Rings and cells stay where they are, so no
//! task moves, and producers and tickets notice no more than at any other hand-over. What the size means to rings depends on
//! where they lie:
//!
//! - Any group may take any task of a *far* ring, so there may be any number of groups.
//! - A *near* ring has one stripe per group that polls it when the session is launched. If there are fewer groups now, each of
//!   them polls several stripes of each ring. More groups than stripes would find nothing to poll, so if all rings are near,
//!   there are never more groups than at the launch.
//! - In a session with rings of both kinds, some groups poll near rings and the others serve far rings, in the same proportion
//!   as in a session that is launched with so many groups. But no more groups poll near rings than each of these has stripes.
//!
//! Every group has counters of its own. Those of groups that are no more are added to those of others.

use pelton_device::Kernel;

use super::Session;
use super::kernel::SessionKernel;
use super::memory::BufferMemories;
use super::move_to::is_same_block;
use crate::deadline::Deadline;
use crate::error::{Error, HandOverError};
use crate::kernel::{BufferId, Geometry, Layout, Spec, worker_count};

impl Session {
    /// Changes how many groups run tasks while the session runs. No task is lost or moves, and a resumable task that has
    /// begun goes on. `groups` is the number of [workers](crate::kernel::Layout::workers): a router is not counted.
    ///
    /// Near rings are divided among the groups that the session was launched with, so a session that has only near rings never
    /// gets more groups than that. To let it grow later, launch it with as many groups as it may ever have, and make it smaller.
    /// [`hand_over`](Session::hand_over) also changes which [share](Spec::share()) of the device the session takes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::{Geometry, Opcode, Session, Spec, Task, device};
    ///
    /// let spec = Spec::new(Geometry::new(64).groups(4));
    /// let session = Session::launch(&device::open("cpu")?, &spec)?;
    /// session.resize(1)?;
    /// assert_eq!(session.layout().workers, 1);
    /// let mut producer = session.producer(0)?;
    /// producer.submit(Task::new(Opcode::NOP))?.wait(Duration::from_secs(60))?;
    /// session.resize(4)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::HandOver`] if the rings of this session cannot be served by so many groups, and [`Error::Refused`] or
    /// [`Error::Device`] if the device cannot run so many. The session then goes on with the groups that it has. Other errors
    /// are those of [`install`](Session::install).
    pub fn resize(&self, groups: u32) -> Result<(), Error> {
        if self.spec().geometry.groups == Some(groups) && self.rings().state.is_running() {
            return Ok(());
        }
        self.change_kernel(Deadline::Now, |kernel| {
            let spec = Spec::clone(&kernel.spec);
            Ok(Spec { geometry: spec.geometry.groups(groups), ..spec })
        })
    }
}

/// Works out the geometry of a kernel that is to follow another one. It differs from the geometry of that one if the `Spec`
/// names another number of groups or another share of the device.
pub(super) fn next_geometry(old: &SessionKernel, spec: &Spec) -> Result<Geometry, Error> {
    if (spec.geometry.groups, spec.share) == (old.spec.geometry.groups, old.spec.share) {
        return Ok(old.geometry.clone());
    }
    let (caps, placement) = (old.device.caps(), old.layout.placement());
    let (least, most) = old.layout.banks.worker_range().into_inner();
    let workers = match spec.geometry.groups {
        Some(groups) if groups < least || groups > most => {
            return Err(HandOverError::Groups { groups, least, most }.into());
        }
        Some(groups) => groups,
        None => {
            // As many as suit the device, unless fewer groups of the kernel fit.
            let fit = fitting_workers(&*old.loaded, spec.share, &old.layout);
            worker_count(spec, caps, placement)?.min(fit).clamp(least, most)
        }
    };
    Ok(old.geometry.clone().groups(workers))
}

/// Returns how many groups that run tasks fit into a share of the device, beside those groups of a kernel that run none.
pub(super) fn fitting_workers(kernel: &dyn Kernel, share: u32, layout: &Layout) -> u32 {
    let groups = (u64::from(kernel.resident()) * u64::from(share) / 100) as u32;
    groups.saturating_sub(layout.groups - layout.workers)
}

/// A buffer with one row of counters per group, and how many counters a row has.
type CounterRows = (BufferId, fn(&Layout) -> u32);

/// All such buffers of sessions.
const COUNTER_ROWS: [CounterRows; 2] =
    [(BufferId::Rows, Layout::counters_per_group), (BufferId::StepCounts, Layout::step_counters)];

/// Whether a buffer has another number of rows or of counters per row in the next kernel.
pub(super) fn changes_shape(id: BufferId, old: &Layout, next: &Layout) -> bool {
    let shape = |columns: fn(&Layout) -> u32, layout: &Layout| (layout.groups, columns(layout));
    COUNTER_ROWS.iter().any(|(rows, columns)| *rows == id && shape(*columns, old) != shape(*columns, next))
}

/// Copies the counters of a kernel that has ended, if they lie elsewhere in the next one. The counters of a row come in the
/// same order in both.
pub(super) fn copy_counters(
    old: &SessionKernel,
    next: &Layout,
    memories: &BufferMemories,
) -> Result<(), Error> {
    for (id, columns) in &COUNTER_ROWS {
        let (Ok(from), Ok(to)) = (old.memories.need(*id), memories.need(*id)) else { continue };
        if is_same_block(from, to) {
            continue;
        }
        let counters = old.memories.download_words(*id)?;
        let rows = counters.chunks(columns(&old.layout) as usize);
        to.upload(0, &fold_rows(rows, (next.groups as usize, columns(next) as usize)))?;
    }
    Ok(())
}

/// Adds up rows of counters to as many rows as there are groups, each with so many columns.
fn fold_rows<'a>(rows: impl Iterator<Item = &'a [u64]>, (groups, columns): (usize, usize)) -> Vec<u64> {
    let mut folded = vec![0u64; groups * columns];
    for (group, row) in rows.enumerate() {
        let into = &mut folded[group % groups * columns..][..columns];
        // One group may count what begins, and another what ends, so a counter alone may wrap.
        into.iter_mut().zip(row).for_each(|(sum, count)| *sum = sum.wrapping_add(*count));
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_up_and_none_is_lost() {
        let rows = [1, 2, 10, 20, 100, 200];
        assert_eq!(fold_rows(rows.chunks(2), (2, 3)), [101, 202, 0, 10, 20, 0]);
        assert_eq!(fold_rows(rows.chunks(2), (4, 2)), [1, 2, 10, 20, 100, 200, 0, 0]);
        assert_eq!(fold_rows([u64::MAX, 1].chunks(1), (1, 1)), [0]);
    }
}
