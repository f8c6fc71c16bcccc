//! The body of a function: regions of instructions, and how reading goes on after an error in one.

use std::collections::{HashMap, HashSet};

use super::read::{Parsed, Reported};
use super::{KnownNames, Parser, UnsureInsts};
use crate::arena::{Handle, Inst, Value};
use crate::limits::MAX_DEPTH;
use crate::module::{Function, TextPlace};
use crate::text::lex::{Lexer, Token, TokenKind};
use crate::types::Type;
use crate::write::FunctionWriter;

/// A function that is being read.
pub(crate) struct BodyParser<'p, 't> {
    pub p: &'p mut Parser<'t>,
    pub writer: FunctionWriter,
    pub values: KnownNames<'t, Value>,
    pub labels: KnownNames<'t, Inst>,
    /// How many regions are open.
    depth: usize,
    /// Whether a brace is missing and reading goes on outside of the function.
    pub lost: bool,
    /// How many of the open regions have a head that was not understood.
    pub orphans: usize,
    /// The instructions that cannot be checked, or `None` if nothing in the function can be, because regions are not
    /// where the text has them.
    pub doubts: Option<UnsureInsts>,
    /// What stands in the current instruction for a part that could not be read.
    pub blank: UnreadPart,
    /// Whether a line of the current region could not be read.
    gap: bool,
    /// Names that are defined twice, so that it is not known which definition a use means.
    pub twice: HashSet<&'t str>,
}

/// What stands for a part of an instruction that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum UnreadPart {
    /// Everything could be read.
    None,
    /// An operand stands for one that could not be read.
    Operand,
    /// A buffer or a function could not be read, so the number of results is not known either.
    Shape,
}

/// A result as the text names it, and its type where the text says it.
pub(crate) type NamedResult = (Token, Option<Type>);

/// The start of something that may have to be read again.
pub(crate) type StatementStart<'t> = (Lexer<'t>, Token);

impl<'p, 't> BodyParser<'p, 't> {
    pub(crate) fn new(p: &'p mut Parser<'t>, writer: FunctionWriter) -> Self {
        BodyParser {
            p,
            writer,
            values: HashMap::new(),
            labels: HashMap::new(),
            depth: 0,
            lost: false,
            orphans: 0,
            doubts: Some(UnsureInsts::new()),
            blank: UnreadPart::None,
            gap: false,
            twice: HashSet::new(),
        }
    }

    /// Names the function's parameters.
    pub(crate) fn define_params(&mut self, params: &[(Token, Type)]) {
        let values = self.writer.function().params;
        for ((token, _), value) in params.iter().zip(values.iter()) {
            self.define(*token, value);
        }
    }

    /// Reads the body after its brace. Returns the function and those of its instructions that cannot be checked.
    pub(crate) fn finish(mut self) -> Parsed<(Function, Option<UnsureInsts>)> {
        self.fill()?;
        Ok((self.writer.finish(), self.doubts))
    }

    /// Records that an instruction cannot be checked.
    pub(crate) fn doubt(&mut self, inst: Inst) {
        if let Some(doubts) = &mut self.doubts {
            doubts.insert(inst);
        }
    }

    /// Reads the region that the writer has opened, after its brace, and closes it.
    pub(crate) fn fill(&mut self) -> Parsed<TextPlace> {
        let outer = std::mem::take(&mut self.gap);
        let end = self.region()?;
        self.close(end);
        self.gap = outer;
        Ok(end)
    }

    /// Reads a region after its brace, up to the brace that ends it.
    fn region(&mut self) -> Parsed<TextPlace> {
        let open = TextPlace { start: self.p.read.last.saturating_sub(1), end: self.p.read.last };
        if self.depth == MAX_DEPTH {
            return Err(self.p.read.limit(open, format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        self.statements();
        self.depth -= 1;
        self.brace(open)
    }

    /// Writes a region that the text leaves out.
    pub(crate) fn omitted(&mut self, inst: Inst, end: TextPlace) {
        let outer = std::mem::take(&mut self.gap);
        self.writer.open_region(inst, &[]);
        self.close(end);
        self.gap = outer;
    }

    /// Closes the region that the writer has open. `end` is the place at which the text ends it.
    pub(crate) fn close(&mut self, end: TextPlace) {
        let before = self.writer.function().insts().len();
        let region = self.writer.close_region();
        if self.writer.function().insts().len() > before {
            self.writer.set_place(Inst::new(before), end);
            if self.gap {
                self.doubt(Inst::new(before));
            }
        }
        let ends = &mut self.writer.debug_mut().ends;
        ends.resize(ends.len().max(region.index() + 1), TextPlace::default());
        ends[region.index()] = end;
    }

    /// Returns whether the next token ends a region, correctly or not.
    pub(crate) fn at_end(&self) -> bool {
        matches!(self.p.read.token.kind, TokenKind::End | TokenKind::Mark(b'}')) || self.p.at_item()
    }

    fn statements(&mut self) {
        while !self.at_end() {
            let start = self.start();
            if self.inst().is_err() {
                self.gap = true;
                self.recover(start);
            }
        }
    }

    pub(crate) fn start(&self) -> StatementStart<'t> {
        (self.p.read.lexer, self.p.read.token)
    }

    /// Goes past the brace that ends what another opened, [`at_end`](Self::at_end).
    pub(crate) fn brace(&mut self, open: TextPlace) -> Parsed<TextPlace> {
        if self.p.read.at_mark(b'}') {
            return Ok(self.p.read.advance().place);
        }
        if !self.lost {
            self.lost = true;
            let error = self.p.read.expected("`}`").also(open, "it closes this");
            self.p.read.error(error);
        }
        Err(Reported)
    }

    /// Goes on after an error: passes over the rest of its line, and reads the regions that the line opens for their
    /// own errors.
    pub(crate) fn recover(&mut self, start: StatementStart<'t>) {
        let mut open = self.skip(start);
        if open > 0 {
            self.doubts = None;
        }
        while open > 0 && !self.lost {
            self.orphans += 1;
            let end = self.region();
            self.orphans -= 1;
            open -= 1;
            if end.is_ok() && ["else", "do"].into_iter().any(|word| self.p.read.at_word(word)) {
                open += self.skip(self.start());
            }
        }
    }

    /// Goes from a start to the end of the line that comes next, and counts the regions that are open there. Names
    /// on the way count as defined.
    fn skip(&mut self, (lexer, token): StatementStart<'t>) -> usize {
        let mut open = 0usize;
        let error = self.p.read.token;
        if self.lost || error.kind == TokenKind::End {
            return open;
        }
        (self.p.read.lexer, self.p.read.token) = (lexer, token);
        loop {
            let next = self.p.read.token;
            let at = next.place.start;
            let passed = at != token.place.start && at >= error.place.start;
            match next.kind {
                TokenKind::End => return open,
                _ if passed && next.fresh => return open,
                TokenKind::Mark(b'}') if passed && open == 0 => return open,
                TokenKind::Mark(b'}') => open = open.saturating_sub(1),
                TokenKind::Mark(b'{') => open += 1,
                TokenKind::Value => {
                    self.values.entry(self.p.read.name(next)).or_insert((None, at));
                }
                TokenKind::Label => {
                    self.labels.entry(self.p.read.name(next)).or_insert((None, at));
                }
                _ => {}
            }
            self.p.read.advance();
        }
    }
}
