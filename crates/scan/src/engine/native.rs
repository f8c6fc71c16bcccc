//! The native engine: a loop over the tables of a catalog on one CPU thread.

use std::ops::Range;
use std::sync::Arc;

use super::class_run::find_runs;
use super::window::push_candidate;
use crate::candidate::Candidate;
use crate::catalog::{Catalog, FactorTable};
use crate::engine::{Arena, CandidateEngine};
use crate::error::ScanError;
use crate::factor::LITERAL_MAX;

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

    /// Returns the catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Does what [`candidates`](CandidateEngine::candidates) does, for bytes that lie in no arena.
    ///
    /// # Panics
    ///
    /// If the text has more than `u32::MAX` bytes or `own` does not lie in it.
    pub fn find(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        assert!(u32::try_from(text.len()).is_ok(), "a text of {} bytes is too long", text.len());
        assert!(own.start <= own.end && own.end <= text.len(), "{own:?} is no part of the text");
        for table in self.catalog.factors() {
            self.find_literals(table, text, own.clone(), out);
        }
        for run in self.catalog.class_runs() {
            find_runs(run, text, own.clone(), out);
        }
    }

    /// Finds the candidates of one automaton.
    fn find_literals(&self, table: &FactorTable, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        let mut state = 0;
        for at in own.start.saturating_sub(LITERAL_MAX - 1)..own.end {
            let class = usize::from(table.classes[usize::from(text[at])]);
            state = usize::from(table.next[state * table.class_count as usize + class]);
            if state >= table.first_accepting as usize && at >= own.start {
                let row = state - table.first_accepting as usize;
                for output in table.output_rows[row]..table.output_rows[row + 1] {
                    push_candidate(&self.catalog, text, at, &table.outputs[output as usize], out);
                }
            }
        }
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
