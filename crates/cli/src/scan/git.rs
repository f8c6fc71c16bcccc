//! Runs git.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::CliError;

/// Returns a command that runs git in a folder. It never asks the user anything, and takes no optional locks.
pub(super) fn git_command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    if !folder.as_os_str().is_empty() {
        command.arg("-C").arg(folder);
    }
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    command
}

/// Runs git and returns what it printed.
pub(super) fn git_output(command: &mut Command) -> Result<Vec<u8>, CliError> {
    let output = command.output().map_err(no_git)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let first = message.lines().find(|line| !line.trim().is_empty()).unwrap_or("it printed no reason");
    Err(CliError::Wrong(format!("git failed: {first}")))
}

/// The error about a git that cannot be started.
pub(super) fn no_git(error: io::Error) -> CliError {
    CliError::Wrong(format!("--staged needs git: {}", no_git_message(&error)))
}

/// Returns the path that bytes of git's output stand for.
#[cfg(unix)]
pub(super) fn path_from_git(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(bytes).into()
}

/// Returns the path that bytes of git's output stand for.
#[cfg(not(unix))]
pub(super) fn path_from_git(bytes: &[u8]) -> PathBuf {
    OsStr::new(&*String::from_utf8_lossy(bytes)).into()
}

/// Calls a function for each file below a folder that git tracks, with its path relative to the folder. There are none
/// where there is no repository.
///
/// # Errors
///
/// If the folder is in a repository and git cannot list its files: with what git says.
pub(super) fn for_each_tracked(folder: &Path, mut visit: impl FnMut(PathBuf)) -> Result<(), String> {
    let mut command = git_command(folder);
    // In a hook these name the repository of the commit, which need not be that of the folder.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(variable);
    }
    command.args(["ls-files", "-z", "--stage"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(_) if !is_in_repository(folder) => return Ok(()),
        Err(error) => return Err(no_git_message(&error)),
    };
    let entries = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(0));
    for entry in entries.map_while(Result::ok) {
        if let Some(path) = regular_file(&entry) {
            visit(path_from_git(path));
        }
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() || !is_in_repository(folder) {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(message.lines().find(|line| !line.trim().is_empty()).unwrap_or("git printed no reason").into())
}

/// Returns whether a folder, or one above it, has a `.git`.
fn is_in_repository(folder: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = folder.canonicalize().unwrap_or_else(|_| folder.into());
    real.ancestors().any(|folder| folder.join(".git").exists())
}

/// Says that git cannot be started.
fn no_git_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "git is not installed, or not on the path".into(),
        _ => format!("cannot start git: {error}"),
    }
}

/// Returns the path of an entry `mode object stage<tab>path`, if it is a regular file.
fn regular_file(entry: &[u8]) -> Option<&[u8]> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    entry.starts_with(b"100").then(|| &entry[tab + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_taken() {
        assert_eq!(regular_file(b"100644 0123 0\ta\tb"), Some(&b"a\tb"[..]));
        assert_eq!(regular_file(b"120000 0123 0\tlink"), None);
        assert_eq!(regular_file(b"160000 0123 0\tmodule"), None);
        assert_eq!(regular_file(b""), None);
    }
}
