//! Where everything of an assembled kernel lies: rings, stripes, regions, counters, buffers.
//!
//! The numbers are worked out once, from the `Spec` and what the device can do; the kernel is written from them and the
//! host reads and writes by them.

use pelton_device::{Caps, MemoryKind, mapped::WordWidth as Word};

use super::bank;
pub use super::bank::{SlotBank, SlotBanks};
use super::buffers::BufferId;
use super::error::AssembleError;
use super::placement::Placement;
use super::route;
use super::spec::{Claim, Geometry, Lifetime, Spec};
use super::tenant::{Region, Tenant, TenantId};
use crate::protocol::{Opcode, control};

/// A ring: whose, and how urgent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingInfo {
    /// Its owner.
    pub tenant: TenantId,
    /// Which producer writes it, counted over the session.
    pub producer: u32,
    /// Its level, from the most urgent down; 0 where there is one.
    pub level: u32,
}

/// A region of the workspace: one buffer, a piece for each tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionArea {
    /// The region.
    pub region: Region,
    /// Elements in all.
    pub total: u32,
    /// First element and number of elements, by tenant.
    pub pieces: Vec<(u32, u32)>,
}

impl RegionArea {
    /// The name of its buffer in the module.
    pub fn buffer_name(&self) -> String {
        format!("region.{}", self.region.name)
    }
}

/// Tells the buffers apart that the host binds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferKey {
    /// A buffer of the kernel's own.
    Kernel(BufferId),
    /// The buffer of a region of the workspace, by its number in [`Layout::areas`].
    Region(usize),
}

/// A buffer that the host binds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferBinding {
    /// Which buffer it is.
    pub key: BufferKey,
    /// Its name in the module.
    pub name: String,
    /// The memory it wants.
    pub kind: MemoryKind,
    /// The size of its words.
    pub width: Word,
    /// How many words it has.
    pub len: usize,
}

/// Where everything lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The slots of all rings by placement.
    pub banks: SlotBanks,
    /// Lanes of a group.
    pub lanes: u32,
    /// Lanes of a subgroup.
    pub subgroup: u32,
    /// Groups that run tasks.
    pub workers: u32,
    /// Groups that are launched: the workers, and one more where there is a router or host memory is far.
    pub groups: u32,
    /// The most tasks that a group takes at once.
    pub window: u32,
    /// Rings, the most urgent level first.
    pub rings: Vec<RingInfo>,
    /// Levels of priority.
    pub levels: u32,
    /// Producers in all.
    pub producers: u32,
    /// The workspace.
    pub areas: Vec<RegionArea>,
    /// First observable and number of observables, by tenant.
    pub observables: Vec<(u32, u32)>,
    /// Opcodes that are counted, in the order of their counters.
    pub ops: Vec<Opcode>,
    /// Whether the device has memory of its own, so that host memory is far from it.
    pub remote: bool,
    /// Lanes that keep a copy of the host's control words for all groups, and tell the host when a change has been taken over; 0 where
    /// groups read the host's words themselves.
    pub keepers: u32,
    /// Subgroups that have to be told of a change of the copy, because they read it together with a task and not after it.
    pub pollers: u32,
    /// Whether the device can be woken from a `backoff`.
    pub wakes: bool,
    /// What the host binds, in the order of the module.
    pub buffers: Vec<BufferBinding>,
}

/// Pieces of the workspace start at a multiple of this many bytes.
pub const ALIGN: u32 = 64;

impl Layout {
    /// Works out where everything lies; buffers come as the kernel is written.
    pub(super) fn new(spec: &Spec, caps: &Caps) -> Result<Layout, AssembleError> {
        let Geometry { slots, window, .. } = spec.geometry;
        let placement = bank::choose_placement(spec, caps)?;
        let (lanes, workers, groups) = launch_size(spec, caps, placement)?;
        // A drained batch is one ring for everybody, whatever the claim.
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
        let banks = match drain {
            true => bank::batch_bank(workers, slots)?,
            false => bank::session_banks(spec, caps, placement, (workers, rings.len() as u32))?,
        };
        let remote = caps.memory_bytes.is_some();
        let (keepers, pollers) = if drain { (0, 0) } else { keeper_counts(caps, &banks, lanes) };
        let window = window.min(banks.iter().map(SlotBank::stripe_slots).max().unwrap_or(1));
        let ops = counted_opcodes(spec);
        check_addressed(
            "the number of counters of all groups",
            u64::from(groups) * (u64::from(control::OBSERVABLES) + ops.len() as u64),
        )?;
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
            remote,
            keepers,
            pollers,
            wakes: caps.wakes,
            buffers: Vec::new(),
        })
    }

    /// Where rings lie.
    pub fn placement(&self) -> Placement {
        self.banks.placement()
    }

    /// The slots of one placement, if there are any.
    pub fn bank(&self, placement: Placement) -> Option<&SlotBank> {
        self.banks.iter().find(|bank| bank.placement == placement)
    }

    /// How many slots the largest stripe has: the most tasks that can be submitted at once with a fence among them. Without one,
    /// [`Producer::largest_batch`](crate::Producer::largest_batch) says how many can be.
    pub fn largest_stripe(&self) -> u32 {
        self.banks.iter().map(SlotBank::stripe_slots).max().unwrap_or(0)
    }

    /// How many stripes a ring has.
    pub fn ring_stripes(&self) -> u32 {
        self.banks.iter().map(|bank| bank.ring_stripes).sum()
    }

    /// The number of a ring's k-th stripe among all stripes.
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

    /// How many stripes all rings of the session have.
    pub fn stripe_count(&self) -> u32 {
        self.banks.iter().map(SlotBank::stripe_count).sum()
    }

    /// How many slots all stripes have.
    pub fn slot_count(&self) -> u32 {
        self.banks.iter().map(SlotBank::slot_count).sum()
    }

    /// How many counters a group has: the control words, then one per opcode.
    pub fn counters_per_group(&self) -> u32 {
        control::OBSERVABLES + self.ops.len() as u32
    }

    /// How many words the table of pieces has: two per tenant and column.
    pub(super) fn piece_words(&self) -> u32 {
        Tenant::MAX_TENANTS * (self.areas.len() as u32 + 1) * 2
    }

    /// How many observables all tenants have.
    pub fn observable_count(&self) -> u32 {
        self.observables.iter().map(|(at, len)| at + len).max().unwrap_or(0)
    }

    /// The region of that name.
    pub fn area(&self, name: &str) -> Option<&RegionArea> {
        self.areas.iter().find(|area| area.region.name == name)
    }
}

/// The most words of a buffer that belongs to the kernel itself. Kernels compute with a few times their indices.
const MAX_KERNEL_WORDS: u64 = 1 << 28;

/// Refuses more words of the kernel's own than it can compute with.
pub(super) fn check_addressed(what: &'static str, found: u64) -> Result<(), AssembleError> {
    let most = MAX_KERNEL_WORDS;
    if found > most { Err(AssembleError::Size { what, found, most }) } else { Ok(()) }
}

/// The most groups of a launch that drains batches.
const MAX_GROUPS: u32 = 1 << 16;

/// Lanes, groups that work, and groups that are launched.
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
    // One more than works: a router, or whoever keeps the control words.
    let besides = u32::from(persistent && (placement != Placement::Near || remote));
    let least = if persistent && placement == Placement::Both { 2 } else { 1 };
    let suits = part(caps.groups).saturating_sub(if remote { besides } else { 0 }).max(least);
    let workers = groups.unwrap_or(suits);
    limit("the number of groups", workers, 1, most.saturating_sub(besides))?;
    if let Claim::Priority { every } = spec.claim {
        limit("every how many windows the longest unserved level comes", every, 1, 1 << 16)?;
    }
    Ok((lanes, workers, workers + besides))
}

/// Lanes that keep the host's control words for all groups, and subgroups that have to be told of their changes.
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
    // The keeper is the router's last subgroup, its one lane that polls, or the first subgroup of a group of its own.
    let lanes = match (far, teams) {
        (true, Some(teams)) => lanes - teams * caps.subgroup,
        (true, None) => 1,
        (false, _) => lanes.min(caps.subgroup),
    };
    let keepers = if pollers > 0 { lanes } else { 1 };
    if far || remote { (keepers, pollers) } else { (0, 0) }
}

fn region_area(region: &Region, tenants: &[Tenant]) -> Result<RegionArea, AssembleError> {
    let step = ALIGN / (region.elem.bits() / 8).max(1);
    let mut pieces = vec![(0, 0); Tenant::MAX_TENANTS as usize];
    let (mut total, mut next) = (0u64, 0u64);
    for tenant in tenants.iter().filter(|t| t.id < Tenant::MAX_TENANTS) {
        let len = tenant.region_len(region);
        let at = if region.shared { 0 } else { next };
        pieces[tenant.id as usize] = (at as u32, len);
        total = total.max(at + u64::from(len));
        next = next.max(at + u64::from(len).next_multiple_of(step.into()));
    }
    let most = pelton_ir::limits::MAX_LEN;
    if total > most {
        let why = format!("its tenants have {total} elements in all, and a buffer has at most {most}");
        return Err(AssembleError::Region { name: region.name.clone(), why });
    }
    // The last piece may end where no whole line fits any more.
    Ok(RegionArea { region: region.clone(), total: (next.min(most) as u32).max(1), pieces })
}

fn observable_pieces(tenants: &[Tenant]) -> Vec<(u32, u32)> {
    let mut pieces = vec![(0, 0); Tenant::MAX_TENANTS as usize];
    let mut total = 0u32;
    for tenant in tenants.iter().filter(|t| t.id < Tenant::MAX_TENANTS) {
        pieces[tenant.id as usize] = (total, tenant.observables);
        total = total.saturating_add(tenant.observables);
    }
    pieces
}

/// The opcodes that are counted.
fn counted_opcodes(spec: &Spec) -> Vec<Opcode> {
    let own = spec.handlers.iter().map(|h| h.op);
    match spec.body {
        super::spec::SlotBody::Fused => own.collect(),
        super::spec::SlotBody::Dispatch => super::builtin::BUILTIN_OPS.iter().copied().chain(own).collect(),
    }
}
