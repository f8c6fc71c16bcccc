//! A handler that a whole group runs together, beside others that a lane runs alone.

use std::error::Error;

use pelton::ir::types::{Order, Scope, Type};
use pelton::kernel::{Draft, Width};
use pelton::{Deadline, Geometry, Opcode, Region, Session, Spec, Task, device};

fn main() -> Result<(), Box<dyn Error>> {
    let spec = Spec::new(Geometry::new(256).lanes(64)).region(Region::new("samples", Type::U32, 1 << 16));
    // The lanes of a group share the samples from..to among them, add up their parts, and meet.
    let sum = Draft::new(Opcode::user(8)?)
        .name("sum")
        .width(Width::Group)
        .regions(&spec.regions)
        .shared("total", Type::U32, 1)
        .build(|slot| {
            let f = slot.body();
            let (total, samples) = (slot.region::<u32>("total"), slot.region::<u32>("samples"));
            f.when(f.lane().eq(0), || f.store(total.at(0), 0));
            f.barrier();
            let (from, to) = (slot.arg(0), slot.arg(1));
            let own = f.count((from + f.lane(), to, f.lanes()), f.lit(0u32), |_, at, own| {
                own + f.load(samples.at(at))
            });
            f.atomic_add(Order::Relaxed, Scope::Group, total.at(0), own);
            f.barrier();
            slot.finish(f.load(total.at(0)));
        });
    let op = sum.op;
    let session = Session::launch(&device::open("auto")?, &spec.with(sum))?;

    let values: Vec<u32> = (0..1 << 16).map(|k| k * 7 % 1000).collect();
    session.view::<u32>(0, "samples")?.write(0, &values)?;
    let mut producer = session.producer(0)?;
    // Group-wide and lane-wide tasks, mixed in one batch.
    let task = |k: u32| match k % 2 {
        0 => Task::new(op).args([k * 1000, k * 1000 + 999]),
        _ => Task::new(Opcode::ATOMIC_ADD).args([k, 0]),
    };
    let mut span = producer.submit_all((0..64).map(task))?;
    span.wait(Deadline::after_ms(10_000))?;
    for k in (0..64).step_by(2) {
        let expected: u32 = values[k * 1000..k * 1000 + 999].iter().sum();
        assert_eq!(span.result(k), Some(Ok(expected)));
    }
    assert_eq!(session.view::<u32>(0, "data")?.read(0, 1)?, [32 * 32]);
    println!("32 sums of 999 samples by groups of {} lanes", session.layout().lanes);
    Ok(())
}
