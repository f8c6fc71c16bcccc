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
    match error.kind() {
        io::ErrorKind::NotFound => {
            CliError::Wrong("git is not installed, or not on the path; --staged needs it".into())
        }
        _ => CliError::Wrong(format!("cannot start git: {error}")),
    }
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
/// where there is no git or no repository.
pub(super) fn for_each_tracked(folder: &Path, mut visit: impl FnMut(PathBuf)) {
    let mut command = git_command(folder);
    // In a hook these name the repository of the commit, which need not be that of the folder.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(variable);
    }
    command.args(["ls-files", "-z", "--stage"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return };
    let entries = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(0));
    for entry in entries.map_while(Result::ok) {
        if let Some(path) = regular_file(&entry) {
            visit(path_from_git(path));
        }
    }
    let _ = child.wait();
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
