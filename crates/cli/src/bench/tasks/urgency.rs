//! The cases `urgent tree` and `urgent graph`: what is urgent waits for tasks that are not, on a device that is busy.
//!
//! Endless tasks of normal and of idle priority keep every group busy, twice as many of each as all groups have places for.
//! Meanwhile the host submits one tree or one graph at a time and waits for it. All children in the tree and all nodes of
//! the graph have idle priority. The root of the tree, or the task that launches the graph, is critical in the row
//! *urgent*, and idle in the row that this one is compared with. The figure is the time from its submit to its result.
//!
//! Every result is compared with what it must be. Each of the endless tasks notes how many steps it has taken, which is
//! compared with its result at the end, and some of them must have taken steps during the measurement.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pelton::kernel::handler_trees::Child;
use pelton::{
    Claim, Deadline, Geometry, Graph, Handler, NodeArg, Priority, Producer, Region, Session, Span, Spec, Task,
};
use pelton_device::Device;
use pelton_ir::types::Type;

use super::contender::{Contender, contender_rows, play_contenders, repeat_times};
use super::rayon_trees::{leaf_sum, mix_number};
use super::trees::{check, mix_in_kernel};
use super::{BenchRow, TasksBench};
use crate::bench::rounds::Sample;
use crate::error::CliError;
use crate::stop;

/// What is being measured, for people who wait.
pub(super) const NOTE: &str = "urgent trees and graphs on a busy device";

/// The depth of the tree, which is the number of levels below the root.
const DEPTH: u32 = 3;
/// How many nodes the last node of the graph waits for.
const NODES: u32 = 8;
/// How often a leaf of the tree, or one of these nodes, yields.
const YIELDS: u32 = 256;

/// The region in which endless tasks note their steps, and the region whose only element tells them to end.
const TAKEN: &str = "taken";
const TOLD: &str = "told";

/// What the host waits for.
#[derive(Clone, Copy)]
enum WaitedFor {
    Tree,
    Graph,
}

/// Measures how long urgent trees and graphs take on a busy device.
pub(super) fn measure_urgency(bench: &TasksBench<'_>) -> Result<Vec<BenchRow>, CliError> {
    let mut contenders = Vec::new();
    for (case, waited) in [("tree", WaitedFor::Tree), ("graph", WaitedFor::Graph)] {
        let [urgent, idle] = ["urgent", "idle"].map(|word| format!("{word} {case} under load"));
        let new = |name: &str, priority| Contender::new(name, "us", (waited, priority));
        contenders.push(new(&urgent, Priority::Critical).against(&*idle));
        contenders.push(new(&idle, Priority::Idle));
    }
    let shape = LoadShape::of(bench.device);
    let spec = shape.spec();
    let measured = play_contenders(bench, contenders, |(waited, priority)| {
        // A device loads no code while a kernel is resident, so every session ends with its turn.
        let session = Session::launch(bench.device, &spec)?;
        let load = EndlessLoad::start(&session, &shape)?;
        let before = load.steps_taken(&session)?;
        let times = match waited {
            WaitedFor::Tree => time_trees(bench, &session, *priority)?,
            WaitedFor::Graph => time_graphs(bench, &session, *priority)?,
        };
        load.check_and_end(&session, before)?;
        Ok(Sample::times(times))
    })?;
    Ok(contender_rows(bench, &measured))
}

/// How many endless tasks there are, and where they come from.
struct LoadShape {
    producers: u32,
    /// The number of tasks of each producer at each priority.
    tasks: u32,
    groups: Option<u32>,
}

impl LoadShape {
    fn of(device: &Arc<dyn Device>) -> Self {
        let caps = device.caps();
        let (producers, groups) = if caps.memory_bytes.is_some() { (8, None) } else { (1, Some(1)) };
        // A group with fewer lanes than this has this many places.
        let places = groups.unwrap_or(caps.groups) * caps.lanes.max(16);
        LoadShape { producers, tasks: (2 * places).div_ceil(producers), groups }
    }

    /// The number of endless tasks.
    fn count(&self) -> u32 {
        self.producers * LOAD_PRIORITIES.len() as u32 * self.tasks
    }

    fn spec(&self) -> Spec {
        let cells = self.tasks * LOAD_PRIORITIES.len() as u32;
        let mut geometry = Geometry::new(1024);
        geometry.groups = self.groups;
        Spec::new(geometry)
            .claim(Claim::PRIORITY)
            .producers(self.producers + 1)
            .cells(cells.next_power_of_two())
            .spawn_cells(Spec::MIN_SPAWN_CELLS)
            .graph_nodes(NODES + 1)
            .graph_instances(1)
            .region(Region::new(TAKEN, Type::U32, self.count()))
            .region(Region::new(TOLD, Type::U32, 1))
            .handler("endless", endless_handler())
            .handler("branch", branch_handler())
            .handler("sum", sum_handler())
    }
}

/// The priorities of the endless tasks.
const LOAD_PRIORITIES: [Priority; 2] = [Priority::Normal, Priority::Idle];

/// Takes steps until it is told to end, and notes their number in the element that its argument names. The number is also
/// its result.
fn endless_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, taken) = (task.body(), task.frame_word());
        let now = taken.load() + 1;
        taken.store(now);
        f.store(task.region::<u32>(TAKEN).at(task.arg(0)), now);
        f.when(f.load(task.region::<u32>(TOLD).at(0u32)).eq(0), || task.yield_now());
        task.finish(now);
    })
}

/// Spawns the children of the node in its first argument, whose height is the second, and gives the sum of their results. A
/// leaf yields several times and gives its number, mixed. The children are idle.
fn branch_handler() -> Handler {
    Handler::lane_wide(|task| {
        let (f, number, height) = (task.body(), task.arg(0), task.arg(1));
        let (left, right, yields) = (task.frame_word(), task.frame_word(), task.frame_word());
        task.step(|| {
            f.when(height.eq(0), || {
                let so_far = yields.load();
                f.when(so_far.eq(YIELDS), || task.finish(mix_in_kernel(number)));
                yields.store(so_far + 1);
                task.yield_now();
            });
            // One tree at a time has all the room, so there is some unless a search for it has overlooked it.
            f.when(!task.reserve_children(2), || task.yield_now());
            for (side, word) in [(0, left), (1, right)] {
                let child =
                    Child::same_handler(&task).result_into(word).args([number * 2 + side, height - 1]);
                task.spawn(child.priority(Priority::Idle));
            }
            task.wait_children();
        });
        task.finish(left.load() + right.load());
    })
}

/// Gives the sum of its arguments.
fn sum_handler() -> Handler {
    Handler::lane_wide(|task| {
        let sum = (1..NODES).fold(task.arg(0), |sum, at| sum + task.arg(at));
        task.finish(sum);
    })
}

/// The endless tasks of a session.
struct EndlessLoad {
    spans: Vec<Span>,
    /// Their producers, whose cells they have.
    _producers: Vec<Producer>,
}

impl EndlessLoad {
    /// Starts the tasks, and waits until all of them are under way.
    fn start(session: &Session, shape: &LoadShape) -> Result<Self, CliError> {
        let (op, mut spans, mut producers) = (session.opcode("endless")?, Vec::new(), Vec::new());
        let mut numbers = (0..shape.count()).collect::<Vec<u32>>().into_iter();
        for _ in 0..shape.producers {
            let mut producer = session.producer(0)?.patience(Deadline::Never);
            let batch = producer.largest_batch() as usize;
            for priority in LOAD_PRIORITIES {
                let own: Vec<u32> = numbers.by_ref().take(shape.tasks as usize).collect();
                for some in own.chunks(batch) {
                    let tasks = some.iter().map(|number| Task::new(op).args([*number]).priority(priority));
                    spans.push(producer.submit_all(tasks)?);
                }
            }
            producers.push(producer);
        }
        while session.snapshot()?.cells.is_none_or(|cells| cells.runnable < u64::from(shape.count())) {
            stop::unless_pressed()?;
            thread::yield_now();
        }
        Ok(EndlessLoad { spans, _producers: producers })
    }

    /// How many steps each task has taken.
    fn steps(&self, session: &Session) -> Result<Vec<u32>, CliError> {
        let count = self.spans.iter().map(Span::len).sum();
        Ok(session.view::<u32>(0, TAKEN)?.read(0, count)?)
    }

    /// How many steps the tasks have taken together.
    fn steps_taken(&self, session: &Session) -> Result<u64, CliError> {
        Ok(self.steps(session)?.into_iter().map(u64::from).sum())
    }

    /// Lets the tasks end. Checks that together they have taken more than `before` steps, and that the result of each task
    /// is the number of its own steps.
    fn check_and_end(mut self, session: &Session, before: u64) -> Result<(), CliError> {
        if self.steps_taken(session)? <= before {
            return Err(CliError::Wrong("the device was not busy; this is a defect of Pelton".into()));
        }
        session.view::<u32>(0, TOLD)?.write(0, &[1])?;
        let mut results = Vec::new();
        for span in &mut self.spans {
            span.wait(Deadline::Never)?;
            let mut some = vec![0; span.len()];
            span.read_results(&mut some);
            results.extend(some);
        }
        let taken = self.steps(session)?;
        results
            .into_iter()
            .zip(taken)
            .try_for_each(|(result, steps)| check("a count of steps", result, steps))
    }
}

/// Runs trees whose root has this priority for a while, and returns how long each took in microseconds.
fn time_trees(bench: &TasksBench<'_>, session: &Session, priority: Priority) -> Result<Vec<f64>, CliError> {
    let root = Task::new(session.opcode("branch")?).args([1, DEPTH]).priority(priority);
    let (mut producer, sum) = (session.producer(0)?, leaf_sum(DEPTH));
    repeat_times(bench.time, || {
        let start = Instant::now();
        let result = producer.submit(root)?.wait(Deadline::Never)?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        check("the sum of all leaves", result, sum)?;
        Ok(vec![time])
    })
}

/// Launches graphs at this priority for a while, and returns how long each took in microseconds.
fn time_graphs(bench: &TasksBench<'_>, session: &Session, priority: Priority) -> Result<Vec<f64>, CliError> {
    let mut graph = Graph::new("fan", NODES);
    let nodes: Vec<NodeArg> = (0..NODES)
        .map(|at| {
            let node = graph.node(format!("n{at}"), "branch", [NodeArg::Parameter(at), 0.into()]);
            graph.set_priority(node, Priority::Idle);
            node.into()
        })
        .collect();
    let last = graph.node("last", "sum", nodes);
    graph.set_priority(last, Priority::Idle);
    let (graph, mut producer) = (session.add_graph(0, &graph)?, session.producer(0)?);
    let mut next = 0u32;
    repeat_times(bench.time, || {
        let numbers: Vec<u32> = (0..NODES).map(|at| next.wrapping_add(at)).collect();
        next = next.wrapping_add(NODES);
        let launch = graph.launch(&numbers)?.priority(priority);
        let start = Instant::now();
        let result = producer.submit(launch)?.wait(Deadline::Never)?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        let sum = numbers.into_iter().map(mix_number).fold(0, u32::wrapping_add);
        check("the sum of all nodes", result, sum)?;
        Ok(vec![time])
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_result_is_right_while_the_device_is_busy() {
        let device = &pelton_device::open("cpu").expect("there is a CPU");
        let time = Duration::from_millis(1);
        let bench = TasksBench { device, time, rounds: 1, quick: true, only: "" };
        let shape = LoadShape::of(device);
        let session = Session::launch(device, &shape.spec()).expect("the spec is right");
        let load = EndlessLoad::start(&session, &shape).expect("it starts");
        let before = load.steps_taken(&session).expect("it can be read");
        for priority in [Priority::Critical, Priority::Idle] {
            let trees = time_trees(&bench, &session, priority).expect("every sum is right");
            let graphs = time_graphs(&bench, &session, priority).expect("every sum is right");
            assert!(!trees.is_empty() && !graphs.is_empty());
        }
        load.check_and_end(&session, before).expect("every count is right");
    }
}
