//! Sessions: kernels that are launched once, fed while they run, and stopped when they are no longer needed.
//!
//! [`Session::launch`] assembles the kernel of a [`Spec`], allocates its memory and launches it. Each thread takes a
//! [`Producer`] and submits tasks, and gets a [`Ticket`] for one task or a [`Span`] for several. The ticket says how
//! the task ended.
//!
//! **Costs.** Nothing allocates and nothing locks between a submit and the end of its task: the producer writes a slot,
//! a group of the kernel takes it and posts a record, and the ticket reads the record. There are two exceptions: the
//! first future that waits in a stripe allocates the stripe's list of wakers, and a batch that no single stripe has
//! room for allocates a list of its pieces.
//!
//! **Ends.** Every ticket ends. [`Session::stop`] lets the kernel finish the tasks that it has taken, and reports how
//! many tasks it has not run. The tickets of those tasks end as stopped. If the kernel ends by itself, the tickets of
//! tasks that have not ended end as lost, unless the session [recovers](crate::Recovery). Dropping a session stops it.

mod cell_image;
mod cell_loss;
mod cells;
mod checkpoint;
mod events;
mod fill;
mod graphs;
mod handover;
#[cfg(feature = "inject")]
mod inject;
mod kernel;
mod launch;
mod left;
mod loss;
mod memory;
mod move_to;
mod payload;
mod place;
mod producer;
mod quarantine;
mod reaper;
mod recovery;
mod rerun;
mod resize;
mod resumable;
mod rights;
mod rings;
mod room;
mod run;
mod running;
mod span;
mod start;
mod state;
mod ticket;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pelton_device::{Device, Memory};

pub(crate) use self::checkpoint::KeptPiece;
pub(crate) use self::fill::fill_buffers;
use self::kernel::SessionKernel;
use self::launch::Launched;
pub(crate) use self::launch::bind_buffers;
pub(crate) use self::memory::BufferMemories;
pub(crate) use self::payload::{PlaceMemory, ReplyPlace, check_payload};
pub(crate) use self::producer::check_submittable;
use self::rights::ControlChanges;
pub(crate) use self::rights::{quota_limit, quota_word};
pub(crate) use self::rings::{Rings, record_outcome};
use self::run::ServedRings;
use self::running::RunningKernel;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::{EndReason, Error, SessionEnd};
use crate::kernel::cells::cell_fact;
use crate::kernel::layout::Layout;
use crate::kernel::{BufferId, Spec, TenantId};
use crate::protocol::{Opcode, control};
use crate::stream::StreamPlaces;
use crate::telemetry::{self, LogPosition, LogPrinter, Snapshot, TaskState};
use crate::workspace::{self, Element, PieceLocation, RegionView};

pub use graphs::SessionGraph;
pub use place::Aim;
pub use producer::Producer;
pub use recovery::RecoveringSession;
pub use span::{Span, SpanEnds};
pub use start::StartPositions;
pub use ticket::Ticket;

/// What [`Session::stop`] reports: how many tasks never ran, and whether the kernel had to be forced to end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StopReport {
    /// For each ring, in the order of the layout, how many of its tasks were submitted and never ran. A task that
    /// another thread submits while these are being counted may be missing here, since counting it would cost every
    /// submit a memory fence. Its ticket ends as stopped all the same.
    pub left: Vec<u64>,
    /// How many tasks of resumable handlers had not ended, whether they had begun or not.
    pub cells_left: u64,
    /// Whether the device had to end the kernel, because the kernel did not end by itself in time.
    pub forced: bool,
}

impl StopReport {
    /// Returns how many tasks were submitted and have not ended: those of all rings together, which never ran, and those
    /// of resumable handlers.
    pub fn tasks_left(&self) -> u64 {
        self.left.iter().sum::<u64>() + self.cells_left
    }
}

/// A kernel that stays on its device and runs the tasks that producers submit.
///
/// A session can be used from any thread. Dropping it stops it, as [`stop`](Session::stop) does.
///
/// ```
/// use std::time::Duration;
/// use pelton::{Opcode, Session, Spec, Task, device};
///
/// let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
/// let mut producer = session.producer(0)?;
/// let mut ticket = producer.submit(Task::new(Opcode::ATOMIC_ADD).args([5, 0]))?;
/// assert_eq!(ticket.wait(Duration::from_secs(60))?, 0, "the old value of element 0");
/// assert_eq!(session.view::<u32>(0, "data")?.read(0, 1)?, [5]);
/// assert_eq!(session.stop()?.tasks_left(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Session {
    /// The kernel that runs now, which the reaper shares, and the rings that it serves, which producers and tickets share.
    running: Arc<RunningKernel>,
    /// Held during a hand-over, so that there is only one at a time.
    hand_over: Mutex<()>,
    changes: Mutex<ControlChanges>,
    printer: LogPrinter,
    streams: StreamPlaces,
    reaper: Option<reaper::ReaperThread>,
}

impl Session {
    /// Launches the kernel of a `Spec` on a device.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the `Spec` cannot be assembled for this device, [`Error::Device`] if the device cannot
    /// load or launch the kernel or has too little memory, and [`Error::Thread`] if the session's thread cannot be
    /// started.
    pub fn launch(device: &Arc<dyn Device>, spec: &Spec) -> Result<Session, Error> {
        Session::launch_at(device, spec, 0)
    }

    /// The greatest position that [`launch_at`](Session::launch_at) accepts. Kernels use bit 63 of a position for a
    /// mark of their own. A session that starts here and runs a thousand million tasks per second reaches that bit
    /// after more than two hundred years.
    pub const LAST_START: u64 = 1 << 61;

    /// Launches the kernel of a `Spec` as [`launch`](Session::launch) does, but lets its stripes count their positions
    /// from given starts: all stripes from one position, or each from its own. A session that is given the
    /// [positions](Session::positions) of another goes on counting where that one ended, if it has as many stripes. A session
    /// that was [resized](Session::resize) keeps the stripes that it was launched with.
    ///
    /// ```
    /// # use pelton::{Deadline, Opcode, Session, Spec, Task, device};
    /// # let (device, spec) = (device::open("cpu")?, Spec::default());
    /// let session = Session::launch_at(&device, &spec, 1_000)?;
    /// let mut producer = session.producer(0)?;
    /// let mut ticket = producer.submit(Task::new(Opcode::NOP))?;
    /// ticket.wait(Deadline::after_ms(60_000))?;
    /// assert_eq!(ticket.position(), 1_000);
    /// let positions = session.positions();
    /// # drop((ticket, producer));
    /// session.stop()?;
    ///
    /// let next = Session::launch_at(&device, &spec, positions.clone())?;
    /// assert_eq!(next.positions(), positions);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::StartPosition`] if a start lies beyond [`LAST_START`](Session::LAST_START), and [`Error::StartCount`]
    /// if a list of starts does not have one start per stripe. Other errors are those of [`launch`](Session::launch).
    pub fn launch_at(
        device: &Arc<dyn Device>,
        spec: &Spec,
        starts: impl Into<StartPositions>,
    ) -> Result<Session, Error> {
        let starts = starts.into();
        starts.check()?;
        let launched = launch::launch_session(device, spec, &starts)?;
        let Launched { served, kernel } = launched;
        let running = Arc::new(RunningKernel::new(served, kernel));
        let reaper = reaper::start_reaper(&running, spec.lease)?;
        Ok(Session {
            running,
            hand_over: Mutex::new(()),
            changes: ControlChanges::new(&spec.tenants),
            printer: LogPrinter::new(&spec.formats),
            streams: StreamPlaces::default(),
            reaper: Some(reaper),
        })
    }

    fn rings(&self) -> &Rings {
        &self.running.served.rings
    }

    fn served(&self) -> &Arc<ServedRings> {
        &self.running.served
    }

    /// Refuses a call if the session has ended.
    fn check_running(&self) -> Result<(), Error> {
        self.running.check_running()
    }

    /// Returns the kernel that runs now.
    fn kernel(&self) -> Arc<SessionKernel> {
        self.running.kernel()
    }

    /// Returns the kernel that runs now, and how many times the session has recovered until it was launched.
    fn kernel_and_recoveries(&self) -> (Arc<SessionKernel>, u64) {
        let _words = self.running.lock_words();
        (self.kernel(), self.rings().recovery.as_ref().map_or(0, |recovery| recovery.count()))
    }

    /// Returns the position of the next task of each stripe, in the order of the layout. While producers submit tasks,
    /// these positions are not all read at the same moment.
    pub fn positions(&self) -> Vec<u64> {
        self.rings().slot_stripes().iter().map(|stripe| stripe.tail.load(Ordering::Acquire)).collect()
    }

    /// Returns the `Spec` that the session was launched with, with the handlers, libraries, fuel, share and number of groups
    /// that hand-overs have given it since.
    pub fn spec(&self) -> Arc<Spec> {
        self.kernel().spec.clone()
    }

    /// Returns the layout of the kernel that runs now: its groups, its rings, and the pieces of its workspace.
    pub fn layout(&self) -> Arc<Layout> {
        self.kernel().layout.clone()
    }

    /// Looks up the opcode of a handler or of a built-in operation by its name. Look it up once, and make any number of
    /// tasks with it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownOpcode`] if there is no such name. The error suggests the nearest name that exists.
    pub fn opcode(&self, name: &str) -> Result<Opcode, Error> {
        Ok(self.kernel().spec.opcode(name)?)
    }

    /// Returns the session's counters, latencies and occupancy at this moment.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the counters cannot be copied from the device.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        // This waits for a kernel that is just being launched after a loss.
        let (kernel, _) = self.kernel_and_recoveries();
        let SessionKernel { spec, layout, memories, .. } = &*kernel;
        telemetry::take_snapshot(spec, layout, self.rings(), memories)
    }

    /// Returns where a task is: whether it was taken, waits, is paused or has ended. The task may go on meanwhile.
    ///
    /// This copies a word from the device if the task is resumable, so it takes microseconds on a GPU. To find out
    /// whether a task has ended, [`Ticket::has_ended`] is faster.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSession`] if the ticket's task was submitted to another session, and [`Error::Device`] if the word
    /// cannot be copied from the device.
    pub fn task_state(&self, ticket: &mut Ticket) -> Result<TaskState, Error> {
        if !ticket.is_of(self.rings()) {
            return Err(Error::OtherSession);
        }
        if ticket.has_ended() {
            return Ok(TaskState::Ended);
        }
        let Some((cell, generation)) = ticket.cell() else { return Ok(TaskState::Submitted) };
        let mut word = [0u64];
        self.kernel().memories.need(BufferId::CellStates)?.download(cell, &mut word)?;
        // The record of a task that has just ended is posted after the state of its cell.
        Ok(TaskState::from_cell(word[0], generation))
    }

    /// Returns a view of a tenant's piece of a region of the workspace, through which the host reads and writes its
    /// elements. The name `observable` refers to the tenant's observables, which are words that tasks show to the host.
    ///
    /// If the session [recovers](crate::Recovery), a view that was opened before is one of the memory that was lost: what is
    /// written there reaches no kernel, and copies fail or give what was there last. Open another one then. Views of regions
    /// in host memory stay valid. So does a view of a [kept](crate::Retention) region; each write to such a region takes a
    /// [checkpoint](Session::checkpoint).
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`], [`Error::UnknownRegion`], and [`Error::RegionType`] if the region holds elements of
    /// another type than `T`.
    pub fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<RegionView<'_, T>, Error> {
        let view = workspace::open_view(&self.kernel().memories, &self.rings().layout, tenant, region)?;
        Ok(view.kept_by(self.kept_piece(region)))
    }

    /// Returns where a tenant's piece of a region lies, and the type of its elements.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`] and [`Error::UnknownRegion`].
    pub fn piece(&self, tenant: TenantId, region: &str) -> Result<PieceLocation, Error> {
        workspace::find_piece(&self.rings().layout, tenant, region)
    }

    /// Returns the memory that a piece of a region lies in.
    pub(crate) fn piece_memory(&self, piece: &PieceLocation) -> Result<Memory, Error> {
        self.kernel().memories.get(piece.key).cloned().ok_or(Error::Internal("region"))
    }

    /// Returns the places that streams of this session read into.
    pub(crate) fn stream_places(&self) -> &StreamPlaces {
        &self.streams
    }

    /// Returns the epoch, which is the number of fences of this session that have ended so far.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the epoch cannot be copied from the device.
    pub fn epoch(&self) -> Result<u64, Error> {
        let mut word = [0u64];
        self.kernel().memories.need(BufferId::Control)?.download(control::EPOCH as usize, &mut word)?;
        if let Some(recovery) = &self.rings().recovery {
            recovery.tell_epoch(word[0]);
        }
        Ok(word[0])
    }

    /// Returns the lines that tasks have printed since the last call, in order. This also works after the session has
    /// ended.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the lines cannot be copied from the device.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        let mut at = self.printer.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (kernel, recoveries) = self.kernel_and_recoveries();
        if at.recoveries != recoveries {
            // The log of a lost device is lost with it, and the next one begins empty.
            *at = LogPosition { recoveries, records: 0 };
        }
        let (lines, end) = telemetry::read_log(&self.printer, &kernel.memories, at.records)?;
        at.records = end;
        match self.log_read(*at) {
            // A kernel that has ended prints nothing more, so it need not know how far the host has read.
            Ok(()) | Err(Error::Ended(_)) => Ok(lines),
            Err(error) => Err(error),
        }
    }

    /// Takes a producer of the given tenant that is not in use. Once the producer is dropped, it can be taken again.
    ///
    /// [`Spec::producers`] sets how many producers tenant 0 has, and [`Tenant::producers`](crate::Tenant::producers())
    /// how many any tenant has.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`] if there is no such tenant, [`Error::NoIdleProducer`] if all its producers are in use,
    /// and [`Error::Ended`] if the session has ended.
    pub fn producer(&self, tenant: TenantId) -> Result<Producer, Error> {
        self.check_running()?;
        let rings = self.rings();
        let of = |index: &u32| rings.layout.rings[*index as usize].tenant == tenant;
        let count = (0..rings.layout.producers).filter(of).count() as u32;
        self.check_tenant(tenant)?;
        let mut idle = rings.idle_producers();
        match idle.iter().rposition(of) {
            Some(at) => Ok(Producer::new(self.served().clone(), idle.remove(at))),
            None => Err(Error::NoIdleProducer { tenant, count }),
        }
    }

    /// Waits until all tasks that any producer submitted before this call have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Late`] if the deadline passes first; the error says how many tasks have not ended. [`Error::Ended`] if
    /// the session ends first.
    pub fn quiesce(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let deadline = deadline.into().started();
        let rings = self.rings();
        let tails = self.positions();
        let mut backoff = PollBackoff::default();
        let mut from: Vec<u64> =
            rings.slot_stripes().iter().map(|s| s.free.load(Ordering::Acquire)).collect();
        let mut cells = rings.unfinished_cells();
        loop {
            let mut all_ended = true;
            for ((stripe, from), to) in rings.slot_stripes().iter().zip(&mut from).zip(&tails) {
                // Tasks whose slots were taken back have ended, and their slots may hold the next lap by now.
                *from = stripe.ring.frontier((*from).max(stripe.free.load(Ordering::Acquire)), *to);
                all_ended &= *from >= *to;
            }
            // A record of another use means that this one has ended, and so has its ticket.
            cells.retain(|(stripe, position)| stripe.is_use_unfinished(*position));
            if all_ended && cells.is_empty() {
                return Ok(());
            }
            if !rings.state.is_running() {
                return Err(rings.state.ended_error());
            }
            if backoff.is_slow() {
                self.served().check_for_end();
                if deadline.has_passed() {
                    let stripes = rings.slot_stripes().iter().zip(from.iter().zip(&tails));
                    let in_slots =
                        stripes.map(|(stripe, (from, to))| rings.unfinished_between(stripe, *from, *to));
                    let left = in_slots.sum::<u64>() + cells.len() as u64;
                    // A task that has just ended in its cell may be in a slot that has no record yet.
                    return Err(Error::Late { left: left.max(1) });
                }
            }
            backoff.pause();
        }
    }

    /// Returns how the session ended, or `None` while it runs or [recovers](crate::Recovery). A session that has ended stays
    /// so: launch a new one.
    pub fn session_end(&self) -> Option<SessionEnd> {
        self.served().session_end()
    }

    /// How long [`stop`](Session::stop) and dropping a session give the kernel to finish the tasks that it has taken.
    pub const STOP_TIME: Duration = Duration::from_millis(500);

    /// Stops the session, and reports how many tasks were submitted and never ran.
    ///
    /// The kernel takes no new tasks, finishes those that it has taken, and ends. If it has not ended after
    /// [`STOP_TIME`](Session::STOP_TIME), the device ends it, whatever it is doing.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] or [`Error::Device`] if the session had already ended by itself; the error says why.
    pub fn stop(self) -> Result<StopReport, Error> {
        self.stop_within(Session::STOP_TIME)
    }

    /// Stops the session as [`stop`](Session::stop) does, but gives the kernel until a deadline to finish the tasks
    /// that it has taken.
    ///
    /// # Errors
    ///
    /// Those of [`stop`](Session::stop).
    pub fn stop_within(mut self, deadline: impl Into<Deadline>) -> Result<StopReport, Error> {
        self.close(deadline.into())
    }

    fn close(&mut self, deadline: Deadline) -> Result<StopReport, Error> {
        let deadline = deadline.started();
        let (pause, forced_in_pause) = self.running.stop_pauses(deadline);
        let (rings, run) = (&*self.running.served.rings, self.running.served.current_run());
        rings.ask_shutdown();
        run.wake();
        let (ended, forced) = match run.wait(deadline.time_left()) {
            Ok(None) => {
                run.stop();
                (run.wait(None), true)
            }
            ended => (ended, false),
        };
        self.keep_steps();
        self.running.served.note_end();
        // The run has ended, and `note_end` has noted how. This is for a device that fails to say how.
        rings.state.note_end(SessionEnd::Stopped);
        drop(pause);
        if let Some(reaper) = self.reaper.take() {
            reaper::end_reaper(rings, &reaper);
        }
        let ended = ended?;
        if let Some(EndReason::Lost(_)) = rings.state.end_reason() {
            return Err(rings.state.ended_error());
        }
        let left = left::count_tasks_left(rings, &self.kernel(), ended.map(|end| end.outcome));
        let forced = forced || forced_in_pause;
        Ok(StopReport { left, cells_left: rings.unfinished_cells().len() as u64, forced })
    }
}

impl Session {
    /// Keeps how many steps of the task in each cell had begun, for tickets that end because the session was stopped.
    fn keep_steps(&self) {
        let rings = self.rings();
        let kernel = self.kernel();
        let facts = kernel.memories.need(BufferId::CellFacts).ok().filter(|_| rings.cells.is_some());
        if let Some(facts) = facts {
            let mut words = vec![0u64; facts.len()];
            // If the device is lost, nothing is known of the steps.
            if facts.download(0, &mut words).is_ok() {
                let steps = words
                    .chunks(cell_fact::WORDS as usize)
                    .map(|fact| fact[cell_fact::STEPS as usize] as u32);
                drop(rings.steps_at_stop.set(steps.collect()));
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.reaper.is_some() {
            // A drop has nobody to report an error to.
            drop(self.close(Session::STOP_TIME.into()));
        }
    }
}
