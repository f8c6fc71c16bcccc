//! Urgency along waits: a task that waits for less urgent ones is not as late as they would be by themselves.
//!
//! Another producer keeps more tasks of normal priority under way than a group has places for, and these never end. They are
//! what the tree or the graph of a test competes with, and they count their steps. So a test can say how many of these
//! *foreign* steps there were while it waited. With a single group, what the documentation of `kernel/home.rs` and
//! `kernel/ready.rs` says of turns gives a bound for this number, however fast the device is.

use pelton::graph::{Graph, NodeArg};
use pelton::kernel::handler_trees::Child;
use pelton::{Claim, Handler, Priority, Producer, Session, Spec, Task, TaskError, Tenant, Ticket};

use crate::element;
use crate::everywhere::{LONG, in_one_group};

/// The most steps that a task takes in one turn of its group.
const STEPS_PER_TURN: u32 = 8;
/// While other tasks wait, a group gives its places to them after this many turns, which are a *period* here.
const TURNS_PER_PERIOD: u32 = 8;
/// In one of this many periods, the search for tasks does not begin at the most urgent level.
const OTHER_LEVEL_EVERY: u32 = 4;
/// In this many periods, every level comes first once, so whoever is at the front of a queue is taken.
const PERIODS_FOR_EACH_LEVEL: u32 = OTHER_LEVEL_EVERY * Priority::ALL.len() as u32;

/// The element of `data` that counts the foreign steps, and the one that counts the steps of the leaves of a tree.
const FOREIGN: u32 = 0;
const PROGRESS: u32 = 1;

/// The depth of the tree below the child of its root, and the number of its leaves.
const DEPTH: u32 = 2;
const LEAVES: u32 = 1 << DEPTH;
/// How often each leaf of the tree and each node in the middle of the graph yields.
const YIELDS: u32 = 1024;

/// All cases run in one test, so that each device compiles the kernel only once.
#[test]
fn whoever_waits_for_less_urgent_tasks_is_served_like_an_urgent_task() {
    in_one_group(spec, |session, shape| {
        let mut other = session.producer(0).unwrap().patience(LONG);
        let mut foreign = keep_busy(session, &mut other);
        an_urgent_tree_is_not_as_late_as_its_children_would_be(session, shape);
        an_urgent_node_is_not_as_late_as_its_predecessors_would_be(session, shape);
        foreign.iter_mut().for_each(Ticket::cancel);
        for ticket in &mut foreign {
            assert!(matches!(ticket.wait(LONG), Err(TaskError::Cancelled { .. })), "{shape}");
        }
    });
}

fn spec(spec: Spec) -> Spec {
    let now = Handler::lane_wide(|task| task.finish(task.atomic_add(FOREIGN, 0)));
    let since = Handler::lane_wide(|task| task.finish(task.atomic_add(FOREIGN, 0) - task.arg(0)));
    let foreign = Handler::lane_wide(|task| {
        task.atomic_add(FOREIGN, 1);
        task.yield_now();
    });
    spec.claim(Claim::PRIORITY)
        .tenant(Tenant::new(0).producers(2))
        .cells(2048)
        .spawn_cells(64)
        .graph_nodes(LEAVES + 2)
        .graph_instances(1)
        .handler("foreign", foreign)
        .handler("branch", branch())
        .handler("root", root())
        .handler("now", now)
        .handler("since", since)
}

/// Spawns two tasks like itself, at priority IDLE, and waits for them, as long as its first argument, the depth, is not 0. A
/// leaf counts its steps and yields as often as the second argument says.
fn branch() -> Handler {
    Handler::lane_wide(|task| {
        let (f, depth, yields, left) = (task.body(), task.arg(0), task.arg(1), task.frame_word());
        task.step(|| {
            f.when(depth.ne(0), || {
                f.when(!task.reserve_children(2), || task.fault(0x111));
                let child = Child::same_handler(&task).priority(Priority::Idle).args([depth - 1, yields]);
                task.spawn(child);
                task.spawn(child);
                task.wait_children_then(2);
            });
            left.store(yields);
        });
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                task.atomic_add(PROGRESS, 1);
                left.store(now - 1);
                task.yield_now();
            });
        });
        task.finish(0);
    })
}

/// Spawns a task of the opcode in its first argument, at priority IDLE. When the leaves have taken as many steps as the
/// second argument says, it moves to the level in the third one and waits. Gives the number of foreign steps from then to
/// its end.
fn root() -> Handler {
    Handler::lane_wide(|task| {
        let (f, start) = (task.body(), task.frame_word());
        task.step(|| {
            f.when(!task.reserve_children(1), || task.fault(0x111));
            let child = Child::with_opcode(&task, task.arg(0)).args([f.lit(DEPTH), f.lit(YIELDS)]);
            task.spawn(child.priority(Priority::Idle));
            task.yield_to_step(1);
        });
        task.step(|| {
            f.when(start.load().eq(0), || {
                f.when(task.atomic_add(PROGRESS, 0).lt(task.arg(1)), || task.yield_now());
                start.store(task.atomic_add(FOREIGN, 0));
                task.requeue(task.arg(2));
            });
            task.wait_children();
        });
        task.finish(task.atomic_add(FOREIGN, 0) - start.load());
    })
}

/// How many places a group has for tasks that take steps.
fn places(session: &Session) -> u32 {
    let layout = session.layout();
    layout.lanes.max(16).min(layout.window)
}

/// Starts twice as many endless tasks of normal priority as the group has places, and waits until they have begun.
fn keep_busy(session: &Session, producer: &mut Producer) -> Vec<Ticket> {
    let task = Task::new(session.opcode("foreign").unwrap());
    let tickets: Vec<Ticket> = (0..2 * places(session)).map(|_| producer.submit(task).unwrap()).collect();
    let runnable = || session.snapshot().unwrap().cells.unwrap().runnable;
    while runnable() < tickets.len() as u64 || element(session, FOREIGN as usize) == 0 {
        std::thread::yield_now();
    }
    tickets
}

/// The most periods that an urgent chain of tasks takes, each of which waits for the next. `wakes` is how many times one task
/// makes another one ready, and `yields` is how often one of them yields.
///
/// A task that becomes ready may have to wait for a place until the period is over. A task that yields loses its place at
/// the end of each period and gets one at the beginning of the next, unless the search begins at another level then.
fn periods_of_urgent_chain(wakes: u32, yields: u32) -> u32 {
    let in_the_first_and_last = 2;
    let periods = wakes + yields / (TURNS_PER_PERIOD * STEPS_PER_TURN) + in_the_first_and_last;
    (periods * OTHER_LEVEL_EVERY).div_ceil(OTHER_LEVEL_EVERY - 1) + 1
}

/// The most foreign steps in so many periods.
fn foreign_steps(session: &Session, periods: u32) -> u32 {
    periods * TURNS_PER_PERIOD * STEPS_PER_TURN * places(session)
}

/// Checks that what is urgent has waited for no more foreign steps than it should, and that the control has waited for at
/// least twice as many, so that the bound means something.
fn check_waits(shape: &str, urgent: (u32, u32), control: u32) {
    let (found, most) = urgent;
    assert!(found <= most, "{shape}: {found} foreign steps, and {most} at most");
    assert!(
        control >= 2 * most,
        "{shape}: {control} foreign steps without urgency are less than twice {most}"
    );
}

/// Every child in the tree has priority IDLE, so all of the tree is idle unless its root is more urgent.
fn an_urgent_tree_is_not_as_late_as_its_children_would_be(session: &Session, shape: &str) {
    let op = |name| session.opcode(name).unwrap();
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut run = |first: Priority, moves_after: u32, then: Priority| {
        session.view::<u32>(0, "data").unwrap().write(PROGRESS as usize, &[0]).unwrap();
        let task = Task::new(op("root")).args([op("branch").code(), moves_after, then.code()]);
        producer.submit(task.priority(first)).unwrap().wait(LONG).unwrap()
    };
    let eighth = YIELDS / 8;
    let control = run(Priority::Idle, LEAVES * eighth, Priority::Idle);
    let urgent = run(Priority::Critical, 0, Priority::Critical);
    let raised = run(Priority::Idle, LEAVES * eighth, Priority::Critical);
    // From the root to a leaf and back.
    let wakes = 2 * (DEPTH + 1);
    let most = foreign_steps(session, periods_of_urgent_chain(wakes, YIELDS));
    check_waits(&format!("{shape}, urgent from the beginning"), (urgent, most), control);
    // Tasks that wait in a queue already stay there until it is the turn of its level. Up to an eighth of the steps of all
    // leaves may have been those of others, so that one leaf has all of its own before it.
    let periods = PERIODS_FOR_EACH_LEVEL + periods_of_urgent_chain(DEPTH + 1, YIELDS);
    let most = foreign_steps(session, periods);
    check_waits(&format!("{shape}, urgent from an eighth on"), (raised, most), control);
}

/// The launch and all nodes but the last one have priority IDLE, so all of the graph is idle unless the last node is more
/// urgent.
fn an_urgent_node_is_not_as_late_as_its_predecessors_would_be(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let [control, urgent] = [Priority::Idle, Priority::Critical].map(|last_priority| {
        let mut graph = Graph::new("graph", 0);
        let first = graph.node("first", "now", []);
        let middle: Vec<_> = (0..LEAVES)
            .map(|k| graph.node(format!("middle{k}"), "branch", [0.into(), YIELDS.into()]))
            .collect();
        let last = graph.node("last", "since", [NodeArg::from(first)]);
        graph.set_priority(first, Priority::Idle);
        graph.set_priority(last, last_priority);
        for node in middle {
            graph.set_priority(node, Priority::Idle);
            graph.edge(first, node);
            graph.edge(node, last);
        }
        let taken = session.add_graph(0, &graph).unwrap();
        let launch = taken.launch(&[]).unwrap().priority(Priority::Idle);
        let steps = producer.submit(launch).unwrap().wait(LONG).unwrap();
        session.remove_graph(&taken, LONG).unwrap();
        steps
    });
    let most = foreign_steps(session, periods_of_urgent_chain(2, YIELDS));
    check_waits(&format!("{shape}, graph"), (urgent, most), control);
}
