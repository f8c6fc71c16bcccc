//! Replaces a file so that readers see either the old text or the new one.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file's text by writing a new file beside it and renaming that. A link is followed, and permissions
/// are kept.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = write_beside(&beside, text, &path).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The first error is the one to report, and a file that was never created cannot be removed.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_beside(beside: &Path, text: &str, model: &Path) -> io::Result<()> {
    let permissions = fs::metadata(model)?.permissions();
    let mut file = fs::File::create(beside)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()
}
