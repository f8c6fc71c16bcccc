//! Batches that no stripe has room for: a batch that fits the ring is taken on every device, and is one batch all the
//! same.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Waker};

use pelton::kernel::Telemetry;
use pelton::kernel::layout::SlotBanks;
use pelton::{
    Aim, Deadline, Handler, Opcode, Placement, Session, Span, Spec, SubmitError, Task, TaskError, Tenant,
};

use crate::common::*;
use crate::futures::block_on;
use crate::iterators::Panics;

pub(crate) const TESTS: &[Test] = named![
    a_batch_larger_than_a_stripe_comes_back_in_order,
    a_spread_batch_is_taken_whole_or_not_at_all,
    a_spread_batch_is_measured_as_one,
    a_spread_batch_is_cancelled_as_one,
    a_spread_batch_that_is_dropped_gives_all_its_slots_back,
    patience_waits_for_room_in_all_stripes,
    a_fence_keeps_its_batch_in_one_stripe,
    an_iterator_may_panic_in_the_middle_of_a_spread_batch,
    a_full_ring_spills_into_the_other,
    random_batches_do_as_a_list_does,
];

/// How many slots a stripe has, and how many stripes there are.
const SLOTS: u32 = 8;
const STRIPES: u32 = 4;
const ALL: u32 = SLOTS * STRIPES;

/// The opcode of a task that returns its argument with every second bit flipped, and counts itself.
const ECHO: u32 = 9;

fn spec(shape: Shape) -> Spec {
    shape.spec(SLOTS, STRIPES).handler_at(
        op(ECHO),
        "echo",
        Handler::lane_wide(|slot| {
            slot.atomic_add(0, 1);
            let seed = slot.arg(0);
            slot.finish(seed ^ 0x5555_5555);
        }),
    )
}

fn echo(seed: u32) -> Task {
    Task::new(op(ECHO)).args([seed])
}

fn echoes(from: u32, count: u32) -> impl ExactSizeIterator<Item = Task> + Clone {
    (from..from + count).map(echo)
}

fn echoed(seed: u32) -> Result<u32, TaskError> {
    Ok(seed ^ 0x5555_5555)
}

/// A session whose tasks are not run until [`release`].
fn held(on: &On, shape: Shape) -> Session {
    launch(on, &spec(shape).tenant(Tenant::new(0).mask(0)))
}

fn release(session: &Session) {
    session.set_mask(0, u32::MAX).unwrap();
}

/// Catches pieces that are not in the order of their tasks, and a piece that is not waited for.
fn a_batch_larger_than_a_stripe_comes_back_in_order(on: &On) {
    for shape in shapes(on, &[near(1), near(32)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        assert_eq!(producer.largest_batch(), u64::from(ALL), "{shape}");
        for round in 0..6 * SLOTS {
            let count = ALL - round % 9;
            let mut span = producer.submit_all(echoes(round, count)).unwrap();
            let what = format!("{shape}, round {round}, {count} tasks");
            assert_eq!((span.len(), span.pieces()), (count as usize, 4 - (round % 9) as usize / 8), "{what}");
            assert_eq!(span.placement(), Placement::Near, "{what}");
            let ends = match round % 3 {
                0 => span.wait(soon()).unwrap(),
                1 => block_on(&mut span),
                _ => {
                    until("all have ended", || Ok(span.has_ended()));
                    span.wait(Deadline::Now).unwrap()
                }
            };
            assert_eq!((ends.done, ends.left), (count, 0), "{what}");
            assert!(span.results().eq((round..round + count).map(echoed)), "{what}");
            assert!((0..count).all(|k| span.result(k as usize) == Some(echoed(round + k))), "{what}");
            assert_eq!(span.result(count as usize), None, "{what}");
            for room in [0, 5, SLOTS, SLOTS + 3, count, count + 1] {
                let mut read = vec![7; room as usize];
                let first = room.min(count);
                assert_eq!(span.read_results(&mut read).done, first, "{what}");
                let wanted = (round..round + first).map(|seed| echoed(seed).unwrap());
                assert!(read.iter().copied().eq(wanted.chain((first..room).map(|_| 7))), "{what}");
            }
        }
        assert_eq!(run(&mut producer, add(0, 1)), Ok(0), "{shape}");
        let large = SubmitError::TooLarge { wanted: u64::from(ALL) + 1, slots: u64::from(ALL) };
        assert_eq!(producer.submit_all(echoes(0, ALL + 1)).err(), Some(large), "{shape}");
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// Catches pieces that are written before all have room.
fn a_spread_batch_is_taken_whole_or_not_at_all(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = held(on, shape);
        let mut producer = session.producer(0).unwrap();
        let mut spans = vec![producer.submit_all(echoes(0, 3)).unwrap()];
        let full = |room, wanted| Some(SubmitError::Full { room, wanted });
        for patience in [Deadline::Now, Deadline::after_ms(0), Deadline::after_ms(20)] {
            producer.set_patience(patience);
            assert_eq!(producer.submit_all(echoes(100, ALL - 2)).err(), full(29, 30), "{shape}");
        }
        assert_eq!(session.snapshot().unwrap().occupancy.published, 3, "{shape}");
        spans.push(producer.submit_all(echoes(3, ALL - 3)).unwrap());
        assert_eq!(spans[1].pieces(), 4, "{shape}");
        producer.set_patience(Deadline::Now);
        assert_eq!(producer.submit(echo(50)).err(), full(0, 1), "{shape}");
        assert_eq!(producer.submit_all(echoes(50, SLOTS + 1)).err(), full(0, 9), "{shape}");
        assert_eq!(spans[1].wait(Deadline::Now), Err(TaskError::Late), "{shape}");
        release(&session);
        for (from, span) in [0, 3].into_iter().zip(&mut spans) {
            span.wait(soon()).unwrap();
            assert!(span.results().eq((from..).take(span.len()).map(echoed)), "{shape}");
        }
        assert_eq!(data(&session)[0], ALL, "{shape}");
        // A span holds its slots until it is dropped.
        assert_eq!(producer.submit(echo(50)).err(), full(0, 1), "{shape}");
        drop(spans);
        assert_eq!(producer.submit_all(echoes(7, ALL)).unwrap().wait(soon()).unwrap().done, ALL, "{shape}");
    }
}

/// Catches pieces whose latency is measured one by one, or not at all.
fn a_spread_batch_is_measured_as_one(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let spec = spec(shape).tenant(Tenant::new(0).mask(0)).telemetry(Telemetry::Full);
        let session = launch(on, &spec);
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all(echoes(0, ALL)).unwrap();
        assert!(!span.has_ended(), "{shape}");
        release(&session);
        let ends = span.wait(soon()).unwrap();
        assert_eq!((ends.done, span.pieces()), (ALL, 4), "{shape}");
        assert!(span.has_ended() && block_on(&mut span) == ends, "{shape}");
        assert_eq!(session.snapshot().unwrap().latency.samples, 1, "{shape}");
    }
}

/// Catches a cancel that reaches the first piece alone.
fn a_spread_batch_is_cancelled_as_one(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = held(on, shape);
        let mut producer = session.producer(0).unwrap();
        let mut span = producer.submit_all(echoes(0, ALL)).unwrap();
        span.cancel();
        release(&session);
        let ends = span.wait(soon()).unwrap();
        assert_eq!((ends.cancelled, ends.done), (ALL, 0), "{shape}");
        drop(span);
        // While they run, each either ran or was cancelled.
        let mut ran = 0;
        for round in 0..50 {
            let mut span = producer.submit_all(echoes(round, ALL)).unwrap();
            (0..round).for_each(|_| std::hint::spin_loop());
            span.cancel();
            let ends = span.wait(soon()).unwrap();
            assert_eq!(ends.done + ends.cancelled, ALL, "{shape}");
            let right = |(seed, end)| end == echoed(seed) || end == Err(TaskError::Cancelled { steps: 0 });
            assert!((round..).zip(span.results()).all(right), "{shape}");
            ran += ends.done;
        }
        assert_eq!(data(&session)[0], ran, "{shape}");
    }
}

/// Catches pieces whose slots are never given up.
fn a_spread_batch_that_is_dropped_gives_all_its_slots_back(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(Deadline::after_ms(60_000));
        for round in 0..40 {
            let mut span = producer.submit_all(echoes(round, ALL - round % 4)).unwrap();
            match round % 3 {
                0 => {}
                1 => assert!(!span.has_ended() || span.wait(Deadline::Now).is_ok(), "{shape}"),
                // The span is polled once, and dropped.
                _ => {
                    let mut context = Context::from_waker(Waker::noop());
                    let _ = Future::poll(Pin::new(&mut span), &mut context);
                }
            }
            drop(span);
        }
        session.quiesce(soon()).unwrap();
        assert_eq!(data(&session)[0], 40 * ALL - 60, "{shape}");
        assert_eq!(producer.submit_all(echoes(7, ALL)).unwrap().wait(soon()).unwrap().done, ALL, "{shape}");
    }
}

/// Catches a wait for one stripe that can never have room for all tasks.
fn patience_waits_for_room_in_all_stripes(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
        let (give, take) = std::sync::mpsc::channel::<(u32, Span)>();
        let taker = std::thread::spawn(move || {
            take.iter().all(|(seed, mut span)| {
                span.wait(soon()).unwrap();
                span.results().eq((seed..).take(span.len()).map(echoed))
            })
        });
        let mut total = 0;
        for round in 0..100 {
            let count = round * 7 % ALL + 1;
            give.send((round, producer.submit_all(echoes(round, count)).unwrap())).unwrap();
            total += count;
        }
        drop(give);
        assert!(taker.join().unwrap(), "{shape}");
        assert_eq!(data(&session)[0], total, "{shape}");
    }
}

/// Catches a fence that is separated from the tasks it waits for, and a wait for room that there can never be.
fn a_fence_keeps_its_batch_in_one_stripe(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(Deadline::Never);
        let fence = |count: u32| Task::new(Opcode::BATCH_FENCE).args([count, 1]);
        let with = |before: u32| echoes(0, before).chain([fence(before)]).collect::<Vec<_>>();
        let fenced = SubmitError::TooLargeFenced { wanted: 9, slots: 8 };
        assert_eq!(producer.submit_all(with(8)).err(), Some(fenced), "{shape}");
        let mut span = producer.submit_all(with(7)).unwrap();
        assert_eq!((span.pieces(), span.wait(soon()).unwrap().done), (1, 8), "{shape}");
        drop(span);
        assert_eq!(producer.submit_all(echoes(0, ALL)).unwrap().wait(soon()).unwrap().done, ALL, "{shape}");
        // After a batch that was spread, a fence can wait for the last piece of it.
        let apart = SubmitError::FenceReach { count: 9, within: 8 };
        assert_eq!(producer.submit(fence(9)).err(), Some(apart), "{shape}");
        assert_eq!(run(&mut producer, fence(8)), Ok(2), "{shape}");
        // The fence that reaches furthest back counts, wherever it stands.
        let apart = SubmitError::FenceReach { count: 99, within: 9 };
        assert_eq!(producer.submit_all([fence(1), fence(100)]).err(), Some(apart), "{shape}");
        // There are many more tasks than a stripe holds, after tasks that were submitted before.
        let back = [fence(1)].into_iter().chain(echoes(0, 8)).collect::<Vec<_>>();
        assert_eq!(producer.submit_all(back).err(), Some(fenced), "{shape}");
        assert_eq!(session.epoch().unwrap(), 2, "{shape}");
    }
}

/// Catches pieces of a batch that failed and that hold their slots for ever.
fn an_iterator_may_panic_in_the_middle_of_a_spread_batch(on: &On) {
    for shape in shapes(on, &[near(1), near(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().patience(Deadline::after_ms(60_000));
        for written in [0, 8, 12, 31] {
            let looks = Cell::new((ALL + written) as usize);
            let tasks = Panics { looks: &looks, left: ALL as usize, task: echo(1) };
            let result = catch_unwind(AssertUnwindSafe(|| producer.submit_all(tasks).map(|_| ())));
            assert!(result.is_err(), "{shape}: it panics");
            let mut span = producer.submit_all(echoes(0, ALL)).unwrap();
            span.wait(soon()).unwrap();
            assert!(span.results().eq((0..ALL).map(echoed)), "{shape}, {written} written");
        }
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// Catches a producer that finds the ring full while slots are free, and one that uses those that are kept for others.
fn a_full_ring_spills_into_the_other(on: &On) {
    let shape = both(8);
    if !shape.placement.is_available(on.caps()) {
        return;
    }
    for (aim, first) in [(Aim::Choose, Placement::Far), (Aim::Latency, Placement::Near)] {
        let session = held(on, shape);
        let SlotBanks::Both { near, far } = session.layout().banks else { panic!("it has both") };
        let (near, far) = (near.ring_stripes * near.stripe_slots(), far.stripe_slots());
        let mut producer = session.producer(0).unwrap().aim(aim);
        let mut spans = Vec::new();
        // More than a few at once, so that they are not single tasks that go near by choice.
        while let Ok(span) = producer.submit_all(echoes(0, 5)) {
            spans.push(span);
        }
        while let Ok(span) = producer.submit_all(echoes(0, 1)) {
            spans.push(span);
        }
        assert_eq!(spans[0].placement(), first, "{aim:?}");
        let lie = |placement| {
            spans.iter().filter(|s| s.placement() == placement).map(|s| s.len() as u32).sum::<u32>()
        };
        assert_eq!((lie(Placement::Near), lie(Placement::Far)), (near, far), "{aim:?}");
        let full = Some(SubmitError::Full { room: 0, wanted: 1 });
        assert_eq!(producer.submit(echo(1)).err(), full, "{aim:?}");
        release(&session);
        assert!(spans.iter_mut().all(|span| span.wait(soon()).is_ok()), "{aim:?}");
        assert_eq!(data(&session)[0], near + far, "{aim:?}");
    }
    let session = held(on, shape);
    let mut producer = session.producer(0).unwrap().aim(Aim::Throughput);
    let far = producer.submit_all(echoes(0, SLOTS)).unwrap();
    assert_eq!((far.placement(), producer.largest_batch()), (Placement::Far, SLOTS.into()));
    assert_eq!(producer.submit(echo(1)).err(), Some(SubmitError::Full { room: 0, wanted: 1 }));
}

/// A small random generator, which only has to produce every size and order.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(below)) as u32
    }
}

/// Catches what no single test here does: batches of any size are submitted while others are held, and dropped in any
/// order.
fn random_batches_do_as_a_list_does(on: &On) {
    for shape in shapes(on, &[near(1), near(8), both(1)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap().aim(Aim::Latency);
        let most = producer.largest_batch() as u32;
        let (mut dice, mut seed) = (Dice(0x5eed), 0);
        // The model: what is held, as the seeds of its tasks.
        let mut open: Vec<(u32, Span)> = Vec::new();
        for _ in 0..400 {
            let count = if dice.roll(2) == 0 { dice.roll(most + 1) } else { dice.roll(SLOTS) };
            match producer.submit_all(echoes(seed, count)) {
                Ok(span) => {
                    assert_eq!(span.len(), count as usize, "{shape}");
                    open.push((seed, span));
                    seed += count;
                }
                Err(SubmitError::Full { room, wanted }) => {
                    assert!(wanted == count.into() && room < wanted, "{shape}: {room} of {wanted}");
                    // An empty ring has room for every batch.
                    assert!(!open.is_empty(), "{shape}: the ring is empty");
                }
                Err(error) => panic!("{shape}: {error}"),
            }
            while !open.is_empty() && dice.roll(3) != 0 {
                let (seed, mut span) = open.swap_remove(dice.roll(open.len() as u32) as usize);
                assert_eq!(span.wait(soon()).unwrap().done, span.len() as u32, "{shape}");
                assert!(span.results().eq((seed..).take(span.len()).map(echoed)), "{shape}");
            }
        }
        for (seed, span) in &mut open {
            span.wait(soon()).unwrap();
            assert!(span.results().eq((*seed..).take(span.len()).map(echoed)), "{shape}");
        }
        assert_eq!(data(&session)[0], seed, "{shape}: each ran once");
        drop(open);
        assert_eq!(producer.submit_all(echoes(0, most)).unwrap().wait(soon()).unwrap().done, most, "{shape}");
    }
}
