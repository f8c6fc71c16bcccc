//! All the tests of some files, by name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_ir::text;

use crate::command::Context;
use crate::device::{Cpu, Cuda};
use crate::diff::diff;
use crate::failure::Failure;
use crate::file::{File, FileError, Task};
use crate::target::{Reference, Target};
use crate::totals::Totals;

/// Folders within folders that are searched.
const MAX_DEPTH: usize = 32;

/// Files and the devices to test them on.
pub struct Suite {
    files: Vec<Entry>,
    targets: Vec<Arc<dyn Target>>,
}

/// A file with its name, or why it is none.
struct Entry {
    name: String,
    file: Result<Arc<File>, Arc<FileError>>,
}

/// What to do with an output that is not the expected one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bless {
    /// Fail the test.
    No,
    /// Write it into the file.
    Yes,
}

impl Bless {
    /// As the variable `BLESS` says: `1` accepts.
    pub fn from_env() -> Bless {
        if std::env::var_os("BLESS").is_some_and(|value| value == "1") { Bless::Yes } else { Bless::No }
    }
}

/// One test.
#[derive(Clone)]
pub struct Test {
    /// Its name: the file's, and the device's if it has one.
    pub name: String,
    /// The command it belongs to.
    pub command: &'static str,
    /// Why it cannot run here, if it cannot.
    pub absent: Option<String>,
    work: Result<Work, Arc<FileError>>,
}

#[derive(Clone)]
struct Work {
    file: Arc<File>,
    task: Task,
    target: Arc<dyn Target>,
}

/// Every device that tests are named after, whether it is there or not.
pub fn targets() -> Vec<Arc<dyn Target>> {
    vec![Arc::new(Reference), Arc::new(Cpu), Arc::new(Cuda)]
}

impl Suite {
    /// The filetests at these paths: files, or folders with all `.pel` files in them. A file that cannot be read is a
    /// test that fails; a path that does not exist is an error.
    pub fn load(paths: &[PathBuf], targets: Vec<Arc<dyn Target>>) -> Result<Suite, FileError> {
        let mut files = Vec::new();
        for path in paths {
            let fail = |source| FileError::Read { path: path.clone(), source };
            if fs::metadata(path).map_err(fail)?.is_dir() {
                let before = files.len();
                walk(path, path, MAX_DEPTH, &mut files).map_err(fail)?;
                if files.len() == before {
                    return Err(fail(io::Error::new(io::ErrorKind::NotFound, "no .pel files in it")));
                }
            } else {
                files.push(Entry::load(path, path.display().to_string()));
            }
        }
        Ok(Suite { files, targets })
    }

    /// Its tests, in the order of the files.
    pub fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for Entry { name, file } in &self.files {
            match file {
                Ok(file) => {
                    for task in &file.tests {
                        self.expand(file, task, &mut tests);
                    }
                }
                Err(error) => {
                    let (name, work) = (name.clone(), Err(error.clone()));
                    tests.push(Test { name, command: "read", absent: None, work });
                }
            }
        }
        tests
    }

    /// The tests of one `test` line.
    fn expand(&self, file: &Arc<File>, task: &Task, tests: &mut Vec<Test>) {
        let command = task.command.name();
        let work = |target: &Arc<dyn Target>| {
            Ok(Work { file: file.clone(), task: task.clone(), target: target.clone() })
        };
        if task.command.devices() {
            let needs = text::parse(&file.source).map(|module| module.needs).unwrap_or_default();
            for target in &self.targets {
                let name = format!("{}@{}", file.name, target.name());
                let absent =
                    target.absent().or_else(|| target.lacks(&needs)).or_else(|| unsuited(file, &**target));
                tests.push(Test { name, command, absent, work: work(target) });
            }
        } else {
            let target: Arc<dyn Target> = Arc::new(Reference);
            tests.push(Test { name: file.name.clone(), command, absent: None, work: work(&target) });
        }
    }

    /// What there is and what it covers. Nothing is run for it.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { files: self.files.len(), tests: self.tests().len(), ..Totals::default() };
        for file in self.files.iter().filter_map(|entry| entry.file.as_ref().ok()) {
            for task in &file.tests {
                let coverage = task.command.coverage(file);
                totals.coverage.rules.extend(coverage.rules);
                totals.coverage.ops.extend(coverage.ops);
            }
        }
        totals
    }
}

impl Entry {
    fn load(path: &Path, name: String) -> Entry {
        let file = File::load(path, name.clone()).map(Arc::new).map_err(Arc::new);
        Entry { name, file }
    }
}

/// Why no line of a file can run on a device, if none can.
fn unsuited(file: &File, target: &dyn Target) -> Option<String> {
    let runs = file.runs.iter().map(|run| &run.setup);
    let mut setups = runs.chain(file.litmus.iter().map(|litmus| &litmus.setup)).peekable();
    setups.peek()?;
    let none = !setups.any(|setup| target.suits(setup.geometry));
    none.then(|| format!("no line has lanes as {} has them", target.name()))
}

/// Adds the `.pel` files below a folder in the order of their names. Links to folders are not followed.
fn walk(root: &Path, folder: &Path, depth: usize, files: &mut Vec<Entry>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() && depth > 0 {
            walk(root, &path, depth - 1, files)?;
        } else if path.extension().is_some_and(|extension| extension == "pel") && path.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
            files.push(Entry::load(&path, parts.join("/")));
        }
    }
    Ok(())
}

impl Test {
    /// Runs it.
    pub fn run(&self, bless: Bless) -> Result<(), Failure> {
        let Work { file, task, target } = match &self.work {
            Ok(work) => work,
            Err(error) => return Err(Failure::File(error.clone())),
        };
        let context = Context { file, args: &task.args, target: &**target };
        let Some(printed) = task.command.run(&context)? else {
            return Ok(());
        };
        let printed = trimmed(&printed);
        let expected = file.output.clone().unwrap_or_default();
        if printed == expected && file.output.is_some() {
            return Ok(());
        }
        match bless {
            Bless::Yes => file.bless(&printed).map_err(Failure::Bless),
            Bless::No => Err(Failure::Output(diff(&expected, &printed))),
        }
    }
}

/// Without white space at line ends, which a file could not keep.
fn trimmed(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}
