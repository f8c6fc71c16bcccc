//! Handlers that yield as often as they are told, for tests of tasks that take several steps.

use pelton::kernel::Handler;

/// Yields as often as its first argument says, and gives the sum of the numbers of its steps and its second argument.
pub(crate) fn countdown() -> Handler {
    Handler::lane_wide(|task| {
        let (f, left, sum) = (task.body(), task.frame_word(), task.frame_word());
        task.step(|| left.store(task.arg(0)));
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                sum.store(sum.load() + now);
                left.store(now - 1);
                task.yield_now();
            });
        });
        task.finish(sum.load() + task.arg(1));
    })
}

/// The same for all lanes of a group together.
pub(crate) fn group_countdown() -> Handler {
    Handler::group_wide(|group| {
        let (f, left, sum) = (group.body(), group.frame_word(), group.frame_word());
        group.step(|| left.store(group.arg(0)));
        group.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                sum.store(sum.load() + now);
                left.store(now - 1);
                group.yield_now();
            });
        });
        group.finish(sum.load() + group.arg(1));
    })
}

/// The result of a task of [`countdown`] that yields so often and has this second argument.
pub(crate) fn countdown_result(yields: u32, add: u32) -> u32 {
    yields * (yields + 1) / 2 + add
}
