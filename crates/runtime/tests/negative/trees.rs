//! Tasks that make or await others: forged slots, launches and signals, wild children, and tenants that leave no room.

use pelton::graph::{Graph, NodeArg};
use pelton::kernel::handler_trees::Child;
use pelton::protocol::FaultCode;
use pelton::{
    Claim, Handler, Opcode, Producer, Session, SessionGraph, Spec, Task, TaskError, Tenant, Ticket,
};

use crate::common::*;

pub(crate) const TESTS: &[Test] = named![
    a_slot_that_names_a_cell_of_the_kernel_is_malformed,
    a_forged_launch_ends_with_a_fault,
    nobody_reaches_the_events_of_another_tenant,
    wild_children_harm_nobody,
    a_tenant_that_fills_its_cells_leaves_others_theirs,
    a_wild_condition_is_not_waited_for,
    a_condition_without_events_is_nothing,
];

/// How many cells a producer has, and how many events and cells for spawned tasks a tenant has.
const CELLS: u32 = 8;
const EVENTS: u32 = 3;
const SPAWN_CELLS: u32 = 64;
/// The most nodes and instances of graphs.
const NODES: u32 = 4;
const INSTANCES: u32 = 2;
/// The cells of both producers come first, then those for spawned tasks of both tenants, and then those of graphs.
const FIRST_SPAWNED: u32 = 2 * CELLS;
const FIRST_NODE: u32 = FIRST_SPAWNED + 2 * SPAWN_CELLS;
const ALL_CELLS: u32 = FIRST_NODE + NODES * INSTANCES;

/// The opcodes of the handlers.
const WAITS: u32 = 9;
const FILLS: u32 = 10;
const SPAWNS: u32 = 11;
const GIVES: u32 = 12;
const SIGNALS: u32 = 13;

/// The fault of a task that finds no room for its children.
const NO_ROOM: u32 = 0x111;

/// Keeps its third argument in its frame in seven ways until the event and the count in its first two have come, and gives
/// their sum.
fn waits() -> Handler {
    Handler::lane_wide(|task| {
        let words: Vec<_> = (0..7).map(|_| task.frame_word()).collect();
        task.step(|| {
            words.iter().zip(1u32..).for_each(|(word, k)| word.store(task.arg(2) + k));
            task.wait_event(task.arg(0), task.arg(1));
        });
        task.finish(words.iter().fold(task.body().lit(0), |sum, word| sum + word.load()));
    })
}

fn wait(event: u32, count: u32, kept: u32) -> Task {
    Task::new(op(WAITS)).args([event, count, kept])
}

/// What a task of [`wait`] gives.
fn waited(kept: u32) -> Result<u32, TaskError> {
    Ok(7 * kept + 28)
}

/// Spawns as many tasks that wait as its first argument says, with the rest as their arguments, and gives 1.
fn fills() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.step(|| {
            f.when(!task.reserve_children(task.arg(0)), || task.fault(NO_ROOM));
            f.range((f.lit(0), task.arg(0), f.lit(1)), (), |_, _, ()| {
                let child = Child::new(&task, op(WAITS));
                task.spawn(child.args([task.arg(1), task.arg(2), task.arg(3)]));
            });
            task.wait_children();
        });
        task.finish(1);
    })
}

fn fill(children: u32, event: u32) -> Task {
    Task::new(op(FILLS)).args([children, event, 1, 5])
}

/// Spawns a task of the opcode in its first argument, with the level, the word of its frame for the result and the argument
/// that the next ones say. Gives word 1 of its frame, whatever becomes of the child.
const SPAWNS_TEXT: &str = "
    import fn reserve_children(%count: u32) -> u32
    import fn spawn(%op: u32, %level: u32, %into: u32, %argument: u32)
    import fn wait_children()
    import fn child_faults() -> u32
    buffer arg: [u32; 12] global read
    buffer frame: [u32; 2] global read_write
    fn spawns() -> u32 {
      %turn = load @frame[0]
      %first = eq %turn, 0
      if %first {
        store @frame[0], 1
        %room = call reserve_children(1)
        %op = load @arg[0]
        %level = load @arg[1]
        %into = load @arg[2]
        %argument = load @arg[3]
        call spawn(%op, %level, %into, %argument)
        call wait_children()
        yield
      }
      %faults = call child_faults()
      %kept = load @frame[1]
      return %kept
    }";

/// Everything that these tests need, for two tenants with one producer each.
fn spec(shape: Shape) -> Spec {
    let signals = Handler::lane_wide(|task| {
        task.signal(task.arg(0), task.arg(1));
        task.finish(0);
    });
    shape
        .spec(16, 2)
        .claim(Claim::PRIORITY)
        .cells(CELLS)
        .spawn_cells(SPAWN_CELLS)
        .events(EVENTS)
        .graph_nodes(NODES)
        .graph_instances(INSTANCES)
        .handler_at(op(WAITS), "waits", waits())
        .handler_at(op(FILLS), "fills", fills())
        .handler_at(op(SPAWNS), "spawns", Handler::from_text(SPAWNS_TEXT))
        .handler_at(op(GIVES), "gives", Handler::lane_wide(|task| task.finish(task.arg(0))))
        .handler_at(op(SIGNALS), "signals", signals)
        .tenant(Tenant::new(0).producers(1))
        .tenant(Tenant::new(1).producers(1))
}

/// Launches a session, with a producer for each tenant.
fn begin(on: &On, shape: Shape) -> (Session, [Producer; 2]) {
    let session = launch(on, &spec(shape));
    let producers = [0, 1].map(|tenant| session.producer(tenant).unwrap().patience(soon()));
    (session, producers)
}

/// Waits until so many tasks wait for events.
fn until_waiting(session: &Session, tasks: u64) {
    until("all wait", || Ok(session.snapshot()?.cells.is_some_and(|cells| cells.awaiting_events == tasks)));
}

/// A graph of a tenant whose only node waits for an event.
fn waiting_graph(session: &Session, tenant: u32, event: u32) -> SessionGraph {
    let mut graph = Graph::new("waiting", 1);
    graph.node("waits", "waits", [event.into(), 1.into(), NodeArg::Parameter(0)]);
    session.add_graph(tenant, &graph).unwrap()
}

/// Catches a slot that brings a task to a cell that the kernel gives out: one that is free, or one in which the child of
/// another tenant or the node of its graph waits.
fn a_slot_that_names_a_cell_of_the_kernel_is_malformed(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut own, mut victim]) = begin(on, shape);
        let graph = waiting_graph(&session, 1, 0);
        let mut waiting: Vec<Ticket> = vec![victim.submit(fill(SPAWN_CELLS, 0)).unwrap()];
        waiting.extend([3, 4].map(|kept| victim.submit(graph.launch(&[kept]).unwrap()).unwrap()));
        until_waiting(&session, u64::from(SPAWN_CELLS) + 2);
        let before = data(&session);
        let tasks = [add(1, 2), wait(0, 1, 6), Task::new(op(GIVES)), graph.launch(&[1]).unwrap()];
        let last = [FIRST_NODE - 1, ALL_CELLS - 1, ALL_CELLS, 1 << 16, (1 << 24) - 2];
        let cells = (FIRST_SPAWNED..FIRST_SPAWNED + 2).chain(FIRST_SPAWNED + SPAWN_CELLS..).take(6);
        for cell in cells.chain(FIRST_NODE..FIRST_NODE + NODES + 1).chain(last) {
            for task in tasks {
                let end = own.submit_with_cell(task, Some(cell)).unwrap().wait(soon());
                assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {} in {cell}", task.op);
            }
        }
        assert_eq!(data(&session), before, "{shape}: something ran");
        assert!(waiting.iter_mut().all(|ticket| ticket.result() == Err(TaskError::Late)), "{shape}");
        session.signal(1, 0, 1).unwrap();
        for (ticket, right) in waiting.iter_mut().zip([Ok(1), waited(3), waited(4)]) {
            assert_eq!(ticket.wait(soon()), right, "{shape}");
        }
        assert_eq!(session.snapshot().unwrap().cells.unwrap().spawned_now, 0, "{shape}: a cell is lost");
    }
}

/// Catches a launch of a graph that does not exist any more or is not the tenant's own, and a launch without a cell.
fn a_forged_launch_ends_with_a_fault(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut own, mut victim]) = begin(on, shape);
        let [theirs, removed, mine] = [1, 0, 0].map(|tenant| waiting_graph(&session, tenant, 1));
        session.remove_graph(&removed, soon()).unwrap();
        let name = |graph: &SessionGraph| graph.launch(&[9]).unwrap().args[0];
        let forged = |name: u32| Task::new(Opcode::LAUNCH_GRAPH).args([name; 12]);
        // Numbers and uses that there are not, and the right number with the use before and after.
        let uses = 1 << 10;
        let mut wrong = vec![u32::MAX, 1 << 31, 1023, 0, 500 | uses, name(&removed)];
        wrong.extend([name(&mine) | 1 << 31, name(&mine) + uses, name(&mine) - uses]);
        for name in wrong {
            let end = run(&mut own, forged(name));
            assert_eq!(end, fault(FaultCode::ARGUMENTS), "{shape}: {name:#x}");
        }
        assert_eq!(run(&mut own, forged(name(&theirs))), fault(FaultCode::DENIED), "{shape}");
        for graph in [&theirs, &mine] {
            let end = own.submit_with_cell(forged(name(graph)), None).unwrap().wait(soon());
            assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: a launch needs a cell");
        }
        // Nothing was left behind: the graphs can be launched, as often as there are instances and more, and be removed.
        session.signal(0, 1, 1).unwrap();
        session.signal(1, 1, 1).unwrap();
        for kept in 0..2 * INSTANCES {
            assert_eq!(run(&mut own, mine.launch(&[kept]).unwrap()), waited(kept), "{shape}");
            assert_eq!(run(&mut victim, theirs.launch(&[kept]).unwrap()), waited(kept), "{shape}");
        }
        session.remove_graph(&mine, soon()).unwrap();
        session.remove_graph(&theirs, soon()).unwrap();
    }
}

/// Catches a signal, a wait or a condition that reaches an event of another tenant by a number beyond the tenant's own.
fn nobody_reaches_the_events_of_another_tenant(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut own, mut victim]) = begin(on, shape);
        let mut waiting: Vec<Ticket> =
            (0..EVENTS).map(|event| victim.submit(wait(event, 1, event)).unwrap()).collect();
        until_waiting(&session, u64::from(EVENTS));
        for event in (EVENTS..3 * EVENTS).chain([64, 1 << 16, 1 << 28, 1 << 31, u32::MAX]) {
            for code in [Opcode::SIGNAL, op(SIGNALS), op(WAITS)] {
                let end = run(&mut own, Task::new(code).args([event, 1, 0]));
                assert_eq!(end, fault(FaultCode::ARGUMENTS), "{shape}: {code} of event {event}");
            }
            assert!(own.submit(add(0, 0).after(event, 1)).is_err(), "{shape}");
        }
        for event in 0..EVENTS {
            for tenant in [0, 1] {
                assert_eq!(session.event_count(tenant, event).unwrap(), 0, "{shape}: it was signalled");
            }
            // The other tenant's own event of the same number is another one.
            assert_eq!(run(&mut own, Task::new(Opcode::SIGNAL).args([event, 1])), Ok(0), "{shape}");
            assert_eq!(session.event_count(1, event).unwrap(), 0, "{shape}: it is another tenant's");
        }
        for (ticket, event) in waiting.iter_mut().zip(0..) {
            assert_eq!(ticket.result(), Err(TaskError::Late), "{shape}");
            session.signal(1, event, 1).unwrap();
            assert_eq!(ticket.wait(soon()), waited(event), "{shape}");
        }
    }
}

/// Catches an opcode, a level or a word of a frame that a child is given and that reaches beyond its tenant: the frame of
/// another task, the queue of another tenant, or an operation that tasks may not ask for.
fn wild_children_harm_nobody(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut own, mut victim]) = begin(on, shape);
        let mut waiting: Vec<Ticket> =
            (0..CELLS).map(|kept| victim.submit(wait(0, 1, 100 * kept)).unwrap()).collect();
        waiting.push(own.submit(wait(0, 1, 900)).unwrap());
        until_waiting(&session, u64::from(CELLS) + 1);
        let theirs = || session.view::<u32>(1, "data").and_then(|view| view.read_all()).unwrap();
        let before = theirs();
        let mut spawn = |args: [u32; 4]| run(&mut own, Task::new(op(SPAWNS)).args(args));
        let far = [1 << 16, (1 << 30) - 8, 1 << 30, (1 << 30) + 1, 1 << 31, u32::MAX - 1, u32::MAX];
        for into in (1..40).chain([ALL_CELLS - 1, ALL_CELLS, ALL_CELLS + 1]).chain(far) {
            let right = if into == 1 { 77 } else { 0 };
            assert_eq!(spawn([GIVES, u32::MAX, into, 77]), Ok(right), "{shape}: word {into}");
        }
        for level in (0..10).chain([127, 128, 255, 256]).chain(far) {
            assert_eq!(spawn([GIVES, level, 1, 77]), Ok(77), "{shape}: level {level}");
        }
        for code in (0..40).chain([77, 255, 256, 257, 1 << 16, 0xffff_ff00]).chain(far) {
            assert!(spawn([code, u32::MAX, u32::MAX, 77]).is_ok(), "{shape}: opcode {code}");
        }
        assert_eq!(theirs(), before, "{shape}: the memory of another tenant was changed");
        assert!(waiting.iter_mut().all(|ticket| ticket.result() == Err(TaskError::Late)), "{shape}");
        session.signal(0, 0, 1).unwrap();
        session.signal(1, 0, 1).unwrap();
        let kept = (0..CELLS).map(|kept| 100 * kept).chain([900]);
        for (ticket, kept) in waiting.iter_mut().zip(kept) {
            assert_eq!(ticket.wait(soon()), waited(kept), "{shape}: a frame was changed");
        }
        assert_eq!(session.snapshot().unwrap().cells.unwrap().spawned_now, 0, "{shape}: a cell is lost");
    }
}

/// Catches tenants that share the room for spawned tasks.
fn a_tenant_that_fills_its_cells_leaves_others_theirs(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut greedy, mut other]) = begin(on, shape);
        for round in 0..2 {
            let mut filled = greedy.submit(fill(SPAWN_CELLS, round)).unwrap();
            until_waiting(&session, u64::from(SPAWN_CELLS));
            let no_room = fault(FaultCode::user(NO_ROOM).unwrap());
            assert_eq!(run(&mut greedy, fill(1, round)), no_room, "{shape}: it has no room left");
            session.signal(1, round, 1).unwrap();
            for children in [1, 17, SPAWN_CELLS] {
                assert_eq!(run(&mut other, fill(children, round)), Ok(1), "{shape}: {children} children");
            }
            assert_eq!(filled.result(), Err(TaskError::Late), "{shape}");
            session.signal(0, round, 1).unwrap();
            assert_eq!(filled.wait(soon()), Ok(1), "{shape}");
            assert_eq!(run(&mut greedy, fill(SPAWN_CELLS, round)), Ok(1), "{shape}: all room is free again");
        }
    }
}

/// Catches a condition that names an event of another tenant or none at all and is waited for, and one that makes a task run
/// which its slot does not bring to a cell of its producer.
fn a_wild_condition_is_not_waited_for(on: &On) {
    for shape in shapes(on, SOME) {
        let (session, [mut own, _other]) = begin(on, shape);
        let wild = [EVENTS, 2 * EVENTS, 1 << 16, 1 << 31, u32::MAX].map(u64::from);
        let mut sum = 0;
        for (cell, event) in (0..).zip(wild) {
            for count in [1, u64::from(u32::MAX)] {
                let mut slot = own.submit_with_condition(add(1, 2), Some(cell), event | count << 32).unwrap();
                assert_eq!(slot.wait(soon()), Ok(0), "{shape}: the slot has brought its task to the cell");
                sum += 1;
                until("the task runs", || Ok(session.view::<u32>(0, "data")?.read(2, 1)?[0] == sum));
                until("it ends", || Ok(session.snapshot()?.cells.is_some_and(|cells| cells.runnable == 0)));
            }
        }
        for cell in [None, Some(CELLS), Some(FIRST_SPAWNED), Some(FIRST_NODE), Some((1 << 24) - 2)] {
            let task = if cell.is_none() { wait(0, 1, 1) } else { add(1, 2) };
            let end = own.submit_with_condition(task, cell, u64::MAX).unwrap().wait(soon());
            assert_eq!(end, fault(FaultCode::MALFORMED), "{shape}: {cell:?}");
        }
        // Without a cell, a task of one step runs in its slot, where nothing can be waited for.
        let end = own.submit_with_condition(add(1, 2), None, u64::MAX).unwrap().wait(soon());
        assert_eq!(end, Ok(sum), "{shape}");
    }
}

/// Catches a kernel that has no events and takes the mark of a condition for part of a level or of the number of a cell.
fn a_condition_without_events_is_nothing(on: &On) {
    for shape in shapes(on, SOME) {
        for claim in [Claim::Owned, Claim::PRIORITY] {
            let session = launch(on, &shape.spec(16, 2).claim(claim));
            let mut producer = session.producer(0).unwrap().patience(soon());
            for before in 0..5 {
                let end = producer.submit_with_condition(add(1, 2), None, u64::MAX).unwrap().wait(soon());
                assert_eq!(end, Ok(before), "{shape}");
            }
            drop((producer, session));
            let session = launch(on, &crate::cells::spec(shape).claim(claim));
            let mut producer = session.producer(0).unwrap().patience(soon());
            let counting = crate::cells::counting(3, 0);
            let mut slot = producer.submit_with_condition(counting, Some(0), u64::MAX).unwrap();
            assert_eq!(slot.wait(soon()), Ok(0), "{shape}: the slot has brought its task to the cell");
            let end = producer.submit_with_condition(add(1, 2), None, u64::MAX).unwrap().wait(soon());
            assert_eq!(end, Ok(0), "{shape}");
        }
    }
}
