//! The laws of the language, each on many modules. `PROPTEST_CASES=10000` looks longer, and elsewhere.

use pelton_gen::config::{Config, Promise};
use pelton_gen::hold::hold;
use pelton_gen::law;

/// Modules that promise nothing: they have more ops in them.
const WILD: Config = Config { promise: Promise::Nothing, ..Config::DEFAULT };

#[test]
fn what_is_made_is_valid() {
    hold(400, &Config::DEFAULT, law::valid);
    hold(400, &WILD, law::valid);
}

#[test]
fn text_reads_back() {
    hold(400, &WILD, law::text);
}

#[test]
fn passes_change_nothing_that_shows() {
    hold(700, &Config::DEFAULT, law::passes);
}

#[test]
fn what_passes_make_is_valid_and_reads_back() {
    hold(250, &WILD, law::accepted);
}

#[test]
fn schedules_agree() {
    hold(700, &Config::DEFAULT, law::schedules);
}
