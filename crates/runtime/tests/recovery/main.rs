//! Sessions that go on after their device was lost.
//!
//! The device of these tests is lost when a test says so, in the middle of whatever its kernel is doing. The comment above
//! each test says which defect it catches.

mod cells;
#[path = "../countdown/mod.rs"]
mod countdown;
mod ends;
#[path = "../fibonacci/mod.rs"]
mod fibonacci;
mod host_regions;
mod kept;
mod load;
mod once;
mod quarantine;
mod rebuilt;
mod rings;
mod serial;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton::device::losable::Losable;
use pelton::device::{Caps, Device, WordWidth, open};
use pelton::{
    Error, Geometry, Handler, Opcode, Placement, Recovery, Region, Session, Spec, Task, Ticket, telemetry,
};
use pelton_ir::types::{Order, Scope, Type};

/// Long enough for anything that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// How many elements the region `data` has. No other buffer has as many words.
const ELEMENTS: u32 = 4112;

/// The element that tasks which wait look at.
const GO: u32 = ELEMENTS - 1;
/// The element in which tasks that wait say that they run.
const WAITING: u32 = ELEMENTS - 2;

/// A device that can be lost, and a shape of sessions.
struct Shape {
    device: Arc<Losable>,
    placement: Placement,
    lanes: u32,
    name: String,
}

impl Shape {
    /// The device, as sessions take it.
    fn on(&self) -> Arc<dyn Device> {
        self.device.clone()
    }

    /// A spec of this shape whose sessions recover, with the handlers of these tests.
    fn spec(&self, slots: u32) -> Spec {
        let groups = if self.placement == Placement::Both { 3 } else { 2 };
        Spec::new(Geometry::new(slots).lanes(self.lanes).groups(groups))
            .placement(self.placement)
            .recovery(Recovery::On)
            .fuel(u32::MAX)
            .region(Region::new("data", Type::U32, ELEMENTS))
            .handler("mark", mark())
            .handler("wait", wait_for_go())
    }

    fn launch(&self, spec: &Spec) -> Session {
        Session::launch(&self.on(), spec).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// How often each element was marked in each life of the device that is over.
    fn lost_marks(&self) -> Vec<(u64, Vec<u32>)> {
        let remains = self.device.remains().into_iter();
        let is_data = |memory: &pelton::device::Memory| {
            memory.len() == ELEMENTS as usize && memory.width() == WordWidth::W32
        };
        let data = remains.filter(|(_, memory)| is_data(memory));
        data.map(|(life, memory)| (life, memory.bits().unwrap().iter().map(|bits| *bits as u32).collect()))
            .collect()
    }
}

/// Opens a device that can be lost: the CPU, the interpreter, or the interpreter as if it had memory of its own.
fn losable(name: &str) -> Losable {
    if name != "apart" {
        return Losable::new(open(name).unwrap());
    }
    let inner = open("reference").unwrap();
    let caps = Caps { name: "apart".into(), memory_bytes: Some(1 << 34), ..inner.caps().clone() };
    Losable::with_caps(inner, caps)
}

/// Runs a test on each of these devices in these placements, with groups of one lane and of several.
fn in_shapes(names: &[&str], placements: &[Placement], test: impl Fn(&Shape)) {
    for name in names {
        for placement in placements.iter().copied() {
            for lanes in [1, 32] {
                let device = Arc::new(losable(name));
                test(&Shape { device, placement, lanes, name: format!("{name} {placement:?} {lanes}") });
            }
        }
    }
}

/// Runs a test on every device in every placement.
fn everywhere(test: impl Fn(&Shape)) {
    in_shapes(ALL, &[Placement::Near, Placement::Far, Placement::Both], test);
}

/// The devices that tests lose.
const ALL: &[&str] = &["cpu", "reference", "apart"];

/// Adds one to the element that its first argument names, and gives twice the argument.
fn mark() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        f.atomic_add(Order::Relaxed, Scope::Device, task.data().at(task.arg(0)), 1u32);
        task.finish(task.arg(0) * 2);
    })
}

/// Does what [`mark`] does, but first says that it runs and waits until it may go on.
fn wait_for_go() -> Handler {
    Handler::lane_wide(|task| {
        let (f, data) = (task.body(), task.data());
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(WAITING), 1u32);
        f.forever::<_, ()>(f.lit(0), |wait, turns| {
            let go = f.atomic_load(Order::Relaxed, Scope::System, data.at(GO));
            f.when(go.ne(0), || wait.leave(()));
            turns + 1
        });
        f.atomic_add(Order::Relaxed, Scope::Device, data.at(task.arg(0)), 1u32);
        task.finish(task.arg(0) * 2);
    })
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < end, "{what}: never");
        std::thread::yield_now();
    }
}

/// Waits until a task of [`wait_for_go`] runs.
fn until_waiting(session: &Session) {
    until("a task waits", || element(session, WAITING) > 0);
}

/// Reads an element of `data`. While the session recovers, nothing can be read.
fn element(session: &Session, at: u32) -> u32 {
    session.view::<u32>(0, "data").unwrap().read(at as usize, 1).map_or(0, |words| words[0])
}

/// Lets tasks go on that wait, now and after every loss.
fn go_on(session: &Session) {
    session.on_recovery(|session| session.view(0, "data")?.write(GO as usize, &[1u32]));
}

/// Returns what a snapshot says of recoveries, as soon as one can be taken.
fn recovery(session: &Session) -> telemetry::RecoverySnapshot {
    loop {
        // The counters of a device that was just lost cannot be read.
        match session.snapshot() {
            Ok(snapshot) => return snapshot.recovery.expect("it recovers"),
            Err(Error::Device(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until a session has recovered so often. Somebody has to look whether the device is still there.
fn until_recovered(session: &Session, count: u64) {
    until("the session recovers", || {
        drop(session.session_end());
        recovery(session).count >= count
    });
    assert_eq!(recovery(session).count, count);
}

fn task(session: &Session, name: &str, args: &[u32]) -> Task {
    let op: Opcode = session.opcode(name).unwrap();
    let mut all = [0; 12];
    all[..args.len()].copy_from_slice(args);
    Task::new(op).args(all)
}

/// Submits a task of a handler with one argument.
fn submit(session: &Session, producer: &mut pelton::Producer, name: &str, at: u32) -> Ticket {
    producer.submit(task(session, name, &[at])).unwrap()
}

/// Every row of the page on recovery must name tests that there are.
#[test]
fn the_page_names_tests_that_there_are() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recovery.md")).unwrap();
    let program = std::env::current_exe().unwrap();
    let listed = std::process::Command::new(program).arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let modules = [
        "cells::",
        "ends::",
        "host_regions::",
        "kept::",
        "load::",
        "once::",
        "quarantine::",
        "rebuilt::",
        "rings::",
        "serial::",
    ];
    let named: Vec<&str> =
        page.split('`').filter(|word| modules.iter().any(|module| word.starts_with(module))).collect();
    assert!(named.len() > 25, "{named:?}");
    for name in named {
        assert!(listed.lines().any(|line| line == format!("{name}: test")), "there is no test {name}");
    }
}
