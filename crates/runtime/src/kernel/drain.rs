//! Drained batches: one pass over slots that the host has filled.
//!
//! The kernel reads slots where the host wrote them, and writes records where the host reads them. Nothing is copied,
//! so a pass is one launch. Each group begins with a window of its own, and claims more windows from a count that all
//! groups share until there are none left. The last group to leave tells the host what was counted, and resets the
//! words that groups share for the next pass.
//!
//! Positions continue from pass to pass, as in a live ring. So the records of a pass carry its generation, and the
//! marks of the pass before lie below the frontier. The slots of a batch carry no generation.
//!
//! Every slot names its tenant. A slot is left as it is if it is not published, if its tenant is disabled, or if its
//! tenant has no credit left. The opcode SHUTDOWN ends the pass: windows that no group has claimed by then are left as
//! they are.

use pelton_ir::builder::{Builder, FunctionBuilder};
use pelton_ir::types::{Order, Scope};

use super::buffers::FrontierBuffers;
use super::claim::Credit;
use super::context::{KernelContext, LINE, U32, U64, state};
use super::dispatch::allows;
use super::far::fetch_slots;
use super::layout::Layout;
use super::mode::{DrainMode, Mode};
use super::steps::step_counter;
use super::tenant::Tenant;
use super::window::{TaskWindow, WindowOwner, WindowRunner};
use crate::protocol::{FaultCode, Opcode, Status, WindowState, control, slot};

/// The words of [`FrontierBuffers::front`] that only drained batches have. They are zero when a pass begins.
mod pass_word {
    /// The lower half counts the windows that were claimed beyond one per group. The upper half counts the tasks that
    /// have ended the pass.
    pub(super) const NEXT: u32 = 2;
    /// How many groups have left the pass.
    pub(super) const LEFT: u32 = 3;
}

/// What is added to [`pass_word::NEXT`] to end a pass. No window has so large a number, so no group claims another one.
const END_PASS: u64 = 1 << 32;

/// What the host asks of a pass, in [`PassBuffers::wanted`](super::buffers::PassBuffers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PassRequest {
    /// The first position of the pass.
    pub start: u64,
    /// How many slots the batch has.
    pub count: u32,
    /// The most slots that a group takes at once.
    pub window: u32,
    /// Whether there are fences in the batch.
    pub fences: bool,
    /// Whether the next pass belongs to the same run, so that counters are not reset after this pass.
    pub more: bool,
}

/// The first bit of [`PassRequest::window`] in the second word.
const WINDOW_SHIFT: u32 = 32;
/// The bit of [`PassRequest::fences`] in the second word.
const FENCES_BIT: u32 = 62;
/// The bit of [`PassRequest::more`] in the second word.
const MORE_BIT: u32 = 63;

impl PassRequest {
    /// The two words in which the kernel reads the request.
    pub(crate) fn words(self) -> [u64; 2] {
        let PassRequest { start, count, window, fences, more } = self;
        let flags = u64::from(fences) << FENCES_BIT | u64::from(more) << MORE_BIT;
        [start, u64::from(count) | u64::from(window) << WINDOW_SHIFT | flags]
    }
}

/// Where the words of [`PassBuffers::report`](super::buffers::PassBuffers) are. They begin with the counters, in the
/// order of a group's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassReport {
    /// The word with the number of tasks that ended with a fault.
    pub faults: u32,
    /// The first of the counters of steps, if the kernel has resumable handlers.
    pub steps: Option<u32>,
    /// The first of the counters that all groups add to.
    pub control: u32,
    /// The word that says whether a task has ended the pass.
    pub ended: u32,
    /// How many words there are.
    pub words: u32,
}

impl PassReport {
    /// Works out where the words of the report are.
    pub(crate) fn new(layout: &Layout) -> Self {
        let faults = layout.counters_per_group();
        let steps = layout.steps.map(|_| faults + 1);
        let control = steps.map_or(faults + 1, |first| first + step_counter::COUNT);
        let ended = control + control::OBSERVABLES;
        PassReport { faults, steps, control, ended, words: ended + 1 }
    }
}

/// Writes a kernel that runs one pass over a batch.
pub(super) fn write_drain(m: &mut Builder, run: WindowRunner<'_>, mode: &DrainMode) {
    let DrainMode { frontier, pass, .. } = mode;
    let kernel = run.kernel;
    m.kernel("main", |f| {
        let (start, shape) = f.choose(
            f.lane().eq(0),
            || {
                let line = pass.wanted.at(f.group() * LINE);
                let [start, shape] = f.load_wide::<u64, 2>(Order::Relaxed, Scope::System, line);
                (start, shape)
            },
            || (f.lit(0u64), f.lit(0u64)),
        );
        // The table is copied while the request of the host is on its way.
        kernel.copy_piece_table(f);
        let shape = f.group_broadcast(shape, 0);
        let all = f.cast::<u32>(shape).named("all");
        let most = f.cast::<u32>(shape >> WINDOW_SHIFT & u64::from(u32::MAX >> 2)).named("window");
        f.when(f.lane().eq(0), || {
            // What is needed only between windows is kept in memory, which saves registers.
            f.store(kernel.shared.heads.at(0), start);
            let flag = |bit: u32| f.cast::<u32>(shape >> bit & 1u64);
            for (at, word) in [
                (state::FENCES, flag(FENCES_BIT)),
                (state::MORE, flag(MORE_BIT)),
                (state::ALL, all),
                (state::MOST, most),
            ] {
                f.store(kernel.shared.state.at(at), word);
            }
        });
        f.barrier();
        let from = f.group() * most;
        f.forever::<_, ()>((from, window_size(f, kernel, from, (all, most))), |claims, (from, count)| {
            f.when(count.eq(0), || claims.leave(()));
            // The positions of a batch fit into 32 bits.
            let start = f.cast::<u32>(f.load(kernel.shared.heads.at(0)));
            let first = f.cast::<u64>(start + from).named("first");
            let base = f.lit(0);
            if kernel.source.words.handle() != run.slots.words.handle() {
                fetch_slots(f, run, base, first, count);
            }
            run.run_window(f, TaskWindow { base, first, count, owner: WindowOwner::EachSlot });
            let none = || (f.lit(0), f.lit(0));
            let (from, count) = f.choose(f.lane().eq(0), || claim_window(f, run, frontier), none);
            (f.group_broadcast(from, 0).named("from"), f.group_broadcast(count, 0).named("count"))
        });
        leave_pass(f, kernel, mode);
    });
}

/// How many slots a window has that begins at slot `from` of the batch.
fn window_size<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    from: U32<'b>,
    (all, most): (U32<'b>, U32<'b>),
) -> U32<'b> {
    let left = f.max(all, from) - from;
    f.min(f.min(left, most), kernel.layout.window)
}

/// Claims one more window, beyond the one that each group begins with, and clears what the last window has left. Gives
/// the first slot of the window and the number of its slots.
fn claim_window<'b>(
    f: &'b FunctionBuilder<'b>,
    run: WindowRunner<'_>,
    frontier: &FrontierBuffers,
) -> (U32<'b>, U32<'b>) {
    let kernel = run.kernel;
    run.clear_state(f);
    let word = |at: u32| f.load(kernel.shared.state.at(at));
    let (all, most) = (word(state::ALL), word(state::MOST));
    // Often one window per group is enough for the whole batch, and then nothing has to be claimed.
    let claim = || {
        let next = f.atomic_add(Order::Relaxed, Scope::Device, frontier.front.at(pass_word::NEXT), 1u64);
        // If the pass was ended, this is beyond all slots.
        let from = (next + f.cast::<u64>(f.groups())) * f.cast::<u64>(most);
        let from = f.cast::<u32>(f.min(from, f.cast::<u64>(all)));
        (from, window_size(f, kernel, from, (all, most)))
    };
    f.choose((f.groups() * most).lt(all), claim, || (f.lit(0), f.lit(0)))
}

/// Adds what the group has counted to the counters of all groups. The last group to do so reports to the host and
/// resets the shared words for the next pass.
fn leave_pass<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    DrainMode { frontier, pass, .. }: &DrainMode,
) {
    let report = PassReport::new(&kernel.layout);
    if kernel.counts_tasks() {
        kernel.each_by_lane(f, f.lit(report.control), report.control, |at| {
            let tally = f.load(kernel.shared.tally.at(at));
            f.when(tally.ne(0), || {
                f.atomic_add(Order::Relaxed, Scope::Device, kernel.global.rows.at(at), f.cast::<u64>(tally));
            });
        });
    }
    f.barrier();
    let before = f.choose(
        f.lane().eq(0),
        // Pairs with itself: the last group sees what all groups have counted.
        || f.atomic_add(Order::AcqRel, Scope::Device, frontier.front.at(pass_word::LEFT), 1u64),
        || f.lit(0u64),
    );
    let before = f.group_broadcast(before, 0);
    f.when(before.eq(f.cast::<u64>(f.groups()) - 1u64), || {
        let last = f.load(kernel.shared.state.at(state::MORE)).eq(0);
        let tell = |from: pelton_ir::builder::Buf<u64>, first: u32, count: u32| {
            kernel.each_by_lane(f, f.lit(count), count, |at| {
                let word = f.atomic_load(Order::Relaxed, Scope::Device, from.at(at));
                f.atomic_store(Order::Relaxed, Scope::System, pass.report.at(at + first), word);
                f.when(last & word.ne(0), || f.store(from.at(at), 0u64));
            });
        };
        tell(kernel.global.rows, 0, report.control);
        tell(kernel.global.control, report.control, control::OBSERVABLES);
        f.when(f.lane().eq(0), || {
            let front = |at: u32| frontier.front.at(at);
            let next = f.atomic_load(Order::Relaxed, Scope::Device, front(pass_word::NEXT));
            f.atomic_store(Order::Relaxed, Scope::System, pass.report.at(report.ended), next / END_PASS);
            let start = f.load(kernel.shared.heads.at(0));
            f.store(front(0), start + u64::from(kernel.layout.largest_stripe()));
            for at in [1, pass_word::NEXT, pass_word::LEFT] {
                f.store(front(at), 0u64);
            }
        });
    });
}

/// Counts a task that ended with a fault.
pub(super) fn count_fault<'b>(f: &'b FunctionBuilder<'b>, kernel: &KernelContext<'_>, status: U32<'b>) {
    if kernel.counts_tasks() {
        let faults = kernel.shared.tally.at(PassReport::new(&kernel.layout).faults);
        f.when(status.eq(Status::Fault.code()), || {
            f.atomic_add(Order::Relaxed, Scope::Group, faults, 1);
        });
    }
}

/// Decides whether the task of a slot may run. If it may, `call` runs it with its tenant and the tenant's mask.
pub(super) fn run_if_permitted<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (word, at): (U64<'b>, U32<'b>),
    call: impl FnOnce(U32<'b>, U32<'b>) -> (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    let owner = kernel.source.head(f, at + slot::TENANT / 2);
    let tenant = f.cast::<u32>(owner);
    let left = || (f.lit(WindowState::Left.code()), f.lit(0));
    let wrong = || (f.lit(Status::Fault.code()), f.lit(FaultCode::MALFORMED.code()));
    let published = f.cast::<u32>(word).eq(Status::Published.code());
    f.choose(
        published,
        || {
            f.choose(
                tenant.lt(Tenant::MAX_TENANTS),
                || {
                    // Both loads are under way at once.
                    let (mask, credit) =
                        (kernel.host_word(f, tenant + control::MASKS), Credit::new(f, kernel, tenant));
                    let may = f.choose(mask.ne(0), || credit.take(f, kernel, f.lit(1)), || f.lit(0));
                    f.choose(
                        may.ne(0),
                        || run_admitted(f, kernel, (word, owner), (tenant, mask), || call(tenant, mask)),
                        left,
                    )
                },
                wrong,
            )
        },
        left,
    )
}

/// Counts a task that may run, and runs it with `call`, unless it is one that ends the pass.
fn run_admitted<'b>(
    f: &'b FunctionBuilder<'b>,
    kernel: &KernelContext<'_>,
    (word, owner): (U64<'b>, U64<'b>),
    (tenant, mask): (U32<'b>, U32<'b>),
    call: impl FnOnce() -> (U32<'b>, U32<'b>),
) -> (U32<'b>, U32<'b>) {
    if kernel.counts_tasks() {
        let priority = f.min(f.cast::<u32>(owner >> 32), 4);
        for counter in [f.lit(control::DONE_COUNT), tenant + control::CLAIMS, priority + control::LEVELS] {
            f.atomic_add(Order::Relaxed, Scope::Group, kernel.shared.tally.at(counter), 1);
        }
    }
    let Mode::Drain(DrainMode { frontier, .. }) = &kernel.mode else { return call() };
    let op = f.cast::<u32>(word >> 32);
    // A tenant that may not use SHUTDOWN must not be able to end the pass of other tenants.
    let ends = op.eq(Opcode::SHUTDOWN.code()) & allows(f, mask, op);
    f.choose(
        ends,
        || {
            f.atomic_add(Order::Relaxed, Scope::Device, frontier.front.at(pass_word::NEXT), END_PASS);
            (f.lit(Status::Done.code()), f.lit(0))
        },
        call,
    )
}
