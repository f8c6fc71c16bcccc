//! An automaton that is run by composing transition functions ends where a serial run ends, on every device.
//!
//! There is one named test per subject and device. The tests of devices that this machine does not have are ignored by
//! name.

#[path = "../../runtime/tests/pretend/mod.rs"]
mod pretend;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton::device::{Caps, Device, open};
use pelton_scan::composed::{
    BorderStates, ComposedConfig, ComposedRunner, STATE_MAX, StateMap, TransitionError, TransitionTable,
};
use pelton_scan::sample_rules::SampleRandom;

use pretend::PretendDevice;

/// A test of one device. It is told how long texts may be: the interpreter is slow.
type DeviceTest = fn(&Arc<dyn Device>, usize) -> Result<(), Failed>;

const DEVICE_TESTS: &[(&str, DeviceTest)] = &[
    ("random_automata_end_as_serial_runs", random_automata_end_as_serial_runs),
    ("texts_of_every_length_around_borders", texts_of_every_length_around_borders),
    ("states_at_borders_are_those_of_serial_runs", states_at_borders_are_those_of_serial_runs),
    ("quotes_far_apart", quotes_far_apart),
    ("states_and_texts_that_are_too_large_are_refused", states_and_texts_that_are_too_large_are_refused),
];

fn main() -> ExitCode {
    let mut all = vec![
        Trial::test("tables_are_checked", || tables_are_checked().map_err(Failed::from)),
        Trial::test("maps_compose_on_the_host", || maps_compose_on_the_host().map_err(Failed::from)),
    ];
    for (name, bytes) in [("cpu", 60_000), ("reference", 1_500), ("apart", 1_500), ("cuda", 3_000_000)] {
        let device = if name == "apart" { Some(open_apart()) } else { open(name).ok() };
        for (subject, test) in DEVICE_TESTS {
            let (absent, device) = (device.is_none(), device.clone());
            let run = move || device.map_or(Ok(()), |device| test(&device, bytes));
            all.push(Trial::test(format!("{subject}@{name}"), run).with_ignored_flag(absent));
        }
    }
    // A GPU has room for one session that takes all of it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    run(&arguments, all).exit_code()
}

/// Opens the interpreter as a device with memory of its own, which the runner treats as a GPU.
fn open_apart() -> Arc<dyn Device> {
    let inner = open("reference").expect("it is always there");
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(PretendDevice::new(inner, caps))
}

/// Groups of so many lanes, or of the next whole subgroups on a device with memory of its own.
fn group_lanes(device: &Arc<dyn Device>, lanes: u32) -> Option<u32> {
    let caps = device.caps();
    Some(if caps.memory_bytes.is_some() { lanes.next_multiple_of(caps.subgroup) } else { lanes })
}

/// How much of what it has read an automaton remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StateMemory {
    /// Every byte permutes the states, so runs that begin in different states never meet.
    Everything,
    /// Every byte permutes three sets of states, so runs that begin in the same set soon meet, and others never do.
    Residue,
    /// All runs soon meet.
    Nothing,
}

const MEMORIES: [StateMemory; 3] = [StateMemory::Everything, StateMemory::Residue, StateMemory::Nothing];

/// An automaton as a test describes it, which is run in the simplest way.
struct PlainAutomaton {
    states: usize,
    classes: [u8; 256],
    next: Vec<u8>,
}

impl PlainAutomaton {
    /// A random automaton that remembers as much as it is told.
    fn random(states: usize, memory: StateMemory, random: &mut SampleRandom) -> PlainAutomaton {
        let class_count = 1 + random.below(9);
        let mut next = vec![0; states * class_count];
        let residues = match memory {
            StateMemory::Everything => states,
            StateMemory::Residue => 3.min(states),
            StateMemory::Nothing => 1,
        };
        for class in 0..class_count {
            let mut order: Vec<usize> = (0..residues).collect();
            (1..residues).rev().for_each(|at| order.swap(at, random.below(at + 1)));
            for state in 0..states {
                // Some state with the residue that this one's residue leads to.
                let residue = order[state % residues];
                let choices = (states - residue).div_ceil(residues);
                next[state * class_count + class] = (residue + random.below(choices) * residues) as u8;
            }
        }
        let classes = std::array::from_fn(|_| random.below(class_count) as u8);
        PlainAutomaton { states, classes, next }
    }

    fn table(&self) -> TransitionTable {
        TransitionTable::new(self.states, &self.classes, &self.next).expect("every next state exists")
    }

    fn run(&self, from: u32, text: &[u8]) -> u32 {
        let class_count = self.next.len() / self.states;
        text.iter().fold(from, |state, byte| {
            let class = self.classes[usize::from(*byte)];
            self.next[state as usize * class_count + usize::from(class)].into()
        })
    }
}

fn random_text(len: usize, random: &mut SampleRandom) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// Automata of every size, in groups of several sizes.
fn random_automata_end_as_serial_runs(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let mut random = SampleRandom::new(1);
    // Kernels take long to compile for a GPU.
    let sizes: Vec<usize> = match &*device.caps().name {
        "cpu" => (1..=STATE_MAX).collect(),
        _ => vec![1, 2, 4, 5, 9, 10, 11, 16, 17, STATE_MAX],
    };
    for (at, states) in sizes.into_iter().enumerate() {
        let plain = PlainAutomaton::random(states, *random.pick(&MEMORIES), &mut random);
        let lanes = [None, Some(1), Some(3), Some(8), Some(32)][at % 5];
        let lanes = lanes.and_then(|lanes| group_lanes(device, lanes));
        let config = ComposedConfig { lanes, chunk_bytes: 1 << 14, ..ComposedConfig::default() };
        let mut runner = ComposedRunner::launch(device, plain.table(), config)?;
        for len in [0, 1, bytes / 3, bytes] {
            let text = random_text(len, &mut random);
            let from = random.below(states) as u32;
            let wanted = plain.run(from, &text);
            assert_eq!(plain.table().run_serially(from, &text)?, wanted, "the serial run of {states} states");
            assert_eq!(
                runner.end_state(from, &text)?,
                wanted,
                "{states} states, {len} bytes, {lanes:?} lanes"
            );
        }
    }
    Ok(())
}

/// Pieces that are empty, that have one byte, that are full, and all others around the borders of blocks, pieces, spans
/// and chunks.
fn texts_of_every_length_around_borders(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let mut random = SampleRandom::new(2);
    for (states, memory) in
        [(3, StateMemory::Everything), (7, StateMemory::Residue), (20, StateMemory::Everything)]
    {
        let plain = PlainAutomaton::random(states, memory, &mut random);
        let config = ComposedConfig {
            chunk_bytes: 4096,
            piece_bytes: Some(256),
            lanes: group_lanes(device, 4),
            ..ComposedConfig::default()
        };
        let mut runner = ComposedRunner::launch(device, plain.table(), config)?;
        let text = random_text(9000, &mut random);
        let borders = [0, 16, 256, 512, 1024, 2048, 4096, 8192];
        let lens = borders.into_iter().flat_map(|border: usize| border.saturating_sub(2)..border + 3);
        for len in lens {
            for from in [0, states as u32 - 1] {
                let (piece, wanted) = (&text[..len], plain.run(from, &text[..len]));
                assert_eq!(runner.end_state(from, piece)?, wanted, "{states} states, {len} bytes");
                // What a longer text has left on the device is not read.
                runner.load_text(&text[..4096])?;
            }
        }
    }
    Ok(())
}

fn states_at_borders_are_those_of_serial_runs(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let mut random = SampleRandom::new(3);
    for (states, lanes, memory) in [
        (2, 1, StateMemory::Everything),
        (7, 5, StateMemory::Everything),
        (7, 5, StateMemory::Residue),
        (32, 8, StateMemory::Residue),
        (6, 1, StateMemory::Nothing),
    ] {
        let plain = PlainAutomaton::random(states, memory, &mut random);
        for piece_bytes in [None, Some(256), Some(1000)] {
            let config = ComposedConfig {
                chunk_bytes: 4096,
                piece_bytes,
                lanes: group_lanes(device, lanes),
                ..Default::default()
            };
            let mut runner = ComposedRunner::launch(device, plain.table(), config)?;
            for len in [0, 1, 255, 256, 257, 1280, 4096, 4097, bytes] {
                let text = random_text(len, &mut random);
                let from = random.below(states) as u32;
                let BorderStates { piece_bytes, states: borders, end } = runner.border_states(from, &text)?;
                assert_eq!(borders.len(), len.div_ceil(piece_bytes));
                let mut state = from;
                for (piece, border) in text.chunks(piece_bytes).zip(borders) {
                    assert_eq!(border, state, "{states} states, {len} bytes, pieces of {piece_bytes}");
                    state = plain.run(state, piece);
                }
                assert_eq!(end, state, "{states} states, {len} bytes");
            }
        }
    }
    Ok(())
}

/// The state depends on a single byte at the beginning of the text, however long it is.
fn quotes_far_apart(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let mut classes = [0; 256];
    classes[usize::from(b'"')] = 1;
    let table = TransitionTable::new(2, &classes, &[0, 1, 1, 0])?;
    let mut runner = ComposedRunner::launch(device, table, ComposedConfig::default())?;
    let mut text = vec![b'.'; bytes];
    assert_eq!(runner.end_state(0, &text)?, 0);
    text[0] = b'"';
    assert_eq!(runner.end_state(0, &text)?, 1);
    assert_eq!(runner.end_state(1, &text)?, 0);
    *text.last_mut().expect("it is not empty") = b'"';
    runner.load_text(&text)?;
    assert_eq!([runner.loaded_end_state(0)?, runner.loaded_end_state(1)?], [0, 1]);
    Ok(())
}

fn states_and_texts_that_are_too_large_are_refused(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let table = TransitionTable::new(3, &[0; 256], &[1, 2, 0])?;
    let config = ComposedConfig { chunk_bytes: 4096, ..ComposedConfig::default() };
    let mut runner = ComposedRunner::launch(device, table, config)?;
    let refused = |error: pelton_scan::ScanError| error.to_string();
    let wanted = Err("there is no state 3: the automaton has 3 states".to_owned());
    assert_eq!(runner.end_state(3, b"text").map_err(refused), wanted);
    assert_eq!(runner.loaded_end_state(3).map_err(refused), wanted);
    assert_eq!(runner.border_states(3, b"").map(|borders| borders.end).map_err(refused), wanted);
    assert!(runner.load_text(&[0; 4097]).is_err() && runner.load_text(&[0; 4096]).is_ok());
    assert_eq!(runner.loaded_end_state(0)?, 4096 % 3);
    Ok(())
}

fn tables_are_checked() -> Result<(), TransitionError> {
    let refusal =
        |states, classes: &[u8; 256], next: &[u8]| TransitionTable::new(states, classes, next).err();
    let (one, mut two) = ([0; 256], [0; 256]);
    two[200] = 1;
    assert_eq!(refusal(0, &one, &[]), Some(TransitionError::StateCount(0)));
    assert_eq!(refusal(33, &one, &[0; 33]), Some(TransitionError::StateCount(33)));
    assert_eq!(refusal(2, &one, &[0; 3]), Some(TransitionError::Uneven { entries: 3, states: 2 }));
    assert_eq!(refusal(2, &one, &[]), Some(TransitionError::Uneven { entries: 0, states: 2 }));
    assert_eq!(refusal(2, &two, &[0, 1]), Some(TransitionError::Class { byte: 200, class: 1, classes: 1 }));
    let next = TransitionError::NextState { state: 1, class: 0, next: 2, states: 2 };
    assert_eq!(refusal(2, &two, &[0, 1, 2, 1]), Some(next));
    assert_eq!(next.to_string(), "state 1 and class 0 lead to state 2, but there are 2 states");
    let table = TransitionTable::new(2, &two, &[0, 1, 1, 0])?;
    assert_eq!(table.next_states(200), [1, 0]);
    assert_eq!(table.run_serially(2, b""), Err(TransitionError::UnknownState { state: 2, states: 2 }));
    Ok(())
}

fn maps_compose_on_the_host() -> Result<(), TransitionError> {
    let mut random = SampleRandom::new(4);
    for states in 1..=STATE_MAX {
        let plain = PlainAutomaton::random(states, MEMORIES[states % 3], &mut random);
        let table = plain.table();
        let text = random_text(300, &mut random);
        let whole = StateMap::of_text(&table, &text);
        for (from, to) in (0..).zip(whole.leaving_states()) {
            assert_eq!(u32::from(*to), plain.run(from, &text));
            assert_eq!(table.run_serially(from, &text)?, plain.run(from, &text));
        }
        for cut in [0, 1, 150, 299, 300] {
            let (first, second) = text.split_at(cut);
            let [first, second] = [first, second].map(|piece| StateMap::of_text(&table, piece));
            assert_eq!(first.followed_by(&second), whole);
        }
        assert_eq!(StateMap::identity(&table).followed_by(&whole), whole);
    }
    Ok(())
}
