//! A search that spawns: in how many ways can n queens stand on a board of n by n, so that none attacks another?

use std::error::Error;
use std::time::Duration;

use pelton::kernel::handler_trees::Child;
use pelton::{Handler, Session, Spec, Task, device};

/// Counts the ways to fill the rows from argument 1 on. Argument 0 is n, and arguments 2 to 4 are the columns and the
/// diagonals that queens cover, as bits. A task spawns one child per free place of its row.
pub(crate) fn queens() -> Handler {
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
                    task.spawn(Child::same_handler(&task).result_into_word(into).args(args));
                    left ^ queen
                });
                task.wait_children();
            });
            // There is no room for children, so the task searches by itself: `path` has 4 bits per queen that it has set.
            let start = (row, a, b, c, f.lit(0u32), f.lit(0u64), f.lit(0u32));
            task.finish(f.forever(start, |search, (at, a, b, c, tried, path, count)| {
                let free = f.select(at.eq(n), 0, !(a | b >> at | c >> (n - 1 - at) | tried));
                let back = free.eq(0);
                f.when(back & at.eq(row), || search.leave(count));
                // The queen that is set in this row, or the last one, which is taken off.
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

fn main() -> Result<(), Box<dyn Error>> {
    let spec = Spec::default().spawn_cells(64).handler("queens", queens());
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let (queens, mut producer) = (session.opcode("queens")?, session.producer(0)?);
    for (n, ways) in [(8, 92), (9, 352), (10, 724)] {
        let task = Task::new(queens).args([n, 0, u32::MAX << n]); // columns beyond the board are covered
        assert_eq!(producer.submit(task)?.wait(Duration::from_secs(60))?, ways);
        println!("{n} queens can stand in {ways} ways");
    }
    Ok(())
}
