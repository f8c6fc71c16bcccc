//! Checkpoints of kept regions, which let a session restore them after its device was lost.
//!
//! A checkpoint is a copy of all kept regions in the host's memory, taken while no kernel runs, together with the positions
//! up to which tasks had ended at that moment. After a loss, a kept region is what the last checkpoint has, and what the tasks
//! did that have ended since. [These run once more](super::rerun).
//!
//! **The rings are the journal.** To run a task once more, the host needs its slot, its record and its payload. These lie in
//! the rings until a producer uses the slot again. So a slot is used again only if its ticket has given it up *and* a
//! checkpoint covers it: each stripe has a position [`covered`](Stripe::covered) beyond which producers take nothing back. A
//! producer that finds no room because of that asks for a checkpoint, which the reaper takes. So larger rings mean fewer
//! checkpoints. In a session without kept regions, nothing is above the covered position.
//!
//! **When one is taken.** Whenever a producer needs one, when the [user](Session::checkpoint) wants one, when the host writes
//! a kept region, and whenever another kernel follows, because tasks that have ended with the old handlers must not run once
//! more with new ones. The kernel pauses as in a [hand-over](super::handover): it finishes the tasks that it has taken, so what
//! lies in the regions is what the tasks with records have written, and nothing else.
//!
//! **Never half a checkpoint.** A checkpoint is copied beside the last one and replaces it when it is complete, so a loss
//! meanwhile does no harm.
//!
//! **Cancelled tasks.** To cancel a task means to write another opcode over its own. That may come too late, and then the task
//! has run. So the host keeps the opcode that the task had.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pelton_device::{Memory, MemoryKind, View64};

use super::Session;
use super::kernel::SessionKernel;
use super::memory::{BufferMemories, RingMemory};
use super::move_to::copy_words;
use super::rings::{Rings, Stripe, WaitList};
use super::running::{PauseEnd, RunningKernel};
use crate::error::Error;
use crate::kernel::kept::has_kept;
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Layout, Spec, TaskOrder};
use crate::protocol::Opcode;
use crate::ring::SlotLines;
use crate::telemetry::{KeptSnapshot, RerunDifference};

/// What a session keeps so that its kept regions can be restored.
#[derive(Debug)]
pub(crate) struct KeptRegions {
    /// The numbers of the kept regions in the layout.
    numbers: Vec<usize>,
    /// The opcode that the last task of each slot had which was cancelled.
    cancelled: Box<[AtomicU32]>,
    /// The number of the last task of each slot in the order in which tasks ran, if they run one at a time.
    pub(super) order: Option<View64>,
    checkpoint: Mutex<Checkpoint>,
    report: Mutex<KeptSnapshot>,
}

/// The last checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// The copies of the kept regions.
    copies: Vec<Memory>,
    /// Where the next copies are written.
    spare: Vec<Memory>,
    /// What the copies hold of the tasks of each stripe.
    pub covers: Vec<StripeCover>,
}

/// The tasks of a stripe that had ended at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StripeCover {
    /// All tasks below this position had ended.
    pub below: u64,
    /// These tasks above it had ended too. There are some only if the device was lost shortly before.
    pub beyond: Vec<u64>,
}

impl StripeCover {
    /// Finds which tasks of a stripe have ended since. No kernel runs.
    fn after(&self, stripe: &Stripe) -> StripeCover {
        // Slots are used again only below the covered position, so no task is beyond one lap from there.
        let end = self.below + stripe.ring.capacity();
        let below = stripe.ring.frontier(self.below, end);
        let beyond = (below..end).filter(|position| stripe.ring.record_at(*position).is_some());
        StripeCover { below, beyond: beyond.collect() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptRegions {
    /// Makes the state for the rings of a `Spec`, whose regions are zero, or `None` if it keeps none.
    pub(super) fn new(
        spec: &Spec,
        layout: &Layout,
        (stripes, memory): (&[Stripe], &RingMemory),
    ) -> Result<Option<Self>, Error> {
        if !has_kept(spec) {
            return Ok(None);
        }
        let stripes = &stripes[..layout.stripe_count() as usize];
        for stripe in stripes {
            stripe.covered.store(stripe.start, Ordering::Relaxed);
        }
        let areas = layout.areas.iter().enumerate().filter(|(_, area)| area.region.is_kept());
        let numbers: Vec<usize> = areas.map(|(number, _)| number).collect();
        let block = |number: &usize| {
            let bound = layout.buffers.iter().find(|bound| bound.key == BufferKey::Region(*number));
            let bound = bound.ok_or(Error::Internal("kept region"))?;
            Ok(Memory::mapped(MemoryKind::Host, bound.width, bound.len)?)
        };
        let blocks = || numbers.iter().map(block).collect::<Result<Vec<_>, Error>>();
        let covers = stripes.iter().map(|stripe| StripeCover { below: stripe.start, beyond: Vec::new() });
        let checkpoint = Checkpoint { copies: blocks()?, spare: blocks()?, covers: covers.collect() };
        Ok(Some(KeptRegions {
            cancelled: (0..layout.slot_count()).map(|_| AtomicU32::new(0)).collect(),
            checkpoint: Mutex::new(checkpoint),
            report: Mutex::default(),
            order: match spec.order {
                TaskOrder::Serial => Some(memory.words(BufferId::SerialNumbers)?),
                TaskOrder::Free => None,
            },
            numbers,
        }))
    }

    /// Returns what a snapshot shows.
    pub(crate) fn snapshot(&self) -> KeptSnapshot {
        lock(&self.report).clone()
    }

    /// Keeps the opcode of a task that is about to be cancelled. Only the holder of its ticket calls this.
    pub(super) fn note_cancel(&self, stripe: &Stripe, position: u64) {
        let op = line_op(stripe, position);
        if op != Opcode::CANCEL {
            // Relaxed: whoever reads this has seen the opcode of the cancel, which is written after it with a release.
            self.cancelled[stripe.place_at(position)].store(op.code(), Ordering::Relaxed);
        }
    }

    /// Returns the opcode with which a task was submitted.
    pub(super) fn submitted_op(&self, stripe: &Stripe, position: u64) -> Opcode {
        match line_op(stripe, position) {
            Opcode::CANCEL => {
                // Pairs with the release of the cancel.
                std::sync::atomic::fence(Ordering::Acquire);
                Opcode::from_code(self.cancelled[stripe.place_at(position)].load(Ordering::Relaxed))
            }
            op => op,
        }
    }

    pub(super) fn lock_checkpoint(&self) -> MutexGuard<'_, Checkpoint> {
        lock(&self.checkpoint)
    }

    /// Returns the memory of each kept region in that of a kernel.
    fn regions<'m>(&self, memories: &'m BufferMemories) -> Result<Vec<&'m Memory>, Error> {
        let region = |number: &usize| memories.get(BufferKey::Region(*number));
        self.numbers.iter().map(|number| region(number).ok_or(Error::Internal("kept region"))).collect()
    }

    /// Takes a checkpoint of the memory of a kernel that has ended. The caller holds the lock of the pause.
    pub(super) fn take(&self, rings: &Rings, memories: &BufferMemories) -> Result<(), Error> {
        let (started, mut checkpoint) = (Instant::now(), self.lock_checkpoint());
        let covers = checkpoint.covers_after(rings);
        self.copy_to_spare(&checkpoint, memories)?;
        checkpoint.replace(rings, covers);
        let mut report = lock(&self.report);
        report.checkpoints += 1;
        report.last_took = Some(started.elapsed());
        Ok(())
    }

    /// Copies the kept regions of a kernel beside the last checkpoint.
    pub(super) fn copy_to_spare(
        &self,
        checkpoint: &Checkpoint,
        memories: &BufferMemories,
    ) -> Result<(), Error> {
        let regions = self.regions(memories)?;
        regions.iter().zip(&checkpoint.spare).try_for_each(|(from, to)| copy_words(from, to))
    }

    /// Copies the last checkpoint to the memory of a kernel.
    pub(super) fn copy_back(&self, checkpoint: &Checkpoint, memories: &BufferMemories) -> Result<(), Error> {
        let regions = self.regions(memories)?;
        checkpoint.copies.iter().zip(regions).try_for_each(|(from, to)| copy_words(from, to))
    }

    /// Notes that the session recovers.
    pub(super) fn begin_recovery(&self) {
        let mut report = lock(&self.report);
        (report.rerun, report.difference) = (0, None);
    }

    /// Notes that tasks ran once more in this recovery, and the first of them that ended differently.
    pub(super) fn note_rerun(&self, tasks: u64, difference: Option<RerunDifference>) {
        let mut report = lock(&self.report);
        report.rerun += tasks;
        report.difference = report.difference.take().or(difference);
    }

    /// Takes a checkpoint without copying anything, so that it says that it covers tasks of which it has nothing.
    #[cfg(feature = "inject")]
    fn take_stale(&self, rings: &Rings) -> Result<(), Error> {
        let mut checkpoint = self.lock_checkpoint();
        let covers = checkpoint.covers_after(rings);
        checkpoint.cover(rings, covers);
        Ok(())
    }
}

/// Returns the opcode in the line of a task.
fn line_op(stripe: &Stripe, position: u64) -> Opcode {
    Opcode::from_code((stripe.ring.lines.line(stripe.ring.slot_at(position))[0] >> 32) as u32)
}

impl Checkpoint {
    /// Finds which tasks have ended by now. No kernel runs.
    pub(super) fn covers_after(&self, rings: &Rings) -> Vec<StripeCover> {
        rings.slot_stripes().iter().zip(&self.covers).map(|(stripe, cover)| cover.after(stripe)).collect()
    }

    /// Lets the copies that were made beside the checkpoint be the checkpoint.
    pub(super) fn replace(&mut self, rings: &Rings, covers: Vec<StripeCover>) {
        std::mem::swap(&mut self.copies, &mut self.spare);
        self.cover(rings, covers);
    }

    /// Notes which tasks the checkpoint covers, and lets producers use their slots again.
    pub(super) fn cover(&mut self, rings: &Rings, covers: Vec<StripeCover>) {
        for (stripe, cover) in rings.slot_stripes().iter().zip(&covers) {
            // Pairs with the acquire in `reuse_limit`: all reads of the slots come before they are written again.
            stripe.covered.store(cover.below, Ordering::Release);
        }
        self.covers = covers;
    }
}

impl Stripe {
    /// Returns the position below which slots may be used again once they were given up. `tail` is the position up to which
    /// tasks were published.
    #[inline]
    pub(super) fn reuse_limit(&self, tail: u64) -> u64 {
        // Pairs with the release of whoever has taken the checkpoint.
        self.covered.load(Ordering::Acquire).min(tail)
    }
}

impl WaitList {
    /// Returns whether the reaper was asked to take a checkpoint.
    pub(super) fn is_checkpoint_asked(&self) -> bool {
        self.checkpoint_asked.load(Ordering::Relaxed)
    }
}

impl Rings {
    /// Asks the reaper for a checkpoint if a stripe has slots that were given up, and that only need to be covered to be used
    /// again.
    #[cold]
    pub(super) fn ask_checkpoint_for(&self, stripe: &Stripe) {
        let (free, tail) = (stripe.free.load(Ordering::Relaxed), stripe.tail.load(Ordering::Relaxed));
        // What was given up together is taken back together, and a checkpoint may cover a part of it.
        let waits = stripe.ring.given_up_until(free, tail).is_some_and(|end| end > stripe.reuse_limit(end));
        // Waking issues a fence, so the reaper sees this before it parks.
        if waits && self.kept.is_some() && !self.wait_list.checkpoint_asked.swap(true, Ordering::Relaxed) {
            self.wait_list.event.wake();
        }
    }
}

impl RunningKernel {
    /// Takes a checkpoint of the memory of a kernel that has ended, if a region is kept. The caller holds the lock of the pause.
    pub(super) fn take_checkpoint(&self, ended: &SessionKernel) -> Result<(), Error> {
        let rings = &self.served.rings;
        rings.kept.as_ref().map_or(Ok(()), |kept| kept.take(rings, &ended.memories))
    }

    /// Takes the checkpoint that a producer has asked for. If the kernel cannot be launched again, the session has ended, and
    /// whoever uses it finds out.
    pub(super) fn take_asked_checkpoint(&self) {
        let _pause = self.lock_pause();
        if self.served.rings.wait_list.checkpoint_asked.swap(false, Ordering::Relaxed) {
            drop(self.launch_in_pause(None, |old| self.take_checkpoint(old)));
        }
    }

    /// Lets the kernel end, does something with its memory, and launches it again. If the device is lost meanwhile, the session
    /// recovers, and nothing was done.
    fn pause_for(&self, work: impl FnOnce(&SessionKernel) -> Result<(), Error>) -> Result<PauseEnd, Error> {
        let _pause = self.lock_pause();
        self.launch_in_pause(None, work)
    }
}

/// A kept region of a session, as views of it reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptPiece<'s> {
    running: &'s RunningKernel,
    key: BufferKey,
}

impl KeptPiece<'_> {
    /// Returns the memory in which the region lies now.
    pub(crate) fn memory(&self) -> Result<Memory, Error> {
        self.memory_of(&self.running.kernel())
    }

    fn memory_of(&self, kernel: &SessionKernel) -> Result<Memory, Error> {
        kernel.memories.get(self.key).cloned().ok_or(Error::Internal("kept region"))
    }

    /// Writes to the memory of the region while no kernel runs, and takes a checkpoint of it.
    pub(crate) fn write(&self, write: impl Fn(&Memory) -> Result<(), Error>) -> Result<(), Error> {
        let work = |old: &SessionKernel| {
            write(&self.memory_of(old)?)?;
            self.running.take_checkpoint(old)
        };
        // A session that has recovered has other memory, to which nothing was written.
        while self.running.pause_for(work)? == PauseEnd::Recovered {}
        Ok(())
    }
}

/// Kept regions, which a session restores after its device was lost.
impl Session {
    /// Takes a checkpoint: copies all [kept](crate::Retention) regions to the host's memory. After a loss, tasks that had
    /// ended before need not run once more, so a recovery takes less time. A session takes a checkpoint by itself when a ring
    /// is full of tasks that none covers.
    ///
    /// Like every hand-over, this waits until the tasks that the kernel has taken have ended. Producers and tickets notice a
    /// longer wait.
    ///
    /// ```
    /// use pelton::{Class, Handler, Recovery, Region, Session, Spec, Task, device, ir};
    /// # use std::time::Duration;
    ///
    /// let count = Handler::lane_wide(|task| {
    ///     let counts = task.region::<u32>("counts");
    ///     let f = task.body();
    ///     f.atomic_add(ir::types::Order::Relaxed, ir::types::Scope::Device, counts.at(task.arg(0)), 1u32);
    /// });
    /// let spec = Spec::default()
    ///     .recovery(Recovery::On)
    ///     .region(Region::new("counts", ir::types::Type::U32, 100).kept())
    ///     .handler("count", count.class(Class::Commuting));
    /// let session = Session::launch(&device::open("cpu")?, &spec)?;
    /// session.producer(0)?.submit(Task::new(spec.opcode("count")?).args([7]))?.wait(Duration::from_secs(60))?;
    /// session.checkpoint()?;
    /// assert_eq!(session.snapshot()?.kept.map(|kept| kept.checkpoints), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NothingKept`] if no region is kept, [`Error::Device`] if the device cannot copy the regions, and
    /// [`Error::Ended`] if the session has ended, or ends now.
    pub fn checkpoint(&self) -> Result<(), Error> {
        if self.rings().kept.is_none() {
            return Err(Error::NothingKept);
        }
        // A session that has recovered meanwhile has taken a checkpoint too.
        self.running.pause_for(|old| self.running.take_checkpoint(old)).map(|_| ())
    }

    /// Takes a checkpoint that says that it covers every task that has ended, and has nothing of them.
    ///
    /// # Errors
    ///
    /// Those of [`checkpoint`](Session::checkpoint).
    #[cfg(feature = "inject")]
    pub fn plant_stale_checkpoint(&self) -> Result<(), Error> {
        let rings = self.rings();
        let kept = rings.kept.as_ref().ok_or(Error::NothingKept)?;
        self.running.pause_for(|_| kept.take_stale(rings)).map(|_| ())
    }

    /// Returns what leads views to the memory of a region, if it is kept.
    pub(super) fn kept_piece(&self, name: &str) -> Option<KeptPiece<'_>> {
        let mut areas = self.rings().layout.areas.iter();
        let number = areas.position(|area| area.region.name == name && area.region.is_kept())?;
        Some(KeptPiece { running: &self.running, key: BufferKey::Region(number) })
    }
}
