//! Filters: which matches of a rule count.

use std::path::Path;

use crate::rule::RuleSet;

/// What a filter sees of a match.
#[derive(Clone, Copy, Debug)]
pub struct FilterView<'t> {
    /// The path of the input, as it is shown to users.
    pub path: &'t Path,
    /// The bytes of the match.
    pub matched: &'t [u8],
    /// The bytes of the secret.
    pub secret: &'t [u8],
    /// The lines that the match lies in.
    pub lines: &'t [u8],
}

/// The filters of a set of rules, ready to be used.
#[derive(Debug)]
pub struct Filters {}

impl Filters {
    /// Prepares the filters of a set.
    pub fn new(rules: &RuleSet) -> Filters {
        let _ = rules;
        todo!()
    }

    /// Returns whether a rule is searched in a file at all: the rule's path and the paths of allow-lists.
    pub fn searches(&self, rule: usize, path: &Path) -> bool {
        let _ = (rule, path);
        todo!()
    }

    /// Returns whether a rule with keywords has one in an input; rules without keywords always have.
    pub fn has_keyword(&self, rule: usize, text: &[u8]) -> bool {
        let _ = (rule, text);
        todo!()
    }

    /// Returns why a match is dropped, or `None` if it counts.
    pub fn drop_reason(&self, rule: usize, view: FilterView<'_>) -> Option<DropReason> {
        let _ = (rule, view);
        todo!()
    }
}

/// Why a match does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The secret's entropy is too low.
    Entropy,
    /// The path is allowed.
    Path,
    /// An expression of an allow-list was found.
    AllowList,
    /// The secret contains a stop word.
    Stopword,
    /// The lines have a comment that allows it, `gitleaks:allow` or `pelton:allow`.
    Comment,
}

/// Returns the entropy of bytes, in bits per byte.
pub fn entropy(bytes: &[u8]) -> f64 {
    let _ = bytes;
    todo!()
}
