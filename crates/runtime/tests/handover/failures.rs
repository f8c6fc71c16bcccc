//! Hand-overs that fail at each of their steps: the old kernel goes on, or the session ends and every ticket says why.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pelton::device::{
    Caps, CompiledKernel, Device, DeviceError, Kernel, Launch, LaunchEnd, Memory, MemoryKind, Run, WordWidth,
    open,
};
use pelton::ir::valid::Valid;
use pelton::{Deadline, EndReason, Error, Geometry, LossReason, Session, Spec, SubmitError, Task, TaskError};

use crate::{LONG, parked, version};

/// What a [`FaultyDevice`] does wrong next.
#[derive(Debug, Default)]
struct Faults {
    /// Whether it loads no code while a kernel is resident, like a GPU.
    loads_alone: AtomicBool,
    /// How many kernels are resident.
    resident: AtomicU32,
    /// How many of the next allocations, loads and launches fail.
    allocs: AtomicU32,
    loads: AtomicU32,
    launches: AtomicU32,
    /// Whether the device is lost when the next kernel ends.
    lost: AtomicBool,
    /// Whether the next look at whether a run has ended takes until it has.
    slow_look: AtomicBool,
    /// The calls since this list was last taken.
    log: Mutex<Vec<&'static str>>,
}

impl Faults {
    /// Notes a call, and returns whether it fails.
    fn fails(&self, failures_left: &AtomicU32, what: &'static str) -> bool {
        self.log.lock().unwrap().push(what);
        let one_less = |left: u32| left.checked_sub(1);
        failures_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Takes the list of calls.
    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// The CPU, with calls that fail.
#[derive(Debug)]
struct FaultyDevice(Arc<dyn Device>, Arc<Faults>);

#[derive(Debug)]
struct FaultyKernel(Arc<dyn Kernel>, Arc<Faults>);

#[derive(Debug)]
struct FaultyRun(Box<dyn Run>, Arc<Faults>);

impl Device for FaultyDevice {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn alloc(&self, kind: MemoryKind, width: WordWidth, len: usize) -> Result<Memory, DeviceError> {
        match self.1.fails(&self.1.allocs, "alloc") {
            true => Err(DeviceError::Exhausted { bytes: (len * width.bytes()) as u64 }),
            false => self.0.alloc(kind, width, len),
        }
    }

    fn load(&self, module: &Valid, kernel: Option<&str>, lanes: u32) -> Result<Arc<dyn Kernel>, DeviceError> {
        let loaded = self.0.load(module, kernel, lanes)?;
        load_or_fail(loaded, &self.1)
    }

    fn compile(
        &self,
        module: &Valid,
        kernel: Option<&str>,
        lanes: u32,
    ) -> Result<CompiledKernel, DeviceError> {
        let (loaded, faults) = (self.0.load(module, kernel, lanes)?, self.1.clone());
        if faults.loads_alone.load(Ordering::Relaxed) {
            return Ok(CompiledKernel::new(move || load_or_fail(loaded.clone(), &faults)));
        }
        let loaded = load_or_fail(loaded, &faults)?;
        Ok(CompiledKernel::new(move || Ok(loaded.clone())))
    }
}

fn load_or_fail(loaded: Arc<dyn Kernel>, faults: &Arc<Faults>) -> Result<Arc<dyn Kernel>, DeviceError> {
    if faults.loads_alone.load(Ordering::Relaxed) && faults.resident.load(Ordering::Relaxed) > 0 {
        return Err(DeviceError::Busy { what: "a kernel is resident".into() });
    }
    match faults.fails(&faults.loads, "load") {
        true => Err(DeviceError::Exhausted { bytes: 1 }),
        false => Ok(Arc::new(FaultyKernel(loaded, faults.clone()))),
    }
}

impl Kernel for FaultyKernel {
    fn resident(&self) -> u32 {
        self.0.resident()
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        if self.1.fails(&self.1.launches, "launch") {
            return Err(DeviceError::Exhausted { bytes: 2 });
        }
        let run = self.0.launch(launch)?;
        self.1.resident.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FaultyRun(run, self.1.clone())))
    }
}

impl Run for FaultyRun {
    fn stop(&self) {
        self.0.stop();
    }

    fn renew(&self) {
        self.0.renew();
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        let slow = timeout == Some(Duration::ZERO) && self.1.slow_look.swap(false, Ordering::Relaxed);
        let ended = self.0.wait(timeout.filter(|_| !slow))?;
        if let Some(end) = ended {
            self.1.resident.store(0, Ordering::Relaxed);
            if self.1.lost.load(Ordering::Relaxed) {
                return Err(DeviceError::Lost("the test has told it so".into()));
            }
            return Ok(Some(end));
        }
        Ok(None)
    }
}

fn launch_faulty() -> (Session, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let device: Arc<dyn Device> = Arc::new(FaultyDevice(open("cpu").unwrap(), faults.clone()));
    let spec = Spec::new(Geometry::new(64).groups(2).lanes(1));
    let spec = spec.handler("plain", version(1)).handler("parks", parked(1000, 1));
    (Session::launch(&device, &spec).unwrap(), faults)
}

/// The tasks that the old kernel has begun go on too.
#[test]
fn the_old_kernel_goes_on_whichever_step_of_a_hand_over_fails() {
    let (session, faults) = launch_faulty();
    let mut producer = session.producer(0).unwrap();
    let plain = session.opcode("plain").unwrap();
    let mut parked_task = crate::park(&session, &mut producer, 3);
    for (failures_left, what, loads_alone, calls) in [
        (&faults.loads, "load", false, &["load"][..]),
        // An install needs a new buffer for the counters of one more opcode.
        (&faults.allocs, "alloc", false, &["load", "alloc"]),
        (&faults.launches, "launch", false, &["load", "alloc", "launch", "launch"]),
        (&faults.loads, "load in the pause", true, &["alloc", "load", "launch"]),
        (&faults.launches, "launch after a load in the pause", true, &["alloc", "load", "launch", "launch"]),
    ] {
        faults.loads_alone.store(loads_alone, Ordering::Relaxed);
        failures_left.store(1, Ordering::Relaxed);
        faults.take_calls();
        let error = session.install("more", version(2)).unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::Exhausted { .. })), "{what}: {error}");
        assert_eq!(faults.take_calls(), calls, "{what}");
        assert!(session.opcode("more").is_err(), "{what}");
        assert_eq!(crate::run(&mut producer, plain, 1), Ok(2), "{what}: the old kernel goes on");
        assert!(!parked_task.has_ended(), "{what}");
    }
    // A device that loads nothing beside a kernel loads in the pause.
    faults.take_calls();
    let more = session.install("more", version(2)).unwrap();
    assert_eq!(faults.take_calls(), ["alloc", "load", "launch"]);
    assert_eq!(crate::run(&mut producer, more, 1), Ok(3));
    parked_task.resume();
    assert_eq!(parked_task.wait(LONG), Ok(1003));
}

/// Tickets end too, and nothing more is submitted.
#[test]
fn a_session_ends_if_no_kernel_can_be_launched_or_the_device_is_lost() {
    for lost in [false, true] {
        let (session, faults) = launch_faulty();
        let mut producer = session.producer(0).unwrap();
        let mut parked_task = crate::park(&session, &mut producer, 3);
        let waiting = std::thread::spawn(move || parked_task.wait(LONG));
        match lost {
            true => faults.lost.store(true, Ordering::Relaxed),
            false => faults.launches.store(2, Ordering::Relaxed),
        }
        let error = session.install("more", version(2)).unwrap_err();
        assert!(matches!(error, Error::Ended(_)), "{error}");
        let reason = EndReason::Lost(LossReason::Device);
        assert_eq!(session.session_end().map(|end| end.reason()), Some(reason), "{error}");
        assert_eq!(
            waiting.join().unwrap(),
            Err(TaskError::Lost { reason: LossReason::Device, may_have_run: true })
        );
        let refused = producer.submit(Task::new(session.opcode("plain").unwrap())).unwrap_err();
        assert_eq!(refused, SubmitError::Ended(reason));
        assert!(matches!(session.hand_over(&session.spec(), Deadline::Now), Err(Error::Ended(_))));
        assert!(session.stop().is_err());
    }
}

/// A thread that looks whether the kernel has ended may be so slow that a hand-over begins meanwhile. It must not take the end
/// that the hand-over has asked for as the end of the session.
#[test]
fn a_slow_look_at_a_kernel_that_is_replaced_ends_nothing() {
    let (session, faults) = launch_faulty();
    let mut producer = session.producer(0).unwrap();
    faults.slow_look.store(true, Ordering::Relaxed);
    std::thread::scope(|threads| {
        let look = threads.spawn(|| session.session_end());
        while faults.slow_look.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        session.hand_over(&session.spec(), Deadline::Now).unwrap();
        assert!(look.join().unwrap().is_none());
    });
    assert!(session.session_end().is_none());
    assert_eq!(crate::run(&mut producer, session.opcode("plain").unwrap(), 1), Ok(2));
}
