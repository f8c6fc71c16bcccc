//! Rules and sets of rules, in the form in which all readers of rule files return them.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use regex::bytes::Regex;

use crate::expression::Expression;
use crate::rules::duplicate;

/// A rule: what is searched for, and which matches count.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The name, unique within a set.
    pub id: String,
    /// What the rule finds, in words; may be empty.
    pub description: String,
    /// The expression to search for. A rule without one reports every file whose path matches.
    pub expression: Option<Expression>,
    /// If given, only files whose path it matches are searched.
    pub path: Option<Regex>,
    /// The number of the group that is the secret. Without it, the first group that is not empty is the secret, or the
    /// whole match if there is none.
    pub secret_group: Option<u32>,
    /// If given, secrets whose entropy in bits per byte is not higher than this are dropped.
    pub entropy: Option<f64>,
    /// If not empty, the rule applies only to inputs that contain one of these words, in upper or lower case.
    pub keywords: Vec<String>,
    /// The allow-lists of this rule, which drop matches.
    pub allow: Vec<AllowList>,
    /// Words by which reports can group findings.
    pub tags: Vec<String>,
    /// Whether filters apply to the rule's matches.
    pub filters: FilterUse,
    /// Where the rule was read.
    pub origin: RuleOrigin,
    /// Texts in which the rule must find something. [`failed_examples`](crate::rules::failed_examples) tests this.
    pub positive: Vec<String>,
    /// Texts in which the rule must find nothing.
    pub negative: Vec<String>,
}

/// Whether filters apply to the matches of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FilterUse {
    /// All filters apply: comments, the rule's own, and the allow-lists of the whole set.
    #[default]
    Apply,
    /// No filter applies, so every match counts. This is meant for expressions on a command line.
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

impl Display for RuleOrigin {
    /// Writes `file:line`, or as much of it as is known.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
        }
        match self.line {
            Some(line) if self.file.is_some() => write!(f, ":{line}"),
            Some(line) => write!(f, "line {line}"),
            None => Ok(()),
        }
    }
}

/// A description of matches that are allowed to be there, and are therefore dropped.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    /// Why they are allowed, in words.
    pub description: String,
    /// Whether one of `regexes`, `paths` and `stopwords` suffices, or all that are not empty must apply.
    pub condition: AllowCondition,
    /// The text in which `regexes` are searched for.
    pub target: AllowTarget,
    /// Expressions of which one must be found in the target.
    pub regexes: Vec<Regex>,
    /// Expressions of which one must match the path of the file.
    pub paths: Vec<Regex>,
    /// Words of which the secret must contain one, in upper or lower case.
    pub stopwords: Vec<String>,
    /// The names of the rules that the list is for; if empty, it is for all. Only lists of a whole set use this.
    pub rules: Vec<String>,
    /// Where the list was read.
    pub origin: RuleOrigin,
}

/// How the conditions of an allow-list are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllowCondition {
    /// One of them suffices.
    #[default]
    Any,
    /// All that are not empty must apply.
    All,
}

/// The text in which the expressions of an allow-list are searched for.
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

/// Rules that are used together, with their allow-lists.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The rules that can be used.
    pub rules: Vec<Rule>,
    /// The rules that cannot be used, with the reasons.
    pub rejected: Vec<RejectedRule>,
    /// Allow-lists for all rules, or for those that they name.
    pub allow: Vec<AllowList>,
}

impl RuleSet {
    /// Adds the rules and allow-lists of another set. A rule whose name is already taken is rejected. Allow-lists that
    /// name no rules apply to the rules of both sets afterwards.
    pub fn append(&mut self, other: RuleSet) {
        for rule in other.rules {
            match self.rules.iter().find(|first| first.id == rule.id) {
                None => self.rules.push(rule),
                Some(first) => self.rejected.push(duplicate(rule.id, rule.origin, &first.origin)),
            }
        }
        self.rejected.extend(other.rejected);
        self.allow.extend(other.allow);
    }
}

/// A rule that cannot be used, or something else in a file of rules that has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedRule {
    /// The name of the rule, or the key in the file that has no effect.
    pub id: String,
    /// Where it was read.
    pub origin: RuleOrigin,
    /// Why it has no effect.
    pub reason: String,
}

impl Display for RejectedRule {
    /// Writes `file:line: name: reason`, without the place if it is not known.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.origin != RuleOrigin::default() {
            write!(f, "{}: ", self.origin)?;
        }
        write!(f, "{}: {}", self.id, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(id: &str, file: &str) -> Rule {
        let origin = RuleOrigin { file: Some(file.into()), line: Some(3) };
        Rule { id: id.into(), origin, ..Rule::default() }
    }

    #[test]
    fn a_name_that_is_taken_is_rejected_when_sets_are_joined() {
        let mut set = RuleSet { rules: vec![rule("a", "one"), rule("b", "one")], ..RuleSet::default() };
        set.append(RuleSet {
            rules: vec![rule("b", "two"), rule("c", "two")],
            allow: vec![AllowList::default()],
            ..RuleSet::default()
        });
        assert_eq!(set.rules.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(set.allow.len(), 1);
        let texts: Vec<String> = set.rejected.iter().map(|rejected| rejected.to_string()).collect();
        assert_eq!(texts, ["two:3: b: a rule of this name is already defined at one:3"]);
    }
}
