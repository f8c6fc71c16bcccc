//! The kernel that a session runs now, and the pause in which it makes room for another launch.
//!
//! Two may want to begin a pause at the same time: a [hand-over](super::handover), and the reaper when the device asks the
//! session to *make way*. A device that loads code only between kernels asks for that when somebody else wants to load: a
//! session that is launched or handed over, or a drained batch. The session then lets its kernel end as in a hand-over, and
//! launches it again at once. The device holds the launch back until the code is loaded, and keeps the room of the kernel
//! for it. To producers and tickets this is one more hand-over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError, Weak};

use pelton_device::process_fence::fence_all_threads;
use pelton_device::{Device, DeviceError, Residence};

use super::graphs::GraphTable;
use super::handover::{PlannedKernel, begin_next_run};
use super::kernel::SessionKernel;
use super::memory::BufferMemories;
use super::recovery::RecoveryHook;
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
    /// The memory of the rings as other devices reach it that the session has moved to.
    pub(super) adopted: Mutex<Vec<(Weak<dyn Device>, BufferMemories)>>,
    /// The devices to try after the session's own was lost.
    pub(super) failover: Mutex<Vec<Arc<dyn Device>>>,
    /// What is done before a kernel is launched after a loss.
    pub(super) hook: Mutex<Option<RecoveryHook>>,
    /// The graphs that the session has taken.
    pub(super) graphs: GraphTable,
    /// Held while a control word is changed, and while a kernel that begins after a loss gets its copy of the words.
    words: Mutex<()>,
    /// The residence of a kernel that is just being launched after a loss.
    launching: Mutex<Option<Arc<Residence>>>,
}

/// Why no run serves the rings after a pause.
enum NoRun {
    /// The run has ended in another way than it was asked to.
    Ended(SessionEnd),
    /// The run has ended as it was asked to, and no other was launched.
    NotLaunched(SessionEnd),
}

/// How a pause ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PauseEnd {
    /// The planned kernel was launched, or the same one again.
    Launched,
    /// The session has recovered, in this pause or since the next kernel was planned. What was planned was not launched, and no
    /// longer fits.
    Recovered,
}

impl RunningKernel {
    /// Takes the kernel that was launched first.
    pub(super) fn new(served: ServedRings, kernel: SessionKernel) -> Self {
        RunningKernel {
            served: Arc::new(served),
            kernel: RwLock::new(Arc::new(kernel)),
            pause: Mutex::new(()),
            stopping: AtomicBool::new(false),
            adopted: Mutex::default(),
            failover: Mutex::default(),
            hook: Mutex::default(),
            graphs: GraphTable::default(),
            words: Mutex::new(()),
            launching: Mutex::default(),
        }
    }

    /// Returns the kernel that runs now.
    pub(super) fn kernel(&self) -> Arc<SessionKernel> {
        self.kernel.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the kernel that runs now. The caller holds the lock of the pause.
    pub(super) fn set_kernel(&self, kernel: Arc<SessionKernel>) {
        if let Some(recovery) = &self.served.rings.recovery {
            recovery.set_once_ops(&kernel.spec);
        }
        *self.kernel.write().unwrap_or_else(PoisonError::into_inner) = kernel;
    }

    pub(super) fn lock_pause(&self) -> MutexGuard<'_, ()> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from changing control words, and a kernel that begins after a loss from copying them.
    pub(super) fn lock_words(&self) -> MutexGuard<'_, ()> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is being stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Says which residence a launch has that is about to begin, or that there is none any more. A stop cancels it.
    pub(super) fn set_launching(&self, residence: Option<Arc<Residence>>) {
        let mut launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        // A stop says that it stops before it looks for the residence, and this happens behind the same lock.
        if let Some(residence) = residence.as_ref().filter(|_| self.is_stopping()) {
            residence.cancel();
        }
        *launching = residence;
    }

    /// Waits until no pause is under way, and keeps others from beginning one, because the session is being stopped. A launch that
    /// waits for others is given up. If the deadline passes while a run is to end, the device ends it, which is the second
    /// part of the result.
    pub(super) fn stop_pauses(&self, deadline: Deadline) -> (MutexGuard<'_, ()>, bool) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(residence) = &self.kernel().launch.residence {
            residence.cancel();
        }
        if let Some(residence) = &*self.launching.lock().unwrap_or_else(PoisonError::into_inner) {
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
    /// is launched again. If the run turns out to be lost, the session recovers instead, if it does.
    pub(super) fn pause_and_launch(&self, planned: Option<&PlannedKernel>) -> Result<PauseEnd, Error> {
        let _pause = self.lock_pause();
        match planned {
            // What has ended with the old handlers must not run once more with the new ones.
            Some(_) => self.launch_in_pause(planned, |old| self.take_checkpoint(old)),
            None => self.launch_in_pause(None, |_| Ok(())),
        }
    }

    /// Makes way for others, if the session was asked to and has not done so since. If the kernel cannot be launched again, the
    /// session has ended, and whoever uses it finds out.
    pub(super) fn make_way(&self) {
        let _pause = self.lock_pause();
        if self.served.rings.wait_list.clear_way_asked() {
            drop(self.launch_in_pause(None, |_| Ok(())));
        }
    }

    /// Does what [`pause_and_launch`](RunningKernel::pause_and_launch) does, and lets `work` use the memory of the old kernel
    /// while nothing runs. If that fails, the old kernel is launched again. The caller holds the lock.
    pub(super) fn launch_in_pause(
        &self,
        planned: Option<&PlannedKernel>,
        work: impl FnOnce(&SessionKernel) -> Result<(), Error>,
    ) -> Result<PauseEnd, Error> {
        let old = self.kernel();
        self.check_running()?;
        if planned.is_some_and(|planned| !Arc::ptr_eq(&planned.follows, &old)) {
            return Ok(PauseEnd::Recovered);
        }
        let residence = old.launch.residence.as_ref();
        residence.inspect(|residence| residence.keep_room());
        let launched = self.retire_and_launch(&old, planned, work);
        // The next launch has taken what was reserved, unless it is on another device, or there is none.
        residence.inspect(|residence| residence.give_up_room());
        match launched {
            Ok(None) => Ok(PauseEnd::Launched),
            Ok(Some(failed)) => Err(failed),
            Err(NoRun::Ended(end)) => self.recover_in_pause(end).map(|()| PauseEnd::Recovered),
            Err(NoRun::NotLaunched(end)) => self.go_on_after(end).map(|()| PauseEnd::Recovered),
        }
    }

    /// Lets the running kernel end while its room is reserved, and launches the planned one or itself again. Returns why the
    /// planned one was not launched, or fails if nothing was launched.
    fn retire_and_launch(
        &self,
        old: &SessionKernel,
        planned: Option<&PlannedKernel>,
        work: impl FnOnce(&SessionKernel) -> Result<(), Error>,
    ) -> Result<Option<Error>, NoRun> {
        let rings = &self.served.rings;
        self.served.retire_run().map_err(NoRun::Ended)?;
        // Whoever asked the session to make way has what it wants.
        rings.wait_list.clear_way_asked();
        // Producers go on until the next run is launched, so what takes long is done before.
        let mut failed = match work(old) {
            Err(Error::Device(error @ (DeviceError::Lost(_) | DeviceError::Fault { .. }))) => {
                return Err(NoRun::Ended(SessionEnd::Device(Arc::new(error))));
            }
            worked => worked.err(),
        };
        let planned = planned.filter(|_| failed.is_none());
        let prepared = planned.map(|planned| planned.prepare(rings, old));
        let launched = self.served.launch_next(old.spec.lease, || {
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
                    self.set_kernel(Arc::new(kernel));
                    return Ok(run);
                }
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            begin_next_run(rings, old)?;
            old.loaded.launch(&old.launch).map_err(|error| match self.is_stopping() {
                true => Error::Ended(SessionEnd::Stopped),
                false => error.into(),
            })
        });
        match launched {
            Ok(()) => Ok(failed),
            Err(Error::Device(error)) => Err(NoRun::NotLaunched(SessionEnd::Device(Arc::new(error)))),
            Err(Error::Ended(end)) => Err(NoRun::NotLaunched(end)),
            Err(_) => Err(NoRun::NotLaunched(SessionEnd::Returned)),
        }
    }
}

/// Makes the residence of the kernels that serve rings: when the device asks, the session's reaper makes way.
pub(super) fn residence_of(rings: &Rings) -> Arc<Residence> {
    let list = rings.wait_list.clone();
    Arc::new(Residence::new(move || list.ask_way()))
}
