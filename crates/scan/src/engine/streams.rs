//! Stage one on a CPU: an automaton that reads several places of a text at once.
//!
//! A step of an automaton waits for a load that depends on the step before. So one stream of steps leaves the processor
//! idle most of the time, and several streams that read different pieces of the text take hardly longer than one.

use std::ops::Range;

use crate::catalog::FactorTable;
use crate::factor::LITERAL_MAX;

/// The number of streams. More streams would need more registers than processors have.
pub(super) const STREAMS: usize = 6;

/// The number of bytes that a stream reads before it is checked whether it has accepted.
const BLOCK: usize = 8;

/// The smallest number of bytes for which it is worth starting several streams.
const STREAMS_MIN: usize = STREAMS * 64;

/// An automaton of stage one in the form that this loop reads.
///
/// A state is the distance of its row from the row of the initial state, in entries. Rows of accepting states lie before
/// that row, so their distances are negative, and one look at the sign bits of several states together says whether one
/// of them accepts.
#[derive(Debug)]
pub(super) struct StreamTable {
    /// The class of each byte. All are less than `width`.
    classes: [u8; 256],
    /// The number of entries of a row.
    width: usize,
    /// The place of the initial state's row in `next`.
    middle: usize,
    /// The next states. `middle + state .. middle + state + width` lies in it for every entry `state`.
    next: Vec<i32>,
}

/// A place at which a literal ends, up to case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LiteralEnd {
    /// The position of the literal's last byte.
    pub(super) end: usize,
    /// The accepting state, counted from the first one: an index of [`FactorTable::output_rows`].
    pub(super) row: usize,
}

impl StreamTable {
    /// Converts a table of a catalog.
    pub(super) fn new(table: &FactorTable) -> StreamTable {
        let (width, first_accepting) = (table.class_count as usize, table.first_accepting as usize);
        let distance = |state: usize| match state.checked_sub(first_accepting) {
            Some(row) => -(((row + 1) * width) as i32),
            None => (state * width) as i32,
        };
        let rows = || table.next.chunks_exact(width);
        // The last accepting state comes first, so that distances grow downwards with the number of the state.
        let order = rows().skip(first_accepting).rev().chain(rows().take(first_accepting));
        StreamTable {
            classes: table.classes.as_slice().try_into().expect("a catalog maps every byte to a class"),
            width,
            middle: (table.state_count as usize - first_accepting) * width,
            next: order.flatten().map(|&state| distance(usize::from(state))).collect(),
        }
    }

    /// Calls `found` for every literal that ends in `own`.
    pub(super) fn find(&self, text: &[u8], own: Range<usize>, mut found: impl FnMut(LiteralEnd)) {
        if own.len() < STREAMS_MIN {
            let state = self.state_before(text, own.start);
            self.run(text, own, state, &mut found);
            return;
        }
        let piece = own.len() / STREAMS / BLOCK * BLOCK;
        let starts: [usize; STREAMS] = std::array::from_fn(|stream| own.start + stream * piece);
        let mut states = starts.map(|start| self.state_before(text, start));
        for at in (0..piece).step_by(BLOCK) {
            let before = states;
            let words: [[u8; BLOCK]; STREAMS] = std::array::from_fn(|stream| {
                let start = starts[stream] + at;
                text[start..start + BLOCK].try_into().expect("the range has this length")
            });
            let signs = self.step_block(&mut states, words);
            if signs.iter().fold(0, |all, sign| all | sign) < 0 {
                self.report(text, &starts.map(|start| start + at), &signs, &before, &mut found);
            }
        }
        let rest = own.start + STREAMS * piece..own.end;
        self.run(text, rest, states[STREAMS - 1], &mut found);
    }

    /// Reads a block in every stream. Returns numbers that are negative where a stream has accepted.
    #[inline(always)]
    fn step_block(&self, states: &mut [isize; STREAMS], blocks: [[u8; BLOCK]; STREAMS]) -> [isize; STREAMS] {
        let mut words = blocks.map(u64::from_le_bytes);
        let mut signs = [0; STREAMS];
        for _ in 0..BLOCK {
            for stream in 0..STREAMS {
                let class = isize::from(self.classes[usize::from(words[stream] as u8)]);
                words[stream] >>= 8;
                let entry = (self.middle as isize + states[stream] + class) as usize;
                // SAFETY: `states` holds 0 and entries of `next` only, and `class` is less than `width`, so the entry
                // lies in the row of a state, as the documentation of `next` says.
                states[stream] = unsafe { *self.next.get_unchecked(entry) } as isize;
                signs[stream] |= states[stream];
            }
        }
        signs
    }

    /// Reads the blocks again in which a stream has accepted, and says where.
    #[cold]
    fn report(
        &self,
        text: &[u8],
        starts: &[usize; STREAMS],
        signs: &[isize; STREAMS],
        before: &[isize; STREAMS],
        found: &mut impl FnMut(LiteralEnd),
    ) {
        for stream in (0..STREAMS).filter(|&stream| signs[stream] < 0) {
            self.run(text, starts[stream]..starts[stream] + BLOCK, before[stream], found);
        }
    }

    /// Reads a range in one stream.
    fn run(&self, text: &[u8], range: Range<usize>, mut state: isize, found: &mut impl FnMut(LiteralEnd)) {
        for end in range {
            state = self.step(state, text[end]);
            if state < 0 {
                found(LiteralEnd { end, row: state.unsigned_abs() / self.width - 1 });
            }
        }
    }

    /// Returns the true state before a position. No literal is longer than what is read for it.
    fn state_before(&self, text: &[u8], at: usize) -> isize {
        let before = &text[at.saturating_sub(LITERAL_MAX - 1)..at];
        before.iter().fold(0, |state, &byte| self.step(state, byte))
    }

    fn step(&self, state: isize, byte: u8) -> isize {
        let class = isize::from(self.classes[usize::from(byte)]);
        self.next[(self.middle as isize + state + class) as usize] as isize
    }
}
