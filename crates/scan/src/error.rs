//! What can go wrong in a scan.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// Why rules could not be used or an input could not be scanned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A file could not be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The tables of the rules could not be built or read.
    #[error("{0}")]
    Catalog(#[from] crate::catalog::CatalogError),
    /// A file of rules could not be read.
    #[error("cannot read the rules in {}: {source}", path.display())]
    RuleFileUnreadable {
        /// The file.
        path: PathBuf,
        /// Why it could not be read.
        source: std::io::Error,
    },
    /// A file of rules cannot be used as a whole. A mistake in a single rule does not lead to this error: the rule is
    /// put into [`RuleSet::rejected`](crate::RuleSet::rejected), and the others are used.
    #[error("{}", mistake_lines(path, mistakes))]
    RuleFileWrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, at least one mistake, in the order of the text.
        mistakes: Vec<RuleMistake>,
    },
    /// An automaton has no such state.
    #[error("{0}")]
    Transition(#[from] crate::composed::TransitionError),
    /// An engine failed, for example because its device has too little memory.
    #[error("{0}")]
    Engine(String),
}

/// Makes an error from an error of a session.
#[cfg(feature = "session")]
pub(crate) fn session_failed(error: impl Display) -> ScanError {
    ScanError::Engine(format!("the device session failed: {error}"))
}

/// A mistake in a file of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleMistake {
    /// The line, from 1; `None` if the mistake concerns the whole file.
    pub line: Option<u32>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// Writes each mistake as `file:line: message`, one per line.
fn mistake_lines(path: &std::path::Path, mistakes: &[RuleMistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{}{mistake}", path.display())).collect();
    lines.join("\n")
}

impl Display for RuleMistake {
    /// Writes `:line: message`, which is meant to follow the name of a file.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, ":{line}: {}", self.message),
            None => write!(f, ": {}", self.message),
        }
    }
}
