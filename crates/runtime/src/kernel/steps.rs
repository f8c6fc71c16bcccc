//! Tasks that take several steps.
//!
//! A handler that calls an *outcome verb* (`yield_now`, `requeue`, `park`) is *resumable*. Each call of its function is
//! one *step* of the task. A step that calls such a verb asks to be called again, so the task goes on; any other step
//! ends the task with the value that it returns. If a step asks for several things, a fault comes first, then `park`,
//! then `requeue`, then `yield_now`. What a task keeps from one step to the next lies in its *frame*: the words of the
//! buffer `frame`, which are zero when the first step begins.
//!
//! The dispatch function does not run a resumable handler. It *admits* the task: it counts it, clears its frame, and
//! puts it aside with the state [`WindowState::Again`] or, if the handler is group-wide, [`WindowState::Wide`]. The tasks
//! that are put aside are the window's *home*, and the group runs them in rounds. (This is how drained batches run. In a
//! session, a task with several steps lives in a [cell](super::cells).) In each round, every task of the home takes one
//! step, so a task that yields runs again only after all others have had their turn. The window ends when its home is
//! empty. This has three consequences:
//!
//! - Mask and credit are decided once per task, when it is admitted. Fuel is given anew for every step.
//! - Fences need to know nothing of steps, because every task of a window has ended when the window ends.
//! - A task cannot hold up the pass for ever: one that has begun [`Spec::max_steps`](super::Spec::max_steps) steps and
//!   asks for one more ends with the fault FUEL.
//!
//! Each lane keeps a list of the lane-wide tasks that it was dealt, and goes through its list until that is empty, so
//! lanes do not wait for each other. If the kernel has group-wide handlers, all lanes meet after every round, and the
//! group then takes one step of each group-wide task.

use pelton_ir::builder::{Arg, Buf, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::adapt::HandlerArgs;
use super::buffers::{CellBuffers, FrameBuffers, RoundBuffers, StepBuffers};
use super::context::{KernelContext, U32, state};
use super::declare::Declarer;
use super::dispatch::{HandlerEntry, end_task};
use super::drain::PassReport;
use super::handler::Width;
use super::layout::Layout;
use super::window::{TaskWindow, WindowOwner, WindowRunner, task_state};
use crate::protocol::{FaultCode, Status, WindowState, slot};

/// What a step asks for, in [`StepBuffers::outcomes`]. A step that asks for nothing ends its task.
pub(super) mod outcome {
    /// The task is to run again after the others.
    pub(crate) const YIELD: u32 = 1;
    /// The task is to run again at the level in the bits from [`LEVEL_SHIFT`] on.
    pub(crate) const REQUEUE: u32 = 2;
    /// The task is to wait until the host resumes it.
    pub(crate) const PARK: u32 = 3;
    /// The task is to wait until all of its children have ended.
    pub(crate) const JOIN: u32 = 4;
    /// The task is to wait for an event.
    pub(crate) const EVENT: u32 = 5;
    /// The bits that hold one of these values.
    pub(crate) const KIND: u32 = 0xff;
    /// The first bit of the level.
    pub(crate) const LEVEL_SHIFT: u32 = 8;
}

/// What tasks that take several steps need of a kernel's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepLayout {
    /// How many words every frame has: as many as the largest frame of all handlers.
    pub frame_words: u32,
    /// How many cells each producer of a session has. It is 0 in a drained batch.
    pub producer_cells: u32,
}

/// The numbers of the counters of steps: in a session those of a group, in a drained batch those after the others.
pub(crate) mod step_counter {
    /// How many steps were begun. In a drained batch, those of tasks that have ended.
    pub(crate) const BEGUN: u32 = 0;
    /// How many steps have ended their tasks.
    pub(crate) const ENDED: u32 = 1;
    /// After how many steps a task went on because of `requeue`.
    pub(crate) const REQUEUES: u32 = 2;
    /// After how many steps a task was put aside until the host resumes it. No task of a drained batch can be.
    pub(crate) const PARKS: u32 = 3;
    /// How many counters there are in kernels whose tasks neither make nor await others.
    pub(crate) const COUNT: u32 = 4;
    /// After how many steps a task was put aside until its children have ended or an event has come.
    pub(crate) const WAITS: u32 = 4;
    /// How many tasks were spawned, together with the nodes of graphs that were launched.
    pub(crate) const SPAWNED: u32 = 5;
    /// How many counters there are where tasks make or await others.
    pub(crate) const ALL: u32 = 6;
}

/// Where the tasks of resumable handlers live until they end.
pub(super) enum StepHome {
    /// In the window that has taken them, in a drained batch.
    Window(RoundBuffers),
    /// In a cell, in a session.
    Cells(CellBuffers),
}

/// The buffers of a kernel that has resumable handlers.
pub(super) struct StepContext {
    pub buffers: StepBuffers,
    pub home: StepHome,
    /// The frames of all tasks that may be under way at once, if any handler has a frame.
    pub frames: Option<Buf<u32>>,
}

impl StepContext {
    /// Declares the buffers, if the kernel has resumable handlers.
    pub(super) fn declare(d: &mut Declarer<'_>) -> Option<Self> {
        let layout = d.plan.layout.steps?;
        let buffers = StepBuffers::declare(d);
        let home = match layout.producer_cells {
            0 => StepHome::Window(RoundBuffers::declare(d)),
            _ => StepHome::Cells(CellBuffers::declare(d)),
        };
        let frames = (layout.frame_words > 0).then(|| FrameBuffers::declare(d).frames);
        Some(StepContext { buffers, home, frames })
    }
}

/// Up to this many words of a frame are cleared one by one, and more in a loop.
const FEW_WORDS: u32 = 8;

impl KernelContext<'_> {
    /// The buffers of a drained batch whose tasks can take several steps.
    fn rounds(&self) -> Option<(&StepBuffers, &RoundBuffers)> {
        match self.steps.as_ref()? {
            StepContext { buffers, home: StepHome::Window(rounds), .. } => Some((buffers, rounds)),
            _ => None,
        }
    }

    /// Whether the kernel runs tasks of resumable handlers in rounds over their window.
    pub(super) fn has_rounds(&self) -> bool {
        self.rounds().is_some()
    }

    /// The buffers of a session's cells, if there are any.
    pub(super) fn cells(&self) -> Option<&CellBuffers> {
        match &self.steps.as_ref()?.home {
            StepHome::Cells(cells) => Some(cells),
            StepHome::Window(_) => None,
        }
    }

    /// The place of a word of a task's frame in the buffer of frames. `frame` is the number of the frame: the number
    /// of the task's cell, or the task's place in its window.
    pub(super) fn frame_place<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        frame: U32<'b>,
        word: U32<'b>,
    ) -> U32<'b> {
        let (words, cells) =
            self.layout.steps.map_or((0, 0), |steps| (steps.frame_words, self.layout.cell_count()));
        let window = self.layout.window;
        match (self.layout.lanes, cells) {
            // One lane runs one task after the other, so the words of a frame lie side by side.
            (1, 0) => (f.group() * window + frame) * words + word,
            (1, _) => frame * words + word,
            // Neighbouring lanes run neighbouring tasks, so the same words of all frames lie side by side.
            (_, 0) => (f.group() * words + word) * window + frame,
            (_, cells) => word * cells + frame,
        }
    }

    /// Clears the first words of a frame.
    pub(super) fn clear_frame<'b>(&self, f: &'b FunctionBuilder<'b>, frame: U32<'b>, words: u32) {
        let Some(frames) = self.steps.as_ref().and_then(|steps| steps.frames) else { return };
        let clear = |word: U32<'b>| f.store(frames.at(self.frame_place(f, frame, word)), 0);
        if words > FEW_WORDS {
            return f.range((0u32, words, 1u32), (), |_, word, ()| clear(word));
        }
        (0..words).for_each(|word| clear(f.lit(word)));
    }

    /// Takes what the steps of an earlier task have left from a task's place.
    pub(super) fn clear_steps<'b>(&self, f: &'b FunctionBuilder<'b>, task: U32<'b>) {
        if let Some((steps, rounds)) = self.rounds() {
            f.store(steps.outcomes.at(task), 0);
            f.store(rounds.begun.at(task), 0);
        }
    }
}

/// Prepares the task of a resumable handler in a drained batch for its first step: its frame is empty, and it has begun
/// one step. Does nothing for other handlers.
pub(super) fn admit_task<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    entry: &HandlerEntry,
    task: U32<'b>,
) {
    if let Some((_, rounds)) = kernel.rounds().filter(|_| entry.resumable) {
        f.store(rounds.begun.at(task), 1);
        kernel.clear_frame(f, task, entry.frame_words);
        if let Some(places) = &kernel.places {
            places.clear_reply_at(f, f.load(places.window.places.at(task)));
        }
    }
}

/// The state and the value of a task after a step that gave this result: those with which the task has ended, or
/// [`WindowState::Again`] if the task goes on. In that case, everything is ready for the next step.
fn end_step<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (steps, rounds): (&StepBuffers, &RoundBuffers),
    (task, result): (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    let (status, value) = end_task(f, kernel, task, result);
    let asked = f.load(steps.outcomes.at(task));
    let begun = f.load(rounds.begun.at(task));
    let goes_on = || {
        if kernel.counts_tasks() {
            f.when((asked & outcome::KIND).eq(outcome::REQUEUE), || {
                count_step(f, kernel, step_counter::REQUEUES, 1)
            });
        }
        f.store(steps.outcomes.at(task), 0);
        f.store(rounds.begun.at(task), begun + 1);
        if kernel.fueled {
            f.store(kernel.shared.fuel.at(task), kernel.spec.fuel);
        }
        (f.lit(WindowState::Again.code()), f.lit(0))
    };
    let ends = |status: U32<'b>, value: U32<'b>| {
        if kernel.counts_tasks() {
            // No step is begun by a task of another handler.
            f.when(begun.ne(0), || {
                count_step(f, kernel, step_counter::BEGUN, begun);
                count_step(f, kernel, step_counter::ENDED, 1);
            });
        }
        (status, value)
    };
    f.choose(
        status.eq(Status::Done.code()) & asked.ne(0),
        || {
            let too_many = || ends(f.lit(Status::Fault.code()), f.lit(FaultCode::FUEL.code()));
            f.choose(begun.lt(kernel.spec.max_steps), goes_on, too_many)
        },
        || ends(status, value),
    )
}

/// Adds to a counter of steps in the group's memory.
fn count_step<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    counter: u32,
    by: impl Arg<'b, u32>,
) {
    if let Some(first) = PassReport::new(&kernel.layout).steps {
        f.atomic_add(Order::Relaxed, Scope::Group, kernel.shared.tally.at(first + counter), by);
    }
}

/// Adds the counters of steps of a window to those of all groups. One lane does this once per window, because a word
/// of the group's memory has room for the steps of one window only.
pub(super) fn count_window_steps<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) {
    let Some(first) = PassReport::new(&kernel.layout).steps.filter(|_| kernel.counts_tasks()) else { return };
    for counter in first..first + step_counter::COUNT {
        let tally = kernel.shared.tally.at(counter);
        let count = f.load(tally);
        f.when(count.ne(0), || {
            f.atomic_add(Order::Relaxed, Scope::Device, kernel.global.rows.at(counter), f.cast::<u64>(count));
            f.store(tally, 0);
        });
    }
}

impl WindowRunner<'_> {
    /// Runs the tasks that were put aside until all of them have ended. All lanes call it.
    pub(super) fn run_rounds<'b>(self, f: &'b FunctionBuilder<'b>, window: TaskWindow<'b>) {
        let Some(steps) = self.kernel.rounds() else { return };
        let own = self.list_own_tasks(f, steps, window);
        if self.table.entries.iter().all(|entry| entry.width == Width::Lane) {
            return f.forever::<_, ()>(own, |rounds, count| {
                f.when(count.eq(0), || rounds.leave(()));
                self.run_lane_round(f, steps, window, count)
            });
        }
        let active = steps.1.active.at(0);
        f.when(f.lane().eq(0), || f.store(active, 0));
        f.barrier();
        f.when(own.ne(0), || {
            f.atomic_add(Order::Relaxed, Scope::Group, active, 1);
        });
        f.forever::<_, ()>(own, |rounds, count| {
            let kept = self.run_lane_round(f, steps, window, count);
            f.when(count.ne(0) & kept.eq(0), || {
                f.atomic_sub(Order::Relaxed, Scope::Group, active, 1);
            });
            self.run_group_round(f, steps, window);
            f.barrier();
            let left = f.load(active) | f.load(self.kernel.shared.state.at(state::WIDES));
            let left = f.group_broadcast(left, 0);
            f.when(left.eq(0), || rounds.leave(()));
            kept
        });
    }

    /// Lists the lane-wide tasks of this lane that were put aside, and gives their number. Every lane has its own
    /// places in the list, which are those of the tasks that it was dealt.
    fn list_own_tasks<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        steps: (&StepBuffers, &RoundBuffers),
        window: TaskWindow<'b>,
    ) -> U32<'b> {
        f.range((f.lane(), window.count, f.lanes()), f.lit(0), |_, task, listed| {
            let again = task_state(f, f.load(self.kernel.shared.records.at(task))).eq(AGAIN);
            f.when(again, || f.store(steps.1.turns.at(own_entry(f, listed)), task));
            listed + f.select(again, 1, 0)
        })
    }

    /// Takes one step of each of this lane's tasks, and gives the number of those that go on.
    fn run_lane_round<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        steps: (&StepBuffers, &RoundBuffers),
        window: TaskWindow<'b>,
        count: U32<'b>,
    ) -> U32<'b> {
        f.range((f.lit(0), count, f.lit(1)), f.lit(0), |_, entry, kept| {
            let task = f.load(steps.1.turns.at(own_entry(f, entry))).named("task");
            let place = self.task_place(f, window, task);
            let result = self.call_step(f, window, (task, place.at));
            let (status, value) = end_step(f, self.kernel, steps, (task, result));
            let again = status.eq(AGAIN);
            f.choose(
                again,
                || f.store(steps.1.turns.at(own_entry(f, kept)), task),
                || self.keep_record(f, task, place.position, (status, value)),
            );
            kept + f.select(again, 1, 0)
        })
    }

    /// Calls the handler of a lane-wide task that was put aside.
    fn call_step<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        (task, at): (U32<'b>, U32<'b>),
    ) -> U32<'b> {
        let tenant = self.task_tenant(f, window, at);
        let op = || f.cast::<u32>(self.kernel.source.head(f, at) >> 32);
        self.table.call_lane_wide_step(f, op, HandlerArgs { task, words: at, tenant })
    }

    /// Takes one step of each group-wide task, one after the other, and keeps those that go on in the list. All lanes
    /// call it, and a barrier must follow before the number of tasks is read.
    fn run_group_round<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        steps: (&StepBuffers, &RoundBuffers),
        window: TaskWindow<'b>,
    ) {
        let kernel = self.kernel;
        let first = f.lane().eq(0);
        let kept = self.each_group_wide(f, f.lit(0), |k, kept| {
            let (task, place, (ran, result)) = self.call_group_wide(f, window, k);
            let (status, value) =
                f.choose(first, || end_step(f, kernel, steps, (task, result)), || (f.lit(0), f.lit(0)));
            let status = f.select(ran, status, Status::Cancelled.code());
            let again = status.eq(AGAIN);
            f.when(first, || {
                f.choose(
                    again,
                    || f.store(kernel.shared.wide.at(kept), task),
                    || self.keep_record(f, task, place.position, (status, value)),
                );
            });
            kept + f.select(again, 1, 0)
        });
        f.when(first, || f.store(kernel.shared.state.at(state::WIDES), kept));
    }

    /// The tenant of a task whose words are read at this place.
    pub(super) fn task_tenant<'b>(
        self,
        f: &'b FunctionBuilder<'b>,
        window: TaskWindow<'b>,
        at: U32<'b>,
    ) -> U32<'b> {
        match window.owner {
            WindowOwner::Ring(owner) => owner.tenant,
            WindowOwner::EachSlot => f.cast::<u32>(self.kernel.source.head(f, at + slot::TENANT / 2)),
        }
    }
}

/// The state of a task that goes on.
const AGAIN: u32 = WindowState::Again.code();

/// The place of an entry of this lane's list.
fn own_entry<'b>(f: &'b FunctionBuilder<'b>, entry: U32<'b>) -> U32<'b> {
    f.lane() + entry * f.lanes()
}

/// Returns where a word of the frame of a cell lies in the buffer of all frames: the place that
/// [`KernelContext::frame_place`] gives.
pub(crate) fn frame_index(layout: &Layout, (cell, word): (u32, u32)) -> usize {
    let (words, cells) = layout.steps.map_or((0, 0), |steps| (steps.frame_words, layout.cell_count()));
    (if layout.lanes == 1 { cell * words + word } else { word * cells + cell }) as usize
}
