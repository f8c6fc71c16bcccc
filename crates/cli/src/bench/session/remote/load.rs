//! The sessions of these benchmarks under load: tasks per second, and the latency of single tasks meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton::kernel::{SlotBody, Visible};
use pelton::protocol::packed::Packed;
use pelton::{Aim, Geometry, Handler, Opcode, Placement, Producer, Session, Spec, Task};
use pelton_device::Device;

use crate::bench::flood::{self, FloodShare, FloodTotals, FloodWork};
use crate::bench::mark;
use crate::bench::session::trip;
use crate::error::CliError;

/// The number of slots per ring.
pub(super) const SLOTS: u32 = 1 << 16;
/// The largest number of producers.
pub(super) const PRODUCERS: u32 = 8;
/// The number of tasks per batch: as many as suit a far ring, and as many as a stripe of a near ring holds.
const FAR: u32 = 1024;
const NEAR: u32 = 128;
/// The number of producers that load a session while another submits single tasks, and the number of tasks per
/// batch of theirs.
const LOADERS: u32 = 4;
const BURST: u32 = 128;
/// The time for which a load runs before single tasks are timed.
const RAMP: Duration = Duration::from_millis(20);

/// What the handler does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandlerKind {
    /// It adds to a word, and returns what that was.
    Add,
    /// It checks every word of its task, and adds to a word.
    Mark,
    /// It returns the xor of its arguments, and accesses no memory.
    Mix,
}

/// The kernel of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionShape {
    /// Where the rings lie.
    pub place: Placement,
    /// The aim of the producer of single tasks. The others aim at throughput.
    pub aim: Aim,
    /// Whether the kernel chooses among handlers.
    pub body: SlotBody,
    /// What others may see of a task when its result is there.
    pub visible: Visible,
    /// What the handler does.
    pub does: HandlerKind,
    /// The number of producers.
    pub producers: u32,
}

impl SessionShape {
    /// A kernel that chooses among handlers and makes their writes visible.
    pub(super) fn new(place: Placement) -> Self {
        let (body, visible) = (SlotBody::Dispatch, Visible::Memory);
        SessionShape { place, aim: Aim::Latency, body, visible, does: HandlerKind::Add, producers: PRODUCERS }
    }
}

/// The opcode of the handler.
pub(super) fn handler_opcode() -> Result<Opcode, CliError> {
    Ok(Opcode::user(8).map_err(pelton::Error::from)?)
}

/// The spec of a shape. The number, which has no effect, makes the kernel unlike others.
pub(super) fn shape_spec(shape: SessionShape, number: u32) -> Result<Spec, CliError> {
    let spec =
        Spec::new(Geometry::new(SLOTS)).producers(shape.producers).body(shape.body).placement(shape.place);
    let (name, handler) = match shape.does {
        HandlerKind::Mark => ("mark", mark::mark_handler()),
        HandlerKind::Mix => (
            "mix",
            Handler::lane_wide(|slot| {
                let mixed = (1..12).fold(slot.arg(0), |mixed, k| mixed ^ slot.arg(k));
                slot.finish(mixed);
            }),
        ),
        HandlerKind::Add => (
            "add",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let (by, at) = (slot.arg(0), slot.arg(1));
                // No task adds this much.
                f.when(by.eq(u32::MAX - number), || slot.fault(0x100));
                let old = slot.atomic_add(at, by);
                slot.finish(old);
            }),
        ),
    };
    Ok(spec.handler_at(handler_opcode()?, name, handler.visible(shape.visible)))
}

/// Launches a session of a shape.
pub(super) fn launch_shape(device: &Arc<dyn Device>, shape: SessionShape) -> Result<Session, CliError> {
    Ok(Session::launch(device, &shape_spec(shape, 0)?)?)
}

/// Opens producers of a session.
pub(super) fn open_producers(session: &Session, count: u32) -> Result<Vec<Producer>, CliError> {
    let one = || Ok(session.producer(0)?.aim(Aim::Throughput));
    (0..count).map(|_| one()).collect()
}

/// Feeds a new session for a time. The results, their sum and what was written are checked.
pub(super) fn sustained_load(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    work: FloodWork,
    time: Duration,
) -> Result<FloodTotals, CliError> {
    let session = launch_shape(device, shape)?;
    let (done, quit) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut all = open_producers(&session, shape.producers)?;
    let most = if shape.place == Placement::Near { NEAR } else { FAR };
    let mut part = producer_share(&session, work, most, time, (&done, &quit))?;
    let bank = flood::aimed_slots(&session, Aim::Throughput);
    if bank.ring_stripes > 1 {
        // While other stripes are busy, a stripe accepts as much as it holds.
        (part.batch, part.deep) = (most.min(bank.stripe_slots()), bank.ring_stripes as usize);
    }
    let feeds = all.iter_mut().zip(0..).map(|(feeder, producer)| (feeder, FloodShare { producer, ..part }));
    let seen = flood::run_producers(feeds.collect(), || std::thread::sleep(Duration::from_millis(1)))?;
    flood::check_data(&session, work, &seen)?;
    if let FloodWork::Same(task) = work {
        check_inner_operations(&session, task, &seen)?;
    }
    drop(all);
    stop_empty(session)?;
    Ok(seen)
}

/// Stops a session that must have no tasks left.
pub(super) fn stop_empty(session: Session) -> Result<(), CliError> {
    match session.stop()?.tasks_left() {
        0 => Ok(()),
        left => Err(CliError::Wrong(format!("{left} tasks were left when the session stopped"))),
    }
}

fn producer_share<'a>(
    session: &Session,
    work: FloodWork,
    most: u32,
    time: Duration,
    (done, quit): (&'a AtomicU64, &'a AtomicBool),
) -> Result<FloodShare<'a>, CliError> {
    let (batch, deep) = flood::batch_shape(&flood::aimed_slots(session, Aim::Throughput), most);
    let (op, began, count) = (handler_opcode()?, Instant::now(), u64::MAX);
    Ok(FloodShare {
        work,
        op,
        producer: 0,
        start: 0,
        count,
        batch,
        deep,
        began,
        time,
        pace: None,
        done,
        quit,
    })
}

/// A packed slot with as many operations as fit, and their number.
pub(super) fn packed_task(op: Opcode, args: &[u32]) -> Result<(Task, u32), CliError> {
    let mut packed = Packed::new();
    while packed.push(op, args).is_ok() {}
    let task = Task::try_from(&packed).map_err(pelton::Error::from)?;
    Ok((task, packed.len() as u32))
}

/// Compares the number of operations that the kernel counted in packed slots with what was submitted.
fn check_inner_operations(session: &Session, task: Task, seen: &FloodTotals) -> Result<(), CliError> {
    // The kernel may count a slot a moment after its record.
    std::thread::sleep(Duration::from_millis(10));
    let each = u64::from(task.args[0] & 0xff);
    let name = Opcode::from_code((task.args[0] >> 16) & 0xff).to_string();
    let count = session.snapshot()?.opcodes.iter().find(|count| count.name == name).map_or(0, |c| c.count);
    match count == seen.tasks * each {
        true => Ok(()),
        false => Err(CliError::Wrong(format!(
            "{} packed slots ran {count} operations of {name}, which is the wrong number",
            seen.tasks
        ))),
    }
}

/// The sorted times of single tasks from submission to result, in microseconds. Each result is checked.
fn time_checked_tasks(producer: &mut Producer, does: HandlerKind, rounds: u32) -> Result<Vec<f64>, CliError> {
    let op = handler_opcode()?;
    trip::time_tasks(producer, rounds, |round| {
        let task = flood::add_task(op, 0, round.into());
        (task, if does == HandlerKind::Mix { task.args.iter().fold(0, |all, arg| all ^ arg) } else { round })
    })
}

/// The sorted times of single tasks in a new session without other work, in microseconds.
pub(super) fn time_alone(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    rounds: u32,
) -> Result<Vec<f64>, CliError> {
    let session = launch_shape(device, shape)?;
    let mut producer = session.producer(0)?.aim(shape.aim);
    let times = time_checked_tasks(&mut producer, shape.does, rounds)?;
    drop(producer);
    stop_empty(session)?;
    Ok(times)
}

/// The sorted times of single tasks, in microseconds, while others submit a number of tasks per second, and the
/// number that they really submitted.
pub(super) fn time_loaded(
    device: &Arc<dyn Device>,
    shape: SessionShape,
    rate: f64,
    rounds: u32,
) -> Result<(Vec<f64>, f64), CliError> {
    let session = launch_shape(device, shape)?;
    let (done, quit) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut prober = session.producer(0)?.aim(shape.aim);
    let mut all = open_producers(&session, LOADERS)?;
    let work = FloodWork::Add { at: 1 };
    let part = producer_share(&session, work, BURST, flood::PATIENCE, (&done, &quit))?;
    let pace = Some(rate / f64::from(LOADERS));
    let feeds =
        all.iter_mut().zip(0..).map(|(feeder, producer)| (feeder, FloodShare { producer, pace, ..part }));
    let mut times = None;
    let seen = flood::run_producers(feeds.collect(), || {
        std::thread::sleep(RAMP);
        if times.is_none() {
            times = Some(time_checked_tasks(&mut prober, shape.does, rounds));
            quit.store(true, Ordering::Relaxed);
        }
    })?;
    let times = times
        .unwrap_or_else(|| Err(CliError::Wrong("the load ended before single tasks were timed".into())))?;
    flood::check_data(&session, work, &seen)?;
    drop((all, prober));
    stop_empty(session)?;
    Ok((times, seen.rate()))
}
