//! Resources of a device that may be freed only while no kernel is resident.

use super::current::{Current, ModuleHandle, StreamHandle};
use super::near::{ExportedMemory, NearBlock};
use super::pinned::{Pinned, RegisteredBlock};

/// A resource that nothing uses any more, and that is freed as soon as no kernel is resident.
#[derive(Debug)]
pub(super) enum DeferredFree {
    /// Device memory, by its address.
    Device(u64),
    /// Host memory that the device reaches.
    Host(Pinned),
    /// Host memory of another device that this device reaches too.
    Registration(RegisteredBlock),
    /// Device memory that the host writes.
    Near(NearBlock),
    /// Device memory that the host was to write, but which could not be mapped.
    Exported(ExportedMemory),
    /// Loaded code.
    Module(ModuleHandle),
    /// A stream.
    Stream(StreamHandle),
}

impl DeferredFree {
    /// Frees the resource. An error is ignored: it means that the device is lost, and the resource with it.
    pub(super) fn free(self, current: Current) {
        let _ = match self {
            DeferredFree::Device(at) => current.free(at),
            DeferredFree::Host(pinned) => pinned.free(current),
            DeferredFree::Registration(block) => block.free(current),
            DeferredFree::Near(block) => block.free(current),
            DeferredFree::Exported(memory) => memory.free(current),
            DeferredFree::Module(module) => current.unload(module),
            DeferredFree::Stream(stream) => current.end_stream(stream),
        };
    }
}
