//! Finds every match of hundreds or thousands of regular expressions in large amounts of data.
//!
//! # The contract
//!
//! The findings of a rule in an input are exactly those of `find_iter` of the `regex` crate over the whole input: the
//! same starts and the same ends. Rules are taken without Unicode classes (`unicode(false)`); a rule that is not a
//! regular expression in that mode is taken with them. Nothing depends on how an input is cut into pieces, on the
//! engine, or on the device.
//!
//! # How it works
//!
//! An automaton of all rules together does not exist: bounded repeats such as `[\w.-]{0,50}` make it too large. So a
//! scan has three stages, each of which sees far less than the one before it.
//!
//! 1. **Factors** ([`factor`]). Every match of most rules contains one of a few literals. All these literals together
//!    form one small automaton, which reads every byte. It is finite memory in the strict sense: its state depends on
//!    the last few bytes alone, so many lanes can each read a piece of the input and none has to guess a state.
//! 2. **Windows** ([`catalog`]). Where a literal occurs, a small automaton of its rule reads what follows. It answers
//!    *no*, or *maybe*; a wrong *maybe* costs time, a wrong *no* would lose a match and never happens.
//! 3. **Exact search** ([`exact`]). For what is left, the expression itself is searched, from the first place at which
//!    a match can begin.
//!
//! Stages one and two are done by an [`engine`]: a loop on the CPU, or kernels on a GPU. They yield [`Candidate`]s.
//! Stage three is always done by the host.
//!
//! The rest is what makes a scanner of it: [`rule`] and [`rules`] read rules, and [`filter`] drops findings by entropy,
//! allow-lists and paths.

pub mod candidate;
pub mod catalog;
pub mod engine;
pub mod exact;
pub mod expression;
pub mod factor;
pub mod filter;
pub mod finding;
pub mod rule;
pub mod rules;
#[doc(hidden)]
pub mod sample_rules;
pub mod scanner;
#[cfg(feature = "session")]
pub mod session;

mod error;

pub use candidate::Candidate;
pub use catalog::Catalog;
pub use error::{RuleMistake, ScanError};
pub use expression::Expression;
pub use finding::Finding;
pub use rule::{Rule, RuleSet};
pub use scanner::Scanner;

/// The Rust snippet of the README is compiled and run as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;
