//! Launches on the CPU: how groups run on threads, and how a launch ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pelton_ir::valid::Valid;

use crate::error::DeviceError;
use crate::event::Event;
use crate::launch::{Fault, Launch, LaunchEnd, LaunchOutcome};
use crate::mapped::{Mapped, WordWidth};
use crate::memory::Memory;
use crate::timekeeper::{StopSignal, Timekeeper, wait_while};
use crate::{Kernel, Run};

use super::abi::{BoundBuffer, GroupContext, GroupExit};
use super::code::CpuCode;
use super::pool::ThreadPool;
use super::rest::GroupSleep;

/// A kernel that is compiled for groups of a fixed number of lanes.
#[derive(Debug)]
pub(super) struct CpuKernel {
    /// The module as it was given, for checking bindings and finding places.
    pub module: Valid,
    /// The compiled code.
    pub code: Arc<CpuCode>,
    /// How many groups have a thread each, if groups may wait for each other.
    pub resident: u32,
    /// How many threads other launches share.
    pub threads: u32,
    /// Shared with the device.
    pub sleep: Arc<GroupSleep>,
    /// Shared with the device.
    pub pool: Arc<ThreadPool>,
    /// Shared with the device.
    pub timekeeper: Arc<Timekeeper>,
}

/// What the threads of a launch and its handle share.
#[derive(Debug)]
pub(super) struct CpuLaunch {
    /// The stop word of the launch.
    pub stop: Arc<StopSignal>,
    /// The event at which groups park.
    pub event: Event,
    /// How groups sleep there.
    pub sleep: Arc<GroupSleep>,
    /// When the launch began.
    pub start: Instant,
    /// How many groups the launch has.
    pub groups: u32,
    next: AtomicU32,
    faults: AtomicU64,
    state: Mutex<CpuLaunchState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct CpuLaunchState {
    /// How many threads still work for the launch.
    working: u32,
    fault: Option<(u32, u32)>,
    trap: Option<(u32, u32)>,
    cut: bool,
    failed: Option<u64>,
}

impl CpuLaunch {
    fn lock(&self) -> MutexGuard<'_, CpuLaunchState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records a fault of a lane. Only the first one is kept, and all are counted.
    pub(super) fn record(&self, code: u32, inst: u32) {
        if self.faults.fetch_add(1, Ordering::Relaxed) == 0 {
            self.lock().fault = Some((code, inst));
        }
    }

    /// Records the trap of a lane, and ends all groups.
    pub(super) fn trap(&self, code: u32, inst: u32) {
        self.lock().trap.get_or_insert((code, inst));
        self.end(LaunchOutcome::Stopped);
    }

    fn end(&self, why: LaunchOutcome) {
        self.stop.set(why);
        self.event.wake();
    }
}

/// The buffers of a launch as compiled code reads them, and the memory that they point to.
struct BoundBuffers {
    slots: Vec<BoundBuffer>,
    _kept: Vec<Memory>,
}

// SAFETY: the slots point into memory that `_kept` keeps alive, and that is shared under the language's memory model.
unsafe impl Send for BoundBuffers {}
// SAFETY: as above.
unsafe impl Sync for BoundBuffers {}

impl BoundBuffers {
    fn new(memory: &[Option<&Memory>]) -> Result<Self, DeviceError> {
        let mut slots = Vec::with_capacity(memory.len());
        for memory in memory {
            slots.push(match memory {
                None => BoundBuffer { start: std::ptr::null(), len: 0 },
                Some(memory) => {
                    let foreign = || DeviceError::Memory {
                        device: "cpu".into(),
                        what: "use for memory of another device".into(),
                    };
                    let mapped = memory.store().mapped().ok_or_else(foreign)?;
                    BoundBuffer { start: mapped.start().as_ptr(), len: mapped.len() as u64 }
                }
            });
        }
        Ok(BoundBuffers { slots, _kept: memory.iter().flatten().map(|memory| (*memory).clone()).collect() })
    }
}

impl Kernel for CpuKernel {
    fn resident(&self) -> u32 {
        self.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let bound = Arc::new(BoundBuffers::new(&launch.bound(&self.module)?)?);
        let together = self.code.may_wait && launch.groups <= self.resident;
        let workers = if together { launch.groups } else { launch.groups.min(self.threads) };
        let shared = Arc::new(CpuLaunch {
            stop: Arc::default(),
            event: event_of(launch),
            sleep: self.sleep.clone(),
            start: Instant::now(),
            groups: launch.groups,
            next: AtomicU32::new(0),
            faults: AtomicU64::new(0),
            state: Mutex::new(CpuLaunchState { working: workers, ..CpuLaunchState::default() }),
            ended: Condvar::new(),
        });
        let run = CpuRun {
            shared: shared.clone(),
            lease: launch.lease,
            timekeeper: self.timekeeper.clone(),
            module: self.module.clone(),
            code: self.code.clone(),
            _pool: self.pool.clone(),
        };
        for started in 0..workers {
            let (mine, bound, code) = (shared.clone(), bound.clone(), self.code.clone());
            let job = move || {
                work(&mine, &bound, &code);
                let mut state = mine.lock();
                state.working -= 1;
                if state.working == 0 {
                    mine.ended.notify_all();
                }
            };
            if let Err(error) = self.pool.run(job) {
                // The threads that have started must not wait for those that have not.
                shared.lock().working -= workers - started;
                shared.end(LaunchOutcome::Stopped);
                return Err(error);
            }
        }
        let parked = Arc::downgrade(&shared);
        self.timekeeper.add(&shared.stop, launch, move || {
            if let Some(shared) = parked.upgrade() {
                shared.event.wake();
            }
        });
        Ok(Box::new(run))
    }
}

/// The event at which the groups of a launch park.
#[cfg(not(feature = "loom"))]
fn event_of(launch: &Launch) -> Event {
    launch.wake_word.clone().map_or_else(Event::default, Event::in_shared_memory)
}

#[cfg(feature = "loom")]
fn event_of(_launch: &Launch) -> Event {
    Event::default()
}

/// Runs groups of a launch, one after the other, until none is left.
fn work(shared: &Arc<CpuLaunch>, bound: &BoundBuffers, code: &CpuCode) {
    let Ok(scratch) = Mapped::new(WordWidth::W64, code.frame.bytes.div_ceil(8)) else {
        shared.lock().failed = Some(code.frame.bytes as u64);
        return shared.end(LaunchOutcome::Stopped);
    };
    let mut context = GroupContext::new(shared, &bound.slots, scratch.start().as_ptr());
    loop {
        context.group = shared.next.fetch_add(1, Ordering::Relaxed);
        if context.group >= shared.groups {
            return;
        }
        if context.stopped() {
            shared.lock().cut = true;
            return;
        }
        if context.group > 0 {
            let zero = code.frame.zero.clone();
            // SAFETY: the range lies in the scratch, which this thread owns.
            unsafe { context.scratch.add(zero.start).write_bytes(0, zero.len()) };
        }
        // SAFETY: the code was compiled for this context's layout, the slots and the scratch have the sizes that the
        // module and the frame say, and all of them live until the call returns.
        let exit = unsafe { (code.entry)(&context) };
        if exit == GroupExit::Stopped as u32 {
            shared.lock().cut = true;
            return;
        }
        if exit == GroupExit::Trapped as u32 {
            return;
        }
    }
}

/// The handle of a launch on the CPU.
#[derive(Debug)]
struct CpuRun {
    shared: Arc<CpuLaunch>,
    lease: Option<Duration>,
    timekeeper: Arc<Timekeeper>,
    module: Valid,
    code: Arc<CpuCode>,
    /// Keeps the threads until the launch has ended, even if the device is dropped before.
    _pool: Arc<ThreadPool>,
}

impl Run for CpuRun {
    fn stop(&self) {
        self.shared.end(LaunchOutcome::Stopped);
    }

    fn wake(&self) {
        self.shared.event.wake();
    }

    fn notify(&self) {
        self.shared.event.notify();
    }

    fn renew(&self) {
        self.timekeeper.renew(&self.shared.stop, self.lease);
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let state = self.shared.lock();
        let Some(state) = wait_while(&self.shared.ended, state, timeout, |state| state.working > 0) else {
            return Ok(None);
        };
        if let Some(bytes) = state.failed {
            return Err(DeviceError::Exhausted { bytes });
        }
        let count = self.shared.faults.load(Ordering::Relaxed);
        let fault = state.fault.map(|(code, inst)| Fault { code, site: self.code.site(inst), count });
        if let Some((code, inst)) = state.trap {
            return Err(DeviceError::fault(&self.module, (code, self.code.site(inst)), fault));
        }
        let outcome = match state.cut {
            true => self.shared.stop.why().unwrap_or(LaunchOutcome::Stopped),
            false => LaunchOutcome::Done,
        };
        Ok(Some(LaunchEnd { outcome, fault }))
    }
}

impl Drop for CpuRun {
    fn drop(&mut self) {
        self.stop();
        // This ends in bounded time, because every loop that can run for long looks at the stop word.
        let _ = self.wait(None);
    }
}
