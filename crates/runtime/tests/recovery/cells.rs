//! Tasks that take several steps, make others, and wait for events: they begin again from the start.

use std::sync::atomic::{AtomicBool, Ordering};

use pelton::graph::{Graph, NodeArg};
use pelton::kernel::handler_trees::Child;
use pelton::{Class, LossReason, Producer, TaskError, TaskState};

use crate::countdown::{countdown, countdown_result, group_countdown};
use crate::fibonacci::{fib, fib_result};
use crate::load::Random;
use crate::*;

const LOST: TaskError = TaskError::Lost { reason: LossReason::Device, may_have_run: true };

/// Says that it runs, waits for the host twice, and gives twice its argument and the number of steps that its frame has
/// counted, of which there are two more.
fn parks() -> Handler {
    Handler::lane_wide(|task| {
        let (f, data, steps) = (task.body(), task.data(), task.frame_word());
        for next in 1..3u32 {
            task.step(|| {
                steps.store(steps.load() + 1u32);
                f.atomic_add(Order::Relaxed, Scope::Device, data.at(WAITING), 1u32);
                task.park_then(next);
            });
        }
        task.finish(task.arg(0) * 2 + steps.load());
    })
}

/// Spawns a task of the handler with the opcode in its second argument, and gives its result.
fn spawns() -> Handler {
    Handler::lane_wide(|task| {
        let (f, result) = (task.body(), task.frame_word());
        task.step(|| {
            let room = task.reserve_children(1);
            f.when(!room, || task.fault(0x200));
            task.spawn(Child::with_opcode(&task, task.arg(1)).result_into(result).args([task.arg(0)]));
            task.wait_children();
        });
        task.finish(result.load());
    })
}

/// Waits for the event and the count in its first two arguments, and gives the third.
fn waits() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| task.wait_event(task.arg(0), task.arg(1)));
        task.finish(task.arg(2));
    })
}

/// Signals the event in its first argument once, and ends.
fn signals() -> Handler {
    Handler::lane_wide(|task| {
        task.signal(task.arg(0), 1u32);
        task.finish(0);
    })
}

/// A spec with everything that lives in cells.
fn spec(shape: &Shape, slots: u32) -> Spec {
    shape
        .spec(slots)
        .cells(64)
        .spawn_cells(128)
        .events(4)
        .graph_nodes(8)
        .handler("countdown", countdown())
        .handler("group_countdown", group_countdown())
        .handler("parks", parks())
        .handler("parks_once", parks().class(Class::Once))
        .handler("spawns", spawns())
        .handler("fib", fib())
        .handler("waits", waits())
        .handler("signals", signals())
        .handler("once", mark().class(Class::Once))
}

/// (a + b) × 2, by nodes of which one waits until it may go on.
fn graph() -> Graph {
    let mut graph = Graph::new("sum", 2);
    let first = graph.node("first", "mark", [NodeArg::Parameter(0)]);
    let second = graph.node("second", "wait", [NodeArg::Parameter(1)]);
    let sum = graph.node("sum", "countdown", [0.into(), first.into()]);
    graph.edge(second, sum);
    graph
}

/// Waits until so many tasks of [`parks`] wait for the host.
fn until_parked(session: &Session, count: u64) {
    until("tasks are parked", || {
        session.snapshot().is_ok_and(|now| now.cells.is_some_and(|cells| cells.waiting == count))
    });
}

/// Resumes a task whenever it waits for the host, until it has ended.
fn resume_until_ended(session: &Session, ticket: &mut Ticket) {
    until("the task ends", || {
        if session.task_state(ticket).is_ok_and(|state| state == TaskState::Waiting) {
            ticket.resume();
        }
        ticket.result() != Err(TaskError::Late)
    });
}

/// Catches a task that is lost with its cell, goes on in the middle with an empty frame, or ends twice.
#[test]
fn a_task_that_has_taken_steps_begins_again() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut done = producer.submit(task(&session, "countdown", &[5, 7])).unwrap();
        assert_eq!(done.wait(LONG), Ok(countdown_result(5, 7)), "{}", shape.name);
        let mut parked: Vec<Ticket> = (1..4).map(|at| submit(&session, &mut producer, "parks", at)).collect();
        until_parked(&session, 3);
        for losses in 1..3 {
            shape.device.lose();
            until_recovered(&session, losses);
            until_parked(&session, 3);
        }
        for (at, ticket) in (1..4).zip(&mut parked) {
            assert_eq!(ticket.result(), Err(TaskError::Late), "{}", shape.name);
            resume_until_ended(&session, ticket);
            assert_eq!(ticket.wait(LONG), Ok(at * 2 + 2), "{}", shape.name);
        }
        assert_eq!(done.result(), Ok(countdown_result(5, 7)), "{}", shape.name);
        let last = recovery(&session).last.unwrap();
        assert_eq!((last.lost, last.unfinished), (0, 3), "{}", shape.name);
    });
}

/// Catches a resume that is forgotten, so that the task waits for ever for one that the host has given already.
#[test]
fn what_the_host_has_asked_holds_after_a_loss() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let mut tickets: Vec<Ticket> =
            (0..5).map(|at| submit(&session, &mut producer, "parks", at)).collect();
        until_parked(&session, 5);
        let [untouched, resumed, paused, cancelled, ended] = &mut tickets[..] else { unreachable!() };
        resumed.resume();
        paused.pause();
        until_waiting(&session);
        // It is cancelled only after the loss was noticed, or before: either way it never goes on.
        shape.device.lose();
        cancelled.cancel();
        ended.resume();
        assert_eq!(cancelled.wait(LONG), Err(TaskError::Cancelled { steps: 0 }), "{}", shape.name);
        until_recovered(&session, 1);
        until_parked(&session, 3);
        assert_eq!(session.task_state(paused).unwrap(), TaskState::Paused, "{}", shape.name);
        for ticket in [&mut *resumed, &mut *ended] {
            assert_eq!(ticket.result(), Err(TaskError::Late), "{}: it waits twice", shape.name);
            ticket.resume();
        }
        assert_eq!(resumed.wait(LONG), Ok(4), "{}", shape.name);
        assert_eq!(ended.wait(LONG), Ok(10), "{}", shape.name);
        paused.resume();
        resume_until_ended(&session, untouched);
        resume_until_ended(&session, paused);
        assert_eq!(untouched.wait(LONG), Ok(2), "{}", shape.name);
        assert_eq!(paused.wait(LONG), Ok(6), "{}", shape.name);
    });
}

/// Catches a task that begins twice although it must not, a tree whose root begins again although one of its tasks must not,
/// and a task that ends as lost although nothing of it has begun.
#[test]
fn a_tree_with_a_task_that_must_not_begin_twice_ends_as_lost() {
    everywhere(|shape| {
        let spec = spec(shape, 64).handler("wait_once", wait_for_go().class(Class::Once));
        let session = shape.launch(&spec);
        let mut producer = session.producer(0).unwrap();
        let op = |name: &str| session.opcode(name).unwrap().code();
        let mut parked = submit(&session, &mut producer, "parks_once", 1);
        until_parked(&session, 1);
        let mut tree = producer.submit(task(&session, "spawns", &[2, op("wait_once")])).unwrap();
        until("the child waits", || element(&session, WAITING) == 2);
        let mut later = producer.submit(task(&session, "parks_once", &[3]).after(0, 1)).unwrap();
        go_on(&session);
        shape.device.lose();
        assert_eq!(parked.wait(LONG), Err(LOST), "{}", shape.name);
        assert_eq!(tree.wait(LONG), Err(LOST), "{}", shape.name);
        until_recovered(&session, 1);
        assert_eq!(recovery(&session).last.unwrap().lost, 2, "{}", shape.name);
        session.signal(0, 0, 1).unwrap();
        resume_until_ended(&session, &mut later);
        assert_eq!(later.wait(LONG), Ok(8), "{}", shape.name);
        // The cells are used again.
        for at in 0..200 {
            let end = producer.submit(task(&session, "countdown", &[2, at])).unwrap().wait(LONG);
            assert_eq!(end, Ok(countdown_result(2, at)), "{}", shape.name);
        }
    });
}

/// Catches counts that go back or are forgotten, and tasks that wait for ever for an event that has come.
#[test]
fn events_keep_their_counts() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        for _ in 0..3 {
            assert_eq!(submit(&session, &mut producer, "signals", 1).wait(LONG), Ok(0), "{}", shape.name);
        }
        session.signal(0, 1, 4).unwrap();
        let mut first = producer.submit(task(&session, "waits", &[1, 8, 11])).unwrap();
        let mut second = producer.submit(task(&session, "mark", &[12]).after(1, 8)).unwrap();
        let mut come = producer.submit(task(&session, "mark", &[13]).after(1, 7)).unwrap();
        assert_eq!(come.wait(LONG), Ok(26), "{}", shape.name);
        shape.device.lose();
        // A signal of the host during the recovery counts too, and once.
        session.signal(0, 2, 5).unwrap();
        until_recovered(&session, 1);
        until("the host's signal counts", || session.event_count(0, 2).unwrap() == 5);
        assert_eq!(session.event_count(0, 1).unwrap(), 7, "{}", shape.name);
        let mut come = producer.submit(task(&session, "mark", &[13]).after(1, 7)).unwrap();
        assert_eq!(come.wait(LONG), Ok(26), "{}", shape.name);
        assert_eq!(first.result(), Err(TaskError::Late), "{}", shape.name);
        assert_eq!(second.result(), Err(TaskError::Late), "{}", shape.name);
        submit(&session, &mut producer, "signals", 1).wait(LONG).unwrap();
        assert_eq!(first.wait(LONG), Ok(11), "{}", shape.name);
        assert_eq!(second.wait(LONG), Ok(24), "{}", shape.name);
    });
}

/// Catches graphs that a session has taken and then does not have any more, launches that are lost, and a graph that comes back
/// although it was removed.
#[test]
fn graphs_are_launched_again() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let removed = session.add_graph(0, &graph()).unwrap();
        let sum = session.add_graph(0, &graph()).unwrap();
        session.remove_graph(&removed, LONG).unwrap();
        let mut ticket = producer.submit(sum.launch(&[3, 4]).unwrap()).unwrap();
        until_waiting(&session);
        go_on(&session);
        shape.device.lose();
        assert_eq!(ticket.wait(LONG), Ok(6), "{}", shape.name);
        assert_eq!((element(&session, 3), element(&session, 4)), (1, 1), "{}", shape.name);
        let mut again = producer.submit(sum.launch(&[5, 6]).unwrap()).unwrap();
        assert_eq!(again.wait(LONG), Ok(10), "{}", shape.name);
        let gone = producer.submit(removed.launch(&[1, 2]).unwrap()).unwrap().wait(LONG);
        assert!(matches!(gone, Err(TaskError::Fault(_))), "{}: {gone:?}", shape.name);
    });
}

/// Catches a fence that ends before a task in a cell that begins again, and one that waits for it for ever.
#[test]
fn fences_wait_for_tasks_in_cells_that_begin_again() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64));
        let mut producer = session.producer(0).unwrap();
        let fence = Task::new(Opcode::BATCH_FENCE).args([2, 9]);
        let tasks = [task(&session, "parks", &[1]), task(&session, "parks", &[2]), fence];
        let mut span = producer.submit_all(tasks).unwrap();
        until_parked(&session, 2);
        shape.device.lose();
        until_recovered(&session, 1);
        until_parked(&session, 2);
        assert_eq!(span.results().nth(2), Some(Err(TaskError::Late)), "{}", shape.name);
        // Tasks of a span cannot be resumed one by one, so they end by being cancelled.
        span.cancel();
        span.wait(LONG).unwrap();
        let ends: Vec<_> = span.results().collect();
        assert!(ends[..2].iter().all(|end| matches!(end, Err(TaskError::Cancelled { .. }))), "{ends:?}");
        assert!(ends[2].is_ok() || matches!(ends[2], Err(TaskError::Cancelled { .. })), "{ends:?}");
    });
}

/// Submits tasks of all kinds with a few in flight, and checks their results.
fn feed(session: &Session, sum: &pelton::SessionGraph, mut producer: Producer, seed: u64, over: &AtomicBool) {
    let mut random = Random(seed);
    let mut flights: std::collections::VecDeque<(Ticket, u32)> = Default::default();
    let mut submitted = 0u32;
    while submitted < 150 || !over.load(Ordering::Relaxed) {
        submitted += 1;
        let at = submitted % 1000;
        let small = random.next(12) as u32;
        let (made, result) = match random.next(6) {
            0 => (task(session, "fib", &[small]), fib_result(small)),
            1 => (task(session, "group_countdown", &[small, at]), countdown_result(small, at)),
            2 => (task(session, "mark", &[at]), at * 2),
            3 => (sum.launch(&[at, at]).unwrap(), at * 2),
            _ => (task(session, "countdown", &[small, at]), countdown_result(small, at)),
        };
        let ticket = match random.next(5) {
            0 => producer.submit(made.after(0, 0)),
            _ => producer.submit(made),
        };
        flights.push_back((ticket.unwrap(), result));
        if flights.len() as u64 > random.next(40) {
            let (mut ticket, result) = flights.pop_front().expect("there is one");
            if random.next(8) > 0 {
                assert_eq!(ticket.wait(LONG), Ok(result));
            }
        }
    }
    for (mut ticket, result) in flights {
        assert_eq!(ticket.wait(LONG), Ok(result));
    }
}

/// Catches tasks in cells that never end or have wrong results, cells that are used twice or never again, and whatever else goes
/// wrong if a device is lost between any two steps of adoption, spawning, waiting and ending.
#[test]
fn tasks_of_every_kind_end_right_while_the_device_is_lost_again_and_again() {
    let losses = load::loss_count();
    everywhere(|shape| {
        let session = shape.launch(&spec(shape, 64).producers(2));
        session.view::<u32>(0, "data").unwrap().write(GO as usize, &[1]).unwrap();
        go_on(&session);
        let sum = session.add_graph(0, &graph()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for seed in 0..2 {
                let producer = session.producer(0).unwrap().patience(LONG);
                let (session, sum, over) = (&session, &sum, &over);
                threads.spawn(move || feed(session, sum, producer, seed, over));
            }
            load::lose_often(shape, losses);
            over.store(true, Ordering::Relaxed);
        });
        session.quiesce(LONG).unwrap();
        let mut producer = session.producer(0).unwrap();
        assert_eq!(submit(&session, &mut producer, "mark", 1).wait(LONG), Ok(2), "{}", shape.name);
        let cells = session.snapshot().unwrap().cells.unwrap();
        assert_eq!((cells.used, cells.spawned_now), (0, 0), "{}: {cells}", shape.name);
    });
}
