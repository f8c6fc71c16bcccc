//! Texts that stay on the device, to be scanned more than once.

use std::ops::Range;

use super::caller::{ChunkFound, failed};
use super::engine::{CallerGuard, SessionEngine};
use crate::error::ScanError;

/// How many bytes are copied to the device at once.
const COPY_BYTES: usize = 64 << 20;

/// A text that lies in the device's memory. Until it is dropped, the engine can serve one call less at a time.
pub struct ResidentText<'e> {
    engine: &'e SessionEngine,
    caller: CallerGuard<'e>,
    len: usize,
}

/// How much a scan of a [`ResidentText`] has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResidentCounts {
    /// The number of hits of stage one: places at which a literal may end or a run begins.
    pub hits: u64,
    /// The number of records that are left after stage two: candidates, and long runs, each of which may be a candidate of
    /// several branches.
    pub records: u64,
}

impl SessionEngine {
    /// Makes a text of `len` bytes that stays on the device. `fill` is called for one piece of it after the other, and
    /// writes the bytes.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the text is longer than a chunk of the engine, or a copy fails.
    pub fn resident_text(
        &self,
        len: usize,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<ResidentText<'_>, ScanError> {
        let caller = self.take_caller();
        if len > caller.text_bytes() {
            let most = caller.text_bytes();
            return Err(failed(format!("a text of {len} bytes is longer than a chunk, which has {most}")));
        }
        let mut piece = vec![0; COPY_BYTES.min(len)];
        for at in (0..len).step_by(COPY_BYTES) {
            let part = &mut piece[..COPY_BYTES.min(len - at)];
            fill(part);
            caller.copy_text(self.session(), 0, at, part)?;
        }
        Ok(ResidentText { engine: self, caller, len })
    }
}

impl ResidentText<'_> {
    /// Scans a range of the text, and counts what it finds.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the session fails or the range does not lie in the text.
    pub fn count(&mut self, own: Range<usize>) -> Result<ResidentCounts, ScanError> {
        if own.start > own.end || own.end > self.len {
            return Err(failed(format!("the range {own:?} does not lie in a text of {} bytes", self.len)));
        }
        let version = self.engine.current_version();
        let own = own.start as u32..own.end as u32;
        self.caller.begin_call(self.engine.session())?;
        let pending = self.caller.submit(&version, 0, self.len as u32, own)?;
        let ChunkFound { found, hits } = self.caller.finish(self.engine.session(), &version, pending)?;
        self.caller.end_call();
        Ok(ResidentCounts { hits, records: found.len() as u64 })
    }
}
