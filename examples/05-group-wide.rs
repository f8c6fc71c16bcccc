//! A handler that all lanes of a group run together, beside others that one lane runs alone.

use std::error::Error;
use std::time::Duration;

use pelton::ir::types::{Order, Scope, Type};
use pelton::{Geometry, Handler, Opcode, Region, Session, Spec, Task, device};

fn main() -> Result<(), Box<dyn Error>> {
    // The lanes of a group divide the samples from..to among them, add up their parts, and meet at a barrier.
    let sum = Handler::group_wide(|group| {
        let f = group.body();
        let (total, samples) = (group.shared::<u32>("total", 1), group.region::<u32>("samples"));
        let (from, to) = (group.arg(0), group.arg(1));
        let own =
            f.range((from + f.lane(), to, f.lanes()), f.lit(0u32), |_, at, own| own + f.load(samples.at(at)));
        f.atomic_add(Order::Relaxed, Scope::Group, total.at(0), own);
        f.barrier();
        group.finish(f.load(total.at(0)));
    });
    let spec = Spec::new(Geometry::new(256).lanes(64))
        .region(Region::new("samples", Type::U32, 1 << 16))
        .handler("sum", sum);
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let op = session.opcode("sum")?;

    let values: Vec<u32> = (0..1 << 16).map(|k| k * 7 % 1000).collect();
    session.view::<u32>(0, "samples")?.write(0, &values)?;
    let mut producer = session.producer(0)?;
    // Group-wide and lane-wide tasks, mixed in one batch.
    let task = |k: u32| match k % 2 {
        0 => Task::new(op).args([k * 1000, k * 1000 + 999]),
        _ => Task::new(Opcode::ATOMIC_ADD).args([k, 0]),
    };
    let mut span = producer.submit_all((0..64).map(task))?;
    span.wait(Duration::from_secs(10))?;
    for k in (0..64).step_by(2) {
        let expected: u32 = values[k * 1000..k * 1000 + 999].iter().sum();
        assert_eq!(span.result(k), Some(Ok(expected)));
    }
    assert_eq!(session.view::<u32>(0, "data")?.read(0, 1)?, [32 * 32]);
    println!("32 sums of 999 samples by groups of {} lanes", session.layout().lanes);
    Ok(())
}
