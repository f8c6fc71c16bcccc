//! The table of a kernel's buffers: each buffer is one row, and everything that is said of it is said there.
//!
//! A row has the buffer's name and element type, the memory it lies in, who writes it, its length as a function of the plan, and what it
//! holds when the first kernel starts. The rows stand in sections; a kernel has all buffers of a section or none. From the table come
//!
//! - the handles that kernels are written with: a struct per section, with a field per row;
//! - the memory that the host allocates, fills and binds, by [`BufferId`] (see [`crate::memory`]);
//! - the names in the table of [ordered accesses](crate::protocol::step), which the compiler holds equal to these.
//!
//! Buffers of the workspace and of handlers are not here: a `Spec` names those.

use pelton_ir::builder::Buf;
use pelton_ir::types::{Scalar, Type};

use super::declare::Declarer;
use super::drain::PassReport;
use super::layout::{Layout, SlotBank, SlotBanks};
use super::placement::Placement;
use super::spec::{Lifetime, Report, Spec};
use crate::protocol::{control, log, slot, step};
use pelton_device::MemoryKind;

/// Words of 64 bits in a slot.
pub(super) const LINE: u32 = (slot::WORDS / 2) as u32;

/// Words between words that different sides or groups write, so that they lie in different lines of memory.
pub(crate) const STRIDE: u32 = 16;

/// What lengths and memories of buffers follow from.
#[derive(Clone, Copy)]
pub(crate) struct KernelPlan<'a> {
    pub spec: &'a Spec,
    pub layout: &'a Layout,
}

impl KernelPlan<'_> {
    /// Whether the kernel drains batches, rather than serving rings.
    fn drains(self) -> bool {
        self.spec.lifetime == Lifetime::Drain
    }

    fn rings(self) -> u32 {
        self.layout.rings.len() as u32
    }

    /// Slots of all stripes of a placement.
    fn slots(self, placement: Placement) -> u32 {
        self.layout.bank(placement).map_or(0, SlotBank::slot_count)
    }
}

/// The memory that a buffer lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufferMemory {
    /// Shared memory of each group.
    Group,
    /// Memory of the device.
    Device,
    /// Memory of the host that the device reads and writes in place.
    Host,
    /// Memory of the device that the host writes in place; the host's where the device works in the host's memory.
    Near,
    /// As [`Host`](BufferMemory::Host) in sessions, as [`Device`](BufferMemory::Device) in drained batches, which are given it by a copy.
    HostInSessions,
    /// As [`Host`](BufferMemory::Host) where records are read; as [`Device`](BufferMemory::Device) in drained batches that report
    /// counters alone.
    HostIfReported,
}

impl BufferMemory {
    /// The memory that the host allocates; none for shared memory.
    pub fn kind(self, plan: KernelPlan<'_>) -> Option<MemoryKind> {
        let host_if = |host: bool| if host { MemoryKind::Host } else { MemoryKind::Device };
        match self {
            BufferMemory::Group => None,
            BufferMemory::Device => Some(MemoryKind::Device),
            BufferMemory::Host => Some(MemoryKind::Host),
            BufferMemory::Near => Some(if plan.layout.remote { MemoryKind::Near } else { MemoryKind::Host }),
            BufferMemory::HostInSessions => Some(host_if(!plan.drains())),
            BufferMemory::HostIfReported => Some(host_if(!plan.drains() || plan.spec.report == Report::Full)),
        }
    }
}

/// Who writes a buffer while a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WrittenBy {
    /// The host alone; the kernel reads.
    Host,
    /// Nobody: it is filled before the kernel starts.
    Nobody,
    /// The kernel, which reads it too.
    Kernel,
    /// The kernel, which never reads it: the host does.
    KernelForHost,
}

/// What a buffer holds when the first kernel starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstContent {
    /// Zeros.
    Zeros,
    /// The host's control words, with each tenant's mask and quota.
    ControlWords,
    /// Each ring's tenant.
    RingTenants,
    /// First element and number of elements of each tenant's piece of each region, by tenant and region; observables come last.
    Pieces,
    /// Where the positions of each stripe start.
    StripeStarts,
    /// Where the positions of each far ring start: so many times per ring, [`STRIDE`] words apart.
    RingStarts {
        /// How many times.
        per_ring: u32,
    },
}

/// One buffer of a kernel.
pub(crate) struct BufferRow {
    /// Its name where a kernel has near or far rings alone, and where it has both.
    pub names: [&'static str; 2],
    /// The type of its elements.
    pub elem: Type,
    pub memory: BufferMemory,
    pub written: WrittenBy,
    pub len: fn(KernelPlan<'_>) -> u32,
    pub first: FirstContent,
}

impl BufferRow {
    /// Its name in the module.
    pub fn name(&self, layout: &Layout) -> &'static str {
        self.names[usize::from(matches!(layout.banks, SlotBanks::Both { .. }))]
    }
}

impl BufferId {
    /// The row of this buffer.
    pub(crate) fn row(self) -> &'static BufferRow {
        &TABLE[self as usize]
    }
}

/// The names of a row: two if it says two.
macro_rules! names {
    ($name:literal) => {
        [$name, $name]
    };
    ($name:literal $beside:literal) => {
        [$name, $beside]
    };
}

macro_rules! buffers {
    ($($(#[$meta:meta])* $section:ident { $($field:ident $id:ident $elem:ident $name:literal $(| $beside:literal)?
        $memory:ident $written:ident ($len:expr) ($first:expr) $doc:literal;)* })*) => {
        /// Names a buffer of the kernel's own.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum BufferId { $($(#[doc = $doc] $id,)*)* }

        /// Every buffer, in the order of [`BufferId`].
        pub(crate) const TABLE: &[BufferRow] = &[$($(BufferRow {
            names: names!($name $($beside)?),
            elem: <$elem as Scalar>::TYPE,
            memory: BufferMemory::$memory,
            written: WrittenBy::$written,
            len: $len,
            first: $first,
        },)*)*];

        $(
            $(#[$meta])*
            #[derive(Clone, Copy)]
            pub(in crate::kernel) struct $section { $(#[doc = $doc] pub $field: Buf<$elem>,)* }

            impl $section {
                /// Declares the buffers of this section.
                pub fn declare(d: &mut Declarer<'_>) -> Self {
                    $section { $($field: d.declare(BufferId::$id),)* }
                }
            }
        )*
    };
}

use FirstContent::{ControlWords, Pieces, RingStarts, RingTenants, StripeStarts, Zeros};

#[rustfmt::skip]
mod rows {
use super::*;
buffers! {
    /// The slots of near rings.
    NearSlots {
        words NearSlots u64 "slots" | "slots.near" Near Host (|p| p.slots(Placement::Near) * LINE) (Zeros)
            "The slots of near rings.";
        done NearDone u64 "done" | "done.near" Host KernelForHost (|p| p.slots(Placement::Near)) (Zeros)
            "Their completion records.";
    }

    /// The slots of far rings.
    FarSlots {
        words FarSlots u64 "slots" | "slots.far" Host Host (|p| p.slots(Placement::Far) * LINE) (Zeros)
            "The slots of far rings.";
        done FarDone u64 "done" | "done.far" Host KernelForHost (|p| p.slots(Placement::Far)) (Zeros)
            "Their completion records.";
    }

    /// The slots of a drained batch.
    BatchSlots {
        words BatchSlots u64 "slots" Host Host (|p| p.slots(Placement::Far) * LINE) (Zeros)
            "The slots of a drained batch.";
        done BatchDone u64 "done" HostIfReported KernelForHost (|p| p.slots(Placement::Far)) (Zeros)
            "Their completion records.";
    }

    /// What the router of far rings needs.
    RouterBuffers {
        tails Tails u64 "tails" Host Host (|p| p.rings() * STRIDE) (RingStarts { per_ring: 1 })
            "The tail of each far ring, which its producer writes.";
        route Route u64 "route" Device Kernel (|p| p.rings() * 2 * STRIDE) (RingStarts { per_ring: 2 })
            "Two words per far ring: its tail as the router has passed it on, and up to where groups have claimed it.";
    }

    /// The copy of the host's control words that one group keeps for the others.
    ControlCopy {
        flags Flags u32 "flags" Device Kernel (|_| flag::WORDS) (Zeros)
            "How many groups have arrived, and whether to halt; the words are those of `flag`.";
        words ControlCopy u32 "mirror" Device Kernel (|_| control::OBSERVABLES) (ControlWords)
            "The host's control words in device memory.";
        acks Acks u32 "acks" Host KernelForHost (|p| p.layout.keepers) (Zeros)
            "The last change of a control word that was taken over, for the host to see: one word per lane that takes it over.";
    }

    /// How pollers are told of a changed control word; see [`notice`](super::super::notice).
    NoticeBuffers {
        notices Notices u32 "notices" Device Kernel (|p| p.layout.pollers * STRIDE) (Zeros)
            "One word per poller that has to be told of a change.";
    }

    /// What rings need whose windows may end in any order.
    FrontierBuffers {
        marks Marks u64 "marks" Device Kernel (|p| p.slots(Placement::Far)) (Zeros)
            "Where a window, or a fence, that begins at a position ends.";
        front Front u64 "front" Device Kernel (|p| p.rings() * STRIDE) (RingStarts { per_ring: 1 })
            "Up to where all tasks of a ring have ended, and beside it how many groups have news of that; in drained batches also the words of `pass_word`.";
    }

    /// How host and kernel agree on a pass over a drained batch.
    PassBuffers {
        wanted PassWanted u64 "pass" Host Host (|p| p.layout.groups * LINE) (Zeros)
            "What the host says of a pass: one line per group, because a bus carries the same line to many groups only one by one.";
        report PassReport u64 "report" Host KernelForHost (|p| PassReport::new(p.layout).words) (Zeros)
            "What the kernel says of a pass when it has ended.";
    }

    /// What every kernel has in memory that all groups see.
    GlobalBuffers {
        host Host u32 "host" HostInSessions Host (|_| control::OBSERVABLES) (ControlWords)
            "The host's control words.";
        control Control u64 "control" Device Kernel (|_| control::OBSERVABLES) (Zeros)
            "Counters that all groups add to.";
        rows Rows u64 "rows" Device Kernel (counter_rows) (Zeros)
            "Counters of each group's own; in drained batches one row for all.";
        start Start u64 "start" Device Nobody (|p| p.layout.stripe_count()) (StripeStarts)
            "Where the positions of each stripe start.";
        rings RingTenants u32 "rings" Device Nobody (|p| p.rings()) (RingTenants)
            "Each ring's tenant.";
        regions Regions u32 "regions" Device Nobody (|p| p.layout.piece_words()) (Pieces)
            "First element and number of elements of each tenant's piece of each region.";
        observables Observables u32 "observables" Device Kernel (|p| p.layout.observable_count()) (Zeros)
            "The observables of all tenants.";
        log Log u32 "log" Device Kernel (|_| log::WORDS as u32) (Zeros)
            "The debug log.";
    }

    /// The table of pieces in shared memory, where the way to other memory is long.
    PieceCopies {
        firsts PieceFirsts u32 "firsts" Group Kernel (|p| p.layout.piece_words() / 2) (Zeros)
            "The first element of each piece.";
        lens PieceLens u32 "lens" Group Kernel (|p| p.layout.piece_words() / 2) (Zeros)
            "The number of elements of each piece.";
    }

    /// The copy of a window's slots, where tasks are not run where they lie.
    SlotCopies {
        window Window u64 "window" Group Kernel (|p| p.layout.window * LINE) (Zeros)
            "The slots of a window.";
    }

    /// Words that belong to a group.
    SharedBuffers {
        heads Heads u64 "heads" Group Kernel (|p| p.rings()) (Zeros)
            "In a group of near rings and in the router, the position of each ring's next task; in a group of far rings, the frontier of each ring as the group last saw it.";
        suspect Suspect u32 "suspect" Group Kernel (|p| p.rings()) (Zeros)
            "Whether the line at the head of a ring has failed its check: 0 no, 1 it was seen, 2 it was counted.";
        owners Owners u32 "owners" Group Kernel (|p| p.rings()) (Zeros)
            "Each ring's tenant, for the lanes that poll.";
        served Served u32 "served" Group Kernel (|p| p.layout.levels) (Zeros)
            "The window in which each level was last served.";
        cursor Cursor u32 "cursor" Group Kernel (|p| p.layout.levels) (Zeros)
            "The producer from which each level is looked through.";
        records Records u64 "records" Group Kernel (|p| p.layout.window) (Zeros)
            "The completion records of a window; a task that has not ended has a `WindowState` in its record.";
        faults Faults u32 "faults" Group Kernel (|p| p.layout.window) (Zeros)
            "The first fault of each task of a window.";
        fuel Fuel u32 "fuel" Group Kernel (|p| p.layout.window) (Zeros)
            "What is left of each task's fuel.";
        wide Wide u32 "wide" Group Kernel (|p| p.layout.window) (Zeros)
            "The group-wide tasks of a window.";
        tally Tally u32 "tally" Group Kernel (tallies) (Zeros)
            "Tasks by opcode since the last window; in drained batches all that a group counts, as in its row.";
        state GroupState u32 "state" Group Kernel (|_| group_state::WORDS) (Zeros)
            "Single words, which are those of `group_state`.";
    }
}
}

pub use rows::BufferId;
pub(crate) use rows::TABLE;
pub(super) use rows::{
    BatchSlots, ControlCopy, FarSlots, FrontierBuffers, GlobalBuffers, NearSlots, NoticeBuffers, PassBuffers,
    PieceCopies, RouterBuffers, SharedBuffers, SlotCopies,
};

/// The words of [`SharedBuffers::state`].
pub(super) mod group_state {
    /// The first task of the window that is not ready.
    pub const LIMIT: u32 = 0;
    /// How many group-wide tasks the window has.
    pub const WIDES: u32 = 1;
    /// Whether the window has a fence.
    pub const FENCED: u32 = 2;
    /// Whether others may look at what a task of the window wrote.
    pub const DIRTY: u32 = 3;
    /// How many windows the group has served.
    pub const TURN: u32 = 4;
    /// Whether a drained batch has fences.
    pub const FENCES: u32 = 5;
    /// Whether the next pass belongs to the same run of a drained batch.
    pub const MORE: u32 = 6;
    /// How many slots a drained batch has.
    pub const ALL: u32 = 7;
    /// The most slots of a drained batch that a group takes at once.
    pub const MOST: u32 = 8;
    /// How many words there are.
    pub const WORDS: u32 = 9;
}

/// The words of [`ControlCopy::flags`].
pub(super) mod flag {
    /// How many groups have arrived.
    pub const ARRIVED: u32 = 0;
    /// Whether to halt.
    pub const HALT: u32 = crate::protocol::step::HALT;
    /// How many words there are.
    pub const WORDS: u32 = 2;
}

/// Counters of all groups.
fn counter_rows(plan: KernelPlan<'_>) -> u32 {
    let row = plan.layout.counters_per_group();
    if plan.drains() { row + 1 } else { plan.layout.groups * row }
}

/// Counters that a group keeps in its own memory.
fn tallies(plan: KernelPlan<'_>) -> u32 {
    if plan.drains() { counter_rows(plan) } else { plan.layout.ops.len() as u32 }
}

/// Whether two names are equal, for the compiler.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Every buffer that the table of ordered accesses names is a row here, or one of the host's own words.
const _: () = {
    let mut step = 0;
    while step < step::TABLE.len() {
        let name = step::TABLE[step].buffer;
        let mut known = same(name, "");
        let mut row = 0;
        while row < TABLE.len() {
            known |= same(name, TABLE[row].names[0]);
            row += 1;
        }
        let mut own = 0;
        while own < step::HOST_WORDS.len() {
            known |= same(name, step::HOST_WORDS[own]);
            own += 1;
        }
        assert!(known, "a step names a buffer that does not exist");
        step += 1;
    }
};
