//! Deadlines and leases: one thread a device that sets stop words when time is up.
//!
//! Kernels look at their stop word alone, which costs a load; time is looked at here. The thread starts with the first
//! launch that needs it and sleeps until the next end.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::launch::{Launch, LaunchOutcome};

/// A launch's stop word: zero while it runs, else why it ends.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    word: AtomicU32,
    /// When the lease ends, in nanoseconds since the watch was made; never if zero.
    lease_ns: AtomicU64,
}

impl StopSignal {
    /// For kernels to look at.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Ends the launch, unless it is ending for another reason.
    pub(crate) fn set(&self, why: LaunchOutcome) {
        let _ = self.word.compare_exchange(0, why as u32 + 1, Ordering::Release, Ordering::Relaxed);
    }

    /// Why the launch ends, if it was told to.
    pub(crate) fn why(&self) -> Option<LaunchOutcome> {
        let all =
            [LaunchOutcome::Done, LaunchOutcome::Stopped, LaunchOutcome::Deadline, LaunchOutcome::Lease];
        all.into_iter().find(|why| *why as u32 + 1 == self.word.load(Ordering::Acquire))
    }
}

/// What the thread watches over.
struct TimedLaunch {
    stop: Weak<StopSignal>,
    /// Called after the stop word was set, so that parked groups look.
    wake: Box<dyn Fn() + Send>,
    deadline: Option<Instant>,
    leased: bool,
}

#[derive(Default)]
struct TimekeeperState {
    entries: Vec<TimedLaunch>,
    thread: Option<JoinHandle<()>>,
    closed: bool,
}

struct TimekeeperShared {
    start: Instant,
    state: Mutex<TimekeeperState>,
    changed: Condvar,
}

/// Watches over the launches of a device.
pub(crate) struct Timekeeper(Arc<TimekeeperShared>);

impl std::fmt::Debug for Timekeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Timekeeper")
    }
}

impl Default for Timekeeper {
    fn default() -> Self {
        Timekeeper(Arc::new(TimekeeperShared {
            start: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }
}

impl Timekeeper {
    /// Ends a launch when its deadline or lease says so.
    pub(crate) fn add(&self, stop: &Arc<StopSignal>, launch: &Launch, wake: impl Fn() + Send + 'static) {
        if launch.deadline.is_none() && launch.lease.is_none() {
            return;
        }
        self.renew(stop, launch.lease);
        let entry = TimedLaunch {
            stop: Arc::downgrade(stop),
            wake: Box::new(wake),
            deadline: launch.deadline.and_then(|after| Instant::now().checked_add(after)),
            leased: launch.lease.is_some(),
        };
        let mut state = self.0.lock();
        state.entries.push(entry);
        if state.thread.is_none() {
            let shared = self.0.clone();
            state.thread = std::thread::Builder::new()
                .name("pelton-timer".into())
                .spawn(move || shared.keep_time())
                .ok();
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Extends a lease from now. The thread need not know: it looks again when the old one ends.
    pub(crate) fn renew(&self, stop: &StopSignal, lease: Option<Duration>) {
        if let Some(lease) = lease {
            let until = self.0.start.elapsed().saturating_add(lease).as_nanos();
            stop.lease_ns.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

impl TimekeeperShared {
    fn lock(&self) -> MutexGuard<'_, TimekeeperState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn keep_time(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            let mut next: Option<Instant> = None;
            state.entries.retain(|entry| match entry.check(self.start, now) {
                Some(end) => {
                    next = Some(next.map_or(end, |next| next.min(end)));
                    true
                }
                None => false,
            });
            state = match next {
                Some(end) => {
                    let wait = self.changed.wait_timeout(state, end.saturating_duration_since(now));
                    wait.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
    }
}

impl TimedLaunch {
    /// When to look again; none if the launch has ended or was ended now.
    fn check(&self, start: Instant, now: Instant) -> Option<Instant> {
        let stop = self.stop.upgrade()?;
        let lease = self.leased.then(|| start + Duration::from_nanos(stop.lease_ns.load(Ordering::Relaxed)));
        let over = match (self.deadline, lease) {
            (Some(deadline), _) if deadline <= now => Some(LaunchOutcome::Deadline),
            (_, Some(lease)) if lease <= now => Some(LaunchOutcome::Lease),
            _ => None,
        };
        if let Some(why) = over {
            stop.set(why);
            (self.wake)();
            return None;
        }
        match (self.deadline, lease) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let thread = state.thread.take();
        drop(state);
        self.0.changed.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Waits while something holds of what a lock guards, at most so long. None if it still holds then.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
    holds: impl Fn(&mut T) -> bool,
) -> Option<MutexGuard<'a, T>> {
    match timeout {
        Some(timeout) => {
            let wait = changed.wait_timeout_while(guard, timeout, &holds);
            let (mut guard, _) = wait.unwrap_or_else(|poisoned| poisoned.into_inner());
            (!holds(&mut guard)).then_some(guard)
        }
        None => Some(changed.wait_while(guard, holds).unwrap_or_else(|poisoned| poisoned.into_inner())),
    }
}
