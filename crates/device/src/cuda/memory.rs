//! Memory of an open GPU: host memory, which both sides reach, and device memory, which is copied to and from.

use std::fmt;
use std::sync::Arc;

use crate::error::DeviceError;
use crate::mapped::{Mapped, WordWidth};
use crate::memory::{Line, Memory, MemoryKind, MemoryStore, WordSlice, WordSliceMut};

use super::context::CudaContext;
use super::deferred::DeferredFree;
use super::pinned::{Pinned, RegisteredBlock};

/// Allocates host memory that the device reaches, all zero.
pub(super) fn alloc_host(
    context: &Arc<CudaContext>,
    width: WordWidth,
    len: usize,
) -> Result<Memory, DeviceError> {
    let pinned = context.take_pinned(width, len)?;
    let store = PinnedStore { context: context.clone(), pinned: Some(pinned) };
    Ok(Memory::new(MemoryKind::Host, width, len, Arc::new(store)))
}

/// Makes host memory that another device has allocated reachable for this one.
pub(super) fn adopt_host(context: &Arc<CudaContext>, memory: &Memory) -> Result<Memory, DeviceError> {
    let store = memory.store();
    if store.address(context.id).is_some() {
        return Ok(memory.clone());
    }
    let registered = RegisteredBlock::new(context.enter()?, store.clone())?;
    let (context, original) = (context.clone(), store.clone());
    let adopted = AdoptedStore { context, original, registered: Some(registered) };
    Ok(Memory::new(MemoryKind::Host, memory.width(), memory.len(), Arc::new(adopted)))
}

/// Allocates device memory, all zero.
pub(super) fn alloc_device(
    context: &Arc<CudaContext>,
    width: WordWidth,
    len: usize,
) -> Result<Memory, DeviceError> {
    Ok(Memory::new(MemoryKind::Device, width, len, Arc::new(DeviceStore::new(context, width, len)?)))
}

/// Copies words to device memory at an address of the device, and waits until they are there.
pub(super) fn upload(context: &CudaContext, to: u64, words: WordSlice<'_>) -> Result<(), DeviceError> {
    let (start, bytes) = match words {
        WordSlice::W32(words) => (words.as_ptr().cast::<u8>(), size_of_val(words)),
        WordSlice::W64(words) => (words.as_ptr().cast(), size_of_val(words)),
    };
    let (current, on) = (context.enter()?, context.copies);
    if bytes > 0 {
        // SAFETY: the words are borrowed and the range lies in the caller's memory until the copy is waited for.
        let copied = unsafe { current.copy_in(to, start, bytes, on) };
        current.synchronize(on).and(copied)?;
    }
    Ok(())
}

/// Copies words from device memory at an address of the device, and waits until they are there.
pub(super) fn download(context: &CudaContext, from: u64, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
    let (start, bytes) = match words {
        WordSliceMut::W32(words) => (words.as_mut_ptr().cast::<u8>(), size_of_val(words)),
        WordSliceMut::W64(words) => (words.as_mut_ptr().cast(), size_of_val(words)),
    };
    let (current, on) = (context.enter()?, context.reads);
    if bytes > 0 {
        // SAFETY: the words are borrowed and the range lies in the caller's memory until the copy is waited for.
        let copied = unsafe { current.copy_out(start, from, bytes, on) };
        current.synchronize(on).and(copied)?;
    }
    Ok(())
}

/// Host memory that the device reaches.
struct PinnedStore {
    context: Arc<CudaContext>,
    /// The registered block, which is taken when this is dropped.
    pinned: Option<Pinned>,
}

impl fmt::Debug for PinnedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedStore({:#x})", self.pinned.as_ref().map_or(0, |pinned| pinned.at))
    }
}

impl PinnedStore {
    fn block(&self) -> Result<&Mapped, DeviceError> {
        let gone = || DeviceError::Memory { device: "this memory".into(), what: "words any more".into() };
        self.mapped().ok_or_else(gone)
    }
}

impl MemoryStore for PinnedStore {
    fn mapped(&self) -> Option<&Mapped> {
        self.pinned.as_ref().map(|pinned| &*pinned.block)
    }

    fn address(&self, device: u64) -> Option<u64> {
        self.pinned.as_ref().filter(|_| self.context.id == device).map(|pinned| pinned.at)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        self.block()?.upload(at, words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        self.block()?.download(at, words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        self.block()?.put(at, lines)
    }

    fn flush(&self) {
        if let Some(block) = self.mapped() {
            block.flush();
        }
    }
}

impl Drop for PinnedStore {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            self.context.return_pinned(pinned);
        }
    }
}

/// Host memory of another device that this device reaches too. All but its address is the business of the other device.
#[derive(Debug)]
struct AdoptedStore {
    context: Arc<CudaContext>,
    /// The memory of the other device.
    original: Arc<dyn MemoryStore>,
    /// The registration, which is taken when this is dropped.
    registered: Option<RegisteredBlock>,
}

impl MemoryStore for AdoptedStore {
    fn mapped(&self) -> Option<&Mapped> {
        self.original.mapped()
    }

    fn address(&self, device: u64) -> Option<u64> {
        match &self.registered {
            Some(registered) if self.context.id == device => Some(registered.at),
            _ => self.original.address(device),
        }
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        self.original.upload(at, words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        self.original.download(at, words)
    }

    fn put(&self, at: usize, lines: &[Line]) -> Result<(), DeviceError> {
        self.original.put(at, lines)
    }

    fn flush(&self) {
        self.original.flush();
    }
}

impl Drop for AdoptedStore {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.take() {
            self.context.defer_free(DeferredFree::Registration(registered));
        }
    }
}

/// Device memory.
struct DeviceStore {
    context: Arc<CudaContext>,
    at: u64,
    width: WordWidth,
}

impl fmt::Debug for DeviceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceStore({:#x})", self.at)
    }
}

impl DeviceStore {
    fn new(context: &Arc<CudaContext>, width: WordWidth, len: usize) -> Result<Self, DeviceError> {
        let exhausted =
            || DeviceError::Exhausted { bytes: (len as u64).saturating_mul(width.bytes() as u64) };
        let bytes = len.checked_mul(width.bytes()).ok_or_else(exhausted)?.max(1);
        let at = context.enter()?.alloc(bytes).map_err(|status| status.for_bytes(bytes))?;
        // From here on the memory is freed if anything fails.
        let own = DeviceStore { context: context.clone(), at, width };
        context.clear(at, bytes)?;
        Ok(own)
    }

    /// The device's address of a word.
    fn word_address(&self, at: usize) -> u64 {
        self.at + (at * self.width.bytes()) as u64
    }
}

impl MemoryStore for DeviceStore {
    fn mapped(&self) -> Option<&Mapped> {
        None
    }

    fn address(&self, device: u64) -> Option<u64> {
        (self.context.id == device).then_some(self.at)
    }

    fn upload(&self, at: usize, words: WordSlice<'_>) -> Result<(), DeviceError> {
        upload(&self.context, self.word_address(at), words)
    }

    fn download(&self, at: usize, words: WordSliceMut<'_>) -> Result<(), DeviceError> {
        download(&self.context, self.word_address(at), words)
    }

    fn put(&self, _at: usize, _lines: &[Line]) -> Result<(), DeviceError> {
        Err(DeviceError::Memory {
            device: "this memory".into(),
            what: "lines, which only near memory has".into(),
        })
    }

    fn flush(&self) {}
}

impl Drop for DeviceStore {
    fn drop(&mut self) {
        self.context.defer_free(DeferredFree::Device(self.at));
    }
}
