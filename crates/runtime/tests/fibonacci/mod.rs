//! A handler that computes Fibonacci numbers by spawning tasks, for tests of tasks that make others.

use pelton::Handler;
use pelton::kernel::handler_trees::Child;

/// Computes Fibonacci numbers by spawning two tasks for each number. A task that finds no room for them does the work
/// itself.
pub(crate) fn fib() -> Handler {
    Handler::lane_wide(|task| {
        let (f, n) = (task.body(), task.arg(0));
        let (left, right) = (task.frame_word(), task.frame_word());
        task.step(|| {
            f.when(n.lt(2), || task.finish(n));
            let room = task.reserve_children(2);
            f.when(!room, || {
                let (a, _) =
                    f.range((f.lit(0), n, f.lit(1)), (f.lit(0), f.lit(1)), |_, _, (a, b)| (b, a + b));
                task.finish(a);
            });
            for (word, less) in [(left, 1), (right, 2)] {
                task.spawn(Child::same_handler(&task).result_into(word).args([n - less]));
            }
            task.wait_children();
        });
        task.finish(left.load() + right.load());
    })
}

/// The Fibonacci number.
pub(crate) fn fib_result(n: u32) -> u32 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}
