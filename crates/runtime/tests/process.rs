//! Sessions and batches on devices in a process of their own. This program is its own executor.

#[path = "countdown/mod.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod countdown;
#[path = "fibonacci/mod.rs"]
mod fibonacci;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial, run};
use pelton::device::process::{ProcessConfig, ProcessDevice};
use pelton::device::{Device, DeviceError, open};
use pelton::ir::types::{Order, Scope, Type};
use pelton::telemetry::Snapshot;
use pelton::{
    Batch, Class, Drain, Error, Geometry, Handler, LossReason, Opcode, Recovery, Region, Session, SessionEnd,
    Spec, Task, TaskError, TaskOrder, TaskState,
};

use countdown::{countdown, countdown_result};
use fibonacci::{fib, fib_result};

/// The environment variable that says how many processes are killed, if not as many as usual.
const KILLS: &str = "PELTON_TEST_KILLS";

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// A test of a device that lives in another process, with its name.
type Test = (&'static str, fn(&str));

fn main() -> ExitCode {
    pelton::device::process::serve_if_asked();
    let tests: [Test; 9] = [
        ("a_session_moves_between_processes", a_session_moves_between_processes),
        ("handlers_change_while_tasks_run", handlers_change_while_tasks_run),
        ("a_batch_is_drained", a_batch_is_drained),
        ("a_session_without_recovery_is_lost_with_its_process", a_session_is_lost_with_its_process),
        ("every_task_ends_once_while_processes_are_killed", every_task_ends_once_while_processes_are_killed),
        (
            "tasks_in_cells_end_right_while_processes_are_killed",
            tasks_in_cells_end_right_while_processes_are_killed,
        ),
        ("a_session_fails_over_to_this_process", a_session_fails_over_to_this_process),
        ("sums_are_kept_while_processes_are_killed", sums_are_kept_while_processes_are_killed),
        ("a_serial_log_is_kept_while_processes_are_killed", a_serial_log_is_kept_while_processes_are_killed),
    ];
    let mut trials = Vec::new();
    for device in ["cpu", "reference", "cuda"] {
        let absent = open(&format!("process:{device}")).is_err();
        for (name, test) in tests {
            let test = move || {
                test(device);
                Ok(())
            };
            trials.push(Trial::test(format!("{name}@process:{device}"), test).with_ignored_flag(absent));
        }
    }
    run(&Arguments::from_args(), trials).exit_code()
}

/// Adds its first argument to word 0 in every step, and waits for the host after the first.
fn twice() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| {
            task.atomic_add(0u32, task.arg(0));
            task.park_then(1u32);
        });
        task.finish(task.atomic_add(0u32, task.arg(0)));
    })
}

fn add(factor: u32) -> Handler {
    Handler::lane_wide(move |task| task.finish(task.arg(0) * factor))
}

fn spec() -> Spec {
    Spec::new(Geometry::new(256)).handler("add", add(1)).handler("twice", twice()).cells(8)
}

/// Tasks that have begun go along, from one process to another, to this one, and back.
fn a_session_moves_between_processes(name: &str) {
    let other = || open(&format!("process:{name}")).unwrap();
    let mut session = Session::launch(&other(), &spec()).unwrap();
    let mut producer = session.producer(0).unwrap();
    let twice = session.opcode("twice").unwrap();
    for (round, next) in
        [other(), open("cpu").unwrap(), other(), open("reference").unwrap()].iter().enumerate()
    {
        let mut ticket = producer.submit(Task::new(twice).args([1])).unwrap();
        while session.task_state(&mut ticket).unwrap() != TaskState::Waiting {
            std::thread::yield_now();
        }
        session.move_to(next).unwrap();
        ticket.resume();
        assert_eq!(ticket.wait(LONG), Ok(2 * round as u32 + 1), "{round}");
    }
    // Memory that only this process has cannot be moved to another one.
    let mut here = Session::launch(&open("cpu").unwrap(), &spec()).unwrap();
    let refused = here.move_to(&other()).unwrap_err();
    assert!(matches!(refused, Error::Device(DeviceError::Memory { .. })), "{refused}");
    let mut producer = here.producer(0).unwrap();
    let task = Task::new(here.opcode("add").unwrap()).args([5]);
    assert_eq!(producer.submit(task).unwrap().wait(LONG), Ok(5), "it goes on where it is");
}

fn handlers_change_while_tasks_run(name: &str) {
    let session = Session::launch(&open(&format!("process:{name}")).unwrap(), &spec()).unwrap();
    let op = session.opcode("add").unwrap();
    for factor in 1..=5 {
        session.replace("add", add(factor), LONG).unwrap();
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all((1..101).map(|x| Task::new(op).args([x]))).unwrap();
        span.wait(LONG).unwrap();
        for (x, result) in (1..101).zip(span.results()) {
            assert_eq!(result, Ok(x * factor));
        }
    }
}

fn a_batch_is_drained(name: &str) {
    let device = open(&format!("process:{name}")).unwrap();
    let mut drain = Drain::new(&device, &Spec::new(Geometry::new(1024)).handler("add", add(3))).unwrap();
    let op = drain.opcode("add").unwrap();
    let mut batch = Batch::with_capacity(1000);
    for x in 0..1000 {
        batch.push(0, Task::new(op).args([x])).unwrap();
    }
    for _ in 0..3 {
        let readback = drain.run(&batch).unwrap();
        let outcomes: Vec<_> = readback.outcomes().into_iter().flatten().collect();
        assert_eq!(outcomes.len(), 1000);
        for (x, outcome) in (0..1000).zip(outcomes) {
            assert_eq!(outcome, Ok(x * 3));
        }
    }
}

fn a_session_is_lost_with_its_process(name: &str) {
    let process = Arc::new(ProcessDevice::new(ProcessConfig::new(name).losable()).unwrap());
    let device: Arc<dyn Device> = process.clone();
    // A GPU is lost by another kernel, for which there has to be room beside the session's.
    let small = Spec { geometry: Geometry::new(256).groups(2), ..spec() };
    let session = Session::launch(&device, &small).unwrap();
    let mut producer = session.producer(0).unwrap();
    assert_eq!(producer.submit(Task::new(Opcode::NOP)).unwrap().wait(LONG), Ok(0));
    let mut waits = producer.submit(Task::new(session.opcode("twice").unwrap()).args([1])).unwrap();
    process.lose().unwrap();
    assert_eq!(waits.wait(LONG), Err(TaskError::Lost { reason: LossReason::Device, may_have_run: true }));
    let end = session.session_end().expect("it has ended");
    assert!(matches!(&end, SessionEnd::Device(error) if matches!(**error, DeviceError::Lost(_))), "{end}");
    drop((waits, producer));
    drop(session);
    // The same device works again, in another process.
    let session = Session::launch(&device, &spec()).unwrap();
    let mut producer = session.producer(0).unwrap();
    assert_eq!(producer.submit(Task::new(Opcode::NOP)).unwrap().wait(LONG), Ok(0));
}

fn recovering() -> Spec {
    Spec::new(Geometry::new(256).groups(2)).producers(3).recovery(Recovery::On).handler("add", add(3))
}

/// Submits tasks until it is told to stop, counts rounds, and checks every result. Returns how many tasks there were.
fn feed(session: &Session, (over, rounds): (&AtomicBool, &AtomicU64), first: u32) -> u32 {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = session.opcode("add").unwrap();
    let mut x = first;
    while !over.load(Ordering::Relaxed) {
        let count = 1 + x % 60;
        let mut span = producer.submit_all((x..x + count).map(|x| Task::new(op).args([x]))).unwrap();
        let mut single = producer.submit(Task::new(op).args([x])).unwrap();
        // Some tickets are dropped before their tasks have ended.
        drop(producer.submit(Task::new(op).args([1])).unwrap());
        span.wait(LONG).unwrap();
        for (x, result) in (x..x + count).zip(span.results()) {
            assert_eq!(result, Ok(x.wrapping_mul(3)));
        }
        assert_eq!(single.wait(LONG), Ok(x.wrapping_mul(3)));
        x += count;
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    x - first
}

/// Does something that fails while a device is lost, until it works.
fn once_recovered<T>(mut act: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match act() {
            Ok(done) => return done,
            Err(Error::Device(DeviceError::Lost(_))) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes a snapshot as soon as the device is there.
fn snapshot(session: &Session) -> Snapshot {
    once_recovered(|| {
        // Somebody has to look whether the device is still there.
        drop(session.session_end());
        session.snapshot()
    })
}

/// Every task ends once and has the right result, whenever a process is killed.
fn every_task_ends_once_while_processes_are_killed(name: &str) {
    kill_under_load(name, &recovering(), feed);
}

/// Waits until the event in its first argument was signalled as often as the second says, and gives the third.
fn waits() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| task.wait_event(task.arg(0), task.arg(1)));
        task.finish(task.arg(2));
    })
}

/// Does what [`feed`] does with tasks that take steps, spawn others, signal events and wait for them.
fn feed_cells(session: &Session, (over, rounds): (&AtomicBool, &AtomicU64), first: u32) -> u32 {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = |name: &str| session.opcode(name).unwrap();
    let (fib, count, waits) = (op("fib"), op("countdown"), op("waits"));
    // Each feeder has an event of its own.
    let (event, mut signals) = (first >> 20, 0);
    while !over.load(Ordering::Relaxed) {
        let n = signals % 14;
        let tree = producer.submit(Task::new(fib).args([n])).unwrap();
        let steps = producer.submit(Task::new(count).args([n, signals])).unwrap();
        let mut signal = producer.submit(Task::new(Opcode::SIGNAL).args([event, 1])).unwrap();
        assert_eq!(signal.wait(LONG), Ok(0));
        signals += 1;
        // The signals of all tasks that have ended count, whatever was lost.
        let wait = producer.submit(Task::new(waits).args([event, signals, n])).unwrap();
        let after = producer.submit(Task::new(op("add")).args([n]).after(event, signals)).unwrap();
        let wanted = [fib_result(n), countdown_result(n, signals - 1), n, n * 3];
        for (mut ticket, wanted) in [tree, steps, wait, after].into_iter().zip(wanted) {
            assert_eq!(ticket.wait(LONG), Ok(wanted));
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    signals
}

/// The same for tasks that live in cells.
fn tasks_in_cells_end_right_while_processes_are_killed(name: &str) {
    let spec = recovering().cells(64).spawn_cells(256).events(3);
    let spec = spec.handler("fib", fib()).handler("countdown", countdown()).handler("waits", waits());
    kill_under_load(name, &spec, feed_cells);
}

/// Feeds a session in three threads and kills real processes at random moments. The variable PELTON_TEST_KILLS says how many.
fn kill_under_load(name: &str, spec: &Spec, feed: fn(&Session, (&AtomicBool, &AtomicU64), u32) -> u32) {
    let kills: u64 = std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(10);
    let process = Arc::new(ProcessDevice::new(ProcessConfig::new(name)).unwrap());
    let device: Arc<dyn Device> = process.clone();
    let session = Session::launch(&device, spec).unwrap();
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        let feeders: Vec<_> = (0..3)
            .map(|feeder| {
                let (session, shared) = (&session, (&over, &rounds));
                threads.spawn(move || feed(session, shared, feeder << 20))
            })
            .collect();
        for kill in 0..kills {
            let before = rounds.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(kill * 7919 % 4001));
            process.kill();
            // Some kills come while the session still recovers from the last one. If all did, it would give up.
            while kill % 3 != 1
                && rounds.load(Ordering::Relaxed) < before + 6
                && !feeders.iter().any(|f| f.is_finished())
            {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        over.store(true, Ordering::Relaxed);
        for feeder in feeders {
            assert!(feeder.join().unwrap() > 0);
        }
    });
    session.quiesce(LONG).unwrap();
    let recovery = snapshot(&session).recovery.expect("it recovers");
    assert!((1..=kills).contains(&recovery.count), "{} recoveries after {kills} kills", recovery.count);
    assert_eq!(session.stop().unwrap().tasks_left(), 0);
}

fn a_session_fails_over_to_this_process(name: &str) {
    // The second executor of this program does not start, because there is no such program any more.
    let copy = std::env::temp_dir().join(format!("pelton-executor-{}-{name}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let process = Arc::new(ProcessDevice::new(ProcessConfig::new(name).program(&copy)).unwrap());
    std::fs::remove_file(&copy).unwrap();
    let device: Arc<dyn Device> = process.clone();
    let session = Session::launch(&device, &recovering()).unwrap();
    session.set_failover(vec![open("cpu").unwrap()]);
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        let feeder = threads.spawn(|| feed(&session, (&over, &rounds), 0));
        std::thread::sleep(Duration::from_millis(20));
        process.kill();
        while session.snapshot().map_or(true, |now| now.recovery.is_none_or(|recovery| recovery.count == 0)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Relaxed);
        assert!(feeder.join().unwrap() > 0);
    });
    let last = snapshot(&session).recovery.and_then(|recovery| recovery.last).unwrap();
    assert_eq!((last.from, last.to), (format!("process:{name}"), "cpu".to_string()));
}

/// Adds its second argument to the element of `kept` that its first one names.
fn sum() -> Handler {
    let handler = Handler::lane_wide(|task| {
        let kept = task.region::<u32>("kept");
        task.body().atomic_add(Order::Relaxed, Scope::Device, kept.at(task.arg(0)), task.arg(1));
    });
    handler.class(Class::Commuting)
}

/// Appends its argument to `kept`, whose element 0 counts what was appended, and gives the number of the element.
fn append() -> Handler {
    Handler::lane_wide(|task| {
        let (f, kept) = (task.body(), task.region::<u32>("kept"));
        let at = f.load(kept.at(0)) + 1;
        f.store(kept.at(at), task.arg(0));
        f.store(kept.at(0), at);
        task.finish(at);
    })
}

/// A spec with a kept region, which tasks of that handler write. Its rings are so small that they need checkpoints.
fn keeping(handler: Handler) -> Spec {
    let region = Region::new("kept", Type::U32, 1 << 14).kept();
    Spec::new(Geometry::new(256)).recovery(Recovery::On).region(region).handler("keep", handler)
}

/// Runs rounds of tasks, each given by `tasks`, and kills the process once in each. After each round, `check` gets what
/// `kept` has and the results of all tasks of the round.
fn kill_in_rounds(
    name: &str,
    spec: &Spec,
    tasks: impl Fn(u32) -> Vec<[u32; 2]>,
    mut check: impl FnMut(Vec<u32>, Vec<u32>),
) {
    let process = Arc::new(ProcessDevice::new(ProcessConfig::new(name)).unwrap());
    let device: Arc<dyn Device> = process.clone();
    let session = Session::launch(&device, spec).unwrap();
    let op = session.opcode("keep").unwrap();
    let mut producer = session.producer(0).unwrap().patience(LONG);
    for round in 0..6 {
        let tasks = tasks(round);
        let mut results = Vec::new();
        for (at, some) in tasks.chunks(50).enumerate() {
            let mut span = producer.submit_all(some.iter().map(|args| Task::new(op).args(*args))).unwrap();
            if at as u32 == round {
                std::thread::sleep(Duration::from_micros(u64::from(round) * 700));
                process.kill();
            }
            span.wait(LONG).unwrap();
            results.extend(span.results().map(|result| result.unwrap()));
        }
        // The process may have been killed after the last task had ended.
        let kept = once_recovered(|| session.view::<u32>(0, "kept").and_then(|view| view.read_all()));
        check(kept, results);
    }
    let snapshot = snapshot(&session);
    let (recovery, kept) = (snapshot.recovery.unwrap(), snapshot.kept.unwrap());
    assert_eq!((recovery.count, kept.difference), (6, None));
    assert!(kept.checkpoints > 0);
}

/// Sums that tasks have added up survive the death of real processes.
fn sums_are_kept_while_processes_are_killed(name: &str) {
    let mut model = vec![0u32; 1 << 14];
    let tasks = |round: u32| (0..500).map(|k| [k * 31 % 1000, k + round]).collect::<Vec<_>>();
    let mut round = 0;
    kill_in_rounds(name, &keeping(sum()), tasks, |kept, _| {
        tasks(round).iter().for_each(|[at, by]| model[*at as usize] += by);
        assert_eq!(kept, model, "round {round}");
        round += 1;
    });
}

/// A log in which every task has its place survives the death of real processes.
fn a_serial_log_is_kept_while_processes_are_killed(name: &str) {
    let tasks = |round: u32| (0..500).map(|k| [round * 1000 + k, 0]).collect::<Vec<_>>();
    let mut model = vec![0];
    kill_in_rounds(name, &keeping(append()).order(TaskOrder::Serial), tasks, |kept, results| {
        assert_eq!(kept[0] as usize, model.len() - 1 + results.len());
        let entries: Vec<u32> = results.iter().map(|at| kept[*at as usize]).collect();
        let args: Vec<u32> = tasks((model.len() / 500) as u32).iter().map(|[arg, _]| *arg).collect();
        assert_eq!(entries, args);
        assert_eq!(kept[1..model.len()], model[1..], "what was there stays");
        model = kept[..=kept[0] as usize].to_vec();
    });
}
