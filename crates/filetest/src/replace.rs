//! Rewriting a file so that others see the old text or the new, never half of it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file's text: writes beside it and renames. A link is followed, and permissions are kept.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = write(&beside, text, &path).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The error that is reported is the one that led here; a file that was never made cannot be removed.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write(beside: &Path, text: &str, model: &Path) -> io::Result<()> {
    let permissions = fs::metadata(model)?.permissions();
    let mut file = fs::File::create(beside)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()
}
