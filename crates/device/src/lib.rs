//! The devices that run Pelton's kernels: the CPU, NVIDIA GPUs and the reference interpreter, behind one set of traits.
//!
//! A kernel is a function of a validated module of [`pelton_ir`]. This crate compiles it for a device, gives out the memory
//! that it works on, launches it, and says how it ended. A kernel may end by itself or stay on the device and be fed while it runs.
//!
//! # Example
//!
//! ```
//! use pelton_device::{Launch, LaunchOutcome, MemoryKind, WordWidth, open};
//! use pelton_ir::{text, valid};
//!
//! // Every lane squares its element.
//! let source = "
//! buffer data: [u32; ?] global read_write
//! kernel squares {
//!   %at = lane
//!   %x = load @data[%at]
//!   %y = mul %x, %x
//!   store @data[%at], %y
//! }
//! ";
//! let module = valid::validate(text::parse(source).unwrap()).unwrap();
//!
//! // Any device does: "cuda", "cpu", "reference", or "auto" for the best that this machine has.
//! let device = open("cpu")?;
//! let memory = device.alloc(MemoryKind::Device, WordWidth::W32, 4)?;
//! memory.upload(0, &[1u32, 2, 3, 4])?;
//!
//! // One group of four lanes.
//! let kernel = device.load(&module, Some("squares"), 4)?;
//! let launch = Launch::new(1).bind(module.buffer("data").unwrap(), memory.clone());
//! assert_eq!(kernel.run(&launch)?.outcome, LaunchOutcome::Done);
//!
//! let mut squares = [0u32; 4];
//! memory.download(0, &mut squares)?;
//! assert_eq!(squares, [1, 4, 9, 16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tour
//!
//! In the order of use:
//!
//! 1. [`open`] opens a device by its name; [`names`] lists the names that may be opened here. [`cpu::Cpu`], [`cuda::Cuda`] and
//!    [`reference::Reference`] can also be made directly, with options that names do not have.
//! 2. [`Device::caps`] says what the device can do, as plain data in [`Caps`].
//! 3. [`Device::alloc`] gives out [`Memory`] of one of three [kinds](MemoryKind). A [`View32`] or [`View64`] reaches the words of
//!    memory that is mapped without asking the memory each time.
//! 4. [`Device::load`] compiles a kernel for groups of a fixed number of lanes.
//! 5. A [`Launch`] says how many groups run, which memory each buffer is bound to, and when the launch must end.
//! 6. [`Kernel::run`] runs a kernel to its end. [`Kernel::launch`] starts it and gives a [`Run`], through which the host stops,
//!    wakes and waits for it.
//! 7. A [`LaunchEnd`] says how the launch ended. A [`DeviceError`] says why something failed, and [`DeviceError::retry`] whether
//!    trying again can help.
//!
//! # Promises
//!
//! Every device keeps these, and `tests/promises.rs` holds each device to them.
//!
//! - **Results are the same on every device**, as `docs/ir.md` defines them. A compiled kernel cannot fault: accesses out of
//!   range and divisions by zero have defined results.
//! - **Groups progress.** Up to [`Kernel::resident`] groups of a launch progress independently, so they may wait for each other.
//! - **Every launch can be ended.** It can be stopped, and it can have a deadline and a lease that the host renews. It ends in
//!   bounded time after any of these, because the back-edges of loops look for them. Dropping a `Run` stops the launch and
//!   waits for its end.
//! - **Parked kernels can be woken.** A kernel that finds nothing to do executes `backoff`, and a device may park it there. A host
//!   thread that has published words for a resident kernel calls [`Run::wake`] afterwards, which costs a fence and a load
//!   unless a group is parked.
//! - **Only valid modules run.** Nothing here accepts a module that the validator did not hand out.
//!
//! # Should I use this crate?
//!
//! Use it to run kernels of Pelton's language on several kinds of hardware, or to run one language for tests and for production. To
//! feed small tasks to a kernel that stays, use the crate `pelton`, which is built on this one: this crate knows nothing of
//! rings, tasks or tenants. To run existing CUDA C++ or PTX use CUDA's own libraries instead: kernels written in other languages
//! cannot be loaded here.
//!
//! # Limits
//!
//! - A group has at most 1,024 lanes, and a subgroup on the CPU at most 32.
//! - A GPU needs compute capability 8.0 and a driver that knows CUDA 12.0. While a kernel is resident on a GPU, no other kernel
//!   can be loaded there, and memory that is dropped is freed only after the kernel has ended.
//! - Near memory on a GPU needs Linux on x86-64 and the Vulkan part of NVIDIA's driver.
//! - A GPU that is lost, for example after a hardware error, can be used again only by another process.
//! - No device runs asynchronous copies (`async_load`) yet.
//!
//! # Feature flags
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `cuda` | yes | NVIDIA GPUs, in the module [`cuda`]. The driver is loaded at run time, so the program also starts where there is none |
//! | `loom` | no | the eventcount over loom's atomics, for the test of its interleavings only |

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

/// Something that runs kernels: a processor, a GPU or an interpreter.
///
/// A device is shared by reference counting. What it gives out (memory, kernels, launches) keeps what it needs of the device, so
/// the device itself may be dropped first.
pub trait Device: fmt::Debug + Send + Sync {
    /// What the device can do.
    fn caps(&self) -> &Caps;

    /// Allocates memory of `len` words that are all zero.
    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError>;

    /// Compiles a kernel for groups of `lanes` lanes: the kernel of the given name or, if no name is given, the module's only
    /// kernel.
    ///
    /// A kernel that is already compiled for as many lanes is found again instead.
    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError>;
}

/// A kernel that is compiled for groups of a fixed number of lanes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// How many groups of the kernel progress together. If groups of the kernel may wait for each other, the device may refuse a
    /// launch of more groups.
    fn resident(&self) -> u32;

    /// Starts a launch of the kernel and returns while it is under way.
    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError>;

    /// Runs a launch of the kernel to its end, and renews its lease meanwhile.
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

/// A launch that is under way, or has ended and not been dropped yet. Dropping it stops the launch and waits for its end.
pub trait Run: fmt::Debug + Send + Sync {
    /// Asks the kernel to end, which it does in bounded time. Does not wait for the end.
    fn stop(&self);

    /// Wakes the groups that are parked in `backoff`. The host calls this after it has published words for the kernel.
    fn wake(&self);

    /// Starts the lease anew, if the launch has one.
    fn renew(&self);

    /// Waits for the end of the launch, for at most `timeout`. Gives `None` if the launch is still under way then.
    ///
    /// # Errors
    ///
    /// A kernel that trapped is a [`DeviceError::Fault`], and a device that was lost meanwhile a [`DeviceError::Lost`].
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError>;
}

/// The names of the devices that this build knows, the best first, for [`open`]. Each GPU that is there has a name of its own.
///
/// A name in the list need not open: without a GPU the list has one name `cuda`, so that a program can show why it is absent.
pub fn names() -> Vec<String> {
    let mut names = gpu_names();
    names.extend(["cpu", "reference"].map(String::from));
    names
}

/// The names of the NVIDIA GPUs, or one name that stands for all of them if there is none.
fn gpu_names() -> Vec<String> {
    #[cfg(feature = "cuda")]
    if let Ok(count @ 1..) = cuda::count() {
        return (0..count).map(|ordinal| format!("cuda:{ordinal}")).collect();
    }
    vec!["cuda".into()]
}

/// Opens a device by name.
///
/// | name | device |
/// |---|---|
/// | `cuda`, `cuda:1` | the first NVIDIA GPU, the second one |
/// | `cpu`, `cpu:2` | the CPU with as many threads as there are cores, with two threads |
/// | `reference`, `reference:2` | the reference interpreter with as many threads as there are cores, with two threads |
/// | `auto` | the best that is there: a GPU, or else the CPU |
///
/// The [null device](null) cannot be opened by name. It runs nothing, so a program that waits for its kernel would wait for
/// ever.
///
/// # Errors
///
/// [`DeviceError::Absent`] says why there is no such device.
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
        "cuda" => open_gpu(number.unwrap_or(0)),
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
fn open_gpu(ordinal: u32) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(Arc::new(cuda::Cuda::new(cuda::CudaConfig { ordinal, ..cuda::CudaConfig::default() })?))
}

#[cfg(not(feature = "cuda"))]
fn open_gpu(_ordinal: u32) -> Result<Arc<dyn Device>, DeviceError> {
    let why = "Pelton was built without the feature `cuda`".into();
    Err(DeviceError::Absent { name: "cuda".into(), why })
}
