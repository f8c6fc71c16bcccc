//! How a group rests when it executes `backoff`: it spins, gives its core away, or sleeps until it is woken.
//!
//! A kernel that polls looks at everything that it waits for, and then backs off. If it asks for a long time, the group
//! does not sleep at once. It announces itself to the [`Event`] of the launch and lets the kernel look once more. Only
//! the next back-off sleeps, unless there was a wake in between. So a group never sleeps if there was a wake since its
//! last back-off, and nothing is missed that was published before a wake.
//!
//! The lanes of a group back off one after the other, on one thread. Only the first of them rests, for all of them. When it
//! sleeps, it has looked since the group has announced itself, and so have the lanes after it, either after the first one
//! in the last round or before it in this one. A lane with a greater number than the last one that has backed off belongs
//! to the same round. A lane that asks for a short time keeps the group from sleeping in the next round.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::event::{Event, ParkKey};

/// A back-off of at most this long only spins, because a kernel that asks for so little expects new work at once.
const SPIN_NS: u32 = 1_000;
/// A back-off of at most this long yields the core, and a longer one sleeps.
const YIELD_NS: u32 = 50_000;
/// One in this many spins yields the core all the same, so that more threads than cores still make progress.
const SPINS: u32 = 64;
/// How often a group that was woken yields its core instead of sleeping, because what it was woken for may not have
/// reached it yet, or another group may have been faster and have left something.
const LOOKS_AFTER_WAKE: u32 = 16;

/// How the groups of a device sleep, which tests can look at and change.
#[derive(Debug, Default)]
pub(super) struct GroupSleep {
    /// Whether groups that sleep do so until they are woken, however short the time is that they ask for, and sleep again
    /// as soon as they may.
    pub until_woken: AtomicBool,
    /// How many groups sleep now.
    pub asleep: AtomicU32,
}

/// What a group remembers from one back-off to the next.
#[derive(Debug, Default)]
pub(super) struct GroupRest {
    /// The key of the event while the group has announced that it is about to sleep.
    announced: Cell<Option<ParkKey>>,
    /// How often the group has backed off without sleeping.
    spins: Cell<u32>,
    /// How often the group yields its core before it may sleep again.
    looks: Cell<u32>,
    /// The number of the lane that has backed off last.
    last_lane: Cell<u32>,
}

impl GroupRest {
    /// Lets a lane back off.
    pub(super) fn back_off(&self, (event, sleep): (&Event, &GroupSleep), lane: u32, ns: u32) {
        let same_round = lane > self.last_lane.replace(lane);
        if ns <= YIELD_NS {
            self.cancel(event);
        }
        if same_round {
            return;
        }
        if ns <= YIELD_NS {
            let spins = self.spins.get().wrapping_add(1);
            self.spins.set(spins);
            if ns <= SPIN_NS && !spins.is_multiple_of(SPINS) {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            return;
        }
        if let Some(looks) = self.looks.get().checked_sub(1) {
            self.looks.set(looks);
            return std::thread::yield_now();
        }
        // The kernel looks once more for new work after the announcement.
        let Some(key) = self.announced.take() else { return self.announced.set(Some(event.announce())) };
        let timeout = (!sleep.until_woken.load(Ordering::Relaxed)).then(|| Duration::from_nanos(ns.into()));
        sleep.asleep.fetch_add(1, Ordering::Relaxed);
        let woken = event.park(key, timeout);
        sleep.asleep.fetch_sub(1, Ordering::Relaxed);
        if woken && timeout.is_some() {
            self.looks.set(LOOKS_AFTER_WAKE);
        }
    }

    /// Takes back an announcement, if there is one.
    pub(super) fn cancel(&self, event: &Event) {
        if let Some(key) = self.announced.take() {
            event.cancel(key);
        }
    }
}
