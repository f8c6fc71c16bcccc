//! Tests of our own format.

use super::*;
use crate::rule::{AllowCondition, AllowTarget};

pub(super) const FULL: &str = r#"
# A file with everything.
[[rule]]
id = "acme-token"
description = "Token of the Acme service."
regex = '\bacme_([0-9a-z]{8})\b'
path = '\.env$'
secret_group = 1
entropy = 2
keywords = ["Acme"]
tags = ["token", "acme"]
positive = ["acme_01234567"]
negative = ["acme_"]

[[rule.allow]]
description = "Values of the documentation."
condition = "all"
target = "line"
regexes = ['^doc']
paths = ['^docs/']
stopwords = ["EXAMPLE"]

[[rule.allow]]
target = "match"
regexes = ['^acme_0000']

[[rule]]
id = "key-file"
path = '\.pem$'

[[allow]]
rules = ["key-file"]
paths = ['^tests/']

[[allow]]
stopwords = ["fake"]
"#;

#[test]
fn every_key_is_read() {
    let set = read("rules.toml", FULL).unwrap();
    assert_eq!(rejected(&set), []);
    assert_eq!(ids(&set), ["acme-token", "key-file"]);
    let acme = rule(&set, "acme-token");
    assert_eq!(acme.description, "Token of the Acme service.");
    assert_eq!(expression(&set, "acme-token"), r"\bacme_([0-9a-z]{8})\b");
    assert_eq!(acme.path.as_ref().unwrap().as_str(), r"\.env$");
    assert_eq!((acme.secret_group, acme.entropy), (Some(1), Some(2.0)));
    assert_eq!(
        (&acme.keywords[..], &acme.tags[..]),
        (&["Acme".into()][..], &["token".into(), "acme".into()][..])
    );
    assert_eq!((acme.positive.len(), acme.negative.len()), (1, 1));
    assert_eq!(acme.filters, FilterUse::Apply);
    assert_eq!(acme.origin.line, Some(3));
    assert!(acme.origin.file.as_ref().unwrap().ends_with("rules.toml"));

    let [first, second] = &acme.allow[..] else { panic!("{:?}", acme.allow) };
    assert_eq!((first.condition, first.target), (AllowCondition::All, AllowTarget::Line));
    assert_eq!(
        (first.regexes.len(), first.paths.len(), &first.stopwords[..]),
        (1, 1, &["example".to_string()][..])
    );
    assert_eq!((first.description.as_str(), first.origin.line), ("Values of the documentation.", Some(15)));
    assert_eq!((second.condition, second.target), (AllowCondition::Any, AllowTarget::Match));

    assert!(rule(&set, "key-file").expression.is_none());
    assert_eq!(set.allow[0].rules, ["key-file"]);
    assert_eq!(set.allow[1].rules, [""; 0]);
}

#[test]
fn lists_that_were_read_are_applied() {
    let set = read("rules.toml", FULL).unwrap();
    let ask = |path: &str, secret: &str, line: &str| drop_reason(&set, "acme-token", path, secret, line);
    assert_eq!(ask("a.env", "acme_01234567", ""), None);
    assert_eq!(ask("a.txt", "acme_01234567", ""), Some(DropReason::Path));
    assert_eq!(ask("a.env", "acme_00000123", ""), Some(DropReason::AllowList));
    assert_eq!(ask("a.env", "acme_fake5678", ""), Some(DropReason::Stopword));
    assert_eq!(ask("docs/a.env", "acme_example1", "doc"), Some(DropReason::AllowList));
    assert_eq!(ask("docs/a.env", "acme_example1", "no doc"), None);
}

#[test]
fn mistakes_are_named_with_their_lines_all_at_once() {
    let text = r#"[[rule]]
id = "a"
regexp = "a"
secretGroup = 1
entropy = "high"
[[rule]]
regex = "b"
keywords = "b"
[[rule.allow]]
condition = "and"
rules = ["a"]
regexes = ["x"]
[[allow]]
target = "file"
[oops]
"#;
    let error = read("rules.toml", text).unwrap_err();
    let ScanError::RuleFileWrong { path, mistakes } = &error else { panic!("{error}") };
    assert!(path.ends_with("rules.toml"));
    let expected = [
        (
            3,
            "there is no key `regexp` here; did you mean `regex`? (the keys are id, description, regex, path, \
             secret_group, entropy, keywords, tags, positive, negative, allow)",
        ),
        (4, "there is no key `secretGroup` here; did you mean `secret_group`?"),
        (5, "`entropy` must be a number, but this is a string"),
        (6, "this rule has no name"),
        (8, "`keywords` must be an array, but this is a string"),
        (10, "`condition` must be \"any\" or \"all\""),
        (11, "there is no key `rules` here; the keys are description"),
        (13, "this allow-list allows nothing"),
        (14, "`target` must be \"secret\", \"match\" or \"line\""),
        (15, "there is no key `oops` here; the keys are extend, disable, rule, allow"),
    ];
    assert_eq!(mistakes.len(), expected.len(), "{error}");
    for (mistake, (line, start)) in mistakes.iter().zip(expected) {
        assert_eq!(mistake.line, Some(line), "{}", mistake.message);
        assert!(mistake.message.starts_with(start), "{}", mistake.message);
    }
    assert!(error.to_string().contains("rules.toml:5: `entropy` must be a number"), "{error}");
}

#[test]
fn rules_that_cannot_be_used_are_rejected_and_the_others_work() {
    let text = r#"
[[rule]]
id = "good"
regex = "a"
[[rule]]
id = "unclosed"
description = "The group is not closed."
regex = "ab(c"
[[rule]]
id = "good"
regex = "b"
[[rule]]
id = "nothing"
tags = ["x"]
[[rule]]
id = "path"
path = "*"
[[rule]]
id = "group"
regex = "(a)|(b)"
secret_group = 3
[[rule]]
id = "list"
regex = "c"
[[rule.allow]]
regexes = ["x",
  "["]
[[allow]]
rules = ["god"]
stopwords = ["x"]
"#;
    let set = read("rules.toml", text).unwrap();
    assert_eq!(ids(&set), ["good", "list"]);
    assert_eq!(expression(&set, "good"), "a");
    let found = rejected(&set);
    let reason =
        |id: &str| found.iter().find(|(of, ..)| *of == id).map(|(_, line, reason)| (*line, *reason)).unwrap();
    assert_eq!(reason("unclosed"), (8, "bad `regex`: unclosed group at byte 2"));
    let (line, text) = reason("good");
    assert_eq!(line, 9);
    assert!(
        text.starts_with("a rule of this name is already defined at ") && text.ends_with("rules.toml:2"),
        "{text}"
    );
    assert_eq!(reason("nothing").0, 12);
    assert_eq!(reason("path"), (17, "bad `path`: repetition operator missing expression at byte 0"));
    assert_eq!(reason("group"), (18, "the secret should be group 3, but the number of groups is 2"));
    assert_eq!(reason("list").0, 27);
    assert!(reason("list").1.contains("unclosed character class at byte 0; this allow-list is not used"));
    assert_eq!(reason("god").0, 28);
    assert_eq!(found.len(), 7);
    assert_eq!(rule(&set, "list").allow.len(), 0);
}

#[test]
fn a_file_extends_others_and_changes_their_rules() {
    let folder = TestFolder::new();
    let base = r#"
[[rule]]
id = "one"
description = "One."
regex = "base-one"
entropy = 1.0
keywords = ["base"]
tags = ["base"]
[[rule]]
id = "two"
regex = "base-two"
[[allow]]
stopwords = ["base"]
"#;
    folder.write("base.toml", base);
    let text = r#"
extend = ["base.toml"]
disable = ["two", "three"]
[[rule]]
id = "new"
regex = "new"
[[rule]]
id = "one"
entropy = 3.5
keywords = ["more"]
[[rule.allow]]
stopwords = ["x"]
"#;
    let set = read_file(&folder.write("rules.toml", text)).unwrap();
    assert_eq!(ids(&set), ["one", "new"]);
    let one = rule(&set, "one");
    assert_eq!((one.description.as_str(), expression(&set, "one")), ("One.", "base-one"));
    assert_eq!(one.entropy, Some(3.5));
    assert_eq!(one.keywords, ["base", "more"]);
    assert_eq!((one.tags.len(), one.allow.len(), set.allow.len()), (1, 1, 1));
    assert_eq!(rejected(&set), [("three", 3, "`disable` names this rule, but no extended file has it")]);
}

#[test]
fn the_later_of_two_extended_files_wins() {
    let folder = TestFolder::new();
    folder.write("a.toml", "[[rule]]\nid = 'one'\nregex = 'a'\nentropy = 1.0\n");
    folder.write("b.toml", "[[rule]]\nid = 'one'\nregex = 'b'\n");
    let set = read_file(&folder.write("rules.toml", "extend = ['a.toml', 'b.toml']")).unwrap();
    assert_eq!((expression(&set, "one"), rule(&set, "one").entropy), ("b", Some(1.0)));
}

#[test]
fn a_file_can_extend_the_starter_set() {
    let text = "extend = ['starter']\n[[rule]]\nid = 'mine'\nregex = 'mine'\n";
    let set = read("rules.toml", text).unwrap();
    assert_eq!(set.rules.len(), starter().rules.len() + 1);
    assert_eq!(ids(&set).last(), Some(&"mine"));
}
