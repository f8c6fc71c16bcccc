//! Matches, and findings: the matches that count.

use std::ops::Range;

/// A match of a rule: what the exact stage yields, before any filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Match {
    /// The rule, as an index of the scanner's rules.
    pub rule: u32,
    /// The position of the first byte of the match in the input.
    pub start: u64,
    /// The position after its last byte.
    pub end: u64,
}

/// A match that no filter dropped, with its line, its secret and the text around it.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The match: the rule, where it begins and where it ends.
    pub found: Match,
    /// The line in which it begins, from 1.
    pub line: u64,
    /// The column at which it begins in that line, in bytes, from 1.
    pub column: u64,
    /// The line in which it ends.
    pub end_line: u64,
    /// The bytes of the match, of which there are at most [`Finding::TEXT_MAX`]: only the first ones of a longer match.
    pub text: Vec<u8>,
    /// Which bytes of `text` are the secret.
    pub secret: Range<usize>,
    /// The entropy of the secret, in bits per byte.
    pub entropy: f64,
    /// The lines that the match lies in, without the line break at the end. Long lines are cut off: at most
    /// [`Finding::CONTEXT_MAX`] bytes before and after the match are kept.
    pub context: Vec<u8>,
    /// Where in `context` the match begins.
    pub context_start: usize,
}

impl Finding {
    /// The largest number of bytes of a match that a finding keeps.
    pub const TEXT_MAX: usize = 1 << 16;
    /// The largest number of bytes before and after a match that a finding keeps as context.
    pub const CONTEXT_MAX: usize = 1 << 12;
}
