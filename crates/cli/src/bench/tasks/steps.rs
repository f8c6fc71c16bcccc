//! The cases `yield` and `chain`: tasks that take many steps.
//!
//! In the case `yield`, many tasks yield a thousand times on average, each as often as its argument says. In the case
//! `chain`, a single task does, so the figure shows how long one step takes from the end of the step before. Every
//! result is compared with what it must be, and in the case `yield` so is the number of steps that were counted. On the CPU,
//! the tasks are compared with tasks of tokio that call `yield_now` as often, on one thread; and a chain is compared with
//! a host that submits one plain task after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::{Batch, Deadline, Drain, Geometry, Handler, Opcode, Session, Spec, Task};
use pelton_device::Device;

use super::contender::{Contender, contender_rows, play_contenders, repeat};
use super::{BenchRow, TasksBench};
use crate::bench::rounds::Sample;
use crate::error::CliError;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "tasks that yield a thousand times, and chains of single steps";

/// How often a task yields on average, and by how much that may differ.
const YIELDS: u32 = 1000;
const SPREAD: u32 = 500;

/// The unit of the rows.
const METRIC: &str = "steps/s";

/// What takes steps in a round.
#[derive(Clone, Copy)]
enum StepContender {
    /// Tasks of a session that yield.
    Session,
    /// Tasks of a drained batch that yield.
    Drained,
    /// Tasks of tokio that yield, on one thread.
    Tokio,
    /// One task of a session that yields.
    Chain,
    /// One task of tokio that yields.
    TokioChain,
    /// Plain tasks of a session, each submitted when the one before has ended.
    Host,
}

/// How many tasks there are, and where they come from.
struct LoadShape {
    producers: u32,
    /// The number of tasks of each producer.
    tasks: u32,
    groups: Option<u32>,
}

impl LoadShape {
    fn of(device: &Arc<dyn Device>) -> Self {
        match device.caps().memory_bytes {
            Some(_) => LoadShape { producers: 8, tasks: 12_500, groups: None },
            None => LoadShape { producers: 1, tasks: 256, groups: Some(1) },
        }
    }

    fn spec(&self) -> Spec {
        let slots = self.tasks.next_power_of_two();
        let mut geometry = Geometry::new(slots.max(256));
        geometry.groups = self.groups;
        Spec::new(geometry)
            .cells(slots)
            .producers(self.producers)
            .max_steps(Spec::MAX_STEPS)
            .handler("hops", hops())
            .handler("plain", Handler::lane_wide(|task| task.finish(task.arg(0))))
    }
}

/// A handler that yields as often as its argument says, and gives the number of its steps.
fn hops() -> Handler {
    Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load() + 1;
        turn.store(now);
        f.when(now.le(task.arg(0)), || task.yield_now());
        task.finish(now);
    })
}

/// How often a task yields.
fn yields_of(task: u32) -> u32 {
    YIELDS - SPREAD + task.wrapping_mul(0x9e37_79b1) % (2 * SPREAD)
}

/// Measures tasks that take many steps.
pub(super) fn measure_steps(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let (device, shape) = (bench.device, LoadShape::of(bench.device));
    let new = |name: &str, what| Contender::new(name, METRIC, what);
    let mut contenders = vec![
        new("yield, session", StepContender::Session),
        new("yield, drained batch", StepContender::Drained),
        new("chain, session", StepContender::Chain).against("chain, driven by the host"),
        new("chain, driven by the host", StepContender::Host),
    ];
    if bench.is_local() {
        contenders[..2].iter_mut().for_each(|ours| ours.peer = Some("yield, tokio".into()));
        contenders.push(new("yield, tokio", StepContender::Tokio));
        contenders.push(new("chain, tokio", StepContender::TokioChain));
    }
    let spec = shape.spec();
    let op = spec.opcode("hops").map_err(pelton::Error::from)?;
    let measured = play_contenders(bench, contenders, |contender| {
        // A device loads no code while a kernel is resident, so every session ends with its turn.
        let session = || Session::launch(device, &spec);
        Ok(Sample::figure(match contender {
            StepContender::Session => {
                let (session, mut all) = (session()?, 0);
                let rate = repeat(bench.time, || {
                    let steps = run_session(&session, &shape, op)?;
                    all += steps;
                    Ok(steps)
                })?;
                check_counted_steps(&session, all)?;
                rate
            }
            StepContender::Drained => {
                let mut drain = Drain::new(device, &spec)?;
                repeat(bench.time, || run_drained(&mut drain, &shape, op))?
            }
            StepContender::Tokio => repeat(bench.time, || Ok(run_tokio(shape.producers * shape.tasks)))?,
            StepContender::Chain => {
                let session = session()?;
                repeat(bench.time, || run_chain(&session, op))?
            }
            StepContender::TokioChain => repeat(bench.time, || Ok(run_tokio(1)))?,
            StepContender::Host => {
                let session = session()?;
                repeat(bench.time, || run_host(&session))?
            }
        }))
    })?;
    Ok(contender_rows(bench, &measured))
}

/// The number of steps of tasks that have ended with these results, which must be right.
fn check_results(results: &[u32]) -> Result<u64, CliError> {
    let wrong = results.iter().zip(0..).find(|(result, task)| **result != yields_of(*task) + 1);
    match wrong {
        None => Ok(results.iter().map(|steps| u64::from(*steps)).sum()),
        Some((found, task)) => Err(CliError::Wrong(format!(
            "task {task} took {found} steps instead of {}; this is a defect of Pelton",
            yields_of(task) + 1
        ))),
    }
}

/// Checks that a session has counted this many steps. The steps of a turn are counted a moment after its records.
fn check_counted_steps(session: &Session, steps: u64) -> Result<(), CliError> {
    let start = Instant::now();
    loop {
        let counted = session.snapshot()?.cells.map_or(0, |cells| cells.steps.begun);
        if counted == steps {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(5) {
            return Err(CliError::Wrong(format!(
                "{steps} steps were taken and {counted} were counted; this is a defect of Pelton"
            )));
        }
    }
}

/// Runs the tasks of all producers in a session, and returns the number of their steps.
fn run_session(session: &Session, shape: &LoadShape, op: Opcode) -> Result<u64, CliError> {
    std::thread::scope(|scope| {
        let feed = || -> Result<u64, CliError> {
            let mut producer = session.producer(0)?.patience(Deadline::Never);
            let task = |task| Task::new(op).args([yields_of(task)]);
            let mut span = producer.submit_all((0..shape.tasks).map(task))?;
            span.wait(Deadline::Never)?;
            let mut results = vec![0; shape.tasks as usize];
            span.read_results(&mut results);
            check_results(&results)
        };
        let threads: Vec<_> = (1..shape.producers).map(|_| scope.spawn(feed)).collect();
        let own = feed()?;
        threads.into_iter().try_fold(own, |steps, thread| match thread.join() {
            Ok(more) => Ok(steps + more?),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Runs as many tasks in a drained batch, and returns the number of their steps.
fn run_drained(drain: &mut Drain, shape: &LoadShape, op: Opcode) -> Result<u64, CliError> {
    let mut batch = Batch::new();
    for task in 0..shape.tasks {
        batch.push(0, Task::new(op).args([yields_of(task)]))?;
    }
    let results: Result<Vec<u32>, _> = drain.run(&batch)?.into_iter().collect();
    let steps = check_results(&results?)?;
    match drain.readback().statistics().steps {
        Some(counted) if counted.begun == steps => Ok(steps),
        counted => Err(CliError::Wrong(format!(
            "{steps} steps were taken and {counted:?} were counted; this is a defect of Pelton"
        ))),
    }
}

/// Runs a single task that yields, and returns the number of its steps.
fn run_chain(session: &Session, op: Opcode) -> Result<u64, CliError> {
    let mut producer = session.producer(0)?;
    let mut ticket = producer.submit(Task::new(op).args([yields_of(0)]))?;
    check_results(&[ticket.wait(Deadline::Never)?])
}

/// Submits plain tasks one after the other, and returns their number.
fn run_host(session: &Session) -> Result<u64, CliError> {
    let mut producer = session.producer(0)?;
    let op = session.opcode("plain")?;
    for task in 0..YIELDS {
        producer.submit(Task::new(op).args([task]))?.wait(Deadline::Never)?;
    }
    Ok(YIELDS.into())
}

/// Runs tasks of tokio on one thread, each of which yields as often as a task of a session does, and returns the number
/// of their steps.
fn run_tokio(tasks: u32) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without IO starts");
    runtime.block_on(async {
        let task = |task| {
            tokio::spawn(async move {
                let mut steps = 1u64;
                for _ in 0..yields_of(task) {
                    tokio::task::yield_now().await;
                    steps += 1;
                }
                steps
            })
        };
        let all: Vec<_> = (0..tasks).map(task).collect();
        let mut steps = 0;
        for one in all {
            steps += one.await.expect("no task of this benchmark panics");
        }
        steps
    })
}
