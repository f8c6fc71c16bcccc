//! Large trees in a pool of few cells: the results are right, and all cells are free afterwards.

use pelton::kernel::handler_trees::Child;
use pelton::{Handler, Session, Spec, Task};

use crate::everywhere::{LONG, everywhere};
use crate::{fib, fib_result};

/// How many spawned tasks there can be at once.
const POOL: u32 = 4096;

/// Counts the ways to fill the rows from argument 1 on of a board of argument 0 rows with queens that do not attack each
/// other. Arguments 2 to 4 are the columns and the diagonals that queens cover, as bits. A task spawns one child per free
/// place of its row. It searches by itself if there is no room for them.
fn queens() -> Handler {
    Handler::lane_wide(|task| {
        let (f, n, row) = (task.body(), task.arg(0), task.arg(1));
        let (one, results) = (f.lit(1u32), [(); 14].map(|()| task.frame_word()));
        task.step(|| {
            let (a, b, c) = (task.arg(2), task.arg(3), task.arg(4));
            let free = !(a | b >> row | c >> (n - 1 - row));
            f.when(row.eq(n), || task.finish(1));
            f.when(free.eq(0), || task.finish(0));
            f.when(task.reserve_children(f.popcount(free)), || {
                f.range((f.lit(0), f.popcount(free), one), free, |_, k, left| {
                    let (queen, into) = (one << f.ctz(left), results[0].number() + k);
                    let args = [n, row + 1, a | queen, b | queen << row, c | queen << (n - 1 - row)];
                    task.spawn(Child::same_handler(&task).into_word(into).args(args));
                    left ^ queen
                });
                task.wait_children();
            });
            let start = (row, a, b, c, f.lit(0u32), f.lit(0u64), f.lit(0u32));
            task.finish(f.forever(start, |search, (at, a, b, c, tried, path, count)| {
                let free = f.select(at.eq(n), 0, !(a | b >> at | c >> (n - 1 - at) | tried));
                let back = free.eq(0);
                f.when(back & at.eq(row), || search.leave(count));
                let column = f.select(back, f.cast::<u32>(path) & 15, f.ctz(free));
                let (queen, of) = (one << column, f.select(back, at - 1, at));
                let (a, b, c) = (a ^ queen, b ^ queen << of, c ^ queen << (n - 1 - of));
                let tried = f.select(back, (queen << 1) - 1, 0);
                let path = f.select(back, path >> 4, path << 4 | f.cast::<u64>(column));
                (f.select(back, of, at + 1), a, b, c, tried, path, count + f.select(at.eq(n), 1, 0))
            }));
        });
        task.finish(results.iter().fold(f.lit(0), |sum, word| sum + word.load()));
    })
}

#[test]
fn large_trees_on_every_device() {
    let spec = |spec: Spec| {
        // A task that finds no room near the root has much to do in one step.
        spec.fuel(u32::MAX).spawn_cells(POOL).handler("fib", fib()).handler("queens", queens())
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
