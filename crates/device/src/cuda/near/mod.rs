//! Near memory: the device's own, which the host writes a line at a time through the bus and never reads.
//!
//! CUDA makes the memory and gives it away (`export`), Vulkan takes it and maps it where the host reaches it (`vulkan`), and
//! a line crosses in one store (`line`). No document promises that a kernel which polls such a line sees all of it, so it
//! is tried (`litmus`). A device offers near memory only if every step works and the driver says that writes from outside
//! arrive in order; otherwise it says why not. All of this is done when somebody first asks, since Vulkan takes its time
//! to start.

mod export;
mod line;
mod litmus;
mod vulkan;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::error::{DeviceError, Retry};
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Line, Memory, MemoryKind, MemoryStore, WordSlice, WordSliceMut};
use crate::timekeeper::Timekeeper;

use super::code::CudaCompiler;
use super::context::{CudaContext, lock};
use super::current::Current;
use super::deferred::DeferredFree;
use super::memory;
use super::raw::DriverStatus;

pub(super) use export::ExportedMemory;

use line::LineWriter;
use vulkan::{HostMapping, Vulkan};

/// The least order of writes from outside: the device sees its own in the order in which they were made.
const ORDERED: u32 = 100;

/// How the host reaches memory of a device.
#[derive(Debug)]
pub(super) struct HostReach {
    vulkan: Arc<Vulkan>,
    writer: LineWriter,
}

/// How the host reaches memory of a device, found out now or before.
pub(super) fn host_reach(
    context: &Arc<CudaContext>,
    compiler: &CudaCompiler,
    timekeeper: &Arc<Timekeeper>,
) -> Result<Arc<HostReach>, DeviceError> {
    let without = |why| DeviceError::Near { device: context.info.open.clone(), why };
    let mut known = lock(&context.near);
    if let Some(known) = &*known {
        return known.clone().map_err(without);
    }
    let found = find(context).map_err(without).and_then(|reach| {
        let reach = Arc::new(reach);
        let lines = alloc(context, &reach, WordWidth::W64, litmus::WORDS)?;
        litmus::pass(context, compiler, timekeeper, lines).map(|()| reach)
    });
    match &found {
        Ok(reach) => *known = Some(Ok(reach.clone())),
        // What stands in the way now may be gone when it is asked for again.
        Err(error) if error.retry() == Retry::Later => {}
        Err(DeviceError::Near { why, .. }) => *known = Some(Err(why.clone())),
        Err(error) => *known = Some(Err(error.to_string())),
    }
    found
}

/// What is needed for near memory, or why there is none.
fn find(context: &CudaContext) -> Result<HostReach, String> {
    use Attribute::*;
    let writer = LineWriter::best().ok_or("lines are written by x86-64 alone")?;
    let gpu = context.gpu;
    let ask = |which| gpu.attribute(which).map_err(|status| status.to_string());
    if ask(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? == 0 {
        return Err("the driver gives no memory away".into());
    }
    if ask(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)? < ORDERED {
        return Err("the driver does not say that writes from outside arrive in order".into());
    }
    let uuid = gpu.uuid().map_err(|status| status.to_string())?;
    Ok(HostReach { vulkan: Arc::new(Vulkan::open(uuid)?), writer })
}

/// Near memory, all zero.
pub(super) fn alloc(
    context: &Arc<CudaContext>,
    reach: &HostReach,
    width: WordWidth,
    len: usize,
) -> Result<Memory, DeviceError> {
    let store = NearStore::new(context, reach, width, len)?;
    Ok(Memory::new(MemoryKind::Near, width, len, Arc::new(store)))
}

/// A block of memory, as both sides have it.
#[derive(Debug)]
pub(super) struct NearBlock {
    mapping: HostMapping,
    exported: ExportedMemory,
}

impl NearBlock {
    /// Takes it from both sides. May block while a kernel is resident.
    pub(super) fn free(self, current: Current) -> Result<(), DriverStatus> {
        drop(self.mapping);
        self.exported.free(current)
    }
}

/// Memory of the device that the host writes.
struct NearStore {
    context: Arc<CudaContext>,
    writer: LineWriter,
    width: WordWidth,
    at: u64,
    start: NonNull<u8>,
    /// There until it is dropped.
    block: Option<NearBlock>,
}

// SAFETY: the pointer is to memory that the block keeps mapped. It is only written to, a line or a word at a time; who
// writes the same line at once gets either, as with relaxed atomics.
unsafe impl Send for NearStore {}
// SAFETY: as above.
unsafe impl Sync for NearStore {}

impl fmt::Debug for NearStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NearStore({:#x}, {:?})", self.at, self.writer)
    }
}

impl NearStore {
    fn new(
        context: &Arc<CudaContext>,
        reach: &HostReach,
        width: WordWidth,
        len: usize,
    ) -> Result<Self, DeviceError> {
        let exhausted =
            || DeviceError::Exhausted { bytes: (len as u64).saturating_mul(width.bytes() as u64) };
        let bytes = len.checked_mul(width.bytes()).ok_or_else(exhausted)?.max(1);
        let current = context.enter()?;
        let (exported, file) = ExportedMemory::new(current, context.gpu, bytes)?;
        let mapping = match reach.vulkan.import(file, exported.bytes) {
            Ok(mapping) => mapping,
            Err(refused) => {
                context.defer_free(DeferredFree::Exported(exported));
                return Err(match refused {
                    vulkan::ImportError::Exhausted => exhausted(),
                    vulkan::ImportError::Because(why) => {
                        DeviceError::Near { device: context.info.open.clone(), why }
                    }
                });
            }
        };
        let (at, whole, start) = (exported.at, exported.bytes, mapping.start());
        // From here on it is freed if anything fails.
        let block = Some(NearBlock { mapping, exported });
        let near = NearStore { context: context.clone(), writer: reach.writer, width, at, start, block };
        context.clear(at, whole)?;
        Ok(near)
    }

    /// Where the device finds a word.
    fn word(&self, at: usize) -> u64 {
        self.at + (at * self.width.bytes()) as u64
    }
}

impl MemoryStore for NearStore {
    fn mapped(&self) -> Option<&Mapped> {
        None
    }

    fn address(&self, device: u64) -> Option<u64> {
        (self.context.id == device).then_some(self.at)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        memory::upload(&self.context, self.word(at), words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        memory::download(&self.context, self.word(at), words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        if !at.is_multiple_of(size_of::<Line>() / 8) {
            return Err(DeviceError::Memory {
                device: "this memory".into(),
                what: "line that starts at such a word",
            });
        }
        let to = self.start.as_ptr().wrapping_add(at * self.width.bytes());
        // SAFETY: the range was checked, so the lines lie in what the block keeps mapped; memory starts on a page, so they
        // are aligned.
        unsafe { self.writer.put(to.cast(), lines) };
        Ok(())
    }

    fn flush(&self) {
        line::flush();
    }
}

impl Drop for NearStore {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.context.defer_free(DeferredFree::Near(block));
        }
    }
}
