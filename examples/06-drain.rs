//! Tasks that are all known beforehand: they run in one pass, are read back, and run again with the same memory.

use std::error::Error;

use pelton::{Batch, Claim, Drain, Geometry, Handler, Opcode, Priority, Spec, Task, device};

const TASKS: u32 = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let hash = Handler::lane_wide(|task| {
        let x = task.arg(0) * 0x9e37_79b9;
        task.finish(x ^ (x >> 16));
    });
    // There is room for all tasks at once; a larger batch would take several passes.
    let spec = Spec::new(Geometry::new(TASKS)).claim(Claim::PRIORITY).handler("hash", hash);
    let mut drain = Drain::new(&device::open("auto")?, &spec)?;
    let hash = drain.opcode("hash")?;

    let mut batch = Batch::with_capacity(TASKS as usize);
    for k in 0..TASKS - 1 {
        batch.push(0, Task::new(hash).args([k]))?;
    }
    // Urgent tasks run first, wherever they stand in the batch.
    batch.push(0, Task::new(Opcode::STORE_U32).args([7, 0]).priority(Priority::Critical))?;

    // The first run allocates what it needs; later runs allocate nothing.
    for _ in 0..3 {
        let readback = drain.run(&batch)?;
        for (k, outcome) in readback.outcomes().into_iter().flatten().take(TASKS as usize - 1).enumerate() {
            let x = (k as u32).wrapping_mul(0x9e37_79b9);
            assert_eq!(outcome?, x ^ (x >> 16));
        }
        let rate = f64::from(TASKS) / readback.statistics().wall.as_secs_f64();
        println!("{TASKS} tasks in one launch, {:.1} M/s", rate / 1e6);
    }
    assert_eq!(drain.view::<u32>(0, "data")?.read(0, 1)?, [7]);

    // Many small batches in one call are one launch too, and each has its own results.
    let small: Vec<Batch> = (0..100)
        .map(|k| {
            let mut batch = Batch::new();
            batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([k, 1]))?;
            Ok(batch)
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    let readback = drain.run_all(&small)?;
    assert_eq!(readback.batch_outcomes(0).into_iter().flatten().count(), 1);
    println!("\n{}", readback.statistics());
    assert_eq!(drain.view::<u32>(0, "data")?.read(1, 1)?, [99 * 100 / 2]);
    Ok(())
}
