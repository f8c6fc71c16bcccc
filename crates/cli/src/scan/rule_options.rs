//! Collects the rules that the options name.

use std::collections::HashSet;

use pelton_scan::expression::ExpressionError;
use pelton_scan::rule::RejectedRule;
use pelton_scan::{Rule, RuleSet, rules};

use crate::error::CliError;
use crate::scan::args::RuleArgs;
use crate::scan::escape::{shown_path, shown_text};

/// The rules of a scan.
pub(super) struct CollectedRules {
    /// The rules, with those that were rejected.
    pub set: RuleSet,
    /// What is wrong with expressions of the command line, as messages.
    pub bad_expressions: Vec<String>,
}

/// Collects the rules that the options name, or the starter set if they name none. An expression of the command line
/// is its own name.
pub(super) fn collect_rules(args: &RuleArgs) -> Result<CollectedRules, CliError> {
    let mut bad_expressions = Vec::new();
    if args.expressions.is_empty() && args.files.is_empty() {
        return Ok(CollectedRules { set: rules::starter(), bad_expressions });
    }
    let mut set = RuleSet::default();
    for text in &args.expressions {
        if set.rules.iter().any(|rule| rule.id == *text) {
            continue;
        }
        match rules::from_expression(text, text) {
            Ok(rule) => set.rules.push(rule),
            Err(error) => bad_expressions.push(expression_problem(text, &error)),
        }
    }
    let mut names: HashSet<String> = set.rules.iter().map(|rule| rule.id.clone()).collect();
    for file in &args.files {
        let read = rules::read_file(file).map_err(|error| CliError::Wrong(error.to_string()))?;
        add_file(&mut set, read, &mut names, args.files.len());
    }
    Ok(CollectedRules { set, bad_expressions })
}

/// Adds the rules of a file to those of others.
fn add_file(set: &mut RuleSet, read: RuleSet, names: &mut HashSet<String>, files: usize) {
    let own: Vec<String> = read.rules.iter().map(|rule| rule.id.clone()).collect();
    for rule in read.rules {
        if names.insert(rule.id.clone()) {
            set.rules.push(rule);
        } else if !set.rules.iter().any(|other| other.id == rule.id && is_same_place(other, &rule)) {
            let reason = "another rule has the same name".into();
            set.rejected.push(RejectedRule { id: rule.id, origin: rule.origin, reason });
        }
    }
    set.rejected.extend(read.rejected);
    for mut list in read.allow {
        // A list for all rules is for all rules of its own file.
        if files > 1 && list.rules.is_empty() {
            if own.is_empty() {
                continue;
            }
            list.rules.clone_from(&own);
        }
        set.allow.push(list);
    }
}

/// Returns whether two rules were read in the same place, as those of a file or of the starter set that two files extend.
fn is_same_place(one: &Rule, other: &Rule) -> bool {
    one.origin == other.origin && one.expression == other.expression
}

/// Says what is wrong with an expression of the command line, and where.
fn expression_problem(text: &str, error: &ExpressionError) -> String {
    let mut problem =
        format!("the value of -e is not a regular expression: {}\n  {}", error.message, shown_text(text));
    // The position is one in the text without comments, so it is of use only if there are none.
    let place = error.at.filter(|_| !text.contains("(?#")).and_then(|at| text.get(..at));
    if let Some(before) = place {
        let column = shown_text(before).chars().count();
        problem.push_str(&format!("\n  {:column$}^", ""));
    }
    problem
}

/// Says what in a file of rules has no effect, and why, as `file:line: name: reason`.
pub(super) fn rejection_text(rejected: &RejectedRule) -> String {
    let id = shown_text(&rejected.id);
    let place = match (&rejected.origin.file, rejected.origin.line) {
        (Some(file), Some(line)) => format!("{}:{line}: ", shown_path(file)),
        (Some(file), None) => format!("{}: ", shown_path(file)),
        (None, _) => String::new(),
    };
    format!("{place}{id}: {}", shown_text(&rejected.reason))
}

#[cfg(test)]
mod tests {
    use pelton_scan::Expression;
    use pelton_scan::rule::{AllowList, RuleOrigin};

    use super::*;
    use crate::scan::format::sample_rule;

    #[test]
    fn a_bad_expression_is_pointed_at() {
        let problem = |text: &str| expression_problem(text, &Expression::parse(text).unwrap_err());
        assert_eq!(
            problem("ab(c"),
            "the value of -e is not a regular expression: unclosed group\n  ab(c\n    ^"
        );
        assert!(problem("é\n(").ends_with("\n  é\\n(\n     ^"), "{}", problem("é\n("));
        assert!(!problem("(?#x)(").contains('^'));
    }

    #[test]
    fn a_rejected_rule_is_named_with_its_place() {
        let origin = RuleOrigin { file: Some("rules.toml".into()), line: Some(7) };
        let rejected = RejectedRule { id: "key".into(), origin, reason: "it is too large".into() };
        assert_eq!(rejection_text(&rejected), "rules.toml:7: key: it is too large");
    }

    #[test]
    fn allow_lists_are_about_the_rules_of_their_own_file() {
        let rule = |id: &str, line| Rule { origin: RuleOrigin { file: None, line }, ..sample_rule(id) };
        let file = |ids: &[&str]| RuleSet {
            rules: ids.iter().map(|id| rule(id, Some(ids.len() as u32 + u32::from(ids[0] == "a")))).collect(),
            rejected: Vec::new(),
            allow: vec![AllowList::default()],
        };
        let (mut set, mut names) = (RuleSet::default(), HashSet::new());
        add_file(&mut set, file(&["a", "b"]), &mut names, 2);
        add_file(&mut set, file(&["b", "c"]), &mut names, 2);
        let ids: Vec<&str> = set.rules.iter().map(|rule| &*rule.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(set.rejected[0].reason, "another rule has the same name");
        assert_eq!(set.allow[1].rules, ["b", "c"]);
        let mut alone = RuleSet::default();
        add_file(&mut alone, file(&["a"]), &mut HashSet::new(), 1);
        assert!(alone.allow[0].rules.is_empty());
    }
}
