//! Where slots lie: near, far or both, how rings are cut there, and which groups serve them.

use pelton_device::{Caps, Placement};

use super::error::Refused;
use super::layout::addressed;
use super::spec::{Lifetime, Spec};
use crate::protocol::slot;

/// The slots of one placement: how rings are cut there, and where they stand among all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bed {
    /// Near or far.
    pub placement: Placement,
    /// Groups that run tasks of it.
    pub groups: u32,
    /// Stripes of a ring: a group each in near rings, one in far rings.
    pub stripes: u32,
    /// Slots of a stripe, as a power of two.
    pub log2: u32,
    /// Rings, each with its stripes.
    pub rings: u32,
    /// The number of its first stripe among all stripes.
    pub stripe: u32,
    /// The number of its first slot among all slots.
    pub slot: u32,
}

impl Bed {
    /// Slots of a stripe.
    pub fn slots(&self) -> u32 {
        1 << self.log2
    }

    /// Its stripes.
    pub fn all(&self) -> u32 {
        self.rings * self.stripes
    }

    /// Its slots.
    pub fn total(&self) -> u32 {
        self.all() << self.log2
    }
}

/// A stripe has at least so many slots, or all of its ring.
const LEAST: u32 = 16;

/// Where rings lie: where it is asked for, or where it suits the device.
pub(super) fn placement(spec: &Spec, caps: &Caps) -> Result<Placement, Refused> {
    let refuse = |value, why| Err(Refused::Axis { axis: "placement", value, why });
    // The router comes on top.
    let room = u64::from(caps.resident) * u64::from(spec.share) / 100;
    let few = spec.geometry.groups.map_or(room < 3, |groups| groups < 2);
    let suits = |placement: &&Placement| !few || **placement != Placement::Both;
    match spec.placement {
        _ if spec.lifetime == Lifetime::Drain => Ok(Placement::Far),
        None => Ok(*caps.placements.iter().find(suits).unwrap_or(&Placement::Far)),
        Some(Placement::Both) if few => refuse("both", "it takes two groups that run tasks"),
        Some(placement) if placement == Placement::Far || caps.placements.contains(&placement) => {
            Ok(placement)
        }
        Some(Placement::Near) => refuse("near", "the device has no such memory"),
        Some(_) => refuse("both", "the device has no memory for near rings"),
    }
}

/// One in so many groups serves near rings, where there are far ones too: single tasks are soon done, and whoever computes wants the rest.
const HOME: u32 = 16;

/// The slots of a session by placement.
pub(super) fn all(
    spec: &Spec,
    caps: &Caps,
    placement: Placement,
    (workers, rings): (u32, u32),
) -> Result<Vec<Bed>, Refused> {
    let slots = spec.geometry.slots;
    // As many groups as suit a device with memory of its own are many: they share a ring's slots out.
    let many = caps.memory_bytes.is_some() && spec.geometry.groups.is_none();
    let shared = |stripes: u32| slots.div_ceil(stripes).next_power_of_two().max(LEAST).min(slots);
    let near = (workers / HOME).max(1);
    let parts = match placement {
        Placement::Near if many => vec![(Placement::Near, workers, shared(workers))],
        Placement::Both => {
            vec![(Placement::Near, near, shared(near)), (Placement::Far, workers - near, slots)]
        }
        one => vec![(one, workers, slots)],
    };
    let mut beds: Vec<Bed> = Vec::new();
    for part in parts {
        let next = one(part, rings, beds.last())?;
        beds.push(next);
    }
    Ok(beds)
}

/// The slots of one placement, after those of another.
pub(super) fn one(
    (placement, groups, slots): (Placement, u32, u32),
    rings: u32,
    before: Option<&Bed>,
) -> Result<Bed, Refused> {
    let stripes = if placement == Placement::Near { groups } else { 1 };
    let (stripe, slot) = before.map_or((0, 0), |bed| (bed.stripe + bed.all(), bed.slot + bed.total()));
    let all = u64::from(slot) + u64::from(rings) * u64::from(stripes) * u64::from(slots);
    addressed("the number of words of all rings", all * (slot::WORDS / 2) as u64)?;
    Ok(Bed { placement, groups, stripes, log2: slots.ilog2(), rings, stripe, slot })
}
