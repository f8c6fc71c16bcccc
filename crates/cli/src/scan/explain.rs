//! `--explain`: which rules there are, and how each is searched for.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use pelton_scan::catalog::FactorOutput;
use pelton_scan::{Catalog, Rule, Scanner};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::scan::args::ScanArgs;
use crate::scan::escape::{shown_path, shown_text};
use crate::term::{Term, TextRole};

/// The largest number of literals that are named in the text.
const LITERALS_SHOWN: usize = 8;

/// How a rule is searched for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct RuleSearch {
    /// Every match contains one of these literals, or one of the runs.
    literals: BTreeSet<String>,
    /// The lengths of runs of a class, and the numbers of bytes in these classes.
    runs: BTreeSet<(u32, u32)>,
}

impl RuleSearch {
    /// Returns one word for it.
    fn word(&self, rule: &Rule) -> &'static str {
        match (rule.expression.is_some(), self.literals.is_empty(), self.runs.is_empty()) {
            (false, ..) => "path",
            (_, true, true) => "always",
            (_, false, true) => "literals",
            (_, true, false) => "class-run",
            (_, false, false) => "literals-and-class-run",
        }
    }

    /// Returns it in words.
    fn text(&self, rule: &Rule) -> String {
        if rule.expression.is_none() {
            return "by the path alone".into();
        }
        let mut ways = Vec::new();
        if !self.literals.is_empty() {
            let shown: Vec<&str> = self.literals.iter().take(LITERALS_SHOWN).map(String::as_str).collect();
            let more = self.literals.len() - shown.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let noun = if self.literals.len() == 1 { "the literal" } else { "the literals" };
            ways.push(format!("by {noun} {}{more}", shown.join(" ")));
        }
        for (length, bytes) in &self.runs {
            ways.push(format!("by runs of {length} or more bytes of a class of {bytes}"));
        }
        if ways.is_empty() {
            "in every byte, because no literal is in all matches".into()
        } else {
            ways.join(", ")
        }
    }
}

/// Prints the rules, as text or as one JSON object.
pub(super) fn print_rules(scanner: &Scanner, args: &ScanArgs, term: &Term) -> Result<(), CliError> {
    let searches = rule_searches(scanner.catalog());
    let none = RuleSearch::default();
    let rules = (0u32..).zip(&scanner.rules().rules);
    let rules = rules.map(|(index, rule)| (rule, searches.get(&index).unwrap_or(&none)));
    let threads = args.run.thread_count();
    let why = engine_reason(&args.run.device);
    if args.output.json {
        let rejected = scanner.rules().rejected.iter().map(|rejected| {
            json!({ "rule": rejected.id, "file": rejected.origin.file.as_deref().map(shown_path),
                "line": rejected.origin.line, "reason": rejected.reason })
        });
        return term.line(json!({
            "engine": { "name": scanner.engine().describe(), "reason": why, "threads": threads },
            "rules": rules.map(|(rule, search)| rule_json(rule, search)).collect::<Vec<_>>(),
            "rejected": rejected.collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    for (rule, search) in rules {
        push_rule(&mut text, rule, search, term);
    }
    let count = scanner.rules().rules.len();
    let engine = scanner.engine().describe();
    let threads = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
    let _ = writeln!(text, "\nrules   {count}\nengine  {engine}, on {threads}, {why}");
    term.text(&text)
}

fn engine_reason(device: &str) -> String {
    match device {
        "auto" => "because --device is auto and nothing else can scan yet".into(),
        name => format!("because --device is {name}"),
    }
}

/// Returns how each rule is searched for, by its index. Rules that are searched for everywhere are missing.
fn rule_searches(catalog: &Catalog) -> HashMap<u32, RuleSearch> {
    let rule_of = |branch: u32| catalog.branches()[branch as usize].rule;
    let mut searches: HashMap<u32, RuleSearch> = HashMap::new();
    for output in catalog.factors().iter().flat_map(|table| &table.outputs) {
        searches.entry(rule_of(output.branch)).or_default().literals.insert(literal_text(output));
    }
    for run in catalog.class_runs() {
        searches.entry(rule_of(run.branch)).or_default().runs.insert((run.length, run.class.len()));
    }
    searches
}

/// Returns a literal as an expression: `AKIA`, or `(?i:key)` if case does not matter.
fn literal_text(output: &FactorOutput) -> String {
    let bytes = output.value.iter().zip(&output.mask).filter(|(_, mask)| **mask != 0);
    let mut folded = false;
    let mut text = String::new();
    for (value, mask) in bytes {
        folded |= *mask == 0xdf;
        let byte = if *mask == 0xdf { value.to_ascii_lowercase() } else { *value };
        let _ = write!(text, "{}", byte.escape_ascii());
    }
    if folded { format!("(?i:{text})") } else { text }
}

fn mode_word(rule: &Rule) -> Option<&'static str> {
    let expression = rule.expression.as_ref()?;
    Some(if expression.unicode() { "Unicode" } else { "bytes" })
}

fn push_rule(text: &mut String, rule: &Rule, search: &RuleSearch, term: &Term) {
    let id = term.paint(TextRole::Strong, shown_text(&rule.id));
    let _ = writeln!(text, "{id}  {}", shown_text(&rule.description));
    if let (Some(expression), Some(mode)) = (&rule.expression, mode_word(rule)) {
        let _ = writeln!(text, "    expression  {}", shown_text(expression.text()));
        let _ = writeln!(text, "    taken as    {mode}");
    }
    let _ = writeln!(text, "    searched    {}", search.text(rule));
    if let Some(path) = &rule.path {
        let _ = writeln!(text, "    only in     paths that match {}", shown_text(path.as_str()));
    }
    if let Some(entropy) = rule.entropy {
        let _ = writeln!(text, "    entropy     above {entropy} bits per byte");
    }
    if let Some(file) = &rule.origin.file {
        let line = rule.origin.line.map_or_else(String::new, |line| format!(":{line}"));
        let _ = writeln!(text, "    read from   {}{line}", shown_path(file));
    }
}

fn rule_json(rule: &Rule, search: &RuleSearch) -> Value {
    json!({
        "rule": rule.id,
        "description": rule.description,
        "expression": rule.expression.as_ref().map(|expression| expression.text()),
        "mode": mode_word(rule).map(str::to_ascii_lowercase),
        "search": search.word(rule),
        "literals": search.literals,
        "path": rule.path.as_ref().map(|path| path.as_str()),
        "entropy": rule.entropy,
        "keywords": rule.keywords,
        "file": rule.origin.file.as_deref().map(shown_path),
        "line": rule.origin.line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::format::sample_rule;

    fn output(symbols: &[(u8, u8)]) -> FactorOutput {
        let mut output = FactorOutput { branch: 0, back: 0, value: [0; 16], mask: [0; 16] };
        let first = 16 - symbols.len();
        for (at, (value, mask)) in symbols.iter().enumerate() {
            (output.value[first + at], output.mask[first + at]) = (*value, *mask);
        }
        output
    }

    #[test]
    fn literals_are_shown_as_they_are_compared() {
        assert_eq!(literal_text(&output(&[(b'A', 0xff), (b'\n', 0xff)])), "A\\n");
        assert_eq!(literal_text(&output(&[(b'K', 0xdf), (b'_', 0xff)])), "(?i:k_)");
    }

    #[test]
    fn every_way_of_searching_has_words() {
        let rule = sample_rule("key");
        let mut search = RuleSearch::default();
        assert_eq!((search.word(&rule), search.text(&rule).starts_with("in every byte")), ("always", true));
        search.runs.insert((40, 16));
        assert_eq!(search.text(&rule), "by runs of 40 or more bytes of a class of 16");
        search.literals.extend((0..10).map(|k| format!("{k}")));
        assert_eq!(search.word(&rule), "literals-and-class-run");
        assert!(search.text(&rule).starts_with("by the literals 0 1 2 3 4 5 6 7 and 2 more, by runs"));
        let path_rule = Rule { expression: None, ..rule };
        assert_eq!(search.word(&path_rule), "path");
    }
}
