//! A GPU that is lost under a session, because another kernel in the same process traps while tasks are in flight.
//!
//! The driver then gives the same error to every later call of that process, so the loss happens in a child: this
//! program, started again. Without a GPU the test is ignored by name.

mod trap;

use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park_timeout, sleep, spawn};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial, run};
use pelton::device::{DeviceError, open};
use pelton::{
    Deadline, EndReason, Error, Geometry, Handler, LossReason, Opcode, Placement, Producer, Session, Spec,
    SubmitError, Task, TaskError, Tenant, Ticket,
};

/// The environment variable that tells a child what to do.
const CHILD: &str = "PELTON_LOST";
const FAR: &str = "lose far rings";
const NEAR: &str = "lose near rings";
const WORK: &str = "work";
/// A child that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How tasks end that the GPU has not finished when it is lost.
const LOST: TaskError = TaskError::Lost { reason: LossReason::Device, may_have_run: true };

/// The opcode of a task that adds to a word.
const ADD: u32 = 8;
/// The opcode of a task that stores that it runs and never ends.
const ENDLESS: u32 = 9;

/// Tests take turns, because each one loses or uses the GPU alone.
static TURN: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(CHILD) {
        match task.as_str() {
            FAR => lose(Placement::Far),
            NEAR => lose(Placement::Near),
            _ => works(),
        }
        return ExitCode::SUCCESS;
    }
    let device = open("cuda").ok();
    let has = |placement: Placement| device.as_ref().is_some_and(|on| placement.is_available(on.caps()));
    let trial = |name: &str, task: &'static str, there: bool| {
        let test = move || {
            // A process that loses its GPU must not run beside another that uses it.
            let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            child(task);
            child(WORK);
            Ok(())
        };
        Trial::test(format!("every_ticket_ends_and_a_fresh_process_works_{name}@cuda"), test)
            .with_ignored_flag(!there)
    };
    let trials = vec![trial("far", FAR, has(Placement::Far)), trial("near", NEAR, has(Placement::Near))];
    // Other processes must not notice that this one has lost the GPU.
    drop(device);
    run(&Arguments::from_args(), trials).exit_code()
}

/// Runs this program again as a child, which must succeed in time.
fn child(task: &str) {
    let program = std::env::current_exe().expect("it runs");
    let mut child: Child = Command::new(program).env(CHILD, task).spawn().expect("it runs again");
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("it is ours") {
            Some(status) => break status,
            None if start.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the child that is to {task} hangs");
            }
            None => sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success(), "the child that is to {task} ended with {status}");
}

fn op(code: u32) -> Opcode {
    Opcode::user(code).expect("it is a user's")
}

fn add() -> Task {
    Task::new(op(ADD)).args([1, 0])
}

/// A spec of two groups, which leave room for the kernel that traps. Tenant 1 is disabled, so its tasks wait.
fn spec(placement: Placement) -> Spec {
    Spec::new(Geometry::new(256).groups(2))
        .placement(placement)
        .fuel(u32::MAX)
        .tenant(Tenant::new(1).mask(0))
        .handler_at(
            op(ADD),
            "add",
            Handler::lane_wide(|slot| {
                let (by, at) = (slot.arg(0), slot.arg(1));
                let old = slot.atomic_add(at, by);
                slot.finish(old);
            }),
        )
        .handler_at(
            op(ENDLESS),
            "endless",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                slot.atomic_add(1, 1);
                f.forever::<_, ()>(f.lit(0), |_, k| {
                    slot.store(2, k);
                    k + 1
                });
            }),
        )
}

fn soon() -> Deadline {
    Deadline::after_ms(30_000)
}

/// Runs a session on a GPU that was not lost in this process.
fn works() {
    let device = open("cuda").expect("there is one");
    let session = Session::launch(&device, &spec(Placement::Far)).expect("it starts");
    let mut producer = session.producer(0).expect("it is free");
    for before in 0..100 {
        assert_eq!(producer.submit(add()).expect("there is room").wait(soon()), Ok(before));
    }
    assert_eq!(session.stop().expect("it is there").tasks_left(), 0);
}

/// Loses the GPU under a session with tasks of every kind: done, running, waiting, awaited, waited for by a thread.
fn lose(placement: Placement) {
    let device = open("cuda").expect("there is one");
    // Code is loaded only while no kernel is resident.
    let trap = trap::Trap::load();
    let session = Session::launch(&device, &spec(placement)).expect("it starts");
    let (mut producer, mut idle) = (session.producer(0).expect("free"), session.producer(1).expect("free"));
    let mut done = submit(&mut producer, add());
    assert_eq!(done.wait(soon()), Ok(0));
    let mut waiting: Vec<Ticket> = (0..10).map(|_| submit(&mut idle, add())).collect();
    let (sent, seen) = channel();
    let mut blocked = submit(&mut idle, add());
    let thread = spawn(move || sent.send(blocked.wait(Deadline::Never)));
    let mut future = Box::pin(submit(&mut idle, add()));
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut context = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut context).is_pending());
    let mut running = submit(&mut producer, Task::new(op(ENDLESS)));
    let start = Instant::now();
    while session.view::<u32>(0, "data").and_then(|view| view.read_all()).expect("it is there")[1] == 0 {
        assert!(start.elapsed() < PATIENCE, "the task never runs");
    }

    trap.launch();

    assert_eq!(running.wait(soon()), Err(LOST));
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Err(LOST)), "a thread waits for what is lost");
    thread.join().expect("it ends").expect("it was heard");
    let end = loop {
        if let Poll::Ready(end) = future.as_mut().poll(&mut context) {
            break end;
        }
        assert!(start.elapsed() < PATIENCE, "a future waits for what is lost");
        park_timeout(PATIENCE);
    };
    assert_eq!(end, Err(LOST));
    for ticket in &mut waiting {
        assert_eq!(ticket.wait(soon()), Err(LOST));
    }
    assert_eq!(done.result(), Ok(0), "what has ended keeps its result");
    assert_eq!(producer.submit(add()).err(), Some(SubmitError::Ended(EndReason::Lost(LossReason::Device))));
    assert!(matches!(session.producer(0), Err(Error::Ended(_))));
    assert!(matches!(session.quiesce(soon()), Err(Error::Ended(_))));
    // Memory on the GPU cannot be read any more, and the error says so.
    assert!(session.view::<u32>(0, "data").and_then(|view| view.read_all()).is_err());
    assert!(matches!(session.stop(), Err(Error::Device(DeviceError::Lost(_)))));
    // The GPU stays lost in this process, and opening it again says so.
    assert!(Session::launch(&device, &spec(placement)).is_err());
}

fn submit(producer: &mut Producer, task: Task) -> Ticket {
    producer.submit(task).expect("there is room")
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
