//! Tries each law of the language on many modules. With `PROPTEST_CASES=10000` it tries more of them, and different
//! ones.

use pelton_gen::case::GeneratedCase;
use pelton_gen::choose::Seed;
use pelton_gen::config::{GeneratorConfig, Promise};
use pelton_gen::hold::hold_law;
use pelton_gen::law;
use pelton_gen::split::split_module;

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

#[test]
fn what_is_taken_apart_links_to_what_it_was() {
    hold_law(400, &GeneratorConfig::DEFAULT, law::links);
}

#[test]
fn many_modules_can_be_taken_apart() {
    let cases = (0..200).map(|seed| GeneratedCase::new(&mut Seed(seed), &GeneratorConfig::DEFAULT));
    let split: Vec<_> = cases.filter_map(|case| split_module(&case.module)).collect();
    let uniform = split.iter().filter(|split| split.module.to_string().contains("import uniform fn")).count();
    assert!(split.len() > 50 && uniform > 5, "{} of 200, {uniform} with uniform imports", split.len());
}
