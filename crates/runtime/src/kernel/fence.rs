//! Batch fences: tasks that end after everything before them. No lane ever waits for one.
//!
//! To *retire* a fence is to end it: the epoch rises and the fence's record is posted. How a fence is retired depends
//! on its ring.
//!
//! In a near ring, each group works through its own stripe in order. Everything before a fence has ended once the
//! records of its window are posted, so the group retires the fence right then.
//!
//! In a far ring or a drained batch, windows may end in any order, so a fence is put aside. The same is done in near
//! rings whose tasks may live in [cells](super::cells) and outlast their windows.
//!
//! - Every window leaves *marks* when it ends. A mark lies in `marks` at the position where something begins, and says
//!   where it ends. A window without fences leaves one mark. A window with fences is cut at them, and each fence has a
//!   mark of its own.
//! - The *frontier* of a ring is the position below which every slot has its record; a task may go on in a cell. The marks form a chain, because each
//!   one ends where the next begins. A group that follows the chain from the frontier on finds how far everything has
//!   ended, moves the frontier there, and retires the fences that it meets.
//! - One group at a time follows the marks of a ring. A group that has left marks adds one to the ring's count of news.
//!   If the count was zero before, this group follows the marks. Before it leaves, it subtracts the news that it has
//!   seen. If more news has come in the meantime, it follows the marks again.
//! - All changes of the count of news acquire and release. The group has therefore seen the marks of all windows whose
//!   news it subtracts. It may also meet a mark before its news, so the mark itself is stored with release and loaded
//!   with acquire: a group that sees a mark sees that its slots have ended.
//! - A task that has moved to a cell leaves its slot at once, so the frontier passes it. A fence must still wait for it.
//!   The group that follows the marks and meets a fence looks through the cells of the ring's producer. If one of them
//!   holds a task of an earlier position of this stripe, the frontier stays at the fence, and the stripe is marked as
//!   one whose fence waits. Whoever ends a cell of such a stripe counts news of it, and so the marks are followed again.
//!   Either the look at the cells sees that the cell has ended, or the end of the cell sees that a fence waits, because
//!   there is a sequentially consistent fence on both sides. Each look begins at the cell for which the last one
//!   stopped, because no other cell before it can get a task from before the fence any more. A look may meet a cell that
//!   is just being adopted. That is never a task from before the fence, and it must not be taken for the cell's last
//!   one, because its end would wake the fences of another stripe. So the stripe that a cell names counts only together
//!   with the generation that the state of the cell has. What a cell names of a task from before the fence is always seen,
//!   because it was written before the mark of the task's window.
//! - A host that sees that a fence has ended must find the records of all tasks before it. The record of a task in a cell
//!   is posted a moment after its cell has ended, and the state of the cell says until then that the record is owed. In
//!   the same way, the state of a cell says a moment before the cell does that it has its next task. A look that meets a
//!   cell in one of these moments looks again until it is over. This is the only place where a lane waits for another
//!   one, and it does not wait for a task: the other lane executes a fence, a store and a subtraction in the first case,
//!   two stores in the second, and never waits itself. Nor can the other lane be one that stands still until this one
//!   goes on. On the CPU, the lanes of a group run one after the other from one meeting to the next, and there is no
//!   meeting in between; on a GPU, lanes that have diverged all make progress. A cell that has its next task need not be
//!   waited for, whatever it still owes, because the host has seen the record of the last one.
//! - A slot belongs to the host again once its record is posted, and its position in the next lap has the same place in
//!   `marks`. So groups claim no more than one lap beyond the frontier, and a mark stays until it was followed. This
//!   holds for near rings too: the group that follows the marks of a stripe may be one that has ended a cell, and not
//!   the one that leaves them.

use pelton_ir::builder::{Builder, Callee, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{CellBuffers, FrontierBuffers};
use super::cells::{cell_fact, cell_state, fact, is_in_phase, is_settled};
use super::claim;
use super::context::{KernelContext, LINE, STRIDE, U32, U64, state};
use super::mode::Mode;
use super::near;
use super::placement::Placement;
use super::slots::BankSlots;
use super::window::{TaskWindow, has_ended, post_record, task_state};
use crate::protocol::{Status, WindowState, control, slot};

/// The words of a stripe's frontier, apart from those that only drained batches have.
mod front_word {
    /// How many windows have ended, or cells for which a fence waits, whose marks were not followed since.
    pub(super) const NEWS: u32 = 1;
    /// Whether a fence waits for a cell.
    pub(super) const WAITS: u32 = 2;
    /// The cell at which the next look for tasks before the fence begins, among the cells of the producer.
    pub(super) const CELL: u32 = 3;
}

/// How long a lane rests before it looks again at a cell that another lane is about to change.
const LOOK_AGAIN_NS: u32 = 40;

/// The bit of a mark that says that it belongs to a fence.
const FENCE_MARK: u64 = 1 << 63;

/// Follows the marks of a stripe from its frontier on, and returns the position at which they end. When no group runs any
/// more, tasks were taken up to this position.
pub(crate) fn end_of_marks(marks: &[u64], frontier: u64) -> u64 {
    let slots = marks.len() as u64;
    let mut at = frontier;
    loop {
        let end = marks[(at % slots) as usize] & !FENCE_MARK;
        // A mark that an earlier lap has left ends at or before this position.
        if end.wrapping_sub(at).wrapping_sub(1) >= slots {
            return at;
        }
        at = end;
    }
}

/// The functions that retire the fences of one placement.
pub(super) struct Fences<'k> {
    slots: &'k BankSlots,
    /// The buffers for tasks that may end in any order. There are none in near rings without cells, or if the kernel has
    /// no fences.
    frontier: Option<&'k FrontierBuffers>,
    /// Retires a fence. It takes the position, the number of the slot and the tenant.
    retire: Callee<(u64, u32, u32), ()>,
    /// Follows the marks of a stripe, where tasks may end in any order. It takes the stripe and its tenant.
    follow: Option<Callee<(u32, u32), ()>>,
}

impl<'k> Fences<'k> {
    /// Writes the functions. `frontier` has the buffers for windows that may end in any order, where they may.
    pub(super) fn write(
        m: &mut Builder,
        kernel: &KernelContext<'_>,
        slots: &'k BankSlots,
        frontier: Option<&'k FrontierBuffers>,
    ) -> Self {
        let retire = write_retire(m, kernel, slots);
        let follow = frontier.map(|frontier| write_follow(m, kernel, slots, frontier, retire));
        let frontier = frontier.filter(|_| kernel.spec.body != super::spec::SlotBody::Fused);
        Fences { slots, frontier, retire, follow }
    }

    /// The buffers for tasks that may end in any order, if there are any.
    pub(super) fn frontier(&self) -> Option<&'k FrontierBuffers> {
        self.frontier
    }

    /// Does what comes after the records of a window: retires its fences, or leaves marks for them. All lanes call it.
    pub(super) fn retire_after<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        window: TaskWindow<'b>,
    ) {
        // After this barrier, all lanes have posted their records, and have read everything that is cleared for the
        // next window.
        f.barrier();
        if kernel.spec.body == super::spec::SlotBody::Fused {
            return;
        }
        f.when(f.lane().eq(0), || match self.frontier {
            // Without fences in the batch there is nothing to find by following marks, so none are left. The host says
            // whether there are fences, because a chain of marks must have no gaps.
            Some(_) if kernel.mode.drains() => {
                f.when(f.load(kernel.shared.state.at(state::FENCES)).ne(0), || {
                    self.note_window_end(f, kernel, window)
                });
            }
            Some(_) => self.note_window_end(f, kernel, window),
            None => f.when(f.load(kernel.shared.state.at(state::FENCED)).ne(0), || {
                let (_, tenant) = window.ring_and_tenant(f);
                self.each_fence(f, kernel, window, |position, number| {
                    f.call(self.retire, (position, number, tenant))
                });
            }),
        });
    }

    /// Leaves the marks of a window that has ended, and follows the marks of the ring if no other group does.
    fn note_window_end<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        window: TaskWindow<'b>,
    ) {
        let (Some(frontier), Some(follow)) = (self.frontier, self.follow) else { return };
        write_marks(f, kernel, self.slots, frontier, window);
        let (ring, tenant) = window.ring_and_tenant(f);
        let stripe = self.own_stripe(f, ring);
        let news = frontier.front.at(stripe * STRIDE + front_word::NEWS);
        let before = f.atomic_add(Order::AcqRel, Scope::Device, news, 1u64);
        f.when(before.eq(0), || f.call(follow, (stripe, tenant)));
    }

    /// The stripe of a ring whose windows this group ends.
    fn own_stripe<'b>(&self, f: &'b FunctionBuilder<'b>, ring: U32<'b>) -> U32<'b> {
        match self.slots.bank.placement {
            Placement::Near => near::own_stripe(f, self.slots, ring),
            _ => ring,
        }
    }

    /// Counts news of a stripe if a fence waits there, after a cell with a task of that stripe has ended and a
    /// sequentially consistent fence was issued.
    pub(super) fn wake_waiting_fence<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        stripe: U32<'b>,
        tenant: U32<'b>,
    ) {
        let (Some(frontier), Some(follow)) = (self.frontier, self.follow) else { return };
        let word = |word: u32| frontier.front.at(stripe * STRIDE + word);
        let waits = f.atomic_load(Order::Relaxed, Scope::Device, word(front_word::WAITS));
        f.when(waits.ne(0), || {
            let before = f.atomic_add(Order::AcqRel, Scope::Device, word(front_word::NEWS), 1u64);
            f.when(before.eq(0), || f.call(follow, (stripe, tenant)));
        });
    }

    /// The position up to which windows of a ring may be taken, of which `end` are wanted: one lap beyond the frontier. A
    /// window that is taken leaves marks when it ends, and must not overwrite a mark of the last lap that was not
    /// followed yet. Neither the tail of a far ring nor the lines of a near one prevent that, because a slot belongs to
    /// the host again as soon as its record is posted.
    pub(super) fn claim_limit<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        ring: U32<'b>,
        end: U64<'b>,
    ) -> U64<'b> {
        let Some(frontier) = self.frontier else { return end };
        let seen = match self.slots.bank.placement {
            Placement::Near => kernel.mode.near_rings().and_then(|near| near.seen),
            _ => Some(kernel.shared.heads),
        };
        let Some(seen) = seen.map(|seen| seen.at(ring)) else { return end };
        let slots = u64::from(self.slots.bank.stripe_slots());
        let known = f.load(seen) + slots;
        f.choose(
            end.le(known),
            || known,
            || {
                let stripe = self.own_stripe(f, ring);
                // Pairs with the release of the group that followed the marks: it has read the marks that may be
                // overwritten now.
                let front = f.atomic_load(Order::Acquire, Scope::Device, frontier.front.at(stripe * STRIDE));
                f.store(seen, front);
                front + slots
            },
        )
    }

    /// Whether the frontier is at this position: everything before it has ended, and its marks were followed.
    pub(super) fn is_quiet<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        ring: U32<'b>,
        position: U64<'b>,
    ) -> Val<'b, bool> {
        let Some(frontier) = self.frontier else { return f.lit(true) };
        let stripe = self.own_stripe(f, ring);
        let front = f.atomic_load(Order::Relaxed, Scope::Device, frontier.front.at(stripe * STRIDE));
        front.eq(position)
    }

    /// Moves the frontier past a task that the router has run at the frontier. No other group moves it at the same
    /// time, because there are no marks to follow from there.
    pub(super) fn move_frontier<'b>(&self, f: &'b FunctionBuilder<'b>, ring: U32<'b>, next: U64<'b>) {
        if let Some(frontier) = self.frontier {
            // This releases again what the group that moved the frontier before has released.
            f.fence(Order::AcqRel, Scope::Device);
            let stripe = self.own_stripe(f, ring);
            f.atomic_store(Order::Relaxed, Scope::Device, frontier.front.at(stripe * STRIDE), next);
        }
    }

    /// Runs `body` for each fence of a window, in order, with its position and slot number. It stops at the first task
    /// that has not ended, because a fence ends after every task before it.
    fn each_fence<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        kernel: &KernelContext<'_>,
        window: TaskWindow<'b>,
        body: impl FnOnce(U64<'b>, U32<'b>),
    ) {
        f.range((f.lit(0), window.count, f.lit(1)), (), |tasks, task, ()| {
            let state = task_state(f, f.load(kernel.shared.records.at(task)));
            f.when(!has_ended(state), || {
                f.when(state.ne(WindowState::Fence.code()), || tasks.leave(()));
                let position = window.first + f.cast::<u64>(task);
                body(position, window.base + self.slots.slot_in_stripe(f, position));
            });
        });
    }
}

/// Leaves the marks of a window and of its fences.
fn write_marks<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    frontier: &FrontierBuffers,
    window: TaskWindow<'b>,
) {
    let set = |position: U64<'b>, mark: U64<'b>| {
        let at = window.base + slots.slot_in_stripe(f, position);
        // Pairs with the acquire of the group that follows the marks, which then sees that the slots have ended.
        f.atomic_store(Order::Release, Scope::Device, frontier.marks.at(at), mark);
    };
    let last = window.first + f.cast::<u64>(window.count);
    let fenced = f.load(kernel.shared.state.at(state::FENCED)).ne(0);
    let from = f.choose(
        fenced,
        || {
            f.range((f.lit(0), window.count, f.lit(1)), window.first, |tasks, task, from| {
                let state = task_state(f, f.load(kernel.shared.records.at(task)));
                let position = window.first + f.cast::<u64>(task);
                f.choose(
                    !has_ended(state),
                    || {
                        f.when(from.ne(position), || set(from, position));
                        // A task that has not ended gets no mark, nor does anything after it, so that no fence after it
                        // is found.
                        f.when(state.ne(WindowState::Fence.code()), || tasks.leave(last));
                        let next = position + 1u64;
                        set(position, next | FENCE_MARK);
                        next
                    },
                    || from,
                )
            })
        },
        || window.first,
    );
    f.when(from.ne(last), || set(from, last));
}

/// Writes the function that retires a fence: it raises the epoch, stores the fence's tag in the tenant's first
/// observable, and posts the record.
fn write_retire(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
) -> Callee<(u64, u32, u32), ()> {
    m.function(slots.function_name("retire"), |f, (position, number, tenant)| {
        let word = |k: u32| slots.words.at(number * LINE + k);
        let (tenant, tag) = match kernel.mode {
            Mode::Live(_) => (tenant, f.atomic_load(Order::Relaxed, Scope::System, word(slot::ARG / 2))),
            // The slots of a batch are not written during a pass, and each of them names its tenant.
            Mode::Drain(_) => (f.cast(f.load(word(slot::TENANT / 2))), f.load(word(slot::ARG / 2))),
        };
        let tag = f.cast::<u32>(tag >> 32);
        // A host that sees the new epoch sees everything that ended before.
        f.fence(Order::AcqRel, Scope::System);
        let before =
            f.atomic_add(Order::Relaxed, Scope::Device, kernel.global.control.at(control::EPOCH), 1u64);
        let column = kernel.layout.areas.len() as u32;
        let piece = tenant * ((column + 1) * 2) + column * 2;
        let (first, len) =
            (f.load(kernel.global.regions.at(piece)), f.load(kernel.global.regions.at(piece + 1)));
        f.when(len.ne(0), || {
            f.atomic_store(Order::Relaxed, Scope::System, kernel.global.observables.at(first), tag)
        });
        if let Some(recovery) = &kernel.recovery {
            recovery.buffers.note_epoch(f, slots, number, before + 1u64);
        }
        f.fence(Order::AcqRel, Scope::System);
        let low = f.cast::<u64>(slots.generation_bits(f, position) | Status::Done.code());
        post_record(f, slots, number, low | (before + 1u64) << 32);
    })
}

/// Writes the function that follows the marks of a stripe from its frontier on, for as long as there is news.
fn write_follow(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    frontier: &FrontierBuffers,
    retire: Callee<(u64, u32, u32), ()>,
) -> Callee<(u32, u32), ()> {
    let waits = kernel.cells().map(|cells| write_waits(m, kernel, slots, frontier, cells));
    m.function(slots.function_name("follow"), |f, (ring, tenant)| {
        let front = frontier.front.at(ring * STRIDE);
        let news = frontier.front.at(ring * STRIDE + front_word::NEWS);
        f.forever::<_, ()>(f.lit(1u64), |rounds, seen| {
            let from = f.atomic_load(Order::Relaxed, Scope::Device, front);
            let to = f.forever::<_, U64<'_>>(from, |steps, at| {
                let number = slots.first_slot(ring) + slots.slot_in_stripe(f, at);
                // Pairs with the release of the mark. The news of that mark may come later.
                let mark = f.atomic_load(Order::Acquire, Scope::Device, frontier.marks.at(number));
                let end = mark & !FENCE_MARK;
                // A mark of the last lap ends at or before this position. A mark of the next lap is met if the router
                // has moved the frontier in the meantime. Neither is followed.
                f.when((end - at - 1u64).ge(u64::from(slots.bank.stripe_slots())), || steps.leave(at));
                f.when(mark.ne(end), || {
                    if let Some(waits) = waits {
                        f.when(f.call(waits, (ring, at)), || steps.leave(at));
                    }
                    f.call(retire, (at, number, tenant));
                });
                end
            });
            // Pairs with the acquire of the group that claims tasks of the next lap: the marks below the frontier have
            // been read. A frontier that does not move is not stored, because the router may be moving it.
            f.when(to.ne(from), || {
                f.atomic_store(Order::Release, Scope::Device, front, to);
                // Where a cell has ended, the group that may take more tasks of this stripe now is perhaps another one.
                if kernel.cells().is_some() {
                    claim::wake_groups(f, kernel);
                }
            });
            let before = f.atomic_sub(Order::AcqRel, Scope::Device, news, seen);
            f.when(before.eq(seen), || rounds.leave(()));
            before - seen
        });
    })
}

/// Writes the function that says whether the fence at a position of a stripe has to wait for a cell. Only the group that
/// follows the stripe's marks calls it.
fn write_waits(
    m: &mut Builder,
    kernel: &KernelContext<'_>,
    slots: &BankSlots,
    frontier: &FrontierBuffers,
    cells: &CellBuffers,
) -> Callee<(u32, u64), bool> {
    let per_producer = kernel.layout.steps.map_or(0, |steps| steps.producer_cells);
    let find = m.function::<(u32, u64), u32>(slots.function_name("fence.older"), |f, (stripe, position)| {
        let producer = (stripe / slots.bank.ring_stripes) % kernel.layout.producers;
        let first = f.cast::<u32>(f.load(frontier.front.at(stripe * STRIDE + front_word::CELL)));
        f.forever::<_, U32<'_>>(first, |look, k| {
            f.when(k.ge(per_producer), || look.leave(f.lit(per_producer)));
            let cell = producer * per_producer + k;
            let state = f.atomic_load(Order::Relaxed, Scope::Device, cells.states.at(cell));
            let word = |word| f.atomic_load(Order::Relaxed, Scope::Device, fact(cells, cell, word));
            let from = word(cell_fact::STRIPE);
            let settled = is_settled(f, state, from);
            let here = f.cast::<u32>(from).eq(slots.session_stripe(stripe));
            f.when(settled & here & !is_in_phase(state, cell_state::ENDED), || {
                // If this is still the position of the last task, the fence only waits longer than it needs to.
                f.when(word(cell_fact::POSITION).lt(position), || look.leave(k));
            });
            f.when(!settled, || f.backoff(LOOK_AGAIN_NS));
            k + f.select(settled, 1, 0)
        })
    });
    m.function(slots.function_name("fence.waits"), |f, (stripe, position)| {
        let word = |word: u32| frontier.front.at(stripe * STRIDE + word);
        let look = || {
            let at = f.call(find, (stripe, position));
            f.store(word(front_word::CELL), f.cast::<u64>(at));
            at.lt(per_producer)
        };
        let waits = f.choose(
            look(),
            || {
                f.atomic_store(Order::Relaxed, Scope::Device, word(front_word::WAITS), 1u64);
                // Stands between the mark that a fence waits and the second look at the cells.
                f.fence(Order::SeqCst, Scope::Device);
                look()
            },
            || f.lit(false),
        );
        f.when(!waits, || {
            f.store(word(front_word::CELL), 0u64);
            f.atomic_store(Order::Relaxed, Scope::Device, word(front_word::WAITS), 0u64);
        });
        waits
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use pelton_device::open;
    use pelton_ir::interp::{BoundWords, InterpKernel, InterpLaunch, Schedule};
    use pelton_ir::types::{Len, Space, Type};
    use pelton_ir::valid::validate;

    use super::*;
    use crate::kernel::buffers::BufferId;
    use crate::kernel::layout::Layout;
    use crate::kernel::mode::LiveRings;
    use crate::kernel::window::{RingOwner, WindowOwner};
    use crate::kernel::{Geometry, Placement, Spec};

    const FENCE: u32 = WindowState::Fence.code();
    const WIDE: u32 = WindowState::Wide.code();
    const DONE: u32 = Status::Done.code();

    /// The status of each position's posted record, after a window whose tasks have these states.
    fn posted(placement: Placement, states: &[u32]) -> Vec<u32> {
        let spec = Spec::new(Geometry::new(16).lanes(1).groups(1)).placement(placement);
        let device = open("reference").expect("it is always there");
        let layout = Layout::new(&spec, device.caps(), (None, None), None).expect("it fits");
        let mut m = Builder::new();
        let kernel = KernelContext::new(&mut m, &spec, layout, false);
        let (slots, frontier, done) = match &kernel.mode {
            Mode::Live(LiveRings::Near { near, .. }) => (&near.slots, None, BufferId::NearDone),
            Mode::Live(LiveRings::Far(far)) => (&far.slots, Some(&far.frontier), BufferId::FarDone),
            _ => panic!("it has rings of one placement"),
        };
        let fences = Fences::write(&mut m, &kernel, slots, frontier);
        m.kernel("main", |f| {
            for (task, state) in states.iter().enumerate() {
                f.store(kernel.shared.records.at(task as u32), u64::from(*state));
            }
            f.store(kernel.shared.state.at(state::FENCED), 1);
            let zero = f.lit(0);
            let owner = RingOwner { ring: zero, level: zero, tenant: zero, mask: zero };
            let count = f.lit(states.len() as u32);
            let owner = WindowOwner::Ring(owner);
            fences.retire_after(f, &kernel, TaskWindow { base: zero, first: f.lit(0u64), count, owner });
        });
        let name = done.row().name(&kernel.layout);
        let module = validate(m.finish()).expect("it is valid");
        let memory: Vec<(Vec<AtomicU32>, Vec<AtomicU64>)> = module
            .buffers
            .iter()
            .map(|(_, decl)| {
                let len = match decl.len {
                    Len::Fixed(len) => len as usize,
                    Len::Launch => 0,
                };
                let wide = decl.elem == Type::U64;
                let words32 = if wide { 0 } else { len };
                let words64 = if wide { len } else { 0 };
                (
                    (0..words32).map(|_| AtomicU32::new(0)).collect(),
                    (0..words64).map(|_| AtomicU64::new(0)).collect(),
                )
            })
            .collect();
        let buffers = module.buffers.iter().zip(&memory).map(|((_, decl), (words32, words64))| {
            match (decl.space, decl.elem) {
                (Space::Shared, _) => BoundWords::None,
                (_, Type::U64) => BoundWords::W64(words64),
                _ => BoundWords::W32(words32),
            }
        });
        let launch = InterpLaunch {
            groups: 1,
            lanes: 1,
            subgroup: 32,
            buffers: buffers.collect(),
            stop: None,
            deadline: None,
            schedule: Schedule::Threads(1),
        };
        InterpKernel::new(&module, None).expect("it loads").run(&launch).expect("it runs");
        let done = module.buffers.iter().zip(&memory).find(|((_, decl), _)| decl.name == name);
        let (_, (_, done)) = done.expect("it has records");
        done[..states.len()].iter().map(|word| word.load(Ordering::Relaxed) as u32 & 0xff).collect()
    }

    #[test]
    fn a_fence_ends_after_all_tasks_before_it_have_ended() {
        for placement in [Placement::Near, Placement::Far] {
            let ended = posted(placement, &[DONE, FENCE, DONE, FENCE]);
            assert_eq!(ended, [0, DONE, 0, DONE], "{placement:?}: both fences are retired");
        }
    }

    #[test]
    fn a_fence_does_not_pass_a_task_that_has_not_ended() {
        for placement in [Placement::Near, Placement::Far] {
            let ended = posted(placement, &[DONE, FENCE, WIDE, FENCE, DONE]);
            assert_eq!(ended, [0, DONE, 0, 0, 0], "{placement:?}: only the first fence is retired");
        }
    }

    #[test]
    fn a_record_that_was_never_written_is_not_one_of_an_ended_task() {
        for placement in [Placement::Near, Placement::Far] {
            let ended = posted(placement, &[0, FENCE]);
            assert_eq!(ended, [0, 0], "{placement:?}: no fence is retired");
        }
    }
}
