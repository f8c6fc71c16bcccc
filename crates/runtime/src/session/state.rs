//! The state of a session in one word: the number of the run that serves its rings, and how the session ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{EndReason, Error, LossReason, SessionEnd, SubmitError};

/// How many low bits of the word say how the session ended: 0 while it runs, and otherwise one more than an index into
/// [`ENDS`]. The bits above them count runs.
const END_BITS: u32 = 8;

/// The ways in which sessions end, in the order of their codes.
const ENDS: [EndReason; 5] = [
    EndReason::Stopped,
    EndReason::Lost(LossReason::Lease),
    EndReason::Lost(LossReason::Trap),
    EndReason::Lost(LossReason::Device),
    EndReason::Lost(LossReason::Returned),
];

/// The state of a session. Producers and tickets read one word of it, and nothing else of a run unless they have to
/// wait.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    word: AtomicU64,
    /// How the session ended, in full. It is set just before the word says that the session has ended.
    ending: OnceLock<SessionEnd>,
}

impl SessionState {
    /// Returns whether the session still runs, as far as any thread has noticed.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        // Pairs with the release in `note_end`: records that were posted before the end are seen.
        self.word.load(Ordering::Acquire) as u8 == 0
    }

    /// Returns the number of the run that serves the rings, or that served them last.
    #[inline]
    pub(crate) fn run_number(&self) -> u64 {
        // Relaxed: see `next_run`.
        self.word.load(Ordering::Relaxed) >> END_BITS
    }

    /// Counts the next run and returns its number. The caller launches that run afterwards, and only one thread at a
    /// time may do so.
    ///
    /// A producer publishes, wakes the run that it knows, and then loads the number. Waking issues a sequentially
    /// consistent fence, unless groups of the device never park (see [`run`](super::run)), and so does a group of the new run before it looks at the rings for the last time and parks.
    /// If the producer's fence comes first, the group sees what was published. If the group's fence comes first, the
    /// producer sees the new number, because the number was stored before the launch, and wakes the new run as well.
    pub(crate) fn next_run(&self) -> u64 {
        (self.word.fetch_add(1 << END_BITS, Ordering::Relaxed) >> END_BITS) + 1
    }

    /// Returns in short how the session ended, or `None` while it runs.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        // Pairs with the release in `note_end`, as above.
        let code = self.word.load(Ordering::Acquire) as u8;
        ENDS.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Returns in full how the session ended, or `None` while it runs.
    pub(crate) fn session_end(&self) -> Option<SessionEnd> {
        self.ending.get().cloned()
    }

    /// Notes how the session ended. Only the first call has an effect.
    pub(crate) fn note_end(&self, end: SessionEnd) {
        let reason = end.reason();
        if self.ending.set(end).is_ok() {
            let code = ENDS.iter().position(|known| *known == reason).unwrap_or(0) as u64 + 1;
            self.word.fetch_or(code, Ordering::Release);
        }
    }

    /// Returns the error of a producer that has found the session ended.
    #[cold]
    pub(crate) fn submit_error(&self) -> SubmitError {
        SubmitError::Ended(self.end_reason().unwrap_or(EndReason::Stopped))
    }

    /// Returns the error of a call that has found the session ended.
    #[cold]
    pub(crate) fn ended_error(&self) -> Error {
        Error::Ended(self.session_end().unwrap_or(SessionEnd::Stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_and_the_first_end_decides() {
        let state = SessionState::default();
        assert_eq!((state.next_run(), state.next_run(), state.run_number()), (1, 2, 2));
        assert!(state.is_running() && state.end_reason().is_none() && state.session_end().is_none());
        state.note_end(SessionEnd::Returned);
        state.note_end(SessionEnd::Stopped);
        assert!(!state.is_running());
        assert_eq!(state.end_reason(), Some(EndReason::Lost(LossReason::Returned)));
        assert_eq!(state.run_number(), 2, "an end leaves the number of the run alone");
    }

    #[test]
    fn every_end_has_a_code() {
        for reason in ENDS {
            let end = match reason {
                EndReason::Lost(LossReason::Lease) => SessionEnd::Lease(std::time::Duration::ZERO),
                EndReason::Lost(LossReason::Returned) => SessionEnd::Returned,
                EndReason::Stopped => SessionEnd::Stopped,
                // These two come from errors of a device.
                _ => continue,
            };
            let state = SessionState::default();
            state.note_end(end);
            assert_eq!(state.end_reason(), Some(reason));
        }
    }
}
