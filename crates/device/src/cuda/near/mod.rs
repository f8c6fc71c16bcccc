//! Near memory: device memory that the host writes one line at a time through the bus and never reads.
//!
//! CUDA allocates the memory and exports it (`export`), Vulkan imports it and maps it for the host (`vulkan`), and the host writes
//! a line with one store (`line`). No specification promises that a kernel which polls such a line sees all of it, so that is
//! tested (`litmus`). A device offers near memory only if every step works and the driver says that writes from outside arrive
//! in order; otherwise the error says why not. All of this is done on first use, because Vulkan takes a while to start.

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

/// The weakest ordering of writes from outside that is accepted: the device sees them in the order in which they were made.
const ORDERED: u32 = 100;

/// How the host reaches the memory of a device.
#[derive(Debug)]
pub(super) struct HostReach {
    vulkan: Arc<Vulkan>,
    writer: LineWriter,
}

/// Finds out how the host reaches the memory of a device. The answer is kept for later calls.
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
        litmus::check_lines(context, compiler, timekeeper, lines).map(|()| reach)
    });
    match &found {
        Ok(reach) => *known = Some(Ok(reach.clone())),
        // What is in the way now may be gone at the next call.
        Err(error) if error.retry() == Retry::Later => {}
        Err(DeviceError::Near { why, .. }) => *known = Some(Err(why.clone())),
        Err(error) => *known = Some(Err(error.to_string())),
    }
    found
}

/// Collects what near memory needs. The error says what is missing.
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

/// Allocates near memory, all zero.
pub(super) fn alloc(
    context: &Arc<CudaContext>,
    reach: &HostReach,
    width: WordWidth,
    len: usize,
) -> Result<Memory, DeviceError> {
    let store = NearStore::new(context, reach, width, len)?;
    Ok(Memory::new(MemoryKind::Near, width, len, Arc::new(store)))
}

/// A block of device memory together with its mapping for the host.
#[derive(Debug)]
pub(super) struct NearBlock {
    mapping: HostMapping,
    exported: ExportedMemory,
}

impl NearBlock {
    /// Unmaps and frees the block. May block while a kernel is resident.
    pub(super) fn free(self, current: Current) -> Result<(), DriverStatus> {
        drop(self.mapping);
        self.exported.free(current)
    }
}

/// Near memory of a GPU.
struct NearStore {
    context: Arc<CudaContext>,
    writer: LineWriter,
    width: WordWidth,
    at: u64,
    start: NonNull<u8>,
    /// The block, which is taken when this is dropped.
    block: Option<NearBlock>,
}

// SAFETY: the pointer is to memory that the block keeps mapped. It is only written to, a line or a word at a time.
// Of threads that write the same line at once, either may win, as with relaxed atomics.
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
        // From here on the memory is freed if anything fails.
        let block = Some(NearBlock { mapping, exported });
        let near = NearStore { context: context.clone(), writer: reach.writer, width, at, start, block };
        context.clear(at, whole)?;
        Ok(near)
    }

    /// The device's address of a word.
    fn word_address(&self, at: usize) -> u64 {
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
        memory::upload(&self.context, self.word_address(at), words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        memory::download(&self.context, self.word_address(at), words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        if !at.is_multiple_of(size_of::<Line>() / 8) {
            return Err(DeviceError::Memory {
                device: "this memory".into(),
                what: "line that starts at such a word".into(),
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
