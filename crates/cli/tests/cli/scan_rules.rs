//! `pelton scan`: rules of files, and rules that cannot be used.

use std::fs;

use crate::ScratchFolder;
use crate::scan::{KEY, scan_in};

fn folder_with_text(name: &str) -> ScratchFolder {
    let folder = ScratchFolder::new(name);
    folder.file("a.txt", "alpha-123 beta-456\ngamma\n");
    folder
}

/// Two rules, and a list of what is allowed.
const OWN_RULES: &str = "\
[[rule]]
id = \"alpha\"
description = \"An alpha\"
regex = 'alpha-([0-9]+)'

[[rule]]
id = \"beta\"
regex = 'beta-[0-9]+'
";

#[test]
fn rules_of_files_replace_the_starter_rules() {
    let folder = folder_with_text("scan-rules");
    folder.file("key.txt", KEY);
    let rules = folder.file("rules.toml", OWN_RULES);
    let ran = scan_in(&folder, &["--no-redact", "--rules", &rules, "a.txt", "key.txt"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let expected = "a.txt:1:1: alpha: alpha-123 beta-456\na.txt:1:11: beta: alpha-123 beta-456\n";
    assert_eq!(ran.out, expected);
    // The group is the secret.
    let json = scan_in(&folder, &["--json", "--no-redact", "--rules", &rules, "a.txt"]);
    let first: serde_json::Value =
        serde_json::from_str(json.out.lines().next().expect("there is a line")).expect("it is JSON");
    assert_eq!((&first["match"], &first["secret"]), (&"alpha-123".into(), &"123".into()));
}

#[test]
fn rules_of_all_options_add_up() {
    let folder = folder_with_text("scan-rules-sum");
    let rules = folder.file("rules.toml", OWN_RULES);
    let plain = folder.file("plain.txt", "gam+a\n");
    let args = ["--no-redact", "-e", "[0-9]{3}", "--rules", &rules, "--rules", &plain, "--json", "a.txt"];
    let ran = scan_in(&folder, &args);
    let found: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(found.len(), 5, "{}{}", ran.out, ran.err);
    // The same rule is used once, however often it is read.
    let ran = scan_in(&folder, &["--rules", &rules, "--rules", &rules, "--count", "a.txt"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "a.txt:2\n", ""));
    // Rules of the same name are not used twice.
    let other = folder.file("other.toml", OWN_RULES);
    let ran = scan_in(&folder, &["--rules", &rules, "--rules", &other, "--count", "a.txt"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "a.txt:2\n"));
    assert!(ran.err.contains(": alpha: another rule has the same name"), "{}", ran.err);
    assert!(ran.err.contains("another rule has the same name"), "{}", ran.err);
}

#[test]
fn rules_of_gitleaks_are_read() {
    let folder = folder_with_text("scan-gitleaks");
    let text = "\
[[rules]]
id = \"alpha\"
description = \"An alpha\"
regex = '''alpha-([0-9]+)'''
keywords = [\"alpha\"]

[[rules]]
id = \"key-file\"
description = \"A file of keys\"
path = '''\\.p12$'''

[allowlist]
paths = ['''^skip/''']
";
    fs::create_dir(folder.0.join("skip")).expect("the folder can be made");
    folder.file("skip/a.txt", "alpha-1\n");
    folder.file("store.p12", b"\0\x01");
    let rules = folder.file(".gitleaks.toml", text);
    let ran = scan_in(&folder, &["--no-redact", "--rules", &rules]);
    assert_eq!(ran.out, "a.txt:1:1: alpha: alpha-123 beta-456\nstore.p12:1:1: key-file: A file of keys\n");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
}

#[test]
fn a_bad_expression_is_pointed_at() {
    let folder = folder_with_text("scan-bad");
    let ran = scan_in(&folder, &["-e", "ab(c"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), ""));
    assert!(
        ran.err.starts_with(
            "error: the value of -e is not a regular expression: unclosed group\n  ab(c\n    ^\n"
        ),
        "{}",
        ran.err
    );
    // The others work, but the status says that something is missing.
    let ran = scan_in(&folder, &["-e", "ab(c", "-e", "gamma", "-l"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), "a.txt\n"), "{}", ran.err);
}

#[test]
fn rejected_rules_are_named_and_the_others_work() {
    let folder = folder_with_text("scan-rejected");
    let bad = format!("{OWN_RULES}\n[[rule]]\nid = \"broken\"\nregex = 'a(b'\n");
    let rules = folder.file("rules.toml", bad);
    let ran = scan_in(&folder, &["--rules", &rules, "--count", "a.txt"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "a.txt:2\n"), "{}", ran.err);
    for text in ["warning: ", "rules.toml:", ": broken: bad `regex`: unclosed group"] {
        assert!(ran.err.contains(text), "{text} is not in {}", ran.err);
    }
    let none = folder.file("none.toml", "[[rule]]\nid = \"broken\"\nregex = 'a(b'\n");
    let ran = scan_in(&folder, &["--rules", &none]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("none of the rules can be used"), "{}", ran.err);
}

#[test]
fn files_that_are_no_rules_are_errors() {
    let folder = folder_with_text("scan-no-rules");
    folder.file("wrong.toml", "[[rule]\n");
    folder.file("empty.txt", "");
    fs::create_dir(folder.0.join("folder.toml")).expect("it can be made");
    for (file, why) in [
        ("wrong.toml", "wrong.toml:1"),
        ("missing.toml", "missing.toml"),
        ("empty.txt", "empty.txt"),
        ("folder.toml", "folder"),
    ] {
        let ran = scan_in(&folder, &["--rules", file]);
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{file}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(why), "{file}: {}", ran.err);
    }
}

/// Whoever writes files of rules must not get control of the terminal of whoever uses them.
#[test]
fn messages_contain_no_control_characters() {
    let folder = folder_with_text("scan-controls");
    let rejected =
        "[[rule]]\nid = \"red\\u001b[31m\"\nregex = 'a(b'\n[[rule]]\nid = \"fine\"\nregex = 'gamma'\n";
    folder.file("rejected.toml", rejected);
    folder.file("unknown.toml", "[[rule]]\nid = \"a\"\nregex = 'a'\n\"red\\u001b[31m\" = 1\n");
    folder.file("wrong.toml", "[[rule]]\nid = \u{9b}31m\n");
    for (args, shown) in [
        (&["--rules", "rejected.toml"][..], r"red\x1b[31m"),
        (&["--rules", "unknown.toml"], r"red\x1b[31m"),
        (&["--rules", "wrong.toml"], "wrong.toml"),
        (&["--rules", "\u{1b}[31m.toml"], r"\x1b[31m.toml"),
        (&["-e", "a(\u{1b}[31m"], r"a(\x1b[31m"),
        (&["-e", "gamma", "\u{1b}[31m"], r"\x1b[31m"),
        (&["-e", "gamma", "--baseline", "\u{1b}[31m"], r"\x1b[31m"),
    ] {
        let ran = scan_in(&folder, args);
        assert!(ran.err.contains(shown), "{args:?}: {:?}", ran.err);
        assert!(!ran.err.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {:?}", ran.err);
    }
}

const RULES_WITH_EXAMPLES: &str = "\
[[rule]]
id = \"alpha\"
regex = 'alpha-([0-9]+)'
positive = [\"alpha-1\"]
negative = [\"alpha-x\", \"alpha-777\"]
[[rule.allow]]
description = \"lucky\"
stopwords = [\"777\"]
paths = ['^docs/']
condition = \"all\"

[[rule]]
id = \"beta\"
regex = 'beta-[0-9]+'

[[allow]]
regexes = ['alpha-0']
target = \"line\"
rules = [\"alpha\"]
";

#[test]
fn rules_are_checked_by_their_own_examples() {
    let folder = folder_with_text("scan-check");
    let check = |text: &str| {
        folder.file("rules.toml", text);
        scan_in(&folder, &["--rules", "rules.toml", "--check-rules"])
    };
    let ran = check(RULES_WITH_EXAMPLES);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let expected = "alpha: 1 positive and 2 negative examples, 1 is wrong\n    negative: alpha-777\n        \
        found \"777\"\nbeta: no examples\n\nrules     2\nexamples  3\nwrong     1\n";
    assert_eq!(ran.out, expected);
    let right = RULES_WITH_EXAMPLES.replace("condition = \"all\"", "");
    let ran = check(&right);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("alpha: 1 positive and 2 negative examples, as expected\n"), "{}", ran.out);
    let ran = check(&format!("{right}\n[[rule]]\nid = \"broken\"\nregex = 'a(b'\n"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("broken"), "{}", ran.err);
    assert_eq!(scan_in(&folder, &["--check-rules"]).code, Some(0), "the starter rules do what they should");
}

#[test]
fn allow_lists_are_explained() {
    let folder = folder_with_text("scan-allow-explained");
    folder.file("rules.toml", RULES_WITH_EXAMPLES);
    let ran = scan_in(&folder, &["--rules", "rules.toml", "--explain"]);
    for text in [
        "\n    allowed     if the path matches ^docs/, and if the secret contains 777 (lucky)\n",
        "\nallowed by lists for several rules\n    if the line matches alpha-0\n        for alpha\n",
    ] {
        assert!(ran.out.contains(text), "{text} is not in {}", ran.out);
    }
    let ran = scan_in(&folder, &["--rules", "rules.toml", "--explain", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(plan["rules"][0]["allow"][0]["stopwords"][0], "777");
    assert_eq!(plan["rules"][0]["allow"][0]["condition"], "all");
    assert_eq!(
        (&plan["allow"][0]["target"], &plan["allow"][0]["rules"][0]),
        (&"line".into(), &"alpha".into())
    );
}
