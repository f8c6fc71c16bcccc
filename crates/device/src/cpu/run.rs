//! A launch on the CPU: its groups on threads, its end, its faults.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pelton_ir::valid::Valid;

use crate::error::DeviceError;
use crate::event::Event;
use crate::launch::{Ended, Fault, Launch, Outcome};
use crate::mapped::{Mapped, Width};
use crate::memory::Memory;
use crate::watch::{Stop, Watch, wait};
use crate::{Kernel, Run};

use super::abi::{Context, Exit, Slot};
use super::code::Code;
use super::pool::Pool;

/// A kernel that is compiled for a number of lanes.
#[derive(Debug)]
pub struct Loaded {
    /// As it was handed in, for bindings and for places.
    pub module: Valid,
    /// What runs.
    pub code: Arc<Code>,
    /// Groups that get a thread each where they may wait for each other.
    pub resident: u32,
    /// Threads for all other launches.
    pub threads: u32,
    /// The device's own.
    pub pool: Arc<Pool>,
    /// The device's own.
    pub watch: Arc<Watch>,
}

/// What the groups of a launch and its handle share.
#[derive(Debug)]
pub struct Shared {
    /// Why to end.
    pub stop: Arc<Stop>,
    /// Where groups park.
    pub event: Event,
    /// When it began.
    pub start: Instant,
    /// How many groups.
    pub groups: u32,
    next: AtomicU32,
    faults: AtomicU64,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that still work for the launch.
    working: u32,
    fault: Option<(u32, u32)>,
    trap: Option<(u32, u32)>,
    cut: bool,
    failed: Option<u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A lane recorded a fault.
    pub fn record(&self, code: u32, inst: u32) {
        if self.faults.fetch_add(1, Ordering::Relaxed) == 0 {
            self.lock().fault = Some((code, inst));
        }
    }

    /// A lane trapped: everybody ends.
    pub fn trap(&self, code: u32, inst: u32) {
        self.lock().trap.get_or_insert((code, inst));
        self.end(Outcome::Stopped);
    }

    fn end(&self, why: Outcome) {
        self.stop.set(why);
        self.event.wake();
    }
}

/// The buffers of a launch, and what keeps them alive.
struct Bound {
    slots: Vec<Slot>,
    _kept: Vec<Memory>,
}

// SAFETY: the slots point into memory that `_kept` keeps alive, and that is shared under the language's memory model.
unsafe impl Send for Bound {}
// SAFETY: as above.
unsafe impl Sync for Bound {}

impl Bound {
    fn new(memory: &[Option<&Memory>]) -> Result<Self, DeviceError> {
        let mut slots = Vec::with_capacity(memory.len());
        for memory in memory {
            slots.push(match memory {
                None => Slot { start: std::ptr::null(), len: 0 },
                Some(memory) => {
                    let foreign = || DeviceError::Memory {
                        device: "cpu".into(),
                        what: "use for memory of another device",
                    };
                    let mapped = memory.store().mapped().ok_or_else(foreign)?;
                    Slot { start: mapped.start().as_ptr(), len: mapped.len() as u64 }
                }
            });
        }
        Ok(Bound { slots, _kept: memory.iter().flatten().map(|memory| (*memory).clone()).collect() })
    }
}

impl Kernel for Loaded {
    fn resident(&self) -> u32 {
        self.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let bound = Arc::new(Bound::new(&launch.bound(&self.module)?)?);
        let together = self.code.waits && launch.groups <= self.resident;
        let workers = if together { launch.groups } else { launch.groups.min(self.threads) };
        let shared = Arc::new(Shared {
            stop: Arc::default(),
            event: Event::default(),
            start: Instant::now(),
            groups: launch.groups,
            next: AtomicU32::new(0),
            faults: AtomicU64::new(0),
            state: Mutex::new(State { working: workers, ..State::default() }),
            ended: Condvar::new(),
        });
        let run = Launched {
            shared: shared.clone(),
            lease: launch.lease,
            watch: self.watch.clone(),
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
                // Those that started must not wait for those that did not.
                shared.lock().working -= workers - started;
                shared.end(Outcome::Stopped);
                return Err(error);
            }
        }
        let parked = Arc::downgrade(&shared);
        self.watch.add(&shared.stop, launch, move || {
            if let Some(shared) = parked.upgrade() {
                shared.event.wake();
            }
        });
        Ok(Box::new(run))
    }
}

/// What a thread does for a launch: group after group.
fn work(shared: &Arc<Shared>, bound: &Bound, code: &Code) {
    let Ok(scratch) = Mapped::new(Width::W64, code.frame.bytes.div_ceil(8)) else {
        shared.lock().failed = Some(code.frame.bytes as u64);
        return shared.end(Outcome::Stopped);
    };
    let mut context = Context::new(shared, &bound.slots, scratch.start().as_ptr());
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
        if exit == Exit::Stopped as u32 {
            shared.lock().cut = true;
            return;
        }
        if exit == Exit::Trapped as u32 {
            return;
        }
    }
}

/// A launch under way.
#[derive(Debug)]
struct Launched {
    shared: Arc<Shared>,
    lease: Option<Duration>,
    watch: Arc<Watch>,
    module: Valid,
    code: Arc<Code>,
    /// Keeps the threads until the launch has ended, even if the device is dropped before.
    _pool: Arc<Pool>,
}

impl Run for Launched {
    fn stop(&self) {
        self.shared.end(Outcome::Stopped);
    }

    fn wake(&self) {
        self.shared.event.wake();
    }

    fn renew(&self) {
        self.watch.renew(&self.shared.stop, self.lease);
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<Ended>, DeviceError> {
        let state = self.shared.lock();
        let Some(state) = wait(&self.shared.ended, state, timeout, |state| state.working > 0) else {
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
            true => self.shared.stop.why().unwrap_or(Outcome::Stopped),
            false => Outcome::Done,
        };
        Ok(Some(Ended { outcome, fault }))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.stop();
        // Bounded: every loop that can go on looks at the stop word.
        let _ = self.wait(None);
    }
}
