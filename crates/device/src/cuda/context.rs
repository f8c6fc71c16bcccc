//! A device that is open: its context, and what all that use it share.
//!
//! A process has one context a device, however often the device is opened, so that [`Gate`] knows of all launches.
//! Everything that belongs to the context keeps it: memory, code, launches. The last to go closes it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use crate::error::DeviceError;
use crate::mapped::{Mapped, Width};

use super::berth::Berth;
use super::clock::Clock;
use super::current::{self, Current, Stream};
use super::gate::{Alone, Gate, Room};
use super::grave::Grave;
use super::info::Info;
use super::near::Bar;
use super::pinned::Pinned;
use super::raw::{Driver, Gpu, Status};

/// How long a load waits for launches to end, and a launch for room, before they are refused.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of zeros that are copied at a time to clear memory.
const ZEROS: usize = 1 << 20;

/// The devices that are open in this process.
static OPEN: Mutex<Vec<(u32, Weak<Context>)>> = Mutex::new(Vec::new());

/// Tells contexts apart that were open at different times.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An open device.
#[derive(Debug)]
pub struct Context {
    /// Which of all contexts this is.
    pub id: u64,
    /// What the device is.
    pub info: Info,
    /// Who may use it at once.
    pub gate: Gate,
    /// Set when the device has been opened.
    clock: OnceLock<Clock>,
    /// What the driver calls it by.
    pub gpu: Gpu,
    handle: current::Context,
    /// For uploads and downloads.
    pub copies: Stream,
    /// For stop words, which must not wait behind a long copy.
    pub control: Stream,
    zeros: Mutex<Option<Pinned>>,
    graves: Mutex<Vec<Grave>>,
    berths: Mutex<Vec<Berth>>,
    /// How the host reaches its memory, or why not; once that was found out.
    pub near: Mutex<Option<Result<Arc<Bar>, String>>>,
}

/// Locks, whatever happened to others who did.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Context {
    /// Opens a device, or finds it open. The folder has code that was compiled before.
    pub fn open(driver: Driver, ordinal: u32, folder: Option<&Path>) -> Result<Arc<Context>, DeviceError> {
        let mut open = lock(&OPEN);
        open.retain(|(_, context)| context.strong_count() > 0);
        let found =
            open.iter().find(|(other, _)| *other == ordinal).and_then(|(_, context)| context.upgrade());
        if let Some(context) = found {
            return Ok(context);
        }
        let context = Arc::new(Context::new(driver.gpu(ordinal)?, ordinal)?);
        let clock = Clock::new(&context, folder)?;
        context.clock.get_or_init(|| clock);
        open.push((ordinal, Arc::downgrade(&context)));
        Ok(context)
    }

    fn new(gpu: Gpu, ordinal: u32) -> Result<Context, DeviceError> {
        let info = Info::new(gpu, ordinal)?;
        let handle = gpu.retain()?;
        let made = (|| {
            let current = gpu.enter(handle)?;
            let (copies, control) = (current.stream()?, current.stream()?);
            let zeros = Pinned::new(current, Mapped::new(Width::W64, ZEROS / 8)?)?;
            Ok((copies, control, zeros))
        })();
        // What was made belongs to the context, and goes with it.
        let (copies, control, zeros) = made.inspect_err(|_: &DeviceError| {
            let _ = gpu.release();
        })?;
        Ok(Context {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            info,
            gate: Gate::default(),
            clock: OnceLock::new(),
            gpu,
            handle,
            copies,
            control,
            zeros: Mutex::new(Some(zeros)),
            graves: Mutex::default(),
            berths: Mutex::default(),
            near: Mutex::default(),
        })
    }

    /// Makes the context current in this thread.
    pub fn enter(&self) -> Result<Current, Status> {
        self.gpu.enter(self.handle)
    }

    /// The device's time in a while.
    pub fn after(&self, wait: Duration) -> u64 {
        self.clock.get().map_or(u64::MAX, |clock| clock.after(wait))
    }

    /// Counts a launch in, until the pass is dropped.
    pub fn pass(self: &Arc<Self>, room: Room) -> Result<Pass, DeviceError> {
        match self.gate.enter(room, PATIENCE) {
            true => Ok(Pass { context: self.clone(), room }),
            false => Err(DeviceError::Busy { what: "kernels that may stay have taken the room" }),
        }
    }

    /// Nobody else, for calls that would wait for every kernel to end.
    pub fn alone(&self) -> Result<Alone<'_>, DeviceError> {
        let busy = DeviceError::Busy { what: "it loads no code while a kernel is resident" };
        let alone = self.gate.alone(PATIENCE).ok_or(busy)?;
        self.free();
        Ok(alone)
    }

    /// Frees something, now or when no kernel is resident any more.
    pub fn bury(&self, grave: Grave) {
        lock(&self.graves).push(grave);
        self.sweep();
    }

    /// Frees what was given up, if no kernel is resident.
    pub fn sweep(&self) {
        if lock(&self.graves).is_empty() {
            return;
        }
        if let Some(_alone) = self.gate.alone(Duration::ZERO) {
            self.free();
        }
    }

    /// Frees what was given up. The caller is alone.
    fn free(&self) {
        let graves = std::mem::take(&mut *lock(&self.graves));
        // A context that cannot be entered is lost, and what it held with it.
        if let Ok(current) = self.enter() {
            graves.into_iter().for_each(|grave| grave.free(current));
        }
    }

    /// Clears memory of the device. Copies go through while kernels hold every multiprocessor.
    pub fn clear(&self, at: u64, bytes: usize) -> Result<(), Status> {
        let current = self.enter()?;
        let zeros = lock(&self.zeros);
        let Some(zeros) = zeros.as_ref() else { return Ok(()) };
        for start in (0..bytes).step_by(ZEROS) {
            let part = ZEROS.min(bytes - start);
            // SAFETY: the zeros live as long as the context, the target is the caller's, and both are waited for below.
            unsafe { current.copy_in(at + start as u64, zeros.block.start().as_ptr(), part, self.copies) }?;
        }
        current.synchronize(self.copies)
    }

    /// A place for a launch.
    pub fn berth(&self) -> Result<Berth, DeviceError> {
        match lock(&self.berths).pop() {
            Some(berth) => Ok(berth),
            None => Berth::new(self),
        }
    }

    /// Takes back a place whose launch has ended, its record cleared.
    pub fn vacate(&self, berth: Berth) {
        lock(&self.berths).push(berth);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // All that launches or loads keeps the context, so nobody does. What fails now has nobody to be told.
        if let Ok(current) = self.enter() {
            let berths = std::mem::take(&mut *lock(&self.berths));
            berths.into_iter().flat_map(Berth::end).for_each(|grave| grave.free(current));
            self.free();
            if let Some(zeros) = lock(&self.zeros).take() {
                Grave::Host(zeros).free(current);
            }
            let _ = current.end_stream(self.copies);
            let _ = current.end_stream(self.control);
        }
        let _ = self.gpu.release();
    }
}

/// A launch that is counted in.
#[derive(Debug)]
pub struct Pass {
    context: Arc<Context>,
    room: Room,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.context.gate.leave(self.room);
        self.context.sweep();
    }
}
