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
    /// The lowest count for which one of these tasks waits, or `None` if no task waits.
    pub awaited: Option<u32>,
}

/// What a snapshot says of trees, graphs and events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TreeSnapshot {
    /// How many launches of graphs are under way, or `None` if the session has no room for graphs.
    pub graphs: Option<u64>,
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
    let link = |cell: usize, word: u32| links[cell * tree_word::WORDS as usize + word as usize];
    let first = layout.producer_cell_count() as usize;
    let has_task = |cell: &usize| states[*cell] & cell_state::PHASE != cell_state::ENDED;
    let mut sizes = BTreeMap::<u32, u64>::new();
    for cell in (first..states.len()).filter(has_task) {
        *sizes.entry(link(cell, tree_word::ROOT) as u32).or_default() += 1;
    }
    let graphs = trees.graphs.map(|_| count_launches(memories)).transpose()?;
    let mut events = Vec::new();
    if trees.events > 0 {
        // The lists of waiters are the kernel's own business, so the cells that wait are counted instead.
        let waits = |cell: &usize| {
            let (phase, reason) =
                (states[*cell] & cell_state::PHASE, states[*cell] & cell_state::AWAITS_EVENT);
            phase == cell_state::PARKED && reason != 0
        };
        let awaited = (0..states.len()).filter(waits).map(|cell| link(cell, tree_word::WAIT));
        events = event_counts(spec, memories, trees.events, awaited)?;
    }
    Ok(Some(TreeSnapshot { graphs, largest: largest_trees(spec, memories, sizes)?, events }))
}

/// Counts the launches of all graphs that are under way.
fn count_launches(memories: &BufferMemories) -> Result<u64, Error> {
    let memory = memories.need(BufferId::GraphLaunches)?;
    let mut counts = vec![0u32; memory.len()];
    memory.download(0, &mut counts)?;
    Ok(counts.into_iter().map(u64::from).sum())
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

/// Counts the signals and the waiting tasks of each event that has any, given what each task waits for: the number of the
/// event among those of all tenants, and in the upper half the count.
fn event_counts(
    spec: &Spec,
    memories: &BufferMemories,
    per_tenant: u32,
    awaited: impl Iterator<Item = u64>,
) -> Result<Vec<EventCount>, Error> {
    let memory = memories.need(BufferId::EventCounts)?;
    let mut counts = vec![0u64; memory.len()];
    memory.download(0, &mut counts)?;
    let mut waits = vec![(0u64, None); counts.len()];
    for wait in awaited {
        if let Some((waiters, lowest)) = waits.get_mut(wait as u32 as usize) {
            let wanted = (wait >> 32) as u32;
            *waiters += 1;
            *lowest = Some(lowest.map_or(wanted, |lowest: u32| lowest.min(wanted)));
        }
    }
    let events = (0..).zip(counts.into_iter().zip(waits));
    let some = events.filter(|(_, (count, (waiters, _)))| count + waiters > 0);
    let named = some.map(|(number, (count, (waiters, awaited)))| {
        let tenant = tenant_name(spec, number / per_tenant);
        EventCount { tenant, event: number % per_tenant, count, waiters, awaited }
    });
    Ok(named.collect())
}

fn tenant_name(spec: &Spec, id: u32) -> String {
    let tenant = spec.tenants.iter().find(|tenant| tenant.id == id);
    tenant.map_or_else(|| id.to_string(), |tenant| tenant.name.clone())
}

/// Prints a line about graphs if the session has room for any, one about trees if there are any, and one about events if
/// any was signalled or is awaited. There is no end of line after the last one, and no line if there is nothing to say.
impl fmt::Display for TreeSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreeSnapshot { graphs, largest, events } = self;
        let mut lines = Vec::new();
        if let Some(graphs) = graphs {
            lines.push(format!("{:<11}{graphs} under way", "graphs"));
        }
        if !largest.is_empty() {
            let one = |tree: &TreeSize| format!("{} {} {}", tree.tenant, tree.op, tree.tasks);
            lines.push(format!("{:<11}{}", "trees", largest.iter().map(one).collect::<Vec<_>>().join(", ")));
        }
        if !events.is_empty() {
            let one = |event: &EventCount| {
                let EventCount { tenant, event, count, waiters, awaited } = event;
                let least = awaited.map_or(String::new(), |count| format!(" for {count} or more"));
                format!("{tenant} {event} signalled {count} times, {waiters} waiting{least}")
            };
            lines.push(format!("{:<11}{}", "events", events.iter().map(one).collect::<Vec<_>>().join("; ")));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session without graphs says nothing of them, and one without trees and events says nothing of those.
    #[test]
    fn a_snapshot_speaks_only_of_what_there_is() {
        let nothing = TreeSnapshot::default();
        assert_eq!(nothing.to_string(), "");
        let graphs = TreeSnapshot { graphs: Some(0), ..nothing };
        assert_eq!(graphs.to_string(), "graphs     0 under way");
        let tree = TreeSize { tenant: "alice".into(), op: "tree".into(), tasks: 9 };
        let event = EventCount { tenant: "bob".into(), event: 1, count: 2, waiters: 3, awaited: Some(4) };
        let both = TreeSnapshot { graphs: None, largest: vec![tree], events: vec![event] };
        assert_eq!(
            both.to_string(),
            "trees      alice tree 9\nevents     bob 1 signalled 2 times, 3 waiting for 4 or more"
        );
    }
}
