//! Tests of all filters together.

use std::path::Path;

use super::*;
use crate::rule::{AllowCondition, AllowList, AllowTarget, Rule};

fn regexes(texts: &[&str]) -> Vec<Regex> {
    texts.iter().map(|text| Regex::new(text).unwrap()).collect()
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn filters(rule: Rule, allow: Vec<AllowList>) -> Filters {
    let rule = Rule { id: "tested".into(), ..rule };
    Filters::new(&RuleSet { rules: vec![rule], rejected: Vec::new(), allow })
}

/// Asks for a match `key=SECRET` in a line with something before and after it.
fn ask(filters: &Filters, path: &str, secret: &str) -> Option<DropReason> {
    ask_in_line(filters, path, secret, &format!("let key={secret}; // why"))
}

fn ask_in_line(filters: &Filters, path: &str, secret: &str, line: &str) -> Option<DropReason> {
    let matched = format!("key={secret}");
    let view = FilterView {
        path: Path::new(path),
        matched: matched.as_bytes(),
        secret: secret.as_bytes(),
        lines: line.as_bytes(),
    };
    filters.drop_reason(0, view)
}

#[test]
fn a_rule_without_filters_drops_nothing() {
    let filters = filters(Rule::default(), Vec::new());
    assert_eq!(ask(&filters, "a", "secret"), None);
    assert!(filters.searches(0, Path::new("a")));
    assert!(filters.searches_file(Path::new("a")));
    assert!(filters.has_keyword(0, b""));
    assert_eq!(filters.keyword_overlap(0), 0);
}

#[test]
fn the_entropy_must_be_above_the_threshold() {
    let filters = filters(Rule { entropy: Some(2.0), ..Rule::default() }, Vec::new());
    assert_eq!(ask(&filters, "a", "abcd"), Some(DropReason::Entropy));
    assert_eq!(ask(&filters, "a", "abcde"), None);
}

#[test]
fn comments_allow_what_stands_in_their_line() {
    let filters = filters(Rule::default(), Vec::new());
    for comment in ["# pelton:allow", "// gitleaks:allow: a test"] {
        let line = format!("key=abc {comment}");
        assert_eq!(ask_in_line(&filters, "a", "abc", &line), Some(DropReason::Comment), "{comment}");
    }
    assert_eq!(ask_in_line(&filters, "a", "abc", "key=abc # pelton: allow"), None);
}

#[test]
fn a_rule_with_a_path_is_for_those_files_only() {
    let rule = Rule { path: Some(Regex::new(r"^conf/.*\.env$").unwrap()), ..Rule::default() };
    let filters = filters(rule, Vec::new());
    assert!(filters.searches(0, Path::new("./conf/a.env")));
    assert!(!filters.searches(0, Path::new("src/conf/a.env")));
    assert_eq!(ask(&filters, "conf/a.env", "abc"), None);
    assert_eq!(ask(&filters, "src/a.rs", "abc"), Some(DropReason::Path));
}

#[test]
fn keywords_are_looked_for_in_the_whole_input_in_any_case() {
    let filters = filters(Rule { keywords: words(&["Acme", "other"]), ..Rule::default() }, Vec::new());
    assert!(filters.has_keyword(0, b"...ACME..."));
    assert!(!filters.has_keyword(0, b"...acm..."));
    assert_eq!(filters.keyword_overlap(0), 4);
}

#[test]
fn stopwords_are_looked_for_in_the_secret_alone() {
    let list = AllowList { stopwords: words(&["example", "KEY"]), ..AllowList::default() };
    let filters = filters(Rule { allow: vec![list], ..Rule::default() }, Vec::new());
    assert_eq!(ask(&filters, "a", "anEXAMPLE1"), Some(DropReason::Stopword));
    assert_eq!(ask(&filters, "a", "monkey"), Some(DropReason::Stopword));
    // The match has `key`, but the secret has not.
    assert_eq!(ask(&filters, "a", "abc"), None);
}

#[test]
fn expressions_are_searched_in_their_target() {
    let of = |target, text: &str| {
        let list = AllowList { target, regexes: regexes(&["never", text]), ..AllowList::default() };
        filters(Rule { allow: vec![list], ..Rule::default() }, Vec::new())
    };
    assert_eq!(ask(&of(AllowTarget::Secret, "^abc$"), "a", "abc"), Some(DropReason::AllowList));
    assert_eq!(ask(&of(AllowTarget::Secret, "key"), "a", "abc"), None);
    assert_eq!(ask(&of(AllowTarget::Match, "^key=abc$"), "a", "abc"), Some(DropReason::AllowList));
    assert_eq!(ask(&of(AllowTarget::Match, "why"), "a", "abc"), None);
    assert_eq!(ask(&of(AllowTarget::Line, "^let .* why$"), "a", "abc"), Some(DropReason::AllowList));
}

#[test]
fn one_condition_suffices_unless_all_are_asked_for() {
    let of = |condition| {
        let list = AllowList {
            condition,
            regexes: regexes(&["^ab"]),
            paths: regexes(&["^test/"]),
            stopwords: words(&["xyz"]),
            ..AllowList::default()
        };
        filters(Rule { allow: vec![list], ..Rule::default() }, Vec::new())
    };
    let any = of(AllowCondition::Any);
    assert_eq!(ask(&any, "src/a", "ab"), Some(DropReason::AllowList));
    assert_eq!(ask(&any, "test/a", "cd"), Some(DropReason::Path));
    assert_eq!(ask(&any, "src/a", "c-xyz"), Some(DropReason::Stopword));
    assert_eq!(ask(&any, "src/a", "cd"), None);
    assert!(!any.searches(0, Path::new("test/a")));

    let all = of(AllowCondition::All);
    assert_eq!(ask(&all, "test/a", "ab-xyz"), Some(DropReason::AllowList));
    assert_eq!(ask(&all, "src/a", "ab-xyz"), None);
    assert_eq!(ask(&all, "test/a", "xyz"), None);
    assert_eq!(ask(&all, "test/a", "ab"), None);
    // The file must be searched, since its path alone does not decide.
    assert!(all.searches(0, Path::new("test/a")));
}

#[test]
fn all_conditions_are_those_that_are_given() {
    let of = |list: AllowList| {
        let list = AllowList { condition: AllowCondition::All, ..list };
        filters(Rule { allow: vec![list], ..Rule::default() }, Vec::new())
    };
    let paths = of(AllowList { paths: regexes(&["^test/"]), ..AllowList::default() });
    assert!(!paths.searches(0, Path::new("test/a")));
    assert_eq!(ask(&paths, "src/a", "ab"), None);
    // A list without any condition allows nothing.
    assert_eq!(ask(&of(AllowList::default()), "test/a", "ab"), None);
}

#[test]
fn lists_of_the_set_concern_all_rules_or_those_that_they_name() {
    let list = |rules: &[&str]| AllowList {
        paths: regexes(&["^vendor/"]),
        stopwords: words(&["fake"]),
        rules: words(rules),
        ..AllowList::default()
    };
    let everywhere = filters(Rule::default(), vec![list(&[])]);
    assert_eq!(ask(&everywhere, "a", "a-fake"), Some(DropReason::Stopword));
    assert!(!everywhere.searches(0, Path::new("vendor/a")));
    assert!(!everywhere.searches_file(Path::new("vendor/a")));

    let named = filters(Rule::default(), vec![list(&["other", "tested"])]);
    assert_eq!(ask(&named, "a", "a-fake"), Some(DropReason::Stopword));
    assert!(!named.searches(0, Path::new("vendor/a")));
    assert!(named.searches_file(Path::new("vendor/a")));

    let other = filters(Rule::default(), vec![list(&["other"])]);
    assert_eq!(ask(&other, "vendor/a", "a-fake"), None);
    assert!(other.searches(0, Path::new("vendor/a")));
}

#[test]
fn a_bare_expression_passes_no_filter() {
    let list = AllowList { paths: regexes(&["."]), stopwords: words(&["a"]), ..AllowList::default() };
    let rule = Rule { filters: FilterUse::Skip, ..Rule::default() };
    let filters = filters(rule, vec![list]);
    assert_eq!(ask_in_line(&filters, "a", "aaa", "key=aaa # pelton:allow"), None);
    assert!(filters.searches(0, Path::new("a")));
    assert!(filters.searches_file(Path::new("a")));
}
