//! The devices that run Pelton's kernels: the CPU, NVIDIA GPUs and the reference interpreter, behind one set of traits.
//!
//! A kernel is a function of a validated module of [`pelton_ir`]. This crate compiles it for a device, allocates the
//! memory that it works on, launches it, and reports how it ended. A kernel may end by itself or stay on the device and
//! be fed while it runs.
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
//! 1. [`open`] opens a device by its name; [`names`] lists the names to try on this machine. [`cpu::Cpu`],
//!    [`cuda::Cuda`] and [`reference::Reference`] can also be made directly, with options that names do not have.
//! 2. [`Device::caps`] says what the device can do, as plain data in [`Caps`].
//! 3. [`Device::alloc`] allocates [`Memory`] of one of three [kinds](MemoryKind). A [`View32`] or [`View64`] gives
//!    direct access to the words of mapped memory, without a lookup for each access. [`HostBytes`] are bytes of the host
//!    that a device copies from at the full speed of its bus.
//! 4. [`Device::load`] compiles a kernel for groups of a fixed number of lanes.
//! 5. A [`Launch`] says how many groups run, which memory each buffer is bound to, and when the launch must end.
//! 6. [`Kernel::run`] runs a kernel to its end. [`Kernel::launch`] starts it and returns a [`Run`], through which the
//!    host stops, wakes and waits for it.
//! 7. A [`LaunchEnd`] says how the launch ended. A [`DeviceError`] says why something failed, and
//!    [`DeviceError::retry`] whether trying again can help.
//!
//! # Promises
//!
//! Every device keeps these, and `tests/promises.rs` holds each device to them.
//!
//! - **Results are the same on every device**, as `docs/ir.md` defines them. A kernel has no undefined behaviour:
//!   accesses out of range and divisions by zero have defined results.
//! - **Groups progress.** Up to [`Kernel::resident`] groups of a launch progress independently, so they may wait for
//!   each other.
//! - **Every launch can be ended.** It can be stopped, and it can have a deadline and a lease that the host renews. It
//!   ends in bounded time after any of these, because every turn of a loop checks for them. Dropping a `Run` stops the
//!   launch and waits for its end.
//! - **Waiting kernels notice new work.** A kernel that finds nothing to do executes `backoff`. Where [`Caps::wakes`]
//!   is true, the device may park it there, and a host thread that has published words for it calls [`Run::wake`]
//!   afterwards, which costs a fence and a load unless a group is parked. A group that has published words for another
//!   one executes `wake`, which does the same. Elsewhere, as on a GPU, a `backoff` ends by itself after at most the time
//!   that it was given.
//! - **Only valid modules run.** Nothing in this crate accepts a module that the validator has not approved.
//!
//! # Should I use this crate?
//!
//! Use it to run kernels of Pelton's language on several kinds of hardware, or to use one language in tests and in
//! production. To feed small tasks to a kernel that stays, use the crate `pelton`, which is built on this one: this
//! crate has no notion of rings, tasks or tenants. To run existing CUDA C++ or PTX, use CUDA's own libraries instead:
//! kernels written in other languages cannot be loaded here.
//!
//! # Limits
//!
//! - A group has at most 1,024 lanes, and a subgroup has at most 32.
//! - A GPU needs compute capability 8.0 and a driver that knows CUDA 12.0. A GPU loads code only
//!   while no kernel is resident there. So a load waits until resident kernels have made way, which those of a launch with a
//!   [`Residence`] do when they are asked to, and is refused if one of them stays. Memory that is dropped is freed only then too.
//! - Near memory on a GPU needs Linux on x86-64, the Vulkan part of NVIDIA's driver, and resizable BAR.
//! - A GPU that is lost, for example after a hardware error, can be used again only by another process. The devices of the
//!   module [`process`] live in one.
//! - No device runs asynchronous copies (`async_load`) yet.
//!
//! # Feature flags
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `cuda` | yes | NVIDIA GPUs, in the module [`cuda`]; the driver is loaded at run time, so it may be absent |
//! | `inject` | no | lets groups of the CPU sleep until they are woken, and has devices for tests: one that loads code only between kernels, like a GPU, one that is lost when a test says so, and one that advances when a test says so |
//! | `loom` | no | loom's atomics in the eventcount; for this crate's own tests |

pub mod caps;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod error;
pub mod event;
#[cfg(feature = "inject")]
pub mod exclusive;
#[cfg_attr(
    not(any(feature = "cuda", feature = "inject")),
    allow(dead_code, reason = "only devices of these features load code between kernels")
)]
mod gate;
pub mod host_bytes;
pub mod launch;
#[cfg(feature = "inject")]
pub mod losable;
pub mod mapped;
pub mod memory;
pub mod null;
#[cfg(target_os = "linux")]
pub mod process;
pub mod process_fence;
pub mod reference;
pub mod residence;
#[cfg(target_os = "linux")]
mod shared_file;
#[cfg(feature = "inject")]
pub mod stepped;
mod timekeeper;
pub mod view;
mod view_bytes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pelton_ir::valid::Valid;

pub use caps::Caps;
pub use error::{DeviceError, Retry};
pub use host_bytes::HostBytes;
pub use launch::{Launch, LaunchEnd, LaunchOutcome};
pub use mapped::WordWidth;
pub use memory::{Memory, MemoryKind};
pub use residence::Residence;
pub use view::{View, View32, View64};

/// Something that runs kernels: a processor, a GPU or an interpreter.
///
/// A device is shared by reference counting. Memory, kernels and launches keep alive whatever they need of their
/// device, so the device itself may be dropped first.
pub trait Device: fmt::Debug + Send + Sync {
    /// Returns what the device can do.
    fn caps(&self) -> &Caps;

    /// Allocates memory of `len` words, which are all zero.
    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError>;

    /// Makes host memory that another device has allocated usable on this one too, and returns it. Both devices and the host
    /// then see the same words.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Memory`] if the host cannot reach the words, and errors of the driver if the device cannot.
    fn adopt(&self, memory: &Memory) -> Result<Memory, DeviceError> {
        match memory.store().mapped() {
            Some(_) => Ok(memory.clone()),
            None => Err(DeviceError::Memory {
                device: self.caps().name.clone(),
                what: "use for memory that the host cannot reach".into(),
            }),
        }
    }

    /// Compiles a kernel for groups of `lanes` lanes: the kernel of the given name or, if no name is given, the
    /// module's only kernel.
    ///
    /// A kernel that was already compiled for this number of lanes is returned without compiling it again.
    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError>;

    /// Compiles a kernel, also while other kernels run, so that loading it later takes little time.
    ///
    /// A device that can load code while a kernel is resident loads it at once, as [`load`](Device::load) does. Any other
    /// device leaves that part to [`CompiledKernel::load`].
    fn compile(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<CompiledKernel, DeviceError> {
        let loaded = self.load(module, kernel, lanes)?;
        Ok(CompiledKernel::new(move || Ok(loaded.clone())))
    }
}

/// A kernel that is compiled, and may or may not be loaded already.
pub struct CompiledKernel(Box<LoadKernel>);

type LoadKernel = dyn Fn() -> Result<Arc<dyn Kernel>, DeviceError> + Send + Sync;

impl CompiledKernel {
    /// Makes a compiled kernel from a function that loads it.
    pub fn new(load: impl Fn() -> Result<Arc<dyn Kernel>, DeviceError> + Send + Sync + 'static) -> Self {
        CompiledKernel(Box::new(load))
    }

    /// Loads the kernel, unless that was done when it was compiled.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Busy`] if the device loads no code while a kernel is resident, and one is.
    pub fn load(&self) -> Result<Arc<dyn Kernel>, DeviceError> {
        (self.0)()
    }
}

impl fmt::Debug for CompiledKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledKernel").finish_non_exhaustive()
    }
}

/// A kernel that is compiled for groups of a fixed number of lanes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// Returns how many groups of the kernel progress together. If groups of the kernel may wait for each other, the
    /// device may refuse a launch of more groups.
    fn resident(&self) -> u32;

    /// Starts a launch of the kernel, and returns without waiting for its end.
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

/// A launch that is under way, or has ended and not been dropped yet. Dropping it stops the launch and waits for its
/// end.
pub trait Run: fmt::Debug + Send + Sync {
    /// Asks the kernel to end, which it does in bounded time. This call does not wait for the end.
    fn stop(&self);

    /// Wakes the groups that are parked in `backoff`. The host calls this after it has published words for the kernel.
    fn wake(&self);

    /// Wakes the groups that are parked, for another process that has found by the [wake word](launch::WakeWord) of the launch
    /// that there are some.
    fn notify(&self) {
        self.wake();
    }

    /// Starts the lease anew, if the launch has one.
    fn renew(&self);

    /// Waits for the end of the launch, for at most `timeout`. Returns `None` if the launch is still under way then.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Fault`] if the kernel trapped, and [`DeviceError::Lost`] if the device was lost meanwhile.
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError>;
}

/// Returns the names of the devices that this build knows, the best first, for [`open`]. Each GPU of the machine has a
/// name of its own.
///
/// Each name can be preceded by `process:`, which the list does not show.
///
/// Opening a device in the list may still fail: without a GPU, the list has the name `cuda`, so that a program can show
/// why the GPU is absent.
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
/// | `process:cuda`, `process:cuda:1`, `process:cpu` | the same devices in a process of their own (see [`process`]), which may be lost without harm to this one |
/// | `process:warm:cuda` | the same, with a second process that is ready to take over |
///
/// The [null device](null) cannot be opened by name. It runs nothing, so a program that waits for its kernel would wait
/// for ever.
///
/// # Errors
///
/// [`DeviceError::Absent`] if there is no such device; the error says why.
pub fn open(name: &str) -> Result<Arc<dyn Device>, DeviceError> {
    let absent = |why: &str| DeviceError::Absent { name: name.into(), why: why.into() };
    if let Some(inner) = name.strip_prefix("process:") {
        return open_in_process(inner);
    }
    let (kind, number) = parse_name(name)?;
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
        "process" => Err(absent("say which device the other process opens, for example process:cpu")),
        _ => Err(absent(
            "devices are cuda, cuda:N, cpu, cpu:N, reference, reference:N and auto, and each of them with process: before it",
        )),
    }
}

/// Divides the name of a device into its kind and its number, if it has one.
fn parse_name(name: &str) -> Result<(&str, Option<u32>), DeviceError> {
    let Some((kind, number)) = name.split_once(':') else { return Ok((name, None)) };
    let why = || format!("{number:?} is not a number");
    let wrong = |_| DeviceError::Absent { name: name.into(), why: why() };
    Ok((kind, Some(number.parse::<u32>().map_err(wrong)?)))
}

#[cfg(target_os = "linux")]
fn open_in_process(device: &str) -> Result<Arc<dyn Device>, DeviceError> {
    let config = match device.strip_prefix("warm:") {
        Some(device) => process::ProcessConfig::new(device).warm(),
        None => process::ProcessConfig::new(device),
    };
    Ok(Arc::new(process::ProcessDevice::new(config)?))
}

#[cfg(not(target_os = "linux"))]
fn open_in_process(device: &str) -> Result<Arc<dyn Device>, DeviceError> {
    let why = "devices in other processes need Linux".into();
    Err(DeviceError::Absent { name: format!("process:{device}"), why })
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
