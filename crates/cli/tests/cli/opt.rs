//! `pelton opt`.

use pelton_ir::pass::Pass;

use crate::{DOUBLE, pelton, pelton_with};

const FOLDS: &str =
    "buffer x: [u32; 4] global write\n\nkernel main {\n  %a = add 2, 3\n  store @x[0], %a\n}\n";

#[test]
fn the_pipeline_prints_a_module() {
    let ran = pelton_with(&["opt", "-"], FOLDS);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("store @x[0], 5"), "{}", ran.out);
    assert!(!ran.out.contains("add"), "{}", ran.out);
    assert_eq!(pelton_with(&["check", "-"], &ran.out).code, Some(0));
}

#[test]
fn every_pass_can_be_asked_for() {
    for pass in Pass::ALL {
        let ran = pelton_with(&["opt", "-", "--pass", pass.name()], DOUBLE);
        assert_eq!(ran.code, Some(0), "{}: {}", pass.name(), ran.err);
    }
    let ran = pelton(&["opt", "-", "--pass", "magic"]);
    assert_eq!(ran.code, Some(64));
    assert!(ran.err.contains("possible values: "), "{}", ran.err);
}

#[test]
fn proofs_are_comments() {
    let ran = pelton_with(&["opt", "-", "--proofs"], FOLDS);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let store = ran.out.lines().find(|line| line.contains("store")).unwrap_or_default();
    assert!(store.contains("  ; "), "{}", ran.out);
    assert_eq!(pelton_with(&["opt", "-"], &ran.out).out, pelton_with(&["opt", "-"], FOLDS).out);
}

#[test]
fn a_bad_module_is_refused() {
    let ran = pelton_with(&["opt", "-"], "kernel {");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("<stdin>:1:"), "{}", ran.err);
}
