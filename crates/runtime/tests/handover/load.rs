//! Hand-overs under load: every task runs once, with the right result, while handlers change all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pelton::Placement::{Both, Far, Near};
use pelton::device::{Caps, Device, open};
use pelton::kernel::SlotBody;
use pelton::kernel::handler_trees::Child;
use pelton::{Geometry, Handler, Opcode, Producer, Region, Session, Spec, Task, Ticket};
use pelton_ir::types::{Order, Scope, Type};

use crate::pretend::PretendDevice;
use crate::{LONG, on_every_device};

/// Adds one to the element that its first argument names, and gives the argument. Versions differ in a constant that has
/// no effect.
fn mark(number: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, data) = (task.body(), task.data());
        f.when(task.arg(1).eq(number + 77), || f.store(data.at(0), 1));
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(task.arg(0)), 1u32);
        task.finish(task.arg(0));
    })
}

/// Yields as often as its second argument says, and then does what [`mark`] does.
fn slow_mark(number: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, data, count) = (task.body(), task.data(), task.frame_word());
        f.when(task.arg(1).eq(number + 0x7777), || f.store(data.at(0), 1));
        let so_far = count.load();
        f.when(so_far.lt(task.arg(1)), || {
            count.store(so_far + 1);
            task.yield_now();
        });
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(task.arg(0)), 1u32);
        task.finish(task.arg(0));
    })
    .takes_over(true)
}

/// Spawns two tasks of the opcode in its second argument for the element that its first argument names, and gives the sum
/// of their results. If there is no room for them, it adds two to the element itself.
fn family() -> Handler {
    Handler::lane_wide(|task| {
        let (f, results) = (task.body(), [task.frame_word(), task.frame_word()]);
        task.step(|| {
            f.when(!task.reserve_children(2), || {
                f.atomic_add(Order::Relaxed, Scope::Device, task.data().at(task.arg(0)), 2u32);
                task.finish(task.arg(0) * 2);
            });
            for result in results {
                let child = Child::with_opcode(&task, task.arg(1)).args([task.arg(0), f.lit(3)]);
                task.spawn(child.result_into(result));
            }
            task.wait_children();
        });
        task.finish(results[0].load() + results[1].load());
    })
}

fn spec(spec: Spec) -> Spec {
    spec.producers(3)
        .cells(32)
        .spawn_cells(64)
        .region(Region::new("data", Type::U32, 1 + EACH * 3))
        .handler("mark", mark(0))
        .handler("slow", slow_mark(0))
        .handler("family", family())
}

/// The environment variable that says how many hand-overs to the same kernel there are in a row. Each session makes four
/// such rows.
const ROUNDS: &str = "PELTON_HANDOVERS";

/// How many elements each producer has.
const EACH: u32 = 400;

/// Submits a task for each of these elements in turn until the hand-overs are over, with a few in flight. Every eighth task
/// spawns two others. Returns how many tasks were submitted.
fn feed(session: &Session, mut producer: Producer, first: u32, over: &AtomicBool) -> u32 {
    let op = |name: &str| session.opcode(name).unwrap();
    let ops: [Opcode; 3] = [op("mark"), op("slow"), op("family")];
    let mut tickets: Vec<(Ticket, u32)> = Vec::new();
    let wait = |(ticket, expected): &mut (Ticket, u32)| assert_eq!(ticket.wait(LONG), Ok(*expected));
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        let at = first + count % EACH;
        let (task, expected) = match at % 8 {
            0 => (Task::new(ops[2]).args([at, ops[1].code()]), at * 2),
            1..=4 => (Task::new(ops[0]).args([at, 0]), at),
            _ => (Task::new(ops[1]).args([at, at % 50]), at),
        };
        tickets.push((producer.submit(task).unwrap(), expected));
        count += 1;
        if tickets.len() == 24 {
            tickets.drain(..12).for_each(|mut ticket| wait(&mut ticket));
        }
    }
    tickets.iter_mut().for_each(wait);
    count
}

/// Changes the handlers and the size of a session a few times, and launches the same kernel again many times.
fn change_handlers(session: &Session, rounds: u32) {
    for number in 1..=2 {
        session.replace("mark", mark(number), LONG).unwrap();
        session.replace("slow", slow_mark(number), LONG).unwrap();
        for _ in 0..rounds {
            session.hand_over(&session.spec(), LONG).unwrap();
        }
        session.install("extra", mark(9)).unwrap();
        for _ in 0..rounds {
            session.hand_over(&session.spec(), LONG).unwrap();
        }
        session.remove("extra").unwrap();
        for groups in [2, 3] {
            session.resize(groups).unwrap();
            for _ in 0..rounds / 10 {
                session.hand_over(&session.spec(), LONG).unwrap();
            }
        }
    }
}

#[test]
fn every_task_runs_once_while_handlers_and_size_change() {
    let elements = EACH * 3;
    on_every_device(spec, |session, shape| {
        let over = &AtomicBool::new(false);
        let counts: Vec<u32> = std::thread::scope(|threads| {
            let feeders: Vec<_> = (0..3)
                .map(|k| {
                    let producer = session.producer(0).unwrap().patience(LONG);
                    threads.spawn(move || feed(session, producer, 1 + k * EACH, over))
                })
                .collect();
            let rounds = if shape.starts_with("reference") { 20 } else { 200 };
            let rounds =
                std::env::var(ROUNDS).map_or(rounds, |text| text.parse().expect("the variable is a number"));
            let changed = threads.spawn(move || change_handlers(session, rounds)).join();
            over.store(true, Ordering::Relaxed);
            let counts = feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect();
            changed.unwrap();
            counts
        });
        let data = session.view::<u32>(0, "data").unwrap().read_all().unwrap();
        for at in 1..=elements {
            let (producer, place) = ((at - 1) / EACH, (at - 1) % EACH);
            let tasks = (counts[producer as usize] + EACH - 1 - place) / EACH;
            let expected = tasks * if at % 8 == 0 { 2 } else { 1 };
            assert_eq!(data[at as usize], expected, "{shape}, element {at}: every task ran once");
        }
        assert_eq!(data[0], 0, "{shape}");
        let cells = session.snapshot().unwrap().cells.unwrap();
        assert_eq!((cells.used, cells.spawned_now), (0, 0), "{shape}");
    });
}

/// Writes its argument behind those that were written before.
fn note() -> Handler {
    Handler::lane_wide(|task| {
        let (f, data) = (task.body(), task.data());
        let at = f.atomic_add(Order::Relaxed, Scope::Device, data.at(0), 1u32);
        f.store(data.at(at + 1), task.arg(0));
        task.finish(at);
    })
}

/// Catches a run that begins before or behind the first task that the last one has not taken: where one lane runs all
/// tasks of a ring, they run in the order in which they were submitted.
#[test]
fn tasks_of_a_ring_run_in_order_while_runs_change() {
    const TASKS: u32 = 20_000;
    for placement in [Near, Far] {
        let spec = Spec::new(Geometry::new(16).lanes(1).groups(1)).placement(placement);
        let spec = spec.region(Region::new("data", Type::U32, TASKS + 1)).handler("note", note());
        let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
        let (op, over) = (session.opcode("note").unwrap(), &AtomicBool::new(false));
        std::thread::scope(|threads| {
            let mut producer = session.producer(0).unwrap().patience(LONG);
            threads.spawn(move || {
                for number in 0..TASKS {
                    drop(producer.submit(Task::new(op).args([number])).unwrap());
                }
                over.store(true, Ordering::Relaxed);
            });
            while !over.load(Ordering::Relaxed) {
                session.hand_over(&session.spec(), LONG).unwrap();
            }
        });
        session.quiesce(LONG).unwrap();
        let data = session.view::<u32>(0, "data").unwrap().read_all().unwrap();
        assert!(data[1..].iter().copied().eq(0..TASKS), "{placement:?}: they ran in order");
    }
}

/// Kernels with a single body have no fences. Which of their tasks were taken is known by other means than in those that do.
#[test]
fn resumable_tasks_of_fused_kernels_run_once() {
    const TASKS: u32 = 200;
    for placement in [Near, Far, Both] {
        let spec =
            Spec::new(Geometry::new(16).groups(3)).placement(placement).body(SlotBody::Fused).cells(16);
        let spec = spec.region(Region::new("data", Type::U32, TASKS + 1)).handler("slow", slow_mark(0));
        let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
        let (op, over) = (session.opcode("slow").unwrap(), &AtomicBool::new(false));
        std::thread::scope(|threads| {
            let mut producer = session.producer(0).unwrap().patience(LONG);
            threads.spawn(move || {
                for at in 1..=TASKS {
                    drop(producer.submit(Task::new(op).args([at, at % 9])).unwrap());
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                over.store(true, Ordering::Relaxed);
            });
            while !over.load(Ordering::Relaxed) {
                session.hand_over(&session.spec(), LONG).unwrap();
            }
        });
        session.quiesce(LONG).unwrap();
        let data = session.view::<u32>(0, "data").unwrap().read_all().unwrap();
        assert!(data[1..].iter().all(|ran| *ran == 1), "{placement:?}: {data:?}");
    }
}

/// The groups of a device with memory of its own are told of changed control words by one of them, which waits for their
/// answers. It must not wait for those of groups that it has told to end.
#[test]
fn rights_change_while_runs_change() {
    let inner = open("reference").unwrap();
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    let device: Arc<dyn Device> = Arc::new(PretendDevice::new(inner, caps));
    for (placement, lanes) in [(Far, 64), (Near, 32), (Both, 64)] {
        let spec = Spec::new(Geometry::new(16).groups(2).lanes(lanes)).placement(placement);
        let session = Session::launch(&device, &spec).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..200 {
                    session.hand_over(&session.spec(), LONG).unwrap();
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut mask = 0;
            while !over.load(Ordering::Relaxed) {
                mask = !mask;
                session.set_mask(0, mask).unwrap();
            }
            session.set_mask(0, u32::MAX).unwrap();
        });
        session.producer(0).unwrap().submit(Task::new(Opcode::NOP)).unwrap().wait(LONG).unwrap();
    }
}
