//! The table of a kernel's buffers. Each buffer is one row, and everything about it is said there.
//!
//! A row has the buffer's name and element type, the memory that it lies in, who writes it, its length as a function of
//! the plan, and what it holds when the first kernel starts. The rows are grouped in sections, and a kernel has all
//! buffers of a section or none of them. Three things are derived from the table:
//!
//! - the handles that kernels are written with: a struct per section, with a field per row;
//! - the memory that the host allocates, fills and binds, by [`BufferId`] (see [`crate::memory`]);
//! - the names in the table of [ordered accesses](crate::protocol::step): the build fails if one of them is not in this
//!   table.
//!
//! The buffers of the workspace and of handlers are not in the table, because the `Spec` names those.

use pelton_ir::builder::Buf;
use pelton_ir::types::{Scalar, Type};

use super::cells::{ask, cell_fact};
use super::declare::Declarer;
use super::drain::PassReport;
use super::graphs::{GraphLayout, MAX_GRAPHS, entry_word};
use super::home::home_word;
use super::layout::{Layout, SlotBank, SlotBanks};
use super::placement::Placement;
use super::ring_shares::share_word;
use super::spec::{Lifetime, Report, Spec};
use super::tenant::Tenant;
use super::tree::tree_word;
use crate::protocol::{control, log, slot, step};
use pelton_device::MemoryKind;

/// How many words of 64 bits a slot has.
pub(super) const LINE: u32 = (slot::WORDS / 2) as u32;

/// How far apart words are that the host and the device, or different groups, write. They then lie in different lines
/// of memory.
pub(crate) const STRIDE: u32 = 16;

/// What the lengths and memories of buffers are derived from.
#[derive(Clone, Copy)]
pub(crate) struct KernelPlan<'a> {
    pub spec: &'a Spec,
    pub layout: &'a Layout,
}

impl KernelPlan<'_> {
    /// Whether the kernel drains batches, rather than serves rings.
    fn drains(self) -> bool {
        self.spec.lifetime == Lifetime::Drain
    }

    /// How many rings there are.
    fn rings(self) -> u32 {
        self.layout.rings.len() as u32
    }

    /// How many cells all producers have.
    fn cells(self) -> u32 {
        self.layout.cell_count()
    }

    /// How many events all tenants have.
    fn events(self) -> u32 {
        self.layout.trees.map_or(0, |trees| trees.events * self.layout.tenant_count())
    }

    /// What graphs need, if the kernel has graphs.
    fn graphs(self) -> Option<GraphLayout> {
        self.layout.trees?.graphs
    }

    /// How many near stripes there are.
    fn near_stripes(self) -> u32 {
        self.layout.bank(Placement::Near).map_or(0, SlotBank::stripe_count)
    }

    /// How many slots all stripes of a placement have.
    fn slots(self, placement: Placement) -> u32 {
        self.layout.bank(placement).map_or(0, SlotBank::slot_count)
    }
}

/// The memory that a buffer lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufferMemory {
    /// The shared memory of each group.
    Group,
    /// The memory of the device.
    Device,
    /// Memory of the host, which the device reads and writes in place.
    Host,
    /// Memory of the device that the host writes in place. On a device that works in the host's memory, it is that
    /// memory.
    Near,
    /// In sessions as [`Host`](BufferMemory::Host). In drained batches as [`Device`](BufferMemory::Device), and the
    /// host writes it by a copy.
    HostInSessions,
    /// As [`Host`](BufferMemory::Host) where the host reads records. In drained batches that report only counters as
    /// [`Device`](BufferMemory::Device).
    HostIfReported,
}

impl BufferMemory {
    /// The kind of memory that the host allocates. It allocates none for shared memory.
    pub(crate) fn kind(self, plan: KernelPlan<'_>) -> Option<MemoryKind> {
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
    /// Only the host writes it, and the kernel reads it.
    Host,
    /// It is filled before the kernel starts, and never written after that.
    Nobody,
    /// The kernel writes it and reads it.
    Kernel,
    /// The kernel writes it and never reads it; the host reads it.
    KernelForHost,
    /// As [`KernelForHost`](WrittenBy::KernelForHost), but kernels of sessions that recover read what earlier ones wrote.
    KernelsForHost,
}

/// What a buffer holds when the first kernel starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstContent {
    /// It holds zeros.
    Zeros,
    /// All of its bits are one.
    AllOnes,
    /// It has one bit per instance of a graph.
    GraphInstances,
    /// It holds zeros when any run starts, not only the first: what the groups of a run tell each other.
    ZerosEachRun,
    /// It holds the host's control words, with each tenant's mask and quota.
    ControlWords,
    /// It holds the tenant of each ring.
    RingTenants,
    /// It holds the stride of each tenant, which is the less the greater the tenant's weight is.
    TenantStrides,
    /// It holds which producers each tenant has, and its stride.
    TenantShares,
    /// It holds the first element and the number of elements of each piece, by tenant and region. The observables of a
    /// tenant come after its regions.
    Pieces,
    /// It holds the first position of each stripe.
    StripeStarts,
    /// It holds the first position of each near stripe, [`STRIDE`] words apart.
    NearStripeStarts,
    /// It holds the first position of each far ring, [`STRIDE`] words apart.
    RingStarts,
    /// It holds the first position of each far ring twice, [`STRIDE`] words apart, when any run starts.
    RingStartsTwice,
}

/// One buffer of a kernel.
pub(crate) struct BufferRow {
    /// The name of the buffer: first in kernels with near or far rings alone, then in kernels with both.
    pub names: [&'static str; 2],
    /// The type of the buffer's elements.
    pub elem: Type,
    pub memory: BufferMemory,
    pub written: WrittenBy,
    /// How many elements the buffer has.
    pub len: fn(KernelPlan<'_>) -> u32,
    pub first: FirstContent,
}

impl BufferRow {
    /// Whether the buffer is filled again for a run that follows another over the same memory: it says where the run
    /// begins to take tasks, or belongs to one run alone.
    pub(crate) fn begins_each_run(&self) -> bool {
        matches!(self.first, ZerosEachRun | StripeStarts | RingStartsTwice)
    }

    /// The name of the buffer in a module with this layout.
    pub(crate) fn name(&self, layout: &Layout) -> &'static str {
        self.names[usize::from(matches!(layout.banks, SlotBanks::Both { .. }))]
    }
}

impl BufferId {
    /// The row of this buffer.
    pub(crate) fn row(self) -> &'static BufferRow {
        &TABLE[self as usize]
    }
}

/// The two names of a row. A row that has only one name has it twice.
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
        /// Identifies a buffer that belongs to the kernel itself, rather than to the workspace or to a handler.
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
                pub(in crate::kernel) fn declare(d: &mut Declarer<'_>) -> Self {
                    $section { $($field: d.declare(BufferId::$id),)* }
                }
            }
        )*
    };
}

use FirstContent::{
    AllOnes, ControlWords, GraphInstances, NearStripeStarts, Pieces, RingStarts, RingStartsTwice,
    RingTenants, StripeStarts, TenantShares, TenantStrides, Zeros, ZerosEachRun,
};

#[rustfmt::skip]
mod rows {
use super::*;
buffers! {
    /// The slots of near rings.
    NearSlots {
        words NearSlots u64 "slots" | "slots.near" Near Host (|p| p.slots(Placement::Near) * LINE) (Zeros)
            "The words of the slots of near rings.";
        done NearDone u64 "done" | "done.near" Host KernelsForHost (|p| p.slots(Placement::Near)) (Zeros)
            "Their completion records.";
    }

    /// The slots of far rings.
    FarSlots {
        words FarSlots u64 "slots" | "slots.far" Host Host (|p| p.slots(Placement::Far) * LINE) (Zeros)
            "The words of the slots of far rings.";
        done FarDone u64 "done" | "done.far" Host KernelsForHost (|p| p.slots(Placement::Far)) (Zeros)
            "Their completion records.";
    }

    /// The slots of a drained batch.
    BatchSlots {
        words BatchSlots u64 "slots" Host Host (|p| p.slots(Placement::Far) * LINE) (Zeros)
            "The words of the slots of a drained batch.";
        done BatchDone u64 "done" HostIfReported KernelForHost (|p| p.slots(Placement::Far)) (Zeros)
            "Their completion records.";
    }

    /// The buffers that the router of far rings needs.
    RouterBuffers {
        tails Tails u64 "tails" Host Host (|p| p.rings() * STRIDE) (RingStarts)
            "The tail of each far ring, which its producer writes.";
        route Route u64 "route" Device Kernel (|p| p.rings() * 2 * STRIDE) (RingStartsTwice)
            "Two words per far ring: the tail that the router has passed on, and the position up to which groups have claimed tasks.";
    }

    /// The copy of the host's control words that one group keeps for the others.
    ControlCopy {
        flags Flags u32 "flags" Device Kernel (|_| flag::WORDS) (ZerosEachRun)
            "How many groups have arrived, and whether to halt. The words are those of `flag`.";
        words ControlCopy u32 "mirror" Device Kernel (|_| control::OBSERVABLES) (ControlWords)
            "The host's control words in device memory.";
        acks Acks u32 "acks" Host KernelForHost (|p| p.layout.keepers) (Zeros)
            "The last change of a control word that was copied, for the host to see: one word per lane that copies changes.";
    }

    /// How pollers are told that a control word has changed; see [`notice`](super::super::notice).
    NoticeBuffers {
        notices Notices u32 "notices" Device Kernel (|p| p.layout.pollers * STRIDE) (Zeros)
            "One word per poller, by which it is told of a change.";
    }

    /// The buffers that rings need whose windows may end in any order.
    FrontierBuffers {
        marks Marks u64 "marks" Device Kernel (|p| p.slots(Placement::Far)) (Zeros)
            "The position at which a window or a fence ends, by the position at which it begins.";
        front Front u64 "front" Device Kernel (|p| p.rings() * STRIDE) (RingStarts)
            "The position up to which all tasks of a ring have ended, and beside it how many windows have ended that were not followed yet. Drained batches also have the words of `pass_word` here.";
    }

    /// How host and kernel agree on a pass over a drained batch.
    PassBuffers {
        wanted PassWanted u64 "pass" Host Host (|p| p.layout.groups * LINE) (Zeros)
            "What the host asks of a pass: one line per group, because many groups that read the same line over a bus get it only one after the other.";
        report PassReport u64 "report" Host KernelForHost (|p| PassReport::new(p.layout).words) (Zeros)
            "What the kernel tells the host when a pass has ended.";
    }

    /// What kernels of sessions that recover need; see [`recovery`](super::super::recovery).
    RecoveryBuffers {
        recovered Recovered u64 "recovered" Device Nobody (|p| p.layout.stripe_count()) (Zeros)
            "The position of each stripe below which tasks may have records from before the device was lost. It is 0 until then.";
        epochs Epochs u64 "epochs" Host KernelForHost (|p| p.layout.stripe_count()) (Zeros)
            "The epoch after the last fence of each stripe.";
        begun TaskBegun u64 "task_begun" Host KernelForHost (|p| p.layout.slot_count()) (Zeros)
            "The position of the last task of each slot that must not begin twice and has begun, and one more.";
        passed Passed u32 "passed" Group Kernel (|_| 1) (Zeros)
            "How many tasks of a window have ended before the device was lost.";
    }

    /// What kernels of sessions that recover need for tasks in cells; see [`recovery`](super::super::recovery).
    RecoveryCells {
        begun CellBegun u64 "cell_begun" Host KernelForHost (|p| p.layout.producer_cell_count()) (Zeros)
            "For each cell, which of its tasks was the last that must not begin twice and has begun, or that has made one which has.";
        resumes CellResumes u64 "cell_resumes" Device Kernel (|p| p.layout.producer_cell_count()) (Zeros)
            "How often the host had resumed the task of each cell that begins again after a loss, less those that it has used. The generation of the task is in the upper half.";
    }

    /// What kernels of sessions that recover need for events; see [`recovery`](super::super::recovery).
    RecoveryEvents {
        signals TaskSignals u64 "task_signals" Device Kernel (|p| p.events()) (Zeros)
            "How often tasks have signalled each event, and whether a lane is about to note that.";
        notes EventNotes u64 "event_notes" Host KernelForHost (|p| p.events()) (Zeros)
            "How often tasks have signalled each event, for the host to see after the device was lost.";
    }

    /// What kernels need that run one task at a time; see [`kept`](super::super::kept).
    SerialBuffers {
        next SerialNext u64 "serial_next" Device Kernel (|_| 1) (Zeros)
            "How many tasks have run one after another since the device was lost.";
        numbers SerialNumbers u64 "serial_numbers" Host KernelForHost (|p| p.layout.slot_count()) (Zeros)
            "The number of the last task of each slot in the order in which tasks ran, counted from 1 since the device was lost.";
    }

    /// The buffers that every kernel has in memory that all groups see.
    GlobalBuffers {
        host Host u32 "host" HostInSessions Host (|_| control::OBSERVABLES) (ControlWords)
            "The host's control words.";
        control Control u64 "control" Device Kernel (|_| control::OBSERVABLES) (Zeros)
            "Counters that all groups add to.";
        rows Rows u64 "rows" Device Kernel (counter_rows) (Zeros)
            "One row of counters per group. Drained batches have one row for all groups.";
        start Start u64 "start" Device Nobody (|p| p.layout.stripe_count()) (StripeStarts)
            "The first position of each stripe.";
        rings RingTenants u32 "rings" Device Nobody (|p| p.rings()) (RingTenants)
            "The tenant of each ring.";
        regions Regions u32 "regions" Device Nobody (|p| p.layout.piece_words()) (Pieces)
            "The table of pieces: the first element and the number of elements of each tenant's piece of each region.";
        observables Observables u32 "observables" Device Kernel (|p| p.layout.observable_count()) (Zeros)
            "The observables of all tenants.";
        log Log u32 "log" Device Kernel (|_| log::WORDS as u32) (Zeros)
            "The debug log.";
    }

    /// The copy of the table of pieces in shared memory, on devices whose other memory is slow to reach.
    PieceCopies {
        firsts PieceFirsts u32 "firsts" Group Kernel (|p| p.layout.piece_words() / 2) (Zeros)
            "The first element of each piece.";
        lens PieceLens u32 "lens" Group Kernel (|p| p.layout.piece_words() / 2) (Zeros)
            "The number of elements of each piece.";
    }

    /// The payloads of tasks, in kernels whose tasks have them; see [`payload`](super::super::payload).
    PayloadBuffers {
        words Payload u32 "payload" Host Host (payload_words) (Zeros)
            "The payloads of tasks, by place.";
        bytes PayloadBytes u32 "payload_bytes" Host Host (|p| p.layout.place_count()) (Zeros)
            "How many bytes each payload has, by place.";
    }

    /// The copies of payloads on a device with memory of its own.
    PayloadCopies {
        words PayloadCopy u32 "payload_copy" Device Kernel (payload_words) (Zeros)
            "The payloads of tasks in device memory, by place.";
    }

    /// The replies of tasks, in kernels whose tasks have them; see [`payload`](super::super::payload).
    ReplyBuffers {
        words Reply u32 "reply" Host Kernel (reply_words) (Zeros)
            "The replies of tasks, by place.";
        said ReplySaid u64 "reply_said" Host KernelForHost (|p| p.layout.place_count()) (Zeros)
            "How many bytes the last reply in each slot has, and the lap in which a task gave it.";
    }

    /// The replies as handlers write them on a device with memory of its own.
    ReplyCopies {
        words ReplyCopy u32 "reply_copy" Device Kernel (reply_words) (Zeros)
            "The replies of tasks in device memory, by place.";
    }

    /// What a group knows about the payloads and replies of its window.
    PlaceBuffers {
        places TaskPlace u32 "places" Group Kernel (|p| p.layout.window) (Zeros)
            "The number of the place that each task of a window has for its payload and its reply.";
        payload_bytes TaskPayload u32 "task_payload" Group Kernel (|p| p.layout.window) (Zeros)
            "How many bytes the payload of each task of a window has.";
        reply_bytes TaskReply u32 "task_reply" Group Kernel (|p| p.layout.window) (Zeros)
            "How many bytes of reply each task of a window has said it gives.";
    }

    /// The copy of a window's slots, for kernels that do not run tasks where they lie.
    SlotCopies {
        window Window u64 "window" Group Kernel (|p| p.layout.window * LINE) (Zeros)
            "The slots of a window.";
    }

    /// What tasks that take several steps need in any kernel; see [`steps`](super::super::steps).
    StepBuffers {
        outcomes Outcomes u32 "outcomes" Group Kernel (|p| p.layout.window) (Zeros)
            "What the step of each task of a window has asked for. The values are those of `outcome`.";
    }

    /// What drained batches need for tasks that take several steps.
    RoundBuffers {
        begun Begun u32 "begun" Group Kernel (|p| p.layout.window) (Zeros)
            "How many steps of each task of a window were begun.";
        turns Turns u32 "turns" Group Kernel (|p| p.layout.window) (Zeros)
            "The places of a window's lane-wide tasks that go on, in lists of the lanes.";
        active Active u32 "active" Group Kernel (|_| 1) (Zeros)
            "How many lanes have tasks that go on.";
    }

    /// The cells of a session, in which tasks live that take several steps; see [`cells`](super::super::cells).
    CellBuffers {
        states CellStates u64 "cells" Device Kernel (|p| p.cells()) (Zeros)
            "The state of each cell. The bits are those of `cell_state`.";
        lines CellLines u64 "cell_lines" Device Kernel (|p| p.cells() * LINE) (Zeros)
            "The line of each cell's task, with tenant and level in its second word.";
        facts CellFacts u64 "cell_facts" Device Kernel (|p| p.cells() * cell_fact::WORDS) (Zeros)
            "What is known of each cell's task. The words are those of `cell_fact`.";
        done CellDone u64 "cell_done" Host KernelForHost (|p| p.layout.producer_cell_count()) (Zeros)
            "The completion record of each cell.";
        ready Ready u64 "ready" Device Kernel (|p| p.layout.queue_count() * p.layout.queue_slots()) (Zeros)
            "The queues of cells that are ready and that no group has at home, one per tenant and level. An entry carries its lap.";
        ready_ends ReadyEnds u64 "ready_ends" Device Kernel (|p| p.layout.queue_count() * 2 * STRIDE) (Zeros)
            "Two words per queue: the position up to which its entries were taken, and the position of its next entry.";
        strides Strides u32 "strides" Device Nobody (|_| Tenant::MAX_TENANTS) (TenantStrides)
            "By how much one cell that is taken advances the time of each tenant: the less, the greater the weight of the tenant.";
        times TenantTimes u64 "times" Group Kernel (|_| Tenant::MAX_TENANTS) (Zeros)
            "How far each tenant has advanced in this group, in strides of the cells that were taken.";
        fronts QueueFronts u64 "fronts" Group Kernel (|p| p.layout.queue_count()) (Zeros)
            "The position of each queue's first entry, when the group last looked.";
        waiting QueueWaiting u32 "waiting" Group Kernel (|p| p.layout.queue_count()) (Zeros)
            "How many entries each queue had that could be taken, when the group last looked.";
        asks_seen AsksSeen u64 "asks_seen" Group Kernel (|p| p.layout.queue_count()) (Zeros)
            "How many asks were applied when the group last began to go through each queue of a disabled tenant.";
        look_ends LookEnds u64 "look_ends" Group Kernel (|p| p.layout.queue_count()) (Zeros)
            "The position of each such queue up to which the group goes.";
        asks Asks u64 "asks" Host Host (|_| STRIDE + ask::RING) (Zeros)
            "How many times the host has asked something of cells, and then the last of these asks.";
        answers Answers u64 "answers" Host KernelForHost (|_| 1) (Zeros)
            "How many asks were applied, for the host to see.";
        applied Applied u64 "applied" Device Kernel (|_| 1) (Zeros)
            "How many asks were applied.";
        counts StepCounts u64 "step_counts" Device Kernel (|p| p.layout.groups * p.layout.step_counters()) (Zeros)
            "One row of counters of steps per group.";
        home Home u32 "home" Group Kernel (home_cells) (Zeros)
            "The cell at each place of the group's home, one more than its number, or 0 if the place is free.";
        arrivals Arrivals u32 "arrivals" Group Kernel (|p| p.layout.arrival_cells()) (Zeros)
            "The cells that have arrived and have no place at home yet.";
        words HomeWords u32 "home_words" Group Kernel (|p| home_word::words(p.layout.step_counters())) (Zeros)
            "Single words of a group's home, which are those of `home_word`.";
    }

    /// What tasks that make or await other tasks need; see [`tree`](super::super::tree).
    TreeBuffers {
        links TreeLinks u64 "tree" Device Kernel (|p| p.cells() * tree_word::WORDS) (Zeros)
            "What each cell's task has to do with other tasks. The words are those of `tree_word`.";
        idle IdleGroups u32 "idle_groups" Device Kernel (|_| 1) (ZerosEachRun)
            "How many groups have nothing at home.";
    }

    /// The cells for spawned tasks; see [`spawn`](super::super::spawn).
    SpawnBuffers {
        free FreeCells u64 "free_cells" Device Kernel (|p| p.layout.spawn_cell_count() / 64) (AllOnes)
            "Which cells for spawned tasks are free, one bit per cell.";
        words ChildWords u32 "child_words" Group Kernel (home_cells) (Zeros)
            "The word of `free_cells` from which the task at each place of the group's home last took cells.";
        reserved Reserved u64 "reserved" Group Kernel (home_cells) (Zeros)
            "The cells of that word that the task at each place has reserved for children and not used yet.";
        made Made u64 "made" Group Kernel (home_cells) (Zeros)
            "The cells of that word that hold children of the step that is running.";
    }

    /// The events of all tenants; see [`event`](super::super::event).
    EventBuffers {
        counts EventCounts u64 "events" Device Kernel (|p| p.events()) (Zeros)
            "How often each event was signalled.";
        cancels Cancels u64 "cancels" Device Kernel (|p| p.layout.tenant_count()) (Zeros)
            "How many tasks of each tenant were cancelled, for those who look after waiting tasks.";
        waiters Waiters u64 "waiters" Device Kernel (|p| p.events()) (Zeros)
            "The first of the cells that wait for each event, one more than its number, and above it the count that it waits for, or 0 if none waits.";
        after After u64 "after" Host Host (|p| p.layout.producer_cell_count()) (Zeros)
            "For which event the task of each cell waits before its first step, and for which count.";
    }

    /// The graphs of all tenants and their instances; see [`graphs`](super::super::graphs).
    GraphBuffers {
        words GraphWords u32 "graph_words" Device Kernel (|p| p.graphs().map_or(0, |graphs| graphs.words)) (Zeros)
            "The words of all graphs. The host copies them there while the kernel runs, and the kernel only reads them.";
        directory GraphDirectory u32 "graphs" Device Kernel (|_| MAX_GRAPHS * entry_word::WORDS) (Zeros)
            "Where each graph begins, and the generation of its number. The host copies this there too.";
        launches GraphLaunches u32 "graph_launches" Device Kernel (|_| MAX_GRAPHS) (Zeros)
            "How many instances of each graph are under way.";
        free FreeInstances u64 "free_instances" Device Kernel (|p| p.graphs().map_or(0, |graphs| graphs.instances.div_ceil(64))) (GraphInstances)
            "Which instances are free, one bit per instance.";
        left NodesLeft u32 "nodes_left" Device Kernel (|p| p.layout.graph_cell_count()) (Zeros)
            "How many predecessors of each node have not ended.";
    }

    /// The marks and frontiers of near rings, in kernels in which a fence may have to wait for a cell.
    NearFrontierBuffers {
        marks NearMarks u64 "marks" | "marks.near" Device Kernel (|p| p.slots(Placement::Near)) (Zeros)
            "The position at which a window or a fence ends, by the position at which it begins.";
        front NearFront u64 "front" | "front.near" Device Kernel (|p| p.near_stripes() * STRIDE) (NearStripeStarts)
            "The frontier of each near stripe, and beside it the words that frontiers of far rings have.";
        seen NearSeen u64 "front_seen" Group Kernel (|p| p.layout.polled_rings()) (Zeros)
            "The frontier of the group's stripe of each near ring, as the group last saw it.";
    }

    /// The frames of tasks that take several steps.
    FrameBuffers {
        frames Frames u32 "frames" Device Kernel (frame_words) (Zeros)
            "The frames of the tasks of every group's window.";
    }

    /// The buffers that every group has in its shared memory.
    SharedBuffers {
        heads Heads u64 "heads" Group Kernel (|p| p.layout.polled_rings()) (Zeros)
            "In a group of near rings and in the router, the position of each ring's next task. In a group of far rings, the frontier of each ring as the group last saw it.";
        suspect Suspect u32 "suspect" Group Kernel (|p| p.layout.polled_rings()) (Zeros)
            "Whether the line at the head of a ring has failed its check: 0 if not, 1 if that was seen, 2 if it was counted.";
        owners Owners u32 "owners" Group Kernel (|p| p.layout.polled_rings()) (Zeros)
            "The tenant of each ring, for the lanes that poll.";
        served Served u32 "served" Group Kernel (|p| p.layout.levels) (Zeros)
            "The window in which each level was last served.";
        cursor Cursor u32 "cursor" Group Kernel (cursors) (Zeros)
            "The producer at which the search through each level begins. Where tenants share rings by weight, the producer of each tenant, among its own, at which the search through its rings of each level begins.";
        records Records u64 "records" Group Kernel (|p| p.layout.window) (Zeros)
            "The completion records of a window. A task that has not ended has a `WindowState` in its record.";
        faults Faults u32 "faults" Group Kernel (|p| p.layout.window) (Zeros)
            "The first fault of each task of a window.";
        fuel Fuel u32 "fuel" Group Kernel (|p| p.layout.window) (Zeros)
            "How much fuel each task of a window has left.";
        wide Wide u32 "wide" Group Kernel (|p| p.layout.window) (Zeros)
            "The places of a window's group-wide tasks.";
        tally Tally u32 "tally" Group Kernel (tallies) (Zeros)
            "How many tasks of each opcode ran in this window. In drained batches, everything that a group counts, in the order of its row.";
        state GroupState u32 "state" Group Kernel (|_| group_state::WORDS) (Zeros)
            "Single words of a group, which are those of `group_state`.";
    }

    /// What tenants that share rings by weight need; see [`ring_shares`](super::super::ring_shares).
    RingShareBuffers {
        table ShareTable u32 "shares" Device Nobody (|p| p.layout.tenant_count() * share_word::WORDS) (TenantShares)
            "The producers and the stride of each tenant, by its number. The words are those of `share_word`.";
        times RingTimes u64 "ring_times" Group Kernel (|p| p.layout.tenant_count() * p.layout.levels) (Zeros)
            "How far each tenant has advanced at each level in this group, in strides of the tasks that were taken.";
        floors RingFloors u64 "ring_floors" Group Kernel (|p| p.layout.levels) (Zeros)
            "The time of the tenant that was last served at each level, when it was chosen.";
    }
}
}

pub use rows::BufferId;
pub(crate) use rows::TABLE;
pub(super) use rows::{
    BatchSlots, CellBuffers, ControlCopy, EventBuffers, FarSlots, FrameBuffers, FrontierBuffers,
    GlobalBuffers, GraphBuffers, NearFrontierBuffers, NearSlots, NoticeBuffers, PassBuffers, PayloadBuffers,
    PayloadCopies, PieceCopies, PlaceBuffers, RecoveryBuffers, RecoveryCells, RecoveryEvents, ReplyBuffers,
    ReplyCopies, RingShareBuffers, RoundBuffers, RouterBuffers, SerialBuffers, SharedBuffers, SlotCopies,
    SpawnBuffers, StepBuffers, TreeBuffers,
};

/// The words of [`SharedBuffers::state`].
pub(super) mod group_state {
    /// The place of the first task of the window that is not ready.
    pub(crate) const LIMIT: u32 = 0;
    /// How many group-wide tasks the window has.
    pub(crate) const WIDES: u32 = 1;
    /// Whether the window has a fence.
    pub(crate) const FENCED: u32 = 2;
    /// Whether others may read what a task of the window wrote, so that a fence is needed.
    pub(crate) const DIRTY: u32 = 3;
    /// How many windows the group has served.
    pub(crate) const TURN: u32 = 4;
    /// Whether a drained batch has fences.
    pub(crate) const FENCES: u32 = 5;
    /// Whether the next pass belongs to the same run of a drained batch.
    pub(crate) const MORE: u32 = 6;
    /// How many slots a drained batch has.
    pub(crate) const ALL: u32 = 7;
    /// The most slots of a drained batch that a group takes at once.
    pub(crate) const MOST: u32 = 8;
    /// How many words there are.
    pub(crate) const WORDS: u32 = 9;
}

/// The words of [`ControlCopy::flags`].
pub(super) mod flag {
    /// How many groups have arrived.
    pub(crate) const ARRIVED: u32 = 0;
    /// Whether to halt.
    pub(crate) const HALT: u32 = crate::protocol::step::HALT;
    /// How many words there are.
    pub(crate) const WORDS: u32 = 2;
}

/// How many counters all groups have.
fn counter_rows(plan: KernelPlan<'_>) -> u32 {
    let row = plan.layout.counters_per_group();
    if plan.drains() { PassReport::new(plan.layout).control } else { plan.layout.groups * row }
}

/// How many words the frames of all windows have.
fn frame_words(plan: KernelPlan<'_>) -> u32 {
    plan.layout.frame_count() * plan.layout.steps.map_or(0, |steps| steps.frame_words)
}

/// How many searches through producers there are, each of which begins at a producer of its own.
fn cursors(plan: KernelPlan<'_>) -> u32 {
    match plan.spec.shares_rings_by_weight() {
        true => plan.layout.tenant_count() * plan.layout.levels,
        false => plan.layout.levels,
    }
}

/// How many cells a group has at home at most.
fn home_cells(plan: KernelPlan<'_>) -> u32 {
    plan.layout.home_cells()
}

/// How many counters a group keeps in its shared memory.
fn tallies(plan: KernelPlan<'_>) -> u32 {
    if plan.drains() { counter_rows(plan) } else { plan.layout.ops.len() as u32 }
}

/// How many words the payloads of all slots have.
fn payload_words(plan: KernelPlan<'_>) -> u32 {
    plan.layout.place_count() * plan.layout.places.payload_stride()
}

/// How many words the replies of all slots have.
fn reply_words(plan: KernelPlan<'_>) -> u32 {
    plan.layout.place_count() * plan.layout.places.reply_stride()
}

/// Whether two names are equal. Unlike `==`, this works in constants.
const fn same_name(a: &str, b: &str) -> bool {
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

// Every buffer that the table of ordered accesses names is a row of this table, or one of the host's own words.
const _: () = {
    let mut step = 0;
    while step < step::TABLE.len() {
        let name = step::TABLE[step].buffer;
        let mut known = same_name(name, "");
        let mut row = 0;
        while row < TABLE.len() {
            known |= same_name(name, TABLE[row].names[0]);
            row += 1;
        }
        let mut own = 0;
        while own < step::HOST_WORDS.len() {
            known |= same_name(name, step::HOST_WORDS[own]);
            own += 1;
        }
        assert!(known, "a step names a buffer that does not exist");
        step += 1;
    }
};
