//! Large trees in a pool of few cells: the results are right, and all cells are free afterwards.

#[allow(dead_code)] // Its `main` runs smaller boards.
#[path = "../../../../examples/12-queens.rs"]
mod queens_example;

use pelton::{Session, Spec, Task};

use crate::everywhere::{LONG, everywhere};
use crate::{fib, fib_result};

/// How many spawned tasks there can be at once.
const POOL: u32 = 4096;

#[test]
fn large_trees_on_every_device() {
    let spec = |spec: Spec| {
        // A task that finds no room near the root has much to do in one step.
        spec.fuel(u32::MAX)
            .spawn_cells(POOL)
            .handler("fib", fib())
            .handler("queens", queens_example::queens())
    };
    everywhere(spec, |session, shape| {
        let small = shape.starts_with("reference");
        let (n, ways) = if small { (7, 40) } else { (14, 365_596) };
        let mut producer = session.producer(0).unwrap().patience(LONG);
        let task = Task::new(session.opcode("queens").unwrap()).args([n, 0, u32::MAX << n]);
        assert_eq!(producer.submit(task).unwrap().wait(LONG), Ok(ways), "{shape}: {n} queens");
        check_pool(session, shape);
        let (n, right) = if small { (14, 377) } else { (32, 2_178_309) };
        assert_eq!(fib_result(n), right);
        let task = Task::new(session.opcode("fib").unwrap()).args([n]);
        assert_eq!(producer.submit(task).unwrap().wait(LONG), Ok(right), "{shape}: fib({n})");
        check_pool(session, shape);
    });
}

/// Checks that tasks were spawned and that none of them is left.
fn check_pool(session: &Session, shape: &str) {
    let cells = session.snapshot().unwrap().cells.unwrap();
    assert_eq!(cells.spawned_now, 0, "{shape}: all cells are free");
    assert!(cells.steps.spawned > 100, "{shape}: {}", cells.steps);
}
