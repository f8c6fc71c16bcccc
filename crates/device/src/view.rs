//! Words of mapped memory, reached without asking the memory each time.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::{Memory, Store};

/// The words of a block of mapped memory. It keeps the block alive.
pub struct View<A> {
    words: NonNull<[A]>,
    _store: Arc<dyn Store>,
}

/// Words of 32 bits.
pub type View32 = View<AtomicU32>;
/// Words of 64 bits.
pub type View64 = View<AtomicU64>;

// SAFETY: a view is a shared slice of atomics in memory that the store keeps in place for as long as it lives.
unsafe impl<A: Sync> Send for View<A> {}
// SAFETY: as above.
unsafe impl<A: Sync> Sync for View<A> {}

impl<A> Clone for View<A> {
    fn clone(&self) -> Self {
        View { words: self.words, _store: self._store.clone() }
    }
}

impl<A> Deref for View<A> {
    type Target = [A];
    #[inline]
    fn deref(&self) -> &[A] {
        // SAFETY: the words come from the store, which is alive, does not move them, and hands them out only shared.
        unsafe { self.words.as_ref() }
    }
}

impl<A> fmt::Debug for View<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View of {} words", self.len())
    }
}

impl Memory {
    /// Its words, if the host can reach them and they have 32 bits.
    pub fn view32(&self) -> Option<View32> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words32()?), _store: store })
    }

    /// Its words, if the host can reach them and they have 64 bits.
    pub fn view64(&self) -> Option<View64> {
        let store = self.store().clone();
        Some(View { words: NonNull::from(self.words64()?), _store: store })
    }
}
