//! How tasks in cells survive the loss of a device.
//!
//! The state of a cell, its line and its frame lie in the memory of the device, and are lost with it. But the host knows
//! everything that it takes to begin a task again. So for sessions that [recover](super::recovery), it keeps the line of
//! each cell's task and the slot from which the task came ([`CellLossMemory`]), and remembers what it has asked
//! ([`SavedAsks`]). After a loss it looks at each use of a cell whose task has no record:
//!
//! | the task | what happens to it |
//! |---|---|
//! | must not begin twice and has begun, or has made a task of that kind which has begun | It ends as lost, and its cell is free again. |
//! | is in a slot that has no record | The cell is free, and the next kernel adopts the task as if for the first time. |
//! | was adopted | The host itself writes the cell as adoption would, and puts it into a queue. Its task begins with the first step and an empty frame. If it waits for an event before that, it is in the list of the event instead. |
//!
//! **Slots and cells end separately.** A group posts the record of a slot after it has adopted the task, so the task may have
//! ended before its slot. Then the slot must not be taken again, although it has no record: the host posts one. The cell may
//! even have its next task by then, so each slot knows which use of its cell it belongs to.
//!
//! **Trees.** Spawned tasks and nodes of graphs are unknown to the host. They vanish, and the root makes them again.
//!
//! **Asks.** A task that was cancelled or paused still is when it begins again. What the host has asked and the last kernel has
//! not applied is part of what is remembered, so the next kernel is told that everything was applied. A task may call `park`
//! again where it was resumed before, so it is told how often it was resumed.
//!
//! **Events.** The count of an event is what the host has signalled, which it has counted, and what tasks have signalled, which
//! [they note](crate::kernel).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pelton_device::View64;
use pelton_device::memory::Line;

use super::cell_image::{CellImage, LINE, TaskStart, copy_payloads, restore_events};
use super::cells::{AskEntry, CellAsk, unfinished_uses};
use super::memory::{BufferMemories, RingMemory};
use super::quarantine::Suspect;
use super::rings::{Rings, Stripe};
use crate::error::{Error, LossReason};
use crate::kernel::cells::{AFTER_FLAG, cell_fact, cell_state};
use crate::kernel::recovery::begun_word;
use crate::kernel::{BufferId, Layout, Spec};
use crate::protocol::record::TaskEnd;
use crate::protocol::slot::{GENERATION_MASK, generation_at};
use crate::protocol::{CompletionRecord, Opcode};

/// What the host keeps of the tasks in cells.
#[derive(Debug)]
pub(crate) struct CellLossMemory {
    /// For each cell, which of its tasks was the last to say that it begins.
    begun: View64,
    /// The last task of each cell.
    tasks: Box<[SavedTask]>,
    /// The use of a cell to which the last task of each slot has moved.
    moved: Box<[MovedTask]>,
    /// The counters of steps of the last snapshot, summed over groups.
    counters: Mutex<Vec<u64>>,
}

/// A task as it was submitted. The producer writes it before it says that the cell is in use.
#[derive(Debug, Default)]
struct SavedTask {
    /// The number of the slot among all slots of the session.
    place: AtomicU64,
    /// The position of the slot.
    position: AtomicU64,
    line: [AtomicU64; LINE],
}

/// Where the task of a slot has gone.
#[derive(Debug, Default)]
struct MovedTask {
    /// The position of the slot plus one, or 0 if no task has moved.
    position: AtomicU64,
    /// The stripe of cells, and the position of the use there.
    stripe: AtomicU32,
    used: AtomicU64,
}

/// What the host has asked so far, for the case that the device is lost.
#[derive(Debug)]
pub(super) struct SavedAsks {
    /// What was asked of the task in each cell.
    cells: Vec<SavedAsk>,
    /// How often the host has signalled each event.
    pub signals: Vec<u64>,
}

/// What the host has asked of one task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SavedAsk {
    pub generation: u32,
    /// The bits of [`cell_state`] that say what is asked now.
    pub asked: u64,
    /// How often the task was resumed, apart from the ends of pauses.
    resumes: u32,
}

impl SavedAsks {
    pub(super) fn new(layout: &Layout) -> Self {
        let events = layout.trees.map_or(0, |trees| trees.events * layout.tenant_count());
        SavedAsks {
            cells: vec![SavedAsk::default(); layout.producer_cell_count() as usize],
            signals: vec![0; events as usize],
        }
    }

    /// Remembers what is asked, as the kernel will apply it.
    pub(super) fn note(&mut self, entry: AskEntry, rings: &Rings) {
        match entry {
            AskEntry::Signal { event, times } => self.signals[event as usize] += u64::from(times),
            AskEntry::Cell { cell, generation, what } => {
                // What is asked of another use than the present one changes nothing.
                if rings.generation_in_use(cell) == Some(generation) {
                    self.note_cell(cell, generation, what);
                }
            }
        }
    }

    fn note_cell(&mut self, cell: u32, generation: u32, what: CellAsk) {
        let kept = &mut self.cells[cell as usize];
        if kept.generation != generation {
            *kept = SavedAsk { generation, ..SavedAsk::default() };
        }
        match what {
            CellAsk::Cancel => kept.asked |= cell_state::CANCEL,
            CellAsk::Pause => kept.asked |= cell_state::PAUSE,
            CellAsk::Resume if kept.asked & cell_state::PAUSE != 0 => kept.asked &= !cell_state::PAUSE,
            CellAsk::Resume => kept.resumes = kept.resumes.saturating_add(1),
        }
    }

    /// What was asked of the task of this generation in a cell.
    fn of_task(&self, cell: usize, generation: u32) -> SavedAsk {
        let kept = self.cells[cell];
        if kept.generation == generation { kept } else { SavedAsk { generation, ..SavedAsk::default() } }
    }
}

impl CellLossMemory {
    /// Makes the memory for the cells of a layout, if it has any.
    pub(super) fn new(layout: &Layout, memory: &RingMemory) -> Result<Option<Self>, Error> {
        if layout.cell_count() == 0 {
            return Ok(None);
        }
        Ok(Some(CellLossMemory {
            begun: memory.words(BufferId::CellBegun)?,
            tasks: (0..layout.producer_cell_count()).map(|_| SavedTask::default()).collect(),
            moved: (0..layout.slot_count()).map(|_| MovedTask::default()).collect(),
            counters: Mutex::default(),
        }))
    }

    /// Keeps the task that a producer is about to move to a cell. The cell is not in use yet.
    pub(super) fn keep_task(&self, cell: usize, (place, position): (usize, u64), line: &Line) {
        let kept = &self.tasks[cell];
        // Relaxed: the producer says with a release that the cell is in use.
        kept.place.store(place as u64, Ordering::Relaxed);
        kept.position.store(position, Ordering::Relaxed);
        for (word, value) in kept.line.iter().zip(line) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Notes to which use of a cell the task at a position of a slot moves. The cell is in use.
    pub(super) fn note_move(&self, (place, position): (usize, u64), (stripe, used): (u32, u64)) {
        let moved = &self.moved[place];
        moved.stripe.store(stripe, Ordering::Relaxed);
        moved.used.store(used, Ordering::Relaxed);
        // Pairs with the acquire of the thread that recovers.
        moved.position.store(position + 1, Ordering::Release);
    }

    /// Keeps the counters of a snapshot.
    pub(crate) fn keep_counters(&self, sums: &[u64]) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = sums.to_vec();
    }

    /// Whether the task of a use has said that it begins, or one of its tree has.
    pub(super) fn has_begun(&self, stripe: &Stripe, used: u64) -> bool {
        let cell = stripe.ring.slot_at(used);
        let position = self.tasks[cell].position.load(Ordering::Relaxed);
        let word = begun_word(generation_at(used, stripe.ring.log2), position);
        // Relaxed: the end of the run was seen, and with it everything that the run wrote.
        self.begun[cell].load(Ordering::Relaxed) == word
    }

    /// The opcode of the task of a cell that is in use.
    pub(super) fn opcode(&self, stripe: &Stripe, used: u64) -> Opcode {
        let head = self.tasks[stripe.ring.slot_at(used)].line[0].load(Ordering::Relaxed);
        Opcode::from_code((head >> 32) as u32)
    }

    /// Ends the tasks in cells that must not begin again, and then the slots of tasks that have ended. Returns how many tasks
    /// were lost. No run is alive.
    pub(super) fn settle(&self, rings: &Rings, reason: LossReason) -> u64 {
        let mut lost = 0;
        for (stripe, used) in rings.unfinished_cells() {
            if self.has_begun(stripe, used) {
                stripe.ring.post_end(used, TaskEnd::Lost(reason));
                lost += 1;
            }
        }
        for stripe in rings.slot_stripes() {
            let free = stripe.free.load(Ordering::Acquire);
            for position in free..free + stripe.ring.capacity() {
                let moved = &self.moved[stripe.place_at(position)];
                // Pairs with the release of the producer, which had begun the use of the cell before.
                let in_cell = moved.position.load(Ordering::Acquire) == position + 1;
                if in_cell && stripe.ring.record_at(position).is_none() {
                    let used = moved.used.load(Ordering::Relaxed);
                    let cells = moved.stripe.load(Ordering::Relaxed) as usize;
                    if !rings.stripes[cells].is_use_unfinished(used) {
                        stripe.ring.post_end(position, TaskEnd::Done(0));
                    }
                }
            }
        }
        lost
    }

    /// Returns the uses of a stripe's cells whose tasks were adopted and have not ended.
    pub(super) fn adopted_in(&self, rings: &Rings, stripe: &Stripe) -> Vec<u64> {
        let mut uses: Vec<u64> = unfinished_uses(stripe).collect();
        uses.retain(|used| self.is_adopted(rings, stripe, *used));
        uses
    }

    /// Whether the task of a use that has not ended has left its slot.
    fn is_adopted(&self, rings: &Rings, stripe: &Stripe, used: u64) -> bool {
        let kept = &self.tasks[stripe.ring.slot_at(used)];
        let (number, position) = self.slot_of(rings, kept);
        rings.stripes[number].slot_has_ended(position)
    }

    /// The stripe and the position of the slot that a task came from.
    fn slot_of(&self, rings: &Rings, kept: &SavedTask) -> (usize, u64) {
        let place = kept.place.load(Ordering::Relaxed) as usize;
        let after = rings.slot_stripes().partition_point(|stripe| stripe.first_place <= place);
        (after - 1, kept.position.load(Ordering::Relaxed))
    }

    /// Writes the cells, queues and events of a kernel that begins after a loss, whose buffers have their first content. If some
    /// tasks are to run alone, no other task that was adopted is ready.
    pub(super) fn restore(
        &self,
        rings: &Rings,
        (spec, layout): (&Spec, &Layout),
        alone: Option<&[Suspect]>,
        memories: &BufferMemories,
    ) -> Result<(), Error> {
        let Some(cells) = &rings.cells else { return Ok(()) };
        let asks = cells.lock_asks();
        let applied = asks.count;
        // No kernel runs, so the host may write what kernels write.
        asks.answers[0].store(applied, Ordering::Release);
        let Some(kept) = asks.saved.as_ref() else { return Err(Error::Internal("asks")) };
        let counts = restore_events(rings, layout, kept, memories)?;
        let mut image = CellImage::new(spec, layout, &counts);
        for (number, stripe) in (rings.layout.stripe_count()..).zip(rings.cell_stripes()) {
            for (at, used) in stripe.cell_uses.iter().enumerate() {
                // Pairs with the release of the producer that began the use.
                let used = used.load(Ordering::Acquire);
                let cell = stripe.ring.first + at;
                let record = CompletionRecord(stripe.ring.done[cell].load(Ordering::Acquire));
                let unfinished = used != 0 && stripe.ring.record_at(used).is_none();
                let generation = match unfinished {
                    true => generation_at(used, stripe.ring.log2),
                    false => record.generation().wrapping_add(1) & GENERATION_MASK,
                };
                let asked = kept.of_task(cell, generation);
                image.resumes[cell] = u64::from(generation) << 32 | u64::from(asked.resumes);
                match unfinished && self.is_adopted(rings, stripe, used) {
                    true => {
                        let shown = alone.is_none_or(|alone| alone.contains(&(number, used)));
                        let start = if shown { TaskStart::Now } else { TaskStart::Never };
                        self.begin_again(rings, (stripe, used), (asked, start), &mut image);
                    }
                    false => image.states[cell] = waiting_state(asked),
                }
            }
        }
        image.upload(memories, applied)?;
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        memories.need(BufferId::StepCounts)?.upload(0, &counters)?;
        copy_payloads(rings, layout, &image.adopted, memories)
    }

    /// Writes a cell as adoption would.
    fn begin_again(
        &self,
        rings: &Rings,
        (stripe, used): (&Stripe, u64),
        (asked, start): (SavedAsk, TaskStart),
        image: &mut CellImage<'_>,
    ) {
        let cell = stripe.ring.slot_at(used);
        let kept = &self.tasks[cell];
        let (number, position) = self.slot_of(rings, kept);
        let ring = &rings.layout.rings[rings.layout.stripe_ring(number) as usize];
        let mut line: Line = std::array::from_fn(|k| kept.line[k].load(Ordering::Relaxed));
        let waits = (line[1] >> 32) as u32 & AFTER_FLAG != 0;
        line[1] = u64::from(ring.tenant) | u64::from(ring.level) << 32;
        let facts = [
            (cell_fact::POSITION, position),
            (cell_fact::STRIPE, number as u64 | u64::from(asked.generation) << 32),
            (
                cell_fact::SIZES,
                rings.places.as_ref().map_or(0, |places| places.begin_again(stripe.place_at(used))),
            ),
        ];
        let condition = waits.then(|| rings.cells.as_ref()?.condition(cell)).flatten();
        let start = match (start, condition) {
            (TaskStart::Now, Some(condition)) => TaskStart::After(condition),
            (start, _) => start,
        };
        image.add_task(cell, (&line, &facts), asked, start);
    }
}

/// The state of a cell without a task, of which the task of the next generation was asked something already.
fn waiting_state(asked: SavedAsk) -> u64 {
    let before = asked.generation.wrapping_sub(1) & GENERATION_MASK;
    u64::from(before) << cell_state::GENERATION_SHIFT | asked.asked << cell_state::NEXT_SHIFT
}
