//! The lexer, which splits a text into tokens.
//!
//! Tokens are produced one at a time and refer to the text, so lexing takes no memory besides the text itself. The
//! lexer reports no errors: what cannot be a token is [`TokenKind::Bad`], and the parser reports what it expected
//! instead.

use crate::module::TextPlace;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// `add`, `kernel`, `u32`
    Word,
    /// `%x`, `%12`
    Value,
    /// `@data`
    Buffer,
    /// `^out`
    Label,
    /// `7`, `-0x1fi32`, `1.5e-3`, `-inf`, `nan:0x7fc00001`
    Number,
    /// `->`
    Arrow,
    /// One of `, : = ( ) [ ] { } ?`, and `;` where a buffer's type has it.
    Mark(u8),
    /// `; …` to the end of the line.
    Comment,
    /// A character that begins nothing.
    Bad,
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub place: TextPlace,
    /// Whether the token is the first of its line.
    pub fresh: bool,
}

/// A position in a text. A copy of the lexer can be used to look ahead.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// How many of the two tokens `[` and a word come directly before. After both, `;` is a mark and not a comment.
    typed: u8,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Lexer { text, at: 0, typed: 0 }
    }

    /// A lexer of one stretch of a text.
    pub(crate) fn within(text: &'t str, place: TextPlace) -> Self {
        Lexer { text: &text[..place.end as usize], at: place.start as usize, typed: 0 }
    }

    /// The next token that is not a comment.
    pub(crate) fn token(&mut self) -> Token {
        let mut fresh = false;
        loop {
            let token = self.next();
            fresh |= token.fresh;
            if token.kind != TokenKind::Comment {
                return Token { fresh, ..token };
            }
        }
    }

    /// The next token, comments included.
    pub(crate) fn next(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        let mut fresh = self.at == 0;
        if fresh && self.text.starts_with('\u{feff}') {
            // Some editors begin a text with a byte order mark, which says nothing in UTF-8.
            self.at = '\u{feff}'.len_utf8();
        }
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = bytes.get(self.at) {
            fresh |= *byte == b'\n';
            self.at += 1;
        }
        let start = self.at;
        let Some(first) = bytes.get(start) else {
            // Where the last line that says something ends: a better place to point at than what follows it.
            let end = self.text.trim_end().len() as u32;
            return Token { kind: TokenKind::End, place: TextPlace { start: end, end }, fresh: true };
        };
        let kind = self.kind(*first);
        self.typed = match (kind, self.typed) {
            (TokenKind::Mark(b'['), _) => 1,
            (TokenKind::Word, 1) => 2,
            _ => 0,
        };
        Token { kind, place: TextPlace { start: start as u32, end: self.at as u32 }, fresh }
    }

    /// Goes past the token that starts with a byte and says what it is.
    fn kind(&mut self, first: u8) -> TokenKind {
        let second = self.text.as_bytes().get(self.at + 1).copied().unwrap_or(0);
        match first {
            b'%' => self.sigil(TokenKind::Value),
            b'@' => self.sigil(TokenKind::Buffer),
            b'^' => self.sigil(TokenKind::Label),
            b'-' if second == b'>' => {
                self.at += 2;
                TokenKind::Arrow
            }
            b'0'..=b'9' => self.number(),
            b'-' if second.is_ascii_alphanumeric() => {
                self.at += 1;
                self.number()
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            b';' if self.typed < 2 => {
                let rest = &self.text.as_bytes()[self.at..];
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                TokenKind::Comment
            }
            b',' | b':' | b'=' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'?' | b';' => {
                self.at += 1;
                TokenKind::Mark(first)
            }
            _ => {
                self.at += self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                TokenKind::Bad
            }
        }
    }

    fn sigil(&mut self, kind: TokenKind) -> TokenKind {
        self.at += 1;
        self.letters();
        kind
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.letters();
        if &self.text[start..self.at] == "nan" && self.text[self.at..].starts_with(":0x") {
            self.at += 1;
            self.letters();
            return TokenKind::Number;
        }
        TokenKind::Word
    }

    /// Everything that hangs together with a digit, right or wrong; the parser tells which.
    fn number(&mut self) -> TokenKind {
        let bytes = self.text.as_bytes();
        let hex = self.text[self.at..].starts_with("0x");
        self.letters();
        let exponent = |at: usize| !hex && matches!(bytes[at - 1], b'e' | b'E');
        if matches!(bytes.get(self.at), Some(b'+' | b'-')) && exponent(self.at) {
            self.at += 1;
            self.letters();
        }
        TokenKind::Number
    }

    fn letters(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        self.at += rest.iter().position(|byte| !inside(byte)).unwrap_or(rest.len());
    }
}

/// Whether a text can be the name of something: letters, digits, `_` and `.`, the first no digit and no dot.
pub(crate) fn is_name(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

/// Whether a text is all digits: a number in the place of a name.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
