//! Where slots lie: whether they are near, far or both, how rings are divided into stripes, and how many groups serve
//! them.

use std::ops::RangeInclusive;

use pelton_device::Caps;

use super::error::AssembleError;
use super::layout::check_addressed;
use super::placement::Placement;
use super::spec::{Lifetime, Spec, TaskOrder};
use crate::protocol::slot;

/// The slots of one placement: how its rings are divided into stripes, and how its slots are numbered among all slots
/// of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotBank {
    /// Whether the rings are near or far.
    pub placement: Placement,
    /// How many groups run tasks of these rings.
    pub groups: u32,
    /// How many stripes a ring has: one in far rings, and in near rings one per group that the session was launched with.
    pub ring_stripes: u32,
    /// How many slots a stripe has, as a power of two.
    pub log2_slots: u32,
    /// How many rings there are, each with its stripes.
    pub rings: u32,
    /// The number of the first stripe among all stripes of the session.
    pub first_stripe: u32,
    /// The number of the first slot among all slots of the session.
    pub first_slot: u32,
}

impl SlotBank {
    /// How many slots a stripe has.
    pub fn stripe_slots(&self) -> u32 {
        1 << self.log2_slots
    }

    /// How many stripes all rings of this placement have.
    pub fn stripe_count(&self) -> u32 {
        self.rings * self.ring_stripes
    }

    /// How many stripes of each ring a group polls at most. It is more than one in a session with near rings that has fewer
    /// groups than it was launched with.
    pub fn group_stripes(&self) -> u32 {
        match self.placement {
            Placement::Near => self.ring_stripes.div_ceil(self.groups),
            _ => 1,
        }
    }

    /// How many rings a group polls at most. Several stripes of a ring count as several rings.
    pub(super) fn polled_rings(&self) -> u32 {
        self.rings * self.group_stripes()
    }

    /// How many slots all stripes of this placement have.
    pub fn slot_count(&self) -> u32 {
        self.stripe_count() << self.log2_slots
    }
}

/// The slots of a session by placement. The slots of a drained batch are far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotBanks {
    /// All rings are near.
    Near(SlotBank),
    /// All rings are far.
    Far(SlotBank),
    /// Each ring has near and far stripes.
    Both {
        /// The near stripes, which are numbered first.
        near: SlotBank,
        /// The far stripes.
        far: SlotBank,
    },
}

impl SlotBanks {
    /// Where the rings lie.
    pub fn placement(&self) -> Placement {
        match self {
            SlotBanks::Near(_) => Placement::Near,
            SlotBanks::Far(_) => Placement::Far,
            SlotBanks::Both { .. } => Placement::Both,
        }
    }

    /// The near slots, if there are any.
    pub fn near(&self) -> Option<&SlotBank> {
        match self {
            SlotBanks::Near(near) | SlotBanks::Both { near, .. } => Some(near),
            SlotBanks::Far(_) => None,
        }
    }

    /// The far slots, if there are any.
    pub fn far(&self) -> Option<&SlotBank> {
        match self {
            SlotBanks::Far(far) | SlotBanks::Both { far, .. } => Some(far),
            SlotBanks::Near(_) => None,
        }
    }

    /// The same slots, served by another number of groups.
    pub(super) fn with_workers(self, workers: u32) -> SlotBanks {
        match self {
            SlotBanks::Near(near) => SlotBanks::Near(SlotBank { groups: workers, ..near }),
            SlotBanks::Far(far) => SlotBanks::Far(SlotBank { groups: workers, ..far }),
            SlotBanks::Both { near, far } => {
                let groups = near_groups(workers).min(near.ring_stripes);
                let far = SlotBank { groups: workers - groups, ..far };
                SlotBanks::Both { near: SlotBank { groups, ..near }, far }
            }
        }
    }

    /// The fewest and the most groups that can serve these slots. A near stripe is polled by one group at most.
    pub(crate) fn worker_range(&self) -> RangeInclusive<u32> {
        match self {
            SlotBanks::Near(near) => 1..=near.ring_stripes,
            SlotBanks::Far(_) => 1..=u32::MAX,
            SlotBanks::Both { .. } => 2..=u32::MAX,
        }
    }

    /// The slots of each placement that there is, near ones first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SlotBank> {
        self.near().into_iter().chain(self.far())
    }
}

/// A stripe has at least this many slots, unless its whole ring has fewer.
const MIN_STRIPE_SLOTS: u32 = 16;

/// Chooses where rings lie: where the `Spec` asks for, or else where it suits the device best.
pub(super) fn choose_placement(spec: &Spec, caps: &Caps) -> Result<Placement, AssembleError> {
    let refuse = |value, why| Err(AssembleError::Axis { axis: "placement", value, why });
    // Both placements need two groups that run tasks, and the router besides.
    let room = u64::from(caps.resident) * u64::from(spec.share) / 100;
    let serial = spec.order == TaskOrder::Serial;
    let few = serial || spec.geometry.groups.map_or(room < 3, |groups| groups < 2);
    let suits = |placement: &&Placement| !few || **placement != Placement::Both;
    match spec.placement {
        _ if spec.lifetime == Lifetime::Drain => Ok(Placement::Far),
        None => Ok(*Placement::available(caps).iter().find(suits).unwrap_or(&Placement::Far)),
        Some(Placement::Both) if few => refuse("both", "it takes two groups that run tasks"),
        Some(placement) if placement == Placement::Far || placement.is_available(caps) => Ok(placement),
        Some(Placement::Near) => refuse("near", "the device has no memory for near rings"),
        Some(_) => refuse("both", "the device has no memory for near rings"),
    }
}

/// One in this many groups serves near rings, where there are far rings too. Few are enough, because single tasks end
/// soon, and computations need the other groups.
const NEAR_SHARE: u32 = 16;

/// How many of a session's groups serve near rings, where there are far rings too.
fn near_groups(workers: u32) -> u32 {
    (workers / NEAR_SHARE).max(1)
}

/// Works out the slots of a session by placement.
pub(super) fn session_banks(
    spec: &Spec,
    caps: &Caps,
    placement: Placement,
    (workers, rings): (u32, u32),
) -> Result<SlotBanks, AssembleError> {
    let slots = spec.geometry.slots;
    // A device with memory of its own has many groups unless the `Spec` names a number. They divide a ring's slots
    // among them, because a ring per group would be large.
    let many = caps.memory_bytes.is_some() && spec.geometry.groups.is_none();
    let shared = |stripes: u32| slots.div_ceil(stripes).next_power_of_two().max(MIN_STRIPE_SLOTS).min(slots);
    match placement {
        Placement::Near => {
            let slots = if many { shared(workers) } else { slots };
            Ok(SlotBanks::Near(slot_bank((Placement::Near, workers, slots), rings, None)?))
        }
        Placement::Far => Ok(SlotBanks::Far(slot_bank((Placement::Far, workers, slots), rings, None)?)),
        Placement::Both => {
            let groups = near_groups(workers);
            let near = slot_bank((Placement::Near, groups, shared(groups)), rings, None)?;
            let far = slot_bank((Placement::Far, workers - groups, slots), rings, Some(&near))?;
            Ok(SlotBanks::Both { near, far })
        }
    }
}

/// Works out the slots of a drained batch, which is one ring for all tenants.
pub(super) fn batch_bank(workers: u32, slots: u32) -> Result<SlotBanks, AssembleError> {
    Ok(SlotBanks::Far(slot_bank((Placement::Far, workers, slots), 1, None)?))
}

/// Works out the slots of one placement. They are numbered after those of the placement `before`, if there is one.
fn slot_bank(
    (placement, groups, slots): (Placement, u32, u32),
    rings: u32,
    before: Option<&SlotBank>,
) -> Result<SlotBank, AssembleError> {
    let ring_stripes = if placement == Placement::Near { groups } else { 1 };
    let (first_stripe, first_slot) = before.map_or((0, 0), |bank| {
        (bank.first_stripe + bank.stripe_count(), bank.first_slot + bank.slot_count())
    });
    let all = u64::from(first_slot) + u64::from(rings) * u64::from(ring_stripes) * u64::from(slots);
    check_addressed("the number of words of all rings", all * (slot::WORDS / 2) as u64)?;
    let log2_slots = slots.ilog2();
    Ok(SlotBank { placement, groups, ring_stripes, log2_slots, rings, first_stripe, first_slot })
}
