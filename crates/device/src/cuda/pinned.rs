//! Memory of the host that the device reaches.

use std::mem::ManuallyDrop;

use crate::error::DeviceError;
use crate::mapped::Mapped;

use super::current::Current;
use super::raw::DriverStatus;

/// A registered block. It is freed by [`Pinned::free`]; one that is merely dropped stays allocated, because the device
/// may still reach it.
#[derive(Debug)]
pub(super) struct Pinned {
    /// The words.
    pub block: ManuallyDrop<Mapped>,
    /// Where the device finds them.
    pub at: u64,
}

impl Pinned {
    /// Registers a block.
    pub(super) fn new(current: Current, block: Mapped) -> Result<Self, DeviceError> {
        let block = ManuallyDrop::new(block);
        // SAFETY: the block owns its pages, and is not freed before it is unregistered.
        match unsafe { current.register(block.start().as_ptr(), block.bytes()) } {
            Ok(at) => Ok(Pinned { block, at }),
            Err(status) => {
                let bytes = block.bytes();
                // If it was registered after all, it is no longer; else this is refused.
                let _ = current.unregister(block.start().as_ptr());
                drop(ManuallyDrop::into_inner(block));
                Err(status.for_bytes(bytes))
            }
        }
    }

    /// Unregisters and frees it. Blocks while a kernel is resident.
    pub(super) fn free(self, current: Current) -> Result<(), DriverStatus> {
        current.unregister(self.block.start().as_ptr())?;
        drop(ManuallyDrop::into_inner(self.block));
        Ok(())
    }
}
