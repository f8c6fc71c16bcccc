//! A device that runs kernels on another one, but says something else of itself.
//!
//! Kernels are assembled for what a device says of itself. So what a GPU would run is assembled and run where there is none.
#![allow(dead_code)]

use std::sync::Arc;

use pelton::device::{Caps, Device, DeviceError, Kernel, Launch, Memory, MemoryKind, Run, WordWidth};
use pelton::ir::valid::Valid;

/// A device that pretends to be another.
#[derive(Debug)]
pub(crate) struct PretendDevice {
    /// The device that does the work.
    inner: Arc<dyn Device>,
    /// What the device says of itself.
    caps: Caps,
    /// How many groups its kernels say can be resident, if not as many as the inner device's kernels say.
    resident: Option<u32>,
}

impl PretendDevice {
    /// A device that says of itself what `caps` says, and works as `inner` does.
    pub(crate) fn new(inner: Arc<dyn Device>, caps: Caps) -> Self {
        PretendDevice { inner, caps, resident: None }
    }

    /// The same device with kernels so large that only `resident` groups of them fit.
    pub(crate) fn with_resident(self, resident: u32) -> Self {
        PretendDevice { resident: Some(resident), ..self }
    }
}

impl Device for PretendDevice {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Near memory is refused beyond the number of bytes that the device says it has.
    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        let bytes = (len * width.bytes()) as u64;
        if kind == MemoryKind::Near && self.caps.memory_bytes.is_some_and(|most| bytes > most) {
            return Err(DeviceError::Exhausted { bytes });
        }
        self.inner.alloc(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let inner = self.inner.load(module, kernel, lanes)?;
        Ok(match self.resident {
            Some(resident) => Arc::new(PretendKernel { inner, resident }),
            None => inner,
        })
    }
}

/// A kernel of which fewer groups fit than the device could hold.
#[derive(Debug)]
struct PretendKernel {
    inner: Arc<dyn Kernel>,
    resident: u32,
}

impl Kernel for PretendKernel {
    fn resident(&self) -> u32 {
        self.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        self.inner.launch(launch)
    }
}
