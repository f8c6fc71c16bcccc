//! The interpreter as a device that advances only when somebody lets time pass, for simulations in which one thread is
//! host, device and clock.
//!
//! Devices live in a [`SteppedWorld`], which has a clock and a seed. A run makes progress in two cases only: when the
//! simulation lets time [pass](SteppedWorld::pass), and when somebody waits for the end of a run, which lets time pass as
//! well. So the seed and the calls decide everything: which lane runs when, at which step of which task the host does
//! something, and when a lease is over. Nothing here looks at the machine's clock, and there is no other thread.
//!
//! Memory is that of the host, in the order of the program: what a lane has stored is there when the run is cut. A real
//! device may lose the last stores, or have them arrive in another order. Missing fences are for other tests to find.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pelton_ir::interp::{BoundWords, End, InterpKernel, InterpLaunch, LaunchWords, Schedule, SteppedRun};
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::launch::{Launch, LaunchEnd, LaunchOutcome};
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::reference::{Reference, SUBGROUP, memory_words, refused};
use crate::{Device, Kernel, Run};

/// Into how many parts a wait divides its time, and how many steps a run may make in each.
const WAIT_PARTS: u32 = 16;
const WAIT_STEPS: u64 = 2048;

/// After so many parts of a wait without a time limit, the run will never end.
const MOST_PARTS: u32 = 1 << 16;

/// What the devices of a simulation share: the clock, the seed and the runs that are under way.
#[derive(Debug)]
pub struct SteppedWorld(Mutex<WorldState>);

#[derive(Debug)]
struct WorldState {
    seed: u64,
    now: Duration,
    runs: Vec<Weak<SteppedLaunch>>,
    /// All memory of devices that was ever allocated.
    allocated: Vec<Memory>,
}

impl SteppedWorld {
    /// Makes a world at time zero.
    pub fn new(seed: u64) -> Arc<Self> {
        let state = WorldState { seed, now: Duration::ZERO, runs: Vec::new(), allocated: Vec::new() };
        Arc::new(SteppedWorld(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time that has passed.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Lets time pass, in which lanes of each run make about so many steps. A run whose lease is over ends.
    pub fn pass(&self, time: Duration, steps: u64) {
        let mut state = self.lock();
        state.now += time;
        let now = state.now;
        state.runs.retain(|run| run.strong_count() > 0);
        let runs: Vec<_> = state.runs.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        runs.iter().for_each(|run| run.pass(now, steps));
    }

    /// Returns all memory of all devices that was ever allocated, as kernels have left it, even if nobody else has it any
    /// more.
    pub fn device_memory(&self) -> Vec<Memory> {
        self.lock().allocated.clone()
    }

    /// Returns the seed of the next run.
    fn next_seed(&self) -> u64 {
        let mut state = self.lock();
        state.seed = state.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state.seed
    }
}

/// A device of a [`SteppedWorld`].
#[derive(Debug)]
pub struct Stepped {
    caps: Caps,
    world: Arc<SteppedWorld>,
}

impl Stepped {
    /// Makes a device. It says of itself what the interpreter says that runs on so many threads.
    ///
    /// # Errors
    ///
    /// Those of [`Reference::new`].
    pub fn new(world: &Arc<SteppedWorld>, threads: u32) -> Result<Self, DeviceError> {
        let caps = Caps { name: "stepped".into(), ..Reference::new(Some(threads))?.caps().clone() };
        Ok(Stepped { caps, world: world.clone() })
    }
}

impl Device for Stepped {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        let memory = Memory::mapped(kind, width, len)?;
        if kind == MemoryKind::Device {
            self.world.lock().allocated.push(memory.clone());
        }
        Ok(memory)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let program = Arc::new(InterpKernel::new(module, kernel).map_err(refused)?);
        Ok(Arc::new(SteppedKernel { module: module.clone(), program, lanes, world: self.world.clone() }))
    }
}

#[derive(Debug)]
struct SteppedKernel {
    module: Valid,
    program: Arc<InterpKernel>,
    lanes: u32,
    world: Arc<SteppedWorld>,
}

/// The memory of each buffer of a launch.
struct LaunchMemory(Vec<Option<Memory>>);

impl LaunchWords for LaunchMemory {
    fn words(&self, buffer: usize) -> BoundWords<'_> {
        memory_words(&self.0[buffer])
    }
}

impl Kernel for SteppedKernel {
    fn resident(&self) -> u32 {
        u32::MAX
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let bound = launch.bound(&self.module)?;
        let words = Arc::new(LaunchMemory(bound.into_iter().map(|memory| memory.cloned()).collect()));
        let seed = self.world.next_seed();
        let geometry = InterpLaunch {
            groups: launch.groups,
            lanes: self.lanes,
            subgroup: SUBGROUP,
            buffers: Vec::new(),
            stop: None,
            deadline: None,
            schedule: Schedule::Seeded(seed),
        };
        let run = SteppedRun::new(self.program.clone(), &geometry, words, seed)
            .map_err(|error| DeviceError::Codegen(error.to_string()))?;
        let state = LaunchState { run, cut: None, lease_end: Duration::ZERO };
        let shared = Arc::new(SteppedLaunch { state: Mutex::new(state), lease: launch.lease });
        shared.renew(self.world.now());
        self.world.lock().runs.push(Arc::downgrade(&shared));
        Ok(Box::new(SteppedLaunchRun { shared, module: self.module.clone(), world: self.world.clone() }))
    }
}

/// A launch of a stepped device.
#[derive(Debug)]
struct SteppedLaunch {
    state: Mutex<LaunchState>,
    lease: Option<Duration>,
}

#[derive(Debug)]
struct LaunchState {
    run: SteppedRun,
    /// Why the launch was ended before its lanes had returned.
    cut: Option<LaunchOutcome>,
    /// When the lease is over, if there is one.
    lease_end: Duration,
}

impl SteppedLaunch {
    fn lock(&self) -> MutexGuard<'_, LaunchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, now: Duration, steps: u64) {
        let mut state = self.lock();
        state.run.advance(steps);
        if self.lease.is_some() && now >= state.lease_end {
            state.cut(LaunchOutcome::Lease);
        }
    }

    fn renew(&self, now: Duration) {
        self.lock().lease_end = now + self.lease.unwrap_or_default();
    }
}

impl LaunchState {
    fn cut(&mut self, why: LaunchOutcome) {
        if self.run.report().is_none() {
            self.cut = Some(why);
            self.run.cut();
        }
    }
}

#[derive(Debug)]
struct SteppedLaunchRun {
    shared: Arc<SteppedLaunch>,
    module: Valid,
    world: Arc<SteppedWorld>,
}

impl SteppedLaunchRun {
    fn end(&self) -> Result<Option<LaunchEnd>, DeviceError> {
        let state = self.shared.lock();
        let report = match state.run.report() {
            None => return Ok(None),
            Some(Err(error)) => return Err(DeviceError::Codegen(error.to_string())),
            Some(Ok(report)) => report,
        };
        let outcome = match report.end {
            End::Done => LaunchOutcome::Done,
            End::Stopped => state.cut.unwrap_or(LaunchOutcome::Stopped),
            End::Trapped { code, site } => {
                return Err(DeviceError::fault(&self.module, (code, site), report.fault));
            }
        };
        Ok(Some(LaunchEnd { outcome, fault: report.fault }))
    }
}

impl Run for SteppedLaunchRun {
    fn stop(&self) {
        self.shared.lock().cut(LaunchOutcome::Stopped);
    }

    /// Does nothing: groups never park, because nobody is there to wake them while they do.
    fn wake(&self) {}

    fn renew(&self) {
        self.shared.renew(self.world.now());
    }

    /// Lets time pass until the run has ended, or for as long as the timeout says.
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let (parts, time) = match timeout {
            Some(Duration::ZERO) => return self.end(),
            Some(timeout) => (WAIT_PARTS, timeout / WAIT_PARTS + Duration::from_nanos(1)),
            // A wait without a limit needs no clock, and must not make a lease end.
            None => (MOST_PARTS, Duration::ZERO),
        };
        for _ in 0..parts {
            match self.end() {
                Ok(None) => self.world.pass(time, WAIT_STEPS),
                ended => return ended,
            }
        }
        assert!(timeout.is_some(), "a run that was waited for without a limit does not end");
        self.end()
    }
}

impl Drop for SteppedLaunchRun {
    fn drop(&mut self) {
        self.stop();
    }
}
