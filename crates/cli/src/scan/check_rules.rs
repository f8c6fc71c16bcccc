//! `--check-rules`: whether rules find what their own examples say.

use std::fmt::Write as _;

use pelton_scan::rules::{ExampleKind, failed_examples};
use pelton_scan::{Rule, RuleSet};

use crate::error::CliError;
use crate::scan::escape::shown_text;
use crate::term::{Term, TextRole};

/// Tests the examples of all rules and prints what came of it. Returns whether there is a rule that does not do what its
/// examples say.
pub(super) fn check_rules(set: &RuleSet, term: &Term) -> Result<bool, CliError> {
    let failed = failed_examples(set);
    let mut text = String::new();
    for rule in &set.rules {
        let id = term.paint(TextRole::Strong, shown_text(&rule.id));
        let wrong: Vec<_> = failed.iter().filter(|example| example.rule == rule.id).collect();
        let outcome = match wrong.len() {
            0 => "as expected".into(),
            1 => "1 is wrong".into(),
            count => format!("{count} are wrong"),
        };
        let _ = match (example_count(rule), wrong.is_empty()) {
            (0, true) => writeln!(text, "{id}: no examples"),
            _ => writeln!(text, "{id}: {}, {outcome}", examples_text(rule)),
        };
        for example in wrong {
            let kind = match example.kind {
                ExampleKind::Positive => "positive",
                ExampleKind::Negative => "negative",
            };
            let (example, reason) = (shown_text(&example.text), shown_text(&example.reason));
            let _ = writeln!(text, "    {kind}: {example}\n        {reason}");
        }
    }
    let examples: usize = set.rules.iter().map(example_count).sum();
    let _ =
        writeln!(text, "\nrules     {}\nexamples  {examples}\nwrong     {}", set.rules.len(), failed.len());
    term.text(&text)?;
    Ok(!failed.is_empty())
}

fn example_count(rule: &Rule) -> usize {
    rule.positive.len() + rule.negative.len()
}

fn examples_text(rule: &Rule) -> String {
    let examples = if example_count(rule) == 1 { "example" } else { "examples" };
    format!("{} positive and {} negative {examples}", rule.positive.len(), rule.negative.len())
}
