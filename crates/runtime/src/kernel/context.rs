//! What all parts of a kernel share while it is written: the `Spec` and the layout that it is written from, its
//! buffers, and small pieces of code that several parts need.

use pelton_ir::arena::Buffer;
use pelton_ir::builder::{At, Buf, Builder, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{
    CellBuffers, EventBuffers, GlobalBuffers, KernelPlan, PieceCopies, RingShareBuffers, SerialBuffers,
    SharedBuffers, SlotCopies, SpawnBuffers,
};
pub(super) use super::buffers::{LINE, STRIDE, group_state as state};
use super::declare::Declarer;
use super::layout::{Layout, SlotBank, SlotBanks};
use super::mode::Mode;
use super::payload::TaskPlaces;
use super::recovery::RecoveryContext;
use super::ring_shares::RingShares;
use super::spec::{Spec, TaskOrder, Telemetry};
use super::steps::StepContext;
use super::tree::TreeContext;
use crate::protocol::control;

/// A value of 32 bits in the kernel that is being written.
pub(super) type U32<'b> = Val<'b, u32>;
/// A value of 64 bits in the kernel that is being written.
pub(super) type U64<'b> = Val<'b, u64>;

/// The buffer that the slots of a window are read from, and whether the host may still write it.
#[derive(Clone, Copy)]
pub(super) struct SlotSource {
    pub words: Buf<u64>,
    /// Whether the words are those of the ring itself, so that the host may write them to cancel a task.
    pub live: bool,
}

impl SlotSource {
    /// Loads one of the first two words of a slot, which the host writes again when it cancels a task.
    pub(super) fn head<'b>(self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U64<'b> {
        match self.live {
            true => f.atomic_load(Order::Relaxed, Scope::System, self.words.at(at)),
            false => f.load(self.words.at(at)),
        }
    }

    /// Loads a word of arguments, which is never written again once the slot is published.
    pub(super) fn load<'b>(self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U64<'b> {
        f.load(self.words.at(at))
    }
}

/// The mask and the quota of a tenant.
#[derive(Clone, Copy)]
pub(super) struct Rights<'b> {
    mask: U32<'b>,
    quota: U32<'b>,
}

impl<'b> Rights<'b> {
    /// The opcodes that the tenant may use without a window. There are none if the tenant has a quota, because only
    /// windows take credit from it. Both words must have arrived before the result is known.
    pub(super) fn light_mask(self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        f.select(self.quota.eq(0), self.mask, 0)
    }
}

/// A kernel that is being written: what it is written from, and its buffers.
pub(super) struct KernelContext<'s> {
    pub spec: &'s Spec,
    pub layout: Layout,
    /// What the kernel serves.
    pub mode: Mode,
    /// Where the words of a window's tasks are read.
    pub source: SlotSource,
    pub global: GlobalBuffers,
    pub shared: SharedBuffers,
    /// What tenants that share rings by weight need, if they do.
    pub ring_shares: Option<RingShareBuffers>,
    /// The group's own copy of the table of pieces, on devices whose other memory is slow to reach.
    pub pieces: Option<PieceCopies>,
    /// What the kernel needs so that its session can recover, if it can.
    pub recovery: Option<RecoveryContext>,
    /// What the kernel needs to run one task at a time, if it does.
    pub serial: Option<SerialBuffers>,
    /// The payloads and replies of tasks, if they have any.
    pub places: Option<TaskPlaces>,
    /// The buffers of the workspace, in the order of [`Layout::areas`].
    pub areas: Vec<Buffer>,
    /// Whether some handler has loops that take fuel.
    pub fueled: bool,
    /// What tasks that take several steps need, if a handler is resumable.
    pub steps: Option<StepContext>,
    /// What tasks that make or await other tasks need, if the kernel has such tasks.
    pub trees: Option<TreeContext>,
}

impl<'s> KernelContext<'s> {
    /// Declares the buffers that a kernel needs. `fueled` says whether some handler has loops that take fuel.
    pub(super) fn new(m: &mut Builder, spec: &'s Spec, mut layout: Layout, fueled: bool) -> Self {
        let plan = KernelPlan { spec, layout: &layout };
        let mut d = Declarer { module: m, plan, bound: Vec::new() };
        let mode = Mode::declare(&mut d);
        // A group of one lane runs tasks where they lie, unless they are far away.
        let in_place = mode.in_place().filter(|_| layout.lanes == 1);
        let in_place = in_place.map(|(slots, live)| SlotSource { words: slots.words, live });
        let source =
            in_place.unwrap_or_else(|| SlotSource { words: SlotCopies::declare(&mut d).window, live: false });
        let global = GlobalBuffers::declare(&mut d);
        let shared = SharedBuffers::declare(&mut d);
        let ring_shares = spec.shares_rings_by_weight().then(|| RingShareBuffers::declare(&mut d));
        let steps = StepContext::declare(&mut d);
        let trees = TreeContext::declare(&mut d);
        let pieces = layout.remote.then(|| PieceCopies::declare(&mut d));
        let places = TaskPlaces::declare(&mut d);
        let recovery = RecoveryContext::declare(&mut d);
        let serial = (spec.order == TaskOrder::Serial).then(|| SerialBuffers::declare(&mut d));
        let areas = layout.areas.iter().enumerate();
        let areas = areas.map(|(number, area)| d.declare_region(number, area)).collect();
        layout.buffers = d.bound;
        KernelContext {
            spec,
            layout,
            mode,
            source,
            global,
            shared,
            ring_shares,
            pieces,
            recovery,
            serial,
            places,
            areas,
            fueled,
            steps,
            trees,
        }
    }

    /// Runs `body` for each number below `count`, with the numbers dealt out to the lanes. `count` is at most `most`.
    pub(super) fn each_by_lane<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        count: U32<'b>,
        most: u32,
        body: impl FnOnce(U32<'b>),
    ) {
        if self.layout.lanes >= most {
            // Each lane has at most one number, so no loop is needed.
            return f.when(f.lane().lt(count), || body(f.lane()));
        }
        f.range((f.lane(), count, f.lanes()), (), |_, at, ()| body(at));
    }

    /// Copies the table of pieces into the group's own memory, where it has a copy. Every group does this once.
    pub(super) fn copy_piece_table<'b>(&self, f: &'b FunctionBuilder<'b>) {
        let Some(PieceCopies { firsts, lens }) = self.pieces else { return };
        let count = self.layout.piece_words() / 2;
        self.each_by_lane(f, f.lit(count), count, |at| {
            for (k, words) in [firsts, lens].iter().enumerate() {
                f.store(words.at(at), f.load(self.global.regions.at(at * 2 + k as u32)));
            }
        });
        f.barrier();
    }

    /// The rings as tenants share them, if they do so by weight.
    pub(super) fn ring_shares(&self) -> Option<RingShares<'_>> {
        self.ring_shares.as_ref().map(|buffers| RingShares { kernel: self, buffers })
    }

    /// Whether the kernel counts tasks.
    pub(super) fn counts_tasks(&self) -> bool {
        self.spec.telemetry != Telemetry::Off
    }

    /// Loads a control word of the host, or the copy of it where groups do not read the host's own words.
    pub(super) fn host_word<'b>(&self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U32<'b> {
        match (&self.mode, self.mode.control_copy()) {
            (_, Some(copy)) => f.atomic_load(Order::Relaxed, Scope::Device, copy.buffers.words.at(at)),
            (Mode::Drain(_), None) => f.load(self.global.host.at(at)),
            (Mode::Live(_), None) => f.atomic_load(Order::Relaxed, Scope::System, self.global.host.at(at)),
        }
    }

    /// The cells, what their tasks have to do with each other, and the events, if there are any events.
    pub(super) fn events(&self) -> Option<(&CellBuffers, &TreeContext, &EventBuffers)> {
        let trees = self.trees.as_ref()?;
        Some((self.cells()?, trees, trees.events.as_ref()?))
    }

    /// The cells, what their tasks have to do with each other, and the cells for spawned tasks, if there are any.
    pub(super) fn spawning(&self) -> Option<(&CellBuffers, &TreeContext, &SpawnBuffers)> {
        let trees = self.trees.as_ref()?;
        Some((self.cells()?, trees, trees.spawn.as_ref()?))
    }

    /// The words by which pollers are told that a control word has changed, if they have to be told.
    pub(super) fn notices(&self) -> Option<Buf<u32>> {
        self.mode.control_copy()?.notices
    }

    /// Whether pollers are told when a control word changes. They may then read control words together with a line.
    pub(super) fn pollers_are_told(&self) -> bool {
        self.layout.pollers > 0
    }

    /// Loads the tenant's mask and quota, which decide whether its tasks may run without a window. Both loads are under
    /// way at once.
    pub(super) fn rights<'b>(&self, f: &'b FunctionBuilder<'b>, tenant: U32<'b>) -> Rights<'b> {
        let [mask, quota] = [control::MASKS, control::QUOTAS].map(|table| self.host_word(f, tenant + table));
        Rights { mask, quota }
    }

    /// How many tasks a fence in this slot may reach back over: as many as its stripe has slots.
    pub(super) fn fence_reach<'b>(&self, f: &'b FunctionBuilder<'b>, number: U32<'b>) -> U32<'b> {
        let slots = |bank: &SlotBank| f.lit(bank.stripe_slots());
        match &self.layout.banks {
            SlotBanks::Near(bank) | SlotBanks::Far(bank) => slots(bank),
            SlotBanks::Both { near, far } => f.select(number.lt(far.first_slot), slots(near), slots(far)),
        }
    }

    /// Writes what comes after a line that was taken because its check holds, and not because a word of it was
    /// acquired. From here on, everything is seen that the host wrote before it published the line. A device with
    /// memory of its own needs nothing, because the host writes that memory by copies, and they had ended before the
    /// line was published.
    pub(super) fn acquire_host_writes<'b>(&self, f: &'b FunctionBuilder<'b>) {
        if !self.layout.remote {
            f.fence(Order::Acquire, Scope::System);
        }
    }

    /// Writes the fence that comes after the lines of a window on a device with memory of its own, where the lines were
    /// not acquired. From here on, everything is seen that the host wrote to that memory before it published the lines,
    /// whatever the nearest cache holds. The copy that wrote it had ended, so the device's scope is wide enough. The
    /// fence also separates the lines from the word that says that the group is [away](super::notice).
    pub(super) fn refresh_after_lines<'b>(&self, f: &'b FunctionBuilder<'b>) {
        f.fence(Order::AcqRel, Scope::Device);
    }

    /// Whether the groups of near rings have a watch: a subgroup that looks at all rings at once.
    pub(super) fn groups_watch(&self) -> bool {
        self.layout.lanes >= self.layout.subgroup
    }

    /// Where a group counts the tasks of an opcode until it adds them to its counters that others see.
    pub(super) fn tally<'b>(&self, counter: u32) -> At<'b, u32> {
        self.shared.tally.at(if self.mode.drains() { control::OBSERVABLES + counter } else { counter })
    }

    /// Adds one to a counter of this group that other lanes of the group may write at the same time.
    pub(super) fn bump_shared<'b>(&self, f: &'b FunctionBuilder<'b>, counter: U32<'b>) {
        let at = f.group() * self.layout.counters_per_group() + counter;
        f.atomic_add(Order::Relaxed, Scope::Device, self.global.rows.at(at), 1u64);
    }

    /// Adds to a counter of this group that only one lane writes at a time.
    pub(super) fn bump_own<'b>(&self, f: &'b FunctionBuilder<'b>, counter: U32<'b>, by: U32<'b>) {
        let at = f.group() * self.layout.counters_per_group() + counter;
        let old = f.atomic_load(Order::Relaxed, Scope::System, self.global.rows.at(at));
        f.atomic_store(Order::Relaxed, Scope::System, self.global.rows.at(at), old + f.cast::<u64>(by));
    }
}
