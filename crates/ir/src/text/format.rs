//! The formatter, which prints the module of a text and keeps the comments.
//!
//! The printer decides what lines there are. Each line knows where the text had it, so a comment that follows the
//! last token of a line stays there, and any other goes on a line of its own before the next thing that is printed.
//! Numbers keep their spelling, and of the empty lines between things one is left.

use super::lex::{Lexer, TokenKind};
use super::parse::{Source, literal, source};
use super::print::{Hook, ModulePrinter, indent, push};
use super::{Diagnostic, PrintedLine};
use crate::arena::{Func, Handle, Region};
use crate::module::{Module, TextPlace};
use crate::types::{Const, Len, Type};

/// Prints a text's module with the comments of the text.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let Source { module, marks } = source(text)?;
    let place = |line: PrintedLine| match line {
        PrintedLine::Buffer(buffer) => module.buffers[buffer].place,
        PrintedLine::Head(func) => module.functions[func].debug.head,
        PrintedLine::Inst(func, inst) => module.functions[func].debug.places[inst.index()],
        PrintedLine::End(func, region) => end(&module, func, region),
        PrintedLine::Need(_) | PrintedLine::Arm(..) | PrintedLine::Close(..) => {
            marks.get(&line).copied().unwrap_or_default()
        }
    };
    let keeper =
        Keeper { text, place, comments: comments(text), next: 0, numbers: Lexer::new(""), first: true };
    let (mut out, mut keeper) = ModulePrinter::new(&module, keeper).module();
    keeper.flush(text.len(), false, 0, &mut out);
    debug_assert!(super::parse(&out).ok().as_ref() == Some(&module), "formatting changed the module");
    Ok(out)
}

/// Where a region's brace is.
fn end(module: &Module, func: Func, region: Region) -> TextPlace {
    module.functions[func].debug.ends[region.index()]
}

/// A comment of a text.
struct Comment {
    place: TextPlace,
    /// The end of the token before it on its line, if there is one.
    after: Option<u32>,
}

/// The comments of a text, in order.
fn comments(text: &str) -> Vec<Comment> {
    let mut lexer = Lexer::new(text);
    let mut comments = Vec::new();
    let mut last = 0;
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End => return comments,
            TokenKind::Comment => {
                let after = (!token.fresh).then_some(last);
                comments.push(Comment { place: token.place, after });
            }
            _ => last = token.place.end,
        }
    }
}

/// Keeps comments, empty lines and the spelling of numbers.
struct Keeper<'t, P> {
    text: &'t str,
    /// Where the text has what a line shows.
    place: P,
    comments: Vec<Comment>,
    /// The first comment that is not printed yet.
    next: usize,
    /// What of the line's text is still to be searched for numbers.
    numbers: Lexer<'t>,
    /// Whether nothing precedes in the region or the text.
    first: bool,
}

impl<'t, P: Fn(PrintedLine) -> TextPlace> Keeper<'t, P> {
    /// Prints the comments that begin before a byte on lines of their own, the first `apart` from what precedes.
    fn flush(&mut self, end: usize, mut apart: bool, depth: usize, out: &mut String) -> bool {
        while let Some(comment) = self.comments.get(self.next).filter(|c| (c.place.start as usize) < end) {
            if !self.first && (apart || self.spaced(comment.place.start)) {
                out.push('\n');
            }
            (apart, self.first) = (false, false);
            indent(out, depth);
            push(out, format_args!("{}\n", self.text[comment.place.range()].trim_end()));
            self.next += 1;
        }
        apart
    }

    /// Whether the text has an empty line before a byte.
    fn spaced(&self, at: u32) -> bool {
        let before = self.text.as_bytes()[..at as usize].iter().rev();
        before.take_while(|byte| byte.is_ascii_whitespace()).filter(|byte| **byte == b'\n').count() > 1
    }

    /// The next number in the line's text that means what is wanted.
    fn number(&mut self, plain: Type, wanted: impl Fn(Const) -> bool) -> Option<&'t str> {
        loop {
            let token = self.numbers.next();
            let text = &self.text[token.place.range()];
            match token.kind {
                TokenKind::End => return None,
                TokenKind::Number if literal::number(text, plain).is_ok_and(&wanted) => return Some(text),
                _ => {}
            }
        }
    }
}

impl<P: Fn(PrintedLine) -> TextPlace> Hook for Keeper<'_, P> {
    fn before(&mut self, line: PrintedLine, apart: bool, depth: usize, out: &mut String) {
        let place = (self.place)(line);
        self.numbers = Lexer::within(self.text, place);
        let apart = self.flush(place.end as usize, apart, depth, out);
        // A brace follows directly on what it ends.
        let ends = matches!(line, PrintedLine::End(..) | PrintedLine::Close(..))
            || self.text[place.range()].starts_with('}');
        if !self.first && (apart || (!ends && self.spaced(place.start))) {
            out.push('\n');
        }
        self.first = false;
    }

    fn after(&mut self, line: PrintedLine, out: &mut String) {
        let place = (self.place)(line);
        self.first = self.text[place.range()].ends_with('{');
        let trailing = self.comments.get(self.next).filter(|comment| comment.after == Some(place.end));
        if let Some(comment) = trailing {
            push(out, format_args!("  {}", self.text[comment.place.range()].trim_end()));
            self.next += 1;
        }
    }

    fn literal(&mut self, value: Const, out: &mut String) {
        let usual = value.to_string();
        let spelt =
            if literal::word(&usual).is_some() { None } else { self.number(Type::U32, |c| c == value) };
        out.push_str(spelt.unwrap_or(&usual));
    }

    fn len(&mut self, len: Len, out: &mut String) {
        let spelt = match len {
            Len::Fixed(n) => self.number(Type::U64, |c| c.bits() == n),
            Len::Launch => None,
        };
        match spelt {
            Some(spelt) => out.push_str(spelt),
            None => push(out, format_args!("{len}")),
        }
    }

    fn leads(&self, import: PrintedLine, buffer: PrintedLine) -> bool {
        (self.place)(import).start < (self.place)(buffer).start
    }

    fn keeps(&self, func: Func, region: Region) -> bool {
        let (head, end) =
            ((self.place)(PrintedLine::Arm(func, region)), (self.place)(PrintedLine::End(func, region)));
        // One that the text does not have has no head.
        let inside = head.end..end.start;
        let from = self.comments.partition_point(|comment| comment.place.start < inside.start);
        head.end > 0 && self.comments.get(from).is_some_and(|comment| inside.contains(&comment.place.start))
    }
}
