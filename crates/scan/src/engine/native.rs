//! The native engine: a loop over the tables of a catalog on one CPU thread.

use std::ops::Range;
use std::sync::Arc;

use super::class_mask::MaskedRuns;
use super::class_run::{RunGroup, group_runs};
use super::streams::{LiteralEnd, STREAMS, StreamTable};
use super::window::{keep_allowed, literal_hit};
use crate::candidate::Candidate;
use crate::catalog::{Catalog, FactorTable};
use crate::engine::{CandidateEngine, TextArena};
use crate::error::ScanError;

/// The number of bytes that all tables read before any of them goes on, so that the bytes are still in the cache.
const BLOCK: usize = 256 << 10;

/// The number of hits that are collected before their windows are run.
const HITS: usize = 4096;

/// An engine that runs the tables of a catalog on the thread that calls it.
#[derive(Debug)]
pub struct NativeEngine {
    catalog: Arc<Catalog>,
    /// One per automaton of stage one.
    streams: Vec<StreamTable>,
    /// The runs of classes that vector instructions search.
    masked_runs: Vec<MaskedRuns>,
    /// The other runs of classes.
    run_groups: Vec<RunGroup>,
}

impl NativeEngine {
    /// Makes an engine for a catalog.
    pub fn new(catalog: Arc<Catalog>) -> NativeEngine {
        let streams = catalog.factors().iter().map(StreamTable::new).collect();
        let (masked_runs, others) = MaskedRuns::take(catalog.class_runs());
        NativeEngine { catalog, streams, masked_runs, run_groups: group_runs(&others) }
    }

    /// Returns the catalog whose tables are searched with.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Does what [`candidates`](CandidateEngine::candidates) does, for bytes that are not in an arena.
    ///
    /// # Panics
    ///
    /// If the text has more than `u32::MAX` bytes or `own` does not lie in it.
    pub fn find(&self, text: &[u8], own: Range<usize>, out: &mut Vec<Candidate>) {
        assert!(u32::try_from(text.len()).is_ok(), "a text of {} bytes is too long", text.len());
        assert!(own.start <= own.end && own.end <= text.len(), "{own:?} is no part of the text");
        // Each block of a long run is read with what comes before it, so blocks must be longer than runs.
        let longest_run = self.catalog.class_runs().iter().map(|run| run.length as usize).max().unwrap_or(0);
        let block_len = BLOCK.max(4 * longest_run);
        for start in own.clone().step_by(block_len) {
            let block = start..own.end.min(start + block_len);
            for (table, stream) in self.catalog.factors().iter().zip(&self.streams) {
                let mut start = out.len();
                stream.find(text, block.clone(), |at| {
                    push_hits(table, text, at, out);
                    if out.len() - start >= HITS {
                        keep_allowed(&self.catalog, text, out, start);
                        start = out.len();
                    }
                });
                keep_allowed(&self.catalog, text, out, start);
            }
            for runs in &self.masked_runs {
                runs.find(text, block.clone(), out);
            }
            for group in &self.run_groups {
                group.find(text, block.clone(), out);
            }
        }
    }
}

/// Appends the hits of all literals that end at a place.
fn push_hits(table: &FactorTable, text: &[u8], at: LiteralEnd, hits: &mut Vec<Candidate>) {
    let outputs = table.output_rows[at.row] as usize..table.output_rows[at.row + 1] as usize;
    hits.extend(table.outputs[outputs].iter().filter_map(|output| literal_hit(text, at.end, output)));
}

impl CandidateEngine for NativeEngine {
    fn describe(&self) -> String {
        format!("native loop, {STREAMS} streams")
    }

    fn arena(&self, len: usize) -> Result<Box<dyn TextArena>, ScanError> {
        Ok(Box::new(vec![0; len]))
    }

    fn candidates(
        &self,
        arena: &dyn TextArena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError> {
        self.find(&arena.bytes()[..len], own, out);
        Ok(())
    }
}
