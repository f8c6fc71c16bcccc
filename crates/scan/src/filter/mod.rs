//! Filters, which decide which matches of a rule count.
//!
//! A match is dropped if a comment in its lines allows it, if the entropy of its secret is too low, or if an allow-list of
//! its rule or of the whole set allows it. Two filters concern whole inputs rather than matches: a rule may be restricted
//! to some paths, and to inputs that contain one of its keywords.

use std::path::Path;

use memchr::memmem;
use regex::bytes::Regex;

use crate::rule::{FilterUse, RuleSet};

mod allow;
mod entropy;
mod paths;
mod secret;
mod words;

pub use entropy::entropy;
pub use secret::secret_of;

use allow::PreparedAllowList;
use paths::path_bytes;
use words::WordFinder;

/// Texts that, usually in a comment, allow every match in their line.
pub const ALLOW_COMMENTS: [&str; 2] = ["pelton:allow", "gitleaks:allow"];

/// A match as filters see it.
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

/// The filters of a set of rules, ready to be used. Rules are named by their index in the set.
#[derive(Debug)]
pub struct Filters {
    rules: Vec<RuleFilters>,
    /// The allow-lists that concern all rules.
    everywhere: Vec<PreparedAllowList>,
}

/// The filters of one rule.
#[derive(Debug)]
struct RuleFilters {
    filters: FilterUse,
    path: Option<Regex>,
    entropy: Option<f64>,
    keywords: WordFinder,
    /// The allow-lists of the rule, and those of the set that name it.
    allow: Vec<PreparedAllowList>,
}

impl Filters {
    /// Prepares the filters of a set.
    pub fn new(rules: &RuleSet) -> Filters {
        let (everywhere, named): (Vec<_>, Vec<_>) =
            rules.allow.iter().partition(|list| list.rules.is_empty());
        let prepare = |rule: &crate::rule::Rule| {
            let of_the_set = named.iter().copied().filter(|list| list.rules.contains(&rule.id));
            RuleFilters {
                filters: rule.filters,
                path: rule.path.clone(),
                entropy: rule.entropy,
                keywords: WordFinder::new(&rule.keywords),
                allow: rule.allow.iter().chain(of_the_set).map(PreparedAllowList::new).collect(),
            }
        };
        Filters {
            rules: rules.rules.iter().map(prepare).collect(),
            everywhere: everywhere.into_iter().map(PreparedAllowList::new).collect(),
        }
    }

    /// Returns whether any rule may be searched for in a file. Only the allow-lists of the whole set are looked at, so
    /// this is cheap, and `true` does not mean that a rule really applies.
    pub fn searches_file(&self, path: &Path) -> bool {
        let path = path_bytes(path);
        !self.everywhere.iter().any(|list| list.allows_file(&path))
            || self.rules.iter().any(|rule| rule.filters == FilterUse::Skip)
    }

    /// Returns whether a rule is searched for in a file, according to the rule's path and the paths of allow-lists.
    pub fn searches(&self, rule: usize, path: &Path) -> bool {
        let rule = &self.rules[rule];
        let path = path_bytes(path);
        rule.path.as_ref().is_none_or(|regex| regex.is_match(&path)) && !self.allows_file(rule, &path)
    }

    /// Returns whether a text contains a keyword of a rule. For a rule without keywords, the answer is always `true`.
    ///
    /// If an input is seen in pieces, ask for each of them, and let them overlap by
    /// [`keyword_overlap`](Self::keyword_overlap) bytes. A match often contains a keyword itself, so it is worth asking
    /// for the bytes of the match first.
    pub fn has_keyword(&self, rule: usize, text: &[u8]) -> bool {
        let rule = &self.rules[rule];
        rule.keywords.is_empty() || rule.filters == FilterUse::Skip || rule.keywords.is_in(text)
    }

    /// Returns by how many bytes pieces of an input must overlap, so that no keyword of a rule is missed.
    pub fn keyword_overlap(&self, rule: usize) -> usize {
        self.rules[rule].keywords.longest().saturating_sub(1)
    }

    /// Returns why a match is dropped, or `None` if it counts. Keywords are not looked for, since they may stand
    /// anywhere in the input.
    pub fn drop_reason(&self, rule: usize, view: FilterView<'_>) -> Option<DropReason> {
        let rule = &self.rules[rule];
        if rule.filters == FilterUse::Skip {
            return None;
        }
        let path = path_bytes(view.path);
        if rule.path.as_ref().is_some_and(|regex| !regex.is_match(&path)) {
            return Some(DropReason::Path);
        }
        if ALLOW_COMMENTS.iter().any(|comment| memmem::find(view.lines, comment.as_bytes()).is_some()) {
            return Some(DropReason::Comment);
        }
        if rule.entropy.is_some_and(|limit| entropy(view.secret) <= limit) {
            return Some(DropReason::Entropy);
        }
        self.everywhere.iter().chain(&rule.allow).find_map(|list| list.reason(&view, &path))
    }

    fn allows_file(&self, rule: &RuleFilters, path: &[u8]) -> bool {
        rule.filters == FilterUse::Apply
            && self.everywhere.iter().chain(&rule.allow).any(|list| list.allows_file(path))
    }
}

/// Why a match does not count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The secret's entropy is too low.
    Entropy,
    /// The path is allowed, or it is not one of those that the rule is for.
    Path,
    /// An expression of an allow-list was found, or all conditions of an allow-list hold.
    AllowList,
    /// The secret contains a stop word.
    Stopword,
    /// The lines contain one of the [`ALLOW_COMMENTS`].
    Comment,
}

#[cfg(test)]
mod tests;
