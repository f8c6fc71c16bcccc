//! The commands that the README, the guide and the pages about journals and scans show, run as they stand there.
//!
//! A fenced block whose first line is a comment that names a file (`# spec.toml`, `; sum.pel`) is written to that file. In a block of kind
//! `console` every line that begins with `$ ` is a command for a shell, and the lines below it are all that it must print to its standard
//! output. All blocks of a page use one folder, in the order of the page. Blocks of Rust are doctests of the crate `pelton`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{RunOutput, ScratchFolder};

/// The blocks of a page: the kind that stands behind the backticks, and the lines.
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(kind), None) => open = Some((kind.to_string(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line.to_string()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// The file that a block is the content of, if its first line names one.
fn file_name(lines: &[String]) -> Option<&str> {
    let name = lines.first()?.strip_prefix("# ").or(lines.first()?.strip_prefix("; "))?;
    let (stem, extension) = name.split_once('.')?;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    (plain(stem) && plain(extension)).then_some(name)
}

fn shell(command: &str, folder: &ScratchFolder) -> RunOutput {
    let program = Path::new(env!("CARGO_BIN_EXE_pelton")).parent().expect("the program lies in a folder");
    let old = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(program.to_path_buf()).chain(std::env::split_paths(&old));
    let mut child = Command::new("sh");
    child.args(["-c", command]).current_dir(&folder.0).stdin(Stdio::null());
    child.env("PATH", std::env::join_paths(paths).expect("paths can be joined")).env_remove("BLESS");
    child.output().expect("the shell starts").into()
}

/// Runs a page and returns how many commands it had.
fn run_page(name: &str, page: &str) -> usize {
    let folder = ScratchFolder::new(name);
    let mut commands = 0;
    for (kind, lines) in blocks(page) {
        if let Some(file) = file_name(&lines) {
            folder.file(file, lines.join("\n") + "\n");
        }
        if kind != "console" {
            continue;
        }
        let mut rest = lines.as_slice();
        while let Some((first, below)) = rest.split_first() {
            let command = first.strip_prefix("$ ").unwrap_or_else(|| panic!("{first} belongs to no command"));
            let end = below.iter().position(|line| line.starts_with("$ ")).unwrap_or(below.len());
            let ran = shell(command, &folder);
            let printed: Vec<&str> = ran.out.lines().collect();
            assert_eq!(printed, below[..end], "{command} ended with {:?}: {}", ran.code, ran.err);
            commands += 1;
            rest = &below[end..];
        }
    }
    commands
}

#[test]
#[cfg(unix)]
fn the_readme_shows_what_its_commands_print() {
    let page = include_str!("../../../../README.md");
    assert!(run_page("readme", page) >= 1);
}

#[test]
#[cfg(unix)]
fn the_guide_shows_what_its_commands_print() {
    let page = include_str!("../../../../docs/guide.md");
    assert!(run_page("guide", page) >= 2);
}

#[test]
#[cfg(unix)]
fn the_page_about_scans_shows_what_its_commands_print() {
    let page = include_str!("../../../../docs/scan.md");
    assert!(run_page("scan-page", page) >= 12);
}

#[test]
#[cfg(unix)]
fn the_page_about_journals_shows_what_its_commands_print() {
    let page = include_str!("../../../../docs/journal.md");
    assert!(run_page("journal-page", page) >= 10);
}

#[test]
#[cfg(unix)]
#[should_panic(expected = "assertion `left == right` failed: echo 2 ended with Some(0)")]
fn a_page_that_shows_something_else_is_refused() {
    run_page("wrong-page", "```console\n$ echo 1\n1\n$ echo 2\n3\n```\n");
}

#[test]
fn only_names_of_files_make_files() {
    let name = |line: &str| file_name(&[line.to_string()]).map(str::to_string);
    assert_eq!(name("# spec.toml").as_deref(), Some("spec.toml"));
    assert_eq!(name("; sum.pel").as_deref(), Some("sum.pel"));
    for line in ["[[handler]]", "# Adds to a word.", "# ../spec.toml", "# spec", "#"] {
        assert_eq!(name(line), None, "{line}");
    }
    assert!(file_name(&[]).is_none());
}

/// Every link of a page to a file of the repository, relative to the page.
fn file_links(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files =
        targets.filter(|target| !target.contains("://")).filter_map(|target| target.split('#').next());
    files.filter(|file| !file.is_empty()).collect()
}

#[test]
fn links_lead_to_files_that_are_there() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let docs = std::fs::read_dir(root.join("docs"))
        .expect("docs/ can be read")
        .map(|entry| entry.expect("an entry").path());
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name));
    let mut links = 0;
    for page in docs.filter(|path| path.extension().is_some_and(|end| end == "md")).chain(top) {
        let text = std::fs::read_to_string(&page).expect("the page can be read");
        for link in file_links(&text) {
            links += 1;
            let target = page.parent().expect("a page lies in a folder").join(link);
            assert!(target.exists(), "{} links to {link}, which is not there", page.display());
        }
    }
    assert!(links > 20, "only {links} links were found");
    assert_eq!(file_links("[a](b.md#c) [d](https://e.f) [g](#h)"), ["b.md"]);
}
