//! Tests of hand-over, on every device of this machine and in every placement: handlers change while tasks are under
//! way.

mod failures;
mod host_regions;
mod island;
mod load;
mod moves;
#[path = "../pretend/mod.rs"]
mod pretend;
mod resize;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pelton::device::open;
use pelton::protocol::FaultCode;
use pelton::{
    Deadline, Error, Geometry, HandOverError, Handler, Opcode, Producer, Region, Session, Spec, Task,
    TaskError, Ticket,
};
use pelton_ir::types::Type;

use pelton::Placement::{Both, Far, Near};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// A GPU loads no code while a kernel is resident, so only one test at a time may use it.
static ALONE: Mutex<()> = Mutex::new(());

/// Gives the sum of its argument and a number that tells versions apart.
fn version(number: u32) -> Handler {
    Handler::lane_wide(move |task| task.finish(task.arg(0) + number))
}

/// Parks in its first step, and gives the sum of its argument and a number in its second. Its frame has `words` words.
fn parked(number: u32, words: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let kept: Vec<_> = (0..words).map(|_| task.frame_word()).collect();
        task.step(|| {
            kept.iter().for_each(|word| word.store(task.arg(0)));
            task.park_then(1u32);
        });
        task.finish(kept[0].load() + number);
    })
}

fn spec(spec: Spec) -> Spec {
    spec.producers(2)
        .cells(64)
        .region(Region::new("data", Type::U32, 4096))
        .handler("plain", version(100))
        .handler("parks", parked(1000, 1))
}

/// Runs a test on every device of this machine. Each hand-over to another handler compiles a kernel, so not all placements
/// and numbers of lanes are tried on all devices.
fn on_every_device(spec: impl Fn(Spec) -> Spec, test: impl Fn(&Session, &str)) {
    let gpu = open("cuda").is_ok().then_some("cuda");
    for name in ["cpu", "reference"].into_iter().chain(gpu) {
        let device = open(name).unwrap();
        let _alone = (name == "cuda").then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let shapes: &[_] = match name {
            "cpu" => &[(Near, None), (Both, Some(32)), (Far, Some(1))],
            "reference" => &[(Both, Some(1)), (Near, Some(32))],
            _ => &[(Near, None), (Far, None), (Both, None)],
        };
        for (placement, lanes) in shapes.iter().filter(|(placement, _)| placement.is_available(device.caps()))
        {
            let mut geometry = Geometry::new(256).groups(3);
            geometry.lanes = *lanes;
            let shape = format!("{name} {placement:?} {lanes:?} lanes");
            let session = Session::launch(&device, &spec(Spec::new(geometry).placement(*placement))).unwrap();
            test(&session, &shape);
        }
    }
}

#[test]
fn handlers_change_on_every_device() {
    on_every_device(spec, |session, shape| {
        let mut producer = session.producer(0).unwrap();
        handlers_are_installed_replaced_and_removed(session, &mut producer, shape);
        begun_tasks_are_waited_for_or_taken_over(session, &mut producer, shape);
        larger_frames_keep_their_words(session, &mut producer, shape);
        a_fence_that_waits_for_a_cell_outlives_its_kernel(session, &mut producer, shape);
        counters_outlive_their_kernel(session, &mut producer, shape);
        tasks_of_a_removed_handler_end_with_a_fault(session, &mut producer, shape);
    });
}

fn run(producer: &mut Producer, op: Opcode, arg: u32) -> Result<u32, TaskError> {
    producer.submit(Task::new(op).args([arg])).unwrap().wait(LONG)
}

/// Submits a task that parks, and waits until it does.
fn park(session: &Session, producer: &mut Producer, arg: u32) -> Ticket {
    let mut ticket = producer.submit(Task::new(session.opcode("parks").unwrap()).args([arg])).unwrap();
    while session.task_state(&mut ticket).unwrap() != pelton::TaskState::Waiting {
        std::thread::yield_now();
    }
    ticket
}

/// Whether a task has ended because there is no handler for its opcode.
fn is_unknown(ended: Result<u32, TaskError>) -> bool {
    matches!(ended, Err(TaskError::Fault(fault)) if fault.code == FaultCode::UNKNOWN)
}

fn handlers_are_installed_replaced_and_removed(session: &Session, producer: &mut Producer, shape: &str) {
    let plain = session.opcode("plain").unwrap();
    assert_eq!(run(producer, plain, 1), Ok(101), "{shape}");
    let more = session.install("more", version(200)).unwrap();
    assert_eq!((run(producer, plain, 1), run(producer, more, 1)), (Ok(101), Ok(201)), "{shape}");
    session.replace("plain", version(300), LONG).unwrap();
    assert_eq!((run(producer, plain, 1), run(producer, more, 1)), (Ok(301), Ok(201)), "{shape}");
    session.remove("more").unwrap();
    assert!(is_unknown(run(producer, more, 1)), "{shape}");
    assert!(session.opcode("more").is_err(), "{shape}");
    // The opcode of a handler that was removed is not given to another one.
    let again = session.install("more", version(400)).unwrap();
    assert_ne!(again, more, "{shape}");
    assert_eq!(run(producer, again, 1), Ok(401), "{shape}");
    assert!(is_unknown(run(producer, more, 1)), "{shape}");
    session.remove("more").unwrap();
    let (was, spec) = (session.opcode("parks").unwrap(), session.spec());
    // Names decide, and not the opcodes of the `Spec` that is handed over.
    let next = Spec { handlers: Vec::new(), ..Spec::clone(&spec) };
    let next =
        next.handler("parks", parked(1000, 1)).handler("new", version(500)).handler("plain", version(300));
    session.hand_over(&next, LONG).unwrap();
    assert_eq!((session.opcode("parks").unwrap(), session.opcode("plain").unwrap()), (was, plain), "{shape}");
    let new = session.opcode("new").unwrap();
    assert_eq!((run(producer, new, 1), run(producer, plain, 1)), (Ok(501), Ok(301)), "{shape}");
    session.hand_over(&spec, LONG).unwrap();
    assert!(is_unknown(run(producer, new, 1)), "{shape}");
}

fn begun_tasks_are_waited_for_or_taken_over(session: &Session, producer: &mut Producer, shape: &str) {
    let mut tickets: Vec<Ticket> = (0..3).map(|k| park(session, producer, k)).collect();
    let refused = session.replace("parks", parked(2000, 1), Deadline::Now).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "3 tasks of handler \"parks\" have begun and not ended, and its new version does not take them over \
         (`Handler::takes_over`, or `takes_over = true` in a file)",
        "{shape}"
    );
    tickets[0].resume();
    assert_eq!(tickets[0].wait(LONG), Ok(1000), "{shape}: the old version goes on");
    session.replace("parks", parked(2000, 1).takes_over(true), Deadline::Now).unwrap();
    tickets[1].resume();
    assert_eq!(tickets[1].wait(LONG), Ok(2001), "{shape}: the new version has taken over");
    // The last one is resumed while the hand-over waits for it.
    std::thread::scope(|threads| {
        let replaced = threads.spawn(|| session.replace("parks", parked(3000, 1), LONG));
        tickets[2].resume();
        assert_eq!(tickets[2].wait(LONG), Ok(2002), "{shape}: the hand-over has waited");
        replaced.join().unwrap().unwrap();
    });
    let mut ticket = park(session, producer, 3);
    ticket.resume();
    assert_eq!(ticket.wait(LONG), Ok(3003), "{shape}");
}

fn larger_frames_keep_their_words(session: &Session, producer: &mut Producer, shape: &str) {
    let mut tickets: Vec<Ticket> = (0..40).map(|k| park(session, producer, k)).collect();
    for (round, words) in [(0, 7), (1, 2), (2, 20)] {
        session.replace("parks", parked(4000, words).takes_over(true), Deadline::Now).unwrap();
        for (k, ticket) in (0..).zip(&mut tickets).skip(round * 13).take(13) {
            ticket.resume();
            assert_eq!(ticket.wait(LONG), Ok(4000 + k), "{shape}, {words} words");
        }
    }
    tickets[39].cancel();
    assert_eq!(tickets[39].wait(LONG), Err(TaskError::Cancelled { steps: 1 }), "{shape}");
}

/// The fence has no record, although tasks behind it have, so the next kernel must not begin at the fence.
fn a_fence_that_waits_for_a_cell_outlives_its_kernel(
    session: &Session,
    producer: &mut Producer,
    shape: &str,
) {
    let data = session.view::<u32>(0, "data").unwrap();
    data.write(7, &[0]).unwrap();
    let mut waiting = park(session, producer, 5);
    let mut fence = producer.submit(Task::new(Opcode::BATCH_FENCE).args([1])).unwrap();
    let add = Task::new(Opcode::ATOMIC_ADD).args([1, 7]);
    let mut behind: Vec<Ticket> = (0..8).map(|_| producer.submit(add).unwrap()).collect();
    for round in 0..3 {
        session.hand_over(&session.spec(), LONG).unwrap();
        behind.extend((0..8).map(|_| producer.submit(add).unwrap()));
        assert!(!fence.has_ended(), "{shape}, round {round}: the fence waits for the cell");
    }
    waiting.resume();
    assert_eq!(waiting.wait(LONG), Ok(4005), "{shape}");
    fence.wait(LONG).unwrap();
    let mut olds: Vec<u32> = behind.iter_mut().map(|ticket| ticket.wait(LONG).unwrap()).collect();
    olds.sort();
    assert_eq!(olds, (0..32).collect::<Vec<_>>(), "{shape}: each of them ran once");
}

fn counters_outlive_their_kernel(session: &Session, producer: &mut Producer, shape: &str) {
    let plain = session.opcode("plain").unwrap();
    session.quiesce(LONG).unwrap();
    let count = |name: &str| {
        let opcodes = session.snapshot().unwrap().opcodes;
        opcodes.iter().filter(|counted| counted.name == name).map(|counted| counted.count).sum::<u64>()
    };
    let (before, done) = (count("plain"), session.snapshot().unwrap().done);
    for k in 0..2 {
        assert!(run(producer, plain, k).is_ok(), "{shape}");
        session.install(format!("another{k}"), version(k)).unwrap();
        assert_eq!(run(producer, session.opcode(&format!("another{k}")).unwrap(), 1), Ok(1 + k), "{shape}");
    }
    session.quiesce(LONG).unwrap();
    assert_eq!(count("plain"), before + 2, "{shape}");
    assert!((0..2).all(|k| count(&format!("another{k}")) == 1), "{shape}");
    assert_eq!(session.snapshot().unwrap().done, done + 4, "{shape}");
    for k in 0..2 {
        session.remove(&format!("another{k}")).unwrap();
    }
    assert_eq!(session.snapshot().unwrap().done, done + 4, "{shape}");
}

fn tasks_of_a_removed_handler_end_with_a_fault(session: &Session, producer: &mut Producer, shape: &str) {
    let mut ticket = park(session, producer, 1);
    let op = session.opcode("parks").unwrap();
    session.remove("parks").unwrap();
    ticket.resume();
    assert!(is_unknown(ticket.wait(LONG)), "{shape}: it ends at its next step");
    assert!(is_unknown(run(producer, op, 1)), "{shape}");
    let parks = session.install("parks", parked(5000, 2)).unwrap();
    assert!(is_unknown(run(producer, op, 1)), "{shape}: the old opcode stays unknown");
    let mut ticket = park(session, producer, 6);
    assert_ne!(parks, op, "{shape}");
    ticket.resume();
    assert_eq!(ticket.wait(LONG), Ok(5006), "{shape}");
    session.quiesce(LONG).unwrap();
}

/// The kernel may run tasks of a batch before the producer has written the rest of it and noted where it ends. The next
/// kernel must not run these tasks again.
#[test]
fn a_batch_that_is_half_submitted_runs_once() {
    for lanes in [1, 32] {
        let spec = Spec::new(Geometry::new(8).groups(1).lanes(lanes)).placement(Near);
        let session = launch(&spec.region(Region::new("data", Type::U32, 1)));
        let mut producer = session.producer(0).unwrap();
        let add = Task::new(Opcode::ATOMIC_ADD).args([1, 0]);
        for old in 0..4 {
            assert_eq!(producer.submit(add).unwrap().wait(LONG), Ok(old));
        }
        // The ring has eight slots, so the batch is written in two pieces. Nobody wakes the kernel in between, but one that
        // begins looks for tasks.
        let tasks = (0..8).map(|at| {
            if at == 4 {
                (0..50).for_each(|_| session.hand_over(&session.spec(), LONG).unwrap());
            }
            add
        });
        let mut span = producer.submit_all(tasks).unwrap();
        span.wait(LONG).unwrap();
        session.quiesce(LONG).unwrap();
        let olds: Vec<u32> = span.results().map(Result::unwrap).collect();
        assert_eq!(olds, (4..12).collect::<Vec<_>>(), "{lanes} lanes: each of them ran once");
    }
}

fn launch(spec: &Spec) -> Session {
    Session::launch(&open("cpu").unwrap(), spec).unwrap()
}

/// The session goes on as it was.
#[test]
fn what_a_session_cannot_change_is_refused() {
    let spec = Spec::new(Geometry::new(64)).handler("plain", version(1));
    let session = launch(&spec);
    let mut producer = session.producer(0).unwrap();
    let refused = |ended: Result<(), Error>| match ended {
        Err(Error::HandOver(why)) => why,
        other => panic!("it is refused by the session: {other:?}"),
    };
    let axis = |next: Spec| refused(session.hand_over(&next, LONG));
    assert_eq!(axis(spec.clone().cells(8)), HandOverError::Axis { axis: "cells" });
    assert_eq!(axis(spec.clone().producers(3)), HandOverError::Axis { axis: "tenants" });
    let region = Region::new("more", Type::U32, 1);
    assert_eq!(axis(spec.clone().region(region)), HandOverError::Axis { axis: "regions" });
    let name = || String::from("plain");
    assert_eq!(
        refused(session.install("plain", version(2)).map(|_| ())),
        HandOverError::NameTaken { name: name() }
    );
    assert_eq!(refused(session.remove("other")), HandOverError::UnknownHandler { name: "other".into() });
    let resumable = parked(1, 1);
    assert_eq!(
        refused(session.install("parks", resumable.clone()).map(|_| ())),
        HandOverError::NoCells { name: "parks".into() }
    );
    let mistake = session.replace("plain", Handler::from_text("fn plain( {"), LONG).unwrap_err();
    assert!(matches!(mistake, Error::Refused(_)), "{mistake}");
    assert_eq!(run(&mut producer, session.opcode("plain").unwrap(), 1), Ok(2), "the session goes on");

    let session = launch(&spec.clone().handler("parks", resumable));
    assert_eq!(
        refused(session.replace("plain", parked(1, 1), LONG)),
        HandOverError::ResumableDiffers { name: name(), resumable: true }
    );
    assert_eq!(
        refused(session.replace("parks", version(1), LONG)).to_string(),
        "handler \"parks\" is resumable, and its new version is not: remove the handler, and install the new version"
    );
    let spawns = Handler::lane_wide(|task| {
        task.reserve_children(1);
        task.finish(0u32);
    });
    let no_room = HandOverError::NoSpawnCells { name: "spawns".into() };
    assert_eq!(refused(session.install("spawns", spawns.clone()).map(|_| ())), no_room);
    // Events alone give no room for spawned tasks either.
    let session = launch(&spec.events(1));
    assert_eq!(refused(session.install("spawns", spawns).map(|_| ())), no_room);
}

/// A library is part of the code of the handlers that call its functions.
#[test]
fn another_library_makes_another_version_of_resumable_handlers() {
    let library = |number: u32| {
        let text = format!("fn helper() -> u32 {{ return {number} }}");
        pelton_ir::text::parse(&text).expect("it is a module")
    };
    let calls = Handler::from_text(
        "import fn helper() -> u32\nfn calls() -> u32 {\n  %n = call helper()\n  return %n\n}",
    );
    let spec = |number| {
        let spec = Spec::new(Geometry::new(64).groups(1)).library(library(number));
        spec.handler("calls", calls.clone()).handler("parks", parked(1000, 1))
    };
    let session = launch(&spec(1));
    let mut producer = session.producer(0).unwrap();
    let calls = session.opcode("calls").unwrap();
    let mut waiting = park(&session, &mut producer, 5);
    let refused = session.hand_over(&spec(2), Deadline::Now).unwrap_err();
    assert!(
        matches!(&refused, Error::HandOver(HandOverError::BegunTasks { name, tasks: 1 }) if name == "parks"),
        "{refused}"
    );
    assert_eq!(run(&mut producer, calls, 0), Ok(1));
    waiting.resume();
    assert_eq!(waiting.wait(LONG), Ok(1005));
    session.hand_over(&spec(2), LONG).unwrap();
    assert_eq!(run(&mut producer, calls, 0), Ok(2));
    // Fuel alone makes no other version.
    let mut waiting = park(&session, &mut producer, 5);
    let less_fuel = Spec { fuel: 1_000, ..spec(2) };
    session.hand_over(&less_fuel, Deadline::Now).unwrap();
    waiting.resume();
    assert_eq!(waiting.wait(LONG), Ok(1005));
}
