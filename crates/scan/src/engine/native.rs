//! The native engine: a loop over the tables of a catalog on one CPU thread.

use std::ops::Range;
use std::sync::Arc;

use crate::candidate::Candidate;
use crate::catalog::Catalog;
use crate::engine::{Arena, CandidateEngine};
use crate::error::ScanError;

/// Runs the tables of a catalog on the calling thread.
#[derive(Debug)]
pub struct NativeEngine {
    catalog: Arc<Catalog>,
}

impl NativeEngine {
    /// Makes an engine for a catalog.
    pub fn new(catalog: Arc<Catalog>) -> NativeEngine {
        NativeEngine { catalog }
    }

    /// Does what [`candidates`](CandidateEngine::candidates) does, for bytes that lie in no arena.
    pub fn find(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        let _ = (&self.catalog, text, own, out);
        todo!()
    }
}

impl CandidateEngine for NativeEngine {
    fn describe(&self) -> String {
        "native loop".into()
    }

    fn arena(&self, len: usize) -> Result<Box<dyn Arena>, ScanError> {
        Ok(Box::new(vec![0; len]))
    }

    fn candidates(
        &self,
        arena: &dyn Arena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError> {
        self.find(&arena.bytes()[..len], own, out);
        Ok(())
    }
}
