//! How long to wait, for everything that waits.

use std::time::{Duration, Instant};

/// How long a call may wait before it gives up.
///
/// Every call that waits takes `impl Into<Deadline>`, so a [`Duration`] or an [`Instant`] can be passed as it is:
///
/// ```
/// # use std::time::{Duration, Instant};
/// # use pelton::{Deadline, Opcode, Session, Spec, Task, device};
/// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
/// # let mut producer = session.producer(0)?;
/// let mut ticket = producer.submit(Task::new(Opcode::NOP))?;
/// ticket.wait(Duration::from_secs(5))?;
/// ticket.wait(Instant::now() + Duration::from_secs(5))?;
/// ticket.wait(Deadline::Never)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A `Duration` is counted from the moment at which a call begins to wait, so the same value can be used for any number of calls. Use an
/// `Instant` to give several calls one common end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deadline {
    /// The call does not wait at all. It looks once.
    Now,
    /// The call waits for at most this long.
    After(Duration),
    /// The call waits until this moment.
    At(Instant),
    /// The call waits for as long as it takes. It still returns when the session ends.
    Never,
}

impl Deadline {
    /// The deadline of a call that waits for at most so many milliseconds.
    pub const fn after_ms(ms: u64) -> Self {
        Deadline::After(Duration::from_millis(ms))
    }

    /// The same deadline as a moment, for a call that begins to wait now. The result is never [`Deadline::After`].
    pub(crate) fn started(self) -> Self {
        match self {
            Deadline::After(Duration::ZERO) => Deadline::Now,
            // A time beyond what the clock can say is never.
            Deadline::After(time) => Instant::now().checked_add(time).map_or(Deadline::Never, Deadline::At),
            started => started,
        }
    }

    /// Whether a deadline that was started has passed.
    pub(crate) fn has_passed(self) -> bool {
        match self {
            Deadline::Now => true,
            Deadline::At(moment) => Instant::now() >= moment,
            Deadline::After(_) | Deadline::Never => false,
        }
    }

    /// How long a call that begins to wait now may wait; `None` is for ever.
    pub(crate) fn time_left(self) -> Option<Duration> {
        match self {
            Deadline::Now => Some(Duration::ZERO),
            Deadline::After(time) => Some(time),
            Deadline::At(moment) => Some(moment.saturating_duration_since(Instant::now())),
            Deadline::Never => None,
        }
    }
}

/// The call waits for at most this long.
impl From<Duration> for Deadline {
    fn from(time: Duration) -> Self {
        Deadline::After(time)
    }
}

/// The call waits until this moment.
impl From<Instant> for Deadline {
    fn from(moment: Instant) -> Self {
        Deadline::At(moment)
    }
}

/// A wait that spins for a moment, gives its core away for a while, and then sleeps, longer and longer.
#[derive(Debug, Default)]
pub(crate) struct PollBackoff {
    turns: u32,
}

impl PollBackoff {
    /// Turns that only spin, where another core can work meanwhile.
    const SPINS: u32 = 2000;
    /// Every so many of them the core is given away all the same: whoever is waited for may need just this one.
    const SHARE: u32 = 64;
    /// Turns that give the core away.
    const YIELDS: u32 = 400;

    /// Waits a little.
    #[inline]
    pub fn pause(&mut self) {
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
    pub fn is_slow(&self) -> bool {
        self.turns >= Self::SPINS || self.turns % 256 == 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_starts_when_a_call_begins_to_wait() {
        assert_eq!(Deadline::from(Duration::ZERO).started(), Deadline::Now);
        assert_eq!(Deadline::from(Duration::MAX).started(), Deadline::Never, "the clock cannot say it");
        assert!(matches!(Deadline::after_ms(60_000).started(), Deadline::At(_)));
        let moment = Instant::now();
        for started in [Deadline::Now, Deadline::from(moment), Deadline::Never] {
            assert_eq!(started.started(), started);
        }
    }

    #[test]
    fn what_has_passed_leaves_no_time() {
        for past in [Deadline::Now, Deadline::At(Instant::now())] {
            assert!(past.has_passed());
            assert_eq!(past.time_left(), Some(Duration::ZERO));
        }
        assert!(!Deadline::after_ms(0).has_passed(), "it has not started");
        assert!(!Deadline::Never.has_passed());
        assert_eq!(Deadline::Never.time_left(), None);
        assert_eq!(Deadline::after_ms(7).time_left(), Some(Duration::from_millis(7)));
    }
}
