//! The parser, which reads modules from text.
//!
//! One pass over the tokens, writing through [`FunctionWriter`] as the builder does. An error does not end the pass:
//! the rest of its line is passed over, what the line would have defined counts as defined, and reading goes on, so
//! several mistakes are reported at once and none because of another. Types are not checked here; the validator does
//! that, also of a text with mistakes, in which it passes over what depends on them: [`PartialModule`].

mod body;
mod control;
mod inst;
pub(super) mod literal;
mod near;
mod read;

pub use self::near::nearest_name;

use std::collections::{HashMap, HashSet};

use self::body::BodyParser;
use self::read::{Parsed, TokenReader};
use super::lex::{Token, TokenKind};
use super::{Diagnostic, PrintedLine};
use crate::arena::{Buffer, Func, Handle, Inst};
use crate::limits::{MAX_ARGS, MAX_BUFFERS, MAX_FUNCTIONS, MAX_TEXT};
use crate::module::{self, BufferDecl, ImportFlow, Module, TextPlace};
use crate::types::{Access, Const, Len, Need, Space, Type};
use crate::write::FunctionWriter;

/// Parses a module. If the text has mistakes, all of them are returned, each with its place.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    source(text).map(|source| source.module)
}

/// Parses a constant, such as `7`, `-7i32` or `0.5`. An integer without a suffix has the type `plain`. The error is a
/// clause that says what is wrong.
pub fn parse_constant(word: &str, plain: Type) -> Result<Const, String> {
    literal::word(word).map_or_else(|| literal::number(word, plain), Ok)
}

/// A module and where its text has what [`Debug`](module::DebugInfo) does not keep.
pub(super) struct Source {
    pub module: Module,
    pub marks: HashMap<PrintedLine, TextPlace>,
}

/// Reads a module with the places that formatting needs.
pub(super) fn source(text: &str) -> Result<Source, Vec<Diagnostic>> {
    let parser = parse_text(text)?;
    if parser.read.errors.is_empty() {
        Ok(Source { module: parser.module, marks: parser.marks })
    } else {
        Err(parser.read.errors)
    }
}

/// A text with mistakes, as far as it could be read.
pub(crate) struct PartialModule {
    /// What was read. Functions are there if their head was understood and their braces match.
    pub module: Module,
    /// What is wrong with the text.
    pub errors: Vec<Diagnostic>,
    /// By function, what cannot be judged; none if nothing of it can.
    pub doubts: Vec<Option<UnsureInsts>>,
}

/// Instructions of a function that say nothing about the program, because of a mistake in the text: those with an
/// operand in place of one that was not read, and ends that nobody wrote of regions in which a line was not read.
pub(crate) type UnsureInsts = HashSet<Inst>;

/// Reads a module as far as possible. If there are so many errors that the rest is not read, they are all there is.
pub(crate) fn partial(text: &str) -> PartialModule {
    let nothing = |errors| PartialModule { module: Module::default(), errors, doubts: Vec::new() };
    match parse_text(text) {
        Err(errors) => nothing(errors),
        Ok(Parser { read, .. }) if read.is_done() => nothing(read.errors),
        Ok(Parser { read, module, doubts, .. }) => PartialModule { module, errors: read.errors, doubts },
    }
}

fn parse_text(text: &str) -> Result<Parser<'_>, Vec<Diagnostic>> {
    if text.len() > MAX_TEXT {
        let message = format!("the text has {} bytes, but at most {MAX_TEXT} are allowed", text.len());
        return Err(vec![Diagnostic::new("limit", TextPlace::default(), message)]);
    }
    let mut parser = Parser::new(text);
    parser.items();
    Ok(parser)
}

/// What names stand for, and where they were defined first. A name whose definition has an error stands for `None`, so
/// that its uses cause no further errors.
type KnownNames<'t, T> = HashMap<&'t str, (Option<T>, u32)>;

/// The name of a function, its parameters and the types of its results.
type FunctionHead<'t> = (&'t str, Vec<(Token, Type)>, Vec<Type>);

/// A module that is being read.
struct Parser<'t> {
    read: TokenReader<'t>,
    module: Module,
    marks: HashMap<PrintedLine, TextPlace>,
    buffers: KnownNames<'t, Buffer>,
    functions: KnownNames<'t, Func>,
    /// Instructions of the functions so far.
    insts: usize,
    /// By function, what cannot be judged; none if nothing of it can.
    doubts: Vec<Option<UnsureInsts>>,
}

/// The words that begin what stands outside of functions.
const ITEMS: &[&str] = &["need", "import", "buffer", "fn", "kernel"];

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Parser {
            read: TokenReader::new(text),
            module: Module::default(),
            marks: HashMap::new(),
            buffers: HashMap::new(),
            functions: HashMap::new(),
            insts: 0,
            doubts: Vec::new(),
        }
    }

    fn items(&mut self) {
        while self.read.token.kind != TokenKind::End {
            let start = self.read.token.place.start;
            if !self.read.word().is_some_and(|word| ITEMS.contains(&word)) {
                // A brace too many has ended the function before, which is more than was read of it.
                self.doubts.last_mut().into_iter().for_each(|doubts| *doubts = None);
            }
            if self.item().is_err() {
                self.recover(start);
            }
        }
    }

    fn item(&mut self) -> Parsed<()> {
        match self.read.word() {
            Some("need") => self.need(),
            Some("import") => self.import(),
            Some("buffer") => self.buffer(),
            Some("fn") => self.function(module::FunctionKind::Function),
            Some("kernel") => self.function(module::FunctionKind::Kernel),
            _ => Err(self.read.wrong("`need`, `import`, `buffer`, `fn` or `kernel`")),
        }
    }

    /// Whether a line comes next that begins an item.
    fn at_item(&self) -> bool {
        self.read.token.fresh && self.read.word().is_some_and(|word| ITEMS.contains(&word))
    }

    /// Goes to the next line after one with an error, or after the braces that it opens.
    fn recover(&mut self, start: u32) {
        let mut open = 0usize;
        loop {
            let token = self.read.token;
            let passed = token.fresh && token.place.start != start;
            match token.kind {
                TokenKind::End => return,
                _ if passed && (open == 0 || self.at_item()) => return,
                TokenKind::Mark(b'{') => open += 1,
                TokenKind::Mark(b'}') => open = open.saturating_sub(1),
                _ => {}
            }
            self.read.advance();
        }
    }

    /// Reports an item that stands after one of a later kind.
    fn order(&mut self, late: bool, message: &str) {
        if late {
            let error = Diagnostic::new("syntax", self.read.token.place, message.into());
            self.read.error(error.label("move it up"));
        }
    }

    fn need(&mut self) -> Parsed<()> {
        let late = !self.module.buffers.is_empty() || !self.module.functions.is_empty();
        self.order(late, "needs must come before imports, buffers and functions");
        let start = self.read.advance().place.start;
        let token = self.read.token;
        let need = self.read.expect_one("a need", Need::ALL, Need::word)?;
        if self.module.needs.contains(&need) {
            let error =
                Diagnostic::new("duplicate", token.place, format!("the need `{need}` is listed twice"));
            return Err(self.read.error(error.label("listed again")));
        }
        self.marks.insert(PrintedLine::Need(self.module.needs.len()), self.read.since(start));
        self.module.needs.push(need);
        Ok(())
    }

    fn buffer(&mut self) -> Parsed<()> {
        let late = self.module.functions.iter().any(|(_, function)| !function.is_import());
        self.order(late, "buffers must come before functions");
        let start = self.read.advance().place.start;
        let token = self.read.expect_kind(TokenKind::Word, "the buffer's name")?;
        let name = self.read.slice(token);
        self.read.check_name(token, name)?;
        if let Some((_, first)) = self.buffers.get(name) {
            return Err(self.read.duplicate("buffer", token, *first));
        }
        self.buffers.insert(name, (None, token.place.start));
        if self.module.buffers.len() == MAX_BUFFERS {
            return Err(self
                .read
                .limit(token.place, format!("the module has more than {MAX_BUFFERS} buffers")));
        }
        self.read.expect_mark(b':')?;
        self.read.expect_mark(b'[')?;
        let elem = self.ty()?;
        self.read.expect_mark(b';')?;
        let len = self.len()?;
        self.read.expect_mark(b']')?;
        let space = self.read.expect_one("a space", Space::ALL, Space::word)?;
        let access = self.read.expect_one("an access", Access::ALL, Access::word)?;
        let place = self.read.since(start);
        let decl = BufferDecl { name: name.into(), elem, len, space, access, place };
        let buffer = self.module.buffers.push(decl);
        self.buffers.insert(name, (Some(buffer), token.place.start));
        Ok(())
    }

    fn ty(&mut self) -> Parsed<Type> {
        self.read.expect_one("a type", Type::ALL, Type::word)
    }

    fn len(&mut self) -> Parsed<Len> {
        if self.read.take_mark(b'?') {
            return Ok(Len::Launch);
        }
        let token = self.read.expect_kind(TokenKind::Number, "a number of elements or `?`")?;
        let text = self.read.slice(token);
        match literal::number(text, Type::U64) {
            Ok(c) if matches!(c.ty(), Type::U32 | Type::U64) => Ok(Len::Fixed(c.bits())),
            Err(why) if !text.starts_with('-') => Err(self.bad_literal(token, why)),
            _ => Err(self.bad_literal(token, "is not a number of elements".into())),
        }
    }

    /// Reads `import fn` or `import uniform fn`, and the function's head.
    fn import(&mut self) -> Parsed<()> {
        let start = self.read.advance().place.start;
        let flow = match self.read.word() {
            Some("uniform") => {
                self.read.advance();
                ImportFlow::Uniform
            }
            _ => ImportFlow::Any,
        };
        match (self.read.word(), flow) {
            (Some("fn"), _) => self.read.advance(),
            (_, ImportFlow::Any) => return Err(self.read.missing("`fn` or `uniform fn`")),
            (_, ImportFlow::Uniform) => return Err(self.read.missing("`fn`")),
        };
        let errors = self.read.errors.len();
        let (name, params, results) = self.head()?;
        let sound = self.read.errors.len() == errors;
        if self.read.at_mark(b'{') {
            let error = Diagnostic::new("syntax", self.read.token.place, "an import has no body".into());
            return Err(self.read.error(error.label("remove the body, or the word `import`")));
        }
        let types: Vec<Type> = params.iter().map(|(_, ty)| *ty).collect();
        let head = self.read.since(start);
        let mut body = BodyParser::new(
            self,
            FunctionWriter::new(name, module::FunctionKind::Import(flow), &types, &results),
        );
        body.writer.debug_mut().head = head;
        body.define_params(&params);
        let (function, doubts) = (body.writer.finish_import(), body.doubts);
        self.keep(name, function, doubts.filter(|_| sound));
        Ok(())
    }

    fn function(&mut self, kind: module::FunctionKind) -> Parsed<()> {
        let errors = self.read.errors.len();
        let start = self.read.advance().place.start;
        let (name, params, results) = self.head()?;
        self.read.expect_mark(b'{')?;
        let head = self.read.since(start);
        let sound = self.read.errors.len() == errors;

        let types: Vec<Type> = params.iter().map(|(_, ty)| *ty).collect();
        let mut body = BodyParser::new(self, FunctionWriter::new(name, kind, &types, &results));
        body.writer.debug_mut().head = head;
        body.define_params(&params);
        let (function, doubts) = body.finish()?;
        self.keep(name, function, doubts.filter(|_| sound));
        Ok(())
    }

    /// Adds a function that has been read.
    fn keep(&mut self, name: &'t str, function: module::Function, doubts: Option<UnsureInsts>) {
        self.insts += function.insts().len();
        let func = self.module.functions.push(function);
        self.doubts.push(doubts);
        self.functions.entry(name).and_modify(|(known, _)| *known = Some(func));
    }

    /// Reads the name, the parameters and the results of a function.
    fn head(&mut self) -> Parsed<FunctionHead<'t>> {
        let token = self.read.expect_kind(TokenKind::Word, "the function's name")?;
        let name = self.read.slice(token);
        self.read.check_name(token, name)?;
        if self.module.functions.len() == MAX_FUNCTIONS {
            return Err(self
                .read
                .limit(token.place, format!("the module has more than {MAX_FUNCTIONS} functions")));
        }
        match self.functions.get(name) {
            // The body may have errors of its own, so reading goes on.
            Some((_, first)) => {
                self.read.duplicate("function", token, *first);
            }
            None => {
                self.functions.insert(name, (None, token.place.start));
            }
        }
        Ok((name, self.params()?, self.results()?))
    }

    fn params(&mut self) -> Parsed<Vec<(Token, Type)>> {
        let mut params = Vec::new();
        if !self.read.take_mark(b'(') {
            return Ok(params);
        }
        while !self.read.take_mark(b')') {
            if !params.is_empty() {
                self.read.expect_mark(b',')?;
            }
            let token = self.read.expect_kind(TokenKind::Value, "a parameter")?;
            self.read.expect_mark(b':')?;
            params.push((token, self.ty()?));
            self.check_count(params.len(), "parameters", token)?;
        }
        Ok(params)
    }

    fn results(&mut self) -> Parsed<Vec<Type>> {
        if self.read.token.kind != TokenKind::Arrow {
            return Ok(Vec::new());
        }
        let token = self.read.advance();
        if !self.read.take_mark(b'(') {
            return Ok(vec![self.ty()?]);
        }
        let mut types = Vec::new();
        while !self.read.take_mark(b')') {
            if !types.is_empty() {
                self.read.expect_mark(b',')?;
            }
            types.push(self.ty()?);
            self.check_count(types.len(), "results", token)?;
        }
        Ok(types)
    }

    /// Checks the length of a list against the limit.
    fn check_count(&mut self, len: usize, what: &str, token: Token) -> Parsed<()> {
        if len > MAX_ARGS {
            return Err(self.read.limit(token.place, format!("there are more than {MAX_ARGS} {what}")));
        }
        Ok(())
    }

    fn bad_literal(&mut self, token: Token, why: String) -> read::Reported {
        self.read.error(Diagnostic::new("literal", token.place, format!("the literal {why}")))
    }

    /// The handle that the function which is being read will have.
    fn func(&self) -> Func {
        Func::new(self.module.functions.len())
    }
}
