//! The reference interpreter as a device. It is slow, and its results are right by definition.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pelton_ir::interp::{BoundWords, End, InterpKernel, InterpReport, LaunchError, LoadError, Schedule};
use pelton_ir::types::Scope;
use pelton_ir::valid::Valid;

use crate::caps::Caps;
use crate::error::DeviceError;
use crate::launch::{Launch, LaunchEnd, LaunchOutcome};
use crate::mapped::WordWidth;
use crate::memory::{Memory, MemoryKind};
use crate::timekeeper::{StopSignal, Timekeeper, wait_while};
use crate::{Device, Kernel, Run};

/// How many lanes a subgroup has.
pub(crate) const SUBGROUP: u32 = 32;

/// The interpreter of [`pelton_ir::interp`] as a device.
#[derive(Debug)]
pub struct Reference {
    caps: Caps,
    threads: usize,
    timekeeper: Arc<Timekeeper>,
}

impl Reference {
    /// The interpreter on the given number of threads, or on as many threads as there are cores.
    pub fn new(threads: Option<u32>) -> Result<Self, DeviceError> {
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let threads = threads.unwrap_or_else(cores);
        let caps = Caps {
            name: "reference".into(),
            about: format!("the interpreter, {threads} threads"),
            persistent: true,
            scope: Scope::System,
            subgroup: SUBGROUP,
            independent_subgroups: true,
            lanes: 32,
            max_lanes: 1024,
            groups: threads,
            resident: u32::MAX,
            units: threads,
            memory_bytes: None,
            shared_bytes: pelton_ir::limits::MAX_SHARED as usize,
            wakes: true,
            near_memory: Ok(()),
            async_copies: false,
        };
        Ok(Reference { caps, threads: threads as usize, timekeeper: Arc::default() })
    }
}

impl Device for Reference {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        Memory::mapped(kind, width, len)
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let program = InterpKernel::new(module, kernel).map_err(refused)?;
        Ok(Arc::new(ReferenceKernel {
            module: module.clone(),
            program: Arc::new(program),
            lanes,
            threads: self.threads,
            timekeeper: self.timekeeper.clone(),
        }))
    }
}

pub(crate) fn refused(error: LoadError) -> DeviceError {
    match error {
        LoadError::Refused { op, site } => {
            DeviceError::Op { device: "reference".into(), op: op.row().name.into(), site }
        }
        LoadError::Kernel(error) => error.into(),
        LoadError::Unbound(error) => error.into(),
        error => DeviceError::Codegen(error.to_string()),
    }
}

#[derive(Debug)]
struct ReferenceKernel {
    module: Valid,
    program: Arc<InterpKernel>,
    lanes: u32,
    threads: usize,
    timekeeper: Arc<Timekeeper>,
}

impl Kernel for ReferenceKernel {
    fn resident(&self) -> u32 {
        u32::MAX
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let bound = launch.bound(&self.module)?;
        let memory: Vec<Option<Memory>> = bound.into_iter().map(|memory| memory.cloned()).collect();
        let shared = Arc::new(ReferenceLaunch {
            stop: Arc::default(),
            report: Mutex::new(None),
            ended: Condvar::new(),
        });
        let (threads, lanes, groups) = (self.threads, self.lanes, launch.groups);
        let (program, ends) = (self.program.clone(), shared.clone());
        let job = move || {
            let buffers = memory.iter().map(memory_words).collect();
            let stop = Some(ends.stop.word());
            let schedule = Schedule::Threads(threads);
            let launch = pelton_ir::interp::InterpLaunch {
                groups,
                lanes,
                subgroup: SUBGROUP,
                buffers,
                stop,
                deadline: None,
                schedule,
            };
            let report = program.run(&launch);
            *ends.lock() = Some(report);
            ends.ended.notify_all();
        };
        let thread = std::thread::Builder::new().name("pelton-reference".into()).spawn(job);
        let thread = Mutex::new(Some(thread.map_err(DeviceError::Thread)?));
        self.timekeeper.add(&shared.stop, launch, || {});
        let (timekeeper, module) = (self.timekeeper.clone(), self.module.clone());
        Ok(Box::new(ReferenceRun { shared, thread, lease: launch.lease, timekeeper, module }))
    }
}

/// The memory of a buffer in the form that the interpreter takes.
pub(crate) fn memory_words(memory: &Option<Memory>) -> BoundWords<'_> {
    let Some(memory) = memory else { return BoundWords::None };
    match (memory.words32(), memory.words64()) {
        (Some(words), _) => BoundWords::W32(words),
        (_, Some(words)) => BoundWords::W64(words),
        _ => BoundWords::None,
    }
}

#[derive(Debug)]
struct ReferenceLaunch {
    stop: Arc<StopSignal>,
    report: Mutex<Option<Result<InterpReport, LaunchError>>>,
    ended: Condvar,
}

impl ReferenceLaunch {
    fn lock(&self) -> MutexGuard<'_, Option<Result<InterpReport, LaunchError>>> {
        self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[derive(Debug)]
struct ReferenceRun {
    shared: Arc<ReferenceLaunch>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    lease: Option<Duration>,
    timekeeper: Arc<Timekeeper>,
    module: Valid,
}

impl Run for ReferenceRun {
    fn stop(&self) {
        self.shared.stop.set(LaunchOutcome::Stopped);
    }

    /// Does nothing: the interpreter never parks for long.
    fn wake(&self) {}

    fn renew(&self) {
        self.timekeeper.renew(&self.shared.stop, self.lease);
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let report = self.shared.lock();
        let Some(report) = wait_while(&self.shared.ended, report, timeout, |report| report.is_none()) else {
            return Ok(None);
        };
        let report = match report.as_ref() {
            Some(Ok(report)) => report,
            Some(Err(error)) => return Err(DeviceError::Codegen(error.to_string())),
            None => return Ok(None),
        };
        let fault = report.fault;
        let outcome = match &report.end {
            End::Done => LaunchOutcome::Done,
            End::Stopped => self.shared.stop.why().unwrap_or(LaunchOutcome::Stopped),
            End::Trapped { code, site } => {
                return Err(DeviceError::fault(&self.module, (*code, *site), fault));
            }
        };
        Ok(Some(LaunchEnd { outcome, fault }))
    }
}

impl Drop for ReferenceRun {
    fn drop(&mut self) {
        self.stop();
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
