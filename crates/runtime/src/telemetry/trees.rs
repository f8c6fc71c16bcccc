//! What the host sees of tasks that make or await others: how large their trees are, how many graphs are under way, and
//! how often events were signalled.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::error::Error;
use crate::kernel::cells::cell_state;
use crate::kernel::tree::tree_word;
use crate::kernel::{BufferId, Layout, Spec};
use crate::protocol::{Opcode, slot};
use crate::session::BufferMemories;

/// How many trees a snapshot names.
const NAMED_TREES: usize = 4;

/// How many words of 64 bits the line of a task has.
const LINE: usize = slot::WORDS / 2;

/// A task that was submitted, and how many tasks of its tree have not ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TreeSize {
    /// The name of the tenant.
    pub tenant: String,
    /// The name of the opcode of the task that was submitted.
    pub op: String,
    /// How many spawned tasks and nodes of a graph have begun and not ended.
    pub tasks: u64,
}

/// An event that was signalled or that tasks wait for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EventCount {
    /// The name of the tenant.
    pub tenant: String,
    /// The number of the event among those of the tenant.
    pub event: u32,
    /// How often it was signalled since the session's start.
    pub count: u64,
    /// How many tasks wait for it.
    pub waiters: u64,
}

/// What a snapshot says of trees, graphs and events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TreeSnapshot {
    /// How many launches of graphs are under way.
    pub graphs: u64,
    /// The largest trees, at most four, with the largest first. Trees without such tasks are left out.
    pub largest: Vec<TreeSize>,
    /// The events that were signalled or that tasks wait for.
    pub events: Vec<EventCount>,
}

/// Returns what there is to say of trees, graphs and events, given the states of all cells. While the kernel runs, not
/// everything is read at the same moment.
pub(super) fn snapshot_trees(
    spec: &Spec,
    layout: &Layout,
    memories: &BufferMemories,
    states: &[u64],
) -> Result<Option<TreeSnapshot>, Error> {
    let Some(trees) = layout.trees else { return Ok(None) };
    let memory = memories.need(BufferId::TreeLinks)?;
    let mut links = vec![0u64; memory.len()];
    memory.download(0, &mut links)?;
    let link = |cell: usize, word: u32| links[cell * tree_word::WORDS as usize + word as usize] as u32;
    let first = layout.producer_cell_count() as usize;
    let live = |cell: &usize| states[*cell] & cell_state::PHASE != cell_state::ENDED;
    let mut sizes = BTreeMap::<u32, u64>::new();
    for cell in (first..states.len()).filter(live) {
        *sizes.entry(link(cell, tree_word::ROOT)).or_default() += 1;
    }
    let mut graphs = 0;
    if trees.graphs.is_some() {
        let memory = memories.need(BufferId::LiveGraphs)?;
        let mut live = vec![0u32; memory.len()];
        memory.download(0, &mut live)?;
        graphs = live.iter().map(|count| u64::from(*count)).sum();
    }
    let mut events = Vec::new();
    if trees.events > 0 {
        // The lists of waiters are the kernel's own business, so the cells that wait are counted instead.
        let waits = |cell: &usize| {
            let (phase, reason) = (states[*cell] & cell_state::PHASE, states[*cell] & cell_state::EVENT);
            phase == cell_state::PARKED && reason != 0
        };
        let awaited = (0..states.len()).filter(waits).map(|cell| link(cell, tree_word::WAIT));
        events = event_counts(spec, memories, trees.events, awaited)?;
    }
    Ok(Some(TreeSnapshot { graphs, largest: largest_trees(spec, memories, sizes)?, events }))
}

/// Names the largest trees, given how many tasks the tree of each root has.
fn largest_trees(
    spec: &Spec,
    memories: &BufferMemories,
    sizes: BTreeMap<u32, u64>,
) -> Result<Vec<TreeSize>, Error> {
    let mut sizes: Vec<(u32, u64)> = sizes.into_iter().collect();
    sizes.sort_by_key(|(root, tasks)| (std::cmp::Reverse(*tasks), *root));
    let name = |(root, tasks): (u32, u64)| {
        let mut line = [0u64; 2];
        memories.need(BufferId::CellLines)?.download(root as usize * LINE, &mut line)?;
        let op = Opcode::from_code((line[0] >> 32) as u32);
        let handler = spec.handlers.iter().find(|handler| handler.op == op);
        let op = handler.map_or_else(|| op.to_string(), |handler| handler.name.clone());
        Ok(TreeSize { tenant: tenant_name(spec, line[1] as u32), op, tasks })
    };
    sizes.into_iter().take(NAMED_TREES).map(name).collect()
}

/// Counts the signals and the waiting tasks of each event that has any, given the event of each task that waits.
fn event_counts(
    spec: &Spec,
    memories: &BufferMemories,
    per_tenant: u32,
    awaited: impl Iterator<Item = u32>,
) -> Result<Vec<EventCount>, Error> {
    let memory = memories.need(BufferId::EventCounts)?;
    let mut counts = vec![0u64; memory.len()];
    memory.download(0, &mut counts)?;
    let mut waiters = vec![0u64; counts.len()];
    for event in awaited {
        if let Some(waiters) = waiters.get_mut(event as usize) {
            *waiters += 1;
        }
    }
    let events = (0..).zip(counts.into_iter().zip(waiters));
    let some = events.filter(|(_, (count, waiters))| count + waiters > 0);
    let named = some.map(|(number, (count, waiters))| {
        let tenant = tenant_name(spec, number / per_tenant);
        EventCount { tenant, event: number % per_tenant, count, waiters }
    });
    Ok(named.collect())
}

fn tenant_name(spec: &Spec, id: u32) -> String {
    let tenant = spec.tenants.iter().find(|tenant| tenant.id == id);
    tenant.map_or_else(|| id.to_string(), |tenant| tenant.name.clone())
}

/// Prints one line about trees and graphs, and one about events if there are any.
impl fmt::Display for TreeSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreeSnapshot { graphs, largest, events } = self;
        write!(f, "{:<11}{graphs} graphs under way", "trees")?;
        if !largest.is_empty() {
            let one = |tree: &TreeSize| format!("{} {} {}", tree.tenant, tree.op, tree.tasks);
            write!(f, ", the largest trees: {}", largest.iter().map(one).collect::<Vec<_>>().join(", "))?;
        }
        if !events.is_empty() {
            let one = |event: &EventCount| {
                let EventCount { tenant, event, count, waiters } = event;
                format!("{tenant} {event} signalled {count} times, {waiters} waiting")
            };
            write!(f, "\n{:<11}{}", "events", events.iter().map(one).collect::<Vec<_>>().join("; "))?;
        }
        Ok(())
    }
}
