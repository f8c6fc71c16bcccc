//! Tests of the starter set.

use regex::bytes::RegexBuilder;

use super::*;
use crate::factor::{Factor, RuleFactors, extract_factors};
use crate::filter::secret_of;

#[test]
fn every_rule_can_be_used() {
    let set = starter();
    assert_eq!(set.rejected, []);
    assert!(set.rules.len() >= 150, "{}", set.rules.len());
}

#[test]
fn every_example_is_right() {
    let failed = failed_examples(&starter());
    let texts: Vec<String> = failed
        .iter()
        .map(|failed| format!("{}: {:?} {:?}: {}", failed.rule, failed.kind, failed.text, failed.reason))
        .collect();
    assert!(failed.is_empty(), "{}", texts.join("\n"));
}

#[test]
fn every_rule_has_examples_tags_and_a_description() {
    for rule in &starter().rules {
        let id = &rule.id;
        assert!(!rule.positive.is_empty(), "{id} has no positive example");
        assert!(!rule.negative.is_empty(), "{id} has no negative example");
        assert!(!rule.tags.is_empty(), "{id} has no tags");
        let text = &rule.description;
        assert!(text.ends_with('.') && text.split(' ').count() >= 4, "{id}: {text}");
        assert!(text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()), "{id}: {text}");
    }
}

#[test]
fn names_are_in_kebab_case_and_unique() {
    let set = starter();
    let is_kebab = |id: &str| {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        id.split('-').all(is_word)
    };
    for (index, id) in ids(&set).into_iter().enumerate() {
        assert!(is_kebab(id), "{id}");
        assert_eq!(ids(&set).iter().position(|other| *other == id), Some(index), "{id}");
    }
}

#[test]
fn every_rule_that_searches_text_takes_bytes() {
    for rule in &starter().rules {
        if let Some(expression) = &rule.expression {
            assert!(!expression.unicode(), "{}", rule.id);
            let shortest = expression.hir().properties().minimum_len();
            assert!(shortest >= Some(8), "{} matches {shortest:?} bytes", rule.id);
        }
    }
}

#[test]
fn every_rule_is_searched_by_literals_that_begin_near_the_match() {
    for rule in &starter().rules {
        let Some(expression) = &rule.expression else { continue };
        let RuleFactors::Branches(branches) = extract_factors(expression) else {
            panic!("{} has no factors", rule.id);
        };
        for branch in branches {
            assert!(matches!(branch.factor, Factor::Literals(_)), "{} has a run of a class", rule.id);
            assert!(branch.prefix_max.is_some_and(|max| max <= 1024), "{}: {:?}", rule.id, branch.prefix_max);
        }
    }
}

#[test]
fn a_secret_is_what_the_group_says() {
    let set = starter();
    let rule = rule(&set, "postgres-url-password");
    let expression = rule.expression.as_ref().unwrap();
    let regex = RegexBuilder::new(expression.text()).unicode(false).build().unwrap();
    let text = b"postgres://demo:N0tAReal-5ecret@db.demo.test/app"; // pelton:allow
    let captures = regex.captures(text).unwrap();
    let groups: Vec<_> = captures.iter().map(|group| group.map(|group| group.range())).collect();
    assert_eq!(&text[secret_of(rule.secret_group, &groups)], b"N0tAReal-5ecret");
}

#[test]
fn a_scan_of_our_sources_does_not_report_the_starter_set() {
    let mut set = starter();
    let filters = Filters::new(&set);
    for (index, rule) in set.rules.iter_mut().enumerate() {
        let is_searched = filters.searches(index, Path::new("crates/scan/src/rules/starter.toml"));
        rule.positive.clear();
        rule.negative = if is_searched { vec![STARTER_TEXT.to_string()] } else { Vec::new() };
    }
    assert!(set.rules.iter().filter(|rule| !rule.negative.is_empty()).count() >= 150);
    let found: Vec<String> = failed_examples(&set)
        .into_iter()
        .map(|failed| format!("{}: {}", failed.rule, failed.reason))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
