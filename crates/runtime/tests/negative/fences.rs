//! Batch fences: the epoch never comes before the last of its batch has ended.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use pelton::ir::types::{Order, Scope};
use pelton::protocol::FaultCode;
use pelton::{Deadline, Geometry, Handler, Opcode, Session, Spec, Task, TaskError, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    no_epoch_before_its_batch_has_ended,
    a_fence_without_a_batch,
    no_fence_ends_before_the_records_of_tasks_in_cells,
];

const BATCHES: u32 = 48;
const BATCH: u32 = 7;

/// The opcode of a task that spins for a while and then leaves its mark. It faults if its argument says so.
const SPIN: u32 = 9;

fn spec(shape: Shape) -> Spec {
    let spec = shape.bare(64, 3).tenant(Tenant::new(0).observables(1));
    let spec = Spec { geometry: Geometry { window: 4, ..spec.geometry.clone() }, ..spec };
    spec.handler_at(
        op(SPIN),
        "spin",
        Handler::lane_wide(|slot| {
            let f = slot.body();
            let spun = f.range((f.lit(0), slot.arg(0), f.lit(1)), f.lit(1), |_, k, x| x * 5 + k);
            f.when(spun.eq(0) | slot.arg(2).ne(0), || slot.fault(0x123));
            f.atomic_store(Order::Relaxed, Scope::Device, slot.data().at(slot.arg(1)), 1);
        }),
    )
}

/// A batch and its fence. The first tasks are the slow ones, so that later windows end before them; one ends as a
/// fault.
fn batch(number: u32) -> impl ExactSizeIterator<Item = Task> + Clone {
    (0..BATCH + 1).map(move |k| match k {
        BATCH => Task::new(Opcode::BATCH_FENCE).args([BATCH, number + 1]),
        k => Task::new(op(SPIN)).args([
            if k == 0 { 3000 } else { 10 * k },
            number * BATCH + k,
            u32::from(k == 3),
        ]),
    })
}

/// How many batches have left all their marks.
fn whole(session: &Session) -> u64 {
    let data = session.view::<u32>(0, "data").unwrap().read(0, (BATCHES * BATCH) as usize).unwrap();
    data.chunks(BATCH as usize).filter(|marks| marks.iter().all(|mark| *mark == 1)).count() as u64
}

/// Ends the observing thread, even if the test panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Catches a fence that is retired when its own window has ended, by whoever is first, or before effects are seen.
fn no_epoch_before_its_batch_has_ended(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &spec(shape));
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let epoch = session.epoch().unwrap();
                    fence(Ordering::SeqCst);
                    let whole = whole(&session);
                    assert!(epoch <= whole, "{shape}: epoch {epoch} after {whole} batches");
                    assert!(epoch >= last, "{shape}: epoch {epoch} after {last}");
                    last = epoch;
                    std::thread::yield_now();
                }
            });
            let _over = Over(&over);
            let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
            let mut spans = std::collections::VecDeque::new();
            for number in 0..BATCHES {
                spans.push_back(producer.submit_all(batch(number)).unwrap());
                if spans.len() < 4 && number + 1 < BATCHES {
                    continue;
                }
                // The last fence is looked at first: a thread that sees its record sees those of its batch.
                while let Some(span) = spans.pop_back() {
                    until("a fence is passed", || {
                        Ok(span.result(BATCH as usize) != Some(Err(TaskError::Late)))
                    });
                    let told = Some(fault(FaultCode::user(0x123).unwrap()));
                    let faults = (0..BATCH as usize).filter(|k| span.result(*k) == told);
                    let done = (0..BATCH as usize).filter(|k| span.result(*k) == Some(Ok(0)));
                    assert_eq!((faults.count(), done.count()), (1, BATCH as usize - 1), "{shape}");
                }
            }
        });
        assert_eq!((session.epoch().unwrap(), whole(&session)), (BATCHES.into(), BATCHES.into()), "{shape}");
        let tag = session.view::<u32>(0, "observable").unwrap().read_all().unwrap()[0];
        assert!((1..=BATCHES).contains(&tag), "{shape}: {tag}");
    }
}

/// Catches a fence that waits for tasks that will never come.
fn a_fence_without_a_batch(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let fence = |count: u32, tag: u32| Task::new(Opcode::BATCH_FENCE).args([count, tag]);
        assert_eq!(run(&mut producer, fence(0, 5)), Ok(1), "{shape}");
        let mut span = producer.submit_all([fence(0, 6), fence(1, 7), fence(2, 8)]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().done, 3, "{shape}");
        assert_eq!(span.results().collect::<Vec<_>>(), [Ok(2), Ok(3), Ok(4)], "{shape}");
        assert_eq!(session.view::<u32>(0, "observable").unwrap().read_all().unwrap(), [8], "{shape}");
        // A fence over more tasks than a ring holds is refused, by the host if it can tell and otherwise by the kernel.
        match producer.submit(fence(65, 9)) {
            Ok(mut ticket) => assert_eq!(ticket.wait(soon()), fault(FaultCode::ARGUMENTS), "{shape}"),
            Err(error) => {
                assert!(matches!(error, pelton::SubmitError::FenceReach { count: 65, .. }), "{error}")
            }
        }
        assert_eq!(session.epoch().unwrap(), 4, "{shape}");
    }
}

/// The opcode of a task that yields as often as its first argument says, and spins as long as the second one says before.
const YIELDS: u32 = 10;

/// Returns a kernel of a shape, with tasks that live in cells.
fn spec_with_cells(shape: Shape) -> Spec {
    spec(shape).cells(16).handler_at(
        op(YIELDS),
        "yields",
        Handler::lane_wide(|task| {
            let (f, done) = (task.body(), task.frame_word());
            let now = done.load();
            done.store(now + 1);
            let spun = f.range((f.lit(0), task.arg(1), f.lit(1)), f.lit(1), |_, k, x| x * 5 + k);
            f.when(now.lt(task.arg(0)) | spun.eq(0), || task.yield_now());
        }),
    )
}

/// Catches a fence that sees that the cell of a task before it has ended, and ends before the record of that task is
/// there. Some of the tasks end where they are adopted, because they are not allowed.
fn no_fence_ends_before_the_records_of_tasks_in_cells(on: &On) {
    let laps = if on.caps().name == "cpu" { 1000 } else { 300 };
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec_with_cells(shape));
        let mut producer = session.producer(0).unwrap().patience(soon());
        for lap in 0..laps {
            let denied = lap % 64 == 63;
            if denied {
                session.allow(0, &[op(SPIN), Opcode::BATCH_FENCE]).unwrap();
            }
            let count = 1 + lap % BATCH;
            // Tasks that take equally long end in the same turn of a group, one lane after the other. The interpreter changes
            // from one lane to the next after so many steps, and where a lane is then depends on how long tasks take.
            let tasks = (0..count).map(|_| Task::new(op(YIELDS)).args([lap % 3, lap]));
            let fence = Task::new(Opcode::BATCH_FENCE).args([count, lap]);
            let span = producer.submit_all(tasks.chain([fence]).collect::<Vec<_>>()).unwrap();
            let late = Some(Err(TaskError::Late));
            let mut looks = 0u32;
            while span.result(count as usize) == late {
                looks += 1;
                if looks.is_multiple_of(256) {
                    std::thread::yield_now();
                }
            }
            // A thread that sees the record of a fence sees those of all tasks before it, without a second look.
            let missing = (0..count as usize).filter(|k| span.result(*k) == late).count();
            assert_eq!(missing, 0, "{shape}, lap {lap}: records that come after that of a fence");
            let right = if denied { fault(FaultCode::DENIED) } else { Ok(0) };
            assert!((0..count as usize).all(|k| span.result(k) == Some(right)), "{shape}, lap {lap}");
            if denied {
                session.set_mask(0, u32::MAX).unwrap();
            }
        }
    }
}
