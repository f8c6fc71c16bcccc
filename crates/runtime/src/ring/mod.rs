//! A ring as the host sees it: publishing, completions, reuse.
//!
//! One source serves mapped memory, plain atomics and loom: a [`HostRing`] is generic over its [`RingWords`]. Positions are 64-bit counts
//! that never wrap; position p lies in slot p mod capacity, and its generation is the lap, p / capacity. So only this lap's or the
//! last lap's words can be met, and nothing is ever cleared.
//!
//! | step | who | what |
//! |---|---|---|
//! | publish | producer | words 1-7 of the line, then word 0 with release (mapped: words 0 and 1 may show in either order: the check finds that, and a reader that checks nothing does not use word 1); far: the tail with release, once a batch; through the bus: a store fence before the first line of a batch |
//! | take | device | near: word 0 with acquire and then the rest (one lane in the host's memory), or the whole line at once and its check; far: the tail with acquire, then the line |
//! | complete | device | effects, a fence, then the record |
//! | see | waiter | the record with acquire: the effects are seen |
//! | give up | ticket | `taken` at its first position, with release: all reads of the records are over |
//! | reuse | producer | `taken` with acquire, and every record of the last lap is there: the slot may be written |
//!
//! A slot is written anew only after its record was posted, so after the device has read it, and after its ticket gave it up, so after
//! the host has read the record, which the next lap overwrites. A record that nobody has read holds its slot: back-pressure, never
//! loss.
//!
//! Cancelling is a request: the line is written again with the opcode CANCEL, check first, so that the device either takes the old
//! line, or the new one, or sees a check that does not match and looks again. The record alone says which it was.

mod words;

pub use words::{RingWords, SlotLines, SlotMemory};

use std::sync::atomic::Ordering;

use pelton_device::memory::Line;

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
}

impl Default for TaskStage {
    fn default() -> Self {
        TaskStage { slots: [Slot::default(); CHUNK], lines: [[0; 8]; CHUNK] }
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
    pub fn slot(&self, position: u64) -> usize {
        self.first + (position & (self.capacity() - 1)) as usize
    }

    /// Publishes a task at a position.
    #[inline(always)]
    pub fn publish(&self, position: u64, task: &Task) {
        self.lines.flush();
        let line =
            slot::published_line(generation_at(position, self.log2), task.op, task.priority, &task.args);
        self.lines.put(self.slot(position), &line);
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
            if *tail == first {
                self.lines.flush();
            }
            self.write(self.slot(*tail), &stage.slots[..count], &mut stage.lines[..count]);
            *tail += count as u64;
        }
    }

    /// Writes consecutive slots, the first one last.
    #[inline]
    fn write(&self, at: usize, slots: &[Slot], lines: &mut [Line]) {
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
        let mut line = self.lines.line(self.slot(position));
        line[0] = line[0] & u64::from(u32::MAX) | u64::from(Opcode::CANCEL.code()) << 32;
        slot::seal_line(&mut line);
        self.lines.flush();
        self.lines.patch(self.slot(position), &line);
    }

    /// Returns the record of a task, or `None` if the task has not ended.
    #[inline]
    pub fn ended(&self, position: u64) -> Option<CompletionRecord> {
        // Pairs with the fence before the record: what the task wrote is seen.
        let record = CompletionRecord(self.done.load(self.slot(position), Ordering::Acquire));
        record.has_generation(generation_at(position, self.log2)).then_some(record)
    }

    /// Returns the first position in `from..to` whose task has not ended, or `to` if all have.
    #[inline]
    pub fn frontier(&self, from: u64, to: u64) -> u64 {
        let (mut at, mut block) = (from, [0; BLOCK]);
        while at < to {
            let most = (to - at).min(BLOCK as u64) as usize;
            let (count, well) = self.results(at, &mut block[..most]);
            let end = at + count as u64;
            let open = |at: &u64| self.ended(*at).is_none();
            at = if well { end } else { (at..end).find(open).unwrap_or(end) };
            if at < end {
                break;
            }
        }
        at
    }

    /// Reads the results of tasks from a position on, up to the end of the lap. Returns how many these are, and whether all of the tasks ended
    /// well. If not, what was written to `into` means nothing.
    #[inline]
    pub fn results(&self, from: u64, into: &mut [u32]) -> (usize, bool) {
        // Positions of one lap share a generation and follow each other in memory.
        let left = self.capacity() - (from & (self.capacity() - 1));
        let count = left.min(into.len() as u64) as usize;
        let done = status_word(Status::Done, generation_at(from, self.log2));
        // Pairs with the fence before the record: what the tasks wrote is seen.
        (count, self.done.halves(self.slot(from), done, &mut into[..count]))
    }

    /// Gives up the slots of `count` positions: nobody will look at their records again. `seen` says that all their tasks are known to have
    /// ended.
    #[inline]
    pub fn give_up(&self, position: u64, count: u32, seen: bool) {
        let word = u64::from(count) | if seen { SEEN } else { 0 };
        // Pairs with the acquire in `reclaim`: reads of the records come before their reuse.
        self.taken.store(self.slot(position), word, Ordering::Release);
    }

    /// Returns whether [`reclaim`](HostRing::reclaim) would find slots to reuse from `free` on. Any thread may ask. The producer may have reused
    /// the slots meanwhile, so the answer is a hint to call `reclaim` and no more.
    pub fn can_reclaim(&self, free: u64, tail: u64) -> bool {
        if free >= tail {
            return false;
        }
        // Pairs with the release in `give_up`.
        let word = self.taken.load(self.slot(free), Ordering::Acquire);
        let end = free + (word & (SEEN - 1));
        word != 0 && (word & SEEN != 0 || self.frontier(free, end) == end)
    }

    /// Returns the first position from `free` on that still holds its slot. Only the producer may call this. `seen` is up to where the producer
    /// knows that tasks have ended.
    #[inline]
    pub fn reclaim(&self, free: u64, tail: u64, seen: &mut u64) -> u64 {
        let mut free = free;
        while free < tail {
            let slot = self.slot(free);
            // Pairs with the release in `give_up`.
            let word = self.taken.load(slot, Ordering::Acquire);
            let end = free + (word & (SEEN - 1));
            if word == 0 {
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
