//! Tries each law of the language on many modules. With `PROPTEST_CASES=10000` it tries more of them, and different
//! ones.

use pelton_gen::config::{GeneratorConfig, Promise};
use pelton_gen::hold::hold_law;
use pelton_gen::law;

/// Settings for modules that promise nothing, which therefore contain more kinds of ops.
const WILD: GeneratorConfig = GeneratorConfig { promise: Promise::Nothing, ..GeneratorConfig::DEFAULT };

#[test]
fn what_is_made_is_valid() {
    hold_law(400, &GeneratorConfig::DEFAULT, law::valid);
    hold_law(400, &WILD, law::valid);
}

#[test]
fn text_reads_back() {
    hold_law(400, &WILD, law::text);
}

#[test]
fn passes_change_nothing_that_shows() {
    hold_law(700, &GeneratorConfig::DEFAULT, law::passes);
}

#[test]
fn what_passes_make_is_valid_and_reads_back() {
    hold_law(250, &WILD, law::accepted);
}

#[test]
fn schedules_agree() {
    hold_law(700, &GeneratorConfig::DEFAULT, law::schedules);
}
