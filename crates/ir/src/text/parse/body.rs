//! The body of a function: its instructions one after the other, their operands and names.

use std::collections::HashMap;

use super::read::{Parsed, Reported};
use super::{Names, Parser, literal};
use crate::arena::{Buffer, Handle, Inst, Value};
use crate::limits::{MAX_ARGS, MAX_DEPTH, MAX_INSTS};
use crate::module::{Attr, Function, Operand, Place};
use crate::op::{Form, Op, TABLE};
use crate::text::Diagnostic;
use crate::text::lex::{Kind, Lexer, Token, is_number};
use crate::types::{Const, Order, Scope, Type};
use crate::write::{self, Writer};

/// A function that is being read.
pub struct Body<'p, 't> {
    pub p: &'p mut Parser<'t>,
    pub writer: Writer,
    pub values: Names<'t, Value>,
    pub labels: Names<'t, Inst>,
    /// How many regions are open.
    pub depth: usize,
    /// Whether a brace is missing and reading goes on outside of the function.
    pub lost: bool,
    /// How many of the open regions have a head that was not understood.
    orphans: usize,
}

/// A result as the text names it, and its type where the text says it.
pub type Named = (Token, Option<Type>);

/// The start of something that may have to be read again.
pub type Start<'t> = (Lexer<'t>, Token);

impl<'p, 't> Body<'p, 't> {
    pub fn new(p: &'p mut Parser<'t>, writer: Writer) -> Self {
        Body { p, writer, values: HashMap::new(), labels: HashMap::new(), depth: 0, lost: false, orphans: 0 }
    }

    /// Names the function's parameters.
    pub fn define_params(&mut self, params: &[(Token, Type)]) {
        let values = self.writer.function().params;
        for ((token, _), value) in params.iter().zip(values.iter()) {
            self.define(*token, value);
        }
    }

    /// Reads the body after its brace.
    pub fn finish(mut self) -> Parsed<Function> {
        self.fill()?;
        Ok(self.writer.finish())
    }

    /// Reads the region that the writer has opened, after its brace, and closes it.
    pub fn fill(&mut self) -> Parsed<Place> {
        let brace = Place { start: self.p.read.last.saturating_sub(1), end: self.p.read.last };
        if self.depth == MAX_DEPTH {
            return Err(self.p.read.limit(brace, format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        self.statements();
        self.depth -= 1;
        let end = self.brace(brace)?;
        self.close(end);
        Ok(end)
    }

    /// Closes the region that the writer has open; the text ends it at a place.
    pub fn close(&mut self, end: Place) {
        let before = self.writer.function().insts().len();
        let region = self.writer.close();
        if self.writer.function().insts().len() > before {
            self.writer.place(Inst::new(before), end);
        }
        let ends = &mut self.writer.debug().ends;
        ends.resize(ends.len().max(region.index() + 1), Place::default());
        ends[region.index()] = end;
    }

    fn statements(&mut self) {
        loop {
            if matches!(self.p.read.token.kind, Kind::End | Kind::Mark(b'}')) || self.p.at_item() {
                return;
            }
            let start = self.start();
            if self.inst().is_err() {
                self.recover(start);
            }
        }
    }

    pub fn start(&self) -> Start<'t> {
        (self.p.read.lexer, self.p.read.token)
    }

    /// Goes past the brace that ends what another opened.
    pub fn brace(&mut self, open: Place) -> Parsed<Place> {
        if self.p.read.at(b'}') {
            return Ok(self.p.read.advance().place);
        }
        if !self.lost {
            self.lost = true;
            let note = format!("it closes the `{{` of line {}", self.p.read.line(open.start));
            let error = self.p.read.expected("`}`").note(note);
            self.p.read.error(error);
        }
        Err(Reported)
    }

    /// Passes over the rest of the line that an error was found in. Names that it mentions count as defined, and
    /// regions that it opens are read for their own errors.
    pub fn recover(&mut self, (lexer, token): Start<'t>) {
        if self.lost {
            return;
        }
        let error = self.p.read.token.place.start;
        if self.p.read.token.kind == Kind::End {
            return;
        }
        (self.p.read.lexer, self.p.read.token) = (lexer, token);
        let mut open = 0usize;
        loop {
            let next = self.p.read.token;
            let passed = next.place.start != token.place.start && next.place.start >= error;
            match next.kind {
                Kind::End => break,
                _ if passed && next.fresh => break,
                Kind::Mark(b'}') if passed && open == 0 => break,
                Kind::Mark(b'}') => open = open.saturating_sub(1),
                Kind::Mark(b'{') => open += 1,
                Kind::Value => {
                    self.values.entry(self.p.read.name(next)).or_insert((None, next.place.start));
                }
                Kind::Label => {
                    self.labels.entry(self.p.read.name(next)).or_insert((None, next.place.start));
                }
                _ => {}
            }
            self.p.read.advance();
        }
        for _ in 0..open {
            self.orphan();
        }
    }

    /// Reads a region whose head was not understood.
    fn orphan(&mut self) {
        let open = Place { start: self.p.read.last.saturating_sub(1), end: self.p.read.last };
        if self.depth == MAX_DEPTH {
            self.p.read.limit(open, format!("regions are nested more than {MAX_DEPTH} deep"));
            return;
        }
        self.depth += 1;
        self.orphans += 1;
        self.statements();
        self.orphans -= 1;
        self.depth -= 1;
        if self.brace(open).is_ok() && ["else", "do"].into_iter().any(|word| self.p.read.at_word(word)) {
            let start = self.start();
            self.recover(start);
        }
    }

    fn inst(&mut self) -> Parsed<()> {
        let start = self.p.read.token.place.start;
        let results = self.results()?;
        let token = self.p.read.token;
        let Some(name) = self.p.read.word() else {
            return Err(self.p.read.wrong("an instruction"));
        };
        let Some(op) = Op::named(name) else {
            if self.orphans > 0 && ["case", "default", "else", "do"].contains(&name) {
                // It belongs to the head that was not understood.
                return Err(Reported);
            }
            let error = self.p.read.unknown("instruction", token, TABLE.iter().map(|row| row.name));
            return Err(self.p.read.error(error));
        };
        if self.p.insts + self.writer.function().insts().len() >= MAX_INSTS {
            return Err(self.p.read.limit(token.place, format!("more than {MAX_INSTS} instructions")));
        }
        self.p.read.advance();
        if op.nests() {
            return self.nest(op, start, results);
        }
        let (attr, args) = self.rest(op)?;
        let types: Vec<Type> = args.iter().map(|arg| self.writer.function().operand_ty(*arg)).collect();
        let types = write::results(&self.p.module, op, &attr, &types);
        let types = self.agree(op, token, &results, types)?;
        let (inst, values) = self.writer.push(op, attr, args, &types);
        self.writer.place(inst, self.p.read.since(start));
        for ((token, _), value) in results.into_iter().zip(values.iter()) {
            self.define(token, value);
        }
        Ok(())
    }

    /// What stands before the `=`.
    fn results(&mut self) -> Parsed<Vec<Named>> {
        let mut results = Vec::new();
        if self.p.read.token.kind != Kind::Value {
            return Ok(results);
        }
        loop {
            let token = self.p.read.expect_kind(Kind::Value, "a result")?;
            let ty = if self.p.read.take(b':') { Some(self.p.ty()?) } else { None };
            results.push((token, ty));
            self.p.few(results.len(), "results", token)?;
            if !self.p.read.take(b',') {
                break;
            }
        }
        self.p.read.expect(b'=')?;
        Ok(results)
    }

    /// The types of an instruction's results: those that its row gives, or those that the text insists on.
    fn agree(&mut self, op: Op, token: Token, named: &[Named], types: Vec<Type>) -> Parsed<Vec<Type>> {
        let said: Option<Vec<Type>> = named.iter().map(|(_, ty)| *ty).collect();
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            return Ok(said);
        }
        if named.len() == types.len() {
            return Ok(types);
        }
        let count = |n: usize| if n == 1 { "1 result".to_string() } else { format!("{n} results") };
        let message = format!(
            "`{}` gives {}, but {} named",
            op.row().name,
            count(types.len()),
            match named.len() {
                0 => "none is".to_string(),
                1 => "1 is".to_string(),
                n => format!("{n} are"),
            }
        );
        let error =
            Diagnostic::new("syntax", token.place, message).label(format!("gives {}", count(types.len())));
        Err(self.p.read.error(error))
    }

    /// What follows the name of an op that has no regions.
    fn rest(&mut self, op: Op) -> Parsed<(Attr, Vec<Operand>)> {
        let row = op.row();
        let mut args = Vec::with_capacity(row.args.len());
        let attr = match row.form {
            Form::Plain => Attr::None,
            Form::Typed => Attr::Type(self.p.ty()?),
            Form::Buffer => Attr::Buffer(self.buffer()?),
            Form::Place => Attr::Buffer(self.element(&mut args)?),
            Form::Wide | Form::Atomic => {
                let (order, scope) = self.ordering()?;
                Attr::Atomic(self.element(&mut args)?, order, scope)
            }
            Form::Fence => {
                let (order, scope) = self.ordering()?;
                Attr::Fence(order, scope)
            }
            Form::Copy => {
                let to = self.element(&mut args)?;
                self.p.read.expect(b',')?;
                Attr::Copy { to, from: self.element(&mut args)? }
            }
            Form::Control => return self.jump(op),
        };
        if args.is_empty() {
            self.operands(&mut args, row.args.is_empty())?;
        } else if self.p.read.take(b',') {
            self.operand_list(&mut args)?;
        }
        Ok((attr, args))
    }

    fn ordering(&mut self) -> Parsed<(Order, Scope)> {
        let order = self.p.read.expect_one("an order", Order::ALL, Order::word)?;
        let scope = self.p.read.expect_one("a scope", Scope::ALL, Scope::word)?;
        Ok((order, scope))
    }

    fn buffer(&mut self) -> Parsed<Buffer> {
        let token = self.p.read.expect_kind(Kind::Buffer, "a buffer")?;
        match self.p.buffers.get(self.p.read.name(token)) {
            Some((known, _)) => Ok(known.unwrap_or(Buffer::new(0))),
            None => {
                let names = self.p.module.buffers.iter().map(|(_, buffer)| buffer.name.as_str());
                let error = self.p.read.unknown("buffer", token, names);
                Err(self.p.read.error(error))
            }
        }
    }

    /// `@b[%i]`
    fn element(&mut self, args: &mut Vec<Operand>) -> Parsed<Buffer> {
        let buffer = self.buffer()?;
        self.p.read.expect(b'[')?;
        args.push(self.operand()?);
        self.p.read.expect(b']')?;
        Ok(buffer)
    }

    /// Operands, if there are any. Where there need be none, a value may also be the next instruction's result.
    pub fn operands(&mut self, args: &mut Vec<Operand>, optional: bool) -> Parsed<()> {
        let begins = match self.p.read.token.kind {
            Kind::Number => true,
            Kind::Word => self.p.read.word().and_then(literal::word).is_some(),
            Kind::Value => !optional || !self.assigns(),
            _ => false,
        };
        if begins { self.operand_list(args) } else { Ok(()) }
    }

    pub fn operand_list(&mut self, args: &mut Vec<Operand>) -> Parsed<()> {
        loop {
            let token = self.p.read.token;
            args.push(self.operand()?);
            self.p.few(args.len(), "operands", token)?;
            if !self.p.read.take(b',') {
                return Ok(());
            }
        }
    }

    /// Whether the values that come next are results: `=` follows them.
    fn assigns(&self) -> bool {
        let (mut lexer, mut token) = self.start();
        // Longer lists than these are errors either way.
        for _ in 0..=MAX_ARGS {
            if token.kind != Kind::Value {
                return false;
            }
            token = lexer.token();
            if token.kind == Kind::Mark(b':') {
                lexer.token();
                token = lexer.token();
            }
            match token.kind {
                Kind::Mark(b',') => token = lexer.token(),
                kind => return kind == Kind::Mark(b'='),
            }
        }
        false
    }

    pub fn operand(&mut self) -> Parsed<Operand> {
        let token = self.p.read.token;
        match token.kind {
            Kind::Value => Ok(self.value(token)),
            Kind::Number => match literal::number(self.p.read.slice(token), Type::U32) {
                Ok(c) => {
                    self.p.read.advance();
                    Ok(c.into())
                }
                Err(why) => Err(self.p.bad_literal(token, why)),
            },
            _ => match self.p.read.word().and_then(literal::word) {
                Some(c) => {
                    self.p.read.advance();
                    Ok(c.into())
                }
                None => Err(self.p.read.wrong("a value or a constant")),
            },
        }
    }

    /// The value that a name stands for. An unknown one is reported once.
    fn value(&mut self, token: Token) -> Operand {
        let name = self.p.read.name(token);
        self.p.read.advance();
        let known = match self.values.get(name) {
            Some((known, _)) => *known,
            None => {
                let names = &self.writer.function().debug.values;
                let names = names.iter().rev().map(|name| &**name).filter(|name| !name.is_empty());
                let error = self.p.read.unknown("value", token, names);
                self.p.read.error(error);
                self.values.insert(name, (None, token.place.start));
                None
            }
        };
        known.map_or(Operand::Const(Const::zero(Type::U32)), Operand::Value)
    }

    /// Gives a value its name.
    pub fn define(&mut self, token: Token, value: Value) {
        let name = self.p.read.name(token);
        if self.p.read.check_name(token, name).is_err() {
            return;
        }
        if let Some((known, first)) = self.values.insert(name, (Some(value), token.place.start)) {
            self.values.insert(name, (known, first));
            if known.is_some() {
                self.p.read.duplicate("value", token, first);
            }
        } else if !is_number(name) {
            let names = &mut self.writer.debug().values;
            names.resize(names.len().max(value.index() + 1), Box::default());
            names[value.index()] = name.into();
        }
    }
}
