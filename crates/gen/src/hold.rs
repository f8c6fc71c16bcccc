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

/// Tries a law on some cases. If one breaks it, it is made smaller and written as a filetest, and this panics.
///
/// The cases are the same at every run, so that what fails is what was changed. `PROPTEST_CASES` asks for another
/// number of cases, and for others than these.
pub fn hold(cases: u32, config: &Config, law: Law) {
    let (bytes, why) = match search(cases, config, law) {
        None => return,
        Some(found) => found,
    };
    let case = Case::new(&mut Bytes(&bytes), config);
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

/// The choices of the smallest case that breaks a law, and what was said about it.
fn search(cases: u32, config: &Config, law: Law) -> Option<(Vec<u8>, String)> {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let mut proptest =
        Proptest { max_shrink_iters: SHRINKS, failure_persistence: None, ..Proptest::default() };
    if !asked {
        proptest.cases = cases;
        proptest.rng_seed = RngSeed::Fixed(1);
    }
    let result = TestRunner::new(proptest).run(&Choices(CHOICES), |bytes| {
        let case = Case::new(&mut Bytes(&bytes), config);
        law(&case).map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    match result {
        Ok(()) => None,
        Err(TestError::Fail(why, bytes)) => Some((bytes, why.message().into())),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
