//! Tasks that take the device down each time they run.

use pelton::{LossReason, TaskError, TaskState};

use crate::*;

const QUARANTINED: TaskError = TaskError::Lost { reason: LossReason::Quarantine, may_have_run: true };

/// Does what [`mark`] does, but traps if its second argument is not 0.
fn poison() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        f.when(task.arg(1).ne(0), || f.trap(7));
        f.atomic_add(Order::Relaxed, Scope::Device, task.data().at(task.arg(0)), 1u32);
        task.finish(task.arg(0) * 2);
    })
    .may_trap()
}

/// The same after a step.
fn slow_poison() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.step(|| task.yield_to_step(1));
        f.when(task.arg(1).ne(0), || f.trap(7));
        task.finish(task.arg(0) * 2);
    })
    .may_trap()
}

fn spec(shape: &Shape) -> Spec {
    shape.spec(64).cells(64).handler("poison", poison()).handler("slow_poison", slow_poison())
}

/// Catches a session that gives up although only some tasks cannot run, a task that is quarantined although it is innocent, and
/// one that is never quarantined.
#[test]
fn a_task_that_traps_each_time_is_quarantined_and_the_others_go_on() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape));
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let guilty = [13, 21];
        let names = ["poison", "slow_poison"];
        let mut tickets: Vec<Ticket> = (0..40)
            .map(|at| {
                let traps = u32::from(guilty.contains(&at));
                producer.submit(task(&session, names[at as usize % 2], &[at, traps])).unwrap()
            })
            .collect();
        for (at, ticket) in (0..).zip(&mut tickets) {
            let wanted = if guilty.contains(&at) { Err(QUARANTINED) } else { Ok(at * 2) };
            assert_eq!(ticket.wait(LONG), wanted, "{}: {at}", shape.name);
        }
        drop(tickets);
        for at in 0..100 {
            let end = submit(&session, &mut producer, "poison", at).wait(LONG);
            assert_eq!(end, Ok(at * 2), "{}", shape.name);
        }
    });
}

/// Catches a task that waits for something else and is quarantined for that, or keeps others from being found.
#[test]
fn a_task_that_waits_is_not_quarantined() {
    in_shapes(&["cpu", "apart"], &[Placement::Near, Placement::Far], |shape| {
        let parks = Handler::lane_wide(|task| {
            task.step(|| task.park_then(1));
            task.finish(5);
        });
        let session = shape.launch(&spec(shape).handler("parks", parks));
        let mut producer = session.producer(0).unwrap();
        let mut waits = submit(&session, &mut producer, "parks", 0);
        let mut guilty = producer.submit(task(&session, "slow_poison", &[1, 1])).unwrap();
        assert_eq!(guilty.wait(LONG), Err(QUARANTINED), "{}", shape.name);
        until("it waits", || session.task_state(&mut waits).is_ok_and(|state| state == TaskState::Waiting));
        waits.resume();
        assert_eq!(waits.wait(LONG), Ok(5), "{}", shape.name);
    });
}

/// Catches a fence that ends before a task in front of it that was not shown when others ran alone.
#[test]
fn a_fence_ends_after_tasks_that_were_quarantined() {
    everywhere(|shape| {
        let session = shape.launch(&spec(shape));
        let mut producer = session.producer(0).unwrap();
        let mut tasks: Vec<Task> =
            (0..6).map(|at| task(&session, "poison", &[at, u32::from(at == 4)])).collect();
        tasks.push(Task::new(Opcode::BATCH_FENCE).args([6, 3]));
        tasks.push(task(&session, "mark", &[7]));
        let mut span = producer.submit_all(tasks).unwrap();
        span.wait(LONG).unwrap();
        let ends: Vec<_> = span.results().collect();
        assert_eq!(ends[4], Err(QUARANTINED), "{}", shape.name);
        assert!(ends[..4].iter().chain(&ends[5..]).all(Result::is_ok), "{}: {ends:?}", shape.name);
    });
}

/// Catches a session that waits for a task which takes for ever while it runs alone.
#[test]
fn a_task_that_takes_for_ever_holds_nobody_up() {
    const LAUNCHES: u32 = 100;
    in_shapes(&["cpu"], &[Placement::Near, Placement::Far], |shape| {
        // It waits for the host until the kernel has trapped three times, then runs for ever, and ends after that.
        let odd = Handler::lane_wide(|task| {
            let (f, launches) = (task.body(), task.data().at(LAUNCHES));
            let count = f.atomic_load(Order::Relaxed, Scope::System, launches);
            f.when(count.lt(3), || task.park());
            f.when(count.eq(4), || {
                f.forever::<_, ()>(f.lit(0), |_, turns| turns + 1);
            });
            task.finish(count);
        });
        let session = shape.launch(&spec(shape).handler("odd", odd));
        let launches = std::sync::atomic::AtomicU32::new(0);
        session.on_recovery(move |session| {
            let count = launches.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            session.view(0, "data")?.write(LAUNCHES as usize, &[count])
        });
        let mut producer = session.producer(0).unwrap();
        let mut odd = submit(&session, &mut producer, "odd", 0);
        until("it waits", || session.task_state(&mut odd).is_ok_and(|state| state == TaskState::Waiting));
        let mut guilty = producer.submit(task(&session, "poison", &[1, 1])).unwrap();
        assert_eq!(guilty.wait(LONG), Err(QUARANTINED), "{}", shape.name);
        assert_eq!(odd.wait(LONG), Ok(5), "{}", shape.name);
    });
}
