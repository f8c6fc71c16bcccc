//! What takes too many passes to be seen from outside.

use pelton_device::open;

use super::{Batch, Drain, GENERATION_MASK, POSITION_LIMIT};
use crate::error::TaskError;
use crate::kernel::{Geometry, Spec};
use crate::protocol::Opcode;
use crate::task::Task;

/// Five tasks, one of them a fence.
fn batch(fence: u32) -> Batch {
    let mut batch = Batch::new();
    for k in 0..5 {
        let op = if k == fence { Opcode::BATCH_FENCE } else { Opcode::NOP };
        batch.push(0, Task::new(op).args([k, 0])).unwrap();
    }
    batch
}

/// Runs a batch from the first position on, then others from `base` on, over the turn. Nothing that the first left is seen again.
fn around(slots: u32, base: u64) {
    let spec = Spec::new(Geometry::new(slots).lanes(1).groups(1).window(2));
    let mut drain = Drain::new(&open("cpu").unwrap(), &spec).unwrap();
    assert_eq!(drain.run(&batch(4)).unwrap().statistics().done, 5);
    // As if so many passes had been: what groups share is not where it would be then.
    (drain.next_position, drain.clean) = (base, false);
    drain.set_quota(0, 3).unwrap();
    for run in 0..4 {
        let readback = drain.run(&batch(1)).unwrap();
        let left = Err(TaskError::Left);
        let found: Vec<_> = readback.outcomes().unwrap().collect();
        assert_eq!(found, [Ok(0), Ok(1), Ok(0), left, left], "run {run}");
        assert_eq!(readback.statistics().epoch, 1, "run {run}");
    }
    assert!(drain.next_position < base, "it has turned");
}

#[test]
fn positions_turn() {
    around(256, POSITION_LIMIT);
}

#[test]
fn generations_turn() {
    around(2, (u64::from(GENERATION_MASK) - 2) << 1);
}
