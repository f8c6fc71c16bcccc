//! Which memory streams of a session read into, so that no two of them use the same.

use std::sync::{Mutex, PoisonError};

/// The places that streams of a session read into, by the address of their first byte.
#[derive(Debug, Default)]
pub(crate) struct StreamPlaces(Mutex<Vec<usize>>);

impl StreamPlaces {
    /// Takes a place until the guard is dropped. `None` if another stream has it.
    pub(super) fn take(&self, start: usize) -> Option<TakenPlace<'_>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(&start) {
            return None;
        }
        taken.push(start);
        Some(TakenPlace { places: self, start })
    }
}

/// A place that a stream reads into.
pub(super) struct TakenPlace<'p> {
    places: &'p StreamPlaces,
    start: usize,
}

impl Drop for TakenPlace<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|start| *start != self.start);
    }
}
