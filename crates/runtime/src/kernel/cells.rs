//! Cells: where the tasks of resumable handlers live in a session.
//!
//! A task that takes several steps may be under way for long. It must hold no lane, no group and no slot of a ring
//! meanwhile, so it lives in a *cell* from the moment it is submitted until it ends. A ticket never has to follow its
//! task from a slot to a cell: the host chooses the cell, the ticket knows only the cell, and the slot merely carries
//! the task there.
//!
//! 1. Each producer owns [`Spec::cells`](super::Spec::cells) cells, and the host alone decides which of them are in
//!    use. The number of a task's cell stands in the slot beside the priority (0 means no cell).
//! 2. The group that takes the slot *adopts* the task. It checks that the cell belongs to the ring's producer and is
//!    not in use, copies the line, clears the frame, and posts the slot's record. The slot is then free, so a ring
//!    never waits for a task that takes long. A task that may not run, because its tenant may not use the opcode, ends
//!    its cell at once.
//! 3. `cells` holds the state of each cell in one word: its generation, a phase, and what the host has
//!    asked. All changes are compare-exchanges or other read-modify-writes that acquire and release. The phases are
//!    ENDED, RUNNABLE and PARKED.
//! 4. A RUNNABLE cell is in exactly one place: among the cells that have arrived at a group, at its
//!    [home](super::home), or in a queue of cells that are [ready](super::ready). Whoever makes a cell RUNNABLE puts it
//!    into such a place, and nobody else does. So a cell never needs to be searched for, and there is never more than
//!    one entry for it. The words of a cell that are not its state belong to whoever has it.
//! 5. A PARKED cell is in no place. It waits for the host, which resumes or cancels it, or for its children or an event
//!    (see [`tree`](super::tree)). Only a cell whose event has come is in a queue before it is RUNNABLE: the group that
//!    takes it from there makes it so (see [`event`](super::event)). A resume ends a pause if there
//!    is one. Otherwise it ends a `park`, or the next `park` if the task does not wait. Resumes do not add up: of
//!    several before a `park`, one counts.
//! 6. When a task ends, its cell becomes ENDED, and the record is posted after a fence. A host that sees the record
//!    sees everything that the task wrote, and may use the cell again. Steps that end nothing need no such fence. The
//!    cell must be ENDED before the record is posted, because the next task may come as soon as the host has seen the
//!    record. So there is a moment in which the task has ended and its record is *owed*. In kernels that have batch
//!    fences, the state counts the records that are owed, so that a [fence](super::fence) does not end in that moment:
//!    adoption adds one, and whoever ends the task takes one off after it has posted the record.
//! 7. Cancelling, pausing and resuming are *asks*, which go through a small ring of their own: `asks` has their count
//!    and the last of them, each with the cell, the generation that is meant, and what is asked. One lane of the
//!    kernel applies them in order. An ask for a task that has ended is dropped. An ask for a task that has not been
//!    adopted yet is kept in the cell, and adoption takes it over: a task that is cancelled then ends at once.
//!
//! A group looks at the state of a cell once per turn, before the first step that it gives the task. That is one load,
//! and a task that goes on pays for nothing else. So a few steps may still begin after an ask.

use pelton_ir::builder::{FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::CellBuffers;
use super::context::{KernelContext, LINE, STRIDE, U32, U64};
use super::event::Signaller;
use super::graphs::GraphRunner;
use super::placement::Placement;
use super::spec::SlotBody;
use super::tree::{TreeContext, tree_word};
use super::window::{RingOwner, TaskPlace, WindowRunner};
use super::{event, home, near, ready};
use crate::protocol::slot::GENERATION_MASK;
use crate::protocol::{FaultCode, Status, WindowState, slot};

/// The bits of a cell's state.
pub(crate) mod cell_state {
    /// The bits that hold the phase.
    pub(crate) const PHASE: u64 = 3;
    /// The cell holds no task, or one that has ended.
    pub(crate) const ENDED: u64 = 0;
    /// The task runs or is ready to run.
    pub(crate) const RUNNABLE: u64 = 1;
    /// The task waits: for the host, for its children, or for an event, as the bits from [`AWAITS_HOST`] to
    /// [`ENDED_BEFORE_CHILDREN`] say.
    pub(crate) const PARKED: u64 = 2;
    /// The task has had children.
    pub(crate) const HAD_CHILDREN: u64 = 1 << 3;
    /// The host has asked that the task end.
    pub(crate) const CANCEL: u64 = 1 << 4;
    /// The host has asked that the task begin no further step.
    pub(crate) const PAUSE: u64 = 1 << 5;
    /// The host has resumed the task, which has not waited since.
    pub(crate) const RESUMED: u64 = 1 << 6;
    /// Everything that the host can have asked.
    pub(crate) const ASKED: u64 = CANCEL | PAUSE | RESUMED;
    /// How far to the left of [`ASKED`] the bits lie that were asked of the next task of an ENDED cell.
    pub(crate) const NEXT_SHIFT: u32 = 4;
    /// The task is PARKED because of its own `park`.
    pub(crate) const AWAITS_HOST: u64 = 1 << 12;
    /// The task is PARKED until its children have ended.
    pub(crate) const AWAITS_CHILDREN: u64 = 1 << 13;
    /// The task is PARKED until an event has come.
    pub(crate) const AWAITS_EVENT: u64 = 1 << 14;
    /// The task is PARKED because it has ended and its children have not.
    pub(crate) const ENDED_BEFORE_CHILDREN: u64 = 1 << 15;
    /// The first bit of the number of children that have not ended.
    pub(crate) const CHILD_SHIFT: u32 = 16;
    /// The most children that a task may have at once.
    pub(crate) const MAX_CHILDREN: u64 = 0xffff;
    /// The first bit of the cell's generation, which is how often the cell was used.
    pub(crate) const GENERATION_SHIFT: u32 = 32;
    /// The first bit of the number of records that are owed.
    pub(crate) const OWED_SHIFT: u32 = 56;
    /// The bits that hold the number of records that are owed. It is a number and not a flag, because the next task may be
    /// adopted before the lane that has ended the last one has taken off what it has paid. It counts modulo 256, which
    /// would only matter if so many lanes were in that moment with the same cell.
    pub(crate) const OWED: u64 = 0xff << OWED_SHIFT;
}

/// The words of [`CellBuffers::facts`].
pub(crate) mod cell_fact {
    /// The position of the slot that the cell's last task came from.
    pub(crate) const POSITION: u32 = 0;
    /// The number of that slot's stripe among all stripes of the session, and in the upper half the generation of the
    /// cell that the task is.
    pub(crate) const STRIPE: u32 = 1;
    /// How many steps of the task were begun. It is 0 while the cell has no task.
    pub(crate) const STEPS: u32 = 2;
    /// How many bytes its payload has, and in the upper half how many bytes of reply it has said.
    pub(crate) const SIZES: u32 = 3;
    /// How many words there are per cell.
    pub(crate) const WORDS: u32 = 4;
}

/// What the host asks of a cell. The cell is in bits 0-27, what is asked in bits 28-31, and the generation of the cell
/// in the upper half.
pub(crate) mod ask {
    /// How many asks the ring holds.
    pub(crate) const RING: u32 = 1024;
    /// The bits that hold the number of the cell.
    pub(crate) const CELL: u32 = (1 << WHAT_SHIFT) - 1;
    /// The first bit of what is asked.
    pub(crate) const WHAT_SHIFT: u32 = 28;
    /// The task is to end.
    pub(crate) const CANCEL: u32 = 1;
    /// The task is to begin no further step.
    pub(crate) const PAUSE: u32 = 2;
    /// The task is to go on.
    pub(crate) const RESUME: u32 = 3;
    /// An event is signalled. Its number stands in place of that of a cell, and how often in place of the generation.
    pub(crate) const SIGNAL: u32 = 4;
}

/// Beside the priority, a slot says that its task waits for an event before its first step.
pub(crate) const AFTER_FLAG: u32 = 1 << 7;

/// Above the priority, a slot holds the number of its cell plus one.
pub(crate) const CELL_SHIFT: u32 = 8;

/// A word of what is known of a cell's task.
pub(super) fn fact<'b>(cells: &CellBuffers, cell: U32<'b>, word: u32) -> pelton_ir::builder::At<'b, u64> {
    cells.facts.at(cell * cell_fact::WORDS + word)
}

/// The generation of a cell with this state, as the host reads it.
pub(crate) fn generation_of(state: u64) -> u32 {
    (state >> cell_state::GENERATION_SHIFT) as u32 & GENERATION_MASK
}

/// The generation of a cell with this state.
pub(super) fn cell_generation<'b>(f: &'b FunctionBuilder<'b>, state: U64<'b>) -> U32<'b> {
    f.cast::<u32>(state >> cell_state::GENERATION_SHIFT) & GENERATION_MASK
}

/// Whether the states of cells count the records that are owed: where there are fences that must not end before them.
fn counts_owed(kernel: &KernelContext<'_>) -> bool {
    kernel.spec.body != SlotBody::Fused
}

/// Whether a look at a cell has met it neither between the end of a task and its record nor between the adoption of a task
/// and what the cell says of it. `stripe` is the word [`cell_fact::STRIPE`].
pub(super) fn is_settled<'b>(f: &'b FunctionBuilder<'b>, state: U64<'b>, stripe: U64<'b>) -> Val<'b, bool> {
    let ended = is_in_phase(state, cell_state::ENDED);
    let known = cell_generation(f, state).eq(f.cast::<u32>(stripe >> 32));
    (ended & (state & cell_state::OWED).eq(0)) | (!ended & known)
}

/// Whether a state has this phase.
pub(super) fn is_in_phase(state: U64<'_>, phase: u64) -> Val<'_, bool> {
    (state & cell_state::PHASE).eq(phase)
}

/// Changes the state of a cell, whatever others do to it at the same time. `change` gives the new state, which may be
/// the old one. Gives the state before the change.
pub(super) fn change_state<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    cell: U32<'b>,
    change: impl FnOnce(U64<'b>) -> U64<'b>,
) -> U64<'b> {
    let first = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
    change_state_from(f, cells, (cell, first), change)
}

/// Changes the state of a cell as [`change_state`] does, given a state that was seen before.
pub(super) fn change_state_from<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    (cell, first): (U32<'b>, U64<'b>),
    change: impl FnOnce(U64<'b>) -> U64<'b>,
) -> U64<'b> {
    f.forever::<_, U64<'b>>(first, |tries, seen| {
        // Pairs with itself: whoever has the cell next sees what was written to it.
        let found = f.atomic_cas(Order::AcqRel, Scope::Device, cells.states.at(cell), seen, change(seen));
        f.when(found.eq(seen), || tries.leave(seen));
        found
    })
}

/// The number of a task's cell plus one, or 0 if the task has none. It stands in the word of a line that holds the
/// priority.
pub(super) fn cell_number<'b>(f: &'b FunctionBuilder<'b>, word: U64<'b>) -> U32<'b> {
    f.cast::<u32>(word >> 32) >> CELL_SHIFT
}

/// Whether the slot of a task names a cell.
pub(super) fn names_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    place: &TaskPlace<'b>,
) -> Val<'b, bool> {
    cell_number(f, kernel.source.head(f, place.at + slot::PRIORITY / 2)).ne(0)
}

/// Decides what becomes of a task that a window has taken: the state and the value of its slot. A task of a resumable
/// handler is moved to its cell, and its slot is done with. `dispatch` calls the dispatch function. It is not called
/// for a task that needs a cell and names none of its producer's, or that names one and needs none.
pub(super) fn run_or_adopt<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    owner: RingOwner<'b>,
    (task, place, op): (U32<'b>, &TaskPlace<'b>, U32<'b>),
    dispatch: impl FnOnce() -> (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    let kernel = run.kernel;
    let Some(cells) = kernel.cells() else { return dispatch() };
    let (number, inside) = read_cell_number(f, run, owner, place);
    if kernel.trees.is_some() {
        let malformed = || (f.lit(Status::Fault.code()), f.lit(FaultCode::MALFORMED.code()));
        let adopt = || {
            let end = run.table.admit(f, kernel, (op, owner.mask));
            adopt_task(f, run, cells, owner, (task, place, number - 1, end))
        };
        let resumable = run.table.is_one_of(f, op, |entry| entry.resumable);
        let resumable = resumable | GraphRunner::is_launch(op);
        let without = || f.choose(number.eq(0) & !resumable, dispatch, malformed);
        return f.choose(inside, adopt, without);
    }
    let resumable = run.table.is_one_of(f, op, |entry| entry.resumable);
    let cell = number - 1;
    f.choose(
        (resumable & inside) | (!resumable & number.eq(0)),
        || {
            let end = dispatch();
            f.choose(resumable, || adopt_task(f, run, cells, owner, (task, place, cell, end)), || end)
        },
        || (f.lit(Status::Fault.code()), f.lit(FaultCode::MALFORMED.code())),
    )
}

/// The number of the cell that a slot names plus one, and whether the cell belongs to the ring's producer. The number
/// is 0 if the slot names none.
fn read_cell_number<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    owner: RingOwner<'b>,
    place: &TaskPlace<'b>,
) -> (U32<'b>, Val<'b, bool>) {
    let (kernel, slots) = (run.kernel, run.slots);
    let number = cell_number(f, kernel.source.head(f, place.at + slot::PRIORITY / 2));
    let per_producer = kernel.layout.steps.map_or(0, |steps| steps.producer_cells);
    let producer = slots.ring_of_polled(owner.ring - owner.level * slots.polled_level_rings(kernel));
    (number, (number - 1 - producer * per_producer).lt(per_producer))
}

/// The number of a cell's place for a payload and a reply. The places of cells come after those of all slots.
pub(super) fn cell_place<'b>(kernel: &KernelContext<'_>, cell: U32<'b>) -> U32<'b> {
    cell + kernel.layout.slot_count()
}

/// The number of the place that a task has for its payload and its reply: that of the cell that its slot names, if the
/// cell belongs to the ring's producer, or else that of the slot.
pub(super) fn place_of_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    owner: RingOwner<'b>,
    (place, slot): (&TaskPlace<'b>, U32<'b>),
) -> U32<'b> {
    if run.kernel.cells().is_none() {
        return slot;
    }
    let (number, inside) = read_cell_number(f, run, owner, place);
    f.select(inside, cell_place(run.kernel, number - 1), slot)
}

/// Moves a task to its cell, or ends the cell if the task may not run.
fn adopt_task<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    cells: &CellBuffers,
    owner: RingOwner<'b>,
    (task, place, cell, (state, value)): (U32<'b>, &TaskPlace<'b>, U32<'b>, (U32<'b>, U32<'b>)),
) -> (U32<'b>, U32<'b>) {
    let kernel = run.kernel;
    let runs = state.eq(WindowState::Again.code());
    let seen = change_state(f, cells, cell, |seen| {
        let next =
            f.cast::<u64>((cell_generation(f, seen) + 1) & GENERATION_MASK) << cell_state::GENERATION_SHIFT;
        let asked = (seen >> cell_state::NEXT_SHIFT) & cell_state::ASKED;
        let cancelled = (asked & cell_state::CANCEL).ne(0);
        let begun = f.select(runs & !cancelled, asked | cell_state::RUNNABLE, f.lit(cell_state::ENDED));
        let adopted = match counts_owed(kernel) {
            // A task that ends at once owes nothing: its window leaves its marks after the record, and a fence follows them.
            true => {
                let one = f.select(runs & !cancelled, f.lit(1u64 << cell_state::OWED_SHIFT), f.lit(0u64));
                ((seen & cell_state::OWED) + one) | next | begun
            }
            false => next | begun,
        };
        f.select(is_in_phase(seen, cell_state::ENDED), adopted, seen)
    });
    let free = is_in_phase(seen, cell_state::ENDED);
    let cancelled = runs & ((seen >> cell_state::NEXT_SHIFT) & cell_state::CANCEL).ne(0);
    let runs = runs & !cancelled;
    f.when(free & runs, || {
        let generation = (cell_generation(f, seen) + 1) & GENERATION_MASK;
        fill_cell(f, run, cells, owner, (place, cell, generation));
        if let Some(places) = &kernel.places {
            let bytes = places.adopt_place(f, task, cell_place(kernel, cell));
            f.store(fact(cells, cell, cell_fact::SIZES), f.cast::<u64>(bytes));
        }
        match &kernel.trees {
            Some(tree) => begin_tree(f, kernel, (cells, tree), owner, (place, cell)),
            None => home::push_home(f, kernel, cells, cell),
        }
    });
    f.when(free & !runs, || {
        let generation = (cell_generation(f, seen) + 1) & GENERATION_MASK;
        f.fence(Order::AcqRel, Scope::System);
        // A task that the host has cancelled before ends with no step begun.
        let state = f.select(cancelled, Status::Cancelled.code(), state);
        post_cell(f, cells, cell, (state, generation, f.select(cancelled, 0, value)));
    });
    let status = f.select(free, Status::Done.code(), Status::Fault.code());
    (status, f.select(free, 0, FaultCode::MALFORMED.code()))
}

/// Prepares a task that was moved to a cell for being the root of a tree, and gives it to the group, unless it has to
/// wait for an event first.
fn begin_tree<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (cells, tree): (&CellBuffers, &TreeContext),
    owner: RingOwner<'b>,
    (place, cell): (&TaskPlace<'b>, U32<'b>),
) {
    tree.begin_task(f, cell, (f.lit(0u64), cell, owner.level));
    if let Some(graphs) = GraphRunner::new(kernel) {
        graphs.clear_launch(f, cell);
    }
    let Some(events) = &tree.events else { return home::push_home(f, kernel, cells, cell) };
    let word = f.cast::<u32>(kernel.source.head(f, place.at + slot::PRIORITY / 2) >> 32);
    let goes_on = f.choose(
        (word & AFTER_FLAG).eq(0),
        || f.lit(true),
        || {
            // Follows the line, which may have been read without acquiring anything: what the host wrote before is
            // seen.
            f.fence(Order::Acquire, Scope::System);
            let after = f.atomic_load(Order::Relaxed, Scope::System, events.after.at(cell));
            let known = f.cast::<u32>(after).lt(kernel.layout.trees.map_or(0, |trees| trees.events));
            let event = event::event_number(kernel, owner.tenant, f.cast::<u32>(after));
            let wait = f.cast::<u64>(event) | (after >> 32) << 32;
            f.store(tree.link(cell, tree_word::WAIT), wait);
            // An event that does not exist is not waited for. The host never names one.
            f.choose(known, || event::park_until_event(f, kernel, (cells, tree), cell), || f.lit(true))
        },
    );
    f.when(goes_on, || home::push_home(f, kernel, cells, cell));
}

/// Fills a cell with the task of a slot. Nobody else has the cell.
fn fill_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    cells: &CellBuffers,
    owner: RingOwner<'b>,
    (place, cell, generation): (&TaskPlace<'b>, U32<'b>, U32<'b>),
) {
    let (kernel, slots) = (run.kernel, run.slots);
    let stripe = match slots.bank.placement {
        Placement::Near => near::own_stripe(f, slots, owner.ring),
        _ => owner.ring,
    };
    let stripe = f.cast::<u64>(slots.session_stripe(stripe)) | f.cast::<u64>(generation) << 32;
    // A group that looks whether a fence has to wait may read these while they are written. It knows by the generation
    // whether the stripe is that of this task.
    for (word, value) in [(cell_fact::POSITION, place.position), (cell_fact::STRIPE, stripe)] {
        f.atomic_store(Order::Relaxed, Scope::Device, fact(cells, cell, word), value);
    }
    let to = |word: u32| cells.lines.at(cell * LINE + word);
    f.store(to(0), kernel.source.head(f, place.at));
    f.store(to(1), f.cast::<u64>(owner.tenant) | f.cast::<u64>(owner.level) << 32);
    for word in slot::ARG / 2..LINE {
        f.store(to(word), kernel.source.load(f, place.at + word));
    }
    kernel.clear_frame(f, cell, kernel.layout.steps.map_or(0, |steps| steps.frame_words));
}

/// Posts the record of a cell, after a fence.
pub(super) fn post_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    cell: U32<'b>,
    (status, generation, value): (U32<'b>, U32<'b>, U32<'b>),
) {
    let low = f.cast::<u64>(status | generation << slot::GENERATION_SHIFT);
    let record = low | f.cast::<u64>(value) << 32;
    f.atomic_store(Order::Relaxed, Scope::System, cells.done.at(cell), record);
}

/// Ends the task of a cell that this lane has. A fence of the task's ring may have waited for it; the caller sees to
/// that.
pub(super) fn end_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    cell: U32<'b>,
    (status, value): (U32<'b>, U32<'b>),
) {
    let owed = if counts_owed(kernel) { cell_state::OWED } else { 0 };
    let keep = u64::from(GENERATION_MASK) << cell_state::GENERATION_SHIFT | owed;
    // The next task has begun no step, even if the session ends before it is adopted.
    f.store(fact(cells, cell, cell_fact::STEPS), 0u64);
    // Pairs with the acquire of the group that adopts the next task of this cell.
    let seen = f.atomic_and(Order::AcqRel, Scope::Device, cells.states.at(cell), keep);
    // Stands between the effects of the task and its record, and between the end of the cell and the look for a fence
    // that waits for it.
    f.fence(Order::SeqCst, Scope::System);
    post_cell(f, cells, cell, (status, cell_generation(f, seen), value));
    if counts_owed(kernel) {
        let one = 1u64 << cell_state::OWED_SHIFT;
        // Pairs with the fence before the end of a batch fence that has found nothing owed: the record was posted before.
        f.atomic_sub(Order::Release, Scope::Device, cells.states.at(cell), one);
    }
}

/// Puts a cell aside that this lane has, until the host resumes it. `by_itself` says whether the task has asked for
/// that, rather than the host. Gives whether the cell has to go on after all, because the host has resumed or cancelled
/// it meanwhile.
pub(super) fn park_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    cells: &CellBuffers,
    cell: U32<'b>,
    by_itself: Val<'b, bool>,
) -> Val<'b, bool> {
    use cell_state::{AWAITS_HOST, CANCEL, PARKED, PAUSE, PHASE, RESUMED};
    let goes_on = |seen: U64<'b>| {
        let resumed = (by_itself & (seen & RESUMED).ne(0)) | (!by_itself & (seen & PAUSE).eq(0));
        (seen & CANCEL).ne(0) | resumed
    };
    let seen = change_state(f, cells, cell, |seen| {
        let waits = f.select(by_itself, f.lit(AWAITS_HOST), f.lit(0u64));
        let parked = (seen & !PHASE) | waits | PARKED;
        let unparked = f.select(by_itself, seen & !RESUMED, seen);
        f.select(goes_on(seen), unparked, parked)
    });
    goes_on(seen)
}

/// Applies everything that the host has asked since the last call. Only one lane of a kernel calls this.
pub(super) fn apply_asks<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) {
    let Some(cells) = kernel.cells() else { return };
    let done = f.load(cells.applied.at(0));
    // Pairs with the host's release: the asks below the count are seen.
    let asked = f.atomic_load(Order::Acquire, Scope::System, cells.asks.at(0));
    f.when(asked.ne(done), || {
        let count = f.cast::<u32>(asked - done);
        f.range((f.lit(0), count, f.lit(1)), (), |_, k, ()| {
            let at = ((f.cast::<u32>(done) + k) & (ask::RING - 1)) + STRIDE;
            apply_ask(f, kernel, cells, f.atomic_load(Order::Relaxed, Scope::System, cells.asks.at(at)));
        });
        // Pairs with the acquire of groups that look for tasks of disabled tenants: they see what the asks have
        // changed.
        f.atomic_store(Order::Release, Scope::Device, cells.applied.at(0), asked);
        // Pairs with the host's acquire: the asks have been read, and may be overwritten.
        f.atomic_store(Order::Release, Scope::System, cells.answers.at(0), asked);
    });
}

/// Applies one ask. A cell that has to go on because of it is put into the queue of its level.
fn apply_ask<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    asked: U64<'b>,
) {
    let (low, meant) = (f.cast::<u32>(asked), f.cast::<u32>(asked >> 32));
    let (cell, what) = (low & ask::CELL, low >> ask::WHAT_SHIFT);
    if kernel.events().is_some() {
        let signals = || event::signal_event(f, kernel, Signaller::Host, (cell, meant));
        return f.choose(what.eq(ask::SIGNAL), signals, || {
            apply_ask_to_cell(f, kernel, cells, (cell, what, meant))
        });
    }
    apply_ask_to_cell(f, kernel, cells, (cell, what, meant));
}

/// Applies an ask to the state of a cell. `meant` is the generation of the cell that the host means.
fn apply_ask_to_cell<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    cells: &CellBuffers,
    (cell, what, meant): (U32<'b>, U32<'b>, U32<'b>),
) {
    use cell_state::{
        ASKED, AWAITS_CHILDREN, AWAITS_EVENT, AWAITS_HOST, CANCEL, ENDED, ENDED_BEFORE_CHILDREN, NEXT_SHIFT,
        PARKED, PAUSE, PHASE, RESUMED, RUNNABLE,
    };
    let resumes = what.eq(ask::RESUME);
    // What the host has asked already, and this. A resume ends a pause if there is one, and is kept for the next `park`
    // otherwise.
    let add = |asks: U64<'b>| {
        let resumed = f.select((asks & PAUSE).ne(0), asks & !PAUSE, asks | RESUMED);
        let more = f.select(what.eq(ask::CANCEL), f.lit(CANCEL), f.lit(PAUSE));
        f.select(resumes, resumed, asks | more)
    };
    // A task that has called `park` and was paused after that goes on waiting when its pause ends.
    let wakes = |seen: U64<'b>| {
        let stays = (seen & (AWAITS_HOST | PAUSE)).eq(AWAITS_HOST | PAUSE);
        let goes_on = match kernel.trees {
            None => what.eq(ask::CANCEL) | (resumes & !stays),
            // A task that waits for something else than the host is not resumed. If it waits for an event, those that
            // look after the event wake it, and if it has ended already, it does not run again.
            Some(_) => {
                let cancels = what.eq(ask::CANCEL) & (seen & (AWAITS_EVENT | ENDED_BEFORE_CHILDREN)).eq(0);
                cancels
                    | (resumes
                        & !stays
                        & (seen & (AWAITS_CHILDREN | AWAITS_EVENT | ENDED_BEFORE_CHILDREN)).eq(0))
            }
        };
        is_in_phase(seen, PARKED) & goes_on & cell_generation(f, seen).eq(meant)
    };
    let seen = change_state(f, cells, cell, |seen| {
        let (now, ended) = (cell_generation(f, seen).eq(meant), is_in_phase(seen, ENDED));
        let next = ended & ((cell_generation(f, seen) + 1) & GENERATION_MASK).eq(meant);
        let told = (seen & !ASKED) | add(seen & ASKED);
        // A resume that ends a `park` is used up by that, and one that ends a pause keeps what was asked before.
        let asks = f.select(resumes & (seen & AWAITS_HOST).ne(0), seen & ASKED, told & ASKED);
        let reasons = if kernel.trees.is_some() { AWAITS_HOST | AWAITS_CHILDREN } else { AWAITS_HOST };
        let woken = (seen & !(ASKED | PHASE | reasons)) | asks | RUNNABLE;
        let kept = (seen & !(ASKED << NEXT_SHIFT)) | add((seen >> NEXT_SHIFT) & ASKED) << NEXT_SHIFT;
        let same_task = f.select(wakes(seen), woken, told);
        f.select(now & !ended, same_task, f.select(next, kept, seen))
    });
    f.when(wakes(seen), || ready::push_ready(f, kernel, cells, cell));
    if kernel.events().is_some() {
        // A task of the tree may wait for any event of the tenant.
        let cancelled = what.eq(ask::CANCEL) & cell_generation(f, seen).eq(meant) & !is_in_phase(seen, ENDED);
        f.when(cancelled, || {
            let per_producer = kernel.layout.steps.map_or(1, |steps| steps.producer_cells);
            event::wake_cancelled(f, kernel, f.load(kernel.global.rings.at(cell / per_producer)));
        });
    }
}

/// Applies what the host has asked, in a kernel of near rings in which no group keeps the control words. The first lane
/// of the first group does it between two looks at its rings.
pub(super) fn apply_asks_as_first_group<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>) {
    if kernel.cells().is_some() && kernel.mode.control_copy().is_none() {
        f.when(f.group().eq(0) & f.lane().eq(0), || apply_asks(f, kernel));
    }
}
