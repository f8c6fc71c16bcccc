//! One instruction: its results, its op, its operands, and the names it gives.

use super::body::{BodyParser, NamedResult, UnreadPart};
use super::literal;
use super::read::{Parsed, Reported};
use crate::arena::{Buffer, Handle, Value};
use crate::limits::{MAX_ARGS, MAX_INSTS};
use crate::module::{Attr, Operand};
use crate::op::{Op, OpForm, TABLE};
use crate::text::Diagnostic;
use crate::text::lex::{Token, TokenKind, is_number};
use crate::types::{Const, Order, Scope, Type};
use crate::write;

impl BodyParser<'_, '_> {
    pub(crate) fn inst(&mut self) -> Parsed<()> {
        let start = self.p.read.token.place.start;
        self.blank = UnreadPart::None;
        let results = self.results()?;
        let token = self.p.read.token;
        let Some(name) = self.p.read.word() else {
            let mut error = self.p.read.expected("an instruction");
            if !results.is_empty() && matches!(token.kind, TokenKind::Number | TokenKind::Value) {
                error = error.note(
                    "no instruction copies a value: use the value or constant directly where it is needed",
                );
            }
            return Err(self.p.read.error(error));
        };
        let Some(op) = Op::from_name(name) else {
            if self.orphans > 0 && ["case", "default", "else", "do"].contains(&name) {
                // It belongs to the head that was not understood.
                return Err(Reported);
            }
            let error = self.p.read.unknown("instruction", token, TABLE.iter().map(|row| row.name));
            return Err(self.p.read.error(error));
        };
        if self.p.insts + self.writer.function().insts().len() >= MAX_INSTS {
            return Err(self
                .p
                .read
                .limit(token.place, format!("the module has more than {MAX_INSTS} instructions")));
        }
        self.p.read.advance();
        if op.has_regions() {
            let nested = self.nest(op, start, results);
            if nested.is_err() {
                self.doubts = None;
            }
            return nested;
        }
        let (attr, args) = self.rest(op)?;
        let types: Vec<Type> = args.iter().map(|arg| self.writer.function().operand_ty(*arg)).collect();
        let types = write::result_types(&self.p.module, op, &attr, &types);
        let types = self.agree(op, token, &results, types)?;
        let (inst, values) = self.writer.push(op, attr, args, &types);
        self.writer.set_place(inst, self.p.read.since(start));
        if self.blank != UnreadPart::None {
            self.doubt(inst);
        }
        for ((token, _), value) in results.into_iter().zip(values.iter()) {
            self.define(token, value);
        }
        Ok(())
    }

    /// What stands before the `=`.
    fn results(&mut self) -> Parsed<Vec<NamedResult>> {
        let mut results = Vec::new();
        if self.p.read.token.kind != TokenKind::Value {
            return Ok(results);
        }
        if !self.p.read.token.fresh && !self.assigns() {
            return Err(self.p.read.wrong("`,` or an instruction"));
        }
        loop {
            let token = self.p.read.expect_kind(TokenKind::Value, "a result")?;
            let ty = if self.p.read.take_mark(b':') { Some(self.p.ty()?) } else { None };
            results.push((token, ty));
            self.p.check_count(results.len(), "results", token)?;
            if !self.p.read.take_mark(b',') {
                break;
            }
        }
        self.p.read.expect_mark(b'=')?;
        Ok(results)
    }

    /// The types of an instruction's results: those that its row gives, or those that the text insists on.
    fn agree(&mut self, op: Op, token: Token, named: &[NamedResult], types: Vec<Type>) -> Parsed<Vec<Type>> {
        let said: Option<Vec<Type>> = named.iter().map(|(_, ty)| *ty).collect();
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            return Ok(said);
        }
        if named.len() == types.len() {
            return Ok(types);
        }
        if self.blank == UnreadPart::Shape {
            return Ok(vec![Type::U32; named.len()]);
        }
        let count = |n: usize| if n == 1 { "1 result".to_string() } else { format!("{n} results") };
        let message = format!(
            "`{}` has {}, but {} named",
            op.row().name,
            count(types.len()),
            match named.len() {
                0 => "none is".to_string(),
                1 => "1 is".to_string(),
                n => format!("{n} are"),
            }
        );
        let error =
            Diagnostic::new("syntax", token.place, message).label(format!("has {}", count(types.len())));
        Err(self.p.read.error(error))
    }

    /// What follows the name of an op that has no regions.
    fn rest(&mut self, op: Op) -> Parsed<(Attr, Vec<Operand>)> {
        let row = op.row();
        let mut args = Vec::with_capacity(row.args.len());
        let attr = match row.form {
            OpForm::Plain => Attr::None,
            OpForm::Typed => Attr::Type(self.p.ty()?),
            OpForm::Buffer => Attr::Buffer(self.buffer()?),
            OpForm::Place => Attr::Buffer(self.element(&mut args)?),
            OpForm::Wide | OpForm::Atomic => {
                let (order, scope) = self.ordering()?;
                Attr::Atomic(self.element(&mut args)?, order, scope)
            }
            OpForm::Fence => {
                let (order, scope) = self.ordering()?;
                Attr::Fence(order, scope)
            }
            OpForm::Copy => {
                let to = self.element(&mut args)?;
                self.p.read.expect_mark(b',')?;
                Attr::Copy { to, from: self.element(&mut args)? }
            }
            OpForm::Control => return self.jump(op),
        };
        if args.is_empty() {
            self.operands(&mut args, row.args.is_empty())?;
        } else if self.p.read.take_mark(b',') {
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
        let token = self.p.read.expect_kind(TokenKind::Buffer, "a buffer")?;
        match self.p.buffers.get(self.p.read.name(token)) {
            Some((known, _)) => {
                if known.is_none() {
                    self.blank = UnreadPart::Shape;
                }
                Ok(known.unwrap_or(Buffer::new(0)))
            }
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
        self.p.read.expect_mark(b'[')?;
        args.push(self.operand()?);
        self.p.read.expect_mark(b']')?;
        Ok(buffer)
    }

    /// Operands, if there are any. Where there need be none, a value may also be the next instruction's result.
    pub(crate) fn operands(&mut self, args: &mut Vec<Operand>, optional: bool) -> Parsed<()> {
        let Token { kind, fresh, .. } = self.p.read.token;
        let begins = match kind {
            TokenKind::Number => true,
            TokenKind::Word => self.p.read.word().and_then(literal::word).is_some(),
            TokenKind::Value => !(optional || fresh) || !self.assigns(),
            _ => false,
        };
        // Where there are none at all, the validator says how many there should be.
        if begins || !(optional || fresh || self.p.read.at_mark(b'}')) {
            self.operand_list(args)
        } else {
            Ok(())
        }
    }

    pub(crate) fn operand_list(&mut self, args: &mut Vec<Operand>) -> Parsed<()> {
        loop {
            let token = self.p.read.token;
            args.push(self.operand()?);
            self.p.check_count(args.len(), "operands", token)?;
            if !self.p.read.take_mark(b',') {
                return Ok(());
            }
        }
    }

    /// Whether the values that come next are results: `=` follows them.
    fn assigns(&self) -> bool {
        let (mut lexer, mut token) = self.start();
        // Longer lists than these are errors either way.
        for _ in 0..=MAX_ARGS {
            if token.kind != TokenKind::Value {
                return false;
            }
            token = lexer.token();
            if token.kind == TokenKind::Mark(b':') {
                lexer.token();
                token = lexer.token();
            }
            match token.kind {
                TokenKind::Mark(b',') => token = lexer.token(),
                kind => return kind == TokenKind::Mark(b'='),
            }
        }
        false
    }

    pub(crate) fn operand(&mut self) -> Parsed<Operand> {
        let token = self.p.read.token;
        match token.kind {
            TokenKind::Value => Ok(self.value(token)),
            TokenKind::Number => match literal::number(self.p.read.slice(token), Type::U32) {
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
                None => Err(self.p.read.missing("a value or a constant")),
            },
        }
    }

    /// The value that a name stands for. An unknown one is reported once.
    fn value(&mut self, token: Token) -> Operand {
        let name = self.p.read.name(token);
        self.p.read.advance();
        let known = match self.values.get(name) {
            Some((known, _)) => {
                if known.is_none() || self.twice.contains(name) {
                    self.blank = self.blank.max(UnreadPart::Operand);
                }
                *known
            }
            None => {
                let names = &self.writer.function().debug.values;
                let names = names.iter().rev().map(|name| &**name).filter(|name| !name.is_empty());
                let error = self.p.read.unknown("value", token, names);
                self.p.read.error(error);
                self.values.insert(name, (None, token.place.start));
                self.blank = self.blank.max(UnreadPart::Operand);
                None
            }
        };
        known.map_or(Operand::Const(Const::zero(Type::U32)), Operand::Value)
    }

    /// Gives a value its name.
    pub(crate) fn define(&mut self, token: Token, value: Value) {
        let name = self.p.read.name(token);
        if self.p.read.check_name(token, name).is_err() {
            return;
        }
        if let Some((known, first)) = self.values.insert(name, (Some(value), token.place.start)) {
            self.values.insert(name, (known, first));
            if known.is_some() {
                self.twice.insert(name);
                self.p.read.duplicate("value", token, first);
            }
        } else if !is_number(name) {
            let names = &mut self.writer.debug_mut().values;
            names.resize(names.len().max(value.index() + 1), Box::default());
            names[value.index()] = name.into();
        }
    }
}
