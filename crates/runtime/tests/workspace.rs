//! Regions of every type, of one tenant or of all, seen from both sides.

use pelton::device::open;
use pelton::ir::types::Type;
use pelton::{Deadline, Error, Opcode, Region, Session, Spec, Task, Tenant};

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
        .handler(scale(), |slot| {
            let f = slot.body();
            let (sums, table) = (slot.region::<f32>("sums"), slot.region::<f32>("table"));
            let (signs, long) = (slot.region::<i32>("signs"), slot.region::<u64>("long"));
            let at = slot.arg(0);
            let by = f.bitcast::<f32>(slot.arg(1));
            f.store(sums.at(at), f.load(sums.at(at)) + f.load(table.at(at)) * by);
            f.store(signs.at(at), f.lit(-7i32));
            f.store(long.at(at), f.load(long.at(at)) + (1u64 << 40));
            slot.finish(f.len(sums));
        })
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
        // The table is all tenants', the rest their own.
        for tenant in [0, 3] {
            assert_eq!(session.view::<f32>(tenant, "sums").unwrap().read(0, 3).unwrap(), [0.0, 6.0, 0.0]);
            assert_eq!(session.view::<i32>(tenant, "signs").unwrap().read(0, 2).unwrap(), [0, -7]);
            assert_eq!(
                session.view::<u64>(tenant, "long").unwrap().words().unwrap()[1]
                    .load(std::sync::atomic::Ordering::Relaxed),
                2 << 40
            );
        }
        // Beyond the tenant's own piece is a fault, though the region goes on.
        let mut producer = session.producer(0).unwrap();
        let mut beyond = producer.submit(Task::new(scale()).args([5, 0])).unwrap();
        assert!(beyond.wait(Deadline::after_ms(20_000)).is_err(), "{device}");
        assert_eq!(session.view::<f32>(3, "sums").unwrap().read(5, 1).unwrap(), [0.0]);
    }
}

#[test]
fn views_are_checked() {
    let session = Session::launch(&open("cpu").unwrap(), &spec()).unwrap();
    assert!(matches!(session.view::<u32>(0, "sums"), Err(Error::Type { .. })));
    assert!(matches!(session.view::<u32>(0, "nowhere"), Err(Error::Region(_))));
    assert!(matches!(session.view::<u32>(7, "data"), Err(Error::Tenant(7))));
    let sums = session.view::<f32>(0, "sums").unwrap();
    assert_eq!(sums.len(), 4);
    assert!(matches!(sums.read(3, 2), Err(Error::Range { at: 3, count: 2, len: 4, .. })));
    assert!(matches!(sums.write(usize::MAX, &[1.0]), Err(Error::Range { .. })));
}
