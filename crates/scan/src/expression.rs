//! Expressions: the text of a regular expression, and whether it is compiled with Unicode classes.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

/// A regular expression as the `regex` crate understands it.
///
/// It is compiled without Unicode classes, so that `\w` and `.` match bytes. Only if it is not valid in that mode, for
/// example because it contains `\p{L}`, is it compiled with them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Expression {
    text: String,
    unicode: bool,
}

/// Why a text is not a regular expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// What is wrong, in one line.
    pub message: String,
    /// The position in the text, in bytes, if one is known.
    pub at: Option<usize>,
}

impl Expression {
    /// Parses an expression. Comments of the form `(?#…)`, which the `regex` crate does not know, are removed first.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        let text = strip_comments(text);
        let Err(first) = parse_hir(&text, false) else { return Ok(Expression { text, unicode: false }) };
        match parse_hir(&text, true) {
            Ok(_) => Ok(Expression { text, unicode: true }),
            Err(_) => Err(first),
        }
    }

    /// Returns the text, without comments of the form `(?#…)`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the expression is compiled with Unicode classes.
    pub fn unicode(&self) -> bool {
        self.unicode
    }

    /// Returns the parsed form of the expression, from which factors are extracted.
    pub fn hir(&self) -> Hir {
        parse_hir(&self.text, self.unicode)
            .unwrap_or_else(|error| panic!("{} no longer parses: {error}", self.text))
    }
}

/// Parses a text in one of the two modes.
fn parse_hir(text: &str, unicode: bool) -> Result<Hir, ExpressionError> {
    ParserBuilder::new().unicode(unicode).utf8(false).build().parse(text).map_err(|error| {
        let (message, at) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span().start.offset)),
            regex_syntax::Error::Translate(error) => {
                (error.kind().to_string(), Some(error.span().start.offset))
            }
            other => (other.to_string(), None),
        };
        ExpressionError { message, at }
    })
}

/// Removes comments of the form `(?#…)`, but not what looks like one in a class or after a backslash.
fn strip_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut rest, mut class_depth, mut at_class_start) = (text, 0usize, false);
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let was_class_start = std::mem::take(&mut at_class_start);
        match c {
            '\\' => taken += rest[taken..].chars().next().map_or(0, char::len_utf8),
            '[' => (class_depth, at_class_start) = (class_depth + 1, true),
            // At the beginning of a class a closing bracket is an ordinary character.
            '^' if was_class_start => at_class_start = true,
            ']' if !was_class_start => class_depth = class_depth.saturating_sub(1),
            '(' if class_depth == 0 && rest.starts_with("(?#") => {
                if let Some(end) = rest.find(')') {
                    rest = &rest[end + 1..];
                    continue;
                }
            }
            _ => {}
        }
        kept.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_about_bytes_unless_they_need_unicode() {
        assert!(!Expression::parse(r"\w+").unwrap().unicode());
        assert!(Expression::parse(r"\p{Greek}").unwrap().unicode());
        assert!(!Expression::parse(r"\xff").unwrap().unicode());
    }

    #[test]
    fn comments_are_removed_where_they_are_comments() {
        assert_eq!(Expression::parse("a(?#one)b(?#)").unwrap().text(), "ab");
        for kept in [r"[(?#)]\(\?#x", "[](?#)x]+", "[^](?#)]", "[a[]b](?#)]"] {
            assert_eq!(Expression::parse(kept).unwrap().text(), kept);
        }
    }

    #[test]
    fn a_bad_expression_says_where() {
        let error = Expression::parse("ab(c").unwrap_err();
        assert_eq!((error.message.as_str(), error.at), ("unclosed group", Some(2)));
    }
}
