//! What the host sees of resumable tasks: how many steps they took, and where those are that have not ended.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::kernel::cells::{cell_state, generation_of};
use crate::kernel::steps::step_counter;
use crate::kernel::{BufferId, Layout, STRIDE, Spec};
use crate::protocol::Priority;
use crate::session::{BufferMemories, Rings};
use crate::telemetry::trees::{TreeSnapshot, snapshot_trees};

/// How many steps the tasks of resumable handlers took, by how the steps ended. All other steps ended their tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StepCounts {
    /// The number of steps that were begun.
    pub begun: u64,
    /// The number of steps after which a task went on because it had called `yield_now`.
    pub yields: u64,
    /// The number of steps after which a task went on because it had called `requeue`.
    pub requeues: u64,
    /// The number of steps after which a task waited for the host because it had called `park`.
    pub parks: u64,
    /// The number of steps after which a task waited for its children or for an event.
    pub waits: u64,
    /// The number of tasks that were made on the device: those that handlers have spawned, and the nodes of graphs that
    /// were launched. The kernel does not count the two apart.
    pub spawned: u64,
}

impl StepCounts {
    /// Works out the counts from the kernel's counters, which are those of `step_counter`. While the kernel runs, the
    /// counters are not all read at the same moment.
    pub(crate) fn from_counters(counters: &[u64]) -> Self {
        let count = |counter: u32| counters[counter as usize];
        let (begun, ended) = (count(step_counter::BEGUN), count(step_counter::ENDED));
        let (requeues, parks) = (count(step_counter::REQUEUES), count(step_counter::PARKS));
        // Only kernels whose tasks make or await others have these counters.
        let tree = |counter: u32| counters.get(counter as usize).copied().unwrap_or(0);
        let (waits, spawned) = (tree(step_counter::WAITS), tree(step_counter::SPAWNED));
        let yields = begun.saturating_sub(ended + requeues + parks + waits);
        StepCounts { begun, yields, requeues, parks, waits, spawned }
    }
}

/// Prints the counts on one line.
impl fmt::Display for StepCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StepCounts { begun, yields, requeues, parks, waits, spawned } = self;
        write!(f, "{begun} begun, {yields} yields, {requeues} requeues, {parks} parks")?;
        for (count, what) in [(waits, "waits"), (spawned, "children")] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// How many cells of one tenant and level wait in a queue for a group that takes them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReadyCount {
    /// The name of the tenant.
    pub tenant: String,
    /// The priority of the tasks.
    pub priority: String,
    /// How many cells wait.
    pub count: u64,
}

/// The cells of a session at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CellSnapshot {
    /// How many cells there are.
    pub total: u64,
    /// How many cells have a task that was submitted and has not ended.
    pub used: u64,
    /// How many tasks run or are ready to run.
    pub runnable: u64,
    /// How many tasks wait for the host because they have called `park`.
    pub waiting: u64,
    /// How many tasks wait for their children.
    pub joining: u64,
    /// How many tasks wait for an event.
    pub awaiting_events: u64,
    /// How many spawned tasks and nodes of graphs have begun and not ended.
    pub spawned_now: u64,
    /// How many tasks are paused.
    pub paused: u64,
    /// How many of the tasks that are ready wait in queues, by tenant and priority. Queues that are empty are left out.
    pub ready: Vec<ReadyCount>,
    /// What there is to say of trees, graphs and events, or `None` if no task of the kernel can make or await others.
    pub trees: Option<TreeSnapshot>,
    /// How long ago the oldest task was submitted that has not ended.
    pub oldest: Option<Duration>,
    /// The steps of all tasks so far.
    pub steps: StepCounts,
}

/// Where a submitted task is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[non_exhaustive]
pub enum TaskState {
    /// The task was submitted. A resumable task has not been taken by the kernel yet; any other task may be running.
    Submitted,
    /// The resumable task runs, or is ready to.
    Runnable,
    /// The task waits: for the host because it has called `park`, for its children, or for an event.
    Waiting,
    /// The resumable task is paused.
    Paused,
    /// The task has ended.
    Ended,
}

impl TaskState {
    /// Returns the state of a task in a cell whose state word this is. `generation` is that of the task.
    pub(crate) fn from_cell(word: u64, generation: u32) -> Self {
        let this = generation_of(word) == generation;
        match word & cell_state::PHASE {
            cell_state::RUNNABLE if this => TaskState::Runnable,
            cell_state::PARKED if this && word & cell_state::PAUSE != 0 => TaskState::Paused,
            cell_state::PARKED if this => TaskState::Waiting,
            cell_state::ENDED if this => TaskState::Ended,
            _ => TaskState::Submitted,
        }
    }
}

/// Returns what there is to say of cells, or `None` if the session has none.
pub(crate) fn snapshot_cells(
    spec: &Spec,
    layout: &Layout,
    rings: &Rings,
    memories: &BufferMemories,
) -> Result<Option<CellSnapshot>, Error> {
    if rings.cells.is_none() {
        return Ok(None);
    }
    let download = |id: BufferId| -> Result<Vec<u64>, Error> {
        let memory = memories.need(id)?;
        let mut words = vec![0u64; memory.len()];
        memory.download(0, &mut words)?;
        Ok(words)
    };
    let states = download(BufferId::CellStates)?;
    let in_state = |state: TaskState| {
        let of = |word: &&u64| TaskState::from_cell(**word, generation_of(**word)) == state;
        states.iter().filter(of).count() as u64
    };
    let spawned = &states[layout.producer_cell_count() as usize..];
    let spawned_now =
        spawned.iter().filter(|word| **word & cell_state::PHASE != cell_state::ENDED).count() as u64;
    let because = |reason: u64| {
        let parked = states.iter().filter(|word| **word & cell_state::PHASE == cell_state::PARKED);
        parked.filter(|word| **word & reason != 0).count() as u64
    };
    let mut counters = vec![0; layout.step_counters() as usize];
    for row in download(BufferId::StepCounts)?.chunks(counters.len()) {
        counters.iter_mut().zip(row).for_each(|(sum, word)| *sum += word);
    }
    if let Some(kept) = rings.recovery.as_ref().and_then(|recovery| recovery.cells.as_ref()) {
        kept.keep_counters(&counters);
    }
    let unfinished = rings.unfinished_cells();
    let since = unfinished.iter().map(|(stripe, at)| {
        Duration::from_nanos(stripe.cell_since[stripe.waiter_place(*at)].load(Ordering::Relaxed))
    });
    let oldest = since.min().map(|since| rings.meter.uptime().saturating_sub(since));
    Ok(Some(CellSnapshot {
        total: layout.cell_count().into(),
        used: unfinished.len() as u64,
        runnable: in_state(TaskState::Runnable),
        waiting: because(cell_state::AWAITS_HOST),
        joining: because(cell_state::AWAITS_CHILDREN | cell_state::ENDED_BEFORE_CHILDREN),
        awaiting_events: because(cell_state::AWAITS_EVENT),
        spawned_now,
        paused: in_state(TaskState::Paused),
        ready: ready_counts(spec, layout, &download(BufferId::ReadyEnds)?),
        trees: snapshot_trees(spec, layout, memories, &states)?,
        oldest,
        steps: StepCounts::from_counters(&counters),
    }))
}

/// Returns how many cells wait in each queue that is not empty.
fn ready_counts(spec: &Spec, layout: &Layout, ends: &[u64]) -> Vec<ReadyCount> {
    let stride = STRIDE as usize;
    let count = |(queue, ends): (usize, &[u64])| {
        let count = ends[stride].saturating_sub(ends[0]);
        let (tenant, level) = (queue as u32 / layout.levels, queue % layout.levels as usize);
        let tenant = spec.tenants.iter().find(|known| known.id == tenant)?;
        let priority = if layout.levels == 1 { Priority::Normal } else { Priority::ALL[level] };
        let (tenant, priority) = (tenant.name.clone(), priority.to_string());
        (count > 0).then_some(ReadyCount { tenant, priority, count })
    };
    ends.chunks(2 * stride).enumerate().filter_map(count).collect()
}

/// Prints a summary of a few lines for people.
impl fmt::Display for CellSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CellSnapshot { total, used, runnable, waiting, paused, joining, awaiting_events, .. } = self;
        write!(
            f,
            "{:<11}{used} of {total} used, {runnable} runnable, {waiting} waiting, {paused} paused",
            "cells"
        )?;
        if joining + awaiting_events > 0 {
            write!(f, ", {joining} waiting for children, {awaiting_events} for events")?;
        }
        if self.steps.spawned > 0 {
            write!(f, ", {} children", self.spawned_now)?;
        }
        if let Some(oldest) = self.oldest {
            write!(f, ", the oldest for {:.3} s", oldest.as_secs_f64())?;
        }
        if !self.ready.is_empty() {
            let one = |ready: &ReadyCount| format!("{} {} {}", ready.tenant, ready.priority, ready.count);
            write!(f, "\n{:<11}{}", "ready", self.ready.iter().map(one).collect::<Vec<_>>().join(", "))?;
        }
        let trees = self.trees.as_ref().map(ToString::to_string).filter(|text| !text.is_empty());
        if let Some(trees) = trees {
            write!(f, "\n{trees}")?;
        }
        write!(f, "\n{:<11}{}", "steps", self.steps)
    }
}
