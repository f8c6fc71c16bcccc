//! Finds the files of a folder. Files that git ignores are left out, unless git tracks them.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};

use crate::scan::escape::{shown_path, shown_text};
use crate::scan::git::for_each_tracked;
use crate::stop;

/// What was found in a folder.
#[derive(Default)]
pub(super) struct WalkedFiles {
    /// The regular files, in no particular order. Their paths begin with that of the folder.
    pub files: Vec<PathBuf>,
    /// What cannot be read, as messages.
    pub problems: Vec<String>,
}

/// Finds the regular files below a folder; the empty path is the current folder. With `no_ignore`, files that git
/// ignores are found too. Symbolic links are not followed. Ctrl-C ends the search early.
pub(super) fn walk_folder(folder: &Path, no_ignore: bool, threads: usize) -> WalkedFiles {
    // With a slash at its end, a symbolic link to a folder is that folder.
    let root = if folder.as_os_str().is_empty() { PathBuf::from("./") } else { folder.join("") };
    let repositories = Arc::new(Mutex::new(vec![folder.to_path_buf()]));
    let mut builder = WalkBuilder::new(&root);
    builder.hidden(false).ignore(false).follow_links(false).skip_stdout(true).threads(threads.min(12));
    builder.parents(!no_ignore).git_ignore(!no_ignore).git_global(!no_ignore).git_exclude(!no_ignore);
    let met = Arc::clone(&repositories);
    builder.filter_entry(move |entry| enter(entry, &met));
    let walked = Mutex::new(WalkedFiles::default());
    builder.build_parallel().visit(&mut WalkCollectors { walked: &walked });
    let mut walked = walked.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !no_ignore && !stop::pressed() {
        let repositories = mem::take(&mut *repositories.lock().unwrap_or_else(PoisonError::into_inner));
        add_tracked(&mut walked, &repositories);
    }
    walked
}

/// Leaves out what git keeps in `.git`, and notes that the folder around it is a repository.
fn enter(entry: &DirEntry, repositories: &Mutex<Vec<PathBuf>>) -> bool {
    if entry.file_name() != ".git" {
        return true;
    }
    if let Some(parent) = entry.path().parent().filter(|_| entry.depth() > 1) {
        let mut repositories = repositories.lock().unwrap_or_else(PoisonError::into_inner);
        repositories.push(parent.strip_prefix("./").unwrap_or(parent).to_path_buf());
    }
    false
}

/// Adds the tracked files of repositories that the walk has left out.
fn add_tracked(walked: &mut WalkedFiles, repositories: &[PathBuf]) {
    walked.files.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    let mut left_out = Vec::new();
    for repository in repositories {
        let listed = for_each_tracked(repository, |file| {
            let path = repository.join(file);
            let found = walked.files.binary_search_by(|file| file.as_os_str().cmp(path.as_os_str()));
            if found.is_err() {
                left_out.push(path);
            }
        });
        if let Err(why) = listed {
            let folder = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
            walked.problems.push(format!(
                "cannot list the files that git tracks in {}, and some of them may be ignored and so not scanned; \
                 --no-ignore scans them: {}",
                shown_path(folder),
                shown_text(&why)
            ));
        }
    }
    // A file with conflicts has several entries.
    left_out.sort_unstable();
    left_out.dedup();
    // A tracked file may have been deleted, or something else may have taken its place.
    left_out.retain(|file| fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file()));
    walked.files.append(&mut left_out);
}

/// Makes one collector per thread of the walk.
struct WalkCollectors<'w> {
    walked: &'w Mutex<WalkedFiles>,
}

impl<'w> ParallelVisitorBuilder<'w> for WalkCollectors<'w> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 'w> {
        Box::new(WalkCollector { walked: self.walked, own: WalkedFiles::default() })
    }
}

/// Collects what one thread of the walk finds, and hands it over at the end.
struct WalkCollector<'w> {
    walked: &'w Mutex<WalkedFiles>,
    own: WalkedFiles,
}

impl ParallelVisitor for WalkCollector<'_> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                let path = entry.into_path();
                self.own.files.push(match path.strip_prefix("./") {
                    Ok(plain) => plain.to_path_buf(),
                    Err(_) => path,
                });
            }
            Ok(_) => {}
            Err(error) => self.own.problems.push(walk_problem(&error)),
        }
        if stop::pressed() { WalkState::Quit } else { WalkState::Continue }
    }
}

impl Drop for WalkCollector<'_> {
    fn drop(&mut self) {
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        walked.files.append(&mut self.own.files);
        walked.problems.append(&mut self.own.problems);
    }
}

/// Returns the message about something that the walk cannot read.
fn walk_problem(error: &ignore::Error) -> String {
    match error {
        ignore::Error::WithDepth { err, .. } => walk_problem(err),
        ignore::Error::WithPath { path, err } => {
            let why = err.io_error().map_or_else(|| err.to_string(), ToString::to_string);
            format!("cannot read {}: {}", shown_path(path), shown_text(&why))
        }
        error => shown_text(&error.to_string()),
    }
}
