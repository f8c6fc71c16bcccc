//! The words of cells, queues and events as a kernel finds them that begins after a loss.
//!
//! The host writes them as the kernel itself would have: see [`cells`](crate::kernel::cells) for the states and lines,
//! `kernel/ready.rs` for the queues, and `kernel/event.rs` for the lists of cells that wait.

use std::sync::atomic::Ordering;

use pelton_device::memory::Line;

use super::cell_loss::{SavedAsk, SavedAsks};
use super::memory::BufferMemories;
use super::rings::Rings;
use crate::error::Error;
use crate::kernel::cells::{cell_fact, cell_state};
use crate::kernel::layout::BufferKey;
use crate::kernel::spec::SlotBody;
use crate::kernel::tree::tree_word;
use crate::kernel::{BufferId, Layout, STRIDE, Spec};
use crate::protocol::slot;

/// How many words of 64 bits a line has.
pub(super) const LINE: usize = slot::WORDS / 2;

/// When the task of a cell begins with its first step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskStart {
    /// It begins at once.
    Now,
    /// It begins when an event has come, which this word names as the kernel reads it.
    After(u64),
    /// It does not begin in this run.
    Never,
}

/// The words of cells and queues as a kernel finds them.
pub(super) struct CellImage<'l> {
    layout: &'l Layout,
    /// How often each event was signalled.
    counts: &'l [u64],
    /// What the state of a cell with a task has beside its phase.
    owed: u64,
    pub states: Vec<u64>,
    lines: Vec<u64>,
    facts: Vec<u64>,
    links: Vec<u64>,
    pub resumes: Vec<u64>,
    /// The cells that wait in each queue.
    queues: Vec<Vec<u64>>,
    /// The first word of the list of the cells that wait for each event.
    waiters: Vec<u64>,
    /// The cells whose tasks begin again.
    pub adopted: Vec<usize>,
}

impl<'l> CellImage<'l> {
    pub(super) fn new(spec: &Spec, layout: &'l Layout, counts: &'l [u64]) -> Self {
        let cells = layout.producer_cell_count() as usize;
        let links = layout.trees.map_or(0, |_| cells * tree_word::WORDS as usize);
        CellImage {
            layout,
            counts,
            // A task that was adopted owes its record, where fences wait for that.
            owed: if spec.body == SlotBody::Fused { 0 } else { 1 << cell_state::OWED_SHIFT },
            states: vec![0; cells],
            lines: vec![0; cells * LINE],
            facts: vec![0; cells * cell_fact::WORDS as usize],
            links: vec![0; links],
            resumes: vec![0; cells],
            queues: vec![Vec::new(); layout.queue_count() as usize],
            waiters: vec![0; counts.len()],
            adopted: Vec::new(),
        }
    }

    /// Adds a task that begins with its first step, or when its event has come if it waits for one that has not.
    pub(super) fn add_task(
        &mut self,
        cell: usize,
        (line, facts): (&Line, &[(u32, u64)]),
        asked: SavedAsk,
        start: TaskStart,
    ) {
        let (tenant, level) = (line[1] as u32, (line[1] >> 32) as u32);
        self.adopted.push(cell);
        self.lines[cell * LINE..][..LINE].copy_from_slice(line);
        for (word, value) in facts {
            self.facts[cell * cell_fact::WORDS as usize + *word as usize] = *value;
        }
        if !self.links.is_empty() {
            self.set_link(cell, tree_word::ROOT, cell as u64);
            self.set_link(cell, tree_word::LEVEL, level.into());
        }
        let cancelled = asked.asked & cell_state::CANCEL != 0;
        let awaited = match start {
            TaskStart::After(condition) if !cancelled => self.awaited_event(tenant, condition),
            _ => None,
        };
        let phase = match awaited {
            _ if start == TaskStart::Never => cell_state::PARKED | cell_state::AWAITS_HOST,
            Some((event, count)) => {
                self.set_link(cell, tree_word::WAIT, u64::from(event) | u64::from(count) << 32);
                let next = self.waiters[event as usize];
                self.set_link(cell, tree_word::NEXT, next);
                self.waiters[event as usize] = u64::from(count) << 32 | (cell as u64 + 1);
                cell_state::PARKED | cell_state::AWAITS_EVENT
            }
            None => {
                self.queues[(tenant * self.layout.levels + level) as usize].push(cell as u64);
                cell_state::RUNNABLE
            }
        };
        let generation = u64::from(asked.generation) << cell_state::GENERATION_SHIFT;
        self.states[cell] = generation | self.owed | asked.asked | phase;
    }

    fn set_link(&mut self, cell: usize, word: u32, value: u64) {
        self.links[cell * tree_word::WORDS as usize + word as usize] = value;
    }

    /// The number of the event of a condition among those of all tenants, and the count, if the event has not come.
    fn awaited_event(&self, tenant: u32, condition: u64) -> Option<(u32, u32)> {
        let (event, count) = (condition as u32, (condition >> 32) as u32);
        let events = self.layout.trees.map_or(0, |trees| trees.events);
        let number = tenant * events + event;
        // An event that does not exist is not waited for, as in the kernel.
        (event < events && self.counts[number as usize] < u64::from(count)).then_some((number, count))
    }

    pub(super) fn upload(&self, memories: &BufferMemories, applied: u64) -> Result<(), Error> {
        let mut ends = vec![0u64; self.queues.len() * 2 * STRIDE as usize];
        let slots = self.layout.queue_slots() as usize;
        for (queue, cells) in self.queues.iter().enumerate() {
            ends[queue * 2 * STRIDE as usize + STRIDE as usize] = cells.len() as u64;
            // All entries are of the first lap.
            let entries: Vec<u64> = cells.iter().map(|cell| 1 << 32 | cell).collect();
            if !entries.is_empty() {
                memories.need(BufferId::Ready)?.upload(queue * slots, &entries)?;
            }
        }
        let words = [
            (BufferId::ReadyEnds, &ends),
            (BufferId::CellStates, &self.states),
            (BufferId::CellLines, &self.lines),
            (BufferId::CellFacts, &self.facts),
            (BufferId::TreeLinks, &self.links),
            (BufferId::CellResumes, &self.resumes),
            (BufferId::Waiters, &self.waiters),
        ];
        for (id, words) in words.into_iter().filter(|(_, words)| !words.is_empty()) {
            memories.need(id)?.upload(0, words)?;
        }
        Ok(memories.need(BufferId::Applied)?.upload(0, &[applied])?)
    }
}

/// Writes how often each event was signalled, and returns these counts.
pub(super) fn restore_events(
    rings: &Rings,
    layout: &Layout,
    kept: &SavedAsks,
    memories: &BufferMemories,
) -> Result<Vec<u64>, Error> {
    if layout.trees.is_none_or(|trees| trees.events == 0) {
        return Ok(Vec::new());
    }
    // Relaxed: the end of the run was seen, and with it everything that the run wrote.
    let notes = rings.memory.words(BufferId::EventNotes)?;
    let notes: Vec<u64> = notes.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    let counts: Vec<u64> = notes.iter().zip(&kept.signals).map(|(tasks, host)| tasks + host).collect();
    memories.need(BufferId::TaskSignals)?.upload(0, &notes)?;
    memories.need(BufferId::EventCounts)?.upload(0, &counts)?;
    Ok(counts)
}

/// Copies the payloads of tasks that begin again to where handlers read them, if that is in the device's memory.
pub(super) fn copy_payloads(
    rings: &Rings,
    layout: &Layout,
    cells: &[usize],
    memories: &BufferMemories,
) -> Result<(), Error> {
    let copy = memories.get(BufferKey::Kernel(BufferId::PayloadCopy));
    let (Some(copy), Some(places)) = (copy, &rings.places) else { return Ok(()) };
    for cell in cells {
        let (first, words) = places.payload_words(layout.slot_count() as usize + cell);
        if !words.is_empty() {
            copy.upload(first, &words)?;
        }
    }
    Ok(())
}
