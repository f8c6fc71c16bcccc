//! Lines that the kernel reads while they are being written.
//!
//! A line that may be read before it is known to be whole is checked: in a near ring, and by the router of far rings
//! where a task waits alone. What the groups of far rings read lies behind a tail that was acquired, is whole by the
//! rules of memory, and is not checked. Nor is what a group of one lane reads in the host's memory, after it has
//! acquired word 0 of the line.

use pelton::{Placement, Producer, TaskError};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![a_line_with_one_wrong_bit_is_never_run];

/// The element that the torn task adds to, and the one that all other tasks add to.
const TORN: u32 = 3;
const OTHER: u32 = 4;

/// Catches a group that believes word 0 without the check, or a check that leaves a bit out.
fn a_line_with_one_wrong_bit_is_never_run(on: &On) {
    // A line that is acquired word by word cannot be torn.
    let acquired = |shape: &Shape| {
        shape.placement == Placement::Near && shape.lanes == 1 && on.caps().memory_bytes.is_none()
    };
    for shape in shapes(on, SOME).filter(|shape| !acquired(shape)) {
        // One group, or the router, looks at both rings in turn.
        let session = launch(on, &shape.spec(16, 1).producers(2));
        let (mut producer, mut other) = (session.producer(0).unwrap(), session.producer(0).unwrap());
        let (mut runs, mut checks) = (0, 0);
        for bit in 0..512 {
            let what = format!("{shape}, bit {bit}");
            let mut ticket = producer.submit_torn(add(1, TORN), bit).unwrap();
            // In a near ring a line whose word 0 is wrong is not there yet. Any other wrong bit is one failed check.
            checks += u64::from(bit >= 32 || shape.placement == Placement::Far);
            let mut found = 0;
            turn(&mut other);
            until(&what, || {
                turn(&mut other);
                found = session.snapshot()?.checks;
                Ok(found >= checks)
            });
            assert_eq!(found, checks, "{what}");
            assert_eq!(ticket.result(), Err(TaskError::Late), "{what}");
            assert_eq!(data(&session)[TORN as usize], runs, "{what}");
            ticket.flip_bit(bit);
            assert_eq!(ticket.wait(soon()), Ok(runs), "{what}");
            runs += 1;
        }
        assert_eq!(data(&session)[TORN as usize], 512, "{shape}");
        assert_eq!(session.stop().unwrap().tasks_left(), 0, "{shape}");
    }
}

/// Lets the group go round twice, so that it has looked at the other ring in between.
fn turn(other: &mut Producer) {
    for _ in 0..2 {
        run(other, add(1, OTHER)).unwrap();
    }
}
