//! Finds every match of hundreds or thousands of regular expressions in large amounts of data.
//!
//! [`Scanner`] is where to begin: it is made from a [`RuleSet`], for example [`rules::starter`], and scans bytes in
//! memory, files and readers. Its documentation has an example.
//!
//! # The contract
//!
//! The matches of a rule in an input are exactly those of `find_iter` of the `regex` crate over the whole input: the
//! same starts and the same ends. Expressions are compiled without Unicode classes (`unicode(false)`); only one that is
//! not valid in that mode is compiled with them. Nothing depends on how an input is cut into pieces, on the engine, or
//! on the device.
//!
//! # How it works
//!
//! One automaton for all rules together would be too large, because of bounded repeats such as `[\w.-]{0,50}`. So a
//! scan has three stages, each of which has to look at far less than the one before it.
//!
//! 1. **Factors** ([`factor`]). For most rules there are a few literals of which every match contains one. The literals
//!    of all rules form one small automaton, which reads every byte. Its state depends only on the last few bytes, so
//!    an input can be cut into pieces that are read at the same time.
//! 2. **Windows** ([`catalog`]). Where a literal occurs, a small automaton of its rule reads what follows. It answers
//!    *no* or *maybe*. A wrong *maybe* only costs time; a wrong *no*, which would lose a match, never happens.
//! 3. **Exact search** ([`exact`]). Near the places that are left, the expression itself is searched for, beginning at
//!    the first position at which a match can begin.
//!
//! An [`engine`] does stages one and two: a loop on the CPU, or tasks of a Pelton session on a GPU. It yields
//! [`Candidate`]s. The host always does stage three.
//!
//! Automata that remember everything that they have read cannot be cut into pieces in this way. [`composed`] runs small
//! ones in parallel all the same.
//!
//! Around these stages, [`rules`] reads files of rules, and [`filter`] drops matches by entropy, allow-lists and paths.
//! What is left are the [`Finding`]s.

pub mod candidate;
pub mod catalog;
pub mod composed;
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

#[cfg(feature = "session")]
mod device_text;
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
struct ScanReadme;
