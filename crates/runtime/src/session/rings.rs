//! Rings, apart from the runs over them.
//!
//! A session consists of rings, which producers write and tickets read, and of a kernel that serves them. The two have
//! different lives. A kernel is assembled for one set of handlers and one device; it may make way for another kernel,
//! move to another device, or be lost. The rings hold what was promised to callers: a ticket that was handed out must
//! end, whatever has become of the kernel that ran at the time. So a session keeps its state in three parts, by what
//! each part outlives.
//!
//! | part | holds | outlives |
//! |---|---|---|
//! | [`Rings`] | far slots, records, tails, payloads and replies, the slots that tickets have given up, the host's control words, copies of near slots; the host's cursors, and the futures that wait | every run, and every device |
//! | [`DeviceMemory`](super::memory::DeviceMemory) | near slots, claims, frontiers, counters, the log, the workspace | every run on its device |
//! | [`KernelRun`](super::run::KernelRun) | a launch: its number, its lease, and what its groups keep to themselves | nothing |
//!
//! **Who owns the memory.** Rings lie in a [`RingMemory`], whose [owner](super::memory::MemoryOwner) says where its
//! blocks come from. The only owner so far is this process. Another owner could be a file in memory that a second
//! process maps as well, because rings need nothing of their memory but words that stay in place. Device memory is
//! owned by the [`Session`](super::Session), since only calls on the session reach it; producers and tickets never do.
//! A run owns no memory: its launch holds references to blocks of the other two.
//!
//! **Who reaches what.** A producer and its tickets hold the rings, and need nothing else to publish a task and to read
//! its record. They reach the run in two cases only. A producer wakes it after publishing, through a
//! [`RunHandle`](super::run::RunHandle) of its own. And a thread that has waited for long asks
//! [`ServedRings`](super::run::ServedRings) whether the run is still there.
//!
//! **Another run over the same rings.** A run is replaced by ending it and launching the next
//! ([`ServedRings::launch_next`](super::run::ServedRings::launch_next)):
//!
//! - *Rings* stay as they are, except for the control word that asked the old kernel to end. Producers publish all the
//!   while. Each stripe has its own position at which the next run begins to serve it, which is why starts are
//!   [per stripe](super::start::StartPositions).
//! - *Device memory* stays if the next run is on the same device. To [move](super::move_to) to another device, the host
//!   copies it there.
//! - *The run* is another value with the next number. The number is stored before the run is launched. A producer looks
//!   at the number after it has published and woken the run that it knows. Either it sees the new number and wakes the
//!   new run as well, or the new run sees what it has published.
//! - *The session's state* does not change. The end of a run ends the session only if that run is not being replaced.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use atomic_waker::AtomicWaker;
use pelton_device::event::Event;
use pelton_device::{View32, View64};

use super::cells::SessionCells;
use super::checkpoint::KeptRegions;
use super::loss::RingRecovery;
use super::memory::{DeviceMemory, RingMemory};
use super::payload::PlaceMemory;
use super::room::RoomWaiter;
use super::state::SessionState;
use crate::error::{EndReason, Error, LossReason, TaskError};
use crate::kernel::cells::CELL_SHIFT;
use crate::kernel::{BufferId, Layout, Placement, STRIDE, Spec};
use crate::protocol::record::TaskEnd;
use crate::protocol::{CompletionRecord, Status, control};
use crate::ring::{HostRing, SlotLines, SlotMemory};
use crate::telemetry::LatencyMeter;

/// The futures that wait for tasks of a stripe. The index of a future is the slot of its first task.
#[derive(Debug)]
pub(crate) struct StripeWaiters {
    /// For how many tasks each future waits; 0 where there is no future.
    pub spans: Box<[AtomicU32]>,
    /// The wakers of the futures.
    pub wakers: Box<[AtomicWaker]>,
}

/// A stripe, and what the host knows of it.
#[derive(Debug)]
pub(crate) struct Stripe {
    pub ring: HostRing<SlotMemory, View64>,
    /// The position up to which tasks are published. Only the producer writes it.
    pub tail: AtomicU64,
    /// The position up to which slots were given up and taken back. Only the producer writes it.
    pub free: AtomicU64,
    /// The position below which slots may be used again, as far as the last [checkpoint](super::checkpoint) decides that.
    /// Nothing is above it if the session keeps no region.
    pub covered: AtomicU64,
    /// The number of the first slot among all slots of the session.
    pub first_place: usize,
    /// The position of the first task.
    pub start: u64,
    /// In a stripe of cells, the position of each cell's use that is under way, or 0 if the cell is free. Only the
    /// producer writes it.
    pub cell_uses: Box<[AtomicU64]>,
    /// In a stripe of cells, how many nanoseconds after the session's start each cell's last use began.
    pub cell_since: Box<[AtomicU64]>,
    /// How many futures wait for tasks of this stripe.
    pub futures: AtomicUsize,
    /// The futures that wait. The list is allocated when the first one does.
    waiters: OnceLock<StripeWaiters>,
}

impl Stripe {
    fn new(ring: HostRing<SlotMemory, View64>, first_place: usize, start: u64) -> Self {
        Stripe {
            ring,
            first_place,
            tail: AtomicU64::new(start),
            free: AtomicU64::new(start),
            covered: AtomicU64::new(u64::MAX),
            start,
            cell_uses: Box::default(),
            cell_since: Box::default(),
            futures: AtomicUsize::new(0),
            waiters: OnceLock::new(),
        }
    }

    /// Makes the stripe of a producer's cells.
    pub(super) fn of_cells(ring: HostRing<SlotMemory, View64>, cells: u32, first_place: usize) -> Self {
        let words = || (0..cells).map(|_| AtomicU64::new(0)).collect();
        Stripe { cell_uses: words(), cell_since: words(), ..Stripe::new(ring, first_place, 0) }
    }

    /// Whether the task at a position of a stripe of slots has ended. Its slot may have been used again since.
    pub(super) fn slot_has_ended(&self, position: u64) -> bool {
        // A slot that was taken back has ended, and may have the record of a later task.
        self.ring.record_at(position).is_some() || self.free.load(Ordering::Acquire) > position
    }

    /// Whether the task of a use of a cell has not ended. The cell may have been used again since.
    pub(crate) fn is_use_unfinished(&self, position: u64) -> bool {
        // Pairs with the release of the producer that began the use.
        let now = self.cell_uses[self.waiter_place(position)].load(Ordering::Acquire);
        now == position && self.ring.record_at(position).is_none()
    }

    /// Whether the stripe consists of cells, rather than of slots.
    #[inline]
    pub(crate) fn has_cells(&self) -> bool {
        !self.cell_uses.is_empty()
    }

    /// Returns the number of the place that the task at a position has for its payload and its reply: that of its slot
    /// among all slots of the session.
    #[inline]
    pub(crate) fn place_at(&self, position: u64) -> usize {
        self.first_place + (position & (self.ring.capacity() - 1)) as usize
    }

    /// Returns the list of futures that wait for tasks of this stripe.
    pub(crate) fn waiters(&self) -> &StripeWaiters {
        self.waiters.get_or_init(|| StripeWaiters {
            spans: (0..self.ring.capacity()).map(|_| AtomicU32::new(0)).collect(),
            wakers: (0..self.ring.capacity()).map(|_| AtomicWaker::new()).collect(),
        })
    }

    /// Returns whether there are slots that were given up and that the producer can take back.
    pub(crate) fn can_reclaim(&self) -> bool {
        if self.has_cells() {
            let used = self.cell_uses.iter().map(|used| used.load(Ordering::Relaxed));
            return used.filter(|position| *position != 0).any(|at| self.ring.can_reclaim(at, at + 1));
        }
        // Relaxed: the reaper has seen that the producer registered, so it sees what the producer wrote before.
        let (free, tail) = (self.free.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        self.ring.given_up_until(free, tail).is_some_and(|end| end <= self.reuse_limit(end))
    }

    /// Returns the first position of a stripe of slots whose task has no record. A kernel may have taken tasks beyond the
    /// tail, because a producer notes its tail after it has published the tasks.
    pub(super) fn first_unfinished(&self) -> u64 {
        // Slots that a producer takes back meanwhile keep their records while no kernel runs.
        let free = self.free.load(Ordering::Acquire);
        self.ring.frontier(free, free + self.ring.capacity())
    }

    /// Returns the index of a future among the waiters, given the position of its first task.
    pub(crate) fn waiter_place(&self, position: u64) -> usize {
        (position & (self.ring.capacity() - 1)) as usize
    }

    /// Returns whether the line of a task names a cell.
    fn names_cell(&self, position: u64) -> bool {
        self.ring.lines.line(self.ring.slot_at(position))[1] >> 32 >> CELL_SHIFT != 0
    }
}

/// What the reaper has to look after: futures that wait for tasks, and producers that wait for room. The reaper's thread
/// shares it with the session, so that it can park without keeping the rest of the session.
#[derive(Debug)]
pub(crate) struct WaitList {
    /// Where the reaper parks while no future waits.
    pub event: Event,
    /// How many futures wait, for tasks or for room.
    pub futures: AtomicUsize,
    /// One entry per producer, which says whether the producer waits for room.
    pub rooms: Box<[RoomWaiter]>,
    /// How many producers wait for room.
    pub rooms_waiting: AtomicUsize,
    /// Not 0 if the reaper has to end.
    closing: AtomicU32,
    /// Locked by the reaper while it uses the session.
    turn: Mutex<()>,
    /// Whether the device has asked the session to let its kernel end for a moment, so that others can load code.
    way_asked: AtomicBool,
    /// Whether somebody has found that the run has ended unexpectedly, and the session recovers.
    recovery_asked: AtomicBool,
    /// Whether a producer needs slots that no [checkpoint](super::checkpoint) covers.
    pub(super) checkpoint_asked: AtomicBool,
}

impl WaitList {
    fn new(producers: u32) -> Self {
        WaitList {
            event: Event::default(),
            futures: AtomicUsize::new(0),
            rooms: (0..producers).map(|_| RoomWaiter::default()).collect(),
            rooms_waiting: AtomicUsize::new(0),
            closing: AtomicU32::new(0),
            turn: Mutex::new(()),
            way_asked: AtomicBool::new(false),
            recovery_asked: AtomicBool::new(false),
            checkpoint_asked: AtomicBool::new(false),
        }
    }

    /// Asks the reaper to end. What the caller has written before is seen by every future that registers too late to be
    /// found by a later look, because waking issues a sequentially consistent fence, as registering does.
    pub(crate) fn close(&self) {
        self.closing.store(1, Ordering::Release);
        self.event.wake();
    }

    /// Asks the reaper to make way for others on the device.
    pub(super) fn ask_way(&self) {
        // Waking issues a fence, so the reaper sees this before it parks.
        self.way_asked.store(true, Ordering::Relaxed);
        self.event.wake();
    }

    /// Returns whether the reaper was asked to make way.
    pub(super) fn is_way_asked(&self) -> bool {
        self.way_asked.load(Ordering::Relaxed)
    }

    /// Asks the reaper to look at the run, and to recover if it has ended. It may be asked any number of times.
    pub(super) fn ask_recovery(&self) {
        // Waking issues a fence, so the reaper sees this before it parks.
        if !self.recovery_asked.swap(true, Ordering::Relaxed) {
            self.event.wake();
        }
    }

    /// Returns whether the reaper was asked to recover.
    pub(super) fn is_recovery_asked(&self) -> bool {
        self.recovery_asked.load(Ordering::Relaxed)
    }

    /// Notes that somebody looks at the run, and returns whether the reaper was asked to.
    pub(super) fn clear_recovery_asked(&self) -> bool {
        self.recovery_asked.swap(false, Ordering::Relaxed)
    }

    /// Notes that the kernel has ended, or is about to, and returns whether the reaper was asked to make way.
    pub(super) fn clear_way_asked(&self) -> bool {
        self.way_asked.swap(false, Ordering::Relaxed)
    }

    /// Waits until the reaper does not use the session. A reaper that is asked to end does not use it afterwards either.
    pub(super) fn lock_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the reaper was asked to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) != 0
    }
}

/// The rings of a session: all state that outlives a run and a device.
#[derive(Debug)]
pub(crate) struct Rings {
    /// Every stripe of every ring, in the order of the layout, and then the stripe of cells of each producer.
    pub stripes: Vec<Stripe>,
    /// What all cells share, if there are any.
    pub cells: Option<SessionCells>,
    /// Whether the session runs, and how it ended.
    pub state: SessionState,
    /// The layout of rings and stripes. The layout of every run over these rings has the same rings and stripes.
    pub layout: Arc<Layout>,
    /// The host's control words.
    pub host_words: View32,
    pub memory: RingMemory,
    /// The payloads and replies of tasks, if they have any.
    pub places: Option<PlaceMemory>,
    /// What is kept so that the session can recover, if it does.
    pub recovery: Option<RingRecovery>,
    /// What is kept so that regions can be restored, if some are to be.
    pub kept: Option<KeptRegions>,
    pub meter: LatencyMeter,
    pub wait_list: Arc<WaitList>,
    /// How many steps of the task in each cell had begun when the session was stopped.
    pub steps_at_stop: OnceLock<Vec<u32>>,
    /// The numbers of the producers that are not in use.
    idle_producers: Mutex<Vec<u32>>,
}

impl Rings {
    /// Makes the rings of a layout over their memory. `device` holds the near slots, and `starts` has the first
    /// position of each stripe.
    pub(crate) fn new(
        layout: Arc<Layout>,
        mut memory: RingMemory,
        device: &DeviceMemory,
        starts: &[u64],
        spec: &Spec,
    ) -> Result<Self, Error> {
        let mut stripes = make_stripes(&layout, &mut memory, device, starts)?;
        let host = memory.shared.need(BufferId::Host)?;
        let cells = SessionCells::new((spec, &layout), &memory, &mut stripes)?;
        Ok(Rings {
            kept: KeptRegions::new(spec, &layout, (&stripes, &memory))?,
            stripes,
            cells,
            state: SessionState::default(),
            host_words: host.view32().ok_or(Error::Internal("host"))?,
            places: PlaceMemory::new(&layout, &memory.shared)?,
            recovery: RingRecovery::new(spec, &layout, &memory)?,
            meter: LatencyMeter::new(spec.telemetry),
            wait_list: Arc::new(WaitList::new(layout.producers)),
            steps_at_stop: OnceLock::new(),
            idle_producers: Mutex::new((0..layout.producers).rev().collect()),
            layout,
            memory,
        })
    }

    /// Returns the stripes of one ring.
    pub(crate) fn ring_stripes(&self, ring: u32) -> impl Iterator<Item = &Stripe> {
        (0..self.layout.ring_stripes()).map(move |k| &self.stripes[self.layout.stripe_number(ring, k)])
    }

    /// Returns the numbers of the producers that are not in use.
    pub(crate) fn idle_producers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.idle_producers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the host has asked the kernel to end.
    pub(crate) fn shutdown_asked(&self) -> bool {
        self.host_words[control::SHUTDOWN as usize].load(Ordering::Relaxed) != 0
    }

    /// Asks the kernel to finish the tasks that it has taken and to end.
    pub(crate) fn ask_shutdown(&self) {
        // Pairs with the kernel's acquire: it sees everything that the host did before.
        self.host_words[control::SHUTDOWN as usize].store(1, Ordering::Release);
    }

    /// Counts the tasks of a stripe of slots at positions from `from` up to `to` that were published and have no record.
    pub(super) fn unfinished_between(&self, stripe: &Stripe, from: u64, to: u64) -> u64 {
        // A task that has a cell is counted there. Where there are no cells, no line is read, which would take longer than all
        // else.
        let has_cells = self.cells.is_some();
        stripe.ring.count_unfinished(from, to, |position| !has_cells || !stripe.names_cell(position))
    }

    /// Returns how a task ended, or `None` if it has not ended yet.
    #[inline]
    pub(crate) fn task_end(&self, stripe: &Stripe, position: u64) -> Option<Result<u32, TaskError>> {
        if let Some(record) = stripe.ring.record_at(position) {
            return Some(record_outcome(record));
        }
        self.task_end_without_record(stripe, position)
    }

    /// Returns how a task ended that had no record a moment ago: it ended with the session, or has not ended yet.
    #[cold]
    fn task_end_without_record(&self, stripe: &Stripe, position: u64) -> Option<Result<u32, TaskError>> {
        let why = match self.state.end_reason()? {
            EndReason::Stopped => TaskError::Stopped { steps: self.steps_begun(stripe, position) },
            EndReason::Lost(reason) => {
                let recovery = self.recovery.as_ref();
                let may_have_run = recovery.is_none_or(|recovery| recovery.may_have_run(stripe, position));
                TaskError::Lost { reason, may_have_run }
            }
        };
        // The record may have come between the look at the record and the look at the state.
        Some(stripe.ring.record_at(position).map_or(Err(why), record_outcome))
    }
}

impl Rings {
    /// Returns how many steps of a task had begun when the session was stopped. It is 0 for tasks that have no cell.
    fn steps_begun(&self, stripe: &Stripe, position: u64) -> u32 {
        let steps = self.steps_at_stop.get().filter(|_| stripe.has_cells());
        steps.and_then(|steps| steps.get(stripe.ring.slot_at(position))).copied().unwrap_or(0)
    }
}

/// Makes the stripes of a layout, in the order of the layout.
fn make_stripes(
    layout: &Layout,
    memory: &mut RingMemory,
    device: &DeviceMemory,
    starts: &[u64],
) -> Result<Vec<Stripe>, Error> {
    let mut stripes = Vec::with_capacity(layout.stripe_count() as usize);
    for bank in layout.banks.iter() {
        let (slots, done, tails) = match bank.placement {
            Placement::Near => (BufferId::NearSlots, BufferId::NearDone, None),
            _ => (BufferId::FarSlots, BufferId::FarDone, Some(memory.words(BufferId::Tails)?)),
        };
        let (lines, done) = (slot_memory(slots, memory, device)?, memory.words(done)?);
        let taken = memory.taken_words(bank)?;
        let starts = &starts[bank.first_stripe as usize..][..bank.stripe_count() as usize];
        stripes.extend(starts.iter().enumerate().map(|(at, start)| {
            let ring = HostRing {
                lines: lines.clone(),
                done: done.clone(),
                taken: taken.clone(),
                tail: tails.clone().map(|tails| (tails, at * STRIDE as usize)),
                first: at << bank.log2_slots,
                log2: bank.log2_slots,
            };
            let first_place = bank.first_slot as usize + ring.first;
            Stripe::new(ring, first_place, *start)
        }));
    }
    Ok(stripes)
}

/// Returns the slots of one placement. If they lie at the device and the host cannot read them there, it keeps a copy
/// of them.
fn slot_memory(id: BufferId, memory: &mut RingMemory, device: &DeviceMemory) -> Result<SlotMemory, Error> {
    let slots = memory.shared.need(id).or_else(|_| device.blocks.need(id))?.clone();
    Ok(match slots.view64() {
        Some(view) => SlotMemory::Mapped(view),
        None => SlotMemory::Near { copy: memory.near_copy(&slots)?, memory: slots },
    })
}

/// Returns how a task ended, as its record says.
#[inline]
pub(crate) fn record_outcome(record: CompletionRecord) -> Result<u32, TaskError> {
    // Most tasks are done, and this is all that they need.
    if record.0 as u8 == Status::Done.code() as u8 {
        return Ok((record.0 >> 32) as u32);
    }
    failed_outcome(record)
}

/// Returns how a task ended, as its record says, if it is probably not done.
#[cold]
fn failed_outcome(record: CompletionRecord) -> Result<u32, TaskError> {
    match record.end() {
        Ok(TaskEnd::Done(result)) => Ok(result),
        Ok(TaskEnd::Fault(fault)) => Err(TaskError::Fault(fault)),
        Ok(TaskEnd::Cancelled { steps }) => Err(TaskError::Cancelled { steps }),
        Ok(TaskEnd::Lost(reason)) => Err(TaskError::Lost { reason, may_have_run: true }),
        // Assembled kernels post nothing else.
        Err(_) => Err(TaskError::Lost { reason: LossReason::Record, may_have_run: true }),
    }
}
