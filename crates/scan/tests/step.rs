//! Tasks of the opcode `DFA_STEP` make the steps that the tables of the catalog say, on every device.
//!
//! There is one named test per subject and device. The tests of devices that this machine does not have are ignored by
//! name.

#[path = "law/rules.rs"]
#[expect(dead_code, reason = "the law itself uses more of it")]
mod rules;
#[path = "law/sample.rs"]
mod sample;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial, run};
use pelton::device::{Device, open};
use pelton::protocol::FaultCode;
use pelton::{Geometry, Opcode, Producer, Session, Spec, SubmitError, Task, TaskError};
use pelton_scan::factor::extract_factors;
use pelton_scan::sample_rules::SampleRandom;
use pelton_scan::session::{KernelShape, SessionConfig, SessionEngine, StepAutomata, StepAutomaton};
use pelton_scan::{Catalog, Expression};
use sample::sampled_text;

/// A test of one device. It is told how many bytes texts have: the interpreter is slow.
type Test = fn(&Arc<dyn Device>, usize) -> Result<(), Failed>;

const TESTS: &[(&str, Test)] = &[
    ("sampled_texts_step_as_the_tables_say", sampled_texts_step_as_the_tables_say),
    ("every_state_and_byte", every_state_and_byte),
    ("states_mean_what_they_say", states_mean_what_they_say),
    ("what_does_not_exist_is_a_fault", what_does_not_exist_is_a_fault),
    ("a_step_sees_the_version_of_its_number", a_step_sees_the_version_of_its_number),
    ("steps_while_catalogs_are_replaced", steps_while_catalogs_are_replaced),
    ("kernels_without_automata_refuse", kernels_without_automata_refuse),
];

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, bytes) in [("cpu", 400), ("reference", 24), ("cuda", 2_000)] {
        let device = open(name).ok();
        for (subject, test) in TESTS {
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

/// How long a task may take. It is far more than any takes.
const SOON: Duration = Duration::from_secs(60);

fn expressions() -> Vec<Expression> {
    rules::HARD.iter().map(|rule| Expression::parse(rule).expect("the rule is an expression")).collect()
}

fn catalog(rules: &[&str]) -> Arc<Catalog> {
    let parse = |rule: &&str| extract_factors(&Expression::parse(rule).expect("the rule is an expression"));
    Arc::new(Catalog::build(&rules.iter().map(parse).collect::<Vec<_>>()).expect("the rules have tables"))
}

/// Launches an engine for tenant 1, beside tenant 0, which steps automata.
fn launch(device: &Arc<dyn Device>, rules: &[&str]) -> Result<SessionEngine, Failed> {
    let shape = KernelShape { turn_blocks: 1, window_room: 128, hot_words: 64 };
    let config = SessionConfig {
        callers: 1,
        chunk_bytes: 1 << 14,
        lanes: Some(32),
        shape: Some(shape),
        table_words: 1 << 18,
        ..SessionConfig::default()
    };
    let beside = (Spec::new(Geometry::new(4096)), 1);
    Ok(SessionEngine::launch_beside(device.clone(), catalog(rules), config, beside)?)
}

fn step(producer: &mut Producer, task: Task) -> Result<u32, TaskError> {
    producer.submit(task).expect("there is room").wait(SOON)
}

/// The next state as the tables of the catalog say it.
fn expected(catalog: &Catalog, branch: u32, state: u32, byte: u8) -> u32 {
    let tables = catalog.windows();
    let window = tables.windows[branch as usize];
    let class = tables.classes[(window.class_map * 256 + u32::from(byte)) as usize];
    tables.next[(window.base + state * window.class_count + u32::from(class)) as usize].into()
}

/// All automata of a catalog.
fn all_of(automata: &StepAutomata) -> Vec<StepAutomaton<'_>> {
    (0..automata.catalog().branches().len() as u32).filter_map(|branch| automata.of_branch(branch)).collect()
}

fn sampled_texts_step_as_the_tables_say(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let engine = launch(device, rules::HARD)?;
    let mut producer = engine.session().producer(0)?;
    let automata = engine.step_automata();
    let rules = expressions();
    let mut random = SampleRandom::new(1);
    let automata = all_of(&automata);
    assert!(automata.len() > 15, "most rules have automata");
    // Each automaton has a text of its own rule, in which it can come far.
    let texts: Vec<Vec<u8>> = automata
        .iter()
        .map(|automaton| {
            let rule = engine.catalog().branches()[automaton.branch() as usize].rule as usize;
            sampled_text(&[&rules[rule]], &mut random, bytes)
        })
        .collect();
    let mut states: Vec<u32> = automata.iter().map(StepAutomaton::start_state).collect();
    let mut live_steps = 0;
    for at in 0..bytes {
        let byte = |k: usize| texts[k].get(at).copied().unwrap_or(b' ');
        let tasks = automata.iter().enumerate().map(|(k, one)| one.step_task(states[k], byte(k)));
        let mut span = producer.submit_all(tasks.collect::<Vec<_>>())?;
        span.wait(SOON)?;
        for (k, result) in span.results().enumerate() {
            let (automaton, state) = (automata[k], states[k]);
            let wanted = expected(&engine.catalog(), automaton.branch(), state, byte(k));
            assert_eq!(result?, wanted, "branch {} in state {state} at {at}", automaton.branch());
            assert_eq!(automaton.next_state(state, byte(k)), Some(wanted));
            live_steps += usize::from(!automaton.is_dead(wanted) && !automaton.is_accepting(wanted));
            // An automaton that has decided begins anew.
            let decided = automaton.is_dead(wanted) || automaton.is_accepting(wanted);
            states[k] = if decided { automaton.start_state() } else { wanted };
        }
    }
    assert!(live_steps > bytes * 2, "{live_steps} steps led to states that decide nothing");
    Ok(())
}

fn every_state_and_byte(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let engine = launch(device, &["key[a-c]{2}", "[0-9a-f]{40}", "(?i)tok(?:en|x{1,3})=", "aba"])?;
    let mut producer = engine.session().producer(0)?;
    let automata = engine.step_automata();
    for automaton in all_of(&automata) {
        for state in 0..automaton.state_count() {
            let some = (0..=255).filter(|byte: &u8| bytes > 100 || b"keyabtonx= \xff".contains(byte));
            let some: Vec<u8> = some.collect();
            let tasks: Vec<Task> = some.iter().map(|byte| automaton.step_task(state, *byte)).collect();
            let mut span = producer.submit_all(tasks)?;
            span.wait(SOON)?;
            for (byte, result) in some.iter().zip(span.results()) {
                let wanted = expected(&engine.catalog(), automaton.branch(), state, *byte);
                assert_eq!(result?, wanted, "state {state}, byte {byte}");
                assert!(wanted < automaton.state_count());
            }
        }
    }
    Ok(())
}

fn states_mean_what_they_say(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let engine = launch(device, &["key-[0-9]{2}", "key-[0-9]{600}"])?;
    let mut producer = engine.session().producer(0)?;
    let automata = engine.step_automata();
    let [short, long] = [0, 1].map(|rule| automata.of_rule(rule).next().expect("it has an automaton"));
    assert!(automata.of_rule(2).next().is_none(), "there are two rules");
    let mut walk = |automaton: StepAutomaton<'_>, text: &[u8]| -> Result<u32, TaskError> {
        let mut states = text.iter();
        states.try_fold(automaton.start_state(), |state, byte| {
            step(&mut producer, automaton.step_task(state, *byte))
        })
    };
    assert!(short.is_accepting(walk(short, b"key-42")?) && short.is_accepting(walk(short, b"key-42 more")?));
    assert!(short.is_dead(walk(short, b"kez")?) && short.is_dead(walk(short, b"key-4x2")?));
    let undecided = walk(short, b"key-4")?;
    assert!(!short.is_dead(undecided) && !short.is_accepting(undecided));
    assert_eq!((short.window_info().limit, short.window_info().at_limit), (6, false));
    assert!(long.window_info().at_limit && !long.is_dead(walk(long, b"key-0123")?));
    Ok(())
}

fn fault() -> Result<u32, TaskError> {
    Err(TaskError::Fault(pelton::protocol::TaskFault { code: FaultCode::ARGUMENTS, inner: 0 }))
}

fn what_does_not_exist_is_a_fault(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let engine = launch(device, &["key[a-c]{2}", "[0-9a-f]{40}"])?;
    let mut producer = engine.session().producer(0)?;
    let automata = engine.step_automata();
    let automaton = automata.of_branch(0).expect("the first rule has an automaton");
    assert!(automata.of_branch(1).is_none(), "a run has no automaton");
    assert!(automata.of_branch(2).is_none() && automata.of_branch(u32::MAX).is_none());
    let [number, start, count] = [automaton.number(), automaton.start_state(), automaton.state_count()];
    let well = expected(&engine.catalog(), 0, start, b'k');
    // Branches that have no automaton or do not exist, versions that do not, and both.
    let numbers = (1..40).map(|k| number + k).chain((20..32).map(|bit| number ^ 1 << bit));
    let numbers = numbers.chain([u32::MAX, u32::MAX >> 1, 1 << 20, (1 << 20) - 1]);
    let states = [count, count + 1, 0xffff, 0x1_0000, u32::MAX / 2, u32::MAX];
    let bytes = [256, 257, 0x100 + u32::from(b'k'), 0xffff, u32::MAX];
    let wrong = numbers
        .map(|number| [number, start, u32::from(b'k')])
        .chain(states.map(|state| [number, state, u32::from(b'k')]))
        .chain(bytes.map(|byte| [number, start, byte]));
    for args in wrong {
        let task = Task::new(Opcode::DFA_STEP).args(args);
        assert_eq!(step(&mut producer, task), fault(), "{args:x?}");
        assert_eq!(step(&mut producer, automaton.step_task(start, b'k')), Ok(well), "after {args:x?}");
    }
    assert_eq!(automaton.next_state(count, b'k'), None);
    // A catalog without rules has no automata.
    let empty = SessionEngine::replace(&engine, catalog(&[]));
    empty?;
    let of_empty = Task::new(Opcode::DFA_STEP).args([number + (1 << 20), start, u32::from(b'k')]);
    assert_eq!(step(&mut producer, of_empty), fault());
    Ok(())
}

fn a_step_sees_the_version_of_its_number(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let engine = launch(device, &["aaa"])?;
    let mut producer = engine.session().producer(0)?;
    let first = engine.step_automata();
    engine.replace(catalog(&["[^a]bb"]))?;
    let second = engine.step_automata();
    let old = first.of_branch(0).expect("it has an automaton");
    let new = second.of_branch(0).expect("it has an automaton");
    assert_ne!(old.number(), new.number());
    // Both versions are there, and each step is made in its own.
    for automaton in [old, new] {
        for byte in *b"ab" {
            let wanted = automaton.next_state(automaton.start_state(), byte).expect("it is a state");
            assert_eq!(step(&mut producer, automaton.step_task(automaton.start_state(), byte)), Ok(wanted));
        }
    }
    let stale = old.step_task(old.start_state(), b'a');
    drop(first);
    engine.replace(catalog(&["aaa"]))?;
    assert_eq!(step(&mut producer, stale), fault(), "the tables are the same, and the version is another");
    let wanted = new.next_state(new.start_state(), b'b').expect("it is a state");
    assert_eq!(step(&mut producer, new.step_task(new.start_state(), b'b')), Ok(wanted), "it is kept");
    Ok(())
}

fn steps_while_catalogs_are_replaced(device: &Arc<dyn Device>, bytes: usize) -> Result<(), Failed> {
    let engine = launch(device, &rules::HARD[..4])?;
    let mut producer = engine.session().producer(0)?;
    let versions = [catalog(&rules::HARD[4..10]), catalog(&rules::HARD[..4]), catalog(&["token[a-z]{3}"])];
    thread::scope(|scope| {
        let replacing = scope.spawn(|| (0..12).try_for_each(|k| engine.replace(versions[k % 3].clone())));
        let mut steps = 0;
        while !replacing.is_finished() || steps < bytes {
            let automata = engine.step_automata();
            let automaton = automata.of_branch(0).expect("it has an automaton");
            for byte in *b"token" {
                let wanted = automaton.next_state(automaton.start_state(), byte);
                let task = automaton.step_task(automaton.start_state(), byte);
                assert_eq!(step(&mut producer, task).ok(), wanted);
            }
            steps += 1;
        }
        replacing.join().expect("it does not panic")
    })?;
    Ok(())
}

fn kernels_without_automata_refuse(device: &Arc<dyn Device>, _: usize) -> Result<(), Failed> {
    let task = Task::new(Opcode::DFA_STEP).args([0, 2, 107]);
    let refused = Some(SubmitError::NotImplemented(Opcode::DFA_STEP));
    let plain = Session::launch(device, &Spec::new(Geometry::new(64)))?;
    assert_eq!(plain.producer(0)?.submit(task).err(), refused);
    plain.stop()?;
    // A kernel that runs nothing but scans has no other operation either.
    let spec = SessionEngine::spec(&catalog(&["key"]), device.caps(), SessionConfig::default())?;
    let fused = Session::launch(device, &spec)?;
    assert_eq!(fused.producer(0)?.submit(task).err(), refused);
    Ok(())
}
