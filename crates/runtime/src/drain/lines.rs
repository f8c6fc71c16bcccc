//! The slots of a batch: in memory of its own, or where a device reads them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pelton_device::memory::Line;
use pelton_device::{Memory, View64};

use super::LINE;

/// Slots, one after the other.
#[derive(Debug)]
pub(super) enum Lines {
    /// In memory of the host alone.
    Own(Vec<Line>),
    /// In memory that a device reads.
    Lent(Lent),
}

/// Memory of a drain's device, as large as its ring.
#[derive(Debug)]
pub(super) struct Lent {
    /// The memory.
    pub memory: Memory,
    view: View64,
    len: usize,
    /// Which drain's.
    owner: Arc<()>,
}

impl Lines {
    /// None yet, in memory of a drain's device; none of its own if the host does not reach it.
    pub fn lent(memory: Memory, owner: &Arc<()>) -> Self {
        match memory.view64() {
            Some(view) => Lines::Lent(Lent { memory, view, len: 0, owner: owner.clone() }),
            None => Lines::default(),
        }
    }

    /// Where the device of a drain reads them, if that is where they are.
    pub fn at(&self, owner: &Arc<()>) -> Option<&Memory> {
        match self {
            Lines::Lent(lent) if Arc::ptr_eq(&lent.owner, owner) => Some(&lent.memory),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Lines::Own(lines) => lines.len(),
            Lines::Lent(lent) => lent.len,
        }
    }

    /// One of them.
    #[inline]
    pub fn get(&self, at: usize) -> Line {
        match self {
            Lines::Own(lines) => lines[at],
            Lines::Lent(lent) => {
                let words = &lent.view[at * LINE..][..LINE];
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
    pub fn copy(&self, to: &View64, from: usize) {
        let put = |(at, line): (usize, &Line)| to.write((from + at) * LINE, line);
        match self {
            Lines::Own(lines) => lines.iter().enumerate().for_each(put),
            Lines::Lent(_) => self.iter().enumerate().for_each(|(at, line)| put((at, &line))),
        }
    }

    /// Puts one in. What does not fit where it was lent is kept in memory of its own.
    #[inline]
    pub fn push(&mut self, line: Line) {
        match self {
            Lines::Own(lines) => lines.push(line),
            Lines::Lent(lent) if lent.len * LINE < lent.view.len() => {
                lent.view.write(lent.len * LINE, &line);
                lent.len += 1;
            }
            Lines::Lent(_) => {
                let mut lines = Vec::with_capacity(2 * self.len());
                lines.extend(self.iter().chain([line]));
                *self = Lines::Own(lines);
            }
        }
    }

    /// Takes all out, and keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Lines::Own(lines) => lines.clear(),
            Lines::Lent(lent) => lent.len = 0,
        }
    }
}

impl Default for Lines {
    fn default() -> Self {
        Lines::Own(Vec::new())
    }
}

/// A copy has memory of its own.
impl Clone for Lines {
    fn clone(&self) -> Self {
        Lines::Own(self.iter().collect())
    }
}

/// Wherever they are.
impl PartialEq for Lines {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Lines {}
