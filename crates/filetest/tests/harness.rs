//! Tests of the harness itself: it fails what must fail, ignores what is absent, and rewrites what is blessed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pelton_filetest::suite::{Bless, Suite, SuiteTest};
use pelton_filetest::target::{OutcomeSink, ReferenceTarget, TargetError, TargetJob, TestTarget};

/// One device is enough to see how tests end.
fn targets() -> Vec<Arc<dyn TestTarget>> {
    vec![Arc::new(ReferenceTarget)]
}

/// A folder of filetests that exists for one test.
struct FiletestFolder(PathBuf);

impl FiletestFolder {
    fn new(name: &str, files: &[(&str, &str)]) -> FiletestFolder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder can be made");
        for (name, text) in files {
            fs::write(path.join(name), text).expect("the file can be written");
        }
        FiletestFolder(path)
    }

    fn tests(&self) -> Vec<SuiteTest> {
        let suite = Suite::load(std::slice::from_ref(&self.0), targets()).expect("the folder can be read");
        suite.tests()
    }

    /// Runs the only test of the folder.
    fn only(&self, bless: Bless) -> Result<(), String> {
        let tests = self.tests();
        assert_eq!(tests.len(), 1, "one test was expected");
        tests[0].run_test(bless).map_err(|failure| failure.to_string())
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the file can be read")
    }
}

impl Drop for FiletestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A kernel that doubles its elements, with text before and after it.
fn doubling_kernel(head: &str, tail: &str) -> String {
    let body = "buffer x: [u32; 2] global read_write\n\nkernel main {\n  %i = lane\n  %v = load @x[%i]\n  \
                %w = add %v, %v\n  store @x[%i], %w\n}\n";
    format!("{head}\n{body}{tail}\n")
}

/// Runs the only test of a single file.
fn only_test(name: &str, text: &str) -> Result<(), String> {
    FiletestFolder::new(name, &[("x.pel", text)]).only(Bless::No)
}

#[test]
fn wrong_expectations_fail() {
    let run = |name, tail| only_test(name, &doubling_kernel("; test run", tail));
    assert_eq!(run("right", "; run: lanes=2 x=[1 2] -> x=[2 4]"), Ok(()));
    let why = run("element", "; run: lanes=2 x=[1 2] -> x=[2 5]").expect_err("it is wrong");
    assert_eq!(why, "line 10: 2 threads: buffer `x` differs from index 1 on\n- [2 5]\n+ [2 4]");
    let why = run("ending", "; run: -> trap=3").expect_err("it is wrong");
    assert_eq!(why, "line 10: 2 threads: the launch must end as trap=3, but ended as done");
    let why = run("unknown", "; run: y=[1] -> done").expect_err("it is wrong");
    assert!(why.contains("no buffer `y`"), "{why}");
    let why = run("length", "; run: -> x=[1]").expect_err("it is wrong");
    assert!(why.contains("its length is 2, but 1 elements are given"), "{why}");
    let why = run("none", "").expect_err("it is wrong");
    assert!(why.contains("needs at least one `; run:` line"), "{why}");
}

#[test]
fn files_that_are_none_fail_by_name() {
    let folder = FiletestFolder::new(
        "broken",
        &[("a.pel", "kernel main {\n}\n"), ("b.pel", "; test run\n; run: ->\n")],
    );
    fs::write(folder.0.join("c.pel"), [b';', 0xff]).expect("the file can be written");
    let tests = folder.tests();
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    assert_eq!(names, ["a.pel", "b.pel@reference", "c.pel"]);
    let why = |at: usize| tests[at].run_test(Bless::No).expect_err("it is wrong").to_string();
    assert!(why(0).contains("begin it with a line such as"), "{}", why(0));
    assert!(why(2).contains("is not UTF-8: byte 1"), "{}", why(2));
}

#[test]
fn bless_writes_the_output_and_nothing_else() {
    let text = doubling_kernel("; test print\n; A note.", "");
    let folder = FiletestFolder::new("bless", &[("x.pel", &text)]);
    let why = folder.only(Bless::No).expect_err("there is no output yet");
    assert!(why.contains("+ kernel main {"), "{why}");
    assert_eq!(folder.text("x.pel"), text);
    assert_eq!(folder.only(Bless::Yes), Ok(()));
    let blessed = folder.text("x.pel");
    assert!(blessed.starts_with(text.trim_end()), "{blessed}");
    assert!(blessed.ends_with(";>   store @x[%i], %w\n;> }\n"), "{blessed}");
    assert_eq!(folder.only(Bless::No), Ok(()));
    assert_eq!(folder.only(Bless::Yes), Ok(()));
    assert_eq!(folder.text("x.pel"), blessed);
    assert_eq!(fs::read_dir(&folder.0).map(Iterator::count).ok(), Some(1), "nothing is left beside it");
}

#[test]
fn a_stale_output_fails_with_a_diff() {
    let stale = doubling_kernel("; test opt", "\n; output:\n;> kernel main {\n;> }");
    let why = only_test("stale", &stale).expect_err("it is wrong");
    assert!(why.contains("\n  kernel main {\n") && why.contains("\n+   "), "{why}");
}

#[test]
fn a_valid_module_fails_test_invalid() {
    let why = only_test("valid", &doubling_kernel("; test invalid", "")).expect_err("it is valid");
    assert!(why.starts_with("the module is valid"), "{why}");
}

const LITMUS: &str =
    "; test litmus\nbuffer out: [u32; 1] global write\n\nkernel main {\n  store @out[0], 1\n}\n";

#[test]
fn litmus_files_come_with_their_twins() {
    let forbids = format!("{LITMUS}; litmus: rounds=2\n; forbidden: out=[2]\n");
    let why = only_test("alone", &forbids).expect_err("it has no twin");
    assert_eq!(why, "the twin x.weak.pel is missing; every litmus file needs one beside it");
    let blind = format!("{LITMUS}; litmus: rounds=2\n; seen: out=[1]\n");
    let pair = FiletestFolder::new("blind", &[("x.pel", &forbids), ("x.weak.pel", &blind)]);
    let why = pair.tests()[0].run_test(Bless::No).expect_err("its twin shows something else").to_string();
    assert_eq!(
        why,
        "the twin x.weak.pel must have a line `; seen: out=[2]`, because this file forbids that outcome"
    );
}

#[test]
fn litmus_outcomes_are_looked_for() {
    let both = |line: &str| format!("{LITMUS}; litmus: rounds=3\n; {line}\n");
    let pair = FiletestFolder::new(
        "wrong",
        &[("x.pel", &both("forbidden: out=[1]")), ("x.weak.pel", &both("seen: out=[1]"))],
    );
    let tests = pair.tests();
    let why = tests[0].run_test(Bless::No).expect_err("it happens at once").to_string();
    assert_eq!(why, "line 7: exploring seed 0: forbidden outcome out=[1]");
    assert!(tests[1].run_test(Bless::No).is_ok());
    let pair = FiletestFolder::new(
        "never",
        &[("x.pel", &both("forbidden: out=[2]")), ("x.weak.pel", &both("seen: out=[2]"))],
    );
    let tests = pair.tests();
    assert!(tests[0].run_test(Bless::No).is_ok());
    let why = tests[1].run_test(Bless::No).expect_err("it never happens").to_string();
    assert_eq!(
        why,
        "line 7: out=[2] was never seen in 3 rounds; these outcomes were seen:\n        3 × out=[1]"
    );
}

/// A device that is absent.
struct Absent;

impl TestTarget for Absent {
    fn name(&self) -> &str {
        "nowhere"
    }

    fn absent(&self) -> Option<String> {
        Some("there is none".into())
    }

    fn run_job(&self, _: &TargetJob<'_>, _: OutcomeSink<'_>) -> Result<(), TargetError> {
        panic!("an absent device is not asked to run")
    }
}

#[test]
fn absent_devices_have_their_tests_by_name() {
    let text = doubling_kernel("; test run\n; test opt", "; run: -> done");
    let folder = FiletestFolder::new("absent", &[("x.pel", &text)]);
    let mut devices = targets();
    devices.push(Arc::new(Absent));
    let suite = Suite::load(std::slice::from_ref(&folder.0), devices).expect("the folder can be read");
    let listed: Vec<(String, &str, bool)> =
        suite.tests().into_iter().map(|test| (test.name, test.command, test.absent.is_some())).collect();
    let expect = [("x.pel@reference", "run", false), ("x.pel@nowhere", "run", true), ("x.pel", "opt", false)];
    assert_eq!(listed, expect.map(|(name, command, absent)| (name.to_string(), command, absent)));
}

#[test]
fn totals_count_what_is_covered() {
    let folder =
        FiletestFolder::new("totals", &[("x.pel", &doubling_kernel("; test run", "; run: -> done"))]);
    let suite = Suite::load(std::slice::from_ref(&folder.0), targets()).expect("the folder can be read");
    let totals = suite.totals();
    assert_eq!((totals.files, totals.tests), (1, 1));
    let names: Vec<&str> = totals.coverage.ops.iter().map(|op| op.row().name).collect();
    assert_eq!(names, ["add", "lane", "load", "store", "return"]);
    assert!(totals.missing_ops().iter().any(|op| op.row().name == "sub"));
}

#[test]
fn an_empty_folder_is_an_error() {
    let folder = FiletestFolder::new("empty", &[]);
    assert!(Suite::load(std::slice::from_ref(&folder.0), targets()).is_err());
    assert!(Suite::load(&[folder.0.join("missing")], targets()).is_err());
}
