//! A simulator of sessions and journals in which things go wrong, and in which a seed reproduces everything.
//!
//! A seed makes up a program: what kernel it has, which tasks it submits when, which tickets it cancels, drops, waits for
//! or awaits. It also makes up what goes wrong: the device is lost at some step of some task, or while the session recovers;
//! launches and loads fail; the machine stands still until a lease is over; the process is killed in the middle of a write,
//! or the power fails; the disk is full, or cannot sync. All of this happens to the real session and the real journal. A model
//! ([`model`], [`ledger`]) says what must hold nevertheless:
//!
//! - every ticket ends once and truthfully, with the right result and the right reply;
//! - a task that must not begin twice never runs twice, and no task runs again after it has ended;
//! - fences end after what precedes them, the epoch never goes back, and credit is exact;
//! - futures are woken, and a paused tenant's tasks do not begin;
//! - the journal has at least the records that its policy promises, and nothing that was not appended;
//! - a session goes on after every loss that it can survive.
//!
//! **How it is deterministic.** There is one thread. The [device](pelton::device::stepped) is the interpreter, whose lanes
//! advance in an order that the seed decides, and only when the simulator says so. Whoever waits in the session lets the
//! simulated [clock](pelton::simulated) go on, which lets the device advance and the reaper take a turn. So the seed
//! decides the step of every lane at which anything happens. The test `a_seed_repeats_itself_exactly` checks this.
//!
//! **What is not simulated.** Memory is that of this machine, used by one thread, so a missing fence or a torn slot is never
//! seen here; litmus tests and loom look for those. Latencies and times in snapshots come from the machine's clock and decide
//! nothing. Files are real, but a sync only notes what would survive. Devices in processes of their own are killed for real in
//! other tests. Tasks in cells, kept regions, regions in host memory and traps are tested in `tests/recovery`.
//!
//! **What to extend.** A kind of tasks is a row of [`workload::KINDS`], and something that hosts do or that goes wrong is a
//! row of the table of actions in [`host`].
//!
//! `PELTON_TEST_SEEDS=100000 cargo test -p pelton --test simulator every_seed` looks for longer, and `PELTON_TEST_SEED=7` runs
//! seed 7 alone.

mod disk;
mod host;
mod ledger;
mod model;
mod random;
mod workload;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pelton::simulated::{PlantedBug, SimulatedThread};

use crate::disk::SimulatedDisk;
use crate::host::Host;
use crate::ledger::{Crash, Ledger};
use crate::random::Random;
use crate::workload::{Job, Shape};
use crate::world::{History, World};

/// The variable that says how many seeds are simulated.
const SEEDS: &str = "PELTON_TEST_SEEDS";
/// The variable that says which seed is simulated alone.
const SEED: &str = "PELTON_TEST_SEED";

/// How many processes of a program may come to an end in the middle of its work.
const MOST_CRASHES: u64 = 2;

/// Simulates a seed. A panic is a defect like any other.
fn simulate(seed: u64, bug: Option<PlantedBug>) -> Result<Vec<History>, String> {
    let simulated = catch_unwind(AssertUnwindSafe(|| simulate_processes(seed, bug)));
    simulated.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Simulates a program from its first process to its last, and returns what has happened in each.
fn simulate_processes(seed: u64, bug: Option<PlantedBug>) -> Result<Vec<History>, String> {
    let mut random = Random::new(seed, 0);
    let disk = Rc::new(SimulatedDisk::new(seed));
    let shape = Shape::random(&mut random);
    let has_journal = random.one_in(3);
    let mut ledger: Option<Ledger> = None;
    let mut todo: Vec<(u32, Job)> = Vec::new();
    let mut histories = Vec::new();
    for process in 0.. {
        let is_last = process == MOST_CRASHES;
        let stream = 16 * (process + 1);
        let world = World::new(Random::new(seed, stream), random.within(1..=3), &disk, bug);
        let _thread = SimulatedThread::begin(world.clone());
        if has_journal && ledger.is_none() {
            ledger = Some(Ledger::new(&disk, seed)?);
        }
        let mut host = Host::new(&world, Random::new(seed, stream + 1), shape.clone(), (ledger, todo))?;
        if is_last {
            host.keep_calm();
        }
        let mut crashes = !is_last && has_journal && random.one_in(2);
        for _ in 0..random.within(10..=120) {
            host.act()?;
            if host.has_crashed() {
                crashes = true;
                break;
            }
        }
        let doomed = host.is_doomed();
        let left = if crashes { host.crash() } else { host.finish()? };
        let Some(mut left) = left else {
            histories.push(world.history());
            break;
        };
        crashes |= !left.commit()?;
        let how = if is_last { Crash::Kill } else { random.pick(&[Crash::Kill, Crash::PowerLoss]) };
        world.note(if how == Crash::Kill { "processes killed" } else { "losses of power" });
        let found = left.crash(how)?;
        if left.had_torn_tail() {
            world.note("torn tails");
        }
        histories.push(world.history());
        todo = left.missing(&found)?;
        let done = !crashes && left.survives(how) && !doomed;
        match todo.first() {
            Some((_, job)) if done => return Err(format!("there is no result of task {}", job.number)),
            None if !crashes => break,
            _ if is_last => break,
            _ => ledger = Some(left),
        }
    }
    Ok(histories)
}

/// Returns the number that a variable says.
fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Simulates seeds on all cores until one fails, which is returned with what is wrong. Otherwise returns how often what has
/// happened.
fn simulate_all(
    seeds: std::ops::Range<u64>,
    bug: Option<PlantedBug>,
) -> Result<BTreeMap<&'static str, u64>, (u64, String)> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(None::<(u64, String)>));
    let counts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while failed.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match simulate(seed, bug) {
                        Ok(histories) => {
                            let all = histories.iter().flat_map(|history| &history.counts);
                            let mut counts = counts.lock().unwrap();
                            all.for_each(|(what, count)| *counts.entry(*what).or_default() += count);
                        }
                        Err(wrong) => *failed.lock().unwrap() = Some((seed, wrong)),
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap() {
        Some(failed) => Err(failed),
        None => Ok(counts.into_inner().unwrap()),
    }
}

/// Everything that must happen in a thousand seeds. Otherwise the simulator does not simulate what it says.
const HAPPENS: &[&str] = &[
    "devices lost for good",
    "fences that end",
    "futures that wait",
    "hand-overs",
    "leases that run out",
    "loads that fail",
    "losses of all devices",
    "losses of power",
    "processes killed",
    "recoveries",
    "recoveries on another device",
    "sessions stopped in the middle",
    "sessions that cannot go on",
    "tasks cancelled",
    "tasks lost",
    "tasks with a fault",
    "tasks with a result",
    "tenants paused or resumed",
    "torn tails",
];

/// Catches everything that the model forbids.
#[test]
fn every_seed_keeps_the_promises() {
    let seeds = match variable(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..variable(SEEDS).unwrap_or(1000),
    };
    let all = seeds.end - seeds.start >= 1000;
    match simulate_all(seeds, None) {
        Err((seed, wrong)) => panic!(
            "seed {seed}: {wrong}\nrun it again with {SEED}={seed} cargo test -p pelton --test simulator every_seed"
        ),
        Ok(counts) => {
            let missing: Vec<_> = HAPPENS.iter().filter(|what| !counts.contains_key(*what)).collect();
            assert!(!all || missing.is_empty(), "these never happen: {missing:?}");
            println!("{counts:#?}");
        }
    }
}

/// Catches whatever comes from the machine and not from the seed.
#[test]
fn a_seed_repeats_itself_exactly() {
    for seed in 0..40 {
        let traces = || simulate(seed, None).unwrap().iter().map(|history| history.trace).collect::<Vec<_>>();
        assert_eq!(traces(), traces(), "seed {seed}");
    }
}

/// Plants a defect, and expects that the simulator finds it.
fn finds(bug: PlantedBug, wrong: &[&str]) {
    let (seed, found) = simulate_all(0..1000, Some(bug)).expect_err("the simulator finds nothing");
    assert!(wrong.iter().any(|wrong| found.contains(wrong)), "seed {seed}: {found}");
}

/// Catches a simulator that does not notice when tasks run although they have ended.
#[test]
fn a_record_that_is_ignored_after_a_loss_is_found() {
    finds(PlantedBug::IgnoredRecords, &["has run again after it had ended", "must not run twice"]);
}

/// Catches a simulator that does not notice when a task begins twice.
#[test]
fn a_missing_begun_word_is_found() {
    finds(PlantedBug::NoBegunWord, &["must not run twice", "has run, and its ticket says"]);
}

/// Catches a simulator that does not notice when an answer is lost.
#[test]
fn a_journal_that_answers_before_it_has_synced_is_found() {
    finds(PlantedBug::AnswerBeforeSync, &["records were promised"]);
}
