//! Launches on a GPU: how they start, are stopped and end.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pelton_ir::arena::Handle;

use crate::error::DeviceError;
use crate::gate::LaunchRoom;
use crate::launch::{Fault, Launch, LaunchEnd, LaunchOutcome};
use crate::memory::Memory;
use crate::timekeeper::{StopSignal, Timekeeper};
use crate::{Kernel, Run};

use super::code::CudaCode;
use super::context::{CudaContext, LaunchAdmission};
use super::launch_place::{EndRecord, LaunchPlace, StopRequested};
use super::raw::DriverStatus;

/// The largest number of groups that the driver accepts for a launch.
const MAX_GROUPS: u32 = i32::MAX as u32;

/// A kernel that is compiled for groups of a fixed number of lanes and loaded on a GPU.
#[derive(Debug)]
pub(super) struct CudaKernel {
    /// The open device.
    pub context: Arc<CudaContext>,
    /// The compiled code.
    pub code: Arc<CudaCode>,
    /// The device's timekeeper, which enforces deadlines and leases.
    pub timekeeper: Arc<Timekeeper>,
}

impl CudaKernel {
    /// Refuses a launch of more groups than the device takes.
    fn check_groups(&self, launch: &Launch) -> Result<(), DeviceError> {
        let limit = |what, most: u32| {
            let (device, found) = (self.context.info.open.clone(), launch.groups.into());
            Err(DeviceError::Limit { device, what, found, most: most.into() })
        };
        match self.code.resident {
            most if self.code.may_wait && launch.groups > most => {
                limit("the number of groups of a kernel whose groups may wait for each other".into(), most)
            }
            _ if launch.groups > MAX_GROUPS => limit("the number of groups".into(), MAX_GROUPS),
            _ => Ok(()),
        }
    }

    /// The words of the launch record for the buffers: the address and the number of elements of each.
    fn buffer_words(&self, bound: &[Option<&Memory>]) -> Result<Vec<u64>, DeviceError> {
        let mut words = Vec::with_capacity(2 * bound.len());
        for memory in self.code.params.iter().filter_map(|param| bound[param.buffer.index()]) {
            let device = || self.context.info.open.clone();
            let foreign =
                || DeviceError::Memory { device: device(), what: "use for memory of another device".into() };
            words.push(memory.store().address(self.context.id).ok_or_else(foreign)?);
            words.push(memory.len() as u64);
        }
        Ok(words)
    }

    /// Starts a launch, without handing it to the timekeeper.
    fn start(&self, launch: &Launch) -> Result<CudaRun, DeviceError> {
        let bound = launch.bound(&self.code.module)?;
        self.check_groups(launch)?;
        let buffers = self.buffer_words(&bound)?;
        let room = match self.code.may_wait {
            true => LaunchRoom::of_waiting_groups(launch.groups, self.code.resident),
            false => LaunchRoom::of_independent_groups(self.code.resident),
        };
        let mut admission = self.context.admit(room, launch.residence.as_ref())?;
        let place = self.context.take_place()?;
        let limit_ns = self.limit_ns(launch);
        place.set_limit(limit_ns);
        let mut words = [&place.launch_words(limit_ns)[..], &buffers].concat();
        let (code, current) = (&self.code, self.context.enter()?);
        // SAFETY: these are the words of the launch record as the emitter defines it. The launch keeps the memory, the code
        // and the place until it has ended.
        let started =
            unsafe { current.launch(code.function, launch.groups, code.shape, &mut words, place.stream) };
        if let Err(status) = started {
            self.context.return_place(place);
            return Err(status.into());
        }
        admission.started();
        let shared = Arc::new(LaunchShared {
            context: self.context.clone(),
            stop: Arc::default(),
            state: Mutex::new(LaunchState {
                under_way: Some((place, admission)),
                stop_requested: StopRequested::No,
                ended: None,
            }),
            _bound: bound.into_iter().flatten().cloned().collect(),
        });
        let deadline = launch.deadline.and_then(|after| Instant::now().checked_add(after));
        let (code, timekeeper) = (self.code.clone(), self.timekeeper.clone());
        Ok(CudaRun { shared, code, timekeeper, lease: launch.lease, deadline })
    }

    /// When the kernel ends by itself, in nanoseconds of the device's clock.
    fn limit_ns(&self, launch: &Launch) -> u64 {
        let first = launch.deadline.into_iter().chain(launch.lease).min();
        first.map_or(u64::MAX, |wait| self.context.after(wait))
    }
}

impl Kernel for CudaKernel {
    fn resident(&self) -> u32 {
        self.code.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let launched = self.start(launch)?;
        let shared = Arc::downgrade(&launched.shared);
        self.timekeeper.add(&launched.shared.stop, launch, move || {
            if let Some(shared) = shared.upgrade() {
                shared.request_stop();
            }
        });
        Ok(Box::new(launched))
    }

    /// The calling thread enforces the deadline itself, so the launch is not handed to the timekeeper thread.
    fn run(&self, launch: &Launch) -> Result<LaunchEnd, DeviceError> {
        let launched = self.start(launch)?;
        loop {
            let left = launched.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                launched.shared.stop.set(LaunchOutcome::Deadline);
                launched.shared.request_stop();
            }
            let beat = launch.beat().into_iter().chain(left.filter(|left| !left.is_zero())).min();
            if let Some(ended) = launched.wait_pausing(beat, PollPause::new(YIELDING_POLLS))? {
                return Ok(ended);
            }
            launched.renew();
        }
    }
}

/// What the handle of a launch and the timekeeper share.
#[derive(Debug)]
struct LaunchShared {
    context: Arc<CudaContext>,
    stop: Arc<StopSignal>,
    state: Mutex<LaunchState>,
    /// The bound memory, which must live until the kernel has ended.
    _bound: Vec<Memory>,
}

#[derive(Debug)]
struct LaunchState {
    /// The place of the launch and its admission to the device, until the launch has ended.
    under_way: Option<(LaunchPlace, LaunchAdmission)>,
    /// Whether the kernel was asked to stop.
    stop_requested: StopRequested,
    /// How the launch ended, once it has.
    ended: Option<Result<EndRecord, DriverStatus>>,
}

impl LaunchShared {
    fn lock(&self) -> MutexGuard<'_, LaunchState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks the kernel to stop. Only the first request is sent.
    fn request_stop(&self) {
        let mut state = self.lock();
        let LaunchState {
            under_way: Some((place, _)), stop_requested: requested @ StopRequested::No, ..
        } = &mut *state
        else {
            return;
        };
        // A failure means that the device is lost, which the next `poll` reports.
        let sent = self.context.enter().and_then(|current| place.request_stop(current, self.context.control));
        if sent.is_ok() {
            *requested = StopRequested::Yes;
        }
    }

    /// How the launch ended, or `None` while it is under way.
    fn poll(&self) -> Option<Result<EndRecord, DriverStatus>> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return state.ended;
        }
        let requested = state.stop_requested;
        let (place, _) = state.under_way.as_ref()?;
        let ended = self.context.enter().and_then(|current| {
            if !current.idle(place.stream)? {
                return Ok(None);
            }
            if requested == StopRequested::Yes {
                // The copy of the stop word may still be under way, and must not stop the next launch.
                current.synchronize(self.context.control)?;
            }
            place.take_record(current, requested).map(Some)
        });
        state.ended = ended.transpose();
        let ended = state.ended?;
        if let Some((place, admission)) = state.under_way.take() {
            // The place of a launch that failed may still be in use, so it is freed with the context.
            match ended {
                Ok(_) => self.context.return_place(place),
                Err(_) => self.context.stop_keeping_memory(),
            }
            drop(state);
            drop(admission);
        }
        Some(ended)
    }
}

/// The handle of a launch on a GPU.
#[derive(Debug)]
struct CudaRun {
    shared: Arc<LaunchShared>,
    code: Arc<CudaCode>,
    timekeeper: Arc<Timekeeper>,
    lease: Option<Duration>,
    deadline: Option<Instant>,
}

impl CudaRun {
    /// Waits for the end of the launch, for at most `timeout`.
    fn wait_pausing(
        &self,
        timeout: Option<Duration>,
        mut pause: PollPause,
    ) -> Result<Option<LaunchEnd>, DeviceError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(ended) = self.shared.poll() {
                return self.outcome_of(ended?).map(Some);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
            pause.next(until);
        }
    }

    /// How a launch ended that left this record.
    fn outcome_of(&self, record: EndRecord) -> Result<LaunchEnd, DeviceError> {
        let site = |inst| self.code.site(inst);
        let fault = record.fault.map(|(code, inst, count)| Fault { code, site: site(inst), count });
        if let Some((code, inst)) = record.trap {
            return Err(DeviceError::fault(&self.code.module, (code, site(inst)), fault));
        }
        // A kernel that stopped without a request saw by its own clock that its time was over.
        let overdue = || match self.deadline {
            Some(deadline) if deadline <= Instant::now() => LaunchOutcome::Deadline,
            _ if self.lease.is_some() => LaunchOutcome::Lease,
            _ => LaunchOutcome::Stopped,
        };
        let outcome = match record.stopped {
            true => self.shared.stop.why().unwrap_or_else(overdue),
            false => LaunchOutcome::Done,
        };
        Ok(LaunchEnd { outcome, fault })
    }
}

impl Run for CudaRun {
    fn stop(&self) {
        self.shared.stop.set(LaunchOutcome::Stopped);
        self.shared.request_stop();
    }

    /// Does nothing: kernels on a GPU poll, and none is ever parked.
    fn wake(&self) {}

    fn renew(&self) {
        let Some(lease) = self.lease else { return };
        self.timekeeper.renew(&self.shared.stop, Some(lease));
        let deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit_ns = self.shared.context.after(deadline.map_or(lease, |left| left.min(lease)));
        if let Some((place, _)) = &self.shared.lock().under_way {
            place.set_limit(limit_ns);
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<LaunchEnd>, DeviceError> {
        self.wait_pausing(timeout, PollPause::new(0))
    }
}

impl Drop for CudaRun {
    fn drop(&mut self) {
        self.stop();
        // This ends in bounded time, because every loop that can run for long looks at the stop word.
        let _ = self.wait(None);
    }
}

/// How long to pause between two polls for the end of a launch: not at all at first, then longer and longer.
#[derive(Debug)]
struct PollPause {
    polls: u32,
    yields: u32,
}

/// How many polls follow each other at once.
const EAGER_POLLS: u32 = 200;
/// How many further polls [`Kernel::run`] makes that only yield the core in between: its kernels are expected to end soon.
const YIELDING_POLLS: u32 = 4000;
/// The longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

impl PollPause {
    /// A pause that, after the first polls, only yields the core for `yields` polls, and sleeps from then on.
    fn new(yields: u32) -> Self {
        PollPause { polls: 0, yields }
    }

    fn next(&mut self, until: Option<Instant>) {
        self.polls = self.polls.saturating_add(1);
        let Some(late) = self.polls.checked_sub(EAGER_POLLS) else { return std::hint::spin_loop() };
        let Some(late) = late.checked_sub(self.yields) else { return std::thread::yield_now() };
        let pause = Duration::from_micros(late.into()).min(LONGEST_PAUSE);
        let left = until.map_or(pause, |until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(pause.min(left));
    }
}
