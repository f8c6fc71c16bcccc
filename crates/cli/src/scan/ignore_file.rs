//! `.gitleaksignore`: places of findings that are not reported.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::scan::escape::shown_path;
use crate::scan::inputs::plain_path;

/// The name of the file.
pub(super) const IGNORE_FILE_NAME: &str = ".gitleaksignore";

/// Where a rule found something.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FindingPlace {
    /// The path, as it is shown to users.
    pub path: PathBuf,
    /// The name of the rule.
    pub rule: String,
    /// The line, from 1.
    pub line: u64,
}

/// The places that are not reported.
#[derive(Default, Debug)]
pub(super) struct IgnoredPlaces {
    places: HashSet<FindingPlace>,
}

impl IgnoredPlaces {
    /// Reads the file of a folder, if it has one. `root` is the folder as users see it, and empty for the current one.
    pub(super) fn read(&mut self, root: &Path) -> Result<(), CliError> {
        let file = root.join(IGNORE_FILE_NAME);
        // A pipe of this name would never end, and a folder is no list.
        if fs::metadata(&file).is_ok_and(|meta| !meta.is_file()) {
            return Ok(());
        }
        match fs::read(&file) {
            Ok(text) => self.add(root, &String::from_utf8_lossy(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CliError::Wrong(format!("cannot read {}: {error}", shown_path(&file))));
            }
        }
        Ok(())
    }

    /// Adds lines of the forms `path:rule:line` and `commit:path:rule:line`. Lines that have neither form are skipped,
    /// as gitleaks does.
    fn add(&mut self, root: &Path, text: &str) {
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut parts = line.rsplitn(3, ':');
            let (Some(number), Some(rule), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let Ok(line) = number.parse() else { continue };
            let path = Path::new(without_commit(path));
            // Paths in the file may be relative to its folder, or to where the scan was started.
            for path in [plain_path(&root.join(path)), plain_path(path)] {
                self.places.insert(FindingPlace { path, rule: rule.into(), line });
            }
        }
    }

    /// Returns whether a place is listed.
    pub(super) fn contains(&self, place: &FindingPlace) -> bool {
        self.places.contains(place)
    }
}

/// Returns a path without the commit that may stand before it.
fn without_commit(path: &str) -> &str {
    match path.split_once(':') {
        Some((commit, rest)) if commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            rest
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_places() {
        let mut ignored = IgnoredPlaces::default();
        let commit = "0123456789abcdef0123456789abcdef01234567";
        ignored.add(
            Path::new("sub"),
            &format!("# a comment\n\nsrc/a.rs:key:3\r\n{commit}:b:c.rs:two:4\nnonsense\n:x\na:b:c\n"),
        );
        let listed = |path: &str, rule: &str, line| {
            ignored.contains(&FindingPlace { path: path.into(), rule: rule.into(), line })
        };
        assert!(listed("sub/src/a.rs", "key", 3) && listed("src/a.rs", "key", 3));
        assert!(listed("sub/b:c.rs", "two", 4));
        assert!(!listed("sub/src/a.rs", "key", 4));
        assert!(!listed("sub/src/a.rs", "two", 3));
        assert_eq!(ignored.places.len(), 4);
    }
}
