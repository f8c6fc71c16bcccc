//! A launch on the device: its start, its stop, its end.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pelton_ir::arena::Handle;

use crate::error::DeviceError;
use crate::launch::{Ended, Fault, Launch, Outcome};
use crate::memory::Memory;
use crate::watch::{Stop, Watch};
use crate::{Kernel, Run};

use super::berth::{Berth, Record};
use super::code::Code;
use super::context::{Context, Pass};
use super::gate::Room;
use super::raw::Status;

/// The most groups of a launch.
const MAX_GROUPS: u32 = i32::MAX as u32;

/// A kernel that is compiled for a number of lanes.
#[derive(Debug)]
pub struct Loaded {
    /// The device's own.
    pub context: Arc<Context>,
    /// What runs.
    pub code: Arc<Code>,
    /// The device's own.
    pub watch: Arc<Watch>,
}

impl Loaded {
    /// Refuses more than the device takes.
    fn check(&self, launch: &Launch) -> Result<(), DeviceError> {
        let limit = |what, most: u32| {
            let (device, found) = (self.context.info.open.clone(), launch.groups.into());
            Err(DeviceError::Limit { device, what, found, most: most.into() })
        };
        match self.code.resident {
            most if self.code.waits && launch.groups > most => {
                limit("the number of groups of a kernel whose groups may wait for each other", most)
            }
            _ if launch.groups > MAX_GROUPS => limit("the number of groups", MAX_GROUPS),
            _ => Ok(()),
        }
    }

    /// What the kernel is told of its buffers: where each lies, and how many elements it has.
    fn buffers(&self, bound: &[Option<&Memory>]) -> Result<Vec<u64>, DeviceError> {
        let mut words = Vec::with_capacity(2 * bound.len());
        for memory in self.code.params.iter().filter_map(|param| bound[param.buffer.index()]) {
            let device = || self.context.info.open.clone();
            let foreign =
                || DeviceError::Memory { device: device(), what: "use for memory of another device" };
            words.push(memory.store().address(self.context.id).ok_or_else(foreign)?);
            words.push(memory.len() as u64);
        }
        Ok(words)
    }

    /// Puts it on its way.
    fn start(&self, launch: &Launch) -> Result<Launched, DeviceError> {
        let bound = launch.bound(&self.code.module)?;
        self.check(launch)?;
        let buffers = self.buffers(&bound)?;
        let pass = self.context.pass(Room::new(launch.groups, self.code.resident, self.code.waits))?;
        let berth = self.context.berth()?;
        let until_ns = self.until(launch);
        berth.until(until_ns);
        let mut words = [&berth.words(until_ns)[..], &buffers].concat();
        let (code, current) = (&self.code, self.context.enter()?);
        // SAFETY: the kernel takes these words, as the emitter says. The launch keeps the memory, the code and the
        // place until it has ended.
        let started =
            unsafe { current.launch(code.function, launch.groups, code.shape, &mut words, berth.stream) };
        if let Err(status) = started {
            self.context.vacate(berth);
            return Err(status.into());
        }
        let shared = Arc::new(Shared {
            context: self.context.clone(),
            stop: Arc::default(),
            state: Mutex::new(State { under_way: Some((berth, pass)), told: false, ended: None }),
            _kept: bound.into_iter().flatten().cloned().collect(),
        });
        let deadline = launch.deadline.and_then(|after| Instant::now().checked_add(after));
        let (code, watch) = (self.code.clone(), self.watch.clone());
        Ok(Launched { shared, code, watch, lease: launch.lease, deadline })
    }

    /// When the kernel ends itself, in the device's nanoseconds.
    fn until(&self, launch: &Launch) -> u64 {
        let first = launch.deadline.into_iter().chain(launch.lease).min();
        first.map_or(u64::MAX, |wait| self.context.after(wait))
    }
}

impl Kernel for Loaded {
    fn resident(&self) -> u32 {
        self.code.resident
    }

    fn launch(&self, launch: &Launch) -> Result<Box<dyn Run>, DeviceError> {
        let launched = self.start(launch)?;
        let told = Arc::downgrade(&launched.shared);
        self.watch.add(&launched.shared.stop, launch, move || {
            if let Some(shared) = told.upgrade() {
                shared.halt();
            }
        });
        Ok(Box::new(launched))
    }

    /// Nobody else watches over it: whoever waits here does.
    fn run(&self, launch: &Launch) -> Result<Ended, DeviceError> {
        let launched = self.start(launch)?;
        loop {
            let left = launched.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                launched.shared.stop.set(Outcome::Deadline);
                launched.shared.halt();
            }
            let beat = launch.beat().into_iter().chain(left.filter(|left| !left.is_zero())).min();
            if let Some(ended) = launched.look(beat, Pause::new(POLITE))? {
                return Ok(ended);
            }
            launched.renew();
        }
    }
}

/// What the handle of a launch and the watch share.
#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    stop: Arc<Stop>,
    state: Mutex<State>,
    _kept: Vec<Memory>,
}

#[derive(Debug)]
struct State {
    /// Its place, and that it is counted in; until it has ended.
    under_way: Option<(Berth, Pass)>,
    /// Whether it was told to leave.
    told: bool,
    ended: Option<Result<Record, Status>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Tells the kernel to leave, once.
    fn halt(&self) {
        let mut state = self.lock();
        let State { under_way: Some((berth, _)), told: told @ false, .. } = &mut *state else { return };
        // If this fails the device is lost, and whoever waits finds out.
        *told = self.context.enter().and_then(|current| berth.halt(current, self.context.control)).is_ok();
    }

    /// How it ended, if it has.
    fn poll(&self) -> Option<Result<Record, Status>> {
        let mut state = self.lock();
        if state.ended.is_some() {
            return state.ended;
        }
        let told = state.told;
        let (berth, _) = state.under_way.as_ref()?;
        let ended = self.context.enter().and_then(|current| {
            if !current.idle(berth.stream)? {
                return Ok(None);
            }
            if told {
                // The stop word is on its way until here, and must not meet the next launch.
                current.synchronize(self.context.control)?;
            }
            berth.read(current, told).map(Some)
        });
        state.ended = ended.transpose();
        let ended = state.ended?;
        if let Some((berth, pass)) = state.under_way.take() {
            // The place of a launch that failed may still be in use: it goes with the context.
            if ended.is_ok() {
                self.context.vacate(berth);
            }
            drop(state);
            drop(pass);
        }
        Some(ended)
    }
}

/// A launch under way.
#[derive(Debug)]
struct Launched {
    shared: Arc<Shared>,
    code: Arc<Code>,
    watch: Arc<Watch>,
    lease: Option<Duration>,
    deadline: Option<Instant>,
}

impl Launched {
    /// Waits for the end, at most so long.
    fn look(&self, timeout: Option<Duration>, mut pause: Pause) -> Result<Option<Ended>, DeviceError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(ended) = self.shared.poll() {
                return self.tell(ended?).map(Some);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
            pause.next(until);
        }
    }

    /// What a record means.
    fn tell(&self, record: Record) -> Result<Ended, DeviceError> {
        let site = |inst| self.code.site(inst);
        let fault = record.fault.map(|(code, inst, count)| Fault { code, site: site(inst), count });
        if let Some((code, inst)) = record.trap {
            return Err(DeviceError::fault(&self.code.module, (code, site(inst)), fault));
        }
        // A kernel that nobody told to leave saw by itself that its time was over.
        let overdue = || match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Outcome::Deadline,
            _ if self.lease.is_some() => Outcome::Lease,
            _ => Outcome::Stopped,
        };
        let outcome = match record.cut {
            true => self.shared.stop.why().unwrap_or_else(overdue),
            false => Outcome::Done,
        };
        Ok(Ended { outcome, fault })
    }
}

impl Run for Launched {
    fn stop(&self) {
        self.shared.stop.set(Outcome::Stopped);
        self.shared.halt();
    }

    /// Kernels on this device poll; none is parked.
    fn wake(&self) {}

    fn renew(&self) {
        let Some(lease) = self.lease else { return };
        self.watch.renew(&self.shared.stop, Some(lease));
        let deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let until_ns = self.shared.context.after(deadline.map_or(lease, |left| left.min(lease)));
        if let Some((berth, _)) = &self.shared.lock().under_way {
            berth.until(until_ns);
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Option<Ended>, DeviceError> {
        self.look(timeout, Pause::new(0))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.stop();
        // Bounded: every loop that can go on looks at the stop word.
        let _ = self.wait(None);
    }
}

/// How long to wait between two looks: not at first, then longer.
#[derive(Debug)]
struct Pause {
    looks: u32,
    polite: u32,
}

/// Looks that follow each other at once.
const EAGER: u32 = 200;
/// Looks of who waits for an end that comes by itself, between which others may have the core.
const POLITE: u32 = 4000;
/// The longest pause.
const LONGEST: Duration = Duration::from_micros(500);

impl Pause {
    /// With so many looks before the first pause, beyond the first few.
    fn new(polite: u32) -> Self {
        Pause { looks: 0, polite }
    }

    fn next(&mut self, until: Option<Instant>) {
        self.looks = self.looks.saturating_add(1);
        let Some(late) = self.looks.checked_sub(EAGER) else { return std::hint::spin_loop() };
        let Some(late) = late.checked_sub(self.polite) else { return std::thread::yield_now() };
        let pause = Duration::from_micros(late.into()).min(LONGEST);
        let left = until.map_or(pause, |until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(pause.min(left));
    }
}
