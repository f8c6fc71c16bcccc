//! Rules, as every reader of rules yields them.

use std::path::PathBuf;

use regex::bytes::Regex;

use crate::expression::Expression;

/// A rule: what is searched for, and which matches count.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The name, unique within a set.
    pub id: String,
    /// What the rule finds, in words; may be empty.
    pub description: String,
    /// What is searched for. A rule without an expression finds every file whose path matches.
    pub expression: Option<Expression>,
    /// Only files whose path matches are searched.
    pub path: Option<Regex>,
    /// The group of the expression that is the secret; without one, the first group that is not empty.
    pub secret_group: Option<u32>,
    /// Secrets whose entropy in bits per byte is not above this are dropped.
    pub entropy: Option<f64>,
    /// If not empty, the rule applies only to inputs that contain one of these, in any case.
    pub keywords: Vec<String>,
    /// Lists of what is allowed to be there.
    pub allow: Vec<AllowList>,
    /// Words for grouping in reports.
    pub tags: Vec<String>,
    /// Whether filters apply to the rule's matches.
    pub filters: FilterUse,
    /// Where the rule was read.
    pub origin: RuleOrigin,
    /// Texts that the rule must find something in, for tests of the rule.
    pub positive: Vec<String>,
    /// Texts that the rule must find nothing in.
    pub negative: Vec<String>,
}

/// Whether filters apply to the matches of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FilterUse {
    /// All filters apply: comments, the rule's own, and the allow-lists of the whole set.
    #[default]
    Apply,
    /// None apply: every match counts. Bare expressions of the command line are taken like this.
    Skip,
}

/// Where a rule was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RuleOrigin {
    /// The file; `None` for rules of the command line and of the starter set.
    pub file: Option<PathBuf>,
    /// The line at which the rule begins, from 1.
    pub line: Option<u32>,
}

/// Matches that are allowed to be there, and so are dropped.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    /// Why they are allowed, in words.
    pub description: String,
    /// Whether one of the conditions below suffices, or all that are given must hold.
    pub condition: AllowCondition,
    /// What `regexes` are searched in.
    pub target: AllowTarget,
    /// Expressions; one that is found in the target allows the match.
    pub regexes: Vec<Regex>,
    /// Expressions over the path of the file.
    pub paths: Vec<Regex>,
    /// Words that a secret may contain, in lower case.
    pub stopwords: Vec<String>,
    /// Only these rules are concerned, by name; all if empty. Used by lists of a whole set.
    pub rules: Vec<String>,
}

/// How the conditions of an allow-list are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllowCondition {
    /// One suffices.
    #[default]
    Any,
    /// All that are given must hold.
    All,
}

/// What the expressions of an allow-list are searched in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllowTarget {
    /// The secret.
    #[default]
    Secret,
    /// The whole match.
    Match,
    /// The lines in which the match lies.
    Line,
}

/// Rules that belong together.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The rules that can be used.
    pub rules: Vec<Rule>,
    /// The rules that cannot.
    pub rejected: Vec<RejectedRule>,
    /// Allow-lists for all rules, or for those that they name.
    pub allow: Vec<AllowList>,
}

/// A rule that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedRule {
    /// The name of the rule, or what stands for it.
    pub id: String,
    /// Where it was read.
    pub origin: RuleOrigin,
    /// Why it cannot be used.
    pub reason: String,
}
