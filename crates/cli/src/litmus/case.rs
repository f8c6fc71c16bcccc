//! The cases: a kernel, what the host does beside it, and the twin whose orders are relaxed.

use pelton_device::Caps;

use super::host::{self, Partner};

/// A case.
pub struct Case {
    pub name: &'static str,
    /// The kernel.
    pub text: &'static str,
    /// What the host does meanwhile.
    pub partner: Partner,
    pub shape: Shape,
    /// What the second half of its tally counts: something that is allowed, and says that there was a race at all.
    pub beside: &'static str,
}

/// How the cells of a case lie on groups and lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
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

pub const CASES: [Case; 8] = [
    Case {
        name: "host to device, far",
        text: include_str!("kernels/far.pel"),
        partner: host::far,
        shape: Shape::Cells,
        beside: "waited for",
    },
    Case {
        name: "host to device, near",
        text: include_str!("kernels/near.pel"),
        partner: host::lines,
        shape: Shape::Lines,
        beside: "waited for",
    },
    Case {
        name: "host to device, near, by eight lanes",
        text: include_str!("kernels/line.pel"),
        partner: host::lines,
        shape: Shape::Octets,
        beside: "waited for",
    },
    Case {
        name: "device to host, flag",
        text: include_str!("kernels/back.pel"),
        partner: host::back,
        shape: Shape::Cells,
        beside: "waited for",
    },
    Case {
        name: "device to host, record",
        text: include_str!("kernels/record.pel"),
        partner: host::back,
        shape: Shape::Cells,
        beside: "waited for",
    },
    Case {
        name: "device to device",
        text: include_str!("kernels/message.pel"),
        partner: host::idle,
        shape: Shape::Pairs,
        beside: "waited for",
    },
    Case {
        name: "publish and claim",
        text: include_str!("kernels/claim.pel"),
        partner: host::publish,
        shape: Shape::Routed,
        beside: "claimed",
    },
    Case {
        name: "store buffering",
        text: include_str!("kernels/buffering.pel"),
        partner: host::idle,
        shape: Shape::Pairs,
        beside: "both saw",
    },
];

impl Shape {
    /// Whether the host writes lines.
    pub fn near(self) -> bool {
        matches!(self, Shape::Lines | Shape::Octets)
    }

    /// Groups and lanes that suit a device.
    pub fn geometry(self, caps: &Caps) -> (u32, u32) {
        let own = caps.memory_bytes.is_some();
        let lanes = if own { caps.lanes } else { 8 };
        let groups = match self {
            // Groups wait for each other, so all of them must be resident: these are half of what a GPU holds at most.
            Shape::Pairs if own => caps.units * 2,
            // More would only wait for the host.
            _ if own => 32,
            Shape::Pairs => 2,
            _ => 1,
        };
        (groups + u32::from(self == Shape::Routed), lanes)
    }

    /// How many cells so many groups and lanes have.
    pub fn cells(self, groups: u32, lanes: u32) -> u32 {
        match self {
            Shape::Lines | Shape::Cells => groups * lanes,
            Shape::Octets => groups * lanes / 8,
            Shape::Pairs => groups / 2 * lanes,
            Shape::Routed => (groups - 1) * lanes,
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
