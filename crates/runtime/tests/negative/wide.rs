//! Group-wide handlers beside lane-wide ones, with faults and fuel in both.

use pelton::ir::types::{Order, Scope};
use pelton::protocol::FaultCode;
use pelton::{Handler, Spec, Task};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    wide_and_narrow_tasks_share_a_window,
    faults_of_any_lane_end_a_wide_task,
    fuel_ends_loops_of_lanes_and_groups,
    codes_that_are_none_are_still_faults,
];

/// The opcode of a task that sums `arg 0 + lane` over its lanes, in two ways that must agree.
const SUM: u32 = 9;
/// The opcode of a task that faults in the lane which its argument names.
const PICK: u32 = 10;
/// The opcode of a task whose lanes all loop equally often, or for ever.
const TURN: u32 = 11;
/// The opcode of a task whose lanes loop each for another number of turns.
const VARY: u32 = 12;
/// The opcode of a task that loops in one lane only.
const LANE: u32 = 13;
/// The opcode of a task that faults with the code which its argument gives.
const CODE: u32 = 14;

/// Fuel that is enough for every task that ends.
const FUEL: u32 = 5000;

fn sum() -> Handler {
    Handler::group_wide(|slot| {
        let f = slot.body();
        let (cells, total) = (slot.shared::<u32>("cells", 64), slot.shared::<u32>("total", 1));
        let mine = slot.arg(0) + f.lane();
        f.when(f.lane().eq(0), || f.store(total.at(0), 0));
        f.store(cells.at(f.lane()), mine);
        f.barrier();
        // One lane of each subgroup adds the sum of its subgroup.
        let part = f.reduce_add(mine);
        f.when(f.sublane().eq(0), || {
            f.atomic_add(Order::Relaxed, Scope::Group, total.at(0), part);
        });
        f.barrier();
        let alone = f.range((f.lit(0), f.lanes(), f.lit(1)), f.lit(0), |_, k, sum| sum + f.load(cells.at(k)));
        let all = f.load(total.at(0));
        // Slow lanes still read the total before the next task clears it.
        f.barrier();
        f.when(alone.ne(all), || slot.fault(0x200));
        slot.finish(all);
    })
}

fn spec(shape: Shape) -> Spec {
    let pick = Handler::group_wide(|slot| {
        let f = slot.body();
        f.when(f.lane().eq(slot.arg(0)), || slot.fault(slot.arg(1)));
        f.barrier();
        slot.finish(f.lane() + 40);
    });
    let turn = Handler::group_wide(|slot| {
        let f = slot.body();
        let many = slot.arg(0);
        let k = f.forever::<_, _>(f.lit(0), |turns, k| {
            f.when(k.eq(many), || turns.leave(k));
            f.barrier();
            k + 1
        });
        f.barrier();
        slot.finish(k);
    });
    let vary = Handler::group_wide(|slot| {
        let f = slot.body();
        let most = slot.shared::<u32>("most", 1);
        f.when(f.lane().eq(0), || f.store(most.at(0), 0));
        f.barrier();
        let turns = f.range((f.lit(0), slot.arg(0) * (f.lane() + 1), f.lit(1)), f.lit(0), |_, _, n| n + 1);
        f.atomic_max(Order::Relaxed, Scope::Group, most.at(0), turns);
        f.barrier();
        let all = f.load(most.at(0));
        f.barrier();
        slot.finish(all);
    });
    let spec = shape
        .spec(64, 2)
        .fuel(FUEL)
        .handler_at(op(SUM), "sum", sum())
        .handler_at(op(PICK), "pick_lane", pick)
        .handler_at(op(TURN), "turn", turn)
        .handler_at(op(VARY), "vary", vary);
    spec.handler_at(
        op(LANE),
        "lane",
        Handler::lane_wide(|slot| {
            let f = slot.body();
            let many = slot.arg(0);
            let k = f.forever::<_, _>(f.lit(0), |turns, k| {
                f.when(k.eq(many), || turns.leave(k));
                k + 1
            });
            slot.finish(k);
        }),
    )
    .handler_at(
        op(CODE),
        "code",
        Handler::lane_wide(|slot| {
            slot.fault(slot.arg(0));
            slot.finish(1);
        }),
    )
}

const WIDE: &[Shape] = &[near(8), near(64), far(32)];

/// Catches lanes that do not meet, shared words of one task that the next one finds, and group-wide tasks that are lost
/// among others.
fn wide_and_narrow_tasks_share_a_window(on: &On) {
    for shape in shapes(on, &[near(1), near(8), near(32), near(64), far(8), far(64)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        for round in 0..5 {
            let task = |k: u32| match k % 3 {
                0 => Task::new(op(SUM)).args([k + round]),
                1 => Task::new(op(LANE)).args([k]),
                _ => add(1, 100 + k),
            };
            let mut span = producer.submit_all((0..60).map(task)).unwrap();
            span.wait(soon()).unwrap();
            for (k, end) in (0..60).zip(span.results()) {
                let lanes = shape.lanes;
                let expected = match k % 3 {
                    0 => (k + round) * lanes + lanes * (lanes - 1) / 2,
                    1 => k,
                    _ => round,
                };
                assert_eq!(end, Ok(expected), "{shape}, round {round}, task {k}");
            }
        }
        let counts = session.snapshot().unwrap().opcodes;
        let sums = counts.iter().find(|count| count.name == "sum").map(|count| count.count);
        assert_eq!(sums, Some(100), "{shape}");
    }
}

/// Catches a fault that only lane 0 may have, or that another task is charged with.
fn faults_of_any_lane_end_a_wide_task(on: &On) {
    for shape in shapes(on, WIDE) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let task = |k: u32| Task::new(op(PICK)).args([k, 0x100 + k]);
        // Some of these lanes exist, and some do not.
        let mut span = producer.submit_all((0..64).map(task)).unwrap();
        span.wait(soon()).unwrap();
        for (k, end) in (0..64).zip(span.results()) {
            let expected = if k < shape.lanes { fault(FaultCode::user(0x100 + k).unwrap()) } else { Ok(40) };
            assert_eq!(end, expected, "{shape}, task {k}");
        }
    }
}

/// Catches fuel that is not counted, that one task takes from the next, or that ends some lanes of a group and not the
/// others.
fn fuel_ends_loops_of_lanes_and_groups(on: &On) {
    for shape in shapes(on, WIDE) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let tasks = [
            Task::new(op(TURN)).args([300]),
            Task::new(op(TURN)).args([u32::MAX]),
            Task::new(op(TURN)).args([7]),
            Task::new(op(LANE)).args([u32::MAX]),
            Task::new(op(LANE)).args([300]),
            Task::new(op(VARY)).args([1]),
            Task::new(op(VARY)).args([1_000_000]),
            Task::new(op(SUM)).args([0]),
            add(1, 5),
        ];
        let mut span = producer.submit_all(tasks).unwrap();
        span.wait(soon()).unwrap();
        let (lanes, fuel) = (shape.lanes, fault(FaultCode::FUEL));
        let sum = Ok(lanes * (lanes - 1) / 2);
        let expected = [Ok(300), fuel, Ok(7), fuel, Ok(300), Ok(lanes), fuel, sum, Ok(0)];
        assert_eq!(span.results().collect::<Vec<_>>(), expected, "{shape}");
        // Tasks that use up their fuel do not keep others from running, however many there are.
        let mut span = producer.submit_all([Task::new(op(LANE)).args([u32::MAX]); 40]).unwrap();
        assert_eq!(span.wait(soon()).unwrap().faults, 40, "{shape}");
    }
}

/// Catches a handler that says a code which nobody can read as a fault.
fn codes_that_are_none_are_still_faults(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        for code in [0x100, 0xff_ffff, FaultCode::REGION.code(), FaultCode::FUEL.code()] {
            let end = run(&mut producer, Task::new(op(CODE)).args([code]));
            assert_eq!(end, fault(FaultCode::from_code(code).unwrap()), "{shape}, {code:#x}");
        }
        for code in [0, 7, 0xff, 0x100_0000, u32::MAX] {
            let end = run(&mut producer, Task::new(op(CODE)).args([code]));
            assert_eq!(end, fault(FaultCode::ARGUMENTS), "{shape}, {code:#x}");
        }
    }
}
