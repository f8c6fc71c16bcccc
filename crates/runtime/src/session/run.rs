//! Runs: kernels on a device over the rings of a session, one after another.
//!
//! Producers wake the run after every submit, so reaching it must cost nothing. Each producer therefore keeps a
//! [`RunHandle`] of its own. The handle is right as long as the number of the run has not changed, and that number is
//! part of a word that the producer reads anyway. All others ask [`ServedRings`], behind a lock that is written only
//! when a run is replaced.
//!
//! **Why no wake is lost when a run is replaced.** The number of the new run is stored before that run is launched, and
//! a producer looks at the number after it has published and woken the run that it knows.
//! [`SessionState::next_run`](super::state::SessionState::next_run) says which fences stand in between. One of them
//! belongs to the wake of the run that is replaced. A device whose groups never park has a wake that does nothing, so when a
//! session [moves](super::move_to) to a device of another kind, all threads issue a fence before the launch. If the new run
//! is still being launched when the producer wants to wake it, the producer goes on, and [whoever launches the
//! run](ServedRings::wake) wakes it.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use pelton_device::{DeviceError, LaunchEnd, LaunchOutcome, Run};

use super::rings::Rings;
use super::ticket::SessionShare;
use crate::error::{Error, SessionEnd};
use crate::protocol::control;

/// How often a run is told that its host is alive, so that its lease does not end.
pub(super) fn lease_beat(lease: Duration) -> Duration {
    (lease / 4).max(Duration::from_millis(1))
}

/// A kernel that was launched over rings.
#[derive(Debug)]
pub(crate) struct KernelRun {
    /// The number of this run among the runs of the session, counted from 1.
    number: u64,
    launched: Box<dyn Run>,
    /// How long the kernel runs without a sign of life from the host.
    lease: Duration,
}

impl KernelRun {
    /// Launches a run. Its number is stored before the launch: if a producer does not see the number, the run sees what
    /// the producer has published.
    fn launch(
        rings: &Rings,
        lease: Duration,
        launch: impl FnOnce() -> Result<Box<dyn Run>, Error>,
    ) -> Result<Self, Error> {
        let number = rings.state.next_run();
        Ok(KernelRun { number, launched: launch()?, lease })
    }

    /// Wakes groups that are parked because they found nothing to do.
    pub(super) fn wake(&self) {
        self.launched.wake();
    }

    /// Tells the kernel that its host is alive.
    pub(super) fn renew(&self) {
        self.launched.renew();
    }

    /// Lets the device end the kernel, whatever it is doing.
    pub(super) fn stop(&self) {
        self.launched.stop();
    }

    /// Waits until the kernel has ended, for at most `timeout`. Returns `None` if it still runs then.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        self.launched.wait(timeout)
    }

    /// Returns what the end of this run means for the session, or `None` while it runs.
    fn session_end(&self, rings: &Rings) -> Option<SessionEnd> {
        match self.wait(Some(Duration::ZERO)) {
            Ok(None) => None,
            Ok(Some(LaunchEnd { outcome: LaunchOutcome::Lease, .. })) => Some(SessionEnd::Lease(self.lease)),
            Ok(Some(_)) if rings.shutdown_asked() => Some(SessionEnd::Stopped),
            Ok(Some(_)) => Some(SessionEnd::Returned),
            Err(error) => Some(SessionEnd::Device(Arc::new(error))),
        }
    }
}

/// A producer's own reference to the run that serves its rings.
#[derive(Debug)]
pub(crate) struct RunHandle(Arc<KernelRun>);

impl RunHandle {
    /// Wakes the run that serves the rings, after the caller has published tasks.
    #[inline]
    pub(super) fn wake(&mut self, share: &SessionShare) {
        self.0.launched.wake();
        if share.rings.state.run_number() != self.0.number {
            self.wake_successor(&share.served);
        }
    }

    /// Replaces the handle by one for the current run, and wakes that run. If that run is just being launched, whoever launches it
    /// wakes it.
    #[cold]
    fn wake_successor(&mut self, served: &ServedRings) {
        if let Some(run) = served.wake() {
            self.0 = run;
        }
    }
}

/// The rings of a session together with the run that serves them.
#[derive(Debug)]
pub(crate) struct ServedRings {
    pub rings: Arc<Rings>,
    current: RwLock<Arc<KernelRun>>,
}

impl ServedRings {
    /// Launches the first run over rings.
    pub(super) fn launch(
        rings: Arc<Rings>,
        lease: Duration,
        launch: impl FnOnce() -> Result<Box<dyn Run>, Error>,
    ) -> Result<Self, Error> {
        let run = KernelRun::launch(&rings, lease, launch)?;
        Ok(ServedRings { current: RwLock::new(Arc::new(run)), rings })
    }

    /// Wakes the current run and returns it, or returns `None` if that run is just being launched.
    ///
    /// A launch may have to wait until others have loaded code, and the caller must not. So whoever launches a run wakes it
    /// afterwards, when the lock is free. Both sides issue a fence between their write and their read. If the caller's fence comes
    /// first, the run that is woken later sees what the caller has published. If the other fence comes first, the caller finds
    /// the lock free.
    pub(super) fn wake(&self) -> Option<Arc<KernelRun>> {
        fence(Ordering::SeqCst);
        let run = self.try_current()?.clone();
        run.wake();
        Some(run)
    }

    /// Tells the current run that its host is alive, unless it is just being launched.
    pub(super) fn renew(&self) {
        if let Some(run) = self.try_current() {
            run.renew();
        }
    }

    /// Lets the device end the current run, unless it is just being launched.
    pub(super) fn stop(&self) {
        if let Some(run) = self.try_current() {
            run.stop();
        }
    }

    /// Lets the current run finish the tasks that it has taken, and waits until it has ended. Until the next run is
    /// launched, the end of this run is not the end of the session, so tickets notice nothing. If the run does not end as
    /// it was asked to, the error says how it has ended, and the caller decides what becomes of the session.
    pub(super) fn retire_run(&self) -> Result<(), SessionEnd> {
        let run = self.current_run();
        self.rings.ask_shutdown();
        run.wake();
        let beat = lease_beat(run.lease);
        loop {
            match run.wait(Some(beat)) {
                Ok(Some(LaunchEnd { outcome: LaunchOutcome::Done, .. })) => return Ok(()),
                // The tasks that it has taken may take longer than the lease, and the reaper may be the one who waits here.
                Ok(None) => run.renew(),
                _ => return Err(run.session_end(&self.rings).unwrap_or(SessionEnd::Returned)),
            }
        }
    }

    /// Launches the next run over the same rings, after the current one was [retired](ServedRings::retire_run), and wakes it for
    /// those who have published meanwhile. If no run is launched, the retired one stays in its place, and the caller decides what
    /// becomes of the session.
    pub(super) fn launch_next(
        &self,
        lease: Duration,
        launch: impl FnOnce() -> Result<Box<dyn Run>, Error>,
    ) -> Result<(), Error> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // The next run must not find that it is asked to end. Whoever looks for the end of a run needs the lock, so nobody
        // takes the end of the retired run for that of the session.
        self.rings.host_words[control::SHUTDOWN as usize].store(0, Ordering::Release);
        match KernelRun::launch(&self.rings, lease, launch) {
            Ok(run) => *current = Arc::new(run),
            Err(error) => return Err(error),
        }
        drop(current);
        self.wake();
        Ok(())
    }

    /// Returns the run that serves the rings now, or `None` if it is just being launched.
    fn try_current(&self) -> Option<RwLockReadGuard<'_, Arc<KernelRun>>> {
        match self.current.try_read() {
            Ok(current) => Some(current),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn current(&self) -> RwLockReadGuard<'_, Arc<KernelRun>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run that serves the rings now.
    pub(super) fn current_run(&self) -> Arc<KernelRun> {
        self.current().clone()
    }

    /// Returns a handle for a producer.
    pub(super) fn run_handle(&self) -> RunHandle {
        RunHandle(self.current_run())
    }

    /// Checks whether the kernel has ended by itself. If so, the session recovers or ends. It does not check if the kernel was
    /// asked to end or is just being replaced.
    pub(super) fn check_for_end(&self) {
        if !self.rings.state.is_running() || self.rings.shutdown_asked() {
            return;
        }
        let Some(current) = self.try_current() else { return };
        match current.session_end(&self.rings) {
            // The run was asked to end since the look above, by a stop, which notes the end itself, or by a hand-over, which
            // is not the end of the session.
            None | Some(SessionEnd::Stopped) => {}
            Some(end) if self.rings.recovers_from(&end) => self.rings.wait_list.ask_recovery(),
            Some(end) => self.rings.state.note_end(end),
        }
    }

    /// Returns how the current run has ended, or `None` while it runs.
    pub(super) fn run_end(&self) -> Option<SessionEnd> {
        self.current().session_end(&self.rings)
    }

    /// Ends the session if its kernel has ended.
    pub(super) fn note_end(&self) {
        // The lock is held, so the run is not replaced meanwhile.
        if let Some(end) = self.current().session_end(&self.rings) {
            self.rings.state.note_end(end);
        }
    }

    /// Returns how the session ended, or `None` while it runs.
    pub(super) fn session_end(&self) -> Option<SessionEnd> {
        self.check_for_end();
        self.rings.state.session_end()
    }
}
