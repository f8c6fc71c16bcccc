//! An eventcount: workers park without losing a wake-up, and publishers pay almost nothing while no worker is parked.
//!
//! A worker that found nothing *announces* itself, looks once more, and parks only if no wake came in between. A
//! publisher stores its words, then calls [`Event::wake`].
//!
//! **Why no wake-up is lost.** Both sides have a sequentially consistent fence between their write and their read: the
//! worker writes `waiters` and then reads the words, the publisher writes the words and then reads `waiters`. So either
//! the worker sees the words, or the publisher sees the worker; in that case it moves `epoch` under the lock, and the
//! worker, which compares `epoch` under the same lock before it sleeps, does not sleep or is woken. A worker that
//! already sees the new epoch when it announces has acquired it, and sees the words when it looks.

use std::time::Duration;

use sync::{AtomicU32, Condvar, Mutex, Ordering, fence};

/// Atomics and locks: std's, or loom's where interleavings are explored.
mod sync {
    #[cfg(feature = "loom")]
    pub use loom::sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering, fence},
    };
    #[cfg(not(feature = "loom"))]
    pub(super) use std::sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering, fence},
    };
}

/// An eventcount, where workers park and publishers wake them. See the [module](self) for how to use it.
#[derive(Debug)]
pub struct Event {
    epoch: AtomicU32,
    waiters: AtomicU32,
    lock: Mutex<()>,
    moved: Condvar,
}

/// What a worker gets from [`Event::announce`] and passes to [`Event::park`] or [`Event::cancel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParkKey(u32);

impl Default for Event {
    fn default() -> Self {
        Event {
            epoch: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            lock: Mutex::new(()),
            moved: Condvar::new(),
        }
    }
}

impl Event {
    /// Announces that the caller is about to park. The caller must then check once more for what it waits for, and call
    /// [`park`](Event::park) or [`cancel`](Event::cancel).
    pub fn announce(&self) -> ParkKey {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        // Pairs with the release in `wake`: a worker that sees the new epoch sees what was published before it.
        ParkKey(self.epoch.load(Ordering::Acquire))
    }

    /// Takes back an announcement, if the worker does not need to park after all.
    pub fn cancel(&self, _key: ParkKey) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps until a [`wake`](Event::wake) that came after the announcement, or for at most `timeout`. This ends the announcement. It
    /// may return early, so the caller must check again.
    pub fn park(&self, key: ParkKey, timeout: Option<Duration>) {
        let mut guard = self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while self.epoch.load(Ordering::Acquire) == key.0 {
            match timeout {
                // A spurious return is as good as a timeout, because the caller checks again.
                Some(timeout) => {
                    drop(self.moved.wait_timeout(guard, timeout));
                    break;
                }
                None => guard = self.moved.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()),
            }
        }
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes every worker that announced itself before it could see what the caller has published.
    pub fn wake(&self) {
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) == 0 {
            return;
        }
        let guard = self.lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Pairs with the acquires in `announce` and `park`.
        self.epoch.fetch_add(1, Ordering::Release);
        drop(guard);
        self.moved.notify_all();
    }
}
