//! The laws of the language, each on many modules.

use pelton_gen::config::{Config, Promise};
use pelton_gen::hold::hold;
use pelton_gen::law;

/// Modules that promise nothing have more ops in them.
const WILD: Config = Config { promise: Promise::Nothing, ..Config::DEFAULT };

#[test]
fn what_is_generated_is_valid() {
    hold(200, &Config::DEFAULT, law::valid);
    hold(200, &WILD, law::valid);
}

#[test]
fn text_reads_back() {
    hold(150, &WILD, law::text);
}

#[test]
fn passes_change_nothing_that_shows() {
    hold(100, &Config::DEFAULT, law::passes);
}

#[test]
fn passes_give_valid_modules() {
    hold(100, &WILD, law::accepted);
}

#[test]
fn schedules_agree() {
    hold(100, &Config::DEFAULT, law::schedules);
}
