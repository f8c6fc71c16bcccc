//! How each rule is searched for, for people who want to know why a rule is slow.

use super::Scanner;
use crate::factor::{Factor, RuleFactors, extract_factors};

/// How a scanner searches for a rule. [`Scanner::plan`] returns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulePlan {
    /// Whether the expression is compiled with Unicode classes.
    pub unicode: bool,
    /// What finds the places at which the expression is searched.
    pub way: SearchWay,
    /// The length of the longest match in bytes, or `None` if matches can be arbitrarily long.
    pub max_len: Option<u64>,
}

/// What finds the places at which an expression is searched.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SearchWay {
    /// Literals and runs of a class, one of which every match contains. Literals are in lower case if their case does
    /// not matter.
    Factors {
        /// The literals.
        literals: Vec<Vec<u8>>,
        /// The runs: the smallest number of bytes, and the number of different bytes in the class.
        runs: Vec<(u32, u32)>,
    },
    /// The whole input is searched.
    Everywhere,
    /// No text is searched: the rule finds files by their path.
    Path,
}

impl Scanner {
    /// Returns how a rule is searched for.
    ///
    /// # Panics
    ///
    /// If there is no such rule.
    pub fn plan(&self, rule: usize) -> RulePlan {
        let Some(expression) = &self.rules().rules[rule].expression else {
            return RulePlan { unicode: false, way: SearchWay::Path, max_len: Some(0) };
        };
        let way = match extract_factors(expression) {
            RuleFactors::Always => SearchWay::Everywhere,
            RuleFactors::Branches(branches) => {
                let (mut literals, mut runs) = (vec![], vec![]);
                for branch in branches {
                    match branch.factor {
                        Factor::Literals(list) => literals.extend(list.iter().map(|literal| {
                            let shown = |symbol: &crate::factor::Symbol| {
                                if symbol.mask == 0xff { symbol.value } else { symbol.folded() }
                            };
                            literal.symbols.iter().map(shown).collect::<Vec<u8>>()
                        })),
                        Factor::ClassRun { class, length } => runs.push((length, class.len())),
                    }
                }
                literals.sort();
                literals.dedup();
                SearchWay::Factors { literals, runs }
            }
        };
        let max_len = self.searches[rule].as_ref().and_then(|search| search.matcher.max_len());
        RulePlan { unicode: expression.unicode(), way, max_len }
    }
}
