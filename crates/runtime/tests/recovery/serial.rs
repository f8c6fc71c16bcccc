//! Tasks that run one at a time: kept regions whose writers depend on the order survive every loss.

use std::collections::VecDeque;

use pelton::protocol::packed::Packed;
use pelton::telemetry::KeptSnapshot;
use pelton::{Class, Producer, TaskError, TaskOrder, Tenant};

use crate::load::Random;
use crate::*;

/// How many entries the kept region `log` has. Entry 0 is the number of entries that were written.
const ENTRIES: u32 = 2048;

/// Appends its argument to `log`, and gives the number of the entry.
fn append() -> Handler {
    Handler::lane_wide(|task| {
        let (f, log) = (task.body(), task.region::<u32>("log"));
        let at = f.load(log.at(0)) + 1;
        f.store(log.at(at), task.arg(0));
        f.store(log.at(0), at);
        task.finish(at);
    })
}

/// Does what [`append`] does after some time, with all lanes of a group.
fn append_together() -> Handler {
    Handler::group_wide(|group| {
        let (f, log) = (group.body(), group.region::<u32>("log"));
        let arg = group.arg(0);
        f.when(f.lane().eq(0), || {
            let at = f.load(log.at(0)) + 1;
            f.range((f.lit(0), f.lit(50), f.lit(1)), (), |_, _, ()| f.store(log.at(at), arg));
            f.store(log.at(0), at);
        });
        f.barrier();
        group.finish(f.load(log.at(0)));
    })
}

/// Appends, and ends with a fault.
fn append_and_fail() -> Handler {
    Handler::lane_wide(|task| {
        let (f, log) = (task.body(), task.region::<u32>("log"));
        let at = f.load(log.at(0)) + 1;
        f.store(log.at(at), task.arg(0));
        f.store(log.at(0), at);
        task.fault(0x123u32);
    })
}

/// A spec that runs one task at a time.
fn spec(shape: &Shape, slots: u32) -> Spec {
    let spec = shape.spec(slots);
    Spec { geometry: Geometry { groups: None, ..spec.geometry }, ..spec }
        .order(TaskOrder::Serial)
        .region(Region::new("log", Type::U32, ENTRIES).kept())
        .handler("append", append())
        .handler("together", append_together())
        .handler("fail", append_and_fail().class(Class::Once))
}

/// Runs a test on every device, in the placements that one group can serve.
fn everywhere_serial(test: impl Fn(&Shape)) {
    in_shapes(ALL, &[Placement::Near, Placement::Far], test);
}

fn log(session: &Session) -> Vec<u32> {
    let log = session.view::<u32>(0, "log").unwrap().read_all().unwrap();
    log[1..][..log[0] as usize].to_vec()
}

fn kept(session: &Session) -> KeptSnapshot {
    session.snapshot().unwrap().kept.expect("a region is kept")
}

fn lose(shape: &Shape, session: &Session) {
    let before = recovery(session).count;
    shape.device.lose();
    until_recovered(session, before + 1);
}

/// Catches tasks that run once more in another order, with groups of one lane and of several, in several rings, and of every
/// kind.
#[test]
fn tasks_run_once_more_in_the_order_in_which_they_ran() {
    everywhere_serial(|shape| {
        let spec = spec(shape, 64).producers(3).tenant(Tenant::new(1).producers(1));
        let session = shape.launch(&spec);
        let mut producers: Vec<Producer> = (0..3).map(|_| session.producer(0).unwrap()).collect();
        let mut expected = Vec::new();
        let mut random = Random(5);
        for round in 0..3 {
            for k in 0..24 {
                let producer = &mut producers[random.next(3) as usize];
                let name = ["append", "together", "fail"][random.next(3) as usize];
                let arg = round * 100 + k;
                let mut packed = Packed::new();
                packed.push(Opcode::NOP, &[]).unwrap();
                packed.push(session.opcode("append").unwrap(), &[arg]).unwrap();
                let task = match random.next(4) {
                    0 => Task::try_from(&packed).unwrap(),
                    _ => task(&session, name, &[arg]),
                };
                let end = producer.submit(task).unwrap().wait(LONG);
                expected.push(arg);
                let right = match end {
                    Ok(at) => at as usize == expected.len(),
                    Err(error) => matches!(error, TaskError::Fault(_)),
                };
                assert!(right, "{}: {end:?} of entry {}", shape.name, expected.len());
            }
            lose(shape, &session);
            assert_eq!(log(&session), expected, "{}", shape.name);
            let report = kept(&session);
            assert_eq!((report.rerun, report.difference), (24, None), "{}", shape.name);
            session.checkpoint().unwrap();
        }
    });
}

/// Submits tasks with a few in flight, and returns the argument of each that ran with the entry that it has written, if its
/// ticket was asked.
fn feed(session: &Session, mut producer: Producer, first: u32, tasks: u32) -> Vec<(u32, Option<u32>)> {
    let mut random = Random(u64::from(first) + 1);
    let mut flights: VecDeque<(Ticket, u32, bool)> = VecDeque::new();
    let mut seen = Vec::new();
    let mut settle = |flights: &mut VecDeque<(Ticket, u32, bool)>| {
        let Some((mut ticket, arg, drops)) = flights.pop_front() else { return };
        match if drops { Err(TaskError::Late) } else { ticket.wait(LONG) } {
            Ok(at) => seen.push((arg, Some(at))),
            Err(TaskError::Late | TaskError::Fault(_)) => seen.push((arg, None)),
            Err(TaskError::Cancelled { .. } | TaskError::Lost { may_have_run: true, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    for k in 0..tasks {
        let name = ["append", "append", "together", "fail"][random.next(4) as usize];
        let mut ticket = producer.submit(task(session, name, &[first + k])).unwrap();
        let chance = random.next(8);
        if chance == 0 {
            ticket.cancel();
        }
        // A task that must not begin twice may be lost, so its ticket has to be asked.
        flights.push_back((ticket, first + k, chance == 1 && name != "fail"));
        if flights.len() as u64 > random.next(16) {
            settle(&mut flights);
        }
        std::thread::sleep(Duration::from_micros(random.next(200)));
    }
    while !flights.is_empty() {
        settle(&mut flights);
    }
    seen
}

/// Catches entries that are lost, written twice or in another place than the results of tasks said, whatever the moment is at
/// which the device is lost.
#[test]
fn the_log_equals_the_results_while_the_device_is_lost_again_and_again() {
    const PRODUCERS: u32 = 3;
    everywhere_serial(|shape| {
        let session = shape.launch(&spec(shape, 32).producers(PRODUCERS));
        let seen: Vec<(u32, Option<u32>)> = std::thread::scope(|threads| {
            let session = &session;
            let feeders: Vec<_> = (0..PRODUCERS)
                .map(|k| {
                    let producer = session.producer(0).unwrap().patience(LONG);
                    threads.spawn(move || feed(session, producer, k * 1000 + 1, 150))
                })
                .collect();
            let mut random = Random(17);
            while feeders.iter().any(|feeder| !feeder.is_finished()) {
                std::thread::sleep(Duration::from_micros(random.next(30_000)));
                let before = recovery(session).count;
                shape.device.lose();
                until("the session recovers", || recovery(session).count > before);
                let report = session.snapshot().map(|snapshot| snapshot.kept.unwrap().difference);
                assert!(matches!(report, Ok(None) | Err(Error::Device(_))), "{}: {report:?}", shape.name);
            }
            feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect()
        });
        session.quiesce(LONG).unwrap();
        lose(shape, &session);
        let log = log(&session);
        let sorted = |mut args: Vec<u32>| {
            args.sort_unstable();
            args
        };
        let args = seen.iter().map(|(arg, _)| *arg).collect();
        assert_eq!(sorted(log.clone()), sorted(args), "{}", shape.name);
        for (arg, at) in seen.iter().filter_map(|(arg, at)| Some((*arg, (*at)?))) {
            assert_eq!(log[at as usize - 1], arg, "{}: entry {at}", shape.name);
        }
    });
}

/// Catches a handler whose tasks do something else when they run once more, and nobody is told.
#[test]
fn a_difference_is_reported() {
    everywhere_serial(|shape| {
        // The element of `data` is lost with the device.
        let forgetful = Handler::lane_wide(|task| {
            let (f, log) = (task.body(), task.region::<u32>("log"));
            let old = task.atomic_add(7, 1);
            f.store(log.at(task.arg(0)), old);
            task.finish(old);
        });
        let session = shape.launch(&spec(shape, 64).handler("forgetful", forgetful));
        let mut producer = session.producer(0).unwrap();
        session.view::<u32>(0, "data").unwrap().write(7, &[40]).unwrap();
        assert_eq!(producer.submit(task(&session, "append", &[5])).unwrap().wait(LONG), Ok(1));
        assert_eq!(producer.submit(task(&session, "forgetful", &[9])).unwrap().wait(LONG), Ok(40));
        lose(shape, &session);
        let difference = kept(&session).difference.expect("it differs");
        assert_eq!((&*difference.handler, difference.args[0]), ("forgetful", 9), "{}", shape.name);
        assert_eq!((&*difference.first, &*difference.again), ("with result 40", "with result 0"));
        let text = session.snapshot().unwrap().to_string();
        assert!(text.contains("a task of forgetful of tenant 0 with arguments [9, "), "{text}");
        lose(shape, &session);
        assert_eq!(kept(&session).difference, None, "{}", shape.name);
    });
}

/// Catches tasks that run side by side, although one at a time should run.
#[test]
fn one_task_runs_at_a_time() {
    everywhere_serial(|shape| {
        // Says how many others run. It is light, so whoever polls might run it.
        let brief = Handler::lane_wide(|task| {
            let f = task.body();
            let data = task.data();
            let others = f.atomic_add(Order::Relaxed, Scope::Device, data.at(3), 1u32);
            f.atomic_sub(Order::Relaxed, Scope::Device, data.at(3), 1u32);
            task.finish(others);
        });
        // The same, for longer.
        let long = Handler::lane_wide(|task| {
            let f = task.body();
            let data = task.data();
            let others = f.atomic_add(Order::Relaxed, Scope::Device, data.at(3), 1u32);
            f.range((f.lit(0), f.lit(300), f.lit(1)), (), |_, k, ()| f.store(data.at(4), k));
            f.atomic_sub(Order::Relaxed, Scope::Device, data.at(3), 1u32);
            task.finish(others);
        });
        let spec = spec(shape, 64).producers(2).handler("brief", brief).handler("long", long);
        let session = shape.launch(&spec);
        std::thread::scope(|threads| {
            for name in ["brief", "long"] {
                let mut producer = session.producer(0).unwrap().patience(LONG);
                let session = &session;
                threads.spawn(move || {
                    for _ in 0..20 {
                        let tasks = (0..8).map(|_| task(session, name, &[]));
                        let mut span = producer.submit_all(tasks.collect::<Vec<_>>()).unwrap();
                        span.wait(LONG).unwrap();
                        for at in 0..8 {
                            assert_eq!(span.result(at), Some(Ok(0)), "{}: {name}", shape.name);
                        }
                    }
                });
            }
        });
    });
}

/// Catches specs that promise an order which the kernel could not keep.
#[test]
fn what_cannot_run_one_at_a_time_is_refused() {
    let caps = open("cpu").unwrap().caps().clone();
    let fine = || {
        Spec::default()
            .recovery(Recovery::On)
            .order(TaskOrder::Serial)
            .region(Region::new("log", Type::U32, ENTRIES).kept())
            .handler("append", append())
    };
    let refusal = |spec: Spec| match pelton::kernel::assemble(&spec, &caps) {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    };
    let layout = pelton::kernel::assemble(&fine(), &caps).unwrap().layout;
    assert_eq!((layout.workers, layout.window), (1, 1));
    assert!(layout.placement() != Placement::Both);
    let two = Spec { geometry: Geometry::new(64).groups(2), ..fine() };
    assert!(refusal(two).contains("order = serial: one group runs all tasks, and the geometry"));
    assert!(refusal(fine().placement(Placement::Both)).contains("near and far rings together take two"));
    let nothing = fine().region(Region::new("log", Type::U32, ENTRIES));
    assert!(refusal(nothing).contains("no region is kept"));
    assert!(refusal(fine().order(TaskOrder::Free)).contains("its class must be `commuting`"));
    let yields = "import fn yield_now()\nbuffer log: [u32; ?] global read_write\nfn it() -> u32 {\n  \
                  store @log[0], 1\n  call yield_now()\n  return 0\n}\n";
    assert!(refusal(fine().handler("it", Handler::from_text(yields))).contains("calls `yield_now`"));
    let session = Session::launch(&open("cpu").unwrap(), &fine()).unwrap();
    assert!(session.resize(2).is_err());
}
