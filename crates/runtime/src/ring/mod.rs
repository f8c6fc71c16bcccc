//! A ring as the host sees it: publishing, completions, reuse.
//!
//! One source serves mapped memory, plain atomics and loom: a ring is generic over its [`Words`]. Positions are 64-bit counts
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

pub use words::{Home, Lines, Words};

use std::sync::atomic::Ordering;

use pelton_device::memory::Line;

use crate::protocol::slot::{self, Slot, generation, word0};
use crate::protocol::{CompletionRecord, Opcode, Status};
use crate::task::Task;

/// The host's side of a stripe.
#[derive(Debug)]
pub struct Ring<L, W> {
    /// The slots of all stripes.
    pub lines: L,
    /// The records of all stripes.
    pub done: W,
    /// What tickets have given up: at a span's first slot, how many, and whether all were seen to have ended.
    pub taken: W,
    /// Where the tail is, if this is a far ring.
    pub tail: Option<(W, usize)>,
    /// The number of its first slot.
    pub first: usize,
    /// Slots, as a power of two.
    pub log2: u32,
}

/// Says in `taken` that every record was seen.
const SEEN: u64 = 1 << 32;

/// Tasks that go into a ring at once. What is stored in pieces is not read back as a whole before it has come to rest. And of
/// these lines the first is written last: whoever polls it then finds all of them, and does not pull lines away that are being
/// written.
const CHUNK: usize = 64;

/// Where tasks are made ready.
#[derive(Debug)]
pub struct Stage {
    slots: [Slot; CHUNK],
    lines: [Line; CHUNK],
}

impl Default for Stage {
    fn default() -> Self {
        Stage { slots: [Slot::default(); CHUNK], lines: [[0; 8]; CHUNK] }
    }
}

/// Records that are looked at in one go.
pub(crate) const BLOCK: usize = 64;

impl<L: Lines, W: Words> Ring<L, W> {
    /// Slots of the ring.
    pub fn capacity(&self) -> u64 {
        1 << self.log2
    }

    /// The number of a position's slot.
    #[inline]
    pub fn slot(&self, position: u64) -> usize {
        self.first + (position & (self.capacity() - 1)) as usize
    }

    /// Publishes a task.
    #[inline(always)]
    pub fn publish(&self, position: u64, task: &Task) {
        self.lines.flush();
        let line = slot::live(generation(position, self.log2), task.op, task.priority, &task.args);
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
        stage: &mut Stage,
    ) {
        let (first, end, mut tasks) = (*tail, *tail + count, tasks);
        while *tail < end {
            // Positions of one lap share a generation and follow each other in memory.
            let lap = self.capacity() - (*tail & (self.capacity() - 1));
            let left = lap.min(end - *tail).min(CHUNK as u64) as usize;
            let generation = generation(*tail, self.log2);
            let mut count = 0;
            for (slot, task) in stage.slots[..left].iter_mut().zip(&mut tasks) {
                *slot = slot::unsealed(generation, task.op, task.priority, &task.args);
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

    /// Writes slots that follow each other, the first last.
    #[inline]
    fn write(&self, at: usize, slots: &[Slot], lines: &mut [Line]) {
        if self.tail.is_some() {
            self.lines.fill(at + 1, &slots[1..], &mut lines[1..]);
            self.lines.fill(at, &slots[..1], &mut lines[..1]);
        } else {
            slot::seal_all(slots, lines);
            self.lines.put_all(at + 1, &lines[1..]);
            self.lines.put_all(at, &lines[..1]);
        }
    }

    /// Shows what was published below `tail` to a far kernel; near ones look at the lines themselves.
    #[inline]
    pub fn commit(&self, tail: u64) {
        if let Some((tails, at)) = &self.tail {
            // Pairs with the router's acquire.
            tails.store(*at, tail, Ordering::Release);
        }
    }

    /// Asks that a task be not run. Who holds its ticket may: its slot is written by nobody else until it is given up.
    pub fn cancel(&self, position: u64) {
        let mut line = self.lines.line(self.slot(position));
        line[0] = line[0] & u64::from(u32::MAX) | u64::from(Opcode::CANCEL.code()) << 32;
        slot::seal(&mut line);
        self.lines.flush();
        self.lines.patch(self.slot(position), &line);
    }

    /// How a task ended, if it has.
    #[inline]
    pub fn ended(&self, position: u64) -> Option<CompletionRecord> {
        // Pairs with the fence before the record: what the task wrote is seen.
        let record = CompletionRecord(self.done.load(self.slot(position), Ordering::Acquire));
        record.is(generation(position, self.log2)).then_some(record)
    }

    /// The first of these positions that has not ended.
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

    /// The results of tasks from a position on, up to the end of the lap; how many these are, and whether all of them ended
    /// well. If not, the results are nobody's.
    #[inline]
    pub fn results(&self, from: u64, into: &mut [u32]) -> (usize, bool) {
        // Positions of one lap share a generation and follow each other in memory.
        let left = self.capacity() - (from & (self.capacity() - 1));
        let count = left.min(into.len() as u64) as usize;
        let done = word0(Status::Done, generation(from, self.log2));
        // Pairs with the fence before the record: what the tasks wrote is seen.
        (count, self.done.halves(self.slot(from), done, &mut into[..count]))
    }

    /// Gives up what was published at these positions: nobody will look at their records again. `seen` says that all
    /// have ended.
    #[inline]
    pub fn give_up(&self, position: u64, count: u32, seen: bool) {
        let word = u64::from(count) | if seen { SEEN } else { 0 };
        // Pairs with the acquire in `reclaim`: reads of the records come before their reuse.
        self.taken.store(self.slot(position), word, Ordering::Release);
    }

    /// Whether [`reclaim`](Ring::reclaim) would find slots to reuse from `free` on. Anybody may ask: the producer may have reused them
    /// meanwhile, so the answer is a reason to look, and no more.
    pub fn gives(&self, free: u64, tail: u64) -> bool {
        if free >= tail {
            return false;
        }
        // Pairs with the release in `give_up`.
        let word = self.taken.load(self.slot(free), Ordering::Acquire);
        let end = free + (word & (SEEN - 1));
        word != 0 && (word & SEEN != 0 || self.frontier(free, end) == end)
    }

    /// The first position that still holds its slot, from `free` on; called by the producer alone. `seen` is how far it
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
