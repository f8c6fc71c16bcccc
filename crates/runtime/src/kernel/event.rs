//! Events: counts for which tasks wait.
//!
//! Each tenant has [`Spec::events`](super::Spec::events) events. An event is a count that only grows. Tasks signal it
//! by the verb `signal` or by the opcode SIGNAL, the host by [`Session::signal`](crate::Session::signal), and a task
//! waits until the count is at least some number: with the verb `wait_event`, or before its first step if it was
//! submitted with [`Task::after`](crate::Task::after).
//!
//! **Waiters.** The cells that wait for an event are a list: `waiters` has the first of them, and each cell names the
//! next one. A cell is added in front. It is never taken out alone: whoever has a reason to look at the list takes all
//! of it by one exchange, wakes the tasks that need not wait any longer, and puts the others back. So nobody ever
//! follows a list that another lane has taken, a cell is in one list at most, and exactly one lane wakes it.
//!
//! **No signal is lost.** Whoever signals adds to the count and then looks for waiters; whoever waits adds itself to
//! the list and then looks at the count. There is a sequentially consistent fence between the two on both sides, so at
//! least one of them sees what the other did. Whoever holds the list is on both sides: it puts cells back and then
//! looks at the count again, because others may have found the list empty in the meantime. Cancelling works in the same
//! way: each tenant has a count of its tasks that were cancelled, so that whoever holds a list notices.
//!
//! Looking through a list takes time in proportion to its length. So a signal is expensive if many tasks wait for the
//! event and the signal is not yet enough for them. If a task signals, it is the task's own tenant that spends this
//! time. Signals and cancels of the host are applied by one lane for all tenants, so those of one tenant may delay
//! those of others.

use pelton_ir::builder::{Buf, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, EventBuffers};
use super::cells::{cell_state, change_state, change_state_from, is_in_phase};
use super::context::{KernelContext, U32, U64};
use super::ready::{push_to_queue, queue_number};
use super::tree::{TreeContext, tree_word};

/// The number of a tenant's event among those of all tenants.
pub(super) fn event_number<'b>(kernel: &KernelContext<'_>, tenant: U32<'b>, event: U32<'b>) -> U32<'b> {
    tenant * kernel.layout.trees.map_or(0, |trees| trees.events) + event
}

/// Signals an event so many times, and wakes the tasks that have waited for that.
pub(super) fn signal_event<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    event: U32<'b>,
    times: U32<'b>,
) {
    let Some((cells, tree, events)) = kernel.events() else { return };
    // Pairs with the acquire of whoever looks at the count: it sees what was done before the signal.
    f.atomic_add(Order::Release, Scope::Device, events.counts.at(event), f.cast::<u64>(times));
    // Stands between the count and the look for waiters.
    f.fence(Order::SeqCst, Scope::Device);
    wake_waiters(f, kernel, (cells, tree, events), event);
}

/// Wakes the tasks of a tenant that wait for events and were cancelled, after a task or the root of a tree was
/// cancelled.
pub(super) fn wake_cancelled<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, tenant: U32<'b>) {
    let Some((cells, tree, events)) = kernel.events() else { return };
    f.atomic_add(Order::Release, Scope::Device, events.cancels.at(tenant), 1u64);
    // Stands between the cancelling and the look for waiters.
    f.fence(Order::SeqCst, Scope::Device);
    let first = event_number(kernel, tenant, f.lit(0));
    f.range((first, event_number(kernel, tenant + 1, f.lit(0)), f.lit(1)), (), |_, event, ()| {
        wake_waiters(f, kernel, (cells, tree, events), event);
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
        add_waiters(f, tree, events, event, (cell + 1, cell));
        // From here on, the cell may belong to another lane. Stands between the list and the second look.
        f.fence(Order::SeqCst, Scope::Device);
        let count = read_count(f, events.counts, event);
        let state = |cell| f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
        let cancelled = ((state(cell) | state(root)) & cell_state::CANCEL).ne(0);
        f.when(count.ge(wanted) | cancelled, || wake_waiters(f, kernel, (cells, tree, events), event));
    });
}

/// Puts a chain of cells in front of the list of those that wait for an event. `first` is the number of the
/// first cell plus one, and `last` that of the last cell.
fn add_waiters<'b>(
    f: &'b FunctionBuilder<'b>,
    tree: &TreeContext,
    events: &EventBuffers,
    event: U32<'b>,
    (first, last): (U32<'b>, U32<'b>),
) {
    let list = events.waiters.at(event);
    let head = f.atomic_load(Order::Relaxed, Scope::Device, list);
    f.forever::<_, ()>(head, |tries, head| {
        f.store(tree.link(last, tree_word::NEXT), f.cast::<u64>(head));
        // Pairs with the acquire of whoever takes the list: it sees the words of the cells.
        let found = f.atomic_cas(Order::Release, Scope::Device, list, head, first);
        f.when(found.eq(head), || tries.leave(()));
        found
    });
}

/// Takes the list of the cells that wait for an event, wakes the tasks that need not wait any longer, and puts the
/// others back. Does so again if the event was signalled or a task was cancelled meanwhile.
fn wake_waiters<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree, events): (&CellBuffers, &TreeContext, &EventBuffers),
    event: U32<'b>,
) {
    let list = events.waiters.at(event);
    let tenant = event / kernel.layout.trees.map_or(1, |trees| trees.events);
    f.forever::<_, ()>((), |rounds, ()| {
        // Both loads are under way at once. A count of cancels that is too old only makes the second look differ from it.
        let some = f.atomic_load(Order::Relaxed, Scope::Device, list);
        let cancels = read_count(f, events.cancels, tenant);
        f.when(some.eq(0), || rounds.leave(()));
        // Pairs with the release of whoever has added cells: their words are seen.
        let first = f.atomic_exchange(Order::Acquire, Scope::Device, list, 0);
        let count = read_count(f, events.counts, event);
        let kept = (first, f.lit(0), f.lit(0));
        let (_, kept, last) = f.forever(kept, |walk, (at, kept, last)| {
            f.when(at.eq(0), || walk.leave((at, kept, last)));
            let cell = at - 1;
            let next = f.cast::<u32>(f.load(tree.link(cell, tree_word::NEXT)));
            let (_, wanted) = awaited_event(f, tree, cell);
            let own = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
            // The queue is found out here, because after the state was changed it would be one more trip to memory.
            let queue = queue_number(f, kernel, cells, cell);
            let cancelled = ((own | tree.root_state(f, cells, cell)) & cell_state::CANCEL).ne(0);
            let (kept, last) = f.choose(
                count.ge(wanted) | cancelled,
                || {
                    wake_waiter(f, kernel, cells, (cell, own, queue));
                    (kept, last)
                },
                || {
                    f.store(tree.link(cell, tree_word::NEXT), f.cast::<u64>(kept));
                    (at, f.select(kept.eq(0), cell, last))
                },
            );
            (next, kept, last)
        });
        f.when(kept.eq(0), || rounds.leave(()));
        add_waiters(f, tree, events, event, (kept, last));
        // Stands between the list and the second look at the counts.
        f.fence(Order::SeqCst, Scope::Device);
        let same =
            read_count(f, events.counts, event).eq(count) & read_count(f, events.cancels, tenant).eq(cancels);
        f.when(same, || rounds.leave(()));
    });
}

/// Lets a task that has waited for an event go on, or leaves it paused. The cell is in no list any more. `own` is its state
/// as it was seen, and `queue` the number of the queue for it.
fn wake_waiter<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    (cell, own, queue): (U32<'b>, U64<'b>, U32<'b>),
) {
    use cell_state::{AWAITS_EVENT, CANCEL, PARKED, PAUSE, PHASE, RUNNABLE};
    let stays = |seen: U64<'b>| (seen & (PAUSE | CANCEL)).eq(PAUSE);
    let seen = change_state_from(f, cells, (cell, own), |seen| {
        let taken_out = seen & !AWAITS_EVENT;
        f.select(stays(seen), taken_out, (taken_out & !PHASE) | RUNNABLE)
    });
    f.when(is_in_phase(seen, PARKED) & !stays(seen), || push_to_queue(f, kernel, cells, (cell, queue)));
}
