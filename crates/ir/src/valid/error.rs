//! What the validator says: errors with the rule, the place and the reason.

use std::fmt;

use super::Rule;
use crate::arena::{Buffer, Func};
use crate::module::{Module, Site};

/// How many errors are kept; the rest is counted.
const MOST: usize = 50;

/// A module that broke rules, and which.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// The module, as it was given.
    pub module: Module,
    /// What is wrong with it, in the order of the text; at least one.
    pub errors: Vec<ValidationError>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.errors.len().saturating_sub(1) + self.more;
        match self.errors.first() {
            Some(first) => write!(f, "invalid module: {first}")?,
            None => f.write_str("invalid module")?,
        }
        if more > 0 { write!(f, " (and {more} more)") } else { Ok(()) }
    }
}

impl std::error::Error for Invalid {}

/// One broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidationError {
    /// The rule.
    pub rule: Rule,
    /// What is wrong and, where that is known, what to write instead.
    pub message: String,
    /// Where.
    pub site: ErrorSite,
    /// What led to it, nearest first.
    pub notes: Vec<ErrorNote>,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Another place that has to do with an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorNote {
    /// What there is to say about it.
    pub message: String,
    /// Where.
    pub site: ErrorSite,
}

/// A part of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorSite {
    /// The whole.
    Module,
    /// A buffer's declaration.
    Buffer(Buffer),
    /// A function's head.
    Function(Func),
    /// An instruction.
    Inst(Site),
}

/// Why something is refused.
pub(super) struct Fail {
    pub rule: Rule,
    pub message: String,
}

/// A check that may refuse.
pub(super) type CheckResult = Result<(), Fail>;

/// Refuses.
pub(super) fn fail<T>(rule: Rule, message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail { rule, message: message.into() })
}

/// The errors so far.
#[derive(Default)]
pub(super) struct Errors {
    list: Vec<ValidationError>,
    more: usize,
}

impl Errors {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the next one would only be counted.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MOST
    }

    pub(crate) fn push(&mut self, error: ValidationError) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.list.push(error);
        }
    }

    /// Keeps why a check refused.
    pub(crate) fn record(&mut self, site: ErrorSite, check: CheckResult) {
        if let Err(Fail { rule, message }) = check {
            self.push(ValidationError { rule, message, site, notes: Vec::new() });
        }
    }

    /// The refusal of a module.
    pub(crate) fn into_invalid(self, module: Module) -> Invalid {
        Invalid { module, errors: self.list, more: self.more }
    }
}
