//! Matchers: the expression of a rule, compiled when it is first needed.

use std::sync::OnceLock;

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::expression::Expression;

/// The limit on the compiled size of an expression, which is the one of the `regex` crate.
const SIZE_MAX: usize = 10 << 20;

/// The number of bytes beyond a searched range that look-arounds may look at. A character has at most four bytes.
pub const MARGIN: usize = 4;

/// An expression that can be searched for in any range of a text, with look-arounds that see what is outside of it.
#[derive(Debug)]
pub struct Matcher {
    expression: Expression,
    max_len: Option<u64>,
    compiled: OnceLock<meta::Regex>,
}

impl Matcher {
    /// Makes a matcher that is compiled when it is first used. `max_len` is the length of the longest match, or `None`
    /// if matches can be arbitrarily long. The caller knows that the expression can be compiled, for example from a cache.
    pub fn new(expression: Expression, max_len: Option<u64>) -> Matcher {
        Matcher { expression, max_len, compiled: OnceLock::new() }
    }

    /// Makes a matcher and compiles it, which fails if the expression is too large.
    pub fn compile(expression: Expression) -> Result<Matcher, String> {
        let compiled = build(&expression)?;
        let max_len = expression.hir().properties().maximum_len().map(|len| len as u64);
        Ok(Matcher { expression, max_len, compiled: OnceLock::from(compiled) })
    }

    /// Returns the expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Returns the length of the longest match, or `None` if matches can be arbitrarily long.
    pub fn max_len(&self) -> Option<u64> {
        self.max_len
    }

    /// Returns the compiled expression.
    pub fn regex(&self) -> &meta::Regex {
        self.compiled.get_or_init(|| {
            build(&self.expression)
                .unwrap_or_else(|error| panic!("{} no longer compiles: {error}", self.expression.text()))
        })
    }

    /// Returns the first match that begins at or after `from` and ends at or before `to`.
    pub fn find(&self, text: &[u8], from: usize, to: usize) -> Option<(usize, usize)> {
        let found = self.regex().search(&Input::new(text).range(from..to))?;
        Some((found.start(), found.end()))
    }

    /// Returns the groups of the match that begins at `from`, searching to `to` as the search that found it did.
    pub fn groups(&self, text: &[u8], from: usize, to: usize) -> Vec<Option<(usize, usize)>> {
        let regex = self.regex();
        let mut captures = regex.create_captures();
        regex.search_captures(&Input::new(text).range(from..to).anchored(Anchored::Yes), &mut captures);
        captures.iter().map(|group| group.map(|span| (span.start, span.end))).collect()
    }
}

/// Compiles an expression as the `regex` crate does for bytes.
fn build(expression: &Expression) -> Result<meta::Regex, String> {
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(SIZE_MAX));
    let syntax = syntax::Config::new().unicode(expression.unicode()).utf8(false);
    meta::Builder::new().configure(config).syntax(syntax).build(expression.text()).map_err(
        |error| match error.size_limit() {
            Some(limit) => format!("the compiled expression would be larger than {} MiB", limit >> 20),
            None => error.to_string(),
        },
    )
}
