//! The inputs of a scan: which files, pipes and blobs there are to be scanned, in the order of the output.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::scan::args::FileArgs;
use crate::scan::escape::shown_path;
use crate::scan::staged::StagedBlob;
use crate::scan::walk::walk_folder;
use crate::source::is_stdin;

/// The name that standard input has in the output.
pub(super) const STDIN_NAME: &str = "<stdin>";

/// Something to scan.
#[derive(Debug)]
pub(super) struct ScanInput {
    /// The path, as it is shown to users.
    pub path: PathBuf,
    /// Where its bytes come from.
    pub source: InputSource,
}

/// Where the bytes of an input come from.
#[derive(Debug)]
pub(super) enum InputSource {
    /// A file that was found in a folder. It is skipped if it is binary or too large.
    Found,
    /// A file that was named on the command line. It is always scanned.
    Named,
    /// A pipe or a device that was named on the command line.
    Pipe,
    /// Standard input.
    Stdin,
    /// A file of the index of git.
    Staged(Box<StagedBlob>),
}

/// What there is to be scanned.
#[derive(Default)]
pub(super) struct GatheredInputs {
    /// The inputs, sorted by path.
    pub inputs: Vec<ScanInput>,
    /// What cannot be read, as messages.
    pub problems: Vec<String>,
    /// The folders that were named, as users see them.
    pub folders: Vec<PathBuf>,
}

/// Finds all inputs that the options name.
pub(super) fn gather_inputs(args: &FileArgs, threads: usize) -> GatheredInputs {
    let mut gathered = GatheredInputs::default();
    let here = [PathBuf::from(".")];
    let named = if args.paths.is_empty() { &here[..] } else { &args.paths };
    let mut seen = SeenFiles::new(named.len());
    let mut folders = Vec::new();
    for path in named {
        let shown = plain_path(path);
        if is_stdin(path) {
            if seen.is_new(|| PathBuf::from(STDIN_NAME)) {
                gathered.inputs.push(ScanInput { path: STDIN_NAME.into(), source: InputSource::Stdin });
            }
            continue;
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => folders.push(shown),
            Ok(meta) => {
                if seen.is_new(|| real_path(path)) {
                    let source = if meta.is_file() { InputSource::Named } else { InputSource::Pipe };
                    gathered.inputs.push(ScanInput { path: shown, source });
                }
            }
            Err(error) => gathered.problems.push(format!("cannot read {}: {error}", shown_path(path))),
        }
    }
    // Files come before folders, so that a file that was named counts as named even if it lies in one of the folders.
    for folder in folders {
        let real = real_path(&folder);
        let walked = walk_folder(&folder, args.no_ignore, threads);
        gathered.problems.extend(walked.problems);
        for path in walked.files {
            let real_file = || real.join(path.strip_prefix(&folder).unwrap_or(&path));
            if seen.is_new(real_file) {
                gathered.inputs.push(ScanInput { path, source: InputSource::Found });
            }
        }
        gathered.folders.push(folder);
    }
    gathered.inputs.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    gathered
}

/// The files that were found so far. Only where several paths are named can a file be reached twice.
enum SeenFiles {
    Single,
    Several(HashSet<PathBuf>),
}

impl SeenFiles {
    fn new(named: usize) -> SeenFiles {
        if named < 2 { SeenFiles::Single } else { SeenFiles::Several(HashSet::new()) }
    }

    /// Returns whether a file, given by its real path, was not found before.
    fn is_new(&mut self, real: impl FnOnce() -> PathBuf) -> bool {
        match self {
            SeenFiles::Single => true,
            SeenFiles::Several(seen) => seen.insert(real()),
        }
    }
}

/// Returns the path without symbolic links, or as it is if it cannot be resolved.
fn real_path(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Returns a path without `.` in it. The current folder is empty.
pub(super) fn plain_path(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_without_dots() {
        for (given, plain) in
            [(".", ""), ("./a", "a"), ("a/./b/", "a/b"), ("/a//b", "/a/b"), ("../a", "../a")]
        {
            assert_eq!(plain_path(Path::new(given)), Path::new(plain), "{given}");
        }
    }
}
