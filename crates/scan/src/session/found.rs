//! What tasks have found, turned into candidates of the text that the host has.

use std::ops::Range;

use super::caller::Found;
use super::image::{RUN_BIT, RunClass};
use crate::candidate::Candidate;

/// Candidates of a range of a text.
pub(super) struct FoundList<'o> {
    classes: &'o [RunClass],
    text: &'o [u8],
    own: Range<usize>,
    out: &'o mut Vec<Candidate>,
}

impl<'o> FoundList<'o> {
    /// Begins a list, with the runs that begin before the range and go on in it. Tasks may have found them before the
    /// range began.
    pub(super) fn new(
        classes: &'o [RunClass],
        text: &'o [u8],
        own: Range<usize>,
        out: &'o mut Vec<Candidate>,
    ) -> FoundList<'o> {
        let mut list = FoundList { classes, text, own, out };
        let start = list.own.start;
        for class in classes {
            let before = text[..start].iter().rev().take(class.most() as usize);
            let before = before.take_while(|byte| class.class.contains(**byte)).count();
            if before > 0 {
                list.push_runs(class, start - before);
            }
        }
        list
    }

    /// Adds the runs of a class that begin at a position. A part can begin wherever enough bytes of the run follow, and
    /// as many of them as the part needs must end in the range.
    fn push_runs(&mut self, class: &RunClass, start: usize) {
        let rest = &self.text[start.max(self.own.start)..self.own.end];
        let end =
            start.max(self.own.start) + rest.iter().take_while(|byte| class.class.contains(**byte)).count();
        for run in &class.runs {
            let length = run.length as usize;
            let first = start.max((self.own.start + 1).saturating_sub(length));
            if end > self.own.start && first + length <= end {
                let (first, last) = (first as u32, (end - length) as u32);
                self.out.push(Candidate { first, last, branch: run.branch });
            }
        }
    }

    /// Adds what tasks have found in a text that begins at a position of this one.
    pub(super) fn add(&mut self, found: &[Found], from: usize) {
        for [branch, start] in found {
            let first = from + *start as usize;
            if branch & RUN_BIT == 0 {
                let first = first as u32;
                self.out.push(Candidate { first, last: first, branch: *branch });
            } else if first >= self.own.start {
                let classes = self.classes;
                self.push_runs(&classes[(branch & !RUN_BIT) as usize], first);
            }
        }
    }
}
