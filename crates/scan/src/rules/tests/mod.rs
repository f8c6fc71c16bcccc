//! Tests of the readers of rules.

mod errors;
mod gitleaks;
mod pelton;
mod plain;
mod starter;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::filter::{DropReason, FilterView, Filters};

/// A folder for the files of one test, which is removed at its end.
struct TestFolder {
    path: PathBuf,
}

impl TestFolder {
    fn new() -> TestFolder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pelton-rules-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TestFolder { path }
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // Whatever is left is in the folder for temporary files, so a failure does no harm.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Reads a text as a file of this name.
fn read(name: &str, text: &str) -> Result<RuleSet, ScanError> {
    let folder = TestFolder::new();
    read_file(&folder.write(name, text))
}

/// Returns the rule of a name.
fn rule<'s>(set: &'s RuleSet, id: &str) -> &'s Rule {
    set.rules.iter().find(|rule| rule.id == id).unwrap_or_else(|| panic!("there is no rule {id}"))
}

/// Returns the text of the expression of a rule.
fn expression<'s>(set: &'s RuleSet, id: &str) -> &'s str {
    rule(set, id).expression.as_ref().unwrap().text()
}

fn ids(set: &RuleSet) -> Vec<&str> {
    set.rules.iter().map(|rule| rule.id.as_str()).collect()
}

/// Returns name, line and reason of what was rejected.
fn rejected(set: &RuleSet) -> Vec<(&str, u32, &str)> {
    let one = |rejected: &'_ crate::rule::RejectedRule| rejected.origin.line.unwrap();
    set.rejected.iter().map(|rule| (rule.id.as_str(), one(rule), rule.reason.as_str())).collect()
}

/// Returns why the filters drop a match of a rule that is the secret itself.
fn drop_reason(set: &RuleSet, id: &str, path: &str, secret: &str, line: &str) -> Option<DropReason> {
    let index = set.rules.iter().position(|rule| rule.id == id).unwrap();
    let view = FilterView {
        path: Path::new(path),
        matched: secret.as_bytes(),
        secret: secret.as_bytes(),
        lines: line.as_bytes(),
    };
    Filters::new(set).drop_reason(index, view)
}
