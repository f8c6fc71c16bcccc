//! Near memory: the device's own, which the host writes a line at a time through the bus and never reads.
//!
//! CUDA makes the memory and gives it away (`share`), Vulkan takes it and maps it where the host reaches it (`vulkan`), and
//! a line crosses in one store (`line`). No document promises that a kernel which polls such a line sees all of it, so it
//! is tried (`litmus`). A device offers near memory only if every step works and the driver says that writes from outside
//! arrive in order; otherwise it says why not. All of this is done when somebody first asks, since Vulkan takes its time
//! to start.

mod line;
mod litmus;
mod share;
mod vulkan;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::error::{DeviceError, Retry};
use crate::mapped::{Mapped, Width};
use crate::memory::{Kind, Line, Memory, Store, Words, WordsMut};
use crate::watch::Watch;

use super::code::Compiler;
use super::context::{Context, lock};
use super::current::Current;
use super::grave::Grave;
use super::memory;
use super::raw::Status;

pub use share::Share;

use line::Wire;
use vulkan::{Vulkan, Window};

/// The least order of writes from outside: the device sees its own in the order in which they were made.
const ORDERED: u32 = 100;

/// How the host reaches memory of a device.
#[derive(Debug)]
pub struct Bar {
    vulkan: Arc<Vulkan>,
    wire: Wire,
}

/// How the host reaches memory of a device, found out now or before.
pub fn bar(context: &Arc<Context>, compiler: &Compiler, watch: &Arc<Watch>) -> Result<Arc<Bar>, DeviceError> {
    let without = |why| DeviceError::Near { device: context.info.open.clone(), why };
    let mut known = lock(&context.near);
    if let Some(known) = &*known {
        return known.clone().map_err(without);
    }
    let found = find(context).map_err(without).and_then(|bar| {
        let bar = Arc::new(bar);
        let lines = alloc(context, &bar, Width::W64, litmus::WORDS)?;
        litmus::pass(context, compiler, watch, lines).map(|()| bar)
    });
    match &found {
        Ok(bar) => *known = Some(Ok(bar.clone())),
        // What stands in the way now may be gone when it is asked for again.
        Err(error) if error.retry() == Retry::Later => {}
        Err(DeviceError::Near { why, .. }) => *known = Some(Err(why.clone())),
        Err(error) => *known = Some(Err(error.to_string())),
    }
    found
}

/// What is needed for near memory, or why there is none.
fn find(context: &Context) -> Result<Bar, String> {
    use Attribute::*;
    let wire = Wire::here().ok_or("lines are written by x86-64 alone")?;
    let gpu = context.gpu;
    let ask = |which| gpu.attribute(which).map_err(|status| status.to_string());
    if ask(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? == 0 {
        return Err("the driver gives no memory away".into());
    }
    if ask(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)? < ORDERED {
        return Err("the driver does not say that writes from outside arrive in order".into());
    }
    let uuid = gpu.uuid().map_err(|status| status.to_string())?;
    Ok(Bar { vulkan: Arc::new(Vulkan::open(uuid)?), wire })
}

/// Near memory, all zero.
pub fn alloc(context: &Arc<Context>, bar: &Bar, width: Width, len: usize) -> Result<Memory, DeviceError> {
    let store = Near::new(context, bar, width, len)?;
    Ok(Memory::new(Kind::Near, width, len, Arc::new(store)))
}

/// A piece of memory, as both sides have it.
#[derive(Debug)]
pub struct Piece {
    window: Window,
    share: Share,
}

impl Piece {
    /// Takes it from both sides. May block while a kernel is resident.
    pub fn free(self, current: Current) -> Result<(), Status> {
        drop(self.window);
        self.share.free(current)
    }
}

/// Memory of the device that the host writes.
struct Near {
    context: Arc<Context>,
    wire: Wire,
    width: Width,
    at: u64,
    start: NonNull<u8>,
    /// There until it is dropped.
    piece: Option<Piece>,
}

// SAFETY: the pointer is to memory that the piece keeps mapped. It is only written to, a line or a word at a time; who
// writes the same line at once gets either, as with relaxed atomics.
unsafe impl Send for Near {}
// SAFETY: as above.
unsafe impl Sync for Near {}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Near({:#x}, {:?})", self.at, self.wire)
    }
}

impl Near {
    fn new(context: &Arc<Context>, bar: &Bar, width: Width, len: usize) -> Result<Self, DeviceError> {
        let exhausted =
            || DeviceError::Exhausted { bytes: (len as u64).saturating_mul(width.bytes() as u64) };
        let bytes = len.checked_mul(width.bytes()).ok_or_else(exhausted)?.max(1);
        let current = context.enter()?;
        let (share, file) = Share::new(current, context.gpu, bytes)?;
        let window = match bar.vulkan.import(file, share.bytes) {
            Ok(window) => window,
            Err(refused) => {
                context.bury(Grave::Share(share));
                return Err(match refused {
                    vulkan::Refused::Exhausted => exhausted(),
                    vulkan::Refused::Because(why) => {
                        DeviceError::Near { device: context.info.open.clone(), why }
                    }
                });
            }
        };
        let (at, whole, start) = (share.at, share.bytes, window.start());
        // From here on it is freed if anything fails.
        let piece = Some(Piece { window, share });
        let near = Near { context: context.clone(), wire: bar.wire, width, at, start, piece };
        context.clear(at, whole)?;
        Ok(near)
    }

    /// Where the device finds a word.
    fn word(&self, at: usize) -> u64 {
        self.at + (at * self.width.bytes()) as u64
    }
}

impl Store for Near {
    fn mapped(&self) -> Option<&Mapped> {
        None
    }

    fn address(&self, device: u64) -> Option<u64> {
        (self.context.id == device).then_some(self.at)
    }

    fn upload(&self, at: usize, words: Words<'_>) -> Result<(), DeviceError> {
        memory::upload(&self.context, self.word(at), words)
    }

    fn download(&self, at: usize, words: WordsMut<'_>) -> Result<(), DeviceError> {
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
        // SAFETY: the range was checked, so the lines lie in what the piece keeps mapped; memory starts on a page, so they
        // are aligned.
        unsafe { self.wire.put(to.cast(), lines) };
        Ok(())
    }

    fn flush(&self) {
        line::flush();
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.bury(Grave::Near(piece));
        }
    }
}
