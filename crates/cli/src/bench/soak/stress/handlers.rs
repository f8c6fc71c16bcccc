//! The handlers of the load `stress`. Each task leaves what it did in a row of its own, and adds it to totals.

use pelton::ir::builder::Val;
use pelton::kernel::HandlerBody;
use pelton::kernel::handler_trees::Child;
use pelton::{Error, Handler, Opcode, Spec};

use crate::bench::soak::random_graph::mix_in_kernel;

/// The words of a row, of which the first two are also those of the totals, which begin at element 0.
pub(super) mod row_word {
    /// How many pieces of work were done.
    pub(in super::super) const RUNS: u32 = 0;
    /// The sum of the mixed numbers of those pieces.
    pub(in super::super) const SUM: u32 = 1;
    /// How many steps were begun.
    pub(in super::super) const STEPS: u32 = 2;
    /// What a built-in operation has added.
    pub(in super::super) const ADDED: u32 = 3;
    /// How many words there are.
    pub(in super::super) const WORDS: u32 = 4;
}

/// The fault of tasks that are to end with one.
pub(super) const FAULT: u32 = 0x234;
/// The fault of a task that has found no room although all room must be free.
const NO_ROOM: u32 = 0x345;
/// The number of tasks that one task of `holds` spawns.
pub(super) const HELD: u32 = 64;

/// The opcodes of the handlers. After the colon, each comment names the arguments.
#[derive(Clone, Copy)]
pub(super) struct StressOps {
    /// Does one piece of work: row, number, fault.
    pub plain: Opcode,
    /// Yields and requeues, and then does a piece of work: row, number, how often, level.
    pub steps: Opcode,
    /// Parks, and then does a piece of work: row, number.
    pub parks: Opcode,
    /// Does pieces of work in a tree of tasks: row, first number, how many, the number of the piece with a fault.
    pub tree: Opcode,
    /// Waits for an event, and then does a piece of work: row, number, event, count.
    pub waits: Opcode,
    /// Signals an event, and does a piece of work: row, number, event, how often.
    pub signals: Opcode,
    /// Waits for an event and does nothing: event, count.
    pub sleeps: Opcode,
    /// Spawns [`HELD`] tasks that wait for an event and do nothing: event, count.
    pub holds: Opcode,
}

/// Adds the handlers to a `Spec`.
pub(super) fn with_stress_handlers(spec: Spec) -> Result<(Spec, StressOps), Error> {
    let sleeps = Handler::lane_wide(|task| {
        task.step(|| task.wait_event(task.arg(0), task.arg(1)));
        task.finish(1);
    });
    let spec = spec
        .handler("plain", plain_handler())
        .handler("steps", steps_handler())
        .handler("parks", parks_handler())
        .handler("tree", tree_handler())
        .handler("waits", waits_handler())
        .handler("signals", signals_handler())
        .handler("sleeps", sleeps);
    let sleeps = spec.opcode("sleeps")?;
    let spec = spec.handler("holds", holds_handler(sleeps));
    let ops = StressOps {
        plain: spec.opcode("plain")?,
        steps: spec.opcode("steps")?,
        parks: spec.opcode("parks")?,
        tree: spec.opcode("tree")?,
        waits: spec.opcode("waits")?,
        signals: spec.opcode("signals")?,
        sleeps,
        holds: spec.opcode("holds")?,
    };
    Ok((spec, ops))
}

/// Notes pieces of work in the row of the task and in the totals.
fn note_work<'b>(task: &HandlerBody<'b>, runs: Val<'b, u32>, sum: Val<'b, u32>) {
    let row = task.arg(0);
    for (word, by) in [(row_word::RUNS, runs), (row_word::SUM, sum)] {
        task.atomic_add(row + word, by);
        task.atomic_add(word, by);
    }
}

/// Does the piece of work with the number in the second argument, and gives its result.
fn do_piece<'b>(task: &HandlerBody<'b>) -> Val<'b, u32> {
    let mixed = mix_in_kernel(task.arg(1));
    note_work(task, task.body().lit(1), mixed);
    mixed
}

/// Notes that a step has begun.
fn begin_step(task: &HandlerBody<'_>) {
    task.atomic_add(task.arg(0) + row_word::STEPS, 1);
}

fn plain_handler() -> Handler {
    Handler::lane_wide(|task| {
        let fault = task.arg(2);
        task.body().when(fault.ne(0), || task.fault(fault));
        task.finish(do_piece(&task));
    })
}

fn steps_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, done) = (task.body(), task.frame_word());
        task.step(|| {
            begin_step(&task);
            let now = done.load();
            f.when(now.lt(task.arg(2)), || {
                done.store(now + 1);
                f.when((now & 1).ne(0), || task.requeue(task.arg(3)));
                task.yield_now();
            });
            task.finish(do_piece(&task));
        });
    })
}

fn parks_handler() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| {
            begin_step(&task);
            task.park_then(1);
        });
        begin_step(&task);
        task.finish(do_piece(&task));
    })
}

fn waits_handler() -> Handler {
    Handler::lane_wide(|task| {
        task.step(|| {
            begin_step(&task);
            task.wait_event(task.arg(2), task.arg(3));
        });
        begin_step(&task);
        task.finish(do_piece(&task));
    })
}

fn signals_handler() -> Handler {
    Handler::lane_wide(|task| {
        task.signal(task.arg(2), task.arg(3));
        task.finish(do_piece(&task));
    })
}

/// A tree halves its pieces until one is left. Where there is no room for children, a task does all of its pieces itself.
fn tree_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, halves) = (task.body(), [task.frame_word(), task.frame_word()]);
        let (row, first, count, faulty) = (task.arg(0), task.arg(1), task.arg(2), task.arg(3));
        task.step(|| {
            // Half of the leaves take a step more.
            f.when(count.eq(1), || task.yield_to_step(f.select((first & 1).eq(0), 1, 2)));
            f.when(!task.reserve_children(2), || {
                let all = f.range((f.lit(0), count, f.lit(1)), f.lit(0), |_, at, sum| {
                    sum + mix_in_kernel(first + at)
                });
                note_work(&task, count, all);
                f.when((faulty - first).lt(count), || task.fault(FAULT));
                task.finish(all);
            });
            let half = count >> 1;
            for (word, first, count) in [(halves[0], first, half), (halves[1], first + half, count - half)] {
                task.spawn(Child::same_handler(&task).result_into(word).args([row, first, count, faulty]));
            }
            task.wait_children_then(3);
        });
        task.step(|| task.yield_to_step(2));
        task.step(|| {
            f.when(faulty.eq(first), || task.fault(FAULT));
            task.finish(do_piece(&task));
        });
        task.finish(halves[0].load() + halves[1].load());
    })
}

fn holds_handler(sleeps: Opcode) -> Handler {
    Handler::lane_wide(move |task| {
        let f = task.body();
        task.step(|| {
            f.when(!task.reserve_children(HELD), || {
                task.fault(NO_ROOM);
                task.finish(0);
            });
            f.range((f.lit(0), f.lit(HELD), f.lit(1)), (), |_, _, ()| {
                task.spawn(Child::new(&task, sleeps).args([task.arg(0), task.arg(1)]));
            });
            task.wait_children();
        });
        task.finish(1);
    })
}
