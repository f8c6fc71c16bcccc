//! How long to wait.

use std::time::{Duration, Instant};

/// Until when to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// As long as it takes.
    Never,
    /// Until then.
    At(Instant),
    /// Not at all: look once.
    Now,
}

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        // A time beyond what the clock can say is never.
        Instant::now().checked_add(time).map_or(Deadline::Never, Deadline::At)
    }

    /// So many milliseconds from now.
    pub fn after_ms(ms: u64) -> Self {
        Deadline::after(Duration::from_millis(ms))
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        match self {
            Deadline::Never => false,
            Deadline::At(at) => Instant::now() >= at,
            Deadline::Now => true,
        }
    }

    /// How long until then; `None` is for ever.
    pub fn left(self) -> Option<Duration> {
        match self {
            Deadline::Never => None,
            Deadline::At(at) => Some(at.saturating_duration_since(Instant::now())),
            Deadline::Now => Some(Duration::ZERO),
        }
    }
}

/// A wait that spins for a moment, gives its core away for a while, and then sleeps, longer and longer.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    turns: u32,
}

impl Pause {
    /// Turns that only spin, where another core can work meanwhile.
    const SPINS: u32 = 2000;
    /// Every so many of them the core is given away all the same: whoever is waited for may need just this one.
    const SHARE: u32 = 64;
    /// Turns that give the core away.
    const YIELDS: u32 = 400;

    /// Waits a little.
    #[inline]
    pub fn turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns < Self::SPINS && !self.turns.is_multiple_of(Self::SHARE) {
            std::hint::spin_loop();
        } else if self.turns < Self::SPINS + Self::YIELDS {
            std::thread::yield_now();
        } else {
            let over = (self.turns - Self::SPINS - Self::YIELDS).min(20);
            std::thread::sleep(Duration::from_micros(50 * u64::from(over + 1)));
        }
    }

    /// Whether it no longer only spins: time to look at what is dear to look at.
    #[inline]
    pub fn slow(&self) -> bool {
        self.turns >= Self::SPINS || self.turns % 256 == 255
    }
}
