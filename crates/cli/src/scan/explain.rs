//! `--explain`: which rules there are, and how each one is searched for.

use std::fmt::Write as _;

use pelton_scan::Rule;
use pelton_scan::rule::{AllowCondition, AllowList, AllowTarget};
use pelton_scan::scanner::{RulePlan, SearchWay};
use regex::bytes::Regex;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::scan::args::ScanArgs;
use crate::scan::device::OpenedScanner;
use crate::scan::escape::{shown_path, shown_text};
use crate::term::{Term, TextRole};

/// The largest number of literals of a rule that are printed.
const LITERALS_SHOWN: usize = 8;

/// Returns the word by which `--json` says how a rule is searched for.
fn way_word(way: &SearchWay) -> &'static str {
    match way {
        SearchWay::Factors { runs, .. } if runs.is_empty() => "literals",
        SearchWay::Factors { literals, .. } if literals.is_empty() => "class-run",
        SearchWay::Factors { .. } => "literals-and-class-run",
        SearchWay::Everywhere => "always",
        SearchWay::Path => "path",
        _ => "other",
    }
}

/// Describes for people how a rule is searched for.
fn way_text(way: &SearchWay) -> String {
    let SearchWay::Factors { literals, runs } = way else {
        return match way {
            SearchWay::Path => "by the path alone".into(),
            _ => "everywhere, because no useful literal occurs in all matches".into(),
        };
    };
    let mut ways = Vec::new();
    if !literals.is_empty() {
        let shown: Vec<String> =
            literals.iter().take(LITERALS_SHOWN).map(|text| literal_text(text)).collect();
        let more = literals.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let noun = if literals.len() == 1 { "the literal" } else { "the literals" };
        ways.push(format!("by {noun} {}{more}", shown.join(" ")));
    }
    for (length, bytes) in runs {
        ways.push(format!("by runs of at least {length} bytes of a class of {bytes}"));
    }
    ways.join(", ")
}

fn literal_text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Prints the rules, as text or as one JSON object.
pub(super) fn print_rules(opened: &OpenedScanner, args: &ScanArgs, term: &Term) -> Result<(), CliError> {
    let scanner = &opened.scanner;
    let rules = scanner.rules().rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| (rule, scanner.plan(index)));
    let threads = args.engine.thread_count();
    let why = engine_reason(&args.engine.device, opened.no_gpu.as_deref());
    if args.output.json {
        let rejected = scanner.rules().rejected.iter().map(|rejected| {
            json!({ "rule": rejected.id, "file": rejected.origin.file.as_deref().map(shown_path),
                "line": rejected.origin.line, "reason": rejected.reason })
        });
        return term.line(json!({
            "engine": { "name": scanner.engine().describe(), "reason": why, "threads": threads },
            "rules": rules.map(|(rule, plan)| rule_json(rule, &plan)).collect::<Vec<_>>(),
            "allow": scanner.rules().allow.iter().map(allow_json).collect::<Vec<_>>(),
            "rejected": rejected.collect::<Vec<_>>(),
        }));
    }
    let mut text = String::new();
    for (rule, plan) in rules {
        push_rule(&mut text, rule, &plan, term);
    }
    if !scanner.rules().allow.is_empty() {
        let _ = writeln!(text, "\nallowed by lists for several rules");
    }
    for list in &scanner.rules().allow {
        let rules =
            if list.rules.is_empty() { "all rules".into() } else { shown_text(&list.rules.join(" ")) };
        let _ = writeln!(text, "    {}\n        for {rules}", allow_text(list));
    }
    let count = scanner.rules().rules.len();
    let engine = scanner.engine().describe();
    let threads = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
    let _ = writeln!(text, "\nrules   {count}\nengine  {engine}, on {threads}, {why}");
    term.text(&text)
}

fn engine_reason(device: &str, no_gpu: Option<&str>) -> String {
    match (device, no_gpu) {
        ("auto", None) => "because --device is auto, and there is a GPU".into(),
        ("auto", Some(why)) => {
            format!("because --device is auto, and no GPU can be used: {}", shown_text(why))
        }
        ("cpu", _) => {
            "because --device is cpu, where the native loop is faster than the kernel that GPUs run".into()
        }
        (name, _) => format!("because --device is {name}"),
    }
}

fn mode_word(plan: &RulePlan) -> &'static str {
    if plan.unicode { "Unicode" } else { "bytes" }
}

fn push_rule(text: &mut String, rule: &Rule, plan: &RulePlan, term: &Term) {
    let id = term.paint(TextRole::Strong, shown_text(&rule.id));
    let _ = writeln!(text, "{id}  {}", shown_text(&rule.description));
    if let Some(expression) = &rule.expression {
        let _ = writeln!(text, "    expression  {}", shown_text(expression.text()));
        let _ = writeln!(text, "    matches     {}", mode_word(plan));
    }
    let _ = writeln!(text, "    searched    {}", way_text(&plan.way));
    if let Some(path) = &rule.path {
        let _ = writeln!(text, "    only in     paths that match {}", shown_text(path.as_str()));
    }
    if !rule.keywords.is_empty() {
        let _ = writeln!(text, "    keywords    {}", shown_text(&rule.keywords.join(" ")));
    }
    if let Some(entropy) = rule.entropy {
        let _ = writeln!(text, "    entropy     above {entropy} bits per byte");
    }
    for list in &rule.allow {
        let _ = writeln!(text, "    allowed     {}", allow_text(list));
    }
    if let Some(file) = &rule.origin.file {
        let line = rule.origin.line.map_or_else(String::new, |line| format!(":{line}"));
        let _ = writeln!(text, "    read from   {}{line}", shown_path(file));
    }
}

/// Describes for people what an allow-list drops.
fn allow_text(list: &AllowList) -> String {
    let mut parts = Vec::new();
    let mut push = |what: &str, how: &str, values: Vec<&str>| {
        if !values.is_empty() {
            parts.push(format!("{what} {how} {}", shown_text(&values.join(" or "))));
        }
    };
    push(target_word(list.target), "matches", list.regexes.iter().map(|regex| regex.as_str()).collect());
    push("the path", "matches", list.paths.iter().map(|regex| regex.as_str()).collect());
    push("the secret", "contains", list.stopwords.iter().map(String::as_str).collect());
    let joint = match list.condition {
        AllowCondition::Any => ", or if ",
        AllowCondition::All => ", and if ",
    };
    let why = match &*list.description {
        "" => String::new(),
        why => format!(" ({})", shown_text(why)),
    };
    format!("if {}{why}", parts.join(joint))
}

fn target_word(target: AllowTarget) -> &'static str {
    match target {
        AllowTarget::Secret => "the secret",
        AllowTarget::Match => "the match",
        AllowTarget::Line => "the line",
    }
}

fn allow_json(list: &AllowList) -> Value {
    let texts = |list: &[Regex]| list.iter().map(|regex| regex.as_str().to_string()).collect::<Vec<_>>();
    json!({
        "description": list.description,
        "condition": match list.condition { AllowCondition::Any => "any", AllowCondition::All => "all" },
        "target": target_word(list.target).trim_start_matches("the "),
        "regexes": texts(&list.regexes),
        "paths": texts(&list.paths),
        "stopwords": list.stopwords,
        "rules": list.rules,
    })
}

fn rule_json(rule: &Rule, plan: &RulePlan) -> Value {
    let literals = match &plan.way {
        SearchWay::Factors { literals, .. } => literals.iter().map(|text| literal_text(text)).collect(),
        _ => Vec::new(),
    };
    json!({
        "rule": rule.id,
        "description": rule.description,
        "expression": rule.expression.as_ref().map(|expression| expression.text()),
        "mode": rule.expression.as_ref().map(|_| mode_word(plan).to_ascii_lowercase()),
        "search": way_word(&plan.way),
        "literals": literals,
        "longest_match": plan.max_len,
        "path": rule.path.as_ref().map(|path| path.as_str()),
        "entropy": rule.entropy,
        "keywords": rule.keywords,
        "allow": rule.allow.iter().map(allow_json).collect::<Vec<_>>(),
        "file": rule.origin.file.as_deref().map(shown_path),
        "line": rule.origin.line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_an_engine_names_what_is_missing() {
        assert!(engine_reason("auto", None).ends_with("there is a GPU"));
        assert!(engine_reason("auto", Some("no\ndriver")).ends_with(r"no GPU can be used: no\ndriver"));
        assert_eq!(engine_reason("cpu:2", None), "because --device is cpu:2");
    }

    #[test]
    fn every_way_of_searching_has_words() {
        let factors = |literals: usize, runs: &[(u32, u32)]| SearchWay::Factors {
            literals: (0..literals).map(|k| format!("{k}\n").into_bytes()).collect(),
            runs: runs.into(),
        };
        for (way, word, text) in [
            (SearchWay::Everywhere, "always", "everywhere, because"),
            (SearchWay::Path, "path", "by the path alone"),
            (factors(1, &[]), "literals", "by the literal 0\\n"),
            (factors(0, &[(40, 16)]), "class-run", "by runs of at least 40 bytes of a class of 16"),
            (
                factors(10, &[(4, 2)]),
                "literals-and-class-run",
                "by the literals 0\\n 1\\n 2\\n 3\\n 4\\n 5\\n 6\\n 7\\n and 2 more, by runs of at",
            ),
        ] {
            assert_eq!(way_word(&way), word);
            assert!(way_text(&way).starts_with(text), "{}", way_text(&way));
        }
    }
}
