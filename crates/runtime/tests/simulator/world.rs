//! Everything around the host in a simulation: its clock, its devices, its disk, and what goes wrong with them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::TaskError;
use pelton::device::losable::Losable;
use pelton::device::stepped::{Stepped, SteppedWorld};
use pelton::device::{Caps, Device, Memory, WordWidth};
use pelton::simulated::{PlantedBug, Simulation, take_reaper_turns};

use crate::disk::SimulatedDisk;
use crate::random::Random;

/// How long a kernel runs without a sign of life from the host, in the time of the simulation.
pub(crate) const LEASE: Duration = Duration::from_millis(40);

/// The world of one process of a seed.
pub(crate) struct World {
    stepped: Arc<SteppedWorld>,
    origin: Instant,
    random: RefCell<Random>,
    /// The device of the session, and then those on which it may go on.
    pub(crate) devices: Vec<Arc<Losable>>,
    pub(crate) disk: Rc<SimulatedDisk>,
    /// How many more times a device is lost while the host waits.
    losses_left: Cell<u32>,
    bug: Option<PlantedBug>,
    history: RefCell<History>,
}

/// What has happened in a simulation.
#[derive(Clone, Default, Debug)]
pub(crate) struct History {
    /// How often what has happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// A hash of everything in its order. If a seed is simulated again, it must be the same.
    pub(crate) trace: u64,
}

impl History {
    fn add(&mut self, what: u64) {
        self.trace = (self.trace.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl World {
    /// Makes the world of a process, with so many devices.
    pub(crate) fn new(
        mut random: Random,
        device_count: u64,
        disk: &Rc<SimulatedDisk>,
        bug: Option<PlantedBug>,
    ) -> Rc<Self> {
        let stepped = SteppedWorld::new(random.bits());
        let devices = (0..device_count).map(|number| {
            let inner: Arc<dyn Device> = Arc::new(Stepped::new(&stepped, 2).expect("it needs nothing"));
            let name = format!("device {number}");
            // Kernels for devices with memory of their own differ from others.
            let memory_bytes = random.one_in(2).then_some(1 << 34);
            let caps = Caps { name, memory_bytes, ..inner.caps().clone() };
            Arc::new(Losable::with_caps(inner, caps))
        });
        let devices = devices.collect();
        Rc::new(World {
            stepped,
            origin: Instant::now(),
            devices,
            disk: disk.clone(),
            losses_left: Cell::new(0),
            random: RefCell::new(random),
            bug,
            history: RefCell::default(),
        })
    }

    /// Notes that something has happened.
    pub(crate) fn note(&self, what: &'static str) {
        let mut history = self.history.borrow_mut();
        *history.counts.entry(what).or_default() += 1;
        history.add(self.stepped.now().as_nanos() as u64);
    }

    /// Notes how a task has ended.
    pub(crate) fn note_end(&self, end: &Result<u32, TaskError>) {
        self.note(match end {
            Ok(_) => "tasks with a result",
            Err(TaskError::Fault(_)) => "tasks with a fault",
            Err(TaskError::Cancelled { .. }) => "tasks cancelled",
            Err(TaskError::Lost { .. }) => "tasks lost",
            Err(_) => "tasks that end otherwise",
        });
        self.history.borrow_mut().add(u64::from(end.unwrap_or(0)));
    }

    /// Returns what has happened.
    pub(crate) fn history(&self) -> History {
        self.history.borrow().clone()
    }

    /// Loses all devices. They can be used again.
    pub(crate) fn lose_all(&self) {
        self.note("losses of all devices");
        self.devices.iter().for_each(|device| device.lose());
    }

    /// Lets lanes make about so many steps.
    pub(crate) fn step(&self, steps: u64) {
        self.history.borrow_mut().add(steps);
        self.stepped.pass(Duration::from_micros(steps / 50 + 1), steps);
    }

    /// Lets time pass in which nothing else happens, as if the machine stood still. Leases run out meanwhile.
    pub(crate) fn stand_still(&self, time: Duration) {
        self.stepped.pass(time, 0);
    }

    /// Lets devices be lost so many times while the host waits.
    pub(crate) fn lose_while_waiting(&self, losses: u32) {
        self.losses_left.set(losses);
    }

    /// Returns the memory of all devices in all of their lives that has so many words of 32 bits.
    pub(crate) fn device_memory(&self, words: usize) -> Vec<Memory> {
        let mut all = self.stepped.device_memory();
        all.retain(|memory| memory.width() == WordWidth::W32 && memory.len() == words);
        all
    }
}

impl Simulation for World {
    fn now(&self) -> Instant {
        self.origin + self.stepped.now()
    }

    fn pause(&self) {
        let (steps, reaper, loss) = {
            let mut random = self.random.borrow_mut();
            let most = random.pick(&[20, 400, 4000]);
            (random.within(1..=most), random.one_in(2), random.one_in(24))
        };
        self.step(steps);
        if loss && self.losses_left.get() > 0 {
            self.losses_left.set(self.losses_left.get() - 1);
            self.lose_all();
        }
        if reaper {
            take_reaper_turns();
        }
    }

    fn random_number(&self) -> u64 {
        self.random.borrow_mut().bits()
    }

    fn disk_write(&self, path: &Path, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(path, bytes)
    }

    fn disk_sync(&self, path: &Path) -> io::Result<()> {
        self.disk.sync(path)
    }

    fn has_bug(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }
}
