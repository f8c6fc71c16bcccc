//! The scanner: rules, catalog and engine together.

use std::fs::File;
use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::engine::{Arena, CandidateEngine};
use crate::error::ScanError;
use crate::finding::Finding;
use crate::rule::RuleSet;

/// Finds the matches of a set of rules. Threads share one scanner.
pub struct Scanner {
    rules: RuleSet,
    catalog: Arc<Catalog>,
    engine: Box<dyn CandidateEngine>,
}

/// Several small inputs in one arena, which are scanned together.
pub struct InputBatch {
    arena: Box<dyn Arena>,
    used: usize,
    inputs: Vec<BatchInput>,
}

/// An input of a batch.
#[derive(Clone, Debug)]
pub struct BatchInput {
    /// A number that the caller chose, by which findings are told apart.
    pub key: u64,
    /// The path, for filters.
    pub path: std::path::PathBuf,
    /// Where its bytes lie in the arena.
    pub range: Range<usize>,
}

/// What is done with findings as they appear. `Break` ends the scan of the input.
pub type FindingSink<'s> = dyn FnMut(Finding) -> ControlFlow<()> + Send + 's;

/// How the scan of a stream ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// The number of bytes that were read.
    pub bytes: u64,
    /// The rules that had to give up because a match could have been longer than what is kept of the stream.
    pub gave_up: Vec<u32>,
}

impl Scanner {
    /// Makes a scanner that uses the native engine. The rules that cannot be searched for are moved to the set's list
    /// of rejected rules.
    pub fn new(rules: RuleSet) -> Result<Scanner, ScanError> {
        let _ = rules;
        todo!()
    }

    /// Returns the rules.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Returns the catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the engine.
    pub fn engine(&self) -> &dyn CandidateEngine {
        &*self.engine
    }

    /// Scans bytes in memory. Findings come in the order of their positions.
    pub fn scan_bytes(&self, path: &Path, text: &[u8]) -> Result<Vec<Finding>, ScanError> {
        let _ = (path, text);
        todo!()
    }

    /// Makes an empty batch with room for `capacity` bytes.
    pub fn batch(&self, capacity: usize) -> Result<InputBatch, ScanError> {
        let _ = capacity;
        todo!()
    }

    /// Scans the inputs of a batch. Returns one list of findings per input.
    pub fn scan_batch(&self, batch: &InputBatch) -> Result<Vec<Vec<Finding>>, ScanError> {
        let _ = batch;
        todo!()
    }

    /// Scans a file of any size in memory that does not grow with the file, on several threads.
    pub fn scan_file(
        &self,
        path: &Path,
        file: &File,
        threads: usize,
        sink: &mut FindingSink<'_>,
    ) -> Result<StreamReport, ScanError> {
        let _ = (path, file, threads, sink);
        todo!()
    }

    /// Scans what a reader yields until it ends, keeping at most `retain` bytes.
    pub fn scan_reader(
        &self,
        path: &Path,
        reader: &mut (dyn Read + Send),
        retain: usize,
        sink: &mut FindingSink<'_>,
    ) -> Result<StreamReport, ScanError> {
        let _ = (path, reader, retain, sink);
        todo!()
    }
}

impl InputBatch {
    /// Returns the room that is left.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.arena.bytes_mut()[self.used..]
    }

    /// Declares the next `len` bytes of the room to be an input.
    pub fn push(&mut self, key: u64, path: &Path, len: usize) {
        self.inputs.push(BatchInput { key, path: path.into(), range: self.used..self.used + len });
        self.used += len;
    }

    /// Returns the inputs.
    pub fn inputs(&self) -> &[BatchInput] {
        &self.inputs
    }

    /// Removes all inputs.
    pub fn clear(&mut self) {
        self.used = 0;
        self.inputs.clear();
    }
}
