//! Moves between devices: everything that a session has goes along.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use pelton::Placement::{Both, Far, Near};
use pelton::device::null::{Faults, Null};
use pelton::device::{Caps, Device, open};
use pelton::{
    Error, Geometry, Handler, Opcode, Placement, Producer, Region, Session, Spec, Task, TaskError, Tenant,
    Ticket,
};
use pelton_ir::types::{Order, Scope, Type};

use crate::island::open_island;
use crate::pretend::PretendDevice;
use crate::{ALONE, LONG, park, parked, run, version};

/// Opens a device by its name, among them the interpreter as a device with memory of its own, which the host can map or not.
pub(crate) fn open_any(name: &str) -> Arc<dyn Device> {
    match name {
        "apart" => {}
        "island" => return open_island(),
        name => return open(name).unwrap(),
    }
    let inner = open("reference").unwrap();
    let caps =
        Caps { name: name.into(), lanes: 32, groups: 4, memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Arc::new(PretendDevice::new(inner, caps))
}

/// Keeps other tests from using the GPU, if there is one.
pub(crate) fn alone() -> Option<MutexGuard<'static, ()>> {
    open("cuda").is_ok().then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The devices that a session goes through, one after the other. From the CPU it goes to each of the others and back.
pub(crate) fn journey() -> Vec<&'static str> {
    let mut names = vec!["reference", "apart", "cpu", "island", "cpu", "apart", "island", "reference", "cpu"];
    if open("cuda").is_ok() {
        names.extend(["cuda", "cpu"]);
    }
    names
}

/// Copies its payload to its reply, one word in each of two steps, and parks in between.
fn carry() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.step(|| {
            f.store(task.reply().at(0), f.load(task.payload().at(0)));
            task.park_then(1u32);
        });
        f.store(task.reply().at(1), f.load(task.payload().at(1)));
        task.set_reply_len(8u32);
        task.finish(f.load(task.reply().at(0)));
    })
}

fn spec(placement: Placement) -> Spec {
    Spec::new(Geometry::new(64))
        .placement(placement)
        .tenant(Tenant::new(0).producers(2))
        .tenant(Tenant::new(1).producers(1).weight(2))
        .cells(32)
        .events(2)
        .payload(8)
        .reply(8)
        .region(Region::new("data", Type::U32, 1000))
        .region(Region::new("wide", Type::U64, 1000))
        .handler("plain", version(100))
        .handler("parks", parked(1000, 3))
        .handler("carry", carry())
}

/// What is under way while a session moves.
struct UnderWay {
    parked: Vec<Ticket>,
    carried: Ticket,
    awaited: Ticket,
    queued: Vec<Ticket>,
    fence: Ticket,
}

fn begin(session: &Session, producers: &mut [Producer], round: u32) -> UnderWay {
    let parked = producers.iter_mut().map(|producer| park(session, producer, 7)).collect();
    let words = [round + 1, round + 2];
    let carry = Task::new(session.opcode("carry").unwrap()).words(&words);
    let mut carried = producers[0].submit(carry).unwrap();
    while session.task_state(&mut carried).unwrap() != pelton::TaskState::Waiting {
        std::thread::yield_now();
    }
    let plain = Task::new(session.opcode("plain").unwrap()).args([round]);
    let awaited = producers[1].submit(plain.after(1, 2 * round + 2)).unwrap();
    session.signal(0, 1, 1).unwrap();
    session.set_mask(1, 0).unwrap();
    let add = Task::new(Opcode::ATOMIC_ADD).args([1, 5]);
    let queued = (0..40).map(|_| producers[2].submit(add).unwrap()).collect();
    let fence = producers[0].submit(Task::new(Opcode::BATCH_FENCE)).unwrap();
    UnderWay { parked, carried, awaited, queued, fence }
}

fn end(session: &Session, under_way: UnderWay, round: u32, shape: &str) {
    let UnderWay { mut parked, mut carried, mut awaited, mut queued, mut fence } = under_way;
    assert!(!awaited.has_ended() && !carried.has_ended(), "{shape}");
    session.signal(0, 1, 1).unwrap();
    assert_eq!(awaited.wait(LONG), Ok(100 + round), "{shape}: events were counted before and after");
    carried.resume();
    let mut reply = [0; 2];
    assert_eq!(carried.wait_words(LONG, &mut reply), Ok(2), "{shape}");
    assert_eq!((reply, carried.result()), ([round + 1, round + 2], Ok(round + 1)), "{shape}");
    parked.iter_mut().for_each(Ticket::resume);
    for ticket in &mut parked[..2] {
        assert_eq!(ticket.wait(LONG), Ok(1007), "{shape}: its frame came along");
    }
    fence.wait(LONG).unwrap();
    assert!(queued.iter_mut().all(|ticket| !ticket.has_ended()), "{shape}: their tenant is disabled");
    assert!(!parked[2].has_ended(), "{shape}: and so is that of this one");
    session.set_mask(1, u32::MAX).unwrap();
    assert_eq!(parked[2].wait(LONG), Ok(1007), "{shape}");
    let mut olds: Vec<u32> = queued.iter_mut().map(|ticket| ticket.wait(LONG).unwrap()).collect();
    olds.sort();
    assert!(olds.into_iter().eq(40 * round..40 * round + 40), "{shape}: each ran once, over the same memory");
}

#[test]
fn everything_goes_along() {
    let _alone = alone();
    for (placement, first) in [(Near, "cpu"), (Near, "island"), (Far, "cpu"), (Both, "island")] {
        let mut session = Session::launch(&open_any(first), &spec(placement)).unwrap();
        let mut producers = [0, 0, 1].map(|tenant| session.producer(tenant).unwrap());
        let words: Vec<u64> = (0..1000).map(|k| k * k).collect();
        session.view::<u64>(1, "wide").unwrap().write(0, &words).unwrap();
        for (round, name) in (0..).zip(journey()) {
            let shape = format!("{placement:?} from {first} to {name}");
            let under_way = begin(&session, &mut producers, round);
            session.move_to(&open_any(name)).unwrap();
            assert_eq!(session.layout().placement(), placement, "{shape}");
            end(&session, under_way, round, &shape);
            assert_eq!(session.view::<u64>(1, "wide").unwrap().read_all().unwrap(), words, "{shape}");
            // Handlers and the size still change, and rights still hold.
            session.replace("plain", version(100), LONG).unwrap();
            session.resize(if placement == Both { 2 } else { 1 }).unwrap();
            session.set_mask(0, !(1 << Opcode::ATOMIC_ADD.code())).unwrap();
            let add = producers[0].submit(Task::new(Opcode::ATOMIC_ADD).args([1, 0])).unwrap().wait(LONG);
            assert!(matches!(add, Err(TaskError::Fault(_))), "{shape}: {add:?}");
            session.set_mask(0, u32::MAX).unwrap();
            assert_eq!(run(&mut producers[0], session.opcode("plain").unwrap(), 1), Ok(101), "{shape}");
            session.quiesce(LONG).unwrap();
            let snapshot = session.snapshot().unwrap();
            assert_eq!(snapshot.done, 48 * u64::from(round + 1), "{shape}: all are counted once");
            let adds = snapshot.opcodes.iter().find(|counted| counted.name == "ATOMIC_ADD").unwrap();
            assert_eq!(adds.count, 40 * u64::from(round + 1), "{shape}");
        }
        session.stop().unwrap();
    }
}

/// Adds one to the element that its argument names, and gives the argument. Every other task yields a few times before.
fn mark() -> Handler {
    Handler::lane_wide(|task| {
        let (f, so_far) = (task.body(), task.frame_word());
        let done = so_far.load();
        f.when(done.lt((task.arg(0) & 1) * 9), || {
            so_far.store(done + 1);
            task.yield_now();
        });
        f.atomic_add(Order::Relaxed, Scope::Device, task.data().at(task.arg(0)), 1u32);
        task.finish(task.arg(0));
    })
}

#[test]
fn every_task_runs_once_while_a_session_moves() {
    const ELEMENTS: u32 = 512;
    let _alone = alone();
    for (placement, first) in [(Near, "cpu"), (Near, "island"), (Far, "cpu"), (Both, "island")] {
        let spec = Spec::new(Geometry::new(64)).placement(placement).producers(3).cells(32);
        let spec = spec.region(Region::new("data", Type::U32, ELEMENTS)).handler("mark", mark());
        let mut session = Session::launch(&open_any(first), &spec).unwrap();
        let (op, over) = (session.opcode("mark").unwrap(), &AtomicBool::new(false));
        let counts: Vec<u32> = std::thread::scope(|threads| {
            let feeders: Vec<_> = (0..3)
                .map(|_| {
                    let mut producer = session.producer(0).unwrap().patience(LONG);
                    threads.spawn(move || {
                        let (mut count, mut tickets) = (0, std::collections::VecDeque::new());
                        while !over.load(Ordering::Relaxed) {
                            let arg = count % ELEMENTS;
                            tickets.push_back((producer.submit(Task::new(op).args([arg])).unwrap(), arg));
                            count += 1;
                            if tickets.len() == 24 {
                                let (mut ticket, arg) = tickets.pop_front().unwrap();
                                assert_eq!(ticket.wait(LONG), Ok(arg));
                            }
                        }
                        tickets
                            .into_iter()
                            .for_each(|(mut ticket, arg)| assert_eq!(ticket.wait(LONG), Ok(arg)));
                        count
                    })
                })
                .collect();
            let devices: Vec<_> = journey().into_iter().map(open_any).collect();
            for _ in 0..3 {
                for device in &devices {
                    session.move_to(device).unwrap();
                    session.hand_over(&session.spec(), LONG).unwrap();
                }
            }
            over.store(true, Ordering::Relaxed);
            feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect()
        });
        let data = session.view::<u32>(0, "data").unwrap().read_all().unwrap();
        for at in 0..ELEMENTS {
            let expected: u32 = counts.iter().map(|count| (count + ELEMENTS - 1 - at) / ELEMENTS).sum();
            assert_eq!(data[at as usize], expected, "{placement:?}, element {at}: every task ran once");
        }
    }
}

/// The session goes on where it is.
#[test]
fn a_move_that_fails_leaves_the_session_where_it_is() {
    let spec =
        Spec::new(Geometry::new(64).groups(2)).handler("plain", version(1)).handler("parks", parked(10, 1));
    let mut session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    let mut producer = session.producer(0).unwrap();
    let mut waiting = park(&session, &mut producer, 5);
    let null = |faults| -> Arc<dyn Device> { Arc::new(Null::new(faults)) };
    let failing = [
        null(Faults { alloc: Some(0), ..Faults::default() }),
        null(Faults { load: Some(0), ..Faults::default() }),
        null(Faults { launch: Some(0), ..Faults::default() }),
    ];
    for device in failing {
        let failed = session.move_to(&device).unwrap_err();
        assert!(matches!(failed, Error::Device(_)), "{failed}");
        assert_eq!(run(&mut producer, session.opcode("plain").unwrap(), 1), Ok(2), "the session goes on");
    }
    // A device with room for one group only.
    let inner = open("reference").unwrap();
    let caps = Caps { resident: 1, ..inner.caps().clone() };
    let small: Arc<dyn Device> = Arc::new(PretendDevice::new(inner, caps));
    let refused = session.move_to(&small).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    session.resize(1).unwrap();
    session.move_to(&small).unwrap();
    waiting.resume();
    assert_eq!(waiting.wait(LONG), Ok(15));
    let device = open("cpu").unwrap();
    session.move_to(&device).unwrap();
    session.move_to(&device).unwrap();
    assert_eq!(run(&mut producer, session.opcode("plain").unwrap(), 1), Ok(2));
}
