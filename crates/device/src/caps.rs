//! What a device can do, as plain data.

use pelton_ir::types::Scope;

/// What a device can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caps {
    /// How `open` calls it.
    pub name: String,
    /// What it is, for people.
    pub about: String,
    /// Whether a kernel may stay for ever.
    pub persistent: bool,
    /// The widest scope at which it keeps orders; the host takes part in `System`.
    pub scope: Scope,
    /// Lanes in a subgroup.
    pub subgroup: u32,
    /// Whether subgroups of a group progress independently of each other.
    pub independent_subgroups: bool,
    /// Lanes a group that suit it.
    pub lanes: u32,
    /// The most lanes a group may have.
    pub max_lanes: u32,
    /// Groups a launch that suit it.
    pub groups: u32,
    /// Groups that progress together, if they have the lanes that suit it; of a larger launch the rest start as others
    /// end. A kernel knows [its own](crate::Kernel::resident).
    pub resident: u32,
    /// What its groups are spread over: cores or multiprocessors.
    pub units: u32,
    /// Bytes of memory of its own; none if it works in the host's.
    pub memory_bytes: Option<u64>,
    /// Bytes of shared memory a group may have.
    pub shared_bytes: usize,
    /// Whether [`wake`](crate::Run::wake) ends a `backoff`. Where it does not, kernels must not back off for long.
    pub wakes: bool,
    /// Whether there is [near memory](crate::MemoryKind::Near), which the host writes and the device polls at home. If there is
    /// none, the text says why.
    pub near_memory: Result<(), String>,
    /// Whether asynchronous copies run.
    pub async_copies: bool,
}
