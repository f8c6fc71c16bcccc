//! What a launch of a kernel is given, and how it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pelton_ir::arena::{Buffer, Func};
pub use pelton_ir::interp::Fault;
use pelton_ir::link::check_bound;
use pelton_ir::module::Module;
use pelton_ir::types::{Len, Space};

use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::Memory;
use crate::residence::Residence;
use crate::view::View64;

/// How a kernel is launched: with how many groups, over which memory, and until when.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// How many groups run.
    pub groups: u32,
    /// The memory of each buffer, in the order of the module. Shared buffers have none.
    pub buffers: Vec<Option<Memory>>,
    /// How long after its start the launch is ended.
    pub deadline: Option<Duration>,
    /// How long the launch may run without a call of [`Run::renew`](crate::Run::renew).
    pub lease: Option<Duration>,
    /// How the owner of a kernel that stays is asked to make way for others.
    pub residence: Option<Arc<Residence>>,
    /// The word in which the launch says whether any of its groups is parked, if another process wakes it.
    pub wake_word: Option<WakeWord>,
}

/// A word in memory that several processes map, in which a launch says whether any of its groups is parked. It is zero when
/// the launch starts, and only devices whose groups park use it.
#[derive(Clone, Debug)]
pub struct WakeWord {
    words: Arc<View64>,
    at: usize,
}

impl WakeWord {
    /// The word with this number of a view, which must have it.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(words: View64, at: usize) -> Self {
        assert!(at < words.len(), "the view has no such word");
        WakeWord { words: Arc::new(words), at }
    }

    /// The word itself.
    #[inline]
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.words[self.at]
    }
}

impl Launch {
    /// Describes a launch of `groups` groups, without memory, deadline or lease.
    pub fn new(groups: u32) -> Self {
        Launch { groups, ..Launch::default() }
    }

    /// Binds memory to a buffer.
    pub fn bind(mut self, buffer: Buffer, memory: Memory) -> Self {
        let at = pelton_ir::arena::Handle::index(buffer);
        if self.buffers.len() <= at {
            self.buffers.resize(at + 1, None);
        }
        self.buffers[at] = Some(memory);
        self
    }

    /// Sets how long after its start the launch is ended.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Sets how long the launch may run without being [renewed](crate::Run::renew) before it is ended.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets how the owner of the kernel is asked to make way for others. Without this, nobody can load code on a device that does
    /// so only between kernels while this launch is under way.
    pub fn residence(mut self, residence: Arc<Residence>) -> Self {
        self.residence = Some(residence);
        self
    }

    /// Returns how often a thread that waits for the end of the launch should renew its lease, or `None` if it has no
    /// lease.
    pub fn beat(&self) -> Option<Duration> {
        self.lease.map(|lease| (lease / 4).max(Duration::from_millis(1)))
    }

    /// Returns the memory of each buffer of a module, or an error that says what is wrong with the bindings. Devices
    /// call this before they launch a kernel.
    pub fn bound(&self, module: &Module) -> Result<Vec<Option<&Memory>>, DeviceError> {
        if self.groups == 0 {
            let device = "every device".into();
            return Err(DeviceError::Limit {
                device,
                what: "the number of groups".into(),
                found: 0,
                most: u32::MAX.into(),
            });
        }
        let memory = |at| self.buffers.get(at).and_then(Option::as_ref);
        module
            .buffers
            .iter()
            .enumerate()
            .map(|(at, (_, decl))| {
                let wrong = |why: String| DeviceError::Binding { name: decl.name.clone(), why };
                let memory = match (decl.space, memory(at)) {
                    (Space::Shared, None) => return Ok(None),
                    (Space::Shared, Some(_)) => {
                        return Err(wrong(
                            "is shared: groups have their own, so nothing is bound to it".into(),
                        ));
                    }
                    (_, None) => return Err(wrong("has no memory bound to it".into())),
                    (_, Some(memory)) => memory,
                };
                if memory.width() != WordWidth::of(decl.elem) {
                    return Err(wrong(format!(
                        "holds {}, and the memory bound to it has other words",
                        decl.elem
                    )));
                }
                match decl.len {
                    Len::Fixed(len) if len != memory.len() as u64 => {
                        Err(wrong(format!("has {len} elements, and the memory bound to it {}", memory.len())))
                    }
                    Len::Launch if memory.len() > u32::MAX as usize => Err(wrong(format!(
                        "is bound to {} words, more than an index can reach",
                        memory.len()
                    ))),
                    _ => Ok(Some(memory)),
                }
            })
            .collect()
    }
}

/// Why a launch ended, if its kernel did not trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchOutcome {
    /// Every lane returned.
    Done,
    /// The launch was [stopped](crate::Run::stop).
    Stopped,
    /// The deadline of the launch passed.
    Deadline,
    /// The lease of the launch was not renewed in time.
    Lease,
}

/// Writes the reason as a clause that refers to the launch as "it".
impl fmt::Display for LaunchOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LaunchOutcome::Done => "every lane returned",
            LaunchOutcome::Stopped => "it was asked to stop",
            LaunchOutcome::Deadline => "its deadline passed",
            LaunchOutcome::Lease => "nobody renewed its lease",
        })
    }
}

/// How a launch ended. A kernel that trapped is an error instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchEnd {
    /// Why the launch ended.
    pub outcome: LaunchOutcome,
    /// The first fault that a lane recorded with `fault`, and how many there were.
    pub fault: Option<Fault>,
}

/// Chooses the kernel to load. A module with imports that are not bound is refused, because no device can load it.
pub(crate) fn kernel_to_load(module: &Module, name: Option<&str>) -> Result<Func, DeviceError> {
    check_bound(module)?;
    Ok(module.choose_kernel(name)?)
}
