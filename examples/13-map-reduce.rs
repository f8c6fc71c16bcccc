//! A graph of tasks: a sum of squares over an array that stays on the device, mapped in slices and reduced in a tree.

use std::error::Error;
use std::time::Duration;

use pelton::ir::types::Type;
use pelton::{Graph, Handler, NodeArg, NodeId, Region, Session, Spec, Ticket, device};

const LEN: u32 = 1 << 16;
const SLICES: u32 = 32;

/// A map node sums up one slice, and a reduce node adds two results. Every number is multiplied by the only parameter.
fn sum_of_squares() -> Graph {
    let mut graph = Graph::new("sum_of_squares", 1);
    let mut nodes = Vec::<NodeId>::new();
    for k in 0..SLICES {
        let [from, to] = [k, k + 1].map(|k| NodeArg::Constant(k * (LEN / SLICES)));
        nodes.push(graph.node(format!("map_{k}"), "map", [from, to, NodeArg::Parameter(0)]));
    }
    while nodes.len() > 1 {
        let pairs = nodes.chunks(2).enumerate();
        let name = |k| format!("reduce_{}_{k}", nodes.len() / 2);
        let node =
            |(k, pair): (_, &[NodeId])| graph.node(name(k), "add", pair.iter().map(|node| (*node).into()));
        nodes = pairs.map(node).collect();
    }
    graph // its result is that of the last node
}

fn main() -> Result<(), Box<dyn Error>> {
    let map = Handler::lane_wide(|task| {
        let (f, numbers) = (task.body(), task.region::<u32>("numbers"));
        task.finish(f.range((task.arg(0), task.arg(1), f.lit(1)), f.lit(0), |_, at, sum| {
            let number = f.load(numbers.at(at)) * task.arg(2);
            sum + number * number
        }));
    });
    let add = Handler::lane_wide(|task| task.finish(task.arg(0) + task.arg(1)));
    let spec = Spec::default().region(Region::new("numbers", Type::U32, LEN)).graph(sum_of_squares());
    let spec = spec.handler("map", map).handler("add", add);
    let session = Session::launch(&device::open("auto")?, &spec)?;
    let values: Vec<u32> = (0..LEN).map(|k| k * 7 % 100).collect();
    session.view::<u32>(0, "numbers")?.write(0, &values)?;

    // The graph goes to the device once. Each launch is then one task, whatever the number of nodes.
    let (graph, mut producer) = (session.add_graph(0, &sum_of_squares())?, session.producer(0)?);
    let mut tickets = Vec::<Ticket>::new();
    for factor in 1..=10 {
        tickets.push(producer.submit(graph.launch(&[factor])?)?);
    }
    for (factor, mut ticket) in (1..).zip(tickets) {
        let right = values.iter().fold(0u32, |sum, value| sum.wrapping_add((value * factor).pow(2)));
        assert_eq!(ticket.wait(Duration::from_secs(60))?, right);
    }
    println!("10 launches of {SLICES} map nodes and {} reduce nodes", SLICES - 1);
    Ok(())
}
