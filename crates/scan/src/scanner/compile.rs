//! Compiles a set of rules.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::catalog::Catalog;
use crate::error::ScanError;
use crate::exact::matcher::Matcher;
use crate::exact::stream::{MatchStarts, RuleSearch};
use crate::expression::Expression;
use crate::factor::{RuleFactors, extract_factors};
use crate::rule::{RejectedRule, RuleSet};

/// A set of rules that can be searched for.
pub(super) struct CompiledRules {
    pub(super) rules: RuleSet,
    pub(super) searches: Vec<Option<RuleSearch>>,
    pub(super) catalog: Catalog,
}

/// What became of the expression of a rule.
type Compiled = Result<(Matcher, RuleFactors), String>;

/// Compiles the expressions of all rules, on all processors, and builds the catalog. Rules whose expressions cannot be
/// compiled are rejected.
pub(super) fn compile_rules(mut set: RuleSet) -> Result<CompiledRules, ScanError> {
    let compiled = compile_all(&set);
    let (mut rules, mut searches, mut factors) = (vec![], vec![], vec![]);
    for (rule, compiled) in set.rules.drain(..).zip(compiled) {
        match compiled {
            Some(Err(reason)) => set.rejected.push(RejectedRule { id: rule.id, origin: rule.origin, reason }),
            Some(Ok((matcher, found))) => {
                searches.push(Some(RuleSearch::new(matcher, match_starts(&found))));
                factors.push(found);
                rules.push(rule);
            }
            None => {
                searches.push(None);
                factors.push(RuleFactors::Branches(vec![]));
                rules.push(rule);
            }
        }
    }
    set.rules = rules;
    Ok(CompiledRules { catalog: Catalog::build(&factors)?, rules: set, searches })
}

/// Compiles the expression of each rule that has one.
fn compile_all(set: &RuleSet) -> Vec<Option<Compiled>> {
    let results: Vec<Mutex<Option<Compiled>>> = set.rules.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let threads =
        thread::available_parallelism().map_or(1, usize::from).min(set.rules.len().div_ceil(8).max(1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(rule) = set.rules.get(at) else { break };
                    let compiled = rule.expression.as_ref().map(compile_one);
                    *results[at].lock().unwrap_or_else(PoisonError::into_inner) = compiled;
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Compiles one expression.
fn compile_one(expression: &Expression) -> Compiled {
    let matcher = Matcher::compile(expression.clone())?;
    Ok((matcher, extract_factors(expression)))
}

/// Returns where matches of a rule begin.
fn match_starts(factors: &RuleFactors) -> MatchStarts {
    let RuleFactors::Branches(branches) = factors else { return MatchStarts::Everywhere };
    let limits = branches.iter().map(|branch| branch.prefix_max.map(u64::from));
    MatchStarts::NearCandidates { prefix_max: limits.fold(Some(0), |most, limit| Some(most?.max(limit?))) }
}
