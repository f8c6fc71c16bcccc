//! Tries laws on many cases.

use std::panic::catch_unwind;

use proptest::test_runner::{Config as Proptest, RngSeed, TestCaseError, TestError, TestRunner};

use crate::case::GeneratedCase;
use crate::choose::Bytes;
use crate::config::GeneratorConfig;
use crate::law::{BrokenLaw, Law, message};
use crate::regress;
use crate::shrink::Choices;

/// The number of choices per case, which is enough for everything that the default bounds allow.
const CHOICES: usize = 1500;

/// The largest number of attempts to make a failing case smaller.
const SHRINKS: u32 = 20_000;

/// The longest time for making a failing case smaller, in milliseconds.
const SHRINK_MS: u32 = 120_000;

/// Tries a law on a number of cases.
///
/// # Panics
///
/// Panics if a case breaks the law. The case is made smaller first and saved as a filetest, which the message
/// names.
pub fn hold_law(cases: u32, config: &GeneratorConfig, law: Law) {
    let made = |bytes: &[u8]| GeneratedCase::new(&mut Bytes(bytes), config);
    let Some((bytes, why)) = smallest_failure(cases, CHOICES, |bytes| law(&made(bytes))) else { return };
    let case = made(&bytes);
    let broken = match catch_unwind(|| law(&case)) {
        Ok(Err(broken)) => broken,
        Ok(Ok(())) => {
            BrokenLaw::new("unsteady", format!("it failed once, but not when it was run again: {why}"))
        }
        Err(panic) => BrokenLaw::new("panic", message(&*panic)),
    };
    match regress::save(&regress::folder(), &case, &broken) {
        Ok(path) => panic!("{broken}\nthe case is saved in {}", path.display()),
        Err(error) => {
            panic!("{broken}\nthe case could not be saved: {error}\n{}", regress::file_text(&case, &broken))
        }
    }
}

/// Tries a check on `cases` lists of `len` choices. If one fails, returns the smallest failing list found, with the
/// reason.
///
/// The lists are the same in every run, so a new failure is due to a change of the code. The variable
/// `PROPTEST_CASES` asks for another number of lists, and for different ones.
pub fn smallest_failure(
    cases: u32,
    len: usize,
    check: impl Fn(&[u8]) -> Result<(), BrokenLaw>,
) -> Option<(Vec<u8>, String)> {
    let mut config = Proptest {
        max_shrink_iters: SHRINKS,
        max_shrink_time: SHRINK_MS,
        failure_persistence: None,
        ..Proptest::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
        config.rng_seed = RngSeed::Fixed(1);
    }
    let result = TestRunner::new(config)
        .run(&Choices(len), |bytes| check(&bytes).map_err(|broken| TestCaseError::fail(broken.to_string())));
    match result {
        Ok(()) => None,
        Err(TestError::Fail(why, bytes)) => Some((bytes, why.message().into())),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
