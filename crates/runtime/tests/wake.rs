//! Who wakes the groups of an idle kernel on the CPU. Groups that sleep do so until they are woken here, so whatever
//! nobody wakes a group for is never done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::device::Device;
use pelton::device::cpu::{Cpu, CpuConfig};
use pelton::kernel::Handler;
use pelton::{Claim, Geometry, Placement, Session, Spec, Task};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// How often a kernel falls asleep and is woken.
const ROUNDS: u32 = 8;

/// A session whose groups sleep until they are woken, with its device.
struct SleepySession {
    device: Arc<Cpu>,
    session: Session,
    shape: String,
}

impl SleepySession {
    /// Waits until all groups of the kernel sleep, except for so many.
    fn wait_until_asleep(&self, except: u32) {
        let wanted = self.session.layout().groups - except;
        self.wait_until(|asleep| asleep == wanted);
    }

    /// Waits until the number of groups that sleep is as it should be.
    fn wait_until(&self, wanted: impl Fn(u32) -> bool) {
        let start = Instant::now();
        loop {
            let asleep = self.device.sleeping_groups();
            if wanted(asleep) {
                return;
            }
            assert!(start.elapsed() < LONG, "{}: {asleep} groups sleep", self.shape);
            std::thread::yield_now();
        }
    }

    /// Stops the kernel while all of its groups sleep, which must not take force.
    fn stop(self) {
        self.wait_until_asleep(0);
        let report = self.session.stop_within(LONG).unwrap();
        assert!(!report.forced, "{}: nobody told the groups of the stop", self.shape);
    }
}

/// Runs a test in some placements, with groups of one lane and of several.
fn in_sleep(placements: &[Placement], spec: impl Fn(Spec) -> Spec, test: impl Fn(&SleepySession)) {
    for placement in placements {
        for lanes in [1, 5] {
            let device = Arc::new(Cpu::new(CpuConfig::default()).unwrap());
            device.sleep_until_woken();
            let spec = spec(Spec::new(Geometry::new(64).lanes(lanes).groups(3)).placement(*placement));
            let shape = format!("{placement:?} {lanes} lanes");
            let session = Session::launch(&(device.clone() as Arc<dyn Device>), &spec).unwrap();
            let sleepy = SleepySession { device, session, shape };
            test(&sleepy);
            sleepy.stop();
        }
    }
}

#[test]
fn an_idle_group_is_woken_for_a_task_that_the_router_passes_on() {
    // The router itself runs no group-wide task.
    let sum = Handler::group_wide(|group| group.finish(group.arg(0) + 1));
    let spec = |spec: Spec| spec.handler("next", sum.clone());
    in_sleep(&[Placement::Near, Placement::Far, Placement::Both], spec, |sleepy| {
        let op = sleepy.session.opcode("next").unwrap();
        let mut producer = sleepy.session.producer(0).unwrap();
        for k in 0..ROUNDS {
            sleepy.wait_until_asleep(0);
            let mut ticket = producer.submit(Task::new(op).args([k])).unwrap();
            assert_eq!(ticket.wait(LONG), Ok(k + 1), "{}: task {k}", sleepy.shape);
        }
    });
}

#[test]
fn an_idle_group_is_woken_for_a_task_that_the_host_resumes() {
    let waits = Handler::lane_wide(|task| {
        task.step(|| task.park_then(1));
        task.finish(task.arg(0) + 1);
    });
    let spec = |spec: Spec| spec.cells(8).handler("waits", waits.clone());
    in_sleep(&[Placement::Near, Placement::Far, Placement::Both], spec, |sleepy| {
        let op = sleepy.session.opcode("waits").unwrap();
        let mut producer = sleepy.session.producer(0).unwrap();
        for k in 0..ROUNDS {
            let mut ticket = producer.submit(Task::new(op).args([k])).unwrap();
            sleepy.wait_until_asleep(0);
            ticket.resume();
            assert_eq!(ticket.wait(LONG), Ok(k + 1), "{}: task {k}", sleepy.shape);
        }
    });
}

#[test]
fn idle_groups_are_woken_when_a_group_puts_a_cell_into_a_queue() {
    // Stays at the home of its group until it is told to go through the queues.
    let moves = Handler::lane_wide(|task| {
        let f = task.body();
        f.choose(task.load(0).eq(0), || task.yield_now(), || task.requeue(1u32));
    });
    let spec = |spec: Spec| spec.claim(Claim::PRIORITY).cells(8).handler("moves", moves.clone());
    in_sleep(&[Placement::Near, Placement::Far, Placement::Both], spec, |sleepy| {
        let op = sleepy.session.opcode("moves").unwrap();
        let mut producer = sleepy.session.producer(0).unwrap();
        let mut ticket = producer.submit(Task::new(op)).unwrap();
        sleepy.wait_until_asleep(1);
        let asleep = sleepy.device.sleeping_groups();
        // Nobody is woken by what the host writes to the workspace.
        sleepy.session.view::<u32>(0, "data").unwrap().write(0, &[1]).unwrap();
        sleepy.wait_until(|now| now < asleep);
        ticket.cancel();
        assert!(ticket.wait(LONG).is_err(), "{}: it never ends by itself", sleepy.shape);
    });
}
