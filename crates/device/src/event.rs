//! An eventcount: workers park without losing a wake-up, and publishers pay almost nothing while no worker is parked.
//!
//! A worker that found nothing *announces* itself, looks once more, and parks only if no wake came in between. A
//! publisher stores its words, then calls [`Event::wake`]. A worker may publish for other workers.
//!
//! **Why no wake-up is lost.** Both sides have a sequentially consistent fence between their write and their read: the
//! worker announces itself and then reads the words, the publisher writes the words and then reads how many workers are
//! announced. So either the worker sees the words, or the publisher sees the worker. In that case, it begins a new
//! *epoch*, and then notifies those that sleep under the lock. The worker compares the epoch under the same lock before
//! it sleeps, so it does not sleep or is notified. A worker that announces itself in the new epoch has acquired it, and
//! sees the words when it looks.
//!
//! **Why a wake is cheap.** Announcements belong to an epoch, so a new one takes all of them back at once. Whoever wakes
//! next finds none, and pays for a fence and a load, until a worker announces itself again. So a worker that finds
//! something after it has announced itself, and is busy from then on, makes one wake slower and not all.

use std::time::Duration;

#[cfg(any(target_os = "linux", not(feature = "loom")))]
use crate::launch::WakeWord;

use sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence};

/// Atomics and locks: std's, or loom's where interleavings are explored.
mod sync {
    #[cfg(feature = "loom")]
    pub use loom::sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    };
    #[cfg(not(feature = "loom"))]
    pub(super) use std::sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering, fence},
    };
}

/// An eventcount, where workers park and publishers wake them. See the [module](self) for how to use it.
#[derive(Debug)]
pub struct Event {
    /// The number of the epoch in the upper half, and how many workers are announced in it in the lower half.
    state: EventState,
    /// How many workers sleep.
    asleep: Mutex<u32>,
    moved: Condvar,
}

/// The epoch in which a worker has announced itself. A worker gets it from [`Event::announce`] and passes it to
/// [`Event::park`] or [`Event::cancel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParkKey(u32);

impl Default for Event {
    fn default() -> Self {
        Event::with_state(EventState::Own(AtomicU64::new(0)))
    }
}

/// Where the word of an eventcount lies.
#[derive(Debug)]
enum EventState {
    Own(AtomicU64),
    /// In memory that several processes map.
    #[cfg(not(feature = "loom"))]
    Lent(WakeWord),
}

impl std::ops::Deref for EventState {
    type Target = AtomicU64;

    #[inline]
    fn deref(&self) -> &AtomicU64 {
        match self {
            EventState::Own(word) => word,
            #[cfg(not(feature = "loom"))]
            EventState::Lent(word) => word.word(),
        }
    }
}

/// The epoch of a state.
fn epoch_of(state: u64) -> u32 {
    (state >> 32) as u32
}

/// How many workers are announced in a state.
fn announced_in(state: u64) -> u32 {
    state as u32
}

/// The state in which the next epoch begins.
fn next_epoch(state: u64) -> u64 {
    (state | u64::from(u32::MAX)).wrapping_add(1)
}

/// Begins a new epoch if workers have announced themselves, which takes all of their announcements back. The caller has
/// published something before. Returns whether an epoch has begun: then somebody has to call [`Event::notify`].
pub(crate) fn begin_epoch(state: &AtomicU64) -> bool {
    // Pairs with the fence in `announce`.
    fence(Ordering::SeqCst);
    if announced_in(state.load(Ordering::Relaxed)) == 0 {
        return false;
    }
    let begin = |state| (announced_in(state) != 0).then(|| next_epoch(state));
    // Pairs with the acquires in `announce`, `withdraw` and `park`. If this fails, somebody else has taken all announcements
    // back, and notifies those that sleep.
    state.fetch_update(Ordering::Release, Ordering::Relaxed, begin).is_ok()
}

/// Begins a new epoch of the eventcount whose word another process has lent, as [`begin_epoch`] does. Explorations with loom
/// have no other processes.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn begin_lent_epoch(word: &WakeWord) -> bool {
    #[cfg(not(feature = "loom"))]
    let begun = begin_epoch(word.word());
    #[cfg(feature = "loom")]
    let begun = word.word().load(Ordering::Relaxed) != 0;
    begun
}

impl Event {
    fn with_state(state: EventState) -> Self {
        Event { state, asleep: Mutex::new(0), moved: Condvar::new() }
    }

    /// Makes an eventcount whose word lies in memory that several processes map, so that a publisher in another process can
    /// [begin](begin_epoch) an epoch.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn in_shared_memory(word: WakeWord) -> Self {
        Event::with_state(EventState::Lent(word))
    }

    /// Announces that the caller is about to park. The caller must then check once more for what it waits for, and call
    /// [`park`](Event::park) or [`cancel`](Event::cancel).
    pub fn announce(&self) -> ParkKey {
        // Pairs with the release in `wake`: a worker that sees the new epoch sees what was published before it.
        let before = self.state.fetch_add(1, Ordering::Acquire);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        ParkKey(epoch_of(before))
    }

    /// Takes back an announcement, if the worker does not need to park after all.
    pub fn cancel(&self, key: ParkKey) {
        self.withdraw(key);
    }

    /// Takes back an announcement, unless a wake has done so. Returns whether a wake has.
    fn withdraw(&self, key: ParkKey) -> bool {
        let without = |state| (epoch_of(state) == key.0).then(|| state - 1);
        // Pairs with the release in `wake`, which has taken the announcement back.
        self.state.fetch_update(Ordering::Relaxed, Ordering::Acquire, without).is_err()
    }

    /// Sleeps until a [`wake`](Event::wake) that came after the announcement, or for at most `timeout`. This ends the
    /// announcement. It may return early, so the caller must check again. Returns whether there was a wake.
    pub fn park(&self, key: ParkKey, timeout: Option<Duration>) -> bool {
        let mut asleep = self.lock();
        while epoch_of(self.state.load(Ordering::Acquire)) == key.0 {
            *asleep += 1;
            match timeout {
                // A spurious return is as good as a timeout, because the caller checks again.
                Some(timeout) => {
                    let woken = self.moved.wait_timeout(asleep, timeout);
                    asleep = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                    *asleep -= 1;
                    break;
                }
                None => {
                    asleep = self.moved.wait(asleep).unwrap_or_else(|poisoned| poisoned.into_inner());
                    *asleep -= 1;
                }
            }
        }
        drop(asleep);
        self.withdraw(key)
    }

    /// Wakes every worker that announced itself before it could see what the caller has published.
    pub fn wake(&self) {
        if begin_epoch(&self.state) {
            self.notify();
        }
    }

    /// Wakes the workers that sleep, after an epoch has [begun](begin_epoch).
    pub(crate) fn notify(&self) {
        // A worker that still saw the old epoch sleeps by the time that the lock is free.
        let sleepers = *self.lock();
        if sleepers != 0 {
            self.moved.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.asleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
