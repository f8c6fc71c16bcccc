//! What the next commit of git would add: the files of the index that differ from the last commit.

use std::collections::HashMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::CliError;
use crate::scan::added_lines::{AddedLines, BlobPair, read_diff};
use crate::scan::escape::shown_path;
use crate::scan::git::{git_command, git_output, no_git, path_from_git};
use crate::scan::inputs::{GatheredInputs, InputSource, ScanInput};

/// A file of the index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StagedBlob {
    /// The name of the object that holds the bytes.
    pub object: String,
    /// The lines that the last commit does not have.
    pub added: AddedLines,
    /// Whether the path is new.
    pub path: PathState,
}

/// Whether the last commit has a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathState {
    /// The last commit does not have it.
    New,
    /// The last commit has it.
    Known,
}

/// A changed file, as `git diff --raw` lists it.
#[derive(PartialEq, Eq, Debug)]
struct RawChange {
    blobs: BlobPair,
    path: PathBuf,
    state: PathState,
}

/// Finds what is staged below the paths, or everywhere in the repository if there are none.
pub(super) fn gather_staged(paths: &[PathBuf]) -> Result<GatheredInputs, CliError> {
    let here = Path::new("");
    let (prefix, top) = repository_place(here)?;
    let raw = git_output(&mut diff_command(here, paths, &["--raw", "-z", "--no-abbrev"]))?;
    let changes = parse_raw(&raw)
        .ok_or_else(|| CliError::Wrong("git printed a list of changes that is not understood".into()))?;
    let added = staged_lines(here, paths)?;
    let mut gathered = GatheredInputs::default();
    for path in paths {
        // A path that is staged for deletion is gone from the folder, but git knows it.
        let known =
            || git_output(git_command(here).args(["ls-files", "-z", "--with-tree=HEAD", "--"]).arg(path));
        if path.symlink_metadata().is_err() && known().is_ok_and(|files| files.is_empty()) {
            gathered.problems.push(format!("cannot find {}: git does not know this path", shown_path(path)));
        }
    }
    for RawChange { blobs, path, state } in changes {
        // The same change may have been made to several files.
        let lines = added.get(&blobs).cloned().unwrap_or_default();
        if lines == AddedLines::default() && state == PathState::Known {
            continue;
        }
        let shown = path.strip_prefix(&prefix).map_or_else(|_| top.join(&path), Path::to_path_buf);
        let blob = StagedBlob { object: blobs.after, added: lines, path: state };
        gathered.inputs.push(ScanInput { path: shown, source: InputSource::Staged(Box::new(blob)) });
    }
    gathered.inputs.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    gathered.folders.push(top);
    Ok(gathered)
}

/// Returns the path of a folder in its repository, and the way from the folder to the top of the repository.
fn repository_place(folder: &Path) -> Result<(PathBuf, PathBuf), CliError> {
    let mut command = git_command(folder);
    let printed = git_output(command.args(["rev-parse", "--show-prefix", "--show-cdup"]));
    let printed = printed.map_err(|error| CliError::Wrong(format!("cannot find what is staged: {error}")))?;
    let mut lines = printed.split(|byte| *byte == b'\n').map(path_from_git);
    Ok((lines.next().unwrap_or_default(), lines.next().unwrap_or_default()))
}

/// Returns the command that compares the index with the last commit, or with nothing if there is no commit. All that a
/// configuration could change about the output is set.
fn diff_command(folder: &Path, paths: &[PathBuf], options: &[&str]) -> Command {
    let mut command = git_command(folder);
    command.arg("--literal-pathspecs").args(["diff", "--cached", "--find-renames", "--diff-filter=ACMRT"]);
    command.args([
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "--ignore-submodules=all",
    ]);
    command.args(options).arg("--").args(paths);
    command
}

/// Returns the lines that are added, by the contents of files before and after.
fn staged_lines(folder: &Path, paths: &[PathBuf]) -> Result<HashMap<BlobPair, AddedLines>, CliError> {
    let options = ["--patch", "--full-index", "--unified=0", "--inter-hunk-context=0", "--text"];
    let mut command = diff_command(folder, paths, &options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(no_git)?;
    let output = child.stdout.take().expect("it was piped");
    let lines = read_diff(BufReader::with_capacity(1 << 16, output));
    let status = child.wait().map_err(no_git)?;
    match lines {
        Ok(lines) if status.success() => Ok(lines),
        Ok(_) => Err(CliError::Wrong(format!("git diff failed with {status}"))),
        Err(error) => Err(CliError::Wrong(format!("cannot read the output of git diff: {error}"))),
    }
}

/// Parses the output of `git diff --raw -z`, and keeps the regular files.
fn parse_raw(raw: &[u8]) -> Option<Vec<RawChange>> {
    let mut changes = Vec::new();
    let mut fields = raw.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    while let Some(head) = fields.next() {
        let head = std::str::from_utf8(head).ok()?.strip_prefix(':')?;
        let mut words = head.split(' ');
        let (_, mode) = (words.next()?, words.next()?);
        let blobs = BlobPair { before: words.next()?.into(), after: words.next()?.into() };
        let status = words.next()?;
        let mut path = fields.next()?;
        let moved = status.starts_with(['R', 'C']);
        if moved {
            path = fields.next()?;
        }
        let state = if moved || status.starts_with('A') { PathState::New } else { PathState::Known };
        if mode.starts_with("100") {
            changes.push(RawChange { blobs, path: path_from_git(path), state });
        }
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_changes_is_read_whatever_the_names_are() {
        let raw = b":100644 100755 1111 2222 M\0odd\nname\0:000000 100644 0000 3333 A\0:colon\0\
            :100644 100644 4444 5555 R086\0from\0to\0:000000 160000 0000 6666 A\0module\0\
            :000000 120000 0000 7777 A\0link\0";
        let changes = parse_raw(raw).expect("it is a list");
        let seen: Vec<_> = changes
            .iter()
            .map(|change| (change.path.to_str().expect("it is UTF-8"), &*change.blobs.after, change.state))
            .collect();
        assert_eq!(
            seen,
            [
                ("odd\nname", "2222", PathState::Known),
                (":colon", "3333", PathState::New),
                ("to", "5555", PathState::New)
            ]
        );
        assert_eq!(parse_raw(b""), Some(Vec::new()));
        assert_eq!(parse_raw(b"nonsense"), None);
    }
}
