//! The buffers of a kernel in the making, and the small sums that all its parts share.

use pelton_ir::arena::Buffer;
use pelton_ir::builder::{At, Buf, Builder, FunctionBuilder, Val};
use pelton_ir::types::{Order, Scope};

use super::buffers::{GlobalBuffers, KernelPlan, PieceCopies, SharedBuffers, SlotCopies};
pub(super) use super::buffers::{LINE, STRIDE, group_state as state};
use super::declare::Declarer;
use super::layout::{Layout, SlotBank, SlotBanks};
use super::mode::Mode;
use super::spec::{Spec, Telemetry};
use crate::protocol::control;

/// A value of 32 bits.
pub(super) type U32<'b> = Val<'b, u32>;
/// A value of 64 bits.
pub(super) type U64<'b> = Val<'b, u64>;

/// Where the slots of a window are read, and how.
#[derive(Clone, Copy)]
pub(super) struct SlotSource {
    pub words: Buf<u64>,
    /// Whether they are the ring's own: the host may ask for a cancel meanwhile.
    pub live: bool,
}

impl SlotSource {
    /// One of the first two words of a slot, which a cancel writes again.
    pub fn head<'b>(self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U64<'b> {
        match self.live {
            true => f.atomic_load(Order::Relaxed, Scope::System, self.words.at(at)),
            false => f.load(self.words.at(at)),
        }
    }

    /// A word of arguments, which nobody writes once the slot is there.
    pub fn load<'b>(self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U64<'b> {
        f.load(self.words.at(at))
    }
}

/// A tenant's mask and quota.
#[derive(Clone, Copy)]
pub(super) struct Rights<'b> {
    mask: U32<'b>,
    quota: U32<'b>,
}

impl<'b> Rights<'b> {
    /// The opcodes that may be used without a window: none if there is a quota, which windows take credit from. Whoever asks waits for
    /// both words.
    pub fn light_mask(self, f: &'b FunctionBuilder<'b>) -> U32<'b> {
        f.select(self.quota.eq(0), self.mask, 0)
    }
}

/// A kernel in the making: what it is made from, and its buffers.
pub(super) struct KernelContext<'s> {
    pub spec: &'s Spec,
    pub layout: Layout,
    /// What the kernel serves.
    pub mode: Mode,
    /// Where a task's words are read.
    pub source: SlotSource,
    pub global: GlobalBuffers,
    pub shared: SharedBuffers,
    /// The table of pieces in memory of the group's own, where the way to other memory is long.
    pub pieces: Option<PieceCopies>,
    /// The buffers of the workspace, in the order of the layout.
    pub areas: Vec<Buffer>,
    /// Whether some handler has loops that burn fuel.
    pub fueled: bool,
}

impl<'s> KernelContext<'s> {
    /// Declares the buffers that a kernel needs. `fueled` says whether some handler has loops that burn fuel.
    pub fn new(m: &mut Builder, spec: &'s Spec, mut layout: Layout, fueled: bool) -> Self {
        let plan = KernelPlan { spec, layout: &layout };
        let mut d = Declarer { module: m, plan, bound: Vec::new() };
        let mode = Mode::declare(&mut d);
        // One lane runs tasks where they lie, unless they are far away.
        let in_place = mode.in_place().filter(|_| layout.lanes == 1);
        let in_place = in_place.map(|(slots, live)| SlotSource { words: slots.words, live });
        let source =
            in_place.unwrap_or_else(|| SlotSource { words: SlotCopies::declare(&mut d).window, live: false });
        let global = GlobalBuffers::declare(&mut d);
        let shared = SharedBuffers::declare(&mut d);
        let pieces = layout.remote.then(|| PieceCopies::declare(&mut d));
        let areas = layout.areas.iter().enumerate();
        let areas = areas.map(|(number, area)| d.declare_region(number, area)).collect();
        layout.buffers = d.bound;
        KernelContext { spec, layout, mode, source, global, shared, pieces, areas, fueled }
    }

    /// Deals so many numbers, known to be `most` or fewer, out to the lanes.
    pub fn each_by_lane<'b>(
        &self,
        f: &'b FunctionBuilder<'b>,
        count: U32<'b>,
        most: u32,
        body: impl FnOnce(U32<'b>),
    ) {
        if self.layout.lanes >= most {
            // One each, so there is no loop.
            return f.when(f.lane().lt(count), || body(f.lane()));
        }
        f.range((f.lane(), count, f.lanes()), (), |_, at, ()| body(at));
    }

    /// Makes a group ready for its first task.
    pub fn copy_piece_table<'b>(&self, f: &'b FunctionBuilder<'b>) {
        let Some(PieceCopies { firsts, lens }) = self.pieces else { return };
        let count = self.layout.piece_words() / 2;
        self.each_by_lane(f, f.lit(count), count, |at| {
            for (k, words) in [firsts, lens].iter().enumerate() {
                f.store(words.at(at), f.load(self.global.regions.at(at * 2 + k as u32)));
            }
        });
        f.barrier();
    }

    /// Whether anything is counted.
    pub fn counts_tasks(&self) -> bool {
        self.spec.telemetry != Telemetry::Off
    }

    /// A control word of the host, as it is now.
    pub fn host_word<'b>(&self, f: &'b FunctionBuilder<'b>, at: U32<'b>) -> U32<'b> {
        match (&self.mode, self.mode.control_copy()) {
            (_, Some(copy)) => f.atomic_load(Order::Relaxed, Scope::Device, copy.buffers.words.at(at)),
            (Mode::Drain(_), None) => f.load(self.global.host.at(at)),
            (Mode::Live(_), None) => f.atomic_load(Order::Relaxed, Scope::System, self.global.host.at(at)),
        }
    }

    /// The words of the pollers, where they are told of changes.
    pub fn notices(&self) -> Option<Buf<u32>> {
        self.mode.control_copy()?.notices
    }

    /// Whether pollers are told when a control word changes, so that they may read one together with a task.
    pub fn pollers_are_told(&self) -> bool {
        self.layout.pollers > 0
    }

    /// What decides whether a tenant's tasks may run without a window: its mask and its quota, on their way at once.
    pub fn rights<'b>(&self, f: &'b FunctionBuilder<'b>, tenant: U32<'b>) -> Rights<'b> {
        let [mask, quota] = [control::MASKS, control::QUOTAS].map(|table| self.host_word(f, tenant + table));
        Rights { mask, quota }
    }

    /// The slots of the stripe of a slot: a fence reaches no further back.
    pub fn fence_reach<'b>(&self, f: &'b FunctionBuilder<'b>, number: U32<'b>) -> U32<'b> {
        let slots = |bank: &SlotBank| f.lit(bank.stripe_slots());
        match &self.layout.banks {
            SlotBanks::Near(bank) | SlotBanks::Far(bank) => slots(bank),
            SlotBanks::Both { near, far } => f.select(number.lt(far.first_slot), slots(near), slots(far)),
        }
    }

    /// Comes after a line that was taken for what it is, not for an acquired word: what the host wrote before it published is seen.
    /// A device with memory of its own was given that memory by a copy, which had ended.
    pub fn acquire_host_writes<'b>(&self, f: &'b FunctionBuilder<'b>) {
        if !self.layout.remote {
            f.fence(Order::Acquire, Scope::System);
        }
    }

    /// Comes after the lines of a window that nobody acquired, on a device with memory of its own: what the host has written to that memory
    /// before it published them is seen, whatever the nearest cache holds. The copy that wrote it had ended, so the device's scope is wide
    /// enough. The fence also stands between the lines and the word that says that the group is [away](super::notice).
    pub fn refresh_after_lines<'b>(&self, f: &'b FunctionBuilder<'b>) {
        f.fence(Order::AcqRel, Scope::Device);
    }

    /// Whether a subgroup looks at all rings at once.
    pub fn groups_watch(&self) -> bool {
        self.layout.lanes >= self.layout.subgroup
    }

    /// Where the tasks of an opcode are counted until a group tells others of them.
    pub fn tally<'b>(&self, counter: u32) -> At<'b, u32> {
        self.shared.tally.at(if self.mode.drains() { control::OBSERVABLES + counter } else { counter })
    }

    /// Adds one to a counter of this group's own that other lanes of it may write meanwhile.
    pub fn bump_shared<'b>(&self, f: &'b FunctionBuilder<'b>, counter: U32<'b>) {
        let at = f.group() * self.layout.counters_per_group() + counter;
        f.atomic_add(Order::Relaxed, Scope::Device, self.global.rows.at(at), 1u64);
    }

    /// Adds to a counter of this group's own: nobody else writes it.
    pub fn bump_own<'b>(&self, f: &'b FunctionBuilder<'b>, counter: U32<'b>, by: U32<'b>) {
        let at = f.group() * self.layout.counters_per_group() + counter;
        let old = f.atomic_load(Order::Relaxed, Scope::System, self.global.rows.at(at));
        f.atomic_store(Order::Relaxed, Scope::System, self.global.rows.at(at), old + f.cast::<u64>(by));
    }
}
