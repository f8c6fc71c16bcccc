//! `pelton scan --staged`: what the next commit of git would add, and the hook that stops it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scan::{KEY, scan_in};
use crate::scan_files::{git, git_init};
use crate::{RunOutput, ScratchFolder};

/// Searches what is staged for `KEY` and a number.
fn scan_staged(folder: &ScratchFolder, args: &[&str]) -> RunOutput {
    scan_in(folder, &[&["--staged", "--no-redact", "-e", "KEY-[0-9]+"], args].concat())
}

/// Lists the staged files that contain `KEY`, as seen from a folder of the repository.
fn scan_below(folder: &ScratchFolder, below: &str) -> RunOutput {
    let mut command = crate::command();
    command.args(["scan", "--staged", "-l", "-e", "KEY"]).current_dir(folder.0.join(below));
    command.output().expect("the program starts").into()
}

/// A repository with a commit of the file `old.txt`, which has a key in its second line.
fn repository(name: &str) -> ScratchFolder {
    let folder = ScratchFolder::new(name);
    git_init(&folder.0);
    folder.file("old.txt", "one\nKEY-1\nthree\n");
    commit_all(&folder);
    folder
}

fn run_git(folder: &ScratchFolder, args: &[&str]) {
    let ran = git(&folder.0, args);
    assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.out, ran.err);
}

fn commit_all(folder: &ScratchFolder) {
    run_git(folder, &["add", "--all"]);
    run_git(folder, &["commit", "--quiet", "--no-verify", "-m", "A change"]);
}

#[test]
fn only_lines_that_are_added_count() {
    let folder = repository("staged-lines");
    assert_eq!(scan_staged(&folder, &[]).code, Some(0));
    folder.file("old.txt", "zero\nKEY-2\none\nKEY-1\nthree\nKEY-3\n");
    // Nothing is staged yet.
    assert_eq!(scan_staged(&folder, &[]).code, Some(0));
    run_git(&folder, &["add", "old.txt"]);
    // What is staged counts, and not what is in the folder.
    folder.file("old.txt", "KEY-4\n");
    let ran = scan_staged(&folder, &[]);
    assert_eq!(ran.out, "old.txt:2:1: KEY-[0-9]+: KEY-2\nold.txt:6:1: KEY-[0-9]+: KEY-3\n", "{}", ran.err);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_match_that_reaches_into_an_added_line_counts() {
    let folder = repository("staged-reach");
    folder.file("old.txt", "one\nKEY-1\nnew\nthree\n");
    run_git(&folder, &["add", "old.txt"]);
    let ran = scan_in(&folder, &["--staged", "--count", "-e", "(?s)KEY.*three", "-e", "KEY", "-e", "thr"]);
    assert_eq!(ran.out, "old.txt:1\n");
}

#[test]
fn a_repository_without_commits_has_only_new_lines() {
    let folder = ScratchFolder::new("staged-unborn");
    git_init(&folder.0);
    folder.file("a.txt", "KEY-1\n");
    assert_eq!(scan_staged(&folder, &[]).code, Some(0));
    run_git(&folder, &["add", "a.txt"]);
    assert_eq!(scan_staged(&folder, &[]).out, "a.txt:1:1: KEY-[0-9]+: KEY-1\n");
}

#[test]
fn moved_and_deleted_files_add_nothing() {
    let folder = repository("staged-moved");
    folder.file("gone.txt", "KEY-5\n");
    commit_all(&folder);
    run_git(&folder, &["mv", "old.txt", "new.txt"]);
    run_git(&folder, &["rm", "--quiet", "gone.txt"]);
    let ran = scan_staged(&folder, &[]);
    assert_eq!((ran.code, &*ran.out), (Some(0), ""), "{}", ran.err);
}

#[test]
fn paths_restrict_what_is_scanned_and_are_shown_from_here() {
    let folder = repository("staged-folders");
    for name in ["sub/a.txt", "sub/deep/b.txt", "other.txt"] {
        let path = folder.0.join(name);
        fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
        fs::write(path, "KEY-1\n").expect("the file can be written");
    }
    run_git(&folder, &["add", "--all"]);
    assert_eq!(scan_staged(&folder, &["-l"]).out, "other.txt\nsub/a.txt\nsub/deep/b.txt\n");
    assert_eq!(scan_staged(&folder, &["-l", "sub/deep"]).out, "sub/deep/b.txt\n");
    let ran = scan_below(&folder, "sub");
    assert_eq!(ran.out, "../other.txt\na.txt\ndeep/b.txt\n", "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn odd_names_and_contents_are_scanned() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = repository("staged-odd");
    for name in [&b"a\nb"[..], b"\xff", b":(glob)*", b"sp ace", b"\"quoted\"", "ü".as_bytes()] {
        let path = folder.0.join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, "KEY-1\n").expect("the file can be written");
    }
    folder.file("large", format!("{}KEY-2\n", "x\n".repeat(3 << 20)));
    folder.file("binary", b"KEY-3\0");
    folder.file("empty", "");
    let units = "KEY-4\n".encode_utf16().flat_map(u16::to_le_bytes);
    folder.file("utf16", [0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>());
    std::os::unix::fs::symlink("KEY-5", folder.0.join("link")).expect("links can be made");
    run_git(&folder, &["add", "--all"]);
    let ran = scan_staged(&folder, &["-l"]);
    let expected = "\"quoted\"\n:(glob)*\na\\nb\nlarge\nsp ace\nutf16\nü\n\u{fffd}\n";
    assert_eq!(ran.out, expected, "{}", ran.err);
    assert!(scan_staged(&folder, &["--binary", "-l"]).out.contains("binary\n"));
    assert_eq!(scan_staged(&folder, &["-l", ":(glob)*"]).out, ":(glob)*\n");
}

#[test]
fn configurations_of_git_change_nothing() {
    let folder = repository("staged-config");
    folder.file("old.txt", "KEY-2\none\nKEY-1\nthree\nKEY-3\n");
    folder.file(".gitattributes", "*.txt -diff diff=none\n");
    run_git(&folder, &["add", "--all"]);
    for (name, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.interHunkContext", "9"),
        ("diff.context", "9"),
        ("color.ui", "always"),
        ("diff.external", "false"),
        ("diff.renames", "false"),
        ("core.quotePath", "false"),
    ] {
        run_git(&folder, &["config", name, value]);
    }
    let ran = scan_staged(&folder, &["--count"]);
    assert_eq!(ran.out, "old.txt:2\n", "{}", ran.err);
}

#[test]
fn git_does_not_leave_out_what_is_elsewhere() {
    let folder = repository("staged-relative");
    fs::create_dir(folder.0.join("sub")).expect("the folder can be made");
    folder.file("sub/a.txt", "KEY-1\n");
    folder.file("top.txt", "KEY-2\n");
    run_git(&folder, &["add", "--all"]);
    // With this, git shows only what is below the current folder, by its path from there.
    run_git(&folder, &["config", "diff.relative", "true"]);
    let ran = scan_below(&folder, "sub");
    assert_eq!(ran.out, "../top.txt\na.txt\n", "{}", ran.err);
}

#[test]
fn a_path_that_git_does_not_know_is_an_error() {
    let folder = repository("staged-typo");
    folder.file("new.txt", "KEY-5\n");
    run_git(&folder, &["add", "new.txt"]);
    let ran = scan_staged(&folder, &["nwe.txt"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), ""));
    assert!(ran.err.contains("nwe.txt"), "{}", ran.err);
    // A file that is staged for deletion is known.
    run_git(&folder, &["rm", "--quiet", "old.txt"]);
    assert_eq!(scan_staged(&folder, &["old.txt"]).code, Some(0));
}

#[test]
fn ignore_files_lie_at_the_top() {
    let folder = repository("staged-ignored");
    fs::create_dir(folder.0.join("sub")).expect("the folder can be made");
    folder.file("sub/a.txt", "KEY-1\n");
    folder.file(".gitleaksignore", "sub/a.txt:KEY-[0-9]+:1\n");
    run_git(&folder, &["add", "--all"]);
    assert_eq!(scan_staged(&folder, &[]).code, Some(0));
}

#[test]
fn errors_say_what_is_missing() {
    // The folder must lie in no repository.
    let folder =
        ScratchFolder(std::env::temp_dir().join(format!("pelton-scan-staged-{}", std::process::id())));
    fs::create_dir_all(&folder.0).expect("the folder can be made");
    let ran = scan_staged(&folder, &[]);
    assert_eq!((ran.code, &*ran.out), (Some(2), ""));
    assert!(ran.err.contains("not a git repository"), "{}", ran.err);
    let output = crate::command().args(["scan", "--staged"]).current_dir(&folder.0).env("PATH", "").output();
    let ran: RunOutput = output.expect("the program starts").into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("git is not installed"), "{}", ran.err);
}

/// The hook that docs/scan.md shows.
fn hook() -> String {
    let page = include_str!("../../../../docs/scan.md");
    let (_, rest) = page.split_once("```sh\n#!/bin/sh\n").expect("the page shows a hook");
    let (text, _) = rest.split_once("```").expect("the block is closed");
    format!("#!/bin/sh\n{text}")
}

#[cfg(unix)]
#[test]
fn the_hook_of_the_documentation_stops_a_commit() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = repository("staged-hook");
    let hook_path: PathBuf = folder.0.join(".git/hooks/pre-commit");
    fs::create_dir_all(hook_path.parent().expect("it has a parent")).expect("the folder can be made");
    fs::write(&hook_path, hook()).expect("the hook can be written");
    fs::set_permissions(&hook_path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let commit = || {
        let program = Path::new(env!("CARGO_BIN_EXE_pelton")).parent().expect("it lies in a folder");
        let old = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(program.to_path_buf()).chain(std::env::split_paths(&old));
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=Pelton", "-c", "user.email=pelton@example.com"])
            .args(["commit", "--all", "--quiet", "-m", "A change"])
            .current_dir(&folder.0)
            .env("PATH", std::env::join_paths(paths).expect("paths can be joined"))
            .output();
        RunOutput::from(output.expect("git starts"))
    };
    let head = || git(&folder.0, &["rev-parse", "HEAD"]).out;
    let before = head();
    folder.file("old.txt", format!("one\nKEY-1\nthree\nkey = {KEY}\n"));
    let ran = commit();
    assert_ne!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("old.txt:4:7: ") && !ran.err.contains(KEY), "{}{}", ran.out, ran.err);
    assert_eq!(head(), before);
    folder.file("old.txt", "one\nKEY-1\nthree\nkey = environment\n");
    let ran = commit();
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_ne!(head(), before);
}
