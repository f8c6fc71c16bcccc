//! The cases: a kernel, what the host does beside it, and the twin whose orders are relaxed.

use pelton_device::Caps;

use super::host::{self, Partner};

/// A case.
pub struct LitmusCase {
    pub name: &'static str,
    /// The kernel.
    pub text: &'static str,
    /// What the host does meanwhile.
    pub partner: Partner,
    pub shape: CaseShape,
    /// What the second half of its tally counts: something that is allowed, and says that there was a race at all.
    pub beside: &'static str,
}

/// How the cells of a case lie on groups and lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaseShape {
    /// A lane a cell, and lines that the host writes.
    Lines,
    /// Eight lanes a cell, and such lines.
    Octets,
    /// A lane a cell.
    Cells,
    /// Two lanes a cell, of two groups.
    Pairs,
    /// A lane a cell, and one group more.
    Routed,
}

pub const CASES: [LitmusCase; 8] = [
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
    pub fn near(self) -> bool {
        matches!(self, CaseShape::Lines | CaseShape::Octets)
    }

    /// Groups and lanes that suit a device.
    pub fn geometry(self, caps: &Caps) -> (u32, u32) {
        let own = caps.memory_bytes.is_some();
        let lanes = if own { caps.lanes } else { 8 };
        let groups = match self {
            // Groups wait for each other, so all of them must be resident: these are half of what a GPU holds at most.
            CaseShape::Pairs if own => caps.units * 2,
            // More would only wait for the host.
            _ if own => 32,
            CaseShape::Pairs => 2,
            _ => 1,
        };
        (groups + u32::from(self == CaseShape::Routed), lanes)
    }

    /// How many cells so many groups and lanes have.
    pub fn cells(self, groups: u32, lanes: u32) -> u32 {
        match self {
            CaseShape::Lines | CaseShape::Cells => groups * lanes,
            CaseShape::Octets => groups * lanes / 8,
            CaseShape::Pairs => groups / 2 * lanes,
            CaseShape::Routed => (groups - 1) * lanes,
        }
    }
}

/// A kernel with every order relaxed and no fence.
pub fn weaken(text: &str) -> String {
    let kept = text.lines().filter(|line| !line.trim_start().starts_with("fence "));
    let relaxed = kept.map(|line| match line.trim_start().starts_with(';') {
        true => line.into(),
        false => line.replace(" acquire ", " relaxed ").replace(" release ", " relaxed "),
    });
    relaxed.flat_map(|line: String| [line, "\n".into()]).collect()
}
