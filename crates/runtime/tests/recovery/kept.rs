//! Kept regions: what tasks that have ended have written there survives every loss.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use pelton::protocol::packed::Packed;
use pelton::telemetry::KeptSnapshot;
use pelton::{Aim, Class, Producer, TaskError, Tenant};

use crate::load::Random;
use crate::rings::Unpark;
use crate::*;

/// How many elements the kept region `counts` has.
const COUNTS: u32 = 96;

/// Adds its second argument to the element of `counts` that its first one names.
fn count() -> Handler {
    count_times(1)
}

/// Does what [`count`] does so many times.
fn count_times(times: u32) -> Handler {
    let handler = Handler::lane_wide(|task| {
        let counts = task.region::<u32>("counts");
        task.body().atomic_add(Order::Relaxed, Scope::Device, counts.at(task.arg(0)), task.arg(1) * times);
        task.finish(task.arg(0) * 2);
    });
    handler.class(Class::Commuting)
}

/// Adds as [`count`] does, and ends with a fault.
fn spoil() -> Handler {
    let handler = Handler::lane_wide(|task| {
        let counts = task.region::<u32>("counts");
        task.body().atomic_add(Order::Relaxed, Scope::Device, counts.at(task.arg(0)), task.arg(1));
        task.fault(0x123u32);
    });
    handler.class(Class::Commuting)
}

/// Adds the first word of its payload, and adds one to an element of `totals`.
fn deliver() -> Handler {
    let handler = Handler::lane_wide(|task| {
        let (f, counts, totals) = (task.body(), task.region::<u32>("counts"), task.region::<u64>("totals"));
        let by = f.load(task.payload().at(0));
        f.atomic_add(Order::Relaxed, Scope::Device, counts.at(task.arg(0)), by);
        f.atomic_add(Order::Relaxed, Scope::Device, totals.at(0), f.cast::<u64>(by) << 20);
        task.finish(task.arg(0) * 2);
    });
    handler.class(Class::Commuting)
}

/// Adds as [`count`] does, with all lanes of a group.
fn together() -> Handler {
    let handler = Handler::group_wide(|group| {
        let (f, counts) = (group.body(), group.region::<u32>("counts"));
        let (at, by) = (group.arg(0), group.arg(1));
        f.when(f.lane().eq(0), || {
            f.atomic_add(Order::Relaxed, Scope::Device, counts.at(at), by);
        });
        group.finish(at * 2);
    });
    handler.class(Class::Commuting)
}

/// Says that it runs, waits until it may go on, and then adds as [`count`] does.
fn count_later() -> Handler {
    let handler = Handler::lane_wide(|task| {
        let (f, data, counts) = (task.body(), task.data(), task.region::<u32>("counts"));
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(WAITING), 1u32);
        f.forever::<_, ()>(f.lit(0), |wait, turns| {
            let go = f.atomic_load(Order::Relaxed, Scope::System, data.at(GO));
            f.when(go.ne(0), || wait.leave(()));
            turns + 1
        });
        f.atomic_add(Order::Relaxed, Scope::Device, counts.at(task.arg(0)), task.arg(1));
        task.finish(task.arg(0) * 2);
    });
    handler.class(Class::Commuting)
}

/// A spec with kept regions and all handlers of these tests.
fn spec(shape: &Shape, slots: u32) -> Spec {
    shape
        .spec(slots)
        .payload(16)
        .region(Region::new("counts", Type::U32, COUNTS).kept())
        .region(Region::new("totals", Type::U64, 4).kept())
        .region(Region::shared("table", Type::U32, 8).kept())
        .handler("count", count())
        .handler("spoil", spoil())
        .handler("deliver", deliver())
        .handler("together", together())
        .handler("count_later", count_later())
}

fn counts(session: &Session) -> Vec<u32> {
    session.view::<u32>(0, "counts").unwrap().read_all().unwrap()
}

fn kept(session: &Session) -> KeptSnapshot {
    loop {
        match session.snapshot() {
            Ok(snapshot) => return snapshot.kept.expect("regions are kept"),
            Err(Error::Device(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Counts elements one after another, and waits for each.
fn count_all(session: &Session, producer: &mut Producer, elements: std::ops::Range<u32>) {
    for at in elements {
        let ticket = producer.submit(task(session, "count", &[at, at + 1]));
        assert_eq!(ticket.unwrap().wait(LONG), Ok(at * 2));
    }
}

/// What `counts` has after these elements were counted once.
fn counted(elements: std::ops::Range<u32>) -> Vec<u32> {
    (0..COUNTS).map(|at| if elements.contains(&at) { at + 1 } else { 0 }).collect()
}

/// Loses the device and waits until the session has recovered.
fn lose(shape: &Shape, session: &Session) {
    let before = recovery(session).count;
    shape.device.lose();
    until_recovered(session, before + 1);
}

/// Catches a region that is not restored, tasks that run once more although a checkpoint covers them, and tasks that do not
/// although none does.
#[test]
fn a_kept_region_is_as_of_every_record() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        lose(shape, &session);
        assert_eq!(kept(&session), KeptSnapshot::default(), "{}", shape.name);
        count_all(&session, &mut producer, 0..20);
        lose(shape, &session);
        assert_eq!(counts(&session), counted(0..20), "{}", shape.name);
        assert_eq!(kept(&session).rerun, 20, "{}", shape.name);
        count_all(&session, &mut producer, 20..30);
        session.checkpoint().unwrap();
        count_all(&session, &mut producer, 30..33);
        lose(shape, &session);
        assert_eq!(counts(&session), counted(0..33), "{}", shape.name);
        let report = kept(&session);
        assert_eq!((report.rerun, report.checkpoints), (3, 1), "{}", shape.name);
        assert!(report.last_took.is_some(), "{}", shape.name);
        lose(shape, &session);
        assert_eq!(counts(&session), counted(0..33), "{}", shape.name);
        assert_eq!(kept(&session).rerun, 0, "{}", shape.name);
        let text = session.snapshot().unwrap().to_string();
        assert!(text.contains("kept       1 checkpoints, the last in "), "{text}");
    });
}

/// Catches checks that would not see that a checkpoint lacks tasks that it says it covers.
#[test]
fn a_stale_checkpoint_is_seen() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        count_all(&session, &mut producer, 0..10);
        session.checkpoint().unwrap();
        count_all(&session, &mut producer, 10..20);
        session.plant_stale_checkpoint().unwrap();
        count_all(&session, &mut producer, 20..30);
        lose(shape, &session);
        let lacks: Vec<u32> =
            counted(0..30).iter().zip(counted(10..20)).map(|(all, some)| all - some).collect();
        assert_eq!(counts(&session), lacks, "{}", shape.name);
    });
}

/// Catches slots that are used again before a checkpoint covers them, a ring that stays full, and a producer that waits for
/// ever because nobody asks for a checkpoint.
#[test]
fn a_full_ring_asks_for_a_checkpoint() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 16));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let slots = session.layout().slot_count();
        for at in 0..3 * slots {
            let ticket = producer.submit(task(&session, "count", &[at % COUNTS, 1]));
            assert_eq!(ticket.unwrap().wait(LONG), Ok(at % COUNTS * 2), "{}", shape.name);
        }
        let before = kept(&session).checkpoints;
        assert!(before >= 2, "{}: {before} checkpoints", shape.name);
        lose(shape, &session);
        assert_eq!(counts(&session).iter().sum::<u32>(), 3 * slots, "{}", shape.name);
        // Now the ring is full of tickets, and only later of slots that a checkpoint has to cover.
        producer.set_aim(Aim::Throughput);
        let most = producer.largest_batch() as u32;
        let tasks = || (0..most).map(|_| task(&session, "count", &[5, 1]));
        let mut span = producer.submit_all(tasks()).unwrap();
        span.wait(LONG).unwrap();
        std::thread::scope(|threads| {
            let held = threads.spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                drop(span);
            });
            let waits = async { producer.submit_when_room(task(&session, "count", &[6, 1])).await };
            assert_eq!(block_on(waits).unwrap().wait(LONG), Ok(12), "{}", shape.name);
            held.join().unwrap();
        });
        assert!(kept(&session).checkpoints > before, "{}", shape.name);
        lose(shape, &session);
        assert_eq!(counts(&session).iter().sum::<u32>(), 3 * slots + most + 1, "{}", shape.name);
    });
}

/// Catches tasks that run once more although they were refused or cancelled, and tasks that do not although they have ended
/// with a fault, in a packed slot, or in spite of a cancel that came too late.
#[test]
fn only_tasks_that_ran_run_once_more() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let op = |name: &str| session.opcode(name).unwrap();
        let mut submit = |task: Task| producer.submit(task).unwrap().wait(LONG);
        assert!(matches!(submit(task(&session, "spoil", &[0, 5])), Err(TaskError::Fault(_))));
        assert_eq!(submit(task(&session, "together", &[1, 6])), Ok(2));
        let mut packed = Packed::new();
        packed.push(op("count"), &[2, 7]).unwrap();
        packed.push(Opcode::NOP, &[]).unwrap();
        packed.push(op("spoil"), &[3, 8]).unwrap();
        packed.push(op("count"), &[4, 9]).unwrap();
        assert!(matches!(submit(Task::try_from(&packed).unwrap()), Err(TaskError::Fault(_))));
        session.allow(0, &[op("count"), Opcode::NOP]).unwrap();
        assert!(matches!(submit(task(&session, "spoil", &[5, 10])), Err(TaskError::Fault(_))));
        session.allow(0, &[]).unwrap();
        let mut cancelled = producer.submit(task(&session, "count", &[6, 11])).unwrap();
        cancelled.cancel();
        session.set_mask(0, u32::MAX).unwrap();
        assert_eq!(cancelled.wait(LONG), Err(TaskError::Cancelled { steps: 0 }), "{}", shape.name);
        let mut late = producer.submit(task(&session, "count_later", &[7, 12])).unwrap();
        until_waiting(&session);
        late.cancel();
        session.view::<u32>(0, "data").unwrap().write(GO as usize, &[1]).unwrap();
        assert_eq!(late.wait(LONG), Ok(14), "{}", shape.name);
        let mut delivered = producer.submit(task(&session, "deliver", &[8]).words(&[13])).unwrap();
        assert_eq!(delivered.wait(LONG), Ok(16));
        let expected = [5, 6, 7, 8, 0, 0, 0, 12, 13];
        assert_eq!(counts(&session)[..9], expected, "{}", shape.name);
        // The tenant may use nothing any more, and that is no concern of tasks that have ended.
        session.allow(0, &[Opcode::NOP]).unwrap();
        go_on(&session);
        lose(shape, &session);
        assert_eq!(counts(&session)[..9], expected, "{}", shape.name);
        assert_eq!(session.view::<u64>(0, "totals").unwrap().read(0, 1).unwrap(), [13 << 20]);
        assert_eq!(element(&session, WAITING), 0, "{}: regions that are not kept stay zero", shape.name);
        assert_eq!(kept(&session).rerun, 6, "{}", shape.name);
    });
}

/// Catches what the host has written and a loss takes back, views that lead to lost memory, and ways around checkpoints.
#[test]
fn what_the_host_writes_is_kept() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let view = session.view::<u32>(0, "counts").unwrap();
        count_all(&session, &mut producer, 0..5);
        view.write(3, &[100, 200]).unwrap();
        session.view::<u32>(0, "table").unwrap().write(0, &[9, 8, 7]).unwrap();
        count_all(&session, &mut producer, 3..4);
        assert!(matches!(view.words(), Err(Error::KeptRegion(_))), "{}", shape.name);
        session.on_recovery(|session| match session.view::<u32>(0, "counts") {
            Err(Error::KeptRegion(_)) => Ok(()),
            found => panic!("{found:?}"),
        });
        lose(shape, &session);
        assert_eq!(view.read(0, 6).unwrap(), [1, 2, 3, 104, 200, 0], "{}", shape.name);
        assert_eq!(session.view::<u32>(0, "table").unwrap().read(0, 3).unwrap(), [9, 8, 7]);
        view.write(0, &[50]).unwrap();
        lose(shape, &session);
        assert_eq!(view.read(0, 6).unwrap(), [50, 2, 3, 104, 200, 0], "{}", shape.name);
    });
}

/// Catches tasks that run once more with a handler that they never had.
#[test]
fn new_handlers_do_not_run_old_tasks() {
    everywhere(|shape| {
        let mut session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        count_all(&session, &mut producer, 0..10);
        session.replace("count", count_times(100), LONG).unwrap();
        count_all(&session, &mut producer, 0..3);
        lose(shape, &session);
        let expected = [101, 202, 303, 4, 5];
        assert_eq!(counts(&session)[..5], expected, "{}", shape.name);
        assert_eq!(kept(&session).rerun, 3, "{}", shape.name);
        session.remove("count").unwrap();
        lose(shape, &session);
        assert_eq!(counts(&session)[..5], expected, "{}", shape.name);
        session.install("other", mark()).unwrap();
        let undeclared = session.install("undeclared", count().class(Class::Restart));
        assert!(matches!(undeclared, Err(Error::Refused(_))), "{}: {undeclared:?}", shape.name);
        session.move_to(&open("cpu").unwrap()).unwrap();
        assert_eq!(counts(&session)[..5], expected, "{}", shape.name);
    });
}

/// Catches a device that is lost while tasks run once more, and a session that goes on elsewhere without its regions.
#[test]
fn losses_while_tasks_run_once_more_are_survived() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        session.set_failover(vec![open("reference").unwrap()]);
        let mut producer = session.producer(0).unwrap();
        count_all(&session, &mut producer, 0..10);
        // The first launch after the loss is that of the tasks that run once more, and the next one that of the session.
        for launches in [1, 2, 3] {
            shape.device.lose_launches(launches);
            lose(shape, &session);
            assert_eq!(counts(&session), counted(0..10), "{}", shape.name);
            assert_eq!(kept(&session).rerun, if launches == 1 { 10 } else { 0 }, "{}", shape.name);
        }
        count_all(&session, &mut producer, 10..20);
        let before = recovery(&session).count;
        shape.device.lose_for_good();
        until_recovered(&session, before + 1);
        assert_eq!(counts(&session), counted(0..20), "{}", shape.name);
        assert_eq!(kept(&session).rerun, 10, "{}", shape.name);
    });
}

/// Catches tenants whose pieces are mixed up.
#[test]
fn each_tenant_keeps_its_own() {
    everywhere(|shape| {
        let spec = spec(shape, 64).tenant(Tenant::new(3).size("counts", 8).quota(5));
        let session = shape.launch(&spec);
        let mut producers = [session.producer(0).unwrap(), session.producer(3).unwrap()];
        count_all(&session, &mut producers[0], 0..5);
        count_all(&session, &mut producers[1], 2..7);
        lose(shape, &session);
        assert_eq!(counts(&session), counted(0..5), "{}", shape.name);
        let other = session.view::<u32>(3, "counts").unwrap().read_all().unwrap();
        assert_eq!(other, counted(2..7)[..8], "{}", shape.name);
    });
}

/// Catches tasks that run once more at every loss because an older task has not ended, although a checkpoint covers them.
#[test]
fn what_ended_before_an_older_task_runs_once_more_once() {
    in_shapes(ALL, &[Placement::Far], |shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut old = producer.submit(task(&session, "count_later", &[90, 1])).unwrap();
        until_waiting(&session);
        count_all(&session, &mut producer, 0..10);
        for (rerun, more) in [(10, 10..12), (2, 12..12), (0, 12..12)] {
            lose(shape, &session);
            assert_eq!(kept(&session).rerun, rerun, "{}", shape.name);
            until_waiting(&session);
            count_all(&session, &mut producer, more);
            assert_eq!(counts(&session), counted(0..12), "{}", shape.name);
        }
        session.view::<u32>(0, "data").unwrap().write(GO as usize, &[1]).unwrap();
        assert_eq!(old.wait(LONG), Ok(180), "{}", shape.name);
        assert_eq!(counts(&session)[90], 1, "{}", shape.name);
    });
}

/// Catches a ring that stays full because a checkpoint covers only a part of the tasks whose slots were given up together.
#[test]
fn tasks_that_are_covered_in_part_free_their_slots() {
    in_shapes(ALL, &[Placement::Far], |shape| {
        // The tasks of a window end together, so those of the first windows have ended when one of the third waits.
        let spec = spec(shape, 16);
        let spec = Spec { geometry: spec.geometry.clone().window(4), ..spec };
        let session = shape.launch(&spec);
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for wakes in [false, true] {
            let name = |at| if at == 8 { "count_later" } else { "count" };
            let tasks = (0..16).map(|at| task(&session, name(at), &[at, 1])).collect::<Vec<_>>();
            let mut span = producer.submit_all(tasks).unwrap();
            until_waiting(&session);
            until("the first tasks end", || span.result(7).is_some());
            go_on(&session);
            lose(shape, &session);
            span.wait(LONG).unwrap();
            drop(span);
            let next = match wakes {
                true => block_on(producer.submit_when_room(task(&session, "count", &[20, 1]))),
                false => producer.submit(task(&session, "count", &[20, 1])),
            };
            assert_eq!(next.unwrap().wait(LONG), Ok(40), "{}", shape.name);
            session.on_recovery(|_| Ok(()));
            session.checkpoint().unwrap();
            lose(shape, &session);
        }
        let expected: Vec<u32> = (0..COUNTS).map(|at| if at < 16 || at == 20 { 2 } else { 0 }).collect();
        assert_eq!(counts(&session), expected, "{}", shape.name);
    });
}

/// Runs a future on this thread, which is parked while it waits.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// What a producer has added to each element.
struct Added([u32; COUNTS as usize]);

/// Submits tasks of all kinds with a few in flight, and returns what they have added.
fn feed(shape: &Shape, session: &Session, mut producer: Producer, seed: u64, tasks: u32) -> Added {
    let mut random = Random(seed);
    let mut added = Added([0; COUNTS as usize]);
    let mut flights: VecDeque<(Ticket, u32, u32, bool)> = VecDeque::new();
    let mut settle = |flights: &mut VecDeque<(Ticket, u32, u32, bool)>| {
        let Some((mut ticket, at, by, drops)) = flights.pop_front() else { return };
        // A ticket that is dropped says nothing, and its task runs all the same.
        let ran = drops || !matches!(ticket.wait(LONG), Err(TaskError::Cancelled { .. }));
        added.0[at as usize] += if ran { by } else { 0 };
    };
    for _ in 0..tasks {
        let (at, by) = (random.next(COUNTS.into()) as u32, random.next(1000) as u32);
        let name = ["count", "count", "spoil", "together", "deliver"][random.next(5) as usize];
        let plain = task(session, name, &[at, by]);
        let mut ticket = match (name, random.next(4)) {
            ("count", 0) => {
                let mut packed = Packed::new();
                packed.push(Opcode::NOP, &[]).unwrap();
                packed.push(plain.op, &[at, by]).unwrap();
                producer.submit(Task::try_from(&packed).unwrap()).unwrap()
            }
            _ => producer.submit(plain.words(&[by])).unwrap(),
        };
        let chance = random.next(8);
        if chance == 0 {
            ticket.cancel();
        }
        flights.push_back((ticket, at, by, chance == 1));
        if flights.len() as u64 > random.next(24) {
            settle(&mut flights);
        }
        std::thread::sleep(Duration::from_micros(random.next(200)));
    }
    while !flights.is_empty() {
        settle(&mut flights);
    }
    assert!(session.session_end().is_none(), "{}", shape.name);
    added
}

/// Catches everything that is lost or counted twice, whatever the moment is at which the device is lost.
#[test]
fn kept_regions_equal_the_model_while_the_device_is_lost_again_and_again() {
    const PRODUCERS: u32 = 3;
    everywhere(|shape| {
        let spec = spec(shape, 32).producers(PRODUCERS);
        let (session, over) = (shape.launch(&spec), AtomicBool::new(false));
        let added: Vec<Added> = std::thread::scope(|threads| {
            let (session, over) = (&session, &over);
            let feeders: Vec<_> = (0..PRODUCERS)
                .map(|k| {
                    let producer = session.producer(0).unwrap().patience(LONG);
                    threads.spawn(move || feed(shape, session, producer, u64::from(k) + 3, 300))
                })
                .collect();
            threads.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    session.checkpoint().unwrap();
                    session.view::<u32>(0, "table").unwrap().write(0, &[1, 2]).unwrap();
                    std::thread::sleep(Duration::from_millis(7));
                }
            });
            let mut random = Random(11);
            while feeders.iter().any(|feeder| !feeder.is_finished()) {
                std::thread::sleep(Duration::from_micros(random.next(30_000)));
                let before = recovery(session).count;
                shape.device.lose();
                // Sometimes the device is lost again in the middle of the recovery, but not so often that the session gives up.
                if random.next(3) > 0 {
                    until("the session recovers", || recovery(session).count > before);
                }
            }
            over.store(true, Ordering::Relaxed);
            feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect()
        });
        session.quiesce(LONG).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for name in ["after the last task", "after one more loss"] {
            // A task that waits makes somebody look whether the device is still there.
            let nothing = producer.submit(task(&session, "count", &[0, 0])).unwrap().wait(LONG);
            assert_eq!(nothing, Ok(0), "{}", shape.name);
            let model: Vec<u32> =
                (0..COUNTS as usize).map(|at| added.iter().map(|added| added.0[at]).sum()).collect();
            assert_eq!(counts(&session), model, "{} {name}", shape.name);
            assert_eq!(session.view::<u32>(0, "table").unwrap().read(0, 2).unwrap(), [1, 2]);
            shape.device.lose();
        }
    });
}

/// A spec with a kept region, and a handler of that text which may write it.
fn with_text(class: Class, verbs: &str, body: &str) -> Spec {
    let text = format!(
        "{verbs}\nbuffer arg: [u32; 12] global read\nbuffer counts: [u32; ?] global read_write\n\n\
         fn it() -> u32 {{\n  %old = atomic_add relaxed device @counts[0], 1\n{body}\n  return %old\n}}\n"
    );
    Spec::default()
        .recovery(Recovery::On)
        .region(Region::new("counts", Type::U32, 8).kept())
        .handler("it", Handler::from_text(&text).class(class))
}

/// Catches kept regions that could not be restored, and reasons that do not name what is wrong.
#[test]
fn what_could_not_be_restored_is_refused_by_name() {
    let caps = open("cpu").unwrap().caps().clone();
    let refusal = |spec: Spec| match pelton::kernel::assemble(&spec, &caps) {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    };
    let fine = || with_text(Class::Commuting, "", "  fault 0x100");
    pelton::kernel::assemble(&fine(), &caps).unwrap();
    for class in [Class::Restart, Class::Once, Class::Idempotent] {
        let why = refusal(with_text(class, "", ""));
        assert!(why.starts_with("handler \"it\" (0x8): it may write the region \"counts\""), "{why}");
        assert!(why.contains("its class must be `commuting`"), "{why}");
    }
    for (verbs, body, named) in [
        ("import fn yield_now()", "  call yield_now()", "calls `yield_now`"),
        (
            "import fn reserve_children(%n: u32) -> u32",
            "  %r = call reserve_children(1)",
            "calls `reserve_children`",
        ),
        ("", "  %t = clock", "reads the clock"),
        ("", "  fault 3", "the codes of its faults must be constants"),
        ("", "  fault %old", "the codes of its faults must be constants"),
    ] {
        let why = refusal(with_text(Class::Commuting, verbs, body));
        assert!(why.contains("it may write the region \"counts\", which is kept"), "{why}");
        assert!(why.contains(named), "{why}");
    }
    let spawner = "import fn reserve_children(%n: u32) -> u32\nfn other() -> u32 {\n  \
                   %r = call reserve_children(1)\n  return %r\n}\n";
    let why = refusal(fine().handler("other", Handler::from_text(spawner)));
    assert!(why.contains("handler \"other\"") && why.contains("kept region beside spawned tasks"), "{why}");
    let why = refusal(Spec { recovery: Recovery::Off, ..fine() });
    assert!(why.contains("region \"counts\": only a session that recovers"), "{why}");
    let why = refusal(fine().events(1));
    assert!(why.contains("region \"counts\"") && why.contains("tasks that wait for events"), "{why}");
    let why = refusal(fine().graph_nodes(4));
    assert!(why.contains("region \"counts\"") && why.contains("nodes of graphs"), "{why}");
    let data = || fine().region(Region::new("data", Type::U32, 8).kept());
    for op in [Opcode::STORE_U32, Opcode::ATOMIC_ADD, Opcode::COMPARE_SWAP, Opcode::MEMCPY] {
        let why = refusal(data().tenant(Tenant::new(0).allow(&[Opcode::NOP, op])));
        assert!(why.starts_with(&format!("tenant 0: its mask allows {op}, which may write")), "{why}");
    }
    let allowed = Tenant::new(0).allow(&[Opcode::NOP, Opcode::LOAD_U32, Opcode::user(8).unwrap()]);
    let session = Session::launch(&open("cpu").unwrap(), &data().tenant(allowed)).unwrap();
    let wider = session.set_mask(0, u32::MAX);
    assert!(matches!(wider, Err(Error::Refused(_))), "{wider:?}");
    session.allow(0, &[Opcode::LOAD_U32]).unwrap();
}

/// Catches kernels that pay for kept regions, and sessions that keep nothing and seem to.
#[test]
fn what_is_kept_changes_no_kernel() {
    let caps = open("cpu").unwrap().caps().clone();
    let kept = with_text(Class::Commuting, "", "");
    let mut volatile = kept.clone();
    volatile.regions.iter_mut().for_each(|region| region.retention = pelton::Retention::Volatile);
    let module = |spec: &Spec| pelton::kernel::assemble(spec, &caps).unwrap().module;
    assert_eq!(*module(&kept), *module(&volatile));
    assert_ne!(kept, volatile);
    let session = Session::launch(&open("cpu").unwrap(), &volatile).unwrap();
    assert!(matches!(session.checkpoint(), Err(Error::NothingKept)));
    assert_eq!(session.snapshot().unwrap().kept, None);
}
