//! Where everything of an assembled kernel lies: rings, stripes, regions, counters and buffers.
//!
//! The numbers are worked out once, from the `Spec` and from what the device can do. The kernel is written from them,
//! and the host finds what it reads and writes by them.

use std::time::Duration;

use pelton_device::{Caps, MemoryKind, mapped::WordWidth as Word};

use super::bank;
pub use super::bank::{SlotBank, SlotBanks};
use super::buffers::BufferId;
use super::claim;
use super::error::AssembleError;
pub use super::graphs::GraphLayout;
use super::payload::PlaceSizes;
use super::placement::Placement;
use super::route;
use super::spec::{Claim, Geometry, Lifetime, Spec, TaskOrder};
pub use super::steps::StepLayout;
use super::steps::step_counter;
use super::tenant::{Region, Tenant, TenantId};
pub use super::tree::TreeLayout;
use crate::protocol::{Opcode, control, slot};

/// Who a ring belongs to, and how urgent its tasks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingInfo {
    /// The tenant that owns the ring.
    pub tenant: TenantId,
    /// The number of the producer that writes the ring, among all producers of the session.
    pub producer: u32,
    /// The priority of its tasks, where 0 is the most urgent level. It is 0 where there is only one level.
    pub level: u32,
}

/// A region of the workspace as it lies in memory: one buffer, with a piece for each tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionArea {
    /// The region as the `Spec` describes it.
    pub region: Region,
    /// How many elements the buffer has.
    pub total: u32,
    /// The first element and the number of elements of each tenant's piece, by the number of the tenant.
    pub pieces: Vec<(u32, u32)>,
}

impl RegionArea {
    /// The name of the region's buffer in the module.
    pub fn buffer_name(&self) -> String {
        format!("region.{}", self.region.name)
    }
}

/// Identifies a buffer that the host binds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferKey {
    /// A buffer of the kernel's own.
    Kernel(BufferId),
    /// The buffer of a region of the workspace, by its number in [`Layout::areas`].
    Region(usize),
}

/// A buffer for which the host must allocate memory, and which it binds when it launches the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferBinding {
    /// Which buffer it is.
    pub key: BufferKey,
    /// The name of the buffer in the module.
    pub name: String,
    /// The kind of memory that the buffer needs.
    pub kind: MemoryKind,
    /// The size of the buffer's words.
    pub width: Word,
    /// How many words the buffer has.
    pub len: usize,
}

/// Where everything of an assembled kernel lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The slots of all rings by placement.
    pub banks: SlotBanks,
    /// How many lanes a group has.
    pub lanes: u32,
    /// How many lanes a subgroup has.
    pub subgroup: u32,
    /// How many groups run tasks.
    pub workers: u32,
    /// How many groups are launched: the workers, and one more if there is a router or if the device is far from host
    /// memory.
    pub groups: u32,
    /// The most tasks that a group takes at once.
    pub window: u32,
    /// The rings of all producers, those of the most urgent level first.
    pub rings: Vec<RingInfo>,
    /// How many levels of priority there are.
    pub levels: u32,
    /// How many producers all tenants have.
    pub producers: u32,
    /// The regions of the workspace.
    pub areas: Vec<RegionArea>,
    /// The first observable and the number of observables of each tenant, by the number of the tenant.
    pub observables: Vec<(u32, u32)>,
    /// The opcodes whose tasks are counted, in the order of their counters.
    pub ops: Vec<Opcode>,
    /// How many bytes the payloads and replies of tasks may have.
    pub places: PlaceSizes,
    /// Whether the device has memory of its own, so that host memory is slow to reach.
    pub remote: bool,
    /// How many lanes keep a copy of the host's control words for all groups, and tell the host when they have copied a
    /// change. It is 0 where groups read the host's words themselves.
    pub keepers: u32,
    /// How many subgroups have to be told when the copy changes, because they read it together with a task and not
    /// after it.
    pub pollers: u32,
    /// Whether the host can wake the device from a `backoff`.
    pub wakes: bool,
    /// What tasks that take several steps need, if a handler is resumable.
    pub steps: Option<StepLayout>,
    /// What tasks that make or await other tasks need, if the kernel has such tasks.
    pub trees: Option<TreeLayout>,
    /// The opcodes of the handlers that are resumable.
    pub resumable_ops: Vec<Opcode>,
    /// The buffers that the host binds, in the order of the module.
    pub buffers: Vec<BufferBinding>,
}

/// A group has room for at least this many cells at home, if its window is not smaller.
const MIN_HOME_CELLS: u32 = 16;

/// Where tasks spawn others, a group keeps at least this many cells that have no place at home yet.
const MIN_ARRIVALS: u32 = 1024;

/// The pieces of a region start at multiples of this many bytes.
pub const ALIGN: u32 = 64;

impl Layout {
    /// Works out where everything lies. The list of buffers stays empty until the kernel is written. If the kernel is to
    /// follow another one in a session, `slots_before` are the slots of that one, which stay where they are.
    pub(super) fn new(
        spec: &Spec,
        caps: &Caps,
        (steps, trees): (Option<StepLayout>, Option<TreeLayout>),
        slots_before: Option<SlotBanks>,
    ) -> Result<Layout, AssembleError> {
        let Geometry { slots, window, .. } = spec.geometry;
        let placement = match slots_before {
            Some(banks) => banks.placement(),
            None => bank::choose_placement(spec, caps)?,
        };
        let (lanes, workers, groups) = launch_size(spec, caps, placement)?;
        // A drained batch is one ring for all tenants, whatever the claim.
        let drain = spec.lifetime == Lifetime::Drain;
        let levels = if drain { 1 } else { spec.claim.levels() };
        let producers = |t: &Tenant| if drain { 1 } else { t.producers as usize };
        let owners: Vec<TenantId> =
            spec.tenants.iter().flat_map(|t| std::iter::repeat_n(t.id, producers(t))).collect();
        let rings = (0..levels)
            .flat_map(|level| {
                owners.iter().enumerate().map(move |(at, &tenant)| RingInfo {
                    tenant,
                    producer: at as u32,
                    level,
                })
            })
            .collect::<Vec<_>>();
        let banks = match slots_before {
            _ if drain => bank::batch_bank(workers, slots)?,
            Some(banks) => banks.with_workers(workers),
            None => bank::session_banks(spec, caps, placement, (workers, rings.len() as u32))?,
        };
        let remote = caps.memory_bytes.is_some();
        let (keepers, pollers) = if drain { (0, 0) } else { keeper_counts(caps, &banks, lanes) };
        let window = if spec.order == TaskOrder::Serial { 1 } else { window };
        let window = window.min(banks.iter().map(SlotBank::stripe_slots).max().unwrap_or(1));
        let ops = counted_opcodes(spec);
        check_addressed(
            "the number of counters of all groups",
            u64::from(groups) * (u64::from(control::OBSERVABLES) + ops.len() as u64),
        )?;
        let tenants = owners.iter().map(|tenant| tenant + 1).max().unwrap_or(1);
        let spawn_cells = u64::from(trees.map_or(0, |trees| trees.spawn_cells)) * u64::from(tenants);
        let graphs = trees.and_then(|trees| trees.graphs);
        let graph_cells = graphs.map_or(0, |graphs| u64::from(graphs.instances) * u64::from(graphs.nodes));
        let spawn_cells = spawn_cells + graph_cells;
        if let Some(StepLayout { frame_words, .. }) = steps {
            let cells = if drain { groups * window } else { owners.len() as u32 * spec.cells };
            let cells = u64::from(cells) + spawn_cells;
            check_addressed("the number of words of all frames", cells * u64::from(frame_words))?;
            let queues = u64::from(Tenant::MAX_TENANTS) * u64::from(levels);
            check_addressed("the number of words of all cells", cells * queues.max(slot::WORDS as u64))?;
        }
        let places = PlaceSizes { payload: spec.payload, reply: spec.reply };
        let cells = steps.map_or(0, |steps| steps.producer_cells) * owners.len() as u32 + spawn_cells as u32;
        check_places(places, &banks, cells)?;
        Ok(Layout {
            lanes,
            subgroup: caps.subgroup,
            workers,
            groups,
            banks,
            window,
            levels,
            producers: owners.len() as u32,
            rings,
            areas: spec.regions.iter().map(|r| region_area(r, &spec.tenants)).collect::<Result<_, _>>()?,
            observables: observable_pieces(&spec.tenants),
            ops,
            places,
            remote,
            keepers,
            pollers,
            wakes: caps.wakes,
            steps,
            trees,
            resumable_ops: Vec::new(),
            buffers: Vec::new(),
        })
    }

    /// Where the rings lie.
    pub fn placement(&self) -> Placement {
        self.banks.placement()
    }

    /// The slots of one placement, if there are any.
    pub fn bank(&self, placement: Placement) -> Option<&SlotBank> {
        self.banks.iter().find(|bank| bank.placement == placement)
    }

    /// How many slots the largest stripe has. This is the most tasks that can be submitted at once if there is a fence
    /// among them. Without a fence, [`Producer::largest_batch`](crate::Producer::largest_batch) says how many can be.
    pub fn largest_stripe(&self) -> u32 {
        self.banks.iter().map(SlotBank::stripe_slots).max().unwrap_or(0)
    }

    /// How many stripes a ring has.
    pub fn ring_stripes(&self) -> u32 {
        self.banks.iter().map(|bank| bank.ring_stripes).sum()
    }

    /// The number of a ring's `k`-th stripe among all stripes of the session.
    pub fn stripe_number(&self, ring: u32, k: u32) -> usize {
        let mut k = k;
        for bank in self.banks.iter() {
            if k < bank.ring_stripes {
                return (bank.first_stripe + ring * bank.ring_stripes + k) as usize;
            }
            k -= bank.ring_stripes;
        }
        self.stripe_count() as usize
    }

    /// The ring that a stripe is a part of, given its number among all stripes of the session.
    pub(crate) fn stripe_ring(&self, number: usize) -> u32 {
        let bank = self.banks.iter().rfind(|bank| bank.first_stripe as usize <= number);
        bank.map_or(0, |bank| (number as u32 - bank.first_stripe) / bank.ring_stripes)
    }

    /// How many stripes all rings of the session have.
    pub fn stripe_count(&self) -> u32 {
        self.banks.iter().map(SlotBank::stripe_count).sum()
    }

    /// The most rings that a group polls. Several stripes of a ring count as several rings.
    pub(super) fn polled_rings(&self) -> u32 {
        self.banks.iter().map(SlotBank::polled_rings).max().unwrap_or(0)
    }

    /// How many slots all stripes of the session have.
    pub fn slot_count(&self) -> u32 {
        self.banks.iter().map(SlotBank::slot_count).sum()
    }

    /// How many counters a group has: one per control word, then one per opcode.
    pub fn counters_per_group(&self) -> u32 {
        control::OBSERVABLES + self.ops.len() as u32
    }

    /// How many cells all producers have together. The host chooses among them. They come before all other cells.
    pub fn producer_cell_count(&self) -> u32 {
        self.steps.map_or(0, |steps| steps.producer_cells * self.producers)
    }

    /// How many cells there are for the spawned tasks of all tenants together.
    pub fn spawn_cell_count(&self) -> u32 {
        self.trees.map_or(0, |trees| trees.spawn_cells * self.tenant_count())
    }

    /// How many cells there are for the nodes of graphs.
    pub fn graph_cell_count(&self) -> u32 {
        self.trees.and_then(|trees| trees.graphs).map_or(0, |graphs| graphs.instances * graphs.nodes)
    }

    /// The first cell for a node of a graph. They come after all others.
    pub(crate) fn first_graph_cell(&self) -> u32 {
        self.producer_cell_count() + self.spawn_cell_count()
    }

    /// How many cells there are. It is 0 where no task lives in a cell.
    pub fn cell_count(&self) -> u32 {
        self.first_graph_cell() + self.graph_cell_count()
    }

    /// One more than the greatest number of a tenant that has a ring.
    pub(crate) fn tenant_count(&self) -> u32 {
        self.rings.iter().map(|ring| ring.tenant + 1).max().unwrap_or(1)
    }

    /// How many counters of steps each group has.
    pub(crate) fn step_counters(&self) -> u32 {
        if self.trees.is_some() { step_counter::ALL } else { step_counter::COUNT }
    }

    /// How many places for payloads and replies there are: one per slot, and then one per cell.
    pub fn place_count(&self) -> u32 {
        self.slot_count() + self.cell_count()
    }

    /// How many queues of ready cells there are: one per tenant and level.
    pub(crate) fn queue_count(&self) -> u32 {
        self.tenant_count() * self.levels
    }

    /// How many entries a queue has room for: as many as the tenant with the most cells has cells, or more.
    pub(crate) fn queue_slots(&self) -> u32 {
        let producers =
            |tenant| self.rings.iter().filter(|ring| ring.tenant == tenant && ring.level == 0).count();
        let most = self.rings.iter().map(|ring| producers(ring.tenant)).max().unwrap_or(1) as u32;
        let spawned = self.trees.map_or(0, |trees| trees.spawn_cells) + self.graph_cell_count();
        (most * self.steps.map_or(0, |steps| steps.producer_cells) + spawned).next_power_of_two()
    }

    /// How many frames there are: one per cell, or one per place of every group's window.
    pub(super) fn frame_count(&self) -> u32 {
        match self.cell_count() {
            0 => self.groups * self.window,
            cells => cells,
        }
    }

    /// How many cells a group has at home at most: one per lane or a few more, so that all others are shared with groups
    /// that are idle. Each has a place in the group's memory that a task of a window has too.
    pub(super) fn home_cells(&self) -> u32 {
        self.lanes.max(MIN_HOME_CELLS).min(self.window)
    }

    /// How many cells that have no place at home yet a group keeps: if tasks spawn others, several times as many as have
    /// places, so that what a group has spawned last it runs first.
    pub(super) fn arrival_cells(&self) -> u32 {
        let spawned = if self.trees.is_some() { MIN_ARRIVALS.max(4 * self.home_cells()) } else { 0 };
        self.home_cells().max(spawned)
    }

    /// How many words the table of pieces has: two per tenant for each region, and two for the observables.
    pub(super) fn piece_words(&self) -> u32 {
        Tenant::MAX_TENANTS * (self.areas.len() as u32 + 1) * 2
    }

    /// How many observables all tenants have.
    pub fn observable_count(&self) -> u32 {
        self.observables.iter().map(|(at, len)| at + len).max().unwrap_or(0)
    }

    /// The longest time that the kernel rests when it is idle, as [`longest_rest`](super::longest_rest) gives it.
    pub fn longest_rest(&self) -> Option<Duration> {
        claim::rest_unless(self.wakes)
    }

    /// The region with this name, if there is one.
    pub fn area(&self, name: &str) -> Option<&RegionArea> {
        self.areas.iter().find(|area| area.region.name == name)
    }
}

/// The most words of a buffer that belongs to the kernel itself. Kernels compute indices in 32 bits, and compute with
/// small multiples of them.
const MAX_KERNEL_WORDS: u64 = 1 << 28;

/// Refuses a buffer of the kernel's own that has more words than the kernel can compute with.
pub(super) fn check_addressed(what: &'static str, found: u64) -> Result<(), AssembleError> {
    let most = MAX_KERNEL_WORDS;
    if found > most { Err(AssembleError::Size { what, found, most }) } else { Ok(()) }
}

/// Refuses payloads or replies that have more words in all slots together than the kernel can compute with.
fn check_places(places: PlaceSizes, banks: &SlotBanks, cells: u32) -> Result<(), AssembleError> {
    let all = banks.iter().map(|bank| u64::from(bank.slot_count())).sum::<u64>() + u64::from(cells);
    check_addressed("the number of words of all payloads", all * u64::from(places.payload_stride()))?;
    check_addressed("the number of words of all replies", all * u64::from(places.reply_stride()))
}

/// The most groups of a launch that drains batches.
const MAX_GROUPS: u32 = 1 << 16;

/// Works out how many groups run tasks, if the `Spec` does not say so.
pub(crate) fn worker_count(spec: &Spec, caps: &Caps, placement: Placement) -> Result<u32, AssembleError> {
    Ok(launch_size(spec, caps, placement)?.1)
}

/// Works out the number of lanes per group, of groups that run tasks, and of groups that are launched.
fn launch_size(spec: &Spec, caps: &Caps, placement: Placement) -> Result<(u32, u32, u32), AssembleError> {
    let Geometry { slots, lanes, groups, window } = spec.geometry;
    let limit = |what, found: u32, least: u32, most: u32| {
        let (found, most) = (u64::from(found), u64::from(most));
        if found < least.into() || found > most {
            Err(AssembleError::Size { what, found, most })
        } else {
            Ok(())
        }
    };
    limit("the number of slots", slots, 1, Geometry::MAX_SLOTS)?;
    if !slots.is_power_of_two() {
        return Err(AssembleError::Slots { found: slots });
    }
    limit("the window", window, 1, Geometry::MAX_WINDOW.min(slots))?;
    limit("the share of the device in percent", spec.share, 1, 100)?;
    let lanes = lanes.unwrap_or(caps.lanes);
    limit("the number of lanes", lanes, 1, caps.max_lanes)?;
    let persistent = spec.lifetime == Lifetime::Persistent;
    let part = |groups: u32| ((u64::from(groups) * u64::from(spec.share) / 100) as u32).max(1);
    let most = if persistent { part(caps.resident) } else { MAX_GROUPS };
    let remote = caps.memory_bytes.is_some();
    // One group does not run tasks: the router, or the group that keeps the control words.
    let besides = u32::from(persistent && (placement != Placement::Near || remote));
    let least = if persistent && placement == Placement::Both { 2 } else { 1 };
    let suits = part(caps.groups).saturating_sub(if remote { besides } else { 0 }).max(least);
    let workers = groups.unwrap_or(if spec.order == TaskOrder::Serial { 1 } else { suits });
    limit("the number of groups", workers, 1, most.saturating_sub(besides))?;
    if let Claim::Priority { every } = spec.claim {
        limit("the number of windows after which the longest unserved level comes first", every, 1, 1 << 16)?;
    }
    Ok((lanes, workers, workers + besides))
}

/// Works out how many lanes keep the host's control words for all groups, and how many subgroups have to be told when
/// the words change.
fn keeper_counts(caps: &Caps, banks: &SlotBanks, lanes: u32) -> (u32, u32) {
    let remote = caps.memory_bytes.is_some();
    let far = banks.far().is_some();
    let teams = if far { route::polling_subgroups(caps, lanes) } else { None };
    let pollers = match remote {
        true => {
            let watches = banks.near().filter(|_| lanes >= caps.subgroup);
            watches.map_or(0, |bank| bank.groups) + teams.unwrap_or(0)
        }
        false => 0,
    };
    // The keeper is the router's last subgroup, or the router's only lane that polls, or the first subgroup of a group
    // that does nothing else.
    let lanes = match (far, teams) {
        (true, Some(teams)) => lanes - teams * caps.subgroup,
        (true, None) => 1,
        (false, _) => lanes.min(caps.subgroup),
    };
    let keepers = if pollers > 0 { lanes } else { 1 };
    if far || remote { (keepers, pollers) } else { (0, 0) }
}

/// Divides a region among the tenants. A region that tenants share is one piece, which all of them have.
fn region_area(region: &Region, tenants: &[Tenant]) -> Result<RegionArea, AssembleError> {
    let step = ALIGN / (region.elem.bits() / 8).max(1);
    let mut pieces = vec![(0, 0); Tenant::MAX_TENANTS as usize];
    let (mut total, mut next) = (0u64, 0u64);
    for tenant in tenants.iter().filter(|t| t.id < Tenant::MAX_TENANTS) {
        let len = tenant.region_len(region);
        let at = if region.shared { 0 } else { next };
        pieces[tenant.id as usize] = (at as u32, len);
        // An empty piece has no elements, wherever it would start.
        total = if len == 0 { total } else { total.max(at + u64::from(len)) };
        next = next.max(at + u64::from(len).next_multiple_of(step.into()));
    }
    let most = pelton_ir::limits::MAX_LEN;
    if total > most {
        let why = format!("its tenants have {total} elements in all, and a buffer has at most {most}");
        return Err(AssembleError::Region { name: region.name.clone(), why });
    }
    // The room after the last piece is cut off where the buffer would become too long.
    Ok(RegionArea { region: region.clone(), total: (next.min(most) as u32).max(1), pieces })
}

/// Numbers the observables of all tenants: gives the first and the number of each, by the number of the tenant.
fn observable_pieces(tenants: &[Tenant]) -> Vec<(u32, u32)> {
    let mut pieces = vec![(0, 0); Tenant::MAX_TENANTS as usize];
    let mut total = 0u32;
    for tenant in tenants.iter().filter(|t| t.id < Tenant::MAX_TENANTS) {
        pieces[tenant.id as usize] = (total, tenant.observables);
        total = total.saturating_add(tenant.observables);
    }
    pieces
}

/// The opcodes whose tasks are counted, in the order of their counters.
fn counted_opcodes(spec: &Spec) -> Vec<Opcode> {
    let own = spec.handlers.iter().map(|h| h.op);
    match spec.body {
        super::spec::SlotBody::Fused => own.collect(),
        super::spec::SlotBody::Dispatch => {
            let signal = (spec.events > 0).then_some(Opcode::SIGNAL);
            let launch = (spec.largest_graph() > 0).then_some(Opcode::LAUNCH_GRAPH);
            super::builtin::BUILTIN_OPS.iter().copied().chain(signal).chain(launch).chain(own).collect()
        }
    }
}
