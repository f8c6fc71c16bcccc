//! The positions from which the stripes of a session start to count.

use crate::error::Error;
use crate::kernel::Layout;

use super::Session;

/// The positions from which the stripes of a session start to count, for [`Session::launch_at`].
///
/// A number converts into the same start for every stripe, and a list into one start per stripe, in the order of
/// [`Session::positions`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartPositions {
    /// Every stripe starts at this position.
    Same(u64),
    /// Each stripe starts at its own position.
    Each(Vec<u64>),
}

impl From<u64> for StartPositions {
    fn from(start: u64) -> Self {
        StartPositions::Same(start)
    }
}

impl From<Vec<u64>> for StartPositions {
    fn from(starts: Vec<u64>) -> Self {
        StartPositions::Each(starts)
    }
}

impl StartPositions {
    /// Checks that no start lies beyond [`Session::LAST_START`].
    pub(super) fn check(&self) -> Result<(), Error> {
        let latest = match self {
            StartPositions::Same(start) => *start,
            StartPositions::Each(starts) => starts.iter().copied().max().unwrap_or(0),
        };
        let last = Session::LAST_START;
        if latest > last { Err(Error::StartPosition { start: latest, last }) } else { Ok(()) }
    }

    /// Returns one start for each stripe of a layout.
    pub(super) fn per_stripe(&self, layout: &Layout) -> Result<Vec<u64>, Error> {
        let stripes = layout.stripe_count() as usize;
        match self {
            StartPositions::Same(start) => Ok(vec![*start; stripes]),
            StartPositions::Each(starts) if starts.len() == stripes => Ok(starts.clone()),
            StartPositions::Each(starts) => Err(Error::StartCount { found: starts.len(), stripes }),
        }
    }
}
