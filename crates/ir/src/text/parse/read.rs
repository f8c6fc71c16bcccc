//! Reading tokens for the parser: the next token, what is expected there, and the errors that have been found.

use super::near;
use crate::limits::MAX_NAME;
use crate::module::TextPlace;
use crate::text::Diagnostic;
use crate::text::lex::{Lexer, Token, TokenKind, is_name, is_number};

/// The number of errors after which the rest of a text is not read.
const MAX_ERRORS: usize = 20;

/// The most names that are compared with an unknown name to find a suggestion.
const MAX_NEAR: usize = 4096;

/// The proof that an error has been reported, so that the caller does not report another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

/// The result of a step of the parser.
pub(crate) type Parsed<T> = Result<T, Reported>;

/// A text that is being read. A copy of its lexer and its token is a position to which the parser can return.
pub(crate) struct TokenReader<'t> {
    pub text: &'t str,
    pub lexer: Lexer<'t>,
    /// The token that comes next.
    pub token: Token,
    /// The end of the token before.
    pub last: u32,
    pub errors: Vec<Diagnostic>,
    /// Whether the rest of the text is not to be read.
    done: bool,
}

impl<'t> TokenReader<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.token();
        TokenReader { text, lexer, token, last: 0, errors: Vec::new(), done: false }
    }

    /// Returns the next token and goes past it.
    pub(crate) fn advance(&mut self) -> Token {
        let token = self.token;
        self.last = token.place.end;
        if !self.done {
            self.token = self.lexer.token();
        }
        token
    }

    /// The text of a token.
    pub(crate) fn slice(&self, token: Token) -> &'t str {
        &self.text[token.place.range()]
    }

    /// The name that a token with a sigil gives.
    pub(crate) fn name(&self, token: Token) -> &'t str {
        &self.text[token.place.start as usize + 1..token.place.end as usize]
    }

    /// The next token's text, if it is a word.
    pub(crate) fn word(&self) -> Option<&'t str> {
        (self.token.kind == TokenKind::Word).then(|| self.slice(self.token))
    }

    /// Whether the next token is this mark.
    pub(crate) fn at_mark(&self, mark: u8) -> bool {
        self.token.kind == TokenKind::Mark(mark)
    }

    /// Whether the next token is this word.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    /// Goes past a mark, if it comes next.
    pub(crate) fn take_mark(&mut self, mark: u8) -> bool {
        let found = self.at_mark(mark);
        if found {
            self.advance();
        }
        found
    }

    /// Goes past a mark that must come next.
    pub(crate) fn expect_mark(&mut self, mark: u8) -> Parsed<Token> {
        if self.at_mark(mark) {
            Ok(self.advance())
        } else {
            Err(self.missing(&format!("`{}`", mark as char)))
        }
    }

    /// Goes past a word that must come next.
    pub(crate) fn expect_word(&mut self, word: &str) -> Parsed<Token> {
        if self.at_word(word) { Ok(self.advance()) } else { Err(self.missing(&format!("`{word}`"))) }
    }

    /// Goes past a token of a kind that must come next.
    pub(crate) fn expect_kind(&mut self, kind: TokenKind, what: &str) -> Parsed<Token> {
        if self.token.kind == kind { Ok(self.advance()) } else { Err(self.missing(what)) }
    }

    /// Goes past a word that is one of an enum's.
    pub(crate) fn expect_one<T: Copy>(
        &mut self,
        what: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Parsed<T> {
        let found = self.word().and_then(|text| all.iter().copied().find(|value| word(*value) == text));
        if let Some(value) = found {
            self.advance();
            return Ok(value);
        }
        let words: Vec<String> = all.iter().map(|value| format!("`{}`", word(*value))).collect();
        Err(self.missing(&format!("{what}: {}", words.join(", "))))
    }

    /// Returns the place from a byte to the end of the last token.
    pub(crate) fn since(&self, start: u32) -> TextPlace {
        TextPlace { start, end: self.last.max(start) }
    }

    /// Reports an error. If there are too many, the last one that is kept says so.
    pub(crate) fn error(&mut self, error: Diagnostic) -> Reported {
        if self.done {
            return Reported;
        }
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        } else {
            let note = format!("only the first {MAX_ERRORS} errors are shown");
            self.errors[MAX_ERRORS - 1].notes.push(note);
            self.stop();
        }
        Reported
    }

    /// Reports that the next token is not what it should be.
    pub(crate) fn wrong(&mut self, wanted: &str) -> Reported {
        self.error(self.expected(wanted))
    }

    /// Reports that the next token is not what should follow in the line. If the line has ended, the error points at
    /// its end.
    pub(crate) fn missing(&mut self, wanted: &str) -> Reported {
        if !self.token.fresh || self.token.kind == TokenKind::End {
            return self.wrong(wanted);
        }
        let end = TextPlace { start: self.last, end: self.last };
        self.error(expected(wanted, "the end of the line", end))
    }

    /// Returns the error that the next token is not what it should be.
    pub(crate) fn expected(&self, wanted: &str) -> Diagnostic {
        let found = match self.token.kind {
            TokenKind::End => "the end of the text".into(),
            _ => quote(self.slice(self.token)),
        };
        expected(wanted, &found, self.token.place)
    }

    /// Reports that something is larger than it may be. Nothing after it is read.
    pub(crate) fn limit(&mut self, place: TextPlace, message: String) -> Reported {
        self.error(Diagnostic::new("limit", place, message));
        self.stop();
        Reported
    }

    /// Returns the error that a name is not known, with a suggestion if there is one.
    pub(crate) fn unknown<'c>(
        &self,
        what: &str,
        token: Token,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Diagnostic {
        let spelt = self.slice(token);
        let (sigil, name) = spelt.split_at(usize::from(matches!(spelt.as_bytes(), [b'%' | b'@' | b'^', ..])));
        let near = if is_number(name) {
            None
        } else {
            near::nearest_name(name, candidates.into_iter().take(MAX_NEAR))
        };
        let mut error = Diagnostic::new("unknown", token.place, format!("unknown {what} {}", quote(spelt)));
        error.label = "not known here".into();
        error.notes.extend(near.map(|near| format!("did you mean `{sigil}{near}`?")));
        error
    }

    /// Reports a name that is taken.
    pub(crate) fn duplicate(&mut self, what: &str, token: Token, first: u32) -> Reported {
        let message = format!("{what} {} is defined twice", quote(self.slice(token)));
        let first = TextPlace { start: first, end: first + (token.place.end - token.place.start) };
        let error = Diagnostic::new("duplicate", token.place, message).label("defined again");
        self.error(error.also(first, "it is first defined here"))
    }

    /// Reports an error if a definition may not use a name.
    pub(crate) fn check_name(&mut self, token: Token, name: &str) -> Parsed<()> {
        if name.len() > MAX_NAME {
            let message = format!("the name has {} bytes, but at most {MAX_NAME} are allowed", name.len());
            return Err(self.error(Diagnostic::new("limit", token.place, message)));
        }
        if is_name(name) || (is_number(name) && token.kind != TokenKind::Word) {
            return Ok(());
        }
        let message = format!("{} is not a name", quote(self.slice(token)));
        let note =
            "a name consists of letters, digits, `_` and `.`, and does not begin with a digit or a dot";
        Err(self.error(Diagnostic::new("syntax", token.place, message).label("not a name").note(note)))
    }

    /// Whether the rest of the text was not read.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    fn stop(&mut self) {
        let end = self.text.len() as u32;
        self.token = Token { kind: TokenKind::End, place: TextPlace { start: end, end }, fresh: true };
        self.done = true;
    }
}

/// Returns the error that something is not what it should be. The label omits what follows a colon in `wanted`.
fn expected(wanted: &str, found: &str, place: TextPlace) -> Diagnostic {
    let short = wanted.split(": ").next().unwrap_or(wanted);
    let message = format!("expected {wanted}, found {found}");
    Diagnostic::new("syntax", place, message).label(format!("expected {short}"))
}

/// Returns a piece of the text in quotes, shortened to fit into a message.
fn quote(text: &str) -> String {
    const MOST: usize = 48;
    let end = text.floor_char_boundary(MOST);
    if end == text.len() { format!("`{text}`") } else { format!("`{}…`", &text[..end]) }
}
