//! The cases: a kernel, what the host does meanwhile, and the twin whose orders are relaxed.

use pelton_device::Caps;

use super::host::{self, Partner};

/// A case of the litmus test.
pub(super) struct LitmusCase {
    pub name: &'static str,
    /// The text of the kernel.
    pub text: &'static str,
    /// What the host does while the kernel runs.
    pub partner: Partner,
    pub shape: CaseShape,
    /// What the second half of the tally counts: an allowed outcome, which shows that there was a race at all.
    pub beside: &'static str,
}

/// How the cells of a case are laid out on groups and lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CaseShape {
    /// One lane per cell, with lines that the host writes.
    Lines,
    /// Eight lanes per cell, with lines that the host writes.
    Octets,
    /// One lane per cell.
    Cells,
    /// Two lanes per cell, from two groups.
    Pairs,
    /// One lane per cell, and one more group that routes.
    Routed,
}

pub(super) const CASES: [LitmusCase; 8] = [
    LitmusCase {
        name: "host to device, far",
        text: include_str!("kernels/far.pel"),
        partner: host::play_far,
        shape: CaseShape::Cells,
        beside: "waited for",
    },
    LitmusCase {
        name: "host to device, near",
        text: include_str!("kernels/near.pel"),
        partner: host::play_lines,
        shape: CaseShape::Lines,
        beside: "waited for",
    },
    LitmusCase {
        name: "host to device, near, by eight lanes",
        text: include_str!("kernels/line.pel"),
        partner: host::play_lines,
        shape: CaseShape::Octets,
        beside: "waited for",
    },
    LitmusCase {
        name: "device to host, flag",
        text: include_str!("kernels/back.pel"),
        partner: host::play_back,
        shape: CaseShape::Cells,
        beside: "waited for",
    },
    LitmusCase {
        name: "device to host, record",
        text: include_str!("kernels/record.pel"),
        partner: host::play_back,
        shape: CaseShape::Cells,
        beside: "waited for",
    },
    LitmusCase {
        name: "device to device",
        text: include_str!("kernels/message.pel"),
        partner: host::play_idle,
        shape: CaseShape::Pairs,
        beside: "waited for",
    },
    LitmusCase {
        name: "publish and claim",
        text: include_str!("kernels/claim.pel"),
        partner: host::play_publish,
        shape: CaseShape::Routed,
        beside: "claimed",
    },
    LitmusCase {
        name: "store buffering",
        text: include_str!("kernels/buffering.pel"),
        partner: host::play_idle,
        shape: CaseShape::Pairs,
        beside: "both saw",
    },
];

impl CaseShape {
    /// Whether the host writes lines.
    pub(super) fn near(self) -> bool {
        matches!(self, CaseShape::Lines | CaseShape::Octets)
    }

    /// The numbers of groups and of lanes per group that suit a device.
    pub(super) fn geometry(self, caps: &Caps) -> (u32, u32) {
        let own = caps.memory_bytes.is_some();
        let lanes = if own { caps.lanes } else { 8 };
        let groups = match self {
            // Groups wait for each other, so all of them must be resident: this is at most half of what a GPU
            // holds.
            CaseShape::Pairs if own => caps.units * 2,
            // More groups would only wait for the host.
            _ if own => 32,
            CaseShape::Pairs => 2,
            _ => 1,
        };
        (groups + u32::from(self == CaseShape::Routed), lanes)
    }

    /// The number of cells for these numbers of groups and lanes.
    pub(super) fn cells(self, groups: u32, lanes: u32) -> u32 {
        match self {
            CaseShape::Lines | CaseShape::Cells => groups * lanes,
            CaseShape::Octets => groups * lanes / 8,
            CaseShape::Pairs => groups / 2 * lanes,
            CaseShape::Routed => (groups - 1) * lanes,
        }
    }
}

/// The text of a kernel with every order relaxed and every fence removed.
pub(super) fn weaken(text: &str) -> String {
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("fence "));
    let relaxed = kept.map(|line| match line.trim_start().starts_with(';') {
        true => line.into(),
        false => line.replace(" acquire ", " relaxed ").replace(" release ", " relaxed "),
    });
    relaxed.flat_map(|line: String| [line, "\n".into()]).collect()
}
