//! `--watch`: hands a session over whenever the files of its spec were saved.
//!
//! The files are looked at from time to time, rather than through what each system has to report changes. That works on
//! every file system, sees a file that an editor has put in the place of another one as well as one that was written
//! to, and needs nothing else.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use pelton::kernel::{SpecFiles, TextError};
use pelton::{Session, Spec};

use super::refuse_parking;
use crate::error::CliError;
use crate::kernel::show_refusal;
use crate::term::Term;

/// The time between two looks at the files.
const LOOK: Duration = Duration::from_millis(150);

/// How long a hand-over waits for tasks that have begun with handlers that are replaced.
const PATIENCE: Duration = Duration::from_millis(500);

/// What tells one version of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Another file in the same place has another number.
    inode: u64,
}

impl FileStamp {
    /// The stamp of a file, or `None` if there is none.
    fn of(path: &Path) -> Option<FileStamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(FileStamp { bytes: meta.len(), modified: meta.modified().ok(), inode: inode(&meta) })
    }
}

#[cfg(unix)]
fn inode(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// The files of a spec, and the versions of them that were read.
pub(super) struct WatchedSpec {
    files: SpecFiles,
    /// The stamps of the files before they were last read.
    read: Vec<Option<FileStamp>>,
    /// The stamps at the last look.
    seen: Vec<Option<FileStamp>>,
}

impl WatchedSpec {
    /// Begins to watch the file of a spec, which must be one that can be read again.
    pub(super) fn new(path: &Path) -> Result<Self, CliError> {
        match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => Err(CliError::Wrong(format!(
                "--watch needs a file that can be read again, and {} is not one",
                path.display()
            ))),
            _ => Ok(WatchedSpec { files: SpecFiles::new(path), read: Vec::new(), seen: Vec::new() }),
        }
    }

    /// Reads the spec. Handlers keep the opcodes that they have in `before`.
    pub(super) fn read(&mut self, before: &Spec) -> Result<Spec, TextError> {
        loop {
            // A file is stamped before it is read, so a change in between is noticed later. Which files there are is
            // known once they were read, so they are read again if these are not the files that were stamped.
            let paths = self.files.paths().to_vec();
            self.read = stamp_all(&paths);
            let spec = self.files.read(before);
            if self.files.paths() == paths {
                return spec;
            }
        }
    }

    /// Whether the files were saved after they were last read. A file that has changed since the last look may still be
    /// being written, and so may an empty one.
    fn were_saved(&mut self) -> bool {
        let now = stamp_all(self.files.paths());
        let stable = now == self.seen && now[0].is_none_or(|stamp| stamp.bytes > 0);
        self.seen = now;
        stable && self.seen != self.read
    }
}

fn stamp_all(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    paths.iter().map(|path| FileStamp::of(path)).collect()
}

/// Watches a spec for a session.
pub(super) struct SpecWatch<'a> {
    pub path: &'a Path,
    pub spec: WatchedSpec,
    pub session: &'a Session,
    pub term: &'a Term,
}

impl SpecWatch<'_> {
    /// Watches the spec on another thread while `work` is done on this one.
    pub(super) fn watch_during<T>(mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        std::thread::scope(|scope| {
            let (working, done) = channel();
            let watch = move || self.watch_until(&done);
            std::thread::Builder::new().name("pelton-watch".into()).spawn_scoped(scope, watch)?;
            let result = work();
            // This ends the other thread, and so does a panic.
            drop(working);
            Ok(result)
        })
    }

    fn watch_until(&mut self, done: &Receiver<()>) {
        while done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if self.spec.were_saved() {
                let before = self.session.spec();
                match self.hand_over(&before) {
                    Ok(changes) => self.term.note(format_args!("{}: {changes}", self.path.display())),
                    Err(error) => self.report(&error),
                }
            }
        }
    }

    /// Reads the spec, and hands the session over if anything differs. Returns what was done.
    fn hand_over(&mut self, before: &Spec) -> Result<String, CliError> {
        let next = self.spec.read(before).map_err(|error| show_refusal(&error, self.term))?;
        if next == *before {
            return Ok("saved without a change".into());
        }
        refuse_parking(&next)?;
        let began = Instant::now();
        self.session.hand_over(&next, PATIENCE)?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        let changes = describe_changes(before, &self.session.spec());
        Ok(format!("{changes}; compiled and handed over in {took:.1} ms"))
    }

    /// Says why the session was not handed over.
    fn report(&self, error: &CliError) {
        let path = self.path.display();
        let goes_on = "the session goes on with the handlers that it has";
        let (report, why) = match error {
            CliError::Report(report) => (report.trim_end(), "there are mistakes".into()),
            error => ("", error.to_string()),
        };
        let line = match self.session.session_end() {
            None => format!("{path} was not handed over, and {goes_on}: {why}"),
            Some(_) => format!("{path} was not handed over: {why}"),
        };
        let line = self.term.error_line(line);
        self.term.notes(&if report.is_empty() { format!("{line}\n") } else { format!("{report}\n{line}\n") });
    }
}

/// Describes how the handlers of two specs differ, and what else does.
fn describe_changes(before: &Spec, now: &Spec) -> String {
    let find = |spec: &Spec, name: &str| spec.handlers.iter().position(|handler| handler.name == name);
    let (mut installed, mut replaced) = (Vec::new(), Vec::new());
    for handler in &now.handlers {
        match find(before, &handler.name).map(|at| &before.handlers[at]) {
            None => installed.push(handler.name.as_str()),
            Some(old) if old != handler => replaced.push(handler.name.as_str()),
            Some(_) => {}
        }
    }
    let removed = before.handlers.iter().filter(|old| find(now, &old.name).is_none());
    let removed = removed.map(|old| old.name.as_str()).collect();
    let others = [
        ("libraries", before.libraries != now.libraries),
        ("fuel", before.fuel != now.fuel),
        ("share", before.share != now.share),
        ("groups", before.geometry.groups != now.geometry.groups),
    ];
    let others = others.iter().filter(|(_, differs)| *differs).map(|(what, _)| *what).collect();
    let parts = [("installed", installed), ("replaced", replaced), ("removed", removed), ("changed", others)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(verb, names)| format!("{verb} {}", names.join(", "))).collect();
    if parts.is_empty() { "the same handlers as before".into() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: &str = "[[handler]]\nname = \"one\"\nfile = \"one.pel\"\n";

    /// Looks as often as it takes to see that nothing changes any more, and returns whether files were saved.
    fn saved(spec: &mut WatchedSpec) -> bool {
        spec.were_saved();
        spec.were_saved()
    }

    #[test]
    fn a_file_is_read_once_it_rests() {
        let folder = std::env::temp_dir().join(format!("pelton-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("spec.toml", HANDLER);
        write("one.pel", "fn one() -> u32 { return 1 }");
        let mut spec = WatchedSpec::new(&folder.join("spec.toml")).unwrap();
        let first = spec.read(&Spec::default()).unwrap();
        assert!(!saved(&mut spec), "nothing was saved");

        // A file that the spec names, in another length.
        write("one.pel", "fn one() -> u32 { return 11 }");
        assert!(!spec.were_saved(), "it may still be being written");
        assert!(spec.were_saved() && spec.were_saved(), "it is to be read until it was");
        assert_ne!(spec.read(&first).unwrap(), first);
        assert!(!saved(&mut spec));

        // Another file in the place of the spec, of the same length and age.
        let age = std::fs::metadata(folder.join("spec.toml")).unwrap().modified().unwrap();
        write("other.toml", HANDLER);
        std::fs::File::options()
            .write(true)
            .open(folder.join("other.toml"))
            .unwrap()
            .set_modified(age)
            .unwrap();
        std::fs::rename(folder.join("other.toml"), folder.join("spec.toml")).unwrap();
        assert_eq!(saved(&mut spec), cfg!(unix));
        spec.read(&first).unwrap();

        // An empty spec is being written, and one that is not there is wrong.
        write("spec.toml", "");
        assert!(!saved(&mut spec));
        std::fs::remove_file(folder.join("spec.toml")).unwrap();
        assert!(saved(&mut spec));
        assert!(matches!(spec.read(&first), Err(TextError::Read { .. })));
        assert!(!saved(&mut spec), "a mistake is reported once");
        write("spec.toml", HANDLER);
        assert!(saved(&mut spec));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
