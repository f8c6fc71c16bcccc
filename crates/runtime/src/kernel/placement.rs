//! Where the rings of a session lie.

use std::fmt;

use pelton_device::Caps;

/// Where the rings of a session lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// The rings lie in memory that is close to the groups that poll it. A single task is then answered soonest.
    Near,
    /// The rings lie in host memory, which one group, the router, polls for all others. Many producers can then submit
    /// the most tasks per second.
    Far,
    /// There are rings in both memories. Some groups poll near rings, and one of the others polls far rings for the
    /// rest.
    Both,
}

impl Placement {
    /// The placements that a device can have, the one that suits it best first.
    ///
    /// Far rings are always possible. The other placements need memory that the host writes and the device polls at
    /// home ([`Caps::near_memory`]). A device with memory of its own does best with both, because far rings take more
    /// tasks from many producers and near rings answer sooner. A device that works in the host's memory polls it at
    /// home anyway, so near rings are best there.
    pub const fn available(caps: &Caps) -> &'static [Placement] {
        match (&caps.near_memory, caps.memory_bytes) {
            (Err(_), _) => &[Placement::Far],
            (Ok(()), Some(_)) => &[Placement::Both, Placement::Far, Placement::Near],
            (Ok(()), None) => &[Placement::Near, Placement::Far, Placement::Both],
        }
    }

    /// Whether a device can have rings with this placement.
    pub fn is_available(self, caps: &Caps) -> bool {
        Placement::available(caps).contains(&self)
    }

    /// The word that specs and reports use for the placement: `near`, `far` or `both`.
    pub const fn word(self) -> &'static str {
        match self {
            Placement::Near => "near",
            Placement::Far => "far",
            Placement::Both => "both",
        }
    }
}

/// Writes the placement as an adjective of rings: `near`, `far`, or `near and far`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Placement::Both { "near and far" } else { self.word() })
    }
}

#[cfg(test)]
mod tests {
    use pelton_device::open;

    use super::*;

    #[test]
    fn the_memory_of_a_device_decides_where_rings_can_lie() {
        let host = open("reference").expect("it is always there").caps().clone();
        assert_eq!(Placement::available(&host)[0], Placement::Near);
        let apart = Caps { memory_bytes: Some(1), ..host.clone() };
        assert_eq!(Placement::available(&apart)[0], Placement::Both);
        let far = Caps { near_memory: Err("there is none".into()), ..apart };
        assert_eq!(Placement::available(&far), [Placement::Far]);
        assert!(Placement::Far.is_available(&far) && !Placement::Near.is_available(&far));
    }
}
