//! Engines: what runs the tables of a catalog over text and yields candidates.

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

/// Memory for text that an engine reads. An engine on a GPU makes arenas that its copy engine can read directly.
pub trait Arena: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Arena for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// What finds candidates: stages one and two of a scan.
pub trait CandidateEngine: Send + Sync {
    /// Describes the engine for people, such as `native loop, 4 streams`.
    fn describe(&self) -> String;

    /// Returns the length of the pieces in which the engine likes to get large inputs.
    fn piece_len(&self) -> usize {
        1 << 22
    }

    /// Makes an arena of `len` bytes.
    fn arena(&self, len: usize) -> Result<Box<dyn Arena>, ScanError>;

    /// Finds the candidates in the first `len` bytes of an arena that this engine made. Reported are those whose factor
    /// ends in `own`: for a literal, the last byte must lie there; for a run of a class, the last of the `length` bytes
    /// with which a part begins. Candidates are appended to `out`, in no particular order.
    ///
    /// A run that is longer than needed has many positions at which a part can begin. Those whose first `length` bytes
    /// end in `own` are reported, from [`first`](Candidate::first) to [`last`](Candidate::last). If an input is scanned
    /// in consecutive pieces, each reports its share of a long run, so no position is lost and none is reported twice.
    ///
    /// The text may consist of several inputs, one after the other: a candidate whose bytes lie in two of them is
    /// reported as any other. Calls from several threads at once are fine; each has its own arena.
    fn candidates(
        &self,
        arena: &dyn Arena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError>;
}
