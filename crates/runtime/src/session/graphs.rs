//! The graphs of a session: they are copied to the device while the kernel runs, launched any number of times, and removed.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Session;
use super::memory::BufferMemories;
use crate::deadline::{Deadline, PollBackoff};
use crate::error::Error;
use crate::graph::Graph;
use crate::kernel::graphs::{GRAPH_BITS, MAX_GRAPHS, entry_word};
use crate::kernel::{BufferId, TenantId};
use crate::protocol::{Opcode, graph, slot};
use crate::task::Task;

/// A graph that a session has taken. [`launch`](SessionGraph::launch) makes tasks that run it.
///
/// ```
/// use std::time::Duration;
/// use pelton::graph::{Graph, NodeArg};
/// use pelton::{Handler, Session, Spec, device};
///
/// // (a + b) × (a + 10)
/// let mut graph = Graph::new("product", 2);
/// let (a, b) = (NodeArg::Parameter(0), NodeArg::Parameter(1));
/// let left = graph.node("left", "add", [a, b]);
/// let right = graph.node("right", "add", [a, 10.into()]);
/// graph.node("product", "multiply", [left.into(), right.into()]);
///
/// let spec = Spec::default()
///     .handler("add", Handler::lane_wide(|task| task.finish(task.arg(0) + task.arg(1))))
///     .handler("multiply", Handler::lane_wide(|task| task.finish(task.arg(0) * task.arg(1))))
///     .graph_nodes(8);
/// let session = Session::launch(&device::open("cpu")?, &spec)?;
/// let product = session.add_graph(0, &graph)?;
/// let mut producer = session.producer(0)?;
/// let mut ticket = producer.submit(product.launch(&[3, 4])?)?;
/// assert_eq!(ticket.wait(Duration::from_secs(60))?, 7 * 13);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionGraph {
    /// The name of the graph.
    pub name: String,
    /// The tenant that may launch it.
    pub tenant: TenantId,
    /// How many parameters a launch gives.
    pub parameters: u32,
    number: u32,
    /// How often the number was used, this time included.
    generation: u32,
    /// Which session has taken it.
    session: usize,
}

impl SessionGraph {
    /// Makes a task that launches the graph with these parameters. Its result is that of the node that the graph names, and
    /// it ends after the last node. If a node ends with a fault, the other nodes take no further step, and the task ends
    /// with the same fault.
    ///
    /// # Errors
    ///
    /// [`Error::GraphParameters`] if these are not as many parameters as the graph has.
    pub fn launch(&self, parameters: &[u32]) -> Result<Task, Error> {
        let (found, wanted) = (parameters.len(), self.parameters);
        if found != wanted as usize {
            return Err(Error::GraphParameters { name: self.name.clone(), found, wanted });
        }
        let mut args = [0; slot::ARGS];
        args[0] = self.number | self.generation << GRAPH_BITS;
        args[1..=found].copy_from_slice(parameters);
        Ok(Task::new(Opcode::LAUNCH_GRAPH).args(args))
    }
}

/// Which numbers and which words of the device's memory for graphs are in use.
#[derive(Debug, Default)]
pub(super) struct GraphTable {
    places: Mutex<GraphPlaces>,
}

/// The graphs of a session.
#[derive(Debug, Default)]
pub(super) struct GraphPlaces {
    /// The first word and the number of words of each graph, by its number. Numbers that no graph has have no words.
    used: Vec<(u32, u32)>,
    /// How often each number was used.
    generations: Vec<u32>,
    /// The words of each graph, for the case that the device is lost. There are none once a graph was removed.
    saved: Vec<Vec<u32>>,
}

impl GraphTable {
    fn lock(&self) -> MutexGuard<'_, GraphPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all graphs to the memory of a kernel that begins after a loss. Nobody adds or removes a graph while the result is
    /// held, which must be until the session uses that kernel.
    pub(super) fn restore(&self, memories: &BufferMemories) -> Result<MutexGuard<'_, GraphPlaces>, Error> {
        let places = self.lock();
        for (number, words) in places.saved.iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            let (first, generation) = (places.used[number].0, places.generations[number]);
            memories.need(BufferId::GraphWords)?.upload(first as usize, words)?;
            let at = number * entry_word::WORDS as usize;
            let directory = memories.need(BufferId::GraphDirectory)?;
            directory.upload(at + entry_word::GENERATION as usize, &[generation])?;
            directory.upload(at + entry_word::FIRST as usize, &[first + 1])?;
        }
        Ok(places)
    }
}

impl GraphPlaces {
    /// Returns whether a graph is still there, and was not removed or replaced.
    fn has(&self, graph: &SessionGraph) -> bool {
        let at = graph.number as usize;
        self.used.get(at).is_some_and(|(_, len)| *len > 0) && self.generations[at] == graph.generation
    }

    /// Finds room for a graph that has `count` words among all `words` for graphs. Returns its number and its first word.
    fn take(&mut self, name: &str, count: u32, words: u32) -> Result<(u32, u32), Error> {
        let number = self.used.iter().position(|(_, len)| *len == 0).unwrap_or(self.used.len());
        if number >= MAX_GRAPHS as usize {
            return Err(Error::TooManyGraphs { name: name.into() });
        }
        let mut taken: Vec<(u32, u32)> = self.used.iter().copied().filter(|(_, len)| *len > 0).collect();
        taken.sort_unstable();
        let (mut first, mut largest) = (0, 0);
        for (at, len) in taken.into_iter().chain([(words, 0)]) {
            largest = largest.max(at - first);
            if largest >= count {
                break;
            }
            first = at + len;
        }
        if largest < count {
            return Err(Error::GraphRoom { name: name.into(), words: count, free: largest });
        }
        if number == self.used.len() {
            self.used.push((0, 0));
            self.generations.push(0);
            self.saved.push(Vec::new());
        }
        self.used[number] = (first, count);
        self.generations[number] = (self.generations[number] + 1) & (u32::MAX >> GRAPH_BITS);
        Ok((number as u32, first))
    }
}

impl Session {
    /// Gives a graph to the session, so that producers of a tenant can launch it any number of times, many at once. The
    /// kernel keeps running meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTenant`]; [`Error::Graph`] if something is wrong with the graph; [`Error::GraphSize`] if it has more
    /// nodes than this session allows; [`Error::TooManyGraphs`] and [`Error::GraphRoom`] if there is no room for it;
    /// [`Error::Device`] if it cannot be copied to the device.
    pub fn add_graph(&self, tenant: TenantId, graph: &Graph) -> Result<SessionGraph, Error> {
        self.check_tenant(tenant)?;
        let (found, name) = (graph.nodes.len(), || graph.name.clone());
        let checked =
            graph.check(&self.kernel().spec).map_err(|source| Error::Graph { name: name(), source })?;
        let layout = self.rings().layout.trees.and_then(|trees| trees.graphs);
        let Some(layout) = layout.filter(|layout| found <= layout.nodes as usize) else {
            let most = layout.map_or(0, |layout| layout.nodes);
            return Err(Error::GraphSize { name: name(), found, most });
        };
        let mut words = checked.words().to_vec();
        words[graph::TENANT as usize] = tenant;
        let mut places = self.running.graphs.lock();
        let (number, first) = places.take(&graph.name, words.len() as u32, layout.words)?;
        let generation = places.generations[number as usize];
        let copied = self.copy_words(BufferId::GraphWords, first, &words);
        let copied = copied.and_then(|()| self.set_entry(number, entry_word::GENERATION, generation));
        // Pairs with the acquire of the group that launches: whoever sees where the graph begins sees its words and its
        // generation.
        fence(Ordering::Release);
        let copied = copied.and_then(|()| self.set_entry(number, entry_word::FIRST, first + 1));
        if let Err(error) = copied {
            places.used[number as usize] = (0, 0);
            return Err(error);
        }
        if self.rings().recovery.is_some() {
            places.saved[number as usize] = words;
        }
        Ok(SessionGraph {
            name: name(),
            tenant,
            parameters: graph.parameters,
            number,
            generation,
            session: self.graph_owner(),
        })
    }

    /// Takes a graph away from the session, after waiting for launches that are under way. A launch that has not begun ends
    /// with a fault. A graph that was removed already is not an error.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSession`] if another session has taken the graph. [`Error::Late`] if launches of the graph were still
    /// under way when the deadline passed; the graph is not launched any more, and this may be called again to wait for them.
    /// [`Error::Device`] if the device's memory cannot be read.
    pub fn remove_graph(&self, graph: &SessionGraph, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let (deadline, number) = (deadline.into().started(), graph.number);
        if graph.session != self.graph_owner() {
            return Err(Error::OtherSession);
        }
        {
            let mut places = self.running.graphs.lock();
            if !places.has(graph) {
                return Ok(());
            }
            places.saved[number as usize].clear();
            self.set_entry(number, entry_word::FIRST, 0)?;
        }
        // Stands between the directory and the look at the count of instances.
        fence(Ordering::SeqCst);
        let mut backoff = PollBackoff::default();
        loop {
            let mut launches = [0u32];
            self.kernel().memories.need(BufferId::GraphLaunches)?.download(number as usize, &mut launches)?;
            if launches[0] == 0 || !self.rings().state.is_running() {
                // Pairs with the release of the last launch to end: it has read the words that may be written again now.
                fence(Ordering::Acquire);
                let mut places = self.running.graphs.lock();
                // Another thread may have removed the graph at the same time, and its number may be in use again.
                if places.has(graph) {
                    places.used[number as usize] = (0, 0);
                }
                return Ok(());
            }
            if deadline == Deadline::Now || backoff.is_slow() && deadline.has_passed() {
                return Err(Error::Late { left: launches[0].into() });
            }
            if backoff.is_slow() {
                self.served().check_for_end();
            }
            backoff.pause();
        }
    }

    /// Returns a number that no other session of this process has at the same time.
    fn graph_owner(&self) -> usize {
        Arc::as_ptr(&self.served().rings) as usize
    }

    /// Writes a word of the directory entry of a graph.
    fn set_entry(&self, number: u32, word: u32, value: u32) -> Result<(), Error> {
        self.copy_words(BufferId::GraphDirectory, number * entry_word::WORDS + word, &[value])
    }

    fn copy_words(&self, id: BufferId, at: u32, words: &[u32]) -> Result<(), Error> {
        Ok(self.kernel().memories.need(id)?.upload(at as usize, words)?)
    }
}
