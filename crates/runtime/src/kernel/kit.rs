//! The buffers of a kernel in the making, and the small sums that all its parts share.

use pelton_device::Placement;
use pelton_ir::arena::Buffer;
use pelton_ir::builder::{At, Body, Buf, Builder, Val};
use pelton_ir::types::{Access, Order, Scope, Space};

use super::declare::Declare;
use super::layout::{Bed, Layout};
use super::slots::Slots;
use super::spec::{Lifetime, Spec, Telemetry};
use crate::protocol::{control, log, slot};

/// A value of 32 bits.
pub(super) type U32<'b> = Val<'b, u32>;
/// A value of 64 bits.
pub(super) type U64<'b> = Val<'b, u64>;

/// Words of 64 bits in a slot.
pub(super) const LINE: u32 = (slot::WORDS / 2) as u32;

/// Words between words that different sides or groups write.
pub(crate) const STRIDE: u32 = 16;

/// Where the slots of a window are read, and how.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub words: Buf<u64>,
    /// Whether they are the ring's own: the host may ask for a cancel meanwhile.
    pub live: bool,
}

impl Source {
    /// One of the first two words of a slot, which a cancel writes again.
    pub fn head<'b>(self, f: &'b Body<'b>, at: U32<'b>) -> U64<'b> {
        match self.live {
            true => f.atomic_load(Order::Relaxed, Scope::System, self.words.at(at)),
            false => f.load(self.words.at(at)),
        }
    }

    /// A word of arguments, which nobody writes once the slot is there.
    pub fn load<'b>(self, f: &'b Body<'b>, at: U32<'b>) -> U64<'b> {
        f.load(self.words.at(at))
    }
}

/// Words that belong to a group.
pub(super) struct Shared {
    /// Of a group of near rings and of the router, the position of each ring's next task; of a group of far rings, the
    /// frontier of each ring as it last saw it.
    pub heads: Buf<u64>,
    /// Whether the line at the head of a ring has failed its check: 0 no, 1 seen, 2 counted.
    pub suspect: Buf<u32>,
    /// Each ring's tenant, for whoever polls.
    pub owners: Buf<u32>,
    /// The window in which each level was last served.
    pub served: Buf<u32>,
    /// The producer from which each level is looked through.
    pub cursor: Buf<u32>,
    /// The completion records of a window.
    pub records: Buf<u64>,
    /// The first fault of each task of a window.
    pub faults: Buf<u32>,
    /// What is left of each task's fuel.
    pub fuel: Buf<u32>,
    /// The group-wide tasks of a window.
    pub wide: Buf<u32>,
    /// Tasks by opcode since the last window; in drained batches all that a group counts, as in its row.
    pub tally: Buf<u32>,
    /// Single words, see below.
    pub state: Buf<u32>,
}

/// The words of [`Shared::state`].
pub(super) mod state {
    /// The first task of the window that is not ready.
    pub const LIMIT: u32 = 0;
    /// How many group-wide tasks there are.
    pub const WIDES: u32 = 1;
    /// Whether there is a fence.
    pub const FENCED: u32 = 2;
    /// Whether others may look at what a task wrote.
    pub const DIRTY: u32 = 3;
    /// How many windows the group has served.
    pub const TURN: u32 = 4;
    /// Whether a drained batch has fences.
    pub const FENCES: u32 = 5;
    /// Whether its next pass belongs to the same run.
    pub const MORE: u32 = 6;
    /// How many slots a drained batch has.
    pub const ALL: u32 = 7;
    /// The most of them that a group takes at once.
    pub const MOST: u32 = 8;
    /// How many there are.
    pub const WORDS: u32 = 9;
}

/// What only far rings have.
pub(super) struct Far {
    pub slots: Slots,
    /// The tails that producers write, sixteen words apart.
    pub tails: Buf<u64>,
    /// Tails and claims in device memory.
    pub route: Buf<u64>,
}

/// What groups look at instead of host memory.
pub(super) struct Mirror {
    /// How many groups have arrived, and whether to halt.
    pub flags: Buf<u32>,
    /// The host's control words in device memory.
    pub words: Buf<u32>,
    /// The last change of a control word that was taken over, for the host to see: one word per lane that takes it over.
    pub acks: Buf<u32>,
    /// One word per poller that has to be told of a change, where there are any; see [`notice`](super::notice).
    pub notices: Option<Buf<u32>>,
}

/// The words of [`Mirror::flags`].
pub(super) mod flag {
    /// How many groups have arrived.
    pub const ARRIVED: u32 = 0;
    /// Whether to halt.
    pub const HALT: u32 = 1;
}

/// What only drained batches have.
pub(super) struct Pass {
    /// What the host says of a pass, a line a group: a bus carries the same line to many only one by one.
    pub wanted: Buf<u64>,
    /// What the kernel says of it when it has ended.
    pub report: Buf<u64>,
}

/// What rings have whose windows may end in any order.
pub(super) struct Frontier {
    /// Where a window, or a fence, that begins at a position ends.
    pub marks: Buf<u64>,
    /// Two words a ring: up to where all tasks have ended, and how many groups have news of it.
    pub front: Buf<u64>,
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
    pub fn light_mask(self, f: &'b Body<'b>) -> U32<'b> {
        f.select(self.quota.eq(0), self.mask, 0)
    }
}

/// The buffers of a kernel.
pub(super) struct Kit<'s> {
    pub spec: &'s Spec,
    pub layout: Layout,
    /// Where a task's words are read.
    pub source: Source,
    /// The host's control words.
    pub host: Buf<u32>,
    /// Counters that all groups add to.
    pub control: Buf<u64>,
    /// Counters of each group's own; in drained batches one row for all.
    pub rows: Buf<u64>,
    /// Where each stripe's positions start.
    pub start: Buf<u64>,
    /// Each ring's tenant.
    pub rings: Buf<u32>,
    /// First element and number of elements, by tenant and column.
    pub regions: Buf<u32>,
    /// First elements, and numbers of elements, in memory of the group's own, where the way to other memory is long.
    pub pieces: Option<[Buf<u32>; 2]>,
    pub observables: Buf<u32>,
    pub log: Buf<u32>,
    /// The buffers of the workspace, in the order of the layout.
    pub areas: Vec<Buffer>,
    pub shared: Shared,
    /// The slots of a drained batch.
    pub batch: Option<Slots>,
    pub near: Option<Slots>,
    pub far: Option<Far>,
    pub mirror: Option<Mirror>,
    pub frontier: Option<Frontier>,
    pub pass: Option<Pass>,
    /// Whether some handler has loops that burn fuel.
    pub fueled: bool,
}

impl<'s> Kit<'s> {
    /// Declares what a kernel needs. `fueled` says whether some handler has loops that burn fuel.
    pub fn new(m: &mut Builder, spec: &'s Spec, mut layout: Layout, fueled: bool) -> Self {
        let drain = spec.lifetime == Lifetime::Drain;
        let (rings, window) = (layout.rings.len() as u32, layout.window);
        let mut d = Declare { m, bound: Vec::new() };
        let batch = layout.beds.first().filter(|_| drain).map(|bed| d.batch(*bed, spec.report));
        let near = if drain { None } else { d.slots(&layout, Placement::Near) };
        let far = if drain { None } else { d.slots(&layout, Placement::Far) };
        let host = d.buffer(
            "host",
            control::OBSERVABLES,
            if drain { Space::Global } else { Space::Host },
            Access::Read,
        );
        let far = far.map(|slots| Far {
            slots,
            tails: d.buffer("tails", rings * STRIDE, Space::Host, Access::Read),
            route: d.global("route", rings * 2 * STRIDE),
        });
        let mirror = (layout.keepers > 0).then(|| Mirror {
            flags: d.global("flags", 2),
            words: d.global("mirror", control::OBSERVABLES),
            acks: d.buffer("acks", layout.keepers, Space::Host, Access::Write),
            notices: (layout.pollers > 0).then(|| d.global("notices", layout.pollers * STRIDE)),
        });
        // Windows of these may end in any order.
        let loose = batch.as_ref().or(far.as_ref().map(|far| &far.slots));
        let frontier = loose.map(|slots| Frontier {
            marks: d.global("marks", slots.bed.total()),
            front: d.global("front", rings * STRIDE),
        });
        let pass = drain.then(|| Pass {
            wanted: d.buffer("pass", layout.groups * LINE, Space::Host, Access::Read),
            report: d.buffer("report", super::drain::Report::new(&layout).words, Space::Host, Access::Write),
        });
        let (rows, tallies) = match drain {
            true => (layout.row() + 1, layout.row() + 1),
            false => (layout.groups * layout.row(), layout.ops.len() as u32),
        };
        // One lane runs tasks where they lie, unless they are far away.
        let live = if layout.lanes > 1 { None } else { near.as_ref().filter(|_| far.is_none()) };
        let live = live.map(|slots| Source { words: slots.words, live: true });
        let still = batch.as_ref().filter(|_| layout.lanes == 1);
        let still = still.map(|slots| Source { words: slots.words, live: false });
        let pieces = layout.pieces();
        let kit = Kit {
            spec,
            source: live
                .or(still)
                .unwrap_or_else(|| Source { words: d.shared("window", window * LINE), live: false }),
            host,
            control: d.global("control", control::OBSERVABLES),
            rows: d.global("rows", rows),
            start: d.table("start", layout.all()),
            rings: d.table("rings", rings),
            regions: d.table("regions", pieces),
            pieces: layout.remote.then(|| ["firsts", "lens"].map(|name| d.shared(name, pieces / 2))),
            observables: d.global("observables", layout.observed()),
            log: d.global("log", log::WORDS as u32),
            areas: layout.areas.iter().map(|area| d.area(area)).collect(),
            shared: Shared {
                heads: d.shared("heads", rings),
                suspect: d.shared("suspect", rings),
                owners: d.shared("owners", rings),
                served: d.shared("served", layout.levels),
                cursor: d.shared("cursor", layout.levels),
                records: d.shared("records", window),
                faults: d.shared("faults", window),
                fuel: d.shared("fuel", window),
                wide: d.shared("wide", window),
                tally: d.shared("tally", tallies),
                state: d.shared("state", state::WORDS),
            },
            batch,
            near,
            far,
            mirror,
            frontier,
            pass,
            fueled,
            layout: layout.clone(),
        };
        layout.buffers = d.bound;
        Kit { layout, ..kit }
    }

    /// Deals so many numbers, known to be `most` or fewer, out to the lanes.
    pub fn deal<'b>(&self, f: &'b Body<'b>, count: U32<'b>, most: u32, body: impl FnOnce(U32<'b>)) {
        if self.layout.lanes >= most {
            // One each, so there is no loop.
            return f.when(f.lane().lt(count), || body(f.lane()));
        }
        f.count((f.lane(), count, f.lanes()), (), |_, at, ()| body(at));
    }

    /// Makes a group ready for its first task.
    pub fn arm<'b>(&self, f: &'b Body<'b>) {
        let Some(pieces) = self.pieces else { return };
        let count = self.layout.pieces() / 2;
        self.deal(f, f.lit(count), count, |at| {
            for (k, words) in pieces.iter().enumerate() {
                f.store(words.at(at), f.load(self.regions.at(at * 2 + k as u32)));
            }
        });
        f.barrier();
    }

    /// Whether anything is counted.
    pub fn counts(&self) -> bool {
        self.spec.telemetry != Telemetry::Off
    }

    /// Whether batches are drained.
    pub fn drains(&self) -> bool {
        self.spec.lifetime == Lifetime::Drain
    }

    /// A control word of the host, as it is now.
    pub fn host_word<'b>(&self, f: &'b Body<'b>, at: U32<'b>) -> U32<'b> {
        match &self.mirror {
            Some(mirror) => f.atomic_load(Order::Relaxed, Scope::Device, mirror.words.at(at)),
            None if self.drains() => f.load(self.host.at(at)),
            None => f.atomic_load(Order::Relaxed, Scope::System, self.host.at(at)),
        }
    }

    /// The words of the pollers, where they are told of changes.
    pub fn notices(&self) -> Option<Buf<u32>> {
        self.mirror.as_ref()?.notices
    }

    /// Whether pollers are told when a control word changes, so that they may read one together with a task.
    pub fn notified(&self) -> bool {
        self.layout.pollers > 0
    }

    /// What decides whether a tenant's tasks may run without a window: its mask and its quota, on their way at once.
    pub fn rights<'b>(&self, f: &'b Body<'b>, tenant: U32<'b>) -> Rights<'b> {
        let [mask, quota] = [control::MASKS, control::QUOTAS].map(|table| self.host_word(f, tenant + table));
        Rights { mask, quota }
    }

    /// The slots of the stripe of a slot: a fence reaches no further back.
    pub fn reach<'b>(&self, f: &'b Body<'b>, number: U32<'b>) -> U32<'b> {
        let slots = |bed: &Bed| f.lit(bed.slots());
        match &*self.layout.beds {
            [near, far] => f.select(number.lt(far.slot), slots(near), slots(far)),
            beds => beds.first().map_or_else(|| f.lit(0), slots),
        }
    }

    /// Comes after a line that was taken for what it is, not for an acquired word: what the host wrote before it published is seen.
    /// A device with memory of its own was given that memory by a copy, which had ended.
    pub fn follow<'b>(&self, f: &'b Body<'b>) {
        if !self.layout.remote {
            f.fence(Order::Acquire, Scope::System);
        }
    }

    /// Comes after the lines of a window that nobody acquired, on a device with memory of its own: what the host has written to that memory
    /// before it published them is seen, whatever the nearest cache holds. The copy that wrote it had ended, so the device's scope is wide
    /// enough. The fence also stands between the lines and the word that says that the group is [away](super::notice).
    pub fn renew<'b>(&self, f: &'b Body<'b>) {
        f.fence(Order::AcqRel, Scope::Device);
    }

    /// Whether a subgroup looks at all rings at once.
    pub fn watches(&self) -> bool {
        self.layout.lanes >= self.layout.subgroup
    }

    /// Where the tasks of an opcode are counted until a group tells others of them.
    pub fn tally<'b>(&self, counter: u32) -> At<'b, u32> {
        self.shared.tally.at(if self.drains() { control::OBSERVABLES + counter } else { counter })
    }

    /// Adds one to a counter of this group's own that other lanes of it may write meanwhile.
    pub fn add<'b>(&self, f: &'b Body<'b>, counter: U32<'b>) {
        let at = f.group() * self.layout.row() + counter;
        f.atomic_add(Order::Relaxed, Scope::Device, self.rows.at(at), 1u64);
    }

    /// Adds to a counter of this group's own: nobody else writes it.
    pub fn count<'b>(&self, f: &'b Body<'b>, counter: U32<'b>, by: U32<'b>) {
        let at = f.group() * self.layout.row() + counter;
        let old = f.atomic_load(Order::Relaxed, Scope::System, self.rows.at(at));
        f.atomic_store(Order::Relaxed, Scope::System, self.rows.at(at), old + f.cast::<u64>(by));
    }
}
