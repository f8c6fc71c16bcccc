//! Tests of resumable tasks in sessions, on every device of this machine and in every placement.

mod carrying;
#[path = "../countdown/mod.rs"]
mod countdown;
#[path = "../everywhere/mod.rs"]
mod everywhere;
mod sharing;
mod telling;

use std::time::Duration;

use pelton::device::open;
use pelton::kernel::Handler;
use pelton::{
    Claim, Deadline, Geometry, Opcode, Placement, Session, Spec, SubmitError, Task, TaskError, TaskState,
    Ticket,
};

use crate::countdown::{countdown, countdown_result, group_countdown};
use crate::everywhere::{LONG, devices, everywhere};

#[test]
fn tasks_that_yield_end_with_their_results() {
    let spec = |spec: Spec| {
        spec.cells(64)
            .handler("countdown", countdown())
            .handler("group", group_countdown())
            .handler("plain", Handler::lane_wide(|task| task.finish(task.arg(0) + 1)))
    };
    everywhere(spec, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for lap in 0..3u32 {
            let mut tickets = Vec::new();
            for k in 0..60u32 {
                let (times, name) = ((k * 7 + lap) % 23, ["countdown", "plain", "group"][k as usize % 3]);
                let right = if name == "plain" { times + 1 } else { countdown_result(times, k) };
                tickets.push((producer.submit(Task::new(op(name)).args([times, k])).unwrap(), right));
            }
            for (ticket, right) in &mut tickets {
                assert_eq!(ticket.wait(LONG), Ok(*right), "{shape}");
            }
        }
        session.quiesce(LONG).unwrap();
    });
}

/// Counts its steps in an element of `data`, and yields for ever.
fn forever() -> Handler {
    Handler::lane_wide(|task| {
        task.atomic_add(task.arg(0), 1u32);
        task.yield_now();
    })
}

/// Counts its steps in an element of `data`, waits for the host once, and gives its second argument.
fn waits() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| {
            task.atomic_add(task.arg(0), 1u32);
            task.park_then(1);
        });
        task.atomic_add(task.arg(0), 1u32);
        task.finish(task.arg(1));
    })
}

fn with_handlers(spec: Spec) -> Spec {
    spec.cells(32)
        .handler("countdown", countdown())
        .handler("forever", forever())
        .handler("waits", waits())
        .handler("group", group_countdown())
        .handler("plain", Handler::lane_wide(|task| task.finish(task.arg(0) + 1)))
}

/// Waits until an element of `data` has at least this value, and returns it.
fn wait_for(session: &Session, at: usize, least: u32) -> u32 {
    let start = std::time::Instant::now();
    loop {
        let value = session.view::<u32>(0, "data").unwrap().read(at, 1).unwrap()[0];
        if value >= least {
            return value;
        }
        assert!(start.elapsed() < LONG, "element {at} stays at {value}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn steps_of(end: Result<u32, TaskError>) -> u32 {
    match end {
        Err(TaskError::Cancelled { steps }) => steps,
        end => panic!("the task was not cancelled: {end:?}"),
    }
}

#[test]
fn a_task_can_be_cancelled_in_every_phase() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        // While it yields.
        let mut ticket = producer.submit(Task::new(op("forever")).args([1])).unwrap();
        let seen = wait_for(session, 1, 10);
        assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}");
        ticket.cancel();
        let steps = steps_of(ticket.wait(LONG));
        assert!(steps >= seen, "{shape}: {steps} steps, and {seen} were seen");
        assert_eq!(wait_for(session, 1, 0), steps, "{shape}: every step that began is counted");
        // While it waits for the host.
        let mut ticket = producer.submit(Task::new(op("waits")).args([2, 7])).unwrap();
        wait_for(session, 2, 1);
        ticket.cancel();
        assert_eq!(steps_of(ticket.wait(LONG)), 1, "{shape}");
        // While it is paused.
        let mut ticket = producer.submit(Task::new(op("forever")).args([3])).unwrap();
        wait_for(session, 3, 1);
        ticket.pause();
        ticket.cancel();
        assert!(steps_of(ticket.wait(LONG)) >= 1, "{shape}");
        // Before it began: the ask may come before or after the task is adopted.
        for _ in 0..50 {
            let mut ticket = producer.submit(Task::new(op("forever")).args([4])).unwrap();
            ticket.cancel();
            steps_of(ticket.wait(LONG));
        }
        // After it ended: nothing happens, neither to it nor to the next task of its cell.
        for k in 0..50 {
            let mut ticket = producer.submit(Task::new(op("countdown")).args([2, k])).unwrap();
            assert_eq!(ticket.wait(LONG), Ok(3 + k), "{shape}");
            ticket.cancel();
            assert_eq!(ticket.result(), Ok(3 + k), "{shape}");
        }
        session.quiesce(LONG).unwrap();
    });
}

#[test]
fn a_paused_task_begins_no_step_until_it_is_resumed() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let mut ticket = producer.submit(Task::new(op("forever")).args([1])).unwrap();
        let mut before = wait_for(session, 1, 5);
        ticket.pause();
        let mut others = |count: u32| {
            for _ in 0..count {
                let mut other = producer.submit(Task::new(op("countdown")).args([100, 0])).unwrap();
                assert_eq!(other.wait(LONG), Ok(5050), "{shape}");
            }
            wait_for(session, 1, 0)
        };
        // It takes a moment until the task is paused.
        loop {
            let now = others(1);
            if now == before {
                break;
            }
            before = now;
        }
        assert_eq!(others(5), before, "{shape}: a paused task took a step");
        ticket.resume();
        wait_for(session, 1, before + 5);
        ticket.cancel();
        steps_of(ticket.wait(LONG));
    });
}

#[test]
fn a_task_that_waits_goes_on_when_it_is_resumed() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for k in 0..20u32 {
            let mut ticket = producer.submit(Task::new(op("waits")).args([10 + k, k])).unwrap();
            if k % 2 == 0 {
                wait_for(session, 10 + k as usize, 1);
            }
            // Before it waits, while it waits, or before it is adopted: no resume is lost.
            ticket.resume();
            assert_eq!(ticket.wait(LONG), Ok(k), "{shape}");
            assert_eq!(wait_for(session, 10 + k as usize, 0), 2, "{shape}");
        }
    });
}

#[test]
fn dropping_tickets_gives_their_cells_back() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        // Far more tasks than cells: each drop lets a cell be used again once its task has ended.
        for k in 0..300u32 {
            drop(producer.submit(Task::new(op("countdown")).args([k % 5, 0])).unwrap());
        }
        session.quiesce(LONG).unwrap();
        // A ticket that is held holds its cell.
        producer.set_patience(Deadline::Now);
        let held: Vec<_> =
            (0..32).map(|_| producer.submit(Task::new(op("countdown")).args([0, 0])).unwrap()).collect();
        let full = producer.submit(Task::new(op("countdown")).args([0, 0]));
        assert_eq!(full.err(), Some(SubmitError::NoCells { free: 0, wanted: 1 }), "{shape}");
        let many = producer.submit_all([Task::new(op("countdown")); 33]);
        assert_eq!(many.err(), Some(SubmitError::TooManyResumable { wanted: 33, cells: 32 }), "{shape}");
        let mut plain = producer.submit(Task::new(op("plain")).args([4])).unwrap();
        assert_eq!(plain.wait(LONG), Ok(5), "{shape}: plain tasks go on");
        drop(held);
        producer.set_patience(LONG);
        let mut next = producer.submit(Task::new(op("countdown")).args([1, 0])).unwrap();
        assert_eq!(next.wait(LONG), Ok(1), "{shape}");
        // A producer that is taken again has the same cells.
        drop((producer, next));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let mut span = producer.submit_all([Task::new(op("countdown")).args([3, 1]); 32]).unwrap();
        assert_eq!(span.wait(LONG).unwrap().done, 32, "{shape}");
    });
}

#[test]
fn spans_hold_tasks_of_both_kinds_in_order() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for lap in 0..20u32 {
            let name = |k: u32| ["countdown", "plain", "countdown", "group"][(k + lap) as usize % 4];
            let tasks = (0..30).map(|k| Task::new(op(name(k))).args([(k + lap) % 7, k]));
            let right: Vec<u32> = (0..30)
                .map(|k| match name(k) {
                    "plain" => (k + lap) % 7 + 1,
                    _ => countdown_result((k + lap) % 7, k),
                })
                .collect();
            let mut span = producer.submit_all(tasks).unwrap();
            assert_eq!(span.len(), 30);
            assert_eq!(span.wait(LONG).unwrap().done, 30, "{shape}");
            let results: Vec<u32> = span.results().map(Result::unwrap).collect();
            assert_eq!(results, right, "{shape} lap {lap}");
            let mut copied = [0; 30];
            span.read_results(&mut copied);
            assert_eq!(copied[..], right[..], "{shape} lap {lap}");
        }
    });
}

#[test]
fn a_fence_waits_for_the_resumable_tasks_before_it() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        for lap in 0..30u32 {
            let count = 1 + lap % 8;
            let tasks = (0..count).map(|k| Task::new(op("countdown")).args([20 + k * lap % 50, k]));
            let fence = Task::new(Opcode::BATCH_FENCE).args([count, lap]);
            let tasks: Vec<Task> = tasks.chain([fence]).collect();
            let span = producer.submit_all(tasks).unwrap();
            let index = count as usize;
            while span.result(index) == Some(Err(TaskError::Late)) {
                std::hint::spin_loop();
            }
            // The fence has ended, so everything before it has.
            for k in 0..index {
                let end = span.result(k).unwrap();
                assert!(end.is_ok(), "{shape}: task {k} of {count} is {end:?} when its fence has ended");
            }
        }
        // A fence behind a task that waits for the host waits too, and what comes after it does not.
        let fence = Task::new(Opcode::BATCH_FENCE).args([1, 0]);
        let mut span = producer.submit_all([Task::new(op("waits")).args([40, 9]), fence]).unwrap();
        wait_for(session, 40, 1);
        for k in 0..20 {
            let mut later = producer.submit(Task::new(op("plain")).args([k])).unwrap();
            assert_eq!(later.wait(LONG), Ok(k + 1), "{shape}");
        }
        assert_eq!(span.result(1), Some(Err(TaskError::Late)), "{shape}: the fence did not wait");
        span.cancel();
        assert_eq!(span.wait(LONG).unwrap().cancelled, 1, "{shape}");
        assert!(span.result(1).unwrap().is_ok(), "{shape}: the fence ends when the task is cancelled");
        assert_eq!(session.epoch().unwrap(), 31, "{shape}");
    });
}

#[test]
fn rings_go_on_while_tasks_wait_for_ever_and_a_stop_ends_these() {
    for device in devices() {
        for placement in [Placement::Near, Placement::Far] {
            let spec =
                with_handlers(Spec::new(Geometry::new(64).groups(2)).placement(placement)).producers(8);
            let session = match Session::launch(&device, &spec) {
                Ok(session) => session,
                Err(error) if error.to_string().contains("placement") => continue,
                Err(error) => panic!("{error}"),
            };
            let shape = format!("{} {placement:?}", device.caps().name);
            let op = |name| session.opcode(name).unwrap();
            let mut producers: Vec<_> = (0..8).map(|_| session.producer(0).unwrap().patience(LONG)).collect();
            let mut waiting: Vec<_> = producers
                .iter_mut()
                .map(|producer| producer.submit(Task::new(op("waits")).args([5, 0])).unwrap())
                .collect();
            let laps = if device.caps().name.starts_with("reference") { 5 } else { 100 };
            for _ in 0..laps {
                for producer in &mut producers {
                    let mut span = producer.submit_all([Task::new(op("plain")).args([1]); 64]).unwrap();
                    assert_eq!(span.wait(LONG).unwrap().done, 64, "{shape}");
                }
            }
            let late = session.quiesce(Duration::from_millis(20));
            assert!(matches!(late, Err(pelton::Error::Late { left: 8 })), "{shape}: {late:?}");
            drop(producers);
            let report = session.stop().unwrap();
            assert_eq!((report.tasks_left(), report.cells_left), (8, 8), "{shape}");
            for ticket in &mut waiting {
                assert_eq!(ticket.wait(LONG), Err(TaskError::Stopped { steps: 1 }), "{shape}");
            }
        }
    }
}

#[test]
fn a_requeue_changes_the_level_and_nothing_is_lost() {
    let mover = Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load();
        turn.store(now + 1);
        f.when(now.lt(task.arg(0)), || task.requeue(now % 5));
        task.finish(now);
    });
    let spec = |spec: Spec| spec.claim(Claim::PRIORITY).cells(256).handler("mover", mover.clone());
    everywhere(spec, |session, shape| {
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let op = session.opcode("mover").unwrap();
        let mut span = producer.submit_all((0..200).map(|k| Task::new(op).args([k % 17]))).unwrap();
        assert_eq!(span.wait(LONG).unwrap().done, 200, "{shape}");
        assert!(span.results().zip(0..).all(|(end, k)| end == Ok(k % 17)), "{shape}");
    });
}

#[test]
fn the_tasks_of_many_producers_keep_apart() {
    for device in devices() {
        let spec = with_handlers(Spec::default()).cells(128).producers(4);
        let session = Session::launch(&device, &spec).unwrap();
        let op = session.opcode("countdown").unwrap();
        let laps = if device.caps().name.starts_with("reference") { 3 } else { 40 };
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let mut producer = session.producer(0).unwrap().patience(LONG);
                scope.spawn(move || {
                    for lap in 0..laps {
                        let task = |k: u32| Task::new(op).args([(k * 3 + lap) % 40, thread << 20 | k]);
                        let mut span = producer.submit_all((0..100).map(task)).unwrap();
                        assert_eq!(span.wait(LONG).unwrap().done, 100);
                        for (end, k) in span.results().zip(0..) {
                            assert_eq!(end, Ok(countdown_result((k * 3 + lap) % 40, thread << 20 | k)));
                        }
                    }
                });
            }
        });
        session.quiesce(LONG).unwrap();
    }
}

#[test]
fn the_host_sees_where_tasks_are() {
    everywhere(with_handlers, |session, shape| {
        let op = |name| session.opcode(name).unwrap();
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let mut ended = producer.submit(Task::new(op("countdown")).args([5, 0])).unwrap();
        assert_eq!(ended.wait(LONG), Ok(15), "{shape}");
        assert_eq!(session.task_state(&mut ended).unwrap(), TaskState::Ended, "{shape}");
        let mut waits = producer.submit(Task::new(op("waits")).args([5, 0])).unwrap();
        let mut runs = producer.submit(Task::new(op("forever")).args([6])).unwrap();
        let mut paused = producer.submit(Task::new(op("forever")).args([7])).unwrap();
        paused.pause();
        let reached = |ticket: &mut Ticket, state| {
            let start = std::time::Instant::now();
            while session.task_state(ticket).unwrap() != state {
                assert!(start.elapsed() < LONG, "{shape}: the task never is {state:?}");
            }
        };
        reached(&mut waits, TaskState::Waiting);
        reached(&mut runs, TaskState::Runnable);
        reached(&mut paused, TaskState::Paused);
        let snapshot = session.snapshot().unwrap();
        let cells = snapshot.cells.as_ref().unwrap();
        assert_eq!((cells.total, cells.used), (32, 3), "{shape}");
        assert_eq!((cells.runnable, cells.waiting, cells.paused), (1, 1, 1), "{shape}");
        assert!(cells.oldest.is_some(), "{shape}: {cells}");
        assert!(snapshot.to_string().contains("cells      3 of 32 used"), "{snapshot}");
        for ticket in [&mut waits, &mut runs, &mut paused] {
            ticket.cancel();
            steps_of(ticket.wait(LONG));
        }
        // The steps of a round are counted a moment after its records are posted.
        let start = std::time::Instant::now();
        loop {
            let steps = session.snapshot().unwrap().cells.unwrap().steps;
            if steps.parks == 1 && steps.begun == steps.yields + steps.parks + 1 {
                break;
            }
            assert!(start.elapsed() < LONG, "{shape}: {steps}");
        }
    });
}

/// An iterator whose length is not what it says: it yields tasks for as long as `left` is not 0.
#[derive(Clone)]
struct WrongLength {
    task: Task,
    says: usize,
    left: usize,
}

impl Iterator for WrongLength {
    type Item = Task;
    fn next(&mut self) -> Option<Task> {
        self.left = self.left.checked_sub(1)?;
        Some(self.task)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.says, Some(self.says))
    }
}

impl ExactSizeIterator for WrongLength {}

#[test]
fn iterators_that_say_a_wrong_length_hang_and_panic_nowhere() {
    let device = open("cpu").unwrap();
    let session = Session::launch(&device, &with_handlers(Spec::default())).unwrap();
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let task = Task::new(session.opcode("countdown").unwrap()).args([2, 0]);
    for (says, left, right) in [(0, usize::MAX, 0), (3, usize::MAX, 3), (3, 1, 1), (0, 0, 0), (2, 2, 2)] {
        let mut span = producer.submit_all(WrongLength { task, says, left }).unwrap();
        assert_eq!(span.len(), right, "it says {says} and yields {left}");
        assert_eq!(span.wait(LONG).unwrap().done as usize, right);
    }
}
