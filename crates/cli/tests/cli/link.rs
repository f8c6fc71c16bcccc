//! `--link`: imports and libraries on the command line.

use serde_json::Value;

use crate::{RunOutput, ScratchFolder, pelton, pelton_with};

const MAIN: &str = "\
import fn twice(%x: u32) -> u32
buffer x: [u32; ?] global read_write

kernel main {
  %i = lane
  %a = load @x[%i]
  %b = call twice(%a)
  store @x[%i], %b
}
";

const TWICE: &str = "fn twice(%x: u32) -> u32 {\n  %y = add %x, %x\n  return %y\n}\n";

/// Runs `MAIN` with libraries.
fn exec(libraries: &[&str], more: &[&str]) -> RunOutput {
    let mut args = vec!["exec", "-", "--lanes", "3", "--buffer", "x=[1 2 3]"];
    args.extend(libraries.iter().flat_map(|path| ["--link", path]));
    args.extend(more);
    pelton_with(&args, MAIN)
}

#[test]
fn imports_are_bound_to_functions_of_libraries() {
    let folder = ScratchFolder::new("link-bound");
    let twice = folder.file("twice.pel", TWICE);
    let other = folder.file("other.pel", "fn other() {\n}\n");
    for device in [&["--device", "cpu"][..], &["--device", "reference"], &["--seed", "7"]] {
        let ran = exec(&[&other, &twice], device);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "x: [u32; 3] = [2 4 6]\n"), "{}", ran.err);
    }
    for to in ["ptx", "clif"] {
        let ran = pelton_with(&["emit", "-", "--to", to, "--link", &twice], MAIN);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    let ran = pelton_with(&["opt", "-", "--link", &twice], MAIN);
    assert!(
        ran.code == Some(0) && ran.out.contains("fn twice") && !ran.out.contains("import"),
        "{}",
        ran.out
    );
}

#[test]
fn what_is_not_bound_is_named() {
    let folder = ScratchFolder::new("link-unbound");
    let near = folder.file("near.pel", "fn twise(%x: u32) -> u32 {\n  return %x\n}\n");
    let unbound = "error[unbound]: no library has a function for the import `twice(u32) -> u32`";
    for way in [
        &["exec", "-"][..],
        &["exec", "-", "--seed", "1"],
        &["emit", "-", "--to", "ptx"],
        &["emit", "-", "--to", "clif"],
    ] {
        let ran = pelton_with(way, MAIN);
        assert!(ran.code == Some(1) && ran.err.contains(unbound), "{way:?}: {}", ran.err);
        assert!(ran.err.contains("<stdin>:1:1") && ran.err.contains("`--link LIBRARY.pel`"), "{}", ran.err);
    }
    let ran = exec(&[&near], &[]);
    assert!(ran.code == Some(1) && ran.err.contains("did you mean `twise`?"), "{}", ran.err);
    let other = folder.file("other.pel", "fn twice(%x: f32) {\n}\n");
    let ran = exec(&[&other], &[]);
    assert!(ran.err.contains("the import `twice(u32) -> u32` does not fit `twice(f32)`"), "{}", ran.err);
    let broken = folder.file("broken.pel", "fn twice(%x: u32) -> u32 {\n}\n");
    let ran = exec(&[&broken], &[]);
    assert!(ran.code == Some(1) && ran.err.contains("broken.pel:2:1"), "{}", ran.err);
    let ran = exec(&[&folder.path("missing.pel")], &[]);
    assert!(ran.code == Some(1) && ran.err.contains("missing.pel"), "{}", ran.err);
}

#[test]
fn faults_in_a_library_are_shown_in_the_linked_module() {
    let folder = ScratchFolder::new("link-fault");
    let bad = folder.file("bad.pel", "fn twice(%x: u32) -> u32 {\n  fault 9\n  return %x\n}\n");
    let ran = exec(&[&bad], &["--device", "reference"]);
    assert!(ran.err.contains("linked module:") && ran.err.contains("fault 9"), "{}", ran.err);
    let ran = exec(&[&bad], &["--device", "reference", "--json"]);
    let json: Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert!(json["fault"]["code"] == 9 && json["fault"]["place"].is_null(), "{json}");
}

#[test]
fn modules_with_imports_are_checked_and_formatted_as_others() {
    let ran = pelton_with(&["check", "-"], MAIN);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("1 kernel, 1 import, 1 buffer"), "{}", ran.out);
    let ran = pelton_with(&["fmt", "-"], MAIN);
    assert_eq!(ran.out, MAIN);
    let ran = pelton_with(&["opt", "-"], MAIN);
    assert!(ran.out.contains("call twice"), "{}", ran.out);
    let ran = pelton(&["exec", "--help"]);
    assert!(ran.out.contains("--link <LIBRARY>") && ran.out.contains("import fn"), "{}", ran.out);
}
