//! The thread that wakes futures, and tells the kernel that its host lives.
//!
//! A GPU cannot wake a future, so someone must look at its records. The reaper does while futures wait, and is parked while
//! none do, but for the kernel's lease.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use super::core::{Core, Stripe};
use crate::deadline::Pause;
use crate::protocol::control;

/// Runs until the session closes.
pub(super) fn run(core: &Core) {
    let beat = (core.spec.lease / 4).max(Duration::from_millis(1));
    let mut next = Instant::now();
    let mut pause = Pause::default();
    while core.closing.load(Ordering::Acquire) == 0 {
        if Instant::now() >= next {
            core.run.renew();
            core.host[control::HEARTBEAT as usize].fetch_add(1, Ordering::Relaxed);
            core.watch();
            next = Instant::now() + beat;
        }
        let key = core.event.announce();
        if core.waiting.load(Ordering::Acquire) == 0 && core.closing.load(Ordering::Acquire) == 0 {
            core.event.park(key, Some(next.saturating_duration_since(Instant::now())));
            pause = Pause::default();
            continue;
        }
        core.event.cancel(key);
        if sweep(core) {
            pause = Pause::default();
        } else {
            if pause.slow() {
                core.watch();
            }
            pause.turn();
        }
    }
    // Pairs with the fence in `Event::wake`: whoever registers either is seen here, or sees that the session has ended.
    fence(Ordering::SeqCst);
    // Whoever still waits is told that the session has ended.
    sweep(core);
}

/// Wakes every future whose tasks have ended, and every producer that may have room now; whether there was one.
fn sweep(core: &Core) -> bool {
    let mut woken = false;
    for stripe in &core.stripes {
        if stripe.waiting.load(Ordering::Relaxed) != 0 {
            woken |= look(core, stripe);
        }
    }
    if core.rooms_waiting.load(Ordering::Relaxed) != 0 {
        for (producer, room) in (0..).zip(&core.rooms) {
            woken |= room.wake(core, producer);
        }
    }
    woken
}

fn look(core: &Core, stripe: &Stripe) -> bool {
    let waiters = stripe.waiters();
    let (from, to) = (stripe.free.load(Ordering::Relaxed), stripe.tail.load(Ordering::Acquire));
    let over = !core.running();
    let mut woken = false;
    for position in from..to {
        let place = stripe.place(position);
        // Pairs with the release of whoever registered: its waker is there.
        let count = waiters.spans[place].load(Ordering::Acquire);
        if count == 0
            || !over
                && stripe.ring.frontier(position, position + u64::from(count)) < position + u64::from(count)
        {
            continue;
        }
        if waiters.spans[place].swap(0, Ordering::AcqRel) != 0 {
            stripe.waiting.fetch_sub(1, Ordering::Relaxed);
            core.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        waiters.wakers[place].wake();
        woken = true;
    }
    woken
}
