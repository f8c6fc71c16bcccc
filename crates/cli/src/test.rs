//! `pelton test`: runs filetests, and counts what they cover.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use pelton_filetest::hint::name_hint;
use pelton_filetest::suite::{Bless, Suite, SuiteTest, test_targets};
use pelton_filetest::target::TestTarget;

use crate::CliStatus;
use crate::error::CliError;
use crate::term::{Term, TextRole};

/// Run filetests, and report what they cover
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  pelton test filetests                 run everything in a folder
  pelton test filetests/run filetests/opt/fold.pel
  pelton test filetests/run --device cuda
  pelton test --bless filetests/print   accept the output of the tests as the expected one

A filetest is a .pel file that begins with a line such as `; test run`. Its comments say how to
launch the kernel and what the buffers must hold afterwards:
  ; run: lanes=4 x=[1 2 3 4] -> y=[2 4 6 8]")]
pub(crate) struct TestArgs {
    /// The files to test, or folders whose `.pel` files to test
    #[arg(value_name = "PATH", default_value = "filetests")]
    paths: Vec<PathBuf>,

    /// Run on this device only; repeat the option for several
    #[arg(long = "device", short, value_name = "NAME")]
    devices: Vec<String>,

    /// Write the output of the tests into the files as the expected output
    #[arg(long)]
    bless: bool,
}

pub(crate) fn run_tests(args: &TestArgs, term: &Term) -> Result<CliStatus, CliError> {
    let suite = Suite::load(&args.paths, chosen_targets(&args.devices)?)?;
    let tests = suite.tests();
    let bless = if args.bless { Bless::Yes } else { Bless::from_env() };
    let (absent, present): (Vec<SuiteTest>, Vec<SuiteTest>) =
        tests.into_iter().partition(|test| test.absent.is_some());
    let began = Instant::now();
    let failures = run_all(&present, bless, term);
    for test in &absent {
        let why = test.absent.as_deref().unwrap_or_default();
        term.line(format_args!("{} {}: {why}", term.paint(TextRole::Faint, "ignored"), test.name))?;
    }
    for (at, why) in &failures {
        let SuiteTest { name, command, .. } = &present[*at];
        term.line(format_args!("{} {command} {name}", term.paint(TextRole::Bad, "FAILED")))?;
        for line in why.lines() {
            term.line(format_args!("    {line}").to_string().trim_end())?;
        }
    }
    let word = if failures.is_empty() {
        term.paint(TextRole::Good, "ok")
    } else {
        term.paint(TextRole::Bad, "FAILED")
    };
    term.line(format_args!(
        "{word}: {} passed, {} failed, {} ignored in {:.1} s",
        present.len() - failures.len(),
        failures.len(),
        absent.len(),
        began.elapsed().as_secs_f64()
    ))?;
    term.line(suite.totals())?;
    Ok(if failures.is_empty() { CliStatus::Fine } else { CliStatus::Wrong })
}

/// The devices with these names, or all devices if no name is given.
fn chosen_targets(names: &[String]) -> Result<Vec<Arc<dyn TestTarget>>, CliError> {
    let all = test_targets();
    let known: Vec<&str> = all.iter().map(|target| target.name()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(CliError::Unknown { kind: "device", name: name.clone(), hint: name_hint(name, &known) });
    }
    let asked =
        |target: &Arc<dyn TestTarget>| names.is_empty() || names.iter().any(|name| name == target.name());
    Ok(all.into_iter().filter(asked).collect())
}

/// Runs tests on all cores, and returns those that failed, in order, with the reasons.
fn run_all(tests: &[SuiteTest], bless: Bless, term: &Term) -> Vec<(usize, String)> {
    let bar = term.bar(tests.len() as u64, "{bar:40} {pos}/{len} {msg}");
    let next = AtomicUsize::new(0);
    let (send, results) = mpsc::channel();
    let mut failures = Vec::new();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(tests.len()) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((at, test)) = next_test(tests, next) {
                    if send.send((at, run_one(test, bless))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (at, ended) in results {
            if let Err(why) = ended {
                failures.push((at, why));
                bar.set_message(format!("{} failed", failures.len()));
            }
            bar.inc(1);
        }
    });
    bar.finish_and_clear();
    failures.sort();
    failures
}

/// The next test that no thread has taken yet.
fn next_test<'t>(tests: &'t [SuiteTest], next: &AtomicUsize) -> Option<(usize, &'t SuiteTest)> {
    // Relaxed: only the number itself is shared.
    let at = next.fetch_add(1, Ordering::Relaxed);
    tests.get(at).map(|test| (at, test))
}

/// Runs one test. A panic counts as a failure.
fn run_one(test: &SuiteTest, bless: Bless) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| test.run_test(bless))) {
        Ok(ended) => ended.map_err(|failure| failure.to_string()),
        Err(_) => Err("the test panicked; the message is above".into()),
    }
}
