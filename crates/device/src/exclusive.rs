//! A device that loads code only between kernels, like a GPU, for tests of how others make way for loads.
//!
//! Another device compiles and runs the kernels. [`Gate`] decides who may load and launch, as it does for GPUs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::gate::{self, Gate, LaunchPass, LaunchRoom};
use crate::launch::{Launch, LaunchEnd};
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::{CompiledKernel, Device, Kernel, Run};

/// A device that loads code only while none of its kernels runs.
#[derive(Debug)]
pub struct Exclusive {
    inner: Arc<dyn Device>,
    resident: u32,
    gate: Arc<Gate>,
}

impl Exclusive {
    /// Makes a device that holds `resident` groups at once, and runs its kernels on `inner`.
    pub fn new(inner: Arc<dyn Device>, resident: u32) -> Self {
        Exclusive { inner, resident, gate: Arc::default() }
    }
}

impl Device for Exclusive {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        self.inner.alloc(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        self.compile(module, kernel, lanes)?.load()
    }

    fn compile(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<CompiledKernel, DeviceError> {
        let (inner, resident, gate) =
            (self.inner.load(module, kernel, lanes)?, self.resident, self.gate.clone());
        Ok(CompiledKernel::new(move || {
            let alone =
                gate.alone(gate::PATIENCE).ok_or(DeviceError::Busy { what: gate::NOT_ALONE.into() })?;
            drop(alone);
            Ok(Arc::new(ExclusiveKernel { inner: inner.clone(), resident, gate: gate.clone() }))
        }))
    }
}

#[derive(Debug)]
struct ExclusiveKernel {
    inner: Arc<dyn Kernel>,
    resident: u32,
    gate: Arc<Gate>,
}

impl Kernel for ExclusiveKernel {
    fn resident(&self) -> u32 {
        self.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let room = LaunchRoom::of_waiting_groups(launch.groups, self.resident);
        let pass = self.gate.enter(room, launch.residence.as_ref(), gate::PATIENCE);
        let mut pass = pass.ok_or(DeviceError::Busy { what: gate::NO_ROOM.into() })?;
        let inner = self.inner.launch(launch)?;
        pass.started();
        Ok(Box::new(ExclusiveRun { inner, pass: Mutex::new(Some(pass)) }))
    }
}

/// A run, and its permission until it has ended. Fields are dropped in order, so the run ends before its permission does.
#[derive(Debug)]
struct ExclusiveRun {
    inner: Box<dyn Run>,
    pass: Mutex<Option<LaunchPass>>,
}

impl Run for ExclusiveRun {
    fn stop(&self) {
        self.inner.stop();
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn renew(&self) {
        self.inner.renew();
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let ended = self.inner.wait(timeout);
        if !matches!(ended, Ok(None)) {
            let pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(pass);
        }
        ended
    }
}
