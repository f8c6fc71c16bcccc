//! How long it takes until rules can be searched for.

use std::fs;
use std::time::Instant;

use pelton_scan::catalog::CatalogCache;
use pelton_scan::{RuleSet, Scanner};

use super::cases::case_name;
use super::ours::scan_failed;
use super::scan_row;
use super::scratch::ScratchText;
use crate::bench::BenchRow;
use crate::bench::rounds::Series;
use crate::error::CliError;
use crate::stop;

const COLD: &str = "compile";
const CACHED: &str = "compile, cached";

/// Whether rows of a set are wanted.
pub(super) fn is_wanted(set: &str, only: &str) -> bool {
    [COLD, CACHED].iter().any(|case| case_name(set, case).contains(only))
}

/// A set of rules that is compiled again and again.
pub(super) struct RuleCompiler<'r> {
    set: &'static str,
    rules: &'r RuleSet,
    cache: CatalogCache,
    /// The times without a cache, in milliseconds.
    cold: Vec<f64>,
}

impl<'r> RuleCompiler<'r> {
    /// Compiles parsed rules for the first time, and keeps the tables in a cache.
    pub(super) fn start(
        set: &'static str,
        rules: &'r RuleSet,
        scratch: &ScratchText,
    ) -> Result<(RuleCompiler<'r>, Scanner), CliError> {
        let cache = CatalogCache::new(scratch.cache_folder().join(set));
        let mut compiler = RuleCompiler { set, rules, cache, cold: Vec::new() };
        let (ms, scanner) = compiler.compile(Some(&compiler.cache))?;
        if fs::read_dir(compiler.cache.folder()).map_or(0, Iterator::count) != 1 {
            return Err(CliError::Wrong(format!("the tables of {set} were not kept in the cache")));
        }
        compiler.cold.push(ms);
        Ok((compiler, scanner))
    }

    fn compile(&self, cache: Option<&CatalogCache>) -> Result<(f64, Scanner), CliError> {
        stop::unless_pressed()?;
        let rules = self.rules.clone();
        let start = Instant::now();
        let scanner = Scanner::with_cache(rules, cache).map_err(scan_failed)?;
        Ok((start.elapsed().as_secs_f64() * 1e3, scanner))
    }

    /// Compiles the rules in further rounds, without and with the cache, and adds the rows. `peer` is the time that
    /// Hyperscan took, in seconds, if it was measured.
    pub(super) fn add_rows(
        mut self,
        rounds: u32,
        peer: Option<f64>,
        only: &str,
        rows: &mut Vec<BenchRow>,
    ) -> Result<(), CliError> {
        if !is_wanted(self.set, only) {
            return Ok(());
        }
        let mut cached = Vec::new();
        for round in 0..rounds {
            let (ms, stored) = self.compile(Some(&self.cache))?;
            cached.push(ms);
            if round > 0 {
                let (ms, built) = self.compile(None)?;
                self.cold.push(ms);
                if built.catalog() != stored.catalog() {
                    return Err(CliError::Wrong(format!("the cache has other tables of {}", self.set)));
                }
            }
        }
        let (cold, cached) = (Series::from_iter(self.cold), Series::from_iter(cached));
        let hyperscan: Option<Series> = peer.map(|seconds| Series::from_iter([seconds * 1e3]));
        let cold_peer = hyperscan.as_ref().and_then(|peer| cold.against("hyperscan", peer));
        let cached_peer = cached.against(COLD, &cold);
        for (case, ours, against) in [(COLD, &cold, cold_peer), (CACHED, &cached, cached_peer)] {
            let (case, Some(value)) = (case_name(self.set, case), ours.value()) else { continue };
            if case.contains(only) {
                rows.push(BenchRow { against, ..scan_row(case, "cpu", "ms", value) });
            }
        }
        Ok(())
    }
}
