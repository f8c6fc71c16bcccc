//! Sorts the findings of one long input by position, in bounded memory.

use pelton_scan::finding::Match;

/// The number of bytes of output that are held to be sorted.
const HELD_MAX: usize = 8 << 20;

/// When findings of an input are passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FindingOrder {
    /// At once, so that findings in a pipe are seen while it goes on.
    AsFound,
    /// By their positions. A scanner reports matches of different rules in no particular order.
    Sorted,
}

/// Findings that wait for those before them, as formatted output.
pub(super) struct FindingSorter {
    order: FindingOrder,
    held: Vec<(Match, Vec<u8>)>,
    size: usize,
}

impl FindingSorter {
    /// Makes a sorter.
    pub(super) fn new(order: FindingOrder) -> FindingSorter {
        FindingSorter { order, held: Vec::new(), size: 0 }
    }

    /// Adds a finding, and returns what is passed on now. If there are too many to be held, what is held is passed on
    /// although some that come later may belong before it.
    pub(super) fn push(&mut self, found: Match, out: Vec<u8>) -> Vec<u8> {
        self.size += out.len();
        self.held.push((found, out));
        if self.order == FindingOrder::AsFound || self.size > HELD_MAX { self.take() } else { Vec::new() }
    }

    /// Returns all that is held, in order.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.held.sort_by_key(|(found, _)| (found.start, found.end, found.rule));
        self.size = 0;
        self.held.drain(..).flat_map(|(_, out)| out).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, rule: u32) -> Match {
        Match { rule, start, end: start + 1 }
    }

    #[test]
    fn findings_are_sorted_by_position() {
        let mut sorter = FindingSorter::new(FindingOrder::Sorted);
        for (found, text) in [(at(5, 0), "c"), (at(3, 1), "b"), (at(3, 0), "a")] {
            assert!(sorter.push(found, text.into()).is_empty());
        }
        assert_eq!(sorter.take(), b"abc");
        assert!(sorter.take().is_empty());
    }

    #[test]
    fn findings_in_a_pipe_do_not_wait() {
        let mut sorter = FindingSorter::new(FindingOrder::AsFound);
        assert_eq!(sorter.push(at(5, 0), b"b".into()), b"b");
        assert_eq!(sorter.push(at(3, 0), b"a".into()), b"a");
    }

    #[test]
    fn no_more_than_the_limit_is_held() {
        let mut sorter = FindingSorter::new(FindingOrder::Sorted);
        assert!(sorter.push(at(9, 0), vec![b'x'; HELD_MAX]).is_empty());
        assert_eq!(sorter.push(at(1, 0), b"a".into()).len(), HELD_MAX + 1);
        assert!(sorter.take().is_empty());
    }
}
