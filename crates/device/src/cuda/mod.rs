//! NVIDIA GPUs as devices: kernels as PTX that the driver compiles, launched once and fed while they run.
//!
//! **While a kernel is resident** the driver can neither load code nor free memory: such a call would wait for the kernel's
//! end, perhaps for ever, and would hold up all other calls. So [`Device::load`] asks the
//! owners of resident kernels to make way, through the [`Residence`](crate::Residence) of their launches. If a launch has none, the
//! load waits up to a second for its end and is then refused as busy, which [`DeviceError::retry`] says may pass. Memory that is
//! dropped meanwhile is freed when no kernel is resident. Allocation, copies and launches proceed at any time. Host memory that is dropped is
//! mostly not freed but kept for the next allocation, up to 256 MiB per GPU; `pinned_pool` says why.
//!
//! **How launches end.** At the back-edges of its loops a kernel looks at one word in the device's memory. To stop the kernel, the
//! host copies to that word with the copy engine, which works beside kernels. The host enforces deadlines and leases as on
//! other devices. The kernel also knows by its own clock until when it may run, so it ends even if the host is gone.
//!
//! **A lost device** is lost for this process: the driver gives the same error to every later call, even in a new context. Only
//! another process can use the device again after [`DeviceError::Lost`].
//!
//! **Near memory**, which the host writes through the bus, is offered if Vulkan can map it and a test kernel has seen it work. That
//! is tried when near memory or [`Device::caps`] is first asked for; the caps say whether there is near memory, and if not, why.
//!
//! The files of this module, from the driver up: `raw` and `current` are the driver's calls, each checked. `context` is an open
//! device, with the resources that are freed later (`deferred`). `pinned`, `pinned_pool`, `memory` and `near` are memory. `link`,
//! `cache` and `code` make machine code. `launch_place`, `clock` and `run` are launches. `graph` and `mix_graph` are what benchmarks compare them with.

pub mod cache;
mod clock;
mod code;
mod context;
mod current;
mod deferred;
mod graph;
mod info;
mod launch_place;
mod link;
mod memory;
mod mix_graph;
mod near;
mod pinned;
mod pinned_pool;
mod raw;
mod run;
mod trap;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pelton_ir::arena::Func;
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::timekeeper::Timekeeper;
use crate::{CompiledKernel, Device, Kernel};

use code::CudaCompiler;
use context::CudaContext;
use raw::Driver;
use run::CudaKernel;

pub use mix_graph::{MixNode, MixedGraphs};
pub(crate) use raw::kernels_have_stopped;
pub use trap::TrapKernel;

/// An NVIDIA GPU as a device.
#[derive(Debug)]
pub struct Cuda {
    /// Set by the first call of [`Device::caps`], because finding out whether there is near memory takes time.
    caps: OnceLock<Caps>,
    context: Arc<CudaContext>,
    compiler: Arc<CudaCompiler>,
    timekeeper: Arc<Timekeeper>,
    /// Whether there may be near memory.
    near: bool,
}

/// Which GPU [`Cuda::new`] opens, and how it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CudaConfig {
    /// The number of the GPU, counted from 0.
    pub ordinal: u32,
    /// The folder where compiled code is kept, or `None` to keep none. By default it is [`cache::folder`].
    pub cache: Option<PathBuf>,
    /// Whether to look for a way to have near memory, which takes a while.
    pub near: bool,
}

impl Default for CudaConfig {
    fn default() -> Self {
        CudaConfig { ordinal: 0, cache: cache::folder(), near: true }
    }
}

/// How many GPUs the driver finds. The error says why the driver cannot be asked.
pub fn count() -> Result<u32, DeviceError> {
    let absent = |why: String| DeviceError::Absent { name: "cuda".into(), why };
    let driver = Driver::open().map_err(absent)?;
    driver.count().map_err(|status| absent(status.to_string()))
}

impl Cuda {
    /// Opens a GPU.
    pub fn new(config: CudaConfig) -> Result<Self, DeviceError> {
        let CudaConfig { ordinal, cache, near } = config;
        let absent = |why: String| DeviceError::Absent { name: format!("cuda:{ordinal}"), why };
        let driver = Driver::open().map_err(absent)?;
        let count = driver.count().map_err(|status| absent(status.to_string()))?;
        if ordinal >= count {
            return Err(absent(match count {
                0 => "the NVIDIA driver finds no GPU".into(),
                1 => "there is one GPU, cuda:0".into(),
                _ => format!("there are {count} GPUs, from cuda:0 to cuda:{}", count - 1),
            }));
        }
        let context = CudaContext::open(driver, ordinal, cache.as_deref())?;
        let compiler = Arc::new(CudaCompiler::new(context.clone(), cache));
        Ok(Cuda { caps: OnceLock::new(), context, compiler, timekeeper: Arc::default(), near })
    }

    fn host_reach(&self) -> Result<Arc<near::HostReach>, DeviceError> {
        if !self.near {
            let why = "the device was opened without it".into();
            return Err(DeviceError::Near { device: self.context.info.open.clone(), why });
        }
        near::host_reach(&self.context, &self.compiler, &self.timekeeper)
    }
}

impl Device for Cuda {
    fn caps(&self) -> &Caps {
        self.caps.get_or_init(|| {
            let near_memory = self.host_reach().map(|_| ()).map_err(|error| match error {
                DeviceError::Near { why, .. } => why,
                error => error.to_string(),
            });
            self.context.info.caps(near_memory)
        })
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        self.context.with_memory(|| match kind {
            MemoryKind::Host => memory::alloc_host(&self.context, width, len),
            MemoryKind::Device => memory::alloc_device(&self.context, width, len),
            MemoryKind::Near => near::alloc(&self.context, &*self.host_reach()?, width, len),
        })
    }

    fn adopt(&self, memory: &Memory) -> Result<Memory, DeviceError> {
        memory::adopt_host(&self.context, memory)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let kernel = self.check_load(module, kernel, lanes)?;
        let code = self.compiler.find_or_load(module, kernel, lanes)?;
        let (context, timekeeper) = (self.context.clone(), self.timekeeper.clone());
        Ok(Arc::new(CudaKernel { context, code, timekeeper }))
    }

    fn compile(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<CompiledKernel, DeviceError> {
        let kernel = self.check_load(module, kernel, lanes)?;
        let code = self.compiler.compile(module, kernel, lanes)?;
        let (context, timekeeper) = (self.context.clone(), self.timekeeper.clone());
        let compiler = self.compiler.clone();
        Ok(CompiledKernel::new(move || {
            let (context, timekeeper) = (context.clone(), timekeeper.clone());
            Ok(Arc::new(CudaKernel { context, code: compiler.load(&code)?, timekeeper }))
        }))
    }
}

impl Cuda {
    /// Checks that a kernel can be compiled for groups of so many lanes, and finds it.
    fn check_load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Func, DeviceError> {
        let info = &self.context.info;
        if lanes == 0 || lanes > info.lanes {
            return Err(DeviceError::Limit {
                device: info.open.clone(),
                what: "the number of lanes".into(),
                found: lanes.into(),
                most: info.lanes.into(),
            });
        }
        crate::launch::kernel_to_load(module, kernel)
    }
}
