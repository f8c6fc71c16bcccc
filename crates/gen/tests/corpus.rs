//! Replays the fuzzers' seeds and the inputs that they found.

use std::fs;
use std::path::Path;

use pelton_gen::fuzz;
use pelton_gen::law::BrokenLaw;

fn replay(name: &str, target: fn(&[u8]) -> Result<(), BrokenLaw>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(folder).expect("the corpus can be read");
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("an entry can be read").path();
        let bytes = fs::read(&path).expect("a seed can be read");
        target(&bytes).unwrap_or_else(|broken| panic!("{}: {broken}", path.display()));
        count += 1;
    }
    assert!(count > 0, "the corpus of `{name}` is empty");
}

#[test]
fn parse() {
    replay("parse", fuzz::parse);
}

#[test]
fn differ() {
    replay("differ", fuzz::differ);
}
