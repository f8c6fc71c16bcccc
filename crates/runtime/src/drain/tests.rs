//! Tests of drained batches that would take too many passes from outside of the module.

use pelton_device::open;

use super::{Batch, Drain, GENERATION_MASK, POSITION_LIMIT};
use crate::error::TaskError;
use crate::kernel::{Geometry, Spec};
use crate::protocol::Opcode;
use crate::task::Task;

/// Returns a batch of five tasks, one of which is a fence.
fn batch_with_fence(fence: u32) -> Batch {
    let mut batch = Batch::new();
    for k in 0..5 {
        let op = if k == fence { Opcode::BATCH_FENCE } else { Opcode::NOP };
        batch.push(0, Task::new(op).args([k, 0])).unwrap();
    }
    batch
}

/// Runs a batch at the first positions and then others from `base` on, until positions start from 0 again. Nothing
/// that the first run left behind may be seen.
fn run_over_the_wrap(slots: u32, base: u64) {
    let spec = Spec::new(Geometry::new(slots).lanes(1).groups(1).window(2));
    let mut drain = Drain::new(&open("cpu").unwrap(), &spec).unwrap();
    assert_eq!(drain.run(&batch_with_fence(4)).unwrap().statistics().done, 5);
    // This pretends that many passes have been run. The words that groups share are not at their positions then.
    (drain.next_position, drain.clean) = (base, false);
    drain.set_quota(0, 3).unwrap();
    for run in 0..4 {
        let readback = drain.run(&batch_with_fence(1)).unwrap();
        let left = Err(TaskError::Left);
        let found: Vec<_> = readback.outcomes().unwrap().collect();
        assert_eq!(found, [Ok(0), Ok(1), Ok(0), left, left], "run {run}");
        assert_eq!(readback.statistics().epoch, 1, "run {run}");
    }
    assert!(drain.next_position < base, "positions start from 0 again");
}

#[test]
fn positions_start_again() {
    run_over_the_wrap(256, POSITION_LIMIT);
}

#[test]
fn generations_start_again() {
    run_over_the_wrap(2, (u64::from(GENERATION_MASK) - 2) << 1);
}
