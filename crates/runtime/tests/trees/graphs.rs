//! Graphs: each node runs once, after its predecessors and with the right arguments.

// `pelton bench soak --load graphs` runs many more of these graphs.
#[allow(dead_code, unused_imports)] // It needs more than these tests do.
#[path = "../../../cli/src/bench/soak/random_graph/mod.rs"]
mod random_graph;

use std::fmt::Debug;
use std::time::Duration;

use pelton::graph::{Graph, NodeArg};
use pelton::protocol::FaultCode;
use pelton::{Handler, Opcode, Session, Spec, Task, TaskError, Ticket};

use self::random_graph::{MAX_NODES, Ran, Random, RandomGraph, broken_graph, with_node_handlers};
use crate::everywhere::{LONG, everywhere};
use crate::{element, fault_code};

/// Mixes its first three arguments, and counts in the element that the fourth one names that it ran. If the fifth is not 0,
/// it ends with that fault.
fn mix() -> Handler {
    Handler::lane_wide(|task| {
        let f = task.body();
        task.atomic_add(task.arg(3), 1);
        f.when(task.arg(4).ne(0), || task.fault(task.arg(4)));
        task.finish((task.arg(0) * 3) ^ (task.arg(1) * 5 + 1) ^ (task.arg(2) + 7));
    })
}

/// The same in several steps: it yields twice.
fn slow_mix() -> Handler {
    Handler::lane_wide(|task| {
        let (f, left) = (task.body(), task.frame_word());
        task.step(|| left.store(2));
        task.step(|| {
            let now = left.load();
            f.when(now.ne(0), || {
                left.store(now - 1);
                task.yield_now();
            });
        });
        task.atomic_add(task.arg(3), 1);
        f.when(task.arg(4).ne(0), || task.fault(task.arg(4)));
        task.finish((task.arg(0) * 3) ^ (task.arg(1) * 5 + 1) ^ (task.arg(2) + 7));
    })
}

/// What [`mix`] gives.
fn mixed(args: [u32; 3]) -> u32 {
    args[0].wrapping_mul(3) ^ args[1].wrapping_mul(5).wrapping_add(1) ^ args[2].wrapping_add(7)
}

/// Every device assembles and compiles the kernel once for all cases.
#[test]
fn graphs_on_every_device() {
    let spec = |spec: Spec| {
        with_node_handlers(spec)
            .cells(64)
            .spawn_cells(64)
            .graph_nodes(MAX_NODES)
            .graph_instances(3)
            .handler("mix", mix())
            .handler("slow", slow_mix())
            .handler("forever", Handler::lane_wide(|task| task.yield_now()))
    };
    everywhere(spec, |session, shape| {
        random_graphs_give_what_they_should(session, shape);
        graphs_with_a_mistake_are_refused(session, shape);
        many_launches_share_few_instances(session, shape);
        a_fault_skips_the_nodes_that_have_not_begun(session, shape);
        a_launch_can_be_cancelled(session, shape);
        graphs_are_removed_and_replaced(session, shape);
        session.quiesce(LONG).unwrap();
    });
}

/// Reads and clears words of `data`.
fn take_words(session: &Session, first: u32, count: usize) -> Vec<u32> {
    let data = session.view::<u32>(0, "data").unwrap();
    let words = data.read(first as usize, count).unwrap();
    data.write(first as usize, &vec![0; count]).unwrap();
    words
}

fn random_graphs_give_what_they_should(session: &Session, shape: &str) {
    let rounds = if shape.starts_with("reference") { 3 } else { 40 };
    let mut producer = session.producer(0).unwrap().patience(LONG);
    for number in 0..rounds {
        let random = RandomGraph::new(number);
        let wrong = |what: &dyn Debug| format!("{shape}: number {number}: {what:?}\n{}", random.graph);
        let taken = session.add_graph(0, &random.graph).unwrap();
        let parameters = [16, number as u32, 3];
        let results = random.node_results(parameters);
        let mut ticket = producer.submit(taken.launch(&parameters).unwrap()).unwrap();
        let end = ticket.wait(LONG);
        assert_eq!(end, Ok(random.launch_result(&results)), "{}", wrong(&end));
        let block = take_words(session, 16, random.block_words());
        random.check_block(&block, &results, Ran::Whole).unwrap_or_else(|what| panic!("{}", wrong(&what)));
        session.remove_graph(&taken, LONG).unwrap();
    }
}

fn graphs_with_a_mistake_are_refused(session: &Session, shape: &str) {
    for number in 0..200 {
        let random = RandomGraph::new(number);
        if let Some((graph, refusal)) = broken_graph(&mut Random::new(number), &random) {
            let answer = session.add_graph(0, &graph);
            refusal.check(&graph, answer).unwrap_or_else(|what| panic!("{shape}: number {number}: {what}"));
        }
    }
}

fn many_launches_share_few_instances(session: &Session, shape: &str) {
    let launches = if shape.starts_with("reference") { 6 } else { 60 };
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut graph = Graph::new("line", 1);
    let mut last = graph.node("n0", "mix", [NodeArg::Parameter(0), 0.into(), 0.into(), 300.into()]);
    for node in 1..90 {
        last = graph.node(format!("n{node}"), "slow", [last.into(), node.into(), 0.into(), 300.into()]);
    }
    let taken = session.add_graph(0, &graph).unwrap();
    let right = |parameter| (1..90).fold(mixed([parameter, 0, 0]), |value, node| mixed([value, node, 0]));
    let launch = |parameter: u32| taken.launch(&[parameter]).unwrap();
    let mut tickets: Vec<Ticket> = (0..launches).map(|k| producer.submit(launch(k)).unwrap()).collect();
    for (k, ticket) in (0..).zip(&mut tickets) {
        assert_eq!(ticket.wait(LONG), Ok(right(k)), "{shape}: launch {k}");
    }
    assert_eq!(take_words(session, 300, 1), [90 * launches], "{shape}");
    session.remove_graph(&taken, LONG).unwrap();
}

fn a_fault_skips_the_nodes_that_have_not_begun(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut graph = Graph::new("faulty", 1);
    let first = graph.node("first", "mix", [1.into(), 2.into(), 3.into(), 400.into()]);
    let fault = NodeArg::Parameter(0);
    let bad = graph.node("bad", "mix", [first.into(), 0.into(), 0.into(), 401.into(), fault]);
    let after = graph.node("after", "mix", [bad.into(), 0.into(), 0.into(), 402.into()]);
    graph.node("last", "mix", [after.into(), 0.into(), 0.into(), 403.into()]);
    let taken = session.add_graph(0, &graph).unwrap();
    let mut run = |parameter| producer.submit(taken.launch(&[parameter]).unwrap()).unwrap().wait(LONG);
    assert!(run(0).is_ok(), "{shape}");
    assert_eq!(take_words(session, 400, 4), [1, 1, 1, 1], "{shape}");
    assert_eq!(fault_code(run(0x234)), FaultCode::user(0x234).ok(), "{shape}: the fault of the node");
    assert_eq!(take_words(session, 400, 4), [1, 1, 0, 0], "{shape}: the others were skipped");
    assert!(run(0).is_ok(), "{shape}: the instance can be used again");
    take_words(session, 400, 4);
    session.allow(0, &[Opcode::LAUNCH_GRAPH]).unwrap();
    let denied = fault_code(producer.submit(taken.launch(&[0]).unwrap()).unwrap().wait(LONG));
    assert_eq!(
        denied,
        Some(FaultCode::DENIED),
        "{shape}: the tenant may launch graphs, but not run the nodes"
    );
    session.set_mask(0, u32::MAX).unwrap();
    take_words(session, 400, 4);
    session.remove_graph(&taken, LONG).unwrap();
}

fn a_launch_can_be_cancelled(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut graph = Graph::new("endless", 0);
    let endless = graph.node("endless", "forever", []);
    let after = graph.node("after", "mix", [endless.into()]);
    graph.edge(endless, after);
    let taken = session.add_graph(0, &graph).unwrap();
    let launch = taken.launch(&[]).unwrap();
    // More launches than instances: some of them wait for one.
    let mut tickets: Vec<Ticket> = (0..5).map(|_| producer.submit(launch).unwrap()).collect();
    let under_way = || session.snapshot().unwrap().cells.and_then(|cells| cells.trees).unwrap().graphs;
    while under_way() < Some(3) {
        std::thread::yield_now();
    }
    assert_eq!(tickets[0].wait(Duration::from_millis(2)), Err(TaskError::Late), "{shape}");
    tickets.iter_mut().for_each(|ticket| ticket.cancel());
    for ticket in &mut tickets {
        assert!(matches!(ticket.wait(LONG), Err(TaskError::Cancelled { .. })), "{shape}");
    }
    assert_eq!(under_way(), Some(0), "{shape}");
    assert_eq!(element(session, 0), 0, "{shape}: the node after it never ran");
    session.remove_graph(&taken, LONG).unwrap();
}

fn graphs_are_removed_and_replaced(session: &Session, shape: &str) {
    let mut producer = session.producer(0).unwrap().patience(LONG);
    let mut graph = Graph::new("one", 0);
    graph.node("only", "mix", [1.into(), 1.into(), 1.into(), 500.into()]);
    let first = session.add_graph(0, &graph).unwrap();
    session.remove_graph(&first, LONG).unwrap();
    let second = session.add_graph(0, &graph).unwrap();
    assert_ne!(first, second, "{shape}");
    let stale = producer.submit(first.launch(&[]).unwrap()).unwrap().wait(LONG);
    assert_eq!(fault_code(stale), Some(FaultCode::ARGUMENTS), "{shape}: the graph is gone");
    let forged = Task::new(Opcode::LAUNCH_GRAPH).args([u32::MAX; 12]);
    let end = producer.submit(forged).unwrap().wait(LONG);
    assert_eq!(fault_code(end), Some(FaultCode::ARGUMENTS), "{shape}: there is no such graph");
    assert_eq!(
        producer.submit(second.launch(&[]).unwrap()).unwrap().wait(LONG),
        Ok(mixed([1, 1, 1])),
        "{shape}"
    );
    assert!(second.launch(&[1]).unwrap_err().to_string().contains("has no parameters, and 1 was given"));
    session.remove_graph(&first, LONG).unwrap();
    session.remove_graph(&second, LONG).unwrap();
    let mut large = Graph::new("large", 0);
    for node in 0..=MAX_NODES {
        large.node(format!("n{node}"), "mix", []);
    }
    let error = session.add_graph(0, &large).unwrap_err().to_string();
    assert!(error.contains("has 201 nodes, and this session takes graphs of up to 200"), "{error}");
}

#[test]
fn graphs_that_cannot_be_added_say_why() {
    let device = pelton::device::open("cpu").unwrap();
    let one = |name: &str| {
        let mut graph = Graph::new(name, 0);
        graph.node("only", "NOP", []);
        graph
    };
    let without = Session::launch(&device, &Spec::default()).unwrap();
    assert_eq!(
        without.add_graph(0, &one("g")).unwrap_err().to_string(),
        "graph \"g\" cannot be added, because this session has no room for graphs; launch with `Spec::graph_nodes` of at \
         least 1, which is how many nodes the graph has"
    );
    let session = Session::launch(&device, &Spec::default().graph_nodes(1)).unwrap();
    let empty = session.add_graph(0, &Graph::new("empty", 0)).unwrap_err();
    assert_eq!(empty.to_string(), "graph \"empty\": the graph has no nodes");
    let taken: Vec<_> = (0..1024).map(|k| session.add_graph(0, &one(&format!("g{k}"))).unwrap()).collect();
    assert_eq!(
        session.add_graph(0, &one("last")).unwrap_err().to_string(),
        "graph \"last\" cannot be added, because the session has 1024 graphs already, which is the most that it can have; \
         remove one first (`Session::remove_graph`)"
    );
    session.remove_graph(&taken[500], LONG).unwrap();
    session.add_graph(0, &one("last")).unwrap();
}

/// Room that was given back between others is used again, and an error says how large the largest piece of it is.
#[test]
fn the_memory_for_graphs_is_limited() {
    let device = pelton::device::open("cpu").unwrap();
    let graph_of = |nodes: u32| {
        let mut graph = Graph::new("large", 0);
        for node in 0..nodes {
            graph.node(format!("n{node}"), "NOP", []);
        }
        graph
    };
    let session = Session::launch(&device, &Spec::default().graph_nodes(1000)).unwrap();
    let mut taken = Vec::new();
    let full = loop {
        match session.add_graph(0, &graph_of(1000)) {
            Ok(graph) => taken.push(graph),
            Err(error) => break error,
        }
    };
    let pelton::Error::GraphRoom { words, free, .. } = full else { panic!("{full}") };
    assert!(free < words, "{full}");
    let said = format!("needs {words} words of memory in one piece, and the largest free piece has {free}; ");
    assert!(full.to_string().contains(&said), "{full}");
    session.remove_graph(&taken[1], LONG).unwrap();
    session.add_graph(0, &graph_of(1000)).unwrap();
}
