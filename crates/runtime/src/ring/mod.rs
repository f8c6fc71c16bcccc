//! A ring as the host sees it: publishing tasks, reading how they ended, and reusing slots.
//!
//! The same code serves mapped memory, plain atomics and loom, because a [`HostRing`] is generic over its
//! [`RingWords`]. Positions are 64-bit counts that never wrap. Position p lies in slot p mod capacity, and its
//! generation is the lap, p / capacity. So a reader meets only words of this lap or of the last one, and nothing ever
//! has to be cleared.
//!
//! | step | who | what |
//! |---|---|---|
//! | publish | producer | Stores words 1-7 of the line, then word 0 with release. In mapped memory, words 0 and 1 may become visible in either order; the check detects that, and a reader that does not check does not use word 1. In a far ring, the tail follows with release, once per batch. Through the bus, a store fence precedes the first line of a batch. |
//! | take | device | In a near ring, loads word 0 with acquire and then the rest (one lane in the host's memory), or loads the whole line at once and checks it. In a far ring, loads the tail with acquire and then the line. |
//! | complete | device | Stores the effects of the task, then a fence, then the record. |
//! | see | waiter | Loads the record with acquire, and then sees the effects. |
//! | give up | ticket | Stores `taken` at its first position with release, after all reads of the records. |
//! | reuse | producer | Loads `taken` with acquire. If every record of the last lap is there, the slot may be written again. |
//!
//! A slot is written again only after its record was posted, so after the device has read the slot, and after its
//! ticket gave it up, so after the host has read the record, which the next lap overwrites. A record that nobody has
//! read keeps its slot occupied. A full ring therefore holds producers back and never loses a result.
//!
//! Cancelling is a request. The line is written again with the opcode CANCEL, the check first, so the device takes
//! either the old line or the new one, or sees a check that does not match and looks again. Only the record says which
//! it was.

mod words;

pub use words::{RingWords, SlotLines, SlotMemory};

use std::sync::atomic::Ordering;

use pelton_device::memory::Line;

use crate::protocol::record::TaskEnd;
use crate::protocol::slot::{self, Slot, generation_at, status_word};
use crate::protocol::{CompletionRecord, Opcode, Status};
use crate::task::Task;

/// The host's side of one stripe of a ring.
#[derive(Debug)]
pub struct HostRing<L, W> {
    /// The slots of all stripes that share this memory.
    pub lines: L,
    /// The records of the same stripes.
    pub done: W,
    /// What tickets have given up. The word at the first slot of a span says how many slots, and whether all their tasks were seen to have
    /// ended.
    pub taken: W,
    /// For a far ring, the words that hold the tails and the index of this ring's tail among them.
    pub tail: Option<(W, usize)>,
    /// The number of the stripe's first slot.
    pub first: usize,
    /// The number of slots, as a power of two.
    pub log2: u32,
}

/// What a ticket knows about the tasks whose slots it gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndsSeen {
    /// The holder has seen the records of all tasks.
    All,
    /// Some of the tasks may not have ended yet.
    NotAll,
}

/// The bit of a word of `taken` that says that every record was seen.
const SEEN: u64 = 1 << 32;

/// How many tasks are written to a ring at once. Tasks are staged, and not written to the ring one by one, because a store of parts that is soon
/// read back as a whole stalls. The first line of a chunk is written last, so that a device that polls it finds all lines of the chunk and does not
/// take cache lines away while they are being written.
const CHUNK: usize = 64;

/// Scratch memory in which a producer prepares tasks before they are written to a ring.
#[derive(Debug)]
pub struct TaskStage {
    slots: [Slot; CHUNK],
    lines: [Line; CHUNK],
    /// Whether memory that tasks point to is written while they are staged, so that each chunk has to be flushed.
    flushes_chunks: bool,
}

impl Default for TaskStage {
    fn default() -> Self {
        TaskStage { slots: [Slot::default(); CHUNK], lines: [[0; 8]; CHUNK], flushes_chunks: false }
    }
}

impl TaskStage {
    /// Returns scratch memory for tasks whose iterator writes memory that the tasks point to, such as their payloads,
    /// each time it yields a task.
    pub fn for_payloads() -> Self {
        TaskStage { flushes_chunks: true, ..TaskStage::default() }
    }
}

/// How many records are read at once.
pub(crate) const BLOCK: usize = 64;

impl<L: SlotLines, W: RingWords> HostRing<L, W> {
    /// Returns the number of slots.
    pub fn capacity(&self) -> u64 {
        1 << self.log2
    }

    /// Returns the number of the slot that a position lies in.
    #[inline]
    pub fn slot_at(&self, position: u64) -> usize {
        self.first + (position & (self.capacity() - 1)) as usize
    }

    /// Publishes a task at a position.
    #[inline(always)]
    pub fn publish(&self, position: u64, task: &Task) {
        self.lines.flush();
        let line =
            slot::published_line(generation_at(position, self.log2), task.op, task.priority, &task.args);
        self.lines.put(self.slot_at(position), &line);
    }

    /// Publishes at most `count` tasks from position `tail` on. `tail` follows what is written, so that it is right even if the
    /// iterator panics: a near kernel takes lines as soon as they are there.
    #[inline(always)]
    pub fn publish_all(
        &self,
        tail: &mut u64,
        count: u64,
        tasks: impl Iterator<Item = Task>,
        stage: &mut TaskStage,
    ) {
        let (first, end, mut tasks) = (*tail, *tail + count, tasks);
        while *tail < end {
            // Positions of one lap share a generation and follow each other in memory.
            let lap = self.capacity() - (*tail & (self.capacity() - 1));
            let left = lap.min(end - *tail).min(CHUNK as u64) as usize;
            let generation = generation_at(*tail, self.log2);
            let mut count = 0;
            for (slot, task) in stage.slots[..left].iter_mut().zip(&mut tasks) {
                *slot = slot::unsealed_slot(generation, task.op, task.priority, &task.args);
                count += 1;
            }
            if count == 0 {
                return;
            }
            if *tail == first || stage.flushes_chunks {
                self.lines.flush();
            }
            self.write_slots(self.slot_at(*tail), &stage.slots[..count], &mut stage.lines[..count]);
            *tail += count as u64;
        }
    }

    /// Writes consecutive slots, the first one last.
    #[inline]
    fn write_slots(&self, at: usize, slots: &[Slot], lines: &mut [Line]) {
        if self.tail.is_some() {
            self.lines.fill(at + 1, &slots[1..], &mut lines[1..]);
            self.lines.fill(at, &slots[..1], &mut lines[..1]);
        } else {
            slot::seal_slots(slots, lines);
            self.lines.put_all(at + 1, &lines[1..]);
            self.lines.put_all(at, &lines[..1]);
        }
    }

    /// Shows what was published below `tail` to the kernel. This matters to far rings only: a kernel polls the lines of near rings themselves.
    #[inline]
    pub fn commit(&self, tail: u64) {
        if let Some((tails, at)) = &self.tail {
            // Pairs with the router's acquire.
            tails.store(*at, tail, Ordering::Release);
        }
    }

    /// Asks the kernel not to run a task. Only the holder of its ticket may call this: nobody else writes the slot until the ticket gives it up.
    pub fn cancel(&self, position: u64) {
        let mut line = self.lines.line(self.slot_at(position));
        line[0] = line[0] & u64::from(u32::MAX) | u64::from(Opcode::CANCEL.code()) << 32;
        slot::seal_line(&mut line);
        self.lines.flush();
        self.lines.patch(self.slot_at(position), &line);
    }

    /// Returns the record of a task, or `None` if the task has not ended.
    #[inline]
    pub fn record_at(&self, position: u64) -> Option<CompletionRecord> {
        // Pairs with the fence before the record: what the task wrote is seen.
        let record = CompletionRecord(self.done.load(self.slot_at(position), Ordering::Acquire));
        record.has_generation(generation_at(position, self.log2)).then_some(record)
    }

    /// Posts the record of a task on behalf of a device that was lost. Only the thread that recovers may call this, while no kernel runs.
    pub(crate) fn post_end(&self, position: u64, end: TaskEnd) {
        let record = CompletionRecord::new(end, generation_at(position, self.log2));
        // Pairs with the acquire of whoever looks at the record.
        self.done.store(self.slot_at(position), record.0, Ordering::Release);
    }

    /// Returns the first position in `from..to` whose task has not ended, or `to` if all have.
    #[inline]
    pub fn frontier(&self, from: u64, to: u64) -> u64 {
        let (mut at, mut block) = (from, [0; BLOCK]);
        while at < to {
            let most = (to - at).min(BLOCK as u64) as usize;
            let (count, well) = self.read_results(at, &mut block[..most]);
            let end = at + count as u64;
            let open = |at: &u64| self.record_at(*at).is_none();
            at = if well { end } else { (at..end).find(open).unwrap_or(end) };
            if at < end {
                break;
            }
        }
        at
    }

    /// Counts the positions in `from..to` whose tasks have not ended and which are `wanted`. Tasks that have ended are passed over in blocks.
    pub fn count_unfinished(&self, from: u64, to: u64, wanted: impl Fn(u64) -> bool) -> u64 {
        let (mut at, mut count) = (self.frontier(from, to), 0);
        while at < to {
            // Tasks that have not ended mostly follow each other.
            while at < to && self.record_at(at).is_none() {
                count += u64::from(wanted(at));
                at += 1;
            }
            at = self.frontier(at, to);
        }
        count
    }

    /// Reads the results of tasks from a position on, up to the end of the lap. Returns how many these are, and whether all of the tasks ended
    /// well. If not, what was written to `into` means nothing.
    #[inline]
    pub fn read_results(&self, from: u64, into: &mut [u32]) -> (usize, bool) {
        // Positions of one lap share a generation and follow each other in memory.
        let left = self.capacity() - (from & (self.capacity() - 1));
        let count = left.min(into.len() as u64) as usize;
        let done = status_word(Status::Done, generation_at(from, self.log2));
        // Pairs with the fence before the record: what the tasks wrote is seen.
        (count, self.done.halves(self.slot_at(from), done, &mut into[..count]))
    }

    /// Gives up the slots of `count` positions, because nobody will look at their records again.
    #[inline]
    pub fn give_up(&self, position: u64, count: u32, seen: EndsSeen) {
        let word = u64::from(count) | if seen == EndsSeen::All { SEEN } else { 0 };
        // Pairs with the acquire in `reclaim`: reads of the records come before their reuse.
        self.taken.store(self.slot_at(position), word, Ordering::Release);
    }

    /// Returns whether [`reclaim`](HostRing::reclaim) would find slots to reuse from `free` on. Any thread may ask. The producer may have reused
    /// the slots meanwhile, so the answer is a hint to call `reclaim` and no more.
    pub fn can_reclaim(&self, free: u64, tail: u64) -> bool {
        self.given_up_until(free, tail).is_some()
    }

    /// Returns the end of the positions that were given up together from `free` on, if their tasks have ended, so that
    /// [`reclaim`](HostRing::reclaim) would find them. Any thread may ask, and the answer is a hint as well.
    pub(crate) fn given_up_until(&self, free: u64, tail: u64) -> Option<u64> {
        if free >= tail {
            return None;
        }
        // Pairs with the release in `give_up`.
        let word = self.taken.load(self.slot_at(free), Ordering::Acquire);
        let end = free + (word & (SEEN - 1));
        (word != 0 && (word & SEEN != 0 || self.frontier(free, end) == end)).then_some(end)
    }

    /// Takes back the positions that were given up together from `position` on, if their tasks have ended, and returns how many these are. For
    /// stripes that are not used in order; only the producer may call this.
    pub fn reclaim_at(&self, position: u64) -> Option<u32> {
        if !self.can_reclaim(position, position + 1) {
            return None;
        }
        let slot = self.slot_at(position);
        // Only the producer looks at a word that it has cleared, until the next ticket writes it.
        let word = self.taken.load(slot, Ordering::Relaxed);
        self.taken.store(slot, 0, Ordering::Relaxed);
        Some((word & (SEEN - 1)) as u32)
    }

    /// Returns the first position from `free` on that still holds its slot, at most `limit`, up to which tasks were published and slots may be
    /// used again. Only the producer may call this. `seen` is up to where the producer knows that tasks have ended.
    #[inline]
    pub fn reclaim(&self, free: u64, limit: u64, seen: &mut u64) -> u64 {
        let mut free = free;
        while free < limit {
            let slot = self.slot_at(free);
            // Pairs with the release in `give_up`.
            let word = self.taken.load(slot, Ordering::Acquire);
            let end = free + (word & (SEEN - 1));
            if word == 0 || end > limit {
                break;
            }
            if word & SEEN == 0 {
                *seen = self.frontier((*seen).max(free), end);
                if *seen < end {
                    break;
                }
            }
            // Only the producer looks at a word that it has cleared, until the next lap's ticket writes it.
            self.taken.store(slot, 0, Ordering::Relaxed);
            free = end;
        }
        free
    }
}
