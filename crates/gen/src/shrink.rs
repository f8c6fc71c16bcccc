//! Shrinks a list of bytes while a failure persists, in the form that proptest expects.
//!
//! Choices are bytes, so a list of bytes is what shrinks, no matter what is made from it. Stretches of bytes are
//! removed, the longest first and from the end; then stretches are set to zero; then single bytes are lowered.
//! Whenever a round has made the list smaller, another round follows.

use proptest::prelude::Rng;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// A strategy that produces a given number of random bytes.
#[derive(Clone, Copy, Debug)]
pub struct Choices(pub usize);

impl Strategy for Choices {
    type Tree = Shrink;
    type Value = Vec<u8>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let mut bytes = vec![0; self.0];
        runner.rng().fill_bytes(&mut bytes);
        Ok(Shrink::new(bytes))
    }
}

/// A change to a stretch of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ShrinkWay {
    Cut,
    Zero,
    Halve,
    Lower,
}

/// A list of bytes that is being made smaller.
#[derive(Clone, Debug)]
pub struct Shrink {
    /// The smallest list so far that still fails.
    best: Vec<u8>,
    /// The list that is being tried.
    now: Vec<u8>,
    way: ShrinkWay,
    size: usize,
    /// The start of the stretch that was changed last, counted from the end.
    back: usize,
    /// Whether this round has made the list smaller.
    smaller: bool,
}

impl Shrink {
    /// Creates a list for which no change has been tried yet.
    pub fn new(bytes: Vec<u8>) -> Self {
        let size = bytes.len().max(1);
        Shrink { now: bytes.clone(), best: bytes, way: ShrinkWay::Cut, size, back: 0, smaller: false }
    }

    /// Tries the next change to the best list; returns false if there is none left.
    fn try_next(&mut self) -> bool {
        loop {
            self.back += self.size;
            if self.back >= self.best.len() + self.size && !self.next_phase() {
                self.now.clone_from(&self.best);
                return false;
            }
            if self.change_stretch() {
                return true;
            }
        }
    }

    /// Proceeds to shorter stretches, to another kind of change, or to another round.
    fn next_phase(&mut self) -> bool {
        self.back = 0;
        match self.way {
            ShrinkWay::Cut | ShrinkWay::Zero if self.size > 1 => self.size /= 2,
            ShrinkWay::Cut => (self.way, self.size) = (ShrinkWay::Zero, (self.best.len() / 2).max(1)),
            ShrinkWay::Zero => self.way = ShrinkWay::Halve,
            ShrinkWay::Halve => self.way = ShrinkWay::Lower,
            ShrinkWay::Lower if self.smaller => {
                (self.way, self.size) = (ShrinkWay::Cut, (self.best.len() / 2).max(1));
                self.smaller = false;
            }
            ShrinkWay::Lower => return false,
        }
        true
    }

    /// Changes a stretch; returns false if that leaves the list as it is.
    fn change_stretch(&mut self) -> bool {
        let end = (self.best.len() + self.size).saturating_sub(self.back).min(self.best.len());
        let stretch = self.best.len().saturating_sub(self.back)..end;
        if stretch.is_empty() {
            return false;
        }
        self.now.clone_from(&self.best);
        match self.way {
            ShrinkWay::Cut => drop(self.now.drain(stretch)),
            ShrinkWay::Zero => self.now[stretch].fill(0),
            ShrinkWay::Halve => self.now[stretch].iter_mut().for_each(|byte| *byte /= 2),
            ShrinkWay::Lower => self.now[stretch].iter_mut().for_each(|byte| *byte = byte.saturating_sub(1)),
        }
        self.now != self.best
    }
}

impl ValueTree for Shrink {
    type Value = Vec<u8>;

    fn current(&self) -> Vec<u8> {
        self.now.clone()
    }

    fn simplify(&mut self) -> bool {
        if self.now != self.best {
            self.smaller = true;
            // The removed stretch is gone, so the bytes now in its place have not been tried yet.
            if self.way == ShrinkWay::Cut {
                self.back = self.back.saturating_sub(self.size);
            }
            self.best.clone_from(&self.now);
        }
        self.try_next()
    }

    fn complicate(&mut self) -> bool {
        self.try_next()
    }
}

#[cfg(test)]
mod tests {
    use super::Shrink;
    use proptest::strategy::ValueTree;

    /// The smallest bytes for which something still holds.
    fn shrunk(bytes: Vec<u8>, holds: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut tree = Shrink::new(bytes);
        let (mut best, mut goes) = (tree.current(), tree.simplify());
        while goes {
            let now = tree.current();
            goes = if holds(&now) {
                best = now;
                tree.simplify()
            } else {
                tree.complicate()
            };
        }
        best
    }

    #[test]
    fn what_matters_is_all_that_is_left() {
        let bytes: Vec<u8> = (0..200).map(|k| (k * 37 % 251) as u8).collect();
        assert_eq!(shrunk(bytes.clone(), |_| true), []);
        assert_eq!(shrunk(bytes.clone(), |b| b.iter().any(|x| *x >= 100)), [100]);
        assert_eq!(shrunk(bytes.clone(), |b| b.len() >= 3), [0, 0, 0]);
        assert_eq!(shrunk(bytes, |b| b.windows(2).any(|w| w[0] > w[1])), [1, 0]);
    }
}
