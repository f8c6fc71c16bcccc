//! Tests of tasks that spawn others and wait for events, on every device of this machine and in every placement.

mod events;
#[path = "../everywhere/mod.rs"]
mod everywhere;
#[path = "../fibonacci/mod.rs"]
mod fibonacci;
mod graphs;
mod size;
mod urgency;

use std::time::Duration;

use pelton::kernel::handler_trees::Child;
use pelton::protocol::FaultCode;
use pelton::{Geometry, Handler, Opcode, Session, Spec, Task, TaskError, Tenant};

use crate::everywhere::{LONG, everywhere};
use crate::fibonacci::{fib, fib_result};

/// Everything that the cases below need.
fn spec(spec: Spec) -> Spec {
    let group = Handler::group_wide(|group| {
        let (f, seen) = (group.body(), group.region::<u32>("data"));
        f.when(f.lane().eq(0), || f.store(seen.at(3), group.arg(0)));
        group.finish(group.arg(0) + 5);
    });
    spec.cells(64)
        .spawn_cells(256)
        .handler("fib", fib())
        .handler("parent", parent(false))
        .handler("seeing", parent(true))
        .handler("faulty", faulty())
        .handler("parks", Handler::lane_wide(|task| task.park()))
        .handler("group", group)
        .handler("scatter", scatter())
        .handler("chain", chain())
}

/// Every device assembles and compiles the kernel once for all cases.
#[test]
fn trees_on_every_device() {
    everywhere(spec, |session, shape| {
        results_of_children_reach_their_parents(session, shape);
        faults_of_children_are_seen_or_end_the_parent(session, shape);
        built_in_operations_and_group_wide_handlers_can_be_spawned(session, shape);
        a_task_ends_after_its_children(session, shape);
        a_fence_waits_for_a_whole_tree(session, shape);
        cancelling_the_root_cancels_its_tree(session, shape);
        tasks_that_yield_for_ever_starve_nobody(session, shape);
    });
}

fn results_of_children_reach_their_parents(session: &Session, shape: &str) {
    let op = session.opcode("fib").unwrap();
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut tickets: Vec<_> = (0..16).map(|n| producer.submit(Task::new(op).args([n])).unwrap()).collect();
    for (n, ticket) in (0..).zip(&mut tickets) {
        assert_eq!(ticket.wait(LONG), Ok(fib_result(n)), "{shape}: fib({n})");
    }
    session.quiesce(LONG).unwrap();
}

/// The element of `data` at an index.
fn element(session: &Session, at: usize) -> u32 {
    session.view::<u32>(0, "data").unwrap().read(at, 1).unwrap()[0]
}

/// Gives the code of the fault with which a task ended.
fn fault_code(end: Result<u32, TaskError>) -> Option<FaultCode> {
    match end {
        Err(TaskError::Fault(fault)) => Some(fault.code),
        _ => None,
    }
}

/// Spawns one task of the opcode in its first argument, with its second argument, and gives the result of that task plus
/// one. If `sees`, it gives 1000 and the number of faults instead when the child has ended with one.
fn parent(sees: bool) -> Handler {
    Handler::lane_wide(move |task| {
        let (f, result) = (task.body(), task.frame_word());
        task.step(|| {
            f.when(!task.reserve_children(1), || task.fault(0x111));
            task.spawn(Child::with_opcode(&task, task.arg(0)).result_into(result).args([task.arg(1)]));
            task.wait_children();
        });
        if sees {
            let faults = task.child_faults();
            f.when(faults.ne(0), || task.finish(faults + 1000));
        }
        task.finish(result.load() + 1);
    })
}

/// Ends with the fault that its argument names, if it is not 0.
fn faulty() -> Handler {
    Handler::lane_wide(|task| {
        let (f, code) = (task.body(), task.arg(0));
        f.when(code.ne(0), || task.fault(code));
        task.finish(7);
    })
}

fn faults_of_children_are_seen_or_end_the_parent(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = |name: &str| session.opcode(name).unwrap();
    let mut run =
        |name: &str, args: [u32; 2]| producer.submit(Task::new(op(name)).args(args)).unwrap().wait(LONG);
    let faulty = op("faulty").code();
    assert_eq!(run("parent", [faulty, 0]), Ok(8), "{shape}");
    assert_eq!(run("seeing", [faulty, 0]), Ok(8), "{shape}");
    assert_eq!(fault_code(run("parent", [faulty, 0x123])), Some(FaultCode::CHILD), "{shape}");
    assert_eq!(run("seeing", [faulty, 0x123]), Ok(1001), "{shape}");
    for unknown in [99, Opcode::PRINTF.code(), Opcode::BATCH_FENCE.code(), Opcode::CANCEL.code()] {
        assert_eq!(fault_code(run("parent", [unknown, 0])), Some(FaultCode::CHILD), "{shape}: {unknown}");
    }
    assert_eq!(run("seeing", [op("parks").code(), 0]), Ok(1001), "{shape}: nobody could resume it");
    session.allow(0, &[op("parent"), op("seeing")]).unwrap();
    assert_eq!(run("seeing", [faulty, 0]), Ok(1001), "{shape}: its tenant may not use the opcode");
    session.set_mask(0, u32::MAX).unwrap();
}

fn built_in_operations_and_group_wide_handlers_can_be_spawned(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = |name| session.opcode(name).unwrap();
    let mut run = |child: Opcode, arg: u32| {
        producer.submit(Task::new(op("parent")).args([child.code(), arg])).unwrap().wait(LONG)
    };
    assert_eq!(run(op("group"), 11), Ok(17), "{shape}");
    assert_eq!(element(session, 3), 11, "{shape}");
    let before = element(session, 0);
    assert_eq!(run(Opcode::ATOMIC_ADD, 4), Ok(before + 1), "{shape}: the value before");
    assert_eq!(run(Opcode::ATOMIC_ADD, 4), Ok(before + 5), "{shape}: the value before");
    assert_eq!(run(op("parent"), Opcode::NOP.code()), Ok(2), "{shape}: a child of a child");
}

/// A tree of tasks: a task of depth n has two children of depth n - 1, and each task adds 1 to element 0. Nobody waits, and
/// a task that finds no room for its children adds what they would have added.
fn scatter() -> Handler {
    Handler::lane_wide(|task| {
        let (f, depth) = (task.body(), task.arg(0));
        let below = f.choose(
            depth.eq(0),
            || f.lit(0),
            || {
                f.choose(
                    task.reserve_children(2),
                    || {
                        let child = Child::same_handler(&task).args([depth - 1]);
                        task.spawn(child);
                        task.spawn(child);
                        f.lit(0)
                    },
                    || (f.lit(2) << depth) - 2,
                )
            },
        );
        task.atomic_add(0, below + 1);
        task.finish(depth);
    })
}

fn a_task_ends_after_its_children(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let task = Task::new(session.opcode("scatter").unwrap());
    for depth in [0, 3, 8] {
        let before = element(session, 0);
        let mut ticket = producer.submit(task.args([depth])).unwrap();
        assert_eq!(ticket.wait(LONG), Ok(depth), "{shape}");
        assert_eq!(element(session, 0) - before, (2 << depth) - 1, "{shape}: depth {depth}");
    }
}

fn a_fence_waits_for_a_whole_tree(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let op = session.opcode("scatter").unwrap();
    let tasks =
        [Task::new(op).args([7]), Task::new(op).args([6]), Task::new(Opcode::BATCH_FENCE).args([2, 5])];
    let before = element(session, 0);
    let mut span = producer.submit_all(tasks).unwrap();
    span.wait(LONG).unwrap();
    assert_eq!(element(session, 0) - before, 255 + 127, "{shape}");
}

/// A chain of tasks, each of which has one child and waits for it. As many as the argument says have a child, and the last
/// one yields for ever.
fn chain() -> Handler {
    Handler::lane_wide(|task| {
        let (f, depth) = (task.body(), task.arg(0));
        task.step(|| {
            f.when(depth.eq(0), || task.yield_now());
            f.when(!task.reserve_children(1), || task.fault(0x111));
            task.spawn(Child::same_handler(&task).args([depth - 1]));
            task.wait_children();
        });
        task.finish(1);
    })
}

/// Spawns tasks of its own handler without end, and tries again if there is no room.
fn stubborn() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.step(|| {
            f.when(!task.reserve_children(1), || task.yield_now());
            task.spawn(Child::same_handler(&task));
            task.wait_children();
        });
        task.finish(1);
    })
}

fn cancelling_the_root_cancels_its_tree(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut ticket = producer.submit(Task::new(session.opcode("chain").unwrap()).args([63])).unwrap();
    while session.snapshot().unwrap().cells.unwrap().spawned_now < 63 {
        std::thread::yield_now();
    }
    let trees = session.snapshot().unwrap().cells.and_then(|cells| cells.trees).unwrap();
    let largest: Vec<_> = trees.largest.iter().map(|tree| (&*tree.op, tree.tasks)).collect();
    assert_eq!(largest, [("chain", 63)], "{shape}");
    ticket.cancel();
    assert!(matches!(ticket.wait(LONG), Err(TaskError::Cancelled { .. })), "{shape}");
    assert_eq!(session.snapshot().unwrap().cells.unwrap().spawned_now, 0, "{shape}: all cells are free");
    let mut ticket = producer.submit(Task::new(session.opcode("fib").unwrap()).args([9])).unwrap();
    assert_eq!(ticket.wait(LONG), Ok(34), "{shape}: the cells can be used again");
}

fn tasks_that_yield_for_ever_starve_nobody(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let endless = Task::new(session.opcode("chain").unwrap()).args([0]);
    let mut endless: Vec<_> = (0..40).map(|_| producer.submit(endless).unwrap()).collect();
    let tree = Task::new(session.opcode("fib").unwrap()).args([7]);
    let mut trees: Vec<_> = (0..20).map(|_| producer.submit(tree).unwrap()).collect();
    for ticket in &mut trees {
        assert_eq!(ticket.wait(LONG), Ok(13), "{shape}");
    }
    endless.iter_mut().for_each(|ticket| ticket.cancel());
    for ticket in &mut endless {
        assert!(matches!(ticket.wait(LONG), Err(TaskError::Cancelled { .. })), "{shape}");
    }
}

#[test]
fn a_task_that_never_finds_room_ends_with_a_fault() {
    let device = pelton::device::open("cpu").unwrap();
    let spec = Spec::default().spawn_cells(64).handler("stubborn", stubborn());
    let session = Session::launch(&device, &spec).unwrap();
    let mut producer = session.producer(0).unwrap();
    let mut ticket = producer.submit(Task::new(session.opcode("stubborn").unwrap())).unwrap();
    assert_eq!(
        fault_code(ticket.wait(LONG)),
        Some(FaultCode::CHILD),
        "the last of the tree has tried too often"
    );
    let cells = session.snapshot().unwrap().cells.unwrap();
    assert_eq!((cells.spawned_now, cells.steps.spawned), (0, 64));
}

#[test]
fn spawned_tasks_count_against_the_quota() {
    let device = pelton::device::open("cpu").unwrap();
    let spec = Spec::default().spawn_cells(64).handler("scatter", scatter());
    let session = Session::launch(&device, &spec.tenant(Tenant::new(0).quota(4))).unwrap();
    let mut producer = session.producer(0).unwrap();
    let task = Task::new(session.opcode("scatter").unwrap());
    // One task is submitted, and its two children are the last that there is credit for with one more.
    let mut ticket = producer.submit(task.args([3])).unwrap();
    assert_eq!(ticket.wait(LONG), Ok(3));
    assert_eq!(element(&session, 0), 15, "the rest was done without children");
    assert_eq!(session.snapshot().unwrap().cells.unwrap().steps.spawned, 2);
    let mut next = producer.submit(task.args([0])).unwrap();
    assert_eq!(next.wait(LONG), Ok(0), "there was credit for one more");
    let mut last = producer.submit(task.args([0])).unwrap();
    assert_eq!(last.wait(Duration::from_millis(50)), Err(TaskError::Late), "and for no other");
    session.set_quota(0, 0).unwrap();
    assert_eq!(last.wait(LONG), Ok(0));
}

#[test]
fn a_launch_counts_as_one_task_against_the_quota() {
    let device = pelton::device::open("cpu").unwrap();
    let spec = Spec::default().graph_nodes(8).tenant(Tenant::new(0).quota(2));
    let session = Session::launch(&device, &spec).unwrap();
    let mut graph = pelton::Graph::new("adds", 0);
    (0..8).for_each(|k| _ = graph.node(format!("n{k}"), "ATOMIC_ADD", [1.into(), 0.into()]));
    let launch = session.add_graph(0, &graph).unwrap().launch(&[]).unwrap();
    let mut producer = session.producer(0).unwrap();
    producer.submit(launch).unwrap().wait(LONG).unwrap();
    assert_eq!((element(&session, 0), session.credit(0).unwrap()), (8, Some(1)));
}

#[test]
fn misuse_of_children_is_a_fault() {
    let reserve = |count: u32, spawns: u32| {
        Handler::lane_wide(move |task| {
            let room = task.reserve_children(count);
            for _ in 0..spawns {
                task.spawn(Child::new(&task, Opcode::NOP));
            }
            task.finish(task.body().select(room, 1, 0));
        })
    };
    let twice = Handler::lane_wide(|task| {
        task.reserve_children(1);
        task.reserve_children(1);
        task.finish(0);
    });
    let spec = Spec::default()
        .spawn_cells(64)
        .handler("none", reserve(0, 0))
        .handler("many", reserve(65, 0))
        .handler("most", reserve(64, 64))
        .handler("unused", reserve(64, 3))
        .handler("beyond", reserve(2, 3))
        .handler("twice", twice);
    let session = Session::launch(&pelton::device::open("cpu").unwrap(), &spec).unwrap();
    let mut producer = session.producer(0).unwrap();
    let mut run = |name| producer.submit(Task::new(session.opcode(name).unwrap())).unwrap().wait(LONG);
    for round in 0..3 {
        assert_eq!(fault_code(run("none")), Some(FaultCode::ARGUMENTS), "{round}");
        assert_eq!(fault_code(run("many")), Some(FaultCode::ARGUMENTS), "{round}");
        assert_eq!(run("most"), Ok(1), "{round}");
        assert_eq!(run("unused"), Ok(1), "{round}");
        assert_eq!(fault_code(run("beyond")), Some(FaultCode::POOL), "{round}");
        assert_eq!(fault_code(run("twice")), Some(FaultCode::ARGUMENTS), "{round}");
    }
    let cells = session.snapshot().unwrap().cells.unwrap();
    assert_eq!(cells.spawned_now, 0, "whatever went wrong, all room was given back");
    assert_eq!(cells.steps.spawned, 3 * (64 + 3), "a step that ends with a fault spawns nothing");
}

#[test]
fn a_session_stops_in_the_middle_of_a_tree() {
    let device = pelton::device::open("cpu").unwrap();
    let spec = Spec::new(Geometry::new(64).groups(2)).handler("chain", chain());
    let session = Session::launch(&device, &spec).unwrap();
    let mut producer = session.producer(0).unwrap();
    let task = Task::new(session.opcode("chain").unwrap()).args([9]);
    let mut tickets: Vec<_> = (0..4).map(|_| producer.submit(task).unwrap()).collect();
    while session.snapshot().unwrap().cells.unwrap().spawned_now < 4 * 9 {
        std::thread::yield_now();
    }
    session.stop().unwrap();
    for ticket in &mut tickets {
        assert_eq!(ticket.wait(LONG), Err(TaskError::Stopped { steps: 1 }), "its root waits for its child");
    }
}

/// A task whose child faults before the task itself ends has the fault too, however the two end.
#[test]
fn a_fault_of_a_child_is_never_lost() {
    // The parent spawns, yields as often as its second argument says, and ends without waiting.
    let careless = Handler::lane_wide(|task| {
        let (f, left) = (task.body(), task.frame_word());
        task.step(|| {
            f.when(!task.reserve_children(1), || task.fault(0x111));
            task.spawn(Child::with_opcode(&task, task.arg(0)).args([f.lit(0x123)]));
            left.store(task.arg(1));
            task.yield_to_step(1);
        });
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                left.store(now - 1);
                task.yield_now();
            });
        });
        task.finish(5);
    });
    let spec =
        Spec::new(Geometry::new(64).groups(2)).handler("careless", careless).handler("faulty", faulty());
    let session = Session::launch(&pelton::device::open("cpu").unwrap(), &spec).unwrap();
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let (op, child) = (session.opcode("careless").unwrap(), session.opcode("faulty").unwrap().code());
    for yields in (0..200).flat_map(|round| [0, 1, 3, 20, round % 50]) {
        let mut ticket = producer.submit(Task::new(op).args([child, yields])).unwrap();
        assert_eq!(fault_code(ticket.wait(LONG)), Some(FaultCode::CHILD), "after {yields} yields");
    }
}

/// Room that a step reserves and does not use, or whose step ends with a fault, costs no credit.
#[test]
fn unused_room_costs_no_credit() {
    let wasteful = Handler::lane_wide(|task| {
        task.reserve_children(8);
        task.body().when(task.arg(0).ne(0), || task.fault(task.arg(0)));
        task.finish(0);
    });
    let tenant = Tenant::new(0).quota(100);
    let spec = Spec::default().spawn_cells(64).handler("wasteful", wasteful).tenant(tenant);
    let session = Session::launch(&pelton::device::open("cpu").unwrap(), &spec).unwrap();
    let mut producer = session.producer(0).unwrap();
    let op = session.opcode("wasteful").unwrap();
    for k in 0..92u32 {
        let end = producer.submit(Task::new(op).args([(k % 2) * 0x123])).unwrap().wait(LONG);
        assert_eq!(end.is_ok(), k % 2 == 0, "task {k}: {end:?}");
    }
}
