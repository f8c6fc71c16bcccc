//! Every byte of a journal is changed in turn. A command then gives an error that says where, or is right.

use std::fs;

use crate::{RunOutput, ScratchFolder, pelton, pelton_with};

/// A handler whose results depend on nothing but their arguments.
const SPEC: &str = r#"
[geometry]
slots = 16

[[handler]]
name = "f"
text = '''
buffer arg: [u32; 12] global read

fn f() -> u32 {
  %x = load @arg[0]
  %y = add %x, 7
  return %y
}
'''
"#;

const TASKS: &str = "{\"op\": \"f\", \"args\": [1]}\n{\"op\": \"f\", \"args\": [2]}\n";

/// A small journal, and the folder in which copies of it are changed.
struct Recorded {
    folder: ScratchFolder,
    spec: String,
    copy: String,
    /// The only segment.
    bytes: Vec<u8>,
    /// Where the last record begins, which says that the journal was closed.
    closed: usize,
    results: String,
}

impl Recorded {
    fn new(name: &str) -> Recorded {
        let folder = ScratchFolder::new(name);
        let (spec, journal) = (folder.file("spec.toml", SPEC), folder.path("journal"));
        let ran = pelton_with(&["run", &spec, "--device", "cpu", "--journal", &journal], TASKS);
        assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 2), "{}", ran.err);
        let bytes = folder.read("journal/00000001.seg");
        let (copy, closed) = (folder.path("copy"), bytes.len() - 12);
        Recorded { folder, spec, copy, bytes, closed, results: ran.out }
    }

    /// Makes a journal of the first bytes, of which one is changed.
    fn damage(&self, length: usize, at: usize) {
        let _ = fs::remove_dir_all(&self.copy);
        fs::create_dir(&self.copy).expect("it can be made");
        let mut bytes = self.bytes[..length].to_vec();
        bytes[at] ^= 1 << (at % 8);
        self.folder.file("copy/00000001.seg", bytes);
    }

    fn go_on(&self) -> RunOutput {
        pelton_with(&["run", &self.spec, "--device", "cpu", "--journal", &self.copy], TASKS)
    }

    /// Checks that an error says where the damage is. Returns false if there is no error.
    fn is_refused(&self, at: usize, ran: &RunOutput) -> bool {
        assert!(!ran.err.contains("panicked"), "byte {at}: {}", ran.err);
        if ran.code == Some(0) {
            return false;
        }
        assert_eq!(ran.code, Some(1), "byte {at}: {}", ran.err);
        let text = ran.err.lines().chain(ran.out.lines()).find(|line| line.contains("00000001.seg"));
        let text = text.unwrap_or_else(|| panic!("byte {at}: it does not say where: {}", ran.err));
        match text.split("is corrupt at byte ").nth(1).and_then(|rest| rest.split(':').next()) {
            Some(place) => assert!(place.parse::<usize>().expect("a number") <= at, "byte {at}: {text}"),
            None => assert!((8..12).contains(&at) && text.contains("of the format of journals"), "{text}"),
        }
        true
    }
}

/// Catches damage that is overlooked, and an error that does not say where it is.
#[test]
fn verify_finds_every_changed_byte() {
    let recorded = Recorded::new("damage-verify");
    for at in 0..recorded.bytes.len() {
        recorded.damage(recorded.bytes.len(), at);
        let ran = pelton(&["journal", "verify", &recorded.copy]);
        // Nothing behind the last record shows that it was whole.
        assert_eq!(recorded.is_refused(at, &ran), at < recorded.closed, "byte {at}: {}{}", ran.out, ran.err);
        assert_eq!(ran.out.contains("12 bytes"), at >= recorded.closed, "byte {at}: {}", ran.out);
    }
}

/// Catches a replay of something that was never recorded.
#[test]
fn replay_refuses_every_changed_byte_or_is_right() {
    let recorded = Recorded::new("damage-replay");
    for at in 0..recorded.bytes.len() {
        recorded.damage(recorded.bytes.len(), at);
        let ran = pelton(&["replay", &recorded.copy, "--device", "cpu", "--compare"]);
        if !recorded.is_refused(at, &ran) {
            assert_eq!(ran.out, "2 results are the same on cpu\n", "byte {at}");
            assert!(at >= recorded.closed, "byte {at} is not noticed");
        }
    }
}

/// Catches a run that goes on with something else than it had begun, whether it had ended or was killed.
#[test]
fn a_run_goes_on_rightly_or_refuses_every_changed_byte() {
    let recorded = Recorded::new("damage-run");
    // The beginning is the same, whether the run had ended or not.
    for (length, from) in [(recorded.bytes.len(), 0), (recorded.closed, recorded.closed - 200)] {
        let mut gone_on = 0;
        for at in from..length {
            recorded.damage(length, at);
            let ran = recorded.go_on();
            if recorded.is_refused(at, &ran) {
                assert_eq!(ran.out, "", "byte {at}");
                continue;
            }
            gone_on += 1;
            let shown = pelton(&["journal", "show", &recorded.copy, "--as", "results"]);
            assert_eq!(shown.out, recorded.results, "byte {at} of {length}: {}", ran.err);
            assert!(ran.out.lines().all(|line| recorded.results.contains(line)), "byte {at}: {}", ran.out);
        }
        assert!(gone_on > 0 && gone_on < length, "{gone_on} of {length}");
    }
}
