//! Deadlines, which say how long a call may wait, and the backoff of calls that wait by polling.

use std::time::{Duration, Instant};

use crate::simulated;

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
/// A `Duration` is counted from the moment at which a call begins to wait, so the same value can be used for any number
/// of calls. Use an `Instant` to give several calls one common end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Deadline {
    /// The call does not wait at all. It looks once and returns.
    Now,
    /// The call waits for at most this long.
    After(Duration),
    /// The call waits until this moment.
    At(Instant),
    /// The call waits for as long as it takes. It still returns when the session ends.
    Never,
}

impl Deadline {
    /// Returns the deadline of a call that waits for at most `ms` milliseconds.
    pub const fn after_ms(ms: u64) -> Self {
        Deadline::After(Duration::from_millis(ms))
    }

    /// Returns the same deadline as a moment, for a call that begins to wait now. The result is never
    /// [`Deadline::After`].
    pub(crate) fn started(self) -> Self {
        match self {
            Deadline::After(Duration::ZERO) => Deadline::Now,
            // A moment beyond the range of the clock never comes.
            Deadline::After(time) => simulated::now().checked_add(time).map_or(Deadline::Never, Deadline::At),
            started => started,
        }
    }

    /// Returns whether a deadline that was started has passed.
    pub(crate) fn has_passed(self) -> bool {
        match self {
            Deadline::Now => true,
            Deadline::At(moment) => simulated::now() >= moment,
            Deadline::After(_) | Deadline::Never => false,
        }
    }

    /// Returns how long a call that begins to wait now may wait, or `None` if there is no limit.
    pub(crate) fn time_left(self) -> Option<Duration> {
        match self {
            Deadline::Now => Some(Duration::ZERO),
            Deadline::After(time) => Some(time),
            Deadline::At(moment) => Some(moment.saturating_duration_since(simulated::now())),
            Deadline::Never => None,
        }
    }
}

/// A `Duration` is [`Deadline::After`]: the call waits for at most this long.
impl From<Duration> for Deadline {
    fn from(time: Duration) -> Self {
        Deadline::After(time)
    }
}

/// An `Instant` is [`Deadline::At`]: the call waits until this moment.
impl From<Instant> for Deadline {
    fn from(moment: Instant) -> Self {
        Deadline::At(moment)
    }
}

/// The backoff of a call that polls: it spins at first, then yields its core, and then sleeps for longer and longer
/// times.
#[derive(Debug, Default)]
pub(crate) struct PollBackoff {
    turns: u32,
}

impl PollBackoff {
    /// How many pauses only spin, because what is waited for may be running on another core.
    const SPINS: u32 = 2000;
    /// One in this many pauses yields the core even while the others spin, because what is waited for may need this
    /// very core.
    const SHARE: u32 = 64;
    /// How many pauses yield the core before pauses begin to sleep.
    const YIELDS: u32 = 400;

    /// Waits for a short time, which grows from call to call.
    #[inline]
    pub(crate) fn pause(&mut self) {
        if simulated::pause() {
            return;
        }
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

    /// Returns whether the caller should now also check what is expensive to check, such as the clock: always once it
    /// no longer spins, and now and then while it does.
    #[inline]
    pub(crate) fn is_slow(&self) -> bool {
        simulated::is_simulated() || self.turns >= Self::SPINS || self.turns % 256 == 255
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
