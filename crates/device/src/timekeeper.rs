//! Deadlines and leases: each device has one thread that sets the stop words of launches whose time is up.
//!
//! A kernel only looks at its stop word, which costs a load; this thread looks at the time. It starts with the first launch that has
//! a deadline or a lease, and sleeps until the next of them ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::launch::{Launch, LaunchOutcome};

/// The stop word of a launch. It is zero until the launch is asked to end, and says why from then on.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    word: AtomicU32,
    /// When the lease ends, in nanoseconds since the timekeeper was made, if the launch has a lease.
    lease_ns: AtomicU64,
}

impl StopSignal {
    /// The word that kernels look at.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Asks the launch to end. The first reason that is given counts.
    pub(crate) fn set(&self, why: LaunchOutcome) {
        let _ = self.word.compare_exchange(0, why as u32 + 1, Ordering::Release, Ordering::Relaxed);
    }

    /// Why the launch was asked to end, or `None` if it was not.
    pub(crate) fn why(&self) -> Option<LaunchOutcome> {
        let all =
            [LaunchOutcome::Done, LaunchOutcome::Stopped, LaunchOutcome::Deadline, LaunchOutcome::Lease];
        all.into_iter().find(|why| *why as u32 + 1 == self.word.load(Ordering::Acquire))
    }
}

/// A launch with a deadline or a lease.
struct TimedLaunch {
    stop: Weak<StopSignal>,
    /// Called after the stop word was set, so that parked groups see it.
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

/// Ends the launches of a device when their deadline or lease says so.
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
    /// Takes over a launch, to end it when its deadline or lease says so. `wake` is called after the stop word was set.
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

    /// Starts a lease anew. The thread need not be told, because it looks again when the old lease ends.
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
    /// Ends the launch if its time is up. Gives when to look again, or `None` if the launch has ended or was ended now.
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

/// Waits for at most `timeout` while a condition holds of what a lock guards. Gives `None` if the condition still holds then.
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
