//! Host memory that is registered with the driver, so that the device reaches it.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::MemoryStore;

use cudarc::driver::sys::CUresult;

use super::current::Current;
use super::raw::DriverStatus;

/// A block of host memory that the device reaches. [`Pinned::free`] frees it. A block that is merely dropped stays allocated,
/// because the device may still reach it.
#[derive(Debug)]
pub(super) struct Pinned {
    /// The block of words.
    pub block: ManuallyDrop<Mapped>,
    /// The address that the device knows the block by.
    pub at: u64,
}

impl Pinned {
    /// Registers a block with the driver.
    pub(super) fn new(current: Current, block: Mapped) -> Result<Self, DeviceError> {
        let block = ManuallyDrop::new(block);
        // SAFETY: the block owns its pages, and is not freed before it is unregistered.
        match unsafe { current.register(block.start().as_ptr(), block.bytes()) } {
            Ok(at) => Ok(Pinned { block, at }),
            Err(status) => {
                let bytes = block.bytes();
                // The block may have been registered before the error. If not, this call is refused, which does no harm.
                let _ = current.unregister(block.start().as_ptr());
                drop(ManuallyDrop::into_inner(block));
                Err(status.for_bytes(bytes))
            }
        }
    }

    /// The same block with `len` other words, all zero. Nobody may reach the old ones any more.
    pub(super) fn reused(self, width: WordWidth, len: usize) -> Self {
        let block = ManuallyDrop::into_inner(self.block).reused(width, len);
        Pinned { block: ManuallyDrop::new(block), ..self }
    }

    /// Unregisters and frees the block. Blocks while a kernel is resident.
    pub(super) fn free(self, current: Current) -> Result<(), DriverStatus> {
        current.unregister(self.block.start().as_ptr())?;
        drop(ManuallyDrop::into_inner(self.block));
        Ok(())
    }
}

/// A block of host memory that belongs to another device, and that this device reaches too. [`RegisteredBlock::free`] ends
/// that. A block that is merely dropped stays registered, and its memory allocated.
#[derive(Debug)]
pub(super) struct RegisteredBlock {
    /// The memory of the other device.
    pub store: ManuallyDrop<Arc<dyn MemoryStore>>,
    /// The address that the device knows the block by.
    pub at: u64,
    /// Whether the block was registered here. If the other device is a GPU too, its driver has registered the block for all
    /// GPUs, and gives that back when the other device frees the block.
    registered_here: bool,
}

impl RegisteredBlock {
    /// Registers the block of another device with the driver, unless it is registered already.
    pub(super) fn new(current: Current, store: Arc<dyn MemoryStore>) -> Result<Self, DeviceError> {
        let unreachable = || DeviceError::Memory {
            device: "a GPU".into(),
            what: "use for memory that the host cannot reach".into(),
        };
        let block = store.mapped().ok_or_else(unreachable)?;
        let (start, bytes) = (block.start().as_ptr(), block.bytes());
        // SAFETY: the store owns the pages of the block, and is not dropped before the block is unregistered.
        let (at, registered_here) = match unsafe { current.register(start, bytes) } {
            Ok(at) => (Ok(at), true),
            Err(status) if status.result == CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {
                (current.address_of_registered(start), false)
            }
            Err(status) => {
                // The block may have been registered before the error. If not, this call is refused, which does no harm.
                let _ = current.unregister(start);
                (Err(status), false)
            }
        };
        let at = at.map_err(|status| status.for_bytes(bytes))?;
        Ok(RegisteredBlock { store: ManuallyDrop::new(store), at, registered_here })
    }

    /// Unregisters the block. Blocks while a kernel is resident.
    pub(super) fn free(self, current: Current) -> Result<(), DriverStatus> {
        if let Some(block) = self.store.mapped().filter(|_| self.registered_here) {
            current.unregister(block.start().as_ptr())?;
        }
        drop(ManuallyDrop::into_inner(self.store));
        Ok(())
    }
}
