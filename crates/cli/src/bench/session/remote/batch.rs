//! Batches drained from host to host.

use std::sync::Arc;
use std::time::Instant;

use pelton::kernel::Report;
use pelton::{Batch, Drain, Geometry, Opcode, Region, Spec, Task};
use pelton_device::Device;
use pelton_ir::types::Type;

use crate::error::Error;

/// Words that the tasks of a batch add to, so that they do not all meet at one.
const WORDS: u32 = 1024;

/// Tasks a second of a batch of so many adds, from host to host, in the middle of so many runs.
pub fn rate(device: &Arc<dyn Device>, tasks: u32, report: Report, turns: u32) -> Result<f64, Error> {
    let spec = Spec::new(Geometry::new(tasks)).report(report).region(Region::new("data", Type::U32, WORDS));
    let mut drain = Drain::new(device, &spec)?;
    let mut batch = Batch::with_capacity(tasks as usize);
    for k in 0..tasks {
        batch.push(0, Task::new(Opcode::ATOMIC_ADD).args([1, k % WORDS]))?;
    }
    let mut times = Vec::new();
    // The first run is not like the others.
    for turn in 0..=turns {
        let start = Instant::now();
        let readback = drain.run(&batch)?;
        let took = start.elapsed().as_secs_f64();
        let done = readback.statistics().done;
        let well = readback.outcomes().map(|outcomes| outcomes.filter(Result::is_ok).count());
        if done != u64::from(tasks) || well.is_some_and(|well| well != tasks as usize) {
            return Err(Error::Wrong(format!("{done} of {tasks} tasks of a batch are done")));
        }
        if turn > 0 {
            times.push(took);
        }
    }
    let sum: u64 = drain.view::<u32>(0, "data")?.all()?.iter().map(|word| u64::from(*word)).sum();
    if sum != u64::from(tasks) * u64::from(turns + 1) {
        return Err(Error::Wrong(format!("{} runs of {tasks} adds made {sum}", turns + 1)));
    }
    times.sort_by(f64::total_cmp);
    Ok(f64::from(tasks) / times[times.len() / 2])
}
