//! The slots of a batch, in ordinary memory or where a device reads them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::memory::Line;
use pelton_device::{Memory, View64};

use super::LINE_WORDS;

/// The slots of a batch, one after another.
#[derive(Debug)]
pub(super) enum BatchLines {
    /// The slots lie in memory of the host alone.
    Own(Vec<Line>),
    /// The slots lie in memory that a device reads.
    Lent(LentLines),
}

/// Memory of a drain's device that is as large as its ring.
#[derive(Debug)]
pub(super) struct LentLines {
    /// The memory that holds the slots.
    pub memory: Memory,
    view: View64,
    len: usize,
    /// The drain that the memory belongs to.
    owner: Arc<()>,
}

impl BatchLines {
    /// Returns no slots in memory of a drain's device, or in ordinary memory if the host cannot access the device's.
    pub(super) fn in_device_memory(memory: Memory, owner: &Arc<()>) -> Self {
        match memory.view64() {
            Some(view) => BatchLines::Lent(LentLines { memory, view, len: 0, owner: owner.clone() }),
            None => BatchLines::default(),
        }
    }

    /// Returns the memory of the slots if the device of this drain can read them there.
    pub(super) fn memory_for(&self, owner: &Arc<()>) -> Option<&Memory> {
        match self {
            BatchLines::Lent(lent) if Arc::ptr_eq(&lent.owner, owner) => Some(&lent.memory),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            BatchLines::Own(lines) => lines.len(),
            BatchLines::Lent(lent) => lent.len,
        }
    }

    /// Returns the slot with this number.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Line {
        match self {
            BatchLines::Own(lines) => lines[at],
            BatchLines::Lent(lent) => {
                let words = &lent.view[at * LINE_WORDS..][..LINE_WORDS];
                // Relaxed: the owner of the batch wrote these words, and nobody else writes them.
                std::array::from_fn(|k| words[k].load(Ordering::Relaxed))
            }
        }
    }

    /// Returns all slots in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Line> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Copies all slots to a ring, starting at the slot `from` of that ring.
    pub(super) fn copy_to(&self, to: &View64, from: usize) {
        let put = |(at, line): (usize, &Line)| to.write((from + at) * LINE_WORDS, line);
        match self {
            BatchLines::Own(lines) => lines.iter().enumerate().for_each(put),
            BatchLines::Lent(_) => self.iter().enumerate().for_each(|(at, line)| put((at, &line))),
        }
    }

    /// Adds a slot. If lent memory is full, all slots move to ordinary memory.
    #[inline]
    pub(super) fn push(&mut self, line: Line) {
        match self {
            BatchLines::Own(lines) => lines.push(line),
            BatchLines::Lent(lent) if lent.len * LINE_WORDS < lent.view.len() => {
                lent.view.write(lent.len * LINE_WORDS, &line);
                lent.len += 1;
            }
            BatchLines::Lent(_) => {
                let mut lines = Vec::with_capacity(2 * self.len());
                lines.extend(self.iter().chain([line]));
                *self = BatchLines::Own(lines);
            }
        }
    }

    /// Removes all slots and keeps the memory.
    pub(super) fn clear(&mut self) {
        match self {
            BatchLines::Own(lines) => lines.clear(),
            BatchLines::Lent(lent) => lent.len = 0,
        }
    }
}

impl Default for BatchLines {
    fn default() -> Self {
        BatchLines::Own(Vec::new())
    }
}

/// A copy always lies in ordinary memory.
impl Clone for BatchLines {
    fn clone(&self) -> Self {
        BatchLines::Own(self.iter().collect())
    }
}

/// Slots are compared by their content, wherever they lie.
impl PartialEq for BatchLines {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for BatchLines {}
