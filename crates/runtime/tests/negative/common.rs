//! What all tests share: names, shapes of sessions, waiting, and a watchdog.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pelton::device::Device;
use pelton::protocol::{FaultCode, TaskFault};
use pelton::{
    Deadline, Error, Geometry, Handler, Opcode, Placement, Producer, Session, Spec, Task, TaskError,
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

/// Ends the process if a test does not come back: what must end in bounded time is tested by nothing else.
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

/// A test of a device, ignored where there is none. Those of a GPU come one after the other: a resident kernel keeps others
/// from loading theirs.
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

/// A test that brings its own device.
pub(crate) fn alone(name: &'static str, test: fn()) -> Trial {
    Trial::test(name, move || {
        watched(name, test);
        Ok(())
    })
}

/// Holds the page on isolation to what is tested: every row names a test that there is.
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

/// Where rings lie, and lanes of a group.
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

/// Near rings, so many lanes.
pub(crate) const fn near(lanes: u32) -> Shape {
    Shape { placement: Placement::Near, lanes }
}

/// Far rings, so many lanes.
pub(crate) const fn far(lanes: u32) -> Shape {
    Shape { placement: Placement::Far, lanes }
}

/// Near and far rings, so many lanes.
pub(crate) const fn both(lanes: u32) -> Shape {
    Shape { placement: Placement::Both, lanes }
}

/// Every placement with every number of lanes.
pub(crate) const ALL: &[Shape] = &[near(1), near(8), near(32), far(1), far(8), far(32), both(1), both(32)];

/// Every placement and every number of lanes, but not each with each.
pub(crate) const SOME: &[Shape] = &[near(1), near(32), far(8), both(8)];

impl Shape {
    /// A geometry of this shape with so many groups that run tasks.
    pub(crate) fn geometry(self, slots: u32, workers: u32) -> Geometry {
        // One more serves near rings.
        let all = workers + u32::from(self.placement == Placement::Both);
        Geometry::new(slots).lanes(self.lanes).groups(all)
    }

    /// A kernel of this shape that can [`add`].
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

    /// A kernel of this shape with what is built in.
    pub(crate) fn bare(self, slots: u32, workers: u32) -> Spec {
        Spec::new(self.geometry(slots, workers)).placement(self.placement)
    }
}

/// The shapes whose placement a device has.
pub(crate) fn shapes<'a>(on: &'a On, all: &'a [Shape]) -> impl Iterator<Item = Shape> + 'a {
    all.iter().copied().filter(|shape| shape.placement.is_available(on.caps()))
}

/// The handler of [`Shape::spec`].
pub(crate) const ADD: u32 = 8;

/// A user's opcode.
pub(crate) fn op(code: u32) -> Opcode {
    Opcode::user(code).expect("it is a user's")
}

/// A task that adds to an element of `data` and gives what was there.
pub(crate) fn add(by: u32, at: u32) -> Task {
    Task::new(op(ADD)).args([by, at])
}

/// Long enough on any machine; not for ever, so that what is lost is seen.
pub(crate) fn soon() -> Deadline {
    Deadline::after_ms(60_000)
}

/// Launches a session.
pub(crate) fn launch(on: &On, spec: &Spec) -> Session {
    Session::launch(on, spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a task to its end.
pub(crate) fn run(producer: &mut Producer, task: Task) -> Result<u32, TaskError> {
    producer.submit(task).expect("there is room").wait(soon())
}

/// Tenant 0's `data`.
pub(crate) fn data(session: &Session) -> Vec<u32> {
    session.view::<u32>(0, "data").and_then(|view| view.read_all()).expect("it is there")
}

/// Waits until so many tasks are counted as done, and no more. A task that the router runs alone is counted after its record.
pub(crate) fn counted(session: &Session, tasks: u64) {
    until("all tasks are counted", || Ok(session.snapshot()?.done >= tasks));
    assert_eq!(session.snapshot().unwrap().done, tasks);
}

/// How a task ends that faults.
pub(crate) fn fault(code: FaultCode) -> Result<u32, TaskError> {
    Err(TaskError::Fault(TaskFault { code, inner: 0 }))
}

/// Waits until something holds that a session will make so.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Error>) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().unwrap_or_else(|error| panic!("{what}: {error}")) {
        assert!(Instant::now() < end, "{what}: never");
        std::thread::yield_now();
    }
}
