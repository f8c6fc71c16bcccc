//! The slots of a batch: in memory of its own, or where a device reads them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::memory::Line;
use pelton_device::{Memory, View64};

use super::LINE_WORDS;

/// Slots, one after the other.
#[derive(Debug)]
pub(super) enum BatchLines {
    /// In memory of the host alone.
    Own(Vec<Line>),
    /// In memory that a device reads.
    Lent(LentLines),
}

/// Memory of a drain's device, as large as its ring.
#[derive(Debug)]
pub(super) struct LentLines {
    /// The memory.
    pub memory: Memory,
    view: View64,
    len: usize,
    /// Which drain's.
    owner: Arc<()>,
}

impl BatchLines {
    /// None yet, in memory of a drain's device; none of its own if the host does not reach it.
    pub fn in_device_memory(memory: Memory, owner: &Arc<()>) -> Self {
        match memory.view64() {
            Some(view) => BatchLines::Lent(LentLines { memory, view, len: 0, owner: owner.clone() }),
            None => BatchLines::default(),
        }
    }

    /// Where the device of a drain reads them, if that is where they are.
    pub fn memory_for(&self, owner: &Arc<()>) -> Option<&Memory> {
        match self {
            BatchLines::Lent(lent) if Arc::ptr_eq(&lent.owner, owner) => Some(&lent.memory),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            BatchLines::Own(lines) => lines.len(),
            BatchLines::Lent(lent) => lent.len,
        }
    }

    /// One of them.
    #[inline]
    pub fn get(&self, at: usize) -> Line {
        match self {
            BatchLines::Own(lines) => lines[at],
            BatchLines::Lent(lent) => {
                let words = &lent.view[at * LINE_WORDS..][..LINE_WORDS];
                // Relaxed: whoever has the batch wrote them, or they are nobody's business.
                std::array::from_fn(|k| words[k].load(Ordering::Relaxed))
            }
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Line> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Copies all of them to slots, from one of these on.
    pub fn copy_to(&self, to: &View64, from: usize) {
        let put = |(at, line): (usize, &Line)| to.write((from + at) * LINE_WORDS, line);
        match self {
            BatchLines::Own(lines) => lines.iter().enumerate().for_each(put),
            BatchLines::Lent(_) => self.iter().enumerate().for_each(|(at, line)| put((at, &line))),
        }
    }

    /// Puts one in. What does not fit where it was lent is kept in memory of its own.
    #[inline]
    pub fn push(&mut self, line: Line) {
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

    /// Takes all out, and keeps the memory.
    pub fn clear(&mut self) {
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

/// A copy has memory of its own.
impl Clone for BatchLines {
    fn clone(&self) -> Self {
        BatchLines::Own(self.iter().collect())
    }
}

/// Wherever they are.
impl PartialEq for BatchLines {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for BatchLines {}
