//! A kernel that traps, and so takes its GPU away from the whole process: for showing and testing what others do about that.
//!
//! A trap of the language only ends its own kernel, so this one is written in PTX.

use std::sync::Arc;

use crate::error::DeviceError;

use super::Cuda;
use super::context::CudaContext;
use super::current::{FunctionHandle, GroupShape, StreamHandle};
use super::link;

const PTX: &str = "\
.version 7.0
.target sm_80
.address_size 64

.visible .entry pelton_trap()
{
	trap;
	ret;
}
";

/// A kernel that traps when it is launched. It is loaded before other kernels are resident, and may be launched beside them.
#[derive(Debug)]
pub struct TrapKernel {
    context: Arc<CudaContext>,
    function: FunctionHandle,
    stream: StreamHandle,
}

impl Cuda {
    /// Loads a kernel that traps.
    ///
    /// # Errors
    ///
    /// Those of [`Device::load`](crate::Device::load).
    pub fn load_trap(&self) -> Result<TrapKernel, DeviceError> {
        let cubin = link::cubin(&self.context, PTX, None)?;
        let alone = self.context.alone()?;
        let current = self.context.enter()?;
        // Neither is freed before the context is, because the context is expected to be lost.
        let module = current.load(&cubin)?;
        let function = current.function(module, "pelton_trap")?;
        let stream = current.stream()?;
        drop(alone);
        Ok(TrapKernel { context: self.context.clone(), function, stream })
    }
}

impl TrapKernel {
    /// Launches the kernel. The GPU is lost for this process soon after: every launch that is under way reports that, and so
    /// does every later call.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Lost`] if the GPU is lost already, and other errors of the driver.
    pub fn launch(&self) -> Result<(), DeviceError> {
        let current = self.context.enter()?;
        // SAFETY: the kernel takes no parameters and reaches no memory.
        unsafe {
            current.launch(self.function, 1, GroupShape { lanes: 1, shared: 0 }, &mut [], self.stream)
        }?;
        Ok(())
    }
}
