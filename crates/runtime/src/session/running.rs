//! The kernel that a session runs now, and the pause in which it makes room for another launch.
//!
//! Two may want to begin a pause at the same time: a [hand-over](super::handover), and the reaper when the device asks the
//! session to *make way*. A device that loads code only between kernels asks for that when somebody else wants to load: a
//! session that is launched or handed over, or a drained batch. The session then lets its kernel end as in a hand-over, and
//! launches it again at once. The device holds the launch back until the code is loaded, and keeps the room of the kernel
//! for it. To producers and tickets this is one more hand-over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use pelton_device::Residence;
use pelton_device::process_fence::fence_all_threads;

use super::handover::{PlannedKernel, begin_next_run};
use super::kernel::SessionKernel;
use super::rings::Rings;
use super::run::ServedRings;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::{Error, SessionEnd};

/// The kernel that a session runs now, over the rings that it serves.
#[derive(Debug)]
pub(super) struct RunningKernel {
    pub served: Arc<ServedRings>,
    kernel: RwLock<Arc<SessionKernel>>,
    /// Held from the moment at which a run is asked to end until the next one is launched or the session has ended.
    pause: Mutex<()>,
    /// Whether the session is being stopped, so that a pause ends without another launch if that launch would have to wait.
    stopping: AtomicBool,
}

impl RunningKernel {
    /// Takes the kernel that was launched first.
    pub(super) fn new(served: ServedRings, kernel: SessionKernel) -> Self {
        let kernel = RwLock::new(Arc::new(kernel));
        let (pause, stopping) = (Mutex::new(()), AtomicBool::new(false));
        RunningKernel { served: Arc::new(served), kernel, pause, stopping }
    }

    /// Returns the kernel that runs now.
    pub(super) fn kernel(&self) -> Arc<SessionKernel> {
        self.kernel.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock_pause(&self) -> MutexGuard<'_, ()> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no pause is under way, and keeps others from beginning one, because the session is being stopped. A launch that
    /// waits for others is given up. If the deadline passes while a run is to end, the device ends it, which is the second
    /// part of the result.
    pub(super) fn stop_pauses(&self, deadline: Deadline) -> (MutexGuard<'_, ()>, bool) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(residence) = &self.kernel().launch.residence {
            residence.cancel();
        }
        let (mut backoff, mut forced) = (PollBackoff::default(), false);
        loop {
            match self.pause.try_lock() {
                Ok(pause) => return (pause, forced),
                Err(TryLockError::Poisoned(poisoned)) => return (poisoned.into_inner(), forced),
                Err(TryLockError::WouldBlock) => {}
            }
            if !forced && deadline.has_passed() {
                forced = true;
                self.served.stop();
            }
            backoff.pause();
        }
    }

    /// Refuses a call if the session has ended.
    pub(super) fn check_running(&self) -> Result<(), Error> {
        let state = &self.served.rings.state;
        if state.is_running() { Ok(()) } else { Err(state.ended_error()) }
    }

    /// Lets the running kernel end, and launches the planned one. If there is none, or if it cannot be launched, the old one
    /// is launched again.
    pub(super) fn pause_and_launch(&self, planned: Option<&PlannedKernel>) -> Result<(), Error> {
        let _pause = self.lock_pause();
        self.launch_in_pause(planned)
    }

    /// Makes way for others, if the session was asked to and has not done so since. If the kernel cannot be launched again, the
    /// session has ended, and whoever uses it finds out.
    pub(super) fn make_way(&self) {
        let _pause = self.lock_pause();
        if self.served.rings.wait_list.clear_way_asked() {
            drop(self.launch_in_pause(None));
        }
    }

    /// Does what [`pause_and_launch`](RunningKernel::pause_and_launch) does. The caller holds the lock.
    fn launch_in_pause(&self, planned: Option<&PlannedKernel>) -> Result<(), Error> {
        let old = self.kernel();
        self.check_running()?;
        let residence = old.launch.residence.as_ref();
        residence.inspect(|residence| residence.keep_room());
        let launched = self.retire_and_launch(&old, planned);
        // The next launch has taken what was reserved, unless it is on another device, or there is none.
        residence.inspect(|residence| residence.give_up_room());
        launched
    }

    /// Lets the running kernel end while its room is reserved, and launches the planned one or itself again.
    fn retire_and_launch(&self, old: &SessionKernel, planned: Option<&PlannedKernel>) -> Result<(), Error> {
        let rings = &self.served.rings;
        self.served.retire_run()?;
        // Whoever asked the session to make way has what it wants.
        rings.wait_list.clear_way_asked();
        // Producers go on until the next run is launched, so what takes long is done before.
        let prepared = planned.map(|planned| planned.prepare(rings, old));
        let mut failed = None;
        self.served.launch_next(old.spec.lease, || {
            if planned.is_some_and(|planned| planned.moves) {
                // Not every device issues a fence when its run is woken, and the next run relies on one.
                fence_all_threads();
            }
            let launched = prepared.map(|kernel| kernel.and_then(SessionKernel::launched));
            match launched {
                Some(Ok((kernel, run))) => {
                    // Before anyone can look up a new opcode, producers know that its tasks need cells.
                    if let Some(cells) = &rings.cells {
                        cells.add_ops(&kernel.layout.resumable_ops);
                    }
                    *self.kernel.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kernel);
                    return Ok(run);
                }
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            begin_next_run(rings, old)?;
            old.loaded.launch(&old.launch).map_err(|error| match self.stopping.load(Ordering::Relaxed) {
                true => Error::Ended(SessionEnd::Stopped),
                false => error.into(),
            })
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// Makes the residence of the kernels that serve rings: when the device asks, the session's reaper makes way.
pub(super) fn residence_of(rings: &Rings) -> Arc<Residence> {
    let list = rings.wait_list.clone();
    Arc::new(Residence::new(move || list.ask_way()))
}
