//! Trying laws on many cases.

use std::panic::catch_unwind;

use proptest::test_runner::{Config as Proptest, RngSeed, TestCaseError, TestError, TestRunner};

use crate::case::Case;
use crate::choose::Bytes;
use crate::config::Config;
use crate::law::{Broken, Law, message};
use crate::regress;
use crate::shrink::Choices;

/// Choices that a case is made of: enough for all that the default bounds allow.
const CHOICES: usize = 1500;

/// Tries of making a failure smaller.
const SHRINKS: u32 = 20_000;

/// How long that may take.
const SHRINK_MS: u32 = 120_000;

/// Tries a law on some cases. If one breaks it, it is made smaller and written as a filetest, and this panics.
pub fn hold(cases: u32, config: &Config, law: Law) {
    let made = |bytes: &[u8]| Case::new(&mut Bytes(bytes), config);
    let Some((bytes, why)) = search(cases, CHOICES, |bytes| law(&made(bytes))) else { return };
    let case = made(&bytes);
    let broken = match catch_unwind(|| law(&case)) {
        Ok(Err(broken)) => broken,
        Ok(Ok(())) => Broken::new("unsteady", format!("once, but not again: {why}")),
        Err(panic) => Broken::new("panic", message(&*panic)),
    };
    match regress::save(&regress::folder(), &case, &broken) {
        Ok(path) => panic!("{broken}\nsee {}", path.display()),
        Err(error) => {
            panic!("{broken}\nand it could not be written: {error}\n{}", regress::file(&case, &broken))
        }
    }
}

/// The smallest list of at most `len` choices, of so many lists, for which something does not hold, and what was said
/// about it.
///
/// The lists are the same at every run, so that what fails is what was changed. `PROPTEST_CASES` asks for another
/// number of them, and for others than these.
pub fn search(
    cases: u32,
    len: usize,
    check: impl Fn(&[u8]) -> Result<(), Broken>,
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
