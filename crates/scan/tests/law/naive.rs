//! An engine that is as simple as possible, and can be made to have the mistakes that the law must find.

use std::ops::Range;
use std::sync::Arc;

use pelton_scan::catalog::{Catalog, FactorOutput, FactorTable, WINDOW_MAYBE, WINDOW_NO, WINDOW_START};
use pelton_scan::engine::{CandidateEngine, TextArena};
use pelton_scan::{Candidate, ScanError};

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// None.
    Sound,
    /// A window that reaches its limit answers *no*.
    LimitRejects,
    /// A window does not read beyond its piece, and answers *no* there.
    EndRejects,
    /// Literals that overlap an earlier one are not found.
    LeftmostLiterals,
    /// Literals that are not ASCII are not found.
    AsciiFolding,
    /// Literals are compared with cases.
    NoFolding,
}

/// Reads byte by byte, with no regard to speed.
pub(crate) struct NaiveEngine {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) flaw: Flaw,
    pub(crate) piece_len: usize,
}

impl CandidateEngine for NaiveEngine {
    fn describe(&self) -> String {
        "naive".into()
    }

    fn piece_len(&self) -> usize {
        self.piece_len
    }

    fn arena(&self, len: usize) -> Result<Box<dyn TextArena>, ScanError> {
        Ok(Box::new(vec![0; len]))
    }

    fn candidates(
        &self,
        arena: &dyn TextArena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError> {
        let text = &arena.bytes()[..len];
        for table in self.catalog.factors() {
            self.literals(table, text, &own, out);
        }
        for run in self.catalog.class_runs() {
            let length = run.length as usize;
            // Every place at which a run of this length ends in the piece.
            for end in own.clone().filter(|&end| end + 1 >= length) {
                let first = end + 1 - length;
                if text[first..=end].iter().all(|&byte| run.class.contains(byte)) {
                    out.push(Candidate { first: first as u32, last: first as u32, branch: run.branch });
                }
            }
        }
        Ok(())
    }
}

impl NaiveEngine {
    fn literals(&self, table: &FactorTable, text: &[u8], own: &Range<usize>, out: &mut Vec<Candidate>) {
        let mut state = 0;
        for (at, &byte) in text.iter().enumerate().take(own.end) {
            let class = usize::from(table.classes[usize::from(byte)]);
            state = usize::from(table.next[state * table.class_count as usize + class]);
            let Some(row) = state.checked_sub(table.first_accepting as usize) else { continue };
            if at >= own.start {
                for output in table.output_rows[row]..table.output_rows[row + 1] {
                    let seen = if self.flaw == Flaw::EndRejects { &text[..own.end] } else { text };
                    self.output(&table.outputs[output as usize], seen, at, out);
                }
            }
            if self.flaw == Flaw::LeftmostLiterals {
                state = 0;
            }
        }
    }

    fn output(&self, output: &FactorOutput, text: &[u8], end: usize, out: &mut Vec<Candidate>) {
        let literal: Vec<(u8, u8)> =
            output.value.iter().copied().zip(output.mask).filter(|&(_, mask)| mask != 0).collect();
        if end + 1 < literal.len() || end + 1 < output.back as usize {
            return;
        }
        let agrees = |(&byte, &(value, mask)): (&u8, &(u8, u8))| match self.flaw {
            Flaw::NoFolding => byte == value,
            _ => byte & mask == value,
        };
        let skipped = self.flaw == Flaw::AsciiFolding && literal.iter().any(|&(value, _)| !value.is_ascii());
        if skipped || !text[end + 1 - literal.len()..=end].iter().zip(&literal).all(agrees) {
            return;
        }
        let first = end + 1 - output.back as usize;
        if self.window(output.branch, &text[first..]) {
            out.push(Candidate { first: first as u32, last: first as u32, branch: output.branch });
        }
    }

    /// Returns what the window of a branch answers for a text.
    fn window(&self, branch: u32, text: &[u8]) -> bool {
        let tables = self.catalog.windows();
        let window = tables.windows[branch as usize];
        if window.class_count == 0 {
            return true;
        }
        let mut state = WINDOW_START;
        for at in 0..window.limit as usize {
            let Some(&byte) = text.get(at) else { return self.flaw != Flaw::EndRejects };
            let class = tables.classes[window.class_map as usize * 256 + usize::from(byte)];
            state = tables.next
                [(window.base + u32::from(state) * window.class_count + u32::from(class)) as usize];
            match state {
                WINDOW_NO => return false,
                WINDOW_MAYBE => return true,
                _ => {}
            }
        }
        window.at_limit && self.flaw != Flaw::LimitRejects
    }
}
