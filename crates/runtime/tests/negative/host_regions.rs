//! Regions in host memory: they are the tenant's own as any region is, and host and tasks see each other's writes.

use std::sync::atomic::Ordering;

use pelton::ir::types::{Order, Scope, Type};
use pelton::protocol::FaultCode;
use pelton::{Batch, Drain, Geometry, Handler, Region, RegionMemory, Session, Spec, Task, Tenant};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    nobody_reaches_the_piece_of_another_tenant,
    tasks_see_what_the_host_wrote_before_they_were_submitted,
    the_host_sees_what_a_task_wrote_when_it_sees_the_record,
    groups_see_what_the_host_wrote_and_the_host_sees_what_they_wrote,
    only_host_regions_are_always_in_reach,
    drained_batches_have_host_regions,
    what_host_memory_cannot_do_is_refused,
];

/// The opcode of [`accesses`].
const ACCESS: u32 = 9;

fn host(name: &str, len: u32) -> Region {
    Region::new(name, Type::U32, len).in_host_memory()
}

/// Accesses an element of `words` in the way that the first argument says; the second is the index.
fn accesses() -> Handler {
    Handler::lane_wide(|slot| {
        let f = slot.body();
        let at = slot.region::<u32>("words").at(slot.arg(1));
        let result = f
            .switch(slot.arg(0))
            .case([0], || {
                let [a, b, c, d] = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, at);
                a + b + c + d
            })
            .case([1], || {
                f.store_wide(Order::Relaxed, Scope::Device, at, [f.lit(7); 4]);
                f.lit(0)
            })
            .case([2], || f.load_byte(at, 3u32))
            .case([3], || {
                f.atomic_store(Order::Relaxed, Scope::System, at, 7u32);
                f.lit(0)
            })
            .case([4], || {
                f.store(at, 7);
                f.lit(0)
            })
            .case([5], || f.atomic_load(Order::Relaxed, Scope::Device, at))
            .default(|| f.load(at));
        slot.finish(result);
    })
}

/// Catches an index into host memory that is checked against the whole buffer, against another tenant's piece, or only
/// for some kinds of accesses.
fn nobody_reaches_the_piece_of_another_tenant(on: &On) {
    for lens in [&[10u32][..], &[48, 48], &[10, 30], &[3, 64, 1]] {
        for shape in shapes(on, SOME) {
            let spec =
                shape.bare(256, 2).region(host("words", 4)).handler_at(op(ACCESS), "accesses", accesses());
            let tenants = lens.iter().zip(0..).map(|(len, id)| Tenant::new(id).size("words", *len));
            let session = launch(on, &tenants.fold(spec, Spec::tenant));
            let pattern = |id: u32| -> Vec<u32> {
                (0..lens[id as usize]).map(|k| 0x0101_0101 * (k + 1 + id * 100)).collect()
            };
            let ids = 0..lens.len() as u32;
            for id in ids.clone() {
                session.view::<u32>(id, "words").unwrap().write(0, &pattern(id)).unwrap();
            }
            for id in ids.clone() {
                let (len, own) = (lens[id as usize], pattern(id));
                let mut producer = session.producer(id).unwrap();
                let mut tried = |way, at| run(&mut producer, Task::new(op(ACCESS)).args([way, at]));
                for at in [0, len - 1, len, len + 1, len | 3, 16, 63, 64, 1 << 31, u32::MAX - 3, u32::MAX] {
                    let what = format!("{shape}, tenant {id} of {lens:?} at {at}");
                    let first = (at & !3) as usize;
                    let whole = own.get(first..first.saturating_add(4));
                    let sum = whole.map(|words| words.iter().fold(0u32, |sum, word| sum.wrapping_add(*word)));
                    let word = own.get(at as usize).copied();
                    let or_fault = |result: Option<u32>| result.map_or(fault(FaultCode::REGION), Ok);
                    assert_eq!(tried(0, at), or_fault(sum), "{what}");
                    assert_eq!(tried(2, at), or_fault(word.map(|word| word >> 24)), "{what}");
                    assert_eq!(tried(5, at), or_fault(word), "{what}");
                    assert_eq!(tried(6, at), or_fault(word), "{what}");
                    if sum.is_none() {
                        assert_eq!(tried(1, at), fault(FaultCode::REGION), "{what}");
                    }
                    if word.is_none() {
                        assert_eq!(tried(3, at), fault(FaultCode::REGION), "{what}");
                        assert_eq!(tried(4, at), fault(FaultCode::REGION), "{what}");
                    }
                }
            }
            for id in ids.clone() {
                let all = session.view::<u32>(id, "words").unwrap().read_all().unwrap();
                assert_eq!(all, pattern(id), "{shape}, tenant {id} of {lens:?}");
            }
            // Stores inside the piece are made, and no others.
            for id in ids.clone().filter(|id| lens[*id as usize] >= 8) {
                let mut producer = session.producer(id).unwrap();
                let last = lens[id as usize] - 1;
                for (way, at) in [(1, 0), (3, last), (4, last - 1)] {
                    assert_eq!(run(&mut producer, Task::new(op(ACCESS)).args([way, at])), Ok(0), "{shape}");
                }
                let mut expected = pattern(id);
                expected[..4].fill(7);
                expected[last as usize - 1..].fill(7);
                let all = session.view::<u32>(id, "words").unwrap().read_all().unwrap();
                assert_eq!(all, expected, "{shape}, tenant {id} of {lens:?}");
            }
        }
    }
}

/// How often a word is rewritten in each shape. The interpreter is slow.
fn rewrites(on: &On) -> u32 {
    match &*on.caps().name {
        name if name.starts_with("cuda") => 100_000,
        name if name.starts_with("cpu") => 4_000,
        _ => 400,
    }
}

/// Reads the element that its first argument names, as often as its second says, and gives what it has read last.
fn reads() -> Handler {
    Handler::lane_wide(|slot| {
        let (f, words) = (slot.body(), slot.region::<u32>("words"));
        let read = |_, _, _| f.load(words.at(slot.arg(0)));
        slot.finish(f.range((f.lit(0), slot.arg(1), f.lit(1)), f.lit(0), read));
    })
}

/// Catches loads that find an old word in a cache: words that lie close together are rewritten in place between tasks, of
/// which some are run by a poller and others in a window.
fn tasks_see_what_the_host_wrote_before_they_were_submitted(on: &On) {
    const WORDS: u32 = 64;
    for shape in shapes(on, SOME) {
        let spec = shape
            .bare(64, 2)
            .region(host("words", WORDS).read_only())
            .handler_at(op(ACCESS), "accesses", reads_in_many_ways())
            .handler_at(op(10), "reads", reads());
        let session = launch(on, &spec);
        let (view, mut producer) = (session.view::<u32>(0, "words").unwrap(), session.producer(0).unwrap());
        let words = view.words().unwrap();
        for round in 0..rewrites(on) {
            let (at, word) = (round % WORDS, round ^ 0x5555_5555);
            // The submit that follows is a release, and its acquire is the kernel's.
            words[at as usize].store(word, Ordering::Relaxed);
            let alone = Task::new(op(ACCESS)).args([round % 3, at]);
            assert_eq!(run(&mut producer, alone), Ok(word), "{shape}, round {round}");
            let mut span = producer.submit_all([Task::new(op(10)).args([at, 2]); 6]).unwrap();
            span.wait(soon()).unwrap();
            assert!(span.results().all(|result| result == Ok(word)), "{shape}, round {round}");
        }
    }
}

/// Reads a word in the way that the first argument says, without a loop, so that a poller may run it.
fn reads_in_many_ways() -> Handler {
    Handler::lane_wide(|slot| {
        let (f, words) = (slot.body(), slot.region::<u32>("words"));
        let at = words.at(slot.arg(1));
        let wide = || {
            let four = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Group, at);
            let lane = slot.arg(1) & 3;
            let low = f.select(lane.eq(0), four[0], four[1]);
            f.select(lane.lt(2), low, f.select(lane.eq(2), four[2], four[3]))
        };
        let bytes = || {
            let byte = |k: u32| f.load_byte(at, k) << (8 * k);
            byte(0) | byte(1) | byte(2) | byte(3)
        };
        slot.finish(f.switch(slot.arg(0)).case([0], wide).case([1], bytes).default(|| f.load(at)));
    })
}

/// Catches records that overtake what their tasks have written.
fn the_host_sees_what_a_task_wrote_when_it_sees_the_record(on: &On) {
    const WORDS: u32 = 64;
    for shape in shapes(on, SOME) {
        let writes = Handler::lane_wide(|slot| {
            let (f, words) = (slot.body(), slot.region::<u32>("words"));
            f.store(words.at(slot.arg(0)), slot.arg(1));
            f.store(words.at(slot.arg(0) + 1), slot.arg(1) + 1);
            slot.finish(slot.arg(1));
        });
        let spec = shape.bare(64, 2).region(host("words", WORDS)).handler_at(op(ACCESS), "writes", writes);
        let session = launch(on, &spec);
        let (view, mut producer) = (session.view::<u32>(0, "words").unwrap(), session.producer(0).unwrap());
        let words = view.words().unwrap();
        let shown =
            |at: u32| (0..2).map(|k| words[(at + k) as usize].load(Ordering::Relaxed)).collect::<Vec<_>>();
        for round in 0..rewrites(on) {
            let task =
                |k: u32| Task::new(op(ACCESS)).args([(round * 2 + k * 8) % (WORDS - 8), round * 10 + k]);
            assert_eq!(run(&mut producer, task(0)), Ok(round * 10), "{shape}");
            assert_eq!(shown(task(0).args[0]), [round * 10, round * 10 + 1], "{shape}, round {round}");
            let mut span = producer.submit_all((1..4).map(task)).unwrap();
            span.wait(soon()).unwrap();
            for k in 1..4 {
                let expected = [round * 10 + k, round * 10 + k + 1];
                assert_eq!(shown(task(k).args[0]), expected, "{shape}, round {round}");
            }
        }
    }
}

/// Catches lanes of a group that see another state of host memory than lane 0 does.
fn groups_see_what_the_host_wrote_and_the_host_sees_what_they_wrote(on: &On) {
    const WORDS: u32 = 1024;
    for shape in shapes(on, &[near(32), far(8), both(32)]) {
        let doubles = Handler::group_wide(|group| {
            let f = group.body();
            let (from, to) = (group.region::<u32>("from"), group.region::<u32>("to"));
            f.range((f.lane(), f.lit(WORDS), f.lanes()), (), |_, at, ()| {
                f.store(to.at(at), f.load(from.at(at)) * 2)
            });
            f.barrier();
            group.finish(f.load(from.at(0)));
        });
        let spec = shape
            .bare(64, 2)
            .region(host("from", WORDS).read_only())
            .region(host("to", WORDS))
            .handler_at(op(ACCESS), "doubles", doubles);
        let session = launch(on, &spec);
        let mut producer = session.producer(0).unwrap();
        for round in 0..rewrites(on) / 100 {
            let numbers: Vec<u32> = (0..WORDS).map(|k| k + round).collect();
            session.view::<u32>(0, "from").unwrap().write(0, &numbers).unwrap();
            assert_eq!(run(&mut producer, Task::new(op(ACCESS))), Ok(round), "{shape}");
            let doubled: Vec<u32> = numbers.iter().map(|number| number * 2).collect();
            assert_eq!(session.view::<u32>(0, "to").unwrap().read_all().unwrap(), doubled, "{shape}");
        }
    }
}

/// Catches a host region that is allocated as memory of the device, and a device region that is not.
fn only_host_regions_are_always_in_reach(on: &On) {
    for shape in shapes(on, &[near(8), far(8)]) {
        let spec = shape.bare(64, 2).region(host("words", 64)).region(Region::new("own", Type::U32, 64));
        let session = launch(on, &spec);
        assert!(session.view::<u32>(0, "words").unwrap().words().is_ok(), "{shape}");
        let kind = |name: &str| {
            let buffers = &session.layout().buffers;
            buffers.iter().find(|buffer| buffer.name == name).map(|buffer| buffer.kind)
        };
        assert_eq!(kind("region.words"), Some(pelton::device::MemoryKind::Host), "{shape}");
        assert_eq!(kind("region.own"), Some(pelton::device::MemoryKind::Device), "{shape}");
    }
}

/// Catches drained batches that do not see, or do not show, what is in host memory.
fn drained_batches_have_host_regions(on: &On) {
    let spec = Spec::new(Geometry::new(64).lanes(8))
        .region(host("words", 64))
        .handler_at(op(ACCESS), "accesses", accesses())
        .tenant(Tenant::new(0))
        .tenant(Tenant::new(1).size("words", 8));
    let mut drain = Drain::new(on, &spec.lifetime(pelton::kernel::Lifetime::Drain)).unwrap();
    for round in 0..3 {
        drain.view::<u32>(1, "words").unwrap().write(0, &[round, round + 5]).unwrap();
        let mut batch = Batch::new();
        batch.push(1, Task::new(op(ACCESS)).args([6, 1])).unwrap();
        batch.push(1, Task::new(op(ACCESS)).args([4, 7])).unwrap();
        batch.push(1, Task::new(op(ACCESS)).args([4, 8])).unwrap();
        let readback = drain.run(&batch).unwrap();
        let ends: Vec<_> = readback.outcomes().unwrap().collect();
        assert_eq!(ends, [Ok(round + 5), Ok(0), fault(FaultCode::REGION)]);
        assert_eq!(drain.view::<u32>(1, "words").unwrap().words().unwrap()[7].load(Ordering::Relaxed), 7);
        assert_eq!(drain.view::<u32>(0, "words").unwrap().read_all().unwrap(), [0; 64]);
    }
}

/// Catches read-modify-writes of host memory, which a GPU does not make atomic against the host.
fn what_host_memory_cannot_do_is_refused(on: &On) {
    let adds = Handler::lane_wide(|slot| {
        let (f, words) = (slot.body(), slot.region::<u32>("words"));
        slot.finish(f.atomic_add(Order::Relaxed, Scope::System, words.at(0), 1u32));
    });
    let spec = Spec::default().handler_at(op(ACCESS), "adds", adds);
    let refused =
        |spec: &Spec| Session::launch(on, spec).err().map(|error| error.to_string()).unwrap_or_default();
    let why = refused(&spec.clone().region(host("words", 8)));
    assert!(why.contains("`atomic_add` modifies region \"words\", which lies in host memory"), "{why}");
    assert_eq!(refused(&spec.region(Region::new("words", Type::U32, 8))), "");
    let data = Region { memory: RegionMemory::Host, ..Region::new("data", Type::U32, 64) };
    let why = refused(&Spec::default().region(data));
    assert!(why.contains("must lie in the memory of the device"), "{why}");
}
