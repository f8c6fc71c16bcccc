//! Runs everything in `filetests/`, as one named test per file and device.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton_filetest::suite::{Bless, Suite, test_targets};

fn main() -> ExitCode {
    let suite = match Suite::load(&[root().join("filetests")], test_targets()) {
        Ok(suite) => suite,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let bless = Bless::from_env();
    let mut trials: Vec<Trial> = suite.tests().into_iter().map(|test| trial(test, bless)).collect();
    let totals = suite.totals();
    trials.push(Trial::test("coverage", move || {
        let whole = totals.missing_rules().is_empty() && totals.missing_ops().is_empty();
        if whole { Ok(()) } else { Err(Failed::from(totals.to_string())) }
    }));
    run(&Arguments::from_args(), trials).exit_code()
}

/// The root of the repository: the folder named by `PELTON_ROOT`, the one in which this test was built, or the
/// current folder if the test was built elsewhere.
fn root() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = || if built.exists() { built.clone() } else { PathBuf::from(".") };
    std::env::var_os("PELTON_ROOT").map_or_else(here, PathBuf::from)
}

fn trial(test: pelton_filetest::suite::SuiteTest, bless: Bless) -> Trial {
    let (name, kind, absent) = (test.name.clone(), test.command, test.absent.is_some());
    let trial =
        Trial::test(name, move || test.run_test(bless).map_err(|failure| Failed::from(failure.to_string())));
    trial.with_kind(kind).with_ignored_flag(absent)
}
