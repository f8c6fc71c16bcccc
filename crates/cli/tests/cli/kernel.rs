//! `pelton kernel`.

use crate::{ScratchFolder, pelton, pelton_with};

const SPEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/run/spec.toml");

/// A handler that spawns a task.
const SPAWNS: &str = "
import fn reserve_children(%count: u32) -> u32
import fn spawn(%op: u32, %level: u32, %into: u32)
fn hop() -> u32 {
  %room = call reserve_children(1)
  call spawn(0, 5, 9)
  return %room
}";

#[test]
fn a_spec_becomes_a_module() {
    for device in ["cpu", "reference"] {
        let ran = pelton(&["kernel", SPEC, "--device", device]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains(&format!("for {device}: 10 near rings of 1024 slots")), "{}", ran.err);
        let checked = pelton_with(&["check", "-"], &ran.out);
        assert_eq!(checked.code, Some(0), "{}", checked.err);
        assert!(checked.out.contains("valid, 1 kernel"), "{}", checked.out);
    }
}

#[test]
fn the_note_says_how_large_places_cells_and_frames_are() {
    let steps = "
import fn yield_now()
buffer frame: [u32; 3] global read_write
fn hop() -> u32 { call yield_now() return 0 }";
    let sizes = "payload = 60\nreply = 8\ncells = 64\n";
    let handler = |text: &str| format!("[[handler]]\nname = \"hop\"\ntext = '''{text}'''\n");
    let (hop, plain) = (handler(steps), handler("fn hop() -> u32 { return 0 }"));
    let places = "lanes, payloads of up to 60 bytes, replies of up to 8 bytes";
    for (spec, end) in [
        (format!("{sizes}{hop}"), format!("{places}, 64 cells per producer, 3 words per frame\n")),
        // The tasks of a drained batch have no cells, and plain handlers have neither.
        (format!("lifetime = \"drain\"\n{sizes}{hop}"), format!("{places}, 3 words per frame\n")),
        (format!("{sizes}{plain}"), format!("{places}\n")),
        (format!("cells = 64\n{plain}"), "lanes\n".into()),
        (
            format!("cells = 64\nspawn_cells = 128\n{}", handler(SPAWNS)),
            "64 cells per producer, 128 cells for spawned tasks per tenant\n".into(),
        ),
        (
            format!("cells = 64\nevents = 3\ngraph_instances = 5\ngraph_nodes = 7\n{plain}"),
            ", 3 events per tenant, 5 instances of graphs, 7 nodes per graph\n".into(),
        ),
    ] {
        let ran = pelton_with(&["kernel", "-", "--device", "cpu"], &spec);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.ends_with(&end), "{spec}\ngave\n{}", ran.err);
    }
}

#[test]
fn a_spec_can_be_seen_whole() {
    let whole = pelton(&["kernel", SPEC, "--whole"]);
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    assert!(
        whole.out.contains("telemetry = \"sampled\"") && whole.out.contains("fn steps() -> u32 {"),
        "{}",
        whole.out
    );
    // The complete spec needs no other file, and prints as itself.
    let again = pelton_with(&["kernel", "-", "--whole"], &whole.out);
    assert_eq!((again.code, again.out), (Some(0), whole.out), "{}", again.err);
}

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    let folder = ScratchFolder::new("kernel-wrong");
    let handler = "[[handler]]\nname = \"add\"\nop = 8\n";
    for (text, what) in [
        ("share = \n".into(), "spec.toml:1:9"),
        ("[geometry]\nsolts = 64\n".into(), "spec.toml:2:1"),
        ("[geometry]\nsolts = 64\n".into(), "there is no key `solts` here; did you mean slots?"),
        (format!("{handler}text = '''\nfn add() -> u32 {{\n  return 1.5\n}}\n'''\n"), "spec.toml:6:3"),
        (format!("{handler}file = \"bad.pel\"\n"), "bad.pel:2:3"),
        (format!("{handler}file = \"none.pel\"\n"), "spec.toml:4:8"),
        (
            format!("{handler}file = \"other.pel\"\n"),
            "handler \"add\" (0x8): it has no function of that name; its functions are: \"sub\"",
        ),
        ("[geometry]\nslots = 3\n".into(), "a ring has 3 slots, which is not a power of two"),
        ("io = \"polled\"\n".into(), "io = polled: nothing serves the requests of tasks yet"),
    ] {
        let spec = folder.file("spec.toml", &text);
        folder.file("bad.pel", "fn add() -> u32 {\n  retrun 1\n}\n");
        folder.file("other.pel", "fn sub() -> u32 {\n  return 1\n}\n");
        let ran = pelton(&["kernel", &spec]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{text}");
        assert!(ran.err.contains(what), "{text}\ngave\n{}", ran.err);
    }
    let ran = pelton(&["kernel", &folder.path("none.toml")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("cannot read ") && ran.err.contains("none.toml"), "{}", ran.err);
}
