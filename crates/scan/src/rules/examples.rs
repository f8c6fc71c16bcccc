//! Tests of rules with their positive and negative examples.

use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};

use crate::filter::{FilterView, Filters, secret_of};
use crate::rule::{Rule, RuleSet};

/// What an example is there for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExampleKind {
    /// The rule must find something in it.
    Positive,
    /// The rule must find nothing in it.
    Negative,
}

/// An example of a rule for which the rule does not do what it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedExample {
    /// The name of the rule.
    pub rule: String,
    /// What the example is there for.
    pub kind: ExampleKind,
    /// The text of the example.
    pub text: String,
    /// What happened instead.
    pub reason: String,
}

/// Tests every example of every rule in a set, and returns those that fail. The filters of the set apply, except for the
/// `path` of rules. For a rule without an expression, the examples are paths.
pub fn failed_examples(set: &RuleSet) -> Vec<FailedExample> {
    let mut set = set.clone();
    for rule in set.rules.iter_mut().filter(|rule| rule.expression.is_some()) {
        // An example is a text, and which file it would stand in is not known.
        rule.path = None;
    }
    let filters = Filters::new(&set);
    let mut failed = Vec::new();
    for (index, rule) in set.rules.iter().enumerate() {
        let regex = match rule_regex(rule) {
            Ok(regex) => regex,
            Err(error) => {
                let reason = format!("the expression cannot be compiled: {error}");
                let (rule, text) = (rule.id.clone(), String::new());
                failed.push(FailedExample { rule, kind: ExampleKind::Positive, text, reason });
                continue;
            }
        };
        let positive = rule.positive.iter().map(|text| (ExampleKind::Positive, text));
        let negative = rule.negative.iter().map(|text| (ExampleKind::Negative, text));
        for (kind, text) in positive.chain(negative) {
            let outcome = match &regex {
                Some(regex) => search_text(&filters, index, rule, regex, text),
                None => search_path(&filters, index, text),
            };
            let is_right = outcome.is_ok() == (kind == ExampleKind::Positive);
            if !is_right {
                let reason = outcome.unwrap_or_else(|reason| reason);
                failed.push(FailedExample { rule: rule.id.clone(), kind, text: text.clone(), reason });
            }
        }
    }
    failed
}

fn rule_regex(rule: &Rule) -> Result<Option<Regex>, regex::Error> {
    let Some(expression) = &rule.expression else { return Ok(None) };
    RegexBuilder::new(expression.text()).unicode(expression.unicode()).build().map(Some)
}

/// Says what was found, or else why nothing was.
fn search_text(
    filters: &Filters,
    index: usize,
    rule: &Rule,
    regex: &Regex,
    text: &str,
) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut reason = "the expression does not match".to_string();
    for captures in regex.captures_iter(bytes) {
        let groups: Vec<_> = captures.iter().map(|group| group.map(|group| group.range())).collect();
        let Some(whole) = groups[0].clone() else { continue };
        let secret = secret_of(rule.secret_group, &groups);
        let line_start = memchr::memrchr(b'\n', &bytes[..whole.start]).map_or(0, |at| at + 1);
        let line_end = memchr::memchr(b'\n', &bytes[whole.end..]).map_or(bytes.len(), |at| whole.end + at);
        let view = FilterView {
            path: Path::new("example"),
            matched: &bytes[whole],
            secret: &bytes[secret.clone()],
            lines: &bytes[line_start..line_end],
        };
        match filters.drop_reason(index, view) {
            _ if secret.is_empty() => reason = "the secret is empty".into(),
            None if !filters.has_keyword(index, bytes) => reason = "no keyword is in the text".into(),
            None => return Ok(format!("found {:?}", String::from_utf8_lossy(view.secret))),
            Some(drop) => {
                reason = format!("{:?} is dropped by {drop:?}", String::from_utf8_lossy(view.secret))
            }
        }
    }
    Err(reason)
}

fn search_path(filters: &Filters, index: usize, path: &str) -> Result<String, String> {
    match filters.searches(index, Path::new(path)) {
        true => Ok("the path matches".into()),
        false => Err("the path does not match".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::from_expression;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn examples_that_fail_are_returned_with_a_reason() {
        let rule = Rule {
            entropy: Some(1.0),
            positive: strings(&["key=abcd", "key=aaaa", "kex"]),
            negative: strings(&["kex", "x key=abcd"]),
            filters: Default::default(),
            ..from_expression("tested", "key=(.*)").unwrap()
        };
        let set = RuleSet { rules: vec![rule], ..RuleSet::default() };
        let failed: Vec<_> =
            failed_examples(&set).into_iter().map(|failed| (failed.kind, failed.reason)).collect();
        assert_eq!(
            failed,
            [
                (ExampleKind::Positive, "\"aaaa\" is dropped by Entropy".to_string()),
                (ExampleKind::Positive, "the expression does not match".to_string()),
                (ExampleKind::Negative, "found \"abcd\"".to_string()),
            ]
        );
    }

    #[test]
    fn examples_of_rules_without_an_expression_are_paths() {
        let rule = Rule {
            id: "tested".into(),
            path: Some(Regex::new(r"\.pem$").unwrap()),
            positive: strings(&["a/b.pem"]),
            negative: strings(&["a/b.pem.txt"]),
            ..Rule::default()
        };
        let set = RuleSet { rules: vec![rule.clone()], ..RuleSet::default() };
        assert_eq!(failed_examples(&set), []);
        let swapped = Rule { positive: rule.negative.clone(), negative: rule.positive.clone(), ..rule };
        let set = RuleSet { rules: vec![swapped], ..RuleSet::default() };
        assert_eq!(failed_examples(&set).len(), 2);
    }
}
