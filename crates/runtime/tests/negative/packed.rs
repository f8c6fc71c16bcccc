//! Packed slots: every packing that is allowed, and those that are not.

use std::iter::repeat_n;

use pelton::protocol::packed::decode_packed;
use pelton::protocol::{FaultCode, TaskFault, slot};
use pelton::{Geometry, Handler, Opcode, Session, Spec, Task, TaskError};

use crate::common::*;

pub(crate) const TESTS: &[Test] =
    named![every_packing_runs_once_or_is_malformed, the_first_fault_ends_a_packed_slot];

/// An operation without arguments that adds 1 to element 0.
const TICK: u8 = 9;
/// An operation that adds 1 to an element.
const BUMP: u8 = 10;
/// An operation that a group runs, so it cannot be packed.
const WIDE: u8 = 11;

/// Returns how many arguments an operation takes, or `None` if it cannot be packed.
fn arity(op: u8) -> Option<u32> {
    match op {
        TICK => Some(0),
        BUMP => Some(1),
        0..=5 => Opcode::from_code(op.into()).builtin_arity(),
        _ => None,
    }
}

fn spec(shape: Shape) -> Spec {
    let spec = Spec { geometry: Geometry { window: 64, ..shape.geometry(256, 2) }, ..Spec::default() };
    let spec = spec.placement(shape.placement).region(pelton::Region::new(
        "data",
        pelton::ir::types::Type::U32,
        8192,
    ));
    spec.handler_at(
        op(TICK.into()),
        "tick",
        Handler::lane_wide(|slot| {
            slot.finish(slot.atomic_add(0, 1));
        }),
    )
    .handler_at(
        op(BUMP.into()),
        "bump",
        Handler::lane_wide(|slot| {
            let at = slot.arg(0);
            slot.finish(slot.atomic_add(at, 1));
        }),
    )
    .handler_at(op(WIDE.into()), "wide", Handler::group_wide(|slot| slot.finish(1)))
}

/// A packed slot with these bytes, whose argument words are all the same.
fn pack(n: u8, a: u8, pairs: &[(u8, u8)], word: u32) -> Task {
    let bytes = [n, a].into_iter().chain(pairs.iter().flat_map(|(op, offset)| [*op, *offset]));
    let mut words = [0; slot::ARGS];
    for (k, byte) in bytes.take(4 * slot::ARGS).enumerate() {
        words[k / 4] |= u32::from(byte) << (k % 4 * 8);
    }
    let start = (2 + 2 * usize::from(n)).div_ceil(4).min(slot::ARGS);
    words[start..].fill(word);
    Task::new(Opcode::PACKED_SLOT).args(words)
}

/// Slots for every number of operations and argument words: the same operation each, at the first offset, at the last
/// that fits, and at the one after it; then those with one operation that cannot be packed at their end.
fn packings() -> Vec<Task> {
    let mut all = Vec::new();
    let next = |all: &Vec<Task>| all.len() as u32 + 1;
    for n in (0..=25).chain([64, 255]) {
        for a in (0..=13).chain([64, 255]) {
            for op in [TICK, BUMP, 2, 4] {
                let last = a - a.min(arity(op).unwrap_or(0) as u8);
                for offset in [0, last, last.saturating_add(1)] {
                    let pairs: Vec<_> = repeat_n((op, offset), n.into()).collect();
                    all.push(pack(n, a, &pairs, next(&all)));
                }
            }
        }
    }
    for bad in [7, 77, 6, WIDE, ADD as u8] {
        for n in 1..=4 {
            let pairs: Vec<_> = repeat_n((BUMP, 0), n - 1).chain([(bad, 0)]).collect();
            all.push(pack(n as u8, 4, &pairs, next(&all)));
        }
    }
    all
}

/// Catches a decoder that runs an operation before it has seen the last, runs one twice or not at all, or reads beyond
/// the slot.
fn every_packing_runs_once_or_is_malformed(on: &On) {
    let all = packings();
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        let mut expected = vec![0u32; 8192];
        for tasks in all.chunks(256) {
            let mut span = producer.submit_all(tasks.iter().copied()).unwrap();
            span.wait(soon()).unwrap();
            for (task, end) in tasks.iter().zip(span.results()) {
                let Ok(inner) = decode_packed(&task.args, arity) else {
                    assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {:x?}", task.args);
                    continue;
                };
                assert!(end.is_ok(), "{shape}: {:x?} gives {end:?}", task.args);
                for inner in inner {
                    let word = task.args[usize::from(inner.at) % slot::ARGS];
                    match inner.op {
                        TICK => expected[0] += 1,
                        BUMP => expected[word as usize] += 1,
                        2 => expected[word as usize] += word,
                        _ => {}
                    }
                }
            }
        }
        let found = data(&session);
        let wrong = (0..8192).find(|at| expected[*at] != found[*at]);
        assert_eq!(wrong.map(|at| (at, expected[at], found[at])), None, "{shape}");
        counted(&session, &all, shape);
    }
}

/// Compares the counters of opcodes with what must have run.
fn counted(session: &Session, all: &[Task], shape: Shape) {
    let legal = || all.iter().filter_map(|task| decode_packed(&task.args, arity).ok()).flatten();
    let counts = session.snapshot().unwrap().opcodes;
    for (op, name) in [(TICK, "tick"), (BUMP, "bump"), (2, "ATOMIC_ADD"), (4, "COMPARE_SWAP"), (WIDE, "wide")]
    {
        let expected = legal().filter(|inner| inner.op == op).count() as u64;
        let found = counts.iter().find(|count| count.name == name).map(|count| count.count);
        assert_eq!(found, Some(expected), "{shape}: {name}");
    }
}

/// Catches a packed slot that goes on after a fault, runs out of order, or does not say which operation it was.
fn the_first_fault_ends_a_packed_slot(on: &On) {
    for shape in shapes(on, SOME) {
        let session = launch(on, &spec(shape));
        let mut producer = session.producer(0).unwrap();
        // Each operation finds what the one before it has stored: 0 → 1 → 2.
        let mut packed = pelton::protocol::packed::Packed::new();
        packed.push(op(BUMP.into()), &[5]).unwrap();
        packed.push(Opcode::COMPARE_SWAP, &[5, 1, 7]).unwrap();
        packed.push(op(BUMP.into()), &[5]).unwrap();
        assert_eq!(run(&mut producer, Task::try_from(&packed).unwrap()), Ok(7), "{shape}");
        let mut packed = pelton::protocol::packed::Packed::new();
        packed.push(op(BUMP.into()), &[6]).unwrap();
        packed.push(op(BUMP.into()), &[9000]).unwrap();
        packed.push(op(BUMP.into()), &[6]).unwrap();
        let end = run(&mut producer, Task::try_from(&packed).unwrap());
        assert_eq!(end, Err(TaskError::Fault(TaskFault { code: FaultCode::REGION, inner: 1 })), "{shape}");
        assert_eq!(data(&session)[5..7], [8, 1], "{shape}");
    }
}
