//! `pelton test`.

use crate::{DOUBLE, ScratchFolder, exists, pelton};

#[test]
fn failures_come_with_diffs_and_totals() {
    let folder = ScratchFolder::new("test");
    folder.file("good.pel", format!("; test run\n{DOUBLE}; run: lanes=2 x=[1 2] -> x=[2 4]\n"));
    let ran = pelton(&["test", "-d", "cpu", "-d", "reference", &folder.path("")]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("ok: 2 passed, 0 failed, 0 ignored in "), "{}", ran.out);
    assert!(ran.out.contains("\n1 files, 2 tests; 0 of "), "{}", ran.out);
    folder.file("wrong.pel", format!("; test run\n{DOUBLE}; run: lanes=2 x=[1 2] -> x=[2 5]\n"));
    folder.file("stale.pel", format!("; test print\n{DOUBLE}\n; output:\n;> kernel main {{\n"));
    let ran = pelton(&["test", "-d", "cpu", "-d", "reference", &folder.path("")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("FAILED print stale.pel\n"), "{}", ran.out);
    assert!(ran.out.contains("\n    - kernel main {\n"), "{}", ran.out);
    assert!(ran.out.contains("FAILED run wrong.pel@reference\n    line 10: "), "{}", ran.out);
    assert!(ran.out.contains("FAILED run wrong.pel@cpu\n    line 10: "), "{}", ran.out);
    assert!(ran.out.contains("FAILED: 2 passed, 3 failed, 0 ignored in "), "{}", ran.out);
}

#[test]
fn bless_accepts() {
    let folder = ScratchFolder::new("test-bless");
    let file = folder.file("x.pel", format!("; test print\n{DOUBLE}"));
    assert_eq!(pelton(&["test", &file]).code, Some(1));
    assert_eq!(pelton(&["test", "--bless", &file]).code, Some(0));
    assert_eq!(pelton(&["test", &file]).code, Some(0));
    let text = String::from_utf8(folder.read("x.pel")).expect("it is text");
    assert!(text.ends_with("; output:\n;> buffer x: [u32; ?] global read_write\n;>\n;> kernel double {\n;>   %i = lane\n;>   %v = load @x[%i]\n;>   %w = add %v, %v\n;>   store @x[%i], %w\n;> }\n"), "{text}");
}

#[test]
fn a_path_without_tests_is_an_error() {
    let folder = ScratchFolder::new("test-none");
    for path in [folder.path(""), folder.path("missing")] {
        let ran = pelton(&["test", &path]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(path.trim_end_matches('/')), "{}", ran.err);
    }
    assert!(exists(&folder.0));
}
