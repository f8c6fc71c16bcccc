//! NVIDIA GPUs as devices: kernels as PTX that the driver compiles, launched once and fed while they run.
//!
//! The files, from the driver up: `raw` and `current` are its calls, each checked; `context` is an open device with
//! its `gate` and what waits to be freed (`grave`); `pinned`, `memory` and `near` are memory; `link`, `cache` and
//! `code` make machine code; `berth`, `clock` and `run` are launches; `floor` is what benchmarks hold them against.
//!
//! **While a kernel is resident** the driver loads no code and frees no memory: such a call would wait for the kernel's
//! end, for ever perhaps, and hold up all others. So code is loaded before; [`Device::load`] waits a moment for launches
//! to end and then is refused as busy, which [`DeviceError::retry`] says may pass. Memory that is dropped meanwhile is
//! freed when the last launch has ended. Everything else goes through at any time: allocation, copies, launches.
//!
//! **Ends.** A kernel looks at one word in the device's memory, at the back-edges of its loops. The host's stop is a
//! copy to that word by the copy engine, which passes kernels by. Deadlines and leases are watched by the host as on
//! other devices; the kernel also knows its last moment by its own clock and a word of the host's that moves it on, so
//! it ends if the host is gone.
//!
//! **A lost device** is lost for this process: the driver gives the same error to every later call, and a new context
//! does not help. [`DeviceError::Lost`] then means another process.
//!
//! **Near memory**, which the host writes through the bus, is there if Vulkan is, and if it was seen to work. That is tried
//! when somebody first asks for it, or for [`Device::caps`], which says whether it is there or why not.

pub mod cache;
mod clock;
mod code;
mod context;
mod current;
mod deferred;
mod gate;
mod graph;
mod info;
mod launch_place;
mod link;
mod memory;
mod near;
mod pinned;
mod raw;
mod run;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pelton_ir::link::check_bound;
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::timekeeper::Timekeeper;
use crate::{Device, Kernel};

use code::CudaCompiler;
use context::CudaContext;
use raw::Driver;
use run::CudaKernel;

/// A GPU.
#[derive(Debug)]
pub struct Cuda {
    /// Known when somebody has asked.
    caps: OnceLock<Caps>,
    context: Arc<CudaContext>,
    compiler: CudaCompiler,
    timekeeper: Arc<Timekeeper>,
}

/// How a GPU is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CudaConfig {
    /// Which one, counted from 0.
    pub ordinal: u32,
    /// Where compiled code is kept; nowhere if none.
    pub cache: Option<PathBuf>,
}

impl Default for CudaConfig {
    fn default() -> Self {
        CudaConfig { ordinal: 0, cache: cache::folder() }
    }
}

/// How many GPUs there are; why there are none, if the driver cannot be asked.
pub fn count() -> Result<u32, DeviceError> {
    let absent = |why: String| DeviceError::Absent { name: "cuda".into(), why };
    let driver = Driver::open().map_err(absent)?;
    driver.count().map_err(|status| absent(status.to_string()))
}

impl Cuda {
    /// A GPU, used so.
    pub fn new(config: CudaConfig) -> Result<Self, DeviceError> {
        let CudaConfig { ordinal, cache } = config;
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
        let compiler = CudaCompiler::new(context.clone(), cache);
        Ok(Cuda { caps: OnceLock::new(), context, compiler, timekeeper: Arc::default() })
    }

    fn host_reach(&self) -> Result<Arc<near::HostReach>, DeviceError> {
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
        match kind {
            MemoryKind::Host => memory::host(&self.context, width, len),
            MemoryKind::Device => memory::own(&self.context, width, len),
            MemoryKind::Near => near::alloc(&self.context, &*self.host_reach()?, width, len),
        }
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let info = &self.context.info;
        if lanes == 0 || lanes > info.lanes {
            return Err(DeviceError::Limit {
                device: info.open.clone(),
                what: "the number of lanes",
                found: lanes.into(),
                most: info.lanes.into(),
            });
        }
        check_bound(module)?;
        let kernel = module.choose_kernel(kernel)?;
        let code = self.compiler.compile(module, kernel, lanes)?;
        let (context, timekeeper) = (self.context.clone(), self.timekeeper.clone());
        Ok(Arc::new(CudaKernel { context, code, timekeeper }))
    }
}
