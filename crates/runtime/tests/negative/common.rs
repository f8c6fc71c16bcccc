//! What all tests share: names, shapes of sessions, waiting, and a watchdog.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pelton::device::Device;
use pelton::protocol::{FaultCode, TaskFault};
use pelton::{
    Deadline, Error, Geometry, Handler, Opcode, Placement, Producer, Session, Spec, Submission, Task,
    TaskError,
};

/// A device to test.
pub(crate) type On = Arc<dyn Device>;

/// A test of sessions on a device, with its name.
pub(crate) type Test = (&'static str, fn(&On));

/// Functions with their names.
macro_rules! named {
    ($($test:ident),* $(,)?) => {
        &[$((stringify!($test), $test)),*]
    };
}

/// Ends the process if a test does not return in time. This is what tests that calls return at all.
fn watched(name: &str, test: impl FnOnce()) {
    let (done, watch) = channel::<()>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        if watch.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} does not end");
            std::process::abort();
        }
    });
    test();
    drop(done);
}

/// Makes a test of a device, which is ignored if there is no such device. Tests of a GPU run one after the other,
/// because no code can be loaded while a kernel is resident.
pub(crate) fn trial(theme: &str, (name, test): Test, on: &str, device: Option<On>) -> Trial {
    static GPU: Mutex<()> = Mutex::new(());
    let (name, gpu, absent) = (format!("{theme}::{name}@{on}"), on == "cuda", device.is_none());
    let title = name.clone();
    let run = move || {
        let turn = gpu.then(|| GPU.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if let Some(device) = &device {
            watched(&title, || test(device));
        }
        drop(turn);
        Ok(())
    };
    Trial::test(name, run).with_ignored_flag(absent)
}

/// Makes a test that opens its own device.
pub(crate) fn alone(name: &'static str, test: fn()) -> Trial {
    Trial::test(name, move || {
        watched(name, test);
        Ok(())
    })
}

/// Makes a test of the page on isolation: every row of its table must name a test that exists.
pub(crate) fn documented(known: Vec<String>) -> Trial {
    Trial::test("docs::the_page_on_tenants_names_tests_that_there_are", move || {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tenants.md"))?;
        let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("::"));
        let named: Vec<&str> = rows.filter_map(|row| row.split('`').rev().nth(1)).collect();
        let missing: Vec<&&str> =
            named.iter().filter(|name| !known.iter().any(|test| test == *name)).collect();
        match (named.len() >= 20, missing.is_empty()) {
            (true, true) => Ok(()),
            _ => Err(format!("{} rows name tests; there are no tests {missing:?}", named.len()).into()),
        }
    })
}

/// The shape of a session: where its rings lie, and how many lanes a group has.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub placement: Placement,
    pub lanes: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} lanes", self.placement, self.lanes)
    }
}

/// Returns the shape with near rings and so many lanes.
pub(crate) const fn near(lanes: u32) -> Shape {
    Shape { placement: Placement::Near, lanes }
}

/// Returns the shape with far rings and so many lanes.
pub(crate) const fn far(lanes: u32) -> Shape {
    Shape { placement: Placement::Far, lanes }
}

/// Returns the shape with near and far rings and so many lanes.
pub(crate) const fn both(lanes: u32) -> Shape {
    Shape { placement: Placement::Both, lanes }
}

/// Every placement with every number of lanes.
pub(crate) const ALL: &[Shape] = &[near(1), near(8), near(32), far(1), far(8), far(32), both(1), both(32)];

/// Every placement and every number of lanes, but not every combination of them.
pub(crate) const SOME: &[Shape] = &[near(1), near(32), far(8), both(8)];

impl Shape {
    /// Returns a geometry of this shape with so many groups that run tasks.
    pub(crate) fn geometry(self, slots: u32, workers: u32) -> Geometry {
        // With both kinds of rings, one more group serves the near ones.
        let all = workers + u32::from(self.placement == Placement::Both);
        Geometry::new(slots).lanes(self.lanes).groups(all)
    }

    /// Returns the spec of a kernel of this shape that can [`add`].
    pub(crate) fn spec(self, slots: u32, workers: u32) -> Spec {
        self.bare(slots, workers).handler_at(
            op(ADD),
            "add",
            Handler::lane_wide(|slot| {
                let (by, at) = (slot.arg(0), slot.arg(1));
                let old = slot.atomic_add(at, by);
                slot.finish(old);
            }),
        )
    }

    /// Returns the spec of a kernel of this shape that has only the built-in operations.
    pub(crate) fn bare(self, slots: u32, workers: u32) -> Spec {
        Spec::new(self.geometry(slots, workers)).placement(self.placement)
    }
}

/// Returns those shapes whose placement a device supports.
pub(crate) fn shapes<'a>(on: &'a On, all: &'a [Shape]) -> impl Iterator<Item = Shape> + 'a {
    all.iter().copied().filter(|shape| shape.placement.is_available(on.caps()))
}

/// The handler of [`Shape::spec`].
pub(crate) const ADD: u32 = 8;

/// Returns an opcode of a handler.
pub(crate) fn op(code: u32) -> Opcode {
    Opcode::user(code).expect("it is a user's")
}

/// Returns a task that adds to an element of `data` and returns its old value.
pub(crate) fn add(by: u32, at: u32) -> Task {
    Task::new(op(ADD)).args([by, at])
}

/// Returns a deadline that is long enough on any machine, but ends, so that a lost task is noticed.
pub(crate) fn soon() -> Deadline {
    Deadline::after_ms(60_000)
}

/// Launches a session.
pub(crate) fn launch(on: &On, spec: &Spec) -> Session {
    Session::launch(on, spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Submits a task and waits for its result.
pub(crate) fn run(producer: &mut Producer, task: impl Submission) -> Result<u32, TaskError> {
    producer.submit(task).expect("there is room").wait(soon())
}

/// Returns a copy of the region `data` of tenant 0.
pub(crate) fn data(session: &Session) -> Vec<u32> {
    session.view::<u32>(0, "data").and_then(|view| view.read_all()).expect("it is there")
}

/// Waits until so many tasks are counted as done, and no more. A task that the router runs alone is counted after its
/// record.
pub(crate) fn counted(session: &Session, tasks: u64) {
    until("all tasks are counted", || Ok(session.snapshot()?.done >= tasks));
    assert_eq!(session.snapshot().unwrap().done, tasks);
}

/// Returns the error of a task that ended with a fault.
pub(crate) fn fault(code: FaultCode) -> Result<u32, TaskError> {
    Err(TaskError::Fault(TaskFault { code, inner: 0 }))
}

/// Waits until a condition holds that the session is going to bring about.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().unwrap_or_else(|error| panic!("{what}: {error}")) {
        assert!(Instant::now() < end, "{what}: never");
        std::thread::yield_now();
    }
}
