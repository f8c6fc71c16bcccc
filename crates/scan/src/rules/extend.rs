//! Files that extend other files.

use std::path::{Path, PathBuf};

use crate::error::{RuleMistake, ScanError};
use crate::rules::draft::RuleDrafts;

/// The name by which a file extends the starter set.
pub(super) const STARTER_NAME: &str = "starter";

/// The files that are being read: each is extended by the one before it.
pub(super) struct ExtendChain<'c> {
    path: &'c Path,
    before: Option<&'c ExtendChain<'c>>,
}

impl<'c> ExtendChain<'c> {
    /// Begins with a file that no file extends.
    pub(super) fn new(path: &'c Path) -> ExtendChain<'c> {
        ExtendChain { path, before: None }
    }

    /// Reads a file that the last one extends, by what it says in `line`. Fails if the file is already being read,
    /// since then it extends itself.
    pub(super) fn read(&self, path: &Path, line: u32) -> Result<RuleDrafts, ScanError> {
        let same = |other: &Path| real_path(other) == real_path(path);
        let mut chain = Some(self);
        while let Some(link) = chain {
            if same(link.path) {
                let message = format!("{} extends itself here", path.display());
                let mistakes = vec![RuleMistake { line: Some(line), message }];
                return Err(ScanError::RuleFileWrong { path: self.path.to_path_buf(), mistakes });
            }
            chain = link.before;
        }
        crate::rules::read_drafts(&ExtendChain { path, before: Some(self) })
    }

    /// Returns the file that is being read.
    pub(super) fn path(&self) -> &'c Path {
        self.path
    }
}

/// Returns the path without links, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
