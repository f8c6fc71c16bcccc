//! Jumps, calls, and instructions with regions.

use super::body::{BodyParser, NamedResult, UnreadPart};
use super::read::{Parsed, Reported};
use super::{PrintedLine, literal};
use crate::arena::{Func, Handle, Inst, Region};
use crate::limits::MAX_CASES;
use crate::module::{Attr, Operand, TextPlace};
use crate::op::Op;
use crate::text::Diagnostic;
use crate::text::lex::{Token, TokenKind};
use crate::types::Type;

/// What stands between an op with regions and its brace.
#[derive(Default)]
struct Head {
    label: Option<Token>,
    args: Vec<Operand>,
    /// Names of the region's parameters.
    params: Vec<Token>,
    /// Their types.
    types: Vec<Type>,
}

impl<'t> BodyParser<'_, 't> {
    /// What follows the name of a jump or a call.
    pub(crate) fn jump(&mut self, op: Op) -> Parsed<(Attr, Vec<Operand>)> {
        let mut args = Vec::new();
        if op == Op::Call {
            return self.call();
        }
        let attr = match op {
            Op::Break | Op::Continue => Attr::Target(self.target()?),
            _ => Attr::None,
        };
        self.operands(&mut args, true)?;
        Ok((attr, args))
    }

    fn call(&mut self) -> Parsed<(Attr, Vec<Operand>)> {
        let token = self.p.read.expect_kind(TokenKind::Word, "a function")?;
        let name = self.p.read.slice(token);
        let callee = match self.p.functions.get(name) {
            Some((Some(func), _)) => *func,
            // A function with an error in its head: this call is not a second one.
            Some((None, _)) if self.writer.function().name != name => {
                self.blank = UnreadPart::Shape;
                Func::new(0)
            }
            Some((None, _)) => {
                let error = Diagnostic::new("unknown", token.place, format!("`{name}` calls itself"));
                return Err(self.p.read.error(
                    error.label("not complete yet").note("there is no recursion: write a loop instead"),
                ));
            }
            None => {
                let names = self.p.module.functions.iter().map(|(_, function)| function.name.as_str());
                let error = self.p.read.unknown("function", token, names);
                return Err(self
                    .p
                    .read
                    .error(error.note("a function must be declared before the functions that call it")));
            }
        };
        let mut args = Vec::new();
        self.p.read.expect_mark(b'(')?;
        if !self.p.read.at_mark(b')') {
            self.operand_list(&mut args)?;
        }
        self.p.read.expect_mark(b')')?;
        Ok((Attr::Call(callee), args))
    }

    /// The loop or block that a jump names.
    fn target(&mut self) -> Parsed<Inst> {
        let token = self.p.read.expect_kind(TokenKind::Label, "a label")?;
        match self.labels.get(self.p.read.name(token)) {
            Some((known, _)) => {
                if known.is_none() {
                    self.blank = self.blank.max(UnreadPart::Operand);
                }
                Ok(known.unwrap_or(Inst::new(0)))
            }
            None => {
                let names = self.writer.function().debug.labels.iter().rev().map(|(_, name)| &**name);
                let error = self.p.read.unknown("label", token, names);
                Err(self.p.read.error(error))
            }
        }
    }

    /// What follows the name of an op that has regions.
    pub(crate) fn nest(&mut self, op: Op, start: u32, results: Vec<NamedResult>) -> Parsed<()> {
        let mut types = Vec::with_capacity(results.len());
        for (token, ty) in &results {
            types.push(ty.ok_or_else(|| self.untyped(op, *token))?);
        }
        let head = self.head(op)?;
        let open = self.p.read.expect_mark(b'{')?.place;
        let attr = if op == Op::Switch { Attr::Cases(Vec::new()) } else { Attr::None };
        let (inst, values) = self.writer.push(op, attr, head.args, &types);
        self.writer.set_place(inst, self.p.read.since(start));
        if self.blank != UnreadPart::None {
            self.doubt(inst);
        }
        for ((token, _), value) in results.into_iter().zip(values.iter()) {
            self.define(token, value);
        }
        if let Some(token) = head.label {
            self.label(token, inst);
        }
        if op == Op::Switch {
            return self.arms(inst, open);
        }
        let params = self.writer.open_region(inst, &head.types);
        for (token, value) in head.params.into_iter().zip(params.iter()) {
            self.define(token, value);
        }
        let end = self.fill()?;
        match op {
            Op::If if self.p.read.at_word("else") => self.second(inst, end),
            Op::If => {
                self.omitted(inst, end);
                Ok(())
            }
            Op::While if self.p.read.at_word("do") => self.second(inst, end),
            Op::While => Err(self.p.read.missing("`do`")),
            _ => Ok(()),
        }
    }

    fn untyped(&mut self, op: Op, token: Token) -> Reported {
        let message = format!("a result of `{}` needs its type", op.row().name);
        let label = format!("as in `{}: u32`", self.p.read.slice(token));
        self.p.read.error(Diagnostic::new("syntax", token.place, message).label(label))
    }

    fn head(&mut self, op: Op) -> Parsed<Head> {
        let mut head = Head::default();
        match op {
            Op::If | Op::Switch => {
                head.args.push(self.operand()?);
                return Ok(head);
            }
            _ if self.p.read.token.kind == TokenKind::Label => head.label = Some(self.p.read.advance()),
            _ => {}
        }
        if op == Op::Loop {
            head.params.push(self.p.read.expect_kind(TokenKind::Value, "the loop's counter")?);
            self.p.read.expect_mark(b'=')?;
            head.args.push(self.operand()?);
            self.p.read.expect_word("to")?;
            head.args.push(self.operand()?);
            self.p.read.expect_word("step")?;
            head.args.push(self.operand()?);
            head.types.push(self.writer.function().operand_ty(head.args[0]));
        }
        if op.is_loop() && self.p.read.at_word("with") {
            self.p.read.advance();
            self.carried(&mut head)?;
        }
        Ok(head)
    }

    /// `%acc = 0, %best = %x`
    fn carried(&mut self, head: &mut Head) -> Parsed<()> {
        loop {
            let token = self.p.read.expect_kind(TokenKind::Value, "a carried value")?;
            self.p.read.expect_mark(b'=')?;
            let init = self.operand()?;
            head.params.push(token);
            head.args.push(init);
            head.types.push(self.writer.function().operand_ty(init));
            self.p.check_count(head.params.len(), "carried values", token)?;
            if !self.p.read.take_mark(b',') {
                return Ok(());
            }
        }
    }

    fn label(&mut self, token: Token, inst: Inst) {
        let name = self.p.read.name(token);
        if self.p.read.check_name(token, name).is_err() {
            return;
        }
        if let Some((known, first)) = self.labels.insert(name, (Some(inst), token.place.start)) {
            self.labels.insert(name, (known, first));
            if known.is_some() {
                self.p.read.duplicate("label", token, first);
            }
        } else if !crate::text::lex::is_number(name) {
            self.writer.debug_mut().labels.push((inst, name.into()));
        }
    }

    /// `else {` or `do {` and the region after it. The place of its head begins with the brace before.
    fn second(&mut self, inst: Inst, end: TextPlace) -> Parsed<()> {
        self.p.read.advance();
        self.arm(inst, end.start)?;
        Ok(())
    }

    /// A region and its brace, the rest of whose head has been read.
    fn arm(&mut self, inst: Inst, start: u32) -> Parsed<TextPlace> {
        self.p.read.expect_mark(b'{')?;
        self.writer.open_region(inst, &[]);
        let region = Region::new(self.writer.function().region_count() - 1);
        self.p.marks.insert(PrintedLine::Arm(self.p.func(), region), self.p.read.since(start));
        self.fill()
    }

    /// The regions of a switch, after its brace.
    fn arms(&mut self, inst: Inst, open: TextPlace) -> Parsed<()> {
        let mut cases = Vec::new();
        let mut values = 0;
        let mut complete = false;
        while !self.at_end() {
            let from = self.start();
            let start = self.p.read.token.place.start;
            let read = if complete {
                Err(self.p.read.wrong("`}` after the default"))
            } else if self.p.read.at_word("default") {
                complete = true;
                self.p.read.advance();
                self.arm(inst, start)
            } else {
                self.case().and_then(|list| {
                    values += list.len();
                    cases.push(list);
                    self.few_cases(values)?;
                    self.arm(inst, start)
                })
            };
            if read.is_err() {
                self.doubts = None;
                self.recover(from);
            }
            if self.lost {
                return Err(Reported);
            }
        }
        let end = self.brace(open)?;
        *self.writer.attr_mut(inst) = Attr::Cases(cases);
        if !complete {
            self.omitted(inst, end);
        }
        self.p.marks.insert(PrintedLine::Close(self.p.func(), inst), end);
        Ok(())
    }

    /// `case 1, 7`
    fn case(&mut self) -> Parsed<Vec<u32>> {
        if !self.p.read.at_word("case") {
            return Err(self.p.read.wrong("`case` or `default`"));
        }
        self.p.read.advance();
        let mut list = Vec::new();
        loop {
            let token = self.p.read.expect_kind(TokenKind::Number, "a number")?;
            match literal::number(self.p.read.slice(token), Type::U32) {
                Ok(c) if c.ty() == Type::U32 => list.push(c.bits() as u32),
                Ok(c) => {
                    return Err(self
                        .p
                        .bad_literal(token, format!("is of type {}, but a case is a u32", c.ty())));
                }
                Err(why) => return Err(self.p.bad_literal(token, why)),
            }
            self.few_cases(list.len())?;
            if !self.p.read.take_mark(b',') {
                return Ok(list);
            }
        }
    }

    fn few_cases(&mut self, values: usize) -> Parsed<()> {
        if values > MAX_CASES {
            let place = self.p.read.token.place;
            return Err(self.p.read.limit(place, format!("the `switch` has more than {MAX_CASES} cases")));
        }
        Ok(())
    }
}
