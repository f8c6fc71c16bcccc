//! Making bytes smaller while something still holds of them, as proptest wants it.
//!
//! Choices are bytes, so what shrinks is a list of bytes, whatever is made of them: stretches are cut out, longer
//! ones first and from the end; then set to zero; then single bytes are lowered. A round in which something got
//! smaller is followed by another one.

use proptest::prelude::Rng;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

/// A strategy for so many bytes of choices.
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

/// What to do to a stretch of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Cut,
    Zero,
    Halve,
    Lower,
}

/// Bytes that can be made smaller.
#[derive(Clone, Debug)]
pub struct Shrink {
    /// The smallest that will do.
    best: Vec<u8>,
    /// What is tried.
    now: Vec<u8>,
    way: Way,
    size: usize,
    /// Where the stretch that was tried last begins, counted from the end.
    back: usize,
    /// Whether this round has made something smaller.
    smaller: bool,
}

impl Shrink {
    /// Bytes of which nothing has been tried.
    pub fn new(bytes: Vec<u8>) -> Self {
        let size = bytes.len().max(1);
        Shrink { now: bytes.clone(), best: bytes, way: Way::Cut, size, back: 0, smaller: false }
    }

    /// Tries the next thing that makes the best smaller; false if there is none.
    fn next(&mut self) -> bool {
        loop {
            self.back += self.size;
            if self.back >= self.best.len() + self.size && !self.turn() {
                self.now.clone_from(&self.best);
                return false;
            }
            if self.apply() {
                return true;
            }
        }
    }

    /// Goes to shorter stretches, to another way, or to another round.
    fn turn(&mut self) -> bool {
        self.back = 0;
        match self.way {
            Way::Cut | Way::Zero if self.size > 1 => self.size /= 2,
            Way::Cut => (self.way, self.size) = (Way::Zero, (self.best.len() / 2).max(1)),
            Way::Zero => self.way = Way::Halve,
            Way::Halve => self.way = Way::Lower,
            Way::Lower if self.smaller => {
                (self.way, self.size) = (Way::Cut, (self.best.len() / 2).max(1));
                self.smaller = false;
            }
            Way::Lower => return false,
        }
        true
    }

    /// Changes a stretch; false if it stays as it is.
    fn apply(&mut self) -> bool {
        let end = (self.best.len() + self.size).saturating_sub(self.back).min(self.best.len());
        let stretch = self.best.len().saturating_sub(self.back)..end;
        if stretch.is_empty() {
            return false;
        }
        self.now.clone_from(&self.best);
        match self.way {
            Way::Cut => drop(self.now.drain(stretch)),
            Way::Zero => self.now[stretch].fill(0),
            Way::Halve => self.now[stretch].iter_mut().for_each(|byte| *byte /= 2),
            Way::Lower => self.now[stretch].iter_mut().for_each(|byte| *byte = byte.saturating_sub(1)),
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
            // What was cut is gone, so what is now in its place has not been tried.
            if self.way == Way::Cut {
                self.back = self.back.saturating_sub(self.size);
            }
            self.best.clone_from(&self.now);
        }
        self.next()
    }

    fn complicate(&mut self) -> bool {
        self.next()
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
