//! The reaper: the thread of a session that wakes futures, tells the kernel that its host is alive, [makes
//! way](super::running) for others when the device asks for it, takes [checkpoints](super::checkpoint) that producers need,
//! and [recovers](super::recovery) when the device is lost.
//!
//! A GPU cannot wake a future, so a thread of the host has to look at the records. The reaper does so while futures
//! wait. While no future waits the reaper is parked, and wakes up only to renew the kernel's lease, to make way or to recover.
//!
//! **How it ends.** Waking a parked thread and joining it takes a good part of the time of a stop. So nobody joins the
//! reaper: whoever closes the session asks it to end, wakes the futures that still wait, and goes on. The reaper may
//! therefore live a little longer than its session, and must not keep anything of it. It uses the session in *turns*,
//! during which it holds a lock, and keeps only a weak reference in between. A turn takes no longer than a pause. Once the
//! reaper was asked to end and the lock was free, there is no other turn.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::rings::{Rings, Stripe, WaitList};
use super::run::lease_beat;
use super::running::RunningKernel;
use crate::deadline::PollBackoff;
use crate::error::Error;
use crate::protocol::control;
use crate::simulated;

/// What the thread keeps between two turns.
struct Reaper {
    running: Weak<RunningKernel>,
    list: Arc<WaitList>,
    /// How often the kernel is told that its host is alive.
    beat: Duration,
    /// When it is told next.
    next_beat: Instant,
    backoff: PollBackoff,
}

/// The thread in which a reaper lives.
#[derive(Debug)]
pub(super) enum ReaperThread {
    Spawned(JoinHandle<()>),
    /// None: a simulation lets the reaper take its turns.
    #[cfg(feature = "inject")]
    ByHand {
        _reaper: by_hand::OwnedReaper,
    },
}

impl ReaperThread {
    /// Whether this is another thread than the caller's.
    fn is_other_thread(&self) -> bool {
        match self {
            ReaperThread::Spawned(thread) => thread.thread().id() != std::thread::current().id(),
            #[cfg(feature = "inject")]
            ReaperThread::ByHand { .. } => false,
        }
    }
}

/// Reapers without a thread.
#[cfg(feature = "inject")]
mod by_hand {
    use std::fmt;
    use std::sync::{Arc, Mutex};

    use super::{Reaper, ReaperThread};
    use crate::simulated::{HandReaper, add_reaper};

    /// A reaper that exists for as long as its session.
    pub(crate) struct OwnedReaper {
        _reaper: Arc<Mutex<Reaper>>,
    }

    impl fmt::Debug for OwnedReaper {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("OwnedReaper").finish_non_exhaustive()
        }
    }

    impl HandReaper for Reaper {
        fn take_turn(&mut self) -> Option<bool> {
            Reaper::take_turn(self)
        }
    }

    /// Lets the simulation of this thread give turns to a reaper.
    pub(super) fn add(reaper: Reaper) -> ReaperThread {
        let reaper = Arc::new(Mutex::new(reaper));
        let weak = Arc::downgrade(&reaper);
        add_reaper(weak);
        ReaperThread::ByHand { _reaper: OwnedReaper { _reaper: reaper } }
    }
}

/// Starts the reaper of a session. `lease` is how long the kernel runs without a sign of life from the host.
pub(super) fn start_reaper(running: &Arc<RunningKernel>, lease: Duration) -> Result<ReaperThread, Error> {
    let mut reaper = Reaper {
        running: Arc::downgrade(running),
        list: running.served.rings.wait_list.clone(),
        beat: lease_beat(lease),
        next_beat: simulated::now(),
        backoff: PollBackoff::default(),
    };
    #[cfg(feature = "inject")]
    if simulated::is_simulated() {
        return Ok(by_hand::add(reaper));
    }
    let thread = std::thread::Builder::new().name("pelton-reaper".into());
    thread.spawn(move || reaper.run()).map(ReaperThread::Spawned).map_err(Error::Thread)
}

/// Ends the reaper of a session that has ended, and wakes the futures that still wait, which then find that it has ended.
/// When this returns, the reaper keeps nothing of the session, unless it is the caller: then a future that it has woken has
/// dropped the session, and the reaper's turn still goes on.
pub(super) fn end_reaper(rings: &Rings, reaper: &ReaperThread) {
    rings.wait_list.close();
    if reaper.is_other_thread() {
        drop(rings.wait_list.lock_turn());
    }
    // Either this look sees a future that registers, or the future sees that the session has ended: see `WaitList::close`.
    wake_ready(rings);
}

impl Reaper {
    /// Runs until the session closes.
    fn run(&mut self) {
        loop {
            let key = self.list.event.announce();
            let left = self.next_beat.saturating_duration_since(Instant::now());
            let idle = self.list.futures.load(Ordering::Acquire) == 0 && !self.list.is_way_asked();
            let idle = idle && !self.list.is_recovery_asked() && !self.list.is_checkpoint_asked();
            if idle && !left.is_zero() && !self.list.is_closing() {
                self.list.event.park(key, Some(left));
                self.backoff = PollBackoff::default();
                continue;
            }
            self.list.event.cancel(key);
            match self.take_turn() {
                None => return,
                Some(true) => self.backoff = PollBackoff::default(),
                Some(false) => self.backoff.pause(),
            }
        }
    }

    /// Recovers from a loss, makes way and takes a checkpoint if the session was asked to, renews the lease if it is time to, and wakes what is
    /// ready. Returns whether anything was woken, or `None` if the session closes.
    fn take_turn(&mut self) -> Option<bool> {
        let _turn = self.list.lock_turn();
        // Pairs with the release of the lock in `end_reaper`: if that came first, this is seen.
        if self.list.is_closing() {
            return None;
        }
        // This is dropped before the lock is, because locals are dropped in reverse order.
        let running = self.running.upgrade()?;
        let served = &*running.served;
        if self.list.is_recovery_asked() {
            running.recover();
        }
        if self.list.is_way_asked() {
            running.make_way();
        }
        if self.list.is_checkpoint_asked() {
            running.take_asked_checkpoint();
        }
        if simulated::now() >= self.next_beat {
            served.renew();
            served.rings.host_words[control::HEARTBEAT as usize].fetch_add(1, Ordering::Relaxed);
            served.check_for_end();
            self.next_beat = simulated::now() + self.beat;
        }
        let woken = wake_ready(&served.rings);
        if !woken && self.backoff.is_slow() {
            served.check_for_end();
        }
        Some(woken)
    }
}

/// Wakes every future whose tasks have ended and every producer that may have room now. Returns whether anything was
/// woken.
fn wake_ready(rings: &Rings) -> bool {
    let list = &rings.wait_list;
    let mut woken = false;
    for stripe in &rings.stripes {
        if stripe.futures.load(Ordering::Relaxed) != 0 {
            woken |= wake_futures(rings, stripe);
        }
    }
    if list.rooms_waiting.load(Ordering::Relaxed) != 0 {
        for (producer, room) in (0..).zip(&list.rooms) {
            woken |= room.wake(rings, producer);
        }
    }
    woken
}

/// Wakes the futures of a stripe whose tasks have ended. Returns whether anything was woken.
fn wake_futures(rings: &Rings, stripe: &Stripe) -> bool {
    if stripe.has_cells() {
        // Pairs with the release of the producer that began the use.
        let used = stripe.cell_uses.iter().map(|used| used.load(Ordering::Acquire));
        return wake_futures_at(rings, stripe, used.filter(|position| *position != 0));
    }
    let (from, to) = (stripe.free.load(Ordering::Relaxed), stripe.tail.load(Ordering::Acquire));
    wake_futures_at(rings, stripe, from..to)
}

/// Wakes the futures at some positions of a stripe whose tasks have ended. Returns whether anything was woken.
fn wake_futures_at(rings: &Rings, stripe: &Stripe, positions: impl Iterator<Item = u64>) -> bool {
    let waiters = stripe.waiters();
    let over = !rings.state.is_running();
    let mut woken = false;
    for position in positions {
        let place = stripe.waiter_place(position);
        // Pairs with the release of the future that registered: its waker is in place.
        let count = waiters.spans[place].load(Ordering::Acquire);
        if count == 0
            || !over
                && stripe.ring.frontier(position, position + u64::from(count)) < position + u64::from(count)
        {
            continue;
        }
        if waiters.spans[place].swap(0, Ordering::AcqRel) != 0 {
            stripe.futures.fetch_sub(1, Ordering::Relaxed);
            rings.wait_list.futures.fetch_sub(1, Ordering::Relaxed);
        }
        waiters.wakers[place].wake();
        woken = true;
    }
    woken
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake};
    use std::time::Duration;

    use crate::{Opcode, Session, Spec, Task, Tenant};

    /// A waker that takes long.
    #[derive(Default)]
    struct SlowWaker(AtomicBool);

    impl Wake for SlowWaker {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Catches a reaper that keeps the memory of a session that was stopped.
    #[test]
    fn a_stop_waits_for_a_turn_that_is_under_way() {
        let spec = Spec::default().tenant(Tenant::new(0).mask(0));
        let session = Session::launch(&crate::device::open("cpu").unwrap(), &spec).unwrap();
        let mut ticket = session.producer(0).unwrap().submit(Task::new(Opcode::NOP)).unwrap();
        let waker = Arc::new(SlowWaker::default());
        let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker.clone().into()));
        assert!(polled.is_pending());
        session.set_mask(0, u32::MAX).unwrap();
        while !waker.0.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        drop(ticket);
        let served = Arc::downgrade(session.served());
        session.stop().unwrap();
        assert_eq!(served.strong_count(), 0, "nothing keeps the memory of the session");
    }
}
