//! Compiles a set of rules, or takes what was compiled before from the cache.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::facts::{RuleFacts, cache_key, read_facts, write_facts};
use crate::catalog::{Catalog, CatalogCache};
use crate::error::ScanError;
use crate::exact::matcher::Matcher;
use crate::exact::search::{MatchStarts, RuleSearch};
use crate::expression::Expression;
use crate::factor::{FactorBranch, RuleFactors, extract_factors};
use crate::rule::{RejectedRule, RuleSet};

/// A set of rules that can be searched for.
pub(super) struct CompiledRules {
    pub(super) rules: RuleSet,
    pub(super) searches: Vec<Option<RuleSearch>>,
    pub(super) catalog: Catalog,
}

/// Compiles the expressions of all rules, on all cores, and builds the catalog. Rules whose expressions cannot be
/// compiled are rejected. With a cache, this is done once for the same expressions.
pub(super) fn compile_rules(set: RuleSet, cache: Option<&CatalogCache>) -> Result<CompiledRules, ScanError> {
    let key = cache_key(&set);
    let stored = cache.and_then(|cache| cache.load(&key)).and_then(|stored| {
        let facts = read_facts(&stored.notes).filter(|facts| facts.len() == set.rules.len())?;
        Some((stored.catalog, facts))
    });
    if let Some((catalog, facts)) = stored {
        return Ok(use_facts(set, facts, catalog));
    }
    let (facts, factors): (Vec<RuleFacts>, Vec<Option<RuleFactors>>) = compile_all(&set).into_iter().unzip();
    let catalog = Catalog::build(&factors.into_iter().flatten().collect::<Vec<_>>())?;
    if let Some(cache) = cache {
        // A cache that cannot be written costs time and nothing else.
        let _ = cache.store(&key, &catalog, &write_facts(&facts));
    }
    Ok(use_facts(set, facts, catalog))
}

/// Separates the rules that can be used from those that cannot.
fn use_facts(mut set: RuleSet, facts: Vec<RuleFacts>, catalog: Catalog) -> CompiledRules {
    let (mut rules, mut searches) = (vec![], vec![]);
    for (rule, facts) in std::mem::take(&mut set.rules).into_iter().zip(facts) {
        match (facts, &rule.expression) {
            (RuleFacts::Rejected(reason), _) => {
                set.rejected.push(RejectedRule { id: rule.id, origin: rule.origin, reason });
                continue;
            }
            (RuleFacts::Usable { max_len, starts }, Some(expression)) => {
                searches.push(Some(RuleSearch::new(Matcher::new(expression.clone(), max_len), starts)));
            }
            _ => searches.push(None),
        }
        rules.push(rule);
    }
    set.rules = rules;
    CompiledRules { rules: set, searches, catalog }
}

/// What compiling a rule yields. A rule that cannot be used has no factors.
type Compiled = (RuleFacts, Option<RuleFactors>);

/// Compiles the expression of each rule.
fn compile_all(set: &RuleSet) -> Vec<Compiled> {
    let results: Vec<Mutex<Option<Compiled>>> = set.rules.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let threads =
        thread::available_parallelism().map_or(1, usize::from).min(set.rules.len().div_ceil(8)).max(1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(rule) = set.rules.get(at) else { break };
                    let compiled = compile_one(rule.expression.as_ref());
                    *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(compiled);
                }
            });
        }
    });
    let result =
        |result: Mutex<Option<Compiled>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|one| result(one).expect("every rule was compiled")).collect()
}

/// Compiles one expression.
fn compile_one(expression: Option<&Expression>) -> Compiled {
    let Some(expression) = expression else {
        return (RuleFacts::PathOnly, Some(RuleFactors::Branches(vec![])));
    };
    match Matcher::compile(expression.clone()) {
        Err(reason) => (RuleFacts::Rejected(reason), None),
        Ok(matcher) => {
            let factors = extract_factors(expression);
            (RuleFacts::Usable { max_len: matcher.max_len(), starts: match_starts(&factors) }, Some(factors))
        }
    }
}

/// Returns where matches of a rule begin.
fn match_starts(factors: &RuleFactors) -> MatchStarts {
    let RuleFactors::Branches(branches) = factors else { return MatchStarts::Everywhere };
    let most = |most: u32, branch: &FactorBranch| Some(most.max(branch.prefix_max?));
    MatchStarts::NearCandidates { prefix_max: branches.iter().try_fold(0, most).map(u64::from) }
}
