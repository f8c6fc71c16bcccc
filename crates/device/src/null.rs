//! The null device, which accepts every kernel, runs none, and fails when it is told to. It is for tests of code that uses devices.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pelton_ir::arena::{Func, Handle};
use pelton_ir::module::Site;
use pelton_ir::types::Scope;
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::launch::{Launch, LaunchEnd, LaunchOutcome};
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::{Device, Kernel, Run};

/// Which calls of a [`Null`] device fail. Calls are counted from 0, and by default none fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The number of the allocation that finds no memory.
    pub alloc: Option<u32>,
    /// The number of the load that fails.
    pub load: Option<u32>,
    /// The number of the launch that loses the device.
    pub launch: Option<u32>,
    /// After this time every launch reports that the device is lost.
    pub lost_after: Option<Duration>,
    /// After this time every launch reports that it trapped in its first instruction.
    pub trap_after: Option<Duration>,
}

/// How many groups the device says progress together.
const RESIDENT: u32 = 1024;

/// A device that accepts every kernel and runs none.
#[derive(Debug)]
pub struct Null {
    caps: Caps,
    faults: Faults,
    allocs: AtomicU32,
    loads: AtomicU32,
    launches: Arc<AtomicU32>,
}

impl Null {
    /// A device on which the given calls fail.
    pub fn new(faults: Faults) -> Self {
        let caps = Caps {
            name: "null".into(),
            about: "compiles everything, runs nothing".into(),
            persistent: true,
            scope: Scope::System,
            subgroup: 32,
            independent_subgroups: true,
            lanes: 1,
            max_lanes: 1024,
            groups: 1,
            resident: RESIDENT,
            units: 1,
            memory_bytes: None,
            shared_bytes: 1 << 18,
            wakes: true,
            near_memory: Ok(()),
            async_copies: false,
        };
        Null { caps, faults, allocs: AtomicU32::new(0), loads: AtomicU32::new(0), launches: Arc::default() }
    }
}

/// Counts a call, and gives whether it is the one that fails.
fn due(count: &AtomicU32, fails: Option<u32>) -> bool {
    Some(count.fetch_add(1, Ordering::Relaxed)) == fails
}

impl Device for Null {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        if due(&self.allocs, self.faults.alloc) {
            return Err(DeviceError::Exhausted { bytes: (len * width.bytes()) as u64 });
        }
        Memory::mapped(kind, width, len)
    }

    fn load(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        _lanes: u32,
    ) -> Result<Arc<dyn Kernel>, DeviceError> {
        let func = crate::launch::kernel_to_load(module, kernel)?;
        if due(&self.loads, self.faults.load) {
            return Err(DeviceError::Codegen("told to fail".into()));
        }
        let (module, launches) = (module.clone(), self.launches.clone());
        Ok(Arc::new(NullKernel { module, func, faults: self.faults, launches }))
    }
}

#[derive(Debug)]
struct NullKernel {
    module: Valid,
    func: Func,
    faults: Faults,
    launches: Arc<AtomicU32>,
}

impl Kernel for NullKernel {
    fn resident(&self) -> u32 {
        RESIDENT
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        launch.bound(&self.module)?;
        if due(&self.launches, self.faults.launch) {
            return Err(DeviceError::Lost("told to be".into()));
        }
        let until = |after: Option<Duration>| after.map(|after| Instant::now() + after);
        let (lost, trap) = (until(self.faults.lost_after), until(self.faults.trap_after));
        let (module, func) = (self.module.clone(), self.func);
        Ok(Box::new(NullRun { module, func, lost, trap, stopped: Mutex::new(false) }))
    }
}

/// A launch that does nothing until it is stopped or its fault is due.
#[derive(Debug)]
struct NullRun {
    module: Valid,
    func: Func,
    lost: Option<Instant>,
    trap: Option<Instant>,
    stopped: Mutex<bool>,
}

impl Run for NullRun {
    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
    }

    fn wake(&self) {}

    fn renew(&self) {}

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.lost.is_some_and(|lost| lost <= Instant::now()) {
                return Err(DeviceError::Lost("told to be".into()));
            }
            if self.trap.is_some_and(|trap| trap <= Instant::now()) {
                let site = Site { func: self.func, inst: Handle::new(0) };
                return Err(DeviceError::fault(&self.module, (7, site), None));
            }
            if *self.stopped.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
                return Ok(Some(LaunchEnd { outcome: LaunchOutcome::Stopped, fault: None }));
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
