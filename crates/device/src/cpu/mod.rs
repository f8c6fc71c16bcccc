//! The CPU as a device: kernels compiled by Cranelift, groups on threads.
//!
//! A group runs on one thread. A group of several lanes is split into loops over its lanes ([`plan`]); a group of one lane is
//! straight code. If groups of a kernel may wait for each other, because it has loops that are not counted, each of up to
//! [`Caps::resident`] groups has a thread of its own. All other launches share as many threads as the device was opened with. A
//! group that executes `backoff` spins, yields its core or sleeps, depending on how long it asks for (see `rest.rs`). A kernel that
//! polls asks for more the longer it has found nothing.
//!
//! There are no signal handlers, because compiled code cannot fault: indices and divisors are checked, and `trap` stores its code
//! and place and returns.

mod abi;
mod code;
mod lower;
pub mod plan;
mod pool;
mod rest;
mod run;

use std::sync::Arc;
#[cfg(feature = "inject")]
use std::sync::atomic::Ordering;

use pelton_ir::types::{Need, Scope};
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::timekeeper::Timekeeper;
use crate::{Device, Kernel};

pub use code::CodeCacheStats;
use code::CpuCompiler;
use pool::ThreadPool;
use rest::GroupSleep;
use run::CpuKernel;

/// The largest number of groups of one launch that have a thread each.
const RESIDENT: u32 = 256;
/// The largest number of lanes of a group.
const MAX_LANES: u32 = 1024;
/// The largest number of lanes of a subgroup.
const MAX_SUBGROUP: u32 = 32;

/// The CPU as a device.
#[derive(Debug)]
pub struct Cpu {
    caps: Caps,
    compiler: CpuCompiler,
    threads: u32,
    sleep: Arc<GroupSleep>,
    pool: Arc<ThreadPool>,
    timekeeper: Arc<Timekeeper>,
}

/// How [`Cpu::new`] sets up the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuConfig {
    /// How many threads launches share whose groups do not wait for each other, or `None` for as many as there are cores.
    pub threads: Option<u32>,
    /// How many lanes a subgroup has.
    pub subgroup: u32,
    /// Whether compiled code may take sixteen lanes at a time with SIMD instructions.
    pub simd: bool,
}

impl Default for CpuConfig {
    fn default() -> Self {
        CpuConfig { threads: None, subgroup: 32, simd: true }
    }
}

impl Cpu {
    /// Opens the CPU.
    pub fn new(config: CpuConfig) -> Result<Self, DeviceError> {
        let CpuConfig { threads, subgroup, simd } = config;
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let threads = threads.unwrap_or_else(cores);
        let limit = |what, found: u32, most: u32| {
            Err(DeviceError::Limit { device: "cpu".into(), what, found: found.into(), most: most.into() })
        };
        if threads == 0 || threads > RESIDENT {
            return limit("the number of threads".into(), threads, RESIDENT);
        }
        if subgroup == 0 || subgroup > MAX_SUBGROUP {
            return limit("the number of lanes in a subgroup".into(), subgroup, MAX_SUBGROUP);
        }
        let compiler = CpuCompiler::new(subgroup, simd)?;
        let caps = Caps {
            name: "cpu".into(),
            about: format!("{threads} threads, {}", compiler.target()),
            persistent: true,
            scope: Scope::System,
            subgroup,
            independent_subgroups: false,
            lanes: 1,
            max_lanes: MAX_LANES,
            groups: threads,
            resident: RESIDENT,
            units: threads,
            memory_bytes: None,
            shared_bytes: pelton_ir::limits::MAX_SHARED as usize,
            wakes: true,
            near_memory: Ok(()),
            async_copies: false,
        };
        Ok(Cpu {
            caps,
            compiler,
            threads,
            sleep: Arc::default(),
            pool: Arc::default(),
            timekeeper: Arc::default(),
        })
    }

    /// Lets every group that sleeps in a `backoff` do so until it is woken, however short the time is that it asks for, and
    /// sleep again as soon as it may. So a test hangs if nobody wakes the group.
    #[cfg(feature = "inject")]
    pub fn sleep_until_woken(&self) {
        self.sleep.until_woken.store(true, Ordering::Relaxed);
    }

    /// How many groups of all launches sleep in a `backoff` now.
    #[cfg(feature = "inject")]
    pub fn sleeping_groups(&self) -> u32 {
        self.sleep.asleep.load(Ordering::Relaxed)
    }

    /// How many compiled kernels there are, and how much memory they take. The 64 kernels that were used last are kept for the next
    /// load, up to 16 MiB of machine code; a single larger kernel is kept alone. The code of other kernels is freed once no loaded
    /// kernel and no launch uses it.
    pub fn code_cache(&self) -> CodeCacheStats {
        self.compiler.stats()
    }

    /// A kernel in Cranelift's IR as text, for people to read.
    pub fn clif(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<String, DeviceError> {
        let kernel = self.check(module, kernel, lanes)?;
        Ok(self.compiler.clif(module, kernel, lanes)?.to_string())
    }

    fn check(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<pelton_ir::arena::Func, DeviceError> {
        if module.needs.contains(&Need::Subgroups) && self.compiler.subgroup() < lanes {
            return Err(DeviceError::Need { device: "cpu".into(), need: Need::Subgroups });
        }
        if lanes == 0 || lanes > MAX_LANES {
            let (found, most) = (lanes.into(), MAX_LANES.into());
            return Err(DeviceError::Limit {
                device: "cpu".into(),
                what: "the number of lanes".into(),
                found,
                most,
            });
        }
        crate::launch::kernel_to_load(module, kernel)
    }
}

impl Device for Cpu {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        Memory::mapped(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let kernel = self.check(module, kernel, lanes)?;
        let code = self.compiler.compile(module, kernel, lanes)?;
        Ok(Arc::new(CpuKernel {
            module: module.clone(),
            code,
            resident: RESIDENT,
            threads: self.threads,
            sleep: self.sleep.clone(),
            pool: self.pool.clone(),
            timekeeper: self.timekeeper.clone(),
        }))
    }
}
