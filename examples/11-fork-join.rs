//! Tasks that make tasks: Fibonacci numbers in the most wasteful way, by a tree of tasks that the host never sees.

use std::error::Error;
use std::time::{Duration, Instant};

use pelton::kernel::handler_trees::Child;
use pelton::{Handler, Session, Spec, Task, device};

/// Computes the Fibonacci number of its argument. Each task spawns two children and waits for them.
fn fib() -> Handler {
    Handler::lane_wide(|task| {
        let (f, n) = (task.body(), task.arg(0));
        let (left, right) = (task.frame_word(), task.frame_word()); // where the results of the children arrive
        task.step(|| {
            f.when(n.lt(2), || task.finish(n));
            // Room for children is limited. A task that finds none does their work itself, and nobody waits for room.
            f.when(!task.reserve_children(2), || {
                let first = (f.lit(0), f.lit(1));
                let (a, _) = f.range((f.lit(0), n, f.lit(1)), first, |_, _, (a, b)| (b, a + b));
                task.finish(a);
            });
            for (word, less) in [(left, 1), (right, 2)] {
                task.spawn(Child::same_handler(&task).result_into(word).args([n - less]));
            }
            task.wait_children(); // ends the step; what follows runs when both children have ended
        });
        task.finish(left.load() + right.load());
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    // A tenant has room for 4096 spawned tasks at once, however large its trees are.
    let spec = Spec::default().spawn_cells(4096).handler("fib", fib());
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let (fib, mut producer) = (session.opcode("fib")?, session.producer(0)?);
    let start = Instant::now();
    let mut ticket = producer.submit(Task::new(fib).args([27]))?;
    assert_eq!(ticket.wait(Duration::from_secs(60))?, 196_418);
    let took = start.elapsed();

    let cells = session.snapshot()?.cells.ok_or("the kernel has a resumable handler")?;
    assert_eq!(cells.spawned_now, 0, "the record of the root comes after its whole tree");
    println!(
        "fib(27) = 196418, by {} tasks of which the host submitted one, in {took:?}",
        cells.steps.spawned + 1
    );
    Ok(())
}
