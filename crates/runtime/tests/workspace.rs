//! Regions of every type, shared or of one tenant, as the host and as tasks see them.

use pelton::device::open;
use pelton::ir::types::{Order, Scope, Type};
use pelton::{Deadline, Error, Handler, Opcode, Region, Session, Spec, Task, Tenant};

fn scale() -> Opcode {
    Opcode::user(8).unwrap()
}

/// Adds `table[i] × arg 1` to `sums[i]`, counts in `long[i]`, and notes the sign in `signs[i]`.
fn spec() -> Spec {
    Spec::default()
        .region(Region::new("sums", Type::F32, 8))
        .region(Region::new("signs", Type::I32, 8))
        .region(Region::new("long", Type::U64, 8))
        .region(Region::shared("table", Type::F32, 8))
        .tenant(Tenant::new(0).size("sums", 4))
        .tenant(Tenant::new(3).name("other"))
        .handler_at(
            scale(),
            "scale",
            Handler::lane_wide(|slot| {
                let f = slot.body();
                let (sums, table) = (slot.region::<f32>("sums"), slot.region::<f32>("table"));
                let (signs, long) = (slot.region::<i32>("signs"), slot.region::<u64>("long"));
                let at = slot.arg(0);
                let by = f.bitcast::<f32>(slot.arg(1));
                f.store(sums.at(at), f.load(sums.at(at)) + f.load(table.at(at)) * by);
                f.store(signs.at(at), f.lit(-7i32));
                f.store(long.at(at), f.load(long.at(at)) + (1u64 << 40));
                slot.finish(f.len(sums));
            }),
        )
}

#[test]
fn regions_are_typed_and_the_tenants_own() {
    for device in ["cpu", "reference"] {
        let session = Session::launch(&open(device).unwrap(), &spec()).unwrap();
        session.view::<f32>(0, "table").unwrap().write(0, &[0.5, 1.5, 2.5, 3.5]).unwrap();
        for (tenant, len) in [(0, 4), (3, 8)] {
            let mut producer = session.producer(tenant).unwrap();
            let mut run = |at| {
                let task = Task::new(scale()).args([at, 2f32.to_bits()]);
                producer.submit(task).unwrap().wait(Deadline::after_ms(20_000))
            };
            assert_eq!((run(1), run(1)), (Ok(len), Ok(len)), "{device}");
        }
        // All tenants share the table, and have the other regions for themselves.
        for tenant in [0, 3] {
            assert_eq!(session.view::<f32>(tenant, "sums").unwrap().read(0, 3).unwrap(), [0.0, 6.0, 0.0]);
            assert_eq!(session.view::<i32>(tenant, "signs").unwrap().read(0, 2).unwrap(), [0, -7]);
            assert_eq!(
                session.view::<u64>(tenant, "long").unwrap().words().unwrap()[1]
                    .load(std::sync::atomic::Ordering::Relaxed),
                2 << 40
            );
        }
        // An access beyond the tenant's own piece is a fault, even though the region is longer.
        let mut producer = session.producer(0).unwrap();
        let mut beyond = producer.submit(Task::new(scale()).args([5, 0])).unwrap();
        assert!(beyond.wait(Deadline::after_ms(20_000)).is_err(), "{device}");
        assert_eq!(session.view::<f32>(3, "sums").unwrap().read(5, 1).unwrap(), [0.0]);
    }
}

#[test]
fn views_are_checked() {
    let session = Session::launch(&open("cpu").unwrap(), &spec()).unwrap();
    assert!(matches!(session.view::<u32>(0, "sums"), Err(Error::RegionType { .. })));
    assert!(matches!(session.view::<u32>(0, "nowhere"), Err(Error::UnknownRegion(_))));
    assert!(matches!(session.view::<u32>(7, "data"), Err(Error::UnknownTenant(7))));
    let sums = session.view::<f32>(0, "sums").unwrap();
    assert_eq!(sums.len(), 4);
    assert!(matches!(sums.read(3, 2), Err(Error::RegionRange { at: 3, count: 2, len: 4, .. })));
    assert!(matches!(sums.write(usize::MAX, &[1.0]), Err(Error::RegionRange { .. })));
    assert!(matches!(
        sums.read_into(3, &mut [0.0; 2]),
        Err(Error::RegionRange { at: 3, count: 2, len: 4, .. })
    ));
}

/// Catches a copy that changes bits, or that goes beyond what it is given.
#[test]
fn values_go_in_and_out_as_they_are() {
    for device in ["cpu", "reference"] {
        let session = Session::launch(&open(device).unwrap(), &spec()).unwrap();
        let (sums, signs) =
            (session.view::<f32>(3, "sums").unwrap(), session.view::<i32>(3, "signs").unwrap());
        let long = session.view::<u64>(3, "long").unwrap();
        // A NaN keeps its bits.
        let odd = f32::from_bits(0x7fc0_1234);
        sums.write(2, &[-0.0, odd, f32::MIN]).unwrap();
        let mut found = [1.0f32; 5];
        sums.read_into(1, &mut found).unwrap();
        let bits = [0.0, -0.0, odd, f32::MIN, 0.0].map(f32::to_bits);
        assert_eq!(found.map(f32::to_bits), bits, "{device}");
        assert_eq!(sums.read_all().unwrap()[1..6].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), bits);
        signs.write(0, &[i32::MIN, -1, 1]).unwrap();
        let mut found = [9i32; 3];
        signs.read_into(1, &mut found).unwrap();
        assert_eq!(found, [-1, 1, 0], "{device}");
        long.write(6, &[u64::MAX - 1, 1 << 40]).unwrap();
        let mut found = [9u64; 3];
        long.read_into(5, &mut found).unwrap();
        assert_eq!(found, [0, u64::MAX - 1, 1 << 40], "{device}");
        long.read_into(8, &mut []).unwrap();
    }
}

/// Stores its second argument in the element that the first names, and returns the byte of it that the third names.
fn large(region: Region) -> Spec {
    let handler = Handler::lane_wide(|slot| {
        let f = slot.body();
        let huge = slot.region::<u32>("huge");
        let at = slot.arg(0);
        f.store(huge.at(at), slot.arg(1));
        slot.finish(f.load_byte(huge.at(at), slot.arg(2)));
    });
    Spec::default().region(region).handler_at(scale(), "scale", handler)
}

/// Catches an offset of 32 bits, a sum of a piece's start and an index that wraps, and a region that is refused though
/// indices reach it.
#[test]
fn a_region_may_have_as_many_elements_as_there_are_indices() {
    // The second tenant's piece ends at the largest index, beyond 4 GiB.
    let (first, second) = ((1 << 31) + 1, (1u32 << 31) - 17);
    let spec = large(Region::new("huge", Type::U32, 8))
        .tenant(Tenant::new(0).size("huge", first))
        .tenant(Tenant::new(1).size("huge", second));
    let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    for (tenant, len) in [(0, first), (1, second)] {
        let mut producer = session.producer(tenant).unwrap();
        let mut run = |at: u32| {
            let task = Task::new(scale()).args([at, 0xab00_0000 + tenant, 3]);
            producer.submit(task).unwrap().wait(Deadline::after_ms(20_000))
        };
        assert_eq!((run(0), run(len - 1)), (Ok(0xab), Ok(0xab)), "tenant {tenant}");
        assert!(run(len).is_err() && run(u32::MAX).is_err(), "tenant {tenant}");
    }
    for (tenant, len) in [(0, first), (1, second)] {
        let view = session.view::<u32>(tenant, "huge").unwrap();
        let word = 0xab00_0000 + tenant;
        assert_eq!(view.read(0, 2).unwrap(), [word, 0]);
        assert_eq!(view.read(len as usize - 2, 2).unwrap(), [0, word]);
    }
}

#[test]
fn a_region_beyond_all_indices_is_refused() {
    let spec = large(Region::new("huge", Type::U32, u32::MAX))
        .tenant(Tenant::new(0).size("huge", u32::MAX))
        .tenant(Tenant::new(1).size("huge", 1));
    let refused = Session::launch(&open("cpu").unwrap(), &spec).map(drop).unwrap_err().to_string();
    assert!(refused.contains("a buffer has at most 4294967295"), "{refused}");
}

/// Catches a piece without elements that is counted as if it had some.
#[test]
fn an_empty_piece_fits_beside_the_longest() {
    let spec = large(Region::new("huge", Type::U32, u32::MAX)).tenant(Tenant::new(1).size("huge", 0));
    let session = Session::launch(&open("cpu").unwrap(), &spec).unwrap();
    assert_eq!(session.view::<u32>(0, "huge").unwrap().len(), u32::MAX as usize);
    let mut producer = session.producer(1).unwrap();
    let task = Task::new(scale()).args([0, 7, 0]);
    assert!(producer.submit(task).unwrap().wait(Deadline::after_ms(20_000)).is_err());
    assert_eq!(session.view::<u32>(0, "huge").unwrap().read(0, 1).unwrap(), [0]);
}

/// Catches a handler that only loads, by whatever op, and is taken for one that writes.
#[test]
fn every_kind_of_load_reads_a_shared_region() {
    let loads = Handler::lane_wide(|task| {
        let f = task.body();
        let table = task.region::<u32>("table");
        let [a, b, c, d] = f.load_wide::<u32, 4>(Order::Relaxed, Scope::Device, table.at(0));
        let whole = f.atomic_load(Order::Relaxed, Scope::Device, table.at(1));
        task.finish(f.load_byte(table.at(0), 1) + whole + f.load(table.at(2)) + a + b + c + d);
    });
    let spec = Spec::default().region(Region::shared("table", Type::U32, 4)).handler("loads", loads);
    for device in ["cpu", "reference"] {
        let session = Session::launch(&open(device).unwrap(), &spec).unwrap();
        session.view::<u32>(0, "table").unwrap().write(0, &[0x0500, 7, 11, 13]).unwrap();
        let task = Task::new(session.opcode("loads").unwrap());
        let result = session.producer(0).unwrap().submit(task).unwrap().wait(Deadline::after_ms(60_000));
        assert_eq!(result.unwrap(), 5 + 7 + 11 + 0x0500 + 7 + 11 + 13, "{device}");
    }
}
