//! Engines, which run the tables of a catalog over text and yield candidates.

use std::ops::Range;

use crate::candidate::Candidate;
use crate::error::ScanError;

mod class_mask;
mod class_run;
mod native;
mod streams;
mod window;

#[cfg(test)]
pub(crate) mod oracle;
#[cfg(test)]
mod tests;

pub use native::NativeEngine;

/// A block of memory into which text is put for an engine to read. An engine on a GPU makes arenas from which the GPU
/// copies directly.
pub trait TextArena: Send {
    /// Returns the bytes of the arena, as they were written last.
    fn bytes(&self) -> &[u8];
    /// Returns the bytes, to be filled with text.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl TextArena for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// An engine that finds candidates, which is stages one and two of a scan.
pub trait CandidateEngine: Send + Sync {
    /// Describes the engine for people, for example as `native loop, 6 streams`.
    fn describe(&self) -> String;

    /// Returns the length of the pieces into which large inputs should be cut for this engine, in bytes.
    fn piece_len(&self) -> usize {
        1 << 22
    }

    /// Makes an arena of `len` bytes.
    fn arena(&self, len: usize) -> Result<Box<dyn TextArena>, ScanError>;

    /// Finds the candidates in the first `len` bytes of an arena that this engine made, and appends them to `out` in no
    /// particular order.
    ///
    /// Only candidates whose factor ends in the range `own` are reported. A literal ends with its last byte. A run of a
    /// class ends with the last of the `length` bytes with which the part begins.
    ///
    /// In a run that is longer than necessary, the part can begin at many positions. Those whose first `length` bytes
    /// end in `own` are reported as one candidate, from [`first`](Candidate::first) to [`last`](Candidate::last). So if
    /// an input is scanned in consecutive pieces, each piece reports its share of a long run: no position is lost, and
    /// none is reported twice.
    ///
    /// The text may consist of several inputs, one after the other. A candidate whose bytes lie in two of them is
    /// reported like any other. Several threads may call this at once, each with its own arena.
    fn candidates(
        &self,
        arena: &dyn TextArena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError>;
}
