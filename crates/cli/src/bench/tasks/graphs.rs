//! The case `graph`: graphs of tasks that are launched by one task each.
//!
//! One graph has a thousand nodes in ten layers, each node with two predecessors, and the figure is how many are run per
//! second. The other is a chain of a thousand nodes, and the figure is the time per node. Every result of a launch is
//! compared with what it must be. The nodes of the last layer also add their numbers to sums, which depend on every node
//! of every launch, and which are compared at the end.
//!
//! The same graphs are driven by the host, which submits each layer when the one before has ended. An NVIDIA GPU runs
//! them as CUDA graphs too, and on the CPU rayon runs them on one thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pelton::{Geometry, Handler, Producer, Region, Session, SessionGraph, Spec, Task, Ticket};
use pelton_device::Device;
use pelton_ir::types::{Order, Scope, Type};

use super::contender::{Contender, contender_rows, play_contenders, repeat};
use super::graph_shape::{GraphShape, RayonGraphs, inputs_of, time_cuda_graphs};
use super::{BenchRow, TasksBench};
use crate::bench::rounds::Sample;
use crate::error::CliError;
use crate::stop;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "graphs of tasks";

/// The number of nodes of both graphs.
const NODES: usize = 1000;
/// The number of layers of the wide graph.
const LAYERS: usize = 10;
/// The number of different parameters of launches.
const PARAMETERS: u32 = 16;
/// The number of launches that a producer has under way at once.
const DEEP: usize = 8;
/// How long a host waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What runs graphs in a round.
#[derive(Clone, Copy)]
enum GraphContender {
    /// Launches of a session.
    Session,
    /// Tasks of a session, which the host submits layer by layer.
    Host,
    /// Rayon, on one thread.
    Rayon,
    /// CUDA graphs.
    Cuda,
}

/// Which graphs are run, and what the figure is.
#[derive(Clone, Copy)]
enum GraphGoal {
    /// Graphs of ten layers per second.
    Layers,
    /// The time per node of a chain in microseconds.
    Chain,
}

/// Measures graphs of tasks.
pub(super) fn measure_graphs(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let graphs = GraphBench::new(bench.device, bench.time)?;
    let (peer, runner) = match bench.is_local() {
        true => ("rayon", GraphContender::Rayon),
        false => ("CUDA graphs", GraphContender::Cuda),
    };
    let mut contenders = Vec::new();
    for (case, metric, goal) in
        [("graph, 1000 nodes", "graphs/s", GraphGoal::Layers), ("graph, chain", "us", GraphGoal::Chain)]
    {
        let new = |name: &str, runner| Contender::new(format!("{case}, {name}"), metric, (runner, goal));
        let producers = match (goal, graphs.producers) {
            (GraphGoal::Chain, _) | (_, 1) => String::new(),
            (GraphGoal::Layers, many) => format!(", {many} producers"),
        };
        let session = new(&format!("session{producers}"), GraphContender::Session);
        contenders.push(session.against(format!("{case}, {peer}")));
        contenders.push(new(&format!("driven by the host{producers}"), GraphContender::Host));
        contenders.push(new(peer, runner));
    }
    let measured = play_contenders(bench, contenders, |(runner, goal)| match goal {
        GraphGoal::Layers => Ok(Sample::figure(graphs.layers_per_second(*runner)?)),
        GraphGoal::Chain => {
            let times = graphs.chain_seconds(*runner)?;
            Ok(Sample::times(times.into_iter().map(|time| time * 1e6 / NODES as f64).collect()))
        }
    })?;
    Ok(contender_rows(bench, &measured))
}

/// A graph, and the numbers of its nodes for each parameter.
struct KnownGraph {
    shape: GraphShape,
    numbers: Vec<Vec<u32>>,
}

impl KnownGraph {
    fn new(shape: GraphShape) -> Self {
        KnownGraph { numbers: (0..PARAMETERS).map(|parameter| shape.numbers(parameter)).collect(), shape }
    }

    /// The numbers of the nodes in a run of the graph. The runs of a producer use the parameters in turn.
    fn numbers_of_run(&self, run: u64) -> &[u32] {
        &self.numbers[parameter_of(run) as usize]
    }

    /// Checks the result of a run.
    fn check_result(&self, run: u64, found: u32) -> Result<(), CliError> {
        match self.numbers_of_run(run).last() {
            Some(wanted) if *wanted == found => Ok(()),
            wanted => Err(CliError::Wrong(format!("a graph gave {found} instead of {wanted:?}"))),
        }
    }

    /// Checks the sums that the last layer has made in a session, given the number of runs of each producer.
    fn check_sums(&self, session: &Session, runs: &[u64]) -> Result<(), CliError> {
        let mut wanted = vec![0u32; self.shape.width];
        for run in runs.iter().flat_map(|runs| 0..*runs) {
            let last = &self.numbers_of_run(run)[self.shape.last_layer()];
            wanted.iter_mut().zip(last).for_each(|(sum, number)| *sum = sum.wrapping_add(*number));
        }
        let found = session.view::<u32>(0, "sums")?.read(0, wanted.len())?;
        match found == wanted {
            true => Ok(()),
            false => Err(CliError::Wrong("the nodes of the last layer have added up wrong numbers".into())),
        }
    }
}

/// The parameter of a run.
fn parameter_of(run: u64) -> u32 {
    (run % u64::from(PARAMETERS)) as u32
}

/// What runs graphs.
struct GraphBench<'a> {
    device: &'a Arc<dyn Device>,
    /// How long graphs are run per round.
    time: Duration,
    /// How many producers there are.
    producers: u32,
    spec: Spec,
    layers: KnownGraph,
    chain: KnownGraph,
    rayon: RayonGraphs,
}

impl<'a> GraphBench<'a> {
    fn new(device: &'a Arc<dyn Device>, time: Duration) -> Result<Self, CliError> {
        let (producers, groups) = match device.caps().memory_bytes {
            Some(_) => (8, None),
            None => (1, Some(1)),
        };
        let spec = Spec::new(Geometry { groups, ..Geometry::new(1024) })
            .cells(64)
            .producers(producers)
            .graph_nodes(NODES as u32)
            .graph_instances(producers * DEEP as u32)
            .region(Region::new("sums", Type::U32, (NODES / LAYERS) as u32))
            .handler("mix", node_handler(false))
            .handler("last", node_handler(true));
        let layers = KnownGraph::new(GraphShape::new(LAYERS, NODES / LAYERS));
        let chain = KnownGraph::new(GraphShape::new(NODES, 1));
        Ok(GraphBench { device, time, producers, spec, layers, chain, rayon: RayonGraphs::new()? })
    }

    /// A new session. A device loads no code while a kernel is resident, so every session ends with its turn.
    fn launch_session(&self) -> Result<Session, CliError> {
        Ok(Session::launch(self.device, &self.spec)?)
    }

    /// How many graphs of ten layers are run per second.
    fn layers_per_second(&self, runner: GraphContender) -> Result<f64, CliError> {
        let graph = &self.layers;
        match runner {
            GraphContender::Session => {
                let session = self.launch_session()?;
                let launch = session.add_graph(0, &graph.shape.graph())?;
                self.producers_per_second(&session, |producer, start| {
                    launch_for(graph, &launch, producer, (start, self.time))
                })
            }
            GraphContender::Host => {
                let session = self.launch_session()?;
                self.producers_per_second(&session, |producer, start| {
                    let mut runs = 0;
                    while start.elapsed() < self.time {
                        drive_graph(graph, &session, producer, runs)?;
                        runs += 1;
                    }
                    Ok(runs)
                })
            }
            GraphContender::Rayon => {
                let mut runs = 0;
                repeat(self.time, || {
                    self.run_in_rayon(graph, runs)?;
                    runs += 1;
                    Ok(1)
                })
            }
            GraphContender::Cuda => {
                let parameters: Vec<u32> = (0..self.producers).collect();
                let times = self.cuda_seconds(graph, &parameters)?;
                Ok((parameters.len() * times.len()) as f64 / times.iter().sum::<f64>())
            }
        }
    }

    /// How long chains take that are run one after the other, in seconds.
    fn chain_seconds(&self, runner: GraphContender) -> Result<Vec<f64>, CliError> {
        let graph = &self.chain;
        match runner {
            GraphContender::Session => {
                let session = self.launch_session()?;
                let (mut producer, launch) =
                    (session.producer(0)?, session.add_graph(0, &graph.shape.graph())?);
                let times = self.repeat_timed(|run| {
                    let mut ticket = producer.submit(launch.launch(&[parameter_of(run)])?)?;
                    graph.check_result(run, ticket.wait(PATIENCE)?)
                })?;
                graph.check_sums(&session, &[times.len() as u64])?;
                Ok(times)
            }
            GraphContender::Host => {
                let session = self.launch_session()?;
                let mut producer = session.producer(0)?;
                let times = self.repeat_timed(|run| drive_graph(graph, &session, &mut producer, run))?;
                graph.check_sums(&session, &[times.len() as u64])?;
                Ok(times)
            }
            GraphContender::Rayon => self.repeat_timed(|run| self.run_in_rayon(graph, run)),
            GraphContender::Cuda => self.cuda_seconds(graph, &[1]),
        }
    }

    /// Repeats something for a while, and returns how long each time took in seconds.
    fn repeat_timed(&self, mut run: impl FnMut(u64) -> Result<(), CliError>) -> Result<Vec<f64>, CliError> {
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < self.time {
            stop::unless_pressed()?;
            let begin = Instant::now();
            run(times.len() as u64)?;
            times.push(begin.elapsed().as_secs_f64());
        }
        Ok(times)
    }

    /// Lets all producers of a session run graphs, and returns how many they run per second. `run` says how many a
    /// producer has run.
    fn producers_per_second(
        &self,
        session: &Session,
        run: impl Fn(&mut Producer, Instant) -> Result<u64, CliError> + Sync,
    ) -> Result<f64, CliError> {
        let open = |_| Ok(session.producer(0)?.patience(PATIENCE));
        let mut producers = (0..self.producers).map(open).collect::<Result<Vec<Producer>, CliError>>()?;
        let (run, start) = (&run, Instant::now());
        let runs = thread::scope(|scope| {
            let threads: Vec<_> =
                producers.iter_mut().map(|producer| scope.spawn(move || run(producer, start))).collect();
            let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().map_err(|_| CliError::Wrong("a producer panicked".into()))?
            };
            threads.into_iter().map(ended).collect::<Result<Vec<u64>, CliError>>()
        })?;
        let took = start.elapsed();
        self.layers.check_sums(session, &runs)?;
        Ok(runs.iter().sum::<u64>() as f64 / took.as_secs_f64())
    }

    /// Runs a graph with rayon, and checks the numbers of all nodes.
    fn run_in_rayon(&self, graph: &KnownGraph, run: u64) -> Result<(), CliError> {
        match self.rayon.run(&graph.shape, parameter_of(run)) == graph.numbers_of_run(run) {
            true => Ok(()),
            false => Err(CliError::Wrong("rayon has computed wrong numbers".into())),
        }
    }

    /// How long CUDA graphs take that are launched at once, one for each parameter, in seconds.
    fn cuda_seconds(&self, graph: &KnownGraph, parameters: &[u32]) -> Result<Vec<f64>, CliError> {
        let times = time_cuda_graphs(self.device, &graph.shape, parameters, self.time)?;
        times.ok_or_else(|| CliError::Wrong("this device has no CUDA graphs".into()))
    }
}

/// Computes the number of a node from two others and what it adds. If it is of the last layer, it adds its number to the
/// sum of its place.
fn node_handler(last: bool) -> Handler {
    Handler::lane_wide(move |task| {
        let f = task.body();
        let number = (task.arg(0) ^ f.rotl(task.arg(1), 5)) + task.arg(2);
        if last {
            let sum = task.region::<u32>("sums").at(task.arg(3));
            f.atomic_add(Order::Relaxed, Scope::Device, sum, number);
        }
        task.finish(number);
    })
}

/// Launches a graph again and again until the time is over, several at once, and returns how often.
fn launch_for(
    graph: &KnownGraph,
    launch: &SessionGraph,
    producer: &mut Producer,
    (start, time): (Instant, Duration),
) -> Result<u64, CliError> {
    let (mut open, mut ended) = (VecDeque::with_capacity(DEEP), 0);
    let mut end = |mut ticket: Ticket| {
        graph.check_result(ended, ticket.wait(PATIENCE)?)?;
        ended += 1;
        Ok::<(), CliError>(())
    };
    let mut runs = 0;
    while start.elapsed() < time && !stop::pressed() {
        if open.len() == DEEP
            && let Some(ticket) = open.pop_front()
        {
            end(ticket)?;
        }
        open.push_back(producer.submit(launch.launch(&[parameter_of(runs)])?)?);
        runs += 1;
    }
    open.into_iter().try_for_each(end)?;
    Ok(runs)
}

/// Runs a graph as a host does that has no graphs: it submits a layer when the layer before it has ended. Checks the
/// numbers of all nodes.
fn drive_graph(
    graph: &KnownGraph,
    session: &Session,
    producer: &mut Producer,
    run: u64,
) -> Result<(), CliError> {
    let (shape, mut numbers) = (&graph.shape, Vec::with_capacity(graph.shape.nodes.len()));
    let (mix, last) = (session.opcode("mix")?, session.opcode("last")?);
    for layer in shape.nodes.chunks(shape.width) {
        let op = if numbers.len() == shape.last_layer().start { last } else { mix };
        let task = |(node, at)| {
            let [a, b] = inputs_of(node, parameter_of(run), &numbers);
            Task::new(op).args([a, b, node.add, at])
        };
        let mut span = producer.submit_all(layer.iter().zip(0..shape.width as u32).map(task))?;
        span.wait(PATIENCE)?;
        let mut results = vec![0; layer.len()];
        span.read_results(&mut results);
        numbers.extend(results);
    }
    match numbers == graph.numbers_of_run(run) {
        true => Ok(()),
        false => Err(CliError::Wrong("the nodes of a graph gave wrong numbers".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_checked() {
        let device = pelton_device::open("cpu").expect("there is a CPU");
        let mut graphs = GraphBench::new(&device, Duration::from_millis(20)).expect("rayon starts");
        for runner in [GraphContender::Session, GraphContender::Host, GraphContender::Rayon] {
            assert!(graphs.layers_per_second(runner).expect("every sum is right") > 0.0);
            assert!(!graphs.chain_seconds(runner).expect("every result is right").is_empty());
        }
        // A node that is not the result of the graph has another number.
        graphs.layers.numbers[0][900] ^= 1;
        graphs.chain.numbers[0][999] ^= 1;
        for runner in [GraphContender::Session, GraphContender::Host, GraphContender::Rayon] {
            assert!(graphs.layers_per_second(runner).is_err());
            assert!(graphs.chain_seconds(runner).is_err());
        }
    }
}
