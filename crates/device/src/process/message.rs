//! What a host and its executor say to each other.
//!
//! The host numbers everything: memory, compiled code, kernels and runs. So it can ask for a thing and go on using its number,
//! and it can ask several executors for the same.

use std::borrow::Cow;
use std::time::Duration;

use pelton_ir::arena::Handle;
use pelton_ir::module::Site;
use pelton_ir::types::Scope;
use pelton_ir::valid::Valid;
use serde::{Deserialize, Serialize};

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::launch::{Fault, LaunchEnd, LaunchOutcome};
use crate::mapped::WordWidth;

/// The version of these messages. A host and an executor of different versions refuse each other.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), ".1");

/// The number that the host gives to a thing at the executor.
pub(super) type Number = u64;

/// What the host wants.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Wish {
    /// Open a device. This is the first message, and brings two files: the place for copies and the words for waking.
    Open { version: String, device: String, losable: bool, host: u32 },
    /// Allocate memory of the device.
    Alloc { memory: Number, wide: bool, len: usize },
    /// Map memory of the host. The message brings the file.
    Map { memory: Number, wide: bool, len: usize },
    /// Free memory, or unmap it.
    Free { memory: Number },
    /// Copy words from the place for copies to memory.
    Upload { memory: Number, at: usize, count: usize },
    /// Copy words from memory to the place for copies.
    Download { memory: Number, at: usize, count: usize },
    /// Compile a kernel of a module, which is given as text.
    Compile { code: Number, module: String, kernel: Option<String>, lanes: u32 },
    /// Load a kernel that was compiled.
    Load { code: Number, kernel: Number },
    /// Forget a kernel that was compiled.
    DropCode { code: Number },
    /// Forget a kernel that was loaded.
    DropKernel { kernel: Number },
    /// Launch a kernel.
    Launch(LaunchWish),
    /// End a run.
    Stop { run: Number },
    /// Wake the groups of a run that are parked. The host has begun the epoch.
    Notify { run: Number },
    /// Start the lease of a run anew.
    Renew { run: Number },
    /// Forget a run that has ended.
    DropRun { run: Number },
    /// Lose the device, which was opened for that.
    Lose,
    /// Say that the executor is alive.
    Ping,
}

/// How a kernel is to be launched.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchWish {
    pub run: Number,
    pub kernel: Number,
    pub groups: u32,
    pub buffers: Vec<Option<Number>>,
    pub deadline: Option<Duration>,
    pub lease: Option<Duration>,
    /// Which of the words for waking the launch has.
    pub wake_word: usize,
}

/// A wish with the number under which it is answered. Wishes without a number are not answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub answer: Option<Number>,
    pub wish: Wish,
}

/// What the executor says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The answer to the request of this number.
    Answer { answer: Number, result: Result<Given, RemoteError> },
    /// A run has ended. `stopped` says whether no kernel of the executor can write another word, because its driver has
    /// reported a fault of the whole device.
    Ended { run: Number, result: Result<RemoteEnd, RemoteError>, stopped: bool },
}

/// What a wish gives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Given {
    Nothing,
    /// The device is open.
    Opened(RemoteCaps),
    /// A kernel is loaded, and so many of its groups progress together.
    Loaded {
        resident: u32,
    },
}

/// What the device of an executor can do. See [`Caps`].
#[allow(clippy::struct_excessive_bools, reason = "each of them is a fact that is independent of the others")]
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RemoteCaps {
    about: String,
    persistent: bool,
    scope: usize,
    subgroup: u32,
    independent_subgroups: bool,
    lanes: u32,
    max_lanes: u32,
    groups: u32,
    resident: u32,
    units: u32,
    memory_bytes: u64,
    shared_bytes: usize,
    wakes: bool,
    async_copies: bool,
    /// Whether the device loads code only between kernels.
    pub loads_between_kernels: bool,
}

/// All scopes, by their numbers in messages.
const SCOPES: [Scope; 3] = [Scope::Group, Scope::Device, Scope::System];

impl RemoteCaps {
    /// Describes a device to the host. `memory_bytes` is how much memory the executor has for the device's own.
    pub(super) fn new(caps: &Caps, memory_bytes: u64) -> Self {
        RemoteCaps {
            about: caps.about.clone(),
            persistent: caps.persistent,
            scope: SCOPES.iter().position(|scope| *scope == caps.scope).unwrap_or(SCOPES.len() - 1),
            subgroup: caps.subgroup,
            independent_subgroups: caps.independent_subgroups,
            lanes: caps.lanes,
            max_lanes: caps.max_lanes,
            groups: caps.groups,
            resident: caps.resident,
            units: caps.units,
            memory_bytes: caps.memory_bytes.unwrap_or(memory_bytes),
            shared_bytes: caps.shared_bytes,
            wakes: caps.wakes,
            async_copies: caps.async_copies,
            loads_between_kernels: caps.name.starts_with("cuda"),
        }
    }

    /// Returns what the device can do, as the host sees it.
    pub(super) fn caps(&self, name: String) -> Caps {
        let near =
            "a device in another process has none: reaching it would load the driver into this process";
        Caps {
            name,
            about: format!("{}, in a process of its own", self.about),
            persistent: self.persistent,
            scope: SCOPES.get(self.scope).copied().unwrap_or(Scope::System),
            subgroup: self.subgroup,
            independent_subgroups: self.independent_subgroups,
            lanes: self.lanes,
            max_lanes: self.max_lanes,
            groups: self.groups,
            resident: self.resident,
            units: self.units,
            memory_bytes: Some(self.memory_bytes),
            shared_bytes: self.shared_bytes,
            wakes: self.wakes,
            near_memory: Err(near.into()),
            async_copies: self.async_copies,
        }
    }
}

/// How a run has ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RemoteEnd {
    outcome: RemoteOutcome,
    fault: Option<RemoteFault>,
}

/// See [`LaunchOutcome`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum RemoteOutcome {
    Done,
    Stopped,
    Deadline,
    Lease,
}

/// An instruction, by the numbers of its function and of itself.
type RemoteSite = (u32, u32);

/// See [`Fault`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RemoteFault {
    code: u32,
    site: RemoteSite,
    count: u64,
}

fn site_of((func, inst): RemoteSite) -> Site {
    Site { func: Handle::new(func as usize), inst: Handle::new(inst as usize) }
}

fn numbers_of(site: Site) -> RemoteSite {
    (site.func.index() as u32, site.inst.index() as u32)
}

/// Whether a module has an instruction.
fn has_site(module: &Valid, (func, inst): RemoteSite) -> bool {
    let found = module.functions.iter().nth(func as usize);
    found.is_some_and(|(_, function)| (inst as usize) < function.insts().len())
}

impl From<Fault> for RemoteFault {
    fn from(fault: Fault) -> Self {
        RemoteFault { code: fault.code, site: numbers_of(fault.site), count: fault.count }
    }
}

impl From<RemoteFault> for Fault {
    fn from(fault: RemoteFault) -> Self {
        Fault { code: fault.code, site: site_of(fault.site), count: fault.count }
    }
}

impl From<LaunchEnd> for RemoteEnd {
    fn from(end: LaunchEnd) -> Self {
        let outcome = match end.outcome {
            LaunchOutcome::Done => RemoteOutcome::Done,
            LaunchOutcome::Stopped => RemoteOutcome::Stopped,
            LaunchOutcome::Deadline => RemoteOutcome::Deadline,
            LaunchOutcome::Lease => RemoteOutcome::Lease,
        };
        RemoteEnd { outcome, fault: end.fault.map(RemoteFault::from) }
    }
}

impl From<RemoteEnd> for LaunchEnd {
    fn from(end: RemoteEnd) -> Self {
        let outcome = match end.outcome {
            RemoteOutcome::Done => LaunchOutcome::Done,
            RemoteOutcome::Stopped => LaunchOutcome::Stopped,
            RemoteOutcome::Deadline => LaunchOutcome::Deadline,
            RemoteOutcome::Lease => LaunchOutcome::Lease,
        };
        LaunchEnd { outcome, fault: end.fault.map(Fault::from) }
    }
}

/// Why the executor did not do what was asked. These are the errors that callers decide by; all others are texts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum RemoteError {
    Absent { name: String, why: String },
    Op { device: String, op: String, site: RemoteSite },
    Limit { device: String, what: String, found: u64, most: u64 },
    Memory { device: String, what: String },
    Exhausted { bytes: u64 },
    Fault { code: u32, site: RemoteSite, recorded: Option<RemoteFault> },
    Codegen(String),
    Driver { call: String, status: String },
    Busy { what: String },
    Lost(String),
    Other(String),
}

impl From<DeviceError> for RemoteError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Absent { name, why } => RemoteError::Absent { name, why },
            DeviceError::Op { device, op, site } => {
                RemoteError::Op { device, op: op.into_owned(), site: numbers_of(site) }
            }
            DeviceError::Limit { device, what, found, most } => {
                RemoteError::Limit { device, what: what.into_owned(), found, most }
            }
            DeviceError::Memory { device, what } => RemoteError::Memory { device, what: what.into_owned() },
            DeviceError::Exhausted { bytes } => RemoteError::Exhausted { bytes },
            DeviceError::Fault { code, site, recorded, .. } => {
                RemoteError::Fault { code, site: numbers_of(site), recorded: recorded.map(RemoteFault::from) }
            }
            DeviceError::Codegen(why) => RemoteError::Codegen(why),
            DeviceError::Driver { call, status } => RemoteError::Driver { call: call.into_owned(), status },
            DeviceError::Busy { what } => RemoteError::Busy { what: what.into_owned() },
            DeviceError::Lost(why) => RemoteError::Lost(why),
            DeviceError::Executor(why) => RemoteError::Other(why),
            other => RemoteError::Other(other.to_string()),
        }
    }
}

impl RemoteError {
    /// The error as the host sees it. `module` is the one whose kernel trapped.
    pub(super) fn into_error(self, module: Option<&Valid>) -> DeviceError {
        match self {
            RemoteError::Absent { name, why } => DeviceError::Absent { name, why },
            RemoteError::Op { device, op, site } => {
                DeviceError::Op { device, op: Cow::Owned(op), site: site_of(site) }
            }
            RemoteError::Limit { device, what, found, most } => {
                DeviceError::Limit { device, what: what.into(), found, most }
            }
            RemoteError::Memory { device, what } => DeviceError::Memory { device, what: what.into() },
            RemoteError::Exhausted { bytes } => DeviceError::Exhausted { bytes },
            RemoteError::Fault { code, site, recorded } => match module
                .filter(|module| has_site(module, site))
            {
                Some(module) => DeviceError::fault(module, (code, site_of(site)), recorded.map(Fault::from)),
                None => DeviceError::Executor(format!("a kernel trapped with code {code}")),
            },
            RemoteError::Codegen(why) => DeviceError::Codegen(why),
            RemoteError::Driver { call, status } => DeviceError::Driver { call: call.into(), status },
            RemoteError::Busy { what } => DeviceError::Busy { what: what.into() },
            RemoteError::Lost(why) => DeviceError::Lost(why),
            RemoteError::Other(why) => DeviceError::Executor(why),
        }
    }
}

/// Whether words are wide, as messages say it.
pub(super) fn is_wide(width: WordWidth) -> bool {
    width == WordWidth::W64
}

/// The width of words, from what messages say.
pub(super) fn width_of(wide: bool) -> WordWidth {
    if wide { WordWidth::W64 } else { WordWidth::W32 }
}
