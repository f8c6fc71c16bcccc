//! A live kernel: launched once, fed while it runs, stopped when told to.
//!
//! [`Session::launch`] assembles the kernel of a [`Spec`], gives it its memory and starts it. Threads take a
//! [`Producer`] each and submit tasks; a [`Ticket`] says how a task ended. Between submit and done nothing allocates and nothing
//! locks: the producer writes a slot, a group of the kernel takes it and posts a record, and whoever waits reads the record. There
//! are two exceptions: the first future that waits in a stripe allocates the stripe's list of wakers, and a batch that no single stripe has
//! room for allocates a list of its pieces.
//!
//! **Ends.** Every ticket ends. [`Session::stop`] lets the kernel finish what it has taken and says what it left; tickets of
//! what was left end as stopped. If the kernel ends by itself, they end as lost. A session that is dropped is stopped.

mod core;
mod fill;
#[cfg(feature = "inject")]
mod inject;
mod launch;
mod place;
mod producer;
mod reaper;
mod rights;
mod room;
mod span;
mod ticket;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use pelton_device::Device;

pub(crate) use self::core::{Core, Memories, Stripe, outcome};
pub(crate) use self::fill::fill;
pub(crate) use self::launch::{bind, memories};
pub(crate) use self::producer::submittable;
pub(crate) use self::rights::{quota_limit, quota_word};
use crate::deadline::{Deadline, Pause};
use crate::error::{EndReason, Error, SessionEnd};
use crate::kernel::layout::Layout;
use crate::kernel::{BufferId, Spec, TenantId};
use crate::protocol::control;
use crate::telemetry::{self, Snapshot};
use crate::workspace::{self, Element, Piece, View};

pub use place::Aim;
pub use producer::Producer;
pub use span::{Ends, Span};
pub use ticket::Ticket;

/// What a stop left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stopped {
    /// Tasks that were published and never ran, by ring, in the order of the layout. A task that another thread publishes while
    /// the stop counts may be missing here: to know of it, every submit would have to wait for a fence. Its ticket ends as stopped.
    pub left: Vec<u64>,
    /// Whether the kernel had to be told by the device, because it did not come back in time.
    pub forced: bool,
}

impl Stopped {
    /// Tasks that never ran.
    pub fn total(&self) -> u64 {
        self.left.iter().sum()
    }
}

/// A live kernel. It can be used from any thread.
#[derive(Debug)]
pub struct Session {
    core: Arc<Core>,
    reaper: Option<JoinHandle<()>>,
}

impl Session {
    /// Launches the kernel of a `Spec` on a device.
    pub fn launch(device: &Arc<dyn Device>, spec: &Spec) -> Result<Session, Error> {
        Session::launch_at(device, spec, 0)
    }

    /// The last position that [`launch_at`](Session::launch_at) accepts. Kernels use bit 63 of a position for a mark of their own. A session
    /// that starts here and runs a thousand million tasks per second reaches that bit after more than two hundred years.
    pub const LAST_START: u64 = 1 << 61;

    /// Launches the kernel of a `Spec` with every stripe's positions counted from `start`: a session that goes on where another
    /// ended.
    ///
    /// A start beyond [`LAST_START`](Session::LAST_START) is refused with [`Error::Start`], wherever rings lie.
    pub fn launch_at(device: &Arc<dyn Device>, spec: &Spec, start: u64) -> Result<Session, Error> {
        if start > Session::LAST_START {
            return Err(Error::Start { start, last: Session::LAST_START });
        }
        let core = Arc::new(launch::launch(device, spec, start)?);
        let shared = core.clone();
        let reaper = std::thread::Builder::new()
            .name("pelton-reaper".into())
            .spawn(move || reaper::run(&shared))
            .map_err(Error::Thread)?;
        Ok(Session { core, reaper: Some(reaper) })
    }

    /// What it was launched with.
    pub fn spec(&self) -> &Spec {
        &self.core.spec
    }

    /// Where everything of its kernel lies.
    pub fn layout(&self) -> &Layout {
        &self.core.layout
    }

    /// How it stands.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        telemetry::snapshot(&self.core)
    }

    /// A tenant's piece of a region of the workspace, or with the name `observable` its observables.
    pub fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<View<'_, T>, Error> {
        workspace::view(&self.core.memories, &self.core.layout, tenant, region)
    }

    /// Where a tenant's piece of a region is, and what it holds.
    pub fn piece(&self, tenant: TenantId, region: &str) -> Result<Piece, Error> {
        workspace::piece(&self.core.layout, tenant, region)
    }

    /// How many fences have passed.
    pub fn epoch(&self) -> Result<u64, Error> {
        let mut word = [0u64];
        let memory = self.core.memories.need(BufferId::Control)?;
        memory.download(control::EPOCH as usize, &mut word)?;
        Ok(word[0])
    }

    /// Returns what tasks have printed since the last call, in order. It also works after the session has ended.
    pub fn log(&self) -> Result<Vec<String>, Error> {
        let mut at = self.core.printer.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (lines, end) = telemetry::read(&self.core.printer, &self.core.memories, *at)?;
        *at = end;
        match self.core.log_read(end) {
            // A kernel that has ended prints nothing more, so nobody has to hear how far the host has read.
            Ok(()) | Err(Error::Ended(_)) => Ok(lines),
            Err(error) => Err(error),
        }
    }

    /// A producer of a tenant that nobody uses. It goes back when it is dropped.
    pub fn producer(&self, tenant: TenantId) -> Result<Producer, Error> {
        if !self.core.running() {
            return Err(self.core.ended_error());
        }
        let of = |index: &u32| self.core.layout.rings[*index as usize].tenant == tenant;
        let count = (0..self.core.layout.producers).filter(of).count() as u32;
        if !self.core.spec.tenants.iter().any(|t| t.id == tenant) {
            return Err(Error::Tenant(tenant));
        }
        let mut idle = self.core.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match idle.iter().rposition(of) {
            Some(at) => Ok(Producer::new(self.core.clone(), idle.remove(at))),
            None => Err(Error::Producers { tenant, count }),
        }
    }

    /// Waits until all tasks that were submitted before have ended. If the deadline passes before, the error is [`Error::Late`] and says how
    /// many tasks were left.
    pub fn quiesce(&self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let deadline = deadline.into().start();
        let tails: Vec<u64> = self.core.stripes.iter().map(|s| s.tail.load(Ordering::Acquire)).collect();
        let mut pause = Pause::default();
        let mut from: Vec<u64> = self.core.stripes.iter().map(|s| s.free.load(Ordering::Acquire)).collect();
        loop {
            let mut left = 0;
            for ((stripe, from), to) in self.core.stripes.iter().zip(&mut from).zip(&tails) {
                // Slots that were given up have ended, and may hold the next lap.
                *from = stripe.ring.frontier((*from).max(stripe.free.load(Ordering::Acquire)), *to);
                left += to.saturating_sub(*from);
            }
            if left == 0 {
                return Ok(());
            }
            if !self.core.running() {
                return Err(self.core.ended_error());
            }
            if pause.slow() {
                self.core.watch();
                if deadline.has_passed() {
                    return Err(Error::Late { left });
                }
            }
            pause.turn();
        }
    }

    /// Returns how the session ended, or `None` while it runs: it was stopped, or it was lost and why. A lost session does not recover; launch
    /// a new one.
    pub fn session_end(&self) -> Option<SessionEnd> {
        self.core.ending()
    }

    /// How long [`stop`](Session::stop) and a drop give the kernel to finish what it has taken.
    pub const STOP_TIME: Duration = Duration::from_millis(500);

    /// Stops the kernel: it takes nothing new, finishes what it has taken, and ends. A kernel that has not ended after
    /// [`STOP_TIME`](Session::STOP_TIME) is ended by the device, whatever it is doing. Returns how much was left. If the session was lost
    /// before, the error says why.
    pub fn stop(self) -> Result<Stopped, Error> {
        self.stop_within(Session::STOP_TIME)
    }

    /// Stops the kernel as [`stop`](Session::stop) does, but gives it until a deadline to finish what it has taken.
    pub fn stop_within(mut self, deadline: impl Into<Deadline>) -> Result<Stopped, Error> {
        self.close(deadline.into())
    }

    fn close(&mut self, deadline: Deadline) -> Result<Stopped, Error> {
        let core = &self.core;
        // Pairs with the kernel's acquire.
        core.host[control::SHUTDOWN as usize].store(1, Ordering::Release);
        core.run.wake();
        let (ended, forced) = match core.run.wait(deadline.time_left()) {
            Ok(None) => {
                core.run.stop();
                (core.run.wait(None), true)
            }
            ended => (ended, false),
        };
        core.look();
        // It has ended, so this was said already.
        core.end(SessionEnd::Stopped);
        core.closing.store(1, Ordering::Release);
        core.event.wake();
        if let Some(reaper) = self.reaper.take() {
            // It does not panic; if it did, there would be nothing left to do for it.
            drop(reaper.join());
        }
        let left = |stripe: &Stripe| {
            let (from, to) = (stripe.free.load(Ordering::Acquire), stripe.tail.load(Ordering::Acquire));
            (from..to).filter(|position| stripe.ring.ended(*position).is_none()).count() as u64
        };
        let rings = 0..core.layout.rings.len() as u32;
        let left = rings.map(|ring| core.stripes(ring).map(left).sum()).collect();
        ended?;
        match core.end_reason() {
            Some(EndReason::Lost(_)) => Err(core.ended_error()),
            _ => Ok(Stopped { left, forced }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.reaper.is_some() {
            // There is nobody to tell.
            drop(self.close(Session::STOP_TIME.into()));
        }
    }
}
