//! What a device can do, as plain data.

use pelton_ir::types::Scope;

/// What a device can do: facts about the hardware and its driver, which [`Device::caps`](crate::Device::caps) returns.
///
/// Programs read these to choose how many groups and lanes to launch, where to put the memory that host and kernel
/// share, and whether a kernel may stay. Tests make values of their own to see which kernel is assembled for a device
/// that the machine does not have.
#[allow(clippy::struct_excessive_bools, reason = "each of them is a fact that is independent of the others")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caps {
    /// The name by which [`open`](crate::open) opens the device.
    pub name: String,
    /// A description of the device for people: its product name, size and driver.
    pub about: String,
    /// Whether a kernel may stay on the device for an unlimited time.
    pub persistent: bool,
    /// The widest scope at which the device keeps the order of memory accesses. The host takes part in
    /// [`Scope::System`] only.
    pub scope: Scope,
    /// How many lanes a subgroup has.
    pub subgroup: u32,
    /// Whether the subgroups of a group progress independently, so that one may wait for another.
    pub independent_subgroups: bool,
    /// How many lanes per group suit the device.
    pub lanes: u32,
    /// The largest number of lanes per group.
    pub max_lanes: u32,
    /// How many groups per launch suit the device.
    pub groups: u32,
    /// How many groups of [`lanes`](Caps::lanes) lanes progress together. The remaining groups of a larger launch start
    /// as others end. The number for a particular kernel, which may need more registers or memory, is
    /// [`Kernel::resident`](crate::Kernel::resident).
    pub resident: u32,
    /// How many cores or multiprocessors the groups of a launch are spread over.
    pub units: u32,
    /// How many bytes of memory the device has of its own, or `None` if it works in the host's memory.
    pub memory_bytes: Option<u64>,
    /// How many bytes of shared memory a group may have.
    pub shared_bytes: usize,
    /// Whether [`Run::wake`](crate::Run::wake) ends a `backoff`. Where it does not, a kernel that backs off for long
    /// finds new work late.
    pub wakes: bool,
    /// Whether there is [near memory](crate::MemoryKind::Near), which the host writes and the device polls without
    /// crossing the bus. If there is none, the text says why.
    pub near_memory: Result<(), String>,
    /// Whether the device runs asynchronous copies into shared memory.
    pub async_copies: bool,
}
