//! Arenas in host memory that the copy engine of a GPU reads directly.

use std::sync::{Arc, Mutex, PoisonError};

use pelton::device::{Device, HostBytes};

use crate::engine::TextArena;
use crate::error::ScanError;

/// Blocks that are not in use. The driver frees memory only when no kernel is resident, so blocks are reused.
#[derive(Clone, Debug, Default)]
pub(super) struct ArenaPool {
    idle: Arc<Mutex<Vec<HostBytes>>>,
}

impl ArenaPool {
    /// Takes an idle block that is large enough and not much too large, or allocates one.
    pub(super) fn take(&self, device: &dyn Device, len: usize) -> Result<HostArena, ScanError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |block: &HostBytes| block.len() >= len && block.len() / 2 <= len;
        let found = idle.iter().position(fits).map(|at| idle.swap_remove(at));
        drop(idle);
        let bytes = match found {
            Some(bytes) => bytes,
            // Whole blocks of 16 bytes are copied, so the last one must be complete.
            None => HostBytes::new(device, len.next_multiple_of(16)).map_err(|error| {
                ScanError::Engine(format!(
                    "there is not enough memory for text that the device copies: {error}"
                ))
            })?,
        };
        Ok(HostArena { bytes: Some(bytes), len, pool: self.clone() })
    }
}

/// An arena that the device of a [`SessionEngine`](super::SessionEngine) copies from directly.
#[derive(Debug)]
pub struct HostArena {
    /// The block, which goes back to the pool when the arena is dropped.
    bytes: Option<HostBytes>,
    len: usize,
    pool: ArenaPool,
}

impl TextArena for HostArena {
    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| &bytes.as_slice()[..self.len])
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.as_mut().map_or(&mut [], |bytes| &mut bytes.as_mut_slice()[..self.len])
    }
}

impl Drop for HostArena {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.bytes.take());
    }
}
