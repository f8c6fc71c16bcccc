//! Tests of batches, from the first slot to the last word that is read back, on every device of this machine.

use std::sync::Arc;

use pelton::device::{Device, open};
use pelton::drain::Readback;
use pelton::ir::types::{Order, Scope};
use pelton::kernel::{Handler, Report, SlotBody, Telemetry};
use pelton::protocol::drained::{self, BatchEntry};
use pelton::protocol::packed::Packed;
use pelton::protocol::{FaultCode, Status};
use pelton::{
    Batch, Claim, Drain, Error, Geometry, Opcode, Priority, Spec, SubmitError, Task, TaskError, Tenant,
};

/// Returns the devices of this machine.
fn devices() -> Vec<&'static str> {
    let gpu = open("cuda").is_ok().then_some("cuda");
    ["cpu", "reference"].into_iter().chain(gpu).collect()
}

fn device(name: &str) -> Arc<dyn Device> {
    open(name).unwrap()
}

fn op(code: u32) -> Opcode {
    Opcode::user(code).unwrap()
}

/// A group-wide handler in which every lane adds the argument to a sum.
fn sum() -> Handler {
    Handler::group_wide(|slot| {
        let (f, part) = (slot.body(), slot.shared::<u32>("part", 1));
        f.when(f.lane().eq(0), || f.store(part.at(0), 0));
        f.barrier();
        f.atomic_add(Order::Relaxed, Scope::Group, part.at(0), slot.arg(0));
        f.barrier();
        slot.finish(f.load(part.at(0)));
    })
}

fn spec(geometry: Geometry) -> Spec {
    Spec::new(geometry)
        .handler_at(op(8), "op8", Handler::lane_wide(|slot| slot.finish(slot.arg(0) * 3)))
        .handler_at(op(9), "sum", sum())
        .format("{} and {:x}")
        .tenant(Tenant::new(0).observables(2))
        .tenant(Tenant::new(5).observables(1))
}

fn add(at: u32, by: u32) -> Task {
    Task::new(Opcode::ATOMIC_ADD).args([by, at])
}

fn fault(code: FaultCode) -> Result<u32, TaskError> {
    Err(TaskError::Fault(pelton::protocol::TaskFault { code, inner: 0 }))
}

fn outcomes(readback: &Readback) -> Vec<Result<u32, TaskError>> {
    readback.outcomes().unwrap().collect()
}

/// A tenant, its task, and how the task must end. `None` allows any result.
type Case = (u32, Task, Option<Result<u32, TaskError>>);

/// Returns tasks for everything that a slot can ask for, with how each must end.
fn mixed(lanes: u32) -> Vec<Case> {
    let mut packed = Packed::new();
    packed.push(Opcode::ATOMIC_ADD, &[1, 3]).unwrap();
    packed.push(op(8), &[14]).unwrap();
    let packed = Task::try_from(&packed).unwrap();
    let mut all = Vec::new();
    for k in 0..20 {
        all.push((0, Task::new(op(8)).args([k]), Some(Ok(k * 3))));
        all.push((5, add(2, 1), None));
        all.push((0, Task::new(op(9)).args([k]), Some(Ok(k * lanes))));
        all.push((5, Task::new(Opcode::from_code(77)), Some(fault(FaultCode::UNKNOWN))));
        all.push((0, add(1024, 1), Some(fault(FaultCode::REGION))));
        all.push((0, packed, Some(Ok(42))));
        all.push((5, Task::new(Opcode::PRINTF).args([1, k, 255]), Some(Ok(1))));
        let (tenant, before) = (if k % 2 == 0 { 0 } else { 5 }, all.len() as u32);
        all.push((tenant, Task::new(Opcode::BATCH_FENCE).args([before, k]), Some(Ok(k + 1))));
    }
    all
}

#[test]
fn every_kind_of_task_on_every_shape() {
    for name in devices() {
        let device = device(name);
        for (lanes, groups, slots) in [(1, 5, 32), (8, 2, 32), (64, 1, 32), (64, 5, 256)] {
            let what = format!("{name}, {lanes} lanes, {groups} groups, {slots} slots");
            let geometry = Geometry::new(slots).lanes(lanes).groups(groups).window(16);
            let mut drain = Drain::new(&device, &spec(geometry)).unwrap();
            let tasks = mixed(lanes);
            let mut batch = Batch::new();
            tasks.iter().for_each(|(tenant, task, _)| batch.push(*tenant, *task).unwrap());
            for round in 1..=3u32 {
                let readback = drain.run(&batch).unwrap_or_else(|e| panic!("{what}: {e}"));
                for ((_, task, want), found) in tasks.iter().zip(outcomes(readback)) {
                    match want {
                        Some(want) => assert_eq!(found, *want, "{what}: {task:?}"),
                        None => assert!(found.is_ok(), "{what}: {task:?}"),
                    }
                }
                let s = readback.statistics();
                let passes = 160u64.div_ceil(slots.into());
                assert_eq!((s.tasks, s.done, s.left, s.passes), (160, 160, 0, passes), "{what}");
                assert_eq!((s.faults, s.epoch, s.lost), (Some(40), 20, 0), "{what}");
                assert_eq!(readback.control().observables(), [18, 0, 19], "{what}");
                let count = |name: &str| s.opcodes.iter().find(|c| c.name == name).unwrap().count;
                assert_eq!((count("op8"), count("sum"), count("ATOMIC_ADD")), (40, 20, 60), "{what}");
                assert_eq!(s.tenants.iter().map(|c| c.count).collect::<Vec<_>>(), [90, 70], "{what}");
                assert_eq!(drain.log().unwrap().len(), 20, "{what}");
                assert_eq!(drain.view::<u32>(5, "data").unwrap().read(2, 1).unwrap(), [20 * round]);
                assert_eq!(drain.view::<u32>(0, "data").unwrap().read(3, 1).unwrap(), [20 * round]);
            }
        }
    }
}

#[test]
fn any_number_of_items_on_any_number_of_lanes() {
    for (name, items, lanes, groups, slots) in [
        ("cpu", 65_536, 8, 2, 4096),
        ("cpu", 65_536, 64, 5, 65_536),
        ("cpu", 1 << 20, 1, 2, 65_536),
        ("cpu", (1 << 20) - 1, 8, 1, 1 << 20),
        ("reference", 5_000, 8, 2, 1024),
    ] {
        let spec = Spec::new(Geometry::new(slots).lanes(lanes).groups(groups));
        let mut drain = Drain::new(&device(name), &spec).unwrap();
        let mut batch = Batch::with_capacity(items);
        (0..items as u32).for_each(|k| batch.push(0, add(k % 7, 1)).unwrap());
        let readback = drain.run(&batch).unwrap();
        // Every element counts up by ones, so its results are all different.
        let mut seen = vec![0u64; 7];
        for (k, outcome) in readback.outcomes().unwrap().enumerate() {
            seen[k % 7] += u64::from(outcome.unwrap());
        }
        let s = readback.statistics();
        assert_eq!((s.done, s.passes), (items as u64, items.div_ceil(slots as usize) as u64));
        let data = drain.view::<u32>(0, "data").unwrap().read(0, 7).unwrap();
        assert_eq!(data.iter().sum::<u32>(), items as u32, "{name}");
        for (count, seen) in data.iter().map(|count| u64::from(*count)).zip(seen) {
            assert_eq!(seen, count * (count - 1) / 2, "{name}");
        }
    }
}

#[test]
fn a_ring_is_that_of_the_wire() {
    let entry = |status, opcode, tenant, args: [u32; 2]| BatchEntry {
        status,
        opcode,
        tenant,
        priority: Priority::High,
        args: [args[0], args[1], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    let mut entries = vec![
        entry(Status::Published, Opcode::ATOMIC_ADD, 5, [10, 64]),
        entry(Status::Claimed, Opcode::ATOMIC_ADD, 5, [10, 64]),
        entry(Status::Published, Opcode::ATOMIC_ADD, 0, [10, 1 << 20]),
        entry(Status::WaitIo, Opcode::from_code(3), 28, [0, 0]),
        entry(Status::Empty, Opcode::NOP, 0, [0, 0]),
        entry(Status::Done, Opcode::CANCEL, 0, [0, 0]),
    ];
    let mut batch = Batch::new();
    entries.iter().for_each(|entry| batch.push_entry(entry).unwrap());
    let words: Vec<u32> = batch.slots().flat_map(|slot| slot.0).collect();
    assert_eq!(words, drained::encode_ring(&entries));
    for name in devices() {
        for lanes in [1, 8] {
            let mut drain = Drain::new(&device(name), &spec(Geometry::new(8).lanes(lanes))).unwrap();
            let found = outcomes(drain.run(&batch).unwrap());
            let left = Err(TaskError::Left);
            assert_eq!(found, [Ok(0), left, fault(FaultCode::REGION), left, left, left]);
            let ring: Vec<u32> = drain.ring().unwrap().iter().flat_map(|slot| slot.0).collect();
            let after: Result<Vec<BatchEntry>, _> = drained::decode_ring(&ring).unwrap().collect();
            entries[0].status = Status::Done;
            entries[2].status = Status::Fault;
            assert_eq!(after.unwrap(), entries, "{name}");
        }
    }
}

#[test]
fn what_may_not_run_is_left() {
    for name in devices() {
        let spec = spec(Geometry::new(32).lanes(8).groups(2).window(8)).tenant(Tenant::new(7));
        let mut drain = Drain::new(&device(name), &spec).unwrap();
        drain.set_quota(5, 10).unwrap();
        drain.set_mask(7, 0).unwrap();
        let mut batch = Batch::new();
        for _ in 0..25 {
            [0, 5, 7].iter().for_each(|tenant| batch.push(*tenant, add(0, 1)).unwrap());
        }
        // Credit is granted per run, so the second run gets as much as the first.
        for run in 1..=2 {
            let readback = drain.run(&batch).unwrap();
            let found = outcomes(readback);
            let ran = |k: usize| found.iter().skip(k).step_by(3).filter(|o| o.is_ok()).count();
            assert_eq!([ran(0), ran(1), ran(2)], [25, 10, 0], "{name}");
            assert!(found.iter().all(|o| o.is_ok() || *o == Err(TaskError::Left)));
            assert_eq!(readback.statistics().left, 40, "{name}");
            assert_eq!(readback.control().claims()[..8], [25, 0, 0, 0, 0, 10, 0, 0], "{name}");
            let data = |tenant| drain.view::<u32>(tenant, "data").unwrap().read(0, 1).unwrap()[0];
            assert_eq!([data(0), data(5), data(7)], [25 * run, 10 * run, 0], "{name}");
        }
        drain.set_mask(7, Opcode::NOP.mask_bit()).unwrap();
        drain.set_quota(5, 0).unwrap();
        let found = outcomes(drain.run(&batch).unwrap());
        assert_eq!(found.iter().filter(|o| o.is_ok()).count(), 50, "{name}");
        assert_eq!(found.iter().filter(|o| **o == fault(FaultCode::DENIED)).count(), 25, "{name}");
    }
}

/// SHUTDOWN is an opcode like any other. A tenant that may not use it cannot end the pass.
#[test]
fn shutdown_that_is_denied_ends_nothing() {
    for name in devices() {
        let spec = spec(Geometry::new(64).lanes(8).groups(2).window(8)).tenant(Tenant::new(7));
        let mut drain = Drain::new(&device(name), &spec).unwrap();
        drain.allow(7, &[Opcode::NOP]).unwrap();
        let mut batch = Batch::new();
        batch.push(7, Task::new(Opcode::SHUTDOWN)).unwrap();
        (0..200).for_each(|_| batch.push(0, add(0, 1)).unwrap());
        let found = outcomes(drain.run(&batch).unwrap());
        assert_eq!(found[0], fault(FaultCode::DENIED), "{name}");
        assert_eq!(found.iter().filter(|o| o.is_ok()).count(), 200, "{name}");
    }
}

#[test]
fn shutdown_ends_the_run() {
    for name in devices() {
        let mut drain =
            Drain::new(&device(name), &spec(Geometry::new(16).lanes(1).groups(1).window(4))).unwrap();
        let mut batch = Batch::new();
        (0..64).for_each(|k| match k {
            5 => batch.push(0, Task::new(Opcode::SHUTDOWN)).unwrap(),
            _ => batch.push(0, Task::new(op(8)).args([k])).unwrap(),
        });
        let readback = drain.run(&batch).unwrap();
        // The windows of four tasks that were taken end, and no further window is taken.
        let want = |k: u32| {
            if k == 5 {
                Ok(0)
            } else if k < 8 {
                Ok(k * 3)
            } else {
                Err(TaskError::Left)
            }
        };
        assert_eq!(outcomes(readback), (0..64).map(want).collect::<Vec<_>>(), "{name}");
        assert_eq!((readback.statistics().left, readback.statistics().passes), (56, 1), "{name}");
        let mut next = Batch::new();
        next.push(0, Task::new(op(8)).args([1])).unwrap();
        assert_eq!(outcomes(drain.run(&next).unwrap()), [Ok(3)], "{name}");
    }
}

#[test]
fn many_batches_in_one_call() {
    for claim in [Claim::Owned, Claim::PRIORITY] {
        let mut drain =
            Drain::new(&device("cpu"), &spec(Geometry::new(1024).lanes(8).groups(2)).claim(claim)).unwrap();
        let batches: Vec<Batch> = (0..40u32)
            .map(|b| {
                let mut batch = Batch::new();
                let priority = Priority::ALL[b as usize % 5];
                (0..b).for_each(|k| {
                    batch.push(0, Task::new(op(8)).args([b * 100 + k]).priority(priority)).unwrap()
                });
                batch
            })
            .collect();
        let readback = drain.run_all(&batches).unwrap();
        assert_eq!((readback.statistics().passes, readback.statistics().done), (1, 780));
        for b in 0..40u32 {
            let found: Vec<_> = readback.batch_outcomes(b as usize).unwrap().collect();
            assert_eq!(found, (0..b).map(|k| Ok((b * 100 + k) * 3)).collect::<Vec<_>>());
        }
        assert!(readback.batch_outcomes(40).is_none());
        assert_eq!(drain.run_all(&[]).unwrap().outcomes().unwrap().len(), 0);
        assert_eq!(drain.run(&Batch::new()).unwrap().statistics().passes, 0);
    }
}

#[test]
fn the_urgent_come_first() {
    for name in devices() {
        for slots in [8, 64] {
            let geometry = Geometry::new(slots).lanes(1).groups(1);
            let mut drain = Drain::new(&device(name), &spec(geometry).claim(Claim::PRIORITY)).unwrap();
            let mut batch = Batch::new();
            let priorities = [4, 2, 0, 2, 1, 4, 0, 0, 2, 3].map(|code| Priority::from_code(code).unwrap());
            priorities.iter().for_each(|p| batch.push(0, add(0, 1).priority(*p)).unwrap());
            let readback = drain.run(&batch).unwrap();
            // The results say in which order the tasks ran.
            let want = [8, 4, 0, 5, 3, 9, 1, 2, 6, 7];
            assert_eq!(outcomes(readback), want.map(Ok), "{name}, {slots} slots");
            assert_eq!(readback.control().partitions(), [0, 3, 4, 7, 8, 10]);
            assert_eq!(readback.control().levels(), [3, 1, 3, 1, 2]);
        }
    }
}

#[test]
fn a_report_of_control_words_alone() {
    for name in devices() {
        let spec = spec(Geometry::new(64).lanes(8).groups(2)).report(Report::Control);
        let mut drain = Drain::new(&device(name), &spec).unwrap();
        let mut batch = Batch::new();
        (0..100).for_each(|_| batch.push(0, add(7, 2)).unwrap());
        batch.push(0, Task::new(Opcode::BATCH_FENCE).args([100, 33])).unwrap();
        (0..9).for_each(|_| batch.push(5, Task::new(op(9)).args([1])).unwrap());
        let readback = drain.run(&batch).unwrap();
        assert!(readback.outcomes().is_none() && readback.batch_outcomes(0).is_none());
        let s = readback.statistics();
        assert_eq!((s.tasks, s.done, s.faults, s.left, s.epoch), (110, 110, None, 0, 1));
        // This checks the control words one by one.
        let mut want = vec![0u32; 163];
        for (at, word) in [
            (1, 110),
            (2, 3),
            (3, u32::MAX),
            (8, u32::MAX),
            (64, 101),
            (69, 9),
            (98, 100),
            (103, 1),
            (105, 9),
            (128, 1),
            (138, 110),
            (160, 33),
        ] {
            want[at] = word;
        }
        assert_eq!(readback.control().words(), want, "{name}");
        assert_eq!(drain.view::<u32>(0, "data").unwrap().read(7, 1).unwrap(), [200]);
    }
}

#[test]
fn a_fence_comes_after_all_before_it() {
    const BEFORE: u32 = 40;
    for name in devices() {
        for (lanes, groups) in [(1, 1), (1, 5), (8, 2)] {
            let geometry = Geometry::new(256).lanes(lanes).groups(groups).window(8);
            let spec = Spec::new(geometry)
                .tenant(Tenant::new(0).observables(1))
                // The handler takes its time and then counts itself.
                .handler_at(
                    op(8),
                    "op8",
                    Handler::lane_wide(|slot| {
                        let f = slot.body();
                        f.range((f.lit(0), slot.arg(0), f.lit(1)), (), |_, at, ()| {
                            slot.store(at % 8 + 1, at)
                        });
                        slot.atomic_add(0, 1);
                    }),
                )
                // These are the epoch that the fence shows and the count at that time.
                .handler_at(
                    op(9),
                    "op9",
                    Handler::lane_wide(|slot| {
                        let shown = slot.region::<u32>("observable").at(0);
                        let shown = slot.body().atomic_load(Order::Acquire, Scope::Device, shown);
                        slot.finish(shown << 16 | slot.load(0));
                    }),
                );
            let mut drain = Drain::new(&device(name), &spec).unwrap();
            let mut batch = Batch::new();
            (0..BEFORE).for_each(|k| batch.push(0, Task::new(op(8)).args([k % 7 * 50])).unwrap());
            batch.push(0, Task::new(Opcode::BATCH_FENCE).args([BEFORE, 1])).unwrap();
            (0..150).for_each(|_| batch.push(0, Task::new(op(9))).unwrap());
            for round in 1..=5 {
                let found = outcomes(drain.run(&batch).unwrap());
                assert_eq!(found[BEFORE as usize], Ok(1));
                let looks = found[BEFORE as usize + 1..].iter().map(|look| look.unwrap());
                let after: Vec<u32> = looks.filter(|look| look >> 16 == 1).collect();
                let early = after.iter().find(|look| *look & 0xffff != BEFORE * round);
                assert_eq!(early, None, "{name}, {lanes} lanes, {groups} groups");
                // One group takes its windows in order, so all tasks come after the fence but those in its own window.
                assert!(groups > 1 || after.len() >= 143, "{name}: {}", after.len());
            }
        }
    }
}

#[test]
fn what_is_printed_is_the_run_s_own() {
    for name in devices() {
        let mut drain = Drain::new(&device(name), &spec(Geometry::new(32).lanes(8).groups(1))).unwrap();
        let mut batch = Batch::new();
        (0..65).for_each(|k| batch.push(0, Task::new(Opcode::PRINTF).args([1, k, 255])).unwrap());
        for _ in 0..2 {
            let readback = drain.run(&batch).unwrap();
            assert_eq!(readback.statistics().lost, 1, "{name}");
            assert_eq!(readback.control().log_lost(), 1, "{name}");
            assert_eq!(outcomes(readback).iter().filter(|o| **o == Ok(1)).count(), 64, "{name}");
            let lines = drain.log().unwrap();
            assert_eq!(lines.len(), 64);
            assert!(lines.contains(&"0 and ff".to_string()) && lines.contains(&"31 and ff".to_string()));
        }
        let mut quiet = Batch::new();
        quiet.push(0, add(0, 1)).unwrap();
        drain.run(&quiet).unwrap();
        assert!(drain.log().unwrap().is_empty());
    }
}

#[test]
fn one_handler_alone_and_nothing_counted() {
    let spec = Spec::new(Geometry::new(64).lanes(8)).body(SlotBody::Fused).telemetry(Telemetry::Off);
    let spec =
        spec.handler_at(op(8), "op8", Handler::lane_wide(|slot| slot.finish(slot.arg(0) + slot.arg(11))));
    let mut drain = Drain::new(&device("cpu"), &spec).unwrap();
    let mut batch = Batch::new();
    (0..100)
        .for_each(|k| batch.push(0, Task::new(op(8)).args([k, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])).unwrap());
    batch.push(0, add(0, 1)).unwrap();
    let readback = drain.run(&batch).unwrap();
    let found = outcomes(readback);
    assert_eq!(found[..100], (1..101).map(Ok).collect::<Vec<_>>());
    assert_eq!(found[100], fault(FaultCode::UNKNOWN));
    assert_eq!((readback.statistics().done, readback.statistics().faults), (101, Some(1)));
    let error = Drain::new(&device("cpu"), &spec.report(Report::Control)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "telemetry = off: the report contains only counters, and without telemetry there are none"
    );
}

#[test]
fn a_step_of_an_automaton_needs_a_kernel_that_has_it() {
    let step = Task::new(Opcode::DFA_STEP).args([1, 20, 300]);
    let mut packed = Packed::new();
    packed.push(Opcode::ATOMIC_ADD, &[1, 0]).unwrap();
    packed.push(Opcode::DFA_STEP, &[1, 20, 300]).unwrap();
    for name in devices() {
        let mut batch = Batch::new();
        batch.push(0, add(0, 1)).unwrap();
        batch.push(0, step).unwrap();
        let mut without = Drain::new(&device(name), &spec(Geometry::new(8))).unwrap();
        let refused = without.run(&batch).unwrap_err();
        assert!(matches!(refused, Error::Submit(SubmitError::NotImplemented(Opcode::DFA_STEP))), "{name}");
        assert_eq!(
            refused.to_string(),
            "DFA_STEP cannot be submitted: this kernel has no automata; kernels with a catalog of rules have them"
        );
        assert_eq!(without.view::<u32>(0, "data").unwrap().read(0, 1).unwrap(), [0], "{name}: nothing ran");
        let with = spec(Geometry::new(8)).handler_at(
            Opcode::DFA_STEP,
            "dfa_step",
            Handler::lane_wide(|task| task.finish(task.arg(0) + task.arg(1) + task.arg(2))),
        );
        assert_eq!(with.opcode("dfa_step"), Ok(Opcode::DFA_STEP));
        batch.push(0, Task::try_from(&packed).unwrap()).unwrap();
        let mut drain = Drain::new(&device(name), &with).unwrap();
        let readback = drain.run(&batch).unwrap();
        assert_eq!(outcomes(readback)[..2], [Ok(0), Ok(321)], "{name}");
        assert!(outcomes(readback)[2].is_ok(), "{name}: it may be packed");
    }
}

#[test]
fn a_batch_is_refused_before_anything_runs() {
    let mut batch = Batch::new();
    let refused =
        |batch: &mut Batch, tenant, code| batch.push(tenant, Task::new(Opcode::from_code(code))).unwrap_err();
    assert_eq!(refused(&mut batch, 29, 0), SubmitError::UnknownTenant(29));
    assert_eq!(refused(&mut batch, 0, 0xfffd), SubmitError::NotImplemented(Opcode::LOAD_MISS));
    assert_eq!(refused(&mut batch, 0, 0x8000_0002), SubmitError::NotSubmittable(Opcode::CANCEL));
    assert_eq!(refused(&mut batch, 0, 0xfff0), SubmitError::NotSubmittable(Opcode::from_code(0xfff0)));
    assert!(batch.is_empty());
    batch.push(0, add(0, 1)).unwrap();
    batch.push(3, add(0, 1)).unwrap();
    let mut drain = Drain::new(&device("cpu"), &spec(Geometry::new(8))).unwrap();
    assert!(matches!(drain.run(&batch), Err(Error::UnknownTenant(3))));
    assert_eq!(drain.view::<u32>(0, "data").unwrap().read(0, 1).unwrap(), [0]);
    batch.clear();
    batch.push(0, add(0, 1)).unwrap();
    assert_eq!(outcomes(drain.run(&batch).unwrap()), [Ok(0)]);
    for (slots, groups) in [(1 << 25, 1), (8, u32::MAX), (3, 1)] {
        assert!(matches!(
            Drain::new(&device("cpu"), &spec(Geometry::new(slots).groups(groups))),
            Err(Error::Refused(_))
        ));
    }
}

#[test]
fn a_batch_may_lie_where_the_device_reads_it() {
    for name in devices() {
        let device = device(name);
        let geometry = Geometry::new(64).lanes(8).groups(2);
        for claim in [Claim::Owned, Claim::PRIORITY] {
            let mut drain = Drain::new(&device, &spec(geometry.clone()).claim(claim)).unwrap();
            let mut other = Drain::new(&device, &spec(geometry.clone()).claim(claim)).unwrap();
            let (mut lent, mut own) = (drain.batch().unwrap(), Batch::new());
            // First there are as many tasks as there is room for, then more, then few again.
            for count in [64u32, 65, 3] {
                lent.clear();
                own.clear();
                for k in 0..count {
                    let task = Task::new(op(8)).args([k]).priority(Priority::ALL[k as usize % 5]);
                    lent.push(0, task).unwrap();
                    own.push(0, task).unwrap();
                }
                let want: Vec<_> = (0..count).map(|k| Ok(k * 3)).collect();
                assert_eq!((&lent, lent.len()), (&own, count as usize), "{name}");
                assert_eq!(lent.clone(), own, "{name}");
                assert!(lent.slots().eq(own.slots()), "{name}");
                for batch in [&lent, &own, &lent] {
                    assert_eq!(outcomes(drain.run(batch).unwrap()), want, "{name}");
                    // For another drain, this is a batch like any other.
                    assert_eq!(outcomes(other.run(batch).unwrap()), want, "{name}");
                }
                let both = [lent.clone(), own.clone()];
                assert_eq!(drain.run_all(&both).unwrap().statistics().done, 2 * u64::from(count), "{name}");
                drain.run(&lent).unwrap();
                let ended = |slot: &pelton::protocol::Slot| slot.0[0] == Status::Done.code();
                assert!(drain.ring().unwrap().iter().all(ended), "{name}");
            }
        }
    }
}

#[test]
fn a_run_that_was_ended_leaves_nothing_for_the_next() {
    for name in devices() {
        // Each pass has two slots, and the pass that is ended is not the last one.
        let geometry = Geometry::new(2).lanes(1).groups(1);
        let mut drain = Drain::new(&device(name), &spec(geometry)).unwrap();
        let mut batch = Batch::new();
        let ops = [Opcode::BATCH_FENCE, Opcode::SHUTDOWN, Opcode::BATCH_FENCE, Opcode::NOP];
        ops.iter().for_each(|op| batch.push(0, Task::new(*op)).unwrap());
        for _ in 0..3 {
            let readback = drain.run(&batch).unwrap();
            let left = Err(TaskError::Left);
            assert_eq!(outcomes(readback), [Ok(1), Ok(0), left, left], "{name}");
            let s = readback.statistics();
            assert_eq!((s.done, s.left, s.epoch, s.passes), (2, 2, 1, 1), "{name}");
        }
    }
}

/// Finds results whose order depends on the way in which the iterator is used.
#[test]
fn results_are_gone_through_in_order() {
    for name in devices() {
        for claim in [Claim::Owned, Claim::PRIORITY] {
            let mut drain = Drain::new(&device(name), &spec(Geometry::new(8)).claim(claim)).unwrap();
            let mut batch = Batch::new();
            for k in 0..20 {
                let priority = if k % 2 == 0 { Priority::Low } else { Priority::High };
                batch.push(0, Task::new(op(8)).args([k]).priority(priority)).unwrap();
            }
            let readback = drain.run(&batch).unwrap();
            let wanted: Vec<_> = (0..20).map(|k| Ok(k * 3)).collect();
            assert_eq!(readback.into_iter().collect::<Vec<_>>(), wanted, "{name}, {claim:?}");
            assert!(readback.into_iter().rev().eq(wanted.iter().rev().copied()), "{name}, {claim:?}");
            let mut some = readback.into_iter();
            assert_eq!((some.len(), some.nth(4), some.len()), (20, Some(Ok(12)), 15), "{name}, {claim:?}");
        }
        let control = spec(Geometry::new(8)).report(Report::Control);
        let mut drain = Drain::new(&device(name), &control).unwrap();
        let mut batch = Batch::new();
        batch.push(0, add(0, 1)).unwrap();
        let readback = drain.run(&batch).unwrap();
        assert_eq!((readback.into_iter().len(), readback.outcomes().is_none()), (0, true), "{name}");
    }
}
