//! Explores the queue of cells that are ready: groups that put cells in, and groups that take them out.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::spawn;

use super::plan::{Plain, Plan, holds};

/// A queue with a place for each cell.
struct Queue {
    plan: Plan,
    entries: Vec<AtomicU64>,
    /// The position up to which entries were taken, and that of the next entry.
    front: AtomicU64,
    back: AtomicU64,
    /// The words of each cell.
    words: Vec<Plain>,
}

impl Queue {
    fn new(plan: Plan, cells: usize) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let entries = (0..cells).map(|_| word()).collect();
        Arc::new(Queue { plan, entries, front: word(), back: word(), words: Plain::several(cells) })
    }

    fn slots(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Puts a cell that this thread has into the queue.
    fn push(&self, cell: u64) {
        self.words[cell as usize].write();
        let position = self.back.fetch_add(1, Ordering::Relaxed);
        let lap = position / self.slots() + 1;
        self.entries[(position % self.slots()) as usize].store(lap << 32 | cell, self.plan.order("ready"));
    }

    /// Takes as many cells as are written from the front on, if no other thread is faster.
    fn pop(&self) -> Vec<u64> {
        let (front, back) = (self.front.load(Ordering::Relaxed), self.back.load(Ordering::Relaxed));
        let wanted = back.saturating_sub(front);
        let mut cells = Vec::new();
        for position in front..front + wanted {
            let entry = self.entries[(position % self.slots()) as usize].load(self.plan.order("fill"));
            let written = entry >> 32 == position / self.slots() + 1;
            if !written && !self.plan.wrong("entries are taken unwritten") {
                break;
            }
            cells.push(entry & u64::from(u32::MAX));
        }
        let next = front + cells.len() as u64;
        if self.plan.wrong("the claim is a store") {
            self.front.store(next, Ordering::Relaxed);
        } else if self.front.compare_exchange(front, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Vec::new();
        }
        cells.iter().for_each(|cell| self.words[*cell as usize].write());
        cells
    }
}

/// The steps between who puts a cell into the queue and who takes it out.
pub(crate) const QUEUE: &[&str] = &["ready", "fill"];

/// Two groups put a cell each into the queue and then take some, and the main thread takes some as well.
#[test]
fn every_cell_is_taken_once() {
    holds(2, QUEUE, &["entries are taken unwritten", "the claim is a store"], |plan| {
        let queue = Queue::new(plan, 2);
        let groups = [0, 1].map(|cell| {
            let queue = queue.clone();
            spawn(move || {
                queue.push(cell);
                queue.pop()
            })
        });
        let mut taken = queue.pop();
        for group in groups {
            taken.extend(group.join().unwrap());
        }
        taken.extend(queue.pop());
        taken.sort();
        assert_eq!(taken, [0, 1]);
    });
}

/// A group takes a cell and puts it back in, lap after lap, while another one is slow: what that one has read it takes
/// only if nobody else has.
#[test]
fn a_slow_group_takes_nothing_twice() {
    holds(3, &[], &["the claim is a store"], |plan| {
        let queue = Queue::new(plan, 1);
        queue.push(0);
        let fast = spawn({
            let queue = queue.clone();
            move || {
                for cell in queue.pop() {
                    queue.push(cell);
                }
                queue.pop()
            }
        });
        let mut taken = queue.pop();
        taken.extend(fast.join().unwrap());
        taken.extend(queue.pop());
        assert_eq!(taken, [0]);
    });
}
