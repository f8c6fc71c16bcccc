//! Events: counts for which tasks wait.
//!
//! Each tenant has [`Spec::events`](super::Spec::events) events. An event is a count that only grows. Tasks signal it
//! by the verb `signal` or by the opcode SIGNAL, the host by [`Session::signal`](crate::Session::signal), and a task
//! waits until the count is at least some number: with the verb `wait_event`, or before its first step if it was
//! submitted with [`Task::after`](crate::Task::after).
//!
//! **Waiters.** The cells that wait for an event are a list: `waiters` names the first of them, and each cell names the
//! next one. Each name has the count that the cell waits for beside it, so that whoever has a name need not load it. A
//! cell is added in front. It is never taken out alone: whoever has a reason to look at the list takes all of it by one
//! exchange, wakes the tasks that need not wait any longer, and puts the others back. So nobody ever follows a list that
//! another lane has taken, a cell is in one list at most, and exactly one lane wakes it.
//!
//! **No signal is lost.** Whoever signals adds to the count and then takes the list, even if the list is empty; whoever
//! waits adds itself to the list and then looks at the count. Both change the first word of the list by one
//! read-modify-write that acquires and releases. If the signal comes second, it finds the cell. If it comes first, the
//! waiting side acquires what it has released, and sees the count. Whoever holds the list is on both sides: it puts cells
//! back and then looks at the count again, because others may have found the list empty in the meantime. Cancelling works
//! in the same way: each tenant has a count of its tasks that were cancelled, so that whoever holds a list notices.
//!
//! **Waking.** The time from a signal to the step that it resumes is a chain of trips to memory: the addition, which gives
//! the count, the exchange, which gives the first cell and the count that it waits for, the end of its queue, and the
//! entry there. So a task is woken by the entry alone. The state of its cell says that it waits until a group takes the
//! entry, and that group changes it without waiting for an answer. Meanwhile the host may pause or cancel the task, which
//! the group finds in the state as ever.
//!
//! Looking through a list takes time in proportion to its length. So a signal is expensive if many tasks wait for the
//! event and the signal is not yet enough for them. If a task signals, it is the task's own tenant that spends this
//! time. Signals and cancels of the host are applied by one lane for all tenants, so those of one tenant may delay
//! those of others.

use pelton_ir::builder::{Buf, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, EventBuffers};
use super::cells::{cell_state, change_state};
use super::context::{KernelContext, U32, U64};
use super::ready::{push_to_queue, queue_number};
use super::recovery;
use super::tree::{TreeContext, tree_word};

/// The number of a tenant's event among those of all tenants.
pub(super) fn event_number<'b>(kernel: &KernelContext<'_>, tenant: U32<'b>, event: U32<'b>) -> U32<'b> {
    tenant * kernel.layout.trees.map_or(0, |trees| trees.events) + event
}

/// Who signals an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Signaller {
    /// A task, or a handler on behalf of its task.
    Task,
    /// The host, which counts its own signals.
    Host,
}

/// Signals an event so many times, and wakes the tasks that have waited for that.
pub(super) fn signal_event<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    signaller: Signaller,
    (event, times): (U32<'b>, U32<'b>),
) {
    let Some((cells, tree, events)) = kernel.events() else { return };
    let times = f.cast::<u64>(times);
    // Pairs with the acquire of whoever looks at the count, and with itself: the tasks that are woken see what was done
    // before each of the signals that they have waited for.
    let before = f.atomic_add(Order::AcqRel, Scope::Device, events.counts.at(event), times);
    if signaller == Signaller::Task {
        recovery::note_signal(f, kernel, (event, times));
    }
    wake_waiters(f, kernel, (cells, tree, events), event, reached(f, before + times));
}

/// Wakes the tasks of a tenant that wait for events and were cancelled, after a task or the root of a tree was
/// cancelled.
pub(super) fn wake_cancelled<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, tenant: U32<'b>) {
    let Some((cells, tree, events)) = kernel.events() else { return };
    // Pairs with the acquire of whoever holds a list: it sees that the task was cancelled.
    f.atomic_add(Order::Release, Scope::Device, events.cancels.at(tenant), 1u64);
    let first = event_number(kernel, tenant, f.lit(0));
    f.range((first, event_number(kernel, tenant + 1, f.lit(0)), f.lit(1)), (), |_, event, ()| {
        let count = reached(f, read_count(f, events.counts, event));
        wake_waiters(f, kernel, (cells, tree, events), event, count);
    });
}

/// Puts a task that has not taken a step yet aside until the event that it waits for has come. Gives whether it goes on
/// at once instead, because the event has come already or the task was cancelled.
pub(super) fn park_until_event<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree): (&CellBuffers, &TreeContext),
    cell: U32<'b>,
) -> Val<'b, bool> {
    use cell_state::{AWAITS_EVENT, CANCEL, PARKED, PHASE};
    let come = has_come(f, tree, cell, f.lit(true));
    let goes_on = |seen: U64<'b>| come | (seen & CANCEL).ne(0);
    let seen = change_state(f, cells, cell, |seen| {
        f.select(goes_on(seen), seen, (seen & !PHASE) | AWAITS_EVENT | PARKED)
    });
    wait_for_event(f, kernel, tree, cell, !goes_on(seen));
    goes_on(seen)
}

/// Whether the event that a task is about to wait for has come already. `waits` says whether the task waits for an
/// event at all; if it does not, this is false.
pub(super) fn has_come<'b>(
    f: &'b FunctionBuilder<'b>,
    tree: &TreeContext,
    cell: U32<'b>,
    waits: Val<'b, bool>,
) -> Val<'b, bool> {
    let Some(events) = &tree.events else { return f.lit(false) };
    f.choose(
        waits,
        || {
            let (event, wanted) = awaited_event(f, tree, cell);
            read_count(f, events.counts, event).ge(wanted)
        },
        || f.lit(false),
    )
}

/// The event that a task waits for, and the count.
fn awaited_event<'b>(f: &'b FunctionBuilder<'b>, tree: &TreeContext, cell: U32<'b>) -> (U32<'b>, U64<'b>) {
    let word = f.load(tree.link(cell, tree_word::WAIT));
    (f.cast::<u32>(word), word >> 32)
}

/// Loads a count, and then sees what was done before it was raised.
fn read_count<'b>(f: &'b FunctionBuilder<'b>, counts: Buf<u64>, at: U32<'b>) -> U64<'b> {
    f.atomic_load(Order::Acquire, Scope::Device, counts.at(at))
}

/// Adds a cell to the list of those that wait for its event, if `waits`. The cell is PARKED already.
pub(super) fn wait_for_event<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    tree: &TreeContext,
    cell: U32<'b>,
    waits: Val<'b, bool>,
) {
    let Some((cells, _, events)) = kernel.events() else { return };
    f.when(waits, || {
        let (event, wanted) = awaited_event(f, tree, cell);
        let root = f.cast::<u32>(f.load(tree.link(cell, tree_word::ROOT)));
        add_waiters(f, tree, events, event, (waiter_name(f, cell, wanted), cell));
        // From here on, the cell may belong to another lane.
        let count = read_count(f, events.counts, event);
        let state = |cell| f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let cancelled = ((state(cell) | state(root)) & cell_state::CANCEL).ne(0);
        f.when(count.ge(wanted) | cancelled, || {
            wake_waiters(f, kernel, (cells, tree, events), event, reached(f, count));
        });
    });
}

/// The highest number that tasks can wait for and that a count has reached. Tasks wait for 32 bits, and registers are short.
fn reached<'b>(f: &'b FunctionBuilder<'b>, count: U64<'b>) -> U32<'b> {
    f.cast::<u32>(f.min(count, u64::from(u32::MAX)))
}

/// What a list says of a cell that waits for a count.
fn waiter_name<'b>(f: &'b FunctionBuilder<'b>, cell: U32<'b>, wanted: U64<'b>) -> U64<'b> {
    wanted << 32 | f.cast::<u64>(cell + 1)
}

/// Puts a chain of cells in front of the list of those that wait for an event. `first` is the name of the first cell, and
/// `last` the number of the last one.
fn add_waiters<'b>(
    f: &'b FunctionBuilder<'b>,
    tree: &TreeContext,
    events: &EventBuffers,
    event: U32<'b>,
    (first, last): (U64<'b>, U32<'b>),
) {
    let list = events.waiters.at(event);
    // Mostly no other cell waits.
    f.forever::<_, ()>(f.lit(0u64), |tries, head| {
        f.store(tree.link(last, tree_word::NEXT), head);
        // Pairs with whoever takes the list, which sees the words of the cells. Whoever has taken it before has raised a
        // count before that, which is seen from here on.
        let found = f.atomic_cas(Order::AcqRel, Scope::Device, list, head, first);
        f.when(found.eq(head), || tries.leave(()));
        found
    });
}

/// Takes the list of the cells that wait for an event, wakes the tasks that need not wait any longer, and puts the
/// others back. Does so again if the event was signalled or a task was cancelled meanwhile. `count` is what the count of
/// the event has [`reached`]; it may be older than this call.
fn wake_waiters<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree, events): (&CellBuffers, &TreeContext, &EventBuffers),
    event: U32<'b>,
    count: U32<'b>,
) {
    let list = events.waiters.at(event);
    let tenant = event / kernel.layout.trees.map_or(1, |trees| trees.events);
    // A count of cancels differs from an older one in its lower half too.
    let count_cancels = || f.cast::<u32>(read_count(f, events.cancels, tenant));
    // The name of a cell that is kept is put together again, because that is rare and registers are short.
    let name_of = |kept: U32<'b>| waiter_name(f, kept - 1, awaited_event(f, tree, kept - 1).1);
    f.forever::<_, ()>(count, |rounds, count| {
        // Pairs with whoever adds cells, as the module explains.
        let first = f.atomic_exchange(Order::AcqRel, Scope::Device, list, 0u64);
        f.when(first.eq(0u64), || rounds.leave(()));
        let kept = (first, f.lit(0), f.lit(0), f.lit(0));
        let (_, kept, last, cancels) = f.forever(kept, |walk, (at, kept, last, cancels)| {
            f.when(at.eq(0u64), || walk.leave((at, kept, last, cancels)));
            let cell = f.cast::<u32>(at) - 1;
            let next = f.load(tree.link(cell, tree_word::NEXT));
            let look = || {
                // The count of cancels is that before the first look at a state. A later cancel makes it differ.
                let now = count_cancels();
                let own = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
                let cancelled = ((own | tree.root_state(f, cells, cell)) & cell_state::CANCEL).ne(0);
                (cancelled, f.select(kept.eq(0), now, cancels))
            };
            let due = count.ge(f.cast::<u32>(at >> 32));
            let (wakes, cancels) = f.choose(due, || (f.lit(true), cancels), look);
            let (kept, last) = f.choose(
                wakes,
                || {
                    // Where there is one level, the queue is known without another trip to memory.
                    let queue = match kernel.layout.levels {
                        1 => tenant,
                        _ => queue_number(f, kernel, cells, cell),
                    };
                    push_to_queue(f, kernel, cells, (cell, queue));
                    (kept, last)
                },
                || {
                    let behind = f.choose(kept.eq(0), || f.lit(0u64), || name_of(kept));
                    f.store(tree.link(cell, tree_word::NEXT), behind);
                    (cell + 1, f.select(kept.eq(0), cell, last))
                },
            );
            (next, kept, last, cancels)
        });
        f.when(kept.eq(0), || rounds.leave(()));
        add_waiters(f, tree, events, event, (name_of(kept), last));
        let now = reached(f, read_count(f, events.counts, event));
        let same = now.eq(count) & count_cancels().eq(cancels);
        f.when(same, || rounds.leave(()));
        now
    });
}

/// Makes the task of a cell that this lane has RUNNABLE, if it has waited for an event until now. `seen` is the state of the
/// cell. Gives the state after that.
pub(super) fn end_wait<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cell, seen): (U32<'b>, U64<'b>),
) -> U64<'b> {
    use cell_state::{AWAITS_EVENT, PARKED, RUNNABLE};
    let Some((cells, ..)) = kernel.events() else { return seen };
    // Nobody else changes the phase of a cell that waits for an event, so its bits are those that are taken off.
    let by = AWAITS_EVENT + PARKED - RUNNABLE;
    let waited = (seen & AWAITS_EVENT).ne(0);
    f.when(waited, || {
        // The words of the cell were acquired with the entry of the queue.
        f.atomic_sub(Order::Relaxed, Scope::Device, cells.states.at(cell), by);
    });
    f.select(waited, seen - by, seen)
}
