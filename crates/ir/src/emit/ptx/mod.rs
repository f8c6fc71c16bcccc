//! The emitter of PTX, the assembly language of NVIDIA's GPUs.
//!
//! A kernel becomes one `.entry`. A lane becomes a thread, a subgroup a warp, and a group a block. Each value has its
//! own virtual register, and moves pass the carried values of loops and the results of regions. Regions become labels
//! and branches, which are `.uni` where the validator proved that all lanes of a warp go the same way. ptxas allocates
//! registers and schedules instructions.
//!
//! # The launch record
//!
//! The one parameter `launch` is a record that is passed by value. It says where the kernel finds its buffers, until
//! when it may run, and where it leaves its *end record*. The end record tells the host of traps and faults, and the
//! host asks the kernel there to stop. [`abi`] lists the words of both records.
//!
//! # How a launch ends
//!
//! **Where lanes look.** At the back-edge of every loop but brief ones, a lane reads the stop word once every few
//! turns. The word lies in the GPU's own memory. A loop of plain arithmetic has hundreds of turns between two looks, and
//! a loop in which lanes wait or meet has few. A loop that counts by one is cut into stretches instead, so that its turns
//! cost nothing more. Now and then a look also reads the clock. Only when the limit has passed does it read the lease
//! across the bus, and if the lease has run out too, it sets the stop word.
//!
//! **Leaving is `exit`.** PTX lets barriers and warp ops go on without threads that have exited, so no lane waits for a
//! lane that has left. But lanes that meet without it must not go on with what they got, because in the language they
//! would not have met. They find out by counting. A barrier that a lane may have left before counts the lanes that came
//! (`barrier.red.popc`), and a warp op in a warp that a single lane may have left asks which lanes are there. A lane that
//! finds another one missing exits as well. Where the shape of the program shows that no lane can have left, nothing is
//! counted.
//!
//! **A warp leaves as one** where it runs as one. The lanes of a warp that turn a loop together vote on leaving it, if
//! there is a warp op that could miss some of them. The kernel never uses PTX's `trap`, because it would cost the
//! process its context.
//!
//! # Memory
//!
//! Orders and scopes are PTX's own. Plain accesses to host buffers are relaxed accesses at system scope, because they
//! must not be cached. Plain loads of buffers that are never written go through the read-only cache. ptxas deletes a load
//! whose value is not used, whatever its order, so an acquire whose value is not used is emitted as a fence.

pub mod abi;
mod control;
mod fixed;
mod group;
mod leave;
mod live;
mod lower;
mod memory;
mod moves;
mod pure;
mod repeat;
mod write;

use std::fmt;
use std::str::FromStr;

use self::abi::launch;
use super::{EmitError, FlatKernel};
use crate::arena::{Buffer, Handle};
use crate::module::Site;
use crate::op::Op;
use crate::types::Space;
use crate::valid::Valid;

/// The most lanes that a group may have.
pub const MAX_LANES: u32 = 1024;

/// The most buffers for which a launch record has room.
pub const MAX_PARAMS: usize = 250;

/// The most bytes of shared memory that a kernel can have without asking for them at launch.
const STATIC: u32 = 48 << 10;
/// The number of lanes for which the registers of a multiprocessor must suffice. Without this bound, ptxas spills
/// registers to make room for more lanes.
const RESIDENT: u32 = 1024;

/// A generation of GPUs. PTX that is emitted for it runs on it and on later ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum PtxTarget {
    Sm80,
    Sm90,
    Sm100,
}

impl PtxTarget {
    /// Every target, from the oldest to the newest.
    pub const ALL: &[PtxTarget] = &[PtxTarget::Sm80, PtxTarget::Sm90, PtxTarget::Sm100];

    /// Returns the name of the target in PTX, such as `sm_90`.
    pub const fn name(self) -> &'static str {
        match self {
            PtxTarget::Sm80 => "sm_80",
            PtxTarget::Sm90 => "sm_90",
            PtxTarget::Sm100 => "sm_100",
        }
    }

    /// Returns the first version of PTX that has every instruction that is emitted for the target.
    const fn version(self) -> &'static str {
        match self {
            PtxTarget::Sm80 | PtxTarget::Sm90 => "8.0",
            PtxTarget::Sm100 => "8.6",
        }
    }
}

impl fmt::Display for PtxTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PtxTarget {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        PtxTarget::ALL.iter().copied().find(|target| target.name() == name).ok_or(())
    }
}

/// The target and the geometry for which PTX is emitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PtxConfig {
    /// The generation of GPUs.
    pub target: PtxTarget,
    /// The number of lanes of a group.
    pub lanes: u32,
}

/// A kernel in PTX, and what the host must know to launch it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ptx {
    /// The text of the PTX module, for ptxas or the driver.
    pub text: String,
    /// The name of the entry.
    pub entry: String,
    /// The bytes of shared memory that a group takes.
    pub shared: u32,
    /// The bytes of shared memory that the launch must ask for, which is either all of them or none.
    pub dynamic: u32,
    /// The buffers of the launch record, in order.
    pub params: Vec<PtxParam>,
    /// The instructions of the given module that the site numbers in the end record stand for.
    pub sites: Vec<Site>,
    /// Whether a group of the kernel may wait for another group, so that all groups of a launch must run at once.
    pub may_wait: bool,
}

/// A buffer in the launch record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PtxParam {
    /// The buffer.
    pub buffer: Buffer,
    /// The index of the word that holds the buffer's address. The next word holds its length.
    pub word: u32,
}

impl Ptx {
    /// Returns the size of the launch record in bytes.
    pub fn launch_bytes(&self) -> usize {
        size(self.params.len())
    }
}

fn size(params: usize) -> usize {
    8 * (launch::BUFFERS + 2 * params)
}

/// Emits the kernel with the given name or, if no name is given, the module's only kernel.
pub fn emit_ptx(module: &Valid, kernel: Option<&str>, config: &PtxConfig) -> Result<Ptx, EmitError> {
    if !(1..=MAX_LANES).contains(&config.lanes) {
        return Err(EmitError::Lanes { lanes: config.lanes, most: MAX_LANES });
    }
    let flat = FlatKernel::new(module, module.choose_kernel(kernel)?)?;
    for (inst, node) in flat.function().insts() {
        if matches!(node.op, Op::AsyncLoad | Op::AsyncWait) {
            let site = flat.sites[inst.index()];
            return Err(EmitError::Op { op: node.op, site });
        }
    }
    let bound = module.buffers.iter().filter(|(_, decl)| decl.space != Space::Shared);
    let params: Vec<PtxParam> = bound
        .enumerate()
        .map(|(k, (buffer, _))| PtxParam { buffer, word: (launch::BUFFERS + 2 * k) as u32 })
        .collect();
    if params.len() > MAX_PARAMS {
        return Err(EmitError::Buffers { count: params.len(), most: MAX_PARAMS });
    }
    let lowered = lower::lower(&flat, *config, &params);
    Ok(Ptx {
        text: lowered.text,
        entry: lowered.entry,
        shared: lowered.shared,
        dynamic: if lowered.shared > STATIC { lowered.shared } else { 0 },
        params,
        may_wait: flat.may_wait(),
        sites: flat.sites,
    })
}
