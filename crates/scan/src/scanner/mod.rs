//! The scanner: rules, catalog and engine together.
//!
//! [`Scanner::scan_batch`] scans inputs that are in memory, many small ones at once. [`Scanner::scan_file`] and
//! [`Scanner::scan_reader`] scan inputs of any size in memory that does not grow with them.

mod batch;
mod compile;
mod facts;
mod file;
mod lines;
mod plan;
mod reader;
mod report;
mod stream;

use std::path::Path;
use std::sync::Arc;

pub use batch::{BatchInput, InputBatch};
pub use plan::{RulePlan, SearchWay};
pub use stream::{FindingSink, StreamOptions, StreamReport};

use crate::catalog::{Catalog, CatalogCache};
use crate::engine::{CandidateEngine, NativeEngine};
use crate::error::ScanError;
pub use crate::exact::GiveUpReason;
use crate::exact::search::{MatchStarts, RuleSearch};
use crate::filter::Filters;
use crate::finding::Finding;
use crate::rule::RuleSet;

/// Finds the matches of a set of rules in bytes, files and readers. Several threads can use one scanner at once.
///
/// ```
/// use std::path::Path;
///
/// use pelton_scan::{RuleSet, Scanner, rules};
///
/// let rule = rules::from_expression("ticket", r"TICKET-\d{4}")?;
/// let scanner = Scanner::new(RuleSet { rules: vec![rule], ..RuleSet::default() })?;
/// let found = scanner.scan_bytes(Path::new("notes.txt"), b"see TICKET-1234\nand TICKET-99\n")?;
/// assert_eq!(found.len(), 1);
/// assert_eq!((found[0].line, found[0].column, &found[0].text[..]), (1, 5, &b"TICKET-1234"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scanner {
    rules: RuleSet,
    filters: Filters,
    /// One per rule; `None` for rules that find files by their path alone.
    searches: Vec<Option<RuleSearch>>,
    /// The rules that have no candidates.
    everywhere: Vec<u32>,
    catalog: Arc<Catalog>,
    lead: usize,
    tail: usize,
    engine: Box<dyn CandidateEngine>,
}

impl Scanner {
    /// Makes a scanner that uses the native engine, a loop on the CPU. Rules whose expressions cannot be compiled are
    /// moved to [`RuleSet::rejected`], which [`rules`](Self::rules) returns with the set.
    pub fn new(rules: RuleSet) -> Result<Scanner, ScanError> {
        Scanner::with_cache(rules, None)
    }

    /// Does what [`new`](Self::new) does, and keeps the compiled tables in a cache, so that the same rules need not be
    /// compiled again.
    pub fn with_cache(rules: RuleSet, cache: Option<&CatalogCache>) -> Result<Scanner, ScanError> {
        let compiled = compile::compile_rules(rules, cache)?;
        let catalog = Arc::new(compiled.catalog);
        let is_everywhere = |search: &Option<RuleSearch>| {
            search.as_ref().is_some_and(|search| search.starts == MatchStarts::Everywhere)
        };
        let everywhere = (0u32..).zip(&compiled.searches).filter(|(_, search)| is_everywhere(search));
        Ok(Scanner {
            filters: Filters::new(&compiled.rules),
            rules: compiled.rules,
            everywhere: everywhere.map(|(rule, _)| rule).collect(),
            searches: compiled.searches,
            lead: catalog.lead(),
            tail: catalog.tail(),
            engine: Box::new(NativeEngine::new(Arc::clone(&catalog))),
            catalog,
        })
    }

    /// Uses another engine, which must have been made for [this scanner's catalog](Self::catalog).
    pub fn with_engine(mut self, engine: Box<dyn CandidateEngine>) -> Scanner {
        self.engine = engine;
        self
    }

    /// Returns the rules.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Returns the catalog whose tables are searched with.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the engine.
    pub fn engine(&self) -> &dyn CandidateEngine {
        &*self.engine
    }

    /// Returns whether any rule may apply to a file. If none does, the file need not be read.
    pub fn applies_to(&self, path: &Path) -> bool {
        self.filters.searches_file(path)
    }

    /// Scans bytes in memory. `path` is what filters see as the path of the input. The findings are sorted by position.
    pub fn scan_bytes(&self, path: &Path, text: &[u8]) -> Result<Vec<Finding>, ScanError> {
        let mut batch = self.batch(text.len())?;
        batch.room()[..text.len()].copy_from_slice(text);
        batch.push(0, path, text.len());
        Ok(self.scan_batch(&batch)?.pop().unwrap_or_default())
    }
}
