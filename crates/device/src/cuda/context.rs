//! An open GPU: the driver's context, and what everything that uses the GPU shares.
//!
//! A process has one context per device, however often the device is opened, so that [`Gate`] knows of all launches. Memory,
//! code and launches keep their context open; the last of them to be dropped closes it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use crate::error::DeviceError;
use crate::gate::{self, Alone, Gate, LaunchPass, LaunchRoom, Patience};
use crate::mapped::{Mapped, WordWidth};
use crate::residence::Residence;

use super::clock::ClockPair;
use super::current::{self, Current, StreamHandle};
use super::deferred::DeferredFree;
use super::info::GpuInfo;
use super::launch_place::LaunchPlace;
use super::near::HostReach;
use super::pinned::Pinned;
use super::pinned_pool::{self, BlockPool};
use super::raw::{Driver, DriverStatus, Gpu};

/// Bytes of zeros that are copied at a time to clear memory.
const ZEROS: usize = 1 << 20;

/// The devices that are open in this process.
static OPEN: Mutex<Vec<(u32, Weak<CudaContext>)>> = Mutex::new(Vec::new());

/// The number of the next context, which tells apart contexts that were open at different times.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An open device.
#[derive(Debug)]
pub(super) struct CudaContext {
    /// The number of this context, unique within the process.
    pub id: u64,
    /// The properties of the device.
    pub info: GpuInfo,
    /// Decides which launches and loads may use the device at the same time.
    pub gate: Arc<Gate>,
    /// The device's clock, read against the host's once the device has been opened.
    clock: OnceLock<ClockPair>,
    /// The driver's name of the device.
    pub gpu: Gpu,
    handle: current::ContextHandle,
    /// The stream of uploads.
    pub copies: StreamHandle,
    /// The stream of downloads, which must not wait behind long uploads: a GPU copies in both directions at once.
    pub reads: StreamHandle,
    /// The stream of stop words, which must not wait behind a long copy.
    pub control: StreamHandle,
    zeros: Mutex<Option<Pinned>>,
    /// Pinned blocks that nobody uses, for the next allocations.
    spare: Mutex<BlockPool<Pinned>>,
    /// Resources that are freed when no kernel is resident any more.
    deferred: Mutex<Vec<DeferredFree>>,
    /// Places of launches that have ended, for the next launches.
    places: Mutex<Vec<LaunchPlace>>,
    /// How the host reaches the device's memory, or why it cannot, once that has been tried.
    pub near: Mutex<Option<Result<Arc<HostReach>, String>>>,
}

/// Locks a mutex even if a thread panicked while it held the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl CudaContext {
    /// Opens a device, or finds the context that the process has open. The folder is the cache of compiled code.
    pub(super) fn open(
        driver: Driver,
        ordinal: u32,
        folder: Option<&Path>,
    ) -> Result<Arc<CudaContext>, DeviceError> {
        let mut open = lock(&OPEN);
        open.retain(|(_, context)| context.strong_count() > 0);
        let found =
            open.iter().find(|(other, _)| *other == ordinal).and_then(|(_, context)| context.upgrade());
        if let Some(context) = found {
            return Ok(context);
        }
        let context = Arc::new(CudaContext::new(driver.gpu(ordinal)?, ordinal)?);
        let clock = ClockPair::new(&context, folder)?;
        context.clock.get_or_init(|| clock);
        open.push((ordinal, Arc::downgrade(&context)));
        Ok(context)
    }

    fn new(gpu: Gpu, ordinal: u32) -> Result<CudaContext, DeviceError> {
        let info = GpuInfo::new(gpu, ordinal)?;
        let handle = gpu.retain()?;
        let made = (|| {
            let current = gpu.enter(handle)?;
            let streams = [current.stream()?, current.stream()?, current.stream()?];
            let zeros = Pinned::new(current, Mapped::new(WordWidth::W64, ZEROS / 8)?)?;
            Ok((streams, zeros))
        })();
        // What was made belongs to the driver's context and is freed with it.
        let ([copies, reads, control], zeros) = made.inspect_err(|_: &DeviceError| {
            let _ = gpu.release();
        })?;
        Ok(CudaContext {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            info,
            gate: Arc::default(),
            clock: OnceLock::new(),
            gpu,
            handle,
            copies,
            reads,
            control,
            zeros: Mutex::new(Some(zeros)),
            spare: Mutex::new(BlockPool::new(pinned_pool::MOST_BYTES)),
            deferred: Mutex::default(),
            places: Mutex::default(),
            near: Mutex::default(),
        })
    }

    /// Makes the context current in this thread.
    pub(super) fn enter(&self) -> Result<Current, DriverStatus> {
        self.gpu.enter(self.handle)
    }

    /// What the device's clock will show after `wait`, in nanoseconds.
    pub(super) fn after(&self, wait: Duration) -> u64 {
        self.clock.get().map_or(u64::MAX, |clock| clock.after(wait))
    }

    /// Admits a launch to the device, until the admission is dropped.
    pub(super) fn admit(
        self: &Arc<Self>,
        room: LaunchRoom,
        residence: Option<&Arc<Residence>>,
    ) -> Result<LaunchAdmission, DeviceError> {
        let pass = self.gate.enter(room, residence, gate::PATIENCE);
        let pass = pass.ok_or(DeviceError::Busy { what: gate::NO_ROOM.into() })?;
        Ok(LaunchAdmission { pass: Some(pass), context: self.clone() })
    }

    /// Excludes launches while the guard lives, for calls of the driver that would wait until every kernel has ended.
    pub(super) fn alone(&self) -> Result<Alone<'_>, DeviceError> {
        let alone =
            self.gate.alone(gate::PATIENCE).ok_or(DeviceError::Busy { what: gate::NOT_ALONE.into() })?;
        self.free_deferred();
        Ok(alone)
    }

    /// Takes a block of `len` words, all zero, that the device reaches: one that nobody uses any more, or a new one.
    pub(super) fn take_pinned(&self, width: WordWidth, len: usize) -> Result<Pinned, DeviceError> {
        let current = self.enter()?;
        let spare = lock(&self.spare).take(Mapped::bytes_for(width, len)?);
        match spare {
            Some(pinned) => Ok(pinned.reused(width, len)),
            None => Pinned::new(current, Mapped::new(width, len)?),
        }
    }

    /// Takes back a block that neither the host nor a kernel nor a copy reaches any more.
    pub(super) fn return_pinned(&self, pinned: Pinned) {
        let freed = lock(&self.spare).add(pinned.block.bytes(), pinned);
        freed.into_iter().for_each(|pinned| self.defer_free(DeferredFree::Host(pinned)));
    }

    /// Makes an allocation. If there is too little memory for it, blocks that nobody uses are freed, and it is tried again.
    pub(super) fn with_memory<T>(
        &self,
        allocate: impl Fn() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let refused = match allocate() {
            Err(refused @ DeviceError::Exhausted { .. }) => refused,
            done => return done,
        };
        let spare: Vec<_> = lock(&self.spare).take_all().collect();
        if spare.is_empty() {
            return Err(refused);
        }
        // While a kernel is resident nothing can be freed, and the allocation is refused again.
        spare.into_iter().for_each(|pinned| self.defer_free(DeferredFree::Host(pinned)));
        allocate()
    }

    /// Keeps no memory for later from now on, because a launch has failed and its kernel may still reach what it was given.
    pub(super) fn stop_keeping_memory(&self) {
        let mut spare = std::mem::replace(&mut *lock(&self.spare), BlockPool::new(0));
        lock(&self.deferred).extend(spare.take_all().map(DeferredFree::Host));
    }

    /// Frees a resource, now or when no kernel is resident any more.
    pub(super) fn defer_free(&self, resource: DeferredFree) {
        lock(&self.deferred).push(resource);
        self.try_free_deferred();
    }

    /// Frees the deferred resources if no kernel is resident.
    pub(super) fn try_free_deferred(&self) {
        if lock(&self.deferred).is_empty() {
            return;
        }
        if let Some(_alone) = self.gate.alone(Patience::NONE) {
            self.free_deferred();
        }
    }

    /// Frees the deferred resources. The caller has excluded launches.
    fn free_deferred(&self) {
        let deferred = std::mem::take(&mut *lock(&self.deferred));
        // A context that cannot be entered is lost, and everything in it with it.
        if let Ok(current) = self.enter() {
            deferred.into_iter().for_each(|resource| resource.free(current));
        }
    }

    /// Fills device memory with zeros. This is done by copies, because copies proceed while kernels hold every multiprocessor.
    pub(super) fn clear(&self, at: u64, bytes: usize) -> Result<(), DriverStatus> {
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

    /// A place for a launch: one that an earlier launch has returned, or a new one.
    pub(super) fn take_place(&self) -> Result<LaunchPlace, DeviceError> {
        match lock(&self.places).pop() {
            Some(place) => Ok(place),
            None => LaunchPlace::new(self),
        }
    }

    /// Takes back the place of a launch that has ended and whose record is cleared.
    pub(super) fn return_place(&self, place: LaunchPlace) {
        lock(&self.places).push(place);
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        // Launches and loaded code keep the context, so there are none. Errors have nobody to report them to.
        if let Ok(current) = self.enter() {
            let places = std::mem::take(&mut *lock(&self.places));
            places.into_iter().flat_map(LaunchPlace::into_parts).for_each(|part| part.free(current));
            lock(&self.spare).take_all().for_each(|pinned| DeferredFree::Host(pinned).free(current));
            self.free_deferred();
            if let Some(zeros) = lock(&self.zeros).take() {
                DeferredFree::Host(zeros).free(current);
            }
            let _ = current.end_stream(self.copies);
            let _ = current.end_stream(self.reads);
            let _ = current.end_stream(self.control);
        }
        let _ = self.gpu.release();
    }
}

/// The admission of a launch to a device, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct LaunchAdmission {
    pass: Option<LaunchPass>,
    context: Arc<CudaContext>,
}

impl LaunchAdmission {
    /// Notes that the launch has started.
    pub(super) fn started(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.started();
        }
    }
}

impl Drop for LaunchAdmission {
    fn drop(&mut self) {
        self.pass = None;
        self.context.try_free_deferred();
    }
}
