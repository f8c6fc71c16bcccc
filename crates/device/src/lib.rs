//! Devices: what runs Pelton's kernels.
//!
//! A [`Device`] says what it can do ([`Caps`]), gives out [`Memory`], and loads a kernel of a validated module for a
//! number of lanes a group. A [`Kernel`] is launched with memory bound to the module's buffers; a [`Run`] is a launch
//! that is under way, perhaps for ever. Devices know nothing of rings, tasks or tenants.
//!
//! **Progress.** Up to [`Kernel::resident`] groups of a launch progress independently, so they may wait for each other.
//! Every launch can be stopped, has an optional deadline and an optional lease that the host renews, and ends in
//! bounded time after any of them: the back-edges of loops look. Dropping a `Run` stops it and waits.
//!
//! **Waking.** A kernel that finds nothing to do says `backoff`, and a device may park it there. Who publishes words
//! for a resident kernel calls [`Run::wake`] afterwards; it costs a fence and a load unless someone is parked.
//!
//! Architecture invariant: nothing here accepts a module that the validator did not hand out.

pub mod caps;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod error;
pub mod event;
pub mod launch;
pub mod mapped;
pub mod memory;
pub mod null;
pub mod reference;
mod timekeeper;
pub mod view;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pelton_ir::valid::Valid;

pub use caps::Caps;
pub use error::{DeviceError, Retry};
pub use launch::{Launch, LaunchEnd, LaunchOutcome};
pub use mapped::WordWidth;
pub use memory::{Memory, MemoryKind};
pub use view::{View, View32, View64};

/// Something that runs kernels.
pub trait Device: fmt::Debug + Send + Sync {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// Memory of `len` words, all zero.
    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError>;

    /// Compiles a kernel for groups of `lanes` lanes. Without a name, the module's only kernel.
    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError>;
}

/// A compiled kernel.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// How many of its groups progress together. Where groups may wait for each other, a device may refuse more.
    fn resident(&self) -> u32;

    /// Starts it.
    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError>;

    /// Runs it to its end. Whoever waits here keeps its lease.
    fn run(&self, launch: &Launch) -> Result<LaunchEnd, DeviceError> {
        let run = self.launch(launch)?;
        loop {
            if let Some(ended) = run.wait(launch.beat())? {
                return Ok(ended);
            }
            run.renew();
        }
    }
}

/// A launch under way. Dropping it stops it and waits for its end.
pub trait Run: fmt::Debug + Send + Sync {
    /// Asks it to end; it does so in bounded time.
    fn stop(&self);

    /// Wakes what is parked in `backoff`. Called after publishing words for it.
    fn wake(&self);

    /// Extends the lease, if the launch has one.
    fn renew(&self);

    /// Waits for the end, at most so long. `None` while it runs.
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError>;
}

/// The devices that may be there, best first, as [`open`] calls them: each GPU has a name of its own.
pub fn names() -> Vec<String> {
    let mut names = gpus();
    names.extend(["cpu", "reference"].map(String::from));
    names
}

/// The GPUs of NVIDIA, or one name for all that are not there.
fn gpus() -> Vec<String> {
    #[cfg(feature = "cuda")]
    if let Ok(count @ 1..) = cuda::count() {
        return (0..count).map(|ordinal| format!("cuda:{ordinal}")).collect();
    }
    vec!["cuda".into()]
}

/// Opens a device by name: `cuda`, `cuda:1` (the second GPU), `cpu`, `cpu:2` (on two threads), `reference`, `reference:2` (on two threads), or `auto`
/// for the best there is.
///
/// The [null device](null) cannot be opened by name: it runs nothing, so a program that waits for its kernel would wait
/// for ever.
pub fn open(name: &str) -> Result<Arc<dyn Device>, DeviceError> {
    let absent = |why: &str| DeviceError::Absent { name: name.into(), why: why.into() };
    let (kind, number) = match name.split_once(':') {
        Some((kind, number)) => {
            let wrong = || absent(&format!("{number:?} is not a number"));
            (kind, Some(number.parse::<u32>().map_err(|_| wrong())?))
        }
        None => (name, None),
    };
    match kind {
        "auto" => open("cuda").or_else(|_| open("cpu")),
        "cuda" => gpu(number.unwrap_or(0)),
        "cpu" | "reference" if number == Some(0) => Err(absent("0 is not a number of threads")),
        "cpu" => {
            Ok(Arc::new(cpu::Cpu::new(cpu::CpuConfig { threads: number, ..cpu::CpuConfig::default() })?))
        }
        "reference" => Ok(Arc::new(reference::Reference::new(number)?)),
        "null" => Err(absent(
            "the null device runs nothing; it is for tests written in Rust, which use `null::Null`",
        )),
        _ => Err(absent("devices are cuda, cuda:N, cpu, cpu:N, reference, reference:N and auto")),
    }
}

#[cfg(feature = "cuda")]
fn gpu(ordinal: u32) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(Arc::new(cuda::Cuda::new(cuda::CudaConfig { ordinal, ..cuda::CudaConfig::default() })?))
}

#[cfg(not(feature = "cuda"))]
fn gpu(_ordinal: u32) -> Result<Arc<dyn Device>, DeviceError> {
    let why = "Pelton was built without the feature `cuda`".into();
    Err(DeviceError::Absent { name: "cuda".into(), why })
}
