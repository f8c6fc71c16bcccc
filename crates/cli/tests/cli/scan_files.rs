//! `pelton scan`: which files are scanned, and what happens to odd ones.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::scan::scan_in;
use crate::{RunOutput, ScratchFolder};

/// Searches for `KEY` and a number.
const RULE: [&str; 2] = ["-e", "KEY-[0-9]+"];

fn scan_keys(folder: &ScratchFolder, args: &[&str]) -> RunOutput {
    scan_in(folder, &[&RULE[..], args].concat())
}

/// Writes a file, and the folders that it lies in.
fn plant(folder: &ScratchFolder, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.0.join(name);
    fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
    fs::write(path, text).expect("the file can be written");
}

/// Runs git in a folder, without any configuration of the user.
pub(crate) fn git(folder: &Path, args: &[&str]) -> RunOutput {
    let output = Command::new("git")
        .args(["-c", "user.name=Pelton", "-c", "user.email=pelton@example.com"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git starts");
    output.into()
}

/// Makes a repository.
pub(crate) fn git_init(folder: &Path) {
    let made = git(folder, &["init", "--quiet"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
}

#[test]
fn hidden_files_are_scanned_and_git_folders_are_not() {
    let folder = ScratchFolder::new("scan-hidden");
    for name in [".env", ".github/workflow.yml", ".git/config", "sub/.git/config", "sub/a"] {
        plant(&folder, name, "KEY-1");
    }
    assert_eq!(scan_keys(&folder, &["-l"]).out, ".env\n.github/workflow.yml\nsub/a\n");
    // What is named is scanned.
    assert_eq!(scan_keys(&folder, &["-l", ".git"]).out, ".git/config\n");
    assert_eq!(scan_keys(&folder, &["-l", ".git/config"]).out, ".git/config\n");
}

#[test]
fn ignored_files_are_skipped_unless_they_are_tracked() {
    let folder = ScratchFolder::new("scan-ignored");
    git_init(&folder.0);
    plant(&folder, ".gitignore", "*.log\nbuild/\n");
    for name in ["a.txt", "b.log", "tracked.log", "build/c.txt", "build/tracked.txt", "gone.log"] {
        plant(&folder, name, "KEY-1");
    }
    let added = git(&folder.0, &["add", "-f", "tracked.log", "build/tracked.txt", "gone.log"]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    fs::remove_file(folder.0.join("gone.log")).expect("it is there");
    let tracked = "a.txt\nbuild/tracked.txt\ntracked.log\n";
    assert_eq!(scan_keys(&folder, &["-l"]).out, tracked);
    assert_eq!(scan_keys(&folder, &["-l", "."]).out, tracked);
    let all = "a.txt\nb.log\nbuild/c.txt\nbuild/tracked.txt\ntracked.log\n";
    assert_eq!(scan_keys(&folder, &["-l", "--no-ignore"]).out, all);
    // What is named is scanned, and a folder that is named as far as it is not ignored itself.
    assert_eq!(scan_keys(&folder, &["-l", "b.log"]).out, "b.log\n");
    assert!(scan_keys(&folder, &["-l", "build"]).out.contains("build/tracked.txt\n"));
}

#[test]
fn repositories_within_repositories_have_tracked_files_too() {
    let folder = ScratchFolder::new("scan-nested");
    git_init(&folder.0);
    plant(&folder, "inner/.gitignore", "*.key");
    plant(&folder, "inner/a.key", "KEY-1");
    plant(&folder, "inner/b.key", "KEY-1");
    git_init(&folder.0.join("inner"));
    assert_eq!(git(&folder.0.join("inner"), &["add", "-f", "a.key"]).code, Some(0));
    assert_eq!(scan_keys(&folder, &["-l"]).out, "inner/a.key\n");
}

#[test]
fn files_that_are_reached_twice_are_scanned_once() {
    let folder = ScratchFolder::new("scan-twice");
    plant(&folder, "sub/a.txt", "KEY-1");
    plant(&folder, "b.txt", "KEY-1");
    let ran = scan_keys(&folder, &["--count", ".", "sub", "./sub/a.txt", "sub/../sub"]);
    assert_eq!(ran.out, "b.txt:1\nsub/a.txt:1\n");
    let absolute = folder.path("b.txt");
    assert_eq!(scan_keys(&folder, &["--count", "b.txt", &absolute]).out, "b.txt:1\n");
}

#[cfg(unix)]
#[test]
fn links_are_followed_only_if_they_are_named() {
    let folder = ScratchFolder::new("scan-links");
    plant(&folder, "real/a.txt", "KEY-1");
    for (target, link) in
        [("real", "folder"), ("real/a.txt", "file"), ("nowhere", "broken"), ("loop", "loop")]
    {
        std::os::unix::fs::symlink(target, folder.0.join(link)).expect("links can be made");
    }
    let ran = scan_keys(&folder, &["-l"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "real/a.txt\n", ""));
    assert_eq!(scan_keys(&folder, &["-l", "folder"]).out, "folder/a.txt\n");
    assert_eq!(scan_keys(&folder, &["-l", "file"]).out, "file\n");
    assert_eq!(scan_keys(&folder, &["-l", "file", "real"]).out, "file\n");
    for link in ["broken", "loop"] {
        let ran = scan_keys(&folder, &["-l", link, "real"]);
        assert_eq!((ran.code, &*ran.out), (Some(2), "real/a.txt\n"));
        assert!(ran.err.contains(&format!("error: cannot read {link}: ")), "{}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_skipped_unless_they_are_named() {
    let folder = ScratchFolder::new("scan-special");
    let made = Command::new("mkfifo").arg(folder.0.join("pipe")).status();
    assert!(made.expect("mkfifo is there").success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket")).expect("it can be made");
    plant(&folder, "a.txt", "KEY-1");
    assert_eq!(scan_keys(&folder, &["-l"]).out, "a.txt\n");
    let writer = std::thread::spawn({
        let pipe = folder.0.join("pipe");
        move || fs::write(pipe, "x\nKEY-2\n").expect("the pipe can be written")
    });
    let ran = scan_keys(&folder, &["--no-redact", "pipe"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "pipe:2:1: KEY-[0-9]+: KEY-2\n"), "{}", ran.err);
    writer.join().expect("the writer ends");
    assert_eq!(scan_keys(&folder, &["/dev/null"]).code, Some(0));
}

#[test]
fn what_is_missing_is_reported_and_the_rest_is_scanned() {
    let folder = ScratchFolder::new("scan-missing");
    plant(&folder, "a.txt", "KEY-1");
    let ran = scan_keys(&folder, &["missing.txt", "a.txt"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), "a.txt:1:1: KEY-[0-9]+: K…(5 bytes)\n"));
    assert!(ran.err.starts_with("error: cannot read missing.txt: No such file"), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_read_is_reported_and_the_rest_is_scanned() {
    let folder = ScratchFolder::new("scan-unreadable");
    plant(&folder, "a.txt", "KEY-1");
    // A file that can be opened, but not read.
    let ran = scan_keys(&folder, &["-l", "/proc/self/mem", "a.txt"]);
    assert_eq!((ran.code, &*ran.out), (Some(2), "a.txt\n"));
    assert!(ran.err.starts_with("error: cannot read /proc/self/mem: "), "{}", ran.err);
}

#[cfg(unix)]
/// The files of the kernel say that they are empty.
#[cfg(target_os = "linux")]
#[test]
fn files_that_do_not_know_their_length_are_scanned() {
    let folder = ScratchFolder::new("scan-length");
    assert_eq!(fs::metadata("/proc/self/status").expect("it is there").len(), 0);
    let ran = scan_in(&folder, &["--no-redact", "-e", r"Name:\tpelton", "/proc/self/status"]);
    assert_eq!(ran.out, "/proc/self/status:1:1: Name:\\tpelton: Name:\tpelton\n", "{}", ran.err);
}

#[test]
fn a_file_that_vanishes_is_reported_and_the_rest_is_scanned() {
    let folder = ScratchFolder::new("scan-vanish");
    let made = Command::new("mkfifo").arg(folder.0.join("0-pipe")).status();
    assert!(made.expect("mkfifo is there").success());
    plant(&folder, "sub/gone.txt", "KEY-1");
    plant(&folder, "sub/left.txt", "KEY-1");
    let (pipe, gone) = (folder.0.join("0-pipe"), folder.0.join("sub/gone.txt"));
    // The pipe is opened for reading after all files were found, and with one thread before they are read.
    let writer = std::thread::spawn(move || {
        let pipe = fs::File::options().write(true).open(pipe).expect("the pipe can be opened");
        fs::remove_file(gone).expect("it is there");
        drop(pipe);
    });
    let ran = scan_keys(&folder, &["-l", "--threads", "1", "0-pipe", "sub"]);
    writer.join().expect("the writer ends");
    assert_eq!((ran.code, &*ran.out), (Some(2), "sub/left.txt\n"), "{}", ran.err);
    assert!(ran.err.contains("cannot read sub/gone.txt: No such file"), "{}", ran.err);
}

#[test]
fn binary_files_in_folders_are_skipped() {
    let folder = ScratchFolder::new("scan-binary");
    plant(&folder, "early.bin", b"KEY-1\0");
    plant(&folder, "late.bin", [b"KEY-2\n", &[b'x'; 9000][..], b"\0"].concat());
    plant(&folder, "large.bin", [b"KEY-3\0", &vec![b'x'; 5 << 20][..]].concat());
    assert_eq!(scan_keys(&folder, &["-l"]).out, "late.bin\n");
    assert_eq!(scan_keys(&folder, &["-l", "--binary"]).out, "early.bin\nlarge.bin\nlate.bin\n");
    assert_eq!(scan_keys(&folder, &["-l", "early.bin"]).out, "early.bin\n");
    assert_eq!(scan_keys(&folder, &["-l", ".", "early.bin"]).out, "early.bin\nlate.bin\n");
    assert_eq!(scan_keys(&folder, &["-l", "large.bin"]).out, "large.bin\n");
}

#[test]
fn utf_16_is_decoded() {
    let folder = ScratchFolder::new("scan-utf16");
    let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
    let little = |text: &str| units(text).into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let big = |text: &str| units(text).into_iter().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    plant(&folder, "big", [vec![0xfe, 0xff], big("é KEY-1\n")].concat());
    plant(&folder, "large", [vec![0xff, 0xfe], little(&format!("{}KEY-2", "é\n".repeat(2 << 20)))].concat());
    plant(&folder, "little", [vec![0xff, 0xfe], little("\r\nKEY-3\r\n")].concat());
    plant(
        &folder,
        "middle",
        [vec![0xff, 0xfe], little(&format!("{}KEY-4", "日".repeat(2_000_000)))].concat(),
    );
    plant(&folder, "none", little("KEY-5"));
    let ran = scan_keys(&folder, &["--no-redact"]);
    let expected = "\
big:1:4: KEY-[0-9]+: é KEY-1
large:2097153:1: KEY-[0-9]+: KEY-2
little:2:1: KEY-[0-9]+: KEY-3
";
    assert!(ran.out.starts_with(expected), "{}", ran.out);
    assert!(ran.out[expected.len()..].starts_with("middle:1:6000001: KEY-[0-9]+: …日"), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 4);
    assert_eq!(scan_keys(&folder, &["--binary"]).code, Some(0));
}

#[test]
fn files_larger_than_a_limit_are_skipped_in_folders() {
    let folder = ScratchFolder::new("scan-size");
    plant(&folder, "exact", [b"KEY-1", &[b'x'; 1019][..]].concat());
    plant(&folder, "more", [b"KEY-1", &[b'x'; 1020][..]].concat());
    assert_eq!(scan_keys(&folder, &["-l", "--max-filesize", "1K"]).out, "exact\n");
    assert_eq!(scan_keys(&folder, &["-l", "--max-filesize", "1K", "more"]).out, "more\n");
}

#[test]
fn odd_contents_are_scanned_as_they_are() {
    let folder = ScratchFolder::new("scan-odd");
    plant(&folder, "bom", "\u{feff}KEY-1\n");
    plant(&folder, "crlf", "a\r\nKEY-2\r\n\r\nKEY-3");
    plant(&folder, "empty", "");
    plant(&folder, "invalid", b"\xff\xfa KEY-4 \xc3\n\x1b[31mKEY-5\x07\n");
    let ran = scan_keys(&folder, &["--no-redact"]);
    assert_eq!(
        ran.out,
        "bom:1:4: KEY-[0-9]+: \\u{feff}KEY-1\n\
         crlf:2:1: KEY-[0-9]+: KEY-2\n\
         crlf:4:1: KEY-[0-9]+: KEY-3\n\
         invalid:1:4: KEY-[0-9]+: \u{fffd}\u{fffd} KEY-4 \u{fffd}\n\
         invalid:2:6: KEY-[0-9]+: \\x1b[31mKEY-5\\x07\n"
    );
}

#[test]
fn matches_across_lines_and_in_long_lines_are_shown_in_one_short_line() {
    let folder = ScratchFolder::new("scan-long");
    plant(&folder, "lines", "x\nbegin\n1\n2\nend\n");
    plant(&folder, "long", format!("{}KEY-1{}", "é".repeat(3 << 20), "z".repeat(100_000)));
    let ran = scan_in(&folder, &["--no-redact", "-e", "(?s)begin.*end", "-e", "KEY-[0-9]+"]);
    let (first, second) = ran.out.split_once('\n').expect("there are two lines");
    assert_eq!(first, "lines:2:1: (?s)begin.*end: begin\\n1\\n2\\nend");
    let shown = format!("long:1:6291457: KEY-[0-9]+: …{}KEY-1{}…\n", "é".repeat(30), "z".repeat(60));
    assert_eq!(second, shown);
}

#[test]
fn small_and_large_files_are_reported_in_order() {
    let folder = ScratchFolder::new("scan-batches");
    let filler = |bytes: usize| "x\n".repeat(bytes / 2);
    let mut expected = String::new();
    for (number, bytes) in
        [10, 5 << 20, 0, (4 << 20) - 6, 4 << 20, 3 << 20, 3 << 20, 70 << 20].iter().enumerate()
    {
        plant(&folder, &format!("{number}.txt"), format!("KEY-1\n{}KEY-2\n", filler(*bytes)));
        expected += &format!(
            "{number}.txt:1:1: KEY-[0-9]+: KEY-1\n{number}.txt:{}:1: KEY-[0-9]+: KEY-2\n",
            bytes / 2 + 2
        );
    }
    for threads in ["1", "3"] {
        let ran = scan_keys(&folder, &["--no-redact", "--threads", threads]);
        assert_eq!(ran.out, expected, "{threads} threads: {}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn odd_names_do_no_harm() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = ScratchFolder::new("scan-names");
    for name in
        [&b"a b.txt"[..], b"esc\x1b[2J.txt", b"line\nbreak.txt", b"\xff\xfe.txt", b"-e", "日.txt".as_bytes()]
    {
        let path = folder.0.join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, "KEY-1").expect("the file can be written");
    }
    let ran = scan_keys(&folder, &["-l"]);
    let expected = "-e\na b.txt\nesc\\x1b[2J.txt\nline\\nbreak.txt\n日.txt\n\u{fffd}\u{fffd}.txt\n";
    assert_eq!(ran.out, expected, "{}", ran.err);
    assert_eq!(scan_keys(&folder, &["-l", "--", "-e", "./a b.txt"]).out, "-e\na b.txt\n");
    let json = scan_keys(&folder, &["--json"]);
    let found: Vec<serde_json::Value> =
        json.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(found[3]["path"], "line\nbreak.txt");
    assert!(found[3]["path_base64"].is_null());
    assert_eq!(
        (&found[5]["path"], &found[5]["path_base64"]),
        (&"\u{fffd}\u{fffd}.txt".into(), &"//4udHh0".into())
    );
    let sarif = scan_keys(&folder, &["--sarif"]).out;
    for uri in ["a%20b.txt", "line%0Abreak.txt", "%FF%FE.txt", "%E6%97%A5.txt"] {
        assert!(sarif.contains(&format!("\"uri\":\"{uri}\"")), "{uri} is not in {sarif}");
    }
}

#[test]
fn the_output_file_is_not_scanned() {
    let folder = ScratchFolder::new("scan-own-output");
    plant(&folder, "a.txt", "KEY-1");
    plant(&folder, "out.txt", "KEY-2\n");
    let out = fs::File::options().append(true).open(folder.0.join("out.txt")).expect("it can be opened");
    let status = crate::command()
        .args(["scan", "--no-redact", "--no-ignore", "-e", "KEY-[0-9]+"])
        .current_dir(&folder.0)
        .stdout(out)
        .status();
    assert_eq!(status.expect("the program starts").code(), Some(1));
    assert_eq!(folder.read("out.txt"), b"KEY-2\na.txt:1:1: KEY-[0-9]+: KEY-1\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_line_of_nothing_but_matches_takes_little_memory() {
    let folder = ScratchFolder::new("scan-matches");
    plant(&folder, "a.txt", "a".repeat(200_000));
    // Each finding has the line around it, so all of them together take more than is there.
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 1000000; exec \"$0\" scan -e a --threads 2 --stats",
            env!("CARGO_BIN_EXE_pelton"),
        ])
        .current_dir(&folder.0)
        .output();
    let ran: RunOutput = output.expect("the shell starts").into();
    assert_eq!((ran.code, ran.out.lines().count()), (Some(1), 200_000), "{}", ran.err);
}

#[test]
fn a_git_that_cannot_list_files_is_an_error() {
    let folder = ScratchFolder::new("scan-git-fails");
    git_init(&folder.0);
    plant(&folder, "a.txt", "KEY-1\n");
    fs::write(folder.0.join(".git/index"), "this is no index").expect("it can be written");
    let ran = scan_keys(&folder, &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    assert!(ran.out.contains("a.txt:1:1"), "{}", ran.out);
    assert!(ran.err.contains("cannot list the files that git tracks"), "{}", ran.err);
    // Nothing need be known about tracked files if ignored files are scanned too.
    assert_eq!(scan_keys(&folder, &["--no-ignore"]).code, Some(1));
}

#[test]
fn what_is_called_like_an_ignore_file_and_is_none_does_no_harm() {
    let folder = ScratchFolder::new("scan-ignore-pipe");
    plant(&folder, "a.txt", "KEY-1\n");
    let made = Command::new("mkfifo").arg(folder.0.join(".gitleaksignore")).status();
    assert!(made.expect("mkfifo is there").success());
    assert_eq!(scan_keys(&folder, &[]).code, Some(1));
}
