//! Tenants: who may run, what they may do, how much, with what memory.

use pelton::ir::types::{Order, Scope};
use pelton::kernel::AssembleError;
use pelton::protocol::packed::Packed;
use pelton::protocol::{FaultCode, TaskFault};
use pelton::{Error, Geometry, Handler, Opcode, Producer, Session, Spec, Task, TaskError, Tenant, Ticket};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    only_enabled_tenants_run_and_others_are_seen,
    aiming_beyond_ones_region_changes_nothing,
    wide_accesses_and_bytes_end_with_the_region,
    observables_arrive_for_any_number_asked_for,
    masks_deny_what_they_do_not_allow,
    quotas_are_exact_over_several_groups,
    a_tenant_is_disabled_and_enabled_live,
    cancelled_means_never_ran,
];

/// Some tasks of a tenant that is always served. When they are done every group has looked at every ring, for the rings
/// of a group take turns.
fn rounds(producer: &mut Producer) {
    for _ in 0..3 {
        let tickets: Vec<Ticket> = (0..4).map(|_| producer.submit(add(1, 0)).unwrap()).collect();
        for mut ticket in tickets {
            ticket.wait(soon()).unwrap();
        }
    }
}

/// Catches a mask that is looked up by the wrong number, or not at all, and tenants past the end of the table.
fn only_enabled_tenants_run_and_others_are_seen(on: &On) {
    for shape in shapes(on, &[near(8), far(8), far(1)]) {
        let mut spec = shape.spec(16, 2);
        for id in 0..Tenant::MAX_TENANTS {
            let mask = if id % 2 == 0 { u32::MAX } else { 0 };
            spec = spec.tenant(Tenant::new(id).mask(mask).size("data", 16));
        }
        let session = launch(on, &spec);
        let mut producers: Vec<Producer> =
            (0..Tenant::MAX_TENANTS).map(|id| session.producer(id).unwrap()).collect();
        let mut tickets: Vec<Vec<Ticket>> = Vec::new();
        for (id, producer) in producers.iter_mut().enumerate() {
            tickets.push((0..3).map(|_| producer.submit(add(1, id as u32 % 16)).unwrap()).collect());
        }
        for ticket in tickets.iter_mut().step_by(2).flatten() {
            ticket.wait(soon()).unwrap();
        }
        rounds(&mut producers[0]);
        let cell = |id: u32| session.view::<u32>(id, "data").unwrap().read(id as usize % 16, 1).unwrap()[0];
        let depth = session.snapshot().unwrap().depth;
        for id in 1..Tenant::MAX_TENANTS {
            let (ran, left) = if id % 2 == 0 { (3, 0) } else { (0, 3) };
            assert_eq!((cell(id), depth[id as usize]), (ran, left), "{shape}, tenant {id}");
        }
        for id in [Tenant::MAX_TENANTS, Tenant::MAX_TENANTS + 1, u32::MAX] {
            assert!(matches!(session.producer(id), Err(Error::UnknownTenant(n)) if n == id), "{shape}");
            assert!(matches!(session.set_mask(id, 1), Err(Error::UnknownTenant(n)) if n == id), "{shape}");
            let none = Session::launch(on, &spec.clone().tenant(Tenant::new(id))).err();
            assert!(
                matches!(none, Some(Error::Refused(AssembleError::Tenant { id: n, .. })) if n == id),
                "{shape}"
            );
        }
        session.set_mask(27, u32::MAX).unwrap();
        for ticket in &mut tickets[27] {
            ticket.wait(soon()).unwrap();
        }
        assert_eq!(cell(27), 3, "{shape}");
        let left: Vec<u64> = (0..29).map(|id| if id % 2 == 1 && id != 27 { 3 } else { 0 }).collect();
        assert_eq!(session.stop().unwrap().left, left, "{shape}");
        assert_eq!(tickets[1][0].result(), Err(TaskError::Stopped { steps: 0 }), "{shape}");
    }
}

/// Catches an index that is checked against the whole workspace, against another tenant's piece, or after it was added
/// up.
fn aiming_beyond_ones_region_changes_nothing(on: &On) {
    const LEN: u32 = 48;
    for shape in shapes(on, ALL) {
        let tenant = |id| Tenant::new(id).size("data", LEN).observables(1);
        let session = launch(on, &shape.bare(256, 2).tenant(tenant(0)).tenant(tenant(1)));
        let pattern: Vec<u32> = (0..LEN).map(|k| k * 3 + 1).collect();
        for id in 0..2 {
            session.view::<u32>(id, "data").unwrap().write(0, &pattern).unwrap();
        }
        let mut producer = session.producer(1).unwrap();
        // The first element beyond the piece, the neighbour's first one, and an index that wraps around to it.
        for at in [LEN, LEN + 16, 64, 1 << 16, 1 << 31, u32::MAX, u32::MAX - LEN, u32::MAX - 63] {
            let tasks = [
                Task::new(Opcode::STORE_U32).args([7, at]),
                Task::new(Opcode::ATOMIC_ADD).args([7, at]),
                Task::new(Opcode::COMPARE_SWAP).args([at, 0, 7]),
                Task::new(Opcode::COMPARE_SWAP).args([at, 1, 7]),
                Task::new(Opcode::MEMCPY).args([at, 0, 1]),
                Task::new(Opcode::MEMCPY).args([0, at, 1]),
                Task::new(Opcode::MEMCPY).args([0, 8, at]),
                Task::new(Opcode::LOAD_U32).args([at, 0]),
                Task::new(Opcode::LOAD_U32).args([0, at]),
            ];
            let mut span = producer.submit_all(tasks).unwrap();
            span.wait(soon()).unwrap();
            for (task, end) in tasks.iter().zip(span.results()) {
                assert_eq!(end, fault(FaultCode::REGION), "{shape}: {} {:?}", task.op, task.args);
            }
        }
        // Ranges that begin inside the piece and end beyond it.
        for [from, to, words] in [[LEN - 1, 0, 2], [0, LEN - 1, 2], [1, 0, LEN], [8, 0, u32::MAX - 4]] {
            let end = run(&mut producer, Task::new(Opcode::MEMCPY).args([from, to, words]));
            assert_eq!(end, fault(FaultCode::REGION), "{shape}: {from} {to} {words}");
        }
        for id in 0..2 {
            assert_eq!(session.view::<u32>(id, "data").unwrap().read_all().unwrap(), pattern, "{shape}");
            assert_eq!(session.view::<u32>(id, "observable").unwrap().read_all().unwrap(), [0], "{shape}");
        }
        assert_eq!(run(&mut producer, Task::new(Opcode::MEMCPY).args([0, 1, LEN - 1])), Ok(0), "{shape}");
        let moved: Vec<u32> = pattern[..1].iter().chain(&pattern[..LEN as usize - 1]).copied().collect();
        assert_eq!(session.view::<u32>(1, "data").unwrap().read_all().unwrap(), moved, "{shape}");
        assert_eq!(data(&session), pattern, "{shape}");
    }
}

/// The opcode of [`accesses`].
const ACCESS: u32 = 9;

/// Loads 16 bytes, stores 16 bytes, loads a byte, adds, stores or loads a word, as the first argument says; the second
/// is the index and the third the byte.
fn accesses(spec: Spec) -> Spec {
    let accesses = Handler::lane_wide(|slot| {
        let f = slot.body();
        let words = slot.region::<u32>("data");
        let (at, byte) = (words.at(slot.arg(1)), slot.arg(2));
        let result = f
            .switch(slot.arg(0))
            .case([0], || {
                let [a, b, c, d] = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Device, at);
                a + b + c + d
            })
            .case([1], || {
                f.store_wide(Order::Relaxed, Scope::Device, at, [f.lit(7); 4]);
                f.lit(0)
            })
            .case([2], || f.load_byte(at, byte))
            .case([3], || f.atomic_add(Order::Relaxed, Scope::Device, at, 1))
            .case([4], || {
                f.store(at, 7);
                f.lit(0)
            })
            .default(|| f.load(at));
        slot.finish(result);
    });
    spec.handler_at(op(ACCESS), "accesses", accesses)
}

/// Catches 16 bytes that straddle the end of a piece and reach the next tenant's, a check that is folded away though
/// the tenant's piece is not the whole buffer, and a byte of an element beyond the piece.
fn wide_accesses_and_bytes_end_with_the_region(on: &On) {
    // One tenant, whose piece is known when the kernel is assembled, two with equal pieces, and pieces of any length.
    for lens in [&[10u32][..], &[2], &[64], &[48, 48], &[10, 30], &[3, 64, 1]] {
        for shape in shapes(on, &[near(8), far(8), both(32)]) {
            let ids = 0..lens.len() as u32;
            let spec = lens.iter().zip(0..).fold(accesses(shape.bare(256, 2)), |spec, (len, id)| {
                spec.tenant(Tenant::new(id).size("data", *len))
            });
            let session = launch(on, &spec);
            let pattern = |id: u32| -> Vec<u32> {
                (0..lens[id as usize]).map(|k| 0x0101_0101 * (k + 1 + id * 100)).collect()
            };
            let all = |id| session.view::<u32>(id, "data").unwrap().read_all().unwrap();
            for id in ids.clone() {
                session.view::<u32>(id, "data").unwrap().write(0, &pattern(id)).unwrap();
            }
            for id in ids.clone() {
                let (len, own) = (lens[id as usize], pattern(id));
                let mut producer = session.producer(id).unwrap();
                let mut tried = |task: [u32; 3]| run(&mut producer, Task::new(op(ACCESS)).args(task));
                for at in [0, 1, len - 1, len, len + 1, len | 3, 16, 63, 64, 1 << 31, u32::MAX - 3, u32::MAX]
                {
                    let what = format!("{shape}, tenant {id} of {lens:?} at {at}");
                    let first = (at & !3) as usize;
                    let whole = own.get(first..first.saturating_add(4));
                    let sum = whole.map(|words| words.iter().fold(0u32, |sum, word| sum.wrapping_add(*word)));
                    let word = own.get(at as usize).copied();
                    let or_fault = |result: Option<u32>| result.map_or(fault(FaultCode::REGION), Ok);
                    assert_eq!(tried([0, at, 0]), or_fault(sum), "{what}");
                    assert_eq!(tried([2, at, 3]), or_fault(word.map(|word| word >> 24)), "{what}");
                    for byte in [4, 1 << 29, u32::MAX] {
                        assert_eq!(tried([2, at, byte]), or_fault(word.map(|_| 0)), "{what}, byte {byte}");
                    }
                    assert_eq!(tried([5, at, 0]), or_fault(word), "{what}");
                    if sum.is_none() {
                        assert_eq!(tried([1, at, 0]), fault(FaultCode::REGION), "{what}");
                    }
                    if word.is_none() {
                        assert_eq!(tried([3, at, 0]), fault(FaultCode::REGION), "{what}");
                        assert_eq!(tried([4, at, 0]), fault(FaultCode::REGION), "{what}");
                    }
                }
            }
            for id in ids.clone() {
                assert_eq!(all(id), pattern(id), "{shape}, {lens:?}");
            }
            // Stores inside the piece are made, and no others.
            for id in ids.clone().filter(|id| lens[*id as usize] >= 4) {
                let mut producer = session.producer(id).unwrap();
                let last = (lens[id as usize] & !3) - 1;
                assert_eq!(run(&mut producer, Task::new(op(ACCESS)).args([1, last, 0])), Ok(0), "{shape}");
                assert!(run(&mut producer, Task::new(op(ACCESS)).args([3, 0, 0])).is_ok(), "{shape}");
                let mut expected = pattern(id);
                expected[0] += 1;
                expected[last as usize - 3..=last as usize].fill(7);
                assert_eq!(all(id), expected, "{shape}, tenant {id} of {lens:?}");
            }
        }
    }
}

/// Catches a number of observables that is fixed, and ranges of tenants that overlap.
fn observables_arrive_for_any_number_asked_for(on: &On) {
    const NUMBERS: [u32; 4] = [17, 0, 1, 600];
    for shape in shapes(on, SOME) {
        let mut spec = shape.bare(1024, 2);
        for (id, number) in NUMBERS.into_iter().enumerate() {
            spec = spec.tenant(Tenant::new(id as u32).observables(number));
        }
        let session = launch(on, &spec);
        let expected = |id: usize| (0..NUMBERS[id]).map(|k| k * 5 + id as u32 + 1).collect::<Vec<_>>();
        for (id, number) in NUMBERS.into_iter().enumerate() {
            session.view::<u32>(id as u32, "data").unwrap().write(0, &expected(id)).unwrap();
            let mut producer = session.producer(id as u32).unwrap();
            let load = |at: u32, to: u32| Task::new(Opcode::LOAD_U32).args([at, to]);
            let mut span = producer.submit_all((0..number).map(|k| load(k, k))).unwrap();
            assert_eq!(span.wait(soon()).unwrap().done, number, "{shape}");
            for to in [number, number + 1, u32::MAX] {
                assert_eq!(
                    run(&mut producer, load(0, to)),
                    fault(FaultCode::REGION),
                    "{shape}: {to} of {number}"
                );
            }
        }
        for id in 0..NUMBERS.len() {
            let found = session.view::<u32>(id as u32, "observable").unwrap().read_all().unwrap();
            assert_eq!(found, expected(id), "{shape}, tenant {id}");
        }
    }
}

/// Catches a mask that is not looked at, that is read by a wrong bit, or that packed slots go round.
fn masks_deny_what_they_do_not_allow(on: &On) {
    for shape in shapes(on, SOME) {
        let allowed = Tenant::new(0).allow(&[op(ADD), Opcode::PACKED_SLOT, Opcode::ATOMIC_ADD]);
        let high = Tenant::new(1).allow(&[op(31)]);
        let spec = shape.spec(64, 2).tenant(allowed).tenant(high);
        let session =
            launch(on, &spec.handler_at(op(31), "op31", Handler::lane_wide(|slot| slot.finish(slot.arg(0)))));
        let (mut first, mut second) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        assert_eq!(run(&mut first, add(1, 0)), Ok(0), "{shape}");
        for denied in [Opcode::NOP, Opcode::STORE_U32, Opcode::BATCH_FENCE, op(9), op(30)] {
            assert_eq!(run(&mut first, Task::new(denied)), fault(FaultCode::DENIED), "{shape}: {denied}");
        }
        // A tenant that may submit packed slots may still not run every operation inside of one.
        let mut packed = Packed::new();
        packed.push(Opcode::ATOMIC_ADD, &[1, 1]).unwrap();
        packed.push(Opcode::STORE_U32, &[9, 2]).unwrap();
        packed.push(Opcode::ATOMIC_ADD, &[1, 1]).unwrap();
        let end = run(&mut first, Task::try_from(&packed).unwrap());
        assert_eq!(end, Err(TaskError::Fault(TaskFault { code: FaultCode::DENIED, inner: 1 })), "{shape}");
        assert_eq!(data(&session)[..3], [1, 1, 0], "{shape}");
        // Bit 31 is for all opcodes from 31 on, and for none below.
        assert_eq!(run(&mut second, Task::new(op(31)).args([6])), Ok(6), "{shape}");
        assert_eq!(run(&mut second, Task::new(op(32))), fault(FaultCode::UNKNOWN), "{shape}");
        assert_eq!(run(&mut second, add(1, 0)), fault(FaultCode::DENIED), "{shape}");
    }
}

/// Catches credit that two groups take at once, that is not given back, or that is counted by the window.
fn quotas_are_exact_over_several_groups(on: &On) {
    for shape in shapes(on, ALL) {
        let spec = shape.spec(512, 3).tenant(Tenant::new(0).quota(100)).tenant(Tenant::new(1));
        let spec = Spec { geometry: Geometry { window: 32, ..spec.geometry.clone() }, ..spec };
        let session = launch(on, &spec);
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        // The tasks are submitted in small spans, so that every stripe gets some.
        let mut spans: Vec<_> = (0..30).map(|_| producer.submit_all([add(1, 7); 10]).unwrap()).collect();
        let mut ran = |many: u32| {
            until("the quota is used up", || Ok(data(&session)[7] >= many));
            rounds(&mut other);
            assert_eq!(data(&session)[7], many, "{shape}");
            let mut ended = || {
                let results = spans.iter_mut().flat_map(|span| span.results().collect::<Vec<_>>());
                results.filter(|end| end.is_ok()).count()
            };
            // Records come after what the tasks wrote.
            until("the results are there", || Ok(ended() >= many as usize));
            assert_eq!(ended(), many as usize, "{shape}");
        };
        ran(100);
        session.set_quota(0, 177).unwrap();
        ran(177);
        session.set_quota(0, 0).unwrap();
        ran(300);
    }
}

/// Catches rings of a disabled tenant that are read all the same, and a tenant that stays disabled.
fn a_tenant_is_disabled_and_enabled_live(on: &On) {
    for shape in shapes(on, SOME) {
        let spec = shape.spec(64, 2).tenant(Tenant::new(1));
        let session = launch(on, &spec);
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(1).unwrap());
        for round in 0..5 {
            session.set_mask(0, 0).unwrap();
            let mut tickets: Vec<Ticket> = (0..6).map(|_| producer.submit(add(1, 3)).unwrap()).collect();
            rounds(&mut other);
            assert!(tickets.iter_mut().all(|ticket| !ticket.has_ended()), "{shape}");
            assert_eq!(data(&session)[3], round * 6, "{shape}");
            assert_eq!(session.snapshot().unwrap().occupancy.published, 6, "{shape}");
            session.set_mask(0, u32::MAX).unwrap();
            for ticket in &mut tickets {
                ticket.wait(soon()).unwrap();
            }
            assert_eq!(data(&session)[3], (round + 1) * 6, "{shape}");
        }
    }
}

/// Catches a cancelled task that ran, one that is not cancelled though nobody had taken it, and a record of neither.
fn cancelled_means_never_ran(on: &On) {
    for shape in shapes(on, ALL) {
        let session = launch(on, &shape.spec(64, 2).tenant(Tenant::new(0).mask(0)));
        let mut producer = session.producer(0).unwrap();
        let mut tickets: Vec<Ticket> = (0..20).map(|k| producer.submit(add(1, k)).unwrap()).collect();
        tickets.iter_mut().step_by(2).for_each(Ticket::cancel);
        // No mask forbids cancelling.
        session.set_mask(0, op(ADD).mask_bit()).unwrap();
        for (k, ticket) in tickets.iter_mut().enumerate() {
            let expected = if k % 2 == 0 { Err(TaskError::Cancelled { steps: 0 }) } else { Ok(0) };
            assert_eq!(ticket.wait(soon()), expected, "{shape}, task {k}");
        }
        let ran: Vec<u32> = (0..20).map(|k| k % 2).collect();
        assert_eq!(data(&session)[..20], ran, "{shape}");
        drop(tickets);
        // Now the kernel takes the tasks meanwhile. Whatever becomes of each, its record must say what was done.
        let mut done = 0;
        for _ in 0..20 {
            let mut tickets: Vec<Ticket> = (0..8).map(|_| producer.submit(add(1, 30)).unwrap()).collect();
            for ticket in &mut tickets {
                ticket.cancel();
                match ticket.wait(soon()) {
                    Ok(_) => done += 1,
                    end => assert_eq!(end, Err(TaskError::Cancelled { steps: 0 }), "{shape}"),
                }
            }
        }
        assert_eq!(data(&session)[30], done, "{shape}");
    }
}
