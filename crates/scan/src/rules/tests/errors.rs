//! Tests of files that are no files of rules.

use super::*;

/// Returns the text of the error without the folder.
fn error_of(folder: &TestFolder, path: &Path) -> String {
    let error = read_file(path).unwrap_err().to_string();
    error.replace(&format!("{}{}", folder.path.display(), std::path::MAIN_SEPARATOR), "")
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = TestFolder::new();
    let text = error_of(&folder, &folder.path.join("missing.toml"));
    assert!(text.starts_with("cannot read the rules in missing.toml: "), "{text}");
}

#[test]
fn a_folder_is_no_file_of_rules() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.path.join("rules")).unwrap();
    let text = error_of(&folder, &folder.path.join("rules"));
    assert_eq!(text, "rules: this is a folder; name a file of rules");
}

#[test]
fn bytes_that_are_not_utf8_are_named_by_line() {
    let folder = TestFolder::new();
    for name in ["rules.toml", "rules.txt"] {
        let text = error_of(&folder, &folder.write(name, b"# a\n# b\n# \xff\n"));
        assert_eq!(text, format!("{name}:3: the text is not UTF-8 here; rules are UTF-8 text"));
    }
}

#[test]
fn a_text_that_is_not_toml_is_named_by_line() {
    let folder = TestFolder::new();
    let text = error_of(&folder, &folder.write("a.toml", "[[rule]]\nid = \"a\"\nregex = abc\n"));
    assert!(text.starts_with("a.toml:3: this is not TOML: "), "{text}");
    let text = error_of(&folder, &folder.write("a.toml", "[[rule]]\nid = 'a'\nid = 'b'\n"));
    assert!(text.starts_with("a.toml:3: this is not TOML: duplicate key"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn a_file_without_rules_is_an_error() {
    let folder = TestFolder::new();
    for (name, content) in
        [("a.toml", ""), ("a.toml", "# nothing\n"), ("a.txt", "# nothing\n"), ("a.txt", "")]
    {
        let text = error_of(&folder, &folder.write(name, content));
        assert_eq!(text, format!("{name}: there are no rules in this file"));
    }
    let text = error_of(&folder, &folder.write("a.toml", "title = 'x'\n"));
    assert_eq!(text, "a.toml:1: there is no key `title` here; the keys are extend, disable, rule, allow");
}

#[test]
fn the_two_formats_do_not_mix() {
    let folder = TestFolder::new();
    let content = "[[rule]]\nid = 'a'\nregex = 'a'\n[[rules]]\nid = 'b'\nregex = 'b'\n";
    let text = error_of(&folder, &folder.write("a.toml", content));
    assert!(text.starts_with("a.toml: the file mixes two formats"), "{text}");
}

#[test]
fn a_file_that_extends_itself_is_refused() {
    let folder = TestFolder::new();
    folder.write("b.toml", "extend = ['a.toml']\n");
    let text = error_of(&folder, &folder.write("a.toml", "\nextend = ['b.toml']\n"));
    assert!(text.starts_with("b.toml:1: ") && text.ends_with("a.toml extends itself here"), "{text}");
}

#[test]
fn mistakes_in_an_extended_file_name_that_file() {
    let folder = TestFolder::new();
    folder.write("b.toml", "\n[[rule]]\nidd = 'x'\n");
    let text = error_of(&folder, &folder.write("a.toml", "extend = ['b.toml']\n"));
    assert!(text.contains("b.toml:3: there is no key `idd` here; did you mean `id`?"), "{text}");
    let text = error_of(&folder, &folder.write("a.toml", "extend = ['c.toml']\n"));
    assert!(text.starts_with("cannot read the rules in c.toml: "), "{text}");
}

#[test]
fn disable_without_extend_is_a_mistake() {
    let folder = TestFolder::new();
    let text = error_of(&folder, &folder.write("a.toml", "disable = ['x']\n"));
    assert!(text.starts_with("a.toml:1: `disable` needs `extend`"), "{text}");
}

#[test]
fn damaged_files_are_read_or_refused_but_never_panic() {
    for text in [pelton::FULL, gitleaks::FULL, gitleaks::BASE] {
        let chain = ExtendChain::new(Path::new("damaged.toml"));
        let mut refused = 0;
        for (at, c) in text.char_indices().step_by(11) {
            let (before, after) = (&text[..at], &text[at + c.len_utf8()..]);
            for damaged in [before.to_string(), format!("{before}{after}"), format!("{before}]{after}")] {
                match read_toml(&damaged, &chain) {
                    Ok(drafts) => drop(drafts.finish()),
                    Err(error) => refused += usize::from(!error.to_string().is_empty()),
                }
            }
        }
        assert!(refused > 0);
    }
}
