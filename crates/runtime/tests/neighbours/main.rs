//! Several sessions, and drained batches, on one device that loads code only between kernels: a GPU, or the CPU as if it were
//! such a device. Sessions make way for others, and nobody loses a task.

mod crowd;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton::device::exclusive::Exclusive;
use pelton::device::{Device, DeviceError, open};
use pelton::{
    Batch, Deadline, Drain, Error, Geometry, Handler, Placement, Producer, Region, Session, Spec, Task,
    TaskError, Ticket,
};
use pelton_ir::types::{Order, Scope, Type};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// How many groups of any kernel the CPU holds here.
const RESIDENT: u32 = 16;

/// These tests need a GPU for themselves, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes the CPU a device that loads code only between kernels.
fn exclusive_cpu() -> Arc<dyn Device> {
    Arc::new(Exclusive::new(open("cpu").unwrap(), RESIDENT))
}

/// Runs a test on every such device of this machine.
fn on_every_device(test: impl Fn(&Arc<dyn Device>)) {
    test(&exclusive_cpu());
    if let Ok(device) = open("cuda") {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        test(&device);
    }
}

/// Gives the sum of its argument and a number.
fn plus(number: u32) -> Handler {
    Handler::lane_wide(move |task| task.finish(task.arg(0) + number))
}

/// Yields as often as its second argument says, and gives the sum of its first argument and a number.
fn slow_plus(number: u32) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, count) = (task.body(), task.frame_word());
        let so_far = count.load();
        f.when(so_far.lt(task.arg(1)), || {
            count.store(so_far + 1);
            task.yield_now();
        });
        task.finish(task.arg(0) + number);
    })
    .takes_over(true)
}

/// A session of two groups with handlers that add this number. On a GPU it has a share of a few hundredths.
fn spec(number: u32) -> Spec {
    Spec::new(Geometry::new(64).groups(2))
        .placement(Placement::Far)
        .producers(2)
        .cells(16)
        .handler("plus", plus(number))
        .handler("slow", slow_plus(number))
}

/// Runs a plain task and one that yields.
fn run_both(session: &Session, producer: &mut Producer, number: u32, arg: u32) {
    let (plus, slow) = (session.opcode("plus").unwrap(), session.opcode("slow").unwrap());
    let mut slow = producer.submit(Task::new(slow).args([arg, arg % 50])).unwrap();
    let mut plus = producer.submit(Task::new(plus).args([arg])).unwrap();
    assert_eq!(plus.wait(LONG), Ok(arg + number));
    assert_eq!(slow.wait(LONG), Ok(arg + number));
}

/// Runs `work` while another thread keeps a session busy, whose results are checked. Returns how often the kernel of the session
/// was launched.
fn beside_a_busy_session(device: &Arc<dyn Device>, work: impl FnOnce(&Session)) -> u64 {
    let session = Session::launch(device, &spec(7)).unwrap();
    let quit = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let feed = threads.spawn(|| {
            let mut producer = session.producer(0).unwrap();
            let mut arg = 0;
            while !quit.load(Ordering::Relaxed) || arg < 100 {
                run_both(&session, &mut producer, 7, arg);
                arg += 1;
            }
        });
        work(&session);
        quit.store(true, Ordering::Relaxed);
        feed.join().unwrap();
    });
    let runs = session.snapshot().unwrap().runs;
    assert_eq!(session.stop().unwrap().tasks_left(), 0);
    runs
}

#[test]
fn a_session_makes_way_for_others_that_are_launched_and_handed_over() {
    on_every_device(|device| {
        let runs = beside_a_busy_session(device, |_| {
            for number in 100..104 {
                let other = Session::launch(device, &spec(number)).unwrap();
                let mut producer = other.producer(0).unwrap();
                run_both(&other, &mut producer, number, 5);
                other.replace("plus", plus(number + 50), Deadline::Now).unwrap();
                let plus = other.opcode("plus").unwrap();
                let mut ticket = producer.submit(Task::new(plus).args([1])).unwrap();
                assert_eq!(ticket.wait(LONG), Ok(number + 51));
                assert_eq!(other.stop().unwrap().tasks_left(), 0);
            }
        });
        assert!(runs > 1, "{runs}: the session has made way");
    });
}

/// A session that has nothing to do has only its reaper to make way, which sleeps.
#[test]
fn an_idle_session_makes_way_too() {
    on_every_device(|device| {
        let idle = Session::launch(device, &spec(1)).unwrap();
        let other = Session::launch(device, &spec(2)).unwrap();
        run_both(&other, &mut other.producer(0).unwrap(), 2, 3);
        run_both(&idle, &mut idle.producer(0).unwrap(), 1, 3);
        assert_eq!(idle.snapshot().unwrap().runs, 2);
        assert_eq!(other.snapshot().unwrap().runs, 1);
    });
}

#[test]
fn batches_are_drained_beside_a_session() {
    on_every_device(|device| {
        beside_a_busy_session(device, |_| {
            for number in 0..3 {
                let spec = Spec::new(Geometry::new(256).groups(2)).handler("plus", plus(number));
                let mut drain = Drain::new(device, &spec).unwrap();
                let plus = drain.opcode("plus").unwrap();
                let mut batch = Batch::new();
                for arg in 0..1000 {
                    batch.push(0, Task::new(plus).args([arg])).unwrap();
                }
                let readback = drain.run(&batch).unwrap();
                let results = readback.outcomes().into_iter().flatten();
                assert!(results.zip(0..).all(|(result, arg)| result == Ok(arg + number)));
            }
        });
    });
}

/// A session makes way while it waits for tasks that a hand-over must not interrupt, and while its own hand-over compiles.
#[test]
fn a_session_makes_way_while_it_waits_to_be_handed_over() {
    on_every_device(|device| {
        let session = Session::launch(device, &spec(1)).unwrap();
        let mut producer = session.producer(0).unwrap();
        let slow = session.opcode("slow").unwrap();
        // A task that the new version does not take over, until it ends.
        let mut long = producer.submit(Task::new(slow).args([1, u32::MAX])).unwrap();
        std::thread::scope(|threads| {
            let replaced = threads.spawn(|| session.replace("slow", slow_plus(3).takes_over(false), LONG));
            let other = Session::launch(device, &spec(2)).unwrap();
            run_both(&other, &mut other.producer(0).unwrap(), 2, 3);
            long.cancel();
            assert!(long.wait(LONG).is_err());
            replaced.join().unwrap().unwrap();
        });
        let mut ticket = producer.submit(Task::new(slow).args([1, 5])).unwrap();
        assert_eq!(ticket.wait(LONG), Ok(4));
    });
}

#[test]
fn a_session_keeps_its_room_while_others_come_and_go() {
    let device = exclusive_cpu();
    let sized = |groups| Spec { geometry: Geometry::new(64).groups(groups), ..spec(1) };
    let session = Session::launch(&device, &sized(9)).unwrap();
    let groups = session.layout().groups;
    assert!(groups > RESIDENT / 2);
    let refused = Session::launch(&device, &sized(9)).unwrap_err();
    assert!(matches!(refused, Error::Device(DeviceError::Busy { .. })), "{refused}");
    assert!(refused.to_string().contains("share"), "{refused}");
    let other = Session::launch(&device, &sized(RESIDENT - groups - 1)).unwrap();
    // There is no room for more, which a session finds out in the pause. It goes on as it was.
    let refused = session.resize(12).unwrap_err();
    assert!(matches!(refused, Error::Device(DeviceError::Busy { .. })), "{refused}");
    assert_eq!(session.layout().workers, 9);
    run_both(&session, &mut session.producer(0).unwrap(), 1, 30);
    // What a session gives back is free for others.
    session.resize(4).unwrap();
    other.resize(8).unwrap();
    run_both(&other, &mut other.producer(0).unwrap(), 1, 30);
    drop(session);
    other.resize(12).unwrap();
    let third = Session::launch(&device, &sized(1)).unwrap();
    run_both(&third, &mut third.producer(0).unwrap(), 1, 30);
}

/// A kernel that nobody can ask keeps others from loading, and the sessions beside it are not disturbed for that.
#[test]
fn a_load_that_cannot_be_made_disturbs_nobody() {
    use pelton::device::Launch;
    let stays = "
        kernel stays {
          forever {
            backoff 1000
          }
        }
    ";
    on_every_device(|device| {
        let module = pelton::ir::valid::validate(pelton::ir::text::parse(stays).unwrap()).unwrap();
        let stays = device.load(&module, None, 1).unwrap();
        let session = Session::launch(device, &spec(1)).unwrap();
        let launched = stays.launch(&Launch::new(1)).unwrap();
        let refused = Session::launch(device, &spec(2)).unwrap_err();
        assert!(matches!(refused, Error::Device(DeviceError::Busy { .. })), "{refused}");
        run_both(&session, &mut session.producer(0).unwrap(), 1, 30);
        assert_eq!(session.snapshot().unwrap().runs, 1);
        launched.stop();
        launched.wait(None).unwrap();
        assert!(Session::launch(device, &spec(2)).is_ok());
        run_both(&session, &mut session.producer(0).unwrap(), 1, 30);
        assert_eq!(session.snapshot().unwrap().runs, 2);
    });
}

/// Sets element 3 of `data`, and works until element 1 is set.
fn until_told() -> Handler {
    Handler::lane_wide(|task| {
        let (f, data) = (task.body(), task.data());
        f.atomic_store(Order::Relaxed, Scope::System, data.at(3), 1u32);
        f.forever::<_, ()>(f.lit(1), |turns, x| {
            let told = f.atomic_load(Order::Relaxed, Scope::System, data.at(1));
            f.when(told.ne(0), || turns.leave(()));
            // A short loop takes no fuel, so the fuel lasts for long.
            let x = f.range((0u32, 100u32, 1u32), x, |_, k, x| x * 5 + k);
            f.store(data.at(2), x);
            x
        });
        task.finish(9);
    })
}

/// A session in which one task works until it is told, which it has begun, and the ticket of the task.
fn launch_busy(device: &Arc<dyn Device>, spec: Spec) -> (Session, Ticket) {
    let spec = spec.fuel(u32::MAX).region(Region::new("data", Type::U32, 16)).handler("works", until_told());
    let session = Session::launch(device, &spec).unwrap();
    let works = Task::new(session.opcode("works").unwrap());
    let ticket = session.producer(0).unwrap().submit(works).unwrap();
    while session.view::<u32>(0, "data").unwrap().read(3, 1).unwrap() == [0] {
        std::thread::yield_now();
    }
    (session, ticket)
}

fn tell(session: &Session) {
    session.view::<u32>(0, "data").unwrap().write(1, &[1]).unwrap();
}

/// Catches a session that waits for the tasks of another one when it is used or stopped, because both make way at the time.
#[test]
fn nobody_waits_for_the_tasks_of_a_neighbour() {
    let device = exclusive_cpu();
    let idle = Session::launch(&device, &spec(2)).unwrap();
    let mut producer = idle.producer(0).unwrap();
    let (busy, mut works) = launch_busy(&device, spec(1));
    run_both(&idle, &mut producer, 2, 3);
    let runs = idle.snapshot().unwrap().runs;
    std::thread::scope(|threads| {
        let other = threads.spawn(|| Session::launch(&device, &spec(3)).map(drop));
        while idle.snapshot().unwrap().runs == runs {
            std::thread::yield_now();
        }
        // The idle session has made way and waits for the load, which waits for the busy one.
        let plus = idle.opcode("plus").unwrap();
        let mut ticket = producer.submit(Task::new(plus).args([1])).unwrap();
        assert_eq!(ticket.wait(Duration::from_millis(10)), Err(TaskError::Late));
        drop((ticket, producer));
        assert_eq!(idle.stop().unwrap().tasks_left(), 1);
        tell(&busy);
        other.join().unwrap().unwrap();
    });
    assert_eq!(works.wait(LONG), Ok(9));
}

/// Catches a kernel whose lease ends because the thread that renews it waits for the kernel's tasks.
#[test]
fn a_session_makes_way_after_tasks_that_take_longer_than_its_lease() {
    let (device, lease) = (exclusive_cpu(), Duration::from_millis(200));
    let (busy, mut works) = launch_busy(&device, spec(1).lease(lease));
    std::thread::scope(|threads| {
        let other = threads.spawn(|| Session::launch(&device, &spec(3)).map(drop));
        std::thread::sleep(4 * lease);
        tell(&busy);
        other.join().unwrap().unwrap();
    });
    assert_eq!(works.wait(LONG), Ok(9));
    assert!(busy.session_end().is_none());
}

/// Catches a stop that waits until a kernel has made way, however long its tasks take.
#[test]
fn a_session_that_makes_way_can_be_stopped() {
    let device = exclusive_cpu();
    let (busy, mut works) = launch_busy(&device, spec(1));
    std::thread::scope(|threads| {
        let other = threads.spawn(|| Session::launch(&device, &spec(3)).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        let stopped = busy.stop_within(Duration::from_millis(50)).unwrap();
        assert!(stopped.forced, "{stopped:?}");
        other.join().unwrap().unwrap();
    });
    assert!(matches!(works.wait(LONG), Err(TaskError::Stopped { .. })));
}

/// Catches room that stays reserved for a session that has ended by itself.
#[test]
fn a_lost_session_leaves_its_room_to_the_next() {
    let traps = Handler::lane_wide(|task| task.body().trap(7)).may_trap();
    let spec = || spec(1).handler("traps", traps.clone());
    let groups = Session::launch(&open("cpu").unwrap(), &spec()).unwrap().layout().groups;
    let device: Arc<dyn Device> = Arc::new(Exclusive::new(open("cpu").unwrap(), groups));
    let lost = Session::launch(&device, &spec()).unwrap();
    let traps = Task::new(lost.opcode("traps").unwrap());
    assert!(lost.producer(0).unwrap().submit(traps).unwrap().wait(LONG).is_err());
    assert!(lost.session_end().is_some());
    let next = Session::launch(&device, &spec()).unwrap();
    run_both(&next, &mut next.producer(0).unwrap(), 1, 3);
}
