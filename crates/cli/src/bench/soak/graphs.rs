//! The load `graphs`: random graphs, each of which is given to the session, launched a few times and taken away again.
//!
//! Several graphs are under way at once, with more launches than there is room for, so that some wait. Some launches are
//! cancelled. Some graphs are taken away while their launches are under way: such a launch runs whole or not at all.
//! Graphs with a mistake are offered in between and must be refused.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use pelton::ir::types::Type;
use pelton::protocol::FaultCode;
use pelton::{Claim, Error, Producer, Region, Session, SessionGraph, TaskError, Ticket};

use super::random_graph::{
    BLOCK_WORDS, MAX_NODES, PARAMETERS, Ran, Random, RandomGraph, broken_graph, with_node_handlers,
};
use super::workers::{SoakProgress, run_workers};
use super::{SoakArgs, aim_of};
use crate::bench::BenchRow;
use crate::bench::flood::PATIENCE;
use crate::error::CliError;
use crate::term::Term;

/// The number of graphs, slots per ring and producers if they are not given.
const GRAPHS: u64 = 1_000_000;
const SLOTS: u32 = 256;
const PRODUCERS: u32 = 4;
/// The number of graphs that a producer has under way at once.
const DEEP: usize = 6;
/// The most launches of a graph.
const LAUNCHES: u32 = 3;
/// The number of blocks of a producer.
const BLOCKS: u32 = DEEP as u32 * LAUNCHES;
/// The number of launches per producer that can be under way at once. More than these wait.
const INSTANCES: u32 = 8;
/// The number of cells for spawned tasks. There are so few that nodes often find none.
const SPAWN_CELLS: u32 = 64;
/// Changes the seed of a graph to that of the choices that are made about it, such as how often it is launched.
const CHOICES: u64 = 0x5851_f42d_4c95_7f2d;

/// What a producer has seen.
#[derive(Clone, Copy, Default)]
struct GraphTotals {
    graphs: u64,
    launches: u64,
    /// How many nodes there were in launches that ran whole.
    nodes: u64,
    /// The most tasks that may have been spawned besides these nodes: by nodes, and as nodes of launches that were
    /// cancelled.
    most_others: u64,
    /// How many graphs were refused because of a mistake.
    refused: u64,
    /// How many launches found their graph taken away.
    stale: u64,
    /// How many launches were cancelled before they had run whole.
    cancelled: u64,
}

impl GraphTotals {
    fn count_launch(&mut self, random: &RandomGraph, ran: Ran) {
        let nodes = random.graph.nodes.len() as u64;
        self.launches += 1;
        match ran {
            Ran::Whole => self.nodes += nodes,
            Ran::Partly => self.most_others += nodes,
            Ran::Nothing => self.stale += 1,
        }
        self.cancelled += u64::from(ran == Ran::Partly);
        self.most_others += random.most_spawned();
    }

    fn and(self, other: GraphTotals) -> GraphTotals {
        GraphTotals {
            graphs: self.graphs + other.graphs,
            launches: self.launches + other.launches,
            nodes: self.nodes + other.nodes,
            most_others: self.most_others + other.most_others,
            refused: self.refused + other.refused,
            stale: self.stale + other.stale,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// Runs random graphs.
pub(super) fn soak_graphs(args: &SoakArgs, term: &Term) -> Result<Vec<BenchRow>, CliError> {
    let count = args.graphs.unwrap_or(GRAPHS);
    let producers = args.producers.unwrap_or(PRODUCERS);
    let spec = with_node_handlers(args.spec(args.slots.unwrap_or(SLOTS)))
        .claim(Claim::PRIORITY)
        .producers(producers)
        .cells(BLOCKS.next_power_of_two())
        .spawn_cells(SPAWN_CELLS)
        .graph_nodes(MAX_NODES)
        .graph_instances(producers * INSTANCES)
        .region(Region::new("data", Type::U32, producers * BLOCKS * BLOCK_WORDS));
    let session = args.launch(&spec)?;
    term.note("random graphs are under way");
    let (progress, began) = (SoakProgress::default(), Instant::now());
    let bar = term.bar(count, "{bar:40} {human_pos}/{human_len} graphs, {per_sec}, {eta} left");
    let work = |worker: u32| {
        let producer = session.producer(0)?.patience(PATIENCE).aim(aim_of(worker));
        let free = (worker * BLOCKS..(worker + 1) * BLOCKS).collect();
        let mut feed = GraphFeed { session: &session, producer, free, seen: GraphTotals::default() };
        let numbers = (u64::from(worker)..count).step_by(producers as usize);
        feed.run_graphs(numbers.map(|number| args.seed.wrapping_add(number)), &progress)?;
        Ok(feed.seen)
    };
    let seen = run_workers(producers, &progress, work, || {
        bar.set_position(progress.done());
        Ok(())
    });
    bar.finish_and_clear();
    let seen = seen?.into_iter().fold(GraphTotals::default(), GraphTotals::and);
    let took = began.elapsed().as_secs_f64();
    check_end(session, &seen)?;
    let GraphTotals { graphs, launches, nodes, refused, stale, cancelled, .. } = seen;
    let case = format!("{graphs} random graphs, producers {producers}");
    term.note(format!(
        "{launches} launches, of which {cancelled} were cancelled and {stale} found their graph taken away; \
         {nodes} nodes in the others; {refused} graphs with a mistake were refused"
    ));
    Ok(vec![
        args.row(case.clone(), "graphs/s", graphs as f64 / took)?,
        args.row(case, "nodes/s", nodes as f64 / took)?,
    ])
}

/// Checks that nothing is left when all launches have ended.
fn check_end(session: Session, seen: &GraphTotals) -> Result<(), CliError> {
    let wrong = |what: String| Err(CliError::Wrong(what));
    if let Some(cells) = session.snapshot()?.cells {
        let graphs = cells.trees.as_ref().and_then(|trees| trees.graphs).unwrap_or(0);
        if cells.used + cells.spawned_now + graphs + cells.runnable != 0 {
            return wrong(format!("the session is not idle after the last graph: {cells}"));
        }
        let spawned = cells.steps.spawned;
        if !(seen.nodes..=seen.nodes + seen.most_others).contains(&spawned) {
            return wrong(format!("{spawned} tasks were spawned for {} nodes", seen.nodes));
        }
    }
    match session.stop()?.tasks_left() {
        0 => Ok(()),
        left => wrong(format!("{left} tasks were left when the session stopped")),
    }
}

/// A launch that is under way.
struct OpenLaunch {
    ticket: Ticket,
    block: u32,
    parameters: [u32; PARAMETERS as usize],
    /// Whether the launch may end as cancelled.
    may_be_cancelled: bool,
}

/// A graph that is under way.
struct OpenGraph {
    /// The seed that the graph was made from.
    seed: u64,
    random: RandomGraph,
    taken: SessionGraph,
    launches: Vec<OpenLaunch>,
    /// Whether the graph was taken away before its launches had ended.
    removed: bool,
}

impl OpenGraph {
    fn wrong(&self, what: impl std::fmt::Display) -> CliError {
        wrong_graph(self.seed, format!("{what}\n{}", self.random.graph))
    }
}

/// Says what is wrong with a graph, and how to run it again.
fn wrong_graph(seed: u64, what: impl std::fmt::Display) -> CliError {
    CliError::Wrong(format!("the graph of `--graphs 1 --seed {seed}`: {what}"))
}

/// A producer that runs random graphs.
struct GraphFeed<'s> {
    session: &'s Session,
    producer: Producer,
    /// The blocks that no launch uses. All of their words are 0.
    free: Vec<u32>,
    seen: GraphTotals,
}

impl GraphFeed<'_> {
    /// Runs the graphs of these seeds.
    fn run_graphs(
        &mut self,
        seeds: impl Iterator<Item = u64>,
        progress: &SoakProgress,
    ) -> Result<(), CliError> {
        let mut open = VecDeque::with_capacity(DEEP);
        for seed in seeds {
            if !progress.goes_on() {
                break;
            }
            if open.len() == DEEP {
                self.settle_first(&mut open, progress)?;
            }
            let choices = &mut Random::new(seed ^ CHOICES);
            let random = RandomGraph::new(seed);
            self.offer_broken(seed, choices, &random)?;
            let taken = self.take_graph(seed, &random, &mut open, progress)?;
            open.push_back(self.launch_graph(seed, choices, random, taken)?);
        }
        while !open.is_empty() {
            self.settle_first(&mut open, progress)?;
        }
        Ok(())
    }

    /// Offers the session a graph with a mistake, which it must refuse.
    fn offer_broken(
        &mut self,
        seed: u64,
        choices: &mut Random,
        random: &RandomGraph,
    ) -> Result<(), CliError> {
        if let Some((graph, refusal)) = choices.one_in(4).then(|| broken_graph(choices, random)).flatten() {
            let answer = self.session.add_graph(0, &graph);
            refusal.check(&graph, answer).map_err(|what| wrong_graph(seed, what))?;
            self.seen.refused += 1;
        }
        Ok(())
    }

    /// Gives the session a graph. If there is no room for it, earlier graphs are taken away first.
    fn take_graph(
        &mut self,
        seed: u64,
        random: &RandomGraph,
        open: &mut VecDeque<OpenGraph>,
        progress: &SoakProgress,
    ) -> Result<SessionGraph, CliError> {
        let since = Instant::now();
        loop {
            match self.session.add_graph(0, &random.graph) {
                Ok(taken) => return Ok(taken),
                Err(Error::GraphRoom { .. }) if !open.is_empty() => self.settle_first(open, progress)?,
                // The graphs of other producers take up the room.
                Err(Error::GraphRoom { .. }) if since.elapsed() < PATIENCE => thread::yield_now(),
                Err(error) => return Err(wrong_graph(seed, error)),
            }
        }
    }

    /// Launches a graph a few times, each with parameters of its own.
    fn launch_graph(
        &mut self,
        seed: u64,
        choices: &mut Random,
        random: RandomGraph,
        taken: SessionGraph,
    ) -> Result<OpenGraph, CliError> {
        let count = 1 + choices.below(LAUNCHES);
        let mut launches = Vec::with_capacity(count as usize);
        for block in self.free.split_off(self.free.len() - count as usize) {
            let parameters = [block * BLOCK_WORDS, choices.next_word(), choices.below(100)];
            let ticket = self.producer.submit(taken.launch(&parameters)?)?;
            launches.push(OpenLaunch { ticket, block, parameters, may_be_cancelled: choices.one_in(16) });
        }
        launches
            .iter_mut()
            .filter(|launch| launch.may_be_cancelled)
            .for_each(|launch| launch.ticket.cancel());
        let removed = choices.one_in(16);
        if removed {
            self.session.remove_graph(&taken, PATIENCE)?;
        }
        Ok(OpenGraph { seed, random, taken, launches, removed })
    }

    /// Waits for the first of the graphs that are under way, and checks all that it did.
    fn settle_first(
        &mut self,
        open: &mut VecDeque<OpenGraph>,
        progress: &SoakProgress,
    ) -> Result<(), CliError> {
        let Some(mut graph) = open.pop_front() else { return Ok(()) };
        let data = self.session.view::<u32>(0, "data")?;
        let (mut words, zeros) = (vec![0; graph.random.block_words()], vec![0; graph.random.block_words()]);
        for mut launch in std::mem::take(&mut graph.launches) {
            let end = launch.ticket.wait(PATIENCE);
            let results = graph.random.node_results(launch.parameters);
            let ran = match end {
                Ok(found) if found == graph.random.launch_result(&results) => Ran::Whole,
                Ok(found) => return Err(graph.wrong(format!("its result is {found:#x}"))),
                Err(TaskError::Fault(fault)) if graph.removed && fault.code == FaultCode::ARGUMENTS => {
                    Ran::Nothing
                }
                Err(TaskError::Cancelled { .. }) if launch.may_be_cancelled => Ran::Partly,
                Err(error) => return Err(graph.wrong(error)),
            };
            let first = launch.parameters[0] as usize;
            data.read_into(first, &mut words)?;
            graph.random.check_block(&words, &results, ran).map_err(|what| graph.wrong(what))?;
            data.write(first, &zeros)?;
            self.free.push(launch.block);
            self.seen.count_launch(&graph.random, ran);
        }
        self.session.remove_graph(&graph.taken, PATIENCE)?;
        self.seen.graphs += 1;
        progress.add(1);
        Ok(())
    }
}
