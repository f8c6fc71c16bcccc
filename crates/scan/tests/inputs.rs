//! Inputs that are hard for scanners: empty, huge, all on one line, nothing but candidates, cut anywhere, or changing.

use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pelton_scan::rule::{FilterUse, RuleSet};
use pelton_scan::scanner::{StreamOptions, StreamReport};
use pelton_scan::{Finding, Scanner, rules};

fn scanner(expressions: &[&str]) -> Scanner {
    let rule = |(number, text): (usize, &&str)| rules::from_expression(&format!("r{number}"), text).unwrap();
    Scanner::new(RuleSet { rules: expressions.iter().enumerate().map(rule).collect(), ..RuleSet::default() })
        .unwrap()
}

/// A scanner of one rule to which filters apply.
fn filtered_scanner(expression: &str, keywords: &[&str]) -> Scanner {
    let mut rule = rules::from_expression("filtered", expression).unwrap();
    rule.filters = FilterUse::Apply;
    rule.keywords = keywords.iter().map(|&word| word.into()).collect();
    Scanner::new(RuleSet { rules: vec![rule], ..RuleSet::default() }).unwrap()
}

/// A file that is removed afterwards.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> TestFile {
        TestFile(std::env::temp_dir().join(format!("pelton-scan-inputs-{name}-{}", process::id())))
    }

    fn with(name: &str, text: &[u8]) -> TestFile {
        let file = TestFile::new(name);
        std::fs::write(&file.0, text).unwrap();
        file
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const TWO_THREADS: StreamOptions<'_> =
    StreamOptions { threads: 2, retain: 1 << 20, stop: None, cut_short: None, progress: None };

fn scan_file(scanner: &Scanner, path: &Path) -> (Vec<Finding>, StreamReport) {
    let mut all = vec![];
    let report = scanner.scan_file(path, &File::open(path).unwrap(), TWO_THREADS, &mut |finding| {
        all.push(finding);
        ControlFlow::Continue(())
    });
    all.sort_by_key(|finding| finding.found.start);
    (all, report.unwrap())
}

fn scan_reader(
    scanner: &Scanner,
    reader: &mut (dyn Read + Send),
    retain: usize,
) -> (Vec<Finding>, StreamReport) {
    let mut all = vec![];
    let options = StreamOptions { retain, ..StreamOptions::default() };
    let report = scanner.scan_reader(Path::new("-"), reader, options, &mut |finding| {
        all.push(finding);
        ControlFlow::Continue(())
    });
    all.sort_by_key(|finding| finding.found.start);
    (all, report.unwrap())
}

#[test]
fn empty_and_tiny_inputs_are_scanned() {
    let scanner = scanner(&["ghp_[a-z]{4}", r"\z", "x"]);
    for text in [&b""[..], b"x", b"\n", b"ghp_abcd"] {
        let file = TestFile::with("tiny", text);
        let wanted = scanner.scan_bytes(&file.0, text).unwrap();
        assert!(!wanted.is_empty());
        assert_eq!(scan_file(&scanner, &file.0).0, wanted);
        assert_eq!(scan_reader(&scanner, &mut Cursor::new(text), 100).0, wanted);
    }
}

#[test]
fn a_match_across_every_border_of_pieces_is_found_once() {
    let scanner = scanner(&["ghp_[a-z]{20}", "(?s)open.*?close"]);
    let piece = scanner.engine().piece_len();
    for len in [piece - 1, piece, piece + 1, 2 * piece + 1] {
        for at in [piece - 24, piece - 23, piece - 4, piece - 1, piece] {
            let mut text = vec![b'.'; len.max(at + 60)];
            text[at..at + 24].copy_from_slice(b"ghp_abcdefghijklmnopqrst");
            text[at + 30..at + 40].copy_from_slice(b"open.close");
            text[piece / 2] = b'\n';
            let file = TestFile::with("border", &text);
            let wanted = scanner.scan_bytes(&file.0, &text).unwrap();
            assert_eq!(wanted.len(), 2);
            assert_eq!((wanted[0].line, wanted[0].column), (2, (at - piece / 2) as u64));
            assert_eq!(scan_file(&scanner, &file.0).0, wanted, "at {at} of {len}");
            assert_eq!(scan_reader(&scanner, &mut Cursor::new(&text), 1 << 20).0, wanted, "at {at} of {len}");
        }
    }
}

#[test]
fn positions_beyond_four_gib_are_right() {
    let file = TestFile::new("sparse");
    let mut out = OpenOptions::new().create(true).truncate(true).write(true).open(&file.0).unwrap();
    let places = [0u64, (1 << 32) - 10, (1 << 32) + 30, (5 << 30) - 24];
    for place in places {
        out.seek(SeekFrom::Start(place)).unwrap();
        out.write_all(b"\nghp_abcdefghijklmnopqrs").unwrap();
    }
    drop(out);
    let (found, report) = scan_file(&scanner(&["ghp_[a-z]{19}"]), &file.0);
    assert_eq!(report, StreamReport { bytes: 5 << 30, ..StreamReport::default() });
    let starts: Vec<u64> = found.iter().map(|finding| finding.found.start).collect();
    assert_eq!(starts, places.map(|place| place + 1));
    assert_eq!(
        found.iter().map(|finding| (finding.line, finding.column)).collect::<Vec<_>>(),
        [(2, 1), (3, 1), (4, 1), (5, 1)]
    );
}

#[test]
fn a_text_of_nothing_but_candidates_is_slow_and_right() {
    let scanner = scanner(&["aa[ab]{3}c", "a{5}", "(?:aa)+b"]);
    let mut text = vec![b'a'; 50_000];
    text.extend_from_slice(b"bbc");
    let file = TestFile::with("candidates", &text);
    let wanted = scanner.scan_bytes(&file.0, &text).unwrap();
    assert_eq!(wanted.len(), 50_000 / 5 + 2);
    let (found, _) = scan_file(&scanner, &file.0);
    assert_eq!(found.len(), wanted.len());
    let mut places: Vec<_> = found.iter().map(|finding| finding.found).collect();
    places.sort_by_key(|found| (found.start, found.end, found.rule));
    assert_eq!(places, wanted.iter().map(|finding| finding.found).collect::<Vec<_>>());
}

#[test]
fn one_line_of_a_hundred_megabytes_is_scanned() {
    let scanner = scanner(&["ghp_[a-z]{4}", "(?m)^first.*$"]);
    let mut text = vec![b'-'; 100_000_000];
    let len = text.len();
    text[len / 2..len / 2 + 8].copy_from_slice(b"ghp_abcd");
    let file = TestFile::with("line", &text);
    let (found, report) = scan_file(&scanner, &file.0);
    assert_eq!((found.len(), report.gave_up.len()), (1, 0));
    assert_eq!((found[0].line, found[0].column), (1, len as u64 / 2 + 1));
    assert_eq!(found[0].context.len(), 2 * Finding::CONTEXT_MAX + 8);
    assert_eq!(scan_reader(&scanner, &mut Cursor::new(&text), 1 << 20).0, found);
}

#[test]
fn any_bytes_are_scanned() {
    let scanner = scanner(&["ghp_[a-z]{4}", r"(?m)^b\r?$", r"[^a]\xff"]);
    let text = b"\xff\xfe\x00ghp_abcd\x00\r\nb\r\nb\n\xc3\x28ghp_wxyz\xff";
    let found = scanner.scan_bytes(Path::new("x"), text).unwrap();
    let places: Vec<_> =
        found.iter().map(|finding| (finding.found.rule, finding.line, finding.column)).collect();
    assert_eq!(places, [(0, 1, 4), (1, 2, 1), (1, 3, 1), (0, 4, 3), (2, 4, 10)]);
}

/// A reader that yields a text again and again, and counts.
struct Repeat<'t> {
    text: &'t [u8],
    left: usize,
}

impl Read for Repeat<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.text.len()).min(self.left);
        buffer[..count].copy_from_slice(&self.text[..count]);
        self.left -= count;
        Ok(count)
    }
}

#[test]
fn a_rule_that_needs_more_than_is_kept_gives_up_and_says_so() {
    let scanner = scanner(&["(?s)open.*close", "ghp_[a-z]{4}", r"\w+@host"]);
    let mut text = b"open ghp_abcd ".to_vec();
    text.resize(40_000_000, b' ');
    text.extend_from_slice(b"user@host close");
    let (found, report) = scan_reader(&scanner, &mut Cursor::new(&text), 1 << 20);
    let rules: Vec<u32> = found.iter().map(|finding| finding.found.rule).collect();
    assert_eq!(rules, [1, 2]);
    assert_eq!(report.gave_up.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [0]);
    let (found, report) = scan_reader(&scanner, &mut Cursor::new(&text), 1 << 28);
    assert_eq!((found.len(), report.gave_up.len()), (3, 0));
}

#[test]
fn a_long_stream_without_candidates_is_not_kept() {
    let scanner = scanner(&["ghp_[a-z]{4}", r"key=\w+"]);
    let text = [&[b'-'; 65_000][..], b"key=abc ghp_abcd "].concat();
    let mut reader = Repeat { text: &text, left: 300 * text.len() };
    let (found, report) = scan_reader(&scanner, &mut reader, 1 << 20);
    assert_eq!((found.len(), report.gave_up.len()), (600, 0));
}

#[test]
fn a_file_that_becomes_shorter_ends_the_scan() {
    let scanner = scanner(&["ghp_[a-z]{4}"]);
    let file = TestFile::with("shorter", &vec![b'-'; 3 * scanner.engine().piece_len()]);
    let open = OpenOptions::new().read(true).write(true).open(&file.0).unwrap();
    open.write_all_at(b"ghp_abcd", 5).unwrap();
    let mut count = 0;
    let progress = AtomicU64::new(0);
    let options = StreamOptions { threads: 1, progress: Some(&progress), ..StreamOptions::default() };
    let report = scanner.scan_file(&file.0, &open, options, &mut |_| {
        open.set_len(100).unwrap();
        count += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(count, 1);
    assert!(report.unwrap().bytes < 3 * scanner.engine().piece_len() as u64);
}

#[test]
fn a_scan_stops_when_it_is_told_to() {
    let scanner = scanner(&["ghp_[a-z]{4}"]);
    let text = [&b"ghp_abcd"[..], &[b' '; 1000]].concat().repeat(5_000);
    let file = TestFile::with("stop", &text);
    let mut count = 0;
    let report = scanner.scan_file(&file.0, &File::open(&file.0).unwrap(), TWO_THREADS, &mut |_| {
        count += 1;
        if count == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((count, report.unwrap().stopped), (10, true));
    let stop = AtomicBool::new(false);
    let options = StreamOptions { stop: Some(&stop), ..TWO_THREADS };
    let mut endless = Repeat { text: &text, left: usize::MAX };
    let report = scanner.scan_reader(Path::new("-"), &mut endless, options, &mut |_| {
        stop.store(true, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert!(report.unwrap().stopped);
}

#[test]
fn the_place_where_an_input_was_cut_is_not_its_end() {
    let rules =
        ["key-[0-9]+", r"key-[0-9]+\z", "key-[0-9]+$", r"key-[0-9]+\b", "(?m)key-[0-9]+$", r"\z", "$"];
    let scanner = scanner(&rules);
    let scan_cut = |text: &str, cut: bool| {
        let cut = AtomicBool::new(cut);
        let options = StreamOptions { cut_short: Some(&cut), ..StreamOptions::default() };
        let mut found = vec![];
        let report = scanner.scan_reader(Path::new("-"), &mut text.as_bytes(), options, &mut |finding| {
            found.push(rules[finding.found.rule as usize]);
            ControlFlow::Continue(())
        });
        report.unwrap();
        found.sort_unstable();
        found.dedup();
        found
    };
    let mut all = rules.to_vec();
    all.sort_unstable();
    assert_eq!(scan_cut("a key-1\nkey-22", false), all);
    assert_eq!(scan_cut("a key-22", true), ["key-[0-9]+"]);
    assert_eq!(scan_cut("a key-22\n", true), ["(?m)key-[0-9]+$", "key-[0-9]+", r"key-[0-9]+\b"]);
}

/// These rules have no literals, so all text is searched for them, block by block because their matches are short.
#[test]
fn short_matches_without_literals_are_found_in_long_inputs() {
    let rules = ["(.{1,1000}){1,3}", r"(?s)\b.{700,900}?\b", r"[^x]{3,2000}$", r"\A.{9}", "(?m)^.{1,9}$"];
    let scanner = scanner(&rules);
    let piece = scanner.engine().piece_len();
    let mut text: Vec<u8> = (0..piece + piece / 4).map(|at| b"word and "[at * 7 / 5 % 9]).collect();
    text[9] = b'\n';
    text[piece - 100..piece - 95].copy_from_slice(b"\nabc\n");
    for end in [text.len(), piece, piece + 1, 3001] {
        let text = &text[..end];
        let file = TestFile::with("blocks", text);
        let mut wanted = scanner.scan_bytes(&file.0, text).unwrap();
        let place = |finding: &Finding| (finding.found.rule, finding.found.start, finding.found.end);
        wanted.sort_by_key(place);
        for mut found in
            [scan_file(&scanner, &file.0).0, scan_reader(&scanner, &mut Cursor::new(text), 1 << 16).0]
        {
            found.sort_by_key(place);
            let places = |list: &[Finding]| list.iter().map(place).collect::<Vec<_>>();
            assert!(places(&found) == places(&wanted), "{end}: {} of {}", found.len(), wanted.len());
        }
    }
}

#[test]
fn a_bounded_match_longer_than_what_is_kept_makes_its_rule_give_up() {
    let scanner = scanner(&["openx{150000}close", "ghp_[a-z]{4}"]);
    let mut text = vec![b'.'; 12 << 20];
    let at = (4 << 20) - 140_000;
    text[at..at + 4].copy_from_slice(b"open");
    text[at + 4..at + 150_004].fill(b'x');
    text[at + 150_004..at + 150_009].copy_from_slice(b"close");
    let (found, report) = scan_reader(&scanner, &mut Cursor::new(&text), 1 << 16);
    assert_eq!((found.len(), report.gave_up.len()), (0, 1));
    let (found, report) = scan_reader(&scanner, &mut Cursor::new(&text), 1 << 20);
    assert_eq!((found.len(), report.gave_up.len()), (1, 0));
}

#[test]
fn keywords_of_a_stream_are_not_missed() {
    let scanner = filtered_scanner("tok_[0-9]{6}", &["zebra"]);
    let gap = b"........\n".repeat(1_200_000);
    let before = [&b"zebra\n"[..], &gap, b"tok_123456\n"].concat();
    let after = [&b"tok_123456\n"[..], &gap, b"zebra\n"].concat();
    let without = [&b"tok_123456\n"[..], &gap].concat();
    for (text, wanted) in [(before, 1), (after, 1)] {
        let file = TestFile::with("keyword", &text);
        assert_eq!(scan_file(&scanner, &file.0).0.len(), wanted);
        // What a pipe no longer has may have been a keyword, so the match counts.
        assert_eq!(scan_reader(&scanner, &mut Cursor::new(&text), 1 << 20).0.len(), wanted);
    }
    let file = TestFile::with("no-keyword", &without);
    assert_eq!(scan_file(&scanner, &file.0).0.len(), 0);
    assert_eq!(scan_reader(&scanner, &mut Cursor::new(b"tok_123456"), 1 << 20).0.len(), 0);
}

#[test]
fn a_comment_before_a_long_match_is_seen_in_a_stream() {
    let scanner = filtered_scanner("(?s)open.*?close", &[]);
    let mut text = vec![b'.'; 12 << 20];
    let at = 80 * 65536 + 6;
    text[at - 3000] = b'\n';
    text[at - 40..at - 26].copy_from_slice(b"gitleaks:allow");
    text[at..at + 4].copy_from_slice(b"open");
    text[(11 << 20)..(11 << 20) + 5].copy_from_slice(b"close");
    let file = TestFile::with("comment", &text);
    assert_eq!(scan_file(&scanner, &file.0).0.len(), 0);
    assert_eq!(scan_reader(&scanner, &mut Cursor::new(&text), 1 << 28).0.len(), 0);
}
