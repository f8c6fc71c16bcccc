//! The session engine finds what the native engine finds, on every device and however a text is cut.
//!
//! There is one named test per subject and device. The tests of devices that this machine does not have are ignored by
//! name.

#[path = "../../runtime/tests/pretend/mod.rs"]
mod pretend;

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton::device::{Caps, Device, open};
use pelton::{Geometry, Opcode, Spec, Task, Tenant};
use pelton_scan::engine::{CandidateEngine, NativeEngine, TextArena};
use pelton_scan::factor::extract_factors;
use pelton_scan::session::{KernelShape, SessionConfig, SessionEngine};
use pelton_scan::{Candidate, Catalog, Expression};

use pretend::PretendDevice;

/// A test of one device. It is told how large texts may be: the interpreter is slow.
type Test = fn(&Arc<dyn Device>, usize) -> Result<(), Failed>;

const TESTS: &[(&str, Test)] = &[
    ("texts_full_of_literals_and_cuts", texts_full_of_literals_and_cuts),
    ("chunks_give_the_candidates_of_the_whole", chunks_give_the_candidates_of_the_whole),
    ("nothing_but_hits", nothing_but_hits),
    ("more_candidates_than_room", more_candidates_than_room),
    ("runs_of_a_class", runs_of_a_class),
    ("a_new_version_of_a_catalog", a_new_version_of_a_catalog),
    ("several_threads_at_once", several_threads_at_once),
    ("one_tenant_among_others", one_tenant_among_others),
    ("resident_text", resident_text),
    ("what_is_no_text_is_refused", what_is_no_text_is_refused),
];

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, size) in [("cpu", 300_000), ("reference", 6_000), ("apart", 3_000), ("cuda", 3_000_000)] {
        let device = if name == "apart" { Some(open_apart()) } else { open(name).ok() };
        for (subject, test) in TESTS {
            let (absent, device) = (device.is_none(), device.clone());
            let run = move || device.map_or(Ok(()), |device| test(&device, size));
            all.push(Trial::test(format!("{subject}@{name}"), run).with_ignored_flag(absent));
        }
    }
    // A GPU has room for one session that takes all of it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    run(&arguments, all).exit_code()
}

/// Opens the interpreter as a device with memory of its own. The engine treats it as a GPU.
fn open_apart() -> Arc<dyn Device> {
    let inner = open("reference").expect("it is always there");
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(PretendDevice::new(inner, caps))
}

const RULES: [&str; 14] = [
    r"ghp_[0-9a-zA-Z]{36}",
    r"xox[bp]-[0-9]{4,12}-[0-9a-z]{8}",
    r"AKIA[A-Z2-7]{16}",
    r"(?i)api_?key\s*[:=]\s*['a-z0-9]{8,40}",
    r"(?i)secret[a-z_]{0,20}=",
    r"token",
    r"(?i)tok",
    r"[a-z]{3}hers(?:ab|[a-c]{3,20}z)",
    r"s",
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[a-z\n]{1,900}-----END",
    r"she|he|his",
    r"password.{0,600}x",
    r"[0-9a-f]{40}",
    r"=[A-Z]{33,}",
];

const FRAGMENTS: [&str; 22] = [
    "ghp_0123456789abcdefghijABCDEFGHIJ012345", // pelton:allow
    "ghp_",
    "xoxb-1234-abcd1234",
    "xoxp-",
    "AKIAABCDEFGHIJKLMNOP", // pelton:allow
    "akia",
    "api_key = 'abcdefgh'",
    "API_KEY:",
    "secret_of_mine=",
    "SeCrEt",
    "token",
    "TOKEN",
    "abchersab",
    "hershershers",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END",
    "she sells his shells",
    "password is",
    "0123456789abcdef0123456789abcdef0123456789abcdef",
    "=ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOP",
    "\n",
    "                                                                ",
];

fn catalog(rules: &[&str]) -> Arc<Catalog> {
    let factors: Vec<_> = rules
        .iter()
        .map(|rule| extract_factors(&Expression::parse(rule).expect("the rule is an expression")))
        .collect();
    Arc::new(Catalog::build(&factors).expect("the rules have tables"))
}

/// A source of random numbers that is the same in every run.
struct FragmentRandom(u64);

impl FragmentRandom {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    /// A text of whole fragments and parts of fragments, some with a byte changed.
    fn text(&mut self, len: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < len {
            let fragment = FRAGMENTS[self.below(FRAGMENTS.len())].as_bytes();
            let from = if self.below(4) == 0 { self.below(fragment.len()) } else { 0 };
            let to =
                if self.below(4) == 0 { from + self.below(fragment.len() - from) } else { fragment.len() };
            text.extend(&fragment[from..to]);
            if self.below(8) == 0
                && let Some(last) = text.last_mut()
            {
                *last = self.below(256) as u8;
            }
        }
        text.truncate(len);
        text
    }
}

/// Small chunks, so that texts are cut often, and small groups, so that the interpreter is not too slow.
fn small() -> SessionConfig {
    let shape = KernelShape { turn_blocks: 2, window_room: 128, hot_words: 256 };
    SessionConfig {
        callers: 2,
        chunk_bytes: 4096,
        piece_bytes: 1024,
        candidate_room: 4096,
        lanes: Some(32),
        shape: Some(shape),
        ..Default::default()
    }
}

fn launch(device: &Arc<dyn Device>, rules: &[&str], config: SessionConfig) -> SessionEngine {
    SessionEngine::launch(device.clone(), catalog(rules), config).expect("the device runs the session")
}

/// One candidate per position at which a part can begin, in order.
fn normalize(candidates: &[Candidate]) -> Vec<Candidate> {
    let each = candidates.iter().flat_map(|candidate| {
        let one = move |at| Candidate { first: at, last: at, branch: candidate.branch };
        (candidate.first..=candidate.last).map(one)
    });
    let mut list: Vec<Candidate> = each.collect();
    list.sort_unstable();
    list.dedup();
    list
}

fn find(engine: &dyn CandidateEngine, text: &[u8], own: Range<usize>) -> Vec<Candidate> {
    let mut arena = engine.arena(text.len()).expect("there is memory");
    arena.bytes_mut().copy_from_slice(text);
    let mut found = Vec::new();
    engine.candidates(&*arena, text.len(), own, &mut found).expect("the engine works");
    normalize(&found)
}

fn native(catalog: Arc<Catalog>, text: &[u8], own: Range<usize>) -> Vec<Candidate> {
    find(&NativeEngine::new(catalog), text, own)
}

/// Compares lists, and shows the first difference instead of both lists.
fn same(found: &[Candidate], expected: &[Candidate], about: &str) -> Result<(), Failed> {
    if found == expected {
        return Ok(());
    }
    let extra = found.iter().find(|one| !expected.contains(one));
    let missing = expected.iter().find(|one| !found.contains(one));
    let (has, wants) = (found.len(), expected.len());
    Err(format!("{about}: {has} candidates instead of {wants}; extra {extra:?}, missing {missing:?}").into())
}

fn texts_full_of_literals_and_cuts(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    // Groups as they suit the device.
    let config = SessionConfig { lanes: None, shape: None, chunk_bytes: 1 << 20, ..small() };
    let engine = launch(device, &RULES, config);
    let mut random = FragmentRandom(1);
    let mut total = 0;
    for len in [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 1000, 1023, 1025, 4097, size] {
        let text = random.text(len);
        let start = random.below(len + 1);
        for own in [0..len, start..start + random.below(len - start + 1)] {
            let expected = native(engine.catalog(), &text, own.clone());
            total += expected.len();
            same(&find(&engine, &text, own.clone()), &expected, &format!("{own:?} of {len}"))?;
        }
    }
    assert!(total > 100, "the texts contain candidates");
    Ok(())
}

fn chunks_give_the_candidates_of_the_whole(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let engine = launch(device, &RULES, small());
    let mut random = FragmentRandom(2);
    for round in 0..3 {
        let text = random.text(size / 2 + round);
        let expected = native(engine.catalog(), &text, 0..text.len());
        same(&find(&engine, &text, 0..text.len()), &expected, &format!("round {round}"))?;
    }
    Ok(())
}

/// Every byte is a hit, so the list of hits of every group is too short for its piece.
fn nothing_but_hits(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let config =
        SessionConfig { chunk_bytes: 1 << 16, piece_bytes: 1 << 14, candidate_room: 1 << 16, ..small() };
    let engine = launch(device, &["s", "ss", "sss[a-s]"], config);
    let text = vec![b's'; (size / 2).min(200_000)];
    let expected = native(engine.catalog(), &text, 0..text.len());
    assert!(expected.len() > text.len(), "every byte is a candidate");
    same(&find(&engine, &text, 0..text.len()), &expected, "a text of one letter")
}

fn more_candidates_than_room(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let engine = launch(device, &RULES, SessionConfig { candidate_room: 8, ..small() });
    let text = FragmentRandom(3).text((size / 8).clamp(2_000, 20_000));
    let expected = native(engine.catalog(), &text, 0..text.len());
    assert!(expected.len() > 100, "there are many candidates");
    same(&find(&engine, &text, 0..text.len()), &expected, "a list for eight candidates")
}

fn runs_of_a_class(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let engine = launch(
        device,
        &["[0-9a-f]{40}", "[0-9a-f]{64}", "[A-Z]{30,}", "[0-9]{25}x", "[A-G0-9]{33}"],
        small(),
    );
    assert!(engine.catalog().class_runs().len() > 3, "the rules are searched by runs");
    let mut random = FragmentRandom(4);
    let mut text = Vec::new();
    while text.len() < size / 2 {
        let letters: &[u8] = [&b"0123456789abcdef"[..], b"ABCDEFG", b"0123456789"][random.below(3)];
        for _ in 0..random.below(150) {
            text.push(letters[random.below(letters.len())]);
        }
        text.push(b' ');
    }
    for own in [0..text.len(), text.len() / 3..text.len() / 2, 77..78] {
        let expected = native(engine.catalog(), &text, own.clone());
        same(&find(&engine, &text, own.clone()), &expected, &format!("{own:?}"))?;
    }
    Ok(())
}

fn a_new_version_of_a_catalog(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let engine = launch(device, &RULES, SessionConfig { table_words: 1 << 18, ..small() });
    let text = FragmentRandom(5).text(size / 4);
    for rules in [&RULES[..5], &RULES[3..9], &["shells"], &RULES[..], &["nothing like it"]] {
        let version = catalog(rules);
        engine.replace(version.clone()).map_err(|error| error.to_string())?;
        let expected = native(version, &text, 0..text.len());
        same(&find(&engine, &text, 0..text.len()), &expected, &format!("{} rules", rules.len()))?;
    }
    let large: Vec<String> = (0..20_000).map(|k| format!("literal{k}")).collect();
    let large: Vec<&str> = large.iter().map(|rule| &**rule).collect();
    assert!(engine.replace(catalog(&large)).is_err(), "a catalog that is too large is refused");
    // Versions change while calls run, and each call sees one of them whole.
    let versions = [catalog(&RULES[..4]), catalog(&RULES[4..10])];
    engine.replace(versions[0].clone()).map_err(|error| error.to_string())?;
    let expected = versions.clone().map(|version| native(version, &text, 0..text.len()));
    thread::scope(|scope| {
        let calls = scope.spawn(|| (0..6).all(|_| expected.contains(&find(&engine, &text, 0..text.len()))));
        for k in 0..6 {
            engine.replace(versions[k % 2].clone()).expect("it fits");
        }
        assert!(calls.join().expect("the calls work"));
    });
    Ok(())
}

fn several_threads_at_once(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let engine = launch(device, &RULES, small());
    let texts: Vec<Vec<u8>> = (6..10).map(|seed| FragmentRandom(seed).text(size / 4)).collect();
    thread::scope(|scope| {
        let each = texts.iter().map(|text| {
            let engine = &engine;
            scope.spawn(move || {
                let expected = native(engine.catalog(), text, 0..text.len());
                let twice = [0; 2].map(|_| find(engine, text, 0..text.len()) == expected);
                twice == [true; 2]
            })
        });
        let each: Vec<_> = each.collect();
        for thread in each {
            assert!(thread.join().expect("the engine works"));
        }
    });
    Ok(())
}

fn one_tenant_among_others(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let spec = Spec::new(Geometry::new(256)).tenant(Tenant::new(0).size("data", 16));
    let beside = SessionEngine::launch_beside(device.clone(), catalog(&RULES), small(), (spec, 3));
    let engine = beside.map_err(|error| error.to_string())?;
    let text = FragmentRandom(11).text(size / 4);
    let expected = native(engine.catalog(), &text, 0..text.len());
    let mut producer = engine.session().producer(0)?;
    thread::scope(|scope| {
        let scan = scope.spawn(|| find(&engine, &text, 0..text.len()));
        for _ in 0..50 {
            let task = Task::new(Opcode::ATOMIC_ADD).args([1, 7]);
            producer.submit(task).expect("there is room").wait(Duration::from_secs(60)).expect("it runs");
        }
        same(&scan.join().expect("the scan works"), &expected, "beside another tenant")
    })?;
    assert_eq!(engine.session().view::<u32>(0, "data")?.read(7, 1)?, [50]);
    assert_eq!(engine.session().view::<u32>(0, "scan_text")?.len(), 0, "other tenants have no text");
    Ok(())
}

fn resident_text(device: &Arc<dyn Device>, size: usize) -> Result<(), Failed> {
    let config = SessionConfig { chunk_bytes: 1 << 22, candidate_room: 1 << 20, ..small() };
    let engine = launch(device, &RULES[..7], config);
    let text = FragmentRandom(12).text(size);
    let mut at = 0;
    let resident = engine.resident_text(text.len(), |part| {
        part.copy_from_slice(&text[at..at + part.len()]);
        at += part.len();
    });
    let mut resident = resident.map_err(|error| error.to_string())?;
    let mut expected = Vec::new();
    NativeEngine::new(engine.catalog()).find(&text, 0..text.len(), &mut expected);
    for _ in 0..2 {
        let counts = resident.count(0..text.len()).map_err(|error| error.to_string())?;
        assert_eq!(counts.records as usize, expected.len());
        assert!(counts.hits > counts.records / 4, "{counts:?}");
    }
    Ok(())
}

fn what_is_no_text_is_refused(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let engine = launch(device, &RULES[..2], small());
    let arena = engine.arena(100).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    assert!(engine.candidates(&*arena, 101, 0..1, &mut out).is_err());
    assert!(engine.candidates(&*arena, 100, 5..101, &mut out).is_err());
    // A text that is not in an arena of the engine is copied first, wherever it begins.
    let text = b"  xoxb-1234-abcd1234".to_vec();
    struct Part(Vec<u8>);
    impl TextArena for Part {
        fn bytes(&self) -> &[u8] {
            &self.0[1..]
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0[1..]
        }
    }
    let len = text.len() - 1;
    engine.candidates(&Part(text), len, 0..len, &mut out).map_err(|error| error.to_string())?;
    assert_eq!(out.len(), 1);
    Ok(())
}
