//! A case that breaks a law is made small and saved as a filetest.

use std::fs;

use pelton_filetest::suite::{Bless, Suite, test_targets};
use pelton_gen::case::GeneratedCase;
use pelton_gen::choose::{Bytes, Seed};
use pelton_gen::config::GeneratorConfig;
use pelton_gen::hold::smallest_failure;
use pelton_gen::law::BrokenLaw;
use pelton_gen::regress;
use pelton_ir::module::Module;
use pelton_ir::op::Op;

fn insts(module: &Module) -> usize {
    module.functions.iter().map(|(_, function)| function.insts().len()).sum()
}

/// A made-up law: no module has two atomics that modify memory.
fn has_few_atomics(bytes: &[u8]) -> Result<(), BrokenLaw> {
    let case = GeneratedCase::new(&mut Bytes(bytes), &GeneratorConfig::DEFAULT);
    let modify = |op: Op| op.is_read_modify_write();
    let found = case.module.functions.iter().flat_map(|(_, function)| function.insts());
    if found.filter(|(_, node)| modify(node.op)).count() < 2 {
        return Ok(());
    }
    Err(BrokenLaw::new("pretended", "there are two"))
}

#[test]
fn a_failure_is_made_small() {
    let (bytes, why) = smallest_failure(50, 1500, has_few_atomics).expect("some module has two atomics");
    assert!(why.contains("there are two"), "{why}");
    let case = GeneratedCase::new(&mut Bytes(&bytes), &GeneratorConfig::DEFAULT);
    // A kernel begins with six instructions that find the lane's slots, and ends with what it keeps.
    assert!(insts(&case.module) <= 14, "{}", pelton_ir::text::print(&case.module));
    assert_eq!((case.geometry.groups, case.geometry.lanes), (1, 1));
}

#[test]
fn what_is_written_is_a_filetest() {
    let folder = std::env::temp_dir().join(format!("pelton-regress-{}", std::process::id()));
    let broken = BrokenLaw::new("pretended", "two lines\nof reasons");
    for seed in 0..20 {
        let case = GeneratedCase::new(&mut Seed(seed), &GeneratorConfig::DEFAULT);
        regress::save(&folder, &case, &broken).expect("a temporary file can be written");
    }
    let suite = Suite::load(std::slice::from_ref(&folder), test_targets()).expect("the folder was written");
    let tests = suite.tests();
    let reference: Vec<_> = tests.iter().filter(|test| test.name.ends_with("@reference")).collect();
    assert_eq!(reference.len(), 20);
    for test in reference {
        test.run_test(Bless::No).unwrap_or_else(|failure| panic!("{}: {failure}", test.name));
    }
    fs::remove_dir_all(&folder).expect("what was written can be removed");
}
