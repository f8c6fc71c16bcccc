//! The errors of the validator, each with the rule that is broken, the place and the reason.

use std::fmt;

use super::Rule;
use crate::arena::{Buffer, Func};
use crate::module::{Module, Site};

/// The most errors that are kept. Further errors are only counted.
const MOST: usize = 50;

/// A module that is not valid, and the errors that say why.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// The module as it was given.
    pub module: Module,
    /// The errors, in the order of the text. There is at least one.
    pub errors: Vec<ValidationError>,
    /// The number of further errors that are not in the list.
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

/// One place at which a module breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidationError {
    /// The rule that is broken.
    pub rule: Rule,
    /// What is wrong and, where that is known, what to write instead.
    pub message: String,
    /// The part of the module that breaks the rule.
    pub site: ErrorSite,
    /// What led to the error, starting with the nearest cause.
    pub notes: Vec<ErrorNote>,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Another place that has to do with an error, such as its cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorNote {
    /// What the place has to do with the error.
    pub message: String,
    /// The place.
    pub site: ErrorSite,
}

/// A part of a module that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorSite {
    /// The module as a whole.
    Module,
    /// The declaration of a buffer.
    Buffer(Buffer),
    /// The head of a function.
    Function(Func),
    /// An instruction.
    Inst(Site),
}

/// The rule that a check found broken, and the message about it.
pub(super) struct Fail {
    pub rule: Rule,
    pub message: String,
}

/// The outcome of a check.
pub(super) type CheckResult = Result<(), Fail>;

/// Returns the outcome of a check that found a rule broken.
pub(super) fn fail<T>(rule: Rule, message: impl Into<String>) -> Result<T, Fail> {
    Err(Fail { rule, message: message.into() })
}

/// The errors that have been found so far.
#[derive(Default)]
pub(super) struct Errors {
    list: Vec<ValidationError>,
    more: usize,
}

impl Errors {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether the next error would only be counted.
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

    /// Records an error if a check found a rule broken.
    pub(crate) fn record(&mut self, site: ErrorSite, check: CheckResult) {
        if let Err(Fail { rule, message }) = check {
            self.push(ValidationError { rule, message, site, notes: Vec::new() });
        }
    }

    /// Returns the error for a module with these errors.
    pub(crate) fn into_invalid(self, module: Module) -> Invalid {
        Invalid { module, errors: self.list, more: self.more }
    }
}
