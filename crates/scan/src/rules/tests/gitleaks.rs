//! Tests of the format of gitleaks.

use super::*;
use crate::rule::{AllowCondition, AllowTarget};

pub(super) const BASE: &str = r#"
title = "base"

[[rules]]
id = "old-token"
description = "A token of the old service"
regex = '''old_[a-z]{4}'''
entropy = 1.5
secretGroup = 0
keywords = ["old_"]
tags = ["old"]
[rules.allowlist]
stopwords = ["base"]

[[rules]]
id = "unwanted"
regex = '''unwanted'''

[allowlist]
description = "the whole set"
paths = ['''(^|/)vendor/''']
"#;

pub(super) const FULL: &str = r#"
title = "a config with everything"
minVersion = "v8.25.0"

[extend]
path = "base.toml"
disabledRules = ["unwanted", "absent"]

[[rules]]
id = "acme-key"
description = "Found a key of Acme"
regex = '''(?i)\b(acme)_key[ \t]*[:=][ \t]*['"\x60]?([a-z0-9]{8,})(?#the key)(?:\z|\<|[^\w])'''
path = '''(?i)\.(env|tf)$'''
secretGroup = 2
entropy = 2.5
keywords = ["ACME_KEY"]
tags = ["key", "Acme"]
  [[rules.allowlists]]
  description = "documentation"
  condition = "AND"
  regexTarget = "line"
  regexes = ['''^doc:''', '''^see ''']
  paths = ['''^docs/''']
  stopwords = ["Sample"]
  [[rules.allowlists]]
  regexTarget = "match"
  regexes = ['''\${[A-Z_]+}''']
  commits = ["0123456789abcdef0123456789abcdef01234567"]
  [[rules.allowlists]]
  condition = "AND"
  commits = ["0123456789abcdef0123456789abcdef01234567"]
  stopwords = ["never"]

[[rules]]
id = "old-token"
entropy = 3
keywords = ["older_"]
[rules.allowlist]
regexTarget = "secret"
regexes = ['''ext$''']

[[rules]]
id = "key-file"
description = "A file with keys"
path = '''\.p12$'''

[[allowlists]]
description = "for one rule"
targetRules = ["key-file", "nobody"]
paths = ['''(^|/)testdata/''']

[[allowlists]]
condition = "or"
stopwords = ["dummy"]
"#;

fn full() -> RuleSet {
    let folder = TestFolder::new();
    folder.write("base.toml", BASE);
    read_file(&folder.write("gitleaks.toml", FULL)).unwrap()
}

#[test]
fn every_key_is_read() {
    let set = full();
    assert_eq!(ids(&set), ["old-token", "acme-key", "key-file"]);
    let acme = rule(&set, "acme-key");
    assert_eq!(acme.description, "Found a key of Acme");
    let text = r#"(?i)\b(acme)_key[ \t]*[:=][ \t]*['"\x60]?([a-z0-9]{8,})(?:\z|<|[^\w])"#;
    assert_eq!(expression(&set, "acme-key"), text);
    assert_eq!(acme.path.as_ref().unwrap().as_str(), r"(?i)\.(env|tf)$");
    assert_eq!((acme.secret_group, acme.entropy), (Some(2), Some(2.5)));
    assert_eq!(
        (&acme.keywords[..], &acme.tags[..]),
        (&["ACME_KEY".into()][..], &["key".into(), "Acme".into()][..])
    );
    assert_eq!(acme.origin.line, Some(9));

    let [first, second] = &acme.allow[..] else { panic!("{:?}", acme.allow) };
    assert_eq!((first.condition, first.target), (AllowCondition::All, AllowTarget::Line));
    assert_eq!(
        (first.regexes.len(), first.paths.len(), &first.stopwords[..]),
        (2, 1, &["sample".to_string()][..])
    );
    assert_eq!(first.description, "documentation");
    assert_eq!((second.condition, second.target), (AllowCondition::Any, AllowTarget::Match));
    assert_eq!(second.regexes[0].as_str(), r"\$\{[A-Z_]+}");

    assert!(rule(&set, "key-file").expression.is_none());
    assert_eq!(set.allow.len(), 3);
    assert_eq!(set.allow[0].description, "the whole set");
    assert_eq!(set.allow[1].rules, ["key-file", "nobody"]);
}

#[test]
fn rules_of_the_extended_file_are_completed() {
    let set = full();
    let old = rule(&set, "old-token");
    assert_eq!(
        (old.description.as_str(), expression(&set, "old-token")),
        ("A token of the old service", "old_[a-z]{4}")
    );
    assert_eq!((old.entropy, old.secret_group), (Some(3.0), None));
    assert_eq!(old.keywords, ["old_", "older_"]);
    assert_eq!(old.tags, ["old"]);
    assert_eq!(old.allow.len(), 2);
    assert_eq!(
        rejected(&set),
        [
            ("absent", 5, "`disabledRules` names this rule, but the extended file does not have it"),
            ("nobody", 47, "an allow-list is for this rule, but there is no rule of this name"),
        ]
    );
}

#[test]
fn lists_that_were_read_are_applied() {
    let set = full();
    let ask = |path: &str, secret: &str, line: &str| drop_reason(&set, "acme-key", path, secret, line);
    assert_eq!(ask("a.env", "a1b2c3d4e5", ""), None);
    assert_eq!(ask("a.ENV", "a1b2c3d4e5", ""), None);
    assert_eq!(ask("a.rs", "a1b2c3d4e5", ""), Some(DropReason::Path));
    assert_eq!(ask("src/vendor/a.env", "a1b2c3d4e5", ""), Some(DropReason::Path));
    assert_eq!(ask("a.env", "aaaaaaaa", ""), Some(DropReason::Entropy));
    assert_eq!(ask("a.env", "${ACME_KEY}123", ""), Some(DropReason::AllowList));
    assert_eq!(ask("docs/a.env", "sample12345", "see it"), Some(DropReason::AllowList));
    assert_eq!(ask("docs/a.env", "sample12345", "it"), None);
    assert_eq!(ask("a.env", "never12345", ""), None);
    assert_eq!(ask("a.env", "dummy12345", ""), Some(DropReason::Stopword));
    assert_eq!(ask("a.env", "a1b2c3d4e5", "x # gitleaks:allow"), Some(DropReason::Comment));
    let filters = Filters::new(&set);
    assert!(filters.searches(2, Path::new("a.p12")));
    assert!(!filters.searches(2, Path::new("testdata/a.p12")));
}

#[test]
fn the_case_of_keys_does_not_matter_and_unknown_keys_have_no_effect() {
    let text = "[[Rules]]\nID = 'a'\nRegex = '(a)(b)'\nsecretgroup = 2\nverify = true\n[Rules.allowList]\nstopWords = ['x']\n";
    let set = read("gitleaks.toml", text).unwrap();
    assert_eq!((rule(&set, "a").secret_group, rule(&set, "a").allow.len()), (Some(2), 1));
    assert_eq!(rejected(&set), []);
}

#[test]
fn the_default_rules_are_replaced_by_the_starter_set() {
    let name = &starter().rules[0].id;
    let text = format!(
        "[extend]\nuseDefault = true\ndisabledRules = ['{name}', 'absent']\n[[rules]]\nid = 'a'\nregex = 'a'\n"
    );
    let set = read("gitleaks.toml", &text).unwrap();
    assert_eq!(set.rules.len(), starter().rules.len());
    assert!(!ids(&set).contains(&name.as_str()));
    let reason = "the default rules of gitleaks are not part of Pelton; the starter set is used instead";
    assert_eq!(rejected(&set), [("useDefault", 1, reason)]);
}

#[test]
fn a_default_and_a_path_exclude_each_other() {
    let error = read("gitleaks.toml", "title = 'a'\n[extend]\nuseDefault = true\npath = 'x'\n").unwrap_err();
    assert!(
        error.to_string().contains("gitleaks.toml:2: `useDefault` and `path` exclude each other"),
        "{error}"
    );
}

#[test]
fn an_extended_path_is_also_looked_up_beside_the_file() {
    let folder = TestFolder::new();
    let path = folder.write("gitleaks.toml", "[extend]\npath = 'no-such-file-anywhere.toml'\n");
    let error = read_file(&path).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the rules in no-such-file-anywhere.toml"), "{error}");
    folder.write("no-such-file-anywhere.toml", BASE);
    assert_eq!(ids(&read_file(&path).unwrap()), ["old-token", "unwanted"]);
}

#[test]
fn rules_that_cannot_be_used_are_rejected_and_the_others_work() {
    let text = r#"[[rules]]
id = "good"
regex = "a"
[[rules]]
regex = "a"
[[rules]]
id = "repeat"
regex = "ab{,5}"
[[rules]]
id = "look"
regex = "a(?!b)"
[[rules]]
id = "type"
regex = ["a"]
[[rules]]
id = "several"
regex = "a"
[[rules.required]]
id = "good"
[[rules]]
id = "silent"
regex = "a"
skipReport = true
[[rules]]
id = "group"
regex = "(a)"
secretGroup = 2
[[rules]]
id = "list"
regex = "a"
[[rules.allowlists]]
condition = "XOR"
stopwords = ["a"]
[[rules.allowlists]]
description = "nothing"
[[rules]]
id = "good"
regex = "b"
[[rules]]
id = "empty"
[[allowlists]]
regexes = ["("]
"#;
    let set = read("gitleaks.toml", text).unwrap();
    assert_eq!(ids(&set), ["good", "list"]);
    assert_eq!(expression(&set, "good"), "a");
    let expected = [
        ("[[rules]]", 4, "it has no `id`"),
        ("type", 14, "`regex` must be a string, but this is an array"),
        ("several", 15, "it requires other rules nearby"),
        ("silent", 20, "`skipReport`"),
        ("list", 32, "there is no condition \"XOR\"; it is \"AND\" or \"OR\"; this allow-list is not used"),
        ("list", 34, "an allow-list has no regexes, paths, stopwords or commits"),
        ("good", 36, "a rule of this name is already defined at "),
        ("[[allowlists]]", 42, "bad expression in `regexes`: unclosed group at byte 0; this allow-list"),
        ("repeat", 8, "bad `regex`: {,5} is ordinary text in Go"),
        ("look", 11, "bad `regex`: look-around"),
        ("group", 24, "the secret should be group 2, but the number of groups is 1"),
        ("empty", 39, "it has neither `regex` nor `path`"),
    ];
    let found = rejected(&set);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((id, line, reason), (wanted_id, wanted_line, start)) in found.into_iter().zip(expected) {
        assert_eq!((id, line), (wanted_id, wanted_line), "{reason}");
        assert!(reason.starts_with(start), "{reason}");
    }
}
