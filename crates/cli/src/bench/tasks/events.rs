//! The case `event`: tasks that wait for events.
//!
//! - Two tasks signal each other in turn, through two events. The figure is half of a round trip: from a signal to the
//!   step that it resumes, which gives the next signal. Whichever group is free runs these steps, and both tasks may be
//!   run by the same one.
//! - A task that stays in one step, and so keeps its group busy, signals an event for which another task waits. That task
//!   must go on in another group. Both read the device's clock.
//! - A thousand tasks wait for one event, and the last that arrives signals it, round after round.
//!
//! How often each task has gone on, and how often each event has come, is compared with what it must be. On the CPU, the
//! first is compared with two tasks of tokio on one thread, the second with two threads that park and unpark each other,
//! and the last with a barrier of tokio, on one thread.

use std::thread;
use std::time::Instant;

use pelton::{Deadline, Geometry, Handler, Region, Session, Spec, Task, TaskState};
use pelton_ir::types::{Order, Scope, Type};

use super::contender::{Contender, contender_rows, play_contenders, repeat, repeat_times};
use super::event_peers::{ping_pong_in_tokio, ping_pong_of_threads, wait_together_in_tokio};
use super::{BenchRow, TasksBench};
use crate::bench::rounds::Sample;
use crate::error::CliError;
use crate::stop;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "tasks that wait for events";

/// How often two tasks signal each other while time is taken once.
pub(super) const TRIPS: u32 = 500;
/// How often a task is woken in another group while its times are kept.
const CALLS: u32 = 200;
/// How long a task waits before it signals, so that the other one surely waits again.
const PAUSE_NS: u64 = 20_000;
/// How long a task waits for another before it gives up.
const LOST_NS: u64 = 10_000_000_000;
/// The fault code of a task that has given up.
const LOST: u32 = 0x101;
/// How many tasks wait for one event, and how often.
pub(super) const WAITERS: u32 = 1000;
pub(super) const TURNS: u32 = 20;

/// The events: of the two tasks that signal each other, of the task in another group, and of the many.
const PING: u32 = 0;
const PONG: u32 = 1;
const CALL: u32 = 2;
const GATE: u32 = 3;
const EVENTS: u32 = 4;

/// What is woken in a round.
#[derive(Clone, Copy)]
enum EventContender {
    /// Two tasks that signal each other.
    PingPong,
    /// Two tasks of tokio that notify each other, on one thread.
    TokioPingPong,
    /// A task in another group.
    OtherGroup,
    /// Two threads that unpark each other.
    Threads,
    /// Many tasks at once.
    Many,
    /// Many tasks of tokio at once.
    TokioMany,
}

/// Measures tasks that wait for events.
pub(super) fn measure_events(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let ours = [
        Contender::new("event, ping-pong", "us", EventContender::PingPong),
        Contender::new("event, to another group", "us", EventContender::OtherGroup),
        Contender::new("event, 1000 waiters", "waits/s", EventContender::Many),
    ];
    let peers = [
        ("tokio", EventContender::TokioPingPong),
        ("two threads", EventContender::Threads),
        ("tokio", EventContender::TokioMany),
    ];
    let contenders = if bench.is_local() {
        let beside = |(ours, (peer, what)): (Contender<_>, _)| {
            let name = format!("{}, {peer}", ours.name);
            let theirs = Contender::new(&*name, ours.metric, what);
            [ours.against(name), theirs]
        };
        ours.into_iter().zip(peers).flat_map(beside).collect()
    } else {
        ours.into()
    };
    let spec = event_spec(bench.is_local().then_some(2));
    let measured = play_contenders(bench, contenders, |contender| {
        // A device loads no code while a kernel is resident, so every session ends with its turn.
        let session = || Session::launch(bench.device, &spec);
        Ok(match contender {
            EventContender::PingPong => {
                let (session, mut past) = (session()?, 0);
                Sample::times(repeat_times(bench.time, || {
                    past += TRIPS;
                    Ok(vec![ping_pong(&session, past - TRIPS)?])
                })?)
            }
            EventContender::TokioPingPong => {
                Sample::times(repeat_times(bench.time, || Ok(vec![ping_pong_in_tokio()]))?)
            }
            EventContender::Threads => {
                Sample::times(repeat_times(bench.time, || Ok(vec![ping_pong_of_threads()]))?)
            }
            // Every round has as many times as the others, because slow rounds would otherwise count for less.
            EventContender::OtherGroup => Sample::times(call_other_group(&session()?, 0)?),
            EventContender::Many => {
                let (session, mut past) = (session()?, 0);
                Sample::figure(repeat(bench.time, || {
                    past += TURNS;
                    wait_together(&session, past - TURNS)
                })?)
            }
            EventContender::TokioMany => Sample::figure(repeat(bench.time, || Ok(wait_together_in_tokio()))?),
        })
    })?;
    Ok(contender_rows(bench, &measured))
}

fn event_spec(groups: Option<u32>) -> Spec {
    let mut geometry = Geometry::new(1024);
    geometry.groups = groups;
    Spec::new(geometry)
        .cells(1024)
        .events(EVENTS)
        .fuel(u32::MAX / 2)
        .region(Region::new("answered", Type::U32, 1))
        .region(Region::new("arrived", Type::U32, 1))
        .region(Region::new("sent", Type::U64, 1))
        .region(Region::new("took", Type::U64, CALLS))
        .handler("ping", ping_handler())
        .handler("pong", pong_handler())
        .handler("call", call_handler())
        .handler("answer", answer_handler())
        .handler("gate", gate_handler())
}

/// Signals PING and waits for PONG as often as its first argument says. Its second argument says how often the events have
/// come before.
fn ping_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load();
        f.when(now.eq(task.arg(0)), || task.finish(now));
        turn.store(now + 1);
        task.signal(PING, 1u32);
        task.wait_event(PONG, task.arg(1) + now + 1);
    })
}

/// Waits for PING and signals PONG, as [`ping_handler`] does the other way round.
fn pong_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load();
        f.when(now.ne(0), || task.signal(PONG, 1u32));
        f.when(now.eq(task.arg(0)), || task.finish(now));
        turn.store(now + 1);
        task.wait_event(PING, task.arg(1) + now + 1);
    })
}

/// Lets two tasks signal each other, and returns half of the time of a round trip in microseconds. `past` is how often
/// they have done so before.
fn ping_pong(session: &Session, past: u32) -> Result<f64, CliError> {
    let mut producer = session.producer(0)?;
    let start = Instant::now();
    let mut submit =
        |name| Ok::<_, CliError>(producer.submit(Task::new(session.opcode(name)?).args([TRIPS, past]))?);
    let (mut pong, mut ping) = (submit("pong")?, submit("ping")?);
    check_turns(ping.wait(Deadline::Never)?, TRIPS)?;
    check_turns(pong.wait(Deadline::Never)?, TRIPS)?;
    let half = start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * TRIPS);
    for event in [PING, PONG] {
        check_count(session, event, past + TRIPS)?;
    }
    Ok(half)
}

/// Signals CALL as often as its first argument says, each time after the other task has answered, and stays in one step
/// all the time. Its second argument says how often the event has come before.
fn call_handler() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        let (answered, sent) = (task.region::<u32>("answered").at(0u32), task.region::<u64>("sent").at(0u32));
        f.range((f.lit(0), task.arg(0), f.lit(1)), (), |_, call, ()| {
            let since = f.clock();
            let waits = || f.atomic_load(Order::Acquire, Scope::Device, answered).ne(task.arg(1) + call);
            f.repeat((), |()| waits(), |_, ()| f.when((f.clock() - since).gt(LOST_NS), || task.fault(LOST)));
            let since = f.clock();
            f.repeat((), |()| (f.clock() - since).lt(PAUSE_NS), |_, ()| ());
            f.atomic_store(Order::Relaxed, Scope::Device, sent, f.clock());
            task.signal(CALL, 1u32);
        });
        task.finish(task.arg(0));
    })
}

/// Waits for CALL as often as its first argument says, and keeps how long each signal took.
fn answer_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load();
        f.when(now.ne(0), || {
            let clock = f.clock();
            let sent = task.region::<u64>("sent").at(0u32);
            let took = clock - f.atomic_load(Order::Relaxed, Scope::Device, sent);
            f.store(task.region::<u64>("took").at(now - 1), took);
            let answered = task.region::<u32>("answered").at(0u32);
            f.atomic_store(Order::Release, Scope::Device, answered, task.arg(1) + now);
        });
        f.when(now.eq(task.arg(0)), || task.finish(now));
        turn.store(now + 1);
        task.wait_event(CALL, task.arg(1) + now + 1);
    })
}

/// Lets a task wake another one in another group, and returns how long each signal took in microseconds. `past` is how
/// often that was done before.
fn call_other_group(session: &Session, past: u32) -> Result<Vec<f64>, CliError> {
    let mut producer = session.producer(0)?;
    let mut submit =
        |name| Ok::<_, CliError>(producer.submit(Task::new(session.opcode(name)?).args([CALLS, past]))?);
    let mut answer = submit("answer")?;
    // A group that took both tasks at once would run the first step of one and the only step of the other together.
    while session.task_state(&mut answer)? != TaskState::Waiting {
        stop::unless_pressed()?;
        thread::yield_now();
    }
    let mut call = submit("call")?;
    check_turns(call.wait(Deadline::Never)?, CALLS)?;
    check_turns(answer.wait(Deadline::Never)?, CALLS)?;
    check_count(session, CALL, past + CALLS)?;
    let took = session.view::<u64>(0, "took")?.read(0, CALLS as usize)?;
    Ok(took.into_iter().map(|ns| ns as f64 / 1e3).collect())
}

/// Waits for GATE as often as its first argument says. The last of all tasks that arrives signals it. The second argument
/// says how often the event has come before.
fn gate_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, turn) = (task.body(), task.frame_word());
        let now = turn.load();
        f.when(now.eq(task.arg(0)), || task.finish(now));
        turn.store(now + 1);
        let arrived = task.region::<u32>("arrived").at(0u32);
        let before = f.atomic_add(Order::AcqRel, Scope::Device, arrived, 1u32);
        let count = task.arg(1) + now + 1;
        f.when((before + 1).eq(count * WAITERS), || task.signal(GATE, 1u32));
        task.wait_event(GATE, count);
    })
}

/// Lets many tasks wait for one event, and returns how often they have waited. `past` is how often the event has come
/// before.
fn wait_together(session: &Session, past: u32) -> Result<u64, CliError> {
    let mut producer = session.producer(0)?.patience(Deadline::Never);
    let op = session.opcode("gate")?;
    let mut span = producer.submit_all((0..WAITERS).map(|_| Task::new(op).args([TURNS, past])))?;
    span.wait(Deadline::Never)?;
    let mut results = vec![0; WAITERS as usize];
    span.read_results(&mut results);
    results.into_iter().try_for_each(|turns| check_turns(turns, TURNS))?;
    check_count(session, GATE, past + TURNS)?;
    Ok(u64::from(WAITERS * TURNS))
}

/// Checks how often a task has gone on.
fn check_turns(found: u32, wanted: u32) -> Result<(), CliError> {
    match found == wanted {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("a task went on {found} times instead of {wanted}"))),
    }
}

/// Checks how often an event has come.
fn check_count(session: &Session, event: u32, wanted: u32) -> Result<(), CliError> {
    let found = session.event_count(0, event)?;
    match found == u64::from(wanted) {
        true => Ok(()),
        false => Err(CliError::Wrong(format!("event {event} came {found} times instead of {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_and_every_signal_is_counted() {
        let device = pelton_device::open("cpu").expect("there is a CPU");
        let session = Session::launch(&device, &event_spec(Some(2))).expect("the spec is right");
        for past in [0, 1] {
            assert!(ping_pong(&session, past * TRIPS).expect("every turn is taken") > 0.0);
            let took = call_other_group(&session, past * CALLS).expect("every call is answered");
            assert!(took.len() == CALLS as usize && took.iter().all(|us| *us < 1e7), "{took:?}");
            let waits = wait_together(&session, past * TURNS).expect("all pass the gate together");
            assert_eq!(waits, wait_together_in_tokio());
        }
        assert!(check_count(&session, PING, 2 * TRIPS + 1).is_err());
    }
}
