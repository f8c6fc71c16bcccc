//! The reaper: the thread of a session that wakes futures and tells the kernel that its host is alive.
//!
//! It also [makes way](super::running) for others when the device asks for that.
//!
//! A GPU cannot wake a future, so a thread of the host has to look at the records. The reaper does so while futures
//! wait. While no future waits the reaper is parked, and wakes up only to renew the kernel's lease.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::rings::{Rings, Stripe};
use super::running::RunningKernel;
use crate::deadline::PollBackoff;
use crate::protocol::control;

/// Runs until the session closes. `lease` is how long the kernel runs without a sign of life from the host.
pub(super) fn run_reaper(running: &RunningKernel, lease: Duration) {
    let served = &*running.served;
    let rings = &*served.rings;
    let list = &rings.wait_list;
    let beat = (lease / 4).max(Duration::from_millis(1));
    let mut next = Instant::now();
    let mut backoff = PollBackoff::default();
    while !list.is_closing() {
        if rings.way_asked.load(Ordering::Relaxed) {
            running.make_way();
        }
        if Instant::now() >= next {
            served.current_run().renew();
            rings.host_words[control::HEARTBEAT as usize].fetch_add(1, Ordering::Relaxed);
            served.check_for_end();
            next = Instant::now() + beat;
        }
        let key = list.event.announce();
        let is_idle = list.futures.load(Ordering::Acquire) == 0 && !rings.way_asked.load(Ordering::Relaxed);
        if is_idle && !list.is_closing() {
            list.event.park(key, Some(next.saturating_duration_since(Instant::now())));
            backoff = PollBackoff::default();
            continue;
        }
        list.event.cancel(key);
        if wake_ready(rings) {
            backoff = PollBackoff::default();
        } else {
            if backoff.is_slow() {
                served.check_for_end();
            }
            backoff.pause();
        }
    }
    // Pairs with the fence in `Event::wake`: either the last look below sees a future that registers, or the future
    // sees that the session has ended.
    fence(Ordering::SeqCst);
    // Futures that still wait are woken, and find that the session has ended.
    wake_ready(rings);
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
